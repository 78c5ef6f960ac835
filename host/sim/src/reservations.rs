//! Reservations during a workload, from a file: nodes that are kept for maintenance, or for some jobs.
//!
//! The file is JSON: `{"version": 1, "reservations": [...]}`, each with
//!
//! - `name`, and `kind`: `maintenance` or `dedicated`;
//! - `start`: seconds since the epoch, or `"+36h"` from the first submission of the workload;
//! - `duration`: seconds, or a duration (RFC 23);
//! - `ranks`: an idset (RFC 22), or `nodes`: a number of them, or `cores`: as many nodes as have this many, chosen when the workload
//!   begins;
//! - optional `every`: a duration after which it comes again, and `times`: how often it is there in all;
//! - optional `users`, `queues`, `magnetic`, `overlap`, `margin`, `overrun`, `release_when_idle`, `float` and `fill`, as the
//!   reservations of a scheduler.
//!
//! All reservations are made when the workload begins. This module knows neither jobs nor policies.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use fluxgate_engine::{
    AfterWindow, Engine, Event, Members, Occurrence, OnRunning, Wanted, Window, WindowKind,
};
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::{Idset, fsd};
use serde::Deserialize;

use crate::bounded::Bounded;

/// Largest file, in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file of reservations is invalid, or one of them cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReservationError {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// It is not JSON of this form.
    #[error("{file}: {what}")]
    Bad {
        /// The file.
        file: String,
        /// The error, with line and column.
        what: String,
    },
    /// A reservation cannot be made on this machine; its name and the reason.
    #[error("reservation {0}")]
    Refused(String),
}

/// Seconds, or a duration in RFC 23.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(f64),
    Text(String),
}

impl Seconds {
    fn value(&self) -> Result<f64, String> {
        let found = match self {
            Seconds::Number(seconds) => Some(*seconds),
            Seconds::Text(text) => fsd::parse(text).ok(),
        };
        let legal = found.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        legal.ok_or_else(|| format!("found {self:?}, accepted are seconds and durations such as \"2h\""))
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    kind: WindowKind,
    start: Seconds,
    duration: Seconds,
    ranks: Option<String>,
    nodes: Option<u32>,
    cores: Option<u64>,
    every: Option<Seconds>,
    #[serde(default = "once")]
    times: u32,
    #[serde(default)]
    users: BTreeSet<u32>,
    #[serde(default)]
    queues: BTreeSet<String>,
    #[serde(default)]
    magnetic: bool,
    #[serde(default)]
    overlap: bool,
    margin: Option<Seconds>,
    overrun: Option<Seconds>,
    release_when_idle: Option<Seconds>,
    float: Option<Seconds>,
    #[serde(default)]
    fill: bool,
}

fn once() -> u32 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    reservations: Vec<Row>,
}

/// The reservations of a workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reservations {
    rows: Vec<Row>,
}

impl Reservations {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ReservationError`]: the file cannot be read, or is not of the form of the module text.
    pub fn load(path: &Path) -> Result<Self, ReservationError> {
        let file = path.display().to_string();
        let io_error = |source| ReservationError::Io { file: file.clone(), source };
        let mut text = String::new();
        let input = std::fs::File::open(path).map_err(io_error)?;
        Bounded::new(input, FILE_BYTES_MAX).read_to_string(&mut text).map_err(io_error)?;
        Self::parse(&text, &file)
    }

    /// Reads a text; `file` is its name in errors.
    ///
    /// # Errors
    /// [`ReservationError::Bad`]: it is not of the form of the module text.
    pub fn parse(text: &str, file: &str) -> Result<Self, ReservationError> {
        let bad = |what: String| ReservationError::Bad { file: file.to_owned(), what };
        let read: File = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        if read.version != 1 {
            return Err(bad(format!("found version {}, 1 is accepted", read.version)));
        }
        // Each is tried with times of its own, so that an error names the file.
        for row in &read.reservations {
            row.window(0.0).map_err(|what| bad(format!("{}: {what}", row.name)))?;
        }
        Ok(Reservations { rows: read.reservations })
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Is one of them filled by jobs that may be ended?
    pub(crate) fn are_filled(&self) -> bool {
        self.rows.iter().any(|row| row.fill)
    }

    /// The reservations of a workload that begins at this time on the machine of this engine, with their nodes; they are
    /// made one after the other.
    ///
    /// # Errors
    /// [`ReservationError::Refused`] for the first one that cannot be made.
    pub fn windows(&self, engine: &mut Engine, begin: f64) -> Result<Vec<Window>, ReservationError> {
        let refused = |name: &str, what: String| ReservationError::Refused(format!("{name}: {what}"));
        let mut made = Vec::new();
        for row in &self.rows {
            let window = row.window(begin).map_err(|what| refused(&row.name, what))?;
            let plan =
                engine.plan_window(window, begin).map_err(|error| refused(&row.name, error.to_string()))?;
            engine.step(Event::PutWindow(Box::new(plan.window.clone())), begin);
            made.push(plan.window);
        }
        Ok(made)
    }
}

impl Row {
    fn window(&self, begin: f64) -> Result<Window, String> {
        let start = match &self.start {
            Seconds::Number(time) => *time,
            Seconds::Text(text) => match text.strip_prefix('+').map(fsd::parse) {
                Some(Ok(later)) => begin + later,
                _ => {
                    return Err(format!(
                        "start: found {text:?}, accepted are seconds since the epoch and \"+36h\""
                    ));
                }
            },
        };
        let long = self.duration.value()?;
        let every = self.every.as_ref().map_or(Ok(0.0), Seconds::value)?;
        if self.times == 0 || (self.times > 1 && every == 0.0) {
            return Err(format!("times: found {}, with every it is 1 or more, and 1 without", self.times));
        }
        let occurrence = |n: u32| {
            let start = start + every * f64::from(n);
            Occurrence { start, end: start + long, begins: format!("{start}") }
        };
        let ranks = match (&self.ranks, self.nodes.map(u64::from).or(self.cores)) {
            (Some(ranks), None) => ranks.parse().map_err(|error| format!("ranks: {error}"))?,
            (None, Some(_)) => Idset::new(),
            _ => return Err("it needs either ranks or nodes or cores".to_owned()),
        };
        let optional = |seconds: &Option<Seconds>| seconds.as_ref().map_or(Ok(0.0), Seconds::value);
        Ok(Window {
            name: self.name.clone(),
            kind: self.kind,
            occurrences: (0..self.times.min(fluxgate_graph::OCCURRENCES_MAX as u32 + 1))
                .map(occurrence)
                .collect(),
            margin: optional(&self.margin)?,
            overrun: optional(&self.overrun)?,
            wanted: match (self.nodes, self.cores) {
                (None, None) => None,
                (nodes, cores) => Some(Wanted {
                    nodes: nodes.unwrap_or(0),
                    cores: cores.unwrap_or(0),
                    constraint: Constraint::All,
                }),
            },
            ranks,
            degraded: false,
            awaited: None,
            replace: false,
            members: Members {
                users: self.users.clone(),
                queues: self.queues.clone(),
                magnetic: self.magnetic,
                ..Members::default()
            },
            flex: false,
            overlap: self.overlap,
            release_when_idle: self.release_when_idle.as_ref().map(Seconds::value).transpose()?,
            float: self.float.as_ref().map(Seconds::value).transpose()?,
            fill: self.fill,
            pools: BTreeMap::new(),
            running: OnRunning::Ignore,
            after: AfterWindow::Wait,
            repeat: None,
            note: String::new(),
            created: (0, begin),
        })
    }
}
