//! Facts of a reservation that are told once, in the log: nodes that are late when it begins, and an end before its time.
//!
//! Must never keep anything else of the reservation waiting.

use std::collections::BTreeMap;

use fluxgate_engine::Window;

use super::Service;
use super::reservations::{hosts, named};

/// See the module text.
#[derive(Debug)]
pub(super) struct LateWindows {
    /// The version of the reservations for which `next` was found.
    version: Option<u64>,
    /// When the next reservation begins, seconds since the epoch.
    next: f64,
    /// The start of the last occurrence of each that has begun.
    begun: BTreeMap<String, f64>,
}

impl Default for LateWindows {
    fn default() -> Self {
        LateWindows { version: None, next: f64::INFINITY, begun: BTreeMap::new() }
    }
}

impl LateWindows {
    /// The reservations that have begun since the last call.
    fn begins<'a>(&mut self, all: impl Iterator<Item = &'a Window>, now: f64) -> Vec<&'a Window> {
        let before = std::mem::take(&mut self.begun);
        let mut begins = Vec::new();
        self.next = f64::INFINITY;
        for window in all {
            let begun = before.get(&window.name);
            // An occurrence that is over leaves the list with a pass.
            let last = window.occurrences.iter().rev().find(|at| at.start <= now).map(|at| at.start);
            self.next = self.next.min(window.next_start(now));
            if let Some(start) = last {
                if begun != Some(&start) {
                    begins.push(window);
                }
                self.begun.insert(window.name.clone(), start);
            }
        }
        begins
    }
}

impl Service {
    /// Tells which nodes are late in reservations that have begun since the last call, and which ended because they were idle.
    pub(super) fn tell_late(&mut self) {
        // The pass that is due comes first: it may release resources at the start of a reservation.
        if self.pass_is_due() {
            return;
        }
        let Some(engine) = &mut self.engine else { return };
        for (name, idle) in engine.engine_unrecorded_mut().take_released_windows() {
            let idle = fluxgate_formats::fsd::format(idle);
            fluxgate_log::log!(
                ReservationReleased,
                "reservation {name} ends: no member ran or waited for {idle}"
            );
        }
        let Some(engine) = &self.engine else { return };
        let (now, version) = (self.host.now(), engine.windows_version());
        let late = &mut self.late_windows;
        if late.version == Some(version) && now < late.next {
            return;
        }
        late.version = Some(version);
        for window in late.begins(engine.windows(), now) {
            let (ranks, jobs) = engine.late_in(window, now);
            if !jobs.is_empty() {
                fluxgate_log::log!(
                    NodesLate,
                    "reservation {}: {} of {} nodes are late, {}: jobs that began before it hold them: {}",
                    window.name,
                    ranks.len(),
                    window.ranks.len(),
                    hosts(engine.resources(), &ranks),
                    named(jobs.into_iter().map(|id| id.to_string()))
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_engine::Occurrence;
    use fluxgate_formats::Idset;

    use super::*;

    fn window(name: &str, starts: &[f64]) -> Window {
        let at = |start: &f64| Occurrence { start: *start, end: start + 50.0, begins: String::new() };
        Window::maintenance(name, starts.iter().map(at).collect(), Idset::new())
    }

    #[test]
    fn feat_17_each_begin_is_told_once() {
        let mut late = LateWindows::default();
        let all = [window("a", &[100.0, 200.0]), window("b", &[100.0]), window("c", &[])];
        let mut begins = |all: &[Window], now: f64| {
            let names: Vec<String> =
                late.begins(all.iter(), now).into_iter().map(|w| w.name.clone()).collect();
            (names.join(","), late.next)
        };
        assert_eq!(begins(&all, 99.0), (String::new(), 100.0));
        assert_eq!(begins(&all, 100.0), ("a,b".to_owned(), 200.0));
        assert_eq!(begins(&all, 101.0), (String::new(), 200.0));
        assert_eq!(begins(&[window("a", &[200.0])], 210.0), ("a".to_owned(), f64::INFINITY));
        // Another reservation with the name of a cancelled one.
        assert_eq!(begins(&[window("b", &[205.0])], 211.0).0, "b");
    }
}
