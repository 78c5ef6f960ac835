//! RFC 27 annotations of jobs: merged, and sent only when they changed.
//!
//! The job manager keeps the annotations of a waiting job. The engine remembers what it sent (`Job::annotations`), so
//! that it repeats nothing. When the job starts, it removes with `null` the annotations that no longer hold. Must never
//! know why a job waits.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::config::Config;
use crate::core::Core;
use crate::core::job::Job;
use crate::event::Action;
use crate::order::Slot;

/// The number of different keys that a job has with these annotations.
pub(crate) fn keys(job: Option<&Job>, more: &BTreeMap<String, Value>) -> u64 {
    (job.map_or(0, |job| job.annotations.beside(more)) + more.len()) as u64
}

/// Annotates a waiting job; annotations that the job manager has already are not sent again.
pub(crate) fn send(core: &mut Core, slot: Slot, news: BTreeMap<String, Value>, out: &mut Vec<Action>) {
    if !core.config.annotate {
        return;
    }
    let Some(job) = core.job_mut(slot) else { return };
    let news: BTreeMap<String, Value> =
        news.into_iter().filter(|(key, value)| job.annotations.merge(key, value)).collect();
    if !news.is_empty() {
        out.push(Action::Annotate { id: job.id, annotations: nest(news) });
    }
}

/// Annotates a waiting job with its reason and its estimated start, and says whether that start is reserved.
pub(crate) fn send_reason(core: &mut Core, slot: Slot, out: &mut Vec<Action>) {
    if !core.config.annotate {
        return;
    }
    let fields = core.config.annotate_reason;
    let Some(job) = core.job_mut(slot) else { return };
    let news = job.annotations.set_state((job.reason.clone(), job.t_estimate()), fields);
    if !news.is_empty() {
        out.push(Action::Annotate { id: job.id, annotations: nest(news) });
    }
}

/// The annotations of SUCCESS: those that hold only for a waiting job are removed. `how` is the selection type of RFC
/// 27.
pub(crate) fn on_start(
    job: &Job,
    (summary, how): (&str, &str),
    mut own: BTreeMap<String, Value>,
    config: &Config,
) -> Value {
    if !config.annotate {
        return nest(own);
    }
    let of_programs = config.annotate_reason.then_some("sched.reason");
    for key in ["sched.reason_pending", "sched.t_estimate"].into_iter().chain(of_programs) {
        if job.annotations.has(key) {
            own.entry(key.to_owned()).or_insert(Value::Null);
        }
    }
    own.insert("sched.resource_summary".to_owned(), Value::from(summary));
    own.entry("sched.selection_type".to_owned()).or_insert_with(|| Value::from(how));
    nest(own)
}

/// Flattened annotations (`sched.x`) nested as in RFC 27.
pub(crate) fn nest(flat: BTreeMap<String, Value>) -> Value {
    let mut root = Map::new();
    if flat.is_empty() {
        return Value::Object(root);
    }
    for (key, value) in flat {
        let (group, name) = key.split_once('.').unwrap_or(("user", &key));
        if let Value::Object(inner) =
            root.entry(group.to_owned()).or_insert_with(|| Value::Object(Map::new()))
        {
            inner.insert(name.to_owned(), value);
        }
    }
    Value::Object(root)
}
