//! A round of a shadow: the notes that it left with, its figures, and its answers.
//!
//! Must never know other shadows or the live engine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use fluxgate_engine::{Config, Decisions, Event, PolicyCost, Shadow, ShadowError, ShadowJobs, Tally, When};
use fluxgate_formats::JobId;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Value, json};

/// Most jobs that `policy diff` names.
const NAMED_MAX: usize = 50;

/// Something that a shadow is told.
pub(super) enum Note {
    Jobs(ShadowJobs),
    Event(Box<Event>, f64),
    Passed(f64, Decisions),
    /// The queues there are, and whether each has a policy of its own.
    Queues(Vec<(String, bool)>),
    Settings(Box<Config>),
    /// A request to answer, about a job or all, with the beginning of the answer.
    Ask(Box<ControlRequest>, Option<JobId>, Value),
}

/// The figures of a shadow as of its last pass.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) passes: u64,
    /// Part of the jobs that would have started at another time.
    pub(super) share: f64,
    /// Seconds that jobs waited, and would have waited.
    pub(super) waits: (f64, f64),
    pub(super) cost: PolicyCost,
    pub(super) nanos: u64,
    /// Why it ended: the limit or kind, and the words.
    pub(super) ended: Option<(&'static str, String)>,
}

/// An answer of a shadow, or an error number with words.
pub(crate) type Answer = Result<Value, (i32, String)>;

/// See the module text.
pub(crate) struct Round {
    pub(super) number: u64,
    pub(super) shadow: Shadow,
    pub(super) notes: VecDeque<Note>,
    pub(super) seen: Seen,
    /// Raised when the shadow has ended meanwhile: there is nothing more to follow.
    pub(super) interrupt: Arc<AtomicBool>,
    pub(crate) answers: Vec<(Box<ControlRequest>, Answer)>,
}

impl Round {
    /// Take in the notes, one after the other; `elapsed` measures how long passes take.
    pub(crate) fn run(mut self, elapsed: &dyn Fn() -> Duration) -> Round {
        while let Some(note) = self.notes.pop_front() {
            let shadow = &mut self.shadow;
            let ended = self.seen.ended.is_some() || self.interrupt.load(Ordering::Relaxed);
            match note {
                Note::Ask(request, job, head) => self.answers.push((request, answer(shadow, job, head))),
                _ if ended => {}
                Note::Jobs(jobs) => shadow.take(jobs),
                Note::Event(event, now) => shadow.step(*event, now),
                Note::Settings(config) => shadow.reconfigure(*config),
                Note::Queues(queues) => {
                    shadow.queues(queues.iter().map(|(name, own)| (name.as_str(), *own)));
                }
                Note::Passed(now, live) => {
                    let begin = elapsed();
                    let passed = shadow.pass(now, &live);
                    let took = elapsed().saturating_sub(begin);
                    self.seen.passed(&self.shadow, took, passed);
                }
            }
        }
        self
    }
}

impl Seen {
    /// The shadow made a pass that took this long.
    fn passed(&mut self, shadow: &Shadow, took: Duration, result: Result<(), ShadowError>) {
        let tally = shadow.tally();
        (self.passes, self.share, self.waits) = (tally.passes, tally.share_differing(), tally.waits);
        self.cost = shadow.cost();
        self.nanos = self.nanos.saturating_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        if let Err(error) = result {
            let kind = match &error {
                ShadowError::Failed(error) => error.limit(),
                ShadowError::LostTrack { .. } => "lost-track",
            };
            self.ended.get_or_insert((kind, error.to_string()));
        }
    }
}

pub(super) fn cost(cost: &PolicyCost, nanos: u64) -> Value {
    json!({
        "calls": cost.calls, "fuel": cost.fuel, "memory": cost.memory, "milliseconds": cost.nanos as f64 / 1e6,
        "pass_milliseconds": nanos as f64 / 1e6,
    })
}

fn answer(shadow: &Shadow, job: Option<JobId>, mut head: Value) -> Answer {
    let tally = shadow.tally();
    let one = |id: JobId| {
        let found = tally.difference(id)?;
        Some(json!({
            "id": id.0, "job": id.to_string(), "t_submit": found.t_submit, "live": found.live,
            "shadow": match found.shadow {
                When::Started(time) | When::Reserved(time) => json!(time),
                When::Later => Value::Null,
            },
            "seconds": found.seconds(),
        }))
    };
    if let Some(id) = job {
        let waits = || {
            let (proposed, reserved) = (tally.proposed(id), tally.reserved(id));
            (proposed.is_some() || reserved.is_some()).then(|| {
                json!({"id": id.0, "job": id.to_string(), "live": null, "shadow": proposed, "reserved": reserved})
            })
        };
        head["job"] = one(id).or_else(waits).ok_or_else(|| {
            (errno::EINVAL, format!("job {id}: nothing was decided about it since the shadow began"))
        })?;
        return Ok(head);
    }
    let mean = |(count, sum): (u64, f64)| json!({"jobs": count, "mean_seconds": if count > 0 { sum / count as f64 } else { 0.0 }});
    let known = tally.jobs - tally.unknown;
    let wait = |sum: f64| if known > 0 { json!(sum / known as f64) } else { Value::Null };
    let utilisation = tally.utilisation();
    let mut most: Vec<_> = tally.differences().filter(|d| d.seconds() != Some(0.0)).collect();
    most.sort_by(|a, b| {
        let size = |d: &fluxgate_engine::Difference| d.seconds().map_or(f64::INFINITY, f64::abs);
        size(b).total_cmp(&size(a)).then(a.id.cmp(&b.id))
    });
    head["passes"] = tally.passes.into();
    head["passes_differing"] = tally.differing.into();
    head["jobs"] = summary(tally);
    head["earlier"] = mean(tally.earlier);
    head["later"] = mean(tally.later);
    head["mean_wait"] = json!({"live": wait(tally.waits.0), "shadow": wait(tally.waits.1)});
    head["utilisation"] = json!({"live": utilisation.map(|u| u.0), "shadow": utilisation.map(|u| u.1)});
    head["cost"] = cost(&shadow.cost(), 0);
    head["differences"] = most.into_iter().take(NAMED_MAX).filter_map(|d| one(d.id)).collect();
    Ok(head)
}

fn summary(tally: &Tally) -> Value {
    json!({
        "compared": tally.jobs, "same": tally.same, "later_unknown": tally.unknown,
        "would_run": tally.waiting(), "share_differing": tally.share_differing(),
    })
}
