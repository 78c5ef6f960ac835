//! An archive of `flux dump`: for each job its jobspec, its eventlog and, once it had resources, R.
//!
//! Submission is the event `submit`. The run is from `start` to `finish`, or from `alloc` to `free` where no program
//! was executed. Cores are those of R, since a request for whole nodes does not name them, and those of the jobspec for
//! a job without R. The limit is the jobspec's duration. All other parts of the archive are ignored. The line number in
//! errors and records is the number of the job in the archive.
//!
//! This module does not know the meaning of a job for a scheduler.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::sync::Arc;

use fluxgate_formats::{JobId, Jobspec, R, eventlog};

use super::{Listed, Numbers};
use crate::bounded::Bounded;
use crate::swf::{BadLine, Record, Status, SwfError, quoted};

/// Largest archive, in bytes, unpacked.
pub const ARCHIVE_BYTES_MAX: u64 = 16 << 30;
/// Largest file of one job.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// True if a file begins like an archive.
pub(super) fn begins(start: &[u8]) -> bool {
    start.get(257..262) == Some(b"ustar")
}

#[derive(Debug, Default)]
struct Parts {
    jobspec: Option<String>,
    eventlog: Option<String>,
    r: Option<String>,
}

/// Reads an archive to its end.
///
/// # Errors
/// It is no archive, longer than [`ARCHIVE_BYTES_MAX`], or has a file of a job that is too long. Errors of single jobs come with
/// the jobs.
pub fn read(input: impl BufRead, file: &str) -> Result<Listed, SwfError> {
    let io_error = |source| SwfError::Io { file: file.to_owned(), line: 0, source };
    let mut parts: BTreeMap<JobId, Parts> = BTreeMap::new();
    let mut archive = tar::Archive::new(Bounded::new(input, ARCHIVE_BYTES_MAX));
    for entry in archive.entries().map_err(io_error)? {
        let entry = entry.map_err(io_error)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Some((id, name)) = job_file(&path) else { continue };
        let mut text = String::new();
        let size = entry.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(io_error)?;
        if size as u64 > FILE_BYTES_MAX {
            let found = format!("{path}: more than {FILE_BYTES_MAX} bytes");
            let bad = BadLine { line: 1, field: None, found, accepted: "at most that for a file of one job" };
            return Err(SwfError::Bad { file: file.to_owned(), bad });
        }
        let job = parts.entry(id).or_default();
        match name {
            "jobspec" => job.jobspec = Some(text),
            "eventlog" => job.eventlog = Some(text),
            _ => job.r = Some(text),
        }
    }
    let mut listed = Listed::new(file);
    let mut queues = Numbers::default();
    for (id, parts) in parts {
        listed.push(|line| {
            let wrong = |(found, accepted): (String, &'static str)| BadLine {
                line,
                field: None,
                found: format!("job {id}: {found}"),
                accepted,
            };
            record(id, &parts, line, &mut queues).map_err(wrong)
        });
    }
    listed.header.queues = queues.names();
    Ok(listed)
}

/// The job and the kind of a file such as `job/0000/0008/1100/0000/eventlog`.
fn job_file(path: &str) -> Option<(JobId, &'static str)> {
    let rest = path.strip_prefix("./").unwrap_or(path).strip_prefix("job/")?;
    let (id, name) = rest.rsplit_once('/')?;
    let name = *["jobspec", "eventlog", "R"].iter().find(|known| **known == name)?;
    let digits = id
        .split('/')
        .try_fold(String::new(), |all, part| (part.len() == 4 && all.len() < 16).then(|| all + part))?;
    (digits.len() == 16).then(|| u64::from_str_radix(&digits, 16).ok().map(|id| (JobId(id), name)))?
}

fn record(
    id: JobId,
    parts: &Parts,
    line: u64,
    queues: &mut Numbers,
) -> Result<Record, (String, &'static str)> {
    let wrong = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {}", quoted(&error.to_string()));
    let missing = |what: &str| (format!("no {what}"), "jobspec and eventlog of every job");
    let events = parts.eventlog.as_deref().ok_or_else(|| missing("eventlog"))?;
    let events = eventlog::parse(events).map_err(|e| (wrong("eventlog", &e), "an RFC 18 eventlog"))?;
    let spec = parts.jobspec.as_deref().ok_or_else(|| missing("jobspec"))?;
    let spec: serde_json::Value = serde_json::from_str(spec).map_err(|e| (wrong("jobspec", &e), "JSON"))?;
    let spec = Jobspec::from_value(&spec).map_err(|e| (wrong("jobspec", &e), "an RFC 14 jobspec"))?;
    let r = parts.r.as_deref().map(|text| {
        let value = serde_json::from_str(text).map_err(|e| (wrong("R", &e), "JSON"))?;
        R::from_value(&value).map_err(|e| (wrong("R", &e), "an RFC 20 R"))
    });
    let r = r.transpose()?;
    let at = |name: &str| events.iter().find(|event| event.name == name).map(|event| event.timestamp);
    let last = |name: &str| events.iter().rfind(|event| event.name == name);
    let submit = at("submit").ok_or_else(|| (String::from("no event submit"), "an eventlog with one"))?;
    let ran = at("start").zip(at("finish")).or(at("alloc").zip(last("free").map(|event| event.timestamp)));
    let asked = u32::try_from(spec.min_cores()).ok().filter(|cores| *cores > 0);
    let given = r.and_then(|r| u32::try_from(r.count("core")).ok());
    let canceled = events.iter().any(|event| {
        event.name == "exception" && event.get("type").and_then(|kind| kind.as_str()) == Some("cancel")
    });
    let failed = last("finish").and_then(|event| event.get("status")?.as_i64());
    Ok(Record {
        wait: at("alloc").map(|alloc| (alloc - submit).max(0.0)),
        run: ran.map(|(from, to)| (to - from).max(0.0)),
        procs: given,
        procs_requested: given.or(asked),
        time_requested: Some(spec.duration()).filter(|duration| *duration > 0.0),
        status: match failed {
            _ if canceled => Status::Cancelled,
            Some(0) => Status::Completed,
            Some(_) => Status::Failed,
            None => Status::Unknown,
        },
        user: last("submit").and_then(|event| u32::try_from(event.get("userid")?.as_u64()?).ok()),
        queue: spec
            .queue()
            .map(|name| queues.of(name, line))
            .transpose()
            .map_err(|bad| (bad.found, bad.accepted))?,
        jobspec: Some(Arc::new(spec)),
        ..Record::new(line, id.0, submit)
    })
}
