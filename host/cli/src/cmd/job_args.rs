//! The flags that describe a job, as `flux submit` reads them, and the jobspec that they make.
//!
//! Must never talk to an instance.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use fluxgate_formats::jobspec::{Jobspec, Simple};
use fluxgate_formats::{Constraint, Idset, fsd};
use serde_json::{Value, json};

use crate::fail::usage;

/// The resources and attributes of a job.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobArgs {
    /// Nodes.
    #[arg(short = 'N', long, value_name = "N")]
    pub(crate) nodes: Option<u32>,
    /// Tasks (slots). Default: one, or one for each node. With --jobspec: the number of copies.
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) ntasks: Option<u32>,
    /// Cores for each task.
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    pub(crate) cores_per_task: u32,
    /// GPUs for each task.
    #[arg(short = 'g', long, value_name = "N", default_value_t = 0)]
    pub(crate) gpus_per_task: u32,
    /// Take whole nodes.
    #[arg(short = 'x', long)]
    pub(crate) exclusive: bool,
    /// Time limit: minutes, or an RFC 23 duration like 90s, 10m, 1.5h, 2d. Default: none.
    #[arg(short = 't', long, value_name = "MINUTES|FSD")]
    pub(crate) time_limit: Option<String>,
    /// Queue.
    #[arg(short = 'q', long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Required properties, hosts or ranks: RFC 35 (rank:3, host:a, -gpu|ssd), or an RFC 31 constraint as JSON.
    #[arg(long, value_name = "CONSTRAINT", allow_hyphen_values = true)]
    pub(crate) requires: Option<String>,
    /// Name shown in lists. Default: the command.
    #[arg(long, value_name = "NAME")]
    pub(crate) job_name: Option<String>,
    /// Set an attribute of the jobspec: below system unless it begins with system, user or a dot. A value that is no JSON
    /// is a string; without one it is 1.
    #[arg(short = 'S', long, value_name = "KEY[=VALUE]")]
    pub(crate) setattr: Vec<String>,
    /// A jobspec (RFC 14 or 25, JSON or YAML; - for standard input) instead of the flags above.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "exclusive", "requires"])]
    pub(crate) jobspec: Option<PathBuf>,
}

#[cfg(test)]
impl Default for JobArgs {
    fn default() -> Self {
        JobArgs {
            nodes: None,
            ntasks: None,
            cores_per_task: 1,
            gpus_per_task: 0,
            exclusive: false,
            time_limit: None,
            queue: None,
            requires: None,
            job_name: None,
            setattr: Vec::new(),
            jobspec: None,
        }
    }
}

/// Largest jobspec file that is read.
const JOBSPEC_BYTES_MAX: u64 = 16 << 20;

/// A duration (RFC 23).
pub(crate) fn duration(flag: &str, text: &str) -> Result<f64> {
    fsd::parse(text).map_err(|error| usage(format!("{flag} {text}: {error}")))
}

/// A time limit: a number alone is minutes, as for `flux submit`.
fn limit(text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(minutes) if minutes >= 0.0 && minutes.is_finite() => Ok(60.0 * minutes),
        _ => duration("--time-limit", text),
    }
}

/// A constraint in the syntax of RFC 35, or as JSON (RFC 31).
pub(crate) fn constraint(text: &str) -> Result<Constraint> {
    let wrong = |why: &dyn std::fmt::Display| usage(format!("--requires: {why}"));
    if !text.trim_start().starts_with('{') {
        return Constraint::parse(text).map_err(|e| wrong(&e));
    }
    let value: Value = serde_json::from_str(text).map_err(|e| wrong(&format!("not JSON: {e}")))?;
    Constraint::from_value(&value).map_err(|e| wrong(&e))
}

/// Read a jobspec, JSON or YAML.
fn read(path: &Path) -> Result<Jobspec> {
    let name = if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() };
    let mut text = String::new();
    let source: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).with_context(|| format!("cannot read {name}"))?)
    };
    source
        .take(JOBSPEC_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 > JOBSPEC_BYTES_MAX {
        bail!("{name}: more than {JOBSPEC_BYTES_MAX} bytes, too large for a jobspec");
    }
    let parsed = if text.trim_start().starts_with('{') {
        Jobspec::from_json(&text)
    } else {
        Jobspec::from_yaml(&text)
    };
    parsed.with_context(|| name)
}

impl JobArgs {
    /// The request, for this command.
    pub(crate) fn jobspec(&self, command: Vec<String>) -> Result<Jobspec> {
        let mut spec = match &self.jobspec {
            Some(path) => read(path)?,
            None => self.simple(command)?,
        };
        let system = &mut spec.attributes.system;
        if let Some(text) = &self.time_limit {
            let seconds = limit(text)?;
            system.insert("duration".to_owned(), if seconds.is_finite() { seconds.into() } else { 0.into() });
        }
        if let Some(queue) = &self.queue {
            system.insert("queue".to_owned(), queue.as_str().into());
        }
        if let Some(name) = &self.job_name {
            system.insert("job".to_owned(), json!({ "name": name }));
        }
        if let Some(text) = &self.requires {
            system.insert("constraints".to_owned(), constraint(text)?.to_value());
        }
        let mut value = spec.to_value();
        for text in &self.setattr {
            set_attribute(&mut value, text)?;
        }
        Ok(Jobspec::from_value(&value)?)
    }

