//! The payloads of RFC 27 and RFC 28, in every revision in use.
//!
//! Revisions are distinguished by the keys that are present, never by a version number: a hello answer with `alloc` is
//! of the founding revision, and so is a free without `R`. This module fills in the fields that a revision lacks, so
//! that no other module depends on the revision.
//!
//! No payload is trusted. An invalid payload gives a [`FieldError`] that names the field or, where the RFC allows it, a
//! cautious reading.
//!
//! This module does not know how its requests are handled.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fluxgate_formats::{Idset, JobId};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::message::{Message, PayloadError};

/// The supported revisions of RFC 27 and 28.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The protocol of flux-core 0.88 and of the revisions since the founding one.
    #[default]
    Current,
    /// The first revision of 2020: hello in one answer, no jobspec in alloc, frees are answered.
    Founding,
}

/// The fault of a payload in which a field is missing or invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}`: found {found}, expected {expected}")]
pub struct FieldError {
    /// Name of the field.
    pub field: String,
    /// The value found, shortened; `nothing` for a missing field.
    pub found: String,
    /// The value expected.
    pub expected: &'static str,
}

fn kind_of(value: Option<&Value>) -> String {
    match value {
        None => "nothing".into(),
        Some(Value::Null) => "null".into(),
        Some(Value::Bool(b)) => b.to_string(),
        Some(Value::Number(n)) => n.to_string(),
        Some(Value::String(s)) => format!("{:?}", one_line(s, 40)),
        Some(Value::Array(_)) => "an array".into(),
        Some(Value::Object(_)) => "an object".into(),
    }
}

fn wrong(field: &str, value: Option<&Value>, expected: &'static str) -> FieldError {
    FieldError { field: field.to_owned(), found: kind_of(value), expected }
}

/// One line of at most `max` characters, as RFC 6 requires of error texts: a control character becomes a blank, a longer text ends in `…`.
pub fn one_line(text: &str, max: usize) -> String {
    let clean = text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = clean.clone().take(max).collect();
    if clean.count() > max {
        line.pop();
        line.push('…');
    }
    line
}

fn u64_field(payload: &Value, field: &str) -> Result<u64, FieldError> {
    let value = payload.get(field);
    value.and_then(Value::as_u64).ok_or_else(|| wrong(field, value, "an integer of 64 bits, not negative"))
}

fn u32_field(payload: &Value, field: &str) -> Result<u32, FieldError> {
    let value = payload.get(field);
    let number = value.and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    number.ok_or_else(|| wrong(field, value, "an integer of 32 bits, not negative"))
}

fn f64_field(payload: &Value, field: &str) -> Result<f64, FieldError> {
    let value = payload.get(field);
    let number = value.and_then(Value::as_f64).filter(|n| n.is_finite() && *n >= 0.0);
    number.ok_or_else(|| wrong(field, value, "a number of seconds, not negative"))
}

/// The `id` of a payload; an error if it is missing or no integer of 64 bits.
pub fn job_id(payload: &Value) -> Result<JobId, FieldError> {
    u64_field(payload, "id").map(JobId)
}

fn idset_value(field: &str, value: &Value) -> Result<Idset, FieldError> {
    let parsed = value.as_str().and_then(|text| Idset::parse(text).ok());
    parsed.ok_or_else(|| wrong(field, Some(value), "an idset"))
}

fn idset_field(payload: &Value, field: &str) -> Result<Option<Idset>, FieldError> {
    match payload.get(field) {
        None => Ok(None),
        Some(value) => idset_value(field, value).map(Some),
    }
}

/// Submission time of a job whose request does not give it: the time in its id. That time counts from the start of the
/// instance, so the order among these jobs is right.
fn t_submit(payload: &Value, id: JobId) -> f64 {
    f64_field(payload, "t_submit").unwrap_or(id.timestamp_ms() as f64 / 1000.0)
}

/// A job in the answer to hello: a job that holds resources.
#[derive(Debug, Clone, PartialEq)]
pub struct HelloJob {
    /// Id of the job.
    pub id: JobId,
    /// Priority of the job (RFC 27); 0 if the answer lacks it.
    pub priority: u32,
    /// User id of the job's owner; `u32::MAX` if the answer lacks it.
    pub userid: u32,
    /// Submission time, seconds since the epoch; if the answer lacks it, the time in the job's id, seconds since the instance's start.
    pub t_submit: f64,
    /// Ranks of its R that it has released already; empty if the field is unreadable.
    pub free: Idset,
}

