//! Reading and checking a jobspec document.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    Attributes, Checks, Count, DEPTH_MAX, Jobspec, Operator, Resource, SLOT, TASKS_MAX, Task, TaskCount,
    VERTICES_MAX,
};
use crate::constraint::Constraint;
use crate::document::{Fault, Path, found};
use crate::text::excerpt;

/// The kind of document in errors.
pub(super) const WHAT: &str = "jobspec";

impl Jobspec {
    /// Reads the document `value`, whose attributes were taken out or copied by the caller.
    pub(super) fn read(value: &Value, attributes: Option<Value>, checks: Checks) -> Result<Self, Fault> {
        let root = Path::Root;
        let document = root.dictionary(value)?;
        let version = version(root.required(document, "version")?, &root.key("version"))?;

        let path = root.key("resources");
        let mut vertices = Vertices { version, checks, left: VERTICES_MAX, labels: BTreeMap::new() };
        let resources = vertices.list(root.required(document, "resources")?, &path, 1)?;
        if resources.is_empty() {
            return Err(path.fault("no resource", "at least one resource"));
        }

        let path = root.key("tasks");
        let tasks = tasks(root.required(document, "tasks")?, &path, &resources, &vertices)?;

        let path = root.key("attributes");
        let attributes = match attributes.ok_or_else(|| root.fault("nothing", "the key 'attributes'"))? {
            Value::Null if checks == Checks::Scheduling => Attributes::default(),
            attributes => self::attributes(attributes, &path)?,
        };
        let Known { duration, constraints } = system(&attributes.system)?;
        Ok(Jobspec { version, resources, tasks, attributes, constraints, duration })
    }
}

fn version(value: &Value, path: &Path<'_>) -> Result<u32, Fault> {
    let version = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|&n| n >= 1);
    version.ok_or_else(|| path.wrong(value, "a version number of 1 or more"))
}

/// A positive integer.
fn positive(value: &Value, path: &Path<'_>) -> Result<u64, Fault> {
    let number = value.as_u64().filter(|&n| (1..=super::COUNT_MAX).contains(&n));
    number.ok_or_else(|| path.wrong(value, "a positive integer"))
}

/// The state of reading the vertices of one document.
struct Vertices<'v> {
    version: u32,
    checks: Checks,
    left: usize,
    /// Each label, and whether it is that of a slot.
    labels: BTreeMap<&'v str, bool>,
}

impl<'v> Vertices<'v> {
    fn list(&mut self, value: &'v Value, path: &Path<'_>, depth: usize) -> Result<Vec<Resource>, Fault> {
        let values = path.list(value)?;
        if depth > DEPTH_MAX {
            return Err(path.fault("deeper nesting", format!("at most {DEPTH_MAX} levels of resources")));
        }
        let left = self.left.checked_sub(values.len());
        self.left = left.ok_or_else(|| path.fault("more", format!("at most {VERTICES_MAX} resources")))?;
        let mut vertices = Vec::with_capacity(values.len());
        for (i, value) in values.iter().enumerate() {
            vertices.extend(self.vertex(value, &path.index(i), depth)?);
        }
        Ok(vertices)
    }

