//! Payloads of RFC 27 and 28 on the instance's side, in every supported revision.
//!
//! The job manager and the resource service use this module to write messages to a scheduler and to read its answers.
//! They do not know keys of these payloads, nor the revision.

use fluxgate_formats::{Idset, JobId};
use serde_json::{Map, Value, json};

use crate::fail::Fail;
use crate::fields::Fields;

/// The revision of the protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// As flux-core 0.88 speaks.
    #[default]
    Current,
    /// The first revision of RFC 27, of 2020: hello in one answer, no jobspec in alloc, R in the KVS alone, frees
    /// that are answered; neither partial frees nor expiration nor feasibility. RFC 28 of its time has no `shrink`.
    Founding,
}

/// The number of requests for resources that a scheduler takes at a time (RFC 27 ready).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All requests.
    Unlimited,
    /// At most this many, 1 to 2,147,483,647.
    Limited(usize),
}

/// A scheduler's answer for a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// SUCCESS: the job's resources.
    Success {
        /// The job.
        id: JobId,
        /// R without its `scheduling` key; `None` where the revision leaves it to the KVS.
        r: Option<Value>,
        /// Annotations to be merged.
        annotations: Option<Map<String, Value>>,
    },
    /// ANNOTATE: the job still waits.
    Annotate {
        /// The job.
        id: JobId,
        /// Annotations to be merged.
        annotations: Map<String, Value>,
    },
    /// DENY: the job can never run.
    Deny {
        /// The job.
        id: JobId,
        /// The note for the user; empty if the scheduler gave none.
        note: String,
    },
    /// CANCEL: the request was cancelled, as requested.
    Cancel {
        /// The job.
        id: JobId,
    },
}

/// A job in a hello: a job that holds resources.
#[derive(Debug, Clone, PartialEq)]
pub struct Hello<'a> {
    /// Id of the job.
    pub id: JobId,
    /// Priority of the job (RFC 27).
    pub priority: u32,
    /// User id of the job's owner.
    pub userid: u32,
    /// Submission time, seconds since the epoch.
    pub t_submit: f64,
    /// Ranks of its R that it has released already; `None` or an empty set for none.
    pub free: Option<&'a Idset>,
}

