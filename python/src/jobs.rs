//! The workload of a replay as a Python object: read from a file, made by a model or from columns, cut and changed.
//!
//! Must never know policies.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::JobAttributes;
use fluxgate_sim::follow::Link;
use fluxgate_sim::machine as sim;
use fluxgate_sim::model;
use fluxgate_sim::rules::Semantics;
use fluxgate_sim::source::Format;
use fluxgate_sim::swf::write::{Told, write};
use fluxgate_sim::swf::{Header, Reader, SwfError};
use fluxgate_sim::transform::Transform;
use fluxgate_sim::words::{estimates, mapped};
use fluxgate_sim::workload::stream::Survey;
use fluxgate_sim::workload::{Job, OnBadLine, Options, Queues, Workload};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sha2::{Digest, Sha256};

use crate::errors;
use crate::machine::Machine;

/// Most jobs of a model, and of columns.
const JOBS_MAX: usize = 1 << 26;

/// Jobs in the order of submission, with the facts about their log.
#[pyclass(frozen, module = "fluxgate")]
#[derive(Clone)]
pub(crate) struct Jobs {
    pub(crate) jobs: Arc<Vec<Job>>,
    pub(crate) survey: Arc<Survey>,
    /// Facts of the log about jobs that follow others, also about jobs that were cut off.
    pub(crate) links: Arc<BTreeMap<JobId, Link>>,
    /// Attributes of jobs, by their numbers; parts of the log share them.
    pub(crate) attributes: Arc<[JobAttributes]>,
    /// The name of the log in documents.
    #[pyo3(get)]
    pub(crate) name: String,
    /// The file, if it came from one.
    path: Option<PathBuf>,
    /// The field that names queues.
    pub(crate) queues: Queues,
}

/// Seconds since the epoch of a date, or of seconds as text.
#[pyfunction]
pub(crate) fn epoch(py: Python<'_>, text: &str) -> PyResult<f64> {
    fluxgate_sim::dates::epoch(text).ok_or_else(|| {
        let accepted = "2002, 2002-08, 2002-08-15, 2002-08-15T01:02 (UTC) or seconds since the epoch";
        errors::option(py, format!("time: found `{text}`, accepted is {accepted}"))
    })
}

/// A policy and its own settings, of `NAME:KEY=VALUE,..`.
#[pyfunction]
pub(crate) fn named(asked: &str) -> (&str, Vec<String>) {
    fluxgate_sim::words::named(asked)
}

/// The format of this name.
fn format(name: &str) -> Option<Format> {
    Some(match name {
        "swf" => Format::Swf,
        "sacct" => Format::Sacct,
        "flux" => Format::Flux,
        "dump" => Format::Dump,
        "batsim" => Format::Batsim,
        "jobspecs" => Format::Jobspecs,
        "csv" => Format::Csv,
        "jsonl" => Format::Jsonl,
        _ => return None,
    })
}

/// How lines become jobs.
fn options(py: Python<'_>, semantics: &str, map: &str) -> PyResult<Options> {
    let base =
        Semantics::named(semantics).map_err(|why| errors::option(py, format!("semantics: {why}")))?.options();
    // Policies that replay the jobs are chosen later, and may ask for attributes.
    let base = Options { links: true, attributes: true, ..base };
    mapped(base, map).map_err(|why| errors::option(py, format!("map: {why}")))
}

impl Jobs {
    fn of(workload: Workload, name: String, path: Option<PathBuf>, queues: Queues) -> Jobs {
        let mut survey = Survey::of(&workload);
        let attributes = std::mem::take(&mut survey.attributes).into();
        let (jobs, survey, links) = (Arc::new(workload.jobs), Arc::new(survey), Arc::new(workload.links));
        Jobs { jobs, survey, links, attributes, name, path, queues }
    }

    /// The same log with other jobs.
    fn with(&self, jobs: Vec<Job>) -> Jobs {
        let (count, queues) = (jobs.len() as u64, jobs.iter().map(|job| job.queue).collect());
        let survey = Survey { jobs: count, queues, ..Survey::clone(&self.survey) };
        Jobs { jobs: Arc::new(jobs), survey: Arc::new(survey), ..self.clone() }
    }

    fn told(&self) -> Told {
        let header = &self.survey.header;
        Told {
            notes: vec![format!("part of {}, read and written by fluxgate", self.name)],
            start: header.unix_start_time.unwrap_or(0.0),
            nodes: header.max_nodes,
            procs: header.max_procs,
        }
    }
}

fn digest(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(digits(hash))
}

