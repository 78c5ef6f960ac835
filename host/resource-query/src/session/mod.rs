//! The command language of `resource-query` for a [`Matcher`].
//!
//! A [`Session`] loads a graph and executes lines such as `match allocate job.yaml`, `cancel 3` or `find
//! status=down`. Its answers are text for people and for test suites that compare it. It reads files and a stopwatch
//! only through its [`World`], so that a test needs neither.
//!
//! This module must never know a terminal, a file system or the time of day.

mod commands;
mod graph_commands;
mod help;
mod matches;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use fluxgate_formats::rset::R;

use crate::matching::{Matcher, PRUNE_DEFAULT, Policy, PolicyError, Setup, SetupError};
use crate::render::Format;
use fluxgate_graph::description::LoadError;
use fluxgate_graph::description::{Model, VertexId};

/// The environment of a session.
pub trait World {
    /// The text of a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no text. The session reports the error and goes on.
    fn read(&mut self, path: &str) -> io::Result<String>;

    /// Seconds of a stopwatch that never goes back; only differences count.
    fn seconds(&mut self) -> f64;
}

/// The options of a session, as on the command line.
#[derive(Debug, Clone)]
pub struct Options {
    /// Format of the graph, one of [`LOAD_FORMATS`].
    pub load_format: String,
    /// Types to load, separated by commas, for the formats that can leave some out (hwloc); `None` for all.
    pub allow: Option<String>,
    /// The subsystems to match on, a name of [`SUBSYSTEMS`] such as `CA` or `C+PA`, in any case of its letters.
    pub subsystems: String,
    /// The match policy, such as `lonode` ([`Policy::parse`]); ignored with `ranked`.
    pub policy: String,
    /// True if nodes are taken in an order that is set ([`Session::order_nodes`]) and not by `policy`.
    pub ranked: bool,
    /// `simple`, or `flexible` for slots that are alternatives ([`Setup::flexible`]).
    pub traverser: String,
    /// The format in which selections are written, such as `rv1`: a name of [`Format::ALL`].
    pub match_format: String,
    /// The aggregates, such as `ALL:core`; empty for none.
    pub prune: String,
    /// True if answers include the time and the number of visited vertices.
    pub elapse: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            load_format: "grug".to_owned(),
            allow: None,
            subsystems: "CA".to_owned(),
            policy: "first".to_owned(),
            ranked: false,
            traverser: "simple".to_owned(),
            match_format: "simple".to_owned(),
            prune: PRUNE_DEFAULT.to_owned(),
            elapse: false,
        }
    }
}

/// Formats of graphs. With `rv1exec_force` R is read even where it has a `scheduling` key; so it is with `rv1exec`.
pub const LOAD_FORMATS: [&str; 6] = ["grug", "hwloc", "jgf", "jgf_shorthand", "rv1exec", "rv1exec_force"];

/// Names of sets of subsystems, the dominant one first.
pub const SUBSYSTEMS: [(&str, &[&str]); 14] = [
    ("CA", &["containment"]),
    ("IBA", &["ibnet"]),
    ("IBBA", &["ibnetbw"]),
    ("PA", &["power"]),
    ("PFS1BA", &["pfs1bw"]),
    ("C+IBA", &["containment", "ibnet"]),
    ("C+IBBA", &["containment", "ibnetbw"]),
    ("C+PA", &["containment", "power"]),
    ("C+PFS1BA", &["containment", "pfs1bw"]),
    ("IB+IBBA", &["ibnet", "ibnetbw"]),
    ("C+P+IBA", &["containment", "power", "ibnet"]),
    ("V+PFS1BA", &["virtual1", "pfs1bw"]),
    ("VA", &["virtual1"]),
    ("ALL", &["containment", "ibnet", "ibnetbw", "pfs1bw", "power"]),
];

/// The fault for which a session was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The graph is invalid.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The subsystems or the pruning spec are invalid.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Another option is invalid.
    #[error("{option}: '{found}' found; accepted are {accepted}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        found: String,
        /// The accepted values.
        accepted: String,
    },
}

/// The stream of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The result: to the file of results if there is one, else to the standard output.
    Result,
    /// Information about it: always to the standard output.
    Info,
    /// An error, in the words of the graph scheduler's tool: to the standard error output.
    Error,
    /// The reason of an error, which that tool does not print: to the standard error output, for people.
    Reason,
}

/// The answer to a command, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Texts and their streams, in order; no text is empty.
    pub parts: Vec<(Stream, String)>,
    /// True if the session is over, after `quit`.
    pub quit: bool,
}

impl Said {
    fn say(&mut self, stream: Stream, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.parts.push((stream, text));
        }
    }

    fn result(&mut self, text: impl Into<String>) {
        self.say(Stream::Result, text);
    }

    fn error(&mut self, text: impl std::fmt::Display) {
        self.say(Stream::Error, format!("ERROR: {text}\n"));
    }

    fn reason(&mut self, text: impl std::fmt::Display) {
        self.say(Stream::Reason, format!("  {text}\n"));
    }

    /// All text on one stream; empty if there is none.
    pub fn text(&self, stream: Stream) -> String {
        self.parts.iter().filter(|(s, _)| *s == stream).map(|(_, text)| text.as_str()).collect()
    }
}

