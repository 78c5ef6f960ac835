//! The semantics of every policy, as a slow and obviously correct program: the executable form of `docs/semantics.md`.
//!
//! A machine is a number of cores, the queue is a list, and whether a job fits is found by adding up. The module shares
//! only the list of jobs with engine, graph, driver and policies.
//!
//! This module must not be optimised.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;
use fluxgate_sim::workload::Job;

/// The start of each job, in seconds. Jobs wider than the machine have none.
pub type Starts = BTreeMap<JobId, f64>;

/// The rule of the policy.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// In the order of a key (now, job), smallest first; ties by submission, then id. The first `depth` jobs that wait
    /// get a reservation; with 0 no job starts behind the first that waits.
    InOrder {
        /// The key.
        key: fn(f64, &Job) -> f64,
        /// Number of reservations.
        depth: usize,
    },
    /// Every job that waits gets a reservation. By last reserved start, then as in the queue; or as in the queue alone.
    Conservative {
        /// True if reserved starts decide the order.
        by_reservation: bool,
    },
    /// By weighted factors, largest sum in billionths first; then as [`Rule::InOrder`].
    Multifactor {
        /// Weights of age, fair share and size.
        weights: [f64; 3],
        /// Seconds after which age no longer grows.
        max_age: f64,
        /// Seconds in which usage decays to half.
        half_life: f64,
        /// Number of reservations.
        depth: usize,
    },
    /// EASY; behind the first job that waits the widest come first.
    BestFit,
    /// EASY by predicted run times.
    Predicted {
        /// Number of a user's jobs whose mean run time is the prediction; with 0, and until there are that many, it is
        /// the requested duration.
        history: usize,
        /// True if the shortest prediction is first behind the first job that waits.
        shortest: bool,
    },
}

/// Cores taken from one time until just before another.
#[derive(Debug, Clone, Copy)]
struct Taken {
    from: f64,
    to: f64,
    cores: u32,
}

/// True if this many cores are free from `start` for `duration`.
fn room(cores: u32, taken: &[Taken], want: u32, start: f64, duration: f64) -> bool {
    let free_at = |time: f64| {
        cores - taken.iter().filter(|t| t.from <= time && time < t.to).map(|t| t.cores).sum::<u32>()
    };
    // The free cores decrease only where a use begins.
    let begins = taken.iter().map(|t| t.from).filter(|&from| from > start && from < start + duration);
    free_at(start) >= want && begins.into_iter().all(|time| free_at(time) >= want)
}

/// The earliest time at which they are free: now, or when a use ends.
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
    /// Predicted run time at its start.
    predicted: f64,
}

impl Running {
    fn taken(&self) -> Taken {
        Taken { from: self.start, to: self.start + self.job.limit, cores: self.job.cores }
    }

    /// Its expected end, after a correction for each time that it outlived its prediction.
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
    /// In the order of submission, then id; with the reserved start of the last pass.
    queue: Vec<(Job, f64)>,
    starts: Starts,
    /// Every job that arrived so far.
    seen: Vec<Job>,
    /// Users and run times of jobs that ended, in that order.
    ended: Vec<(u32, f64)>,
    /// Number of them that make a prediction.
    history: usize,
    /// The time of the next pass that the policy requested.
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

    /// Users seen so far, and the fair-share factor of each: 2^-(its fraction of all usage / its fraction of all
    /// users).
    fn fair_shares(&self, half_life: f64) -> BTreeMap<u32, f64> {
        let mut users: Vec<u32> = self.seen.iter().map(|job| job.user).collect();
        users.sort_unstable();
        users.dedup();
        let usage: Vec<f64> = users.iter().map(|user| self.usage(*user, half_life)).collect();
        let all: f64 = usage.iter().sum();
        let fair = |used: f64| if all > 0.0 { f64::exp2(-(used / all) * users.len() as f64) } else { 1.0 };
        users.iter().zip(usage).map(|(user, used)| (*user, fair(used))).collect()
    }

    /// The mean run time of the user's last jobs; the requested duration where that is less or there are too few jobs.
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

    /// The first waiting job is expected to start at the shadow time. The others may neither be expected to run
    /// beyond it nor take more than the cores that remain then.
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
            Rule::Conservative { by_reservation } => {
                if by_reservation {
                    turns.sort_by(|a, b| a.1.total_cmp(&b.1));
                }
                usize::MAX
            }
            Rule::Multifactor { weights: [age, fair, size], max_age, half_life, depth } => {
                let shares = self.fair_shares(half_life);
                let score = |job: &Job| {
                    let old = ((self.now - job.submit) / max_age).min(1.0);
                    let large = f64::from(job.cores) / f64::from(self.cores);
                    // Every job has priority 16 of 31.
                    let sum = age * old + fair * shares[&job.user] + size * large + 16.0 / 31.0;
                    (sum * 1e9).round()
                };
                turns.sort_by(|a, b| score(&b.0).total_cmp(&score(&a.0)));
                depth
            }
            Rule::BestFit => {
                // The waiting jobs are known only after the jobs ahead have started.
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
        let mut reservations: Vec<Taken> = Vec::new();
        for (job, _) in turns {
            let taken: Vec<Taken> =
                self.running.iter().map(Running::taken).chain(reservations.iter().copied()).collect();
            if room(self.cores, &taken, job.cores, self.now, job.limit) {
                self.start(job);
            } else if most == 0 {
                return;
            } else if reservations.len() < most {
                let from = earliest(self.cores, &taken, job.cores, self.now, job.limit);
                reservations.push(Taken { from, to: from + job.limit, cores: job.cores });
                let waiting = self.queue.iter_mut().find(|(waiting, _)| waiting.id == job.id);
                waiting.expect("it waits").1 = from;
            }
        }
    }
}

/// Every job's start under a rule, and the sum of seconds by which reservations moved back.
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
        for (job, reserved) in before.into_iter().filter(|(_, reserved)| reserved.is_finite()) {
            let kept = machine.queue.iter().find(|(waiting, _)| waiting.id == job.id);
            let start = kept.map_or(now, |(_, reserved)| *reserved);
            moved_back += (start - reserved).max(0.0);
        }
    }
}
