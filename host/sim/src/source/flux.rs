//! Jobs in the form of `flux jobs -a -c0 --json`: one document with an array `jobs`, or one job after the other.
//!
//! The keys `id`, `t_submit`, `t_run` and `t_cleanup` (the run is between the last two), `ncores`, `duration` (0: no
//! limit), `result`, `userid` and `queue` are used. A job that still runs has no known end and is left out, as is a job
//! that never started. The line number in errors and records is the number of the job in the list.
//!
//! This module does not know the meaning of a job for a scheduler.

use std::io::BufRead;

use serde::Deserialize;
use serde_json::{Deserializer, Value};

use super::{Listed, Numbers, bad, not_json};
use crate::bounded::Bounded;
use crate::swf::{BadLine, Record, Status, SwfError, quoted};

/// Longest list, in bytes: some three million jobs.
pub const LIST_BYTES_MAX: u64 = 2 << 30;

#[derive(Debug, Deserialize)]
struct Job {
    id: u64,
    t_submit: f64,
    t_run: Option<f64>,
    t_cleanup: Option<f64>,
    ncores: Option<u32>,
    #[serde(default)]
    duration: f64,
    result: Option<String>,
    userid: Option<u32>,
    queue: Option<String>,
}

/// Reads a list to its end.
///
/// # Errors
/// It is no such list, or longer than [`LIST_BYTES_MAX`]. Errors of single jobs come with the jobs.
pub fn read(input: impl BufRead, file: &str) -> Result<Listed, SwfError> {
    let mut listed = Listed::new(file);
    let mut queues = Numbers::default();
    for value in Deserializer::from_reader(Bounded::new(input, LIST_BYTES_MAX)).into_iter::<Value>() {
        let value =
            value.map_err(|error| not_json(file, &error, "JSON as `flux jobs -a -c0 --json` prints it"))?;
        let Value::Object(mut object) = value else { return Err(no_list(file, &value)) };
        match object.remove("jobs") {
            Some(Value::Array(jobs)) => {
                for job in jobs {
                    listed.push(|line| record(job, line, &mut queues));
                }
            }
            Some(other) => return Err(no_list(file, &other)),
            None => listed.push(|line| record(Value::Object(object), line, &mut queues)),
        }
    }
    listed.header.queues = queues.names();
    Ok(listed)
}

fn no_list(file: &str, value: &Value) -> SwfError {
    let found = quoted(&value.to_string());
    let accepted = "an object with an array of jobs, or one job after the other";
    SwfError::Bad { file: file.to_owned(), bad: BadLine { line: 1, field: None, found, accepted } }
}

fn record(value: Value, line: u64, queues: &mut Numbers) -> Result<Record, BadLine> {
    let id = value["id"].to_string();
    let wrong = |error: serde_json::Error| BadLine {
        line,
        field: None,
        found: format!("job {}: {}", quoted(&id), quoted(&error.to_string())),
        accepted: "a job with at least id, t_submit, ncores, and t_run and t_cleanup where it ran",
    };
    let job: Job = serde_json::from_value(value).map_err(wrong)?;
    let times = [Some(job.t_submit), job.t_run, job.t_cleanup, Some(job.duration)];
    if let Some(time) = times.into_iter().flatten().find(|time| !(time.is_finite() && *time >= 0.0)) {
        return Err(bad(line, "a time", &time.to_string(), "seconds since the epoch, or for a duration"));
    }
    Ok(Record {
        wait: job.t_run.map(|run| (run - job.t_submit).max(0.0)),
        run: job.t_run.zip(job.t_cleanup).map(|(from, to)| (to - from).max(0.0)),
        procs: job.ncores,
        procs_requested: job.ncores,
        time_requested: Some(job.duration).filter(|duration| *duration > 0.0),
        status: match job.result.as_deref() {
            Some("COMPLETED") => Status::Completed,
            Some("CANCELED") => Status::Cancelled,
            Some(_) => Status::Failed,
            None => Status::Unknown,
        },
        user: job.userid,
        queue: job.queue.map(|name| queues.of(&name, line)).transpose()?,
        ..Record::new(line, job.id, job.t_submit)
    })
}
