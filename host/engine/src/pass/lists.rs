//! The lists of a pass, whose memory the next pass uses again.
//!
//! Must never decide anything.

use fluxgate_formats::JobId;

use crate::order::Slot;

/// Most bytes of a list that are kept from pass to pass.
const KEPT_BYTES: usize = 16_384;

/// A staged start.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) slot: Slot,
    /// Expected end, in seconds since the epoch.
    pub(super) end: f64,
    /// RFC 27 `sched.selection_type`.
    pub(super) how: &'static str,
}

/// The lists; see the module.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(super) staged: Vec<Start>,
    /// Offered candidates, which are annotated with the reason why they wait.
    pub(super) offered: Vec<Slot>,
    /// Jobs that were not offered because they would delay a reservation; they are annotated.
    pub(super) passed_over: Vec<Slot>,
    /// Jobs that were reserved in this pass, with their starts.
    pub(super) reserved: Vec<(Slot, f64)>,
    /// Jobs that had a reservation or an estimate before this pass.
    pub(super) lost: Vec<Slot>,
    /// The memory of the next list of a queue's reservations.
    pub(super) spare: Vec<(JobId, Slot)>,
}

impl Clone for Lists {
    /// They are empty between two passes.
    fn clone(&self) -> Self {
        Lists::default()
    }
}

impl Lists {
    /// Removes their content.
    pub(super) fn clear(&mut self) {
        let Lists { staged, offered, passed_over, reserved, lost, spare } = self;
        clear(staged);
        clear(offered);
        clear(passed_over);
        clear(reserved);
        clear(lost);
        clear(spare);
    }
}

/// Removes the content of a list, and gives up its memory if that is large.
pub(super) fn clear<T>(list: &mut Vec<T>) {
    list.clear();
    if list.capacity() * size_of::<T>() > KEPT_BYTES {
        *list = Vec::new();
    }
}
