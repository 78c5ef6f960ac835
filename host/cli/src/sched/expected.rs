//! Expected starts beside the scheduler: jobs that nobody promised a start are told when one is expected.
//!
//! Now and then, when there is nothing else to do, the engine's ledger and order are copied; the forecast itself is made
//! on a thread of its own, and never keeps anybody waiting. A job is told again only when the forecast moved by more than
//! people care about. Whatever the engine says of a start takes the place of it, and what is left is taken back when the
//! job starts (RFC 27: annotations with `null`).
//!
//! Nothing here ever reaches the engine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluxgate_engine::{Action, FORECAST_JOBS_MAX, Forecast};
use fluxgate_formats::JobId;
use serde_json::{Value, json};

use super::Scheduler;
use super::policies::Loaded;

/// A forecast that moved by no more than so many seconds is no news,
const MOVED_MIN: f64 = 60.0;
/// nor one that moved by no more than this part of what is left until then.
const MOVED_PART: f64 = 0.1;
/// Most jobs that are told after one forecast, the first in order; the others are after the next.
const TOLD_MAX: usize = 256;
/// A forecast that took long is not followed by another before so many times that have passed.
const REST: u32 = 9;

/// What was told, and when the next forecast is due.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// One is being made.
    busy: bool,
    /// No other before.
    rest: Option<Instant>,
    /// Events and passes that the last one knows of.
    of: Option<(u64, u64)>,
    /// What jobs were told here and still believe.
    told: BTreeMap<JobId, f64>,
}

fn annotate(id: JobId, start: Option<f64>) -> Action {
    Action::Annotate { id, annotations: json!({ "sched": { "t_estimate": start } }) }
}

impl Expected {
    /// For `stats-get`.
    pub(super) fn figures(&self) -> Value {
        json!({ "told": self.told.len(), "making": self.busy })
    }

    /// What a job was told here.
    pub(super) fn start(&self, id: JobId) -> Option<f64> {
        self.told.get(&id).copied()
    }

    /// Everybody begins anew.
    pub(super) fn forget(&mut self) {
        (self.of, self.told) = (None, BTreeMap::new());
    }

    /// The engine says something itself.
    pub(super) fn heed(&mut self, action: &mut Action) {
        match action {
            Action::Annotate { id, annotations } if annotations["sched"].get("t_estimate").is_some() => {
                self.told.remove(id);
            }
            Action::Start { id, annotations, .. }
                if self.told.remove(id).is_some() && annotations.is_object() =>
            {
                // Absent reads as null, and is null from here on.
                annotations["sched"]["t_estimate"].take();
            }
            Action::Deny { id, .. } | Action::Canceled { id } => {
                self.told.remove(id);
            }
            _ => {}
        }
    }

    /// What is news of a forecast, to jobs that lack an estimate of the engine's own.
    fn news(&mut self, now: f64, forecasts: &[Forecast], lacks: impl Fn(JobId) -> bool) -> Vec<Action> {
        let mut out = Vec::new();
        let mut before = std::mem::take(&mut self.told);
        for forecast in forecasts.iter().filter(|forecast| lacks(forecast.id)) {
            let (id, known) = (forecast.id, before.remove(&forecast.id));
            let start = forecast.start.map(f64::ceil);
            let moved = match (known, start) {
                (Some(known), Some(start)) => {
                    (start - known).abs() > MOVED_MIN.max(MOVED_PART * (known - now).abs())
                }
                (known, start) => known.is_some() != start.is_some(),
            };
            let tell = moved && out.len() < TOLD_MAX;
            if tell {
                out.push(annotate(id, start));
            }
            self.told.extend(if tell { start } else { known }.map(|start| (id, start)));
        }
        // Too many are before them now.
        for (id, known) in before.into_iter().filter(|(id, _)| lacks(*id)) {
            if out.len() < TOLD_MAX {
                out.push(annotate(id, None));
            } else {
                self.told.insert(id, known);
            }
        }
        out
    }
}

impl Scheduler {
    /// How often, if at all.
    fn estimates(&self) -> Option<Duration> {
        let settings = &self.in_force.settings;
        let every = Duration::try_from_secs_f64(settings.estimates).unwrap_or(Duration::MAX);
        Some(every).filter(|every| settings.annotate && !every.is_zero())
    }

    /// In how long a forecast is due; `None` when something has to happen before.
    pub(super) fn forecast_in(&self) -> Option<Duration> {
        self.estimates()?;
        let engine =
            self.engine.as_ref().filter(|engine| self.session.is_serving() && engine.pending() > 0)?;
        let known = (engine.stats().events, engine.stats().passes);
        if self.expected.busy || self.expected.of == Some(known) {
            return None;
        }
        let rest = self.expected.rest?;
        Some(rest.saturating_duration_since(Instant::now()))
    }

