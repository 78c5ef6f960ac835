//! The cost of reservations to a run: cores that stand idle before them although jobs wait, and jobs that wait because of them.
//!
//! For each time of a reservation, the figures cover the day before its nodes must be free, or the part of that day after the begin
//! of the run and after the time before. This module knows neither policies nor the engine.

use std::collections::BTreeMap;
use std::io;

use fluxgate_engine::Window;
use serde::Serialize;

use crate::observe::{Observer, Span, Started};
use crate::schedule::{Cores, cores_of};

/// Seconds before a reservation that are looked at.
pub const BEFORE: f64 = 86_400.0;

/// One time of a reservation.
#[derive(Debug)]
struct Time {
    /// Its place in [`IdleBefore::names`].
    of: usize,
    from: f64,
    until: f64,
    /// Core-seconds of its nodes while jobs waited, as far as the run has come.
    waited: f64,
    /// The spans of it in which jobs waited, and the seconds of them before each.
    spans: Vec<(f64, f64, f64)>,
    /// Cores of its nodes that a job holds, from and to.
    busy: Vec<(u64, f64, f64)>,
}

/// The figures of one reservation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReservationFigures {
    /// Its name.
    pub name: String,
    /// Number of its times that began in the run.
    pub times: u64,
    /// Core-hours of its nodes in the days before, of the spans in which jobs waited.
    pub core_hours: f64,
    /// Core-hours of these that were idle.
    pub idle_core_hours: f64,
}

/// The figures of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReservationCost {
    /// By name.
    pub reservations: Vec<ReservationFigures>,
    /// Hours that jobs waited with a reservation as their reason, summed over jobs.
    pub put_off_job_hours: f64,
    /// Most jobs at once that waited so.
    pub put_off_most: u64,
}

/// An [`Observer`] that computes a [`ReservationCost`].
pub struct IdleBefore<'a> {
    cores: &'a Cores,
    /// Each reservation with the number of cores of its nodes.
    names: Vec<(Window, u64)>,
    times: Vec<Time>,
    put_off: f64,
    most: u64,
    last: f64,
}

impl<'a> IdleBefore<'a> {
    /// For a machine with these cores.
    pub fn new(cores: &'a Cores) -> Self {
        let (names, times) = (Vec::new(), Vec::new());
        IdleBefore { cores, names, times, put_off: 0.0, most: 0, last: f64::NEG_INFINITY }
    }

    /// The figures; `None` if there were no reservations.
    pub fn figures(&self) -> Option<ReservationCost> {
        let figures = |(place, (window, _)): (usize, &(Window, u64))| {
            let begun = || self.times.iter().filter(|time| time.of == place && time.from < self.last);
            let hours = |seconds: f64| seconds / 3600.0;
            let idle = |time: &Time| {
                let used =
                    time.busy.iter().map(|(cores, from, to)| *cores as f64 * time.waited_in(*from, *to));
                time.waited - used.sum::<f64>()
            };
            ReservationFigures {
                name: window.name.clone(),
                times: begun().count() as u64,
                core_hours: hours(begun().map(|time| time.waited).sum()),
                idle_core_hours: hours(begun().map(idle).sum()),
            }
        };
        (!self.names.is_empty()).then(|| ReservationCost {
            reservations: self.names.iter().enumerate().map(figures).collect(),
            put_off_job_hours: self.put_off / 3600.0,
            put_off_most: self.most,
        })
    }

    fn holds(&mut self, s: &Started<'_>) {
        let met = |time: &&mut Time| time.from < s.end && s.start < time.until;
        let mut held: Option<BTreeMap<u32, u64>> = None;
        for time in self.times.iter_mut().filter(met) {
            let held = held.get_or_insert_with(|| by_rank(s));
            let ranks = &self.names[time.of].0.ranks;
            let here: u64 =
                held.iter().filter(|(rank, _)| ranks.contains(**rank)).map(|(_, cores)| cores).sum();
            if here > 0 {
                time.busy.push((here, s.start.max(time.from), s.end.min(time.until)));
            }
        }
    }
}

/// Cores of a job by rank.
fn by_rank(s: &Started<'_>) -> BTreeMap<u32, u64> {
    if s.cores.is_empty() {
        return cores_of(s.r).into_iter().map(|(rank, cores)| (rank, cores.len())).collect();
    }
    let mut all = BTreeMap::new();
    for run in s.cores {
        let each = u64::from(run.cores.1 - run.cores.0) + 1;
        (run.ranks.0..=run.ranks.1).for_each(|rank| *all.entry(rank).or_default() += each);
    }
    all
}

