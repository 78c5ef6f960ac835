//! A jobspec in the instance: its text, and the values that are needed without parsing it again.

use std::sync::Arc;

use fluxgate_formats::{Jobspec, fsd};
use serde_json::{Map, Value};

use crate::dependency::Dependency;
use crate::fail::Fail;
use crate::limits::JOBSPEC_SIZE_MAX;

/// The execution of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Work {
    /// It takes its time on the virtual clock, and then ends with this wait status.
    Simulated {
        /// Virtual seconds.
        duration: f64,
        /// As of wait(2); 0 is success.
        status: i64,
    },
    /// Real processes on this machine.
    Process,
}

/// A jobspec that has been checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spec {
    /// Its row in the database; the copies of one submission share it.
    pub key: i64,
    /// The whole text.
    pub text: Arc<str>,
    /// The text without the environment, for schedulers.
    pub redacted: Arc<str>,
    /// Name of the job, else the command.
    pub name: String,
    /// Queue.
    pub queue: Option<String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Duration in seconds; 0 is no limit.
    pub duration: f64,
    /// Number of tasks.
    pub ntasks: u64,
    /// Number of nodes requested, if the jobspec names nodes.
    pub nnodes: Option<u64>,
    /// Minimum number of cores requested.
    pub ncores: u64,
    /// Dependencies.
    pub(crate) dependencies: Vec<Dependency>,
    /// Execution.
    pub work: Work,
}

/// The dictionary at `a.b.c`, created if missing.
fn dig<'a>(map: &'a mut Map<String, Value>, path: &[&str]) -> Result<&'a mut Map<String, Value>, Fail> {
    let mut here = map;
    for key in path {
        here = here
            .entry(*key)
            .or_insert_with(|| Value::Object(Map::new()))
            .as_object_mut()
            .ok_or_else(|| Fail::invalid(format!("jobspec: '{key}' must be an object")))?;
    }
    Ok(here)
}

/// Sets `value` at a dotted path of a document.
pub(crate) fn set_path(document: &mut Value, path: &str, value: Value) -> Result<(), Fail> {
    let root = document.as_object_mut().ok_or_else(|| Fail::invalid("jobspec: must be an object"))?;
    let keys: Vec<&str> = path.split('.').collect();
    let Some((last, folders)) = keys.split_last() else {
        return Err(Fail::invalid("jobspec: empty path"));
    };
    dig(root, folders)?.insert((*last).to_owned(), value);
    Ok(())
}

fn work(system: &Value) -> Result<Work, Fail> {
    if let Some(simulate) = system.get("simulate") {
        let path = "attributes.system.simulate";
        let duration = match simulate.get("duration") {
            Some(Value::String(text)) => {
                fsd::parse(text).map_err(|e| Fail::invalid(format!("jobspec: {path}.duration: {e}")))?
            }
            Some(Value::Number(n)) => n.as_f64().unwrap_or(-1.0),
            _ => return Err(Fail::invalid(format!("jobspec: {path}.duration must be a number of seconds"))),
        };
        if !(duration.is_finite() && duration >= 0.0) {
            return Err(Fail::invalid(format!("jobspec: {path}.duration must not be negative or infinite")));
        }
        return Ok(Work::Simulated { duration, status: status(simulate.get("status"), path)? });
    }
    if let Some(test) = system.get("exec").and_then(|exec| exec.get("test")).filter(|t| t.is_object()) {
        let path = "attributes.system.exec.test";
        let duration = match test.get("run_duration") {
            None => 0.0,
            Some(Value::String(text)) => {
                fsd::parse(text).map_err(|e| Fail::invalid(format!("jobspec: {path}.run_duration: {e}")))?
            }
            Some(_) => {
                return Err(Fail::invalid(format!(
                    "jobspec: {path}.run_duration must be a duration such as \"30s\""
                )));
            }
        };
        return Ok(Work::Simulated { duration, status: status(test.get("wait_status"), path)? });
    }
    Ok(Work::Process)
}

fn status(value: Option<&Value>, path: &str) -> Result<i64, Fail> {
    match value {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value
            .as_i64()
            .filter(|status| (0..=0xffff).contains(status))
            .ok_or_else(|| Fail::invalid(format!("jobspec: {path}: the status must be from 0 to 65535"))),
    }
}

fn task_count(value: &Value, slots: u64, nodes: u64, cores: u64) -> u64 {
    let Some(count) = value.pointer("/tasks/0/count") else { return slots };
    let number = |key: &str| count.get(key).and_then(Value::as_u64);
    if let Some(total) = number("total") {
        return total;
    }
    if let Some(per_slot) = number("per_slot") {
        return per_slot.saturating_mul(slots);
    }
    if let Some(per) = count.get("per_resource") {
        let each = per.get("count").and_then(Value::as_u64).unwrap_or(1);
        let what = match per.get("type").and_then(Value::as_str) {
            Some("node") => nodes.max(1),
            Some("core") => cores,
            _ => slots,
        };
        return each.saturating_mul(what);
    }
    slots
}

impl Spec {
    /// Checks a jobspec and takes it.
    pub(crate) fn new(value: &Value) -> Result<Spec, Fail> {
        let jobspec = Jobspec::from_value(value).map_err(|e| Fail::invalid(format!("jobspec: {e}")))?;
        let text = value.to_string();
        if text.len() > JOBSPEC_SIZE_MAX {
            return Err(Fail::invalid(format!(
                "jobspec: {} bytes, at most {JOBSPEC_SIZE_MAX} are accepted",
                text.len()
            )));
        }
        let mut redacted = value.clone();
        if let Some(Value::Object(system)) = redacted.pointer_mut("/attributes/system") {
            system.shift_remove("environment");
        }
        let empty = Value::Object(Map::new());
        let system = value.pointer("/attributes/system").unwrap_or(&empty);
        let string = |pointer: &str| system.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let command = value.pointer("/tasks/0/command/0").and_then(Value::as_str).unwrap_or("");
        let base = command.rsplit('/').next().unwrap_or(command);
        let duration = system.get("duration").and_then(Value::as_f64).unwrap_or(0.0);
        let (nodes, slots, cores) = (jobspec.min_nodes(), jobspec.min_slots(), jobspec.min_cores());
        Ok(Spec {
            key: 0,
            redacted: redacted.to_string().into(),
            name: string("/job/name").unwrap_or_else(|| base.to_owned()),
            queue: string("/queue"),
            cwd: string("/cwd"),
            duration,
            ntasks: task_count(value, slots, nodes, cores),
            nnodes: (nodes > 0).then_some(nodes),
            ncores: cores,
            dependencies: Dependency::read(system.get("dependencies"))?,
            work: work(system)?,
            text: text.into(),
        })
    }

    /// The document.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }
}
