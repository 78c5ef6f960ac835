//! Failing closed: after a breach nothing starts until another policy decides.
//!
//! What runs, stays; what waits, waits, and can be asked why. This module must never know how a policy came to fail.

use std::sync::Arc;

use crate::core::Core;
use crate::core::post::{At, Post};
use crate::engine::Engine;
use crate::explain::Reason;

impl Core {
    fn held_mut(&mut self, post: Post) -> Option<&mut Option<Arc<str>>> {
        match post {
            Post::Default => Some(&mut self.held),
            Post::Queue(queue) => self.queues.get_mut(queue as usize).map(|queue| &mut queue.held),
        }
    }

    /// From now on nobody decides the queues of this post.
    pub(crate) fn hold(&mut self, post: Post, policy: &str) {
        if let Some(held) = self.held_mut(post) {
            *held = Some(policy.into());
        }
        self.dirty(post);
    }

    /// Somebody decides again; whoever was told otherwise is told anew.
    pub(crate) fn release_hold(&mut self, post: Post) {
        let held = self.held_mut(post).and_then(Option::take);
        if held.is_none() && self.held_told.is_empty() {
            return;
        }
        for id in std::mem::take(&mut self.held_told) {
            let Some(slot) = self.slot_of(id) else { continue };
            if !self.is_of(slot, post) {
                self.held_told.push(id);
                continue;
            }
            let Some(job) = self.job_mut(slot) else { continue };
            if matches!(job.reason, Reason::Held(_)) {
                job.reason = Reason::Unseen;
                let queue = job.queue as usize;
                self.queues[queue].fresh.push(slot);
            }
        }
        self.dirty(post);
    }
}

impl Engine {
    /// The policy whose failure keeps everything from starting in the queues without a policy of their own, if that is
    /// so ([`OnBreach::Hold`](crate::OnBreach::Hold)).
    pub fn held(&self) -> Option<&str> {
        self.core().held.as_deref()
    }

    /// Have nothing start there until a policy has been swapped in: the one of this name could not begin, and the site
    /// fails closed.
    pub fn hold(&mut self, policy: &str) {
        self.core_mut().hold(Post::Default, policy);
    }

    /// The same for one queue, which is to have a policy of its own. Nothing, when there are too many queues.
    pub fn hold_queue(&mut self, queue: &str, policy: &str) {
        let Some(id) = self.core_mut().queue_id(queue) else { return };
        if self.core().post_of(id) == Post::Default {
            // The default policy decides it no more, nor does its successor.
            for at in [At::Live, At::Next] {
                let left = self.core_mut().close(Post::Queue(id), at);
                self.retired.orders.extend(left);
            }
            self.core_mut().queues[id as usize].own = true;
            self.own.entry(id).or_default();
        }
        self.core_mut().hold(Post::Queue(id), policy);
    }
}
