//! Counts over many seeds: faults by kind, situations that were reached, and those that never were.
//!
//! Must never know a single run.

use std::collections::BTreeMap;

use crate::fault::Kind;

/// Situations that runs should reach. One that is not in this list is counted all the same.
pub const SITUATIONS: &[&str] = &[
    "a change of a reservation is refused",
    "a change of a reservation is tried",
    "a commit is refused",
    "a free is dropped",
    "a job fills the time before a reservation",
    "a job is denied",
    "a job is ended for a reservation",
    "a job is found infeasible",
    "a job is given up because its R cannot be read",
    "a job on hold was started",
    "a job waits for a reservation that is over or not there",
    "a member of a reservation starts",
    "a job that holds resources is denied more",
    "a job starts with units of a pool of a reservation",
    "a job waits for a property",
    "a job waits for flow",
    "a job with a condition starts",
    "a job with flow starts",
    "a job with storage starts",
    "a queue is started with a reservation",
    "a queue is stopped after a reservation",
    "a queue of a reservation is not there",
    "a request comes again with another jobspec",
    "a request is displaced",
    "a request is withdrawn twice",
    "a reservation has the users of a group",
    "a reservation is altered",
    "a reservation is cancelled",
    "a reservation is ended",
    "a reservation is made",
    "a reservation is not kept",
    "a reservation is refused",
    "a start is bounced",
    "a start is forgotten",
    "a start is refused because of an old R",
    "a time of a reservation is left out",
    "a wrong request about a reservation is refused",
    "an answer comes too late",
    "an exception for a job that is inactive",
    "an instance that begins anew tells the same",
    "another time limit is refused",
    "a bit flips",
    "a control request is refused",
    "a frame is cut",
    "a guest is refused",
    "a policy is swapped",
    "a property is removed",
    "a property is set",
    "a shadow is promoted",
    "flow is held, and both sides were compared",
    "flow of a part of the nodes is released",
    "groups cannot be looked up",
    "hello has a job that gave back a part",
    "hello has an inactive job",
    "killed while a commit is under way",
    "properties are read by the next scheduler",
    "reservations are those that were kept",
    "reservations cannot be read",
    "resources are busy",
    "service names are taken",
    "shrink without down",
    "the disk refuses",
    "the limit of a job ends with the begin of a reservation",
    "the loss of reservations is accepted",
    "the instance cannot write, and holds",
    "the instance is killed while it holds",
    "the job manager takes the scheduler offline",
    "the journal has a gap",
    "the journal is damaged, and what can be read of it was run again",
    "the journal has a torn end",
    "the journal has rotated",
    "the journal was run again",
    "the scheduler ends by itself",
    "quiet, and both sides were compared",
];

/// See the module text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Faults that were injected, by kind.
    pub faults: BTreeMap<Kind, u64>,
    /// Situations.
    pub reached: BTreeMap<&'static str, u64>,
    /// Jobs that were submitted.
    pub jobs: u64,
    /// Starts that the job manager accepted.
    pub starts: u64,
    /// Processes of the scheduler.
    pub lives: u64,
    /// Steps of the world.
    pub steps: u64,
    /// Messages, both ways.
    pub messages: u64,
}

impl Tally {
    /// A situation was reached.
    pub fn reached(&mut self, what: &'static str) {
        *self.reached.entry(what).or_default() += 1;
    }

    /// A fault was injected.
    pub fn fault(&mut self, kind: Kind) {
        *self.faults.entry(kind).or_default() += 1;
    }

    /// Counts another run in.
    pub fn add(&mut self, other: &Tally) {
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
        for (what, count) in &other.reached {
            *self.reached.entry(what).or_default() += count;
        }
        self.jobs += other.jobs;
        self.starts += other.starts;
        self.lives += other.lives;
        self.steps += other.steps;
        self.messages += other.messages;
    }

    /// The situations that were never reached.
    pub fn never(&self) -> Vec<&'static str> {
        SITUATIONS.iter().copied().filter(|what| !self.reached.contains_key(what)).collect()
    }
}
