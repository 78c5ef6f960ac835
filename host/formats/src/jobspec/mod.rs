//! Jobspec (RFC 14, and RFC 25 for version 1): the resources and tasks of a job.
//!
//! A [`Jobspec`] is checked completely when it is read. A value of the type therefore has a resource and a task, every
//! slot has a label and contents, every task names a slot, every count starts at 1 or more, and the attributes that
//! Flux defines have the right types. This module does not know the resources of any machine.
//!
//! # Interpretations
//!
//! The text of RFC 14 applies, not its schema, which refuses counts that the text allows (`"4"`, `{min,max}` alone) and
//! accepts documents that it forbids (a maximum below the minimum, slots without children, tasks for slots that do not
//! exist).
//!
//! - A version 1 jobspec is read by the same rules; the narrower ones of RFC 25 are [`Jobspec::check_v1`].
//! - A `gpu` count of 0 in version 1, which flux-core accepts, is read as no gpu vertex at all.
//! - Keys of a vertex or a task that RFC 14 does not name are refused: a request that cannot be honoured must not look
//!   accepted. Unknown `attributes.system` keys are kept and ignored, as the RFC demands.
//! - A document nests at most [`DEPTH_MAX`] vertices deep and holds at most [`VERTICES_MAX`].

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::constraint::Constraint;
use crate::document::{self, DocumentError, Path};

mod attributes;
mod count;
mod read;
mod simple;
mod summary;
mod v1;
mod write;

pub use attributes::{ATTRIBUTE_BYTES_MAX, JobAttributes};
pub use count::{COUNT_MAX, Count, CountError, CountErrorKind, Operator};
pub use simple::Simple;
pub use summary::min_count;

/// Maximum nesting depth of resource vertices. Hierarchies of real machines have about ten levels; JSON parsers
/// commonly stop at 128 levels, and a vertex takes two.
pub const DEPTH_MAX: usize = 60;
/// Maximum number of resource vertices of a jobspec.
pub const VERTICES_MAX: usize = 10_000;
/// Maximum number of tasks of a jobspec.
pub const TASKS_MAX: usize = 10_000;
/// Maximum length of the text of a jobspec, in bytes; batch scripts and small input files are part of it.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// The reserved resource type of task slots.
pub const SLOT: &str = "slot";

/// The checks of RFC 14 that a reader applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checks {
    /// All of them.
    #[default]
    All,
    /// Labels may repeat, tasks may name slots that do not exist and `attributes` may be null. For a jobspec that
    /// another program has accepted already, such as flux-core or Fluxion, whose test collection has many of these;
    /// none of the three concerns a scheduler.
    Scheduling,
}

/// A job specification (RFC 14), checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Jobspec {
    /// The version: 1 for RFC 25, anything above for RFC 14 at large.
    pub version: u32,
    /// The requested resources, all of them together; at least one.
    pub resources: Vec<Resource>,
    /// The tasks to run in the slots; at least one.
    pub tasks: Vec<Task>,
    /// All other attributes. Change the system attributes by [`Jobspec::set_system_attr`], which checks them.
    pub attributes: Attributes,
    /// The parsed `attributes.system.constraints`.
    constraints: Option<Constraint>,
    /// `attributes.system.duration` in seconds, or 0.
    duration: f64,
}

/// A vertex of the resource request (RFC 14).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The type to match, such as `node`; `slot` is the reserved one.
    pub type_: String,
    /// The number requested, within each vertex that contains this one.
    pub count: Count,
    /// The unit of the count, such as `GB`; `None` for resources that are counted one by one.
    pub unit: Option<String>,
    /// Whether no other job may use it; `None` if the request does not say, and [`Resource::is_exclusive`] applies the default.
    pub exclusive: Option<bool>,
    /// The name of the vertex, unique in the jobspec; a slot always has one.
    pub label: Option<String>,
    /// The set of matching resource ids; `None` if any will do.
    pub id: Option<String>,
    /// The resources that each of them must contain; empty for none.
    pub with: Vec<Resource>,
}