    /// Reads a vertex; `None` for a version 1 gpu vertex with count 0.
    fn vertex(&mut self, value: &'v Value, path: &Path<'_>, depth: usize) -> Result<Option<Resource>, Fault> {
        let map = path.dictionary(value)?;
        let mut vertex = Resource::new(String::new(), Count::Fixed(1));
        let mut label = None;
        for (key, value) in map {
            let here = path.key(key);
            let text = || Ok(here.string(value)?.to_owned());
            match key.as_str() {
                "type" => vertex.type_ = text()?,
                "unit" => vertex.unit = Some(text()?),
                "id" => vertex.id = Some(text()?),
                "label" => label = Some(here.string(value)?),
                "exclusive" => {
                    let exclusive = value.as_bool().ok_or_else(|| here.wrong(value, "true or false"))?;
                    vertex.exclusive = Some(exclusive);
                }
                // Read below, once the type is known.
                "count" => {}
                "with" => {
                    vertex.with = self.list(value, &here, depth + 1)?;
                    // An empty list is refused; a list that had only gpu vertices with count 0 counts as left out.
                    if value.as_array().is_some_and(Vec::is_empty) {
                        return Err(here.wrong(value, "at least one resource"));
                    }
                }
                _ => {
                    let known = "one of type, count, unit, exclusive, with, label, id";
                    return Err(path.fault(format!("the key '{}'", excerpt(key)), known));
                }
            }
        }
        if vertex.type_.is_empty() {
            let path = path.key("type");
            let found = if map.contains_key("type") { "\"\"" } else { "nothing" };
            return Err(path.fault(found, "a resource type such as \"node\""));
        }
        let amount = path.required(map, "count")?;
        if self.version == 1 && vertex.type_ == "gpu" && amount.as_u64() == Some(0) {
            return Ok(None);
        }
        vertex.count = count(amount, &path.key("count"))?;
        if vertex.type_ == SLOT {
            if label.is_none() {
                return Err(path.fault("a slot without label", "the key 'label'"));
            }
            if vertex.with.is_empty() {
                return Err(path.fault("a slot with nothing in it", "the key 'with'"));
            }
        }
        if let Some(label) = label {
            let again = self.labels.insert(label, vertex.type_ == SLOT).is_some();
            if again && self.checks == Checks::All {
                let path = path.key("label");
                return Err(path
                    .fault(format!("the label \"{}\" a second time", excerpt(label)), "a label of its own"));
            }
            vertex.label = Some(label.to_owned());
        }
        Ok(Some(vertex))
    }
}

pub(super) fn count(value: &Value, path: &Path<'_>) -> Result<Count, Fault> {
    const EXPECTED: &str =
        "a positive integer, a string such as \"4,8\" or \"2-8:2\", or a dictionary with 'min'";
    match value {
        Value::Number(n) => {
            let count = n.as_u64().filter(|&n| (1..=super::COUNT_MAX).contains(&n));
            Ok(Count::Fixed(count.ok_or_else(|| path.wrong(value, EXPECTED))?))
        }
        Value::String(text) => Count::parse(text).map_err(|error| {
            path.wrong(value, format!("{EXPECTED} ({} at position {})", error.kind, error.at))
        }),
        Value::Object(map) => range(map, path),
        _ => Err(path.wrong(value, EXPECTED)),
    }
}

fn range(map: &Map<String, Value>, path: &Path<'_>) -> Result<Count, Fault> {
    let known = ["min", "max", "operator", "operand"];
    if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
        let key = format!("the key '{}'", excerpt(key));
        return Err(path.fault(key, "one of min, max, operator, operand"));
    }
    let number = |key| map.get(key).map(|value| positive(value, &path.key(key))).transpose();
    let min = number("min")?.ok_or_else(|| path.fault("nothing", "the key 'min'"))?;
    let max = number("max")?;
    let operand = number("operand")?;
    let operator = map.get("operator").map(|value| {
        let mut symbols = value.as_str().unwrap_or_default().chars();
        let operator = symbols.next().and_then(Operator::from_symbol).filter(|_| symbols.next().is_none());
        operator.ok_or_else(|| path.key("operator").wrong(value, "one of \"+\", \"*\", \"^\""))
    });
    let (operand, operator) = match (operand, operator.transpose()?) {
        (Some(operand), Some(operator)) => (operand, operator),
        (None, None) => (1, Operator::Plus),
        (Some(_), None) => return Err(path.fault("'operand' without 'operator'", "both or neither")),
        (None, Some(_)) => return Err(path.fault("'operator' without 'operand'", "both or neither")),
    };
    Count::range(min, max, operand, operator).map_err(|kind| {
        let max = max.map_or(String::new(), |max| format!(" max {max}"));
        let found = format!("min {min}{max} operand {operand} operator '{}'", operator.symbol());
        path.fault(found, format!("a range of RFC 14 ({kind})"))
    })
}