/// One answer to hello (RFC 27).
#[derive(Debug, Clone, PartialEq)]
pub enum HelloAnswer {
    /// One answer of a stream.
    Job(HelloJob),
    /// The only answer of the founding revision.
    All(Vec<HelloJob>),
}

fn hello_job(payload: &Value) -> Result<HelloJob, FieldError> {
    let id = job_id(payload)?;
    Ok(HelloJob {
        id,
        // Without these fields the job still holds its resources, and that is the essential fact.
        priority: u32_field(payload, "priority").unwrap_or(0),
        userid: u32_field(payload, "userid").unwrap_or(u32::MAX),
        t_submit: t_submit(payload, id),
        // An unreadable set counts as empty: resources may stay idle for a while, but never go to two jobs.
        free: idset_field(payload, "free").ok().flatten().unwrap_or_default(),
    })
}

/// Reads one answer to hello; an error without a job id, or if `alloc` is no array.
pub fn hello_answer(payload: &Value) -> Result<HelloAnswer, FieldError> {
    match payload.get("alloc") {
        None => hello_job(payload).map(HelloAnswer::Job),
        Some(Value::Array(jobs)) => {
            jobs.iter().map(hello_job).collect::<Result<_, _>>().map(HelloAnswer::All)
        }
        other => Err(wrong("alloc", other, "an array of jobs")),
    }
}

/// `sched.alloc`: a request for the resources of a job (RFC 27).
#[derive(Debug, Clone, PartialEq)]
pub struct AllocRequest<'a> {
    /// Id of the job.
    pub id: JobId,
    /// Priority of the job (RFC 27).
    pub priority: u32,
    /// User id of the job's owner.
    pub userid: u32,
    /// Submission time, seconds since the epoch; if the request lacks it, the time in the job's id, seconds since the instance's start.
    pub t_submit: f64,
    /// The jobspec; `None` in the founding revision, which has it in the KVS only.
    pub jobspec: Option<&'a Value>,
}

/// Reads the parts of `sched.alloc` beside its id; an error without priority or user id, or if the jobspec is no object.
pub fn alloc_request(id: JobId, payload: &Value) -> Result<AllocRequest<'_>, FieldError> {
    let jobspec = match payload.get("jobspec") {
        None => None,
        Some(jobspec @ Value::Object(_)) => Some(jobspec),
        other => return Err(wrong("jobspec", other, "an object")),
    };
    Ok(AllocRequest {
        id,
        priority: u32_field(payload, "priority")?,
        userid: u32_field(payload, "userid")?,
        t_submit: t_submit(payload, id),
        jobspec,
    })
}

/// `sched.free`: the release of resources of a job, whole or in part (RFC 27).
#[derive(Debug, Clone, PartialEq)]
pub struct FreeRequest {
    /// Id of the job.
    pub id: JobId,
    /// The ranks released, `None` for all remaining ones.
    pub ranks: Option<Idset>,
    /// True for the last free of the allocation.
    pub last: bool,
    /// True if the request requires an answer, as in the founding revision only.
    pub answered: bool,
}

/// Reads `sched.free`; an error without a job id, for a `final` that is no boolean, and for an unreadable R of a free that is not the last.
pub fn free_request(payload: &Value) -> Result<FreeRequest, FieldError> {
    let id = job_id(payload)?;
    let Some(r) = payload.get("R") else {
        return Ok(FreeRequest { id, ranks: None, last: true, answered: true });
    };
    let last = match payload.get("final") {
        None => false,
        Some(Value::Bool(last)) => *last,
        other => return Err(wrong("final", other, "true or false")),
    };
    let ranks = match ranks_of(r) {
        Ok(ranks) => Some(ranks),
        // The last free releases all remaining ranks, even if it is unreadable.
        Err(_) if last => None,
        Err(error) => return Err(error),
    };
    Ok(FreeRequest { id, ranks, last, answered: false })
}

