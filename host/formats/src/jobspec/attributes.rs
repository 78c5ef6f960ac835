//! Attributes of a job in its jobspec, beside the request: its memory in one number, its group, application and name.
//!
//! A jobspec may have them in `attributes.system.fluxgate.attributes`, an object with any of the four; nothing is then read from
//! elsewhere. Otherwise the memory is the sum of all vertices of type `memory`, if each has a unit of bytes; the group is
//! `attributes.system.bank`, else `attributes.system.project`; the application is the file name of the first task's program; the
//! name is `attributes.system.job.name`. An attribute that is not there is unknown.
//!
//! This module does not know who asks for them.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Jobspec, Resource};
use crate::pools::factor;

/// Longest text of an attribute, in bytes; the rest is cut off.
pub const ATTRIBUTE_BYTES_MAX: usize = 256;

/// Where a jobspec may tell them.
const TOLD: &str = "fluxgate.attributes";

/// The attributes of a job beside its request; `None` means that one is unknown. See the [module](self).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobAttributes {
    /// Memory of the whole job, in bytes.
    pub memory: Option<u64>,
    /// The group that the job belongs to or is charged to.
    pub group: Option<Box<str>>,
    /// Its program.
    pub application: Option<Box<str>>,
    /// Its name.
    pub name: Option<Box<str>>,
}

/// The beginning of a text that is not empty.
fn short(text: &str) -> Option<Box<str>> {
    let end = (0..=text.len().min(ATTRIBUTE_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end))?;
    (end > 0).then(|| text[..end].into())
}

impl JobAttributes {
    /// The attributes that a jobspec has, by the rules of the [module](self).
    pub fn of(jobspec: &Jobspec) -> Self {
        let text = |path: &str| jobspec.system_attr(path).and_then(Value::as_str).and_then(short);
        if let Some(told) = jobspec.system_attr(TOLD) {
            let text = |key: &str| told.get(key).and_then(Value::as_str).and_then(short);
            return JobAttributes {
                memory: told.get("memory").and_then(Value::as_u64),
                group: text("group"),
                application: text("application"),
                name: text("name"),
            };
        }
        let program = jobspec.command().first().map_or("", String::as_str);
        JobAttributes {
            memory: memory(&jobspec.resources, 1),
            group: text("bank").or_else(|| text("project")),
            application: short(program.rsplit('/').next().unwrap_or_default()),
            name: jobspec.name().and_then(short),
        }
    }

    /// Writes these attributes into a jobspec, so that [`of`](Self::of) returns them whatever else is in it. A jobspec whose
    /// `attributes.system.fluxgate` is no object stays as it is.
    pub fn tell(&self, jobspec: &mut Jobspec) {
        let mut told = Map::new();
        let JobAttributes { memory, group, application, name } = self;
        told.extend(memory.map(|memory| ("memory".to_owned(), memory.into())));
        for (key, text) in [("group", group), ("application", application), ("name", name)] {
            told.extend(text.as_deref().map(|text| (key.to_owned(), text.into())));
        }
        // The object is valid; a jobspec whose `fluxgate` is none is not read as a jobspec.
        let _ = jobspec.set_system_attr(TOLD, Value::Object(told));
    }

    /// True if none is known.
    pub fn is_empty(&self) -> bool {
        *self == JobAttributes::default()
    }

    /// One of them by name, as text: `memory`, `group`, `application`, `name`. `None` if it is unknown, or no attribute has the name.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        let text = match name {
            "memory" => return self.memory.map(|memory| memory.to_string().into()),
            "group" => &self.group,
            "application" => &self.application,
            "name" => &self.name,
            _ => return None,
        };
        text.as_deref().map(Cow::Borrowed)
    }

    /// One of them by name, as a number. `None` also for a text that is no finite number.
    pub fn number(&self, name: &str) -> Option<f64> {
        match name {
            "memory" => self.memory.map(|memory| memory as f64),
            _ => self.text(name)?.parse().ok().filter(|number: &f64| number.is_finite()),
        }
    }
}