/// A hash in hexadecimal digits.
fn digits(hash: Sha256) -> String {
    let mut text = String::new();
    for byte in hash.finalize() {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[pymethods]
impl Jobs {
    /// Read a file.
    #[staticmethod]
    #[pyo3(signature = (path, form, semantics, map, limit, skip_bad))]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        form: Option<&str>,
        semantics: &str,
        map: &str,
        limit: Option<usize>,
        skip_bad: bool,
    ) -> PyResult<Jobs> {
        let known = form.map(|text| {
            format(text).ok_or_else(|| {
                let accepted = "swf, sacct, flux, dump, batsim, jobspecs, csv and jsonl";
                errors::option(py, format!("format: found `{text}`, accepted are {accepted}"))
            })
        });
        let options = Options {
            format: known.transpose()?,
            max_jobs: limit,
            on_bad_line: if skip_bad { OnBadLine::Skip } else { OnBadLine::Refuse },
            ..options(py, semantics, map)?
        };
        let read = py.detach(|| Workload::load(&path, &options));
        let workload = read.map_err(|error| errors::log(py, &error))?;
        Ok(Jobs::of(workload, path.display().to_string(), Some(path), options.queues))
    }

    /// Made by a model.
    #[staticmethod]
    fn made(
        py: Python<'_>,
        model: &str,
        jobs: usize,
        cores: u32,
        nodes: Option<u32>,
        seed: u64,
    ) -> PyResult<Jobs> {
        let refused = |message: String| Err(errors::option(py, message));
        if jobs > JOBS_MAX {
            return refused(format!("jobs: found {jobs}, accepted are at most {JOBS_MAX}"));
        }
        if cores == 0 || cores > model::CORES_MAX {
            return refused(format!("cores: found {cores}, accepted are 1 to {}", model::CORES_MAX));
        }
        if nodes.is_some_and(|nodes| nodes == 0 || nodes > cores) {
            return refused(format!("nodes: accepted are 1 to as many as cores, {cores}"));
        }
        let made = match model {
            "lublin99" => py.detach(|| model::lublin99(jobs, cores, seed)),
            "downey97" => py.detach(|| model::downey97(jobs, cores, seed)),
            "wide" => py.detach(|| model::wide(jobs, cores, seed)),
            _ => {
                return refused(format!("model: found `{model}`, accepted are lublin99, downey97 and wide"));
            }
        };
        let header = Header { max_nodes: nodes, max_procs: Some(cores), ..Header::default() };
        let workload = Workload { header, jobs: made, ..Workload::default() };
        Ok(Jobs::of(workload, format!("{model} (seed {seed})"), None, Queues::default()))
    }

    /// Of columns, of which each has a value for every job; below 0 and NaN are unknown values. They become jobs by the
    /// rules of lines.
    #[staticmethod]
    fn of_columns(
        py: Python<'_>,
        columns: &Bound<'_, PyDict>,
        cores: Option<u32>,
        semantics: &str,
        map: &str,
    ) -> PyResult<Jobs> {
        let options = options(py, semantics, map)?;
        let column = |name: &str| -> PyResult<Option<Vec<f64>>> {
            let Some(values) = columns.get_item(name)? else { return Ok(None) };
            Ok(Some(values.extract::<PyReadonlyArray1<'_, f64>>()?.as_array().to_vec()))
        };
        let submit = column("submit")?.ok_or_else(|| errors::wrong("no column submit"))?;
        let rows = submit.len();
        if rows > JOBS_MAX {
            return Err(errors::option(py, format!("found {rows} rows, accepted are at most {JOBS_MAX}")));
        }
        // Field of the Standard Workload Format, from 1.
        let mut fields: [Option<Vec<f64>>; 18] = Default::default();
        fields[1] = Some(submit);
        let names = [
            ("id", 1),
            ("wait", 3),
            ("run", 4),
            ("cores", 8),
            ("request", 9),
            ("user", 12),
            ("group", 13),
            ("queue", 15),
            ("partition", 16),
            ("after", 17),
            ("think", 18),
        ];
        for (name, field) in names {
            fields[field - 1] = column(name)?;
            if fields[field - 1].as_ref().is_some_and(|values| values.len() != rows) {
                return Err(errors::frame(py, name, None, format!("column {name}: not one value a row")));
            }
        }
        let read = py.detach(|| {
            let mut text = cores.map_or_else(String::new, |cores| format!("; MaxProcs: {cores}\n"));
            for row in 0..rows {
                for (number, field) in fields.iter().enumerate() {
                    let value = match field {
                        Some(values) => values[row],
                        None if number == 0 => row as f64 + 1.0,
                        None if number == 10 => 1.0,
                        None => -1.0,
                    };
                    let value = if value.is_nan() || value < 0.0 { -1.0 } else { value };
                    let _ = write!(text, "{value} ");
                }
                text.push('\n');
            }
            Workload::read(&mut Reader::new(text.as_bytes(), "frame"), &options)
        });
        let workload = read.map_err(|error| match &error {
            SwfError::Bad { bad, .. } => {
                let row = bad.line.checked_sub(1 + u64::from(cores.is_some())).map(|row| row as usize);
                let field = bad.field.and_then(|field| names.iter().find(|(_, number)| *number == field));
                let name = field.map_or("submit", |(name, _)| name);
                let row_told = row.unwrap_or_default();
                let message = format!(
                    "column {name}, row {row_told}: found {}, accepted is {}",
                    bad.found, bad.accepted
                );
                errors::frame(py, name, row, message)
            }
            SwfError::Io { .. } => errors::log(py, &error),
        })?;
        Ok(Jobs::of(workload, "frame".to_owned(), None, options.queues))
    }

    /// Number of jobs.
    fn __len__(&self) -> usize {
        self.jobs.len()
    }

    /// The jobs from this index on, before that one.
    fn part(&self, start: usize, stop: usize) -> Jobs {
        let stop = stop.min(self.jobs.len());
        self.with(self.jobs.get(start.min(stop)..stop).unwrap_or_default().to_vec())
    }

    /// Another part, load or estimates.
    #[pyo3(signature = (from_time, until, load, asked, seed))]
    fn changed(
        &self,
        py: Python<'_>,
        from_time: Option<f64>,
        until: Option<f64>,
        load: Option<f64>,
        asked: &str,
        seed: u64,
    ) -> PyResult<Jobs> {
        if let Some(load) = load.filter(|load| !(load.is_finite() && *load > 0.0)) {
            return Err(errors::option(py, format!("load: found {load}, accepted is a number above 0")));
        }
        let estimates = estimates(asked).map_err(|why| errors::option(py, format!("estimates: {why}")))?;
        let transform = Transform { from: from_time, until, load, estimates, seed };
        Ok(self.with(py.detach(|| {
            let mut jobs = Vec::clone(&self.jobs);
            transform.apply(&mut jobs);
            jobs
        })))
    }

    /// One array for each column.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        let jobs = || self.jobs.iter();
        all.set_item("job", PyArray1::from_iter(py, jobs().map(|job| job.id.0)))?;
        all.set_item("user", PyArray1::from_iter(py, jobs().map(|job| job.user)))?;
        all.set_item("submit", PyArray1::from_iter(py, jobs().map(|job| job.submit)))?;
        all.set_item("cores", PyArray1::from_iter(py, jobs().map(|job| job.cores)))?;
        all.set_item("nodes", PyArray1::from_iter(py, jobs().map(|job| job.nodes)))?;
        all.set_item("limit", PyArray1::from_iter(py, jobs().map(|job| job.limit)))?;
        all.set_item("run", PyArray1::from_iter(py, jobs().map(|job| job.run)))?;
        all.set_item("queue", PyArray1::from_iter(py, jobs().map(|job| job.queue)))?;
        Ok(all)
    }

    /// Facts about jobs that follow others, an array for each column; NaN and job 0 are unknown.
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        let links = || self.jobs.iter().filter_map(|job| Some((job.id, self.links.get(&job.id)?)));
        let after = |link: &Link| link.after.map_or(0, |after| after.0);
        all.set_item("job", PyArray1::from_iter(py, links().map(|(id, _)| id.0)))?;
        all.set_item("after", PyArray1::from_iter(py, links().map(|(_, link)| after(link))))?;
        let unknown = |value: Option<f64>| value.unwrap_or(f64::NAN);
        all.set_item("think", PyArray1::from_iter(py, links().map(|(_, link)| unknown(link.think))))?;
        all.set_item("submit", PyArray1::from_iter(py, links().map(|(_, link)| link.submit)))?;
        all.set_item("end", PyArray1::from_iter(py, links().map(|(_, link)| unknown(link.end))))?;
        Ok(all)
    }

    /// The machine that the header describes.
    fn machine(&self, py: Python<'_>) -> PyResult<Machine> {
        let made = py.detach(|| sim::Machine::from_header(&self.survey.header));
        made.map(Machine::of).map_err(|error| errors::machine(py, format!("{}: {error}", self.name)))
    }

    /// Write as a log in Standard Workload Format.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let put = || write(BufWriter::new(File::create(&path)?), &self.told(), &self.jobs);
        Ok(py.detach(put)?)
    }

    /// SHA-256 of the file, in hexadecimal digits; none without a file.
    fn sha256(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.path.as_deref().map(|path| py.detach(|| digest(path))).transpose()?)
    }

    /// SHA-256 of the attributes of all jobs, in hexadecimal digits; none if no attribute is known.
    fn attributes_sha256(&self, py: Python<'_>) -> Option<String> {
        let known = |job: &Job| (job.attributes as usize).checked_sub(1).map(|at| self.attributes.get(at));
        let hashed = || {
            let mut hash = Sha256::new();
            self.jobs.iter().for_each(|job| hash.update(format!("{:?}\n", known(job))));
            digits(hash)
        };
        self.jobs.iter().any(|job| job.attributes > 0).then(|| py.detach(hashed))
    }

    /// Lines that are no jobs: each reason and its count.
    #[getter]
    fn left_out(&self) -> Vec<(&'static str, u64)> {
        self.survey.left_out.iter().map(|(why, count)| (why.text(), *count)).collect()
    }

    /// Lines that were skipped as unreadable: their number, and the first of them.
    #[getter]
    fn bad_lines(&self) -> (u64, Vec<String>) {
        let bad = &self.survey.bad;
        (bad.count, bad.first.iter().map(ToString::to_string).collect())
    }

    /// Jobs that ran longer in the log than they asked for.
    #[getter]
    fn overruns(&self) -> u64 {
        self.survey.overruns
    }
}
