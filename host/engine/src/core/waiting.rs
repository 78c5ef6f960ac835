//! The waiting jobs of a checkpoint: a copy of the table of jobs, whose rows are made when they are read.
//!
//! A copy costs the scheduler a counter for each page of the table, whatever the jobs are. Rows are made in the order of ids, on
//! the thread that writes the checkpoint.
//!
//! Must never know where a checkpoint is kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use fluxgate_formats::JobId;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::Core;
use super::job::Job;
use super::scope::Side;
use crate::order::Slot;
use crate::pages::Pages;
use crate::reason::Reason;

/// A waiting job. Its request is in its jobspec, which is kept beside the checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingState {
    /// The job.
    pub id: JobId,
    /// RFC 27 priority.
    pub priority: u32,
    /// Submitting user.
    pub userid: u32,
    /// Submission, seconds since the epoch.
    pub t_submit: f64,
    pub(super) queue: u32,
    pub(super) place: u32,
    pub(super) class: u32,
    pub(super) key: Option<f64>,
    pub(super) reason: Reason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) t_estimate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) told_reason: Option<(Reason, Option<f64>)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) told: BTreeMap<String, Value>,
}

/// Waiting jobs in the order of their ids; see the module.
#[derive(Clone)]
pub struct PendingStates(Rows);

#[derive(Clone)]
enum Rows {
    /// They were read.
    Read(Vec<PendingState>),
    /// The table of an engine, and for each queue the side and the generation of its order.
    Kept { jobs: Pages<Job>, orders: Vec<(Side, u32)>, count: usize },
}

impl Core {
    /// The waiting jobs as they are now.
    pub(super) fn waiting_states(&self) -> PendingStates {
        let orders = self.queues.iter().map(|queue| (queue.active, queue.generation[queue.active]));
        let (jobs, count) = (self.jobs.clone(), self.pending.len());
        PendingStates(Rows::Kept { jobs, orders: orders.collect(), count })
    }
}

fn row(job: &Job, place: Slot, orders: &[(Side, u32)]) -> PendingState {
    let order = orders.get(job.queue as usize);
    let key = order.and_then(|(side, generation)| job.places[*side].key(*generation));
    PendingState {
        id: job.id,
        priority: job.priority,
        userid: job.userid,
        t_submit: job.t_submit,
        queue: job.queue,
        place,
        class: job.class,
        key,
        reason: job.reason.clone(),
        t_estimate: job.t_estimate(),
        told_reason: job.annotations.state(),
        told: job.annotations.all(),
    }
}

impl PendingStates {
    /// Number of jobs.
    pub fn len(&self) -> usize {
        match &self.0 {
            Rows::Read(rows) => rows.len(),
            Rows::Kept { count, .. } => *count,
        }
    }

    /// True without any job.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their ids, ascending.
    pub fn ids(&self) -> Vec<JobId> {
        match &self.0 {
            Rows::Read(rows) => rows.iter().map(|row| row.id).collect(),
            Rows::Kept { jobs, .. } => sorted(jobs).into_iter().map(|(id, _)| id).collect(),
        }
    }

    /// The jobs, by ascending id. Each call sorts the table of an engine.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Cow<'_, PendingState>> + '_> {
        match &self.0 {
            Rows::Read(rows) => Box::new(rows.iter().map(Cow::Borrowed)),
            Rows::Kept { jobs, orders, .. } => {
                let rows = sorted(jobs).into_iter();
                Box::new(rows.filter_map(|(_, place)| Some(Cow::Owned(row(jobs.get(place)?, place, orders)))))
            }
        }
    }
}

/// The places of jobs by their ids.
fn sorted(jobs: &Pages<Job>) -> Vec<(JobId, Slot)> {
    let mut places: Vec<(JobId, Slot)> = jobs.iter().map(|(place, job)| (job.id, place)).collect();
    places.sort_unstable();
    places
}

impl Default for PendingStates {
    fn default() -> Self {
        PendingStates(Rows::Read(Vec::new()))
    }
}

impl PartialEq for PendingStates {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for PendingStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for PendingStates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.len()))?;
        self.iter().try_for_each(|row| rows.serialize_element(&*row))?;
        rows.end()
    }
}

impl<'de> Deserialize<'de> for PendingStates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(PendingStates(Rows::Read(Vec::deserialize(deserializer)?)))
    }
}