/// The least memory of these vertices in bytes; `None` if there is none, or the unit of one is not of bytes.
fn memory(resources: &[Resource], outer: u64) -> Option<u64> {
    let mut sum = None;
    for vertex in resources {
        let here = outer.saturating_mul(vertex.count.min());
        let mut add = |amount: u64| sum = Some(sum.unwrap_or(0u64).saturating_add(amount));
        if vertex.type_ == "memory" {
            let prefix = vertex.unit.as_deref().and_then(|unit| unit.strip_suffix('B'));
            add(here.saturating_mul(prefix.and_then(factor)?));
        }
        if let Some(inner) = memory(&vertex.with, here) {
            add(inner);
        } else if vertex.with.iter().flat_map(Resource::walk).any(|vertex| vertex.type_ == "memory") {
            return None;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jobspec::Simple;

    fn spec(memory: &[(u64, Option<&str>)], system: Value) -> Jobspec {
        let with: Vec<Value> = memory
            .iter()
            .map(|(count, unit)| match unit {
                Some(unit) => json!({"type": "memory", "count": count, "unit": unit}),
                None => json!({"type": "memory", "count": count}),
            })
            .chain([json!({"type": "core", "count": 1})])
            .collect();
        let slot = json!({"type": "slot", "count": 3, "label": "s", "with": with});
        let node = json!({"type": "node", "count": 2, "with": [slot]});
        let task = json!({"command": ["/opt/bin/lmp", "-in", "x"], "slot": "s", "count": {"per_slot": 1}});
        Jobspec::from_value(
            &json!({"version": 9999, "resources": [node], "tasks": [task], "attributes": {"system": system}}),
        )
        .unwrap()
    }

    #[test]
    fn res_15_a_jobspec_tells_what_it_has() {
        let known = JobAttributes::of(&spec(
            &[(4, Some("GB")), (500, Some("MB"))],
            json!({"duration": 60, "bank": "physics", "project": "p1", "job": {"name": "melt"}}),
        ));
        assert_eq!(known.memory, Some(6 * 4_500_000_000));
        assert_eq!(known.text("group").as_deref(), Some("physics"));
        assert_eq!(known.text("application").as_deref(), Some("lmp"));
        assert_eq!(known.text("name").as_deref(), Some("melt"));
        assert_eq!((known.number("memory"), known.number("name")), (Some(27e9), None));
        assert_eq!((known.text("colour"), known.number("colour")), (None, None));
        let of = |system: Value| JobAttributes::of(&spec(&[], system));
        assert_eq!(of(json!({"project": "p1"})).text("group").as_deref(), Some("p1"));
        let bare = of(json!({}));
        assert_eq!((bare.memory, bare.group, bare.name), (None, None, None));
        // Memory without a unit is unknown, also beside memory with a unit.
        assert_eq!(JobAttributes::of(&spec(&[(4, None)], json!({}))).memory, None);
        assert_eq!(JobAttributes::of(&spec(&[(4, Some("GB")), (4, None)], json!({}))).memory, None);
    }

    #[test]
    fn res_15_what_is_told_comes_before_what_is_derived() {
        let mut jobspec = Simple { command: vec!["replayed".to_owned()], ..Simple::default() }.build();
        let told = JobAttributes { group: Some("7".into()), memory: Some(5), ..JobAttributes::default() };
        told.tell(&mut jobspec);
        assert_eq!(JobAttributes::of(&jobspec), told);
        assert_eq!((told.number("group"), told.text("memory").as_deref()), (Some(7.0), Some("5")));
        JobAttributes::default().tell(&mut jobspec);
        assert!(JobAttributes::of(&jobspec).is_empty(), "not even the program");
    }

    #[test]
    fn res_15_long_texts_are_cut_at_a_character() {
        let name = "\u{e9}".repeat(200);
        let known = JobAttributes::of(&spec(&[], json!({"job": {"name": name}})));
        assert_eq!(known.name.as_deref().map(str::len), Some(ATTRIBUTE_BYTES_MAX));
        assert_eq!(JobAttributes::of(&spec(&[], json!({"job": {"name": ""}}))).name, None);
    }
}
