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
    /// EASY; behind the first job that waits the widest come first.
    BestFit,
    /// EASY by predicted run times.
    Predicted {
        /// Jobs of a user whose mean length is the prediction; with 0, and until there are so many, it is what is requested.
        history: usize,
        /// Behind the first that waits, shortest prediction first.
        shortest: bool,
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
    /// How long it was predicted to run when it started.
    predicted: f64,
}

impl Running {
    fn taken(&self) -> Taken {
        Taken { from: self.start, to: self.start + self.job.limit, cores: self.job.cores }
    }

    /// When it is expected to end, after a correction for each time that it outlived its prediction.
    fn expected_end(&self, now: f64) -> f64 {
        let minutes = [1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000].into_iter();
        let mut corrections = minutes.chain(std::iter::repeat(6000)).map(|minutes| f64::from(minutes * 60));
        let mut length = self.predicted;
        while self.start + length.min(self.job.limit) <= now {
            length += corrections.next().expect("there is always another");
        }
        self.start + length.min(self.job.limit)
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
    /// Users and lengths of jobs that ended, in that order.
    ended: Vec<(u32, f64)>,
    /// How many of them make a prediction.
    history: usize,
    /// When the policy wants another pass.
    wake: Option<f64>,
}

impl Machine {
    fn start(&mut self, job: Job) {
        self.queue.retain(|(waiting, _)| waiting.id != job.id);
        self.running.push(Running { job, start: self.now, predicted: self.predict(&job) });
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

    /// The mean length of the last jobs of the user, or what the job requests where that is less or these are too few.
    fn predict(&self, job: &Job) -> f64 {
        let of_user: Vec<f64> =
            self.ended.iter().filter(|(user, _)| *user == job.user).map(|e| e.1).collect();
        let few = self.history == 0 || of_user.len() < self.history;
        let last = &of_user[of_user.len() - if few { 0 } else { self.history }..];
        let mean = if few { job.limit } else { last.iter().sum::<f64>() / self.history as f64 };
        mean.min(job.limit).max(1.0)
    }

    fn free(&self) -> u32 {
        self.cores - self.running.iter().map(|r| r.job.cores).sum::<u32>()
    }

    /// The first job that waits is expected to start at the shadow time; the others may neither be expected to run beyond
    /// it nor take more cores than are left then.
    fn predicted_pass(&mut self, shortest: bool) {
        while let Some((job, _)) = self.queue.first().copied().filter(|(job, _)| job.cores <= self.free()) {
            self.start(job);
        }
        let Some((head, _)) = self.queue.first().copied() else { return };
        let free_at = |time: f64| {
            let gone = self.running.iter().filter(|r| r.expected_end(self.now) <= time);
            self.free() + gone.map(|r| r.job.cores).sum::<u32>()
        };
        let mut ends: Vec<f64> = self.running.iter().map(|r| r.expected_end(self.now)).collect();
        ends.sort_by(f64::total_cmp);
        let shadow = ends.into_iter().find(|&end| free_at(end) >= head.cores).expect("it fits the machine");
        let mut extra = free_at(shadow) - head.cores;
        let mut others: Vec<Job> = self.queue[1..].iter().map(|(job, _)| *job).collect();
        if shortest {
            others.sort_by(|a, b| self.predict(a).total_cmp(&self.predict(b)));
        }
        for job in others {
            let in_time = self.now + self.predict(&job) <= shadow;
            if job.cores <= self.free() && (in_time || job.cores <= extra) {
                extra -= if in_time { 0 } else { job.cores };
                self.start(job);
            }
        }
        self.wake = Some(shadow);
    }

    fn pass(&mut self, rule: Rule) {
        self.wake = None;
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
            Rule::BestFit => {
                // Who waits is not known before those ahead have started.
                let mut free = self.free();
                let fits = |(job, _): &&(Job, f64)| {
                    let fits = job.cores <= free;
                    free -= if fits { job.cores } else { 0 };
                    fits
                };
                let behind = turns.iter().take_while(fits).count() + 1;
                if let Some(behind) = turns.get_mut(behind..) {
                    behind.sort_by_key(|(job, _)| std::cmp::Reverse(job.cores));
                }
                1
            }
            Rule::Predicted { shortest, .. } => return self.predicted_pass(shortest),
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
        ended: Vec::new(),
        history: if let Rule::Predicted { history, .. } = rule { history } else { 0 },
        wake: None,
    };
    let mut moved_back = 0.0;
    loop {
        let ends = machine.running.iter().map(|r| r.start + r.job.run_time());
        let others = coming.last().map(|job| job.submit).into_iter().chain(machine.wake);
        let Some(now) = ends.chain(others).min_by(f64::total_cmp) else {
            assert!(machine.queue.is_empty(), "jobs wait for an empty machine");
            return (machine.starts, moved_back);
        };
        machine.now = now;
        machine.running.sort_by_key(|r| r.job.id);
        let over = machine.running.iter().filter(|r| r.start + r.job.run_time() <= now);
        machine.ended.extend(over.map(|r| (r.job.user, now - r.start)));
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
