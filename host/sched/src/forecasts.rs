//! Expected starts: a waiting job without a reservation is annotated with the time at which its start is expected.
//!
//! Now and then, when there is nothing else to do, the engine's ledger and order are copied; the forecast itself is made
//! as work of its own, and never delays a pass. A job is annotated again only when its forecast moved by more than
//! [`MOVED_MIN`] and [`MOVED_PART`]. An estimate of the engine takes the place of a forecast. An annotation that is left is taken back
//! when the job starts (RFC 27: annotations with `null`).
//!
//! Nothing here ever reaches the engine.

mod errors;

use std::collections::BTreeMap;
use std::time::Duration;

use errors::Errors;
use fluxgate_engine::{Action, Expected, Source};
use fluxgate_formats::{Histogram, JobId};
use serde_json::{Value, json};

/// A forecast that moved by at most this many seconds is no news.
const MOVED_MIN: f64 = 60.0;
/// A forecast that moved by at most this fraction of the time left until the start is no news.
const MOVED_PART: f64 = 0.1;
/// Most jobs that are annotated after one forecast, the first in order; the others follow after the next.
const TOLD_MAX: usize = 256;
/// The next forecast is made after at least this multiple of the time that the last one took.
const REST: u32 = 9;

/// The starts that jobs were annotated with, and when the next forecast is due.
#[derive(Debug, Default)]
pub(crate) struct Forecasts {
    /// A forecast is being made.
    busy: bool,
    /// No other forecast before this time, in real time.
    rest: Option<Duration>,
    /// Events and passes that the last forecast knows of.
    of: Option<(u64, u64)>,
    /// The expected starts that jobs are annotated with, seconds since the epoch.
    announced: BTreeMap<JobId, f64>,
    /// The errors of forecasts.
    errors: Errors,
}

fn annotate(id: JobId, start: Option<f64>) -> Action {
    Action::Annotate { id, annotations: json!({ "sched": { "t_estimate": start } }) }
}

impl Forecasts {
    /// For `stats-get`.
    pub(crate) fn figures(&self) -> Value {
        json!({ "told": self.announced.len(), "making": self.busy })
    }

    /// Number of waiting jobs that are annotated with an expected start.
    pub(crate) fn told(&self) -> usize {
        self.announced.len()
    }

    /// The expected start that a job is annotated with.
    pub(crate) fn start(&self, id: JobId) -> Option<f64> {
        self.announced.get(&id).copied()
    }

    /// The times between which four of five such starts came, of the queue of the job; `None` where too few are known.
    pub(crate) fn range(&self, now: f64, expected: &Expected) -> Option<(f64, f64)> {
        let start = expected.start.filter(|_| expected.source != Source::Reserved)?;
        self.errors.range(expected.queue, now, start)
    }

    /// How many seconds starts of a queue came earlier, and how many later, than was told first.
    pub(crate) fn off(&self, queue: u32) -> Option<&[Histogram; 2]> {
        self.errors.off(queue)
    }

    /// Jobs that started or left: the errors of their forecasts are known now.
    pub(crate) fn learn(&mut self, now: f64, action: &Action) {
        match action {
            Action::Start { id, .. } => self.errors.started(*id, now),
            Action::Deny { id, .. } | Action::Canceled { id } => self.errors.forget(*id),
            _ => {}
        }
    }

    /// When the next forecast is due, in real time, given the events and passes so far; `None` while one is being made, and
    /// while nothing happened since the last.
    pub(crate) fn due(&self, known: (u64, u64)) -> Option<Duration> {
        self.rest.filter(|_| !self.busy && self.of != Some(known))
    }

    /// The first forecast is not due before this time.
    pub(crate) fn not_before(&mut self, time: Duration) {
        self.rest.get_or_insert(time);
    }

    /// A forecast is begun that knows these events and passes. The next is not due before `next`.
    pub(crate) fn begun(&mut self, known: (u64, u64), next: Duration) {
        (self.busy, self.of, self.rest) = (true, Some(known), Some(next));
    }

    /// A forecast was made at this time, and took this long.
    pub(crate) fn made(&mut self, now: Duration, took: Duration) {
        self.busy = false;
        self.rest = self.rest.max(Some(now.saturating_add(took.saturating_mul(REST))));
    }

