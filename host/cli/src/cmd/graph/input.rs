//! The sources of a graph: a file of any format, a saved state, or a running instance.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_formats::rset::R;
use fluxgate_graph::description::{Model, Source, State};
use fluxgate_graph::{CONTAINMENT, VertexMarks};
use fluxgate_resource_query::{FOREVER, Matcher, Setup, Term};
use fluxgate_wire::dialect;
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use crate::client::Client;
use crate::fail::usage;
use crate::{place, render};

use super::args::{FormatArg, Options};
use super::store;

/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Most jobs of an instance that are looked at.
const JOBS_MAX: usize = 100_000;
/// RFC 21: the states in which a job may hold resources.
const HOLDING: u64 = 16 | 32;

/// One graph to read.
pub(super) struct Input<'a> {
    pub(super) options: &'a Options,
    pub(super) file: Option<&'a Path>,
}

/// A graph, and the allocations that its source knows.
pub(super) struct Loaded {
    /// The file or the instance.
    pub(super) name: String,
    /// The format.
    pub(super) format: &'static str,
    pub(super) model: Model,
    jobs: Vec<(u64, R)>,
}

impl Options {
    /// The one file, or the instance where there is none.
    pub(super) fn of<'a>(&'a self, file: Option<&'a Path>) -> Result<Input<'a>> {
        match (file, self.from_instance) {
            (Some(file), true) => {
                Err(usage(format!("{} and --from-instance: one of them is accepted", file.display())))
            }
            (file, _) => Ok(Input { options: self, file }),
        }
    }
}

impl Input<'_> {
    pub(super) fn load(&self) -> Result<Loaded> {
        match self.file {
            Some(path) => self.file(path),
            None if self.options.from_instance => self.instance(),
            None => self.instance().context("no FILE is given, so a running instance is asked"),
        }
    }

    fn file(&self, path: &Path) -> Result<Loaded> {
        let name = path.display().to_string();
        let loaded = |format, model| Loaded { name: name.clone(), format, model, jobs: Vec::new() };
        let bytes = bytes(path)?;
        if store::is_one(&bytes) {
            if self.options.format.is_some_and(|f| f != FormatArg::State) {
                bail!("{name}: a SQLite database found; it is read as a state only");
            }
            drop(bytes);
            let model = store::load(path)?.to_model().map_err(|error| anyhow!("{name}: SQLite: {error}"))?;
            return Ok(loaded("sqlite", model));
        }
        let text = utf8(path, bytes)?;
        let source = self.options.format.map_or_else(|| Source::detect(&text), |format| Ok(format.source()));
        let source = source.map_err(|error| anyhow!("{name}: {error}"))?;
        let model = match (&self.options.allow, source) {
            (Some(allow), Source::Hwloc) => {
                let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
                Model::from_hwloc(&text, Some(&allow))
            }
            (Some(_), other) => {
                return Err(usage(format!("--allow is for hwloc XML; {name} is {}", other.name())));
            }
            (None, source) => Model::load(&text, Some(source)),
        };
        Ok(loaded(source.name(), model.map_err(|error| anyhow!("{name}: {error}"))?))
    }

    fn instance(&self) -> Result<Loaded> {
        let uri = place::uri(&self.options.target)?;
        let client = Client::connect_uri(&uri)?;
        let (source, mut model) = read(&client, self.options.format).with_context(|| uri.clone())?;
        mark_down(&client, &mut model).with_context(|| uri.clone())?;
        mark_vertices(&client, &mut model)?;
        let jobs = jobs(&client).with_context(|| uri.clone())?;
        Ok(Loaded { name: uri, format: source.name(), model, jobs })
    }
}

/// The graph of an instance, without marks.
pub(super) fn model(client: &Client, format: Option<FormatArg>) -> Result<Model> {
    Ok(read(client, format)?.1)
}

fn read(client: &Client, format: Option<FormatArg>) -> Result<(Source, Model)> {
    let wrong = |what: &dyn std::fmt::Display| anyhow!("resource.R: {what}");
    let question = json!({ "key": "resource.R", "namespace": "primary", "flags": 0 });
    let answer = client.rpc("kvs.lookup", question).map_err(|e| wrong(&e))?;
    let text = dialect::kvs_value(&answer).map_err(|e| wrong(&e))?.to_string();
    let source = format.map_or_else(|| Source::detect(&text), |format| Ok(format.source()));
    let source = source.map_err(|e| wrong(&e))?;
    let model = Model::load(&text, Some(source)).map_err(|e| wrong(&e))?;
    Ok((source, model))
}

/// Marks the vertices that were marked by their paths. Another scheduler has no such marks, and a guest does not get them.
fn mark_vertices(client: &Client, model: &mut Model) -> Result<()> {
    let Ok(answer) = client.lookup("sched-fluxgate.vertex-marks", json!({}))? else { return Ok(()) };
    let marks: VertexMarks = serde_json::from_value(answer).context("sched-fluxgate.vertex-marks")?;
    let Some(containment) = model.name(CONTAINMENT).filter(|_| !marks.is_empty()) else { return Ok(()) };
    let of = |v| Some((model.path(v, containment)?, v));
    let paths: BTreeMap<String, _> = model.vertices().filter_map(of).collect();
    for (list, state) in [(&marks.down, State::Down), (&marks.up, State::Up)] {
        for vertex in list.iter().filter_map(|path| paths.get(path)) {
            model.set_state(*vertex, state)?;
        }
    }
    Ok(())
}

