//! The explanation of one job, for a query by a person.
//!
//! Must never change anything.

use fluxgate_formats::{JobId, fsd};

use crate::engine::Engine;
use crate::questions::{About, Expected, Obstacle, Questions, Source};
use crate::reason::Reason;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It waits.
    Pending,
    /// It holds resources.
    Running,
}

/// The answer of [`Engine::explain`].
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Waiting or running.
    pub state: JobState,
    /// Name of its queue, empty for the anonymous one or a running job.
    pub queue: String,
    /// Name of the policy that decides that queue, empty for a running job.
    pub policy: String,
    /// The reason for which it waits, true at the time of the question; `None` for a running job.
    pub reason: Option<Reason>,
    /// All that is in its way; see [`Obstacle`]. Empty for a running job.
    pub obstacles: Vec<Obstacle>,
    /// Number of jobs before it in the order of its queue; 0 for a running job.
    pub ahead: u64,
    /// Earliest start, seconds since the epoch, beside running jobs as long as these are expected to run, and reserved starts,
    /// ignoring other waiting jobs; `None` when it could not start on the nodes that are up, or is running. Never later than
    /// the expected start.
    pub earliest: Option<f64>,
    /// Start of its reservation, or an estimate, as the engine told it, seconds since the epoch; `None` if it was told none.
    pub t_estimate: Option<f64>,
    /// Its expected start; `None` for a running job, for one behind more jobs than were copied, and without copied jobs unless
    /// the engine told it a start that is not past.
    pub expected: Option<Expected>,
}

impl Engine {
    /// Explains what a job waits for at this time, without a forecast. Costs a copy of the ledger, searches, and a walk of its
    /// queue: for a person's question, not for every pass. `None` for ids that neither wait nor run.
    pub fn explain(&self, id: JobId, now: f64) -> Option<Explanation> {
        self.questions(now, &About { job: Some(id), ..About::default() }).explain(id)
    }
}

/// The words in which every text tells a time to wait: a duration (RFC 23) in whole seconds, above ten minutes in whole minutes;
/// `now` for less than half a second, a negative number or NaN.
pub fn about(seconds: f64) -> String {
    let step = if seconds > 600.0 { 60.0 } else { 1.0 };
    match (seconds / step).round() * step {
        left if left > 0.0 => fsd::format(left),
        _ => "now".to_owned(),
    }
}

impl Questions {
    /// Explains what a job waits for. `None` for ids that neither wait nor run, and for waiting jobs that are not in the copy.
    pub fn explain(&mut self, id: JobId) -> Option<Explanation> {
        if self.holders.contains_key(&id) {
            return Some(Explanation {
                state: JobState::Running,
                queue: String::new(),
                policy: String::new(),
                reason: None,
                obstacles: Vec::new(),
                ahead: 0,
                earliest: None,
                t_estimate: None,
                expected: None,
            });
        }
        let job = self.jobs[self.index_of(id)?].clone();
        let (queue, policy) = self.queue_state(job.queue).map(|q| (q.name.clone(), q.policy.clone()))?;
        let expected = if self.first > 0 { self.expected_of(id) } else { self.told(&job) };
        let (earliest, start) = (self.earliest(&job), expected.and_then(|expected| expected.start));
        let earliest = earliest.map(|earliest| start.map_or(earliest, |start| earliest.min(start)));
        Some(Explanation {
            state: JobState::Pending,
            queue,
            policy,
            reason: Some(self.reason(&mut self.resources.clone(), &job)),
            obstacles: self.obstacles(&job),
            ahead: job.ahead,
            earliest,
            t_estimate: job.told,
            expected,
        })
    }

    /// The text about a job that runs, with the time left of its limit; `None` for other ids.
    pub fn running_text(&self, id: JobId) -> Option<String> {
        let holder = self.holders.get(&id)?;
        Some(match holder.end.is_finite() {
            true => {
                format!("it runs, and its limit ends in {}", fsd::format((holder.end - self.now).max(0.0)))
            }
            false => "it runs without time limit".to_owned(),
        })
    }
}

impl Explanation {
    /// Its expected start in words, seen from `now`; only one time is told.
    pub fn when(&self, now: f64) -> String {
        let Some(Expected { start, source, .. }) = self.expected else {
            return match self.earliest {
                Some(_) => "too many jobs are ahead of it for a forecast".to_owned(),
                None => NEVER.to_owned(),
            };
        };
        match (start, source) {
            (None, Source::Unsearched) => UNSEARCHED.to_owned(),
            (None, _) => NEVER.to_owned(),
            (Some(t), _) if t <= now => "it is expected to start now".to_owned(),
            (Some(t), Source::Reserved) => format!("its start is reserved in {}", about(t - now)),
            (Some(t), Source::Estimate) => {
                format!("it could start in {} if running jobs use their limits", about(t - now))
            }
            (Some(t), _) => format!("it is expected to start in {}", about(t - now)),
        }
    }

    /// The reason, the start and the number of jobs ahead in one line; empty for a running job. `show` says how other jobs are
    /// called.
    pub fn text(&self, now: f64, show: &dyn Fn(JobId) -> String) -> String {
        let Some(reason) = &self.reason else { return String::new() };
        let reason = reason.text(show);
        format!("{reason}; {}; jobs ahead in its queue: {}", self.when(now), self.ahead)
    }
}

const UNSEARCHED: &str = "its start is not known: the search for expected starts took too long";
const NEVER: &str =
    "no time is known at which it could start: nodes are down, or held by jobs without time limit";
