//! The rules of two published simulators as slow programs: lists, exhaustive searches, and whole seconds. They share
//! only the list of jobs with the engine, the graph and the driver.
//!
//! - [`pyss`]: the fork of pyss of Gaussier, Glesser, Reis, Trystram (SC'15). Within an instant: outlived predictions,
//!   then submissions in the order of the log, then ends in the order of starts. A pass follows each submission (plain
//!   EASY: if the job fits) and each end. A job that is expected to end now holds nothing.
//! - [`rlscheduler`]: the environment of Zhang, Dai, He, Bao, Xie (SC'20). One job is chosen, and nothing else is until
//!   it has started; with backfilling, jobs start meanwhile that end before a shadow time which is computed once.
//! - [`sc17`]: the aggressive backfilling of Carastan-Santos, de Camargo (SC'17), by score.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;
use fluxgate_sim::workload::Job;

/// The start of each job, in seconds.
pub type Starts = BTreeMap<JobId, f64>;

/// The schedulers of SC'15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// EASY by requested ends.
    Easy,
    /// The same, shortest request first behind the head.
    ShortestFirst,
    /// EASY++: predictions from the last two run times of the user.
    PlusPlus,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    job: Job,
    start: f64,
    /// First prediction of the run time, and the one that stands.
    first: f64,
    predicted: f64,
    corrections: usize,
}

impl Running {
    fn end(&self) -> f64 {
        self.start + self.job.run_time()
    }

    fn expected(&self) -> f64 {
        self.start + self.predicted
    }
}

struct Site {
    kind: Kind,
    cores: u32,
    now: f64,
    queue: Vec<(Job, f64)>,
    /// In the order of starts.
    running: Vec<Running>,
    run_times: BTreeMap<u32, Vec<f64>>,
    starts: Starts,
}

impl Site {
    fn free_at(&self, time: f64) -> u32 {
        let held = self.running.iter().filter(|r| r.expected() > time).map(|r| r.job.cores).sum::<u32>();
        self.cores.saturating_sub(held)
    }

    fn start(&mut self, (job, predicted): (Job, f64)) {
        self.starts.insert(job.id, self.now);
        self.running.push(Running { job, start: self.now, first: predicted, predicted, corrections: 0 });
    }

    /// With this job started now, is the head still able to start at the shadow time?
    fn may_pass(&self, head: u32, shadow: f64, (job, predicted): (Job, f64)) -> bool {
        job.cores <= self.free_at(self.now)
            && (self.now + predicted <= shadow || job.cores + head <= self.free_at(shadow))
    }

    fn pass(&mut self) {
        while let Some(first) = self.queue.first().copied() {
            if first.0.cores > self.free_at(self.now) {
                break;
            }
            self.queue.remove(0);
            self.start(first);
        }
        let Some((head, _)) = self.queue.first().copied() else { return };
        let mut ends: Vec<f64> = self.running.iter().map(Running::expected).collect();
        ends.sort_by(f64::total_cmp);
        let shadow =
            ends.into_iter().find(|end| *end > self.now && self.free_at(*end) >= head.cores).unwrap();
        let mut behind: Vec<(Job, f64)> = self.queue[1..].to_vec();
        if self.kind != Kind::Easy {
            behind.sort_by(|a, b| a.1.total_cmp(&b.1));
        }
        for waiting in behind {
            if self.may_pass(head.cores, shadow, waiting) {
                self.queue.retain(|(job, _)| job.id != waiting.0.id);
                self.start(waiting);
            }
        }
    }

    fn correct(&mut self) {
        const ADDED: [f64; 11] = [60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18e3, 36e3, 72e3, 180e3, 360e3];
        let now = self.now;
        for r in &mut self.running {
            // A prediction is outlived when it is reached before the end.
            while r.expected() <= now && r.expected() < r.end() {
                let next = ADDED.get(r.corrections).map_or(r.job.limit, |added| r.first + added);
                r.predicted = next.min(r.job.limit);
                r.corrections += 1;
            }
        }
    }

    fn predict(&self, job: &Job) -> f64 {
        match self.run_times.get(&job.user).map(Vec::as_slice) {
            Some([.., before, last]) if self.kind == Kind::PlusPlus => {
                ((before + last) / 2.0).floor().min(job.limit)
            }
            _ => job.limit,
        }
    }
}

/// Starts under the rules of SC'15. Jobs come by submission, run for at least a second and fit the machine.
pub fn pyss(jobs: &[Job], cores: u32, kind: Kind) -> Starts {
    let mut site = Site {
        kind,
        cores,
        now: 0.0,
        queue: Vec::new(),
        running: Vec::new(),
        run_times: BTreeMap::new(),
        starts: Starts::new(),
    };
    let mut coming = jobs.iter().copied().peekable();
    loop {
        let ends = site.running.iter().map(Running::end);
        let Some(now) = ends.chain(coming.peek().map(|job| job.submit)).min_by(f64::total_cmp) else {
            assert!(site.queue.is_empty(), "a job waits on an empty machine");
            return site.starts;
        };
        site.now = now;
        let ended: Vec<Running> = site.running.iter().copied().filter(|r| r.end() <= now).collect();
        site.correct();
        while let Some(job) = coming.next_if(|job| job.submit <= now) {
            site.queue.push((job, site.predict(&job)));
            if kind != Kind::Easy || job.cores <= site.free_at(now) {
                site.pass();
            }
        }
        for over in ended {
            site.running.retain(|r| r.job.id != over.job.id);
            site.run_times.entry(over.job.user).or_default().push(over.job.run_time());
            site.pass();
        }
    }
}

