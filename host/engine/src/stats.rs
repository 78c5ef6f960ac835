//! Counters for reports. No decision depends on them. Must never know how they are reported.

use crate::event::Event;
use crate::pass::Refusal;

/// The kinds of refusals of the gate ([`Refusal`]), in the order of [`Stats::refused`].
pub const REFUSALS: [&str; 5] = ["busy", "delays", "unsatisfiable", "not-eligible", "limit"];
/// The ways in which a request leaves its queue without resources, in the order of [`QueueCounts::removed`].
pub const REMOVALS: [&str; 3] = ["canceled", "denied", "replaced"];

/// The kinds of events, in the order of [`Stats::events_by_kind`].
pub const EVENTS: [&str; 21] = [
    "hello",
    "alloc",
    "cancel",
    "prioritize",
    "free",
    "expiration",
    "feasibility",
    "up",
    "down",
    "shrink",
    "property-add",
    "property-remove",
    "vertex-status",
    "vertex-property",
    "reservation",
    "instance-expiration",
    "committed",
    "recount",
    "audit",
    "unread",
    "properties-unread",
];

/// The place of an event's kind in [`EVENTS`].
fn kind(event: &Event) -> usize {
    match event {
        Event::Hello { .. } => 0,
        Event::Alloc { .. } => 1,
        Event::Cancel { .. } => 2,
        Event::Prioritize { .. } => 3,
        Event::Free { .. } => 4,
        Event::Expiration { .. } => 5,
        Event::Feasibility { .. } => 6,
        Event::Up(_) => 7,
        Event::Down(_) => 8,
        Event::Shrink(_) => 9,
        Event::PropertyAdd { .. } => 10,
        Event::PropertyRemove { .. } => 11,
        Event::VertexStatus { .. } => 12,
        Event::VertexProperty { .. } => 13,
        Event::PutWindow(_) | Event::RemoveWindow { .. } => 14,
        Event::InstanceExpiration(_) => 15,
        Event::Committed { .. } => 16,
        Event::Recount { .. } => 17,
        Event::Audit { .. } => 18,
        Event::Unread(_) => 19,
        Event::PropertiesUnread(_) => 20,
    }
}

/// How a request leaves its queue without resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The job manager withdrew it: the job was canceled or held.
    Canceled,
    /// It can never be satisfied.
    Denied,
    /// The job requests anew.
    Replaced,
}

/// Counters of one queue since it became known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Passes made.
    pub passes: u64,
    /// Jobs started.
    pub starts: u64,
    /// Sum of their waiting times since submission, milliseconds.
    pub waited_ms: u64,
    /// Reservations made.
    pub reservations: u64,
    /// Accepted requests of jobs for resources.
    pub submitted: u64,
    /// Of the started jobs, those that were backfilled: the same pass had refused or reserved for a job ahead of them.
    pub backfilled: u64,
    /// Requests that left the queue without resources, in the order of [`REMOVALS`].
    pub removed: [u64; REMOVALS.len()],
    /// Jobs that released all of their resources.
    pub ended: u64,
    /// Of the started jobs, those that had a reserved start.
    pub from_reservations: u64,
    /// Passes that the built-in policy decided.
    pub builtin: u64,
    /// Passes in which scheduling was suspended.
    pub suspended: u64,
    /// Proposals that the gate refused, in the order of [`REFUSALS`].
    pub refused: [u64; REFUSALS.len()],
}

impl QueueCounts {
    /// Adds the counters of another queue.
    pub fn add(&mut self, other: &QueueCounts) {
        let QueueCounts {
            passes,
            starts,
            waited_ms,
            reservations,
            submitted,
            backfilled,
            removed,
            ended,
            from_reservations,
            builtin,
            suspended,
            refused,
        } = other;
        self.passes += passes;
        self.starts += starts;
        self.waited_ms = self.waited_ms.saturating_add(*waited_ms);
        self.reservations += reservations;
        self.submitted += submitted;
        self.backfilled += backfilled;
        self.removed.iter_mut().zip(removed).for_each(|(count, more)| *count += more);
        self.ended += ended;
        self.from_reservations += from_reservations;
        self.builtin += builtin;
        self.suspended += suspended;
        self.refused.iter_mut().zip(refused).for_each(|(count, more)| *count += more);
    }
}

/// Counters of the engine since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events stepped.
    pub events: u64,
    /// These by kind, in the order of [`EVENTS`].
    pub events_by_kind: [u64; EVENTS.len()],
    /// Passes begun, one per queue; a failed pass and the one of the built-in policy in its place count as two.
    pub passes: u64,
    /// Of these, passes that were interrupted (see [`crate::Engine::set_interrupt`]).
    pub interrupted: u64,
    /// Candidates offered to policies, each time that they were offered.
    pub candidates: u64,
    /// Searches for resources.
    pub matches: u64,
    /// Jobs started.
    pub starts: u64,
    /// Sum of the waiting times of started jobs since submission, milliseconds.
    pub waited_ms: u64,
    /// Starts that were backfilled: the same pass had refused or reserved for a job ahead in the queue. Failed passes count as well.
    pub backfilled: u64,
    /// Reservations made, also those that a pass makes anew. Failed passes count as well.
    pub reservations: u64,
    /// Proposals that the gate refused, those beyond a bound of the pass ([`Refusal::Limit`]) included.
    pub refusals: u64,
    /// These by kind, in the order of [`REFUSALS`].
    pub refused: [u64; REFUSALS.len()],
    /// Requests denied.
    pub denied: u64,
    /// Frees and commits for jobs without resources, and priorities of jobs that do not wait (legal, see RFC 27).
    pub unknown_jobs: u64,
    /// Active policies that failed.
    pub policy_failures: u64,
    /// Passes of queues in which scheduling was suspended.
    pub suspended_passes: u64,
    /// Swaps completed, returns of queues to the default policy included.
    pub swaps: u64,
    /// Passes that the built-in policy decided.
    pub builtin_passes: u64,
}

impl Stats {
    /// Counts an event.
    pub(crate) fn event(&mut self, event: &Event) {
        self.events += 1;
        self.events_by_kind[kind(event)] += 1;
    }

    /// Counts a refusal of the gate, also for its queue.
    pub(crate) fn refuse(&mut self, refusal: Refusal, queue: &mut QueueCounts) -> Refusal {
        self.refusals += 1;
        let kind = match refusal {
            Refusal::Busy => 0,
            Refusal::DelaysReservation => 1,
            Refusal::Unsatisfiable => 2,
            Refusal::NotEligible => 3,
            Refusal::Limit => 4,
        };
        self.refused[kind] += 1;
        queue.refused[kind] += 1;
        refusal
    }
}