fn tasks(
    value: &Value,
    path: &Path<'_>,
    resources: &[Resource],
    vertices: &Vertices<'_>,
) -> Result<Vec<Task>, Fault> {
    let values = path.list(value)?;
    if values.is_empty() || values.len() > TASKS_MAX {
        return Err(path.fault(format!("{} tasks", values.len()), format!("1 to {TASKS_MAX} tasks")));
    }
    let mut tasks = Vec::with_capacity(values.len());
    for (i, value) in values.iter().enumerate() {
        let path = path.index(i);
        let task = task(value, &path)?;
        if vertices.checks == Checks::All {
            check_references(&task, &path, resources, &vertices.labels)?;
        }
        tasks.push(task);
    }
    Ok(tasks)
}

fn task(value: &Value, path: &Path<'_>) -> Result<Task, Fault> {
    let map = path.dictionary(value)?;
    let known = ["command", "slot", "count", "attributes", "distribution"];
    if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
        let key = format!("the key '{}'", excerpt(key));
        return Err(path.fault(key, "one of command, slot, count, attributes, distribution"));
    }
    let here = path.key("command");
    let value = path.required(map, "command")?;
    let words = here.list(value)?;
    if words.is_empty() {
        return Err(here.wrong(value, "a program and its arguments"));
    }
    let word = |(i, word)| Ok(here.index(i).string(word)?.to_owned());
    let command = words.iter().enumerate().map(word).collect::<Result<Vec<_>, Fault>>()?;
    let slot = path.key("slot").string(path.required(map, "slot")?)?.to_owned();
    let count = task_count(path.required(map, "count")?, &path.key("count"))?;
    let attributes = map.get("attributes").map(|value| path.key("attributes").dictionary(value).cloned());
    let distribution = map.get("distribution").map(|value| path.key("distribution").string(value));
    let distribution = distribution.transpose()?.map(str::to_owned);
    Ok(Task { command, slot, count, attributes: attributes.transpose()?, distribution })
}

/// A task must name a slot, and a resource type only if that is in the slot.
fn check_references(
    task: &Task,
    path: &Path<'_>,
    resources: &[Resource],
    labels: &BTreeMap<&str, bool>,
) -> Result<(), Fault> {
    let slot = task.slot.as_str();
    if labels.get(slot) != Some(&true) {
        let slots = labels.iter().filter(|(_, slot)| **slot).map(|(label, _)| *label).collect::<Vec<_>>();
        let slots = if slots.is_empty() { "none".to_owned() } else { slots.join(", ") };
        let expected = format!("the label of a slot (there is: {})", excerpt(&slots));
        return Err(path.key("slot").fault(format!("\"{}\"", excerpt(slot)), expected));
    }
    let TaskCount::PerResource { type_, .. } = &task.count else { return Ok(()) };
    let mut vertices = resources.iter().flat_map(Resource::walk);
    let holder = vertices.find(|vertex| vertex.is_slot() && vertex.label.as_deref() == Some(slot));
    if holder.is_some_and(|holder| holder.walk().skip(1).any(|vertex| vertex.type_ == *type_)) {
        return Ok(());
    }
    let path = path.key("count");
    let path = path.key("per_resource");
    let expected = format!("a resource type in the slot \"{}\"", excerpt(slot));
    Err(path.key("type").fault(format!("\"{}\"", excerpt(type_)), expected))
}

