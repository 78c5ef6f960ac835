//! The policy `multifactor`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

mod accounts;
mod decay;
mod usage;

use accounts::{Accounts, Lists};
use fluxgate_guest::backfill::{self, DEPTH_MAX};
use fluxgate_guest::groups::Heads;
use fluxgate_guest::prelude::*;

/// Maximum of `window`.
const WINDOW_MAX: i64 = 100_000;
/// Version of the format of the saved state.
const STATE_VERSION: u32 = 1;

/// Weights of the factors.
#[derive(Debug, Clone, Copy)]
struct Weights {
    age: f64,
    fair_share: f64,
    size: f64,
    priority: f64,
}

/// A number as one from 0 to 1. In a component, the functions of `f64` for this and for rounding are calls.
fn fraction(number: f64) -> f64 {
    match number {
        _ if number > 1.0 => 1.0,
        _ if number > 0.0 => number,
        _ => 0.0,
    }
}

/// The next whole number. Without a branch, of which a processor would foretell half.
fn rounded(number: f64) -> f64 {
    (number + 0.5).floor()
}

/// A weight that is accepted.
fn weight(key: &str, value: f64) -> Result<f64, String> {
    match value.is_finite() && value >= 0.0 {
        true => Ok(value),
        false => Err(format!("`{key}` is {value}, but must be a finite number, 0 or more")),
    }
}

/// The weighted factors of age and priority of the last job of a pass: many jobs have the same submission and priority.
#[derive(Debug, Default)]
struct Last {
    t_submit: Option<f64>,
    age: f64,
    priority: Option<u32>,
    /// Of both.
    sum: f64,
}

/// The policy; README.md of this crate defines its rule.
#[derive(Debug)]
pub struct Multifactor {
    weights: Weights,
    max_age: f64,
    small: bool,
    priority_full: f64,
    damping: f64,
    accounts: Accounts,
    heads: Heads,
    lists: Lists,
    /// Number of waiting jobs that get a reservation in one pass.
    depth: u32,
    /// Number of waiting jobs that are considered; 0: all.
    window: usize,
}

impl Default for Multifactor {
    fn default() -> Self {
        Multifactor {
            weights: Weights { age: 1.0, fair_share: 1.0, size: 0.0, priority: 1.0 },
            max_age: 604_800.0,
            small: false,
            priority_full: 31.0,
            damping: 1.0,
            accounts: Accounts::default(),
            heads: Heads::default(),
            lists: Lists::default(),
            depth: 1,
            window: 0,
        }
    }
}

impl Policy for Multifactor {
    fn info() -> Info {
        Info::new("multifactor", "Age, fair share, size and priority, weighted, with backfilling")
            .version(env!("CARGO_PKG_VERSION"))
            .key("weight-age", Kind::Float, "1", "what a wait of max-age counts, 0 or more")
            .key("weight-fair-share", Kind::Float, "1", "what an account counts that used nothing, 0 or more")
            .key("weight-size", Kind::Float, "0", "what a job of the favoured size counts, 0 or more")
            .key("weight-priority", Kind::Float, "1", "what a job of priority-full counts, 0 or more")
            .key("max-age", Kind::Duration, "7d", "wait after which a job gets no older")
            .key("half-life", Kind::Duration, "7d", "time in which usage is half forgotten; inf: never")
            .key("damping", Kind::Float, "1", "how slowly usage tells, above 0")
            .key("shares", Kind::Text, "", "shares of accounts or users, NAME=NUMBER, ...; 1 where not named")
            .key("accounts", Kind::Text, "", "users of accounts, NAME=USER USER, ...; others are their own")
            .key("favor", Kind::Text, "large", "the size that weight-size is for: large or small")
            .key("priority-full", Kind::Integer, "31", "priority that counts in full, 1 to 4294967294")
            .key("depth", Kind::Integer, "1", "how many waiting jobs have a reservation, 0 to 1000")
            .key("window", Kind::Integer, "0", "how many waiting jobs are considered, 0 to 100000; 0: all")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        let mut weights = [0.0; 4];
        for (value, key) in weights.iter_mut().zip(Multifactor::WEIGHTS) {
            *value = config.float(key)?;
        }
        self.weigh(weights)?;
        let positive = |key: &str, value: f64| match value > 0.0 {
            true => Ok(value),
            false => Err(format!("`{key}` is {value}, but must be above 0")),
        };
        self.max_age = positive("max-age", config.duration("max-age")?)?;
        self.damping = positive("damping", config.float("damping")?)?;
        let half_life = positive("half-life", config.duration("half-life")?)?;
        self.accounts = Accounts::new(half_life, config.text("shares")?, config.text("accounts")?)?;
        self.small = match config.text("favor")? {
            "large" => false,
            "small" => true,
            other => return Err(format!("`favor` is {other}, but must be large or small")),
        };
        self.priority_full = config.integer_in("priority-full", 1..=i64::from(u32::MAX) - 1)? as f64;
        self.depth = config.integer_in("depth", 0..=DEPTH_MAX)? as u32;
        self.window = config.integer_in("window", 0..=WINDOW_MAX)? as usize;
        Ok(())
    }
}

