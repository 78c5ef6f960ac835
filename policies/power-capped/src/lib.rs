//! The policy `power-capped`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

mod budget;

use fluxgate_guest::backfill::PASSED_OVER_MAX;
use fluxgate_guest::flow;
use fluxgate_guest::prelude::*;

use budget::{Amount, Budget, Hours, Use};

/// Maximum number of alternations between the budget's and the machine's earliest start, for one reservation.
const TURNS_MAX: usize = 64;

/// Maximum number of jobs considered behind the first that waits.
const WINDOW_MAX: i64 = 100_000;

/// Number of jobs behind the head in one question.
const AHEAD: usize = 64;

/// The policy; README.md of this crate defines its rule.
#[derive(Debug)]
pub struct PowerCapped {
    kind: String,
    budget: Amount,
    peak: Option<(Hours, Amount)>,
    /// Number of jobs considered behind the first that waits.
    window: usize,
}

impl Default for PowerCapped {
    fn default() -> Self {
        PowerCapped { kind: "power".to_owned(), budget: Amount::Share(100.0), peak: None, window: 1000 }
    }
}

impl Policy for PowerCapped {
    fn info() -> Info {
        Info::new("power-capped", "EASY within a budget of power that may be lower at some hours")
            .version(env!("CARGO_PKG_VERSION"))
            .key("kind", Kind::Text, "power", "what is budgeted: a kind of flow that the machine has")
            .key(
                "budget",
                Kind::Text,
                "100%",
                "most that jobs hold together: N% of it, or in W (B/s), without prefix",
            )
            .key(
                "peak-hours",
                Kind::Text,
                "",
                "hours of the day (UTC) with another budget: HH:MM-HH:MM; none if empty",
            )
            .key("peak-budget", Kind::Text, "100%", "the budget in these hours")
            .key(
                "window",
                Kind::Integer,
                "1000",
                "jobs behind the first that waits that are looked at, 1 to 100000",
            )
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        let amount = |key: &str| {
            let text = config.text(key)?;
            let wrong = || format!("`{key}` is `{text}`, but must be 0% to 100%, or a whole number");
            Amount::read(text).ok_or_else(wrong)
        };
        self.kind = config.text("kind")?.to_owned();
        self.window = config.integer_in("window", 1..=WINDOW_MAX)? as usize;
        self.budget = amount("budget")?;
        let peak = amount("peak-budget")?;
        self.peak = match config.text("peak-hours")? {
            "" => None,
            text => {
                let wrong = || format!("`peak-hours` is `{text}`, but must be two times such as 08:00-20:00");
                Some((Hours::read(text).ok_or_else(wrong)?, peak))
            }
        };
        Ok(())
    }
}

/// State of the budgeted kind in a pass.
struct Within {
    /// Index of the kind; `None` if the machine does not have it.
    kind: Option<usize>,
    /// For texts: its unit and name.
    called: String,
    budget: Budget,
    used: Use,
    /// The rest of the budget now.
    left: u64,
    now: f64,
    /// True if a job waits.
    waits: bool,
}

impl Within {
    fn new(policy: &PowerCapped, pass: &mut dyn Pass) -> Within {
        let kinds = flow::kinds(pass);
        let kind = kinds.iter().position(|kind| kind.name == policy.kind);
        let total = kind.map_or(0, |kind| kinds[kind].total);
        let budget = Budget {
            usual: policy.budget.of(total),
            peak: policy.peak.map(|(hours, amount)| (hours, amount.of(total))),
        };
        let used = Use::of(kind.map(|kind| flow::spans(pass, kind)).unwrap_or_default());
        let called = kind.map_or_else(String::new, |kind| called(&kinds[kind]));
        let now = pass.now();
        let left = budget.left(&used, now);
        Within { kind, called, budget, used, left, now, waits: false }
    }

    /// The amounts of these candidates.
    fn asked(&self, pass: &mut dyn Pass, candidates: &[Candidate]) -> Vec<u64> {
        match self.kind {
            Some(kind) => flow::asked(pass, kind, candidates),
            None => vec![0; candidates.len()],
        }
    }

    /// Starts a job with this amount if the budget allows; `None` where it does not.
    fn start(
        &mut self,
        pass: &mut dyn Pass,
        candidate: Candidate,
        amount: u64,
    ) -> Option<Result<(), Refusal>> {
        if amount == 0 {
            return Some(pass.start(candidate));
        }
        // Where the budget is short most end here.
        if amount > self.left {
            return None;
        }
        let duration = pass.describe(candidate).duration;
        if !self.used.allows(&self.budget, amount, self.now, duration) {
            return None;
        }
        let answer = pass.start(candidate);
        if answer.is_ok() {
            self.used.add(f64::NEG_INFINITY, self.now + duration, amount);
            self.left = self.budget.left(&self.used, self.now);
        }
        Some(answer)
    }

