//! The words of RFC 27 as the job manager speaks them: this is where revisions differ.
//!
//! The job manager calls these to write what it sends to a scheduler and to read what comes back. It must
//! never know keys of those payloads itself.

use fluxgate_formats::{Idset, JobId};
use serde_json::{Map, Value, json};

use crate::fail::Fail;
use crate::fields::Fields;

/// Which revision is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// As flux-core 0.88 speaks.
    #[default]
    Current,
}

/// How many requests a scheduler wants to have at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All there are.
    Unlimited,
    /// At most so many.
    Limited(usize),
}

/// What a scheduler says about a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Here is what it gets.
    Success {
        /// The job.
        id: JobId,
        /// R without its `scheduling` key.
        r: Value,
        /// To be merged.
        annotations: Option<Map<String, Value>>,
    },
    /// Still waiting.
    Annotate {
        /// The job.
        id: JobId,
        /// To be merged.
        annotations: Map<String, Value>,
    },
    /// Never.
    Deny {
        /// The job.
        id: JobId,
        /// Why.
        note: String,
    },
    /// The request was canceled, as asked.
    Cancel {
        /// The job.
        id: JobId,
    },
}

/// What a job looks like in a hello.
#[derive(Debug, Clone, PartialEq)]
pub struct Hello<'a> {
    /// The job.
    pub id: JobId,
    /// Its priority.
    pub priority: u32,
    /// Its user.
    pub userid: u32,
    /// When it was submitted.
    pub t_submit: f64,
    /// Ranks that are free already.
    pub free: Option<&'a Idset>,
}

impl Dialect {
    /// The name, as in `--dialect`.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Current => "current",
        }
    }

    /// Check a `sched-hello`; says whether partial releases may be told.
    pub fn read_hello(self, payload: &Value, streaming: bool) -> Result<bool, Fail> {
        if !streaming {
            return Err(Fail::proto("job-manager.sched-hello must be sent with the streaming flag"));
        }
        Ok(Fields::of(payload)?.opt_bool("partial-ok")?.unwrap_or(false))
    }

    /// One job of a hello.
    pub fn hello(self, job: &Hello<'_>) -> Value {
        let mut payload = json!({
            "id": job.id, "priority": job.priority, "userid": job.userid, "t_submit": job.t_submit,
        });
        if let Some(free) = job.free.filter(|free| !free.is_empty()) {
            payload["free"] = free.to_string().into();
        }
        payload
    }

    /// Read a `sched-ready`.
    pub fn read_ready(self, payload: &Value) -> Result<Mode, Fail> {
        let fields = Fields::of(payload)?;
        match fields.str("mode")? {
            "unlimited" => Ok(Mode::Unlimited),
            "limited" => match fields.opt_u64("limit")? {
                Some(limit @ 1..=0x7fff_ffff) => Ok(Mode::Limited(limit as usize)),
                found => Err(Fail::proto(format!(
                    "field 'limit' must be from 1 to 2147483647 in mode 'limited', found {}",
                    found.map_or("none".to_owned(), |n| n.to_string())
                ))),
            },
            other => Err(Fail::proto(format!(
                "field 'mode' is '{other}', but 'unlimited' and 'limited' are accepted"
            ))),
        }
    }

    /// The answer to a `sched-ready`.
    pub fn ready(self, queued: usize) -> Option<Value> {
        Some(json!({ "count": queued }))
    }

    /// The payload of a `sched.alloc`, as text.
    pub fn alloc(self, id: JobId, priority: u32, userid: u32, t_submit: f64, jobspec: &str) -> String {
        let head =
            json!({ "id": id, "priority": priority, "userid": userid, "t_submit": t_submit }).to_string();
        // The jobspec is text already; parsing it only to print it again would be most of the work.
        let head = head.strip_suffix('}').unwrap_or(&head);
        format!("{head},\"jobspec\":{jobspec}}}")
    }

    /// Read a response to `sched.alloc`. Any error takes the interface down (R27-GEN-4, R27-SUCC-5).
    pub fn read_verdict(self, payload: Value) -> Result<Verdict, Fail> {
        let fields = Fields::of(&payload)?;
        let id = fields.id()?;
        let kind = match fields.get("type") {
            Some(kind) => kind.as_i64(),
            None => return Err(Fail::proto("field 'type' is missing (0 to 3 are expected)")),
        };
        // A note that is there but no string is undecodable, also null (pitfall 2).
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
            Some(0) => match strict("R") {
                Some(Value::Object(r)) => {
                    let mut r = r.clone();
                    r.shift_remove("scheduling");
                    Ok(Verdict::Success { id, r: Value::Object(r), annotations })
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

    /// The payload of a `sched.free`.
    pub fn free(self, id: JobId, r: &Value, last: bool) -> Value {
        json!({ "id": id, "R": r, "final": last })
    }

    /// The payload of a `sched.expiration`.
    pub fn expiration(self, id: JobId, expiration: f64) -> Value {
        json!({ "id": id, "expiration": expiration })
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
        let expected = Verdict::Success { id: JobId(u64::MAX), r: json!({"version": 1}), annotations: None };
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
}
