//! What policies have learned, kept beside them: asked of those who decide, offered to those who come where nobody does.
//!
//! A swap hands a state over from one policy to the next by itself (`swap.rs`). This is for what lies between two lives of
//! a scheduler, and after a failure. Must never know where states are kept.

use crate::core::post::Post;
use crate::engine::Engine;
use crate::event::Action;
use crate::policy::SavedState;

impl Engine {
    /// Does anybody decide who has a state?
    pub fn learns(&self) -> bool {
        let own = self.own.values().filter_map(|own| own.live.as_ref());
        self.live.iter().chain(own).any(|seat| seat.policy.abilities().state)
    }

    /// The states of all policies that decide and have one: by queue, `None` for the default policy. What happened is
    /// handed over to them before. One that fails in this has failed, as it would in a swap; the actions are to be carried out like those of [`Engine::step`].
    pub fn states(&mut self, now: f64) -> (Vec<(Option<String>, SavedState)>, Vec<Action>) {
        let (mut states, mut out) = (Vec::new(), Vec::new());
        self.feed_all(now, &mut out);
        let own = self.own.keys().map(|queue| Post::Queue(*queue));
        for post in std::iter::once(Post::Default).chain(own).collect::<Vec<_>>() {
            let Some(state) = self.saved(post, &mut out).and_then(|policy| policy.state) else { continue };
            let queue = match post {
                Post::Default => None,
                Post::Queue(queue) => Some(self.core().queues[queue as usize].name.clone()),
            };
            states.push((queue, state));
        }
        (states, out)
    }

    /// What the next successor is offered, of [`Engine::swap`] or [`Engine::swap_queue`], if the built-in policy decides
    /// there, or the queue is to have a policy of its own from now on; whoever else is replaced has a state of its own to
    /// hand over. It may be refused: then the successor starts cold.
    pub fn offer(&mut self, state: SavedState) {
        self.offer = Some(state);
    }
}
