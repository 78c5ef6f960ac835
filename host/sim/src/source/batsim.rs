//! A workload of Batsim: one JSON object with `jobs`, `profiles` and, for the machine, `nb_res`.
//!
//! Of a job `id`, `subtime` (seconds), `res`, `walltime` (seconds; none without it) and `profile` are used. Its run time
//! is that of the profile: the seconds of a delay (`DelayProfile`, before version 5 `delay`), or of a sequence of delays
//! (`SequentialCompositionProfile`, before `composed`). The run time under any other profile follows from a platform
//! that is simulated, so such a job is a bad line. A profile whose `ret` is not 0 is of a job that failed.
//!
//! If the identifiers of all jobs are whole numbers, perhaps behind the name of the workload (`w0!12`), these are the
//! numbers of the jobs; else each job has its place in the list, from 1. The line number in errors and records is that
//! place.
//!
//! This module does not know platforms.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::Deserialize;
use serde_json::Value;

use super::flux::LIST_BYTES_MAX;
use super::{Listed, not_json};
use crate::bounded::Bounded;
use crate::swf::{BadLine, Record, Status, SwfError, quoted};

/// Deepest nesting of sequences.
pub const DEPTH_MAX: usize = 32;

/// Most profiles that the sequences of one job name together, each as often as it is named.
const STEPS_MAX: usize = 65_536;

const ACCEPTED: &str = "a workload of Batsim: an object with jobs, an array, and profiles, an object";
const RUN: &str =
    "a delay, or a sequence of delays: other run times follow from a platform, which is not simulated";

/// True if a text begins like one of these.
pub(super) fn begins(start: &[u8]) -> bool {
    [&b"\"nb_res\""[..], b"\"subtime\""].into_iter().any(|key| {
        let places = start.windows(key.len()).enumerate().filter(|(_, part)| *part == key);
        places.into_iter().any(|(at, _)| start[at + key.len()..].trim_ascii_start().starts_with(b":"))
    })
}

#[derive(Deserialize)]
struct Document {
    nb_res: Option<u32>,
    jobs: Vec<Value>,
    profiles: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Job {
    id: Value,
    subtime: f64,
    walltime: Option<f64>,
    res: u32,
    profile: String,
}

/// Reads a workload to its end.
///
/// # Errors
/// It is no such object, or longer than [`LIST_BYTES_MAX`]. Errors of single jobs come with the jobs.
pub fn read(input: impl BufRead, file: &str) -> Result<Listed, SwfError> {
    let read = serde_json::from_reader(Bounded::new(input, LIST_BYTES_MAX));
    let document: Document = read.map_err(|error| not_json(file, &error, ACCEPTED))?;
    let mut listed = Listed::new(file);
    listed.header.max_procs = document.nb_res;
    let numbered = document.jobs.iter().all(|job| number(&job["id"]).is_some());
    for job in document.jobs {
        listed.push(|place| record(job, place, numbered, &document.profiles));
    }
    Ok(listed)
}

/// The number in an identifier.
fn number(id: &Value) -> Option<u64> {
    match id {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => {
            let own = text.rsplit_once('!').map_or(text.as_str(), |(_, own)| own);
            own.parse().ok().filter(|_| own.bytes().all(|b| b.is_ascii_digit()))
        }
        _ => None,
    }
}

fn record(
    value: Value,
    place: u64,
    numbered: bool,
    profiles: &BTreeMap<String, Value>,
) -> Result<Record, BadLine> {
    let id = value["id"].to_string();
    let wrong = |what: String, accepted| BadLine {
        line: place,
        field: None,
        found: format!("job {}: {what}", quoted(&id)),
        accepted,
    };
    let job: Job = serde_json::from_value(value).map_err(|error| {
        wrong(quoted(&error.to_string()), "a job with id, subtime, res, profile, and perhaps walltime")
    })?;
    if !(job.subtime.is_finite() && job.subtime >= 0.0) {
        return Err(wrong(format!("subtime {}", job.subtime), "seconds from 0"));
    }
    // Before version 5, -1 was a way to say that there is none.
    let walltime = job.walltime.filter(|walltime| *walltime != -1.0);
    if let Some(walltime) = walltime.filter(|walltime| !(walltime.is_finite() && *walltime > 0.0)) {
        return Err(wrong(format!("walltime {walltime}"), "seconds above 0, or none"));
    }
    let mut steps = 0;
    let run =
        seconds(&job.profile, profiles, 0, &mut steps).map_err(|(what, accepted)| wrong(what, accepted))?;
    let failed =
        find(&job.profile, profiles).and_then(|profile| profile["ret"].as_i64()).is_some_and(|ret| ret != 0);
    let id = if numbered { number(&job.id) } else { None };
    Ok(Record {
        run: Some(run),
        procs_requested: Some(job.res),
        time_requested: walltime,
        status: if failed { Status::Failed } else { Status::Completed },
        ..Record::new(place, id.unwrap_or(place), job.subtime)
    })
}

/// A profile by its name, which may stand behind the name of the workload.
fn find<'a>(name: &str, profiles: &'a BTreeMap<String, Value>) -> Option<&'a Value> {
    profiles.get(name).or_else(|| profiles.get(name.rsplit_once('!')?.1))
}

/// The run time under a profile.
fn seconds(
    name: &str,
    profiles: &BTreeMap<String, Value>,
    depth: usize,
    steps: &mut usize,
) -> Result<f64, (String, &'static str)> {
    let shown = quoted(name);
    *steps += 1;
    if depth > DEPTH_MAX {
        return Err((format!("profile {shown}: sequences in sequences"), "at most 32 of them in each other"));
    }
    if *steps > STEPS_MAX {
        return Err((
            format!("profile {shown}: a longer sequence"),
            "at most 65536 profiles in sequences of a job",
        ));
    }
    let profile = find(name, profiles)
        .ok_or_else(|| (format!("profile {shown}, which is not there"), "a name in profiles"))?;
    match profile["type"].as_str() {
        Some("DelayProfile" | "delay") => {
            let delay = profile["delay"].as_f64().filter(|delay| delay.is_finite() && *delay >= 0.0);
            delay.ok_or_else(|| (format!("profile {shown}: delay {}", profile["delay"]), "seconds from 0"))
        }
        Some("SequentialCompositionProfile" | "composed") => {
            let parts = profile["seq"].as_array().into_iter().flatten();
            let mut once = 0.0;
            for part in parts {
                let part = part
                    .as_str()
                    .ok_or_else(|| (format!("profile {shown}: seq with {part}"), "names of profiles"))?;
                once += seconds(part, profiles, depth + 1, steps)?;
            }
            let times = match &profile["repeat"] {
                Value::Null => 1.0,
                value => value.as_u64().filter(|times| (1..=u64::from(u32::MAX)).contains(times)).ok_or_else(
                    || (format!("profile {shown}: repeat {value}"), "a whole number from 1 to 4294967295"),
                )? as f64,
            };
            Some(once * times)
                .filter(|all| all.is_finite())
                .ok_or_else(|| (format!("profile {shown}: a longer sequence"), "a finite number of seconds"))
        }
        Some(other) => Err((format!("profile {shown} of type {}", quoted(other)), RUN)),
        None => Err((format!("profile {shown} without a type"), RUN)),
    }
}
