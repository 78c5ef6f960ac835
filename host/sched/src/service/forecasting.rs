//! When a forecast of expected starts is made, and which jobs are told of it.
//!
//! Must never let anything of it reach the engine.

use std::time::Duration;

use fluxgate_engine::{About, Action, Expected, FORECAST_JOBS_MAX};

use super::Service;

/// Longest time that one forecast looks for expected starts; the jobs after that keep the one that they were told before.
const LOOK_MAX: Duration = Duration::from_secs(10);

impl Service {
    /// How often forecasts are made, if at all.
    pub(super) fn estimates(&self) -> Option<Duration> {
        let settings = &self.configuration.settings;
        let every = Duration::try_from_secs_f64(settings.estimates).unwrap_or(Duration::MAX);
        Some(every).filter(|every| settings.annotate && !every.is_zero())
    }

    /// When a forecast is due, in real time; `None` when something has to happen before.
    pub(super) fn forecast_due(&self) -> Option<Duration> {
        self.estimates()?;
        let engine = self.engine.as_ref().filter(|e| self.session.is_serving() && e.pending() > 0)?;
        let stats = engine.stats();
        self.forecasts.due((stats.events, stats.passes))
    }

    /// Have a forecast made if it is time; `waiting` when there are messages that were not taken in yet.
    pub(super) fn forecast(&mut self, waiting: bool) {
        let Some(every) = self.estimates() else {
            let back = self.forecasts.take_back();
            return self.tell_jobs(back);
        };
        let begin = self.host.elapsed();
        let next = begin.saturating_add(every);
        self.forecasts.not_before(next);
        if waiting || self.needs_pass() || self.forecast_due().is_none_or(|due| due > begin) {
            return;
        }
        let Some(engine) = &self.engine else { return };
        let (now, stats) = (self.host.now(), engine.stats());
        let mut of = engine.questions(now, &About { jobs_max: FORECAST_JOBS_MAX, ..About::default() });
        self.forecasts.begun((stats.events, stats.passes), next);
        self.start_work(
            "forecast",
            move |host| {
                let spent = || host.elapsed().saturating_sub(begin);
                (of.expected_until(&mut || spent() > LOOK_MAX).to_vec(), spent())
            },
            |service, (expected, took)| service.tell_forecasts(took, &expected),
        );
    }

    /// A forecast that took this long has been made.
    fn tell_forecasts(&mut self, took: Duration, expected: &[Expected]) {
        self.forecasts.made(self.host.elapsed(), took);
        if self.estimates().is_some() {
            self.tell_expected(self.host.now(), expected);
        }
    }

    /// Have jobs annotated with their expected starts, where these moved.
    pub(super) fn tell_expected(&mut self, now: f64, expected: &[Expected]) {
        let Some(engine) = &self.engine else { return };
        let news = self.forecasts.news(now, expected, |id| engine.lacks_estimate(id, now));
        self.tell_jobs(news);
    }

    /// Sends annotations of forecasts, past the check for the engine's own estimates.
    fn tell_jobs(&mut self, news: Vec<Action>) {
        if !news.is_empty() {
            self.reply(news);
            self.carry_out(Vec::new());
        }
    }
}