/// The ranks of an R. A free needs only these, so the rest of R is not checked.
fn ranks_of(r: &Value) -> Result<Idset, FieldError> {
    const FIELD: &str = "R.execution.R_lite";
    let lite = r.get("execution").and_then(|e| e.get("R_lite"));
    let Some(Value::Array(entries)) = lite else { return Err(wrong(FIELD, lite, "an array")) };
    let mut ranks = Idset::new();
    for entry in entries {
        let rank = entry.get("rank").ok_or_else(|| wrong("R.execution.R_lite[].rank", None, "an idset"))?;
        ranks = ranks.union(&idset_value("R.execution.R_lite[].rank", rank)?);
    }
    Ok(ranks)
}

/// Reads `sched.prioritize`: the pairs of job and priority, and the number of entries that were none; an error if `jobs` is no array.
pub fn prioritize_request(payload: &Value) -> Result<(Vec<(JobId, u32)>, usize), FieldError> {
    let jobs = payload.get("jobs");
    let Some(Value::Array(entries)) = jobs else { return Err(wrong("jobs", jobs, "an array of pairs")) };
    let pair = |entry: &Value| match entry.as_array().map(Vec::as_slice) {
        Some([id, priority]) => Some((JobId(id.as_u64()?), u32::try_from(priority.as_u64()?).ok()?)),
        _ => None,
    };
    let pairs: Vec<_> = entries.iter().filter_map(pair).collect();
    let bad = entries.len() - pairs.len();
    Ok((pairs, bad))
}

/// Reads `sched.expiration`: the job and its new end in seconds since the epoch, 0 for none; an error if one is missing or invalid.
pub fn expiration_request(payload: &Value) -> Result<(JobId, f64), FieldError> {
    Ok((job_id(payload)?, f64_field(payload, "expiration")?))
}

/// The first answer of `resource.acquire`.
#[derive(Debug)]
pub struct Inventory<'a> {
    /// The R of all resources, as text: the graph of a large machine has hundreds of megabytes.
    pub resources: &'a str,
    /// The ranks that are up.
    pub up: Idset,
}

/// Reads the first answer of `resource.acquire`; an error in words if it is no JSON, has no R object, or `up` is no idset.
pub fn inventory(payload: &str) -> Result<Inventory<'_>, String> {
    #[derive(serde::Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        resources: Option<&'a RawValue>,
        up: Option<Value>,
    }
    let fields: Fields<'_> =
        serde_json::from_str(payload).map_err(|error| PayloadError::Json(error).to_string())?;
    let resources = fields.resources.filter(|r| r.get().starts_with('{')).ok_or_else(|| {
        let found: Option<Value> = fields.resources.and_then(|r| serde_json::from_str(r.get()).ok());
        wrong("resources", found.as_ref(), "an R object").to_string()
    })?;
    // Not in `up` is down: without the key nothing is up yet.
    let up = fields.up.map(|up| idset_value("up", &up)).transpose().map_err(|error| error.to_string())?;
    Ok(Inventory { resources: resources.get(), up: up.unwrap_or_default() })
}

/// A later answer of `resource.acquire`. Every field is a transition.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResourceUpdate {
    /// Ranks that are lost permanently. They are removed from `up` and `down` already.
    pub shrink: Idset,
    /// Ranks that go down.
    pub down: Idset,
    /// Ranks that come up.
    pub up: Idset,
    /// Properties added, with their ranks.
    pub property_add: Vec<(String, Idset)>,
    /// Properties removed, with their ranks.
    pub property_remove: Vec<(String, Idset)>,
    /// The new end of the instance in seconds since the epoch, 0 for none; `None` without a change.
    pub expiration: Option<f64>,
}