/// The outcome of a job.
#[derive(Debug, Clone)]
struct Job {
    state: &'static str,
    at: i64,
    jobspec: String,
    seconds: f64,
}

/// A graph with its bookings, and their jobs.
#[derive(Debug, Clone)]
pub struct Session {
    matcher: Matcher,
    format: Format,
    elapse: bool,
    next_job: u64,
    jobs: BTreeMap<u64, Job>,
    /// Types that a jobspec may name without a report that they are unknown.
    types: BTreeSet<String>,
    /// Shortest, longest and total match time, in seconds.
    times: (f64, f64, f64),
}

impl Session {
    /// Loads a graph.
    ///
    /// # Errors
    /// The graph is invalid, an option has an unknown value, or the graph lacks a subsystem that is to be matched on.
    pub fn new(graph: &str, options: &Options) -> Result<Session, SessionError> {
        let model = match options.load_format.as_str() {
            "grug" => Model::from_grug(graph)?,
            "jgf" | "jgf_shorthand" => {
                let mut model = Model::from_jgf(graph)?;
                model.forget_units();
                model
            }
            "rv1exec" | "rv1exec_force" => {
                let r = R::from_json(graph).map_err(|e| LoadError::new("R", "text", e.to_string()))?;
                Model::from_r(&r)?
            }
            "hwloc" => {
                let allow = options.allow.as_deref().map(|list| list.split(',').collect::<Vec<_>>());
                Model::from_hwloc(graph, allow.as_deref())?
            }
            _ => return Err(wrong("load-format", &options.load_format, &LOAD_FORMATS)),
        };
        let known = SUBSYSTEMS.map(|(name, _)| name);
        let subsystems = SUBSYSTEMS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&options.subsystems))
            .ok_or_else(|| wrong("match-subsystems", &options.subsystems, &known))?;
        let formats = Format::ALL.map(|(name, _)| name);
        let format = Format::parse(&options.match_format)
            .ok_or_else(|| wrong("match-format", &options.match_format, &formats))?;
        let flexible = match options.traverser.as_str() {
            "simple" => false,
            "flexible" => true,
            _ => return Err(wrong("traverser-policy", &options.traverser, &["simple", "flexible"])),
        };
        let setup = Setup {
            policy: if options.ranked { Policy::ranked() } else { Policy::parse(&options.policy)? },
            subsystems: subsystems.1.iter().map(|&s| s.to_owned()).collect(),
            prune: options.prune.clone(),
            flexible,
        };
        let types = types_of(&model);
        let mut matcher = Matcher::new(model, &setup)?;
        // The number of visited vertices is exact only for walks.
        matcher.walk_always(options.elapse);
        Ok(Session {
            matcher,
            format,
            elapse: options.elapse,
            next_job: 1,
            jobs: BTreeMap::new(),
            types,
            times: (f64::MAX, 0.0, 0.0),
        })
    }

    /// The sizes of the graph, in lines: numbers of types, names and paths, and of the vertices of each rank.
    pub fn sizes(&self) -> String {
        let model = self.matcher.model();
        let (mut types, mut names, mut paths) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut ranks: BTreeMap<i64, usize> = BTreeMap::new();
        for (id, v) in model.vertices().filter_map(|id| Some((id, model.vertex(id)?))) {
            types.insert(v.type_());
            names.insert(v.name());
            paths.extend(model.paths(id).into_iter().map(|(_, path)| path));
            *ranks.entry(v.rank().unwrap_or(-1)).or_default() += 1;
        }
        let mut text = format!(
            "INFO: by_type Key-Value Pairs: {}\nINFO: by_name Key-Value Pairs: {}\nINFO: by_path Key-Value Pairs: {}\n",
            types.len(),
            names.len(),
            paths.len()
        );
        for (rank, count) in ranks {
            text += &format!("INFO: number of vertices with rank {rank}: {count}\n");
        }
        text
    }

    /// The matcher, for reading.
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Sets the order of nodes ([`Matcher::order_nodes`]); the session must have been opened with `ranked`.
    pub fn order_nodes(&mut self, order: &[VertexId]) {
        self.matcher.order_nodes(order);
    }
}

/// Types that a graph scheduler knows even if the graph has none.
const TYPES: [&str; 10] =
    ["cluster", "core", "socket", "gpu", "node", "rack", "slot", "xor_slot", "ssd", "storage_node"];

fn types_of(model: &Model) -> BTreeSet<String> {
    let there: BTreeSet<_> = model.vertices().filter_map(|v| model.vertex(v)).map(|v| v.type_()).collect();
    let subsystems = model.subsystems().iter().map(|&s| model.text(s));
    there.into_iter().map(|t| model.text(t)).chain(subsystems).chain(TYPES).map(str::to_owned).collect()
}

fn wrong(option: &'static str, found: &str, accepted: &[&str]) -> SessionError {
    SessionError::Option { option, found: found.to_owned(), accepted: accepted.join(", ") }
}
