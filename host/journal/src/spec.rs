//! The requests of jobs, without user and duration. Most jobs of a site have one of a few requests, so each request
//! is written once.
//!
//! A row has the parts of a jobspec on which scheduling depends: resources, constraints, queue, bank, when it may be ended, and
//! this scheduler's attributes.
//!
//! Must never know files.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use fluxgate_formats::Jobspec;
use fluxgate_formats::jobspec::{Checks, JobAttributes, Resource};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Attributes below `attributes.system` on which scheduling depends.
const SYSTEM: [&str; 5] = ["queue", "constraints", "bank", "preemptible-after", "fluxgate"];

/// The request of one or more jobs, by number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpecRow {
    /// Its number, unique during one run of a scheduler.
    pub number: u32,
    /// Version of the jobspec (RFC 14, RFC 25).
    pub version: u32,
    /// The resources (RFC 14).
    pub resources: Value,
    /// The parts of `attributes.system` on which scheduling depends: `queue`, `constraints`, `bank`, `preemptible-after`, `fluxgate`.
    pub system: Map<String, Value>,
}

/// The reason for which the jobspec or the reservation of an event is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The journal has no request of this number.
    #[error("jobspec {0} is not in the journal")]
    Unknown(u32),
    /// The request of this number cannot be read as a jobspec, for this reason.
    #[error("jobspec {0}: {1}")]
    Wrong(u32, String),
    /// A reservation cannot be read, for this reason.
    #[error("reservation: {0}")]
    Window(String),
}

impl SpecRow {
    /// A jobspec with this request; `duration` in seconds, 0 for no limit.
    ///
    /// # Errors
    /// [`SpecError::Wrong`] for an invalid request.
    pub fn jobspec(&self, duration: f64) -> Result<Arc<Jobspec>, SpecError> {
        let mut system = self.system.clone();
        if duration > 0.0 {
            system.insert("duration".to_owned(), duration.into());
        }
        let task = json!({"command": ["job"], "slot": "slot", "count": {"per_slot": 1}});
        let document = json!({
            "version": self.version, "resources": self.resources, "tasks": [task],
            "attributes": {"system": system},
        });
        let read = Jobspec::from_owned(document, Checks::Scheduling);
        read.map(Arc::new).map_err(|e| SpecError::Wrong(self.number, e.to_string()))
    }
}

/// Number of rows at which unused ones are dropped.
const SWEEP_MIN: usize = 4096;

struct Entry {
    resources: Vec<Resource>,
    system: Map<String, Value>,
    row: Arc<SpecRow>,
}

/// The rows that are in use.
#[derive(Default)]
pub(crate) struct Specs {
    rows: BTreeMap<u64, Vec<Entry>>,
    count: usize,
    sweep_at: usize,
    next: u32,
}

fn system(jobspec: &Jobspec) -> Map<String, Value> {
    let all = &jobspec.attributes.system;
    SYSTEM.iter().filter_map(|key| Some(((*key).to_owned(), all.get(*key)?.clone()))).collect()
}

fn hash(jobspec: &Jobspec, system: &Map<String, Value>) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (jobspec.version, &jobspec.resources).hash(&mut hasher);
    for (key, value) in system {
        key.hash(&mut hasher);
        match value {
            Value::String(text) => text.hash(&mut hasher),
            other => other.to_string().hash(&mut hasher),
        }
    }
    hasher.finish()
}

impl Specs {
    /// The row of a job's request that also tells the job's attributes, for policies that read them.
    pub(crate) fn row_with_attributes(&mut self, jobspec: &Jobspec) -> Arc<SpecRow> {
        let mut told = jobspec.clone();
        JobAttributes::of(jobspec).tell(&mut told);
        self.row(&told)
    }

    /// The row of a job's request.
    pub(crate) fn row(&mut self, jobspec: &Jobspec) -> Arc<SpecRow> {
        let system = system(jobspec);
        let place = hash(jobspec, &system);
        let same = |entry: &&Entry| {
            entry.row.version == jobspec.version
                && entry.resources == jobspec.resources
                && entry.system == system
        };
        if let Some(entry) = self.rows.get(&place).and_then(|list| list.iter().find(same)) {
            return Arc::clone(&entry.row);
        }
        if self.count >= self.sweep_at.max(SWEEP_MIN) {
            self.sweep();
        }
        let resources = Value::Array(jobspec.resources.iter().map(Resource::to_value).collect());
        let row = SpecRow { number: self.next, version: jobspec.version, resources, system: system.clone() };
        let row = Arc::new(row);
        self.next = self.next.wrapping_add(1);
        self.count += 1;
        let entry = Entry { resources: jobspec.resources.clone(), system, row: Arc::clone(&row) };
        self.rows.entry(place).or_default().push(entry);
        row
    }

    /// Drops the rows of which no job is left.
    fn sweep(&mut self) {
        for list in self.rows.values_mut() {
            list.retain(|entry| Arc::strong_count(&entry.row) > 1);
        }
        self.rows.retain(|_, list| !list.is_empty());
        self.count = self.rows.values().map(Vec::len).sum();
        self.sweep_at = self.count * 2;
    }
}
