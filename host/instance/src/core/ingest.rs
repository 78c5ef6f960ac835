//! Submission: checks of the jobspec, of the limits and of feasibility; then creation of the jobs.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fluxgate_formats::JobId;
use fluxgate_wire::{Message, ReplyTo, errno};
use serde_json::{Value, json};

use super::jobs::context;
use super::{Core, Handled, Reply, Request};
use crate::effect::{ClientId, Record};
use crate::fail::Fail;
use crate::fields::Fields;
use crate::job::{Job, URGENCY_DEFAULT, URGENCY_EXPEDITE};
use crate::limits::{ACTIVE_JOBS_MAX, COPIES_MAX, TURN_SUBMITS_MAX, VALIDATING_MAX};
use crate::spec::{Spec, set_path};

/// Submit flag: skip the feasibility check.
const NOVALIDATE: u32 = 4;
/// Submit flags that are supported.
const FLAGS_MAX: i64 = 7;

/// A submission in progress.
#[derive(Debug)]
pub(super) struct Submission {
    client: ClientId,
    reply: ReplyTo,
    spec: Arc<Spec>,
    userid: u32,
    urgency: i64,
    flags: u32,
    copies: Option<u64>,
    ids: Vec<JobId>,
}

impl Submission {
    /// The submitting user.
    pub(super) fn client(&self) -> ClientId {
        self.client
    }

    /// True if jobs of it exist already.
    pub(super) fn begun(&self) -> bool {
        !self.ids.is_empty()
    }

    fn total(&self) -> u64 {
        self.copies.unwrap_or(1)
    }
}

/// The jobspec in `J`, signed with the mechanism "none" as flux-core's tools do.
fn unwrap_signed(text: &str) -> Result<Value, Fail> {
    let wrong = |why: &str| Fail::invalid(format!("field 'J': {why}"));
    let mut parts = text.split('.');
    let (Some(_), Some(payload), Some(mechanism), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong("not HEADER.PAYLOAD.SIGNATURE"));
    };
    if mechanism != "none" {
        return Err(wrong("only the signing mechanism 'none' is supported"));
    }
    let bytes = STANDARD.decode(payload).map_err(|e| wrong(&format!("the payload is not base64: {e}")))?;
    serde_json::from_slice(&bytes).map_err(|e| wrong(&format!("the payload is not JSON: {e}")))
}

impl Core {
    pub(super) fn job_ingest(&mut self, method: &str, request: &Request) -> Handled {
        if method != "submit" {
            return Err(Fail::new(errno::ENOSYS, format!("job-ingest has no method '{method}'")));
        }
        let fields = Fields::of(&request.payload)?;
        let mut value = match (fields.get("jobspec"), fields.opt_str("J")?) {
            (Some(Value::String(text)), _) => serde_json::from_str(text)
                .map_err(|e| Fail::invalid(format!("field 'jobspec' is not JSON: {e}")))?,
            (Some(value), _) => value.clone(),
            (None, Some(signed)) => unwrap_signed(signed)?,
            (None, None) => return Err(Fail::proto("field 'jobspec' is missing (an object is expected)")),
        };
        let urgency = fields.opt_int("urgency", 0, i64::from(URGENCY_EXPEDITE))?;
        let urgency = urgency.unwrap_or(i64::from(URGENCY_DEFAULT));
        let flags = fields.opt_int("flags", 0, FLAGS_MAX)?.unwrap_or(0) as u32;
        let copies = match fields.opt_u64("copies")? {
            Some(n) if !(1..=COPIES_MAX).contains(&n) => {
                return Err(Fail::invalid(format!(
                    "field 'copies' is {n}, but 1 to {COPIES_MAX} are accepted"
                )));
            }
            other => other,
        };
        if !request.message.is_from_owner() {
            if urgency > i64::from(URGENCY_DEFAULT) {
                return Err(Fail::denied(format!(
                    "field 'urgency': only the instance owner can submit with urgency > {URGENCY_DEFAULT}"
                )));
            }
            if flags & NOVALIDATE != 0 {
                return Err(Fail::denied("field 'flags': only the instance owner can submit unvalidated"));
            }
        }
        if self.stopping {
            return Err(Fail::new(errno::ENOSYS, "the instance is shutting down"));
        }
        let waiting: u64 = self.submissions.iter().map(Submission::total).sum();
        if self.table.active_count() as u64 + waiting + copies.unwrap_or(1) > ACTIVE_JOBS_MAX as u64 {
            return Err(Fail::new(errno::EAGAIN, format!("more than {ACTIVE_JOBS_MAX} active jobs")));
        }
        let spec = self.admit(&mut value)?;
        self.check_dependencies(request, &spec)?;
        let submission = Submission {
            client: request.client,
            reply: request.message.reply_to(),
            spec: Arc::new(spec),
            userid: request.message.userid,
            urgency,
            flags,
            copies,
            ids: Vec::new(),
        };
        let judged = self.config.dialect.has_feasibility() && self.router.provider("feasibility").is_some();
        if flags & NOVALIDATE == 0 && judged {
            if self.validating.len() >= VALIDATING_MAX {
                return Err(Fail::new(errno::EAGAIN, "too many submissions are being validated"));
            }
            let payload = json!({
                "jobspec": value,
                "userid": request.message.userid,
                "rolemask": request.message.rolemask,
                "urgency": urgency,
                "flags": flags,
            });
            let tag = self.tag();
            let message = Message::request("feasibility.check").with_json(&payload).with_matchtag(tag);
            if self.send_to_service("job-ingest", message) {
                self.validating.insert(tag, submission);
                return Ok(Reply::Later);
            }
        }
        self.submissions.push_back(submission);
        Ok(Reply::Later)
    }

