//! The history of the observers of a run: all that they were told, kept to be told again when the run goes on from a checkpoint.
//!
//! Figures, schedules and the independent check are then those of a run without interruption, and none of them has to save a
//! state. A history is a sequence of gzip members, each of some events, and grows with the run: in memory up to [`SPOOLED_MAX`],
//! then in a file without a name.
//!
//! This module does not know what observers do with it, nor the state of a run.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::iter::Peekable;

use flate2::Compression;
use flate2::write::GzEncoder;
use fluxgate_engine::Window;
use fluxgate_formats::{JobId, R};
use fluxgate_graph::CoreRun;
use serde::{Deserialize, Serialize};
use tempfile::SpooledTempFile;

use crate::checkpoint::{CheckpointError, frame, next_frame};
use crate::driver::SimError;
use crate::hash::Spread;
use crate::observe::{Observer, Span, Started};
use crate::workload::Job;

/// Bytes of a history that stay in memory.
pub const SPOOLED_MAX: usize = 64 << 20;

/// Bytes of events that are compressed together.
const PART: usize = 1 << 20;

/// An event that observers were told, in the order of [`Observer`]'s methods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Told {
    Reserved(Vec<Window>, BTreeMap<u32, String>),
    Submitted(Job),
    Warm(Job, Start),
    Started(JobId, Start),
    Span(Span),
    Denied(JobId, String),
}

/// A start. Times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Start {
    start: f64,
    end: f64,
    /// Cores that it holds.
    width: u32,
    backfilled: bool,
    again: Option<f64>,
    r: Option<R>,
    /// First and last rank, first and last core.
    cores: Vec<[u32; 4]>,
}

impl Start {
    fn of(s: &Started<'_>) -> Start {
        let runs = s.cores.iter().map(|run| [run.ranks.0, run.ranks.1, run.cores.0, run.cores.1]);
        Start {
            start: s.start,
            end: s.end,
            width: s.job.cores,
            backfilled: s.backfilled,
            again: s.again,
            r: (!s.r.r_lite.is_empty()).then(|| s.r.clone()),
            cores: runs.collect(),
        }
    }

    /// Tells it of this job.
    fn tell(&self, job: &Job, mut see: impl FnMut(&Started<'_>) -> io::Result<()>) -> io::Result<()> {
        let job = Job { cores: self.width, ..*job };
        let run =
            |[from, to, first, last]: &[u32; 4]| CoreRun { ranks: (*from, *to), cores: (*first, *last) };
        let cores: Vec<CoreRun> = self.cores.iter().map(run).collect();
        let none = R::default();
        see(&Started {
            job: &job,
            start: self.start,
            end: self.end,
            r: self.r.as_ref().unwrap_or(&none),
            cores: &cores,
            backfilled: self.backfilled,
            again: self.again,
        })
    }
}

/// The history of a run so far; see the [module](self).
pub(crate) struct History {
    /// Finished members.
    members: SpooledTempFile,
    /// Events since.
    part: Vec<u8>,
    /// Number of events.
    events: u64,
}

impl History {
    pub(crate) fn new() -> Self {
        History { members: SpooledTempFile::new(SPOOLED_MAX), part: Vec::new(), events: 0 }
    }

    /// Number of events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    fn note(&mut self, told: &Told) -> io::Result<()> {
        frame(told, &mut self.part).map_err(io::Error::other)?;
        self.events += 1;
        if self.part.len() >= PART { self.pack() } else { Ok(()) }
    }

    /// Ends a member.
    fn pack(&mut self) -> io::Result<()> {
        if !self.part.is_empty() {
            let mut member = GzEncoder::new(&mut self.members, Compression::fast());
            member.write_all(&self.part)?;
            member.finish()?;
            self.part.clear();
        }
        Ok(())
    }

    /// Writes all members so far.
    pub(crate) fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.pack()?;
        self.members.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.members, out)?;
        self.members.seek(SeekFrom::End(0)).map(drop)
    }
}

