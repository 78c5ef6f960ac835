//! Annotations that a policy attaches to jobs.
//!
//! Must never send anything; the end of the pass does that.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{DURING, Pass};
use crate::annotate;
use crate::order::Slot;
use crate::policy_error::PolicyError;
use crate::reason::Reason;

/// RFC 27: why a job waits, for people.
const REASON_PENDING: &str = "sched.reason_pending";

/// The annotations of one pass.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) of_jobs: BTreeMap<Slot, BTreeMap<String, Value>>,
    /// Bytes by job, and of all.
    job_bytes: BTreeMap<Slot, u64>,
    bytes: u64,
    count: u64,
}

impl Pass {
    /// Attaches an annotation (RFC 27): `key` is `sched.NAME` or `user.NAME`, `json` the value as JSON text, `null` to remove it.
    ///
    /// A JSON string as `sched.reason_pending` is the reason why the job waits, until a decision gives another.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if the candidate was not offered in this pass, [`PolicyError::BadValue`] for another
    /// key or text that is not JSON, [`PolicyError::Bound`] above a bound of annotations in [`crate::Config`].
    pub fn annotate(&mut self, candidate: u32, key: &str, json: &str) -> Result<(), PolicyError> {
        self.known(candidate)?;
        let size = (key.len() + json.len()) as u64;
        let notes = self.notes.get_or_insert_default();
        let job_bytes = notes.job_bytes.entry(candidate).or_default();
        *job_bytes += size;
        notes.bytes += size;
        notes.count += 1;
        let bounds = [
            ("annotation_bytes_per_job_max", self.core.config.annotation_bytes_per_job_max, *job_bytes),
            ("annotation_bytes_per_pass_max", self.core.config.annotation_bytes_per_pass_max, notes.bytes),
            ("annotations_per_pass_max", self.core.config.annotations_per_pass_max, notes.count),
        ];
        for (bound, limit, found) in bounds {
            if found > limit {
                return self.fail(PolicyError::Bound { during: DURING, bound, limit, found });
            }
        }
        let name = key.strip_prefix("sched.").or_else(|| key.strip_prefix("user."));
        if name.is_none_or(|n| n.is_empty() || n.contains('.') || n.chars().any(char::is_control)) {
            let message = format!("annotation key {key:?}: expected sched.NAME or user.NAME");
            return self.fail(PolicyError::BadValue { during: DURING, message });
        }
        match serde_json::from_str::<Value>(json) {
            Ok(Value::String(why)) if key == REASON_PENDING => {
                self.set_reason(candidate, Reason::Said(why.into()));
                Ok(())
            }
            Ok(value) => {
                let notes = self.notes.get_or_insert_default().of_jobs.entry(candidate).or_default();
                notes.insert(key.to_owned(), value);
                // Annotations are kept until the job starts, so new keys in every pass would accumulate.
                let found = annotate::keys(self.core.job(candidate), notes);
                let limit = self.core.config.annotation_keys_per_job_max;
                if found > limit {
                    let bound = "annotation_keys_per_job_max";
                    return self.fail(PolicyError::Bound { during: DURING, bound, limit, found });
                }
                Ok(())
            }
            Err(error) => {
                let message = format!("annotation {key}: not JSON: {error}");
                self.fail(PolicyError::BadValue { during: DURING, message })
            }
        }
    }
}
