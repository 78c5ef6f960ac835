//! The policy `formula`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

pub mod expression;
pub mod named;

use expression::{Expression, Variable};
use fluxgate_guest::backfill::{self, DEPTH_MAX};
use fluxgate_guest::prelude::*;
use named::NAMED;

/// Maximum number of jobs scored in a pass.
const WINDOW_MAX: i64 = 100_000;

/// Second 0 of `submit` and `now`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Origin {
    /// The submission of the first job that this policy sees.
    FirstSeen,
    /// A time, seconds since the epoch.
    At(f64),
}

/// The policy; README.md of this crate defines its rule.
#[derive(Debug)]
pub struct Formula {
    expression: Expression,
    /// True if the largest value comes first.
    largest: bool,
    origin: Origin,
    /// Number of waiting jobs that get a reservation in one pass.
    depth: u32,
    /// Number of waiting jobs that are scored, where values change.
    window: usize,
}

impl Default for Formula {
    fn default() -> Self {
        let expression = Expression::parse("submit").unwrap_or_else(|wrong| panic!("{wrong}"));
        Formula { expression, largest: false, origin: Origin::FirstSeen, depth: 1, window: 10_000 }
    }
}

impl Policy for Formula {
    fn info() -> Info {
        Info::new("formula", "Orders the queue by an arithmetic expression, with backfilling")
            .version(env!("CARGO_PKG_VERSION"))
            .key("score", Kind::Text, "fcfs", "a published formula by name (f1, wfp3, ..), or an expression")
            .key(
                "first",
                Kind::Text,
                "auto",
                "which value comes first: smallest, largest or auto (as published)",
            )
            .key(
                "origin",
                Kind::Text,
                "first-seen",
                "second 0 of submit: first-seen, epoch, or seconds since then",
            )
            .key("coefficients", Kind::Text, "rounded", "of f1 to f4: rounded (as published) or fitted")
            .key("depth", Kind::Integer, "1", "how many waiting jobs have a reservation, 0 to 1000")
            .key("window", Kind::Integer, "10000", "how many waiting jobs are scored, 1 to 100000")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        let score = config.text("score")?;
        let named = NAMED.iter().find(|named| named.name == score);
        let fitted = match config.text("coefficients")? {
            "rounded" => false,
            "fitted" => true,
            other => return Err(format!("`coefficients` is `{other}`, but must be rounded or fitted")),
        };
        let text = match named {
            Some(named) if fitted => named.fitted.ok_or_else(|| {
                format!("`coefficients` is fitted, but {} has no such; f1 to f4 have", named.name)
            })?,
            Some(named) => named.text,
            None => score,
        };
        self.expression = Expression::parse(text).map_err(|wrong| {
            let names = NAMED.map(|named| named.name).join(", ");
            format!("`score`: {wrong}; or one of the names {names}")
        })?;
        self.largest = match config.text("first")? {
            "auto" => named.is_some_and(|named| named.largest),
            "smallest" => false,
            "largest" => true,
            other => return Err(format!("`first` is `{other}`, but must be smallest, largest or auto")),
        };
        self.origin = match config.text("origin")? {
            "first-seen" => Origin::FirstSeen,
            "epoch" => Origin::At(0.0),
            other => {
                let wrong = || format!("`origin` is `{other}`, but must be first-seen, epoch or seconds");
                Origin::At(other.parse().ok().filter(|at: &f64| at.is_finite()).ok_or_else(wrong)?)
            }
        };
        self.depth = config.integer_in("depth", 0..=DEPTH_MAX)? as u32;
        self.window = config.integer_in("window", 1..=WINDOW_MAX)? as usize;
        Ok(())
    }
}

/// Values of the queue, beside those of the request of a job.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    longest_wait: f64,
    shortest_request: f64,
}

impl Queue {
    fn of<'a>(now: f64, jobs: impl Iterator<Item = &'a Job>) -> Self {
        let mut queue = Queue { longest_wait: 0.0, shortest_request: f64::INFINITY };
        for job in jobs {
            queue.longest_wait = queue.longest_wait.max(now - job.t_submit);
            queue.shortest_request = queue.shortest_request.min(job.duration);
        }
        queue
    }
}

