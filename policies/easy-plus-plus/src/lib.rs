//! The policy `easy-plus-plus`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

mod learned;

use fluxgate_guest::backfill::PASSED_OVER_MAX;
use fluxgate_guest::prelude::*;
use learned::{Corrections, Learned};

/// Maximum number of a user's jobs for a prediction.
const HISTORY_MAX: i64 = 100;
/// Maximum number of jobs considered behind the first that waits.
const WINDOW_MAX: i64 = 100_000;
/// Version of the format of the saved state.
const STATE_VERSION: u32 = 1;

/// The policy; README.md of this crate defines its rule.
#[derive(Debug)]
pub struct EasyPlusPlus {
    learned: Learned,
    corrections: Corrections,
    /// True if short jobs come first behind the first that waits.
    shortest_first: bool,
    /// Number of jobs considered behind it.
    window: usize,
}

impl Default for EasyPlusPlus {
    fn default() -> Self {
        let corrections = Corrections::default();
        EasyPlusPlus { learned: Learned::new(2), corrections, shortest_first: true, window: 10_000 }
    }
}

impl Policy for EasyPlusPlus {
    fn info() -> Info {
        Info::new(
            "easy-plus-plus",
            "EASY by predicted run times, short jobs first behind the first that waits",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .key("history", Kind::Integer, "2", "last jobs of the user that make a prediction, 0 to 100; 0: none")
        .key(
            "predict",
            Kind::Text,
            "pass",
            "when a waiting job is predicted: pass (in each) or submission (once)",
        )
        .key(
            "corrections",
            Kind::Text,
            "added",
            "to what a correction is added: added (the last) or offsets (the first)",
        )
        .key("backfill", Kind::Text, "shortest", "order behind the first that waits: shortest or queue")
        .key("window", Kind::Integer, "10000", "jobs behind it that are looked at, 1 to 100000")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        let learned = Learned::new(config.integer_in("history", 0..=HISTORY_MAX)? as usize);
        self.learned = match config.text("predict")? {
            "pass" => learned,
            "submission" => learned.at_submission(),
            other => return Err(format!("`predict` is `{other}`, but must be pass or submission")),
        };
        self.corrections = match config.text("corrections")? {
            "added" => Corrections::Added,
            "offsets" => Corrections::Offsets,
            other => return Err(format!("`corrections` is `{other}`, but must be added or offsets")),
        };
        self.shortest_first = match config.text("backfill")? {
            "shortest" => true,
            "queue" => false,
            other => return Err(format!("`backfill` is `{other}`, but must be shortest or queue")),
        };
        self.window = config.integer_in("window", 1..=WINDOW_MAX)? as usize;
        Ok(())
    }
}

/// Maximum number of cores that a request may need: all cores of each node that it requests.
fn needs(totals: &Totals, job: &Job) -> u64 {
    let node = u64::from(totals.cores).div_ceil(u64::from(totals.nodes.max(1)));
    u64::from(job.cores.max(1)).max(u64::from(job.nodes) * node)
}

/// The condition that a start must not violate.
#[derive(Debug, Clone, Copy)]
enum Guard {
    /// The first that waits is expected to start at `shadow`, when `extra` cores are left beside it.
    Predicted { shadow: f64, extra: u64 },
    /// The host keeps a reservation.
    ByHost,
}

/// Cores held by jobs that started in this pass, and their expected ends.
type Fresh = Vec<(f64, u64)>;

impl EasyPlusPlus {
    /// Starts a job, and determines its cores.
    fn start(&mut self, pass: &mut dyn Pass, candidate: Candidate, job: &Job) -> Result<u64, Refusal> {
        let before = pass.totals().free_cores;
        pass.start(candidate)?;
        let took = before.saturating_sub(pass.totals().free_cores);
        self.learned.takes(job.id, took);
        Ok(u64::from(took))
    }

    /// The expected start of the first job that waits, by counting cores. `None` where the count does not determine it.
    fn shadow(&self, now: f64, fresh: &Fresh, totals: &Totals, job: &Job) -> Option<Guard> {
        let (needs, mut free) = (needs(totals, job), u64::from(totals.free_cores));
        if needs <= free {
            return None;
        }
        let running =
            self.learned.running().map(|held| (held.end(now, self.corrections), u64::from(held.cores)));
        let mut ends: Vec<(f64, u64)> = running.chain(fresh.iter().copied()).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut shadow = now;
        for (end, cores) in ends {
            if free >= needs && end > shadow {
                break;
            }
            (shadow, free) = (end, free + cores);
        }
        (free >= needs && shadow.is_finite()).then(|| Guard::Predicted { shadow, extra: free - needs })
    }

