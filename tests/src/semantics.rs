//! What every policy means, as a slow program that is obviously right: the executable side of `docs/semantics.md`.
//!
//! A machine is a number of cores, the queue is a list, and whether something fits is found by adding up. It
//! shares nothing with engine, graph, driver or policies but the list of jobs.
//!
//! This module must never be made fast.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;
use fluxgate_sim::workload::Job;

/// When each job started. Jobs wider than the machine have none.
pub type Starts = BTreeMap<JobId, f64>;

/// What decides.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// In the order of a key (now, job), smallest first; ties by submission, then id. The first `depth` jobs that
    /// wait are guaranteed a start; with 0 nothing starts behind the first that waits.
    InOrder {
        /// The key.
        key: fn(f64, &Job) -> f64,
        /// Guarantees.
        depth: usize,
    },
    /// Every job that waits is guaranteed a start. By last promise, then as in the queue; or as in the queue alone.
    Conservative {
        /// Do promises decide the order?
        by_promise: bool,
    },
    /// By weighted factors, largest sum in billionths first; then as [`Rule::InOrder`].
    Multifactor {
        /// What age, fair share and size count.
        weights: [f64; 3],
        /// Seconds after which a job gets no older.
        max_age: f64,
        /// Seconds in which usage is half forgotten.
        half_life: f64,
        /// Guarantees.
        depth: usize,
    },
}

/// Cores that are taken from one time until just before another.
#[derive(Debug, Clone, Copy)]
struct Taken {
    from: f64,
    to: f64,
    cores: u32,
}

/// Could so many cores be had from `start` for `duration`?
fn room(cores: u32, taken: &[Taken], want: u32, start: f64, duration: f64) -> bool {
    let free_at = |time: f64| {
        cores - taken.iter().filter(|t| t.from <= time && time < t.to).map(|t| t.cores).sum::<u32>()
    };
    // It only gets less where something begins.
    let begins = taken.iter().map(|t| t.from).filter(|&from| from > start && from < start + duration);
    free_at(start) >= want && begins.into_iter().all(|time| free_at(time) >= want)
}

/// The earliest time at which they can be had: now, or when something ends.
fn earliest(cores: u32, taken: &[Taken], want: u32, now: f64, duration: f64) -> f64 {
    let ends = taken.iter().map(|t| t.to).filter(|&to| to > now);
    let mut times: Vec<f64> = std::iter::once(now).chain(ends).collect();
    times.sort_by(f64::total_cmp);
    times.into_iter().find(|&time| room(cores, taken, want, time, duration)).expect("nothing runs for ever")
}

#[derive(Debug, Clone, Copy)]
struct Running {
    job: Job,
    start: f64,
}

impl Running {
    fn taken(&self) -> Taken {
        Taken { from: self.start, to: self.start + self.job.limit, cores: self.job.cores }
    }
}

struct Machine {
    now: f64,
    cores: u32,
    running: Vec<Running>,
    /// In the order of submission, then id; with the promise of the last pass.
    queue: Vec<(Job, f64)>,
    starts: Starts,
    /// Every job that arrived so far.
    seen: Vec<Job>,
}

impl Machine {
    fn start(&mut self, job: Job) {
        self.queue.retain(|(waiting, _)| waiting.id != job.id);
        self.running.push(Running { job, start: self.now });
        self.starts.insert(job.id, self.now);
    }

    /// Core-seconds of a user until now, each second decayed since.
    fn usage(&self, user: u32, half_life: f64) -> f64 {
        let of = |job: &&Job| job.user == user && self.starts.contains_key(&job.id);
        let spent = self.seen.iter().filter(of).map(|job| {
            let start = self.starts[&job.id];
            let end = (start + job.run_time()).min(self.now);
            // The integral of 2^(-(now - t) / half-life) from start to end.
            let until = |t: f64| f64::exp2(-(self.now - t) / half_life);
            f64::from(job.cores) * half_life / std::f64::consts::LN_2 * (until(end) - until(start))
        });
        spent.sum()
    }

