//! When a forecast of expected starts is made, and which jobs are told of it.
//!
//! Must never let anything of it reach the engine.

use std::time::Duration;

use fluxgate_engine::{Action, FORECAST_JOBS_MAX, Forecast};

use super::Service;

impl Service {
    /// How often forecasts are made, if at all.
    fn estimates(&self) -> Option<Duration> {
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
        let base = engine.forecast_base(now, FORECAST_JOBS_MAX);
        self.forecasts.begun((stats.events, stats.passes), next);
        self.start_work(
            "forecast",
            move |host| (base.forecast(now), host.elapsed().saturating_sub(begin)),
            |service, (forecasts, took)| service.tell_forecasts(took, &forecasts),
        );
    }

    /// A forecast that took so long has been made.
    fn tell_forecasts(&mut self, took: Duration, forecasts: &[Forecast]) {
        self.forecasts.made(self.host.elapsed(), took);
        let Some(engine) = self.engine.as_ref().filter(|_| self.estimates().is_some()) else { return };
        let news = self.forecasts.news(self.host.now(), forecasts, |id| engine.lacks_estimate(id));
        self.tell_jobs(news);
    }

    /// Past what looks at the engine's own estimates: this is what forecasts say.
    fn tell_jobs(&mut self, news: Vec<Action>) {
        if !news.is_empty() {
            self.reply(news);
            self.carry_out(Vec::new());
        }
    }
}