    /// Starts jobs in the order of the queue, until one waits that has an expected start. `None` ends the pass.
    fn head(&mut self, pass: &mut dyn Pass, fresh: &mut Fresh) -> Option<Guard> {
        let now = pass.now();
        let mut passed_over = 0;
        while passed_over < PASSED_OVER_MAX {
            let candidate = pass.next()?;
            let job = pass.describe(candidate);
            let length = self.learned.predict_for(&job);
            match self.start(pass, candidate, &job) {
                Ok(took) => fresh.push((now + length, took)),
                Err(Refusal::Limit) => return None,
                Err(Refusal::Unsatisfiable | Refusal::NotEligible) => {}
                Err(refusal @ (Refusal::Busy | Refusal::DelaysReservation)) => {
                    let guard = self.shadow(now, fresh, &pass.totals(), &job);
                    if let (Refusal::Busy, Some(guard)) = (refusal, guard) {
                        return Some(guard);
                    }
                    match pass.reserve(candidate) {
                        Ok(time) if time.is_finite() => return Some(Guard::ByHost),
                        Err(Refusal::Limit) => return None,
                        Ok(_) | Err(_) => passed_over += 1,
                    }
                }
            }
        }
        Some(Guard::ByHost)
    }

    /// Starts jobs behind it.
    fn backfill(&mut self, pass: &mut dyn Pass, mut guard: Guard) {
        let (now, totals) = (pass.now(), pass.totals());
        let may = |guard: &Guard, end: f64, needs: u64| match guard {
            Guard::Predicted { shadow, extra } => end <= *shadow || needs <= *extra,
            Guard::ByHost => true,
        };
        let free = u64::from(totals.free_cores);
        let mut jobs = Vec::new();
        if free > 0 {
            each_job(pass, self.window, |candidate, job| {
                let length = self.learned.predict_for(&job);
                // Whole nodes may be nearly empty nodes: the host knows better which jobs cannot start at all.
                let fits = u64::from(job.cores) <= free;
                if fits && may(&guard, now + length, needs(&totals, &job)) {
                    jobs.push((length, candidate, job));
                }
            });
        }
        if self.shortest_first {
            // A stable sort: the host's order among equals.
            let key = |job: &Job, length: f64| if job.priority == u32::MAX { -1.0 } else { length };
            jobs.sort_by(|(a, _, one), (b, _, two)| key(one, *a).total_cmp(&key(two, *b)));
        }
        let mut free = free;
        for (length, candidate, job) in jobs {
            let needs = needs(&totals, &job);
            if u64::from(job.cores) > free || !may(&guard, now + length, needs) {
                continue;
            }
            match self.start(pass, candidate, &job) {
                Ok(took) => {
                    free = free.saturating_sub(took);
                    if let Guard::Predicted { shadow, extra } = &mut guard
                        && now + length > *shadow
                    {
                        *extra = extra.saturating_sub(took);
                    }
                }
                Err(Refusal::Limit) => return,
                Err(_) => {}
            }
        }
    }
}

impl Ordering for EasyPlusPlus {
    /// The host's order stays; the policy learns here of jobs and their users.
    fn key(&mut self, _now: f64, job: &Job) -> f64 {
        self.learned.waits(job, job.cores);
        0.0
    }
}

impl Observing for EasyPlusPlus {
    fn observe(&mut self, _now: f64, events: &[JobEvent]) {
        for event in events {
            match event.what {
                Happened::Started { end } => self.learned.starts(event.job, event.time, end),
                Happened::Ended { .. } => self.learned.ends(event.job, event.time),
                Happened::Removed => self.learned.leaves(event.job),
                Happened::Expiration { end } => self.learned.limited(event.job, end),
                Happened::Pending | Happened::Priority { .. } => {}
            }
        }
    }
}

impl Scheduling for EasyPlusPlus {
    fn run(&mut self, pass: &mut dyn Pass) {
        let Some(guard) = self.head(pass, &mut Fresh::new()) else { return };
        self.backfill(pass, guard);
        if let Guard::Predicted { shadow, .. } = guard {
            // The first job that waits starts then, or a running job has outlived its prediction.
            pass.wake_at(shadow);
        }
    }
}

impl State for EasyPlusPlus {
    fn save(&self) -> Saved {
        Saved { version: STATE_VERSION, data: self.learned.save().into_bytes() }
    }

    fn restore(&mut self, from: &str, version: u32, data: &[u8]) -> Result<(), String> {
        if (from, version) != ("easy-plus-plus", STATE_VERSION) {
            return Err(format!("only what easy-plus-plus saved in format {STATE_VERSION} is understood"));
        }
        let text = std::str::from_utf8(data).map_err(|_| "what was learned is no text".to_owned())?;
        self.learned.restore(text)
    }
}

export_policy!(EasyPlusPlus: ordering, scheduling, observing, state);

#[cfg(test)]
mod tests;