fn task_count(value: &Value, path: &Path<'_>) -> Result<TaskCount, Fault> {
    let map = path.dictionary(value)?;
    let mut entries = map.iter();
    let (Some((key, amount)), None) = (entries.next(), entries.next()) else {
        return Err(path.fault(format!("{} keys", map.len()), "one of per_slot, per_resource, total"));
    };
    let here = path.key(key);
    match key.as_str() {
        "per_slot" => Ok(TaskCount::PerSlot(positive(amount, &here)?)),
        "total" => Ok(TaskCount::Total(positive(amount, &here)?)),
        "per_resource" => {
            let map = here.dictionary(amount)?;
            let type_ = here.key("type").string(here.required(map, "type")?)?.to_owned();
            let count = positive(here.required(map, "count")?, &here.key("count"))?;
            Ok(TaskCount::PerResource { type_, count })
        }
        _ => {
            let key = format!("the key '{}'", excerpt(key));
            Err(path.fault(key, "one of per_slot, per_resource, total"))
        }
    }
}

fn attributes(value: Value, path: &Path<'_>) -> Result<Attributes, Fault> {
    let Value::Object(map) = value else { return Err(path.wrong(&value, "a dictionary")) };
    let mut attributes = Attributes::default();
    for (key, value) in map {
        let here = path.key(&key);
        let section = match value {
            Value::Object(section) => section,
            other => return Err(here.wrong(&other, "a dictionary")),
        };
        match key.as_str() {
            "user" => attributes.user = Some(section),
            "system" => attributes.system = section,
            _ => {
                let key = format!("the key '{}'", excerpt(&key));
                return Err(path.fault(key, "only 'user' and 'system'"));
            }
        }
    }
    Ok(attributes)
}

/// The system attributes that a jobspec keeps in parsed form.
pub(super) struct Known {
    pub(super) duration: f64,
    pub(super) constraints: Option<Constraint>,
}

/// Checks the system attributes that RFC 14 defines; others may be anything.
pub(super) fn system(map: &Map<String, Value>) -> Result<Known, Fault> {
    let root = Path::Root;
    let root = root.key("attributes");
    let root = root.key("system");
    let mut known = Known { duration: 0.0, constraints: None };
    for (key, value) in map {
        let here = root.key(key);
        match key.as_str() {
            "duration" => known.duration = seconds(value, &here)?,
            "preemptible-after" => {
                seconds(value, &here)?;
            }
            "constraints" => known.constraints = Some(Constraint::read(value, &here)?),
            "environment" => strings(value, &here, true)?,
            "job" => strings(value, &here, false)?,
            "cwd" | "queue" | "bank" | "project" => {
                here.string(value)?;
            }
            "shell" | "files" => {
                here.dictionary(value)?;
            }
            "dependencies" => dependencies(value, &here)?,
            _ => {}
        }
    }
    Ok(known)
}

/// The system attribute `duration`, in seconds.
pub(super) fn duration(value: &Value) -> Result<f64, Fault> {
    seconds(value, &Path::Root.key("attributes").key("system").key("duration"))
}

fn seconds(value: &Value, path: &Path<'_>) -> Result<f64, Fault> {
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| path.wrong(value, "a number of seconds, 0 or more"))
}

/// A dictionary of strings, or of strings and nulls.
fn strings(value: &Value, path: &Path<'_>, or_null: bool) -> Result<(), Fault> {
    for (key, value) in path.dictionary(value)? {
        if !(value.is_string() || or_null && value.is_null()) {
            return Err(path.key(key).wrong(value, if or_null { "a string or null" } else { "a string" }));
        }
    }
    Ok(())
}

/// A list of dependencies (RFC 26): each a dictionary with the strings `scheme` and `value`, and the keys of the
/// scheme.
fn dependencies(value: &Value, path: &Path<'_>) -> Result<(), Fault> {
    for (i, value) in path.list(value)?.iter().enumerate() {
        let here = path.index(i);
        let map = here.dictionary(value)?;
        for key in ["scheme", "value"] {
            let there = here.key(key);
            match here.required(map, key)? {
                Value::String(_) => {}
                other => return Err(there.fault(found(other), "a string")),
            }
        }
    }
    Ok(())
}
