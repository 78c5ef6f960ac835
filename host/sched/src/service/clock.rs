//! A clock that was set: its effect on reservations of nodes is logged once.
//!
//! Must never change the schedule: reservations begin and end when the schedule is at their times.

use super::Service;
use crate::steady::Step;

impl Service {
    /// Looks at the clock, before anything is done at a time that it shows.
    pub(super) fn heed_clock(&mut self) {
        let Some(step) = self.clock_watch.look() else { return };
        let Step { from, to, by } = step;
        let time = |time: f64| self.host.local_time(time);
        if by < 0.0 {
            let until = self.host.now();
            fluxgate_log::log!(
                ClockBack,
                "the clock was set back by {:.0} s to {}: the schedule stands still until it is {}, and nothing begins twice",
                -by,
                time(to),
                time(until)
            );
            return;
        }
        let windows = self.engine.iter().flat_map(|engine| engine.windows());
        let (mut over, mut late) = (Vec::new(), Vec::new());
        for window in windows {
            let met = window.occurrences.iter().filter(|times| times.start > from && times.start <= to);
            for times in met {
                let names = if times.end <= to { &mut over } else { &mut late };
                names.push(format!("{} of {}", window.name, times.begins));
            }
        }
        let told = |what: &str, names: &[String]| match names {
            [] => String::new(),
            names => format!("; {what}: {}", names.join(", ")),
        };
        fluxgate_log::log!(
            ClockAhead,
            "the clock was set ahead by {by:.0} s to {}{}{}",
            time(to),
            told("reservations that begin late", &late),
            told("reservations whose time is over", &over)
        );
    }
}