/// A running job of [`rlscheduler`].
#[derive(Debug, Clone, Copy)]
struct Held {
    end: f64,
    requested_end: f64,
    cores: u32,
}

struct Environment<'a> {
    now: f64,
    free: u32,
    coming: std::iter::Peekable<std::slice::Iter<'a, Job>>,
    queue: Vec<Job>,
    running: Vec<Held>,
    starts: Starts,
}

impl Environment<'_> {
    fn start(&mut self, job: &Job) {
        self.queue.retain(|waiting| waiting.id != job.id);
        self.starts.insert(job.id, self.now);
        self.free -= job.cores;
        let (end, requested_end) = (self.now + job.run_time(), self.now + job.limit);
        self.running.push(Held { end, requested_end, cores: job.cores });
    }

    /// The next event: a submission, or an end. False if there is none.
    fn event(&mut self) -> bool {
        let first = self.running.iter().map(|held| held.end).min_by(f64::total_cmp);
        match self.coming.next_if(|job| first.is_none_or(|end| job.submit <= end)) {
            Some(job) => {
                self.now = self.now.max(job.submit);
                self.queue.push(*job);
            }
            None => {
                let Some(first) = first else { return false };
                let place = self.running.iter().position(|held| held.end == first).unwrap();
                self.now = self.now.max(first);
                self.free += self.running.remove(place).cores;
            }
        }
        true
    }

    fn shadow(&self, cores: u32) -> f64 {
        let mut running = self.running.clone();
        running.sort_by(|a, b| a.requested_end.total_cmp(&b.requested_end));
        let (mut free, mut shadow) = (self.free, self.now);
        for held in running {
            free += held.cores;
            shadow = held.requested_end;
            if free >= cores {
                break;
            }
        }
        shadow
    }
}

/// Starts under the rules of SC'20. Jobs come by submission and fit the machine; the one with the smallest score is
/// chosen, of equal ones the first submitted. `score` gets the time and the job.
pub fn rlscheduler(jobs: &[Job], cores: u32, score: impl Fn(f64, &Job) -> f64, backfill: bool) -> Starts {
    let mut it = Environment {
        now: jobs.first().map_or(0.0, |job| job.submit),
        free: cores,
        coming: jobs.iter().peekable(),
        queue: Vec::new(),
        running: Vec::new(),
        starts: Starts::new(),
    };
    loop {
        while it.queue.is_empty() {
            if !it.event() {
                return it.starts;
            }
        }
        let chosen = it.queue.iter().copied().reduce(|best, job| {
            let (a, b) = (score(it.now, &best), score(it.now, &job));
            if b < a { job } else { best }
        });
        let chosen = chosen.unwrap();
        let shadow = it.shadow(chosen.cores);
        while chosen.cores > it.free {
            if backfill {
                for job in it.queue.clone() {
                    if job.cores <= it.free && it.now + job.limit < shadow {
                        it.start(&job);
                    }
                }
            }
            assert!(it.event(), "a job waits on an empty machine");
        }
        it.start(&chosen);
    }
}

/// Starts under the rules of SC'17: at each instant with an event, jobs start in the order of their scores (ties: first
/// submitted) until one waits; behind it, in that order, those start that fit and end by its shadow time, or need at most
/// the cores that are free beside it then.
pub fn sc17(jobs: &[Job], cores: u32, score: impl Fn(f64, &Job) -> f64) -> Starts {
    let mut it = Environment {
        now: 0.0,
        free: cores,
        coming: jobs.iter().peekable(),
        queue: Vec::new(),
        running: Vec::new(),
        starts: Starts::new(),
    };
    while it.event() {
        // All events of the instant.
        let next = |it: &mut Environment<'_>| {
            let ends = it.running.iter().map(|held| held.end);
            ends.chain(it.coming.peek().map(|job| job.submit)).min_by(f64::total_cmp)
        };
        while next(&mut it).is_some_and(|time| time <= it.now) {
            it.event();
        }
        let mut order = it.queue.clone();
        order.sort_by(|a, b| score(it.now, a).total_cmp(&score(it.now, b)));
        let waits = order.iter().position(|job| {
            let fits = job.cores <= it.free;
            if fits {
                it.start(job);
            }
            !fits
        });
        let Some(head) = waits else { continue };
        let shadow = it.shadow(order[head].cores);
        let released = it.running.iter().filter(|held| held.requested_end <= shadow).map(|held| held.cores);
        let mut extra = it.free + released.sum::<u32>() - order[head].cores;
        for job in &order[head + 1..] {
            let in_time = it.now + job.limit <= shadow;
            if job.cores <= it.free && (in_time || job.cores <= extra) {
                it.start(job);
                extra -= if in_time { 0 } else { job.cores };
            }
        }
    }
    assert!(it.queue.is_empty(), "a job waits on an empty machine");
    it.starts
}