    /// Have a forecast made if it is time; `waiting` when there are messages that were not taken in yet.
    pub(super) fn expect(&mut self, waiting: bool) {
        let Some(every) = self.estimates() else {
            let back: Vec<Action> =
                std::mem::take(&mut self.expected.told).into_keys().map(|id| annotate(id, None)).collect();
            return self.tell_jobs(back);
        };
        // The first is not before others had as much time.
        self.expected.rest.get_or_insert_with(|| Instant::now() + every);
        if waiting || self.needs_pass() || self.forecast_in() != Some(Duration::ZERO) {
            return;
        }
        let Some(engine) = &self.engine else { return };
        let now = self.clock.now();
        let base = engine.forecast_base(now, FORECAST_JOBS_MAX);
        self.expected.of = Some((engine.stats().events, engine.stats().passes));
        let (begin, answers) = (Instant::now(), self.loaded.clone());
        self.expected.rest = begin.checked_add(every);
        let thread = std::thread::Builder::new().name("forecast".to_owned()).spawn(move || {
            let forecasts = base.forecast(now);
            // Nobody may be there any more.
            let _ = answers.send(Loaded::Forecast { took: begin.elapsed(), forecasts });
        });
        match thread {
            Ok(_) => self.expected.busy = true,
            Err(error) => tracing::warn!("no thread for expected starts: {error}"),
        }
    }

    /// A forecast is there.
    pub(super) fn tell_expected(&mut self, took: Duration, forecasts: &[Forecast]) {
        self.expected.busy = false;
        let rest = Instant::now().checked_add(took.saturating_mul(REST));
        self.expected.rest = self.expected.rest.max(rest);
        let Some(engine) = self.engine.as_ref().filter(|_| self.estimates().is_some()) else { return };
        let news = self.expected.news(self.clock.now(), forecasts, |id| engine.lacks_estimate(id));
        self.tell_jobs(news);
    }

    /// Past [`Expected::heed`]: this is our own word.
    fn tell_jobs(&mut self, news: Vec<Action>) {
        if !news.is_empty() {
            let outputs = self.session.on_actions(news);
            self.carry_out(outputs);
        }
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::R;

    use super::*;

    fn forecast(id: u64, start: Option<f64>) -> Forecast {
        Forecast { id: JobId(id), start, promised: None }
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
        let mut expected = Expected::default();
        let mut news = |now, all: &[Forecast]| told(&expected.news(now, all, |id| id.0 < 100));
        let all = [
            forecast(1, Some(100.2)),
            forecast(2, Some(5000.0)),
            forecast(3, None),
            forecast(200, Some(9.0)),
        ];
        assert_eq!(news(0.0, &all), [(1, json!(101.0)), (2, json!(5000.0))]);
        // By a minute, and by a tenth of what is left.
        assert_eq!(news(0.0, &[forecast(1, Some(161.0)), forecast(2, Some(5500.0))]), []);
        let moved = news(0.0, &[forecast(1, Some(162.0)), forecast(2, Some(4400.0))]);
        assert_eq!(moved, [(1, json!(162.0)), (2, json!(4400.0))]);
        // No time known; too many before it.
        assert_eq!(news(0.0, &[forecast(1, None)]), [(1, Value::Null), (2, Value::Null)]);
        assert_eq!(news(0.0, &[forecast(1, None)]), []);
    }

    #[test]
    fn a_round_tells_so_many_and_the_next_the_others() {
        let mut expected = Expected::default();
        let all: Vec<Forecast> = (0..300).map(|id| forecast(id, Some(9.0))).collect();
        assert_eq!(expected.news(0.0, &all, |_| true).len(), TOLD_MAX);
        let rest = told(&expected.news(0.0, &all, |_| true));
        assert_eq!((rest.len(), rest[0].0), (300 - TOLD_MAX, TOLD_MAX as u64));
        assert_eq!(expected.news(0.0, &[], |_| true).len(), TOLD_MAX, "taken back");
        assert_eq!(expected.news(0.0, &[], |_| true).len(), 300 - TOLD_MAX);
        assert!(expected.told.is_empty());
    }

    #[test]
    fn r27_ann_3_what_the_engine_says_takes_its_place_and_a_start_takes_it_back() {
        let mut expected = Expected::default();
        let all = [forecast(1, Some(100.0)), forecast(2, Some(100.0)), forecast(3, Some(100.0))];
        expected.news(0.0, &all, |_| true);
        expected.heed(&mut Action::Annotate {
            id: JobId(1),
            annotations: json!({"sched": {"t_estimate": 70.0}}),
        });
        expected.heed(&mut Action::Annotate { id: JobId(2), annotations: json!({"sched": {"x": 1}}) });
        let start = |id, annotations| Action::Start { id: JobId(id), r: Box::new(R::default()), annotations };
        let told = |expected: &mut Expected, id, annotations| {
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
        assert!(expected.told.is_empty());
    }
}
