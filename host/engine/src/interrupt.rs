//! Whoever wants a pass to end soon raises a flag; where the pass saw it is counted in questions, so that a replay
//! can cut it at the same place.
//!
//! Must never know why a pass should end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::Engine;

/// See the module text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    flag: Arc<AtomicBool>,
    /// How often passes looked since [`Interrupt::begin`].
    asked: u64,
    /// At which look the flag was first seen.
    seen: Option<u64>,
    /// From this look on it counts as raised.
    at: Option<u64>,
}

impl Interrupt {
    /// [`Engine::pass`] begins.
    pub(crate) fn begin(&mut self) {
        (self.asked, self.seen) = (0, None);
    }

    /// [`Engine::pass`] ends.
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

impl Engine {
    /// While this is raised, a pass offers no further candidates and takes no further decisions. What it decided
    /// so far is carried out, guarantees that it did not come to stay as they were, and another pass is due at
    /// once: it leaves out what the first found not to fit, so passes that are cut again and again still come
    /// forward, unless they are all cut at their beginning. When to raise and lower it is the driver's matter,
    /// who has a clock.
    pub fn set_interrupt(&mut self, interrupt: Arc<AtomicBool>) {
        self.core_mut().interrupt.flag = interrupt;
    }

    /// At which of its looks the last call of [`Engine::pass`] saw that it should end; `None` when it went to its end.
    /// With the same events before it, the same pass is made again by [`Engine::cut_at`].
    pub fn cut(&self) -> Option<u64> {
        self.core().interrupt.seen
    }

    /// Have the next call of [`Engine::pass`] cut at this look.
    pub fn cut_at(&mut self, look: Option<u64>) {
        self.core_mut().interrupt.at = look;
    }
}