    /// Checks a jobspec against the configuration, and adds the configured defaults (queue, duration) and the
    /// constraint of its queue (R33-3).
    fn admit(&self, value: &mut Value) -> Result<Spec, Fail> {
        let spec = Spec::new(value)?;
        let mut changed = false;
        let queue = match spec.queue.as_deref().or(self.queues.default_name()) {
            Some(name) => {
                if spec.queue.is_none() {
                    set_path(value, "attributes.system.queue", name.into())?;
                    changed = true;
                }
                self.queues.find(Some(name))?
            }
            None => self.queues.find(None)?,
        };
        if let Some(reason) = &queue.disabled {
            let which = match queue.config.name.as_str() {
                "" => "job submission".to_owned(),
                name => format!("job submission to {name}"),
            };
            return Err(Fail::invalid(format!("{which} is disabled: {reason}")));
        }
        let mut duration = spec.duration;
        if duration == 0.0
            && let Some(default) = queue.config.default_duration.or(self.config.default_duration)
        {
            set_path(value, "attributes.system.duration", default.into())?;
            (duration, changed) = (default, true);
        }
        self.check_duration(
            Some(&queue.config.name).filter(|n| !n.is_empty()).map(String::as_str),
            duration,
        )?;
        if !queue.config.requires.is_empty() {
            let requires = json!({ "properties": queue.config.requires });
            let both = match value.pointer("/attributes/system/constraints") {
                Some(own) => json!({ "and": [own, requires] }),
                None => requires,
            };
            set_path(value, "attributes.system.constraints", both)?;
            changed = true;
        }
        if changed { Spec::new(value) } else { Ok(spec) }
    }

    /// Checks a duration against the limits. No duration is unlimited where there is a limit.
    pub(super) fn check_duration(&self, queue: Option<&str>, duration: f64) -> Result<(), Fail> {
        let queue = self.queues.find(queue)?;
        let limit = queue.config.limit_duration.or(self.config.limit_duration).filter(|limit| *limit > 0.0);
        match limit {
            Some(limit) if duration == 0.0 || duration > limit => {
                let asked = if duration == 0.0 {
                    "unlimited".to_owned()
                } else {
                    fluxgate_formats::fsd::format(duration)
                };
                Err(Fail::invalid(format!(
                    "requested duration ({asked}) exceeds the limit of {}",
                    fluxgate_formats::fsd::format(limit)
                )))
            }
            _ => Ok(()),
        }
    }

    /// Handles the answer of the feasibility service. ENOSYS, and a service that went away, count as yes.
    pub(super) fn feasibility_response(&mut self, message: &Message) {
        let Some(submission) = self.validating.remove(&message.matchtag()) else { return };
        match message.errnum() {
            0 | errno::ENOSYS | errno::EHOSTUNREACH => self.submissions.push_back(submission),
            errnum => {
                self.records.push(Record::Count("jobs_rejected"));
                let text = message.text().filter(|text| !text.is_empty()).unwrap_or("infeasible");
                let fail = Fail::new(errnum, text);
                self.reply_to(submission.client, &submission.reply, Err(fail));
            }
        }
    }

    /// Creates jobs of accepted submissions, a portion at a time. True if more are left.
    pub(super) fn pump_submissions(&mut self) -> bool {
        let mut room = TURN_SUBMITS_MAX as u64;
        while room > 0 {
            let Some(mut submission) = self.submissions.pop_front() else { return false };
            if !submission.begun() {
                let mut spec = (*submission.spec).clone();
                spec.key = self.next_spec;
                self.next_spec += 1;
                self.records.push(Record::Spec { key: spec.key, text: Arc::clone(&spec.text) });
                submission.spec = Arc::new(spec);
            }
            let portion = room.min(submission.total() - submission.ids.len() as u64);
            for _ in 0..portion {
                let id = self.make_job(&submission);
                submission.ids.push(id);
            }
            room -= portion;
            if (submission.ids.len() as u64) < submission.total() {
                self.submissions.push_front(submission);
                continue;
            }
            let payload = match (submission.copies, submission.ids.first()) {
                (None, Some(id)) => json!({ "id": id }),
                _ => json!({ "ids": submission.ids }),
            };
            self.reply_to(submission.client, &submission.reply, Ok(Some(payload)));
        }
        !self.submissions.is_empty()
    }

    fn make_job(&mut self, submission: &Submission) -> JobId {
        let id = self.ids.next((self.now * 1000.0) as u64);
        let spec = Arc::clone(&submission.spec);
        self.records.push(Record::Job { id, spec: spec.key });
        self.table.insert(Job::new(id, spec));
        let details = json!({
            "userid": submission.userid,
            "urgency": submission.urgency,
            "flags": submission.flags,
            "version": 1,
        });
        self.post(id, "submit", context(details));
        self.add_dependencies(id);
        self.post(id, "validate", None);
        id
    }
}
