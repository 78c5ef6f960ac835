//! What jobs are told: RFC 27 annotations, merged, sent only when they changed.
//!
//! The job manager keeps what it was told while a job waits; the engine remembers that (`Job::told`) so that
//! it repeats nothing and can take back with `null` what no longer holds when the job starts.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::{Core, Job, nest};
use crate::event::Action;
use crate::order::Slot;

/// Merge one flattened annotation into what is known to be told; returns whether it is news.
fn merge(told: &mut BTreeMap<String, Value>, key: &str, value: &Value) -> bool {
    if value.is_null() {
        return told.remove(key).is_some();
    }
    if told.get(key) == Some(value) {
        return false;
    }
    told.insert(key.to_owned(), value.clone());
    true
}

/// How many different keys a job would have been told with these.
pub(crate) fn keys(job: Option<&Job>, more: &BTreeMap<String, Value>) -> u64 {
    let told = job.map_or(0, |job| job.told.keys().filter(|key| !more.contains_key(*key)).count());
    (told + more.len()) as u64
}

/// Tell a waiting job; what it knows already is left out.
pub(crate) fn tell(core: &mut Core, slot: Slot, news: BTreeMap<String, Value>, out: &mut Vec<Action>) {
    if !core.config.annotate {
        return;
    }
    let Some(job) = core.job_mut(slot) else { return };
    let news: BTreeMap<String, Value> =
        news.into_iter().filter(|(key, value)| merge(&mut job.told, key, value)).collect();
    if !news.is_empty() {
        out.push(Action::Annotate { id: job.id, annotations: nest(news) });
    }
}

/// Tell a waiting job why it waits and when it is expected to start.
pub(crate) fn tell_reason(core: &mut Core, slot: Slot, out: &mut Vec<Action>) {
    if !core.config.annotate {
        return;
    }
    let Some(job) = core.job_mut(slot) else { return };
    let state = (job.reason.clone(), job.t_estimate);
    if job.told_reason.as_ref() == Some(&state) {
        return;
    }
    job.told_reason = Some(state);
    let news = BTreeMap::from([
        ("sched.reason_pending".to_owned(), Value::from(job.reason.to_string())),
        ("sched.t_estimate".to_owned(), job.t_estimate.map_or(Value::Null, Value::from)),
    ]);
    tell(core, slot, news, out);
}

/// The annotations of SUCCESS: what was told and does not outlive the wait is taken back.
///
/// `how` is what RFC 27 calls the selection type.
pub(crate) fn on_start(
    job: &Job,
    (summary, how): (&str, &str),
    mut own: BTreeMap<String, Value>,
    annotate: bool,
) -> Value {
    if !annotate {
        return nest(own);
    }
    for key in ["sched.reason_pending", "sched.t_estimate"] {
        if job.told.contains_key(key) {
            own.entry(key.to_owned()).or_insert(Value::Null);
        }
    }
    own.insert("sched.resource_summary".to_owned(), Value::from(summary));
    own.entry("sched.selection_type".to_owned()).or_insert_with(|| Value::from(how));
    nest(own)
}