impl Dialect {
    /// Its name, as in `--dialect`.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Current => "current",
            Dialect::Founding => "founding",
        }
    }

    /// True if `sched.free` is answered. A job then holds its resources until the answer.
    pub fn free_is_answered(self) -> bool {
        self == Dialect::Founding
    }

    /// True if resources can be released in parts, also after the end of a job.
    pub fn has_partial_free(self) -> bool {
        self == Dialect::Current
    }

    /// True if a scheduler is asked for feasibility before a job is accepted.
    pub fn has_feasibility(self) -> bool {
        self == Dialect::Current
    }

    /// Checks a `sched-hello`; true if jobs with partly released resources may be included (`partial-ok`).
    ///
    /// # Errors
    /// `EPROTO` for a streaming flag or a payload that the revision does not have.
    pub fn read_hello(self, payload: &Value, streaming: bool) -> Result<bool, Fail> {
        match self {
            Dialect::Current if !streaming => {
                Err(Fail::proto("job-manager.sched-hello must be sent with the streaming flag"))
            }
            Dialect::Current => Ok(Fields::of(payload)?.opt_bool("partial-ok")?.unwrap_or(false)),
            Dialect::Founding if streaming => {
                Err(Fail::proto("job-manager.sched-hello must be sent without the streaming flag"))
            }
            Dialect::Founding => match payload {
                Value::Null => Ok(false),
                Value::Object(map) if map.is_empty() => Ok(false),
                _ => Err(Fail::proto("job-manager.sched-hello takes no payload")),
            },
        }
    }

    /// One job of a hello.
    pub fn hello(self, job: &Hello<'_>) -> Value {
        if self == Dialect::Founding {
            return json!({ "id": job.id, "priority": job.priority, "userid": job.userid });
        }
        let mut payload = json!({
            "id": job.id, "priority": job.priority, "userid": job.userid, "t_submit": job.t_submit,
        });
        if let Some(free) = job.free.filter(|free| !free.is_empty()) {
            payload["free"] = free.to_string().into();
        }
        payload
    }

    /// The jobs of a hello as its only answer.
    ///
    /// # Errors
    /// The same jobs, in a revision that sends them one by one, with an end.
    pub fn hello_in_one(self, jobs: Vec<Value>) -> Result<Value, Vec<Value>> {
        match self {
            Dialect::Current => Err(jobs),
            Dialect::Founding => Ok(json!({ "alloc": jobs })),
        }
    }

    /// Reads a `sched-ready`.
    ///
    /// # Errors
    /// `EPROTO` for a mode that the revision does not have, or a limit out of its range.
    pub fn read_ready(self, payload: &Value) -> Result<Mode, Fail> {
        let fields = Fields::of(payload)?;
        match (self, fields.str("mode")?) {
            (_, "unlimited") => Ok(Mode::Unlimited),
            (Dialect::Founding, "single") => Ok(Mode::Limited(1)),
            (Dialect::Founding, other) => Err(Fail::proto(format!(
                "field 'mode' is '{other}', but 'unlimited' and 'single' are accepted"
            ))),
            (Dialect::Current, "limited") => match fields.opt_u64("limit")? {
                Some(limit @ 1..=0x7fff_ffff) => Ok(Mode::Limited(limit as usize)),
                found => Err(Fail::proto(format!(
                    "field 'limit' must be from 1 to 2147483647 in mode 'limited', found {}",
                    found.map_or("none".to_owned(), |n| n.to_string())
                ))),
            },
            (Dialect::Current, other) => Err(Fail::proto(format!(
                "field 'mode' is '{other}', but 'unlimited' and 'limited' are accepted"
            ))),
        }
    }

    /// The answer to a `sched-ready`, with the number of queued jobs; `None` for one without payload.
    pub fn ready(self, queued: usize) -> Option<Value> {
        match self {
            Dialect::Current => Some(json!({ "count": queued })),
            Dialect::Founding => None,
        }
    }

    /// The payload of a `sched.alloc`, as text. `jobspec` is JSON text, `t_submit` in seconds since the epoch.
    pub fn alloc(self, id: JobId, priority: u32, userid: u32, t_submit: f64, jobspec: &str) -> String {
        if self == Dialect::Founding {
            return json!({ "id": id, "priority": priority, "userid": userid }).to_string();
        }
        let head =
            json!({ "id": id, "priority": priority, "userid": userid, "t_submit": t_submit }).to_string();
        // The jobspec is text already; parsing and printing it would be most of the work.
        let head = head.strip_suffix('}').unwrap_or(&head);
        format!("{head},\"jobspec\":{jobspec}}}")
    }

    /// Reads a response to `sched.alloc`.
    ///
    /// # Errors
    /// `EPROTO` or `EINVAL` for a missing or invalid field. Any error takes the interface down (R27-GEN-4, R27-SUCC-5).
    pub fn read_verdict(self, payload: Value) -> Result<Verdict, Fail> {
        let fields = Fields::of(&payload)?;
        let id = fields.id()?;
        let kind = match fields.get("type") {
            Some(kind) => kind.as_i64(),
            None => return Err(Fail::proto("field 'type' is missing (0 to 3 are expected)")),
        };
        // A note that is present but no string is an error, also null (pitfall 2).
        let strict = |key: &str| payload.get(key);
        if strict("note").is_some_and(|note| !note.is_string()) {
            return Err(Fail::proto("field 'note' must be a string"));
        }
        let annotations = match strict("annotations") {
            None => None,
            Some(Value::Object(map)) => Some(map.clone()),
            Some(_) => return Err(Fail::proto("field 'annotations' must be an object")),
        };
        match kind {
            // R is the committed one, whatever the payload has (R27-SUCC-1).
            Some(0) if self == Dialect::Founding => Ok(Verdict::Success { id, r: None, annotations }),
            Some(0) => match strict("R") {
                Some(Value::Object(r)) => {
                    let mut r = r.clone();
                    r.shift_remove("scheduling");
                    Ok(Verdict::Success { id, r: Some(Value::Object(r)), annotations })
                }
                _ => Err(Fail::proto("field 'R' must be an object in a response of type 0 (success)")),
            },
            Some(1) => match annotations {
                Some(annotations) => Ok(Verdict::Annotate { id, annotations }),
                None => Err(Fail::proto("field 'annotations' is missing in a response of type 1")),
            },
            Some(2) => {
                let note = strict("note").and_then(Value::as_str).unwrap_or("").to_owned();
                Ok(Verdict::Deny { id, note })
            }
            Some(3) => Ok(Verdict::Cancel { id }),
            _ => Err(Fail::invalid(format!("field 'type' is {}, but 0 to 3 are accepted", payload["type"]))),
        }
    }

    /// The payload of a `sched.cancel`.
    pub fn cancel(self, id: JobId) -> Value {
        json!({ "id": id })
    }

    /// The payload of a `sched.prioritize`.
    pub fn prioritize(self, jobs: &[(JobId, u32)]) -> Value {
        let pairs: Vec<Value> = jobs.iter().map(|(id, priority)| json!([id, priority])).collect();
        json!({ "jobs": pairs })
    }

    /// The payload of a `sched.free`: R of the released ranks, and whether the allocation has no others.
    pub fn free(self, id: JobId, r: &Value, last: bool) -> Value {
        match self {
            Dialect::Current => json!({ "id": id, "R": r, "final": last }),
            Dialect::Founding => json!({ "id": id }),
        }
    }

    /// Reads the answer to a `sched.free`.
    ///
    /// # Errors
    /// `EPROTO` or `EINVAL` without a valid id. Any error takes the interface down (R27-GEN-4).
    pub fn read_freed(self, payload: &Value) -> Result<JobId, Fail> {
        Fields::of(payload)?.id()
    }

    /// The payload of a `sched.expiration`, in seconds since the epoch; `None` in a revision without it.
    pub fn expiration(self, id: JobId, expiration: f64) -> Option<Value> {
        match self {
            Dialect::Current => Some(json!({ "id": id, "expiration": expiration })),
            Dialect::Founding => None,
        }
    }

    /// A later answer of `resource.acquire`: ranks that came up, went down, and are lost permanently. `None` without a
    /// change.
    pub fn resources(self, up: &Idset, down: &Idset, shrink: &Idset) -> Option<Value> {
        let mut update = Map::new();
        for (key, ranks) in [("up", up), ("down", down), ("shrink", shrink)] {
            // In the founding revision lost ranks are only down, as it has been sent.
            let known = key != "shrink" || self == Dialect::Current;
            if known && !ranks.is_empty() {
                update.insert(key.to_owned(), ranks.to_string().into());
            }
        }
        (!update.is_empty()).then_some(Value::Object(update))
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_wire::errno;

    use super::*;

    const D: Dialect = Dialect::Current;

    #[test]
    fn r27_ready_7_bad_modes_are_eproto() {
        assert_eq!(D.read_ready(&json!({"mode": "unlimited"})), Ok(Mode::Unlimited));
        assert_eq!(D.read_ready(&json!({"mode": "limited", "limit": 2})), Ok(Mode::Limited(2)));
        for bad in [
            json!({}),
            json!({"mode": "single"}),
            json!({"mode": "limited"}),
            json!({"mode": "limited", "limit": 0}),
            json!({"mode": "limited", "limit": -1}),
            json!({"mode": "limited", "limit": 2_147_483_648u64}),
            json!([]),
        ] {
            assert_eq!(D.read_ready(&bad).unwrap_err().errnum, errno::EPROTO, "{bad}");
        }
    }

    #[test]
    fn r27_hello_2_needs_streaming() {
        assert_eq!(D.read_hello(&json!({}), false).unwrap_err().errnum, errno::EPROTO);
        assert_eq!(D.read_hello(&json!({}), true), Ok(false));
        assert_eq!(D.read_hello(&json!({"partial-ok": true}), true), Ok(true));
        assert!(D.read_hello(&json!({"partial-ok": 1}), true).is_err());
    }

    #[test]
    fn r27_succ_5_and_pitfall_2_undecodable_verdicts() {
        for bad in [
            json!({"type": 0, "R": {}}),
            json!({"id": 1}),
            json!({"id": 1, "type": 0}),
            json!({"id": 1, "type": 0, "R": null}),
            json!({"id": 1, "type": 1}),
            json!({"id": 1, "type": 1, "annotations": null}),
            json!({"id": 1, "type": 2, "note": null}),
            json!({"id": 1, "type": 4}),
            json!({"id": 1, "type": "0"}),
        ] {
            assert!(D.read_verdict(bad.clone()).is_err(), "{bad}");
        }
        let ok = D.read_verdict(json!({"id": u64::MAX, "type": 0, "R": {"version": 1, "scheduling": {}}}));
        let r = Some(json!({"version": 1}));
        let expected = Verdict::Success { id: JobId(u64::MAX), r, annotations: None };
        assert_eq!(ok, Ok(expected));
        assert_eq!(
            D.read_verdict(json!({"id": 1, "type": 2})),
            Ok(Verdict::Deny { id: JobId(1), note: String::new() })
        );
    }

    #[test]
    fn alloc_is_one_object() {
        let text = D.alloc(JobId(u64::MAX), u32::MAX, 5, 1.5, r#"{"version":1}"#);
        let value: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({"id": u64::MAX, "priority": u32::MAX, "userid": 5, "t_submit": 1.5, "jobspec": {"version": 1}});
        assert_eq!(value, expected);
    }

    const F: Dialect = Dialect::Founding;

    // From here on: the rows of RFC 27 and 28 in which the founding revision differs.

    #[test]
    fn r27_hello_2_founding_is_an_empty_plain_request() {
        assert_eq!(F.read_hello(&Value::Null, false), Ok(false));
        assert_eq!(F.read_hello(&json!({}), false), Ok(false));
        for (payload, streaming) in [
            (json!({}), true),
            (json!({"partial-ok": true}), true),
            (json!({"partial-ok": true}), false),
            (json!([]), false),
        ] {
            assert_eq!(F.read_hello(&payload, streaming).unwrap_err().errnum, errno::EPROTO, "{payload}");
        }
    }

    #[test]
    fn r27_hello_4_founding_tells_all_at_once() {
        let free = Idset::from(3);
        let job = Hello { id: JobId(u64::MAX), priority: 7, userid: 5, t_submit: 1.5, free: Some(&free) };
        let told = json!({"id": u64::MAX, "priority": 7, "userid": 5});
        assert_eq!(F.hello(&job), told);
        assert_eq!(F.hello_in_one(vec![told.clone()]), Ok(json!({"alloc": [told]})));
        assert_eq!(F.hello_in_one(vec![]), Ok(json!({"alloc": []})));
        assert_eq!(D.hello_in_one(vec![json!(1)]), Err(vec![json!(1)]));
    }

    #[test]
    fn r27_ready_2_and_4_founding_is_single_or_unlimited_and_answered_with_nothing() {
        assert_eq!(F.read_ready(&json!({"mode": "unlimited"})), Ok(Mode::Unlimited));
        assert_eq!(F.read_ready(&json!({"mode": "single"})), Ok(Mode::Limited(1)));
        for bad in [json!({}), json!({"mode": "limited", "limit": 2}), json!({"mode": 1}), json!([])] {
            assert_eq!(F.read_ready(&bad).unwrap_err().errnum, errno::EPROTO, "{bad}");
        }
        assert_eq!(F.ready(3), None);
        assert_eq!(D.ready(3), Some(json!({"count": 3})));
    }

    #[test]
    fn r27_alloc_2_founding_leaves_the_jobspec_to_the_kvs() {
        let text = F.alloc(JobId(u64::MAX), u32::MAX, 5, 1.5, r#"{"version":1}"#);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value, json!({"id": u64::MAX, "priority": u32::MAX, "userid": 5}));
    }

    #[test]
    fn r27_succ_1_founding_takes_r_from_the_kvs_whatever_the_payload_says() {
        let ok = Ok(Verdict::Success { id: JobId(1), r: None, annotations: None });
        assert_eq!(F.read_verdict(json!({"id": 1, "type": 0})), ok);
        assert_eq!(F.read_verdict(json!({"id": 1, "type": 0, "R": {"version": 1}})), ok);
        for bad in [json!({"type": 0}), json!({"id": 1}), json!({"id": 1, "type": 0, "annotations": 1})] {
            assert!(F.read_verdict(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn r27_free_1_and_5_founding_frees_by_id_and_is_answered() {
        assert_eq!(F.free(JobId(9), &json!({"version": 1}), true), json!({"id": 9}));
        assert_eq!(F.read_freed(&json!({"id": 9})), Ok(JobId(9)));
        assert!(F.read_freed(&json!({})).is_err());
        assert!(F.free_is_answered() && !D.free_is_answered());
    }

    #[test]
    fn r27_exp_and_r28_upd_1_founding_has_neither_expiration_nor_shrink() {
        assert_eq!(F.expiration(JobId(1), 5.0), None);
        let (up, down, none) = (Idset::from(1), Idset::from(2), Idset::new());
        assert_eq!(F.resources(&up, &down, &down), Some(json!({"up": "1", "down": "2"})));
        assert_eq!(F.resources(&none, &none, &down), None, "it was down before");
        assert_eq!(D.resources(&none, &none, &down), Some(json!({"shrink": "2"})));
    }
}
