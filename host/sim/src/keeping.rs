//! Runs that write checkpoints, and runs that go on from one.
//!
//! A checkpoint is written between two instants of the run, so it has all events up to a time and none after it. This module does not
//! know the format of the file, nor what a state is made of.

use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use fluxgate_engine::Config;
use fluxgate_formats::fsd;
use fluxgate_graph::Resources;

use crate::checkpoint::{self, CheckpointError, Identity, Opened};
use crate::driver::{Deciders, Outcome, Run, SimError, Surroundings, writes_r};
use crate::history::{self, History, Keeper};
use crate::observe::Observer;
use crate::together::Together;
use crate::workload::Job;

/// The time from a checkpoint to the next one. As text a duration such as `12h`, or a number of jobs such as `10000jobs`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Every {
    /// In seconds of the workload since the first event; finite, above 0.
    Seconds(f64),
    /// In submissions, above 0.
    Jobs(u64),
}

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let every = match text.strip_suffix("jobs") {
            Some(jobs) => jobs.parse().ok().filter(|jobs| *jobs > 0).map(Every::Jobs),
            None => fsd::parse(text).ok().filter(|s| s.is_finite() && *s > 0.0).map(Every::Seconds),
        };
        every.ok_or_else(|| {
            format!(
                "found `{text}`, accepted is a duration above 0 in the time of the log, such as 86400, 12h or 7d, or a \
                 number of jobs, such as 10000jobs"
            )
        })
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Every::Seconds(seconds) => write!(f, "{seconds}s"),
            Every::Jobs(jobs) => write!(f, "{jobs}jobs"),
        }
    }
}

impl Every {
    /// Number of the last checkpoint that is due, from 1; 0 if none is. The time is in seconds since the first event.
    fn number(self, elapsed: f64, submitted: u64) -> u64 {
        match self {
            Every::Seconds(seconds) => (elapsed / seconds) as u64,
            Every::Jobs(jobs) => submitted / jobs,
        }
    }

    /// The time or the number of jobs at which this checkpoint is due.
    fn due(self, number: u64) -> Every {
        match self {
            Every::Seconds(seconds) => Every::Seconds(seconds * number as f64),
            Every::Jobs(jobs) => Every::Jobs(jobs * number),
        }
    }
}

/// The checkpoints that a run writes.
#[derive(Debug, Clone)]
pub struct Writes {
    /// How often.
    pub every: Every,
    /// The folder of the files; it exists.
    pub folder: PathBuf,
    /// First part of the names of the files: `NAME.7200s.checkpoint`, with the time or the number of jobs at which the checkpoint
    /// was due.
    pub name: String,
    /// The run that they are of.
    pub identity: Identity,
}

impl Writes {
    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}.{}.checkpoint", self.name, self.every.due(number)))
    }
}

/// The checkpoint from which a run goes on, and those that it writes.
#[derive(Debug, Default)]
pub struct Keeping {
    /// The checkpoint from which it goes on, whose identity has been checked; `None` if it begins at its begin.
    pub from: Option<Opened>,
    /// True if the policies are others than those of the checkpoint, and are swapped in.
    pub fork: bool,
    /// The checkpoints that it writes; `None` for none.
    pub writes: Option<Writes>,
}

impl Keeping {
    /// True if the run begins at its begin and writes nothing.
    pub fn is_empty(&self) -> bool {
        self.from.is_none() && self.writes.is_none()
    }
}

/// Runs a workload, as [`crate::driver::run_with`].
///
/// # Errors
/// As there; also [`SimError::Checkpoint`].
pub(crate) fn run(
    jobs: impl Iterator<Item = Job>,
    surroundings: &Surroundings,
    resources: Resources,
    (config, deciders): (Config, Deciders),
    observers: &mut [&mut dyn Observer],
    keeping: Keeping,
) -> Result<Outcome, SimError> {
    if surroundings.forecasts.is_some() && !keeping.is_empty() {
        let what = "forecasts are not kept, so a run with them cannot go on".to_owned();
        return Err(CheckpointError::State(what).into());
    }
    let Keeping { from, fork, writes } = keeping;
    let history = RefCell::new(History::new());
    let mut keeper = Keeper(&history);
    // Nothing reads an observer before the end of the run, and a start without R is told in a few numbers.
    let lags = writes.is_none() && !writes_r(surroundings, observers);
    let observers = observers.iter_mut().map(|observer| &mut **observer as &mut dyn Observer);
    let (later, mut all): (Vec<_>, Vec<_>) = observers.partition(|observer| lags && observer.may_lag());
    let mut later = Together::new(later);
    if !later.is_empty() {
        all.push(&mut later);
    }
    if writes.is_some() {
        all.push(&mut keeper);
    }
    let mut jobs = jobs.peekable();
    let (mut run, mut last) = match from {
        None => (Run::of(jobs, surroundings, resources, config, deciders, &mut all)?, 0),
        Some(Opened { mut saved, events, rest, .. }) => {
            let waiting = history::tell(rest, events, &mut jobs, &mut all)?;
            saved.know(|id| waiting.get(&id).map_or(0, |job| job.attributes));
            let number = |writes: &Writes| writes.every.number(saved.elapsed(), saved.submitted);
            let last = writes.as_ref().map_or(0, number);
            (Run::resume(saved, jobs, surroundings, resources, (deciders, fork), &mut all)?, last)
        }
    };
    while run.instant(&mut all)? {
        let Some(writes) = &writes else { continue };
        let number = writes.every.number(run.now() - run.begin(), run.submitted());
        if number > last
            && let Some(saved) = run.save(&mut all)?
        {
            last = number;
            checkpoint::write(&writes.path(number), &writes.identity, &saved, &mut history.borrow_mut())?;
        }
    }
    run.finish(&mut all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn res_18_how_often_in_words() {
        let read = |text: &str| text.parse::<Every>();
        assert_eq!(read("86400"), Ok(Every::Seconds(86_400.0)));
        assert_eq!(read("1.5h"), Ok(Every::Seconds(5400.0)));
        assert_eq!(read("1000jobs"), Ok(Every::Jobs(1000)));
        for wrong in ["", "0", "-1", "inf", "0jobs", "jobs", "12 jobs", "x"] {
            let error = read(wrong).unwrap_err();
            assert!(
                error.starts_with(&format!("found `{wrong}`, accepted is a duration above 0")),
                "{error}"
            );
        }
        assert_eq!(Every::Seconds(3600.0).due(2).to_string(), "7200s");
        assert_eq!(Every::Jobs(100).number(1e9, 299), 2);
        assert_eq!(Every::Seconds(60.0).number(59.9, 299), 0);
    }
}
