//! Reports on the scheduler to the service manager: sd_notify(3) of systemd.
//!
//! All reports come from the loop that schedules, between two turns: a loop that hangs misses its watchdog and is restarted.
//! Must never know more of the service than its state in a line.

use std::time::{Duration, Instant};

use fluxgate_sched::Service;
use sd_notify::NotifyState;

/// The least time between two lines of status.
const STATUS_PERIOD: Duration = Duration::from_secs(1);
/// The pause where there is nothing to report.
const NEVER: Duration = Duration::from_secs(86_400);

/// The service manager that started this process, if one did and wants to be told.
pub(crate) struct ServiceManager {
    present: bool,
    /// Half of the time after which the service manager takes silence for a hang.
    watchdog: Option<Duration>,
    fed: Option<Instant>,
    ready: bool,
    reloading: bool,
    /// The last line of status, and when it was told.
    status: Option<(Instant, String)>,
    /// The line of status has changed since.
    stale: bool,
}

impl ServiceManager {
    /// No service manager: the broker that started this process as its module has one of its own.
    pub(crate) fn none() -> ServiceManager {
        ServiceManager {
            present: false,
            watchdog: None,
            fed: None,
            ready: false,
            reloading: false,
            status: None,
            stale: false,
        }
    }

    /// The one that the environment names.
    pub(crate) fn from_environment() -> ServiceManager {
        let present = std::env::var_os("NOTIFY_SOCKET").is_some();
        let watchdog = sd_notify::watchdog_enabled().filter(|_| present).map(|period| period / 2);
        ServiceManager { present, watchdog, ..ServiceManager::none() }
    }

    /// Reports the state after a turn.
    pub(crate) fn turn(&mut self, service: &Service) {
        if !self.present {
            return;
        }
        let now = Instant::now();
        if !self.ready && service.is_ready() {
            self.ready = true;
            notify(&[NotifyState::Ready]);
        }
        match (self.reloading, service.is_reloading()) {
            (false, true) => self.reloading(),
            (true, false) => {
                self.reloading = false;
                notify(&[NotifyState::Ready]);
            }
            _ => {}
        }
        let line = service.status_line();
        self.stale = self.status.as_ref().is_none_or(|(_, sent)| *sent != line);
        if self.stale && self.status.as_ref().is_none_or(|(at, _)| now >= *at + STATUS_PERIOD) {
            notify(&[NotifyState::Status(&line)]);
            (self.status, self.stale) = (Some((now, line)), false);
        }
        if let Some(period) = self.watchdog
            && self.fed.is_none_or(|fed| now >= fed + period)
        {
            notify(&[NotifyState::Watchdog]);
            self.fed = Some(now);
        }
    }

    /// Reports that the configuration is about to be read again.
    pub(crate) fn reloading(&mut self) {
        if self.ready
            && !self.reloading
            && let Ok(time) = NotifyState::monotonic_usec_now()
        {
            self.reloading = true;
            notify(&[NotifyState::Reloading, time]);
        }
    }

    /// The time until the next report, if nothing happens before.
    pub(crate) fn idle_for(&self) -> Duration {
        let watchdog = self.watchdog.zip(self.fed).map(|(period, fed)| fed + period);
        let status = self.status.as_ref().filter(|_| self.stale).map(|(at, _)| *at + STATUS_PERIOD);
        let next = watchdog.into_iter().chain(status).min();
        next.map_or(NEVER, |next| next.saturating_duration_since(Instant::now()))
    }

    /// Reports the end.
    pub(crate) fn stopping(&self) {
        if self.present {
            notify(&[NotifyState::Stopping]);
        }
    }
}

/// Sends a report. A service manager that does not listen is no reason to stop.
fn notify(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}