impl Formula {
    /// Second 0, which the first job sets.
    fn zero(&mut self, first: f64) -> f64 {
        match self.origin {
            Origin::At(zero) => zero,
            Origin::FirstSeen => {
                self.origin = Origin::At(first);
                first
            }
        }
    }

    /// The key of a job: smallest first, jobs without a value last.
    fn key_of(&self, now: f64, zero: f64, job: &Job, queue: Queue) -> f64 {
        let value = self.expression.value(|variable| match variable {
            Variable::Submit => job.t_submit - zero,
            Variable::Duration => job.duration,
            Variable::Cores => f64::from(job.cores.max(1)),
            Variable::Nodes => f64::from(job.nodes),
            Variable::Gpus => f64::from(job.gpus),
            Variable::Wait => now - job.t_submit,
            Variable::Now => now - zero,
            Variable::Priority => f64::from(job.priority),
            Variable::User => f64::from(job.userid),
            Variable::Queue => f64::from(job.queue),
            Variable::LongestWait => queue.longest_wait,
            Variable::ShortestRequest => queue.shortest_request,
        });
        match self.largest {
            _ if value.is_nan() => f64::INFINITY,
            true => -value,
            false => value,
        }
    }
}

impl Ordering for Formula {
    fn key(&mut self, now: f64, job: &Job) -> f64 {
        let zero = self.zero(job.t_submit);
        self.key_of(now, zero, job, Queue::of(now, std::iter::once(job)))
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Vec<f64> {
        let jobs: Vec<Job> = jobs.rows().collect();
        let Some(first) = jobs.iter().map(|job| job.t_submit).min_by(f64::total_cmp) else {
            return Vec::new();
        };
        let (zero, queue) = (self.zero(first), Queue::of(now, jobs.iter()));
        jobs.iter().map(|job| self.key_of(now, zero, job, queue)).collect()
    }
}

impl Scheduling for Formula {
    fn run(&mut self, pass: &mut dyn Pass) {
        if !self.expression.changes() {
            return backfill::always_in_queue_order(pass, self.depth);
        }
        let mut waiting = Vec::new();
        each_job(pass, self.window, |candidate, job| waiting.push((candidate, job)));
        let Some(first) = waiting.iter().map(|(_, job)| job.t_submit).min_by(f64::total_cmp) else { return };
        let now = pass.now();
        let (zero, queue) = (self.zero(first), Queue::of(now, waiting.iter().map(|(_, job)| job)));
        let mut keyed: Vec<_> = waiting
            .iter()
            .map(|(candidate, job)| {
                let key = self.key_of(now, zero, job, queue);
                // Zeros of both signs are one key, and ties come by submission.
                let key = if key == 0.0 { 0.0 } else { key };
                (job.priority != u32::MAX, key, u32::MAX - job.priority, job.t_submit, job.id, *candidate)
            })
            .collect();
        keyed.sort_by(|a, b| {
            a.0.cmp(&b.0)
                .then(a.1.total_cmp(&b.1))
                .then(a.2.cmp(&b.2))
                .then(a.3.total_cmp(&b.3))
                .then(a.4.cmp(&b.4))
        });
        backfill::in_order_of(pass, self.depth, keyed.into_iter().map(|(.., candidate)| candidate));
    }
}

/// Version of the format of its state.
const STATE_VERSION: u32 = 1;

/// Second 0 where it is the first job that was seen: the bits of the seconds since the epoch, or nothing.
impl State for Formula {
    fn save(&self) -> Saved {
        let data = match self.origin {
            Origin::At(zero) => zero.to_le_bytes().to_vec(),
            Origin::FirstSeen => Vec::new(),
        };
        Saved { version: STATE_VERSION, data }
    }

    fn restore(&mut self, from: &str, version: u32, data: &[u8]) -> Result<(), String> {
        if (from, version) != ("formula", STATE_VERSION) {
            return Err(format!(
                "only the origin that formula saved in format {STATE_VERSION} is understood"
            ));
        }
        let zero = match data {
            [] => return Ok(()),
            _ => data.try_into().map(f64::from_le_bytes).ok().filter(|zero| zero.is_finite()),
        };
        let zero = zero.ok_or("the origin is no time")?;
        // An origin of the settings stays.
        if self.origin == Origin::FirstSeen {
            self.origin = Origin::At(zero);
        }
        Ok(())
    }
}

export_policy!(Formula: ordering, scheduling, state);

#[cfg(test)]
mod tests;