    /// The actions that take back all annotations of forecasts.
    pub(crate) fn take_back(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.announced).into_keys().map(|id| annotate(id, None)).collect()
    }

    /// The scheduler begins anew: the forecasts of all jobs are forgotten.
    pub(crate) fn forget(&mut self) {
        (self.of, self.announced) = (None, BTreeMap::new());
        self.errors.forget_jobs();
    }

    /// Takes in an action of the engine: an estimate of its own, or the end of the wait, ends the forecast of a job.
    pub(crate) fn heed(&mut self, action: &mut Action) {
        match action {
            Action::Annotate { id, annotations } if annotations["sched"].get("t_estimate").is_some() => {
                self.announced.remove(id);
            }
            Action::Start { id, annotations, .. }
                if self.announced.remove(id).is_some() && annotations.is_object() =>
            {
                // An absent key reads as null, and is null from here on.
                annotations["sched"]["t_estimate"].take();
            }
            Action::Deny { id, .. } | Action::Canceled { id } => {
                self.announced.remove(id);
            }
            _ => {}
        }
    }

    /// The annotations that are news, for jobs without an estimate of the engine.
    pub(crate) fn news(
        &mut self,
        now: f64,
        forecasts: &[Expected],
        lacks: impl Fn(JobId) -> bool,
    ) -> Vec<Action> {
        let mut out = Vec::new();
        let mut before = std::mem::take(&mut self.announced);
        for forecast in forecasts.iter().filter(|forecast| lacks(forecast.id)) {
            let (id, known) = (forecast.id, before.remove(&forecast.id));
            // The start of a job that was not searched for is not taken back.
            let start = match forecast.source {
                Source::Unsearched => known,
                _ => forecast.start.map(f64::ceil),
            };
            let moved = match (known, start) {
                (Some(known), Some(start)) => {
                    (start - known).abs() > MOVED_MIN.max(MOVED_PART * (known - now).abs())
                }
                (known, start) => known.is_some() != start.is_some(),
            };
            let announce = moved && out.len() < TOLD_MAX;
            if announce {
                out.push(annotate(id, start));
            }
            if let Some(start) = start {
                self.errors.expect(id, forecast.queue, now, start);
            }
            self.announced.extend(if announce { start } else { known }.map(|start| (id, start)));
        }
        // Too many jobs are before these now.
        for (id, known) in before.into_iter().filter(|(id, _)| lacks(*id)) {
            if out.len() < TOLD_MAX {
                out.push(annotate(id, None));
            } else {
                self.announced.insert(id, known);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::R;

    use super::*;

    fn forecast(id: u64, start: Option<f64>) -> Expected {
        Expected { id: JobId(id), queue: 0, start, source: Source::Forecast }
    }

    fn told(out: &[Action]) -> Vec<(u64, Value)> {
        let find = |action: &Action| match action {
            Action::Annotate { id, annotations } => (id.0, annotations["sched"]["t_estimate"].clone()),
            other => panic!("{other:?}"),
        };
        out.iter().map(find).collect()
    }

    #[test]
    fn told_when_it_moved_and_taken_back_when_there_is_none() {
        let mut expected = Forecasts::default();
        let mut news = |now, all: &[Expected]| told(&expected.news(now, all, |id| id.0 < 100));
        let all = [
            forecast(1, Some(100.2)),
            forecast(2, Some(5000.0)),
            forecast(3, None),
            forecast(200, Some(9.0)),
        ];
        assert_eq!(news(0.0, &all), [(1, json!(101.0)), (2, json!(5000.0))]);
        // By a minute, and by a tenth of the time left.
        assert_eq!(news(0.0, &[forecast(1, Some(161.0)), forecast(2, Some(5500.0))]), []);
        let moved = news(0.0, &[forecast(1, Some(162.0)), forecast(2, Some(4400.0))]);
        assert_eq!(moved, [(1, json!(162.0)), (2, json!(4400.0))]);
        // No time known; too many before it.
        assert_eq!(news(0.0, &[forecast(1, None)]), [(1, Value::Null), (2, Value::Null)]);
        assert_eq!(news(0.0, &[forecast(1, None)]), []);
    }

    #[test]
    fn what_a_search_did_not_reach_keeps_what_it_was_told() {
        let mut expected = Forecasts::default();
        let mut news = |all: &[Expected]| told(&expected.news(0.0, all, |_| true));
        let unsearched = |id| Expected { source: Source::Unsearched, ..forecast(id, None) };
        assert_eq!(news(&[forecast(1, Some(10.0)), unsearched(2)]), [(1, json!(10.0))]);
        assert_eq!(news(&[unsearched(1), unsearched(2)]), []);
        assert_eq!(news(&[forecast(1, None), unsearched(2)]), [(1, Value::Null)]);
    }

    #[test]
    fn a_round_tells_so_many_and_the_next_the_others() {
        let mut expected = Forecasts::default();
        let all: Vec<Expected> = (0..300).map(|id| forecast(id, Some(9.0))).collect();
        assert_eq!(expected.news(0.0, &all, |_| true).len(), TOLD_MAX);
        let rest = told(&expected.news(0.0, &all, |_| true));
        assert_eq!((rest.len(), rest[0].0), (300 - TOLD_MAX, TOLD_MAX as u64));
        assert_eq!(expected.news(0.0, &[], |_| true).len(), TOLD_MAX, "taken back");
        assert_eq!(expected.news(0.0, &[], |_| true).len(), 300 - TOLD_MAX);
        assert!(expected.announced.is_empty());
    }

    #[test]
    fn r27_ann_3_what_the_engine_says_takes_its_place_and_a_start_takes_it_back() {
        let mut expected = Forecasts::default();
        let all = [forecast(1, Some(100.0)), forecast(2, Some(100.0)), forecast(3, Some(100.0))];
        expected.news(0.0, &all, |_| true);
        expected.heed(&mut Action::Annotate {
            id: JobId(1),
            annotations: json!({"sched": {"t_estimate": 70.0}}),
        });
        expected.heed(&mut Action::Annotate { id: JobId(2), annotations: json!({"sched": {"x": 1}}) });
        let start = |id, annotations| Action::Start {
            id: JobId(id),
            r: std::sync::Arc::new(R::default()),
            annotations,
        };
        let told = |expected: &mut Forecasts, id, annotations| {
            let mut action = start(id, annotations);
            expected.heed(&mut action);
            let Action::Start { annotations, .. } = action else { panic!() };
            annotations
        };
        let plain = json!({"sched": {"resource_summary": "rank0/core0"}});
        assert_eq!(told(&mut expected, 1, plain.clone()), plain, "that is the engine's to take back");
        let back = json!({"sched": {"resource_summary": "rank0/core0", "t_estimate": null}});
        assert_eq!(told(&mut expected, 2, plain.clone()), back);
        assert_eq!(told(&mut expected, 3, json!({})), json!({"sched": {"t_estimate": null}}));
        assert!(expected.announced.is_empty());
    }
}