/// An [`Observer`] that keeps a history. It wants the cores of jobs, so that a later run can be checked.
pub(crate) struct Keeper<'h>(pub(crate) &'h RefCell<History>);

impl Keeper<'_> {
    fn note(&mut self, told: Told) -> io::Result<()> {
        self.0.borrow_mut().note(&told)
    }
}

impl Observer for Keeper<'_> {
    fn wants_r(&self) -> bool {
        false
    }

    fn wants_cores(&self) -> bool {
        true
    }

    fn reserved(&mut self, windows: &[Window], queues: &BTreeMap<u32, String>) {
        // An error here is found by the next event, which fails alike.
        let _ = self.note(Told::Reserved(windows.to_vec(), queues.clone()));
    }

    fn submitted(&mut self, job: &Job) -> io::Result<()> {
        self.note(Told::Submitted(*job))
    }

    fn warm(&mut self, s: &Started<'_>) -> io::Result<()> {
        self.note(Told::Warm(*s.job, Start::of(s)))
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        self.note(Told::Started(s.job.id, Start::of(s)))
    }

    fn span(&mut self, span: &Span) -> io::Result<()> {
        self.note(Told::Span(*span))
    }

    fn denied(&mut self, job: &Job, note: &str) -> io::Result<()> {
        self.note(Told::Denied(job.id, note.to_owned()))
    }
}

/// Tells observers this many events of a history, and takes the jobs that were submitted from those of the log. Returns the jobs that
/// still wait.
pub(crate) fn tell(
    mut from: impl Read,
    events: u64,
    jobs: &mut Peekable<impl Iterator<Item = Job>>,
    observers: &mut [&mut dyn Observer],
) -> Result<HashMap<JobId, Job, Spread>, SimError> {
    let bad = |what: String| SimError::Checkpoint(CheckpointError::State(what));
    let mut waiting: HashMap<JobId, Job, Spread> = HashMap::default();
    let unknown = |id: JobId| bad(format!("job {} does not wait", id.0));
    let places = observers.iter().any(|o| o.wants_r());
    for _ in 0..events {
        match next_frame(&mut from)? {
            Told::Reserved(windows, queues) => {
                observers.iter_mut().for_each(|o| o.reserved(&windows, &queues));
            }
            Told::Submitted(job) => {
                // Policies may read attributes that those before did not, so they are read again.
                let mut job = Job { attributes: 0, ..job };
                if let Some(next) = jobs.next_if(|next| next.id == job.id) {
                    job.attributes = next.attributes;
                    if next != job {
                        return Err(bad(format!("job {} is another one than in the log", job.id.0)));
                    }
                }
                observers.iter_mut().try_for_each(|o| o.submitted(&job))?;
                if waiting.insert(job.id, job).is_some() {
                    return Err(bad(format!("job {} waits twice", job.id.0)));
                }
            }
            Told::Warm(job, start) => {
                start.tell(&job, |s| observers.iter_mut().try_for_each(|o| o.warm(s)))?;
            }
            Told::Started(id, start) => {
                if places && start.r.is_none() {
                    return Err(CheckpointError::Places.into());
                }
                let job = waiting.remove(&id).ok_or_else(|| unknown(id))?;
                start.tell(&job, |s| observers.iter_mut().try_for_each(|o| o.started(s)))?;
            }
            Told::Span(span) => observers.iter_mut().try_for_each(|o| o.span(&span))?,
            Told::Denied(id, note) => {
                let job = waiting.remove(&id).ok_or_else(|| unknown(id))?;
                observers.iter_mut().try_for_each(|o| o.denied(&job, &note))?;
            }
        }
    }
    if from.read(&mut [0]).map_err(CheckpointError::Read)? > 0 {
        return Err(bad("there is more after its end".to_owned()));
    }
    Ok(waiting)
}
