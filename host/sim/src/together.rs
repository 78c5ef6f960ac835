//! Observers that are told of many events at one time.
//!
//! In a replay a job goes through more code than the first cache of a processor holds. The code of an observer that is told of one event
//! behind the other is fetched once for all of them. Must never change the order of events.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use fluxgate_engine::{Forecast, Window};
use fluxgate_formats::R;
use fluxgate_graph::CoreRun;

use crate::observe::{Ended, Observer, Progress, Span, Started};
use crate::workload::Job;

/// Most events that are told at one time: few enough that they stay in the cache, too.
const EVENTS_MAX: usize = if cfg!(test) { 3 } else { 64 };

/// An event that is told later.
enum Told {
    Submitted(Job),
    Started(Start),
    Ended(Ended),
    Span(Span),
}

/// A start without R.
struct Start {
    job: Job,
    start: f64,
    end: f64,
    /// The place of its cores in the list of the cores of all starts.
    cores: Range<usize>,
    backfilled: bool,
    again: Option<f64>,
}

/// The observers; see the module. They are told of everything when the run is over, and before any event that is not told later.
pub(crate) struct Together<'o> {
    observers: Vec<&'o mut dyn Observer>,
    told: Vec<Told>,
    cores: Vec<CoreRun>,
    /// The allocation of all starts.
    no_r: R,
    /// An error that could not be returned at once.
    failed: Option<io::Error>,
}

impl<'o> Together<'o> {
    /// None of them may want R.
    pub(crate) fn new(observers: Vec<&'o mut dyn Observer>) -> Self {
        let told = Vec::with_capacity(EVENTS_MAX);
        Together { observers, told, cores: Vec::new(), no_r: R::default(), failed: None }
    }

    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.observers.is_empty()
    }

    fn later(&mut self, event: Told) -> io::Result<()> {
        self.told.push(event);
        if self.told.len() < EVENTS_MAX { Ok(()) } else { self.tell() }
    }

    /// Tells of all events so far.
    fn tell(&mut self) -> io::Result<()> {
        let Together { observers, told, cores, no_r, failed } = self;
        if let Some(error) = failed.take() {
            return Err(error);
        }
        for observer in observers {
            for event in &*told {
                match event {
                    Told::Submitted(job) => observer.submitted(job),
                    Told::Ended(ended) => observer.ended(ended),
                    Told::Span(span) => observer.span(span),
                    Told::Started(Start { job, start, end, cores: own, backfilled, again }) => {
                        let (start, end, cores) = (*start, *end, &cores[own.clone()]);
                        let (backfilled, again) = (*backfilled, *again);
                        observer.started(&Started { job, start, end, r: no_r, cores, backfilled, again })
                    }
                }?;
            }
        }
        told.clear();
        cores.clear();
        Ok(())
    }

    /// Tells of all events so far, then of another one.
    fn now(&mut self, mut event: impl FnMut(&mut dyn Observer) -> io::Result<()>) -> io::Result<()> {
        self.tell()?;
        self.observers.iter_mut().try_for_each(|observer| event(&mut **observer))
    }
}

