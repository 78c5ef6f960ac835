//! The semantics of FCFS and EASY as slow and obviously correct programs. A machine is a number of cores, a queue is
//! a list, and every query is answered by an exhaustive search. They share only the list of jobs with the engine, the
//! graph and the driver.
//!
//! EASY (Lifka 1995; Mu'alem, Feitelson 2001): jobs start in order while the first fits. When it does not, it gets a
//! reservation at the earliest time at which it could start if every running job ran to its limit. Every later job,
//! in order, starts now if it fits now and does not delay that reservation. The reservation is made again at every
//! instant with an event. In terms of shadow time and extra nodes it is the same rule.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;
use fluxgate_sim::metrics::{self, Metrics};
use fluxgate_sim::workload::{Job, Options, Overrun};

use crate::logs;

/// The start of each job. Jobs wider than the machine have none.
pub(crate) type Starts = BTreeMap<JobId, f64>;

#[derive(Clone, Copy)]
struct Running {
    cores: u32,
    /// Its end.
    end: f64,
    /// Its expected end, by its limit.
    expected: f64,
}

struct Machine {
    now: f64,
    cores: u32,
    running: Vec<Running>,
    starts: Starts,
}

impl Machine {
    fn free(&self) -> u32 {
        self.cores - self.running.iter().map(|r| r.cores).sum::<u32>()
    }

    fn start(&mut self, job: &Job) {
        let end = self.now + job.run_time();
        self.running.push(Running { cores: job.cores, end, expected: self.now + job.limit });
        self.starts.insert(job.id, self.now);
    }

    /// The earliest time at which this many cores are free, if `more` also runs from now on.
    fn earliest(&self, cores: u32, more: Option<Running>) -> f64 {
        let mut running: Vec<Running> = self.running.iter().copied().chain(more).collect();
        running.sort_by(|a, b| a.expected.total_cmp(&b.expected));
        let mut free = self.cores - running.iter().map(|r| r.cores).sum::<u32>();
        let mut time = self.now;
        for r in running {
            if free >= cores {
                break;
            }
            free += r.cores;
            time = r.expected;
        }
        time
    }
}

fn fcfs_pass(machine: &mut Machine, queue: &mut Vec<Job>) {
    while let Some(first) = queue.first().copied() {
        if first.cores > machine.free() {
            return;
        }
        machine.start(&first);
        queue.remove(0);
    }
}

fn easy_pass(machine: &mut Machine, queue: &mut Vec<Job>) {
    fcfs_pass(machine, queue);
    let Some(first) = queue.first().copied() else { return };
    let reserved_start = machine.earliest(first.cores, None);
    let mut still = vec![first];
    for job in queue.drain(..).skip(1) {
        let as_running = Running { cores: job.cores, end: 0.0, expected: machine.now + job.limit };
        if job.cores <= machine.free() && machine.earliest(first.cores, Some(as_running)) <= reserved_start {
            machine.start(&job);
        } else {
            still.push(job);
        }
    }
    *queue = still;
}

fn simulate(jobs: &[Job], cores: u32, pass: fn(&mut Machine, &mut Vec<Job>)) -> Starts {
    let mut machine = Machine { now: 0.0, cores, running: Vec::new(), starts: Starts::new() };
    let mut coming: Vec<Job> = jobs.iter().copied().filter(|j| j.cores <= cores).collect();
    coming.sort_by(|a, b| b.submit.total_cmp(&a.submit).then(b.id.cmp(&a.id)));
    let mut queue = Vec::new();
    loop {
        let ends = machine.running.iter().map(|r| r.end);
        let Some(now) = ends.chain(coming.last().map(|j| j.submit)).min_by(f64::total_cmp) else {
            assert!(queue.is_empty(), "a job waits on an empty machine");
            return machine.starts;
        };
        machine.now = now;
        machine.running.retain(|r| r.end > now);
        while let Some(job) = coming.pop_if(|j| j.submit <= now) {
            queue.push(job);
        }
        pass(&mut machine, &mut queue);
    }
}