    /// Users that were seen, and the fair share of each: 2^-(its part of all usage / its part of all users).
    fn fair_shares(&self, half_life: f64) -> BTreeMap<u32, f64> {
        let mut users: Vec<u32> = self.seen.iter().map(|job| job.user).collect();
        users.sort_unstable();
        users.dedup();
        let usage: Vec<f64> = users.iter().map(|user| self.usage(*user, half_life)).collect();
        let all: f64 = usage.iter().sum();
        let fair = |used: f64| if all > 0.0 { f64::exp2(-(used / all) * users.len() as f64) } else { 1.0 };
        users.iter().zip(usage).map(|(user, used)| (*user, fair(used))).collect()
    }

    fn pass(&mut self, rule: Rule) {
        let mut turns = self.queue.clone();
        let most = match rule {
            Rule::InOrder { key, depth } => {
                turns.sort_by(|a, b| key(self.now, &a.0).total_cmp(&key(self.now, &b.0)));
                depth
            }
            Rule::Conservative { by_promise } => {
                if by_promise {
                    turns.sort_by(|a, b| a.1.total_cmp(&b.1));
                }
                usize::MAX
            }
            Rule::Multifactor { weights: [age, fair, size], max_age, half_life, depth } => {
                let shares = self.fair_shares(half_life);
                let score = |job: &Job| {
                    let old = ((self.now - job.submit) / max_age).min(1.0);
                    let large = f64::from(job.cores) / f64::from(self.cores);
                    // Everybody has priority 16 of 31.
                    let sum = age * old + fair * shares[&job.user] + size * large + 16.0 / 31.0;
                    (sum * 1e9).round()
                };
                turns.sort_by(|a, b| score(&b.0).total_cmp(&score(&a.0)));
                depth
            }
        };
        let mut guaranteed: Vec<Taken> = Vec::new();
        for (job, _) in turns {
            let taken: Vec<Taken> =
                self.running.iter().map(Running::taken).chain(guaranteed.iter().copied()).collect();
            if room(self.cores, &taken, job.cores, self.now, job.limit) {
                self.start(job);
            } else if most == 0 {
                return;
            } else if guaranteed.len() < most {
                let from = earliest(self.cores, &taken, job.cores, self.now, job.limit);
                guaranteed.push(Taken { from, to: from + job.limit, cores: job.cores });
                let waiting = self.queue.iter_mut().find(|(waiting, _)| waiting.id == job.id);
                waiting.expect("it waits").1 = from;
            }
        }
    }
}

/// Every job's start under a rule. Also says how often a promise moved back, seconds in all.
pub fn schedule(jobs: &[Job], cores: u32, rule: Rule) -> (Starts, f64) {
    let mut coming: Vec<Job> = jobs.iter().copied().filter(|job| job.cores <= cores).collect();
    coming.sort_by(|a, b| b.submit.total_cmp(&a.submit).then(b.id.cmp(&a.id)));
    let mut machine = Machine {
        now: 0.0,
        cores,
        running: Vec::new(),
        queue: Vec::new(),
        starts: Starts::new(),
        seen: Vec::new(),
    };
    let mut moved_back = 0.0;
    loop {
        let ends = machine.running.iter().map(|r| r.start + r.job.run_time());
        let Some(now) = ends.chain(coming.last().map(|job| job.submit)).min_by(f64::total_cmp) else {
            assert!(machine.queue.is_empty(), "jobs wait for an empty machine");
            return (machine.starts, moved_back);
        };
        machine.now = now;
        machine.running.retain(|r| r.start + r.job.run_time() > now);
        while let Some(job) = coming.pop_if(|job| job.submit <= now) {
            machine.queue.push((job, f64::INFINITY));
            machine.seen.push(job);
        }
        let before = machine.queue.clone();
        machine.pass(rule);
        for (job, promise) in before.into_iter().filter(|(_, promise)| promise.is_finite()) {
            let kept = machine.queue.iter().find(|(waiting, _)| waiting.id == job.id);
            let start = kept.map_or(now, |(_, promise)| *promise);
            moved_back += (start - promise).max(0.0);
        }
    }
}
