//! Traces of passes: what a policy was told, asked and decided, as lines for people and as JSON; and the first instant
//! at which two policies start other jobs.
//!
//! Passes are numbered from 1 in the order in which they are made. Two runs are compared by instants, and by the jobs
//! that start in them, since passes that start nothing differ without consequence: a policy may ask for more of them.
//!
//! This module does not know how a policy is executed.

use std::fmt::Write as _;
use std::io;

use fluxgate_engine::{PassTrace, Refusal, Step};
use fluxgate_formats::JobId;
use serde_json::{Value, json};

use crate::observe::{Observer, Started};

/// The meaning of a refusal in words.
fn refused(why: Refusal) -> &'static str {
    match why {
        Refusal::Busy => "does not fit on the free resources",
        Refusal::DelaysReservation => "would delay a reservation",
        Refusal::Unsatisfiable => "can never run on this machine",
        Refusal::NotEligible => "its queue is stopped, or it left the queue",
        Refusal::Limit => "a bound of the pass is reached",
    }
}

/// Its name for programs.
fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::Busy => "busy",
        Refusal::DelaysReservation => "delays-reservation",
        Refusal::Unsatisfiable => "unsatisfiable",
        Refusal::NotEligible => "not-eligible",
        Refusal::Limit => "limit",
    }
}

/// A number without a limit as null.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// `1 job`, `2 jobs`.
fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn step_text(step: &Step) -> String {
    match *step {
        Step::Offered(job) => {
            let mut asks = format!("offered {}: {}", job.id.0, counted(job.cores, "core"));
            for (count, what) in [(job.nodes, "node"), (job.gpus, "gpu")] {
                if count > 0 {
                    let _ = write!(asks, ", {}", counted(count, what));
                }
            }
            if job.duration.is_finite() {
                let _ = write!(asks, " for {} s", job.duration);
            }
            asks + &format!(", submitted at {}", job.t_submit)
        }
        Step::Fits(job, fits) => format!("asked whether {} fits: {}", job.0, if fits { "yes" } else { "no" }),
        Step::Earliest(job, time) if time.is_finite() => {
            format!("asked for the earliest start of {}: {time}", job.0)
        }
        Step::Earliest(job, _) => format!("asked for the earliest start of {}: never", job.0),
        Step::Started(job) => format!("STARTED {}", job.0),
        Step::NotStarted(job, why) => format!("did not start {}: {}", job.0, refused(why)),
        Step::Reserved(job, time) => format!("RESERVED {} at {time}", job.0),
        Step::NotReserved(job, why) => format!("did not reserve {}: {}", job.0, refused(why)),
        Step::Rekey(job) => format!("asked for another key of {}", job.0),
        Step::Wake(time) => format!("asked for a pass at {time}"),
    }
}

fn step_json(step: &Step) -> Value {
    match *step {
        Step::Offered(job) => json!({
            "step": "offered", "job": job.id.0, "submit": job.t_submit, "duration": finite(job.duration),
            "nodes": job.nodes, "cores": job.cores, "gpus": job.gpus, "user": job.userid, "priority": job.priority,
        }),
        Step::Fits(job, fits) => json!({"step": "fits", "job": job.0, "fits": fits}),
        Step::Earliest(job, time) => json!({"step": "earliest", "job": job.0, "time": finite(time)}),
        Step::Started(job) => json!({"step": "started", "job": job.0}),
        Step::NotStarted(job, why) => json!({"step": "not-started", "job": job.0, "why": refusal(why)}),
        Step::Reserved(job, time) => json!({"step": "reserved", "job": job.0, "time": time}),
        Step::NotReserved(job, why) => json!({"step": "not-reserved", "job": job.0, "why": refusal(why)}),
        Step::Rekey(job) => json!({"step": "rekey", "job": job.0}),
        Step::Wake(time) => json!({"step": "wake", "time": time}),
    }
}