pub(crate) fn fcfs(jobs: &[Job], cores: u32) -> Starts {
    simulate(jobs, cores, fcfs_pass)
}

pub(crate) fn easy(jobs: &[Job], cores: u32) -> Starts {
    simulate(jobs, cores, easy_pass)
}

fn job(id: u64, submit: f64, cores: u32, limit: f64, run: f64) -> Job {
    Job::new(JobId(id), submit, cores, limit, run)
}

fn starts(starts: &Starts) -> Vec<(u64, f64)> {
    starts.iter().map(|(id, t)| (id.0, *t)).collect()
}

/// A textbook case: 4 cores; 3 jobs wait behind a job of 4.
#[test]
fn by_hand() {
    let jobs = [
        job(1, 0.0, 3, 100.0, 80.0), // starts at once, expected until 100
        job(2, 1.0, 4, 10.0, 10.0),  // the first to wait: reserved at 100
        job(3, 2.0, 1, 98.0, 98.0),  // ends at 100: backfilled
        job(4, 3.0, 1, 10.0, 10.0),  // no core left
        job(5, 4.0, 1, 1.0, 1.0),    // no core left
        job(6, 5.0, 9, 1.0, 1.0),    // never
    ];
    // Job 1 ends early at 80, but job 3 runs until 100: 4 and 5 are backfilled at 80.
    assert_eq!(starts(&easy(&jobs, 4)), [(1, 0.0), (2, 100.0), (3, 2.0), (4, 80.0), (5, 80.0)]);
    assert_eq!(starts(&fcfs(&jobs, 4)), [(1, 0.0), (2, 80.0), (3, 90.0), (4, 90.0), (5, 90.0)]);
}

/// The extra nodes: a long job may pass if the first does not need its cores.
#[test]
fn extra_nodes() {
    let jobs = [
        job(1, 0.0, 2, 100.0, 100.0),
        job(2, 1.0, 3, 10.0, 10.0),     // reserved at 100, leaves 1 of 4 unused then
        job(3, 2.0, 1, 1000.0, 1000.0), // takes that core
        job(4, 3.0, 1, 1000.0, 1000.0), // would delay job 2
        job(5, 4.0, 1, 96.0, 96.0),     // gone by 100
    ];
    let expected = [(1, 0.0), (2, 100.0), (3, 2.0), (4, 110.0), (5, 4.0)];
    assert_eq!(starts(&easy(&jobs, 4)), expected);
}

/// Jobs of length 0 free their cores within the instant.
#[test]
fn length_zero() {
    let jobs = [job(1, 5.0, 4, 1.0, 0.0), job(2, 5.0, 4, 1.0, 0.0), job(3, 5.0, 2, 1.0, 1.0)];
    assert_eq!(starts(&fcfs(&jobs, 4)), [(1, 5.0), (2, 5.0), (3, 5.0)]);
}

/// Figures published for FCFS on version 2.2 of HPC2N by other engines: mean wait 15.8 to 16.2 ks and p95 of
/// bounded slowdown (threshold 60 s) 277 to 287. The two rules for run times above the limit span them.
#[test]
fn published_figures_of_fcfs_on_hpc2n() {
    for (overrun, wait, p95) in [(Overrun::Kill, 15_842.5, 277.05), (Overrun::Raise, 16_188.7, 286.92)] {
        let Some(w) = logs::load(logs::HPC2N, &Options { overrun, ..Options::default() }) else { return };
        let starts = fcfs(&w.jobs, 240);
        let mut metrics = Metrics::new(240);
        for job in &w.jobs {
            let start = starts[&job.id];
            let (submit, cores, user, killed) = (job.submit, job.cores, job.user, job.killed());
            let (end, backfilled, lost) = (start + job.run_time(), false, false);
            metrics.add(&metrics::Job { submit, start, end, cores, user, killed, backfilled, lost }).unwrap();
        }
        let s = metrics.summary().unwrap();
        let found = (s.wait_s.mean, s.bounded_slowdown[1].distribution.p95);
        assert!((found.0 - wait).abs() < 0.1 && (found.1 - p95).abs() < 0.01, "{overrun:?}: {found:?}");
    }
}
