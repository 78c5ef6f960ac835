//! The interrupt of a pass: a flag that the driver raises. The pass counts its checks of the flag, so that a replay
//! can interrupt it at the same check.
//!
//! Must never know why a pass should end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The interrupt; see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    pub(crate) flag: Arc<AtomicBool>,
    /// Number of checks since [`Interrupt::begin`].
    asked: u64,
    /// The first check that saw the flag raised.
    pub(crate) seen: Option<u64>,
    /// From this check on the flag counts as raised.
    pub(crate) at: Option<u64>,
}

impl Interrupt {
    /// Called at the start of [`Engine::pass`](crate::Engine::pass).
    pub(crate) fn begin(&mut self) {
        (self.asked, self.seen) = (0, None);
    }

    /// Called at the end of [`Engine::pass`](crate::Engine::pass).
    pub(crate) fn end(&mut self) {
        self.at = None;
    }

    /// True if the pass should end; counts the check.
    pub(crate) fn raised(&mut self) -> bool {
        self.asked += 1;
        let raised = self.flag.load(Ordering::Relaxed) || self.at.is_some_and(|at| self.asked >= at);
        if raised {
            self.seen.get_or_insert(self.asked);
        }
        raised
    }
}