/// The lines of a pass, with its number.
pub fn text(number: u64, pass: &PassTrace) -> String {
    let queue = if pass.queue.is_empty() { String::new() } else { format!(" of queue {}", pass.queue) };
    let mut text = format!(
        "pass {number} at {}{queue} by {}: {} wait, {} run; free are {} of {} cores",
        pass.time, pass.policy, pass.waiting, pass.running, pass.before.free_cores, pass.before.cores
    );
    let more = [
        (pass.before.free_nodes, pass.before.nodes, "nodes"),
        (pass.before.free_gpus, pass.before.gpus, "gpus"),
    ];
    for (free, all, what) in more.into_iter().filter(|(_, all, _)| *all > 0) {
        let _ = write!(text, ", {free} of {all} {what}");
    }
    text.push('\n');
    for (job, key) in &pass.keys {
        let _ = writeln!(text, "  key of {}: {key}", job.0);
    }
    for step in &pass.steps {
        let _ = writeln!(text, "  {}", step_text(step));
    }
    if pass.more_steps > 0 {
        let _ = writeln!(text, "  and {} more steps", pass.more_steps);
    }
    if let Some(why) = &pass.failed {
        let _ = writeln!(text, "  FAILED, and nothing of this pass is carried out: {why}");
    }
    text
}

/// The same as a JSON object, for programs; a key that is no finite number is null.
pub fn json(number: u64, pass: &PassTrace) -> Value {
    let before = pass.before;
    let keys: Vec<Value> =
        pass.keys.iter().map(|(job, key)| json!({"job": job.0, "key": finite(*key)})).collect();
    json!({
        "pass": number, "time": pass.time, "queue": pass.queue, "policy": pass.policy,
        "waiting": pass.waiting, "running": pass.running,
        "machine": {
            "nodes": before.nodes, "cores": before.cores, "gpus": before.gpus,
            "free_nodes": before.free_nodes, "free_cores": before.free_cores, "free_gpus": before.free_gpus,
        },
        "keys": keys,
        "steps": pass.steps.iter().map(step_json).collect::<Vec<_>>(),
        "more_steps": pass.more_steps,
        "failed": pass.failed,
    })
}

/// Hands the passes with numbers from one to another to a receiver; an [`Observer`]. It ends the run after the last of them by an
/// error of the kind [`Interrupted`](io::ErrorKind::Interrupted).
pub struct Shown<F> {
    from: u64,
    until: u64,
    number: u64,
    show: F,
}

impl<F: FnMut(u64, &PassTrace) -> io::Result<()>> Shown<F> {
    /// Passes `from` to `until`, both included, counted from 1.
    pub fn new(from: u64, until: u64, show: F) -> Self {
        Shown { from, until, number: 0, show }
    }

    /// Number of passes so far, shown or not.
    pub fn count(&self) -> u64 {
        self.number
    }

    /// True if the last wanted pass was made, with which the run ended.
    pub fn is_complete(&self) -> bool {
        self.number >= self.until
    }
}

impl<F: FnMut(u64, &PassTrace) -> io::Result<()>> Observer for Shown<F> {
    fn wants_r(&self) -> bool {
        false
    }

    fn wants_passes(&self) -> bool {
        true
    }

    fn passed(&mut self, pass: &PassTrace) -> io::Result<()> {
        self.number += 1;
        if (self.from..=self.until).contains(&self.number) {
            (self.show)(self.number, pass)?;
        }
        if self.is_complete() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

/// The starts of a run by instants; an [`Observer`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instants {
    /// Time and jobs of each instant in which jobs start, jobs in the order of ids.
    starts: Vec<(f64, Vec<JobId>)>,
}

impl Instants {
    /// The first instant at which this run and another one do not start the same jobs, with the jobs that start only in
    /// this one and only in the other. `None` if all jobs start at the same times.
    pub fn difference(&self, other: &Instants) -> Option<(f64, Vec<JobId>, Vec<JobId>)> {
        let place = self.starts.iter().zip(&other.starts).position(|(a, b)| a != b);
        let place = place.unwrap_or_else(|| self.starts.len().min(other.starts.len()));
        let at = |all: &Instants| all.starts.get(place).map_or(f64::INFINITY, |(time, _)| *time);
        let time = at(self).min(at(other));
        if time.is_infinite() {
            return None;
        }
        let jobs = |all: &Instants| match all.starts.get(place) {
            Some((of, jobs)) if *of == time => jobs.clone(),
            _ => Vec::new(),
        };
        let (ours, theirs) = (jobs(self), jobs(other));
        let only = |jobs: &[JobId], without: &[JobId]| {
            jobs.iter().filter(|job| !without.contains(job)).copied().collect::<Vec<_>>()
        };
        Some((time, only(&ours, &theirs), only(&theirs, &ours)))
    }
}

impl Observer for Instants {
    fn wants_r(&self) -> bool {
        false
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        match self.starts.last_mut() {
            Some((time, jobs)) if *time == s.start => {
                let place = jobs.partition_point(|job| *job < s.job.id);
                jobs.insert(place, s.job.id);
            }
            _ => self.starts.push((s.start, vec![s.job.id])),
        }
        Ok(())
    }
}

/// Keeps the passes of one instant; an [`Observer`]. It ends the run after it by an error of the kind
/// [`Interrupted`](io::ErrorKind::Interrupted).
#[derive(Debug, Clone, Default)]
pub struct PassesAt {
    time: f64,
    number: u64,
    /// The passes, with their numbers.
    pub passes: Vec<(u64, PassTrace)>,
}

impl PassesAt {
    /// Of the instant with this time in seconds.
    pub fn of(time: f64) -> Self {
        PassesAt { time, ..PassesAt::default() }
    }
}

impl Observer for PassesAt {
    fn wants_r(&self) -> bool {
        false
    }

