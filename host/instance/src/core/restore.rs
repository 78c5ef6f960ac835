//! Restart: the state of an earlier run of the instance from its database.
//!
//! The state of a job is that of its event log. Each job then continues: waiting jobs wait again, simulated jobs run
//! for the rest of their time, processes of real jobs are searched for.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::{Event, JobId, R};
use serde_json::Value;

use super::Core;
use crate::fail::Fail;
use crate::job::{Grant, Job, State};
use crate::spec::Spec;

/// One event of one job, in the order of the database.
#[derive(Debug, Clone, PartialEq)]
pub struct RestoredEvent {
    /// The job.
    pub id: JobId,
    /// Time of the event, seconds since the epoch.
    pub time: f64,
    /// Name of the event.
    pub name: String,
    /// JSON text of the context (RFC 18); `None` without one.
    pub context: Option<String>,
}

/// The content of the database; the default is that of a new instance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Restored {
    /// Time of the instance's first start, on its clock, in seconds since the epoch. Ids count from here.
    pub epoch: f64,
    /// Jobspecs by row.
    pub specs: BTreeMap<i64, Arc<str>>,
    /// Accepted jobs with the rows of their jobspecs.
    pub jobs: Vec<(JobId, i64)>,
    /// Events of jobs, in the order in which they were committed.
    pub events: Vec<RestoredEvent>,
    /// Keys and values of the KVS.
    pub values: Vec<(String, Arc<[u8]>)>,
    /// Single values by name.
    pub facts: BTreeMap<String, String>,
}

impl Core {
    pub(super) fn restore(&mut self, restored: Restored) -> Result<(), Fail> {
        for (key, value) in restored.values {
            self.kvs.set(&key, Some(value));
        }
        let mut specs = BTreeMap::new();
        for (key, text) in &restored.specs {
            let value: Value = serde_json::from_str(text)
                .map_err(|e| Fail::invalid(format!("database: jobspec {key} is not JSON: {e}")))?;
            let mut spec = Spec::new(&value)
                .map_err(|fail| Fail::invalid(format!("database: jobspec {key}: {fail}")))?;
            spec.key = *key;
            self.next_spec = self.next_spec.max(key + 1);
            specs.insert(*key, Arc::new(spec));
        }
        let mut jobs = BTreeMap::new();
        for (id, key) in restored.jobs {
            let spec = specs
                .get(&key)
                .ok_or_else(|| Fail::invalid(format!("database: job {id} has no jobspec {key}")))?;
            jobs.insert(id, Job::new(id, Arc::clone(spec)));
            self.ids.resume_after(id);
        }
        // The order in which jobs ended is the order in which they are listed and dropped; several may end at one time.
        let mut ended = BTreeMap::new();
        for (place, RestoredEvent { id, time, name, context }) in (1u64..).zip(restored.events) {
            let Some(job) = jobs.get_mut(&id) else { continue };
            let context = match context.as_deref().map(serde_json::from_str::<Value>) {
                Some(Ok(Value::Object(map))) => Some(map),
                _ => None,
            };
            if name == "alloc"
                && let Ok(grant) = self.committed_r(id)
            {
                job.take(grant);
            }
            let event = Event { timestamp: time, name, context };
            job.apply(&event.name, event.context.as_ref().unwrap_or(&Default::default()), time);
            job.log.push_str(&event.encode());
            if job.state == State::Inactive {
                ended.insert(id, place);
            }
            self.now = self.now.max(time);
        }
        for (name, text) in &restored.facts {
            if let Some(queue) = name.strip_prefix("queue.") {
                self.queues.restore(queue, text);
            }
        }
        self.restore_resources(&restored.facts);
        if let Some(expiration) = restored.facts.get("expiration").and_then(|text| text.parse().ok()) {
            self.inventory.set_expiration(expiration);
        }
        let mut jobs: Vec<Job> = jobs.into_values().collect();
        jobs.sort_by_key(|job| ended.get(&job.id).copied().unwrap_or(0));
        let active: Vec<JobId> =
            jobs.iter().filter(|job| job.state != State::Inactive).map(|job| job.id).collect();
        for job in jobs {
            self.table.insert(job);
        }
        for id in active {
            self.go_on(id);
        }
        Ok(())
    }

    /// The R that was committed for a job, or the error in it.
    pub(super) fn committed_r(&self, id: JobId) -> Result<Grant, String> {
        let text = self.kvs.r_of(id).ok_or("there is none")?;
        let mut value: Value = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        value.as_object_mut().ok_or("it is no object")?.shift_remove("scheduling");
        let r = R::from_value(&value).map_err(|e| e.to_string())?;
        Ok(Grant { value, r })
    }

    /// Resumes a job that was not inactive.
    fn go_on(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        let (state, started, over) = (job.state, job.started, job.status.is_some());
        let waits = job.waits.clone();
        let lost = job.has_resources && job.grant.is_none();
        match state {
            State::Depend if !waits.is_empty() => self.restore_waiting(id),
            State::New => self.post(id, "validate", None),
            State::Sched => self.post(id, "flux-restart", None),
            State::Priority => self.enter_priority(id),
            State::Run if lost => {
                self.raise(id, "exec", 0, self.owner, "R is missing after a restart of the instance");
            }
            State::Run if started => self.resume(id),
            State::Cleanup if started && !over => {
                self.resume(id);
                self.exception_hits(id);
            }
            _ => self.act(id),
        }
    }
}