    fn simple(&self, command: Vec<String>) -> Result<Jobspec> {
        if self.exclusive && self.nodes.is_none() {
            return Err(usage("--exclusive takes whole nodes: say how many with --nodes"));
        }
        let slots = self.ntasks.or(self.nodes).unwrap_or(1);
        if slots == 0 || self.nodes == Some(0) || self.cores_per_task == 0 {
            return Err(usage("--nodes, --ntasks and --cores-per-task: expected at least 1"));
        }
        if let Some(nodes) = self.nodes.filter(|nodes| *nodes > slots) {
            return Err(usage(format!("--ntasks {slots}: fewer than the {nodes} nodes")));
        }
        let simple = Simple {
            nodes: self.nodes,
            slots,
            cores_per_slot: self.cores_per_task,
            gpus_per_slot: self.gpus_per_task,
            exclusive: self.exclusive,
            command,
            ..Simple::default()
        };
        Ok(simple.build())
    }
}

/// `--setattr`.
fn set_attribute(jobspec: &mut Value, text: &str) -> Result<()> {
    let (key, value) = text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value)));
    let value = value.map_or(json!(1), |v| serde_json::from_str(v).unwrap_or_else(|_| json!(v)));
    let key = match key.strip_prefix('.') {
        Some(key) => key.to_owned(),
        None if key.starts_with("system.") || key.starts_with("user.") => key.to_owned(),
        None => format!("system.{key}"),
    };
    if key.split('.').any(str::is_empty) {
        return Err(usage(format!("--setattr {text}: expected KEY or KEY=VALUE")));
    }
    let mut at = &mut jobspec["attributes"];
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        if !(at.is_object() || at.is_null()) {
            return Err(usage(format!("--setattr {text}: what is above {part} is no table")));
        }
        if parts.peek().is_none() {
            at[part] = value;
            break;
        }
        at = &mut at[part];
    }
    Ok(())
}

/// The copies that `--cc` asks for: the jobspec for each id, with `{cc}` in its command replaced and FLUX_JOB_CC set.
pub(crate) fn copies(jobspec: &Value, ids: &str) -> Result<Vec<Value>> {
    let ids: Idset = ids.parse().map_err(|e| usage(format!("--cc {ids}: {e}")))?;
    if ids.is_empty() {
        return Err(usage("--cc: expected at least one id"));
    }
    let copy = |id: u32| {
        let mut copy = jobspec.clone();
        let id = id.to_string();
        for task in copy["tasks"].as_array_mut().into_iter().flatten() {
            for word in task["command"].as_array_mut().into_iter().flatten() {
                if let Some(text) = word.as_str().filter(|text| text.contains("{cc}")) {
                    *word = text.replace("{cc}", &id).into();
                }
            }
        }
        copy["attributes"]["system"]["environment"]["FLUX_JOB_CC"] = id.into();
        copy
    };
    Ok(ids.iter().map(copy).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(args: &JobArgs) -> Value {
        args.jobspec(vec!["app".to_owned(), "{cc}".to_owned()]).unwrap().to_value()
    }

    #[test]
    fn limits_are_minutes_or_durations_as_for_flux_submit() {
        let of = |text: &str| made(&JobArgs { time_limit: Some(text.to_owned()), ..JobArgs::default() });
        for (text, seconds) in [("10m", 600.0), ("90s", 90.0), ("10", 600.0), ("1.5", 90.0), ("1.5h", 5400.0)]
        {
            assert_eq!(of(text)["attributes"]["system"]["duration"].as_f64(), Some(seconds), "{text}");
        }
        let wrong = JobArgs { time_limit: Some("soon".to_owned()), ..JobArgs::default() };
        let error = wrong.jobspec(Vec::new()).unwrap_err().to_string();
        assert!(error.contains("--time-limit soon"), "{error}");
    }

    #[test]
    fn constraints_are_rfc_35_or_rfc_31() {
        let of = |text: &str| {
            let args = JobArgs { requires: Some(text.to_owned()), ..JobArgs::default() };
            made(&args)["attributes"]["system"]["constraints"].clone()
        };
        assert_eq!(of("rank:3"), json!({"ranks": ["3"]}));
        assert_eq!(of("host:a"), json!({"hostlist": ["a"]}));
        let gpu = json!({"or": [{"not": [{"properties": ["gpu"]}]}, {"properties": ["ssd"]}]});
        assert_eq!(of("-gpu|ssd"), gpu);
        assert_eq!(of(&gpu.to_string()), gpu);
        assert!(constraint("foo:1").unwrap_err().to_string().contains("--requires: \"foo\" is no operator"));
    }

    #[test]
    fn attributes_are_set_by_path() {
        let attributes = |list: &[&str]| {
            let setattr = list.iter().map(|s| (*s).to_owned()).collect();
            made(&JobArgs { setattr, ..JobArgs::default() })["attributes"].clone()
        };
        let all = attributes(&["a=1", "system.b.c=x", "user.d={\"e\":2}", "f", ".user.g=true"]);
        assert_eq!((&all["system"]["a"], &all["system"]["b"]["c"]), (&json!(1), &json!("x")));
        assert_eq!((&all["user"], &all["system"]["f"]), (&json!({"d": {"e": 2}, "g": true}), &json!(1)));
        for bad in ["", "a..b=1", "a=1.a"] {
            let setattr = vec![bad.to_owned()];
            let args = JobArgs { setattr, ..JobArgs::default() };
            assert_eq!(args.jobspec(vec!["a".to_owned()]).is_err(), bad != "a=1.a", "{bad}");
        }
    }

    #[test]
    fn a_copy_for_each_id() {
        let spec = made(&JobArgs::default());
        let all = copies(&spec, "1,3-4").unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[1]["tasks"][0]["command"], json!(["app", "3"]));
        assert_eq!(all[2]["attributes"]["system"]["environment"]["FLUX_JOB_CC"], "4");
        assert!(copies(&spec, "x").is_err() && copies(&spec, "").is_err());
    }
}
