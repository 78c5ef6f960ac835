//! Which queues a policy decides: all that have none of their own, or one.
//!
//! The queues of a post have orders for its policy, and beside them for one that is on its way. This module must never
//! know policies.

use std::sync::Arc;

use super::{Core, Queue, QueueId, Side};
use crate::order::{Order, Slot};

/// A place that a policy can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Post {
    /// All queues without a policy of their own.
    Default,
    /// One queue.
    Queue(QueueId),
}

/// The policy that runs, or the one on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// It decides.
    Live = 0,
    /// It is warmed up.
    Next = 1,
}

impl Queue {
    /// Where the policy of this queue has its order.
    pub(crate) fn side(&self, at: At) -> Side {
        match at {
            At::Live => self.live,
            At::Next => 1 - self.live,
        }
    }

    /// Another generation of orders on one side, empty or none. The one before.
    pub(crate) fn renew(&mut self, side: Side, open: bool) -> Option<Order> {
        self.generation[side] = self.generation[side].wrapping_add(1);
        std::mem::replace(&mut self.orders[side], open.then(Order::default))
    }
}

impl Core {
    /// Who decides a queue.
    pub(crate) fn post_of(&self, queue: QueueId) -> Post {
        match self.queues.get(queue as usize) {
            Some(found) if found.own => Post::Queue(queue),
            _ => Post::Default,
        }
    }

    /// All posts.
    pub(crate) fn posts(&self) -> Vec<Post> {
        let own = self.queues.iter().enumerate().filter(|(_, queue)| queue.own);
        std::iter::once(Post::Default).chain(own.map(|(id, _)| Post::Queue(id as QueueId))).collect()
    }

    /// Does this job wait in a queue of this post?
    pub(crate) fn is_of(&self, slot: Slot, post: Post) -> bool {
        self.job(slot).is_some_and(|job| match post {
            Post::Default => self.post_of(job.queue) == post,
            Post::Queue(queue) => job.queue == queue,
        })
    }

    /// The queues of a post.
    pub(crate) fn queues_of(&mut self, post: Post) -> impl Iterator<Item = &mut Queue> {
        self.queues.iter_mut().enumerate().filter_map(move |(id, queue)| {
            let mine = match post {
                Post::Default => !queue.own,
                Post::Queue(one) => one as usize == id,
            };
            mine.then_some(queue)
        })
    }

    /// The queues of a post in which jobs wait need a pass.
    pub(crate) fn dirty(&mut self, post: Post) {
        for queue in self.queues_of(post) {
            queue.dirty = !queue.native.is_empty();
        }
    }

    /// A policy comes to a post: empty orders for it. Returns those that were there, for dropping where it costs nobody
    /// time.
    pub(crate) fn open(&mut self, post: Post, at: At) -> Vec<Order> {
        self.renew(post, at, true)
    }

    /// The policy there is gone.
    pub(crate) fn close(&mut self, post: Post, at: At) -> Vec<Order> {
        self.renew(post, at, false)
    }

    fn renew(&mut self, post: Post, at: At, open: bool) -> Vec<Order> {
        if post == Post::Default {
            self.open[at as usize] = open;
        }
        let renewed = self.queues_of(post).map(|queue| queue.renew(queue.side(at), open));
        renewed.flatten().collect()
    }

    /// The policy on its way runs from now on: constant work for each queue. Returns the orders of the one before.
    pub(crate) fn flip(&mut self, post: Post) -> Vec<Order> {
        if post == Post::Default {
            self.open = [self.open[At::Next as usize], false];
        }
        let flipped = self.queues_of(post).map(|queue| {
            let before = queue.live;
            queue.live = queue.side(At::Next);
            queue.backfills = false;
            queue.dirty = !queue.native.is_empty();
            queue.renew(before, false)
        });
        flipped.flatten().collect()
    }

    /// The policy whose failure keeps jobs of this queue from starting.
    pub(crate) fn held_in(&self, queue: QueueId) -> Option<Arc<str>> {
        match self.queues.get(queue as usize) {
            Some(found) if found.own => found.held.clone(),
            _ => self.held.clone(),
        }
    }
}