impl Multifactor {
    /// The settings of the weights, in the order of [`Multifactor::weigh`].
    pub const WEIGHTS: [&'static str; 4] =
        ["weight-age", "weight-fair-share", "weight-size", "weight-priority"];

    /// Takes other weights from the next pass on; usage stays.
    ///
    /// # Errors
    /// A weight that is no finite number of 0 or more.
    pub fn weigh(&mut self, weights: [f64; 4]) -> Result<(), String> {
        for (key, value) in Multifactor::WEIGHTS.into_iter().zip(weights) {
            weight(key, value)?;
        }
        let [age, fair_share, size, priority] = weights;
        self.weights = Weights { age, fair_share, size, priority };
        Ok(())
    }

    /// The factor of the size of a job.
    fn size(&self, machine_cores: u32, job: &Job) -> f64 {
        let size = fraction(f64::from(job.cores.max(1)) / f64::from(machine_cores.max(1)));
        if self.small { 1.0 - size } else { size }
    }

    /// The sum of weighted factors, each from 0 to 1, in billionths. `last` has the weighted factors of the job before at this time.
    #[inline(always)]
    fn score(&self, now: f64, machine_cores: u32, fair_share: f64, job: &Job, last: &mut Last) -> f64 {
        if job.priority == u32::MAX {
            return f64::INFINITY;
        }
        let w = &self.weights;
        let same = last.t_submit == Some(job.t_submit);
        if !same {
            last.t_submit = Some(job.t_submit);
            last.age = w.age * fraction((now - job.t_submit) / self.max_age);
        }
        if !same || last.priority != Some(job.priority) {
            last.priority = Some(job.priority);
            last.sum = last.age + w.priority * fraction(f64::from(job.priority) / self.priority_full);
        }
        let mut sum = last.sum + w.fair_share * fair_share;
        if w.size > 0.0 {
            sum += w.size * self.size(machine_cores, job);
        }
        rounded(sum * 1e9)
    }
}

/// The scores of one pass.
struct Scores<'a> {
    of: &'a Multifactor,
    now: f64,
    cores: u32,
    /// The memory of the factors, until they are computed.
    lists: Lists,
    factors: Option<accounts::Factors<'a>>,
    last: Last,
}

impl Scores<'_> {
    /// Part of each loop over jobs, since a call takes as long as the sum.
    #[inline(always)]
    fn of_job(&mut self, job: &Job) -> f64 {
        let Scores { of, now, cores, lists, factors, last } = self;
        let anew = || of.accounts.factors(*now, of.damping, std::mem::take(lists));
        let fair_share = factors.get_or_insert_with(anew).of(job.userid);
        of.score(*now, *cores, fair_share, job, last)
    }
}

impl Ordering for Multifactor {
    /// The host's order stays; the policy learns here of jobs and their users.
    fn key(&mut self, _now: f64, job: &Job) -> f64 {
        self.accounts.waits(job);
        0.0
    }
}

impl Observing for Multifactor {
    fn observe(&mut self, _now: f64, events: &[JobEvent]) {
        for event in events {
            match event.what {
                Happened::Started { .. } => self.accounts.starts(event.job, event.time),
                Happened::Ended { .. } => self.accounts.ends(event.job, event.time),
                Happened::Removed => self.accounts.leaves(event.job),
                _ => {}
            }
        }
    }
}

impl Scheduling for Multifactor {
    fn run(&mut self, pass: &mut dyn Pass) {
        let now = pass.now();
        let cores = if self.weights.size > 0.0 { pass.totals().cores } else { 0 };
        let mut heads = std::mem::take(&mut self.heads);
        let lists = std::mem::take(&mut self.lists);
        // In most passes no two jobs have to be compared.
        let mut scores = Scores { of: self, now, cores, lists, factors: None, last: Last::default() };
        let (depth, by_cores) = (self.depth, self.weights.size > 0.0);
        match self.window {
            // Jobs of one user, priority and size differ by their age alone.
            0 => backfill::by_group_score(pass, &mut heads, depth, by_cores, |job| scores.of_job(job)),
            window => backfill::by_score(pass, depth, window, |job| scores.of_job(job)),
        }
        let Scores { lists, factors, .. } = scores;
        self.lists = factors.map_or(lists, accounts::Factors::into_lists);
        self.heads = heads;
    }
}

impl State for Multifactor {
    fn save(&self) -> Saved {
        Saved { version: STATE_VERSION, data: self.accounts.save().into_bytes() }
    }

    fn restore(&mut self, from: &str, version: u32, data: &[u8]) -> Result<(), String> {
        if (from, version) != ("multifactor", STATE_VERSION) {
            return Err(format!("only usage that multifactor saved in format {STATE_VERSION} is understood"));
        }
        let text = std::str::from_utf8(data).map_err(|_| "the usage is no text".to_owned())?;
        self.accounts.restore(text)
    }
}

export_policy!(Multifactor: ordering, scheduling, observing, state);

#[cfg(test)]
mod tests;