/// A task to run in the slots of a jobspec (RFC 14).
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The program and its arguments; at least the program.
    pub command: Vec<String>,
    /// The label of the slot it runs in.
    pub slot: String,
    /// The number of tasks.
    pub count: TaskCount,
    /// Free-form extensions; `None` if there are none.
    pub attributes: Option<Map<String, Value>>,
    /// A hint for laying out tasks on slots; `None` if there is none.
    pub distribution: Option<String>,
}

/// The number of times that a [`Task`] runs; the numbers are 1 or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskCount {
    /// This number in each slot.
    PerSlot(u64),
    /// This number for each resource of type `type_` in the slot.
    PerResource {
        /// A resource type that the slot contains.
        type_: String,
        /// The number for each.
        count: u64,
    },
    /// This number over all slots.
    Total(u64),
}

/// The attributes of a [`Jobspec`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes {
    /// For the user; the scheduler ignores them. `None` if there are none.
    pub user: Option<Map<String, Value>>,
    /// For Flux; as read, including unknown keys.
    pub system: Map<String, Value>,
}

impl Jobspec {
    /// Reads JSON text.
    ///
    /// # Errors
    /// The text is too long, is no JSON, or breaks a rule of RFC 14: the path, the value found and the values accepted.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        Self::try_from(document::json(read::WHAT, text, TEXT_BYTES_MAX)?)
    }

    /// Reads YAML text of one document.
    ///
    /// # Errors
    /// The text is too long, is no YAML, or breaks a rule of RFC 14: the path, the value found and the values accepted.
    pub fn from_yaml(text: &str) -> Result<Self, DocumentError> {
        Self::try_from(document::yaml(read::WHAT, text, TEXT_BYTES_MAX)?)
    }

    /// Reads YAML text with the given checks; [`from_yaml`](Self::from_yaml) uses [`Checks::All`].
    ///
    /// # Errors
    /// As [`from_yaml`](Self::from_yaml), of the checks that apply.
    pub fn from_yaml_with(text: &str, checks: Checks) -> Result<Self, DocumentError> {
        Self::from_owned(document::yaml(read::WHAT, text, TEXT_BYTES_MAX)?, checks)
    }

    /// Reads a JSON value with the given checks, without copying the attributes.
    ///
    /// # Errors
    /// The value breaks a rule of RFC 14 that is checked.
    pub fn from_owned(mut value: Value, checks: Checks) -> Result<Self, DocumentError> {
        let attributes = value.as_object_mut().and_then(|map| map.remove("attributes"));
        Self::read(&value, attributes, checks).map_err(|fault| DocumentError::invalid(read::WHAT, fault))
    }

    /// Reads a JSON value. `Jobspec::try_from(value)` takes the value and saves a copy of the attributes.
    ///
    /// # Errors
    /// The value breaks a rule of RFC 14.
    pub fn from_value(value: &Value) -> Result<Self, DocumentError> {
        let attributes = value.as_object().and_then(|map| map.get("attributes")).cloned();
        Self::read(value, attributes, Checks::All).map_err(|fault| DocumentError::invalid(read::WHAT, fault))
    }

    /// The requested duration (time limit), in seconds; 0 when the jobspec has none.
    pub fn duration(&self) -> f64 {
        self.duration
    }

    /// The requested queue; `None` for the default queue of the instance.
    pub fn queue(&self) -> Option<&str> {
        self.attributes.system.get("queue")?.as_str()
    }

    /// True if it has no system attribute but a duration and a queue.
    pub fn is_plain(&self) -> bool {
        self.attributes.system.keys().all(|key| key == "duration" || key == "queue")
    }

    /// The constraints on the execution targets (RFC 31); `None` if the jobspec has none.
    pub fn constraints(&self) -> Option<&Constraint> {
        self.constraints.as_ref()
    }

    /// The program of the first task and its arguments.
    pub fn command(&self) -> &[String] {
        self.tasks.first().map_or(&[], |task| &task.command)
    }

    /// Environment variables to set (string) and to unset (null); `None` if the jobspec has none.
    pub fn environment(&self) -> Option<&Map<String, Value>> {
        self.attributes.system.get("environment")?.as_object()
    }

    /// The working directory of the tasks; `None` if the jobspec does not say.
    pub fn cwd(&self) -> Option<&str> {
        self.attributes.system.get("cwd")?.as_str()
    }

    /// The name of the job (`attributes.system.job.name`); `None` if it was given none.
    pub fn name(&self) -> Option<&str> {
        self.system_attr("job.name")?.as_str()
    }

    /// The run time after which the job may be preempted, in seconds (0 = at once); `None` = never.
    pub fn preemptible_after(&self) -> Option<f64> {
        self.attributes.system.get("preemptible-after")?.as_f64()
    }

    /// The system attribute at the dotted path, such as `exec.test.run_duration`; `None` if it is not there.
    pub fn system_attr(&self, path: &str) -> Option<&Value> {
        if !path.as_bytes().contains(&b'.') {
            return self.attributes.system.get(path);
        }
        let mut keys = path.split('.');
        let first = self.attributes.system.get(keys.next()?);
        keys.fold(first, |value, key| value?.as_object()?.get(key))
    }

    /// Sets the system attribute at the dotted path, creating the dictionaries on the way, and checks all system
    /// attributes again.
    ///
    /// # Errors
    /// A value on the way is no dictionary, or an attribute that Flux defines would have a wrong type. The jobspec is unchanged then.
    pub fn set_system_attr(&mut self, path: &str, value: Value) -> Result<(), DocumentError> {
        let invalid = |fault| DocumentError::invalid(read::WHAT, fault);
        if path == "duration" {
            // No other attribute depends on it, so the others need not be checked again.
            self.duration = read::duration(&value).map_err(invalid)?;
            match self.attributes.system.get_mut(path) {
                Some(place) => *place = value,
                None => drop(self.attributes.system.insert(path.to_owned(), value)),
            }
            return Ok(());
        }
        let mut system = self.attributes.system.clone();
        let mut map = &mut system;
        let (outer, last) = path.rsplit_once('.').map_or((None, path), |(outer, last)| (Some(outer), last));
        for key in outer.into_iter().flat_map(|outer| outer.split('.')) {
            let inner = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
            let words = document::found(inner);
            let Value::Object(inner) = inner else {
                return Err(invalid(Path::Root.key(path).fault(words, format!("a dictionary at '{key}'"))));
            };
            map = inner;
        }
        map.insert(last.to_owned(), value);
        let known = read::system(&system).map_err(invalid)?;
        (self.duration, self.constraints) = (known.duration, known.constraints);
        self.attributes.system = system;
        Ok(())
    }

    /// Adds a constraint to those of the job, such as the one that its queue requires (RFC 33).
    pub fn add_constraint(&mut self, more: Constraint) {
        let all = self.constraints.take().unwrap_or(Constraint::All).and(more);
        self.attributes.system.insert("constraints".to_owned(), all.to_value());
        self.constraints = Some(all);
    }
}