/// Reads a later answer of `resource.acquire`: the readable fields, and an error for each unreadable one.
pub fn resource_update(payload: &Value) -> (ResourceUpdate, Vec<FieldError>) {
    let mut errors = Vec::new();
    let mut set = |field: &str| match idset_field(payload, field) {
        Ok(ranks) => ranks.unwrap_or_default(),
        Err(error) => {
            errors.push(error);
            Idset::new()
        }
    };
    let shrink = set("shrink");
    let (down, up) = (set("down").difference(&shrink), set("up").difference(&shrink));
    let mut properties = |field: &str| match payload.get(field) {
        None => Vec::new(),
        Some(Value::Object(map)) => {
            let mut list = Vec::new();
            for (name, ranks) in map {
                match idset_value(field, ranks) {
                    Ok(ranks) => list.push((name.clone(), ranks)),
                    Err(error) => errors.push(error),
                }
            }
            list
        }
        other => {
            errors.push(wrong(field, other, "an object of property and idset"));
            Vec::new()
        }
    };
    let (property_add, property_remove) = (properties("property-add"), properties("property-remove"));
    let expiration = match payload.get("expiration") {
        None => None,
        Some(_) => f64_field(payload, "expiration").map_err(|error| errors.push(error)).ok(),
    };
    (ResourceUpdate { shrink, down, up, property_add, property_remove, expiration }, errors)
}

/// The value of a `kvs.lookup` answer, as JSON; an error if it is no treeobj of type `val` (RFC 11), or no JSON.
pub fn kvs_value(payload: &Value) -> Result<Value, FieldError> {
    let val = payload.get("val");
    let data = val.filter(|v| v.get("type").is_some_and(|t| t == "val")).and_then(|v| v.get("data"));
    let text = data.and_then(Value::as_str).and_then(|data| BASE64.decode(data).ok());
    let bytes = text.ok_or_else(|| wrong("val", val, "a treeobj of type val"))?;
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    serde_json::from_slice(bytes).map_err(|error| FieldError {
        field: "val.data".into(),
        found: error.to_string(),
        expected: "JSON",
    })
}

/// The request for the value of a key of the KVS, in the namespace `primary`.
pub fn kvs_lookup(key: &str) -> Message {
    Message::request("kvs.lookup").with_json(&json!({"key": key, "namespace": "primary", "flags": 0}))
}

/// Flag of a commit: it is answered when the KVS is on the disk (FLUX_KVS_SYNC).
const KVS_SYNC: u32 = 4;

/// The request that stores a text under a key of the KVS. The answer does not wait for the disk.
pub fn kvs_put(key: &str, text: &str) -> Message {
    kvs_put_synced(key, text, false)
}

/// The same; with `sync` answered when it is on the disk, and refused with ENOSYS where the KVS has no store below it.
pub fn kvs_put_synced(key: &str, text: &str, sync: bool) -> Message {
    let flags = if sync { KVS_SYNC } else { 0 };
    let dirent = json!({"ver": 1, "type": "val", "data": BASE64.encode(text)});
    let ops = json!([{"key": key, "flags": 0, "dirent": dirent}]);
    Message::request("kvs.commit").with_json(&json!({"namespace": "primary", "flags": flags, "ops": ops}))
}

/// The value of one key of a `job-info.lookup` answer; an error if it is missing, no object, or a text that is no JSON.
pub fn job_info_value(payload: &Value, key: &str) -> Result<Value, FieldError> {
    match payload.get(key) {
        Some(value @ Value::Object(_)) => Ok(value.clone()),
        // Without the decode flag it is text.
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|error| FieldError {
            field: key.into(),
            found: error.to_string(),
            expected: "JSON",
        }),
        other => Err(wrong(key, other, "an object")),
    }
}

/// The KVS key of a job's file (RFC 16).
pub fn job_key(id: JobId, name: &str) -> String {
    format!("{}.{name}", id.kvs_dir())
}

