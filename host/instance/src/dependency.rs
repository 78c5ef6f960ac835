//! Dependencies of jobs (RFC 26): on other jobs, and on the time.
//!
//! This module has their syntax and names; the state machine has the waiting jobs.

use fluxgate_formats::JobId;
use serde_json::Value;

use crate::fail::Fail;
use crate::job::Outcome;
use crate::limits::DEPENDENCIES_MAX;

/// The condition on another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// `after`: start.
    Started,
    /// `afterany`: end.
    Ended,
    /// `afterok`: end with success.
    Succeeded,
    /// `afternotok`: end without success.
    Failed,
}

/// A dependency of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Dependency {
    /// Another job.
    Job(Condition, JobId),
    /// `begin-time`: seconds since the epoch.
    Time(f64),
}

impl Condition {
    fn name(self) -> &'static str {
        match self {
            Condition::Started => "after-start",
            Condition::Ended => "after-finish",
            Condition::Succeeded => "after-success",
            Condition::Failed => "after-failure",
        }
    }

    /// Whether a job with this start or this result meets it; `None` while that is open.
    pub(crate) fn met(self, started: bool, outcome: Option<Outcome>) -> Option<bool> {
        match (self, outcome) {
            (Condition::Started, _) if started => Some(true),
            (_, None) => None,
            (Condition::Started, Some(_)) => Some(false),
            (Condition::Ended, Some(_)) => Some(true),
            (Condition::Succeeded, Some(outcome)) => Some(outcome == Outcome::Completed),
            (Condition::Failed, Some(outcome)) => Some(outcome != Outcome::Completed),
        }
    }
}

impl Dependency {
    /// Its description in `dependency-add` and `dependency-remove` events, as in flux-core.
    pub(crate) fn description(&self) -> String {
        match self {
            Dependency::Job(condition, id) => format!("{}={id}", condition.name()),
            Dependency::Time(time) => format!("begin-time={time:.3}"),
        }
    }

    /// The dependencies of a jobspec.
    pub(crate) fn read(value: Option<&Value>) -> Result<Vec<Dependency>, Fail> {
        const PATH: &str = "attributes.system.dependencies";
        let list = match value {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(Fail::invalid(format!("jobspec: {PATH} must be an array"))),
        };
        if list.len() > DEPENDENCIES_MAX {
            return Err(Fail::invalid(format!("jobspec: {PATH} has more than {DEPENDENCIES_MAX} entries")));
        }
        let mut dependencies = Vec::new();
        for (index, entry) in list.iter().enumerate() {
            let at = |text: String| Fail::invalid(format!("jobspec: {PATH}[{index}]: {text}"));
            let scheme = entry.get("scheme").and_then(Value::as_str);
            let scheme = scheme.ok_or_else(|| at("'scheme' must be a string".to_owned()))?;
            let value = entry.get("value").and_then(Value::as_str);
            let value = value.ok_or_else(|| at("'value' must be a string".to_owned()))?;
            let job = |condition| match JobId::parse(value) {
                Ok(id) => Ok(Dependency::Job(condition, id)),
                Err(error) => Err(at(error.to_string())),
            };
            let dependency = match scheme {
                "after" => job(Condition::Started)?,
                "afterany" => job(Condition::Ended)?,
                "afterok" => job(Condition::Succeeded)?,
                "afternotok" => job(Condition::Failed)?,
                "begin-time" => match value.parse::<f64>() {
                    Ok(time) if time.is_finite() && time >= 0.0 => Dependency::Time(time),
                    _ => return Err(at(format!("'{value}' is not a time in seconds since the epoch"))),
                },
                other => return Err(at(format!("dependency scheme \"{other}\" not supported"))),
            };
            // A repeated dependency counts once.
            if !dependencies.contains(&dependency) {
                dependencies.push(dependency);
            }
        }
        Ok(dependencies)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r26_2_schemes_are_read_and_others_refused() {
        let read = |scheme: &str, value: Value| {
            Dependency::read(Some(&json!([{ "scheme": scheme, "value": value }])))
        };
        let id = JobId(58);
        for (scheme, name) in [
            ("after", "after-start=ƒ21"),
            ("afterany", "after-finish=ƒ21"),
            ("afterok", "after-success=ƒ21"),
            ("afternotok", "after-failure=ƒ21"),
        ] {
            for value in ["ƒ21", "58", "0x3a"] {
                assert_eq!(read(scheme, json!(value)).unwrap()[0].description(), name, "{id}");
            }
        }
        assert_eq!(read("begin-time", json!("12.5")), Ok(vec![Dependency::Time(12.5)]));
        for (scheme, value) in [
            ("afterok", json!("x y")),
            ("afterok", json!(5)),
            ("begin-time", json!("-1")),
            ("begin-time", json!("nan")),
            ("string", json!("foo")),
        ] {
            assert!(read(scheme, value.clone()).is_err(), "{scheme} {value}");
        }
        assert!(Dependency::read(Some(&json!({}))).is_err());
        let twice = json!([{ "scheme": "after", "value": "1" }, { "scheme": "after", "value": "0x1" }]);
        assert_eq!(Dependency::read(Some(&twice)).unwrap().len(), 1);
    }
}