impl Time {
    /// Seconds of a span in which jobs waited.
    fn waited_in(&self, from: f64, to: f64) -> f64 {
        let until = |at: f64| {
            let after = self.spans.partition_point(|(from, ..)| *from < at);
            let last = after.checked_sub(1).map(|last| self.spans[last]);
            last.map_or(0.0, |(from, to, before)| before + (at.min(to) - from))
        };
        until(to) - until(from)
    }
}

impl Observer for IdleBefore<'_> {
    fn wants_r(&self) -> bool {
        false
    }

    fn wants_cores(&self) -> bool {
        true
    }

    fn reserved(&mut self, windows: &[Window], _: &BTreeMap<u32, String>) {
        if !self.names.is_empty() {
            // One ended early: its days before are over.
            return;
        }
        for window in windows {
            let of = self.names.len();
            let cores = self.cores.iter().filter(|(rank, _)| window.ranks.contains(**rank));
            self.names.push((window.clone(), cores.map(|(_, cores)| cores.len()).sum()));
            if window.float.is_some() {
                // Its nodes need not be free at a time.
                continue;
            }
            let mut before = f64::NEG_INFINITY;
            for times in &window.occurrences {
                let until = times.start - window.margin;
                let from = before.max(until - BEFORE);
                before = times.end;
                self.times.push(Time { of, from, until, waited: 0.0, spans: Vec::new(), busy: Vec::new() });
            }
        }
    }

    fn warm(&mut self, s: &Started<'_>) -> io::Result<()> {
        self.holds(s);
        Ok(())
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        self.holds(s);
        Ok(())
    }

    fn span(&mut self, span: &Span) -> io::Result<()> {
        self.last = self.last.max(span.to);
        self.most = self.most.max(span.put_off);
        self.put_off += span.put_off as f64 * (span.to - span.from);
        if span.waiting == 0 {
            return Ok(());
        }
        for time in self.times.iter_mut().filter(|time| time.from < span.to && span.from < time.until) {
            let (from, to) = (span.from.max(time.from), span.to.min(time.until));
            let before = time.spans.last().map_or(0.0, |(from, to, before)| before + (to - from));
            match time.spans.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => time.spans.push((from, to, before)),
            }
            time.waited += self.names[time.of].1 as f64 * (to - from);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_engine::Occurrence;
    use fluxgate_formats::{Idset, JobId, R};
    use fluxgate_graph::CoreRun;

    use super::*;
    use crate::workload::Job;

    #[test]
    fn feat_28_idle_cores_count_while_jobs_wait() {
        let cores: Cores = (0..4).map(|rank| (rank, "0-1".parse::<Idset>().unwrap())).collect();
        let at = |start: f64| Occurrence { start, end: start + 100.0, begins: String::new() };
        let day = BEFORE;
        let window = Window::maintenance("w", vec![at(day + 1000.0), at(9.0 * day)], "0-2".parse().unwrap());
        let mut seen = IdleBefore::new(&cores);
        assert_eq!(seen.figures(), None);
        seen.reserved(&[window], &BTreeMap::new());
        let span = |from: f64, to: f64, waiting: u64, put_off: u64| Span {
            from,
            to,
            busy: 0,
            waiting,
            narrowest: None,
            put_off,
        };
        let job = Job::new(JobId(1), 0.0, 4, 9000.0, 9000.0);
        // Ranks 2 and 3, of which the first is reserved.
        let runs = [CoreRun { ranks: (2, 3), cores: (0, 1) }];
        let r = R::default();
        let started = |start: f64, end: f64| Started {
            job: &job,
            start,
            end,
            r: &r,
            cores: &runs,
            backfilled: false,
            again: None,
        };
        seen.started(&started(500.0, 3000.0)).unwrap();
        for (from, to, waiting, put_off) in [
            (0.0, 2000.0, 1, 0),
            (2000.0, 2500.0, 0, 0),
            (2500.0, 4000.0, 2, 2),
            (4000.0, day + 1000.0, 0, 0),
        ] {
            seen.span(&span(from, to, waiting, put_off)).unwrap();
        }
        let figures = seen.figures().unwrap();
        // 1000 to 2000 and 2500 to 4000 on six cores; two of them are busy to 2000 and from 2500 to 3000.
        let expected = ReservationFigures {
            name: "w".to_owned(),
            times: 1,
            core_hours: 6.0 * 2500.0 / 3600.0,
            idle_core_hours: (6.0 * 2500.0 - 2.0 * 1500.0) / 3600.0,
        };
        assert_eq!(figures.reservations, [expected]);
        assert_eq!((figures.put_off_job_hours, figures.put_off_most), (2.0 * 1500.0 / 3600.0, 2));
    }
}