impl Observer for Together<'_> {
    fn wants_r(&self) -> bool {
        false
    }

    fn wants_cores(&self) -> bool {
        self.observers.iter().any(|observer| observer.wants_cores())
    }

    fn reserved(&mut self, windows: &[Window], queues: &BTreeMap<u32, String>) {
        let told = self.now(|observer| {
            observer.reserved(windows, queues);
            Ok(())
        });
        self.failed = told.err();
    }

    fn submitted(&mut self, job: &Job) -> io::Result<()> {
        self.later(Told::Submitted(*job))
    }

    fn warm(&mut self, started: &Started<'_>) -> io::Result<()> {
        self.now(|observer| observer.warm(started))
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        let first = self.cores.len();
        self.cores.extend_from_slice(s.cores);
        let cores = first..self.cores.len();
        let Started { start, end, backfilled, again, .. } = *s;
        self.later(Told::Started(Start { job: *s.job, start, end, cores, backfilled, again }))
    }

    fn ended(&mut self, ended: &Ended) -> io::Result<()> {
        self.later(Told::Ended(*ended))
    }

    fn span(&mut self, span: &Span) -> io::Result<()> {
        self.later(Told::Span(*span))
    }

    fn forecasts(&mut self, now: f64, forecasts: &[Forecast], all: bool) -> io::Result<()> {
        self.now(|observer| observer.forecasts(now, forecasts, all))
    }

    fn denied(&mut self, job: &Job, note: &str) -> io::Result<()> {
        self.now(|observer| observer.denied(job, note))
    }

    fn left(&mut self, job: &Job, why: &str) -> io::Result<()> {
        self.now(|observer| observer.left(job, why))
    }

    fn never_submitted(&mut self, job: &Job, why: &str) -> io::Result<()> {
        self.now(|observer| observer.never_submitted(job, why))
    }

    fn progress(&mut self, progress: &Progress) -> io::Result<()> {
        self.now(|observer| observer.progress(progress))
    }

    fn finished(&mut self) -> io::Result<()> {
        self.now(|observer| observer.finished())
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::JobId;

    use super::*;

    /// The events in words.
    #[derive(Default)]
    struct Words(Vec<String>);

    impl Words {
        fn add(&mut self, event: impl std::fmt::Debug) -> io::Result<()> {
            self.0.push(format!("{event:?}"));
            if self.0.len() < 20 { Ok(()) } else { Err(io::Error::other("full")) }
        }
    }

    impl Observer for Words {
        fn reserved(&mut self, windows: &[Window], _queues: &BTreeMap<u32, String>) {
            let _ = self.add(windows.len());
        }

        fn submitted(&mut self, job: &Job) -> io::Result<()> {
            self.add(job)
        }

        fn warm(&mut self, started: &Started<'_>) -> io::Result<()> {
            self.add(("warm", started))
        }

        fn started(&mut self, started: &Started<'_>) -> io::Result<()> {
            self.add(started)
        }

        fn ended(&mut self, ended: &Ended) -> io::Result<()> {
            self.add(ended)
        }

        fn span(&mut self, span: &Span) -> io::Result<()> {
            self.add(span)
        }

        fn denied(&mut self, job: &Job, note: &str) -> io::Result<()> {
            self.add((job, note))
        }

        fn left(&mut self, job: &Job, why: &str) -> io::Result<()> {
            self.add((why, job))
        }

        fn progress(&mut self, progress: &Progress) -> io::Result<()> {
            self.add(progress)
        }

        fn finished(&mut self) -> io::Result<()> {
            self.add("finished")
        }
    }

    /// A run of a few events, of which some are told at once.
    fn tell(observer: &mut dyn Observer) -> io::Result<()> {
        let r = R::default();
        let run = |from, cores| CoreRun { ranks: (from, from), cores: (0, cores) };
        for number in 0..3u32 {
            let job = Job::new(JobId(number.into()), f64::from(number), 2, 60.0, 30.0);
            observer.submitted(&job)?;
            let cores = [run(number, 1), run(number + 1, 1)];
            let (backfilled, again) = (number == 1, Some(5.0).filter(|_| number == 2));
            let started =
                Started { job: &job, start: 4.0, end: 9.0, r: &r, cores: &cores, backfilled, again };
            if number == 0 {
                observer.warm(&started)?;
                observer.reserved(&[], &BTreeMap::new());
            }
            observer.started(&started)?;
            let (busy, waiting) = (u64::from(number), 3);
            observer.span(&Span { from: 4.0, to: 9.0, busy, waiting, narrowest: None, put_off: 0 })?;
            observer.ended(&Ended { id: job.id, time: 9.0, cores: 2, ran: 5.0, again: number == 2 })?;
        }
        let job = Job::new(JobId(9), 9.0, 5, 60.0, 30.0);
        observer.denied(&job, "too wide")?;
        observer.submitted(&job)?;
        observer.left(&job, "nothing")?;
        observer.progress(&Progress { submitted: 4, done: 3, waiting: 1, now: 9.0 })
    }

    #[test]
    fn each_observer_is_told_of_all_events_in_their_order() {
        let (mut direct, mut first, mut second) = (Words::default(), Words::default(), Words::default());
        tell(&mut direct).unwrap();
        direct.finished().unwrap();
        let mut together = Together::new(vec![&mut first, &mut second]);
        tell(&mut together).unwrap();
        together.finished().unwrap();
        assert_eq!((&first.0, &second.0), (&direct.0, &direct.0));
    }

    #[test]
    fn the_error_of_an_observer_ends_the_run() {
        let mut full = Words::default();
        let mut together = Together::new(vec![&mut full]);
        let told = tell(&mut together).and_then(|()| tell(&mut together)).and_then(|()| together.finished());
        assert_eq!(told.unwrap_err().to_string(), "full");
        assert_eq!(full.0.len(), 20);
    }
}
