//! Jobspec (RFC 14, and RFC 25 for version 1): what a job wants to run, and on what.
//!
//! A [`Jobspec`] is checked completely when it is read, so whoever holds one need not look for holes: there is a
//! resource and a task, every slot has a label and something in it, every task names a slot, every count starts at 1 or
//! more, the attributes Flux knows have the right types. It must never know what resources there are.
//!
//! # Readings taken
//!
//! The text of RFC 14 counts, not its schema, which refuses counts that the text allows (`"4"`, `{min,max}` alone) and
//! accepts what it forbids (a maximum below the minimum, slots without children, tasks for slots that do not exist).
//!
//! - A version 1 jobspec is read by the same rules; the narrower ones of RFC 25 are [`Jobspec::check_v1`].
//! - A `gpu` count of 0 in version 1, which flux-core accepts, is read as no gpu vertex at all.
//! - Keys of a vertex or a task that RFC 14 does not name are refused: what cannot be honoured must not look accepted.
//!   Unknown `attributes.system` keys are kept and ignored, as the RFC demands.
//! - A document nests at most [`DEPTH_MAX`] vertices deep and holds at most [`VERTICES_MAX`].

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::constraint::Constraint;
use crate::document::{self, DocumentError, Path};

mod count;
mod read;
mod simple;
mod summary;
mod v1;
mod write;

pub use count::{COUNT_MAX, Count, CountError, CountErrorKind, Operator};
pub use simple::Simple;
pub use summary::min_count;

/// How deep resource vertices may nest. Hierarchies of real machines have about ten levels; JSON readers commonly give
/// up at 128 levels, and a vertex takes two.
pub const DEPTH_MAX: usize = 60;
/// How many resource vertices a jobspec may hold.
pub const VERTICES_MAX: usize = 10_000;
/// How many tasks a jobspec may hold.
pub const TASKS_MAX: usize = 10_000;
/// The longest text of a jobspec, in bytes; batch scripts and small input files travel inside.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// The reserved resource type of task slots.
pub const SLOT: &str = "slot";

/// How much of RFC 14 a document must keep to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checks {
    /// All of it.
    #[default]
    All,
    /// Labels may repeat, tasks may name slots that do not exist and `attributes` may be null: what does not concern a
    /// scheduler, for a jobspec that somebody else has accepted already. (flux-core accepts such, and Fluxion's collection is full of them.)
    Scheduling,
}

/// A job specification (RFC 14), checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Jobspec {
    /// The version: 1 for RFC 25, anything above for RFC 14 at large.
    pub version: u32,
    /// The resources asked for, all of them together; at least one.
    pub resources: Vec<Resource>,
    /// What to run in the slots; at least one.
    pub tasks: Vec<Task>,
    /// Everything else. Change the system attributes by [`Jobspec::set_system_attr`], which keeps them checked.
    pub attributes: Attributes,
    /// `attributes.system.constraints`, read.
    constraints: Option<Constraint>,
    /// `attributes.system.duration`, or 0.
    duration: f64,
}

/// A vertex of the resource request (RFC 14).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The type to match, such as `node`; `slot` is the reserved one.
    pub type_: String,
    /// How many, for each vertex this one is in.
    pub count: Count,
    /// The unit of the count, such as `GB`.
    pub unit: Option<String>,
    /// Whether nobody else may use it; [`Resource::is_exclusive`] knows the default.
    pub exclusive: Option<bool>,
    /// The name of the vertex, unique in the jobspec; a slot always has one.
    pub label: Option<String>,
    /// The set of matching resource ids.
    pub id: Option<String>,
    /// What each of them has to contain.
    pub with: Vec<Resource>,
}

/// A task to run in the slots of a jobspec (RFC 14).
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The program and its arguments; at least the program.
    pub command: Vec<String>,
    /// The label of the slot it runs in.
    pub slot: String,
    /// How many times.
    pub count: TaskCount,
    /// Free-form extensions.
    pub attributes: Option<Map<String, Value>>,
    /// A hint for laying out tasks on slots.
    pub distribution: Option<String>,
}

/// How many times a [`Task`] runs; the numbers are 1 or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskCount {
    /// So many in each slot.
    PerSlot(u64),
    /// So many for each resource of type `type_` in the slot.
    PerResource {
        /// A resource type that stands in the slot.
        type_: String,
        /// How many for each.
        count: u64,
    },
    /// So many over all slots.
    Total(u64),
}