    /// True if it is more than the highest budget. The job then gets that reason.
    fn too_much(&self, pass: &mut dyn Pass, candidate: Candidate, amount: u64) -> bool {
        let (called, most) = (&self.called, self.budget.most());
        if amount > most {
            let said = format!("{{\"asked\":{amount},\"budget\":{most}}}");
            pass.annotate(candidate, "sched.over_budget", &said);
            let why = format!("\"takes {amount} {called}, the budget is never above {most}\"");
            pass.annotate(candidate, "sched.reason_pending", &why);
        }
        amount > most
    }

    /// True if the budget does not even allow it to a job alone. The job then gets that reason.
    fn never(&self, pass: &mut dyn Pass, candidate: Candidate, amount: u64, duration: f64) -> bool {
        if self.too_much(pass, candidate, amount) {
            return true;
        }
        let never = Use::default().first(&self.budget, amount, self.now, duration).is_none();
        if never {
            let called = &self.called;
            let why = format!("\"takes {amount} {called}, the budget never allows that for so long\"");
            pass.annotate(candidate, "sched.reason_pending", &why);
        }
        never
    }

    /// Reserves a job the first start that budget and machine allow.
    fn reserve(
        &mut self,
        pass: &mut dyn Pass,
        candidate: Candidate,
        amount: u64,
        duration: f64,
    ) -> Result<f64, Refusal> {
        let mut time = self.now;
        for _ in 0..TURNS_MAX {
            let Some(allowed) = self.used.first(&self.budget, amount, time, duration) else { break };
            time = flow::earliest_after(pass, candidate, allowed);
            if time.is_finite() && self.used.allows(&self.budget, amount, time, duration) {
                let start = flow::reserve_after(pass, candidate, time)?;
                self.used.add(start, start + duration, amount);
                self.left = self.budget.left(&self.used, self.now);
                return Ok(start);
            }
            if time.is_infinite() {
                break;
            }
        }
        Err(Refusal::Busy)
    }
}

/// `W of power`, as part of a JSON text.
fn called(kind: &flow::Kind) -> String {
    let unit = if kind.unit.is_empty() { "units" } else { &kind.unit };
    format!("{unit} of {}", kind.name).replace(|c: char| c.is_control() || "\"\\".contains(c), "?")
}

impl Scheduling for PowerCapped {
    fn run(&mut self, pass: &mut dyn Pass) {
        let mut within = Within::new(self, pass);
        decide(pass, &mut within, self.window);
        if within.waits
            && let Some(rise) = within.budget.next_rise(within.now)
        {
            pass.wake_at(rise);
        }
    }
}

fn decide(pass: &mut dyn Pass, within: &mut Within, window: usize) {
    let (mut passed_over, mut left) = (0, window);
    while passed_over < PASSED_OVER_MAX && left > 0 {
        let Some(job) = pass.next() else { return };
        let amount = within.asked(pass, &[job])[0];
        match within.start(pass, job, amount) {
            Some(Ok(()) | Err(Refusal::Unsatisfiable | Refusal::NotEligible)) => continue,
            Some(Err(Refusal::Limit)) => return,
            None | Some(Err(Refusal::Busy | Refusal::DelaysReservation)) => {}
        }
        // However many of these there are, a job behind them is the head.
        let duration = pass.describe(job).duration;
        if within.never(pass, job, amount, duration) {
            left -= 1;
            continue;
        }
        within.waits = true;
        match within.reserve(pass, job, amount, duration) {
            Ok(_) => break,
            Err(Refusal::Limit) => return,
            Err(_) => passed_over += 1,
        }
    }
    while left > 0 {
        let most = left.min(AHEAD);
        let some: Vec<Candidate> = std::iter::from_fn(|| pass.next_fitting()).take(most).collect();
        left -= some.len();
        let amounts = within.asked(pass, &some);
        for (job, amount) in some.iter().zip(amounts) {
            if within.too_much(pass, *job, amount) {
                continue;
            }
            if within.start(pass, *job, amount) == Some(Err(Refusal::Limit)) {
                return;
            }
        }
        if some.len() < most {
            return;
        }
    }
}

export_policy!(PowerCapped: scheduling);

#[cfg(test)]
mod tests;