    fn wants_passes(&self) -> bool {
        true
    }

    fn passed(&mut self, pass: &PassTrace) -> io::Result<()> {
        self.number += 1;
        if pass.time > self.time {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if pass.time == self.time {
            self.passes.push((self.number, pass.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Surroundings, replay_config, run_with};
    use crate::machine::Machine;
    use crate::workload::Job;

    /// Time, and the jobs that start only in the one and only in the other.
    type Expected = (f64, &'static [u64], &'static [u64]);

    fn instants(starts: &[(f64, &[u64])]) -> Instants {
        let jobs = |ids: &[u64]| ids.iter().map(|id| JobId(*id)).collect();
        Instants { starts: starts.iter().map(|(time, ids)| (*time, jobs(ids))).collect() }
    }

    #[test]
    fn the_first_instant_with_other_starts() {
        let a = instants(&[(0.0, &[1, 2]), (5.0, &[3, 4]), (9.0, &[5])]);
        assert_eq!(a.difference(&a), None);
        let ids = |ids: &[u64]| ids.iter().map(|id| JobId(*id)).collect::<Vec<_>>();
        let rows: [(Instants, Expected); 4] = [
            (instants(&[(0.0, &[1, 2]), (5.0, &[3, 6])]), (5.0, &[4], &[6])),
            (instants(&[(0.0, &[1, 2]), (4.0, &[3, 4])]), (4.0, &[], &[3, 4])),
            (instants(&[(0.0, &[1, 2]), (6.0, &[3, 4])]), (5.0, &[3, 4], &[])),
            (instants(&[(0.0, &[1, 2]), (5.0, &[3, 4])]), (9.0, &[5], &[])),
        ];
        for (b, (time, only_a, only_b)) in rows {
            assert_eq!(a.difference(&b), Some((time, ids(only_a), ids(only_b))));
            assert_eq!(b.difference(&a), Some((time, ids(only_b), ids(only_a))));
        }
    }

    #[test]
    fn a_pass_of_the_built_in_policy_in_words() {
        let job = |id, cores, run| Job::new(JobId(id), 0.0, cores, run, run);
        let jobs = [job(1, 3, 10.0), job(2, 2, 5.0)];
        let (mut lines, mut told) = (String::new(), Vec::new());
        let mut shown = Shown::new(1, 3, |number, pass: &PassTrace| {
            lines += &text(number, pass);
            told.push(json(number, pass));
            Ok(())
        });
        let machine = Machine::uniform(1, 4).unwrap();
        let observers: &mut [&mut dyn Observer] = &mut [&mut shown];
        run_with(jobs, &Surroundings::default(), machine.resources, replay_config(), None, observers)
            .unwrap();
        assert_eq!((shown.count(), shown.is_complete()), (2, false));
        assert_eq!(
            lines,
            "pass 1 at 0 by builtin-fcfs: 2 wait, 0 run; free are 4 of 4 cores, 1 of 1 nodes\n\
             \x20 offered 1: 3 cores for 10 s, submitted at 0\n\
             \x20 STARTED 1\n\
             \x20 offered 2: 2 cores for 5 s, submitted at 0\n\
             \x20 did not start 2: does not fit on the free resources\n\
             pass 2 at 10 by builtin-fcfs: 1 wait, 0 run; free are 4 of 4 cores, 1 of 1 nodes\n\
             \x20 offered 2: 2 cores for 5 s, submitted at 0\n\
             \x20 STARTED 2\n"
        );
        assert_eq!(told[0]["steps"][3], json!({"step": "not-started", "job": 2, "why": "busy"}));
        assert_eq!(told[1]["machine"]["free_cores"], 4);
    }
}
