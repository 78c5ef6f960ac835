//! How long the job manager was not served, for `metrics-get`. Must never decide anything.

use std::time::Duration;

use super::Service;

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct Offline {
    /// Since when it is not served, in real time.
    since: Option<Duration>,
    /// The times before.
    sum: Duration,
}

impl Offline {
    fn look(&mut self, serving: bool, elapsed: Duration) {
        match (serving, self.since) {
            (true, Some(since)) => {
                self.sum += elapsed.saturating_sub(since);
                self.since = None;
            }
            (false, None) => self.since = Some(elapsed),
            _ => {}
        }
    }

    fn until(&self, elapsed: Duration) -> Duration {
        self.sum + self.since.map_or(Duration::ZERO, |since| elapsed.saturating_sub(since))
    }
}

impl Service {
    /// Once in a turn.
    pub(super) fn count_offline(&mut self) {
        self.offline.look(self.session.is_serving(), self.host.elapsed());
        if !self.session.is_serving() {
            self.start_times.offline();
        }
    }

    /// Until now, in seconds.
    pub(super) fn offline_seconds(&self) -> f64 {
        self.offline.until(self.host.elapsed()).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_60_times_without_the_job_manager_add_up() {
        let mut offline = Offline::default();
        let at = Duration::from_secs;
        for (serving, elapsed) in
            [(false, 1), (false, 2), (true, 4), (true, 9), (false, 10), (true, 15), (true, 20)]
        {
            offline.look(serving, at(elapsed));
        }
        assert_eq!(offline.until(at(30)), at(8));
        offline.look(false, at(30));
        assert_eq!(offline.until(at(31)), at(9));
    }
}