impl TryFrom<Value> for Jobspec {
    type Error = DocumentError;

    /// Reads a JSON value without copying the attributes.
    fn try_from(value: Value) -> Result<Self, DocumentError> {
        Self::from_owned(value, Checks::All)
    }
}

impl Serialize for Jobspec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Jobspec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Jobspec::try_from(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl Resource {
    /// A vertex with type and count only.
    pub fn new(type_: impl Into<String>, count: Count) -> Self {
        let type_ = type_.into();
        Resource { type_, count, unit: None, exclusive: None, label: None, id: None, with: Vec::new() }
    }

    /// The same vertex, containing `with`.
    #[must_use]
    pub fn containing(mut self, with: Vec<Resource>) -> Self {
        self.with = with;
        self
    }

    /// True for a task slot.
    pub fn is_slot(&self) -> bool {
        self.type_ == SLOT
    }

    /// Whether no other job may use it: the explicit `exclusive`, otherwise true exactly for a slot and for vertices in
    /// a slot.
    pub fn is_exclusive(&self, in_slot: bool) -> bool {
        self.exclusive.unwrap_or(in_slot || self.is_slot())
    }

    /// This vertex and all vertices below it, outer before inner.
    pub fn walk(&self) -> impl Iterator<Item = &Resource> {
        let mut stack = vec![self];
        std::iter::from_fn(move || {
            let vertex = stack.pop()?;
            stack.extend(vertex.with.iter().rev());
            Some(vertex)
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
