//! The interrupt of a pass: a flag that the driver raises. The pass counts how often it looks at the flag, so that a
//! replay can interrupt it at the same look.
//!
//! Must never know why a pass should end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    pub(crate) flag: Arc<AtomicBool>,
    /// Number of looks since [`Interrupt::begin`].
    asked: u64,
    /// The look that first saw the flag.
    pub(crate) seen: Option<u64>,
    /// From this look on the flag counts as raised.
    pub(crate) at: Option<u64>,
}

impl Interrupt {
    /// [`Engine::pass`](crate::Engine::pass) begins.
    pub(crate) fn begin(&mut self) {
        (self.asked, self.seen) = (0, None);
    }

    /// [`Engine::pass`](crate::Engine::pass) ends.
    pub(crate) fn end(&mut self) {
        self.at = None;
    }

    /// Should the pass end?
    pub(crate) fn raised(&mut self) -> bool {
        self.asked += 1;
        let raised = self.flag.load(Ordering::Relaxed) || self.at.is_some_and(|at| self.asked >= at);
        if raised {
            self.seen.get_or_insert(self.asked);
        }
        raised
    }
}
