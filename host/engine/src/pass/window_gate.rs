//! The window gate: jobs that wait for a window which they cannot use are not searched for, and keep no other job waiting.
//!
//! Must never know the nodes of a window.

use fluxgate_graph::Access;

use super::{Pass, Refusal};
use crate::order::Slot;
use crate::windows::NOWHERE;

impl Pass {
    /// Is the window of the job, if it is bound to one, there, not over, and open to it? A refusal is stored, and is none that a
    /// strict order waits for: the window may never come.
    pub(super) fn has_window(&mut self, slot: Slot) -> Result<(), Refusal> {
        let job = self.core.job(slot).filter(|job| job.request.access() == Some(Access::Only(NOWHERE)));
        let Some(class) = job.map(|job| job.class) else { return Ok(()) };
        self.park(class);
        self.set_reason(slot, self.core.busy_reason(slot));
        Err(Refusal::Unsatisfiable)
    }
}
