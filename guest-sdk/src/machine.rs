//! The state of the machine, at any time, also outside a pass.
//!
//! In a component the host answers. Natively there is a snapshot per thread, which the test bench or a native twin
//! keeps up to date with [`set_snapshot`].

use crate::job::Totals;

/// Totals over all resources of the scheduler.
pub fn totals() -> Totals {
    backend::totals()
}

/// Number of queues seen so far; indices are 0 to count-1.
pub fn queue_count() -> u32 {
    backend::queue_count()
}

/// Name of a queue, empty for the anonymous one or an unknown index.
pub fn queue_name(index: u32) -> String {
    backend::queue_name(index)
}

#[cfg(target_arch = "wasm32")]
mod backend {
    use crate::bindings::host_machine;
    pub(super) use crate::bindings::host_machine::{queue_count, queue_name};
    use crate::job::Totals;

    pub(super) fn totals() -> Totals {
        let t = host_machine::totals();
        Totals {
            nodes: t.nodes,
            cores: t.cores,
            gpus: t.gpus,
            free_nodes: t.free_nodes,
            free_cores: t.free_cores,
            free_gpus: t.free_gpus,
            running: t.running,
            pending: t.pending,
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub use backend::{Snapshot, set_snapshot};

#[cfg(not(target_arch = "wasm32"))]
mod backend {
    use crate::job::Totals;
    use std::cell::RefCell;
    use std::sync::Arc;

    /// Natively: the state that this thread's policies see.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Snapshot {
        /// The totals.
        pub totals: Totals,
        /// Queue names by index. Shared, because a host passes them again and again.
        pub queues: Arc<[String]>,
    }

    thread_local! {
        static SNAPSHOT: RefCell<Snapshot> = RefCell::new(Snapshot::default());
    }

    /// Natively: sets the state that this thread's policies see from now on.
    pub fn set_snapshot(snapshot: Snapshot) {
        SNAPSHOT.with(|slot| *slot.borrow_mut() = snapshot);
    }

    pub(super) fn totals() -> Totals {
        SNAPSHOT.with(|slot| slot.borrow().totals)
    }

    pub(super) fn queue_count() -> u32 {
        SNAPSHOT.with(|slot| u32::try_from(slot.borrow().queues.len()).unwrap_or(u32::MAX))
    }

    pub(super) fn queue_name(index: u32) -> String {
        SNAPSHOT.with(|slot| slot.borrow().queues.get(index as usize).cloned().unwrap_or_default())
    }
}
