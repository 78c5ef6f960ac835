//! The decayed usage of accounts.
//!
//! The usage of all accounts is kept as of one time T, so one power of two brings it to the present, whatever the number of accounts
//! and of running jobs. With the half-life h, a core that a running job holds since s counts at the time t
//!
//! h / ln 2 · (1 - 2^((s - t) / h)) = h / ln 2 · (1 - 2^((s - T) / h) · 2^((T - t) / h))
//!
//! So an account needs its running cores, and the sum of their 2^((s - T) / h), here their *weight*. Without decay, where a core
//! counts t - s, the weight is s - T. Weights are summed as whole numbers: the sum does not depend on the order of starts and ends, and
//! the running jobs alone tell it after a restart.
//!
//! This module knows neither users nor queues.

use crate::decay::{AT_ONCE, Decay};

/// Half-lives after which usage is brought to a later time, before weights become too large for their sums.
const FAR: f64 = 32.0;

/// Units of 1 in a sum of weights.
const UNITS: f64 = (1u64 << 60) as f64;

/// A running job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held {
    pub account: usize,
    pub cores: u32,
    /// The time of its allocation, in seconds.
    pub start: f64,
}

/// The running jobs of one account.
#[derive(Debug, Clone, Copy, Default)]
struct Running {
    /// Their cores.
    cores: u64,
    /// Sum of the weights of these cores, in parts of 1 / [`UNITS`].
    weights: i128,
}

/// The usage of [`AT_ONCE`] accounts as of the time of all, which is brought to another time at once.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    /// Decayed core-seconds of jobs that ended.
    ended: [f64; AT_ONCE],
    /// Cores of running jobs.
    cores: [f64; AT_ONCE],
    /// Sum of the weights of these cores.
    weight: [f64; AT_ONCE],
}

/// The usage of accounts by number; see the module.
#[derive(Debug, Clone)]
pub struct Usage {
    decay: Decay,
    /// The time of all usage, in seconds; `None` before any.
    at: Option<f64>,
    running: Vec<Running>,
    /// As many as the accounts need. Those behind the last account have no usage.
    groups: Vec<Group>,
}

impl Usage {
    /// No account.
    pub fn new(decay: Decay) -> Usage {
        Usage { decay, at: None, running: Vec::new(), groups: Vec::new() }
    }

    /// Adds an account without usage.
    pub fn add_account(&mut self) {
        self.running.push(Running::default());
        self.groups.resize(self.running.len().div_ceil(AT_ONCE), Group::default());
    }

    /// The time of what [`ended`](Self::ended) returns; `None` before any usage.
    pub fn at(&self) -> Option<f64> {
        self.at
    }

    /// Decayed core-seconds of the jobs of an account that ended.
    pub fn ended(&self, account: usize) -> f64 {
        self.groups[account / AT_ONCE].ended[account % AT_ONCE]
    }

    /// Prepares for an event at this time; `running` are the jobs that run before it.
    pub fn reach(&mut self, now: f64, running: impl Iterator<Item = Held>) {
        if self.at.is_none_or(|at| (now - at) / self.decay.half_life > FAR) {
            self.bring_to(now, running);
        }
    }

    /// Brings the usage to this time, which is no earlier than that of the usage.
    fn bring_to(&mut self, now: f64, running: impl Iterator<Item = Held>) {
        let left = self.decay.left(now - self.at.unwrap_or(now));
        self.at = Some(now);
        self.running.fill(Running::default());
        for group in &mut self.groups {
            *group = Group { ended: group.ended.map(|ended| ended * left), ..Group::default() };
        }
        running.for_each(|job| self.starts(job));
    }

    /// Units that the cores of a job add to the weights.
    fn units(&self, job: Held) -> i128 {
        let since = job.start - self.at.unwrap_or(job.start);
        (f64::from(job.cores) * self.decay.weight(since) * UNITS) as i128
    }

    /// A job runs from now on.
    pub fn starts(&mut self, job: Held) {
        let units = self.units(job);
        let running = &mut self.running[job.account];
        running.cores += u64::from(job.cores);
        running.weights = running.weights.wrapping_add(units);
        self.sum(job.account);
    }

    /// The numbers of the running jobs of an account, for sums.
    fn sum(&mut self, account: usize) {
        let (running, group) = (self.running[account], &mut self.groups[account / AT_ONCE]);
        group.cores[account % AT_ONCE] = running.cores as f64;
        group.weight[account % AT_ONCE] = running.weights as f64 / UNITS;
    }

    /// A running job has not run.
    pub fn forget(&mut self, job: Held) {
        let units = self.units(job);
        let running = &mut self.running[job.account];
        running.cores = running.cores.saturating_sub(job.cores.into());
        running.weights = running.weights.wrapping_sub(units);
        self.sum(job.account);
    }

    /// A running job has ended at this time.
    pub fn ends(&mut self, job: Held, end: f64) {
        self.forget(job);
        // An end before the last one known is reported late; its usage is older by the difference.
        let more = self.decay.held(end - job.start) * self.decay.growth(end - self.at.unwrap_or(end));
        self.groups[job.account / AT_ONCE].ended[job.account % AT_ONCE] += f64::from(job.cores) * more;
    }

