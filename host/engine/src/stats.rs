//! Counters. They are told to people and never an input of a decision.

/// What was done in one queue since it was first heard of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Passes made.
    pub passes: u64,
    /// Jobs started.
    pub starts: u64,
    /// Milliseconds that they had waited since their submission.
    pub waited_ms: u64,
    /// Reservations made.
    pub reservations: u64,
}

/// What the engine did since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events stepped.
    pub events: u64,
    /// Passes made, one per queue.
    pub passes: u64,
    /// Of these, passes that were cut short because somebody waits (see [`crate::Engine::set_interrupt`]).
    pub interrupted: u64,
    /// Candidates offered to policies.
    pub candidates: u64,
    /// Searches for resources.
    pub matches: u64,
    /// Jobs started.
    pub starts: u64,
    /// Milliseconds that the jobs started had waited since their submission.
    pub waited_ms: u64,
    /// Of the jobs started, those that started while an earlier-ordered one of their queue stood blocked in the same pass.
    pub backfilled: u64,
    /// Reservations made.
    pub reservations: u64,
    /// Proposals that the gate refused.
    pub refusals: u64,
    /// Requests denied.
    pub denied: u64,
    /// Frees, cancels and commits for jobs that the engine does not know (legal, see RFC 27).
    pub unknown_jobs: u64,
    /// Policies that failed.
    pub policy_failures: u64,
    /// Passes in which nobody decided, because a policy had failed and the site fails closed.
    pub held_passes: u64,
    /// Swaps completed.
    pub swaps: u64,
    /// Passes decided by the built-in policy because no other was there.
    pub builtin_passes: u64,
}
