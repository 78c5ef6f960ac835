//! The conversation of `resource-query` with a [`Matcher`], command by command.
//!
//! A [`Session`] loads a graph and then obeys lines such as `match allocate job.yaml`, `cancel 3` or
//! `find status=down`. What it answers is text for people and for test suites that compare it. It reads files and a
//! stopwatch only through its [`World`], so that a test needs neither.
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

/// What a session may ask of its surroundings.
pub trait World {
    /// The text of a file.
    fn read(&mut self, path: &str) -> io::Result<String>;

    /// Seconds on a stopwatch that never goes back.
    fn seconds(&mut self) -> f64;
}

/// How a session is set up; every field as the command line gives it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Format of the graph, one of [`LOAD_FORMATS`].
    pub load_format: String,
    /// Types to load, separated by commas, for the formats that can leave some out.
    pub allow: Option<String>,
    /// The subsystems to match on, such as `CA` or `C+PA`.
    pub subsystems: String,
    /// The preference, such as `lonode`.
    pub policy: String,
    /// True when nodes are taken in an order from outside ([`Session::order_nodes`]) and not by `policy`.
    pub ranked: bool,
    /// `simple`, or `flexible` for slots that are alternatives.
    pub traverser: String,
    /// How selections are written, such as `rv1`.
    pub match_format: String,
    /// What is counted where, such as `ALL:core`.
    pub prune: String,
    /// Whether answers say how long they took and how many vertices they visited.
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

/// Why a session could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The graph.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The subsystems or the pruning spec.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Another option.
    #[error("{option}: '{found}' found; accepted are {accepted}")]
    Option {
        /// Which.
        option: &'static str,
        /// Its value.
        found: String,
        /// What there is.
        accepted: String,
    },
}

/// Where a text belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// What was asked for: to the file of results where there is one, else to the standard output.
    Result,
    /// About it: always to the standard output.
    Info,
    /// What went wrong, as the graph scheduler's tool says it: to the standard error output.
    Error,
    /// Why it went wrong, which that tool does not say: to the standard error output, for people.
    Reason,
}

/// What a command answered, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Texts and where they belong.
    pub parts: Vec<(Stream, String)>,
    /// True when the session is over.
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

    /// Everything said on one stream.
    pub fn text(&self, stream: Stream) -> String {
        self.parts.iter().filter(|(s, _)| *s == stream).map(|(_, text)| text.as_str()).collect()
    }
}

/// What became of a job.
#[derive(Debug, Clone)]
struct Job {
    state: &'static str,
    at: i64,
    jobspec: String,
    seconds: f64,
}

/// A graph, what was booked on it, and the jobs it was booked for.
#[derive(Debug, Clone)]
pub struct Session {
    matcher: Matcher,
    format: Format,
    elapse: bool,
    next_job: u64,
    jobs: BTreeMap<u64, Job>,
    /// Types that a jobspec may name without being told that nobody knows them.
    types: BTreeSet<String>,
    /// Shortest, longest and all match times together, in seconds.
    times: (f64, f64, f64),
}

impl Session {
    /// Loads a graph.
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
        // Whoever wants to know how many vertices were visited wants them visited.
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

    /// What there is, in lines: how many types, names and paths, and how many vertices of each rank.
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

    /// The matcher, to look at.
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Takes nodes in this order from here on ([`Matcher::order_nodes`]); a session was begun for it.
    pub fn order_nodes(&mut self, order: &[VertexId]) {
        self.matcher.order_nodes(order);
    }
}

/// Types that a graph scheduler knows without having any.
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