    /// Fills a list with decayed core-seconds by account at this time, for [`AT_ONCE`] accounts or several times as many.
    #[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
    pub fn by_account(&self, now: f64, used: &mut Vec<f64>) {
        let seconds = now - self.at.unwrap_or(now);
        let left = self.decay.left(seconds);
        used.clear();
        for of in &self.groups {
            let running = self.decay.held_of(&of.cores, &of.weight, seconds, left);
            // `f64::max` is a call in a component.
            let running = running.map(|running| if running > 0.0 { running } else { 0.0 });
            let all: [f64; AT_ONCE] = std::array::from_fn(|at| of.ended[at] * left + running[at]);
            used.extend_from_slice(&all);
        }
    }

    /// Sets decayed core-seconds of ended jobs, by account and with their time. `running` are all running jobs.
    pub fn restore(
        &mut self,
        ended: &[(usize, f64, Option<f64>)],
        running: impl Iterator<Item = Held> + Clone,
    ) {
        let times = ended.iter().filter_map(|(.., at)| *at).chain(self.at);
        let mut latest = times.max_by(f64::total_cmp);
        let start = running.clone().map(|job| job.start).max_by(f64::total_cmp);
        if let Some(start) =
            start.filter(|start| latest.is_none_or(|latest| (start - latest) / self.decay.half_life > FAR))
        {
            latest = Some(start);
        }
        let Some(latest) = latest else { return };
        self.bring_to(latest, running);
        for &(account, used, at) in ended {
            let used = used * self.decay.left(latest - at.unwrap_or(latest));
            self.groups[account / AT_ONCE].ended[account % AT_ONCE] = used;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers below 1, from a linear congruential generator.
    fn random(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 40) as f64 / (1u64 << 24) as f64
    }

    /// Decayed core-seconds by account at this time.
    fn by_account(usage: &Usage, now: f64) -> Vec<f64> {
        let mut used = Vec::new();
        usage.by_account(now, &mut used);
        assert_eq!(used.len() % AT_ONCE, 0);
        assert!(used.split_off(usage.running.len()).iter().all(|used| *used == 0.0));
        used
    }

    /// The usage of a job at this time by the definition.
    fn usage_of(decay: Decay, job: Held, end: f64, now: f64) -> f64 {
        let end = end.min(now);
        f64::from(job.cores) * decay.held(end - job.start) * decay.left(now - end)
    }

    #[test]
    fn usage_is_the_sum_over_all_jobs() {
        for half_life in [50.0, 700.0, 1e6, f64::INFINITY] {
            let (decay, mut state) = (Decay::new(half_life), 7);
            let mut usage = Usage::new(decay);
            (0..5).for_each(|_| usage.add_account());
            let mut all: Vec<(Held, f64)> = Vec::new();
            let (mut now, mut running) = (1e9, Vec::<Held>::new());
            for step in 0..3000 {
                now += 40.0 * random(&mut state);
                usage.reach(now, running.iter().copied());
                if running.len() > 20 || random(&mut state) < 0.4 && !running.is_empty() {
                    let job = running.remove((random(&mut state) * running.len() as f64) as usize);
                    // Some ends are reported late.
                    let end = if step % 7 == 0 { (now - 20.0).max(job.start) } else { now };
                    usage.ends(job, end);
                    all.iter_mut().find(|(other, _)| *other == job).unwrap().1 = end;
                } else {
                    let account = (random(&mut state) * 5.0) as usize;
                    let job = Held { account, cores: 1 + step % 64, start: now };
                    usage.starts(job);
                    running.push(job);
                    all.push((job, f64::INFINITY));
                }
                let mut expected = [0.0; 5];
                for (job, end) in &all {
                    expected[job.account] += usage_of(decay, *job, *end, now + 5.0);
                }
                for (found, expected) in by_account(&usage, now + 5.0).into_iter().zip(expected) {
                    let wrong = (found - expected).abs() / (1.0 + expected);
                    assert!(wrong < 1e-9, "{half_life}: {found} for {expected}");
                }
                if step % 500 == 0 {
                    let ended: Vec<_> = (0..5).map(|n| (n, usage.ended(n), usage.at())).collect();
                    let mut again = Usage::new(decay);
                    (0..5).for_each(|_| again.add_account());
                    again.restore(&ended, running.iter().rev().copied());
                    let bits = |of: &Usage| {
                        by_account(of, now + 77.0).into_iter().map(f64::to_bits).collect::<Vec<_>>()
                    };
                    assert_eq!(bits(&again), bits(&usage), "what was saved tells all of it");
                }
            }
        }
    }

    #[test]
    fn usage_of_the_far_past_is_forgotten() {
        let mut usage = Usage::new(Decay::new(1.0));
        usage.add_account();
        let job = Held { account: 0, cores: 3, start: 5.0 };
        usage.reach(5.0, [].into_iter());
        usage.starts(job);
        let full = 3.0 * (1.0 / std::f64::consts::LN_2);
        assert_eq!(by_account(&usage, 1e12), [full]);
        usage.reach(1e12, [job].into_iter());
        assert_eq!(by_account(&usage, 1e12), [full]);
        usage.ends(job, 1e12);
        assert_eq!(by_account(&usage, 1e12), [full]);
        assert_eq!(by_account(&usage, 1e12 + 1.0), [full / 2.0]);
        usage.reach(2e12, [].into_iter());
        assert_eq!(by_account(&usage, 2e12), [0.0]);
    }
}
