//! The share of their time limits that jobs use, learned from ended jobs, and the expected length of a job by it.
//!
//! Each user has a histogram of that share, in which newer jobs have more weight. The histogram of all jobs is mixed
//! in, which matters for users with few jobs. No decision depends on it. This module must never know which jobs wait.

use rustc_hash::FxHashMap;

use crate::core::job::Running;

/// Bins of a histogram, equal parts of the limit; one more is for jobs that used all of it.
const BINS: usize = 20;
/// Factor of a job's weight when the next job of the same user ends.
const USER_FADES: f64 = 0.9;
/// Factor of a job's weight in the histogram of all jobs when the next job ends.
const ALL_FADE: f64 = 0.998;
/// Weight of the histogram of all jobs, in jobs of the user.
const PRIOR: f64 = 0.5;
/// Most users with a histogram of their own.
pub(crate) const USERS_MAX: usize = 16_384;

#[derive(Debug, Clone, Copy, Default)]
struct Histogram([f64; BINS + 1]);

impl Histogram {
    fn add(&mut self, share: f64, fade: f64) {
        self.0.iter_mut().for_each(|weight| *weight *= fade);
        self.0[((share * BINS as f64) as usize).min(BINS)] += 1.0;
    }

    fn weight(&self) -> f64 {
        self.0.iter().sum()
    }
}

/// See the module text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Habits {
    all: Histogram,
    users: FxHashMap<u32, Histogram>,
}

impl Habits {
    /// Counts a job that ended.
    pub(crate) fn ended(&mut self, job: &Running, now: f64) {
        let (ran, limit) = (now - job.start, job.end - job.start);
        let Some(user) = job.user.filter(|_| limit.is_finite() && limit > 0.0 && ran >= 0.0) else { return };
        let share = (ran / limit).min(1.0);
        self.all.add(share, ALL_FADE);
        if self.users.len() < USERS_MAX || self.users.contains_key(&user) {
            self.users.entry(user).or_default().add(share, USER_FADES);
        }
    }

    /// Expected length in seconds of a job that requested `limit` seconds and has run for `ran` of them: the mean
    /// over jobs that ran longer, of its user and with less weight of all users. Without such jobs the limit.
    pub(crate) fn length(&self, user: Option<u32>, limit: f64, ran: f64) -> f64 {
        if !limit.is_finite() {
            return limit;
        }
        let done = (ran / limit).clamp(0.0, 1.0);
        let own = user.and_then(|user| self.users.get(&user)).copied().unwrap_or_default();
        let all = self.all.weight();
        let part = if all > 0.0 { PRIOR / all } else { 0.0 };
        let (mut weight, mut sum) = (0.0, 0.0);
        for bin in 0..BINS {
            let (from, to) = (bin as f64 / BINS as f64, (bin + 1) as f64 / BINS as f64);
            if to <= done {
                continue;
            }
            let from = from.max(done);
            // The part of its bin that remains.
            let counts = (own.0[bin] + part * self.all.0[bin]) * (to - from) * BINS as f64;
            weight += counts;
            sum += counts * (from + to) / 2.0;
        }
        let whole = own.0[BINS] + part * self.all.0[BINS];
        (weight, sum) = (weight + whole, sum + whole);
        if weight > 0.0 { limit * (sum / weight) } else { limit }
    }
}