/// Mark the nodes that are down in the instance.
fn mark_down(client: &Client, model: &mut Model) -> Result<()> {
    let status = client.rpc("resource.sched-status", json!({}))?;
    let down = match &status["down"] {
        Value::Null => return Ok(()),
        down => R::from_value(down).context("resource.sched-status: down")?.ranks(),
    };
    let nodes: Vec<_> = model
        .vertices()
        .filter(|v| {
            let Some(it) = model.vertex(*v) else { return false };
            let rank = it.rank().and_then(|rank| u32::try_from(rank).ok());
            model.text(it.type_()) == "node" && rank.is_some_and(|rank| down.contains(rank))
        })
        .collect();
    for node in nodes {
        model.set_state(node, State::Down)?;
    }
    Ok(())
}

/// The allocations of jobs.
fn jobs(client: &Client) -> Result<Vec<(u64, R)>> {
    let question = json!({"max_entries": JOBS_MAX, "attrs": ["all"], "constraint": {"states": [HOLDING]}});
    let answer = client.rpc("job-list.list", question)?;
    let mut jobs = Vec::new();
    for id in answer["jobs"].as_array().into_iter().flatten().filter_map(|job| job["id"].as_u64()) {
        let question = json!({"id": id, "keys": ["R"], "flags": 0});
        let answer = match client.lookup("job-info.lookup", question)? {
            Ok(answer) => answer,
            // A job that ended in between holds nothing.
            Err(error) if error == errno::ENOENT => continue,
            Err(error) => bail!("job-info.lookup of job {id}: error {error}"),
        };
        let r =
            dialect::job_info_value(&answer, "R").map_err(|e| anyhow!("job-info.lookup of job {id}: {e}"))?;
        jobs.push((id, R::from_value(&r).with_context(|| format!("R of job {id}"))?));
    }
    Ok(jobs)
}

impl Loaded {
    /// The error for a subsystem that a user asked for and the graph does not have.
    pub(super) fn unknown(&self, subsystem: &str) -> anyhow::Error {
        let known: Vec<&str> = self.model.subsystems().iter().map(|&name| self.model.text(name)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        usage(format!("{}: no subsystem '{subsystem}'; the graph has {known}", self.name))
    }

    /// A matcher on the graph with the allocations of the jobs, as far as the graph has their resources.
    pub(super) fn matcher(&self, setup: &Setup) -> Result<Matcher> {
        let mut matcher = Matcher::new(self.model.clone(), setup)?;
        for (job, r) in &self.jobs {
            let start = r.starttime.max(0.0) as i64;
            let end = if r.expiration > 0.0 { (r.expiration.ceil() as i64).max(start + 1) } else { FOREVER };
            matcher
                .claim_r(r, Term { job: *job, start, end, reserve: false })
                .map_err(|error| anyhow!("{}: job {job}: {error}", self.name))?;
        }
        Ok(matcher)
    }

    /// The graph with its allocations as extended data.
    pub(super) fn recorded(&self) -> Result<Model> {
        if self.jobs.is_empty() {
            return Ok(self.model.clone());
        }
        Ok(self.matcher(&Setup::default())?.recorded())
    }

    /// The number of jobs that hold resources.
    pub(super) fn holding(&self) -> usize {
        self.jobs.len()
    }

    /// Print the number of jobs that hold resources.
    pub(super) fn print_notes(&self) -> Result<()> {
        match self.holding() {
            0 => Ok(()),
            1 => render::line("1 job holds resources"),
            many => render::line(format!("{many} jobs hold resources")),
        }
    }
}

/// The bytes of a file.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    let cannot = || format!("cannot read {name}");
    let file = std::fs::File::open(path).with_context(cannot)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("{name}: more than {FILE_BYTES_MAX} bytes");
    }
    Ok(bytes)
}

/// The text of a file.
pub(super) fn text(path: &Path) -> Result<String> {
    utf8(path, bytes(path)?)
}

fn utf8(path: &Path, bytes: Vec<u8>) -> Result<String> {
    let name = path.display();
    if bytes.iter().all(u8::is_ascii_whitespace) {
        bail!("{name}: the file is empty");
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count() + 1;
        anyhow!("{name}: line {line}: not UTF-8 text")
    })
}

/// The file and the query of a command that takes both, or the query alone where an instance is asked.
pub(super) fn file_and_query<'a>(
    options: &Options,
    words: &'a [OsString],
) -> Result<(Option<&'a Path>, &'a str)> {
    let (file, query) = match words {
        [word] if !options.from_instance && !Path::new(word).is_file() => (None, word.as_os_str()),
        words => file_and(options, words, "QUERY")?,
    };
    Ok((file, query.to_str().ok_or_else(|| usage("QUERY: not UTF-8 text"))?))
}

/// The file and the other word of a command that takes both, or the word alone where an instance is asked.
pub(super) fn file_and<'a>(
    options: &Options,
    words: &'a [OsString],
    other: &str,
) -> Result<(Option<&'a Path>, &'a OsStr)> {
    match (words, options.from_instance) {
        ([word], true) => Ok((None, word)),
        ([file, word], false) => Ok((Some(Path::new(file)), word)),
        ([_], false) => Err(usage(format!("FILE and {other} are needed, or --from-instance and {other}"))),
        _ => Err(usage(format!("--from-instance and {other}: no FILE is accepted beside them"))),
    }
}