/// The attributes of a [`Jobspec`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes {
    /// For the user, never looked at.
    pub user: Option<Map<String, Value>>,
    /// For Flux; as read, unknown keys included.
    pub system: Map<String, Value>,
}

impl Jobspec {
    /// Reads JSON text.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        Self::try_from(document::json(read::WHAT, text, TEXT_BYTES_MAX)?)
    }

    /// Reads YAML text of one document.
    pub fn from_yaml(text: &str) -> Result<Self, DocumentError> {
        Self::try_from(document::yaml(read::WHAT, text, TEXT_BYTES_MAX)?)
    }

    /// Reads YAML text with less than all checks; [`from_yaml`](Self::from_yaml) is this with [`Checks::All`].
    pub fn from_yaml_with(text: &str, checks: Checks) -> Result<Self, DocumentError> {
        Self::from_owned(document::yaml(read::WHAT, text, TEXT_BYTES_MAX)?, checks)
    }

    /// Reads a JSON value, without copying the attributes and with less than all checks if so wanted.
    pub fn from_owned(mut value: Value, checks: Checks) -> Result<Self, DocumentError> {
        let attributes = value.as_object_mut().and_then(|map| map.remove("attributes"));
        Self::read(&value, attributes, checks).map_err(|fault| DocumentError::invalid(read::WHAT, fault))
    }

    /// Reads a JSON value. Who can give the value away spares a copy of the attributes with `Jobspec::try_from(value)`.
    pub fn from_value(value: &Value) -> Result<Self, DocumentError> {
        let attributes = value.as_object().and_then(|map| map.get("attributes")).cloned();
        Self::read(value, attributes, Checks::All).map_err(|fault| DocumentError::invalid(read::WHAT, fault))
    }

    /// The time the job needs at most, in seconds; 0 when it does not say.
    pub fn duration(&self) -> f64 {
        self.duration
    }

    /// The queue the job asks for.
    pub fn queue(&self) -> Option<&str> {
        self.attributes.system.get("queue")?.as_str()
    }

    /// The conditions on the execution targets.
    pub fn constraints(&self) -> Option<&Constraint> {
        self.constraints.as_ref()
    }

    /// The program of the first task and its arguments.
    pub fn command(&self) -> &[String] {
        self.tasks.first().map_or(&[], |task| &task.command)
    }

    /// Environment variables to set (string) and to unset (null).
    pub fn environment(&self) -> Option<&Map<String, Value>> {
        self.attributes.system.get("environment")?.as_object()
    }

    /// The working directory of the tasks.
    pub fn cwd(&self) -> Option<&str> {
        self.attributes.system.get("cwd")?.as_str()
    }

    /// The name given to the job (`attributes.system.job.name`).
    pub fn name(&self) -> Option<&str> {
        self.system_attr("job.name")?.as_str()
    }

    /// The run time after which the job may be ended for others, in seconds (0 = at once); `None` = never.
    pub fn preemptible_after(&self) -> Option<f64> {
        self.attributes.system.get("preemptible-after")?.as_f64()
    }

    /// The system attribute at the dotted path, such as `exec.test.run_duration`.
    pub fn system_attr(&self, path: &str) -> Option<&Value> {
        let mut keys = path.split('.');
        let first = self.attributes.system.get(keys.next()?);
        keys.fold(first, |value, key| value?.as_object()?.get(key))
    }

    /// Sets the system attribute at the dotted path, making the dictionaries on the way, and checks all of them again.
    /// On an error nothing has changed.
    pub fn set_system_attr(&mut self, path: &str, value: Value) -> Result<(), DocumentError> {
        let invalid = |fault| DocumentError::invalid(read::WHAT, fault);
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

    /// Adds a condition to those the job has already, such as what its queue requires (RFC 33).
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
    /// A vertex of which only type and count are said.
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

    /// Whether nobody else may use it: as it says, and otherwise exactly when it is a slot or in one.
    pub fn is_exclusive(&self, in_slot: bool) -> bool {
        self.exclusive.unwrap_or(in_slot || self.is_slot())
    }

    /// This vertex and all it contains, outer before inner.
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
