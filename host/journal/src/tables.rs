//! The tables of a journal: each file contains each jobspec and policy once, and other records name them by number.
//!
//! Must never know files.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::{Engine, Policy, ResumeError};
use fluxgate_formats::Jobspec;

use crate::record::{CheckpointRecord, PolicyRow, Record};
use crate::spec::{SpecError, SpecRow};

/// Most parsed jobspecs that are kept.
const PARSED_MAX: usize = 1 << 16;

/// Jobspecs and policies by number.
#[derive(Default)]
pub(crate) struct Tables {
    specs: BTreeMap<u32, Arc<SpecRow>>,
    policies: BTreeMap<u32, Arc<PolicyRow>>,
    parsed: BTreeMap<(u32, u64), Arc<Jobspec>>,
}

impl Tables {
    /// Adds the rows of a record.
    pub(crate) fn take(&mut self, record: &Record) {
        match record {
            Record::Checkpoint(checkpoint) => {
                self.specs = checkpoint.specs.iter().map(|row| (row.number, Arc::clone(row))).collect();
                let rows = std::iter::once(&checkpoint.policy).chain(checkpoint.own.values());
                self.policies = rows.map(|row| (row.number, Arc::clone(row))).collect();
                self.parsed.clear();
            }
            Record::Spec(row) => {
                self.specs.insert(row.number, Arc::clone(row));
            }
            Record::Policy(row) => {
                self.policies.insert(row.number, Arc::clone(row));
            }
            _ => {}
        }
    }

    /// Names of the queues in requests.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &str> {
        self.specs.values().filter_map(|row| row.system.get("queue")?.as_str())
    }

    /// The policy with this number.
    pub(crate) fn policy(&self, number: u32) -> Option<&Arc<PolicyRow>> {
        self.policies.get(&number)
    }

    /// The jobspec with this number and duration, seconds.
    ///
    /// # Errors
    /// [`SpecError`].
    pub(crate) fn jobspec(&mut self, number: u32, duration: f64) -> Result<Arc<Jobspec>, SpecError> {
        let key = (number, duration.to_bits());
        if let Some(jobspec) = self.parsed.get(&key) {
            return Ok(Arc::clone(jobspec));
        }
        let row = self.specs.get(&number).ok_or(SpecError::Unknown(number))?;
        let jobspec = row.jobspec(duration)?;
        if self.parsed.len() >= PARSED_MAX {
            self.parsed.clear();
        }
        self.parsed.insert(key, Arc::clone(&jobspec));
        Ok(jobspec)
    }

    /// An engine that resumes from a checkpoint, with this default policy and these policies of queues.
    ///
    /// # Errors
    /// [`ResumeError`].
    pub(crate) fn resume(
        &mut self,
        checkpoint: &CheckpointRecord,
        policy: Option<Box<dyn Policy>>,
        own: BTreeMap<String, Box<dyn Policy>>,
    ) -> Result<Engine, ResumeError> {
        let jobspec = |id| {
            let (number, duration) = checkpoint.asks.get(&id)?;
            self.jobspec(*number, *duration).ok()
        };
        Engine::resume(&checkpoint.engine, jobspec, policy, own)
    }
}
