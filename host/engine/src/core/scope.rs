//! Policy scopes: the queues that one policy decides, and the role of a policy in them.
//!
//! Must never know policies.

/// Number of a queue: its index in the core's list of queues.
pub(crate) type QueueId = u32;

/// A queue has two sides, each with an order: one for its active policy, one for a successor that is warmed up. A swap
/// exchanges the roles of the sides and moves nothing.
pub(crate) type Side = usize;

/// A policy scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyScope {
    /// All queues that the default policy decides.
    Default,
    /// One queue.
    Queue(QueueId),
}

/// The role of a policy in a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It decides the queues.
    Active = 0,
    /// It is warmed up.
    Successor = 1,
}
