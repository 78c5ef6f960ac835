//! The queues that one policy decides, and the part that a policy has there.
//!
//! Must never know policies.

/// Number of a queue: its index in the core's list of queues.
pub(crate) type QueueId = u32;

/// A queue has two sides, each with an order: one for its active policy, one for a successor that is warmed up. A swap
/// exchanges the roles of the sides and moves nothing.
pub(crate) type Side = usize;

/// The queues that one policy decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyScope {
    /// All queues without a policy of their own.
    Default,
    /// One queue.
    Queue(QueueId),
}

/// The part that a policy has in a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It decides.
    Active = 0,
    /// It is warmed up.
    Successor = 1,
}