/// The request that commits the R of some jobs to the KVS. The texts are stored unchanged.
pub fn kvs_commit<'a>(texts: impl Iterator<Item = (JobId, &'a str)>) -> Message {
    // Written by hand: this is the hot path, and neither keys nor base64 contain characters that JSON escapes.
    let mut payload = String::from(r#"{"namespace":"primary","flags":0,"ops":["#);
    for (index, (id, text)) in texts.enumerate() {
        if index > 0 {
            payload.push(',');
        }
        let key = job_key(id, "R");
        let _ = write!(payload, r#"{{"key":"{key}","flags":0,"dirent":{{"ver":1,"type":"val","data":""#);
        BASE64.encode_string(text, &mut payload);
        payload.push_str(r#""}}"#);
    }
    payload.push_str("]}");
    Message::request("kvs.commit").with_text(&payload)
}

/// The payload of the SUCCESS answer. `r` is the committed text, so that both are the same; annotations that are empty are left out.
pub fn alloc_success(id: JobId, r: &str, annotations: &Value) -> String {
    let mut payload = format!(r#"{{"id":{},"type":0,"R":{r}"#, id.0);
    if annotations.as_object().is_some_and(|map| !map.is_empty()) {
        let _ = write!(payload, r#","annotations":{annotations}"#);
    }
    payload.push('}');
    payload
}

/// The payload of the ANNOTATE answer.
pub fn alloc_annotate(id: JobId, annotations: &Value) -> String {
    format!(r#"{{"id":{},"type":1,"annotations":{annotations}}}"#, id.0)
}

/// The payload of the DENY answer. An empty note is left out: `null` would be an error to the job manager.
pub fn alloc_deny(id: JobId, note: &str) -> String {
    let mut payload = Map::new();
    payload.insert("id".into(), id.0.into());
    payload.insert("type".into(), 2.into());
    if !note.is_empty() {
        payload.insert("note".into(), note.into());
    }
    Value::Object(payload).to_string()
}

/// The payload of the CANCEL answer.
pub fn alloc_cancel(id: JobId) -> String {
    format!(r#"{{"id":{},"type":3}}"#, id.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ids(text: &str) -> Idset {
        Idset::parse(text).unwrap()
    }

    #[test]
    fn r27_hello_4_both_revisions() {
        let one = json!({"id": 30316429312u64, "priority": 16, "userid": 5588, "t_submit": 1.5, "free": "1"});
        let HelloAnswer::Job(job) = hello_answer(&one).unwrap() else { panic!("one job") };
        assert_eq!((job.id, job.t_submit, job.free), (JobId(30316429312), 1.5, ids("1")));
        let all =
            json!({"alloc": [{"id": 1, "priority": 2, "userid": 3}, {"id": 4, "priority": 2, "userid": 3}]});
        let HelloAnswer::All(jobs) = hello_answer(&all).unwrap() else { panic!("all jobs") };
        assert_eq!(jobs.iter().map(|j| j.id.0).collect::<Vec<_>>(), [1, 4]);
        assert!(jobs.iter().all(|j| j.free.is_empty()));
        let error = hello_answer(&json!({"id": "ƒ1"})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "field `id`: found \"ƒ1\", expected an integer of 64 bits, not negative"
        );
        assert!(hello_answer(&json!({"alloc": {}})).is_err());
    }

    #[test]
    fn pitfall_18_ids_and_priorities_are_exact() {
        let id = u64::MAX;
        let payload = json!({"id": id, "priority": u32::MAX, "userid": 1, "t_submit": 2.0, "jobspec": {}});
        let request = alloc_request(job_id(&payload).unwrap(), &payload).unwrap();
        assert_eq!((request.id.0, request.priority), (id, u32::MAX));
        for bad in [json!(1.0), json!(-1), json!("1"), json!(null), json!(1e30)] {
            assert!(job_id(&json!({ "id": bad })).is_err(), "{bad}");
        }
        let payload = json!({"id": 1, "priority": 4294967296u64, "userid": 1});
        assert_eq!(alloc_request(JobId(1), &payload).unwrap_err().field, "priority");
        let payload = json!({"id": 1, "priority": 1, "userid": 1, "jobspec": 7});
        assert_eq!(alloc_request(JobId(1), &payload).unwrap_err().field, "jobspec");
    }

    #[test]
    fn r27_free_1_4_5_whole_partial_and_founding() {
        let r =
            json!({"version": 1, "execution": {"R_lite": [{"rank": "1", "children": {}}, {"rank": "3-4"}]}});
        let request = |payload| free_request(&payload).unwrap();
        let partial = request(json!({"id": 1, "R": r, "final": false}));
        assert_eq!(
            partial,
            FreeRequest { id: JobId(1), ranks: Some(ids("1,3-4")), last: false, answered: false }
        );
        assert!(request(json!({"id": 1, "R": r, "final": true})).last);
        assert!(!request(json!({"id": 1, "R": r})).last, "absent means more will follow");
        let founding = request(json!({"id": 1}));
        assert_eq!(founding, FreeRequest { id: JobId(1), ranks: None, last: true, answered: true });
        assert_eq!(request(json!({"id": 1, "R": 5, "final": true})).ranks, None);
        assert_eq!(free_request(&json!({"id": 1, "R": 5})).unwrap_err().field, "R.execution.R_lite");
        assert_eq!(free_request(&json!({"id": 1, "R": r, "final": 1})).unwrap_err().field, "final");
    }

    #[test]
    fn r27_prio_bad_entries_are_counted_not_fatal() {
        let payload = json!({"jobs": [[1, 2], [3], "x", [4, 4294967295u32], [5, -1]]});
        assert_eq!(prioritize_request(&payload).unwrap(), (vec![(JobId(1), 2), (JobId(4), u32::MAX)], 3));
        assert!(prioritize_request(&json!({"jobs": {}})).is_err());
    }

    #[test]
    fn r28_upd_3_shrink_takes_precedence() {
        let payload = json!({"up": "0-1", "down": "2-3", "shrink": "1,3", "expiration": 5.5});
        let (update, errors) = resource_update(&payload);
        assert_eq!((update.shrink, update.down, update.up), (ids("1,3"), ids("2"), ids("0")));
        assert_eq!((update.expiration, errors.len()), (Some(5.5), 0));
        let (alone, _) = resource_update(&json!({"shrink": "3"}));
        assert_eq!((alone.shrink, alone.down.is_empty()), (ids("3"), true));
    }

    #[test]
    fn r28_upd_4_properties_and_nonsense_beside_them() {
        let payload = json!({"property-add": {"a": "0-1", "b": 7}, "property-remove": {"c": "2"}, "up": 5, "expiration": "x"});
        let (update, errors) = resource_update(&payload);
        assert_eq!(update.property_add, [("a".to_owned(), ids("0-1"))]);
        assert_eq!(update.property_remove, [("c".to_owned(), ids("2"))]);
        assert_eq!(update.expiration, None);
        let fields: Vec<&str> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["up", "property-add", "expiration"]);
    }

    #[test]
    fn pitfall_21_the_commit_is_base64_under_dothex() {
        let jobs = [(JobId(40684748800), "{\"a\":1}"), (JobId(1), "{}")];
        let payload = kvs_commit(jobs.into_iter()).json().unwrap();
        assert_eq!(payload["ops"][0]["key"], "job.0000.0009.7900.0000.R");
        assert_eq!(payload["ops"][0]["dirent"], json!({"ver": 1, "type": "val", "data": "eyJhIjoxfQ=="}));
        assert_eq!(payload["ops"].as_array().unwrap().len(), 2);
        assert_eq!(kvs_value(&json!({"val": payload["ops"][0]["dirent"]})).unwrap(), json!({"a": 1}));
        assert!(kvs_value(&json!({"val": {"ver": 1, "type": "dir", "data": {}}})).is_err());
    }

    #[test]
    fn r27_alloc_3_responses_are_what_the_rfc_prints() {
        let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        assert_eq!(
            parse(alloc_success(JobId(1), "{\"version\":1}", &json!({}))),
            json!({"id": 1, "type": 0, "R": {"version": 1}})
        );
        let annotated = alloc_success(JobId(1), "{}", &json!({"sched": {"t_estimate": null}}));
        assert_eq!(parse(annotated)["annotations"], json!({"sched": {"t_estimate": null}}));
        assert_eq!(
            parse(alloc_annotate(JobId(1), &json!({"a": 1}))),
            json!({"id": 1, "type": 1, "annotations": {"a": 1}})
        );
        assert_eq!(
            parse(alloc_deny(JobId(1), "no \"way\"")),
            json!({"id": 1, "type": 2, "note": "no \"way\""})
        );
        assert_eq!(parse(alloc_deny(JobId(1), "")), json!({"id": 1, "type": 2}));
        assert_eq!(parse(alloc_cancel(JobId(u64::MAX))), json!({"id": u64::MAX, "type": 3}));
    }

    #[test]
    fn r6_5_texts_are_one_line() {
        assert_eq!(one_line("a\nb\t\n", 10), "a b");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
