//! Changing jobs after submission: the duration, pending or running (RFC 21 `jobspec-update`, `resource-update`).

use fluxgate_formats::JobId;
use fluxgate_wire::{Message, ReplyTo, errno};
use serde_json::json;

use super::jobs::context;
use super::{Core, Handled, Reply, Request};
use crate::effect::ClientId;
use crate::fail::Fail;
use crate::fields::Fields;
use crate::job::State;

/// The one key that can be updated.
const DURATION: &str = "attributes.system.duration";

/// An update that waits for the scheduler's answer.
#[derive(Debug)]
pub(crate) struct Update {
    client: ClientId,
    reply: ReplyTo,
    id: JobId,
    duration: f64,
    expiration: f64,
}

impl Core {
    pub(super) fn update_request(&mut self, request: &Request, fields: Fields<'_>) -> Handled {
        let id = fields.id()?;
        let updates = fields.object("updates")?;
        let mut duration = None;
        for (key, value) in updates {
            if key != DURATION {
                return Err(Fail::invalid(format!(
                    "field 'updates': update of '{key}' is not supported ('{DURATION}' is)"
                )));
            }
            let number = value.as_f64().filter(|d| d.is_finite() && *d >= 0.0);
            let wrong = || Fail::invalid(format!("field 'updates.{key}' must be a number of seconds >= 0"));
            duration = Some(number.ok_or_else(wrong)?);
        }
        let Some(duration) = duration else {
            return Err(Fail::invalid("field 'updates' is empty"));
        };
        let job = self.find_active(id, errno::ENOENT)?;
        request.authorize(job.userid, "update")?;
        if !request.message.is_from_owner() {
            self.check_duration(job.spec.queue.as_deref(), duration)?;
        }
        let Some(grant) = job.grant.as_ref().filter(|_| job.state.bit() & State::RUNNING != 0) else {
            if job.state == State::Cleanup {
                return Err(Fail::invalid(format!("job {id} is ending")));
            }
            self.post(id, "jobspec-update", context(json!({ DURATION: duration })));
            return Ok(Reply::Now(None));
        };
        let start = grant.r.starttime;
        if start <= 0.0 {
            return Err(Fail::invalid("the job's R has no starttime, so its end cannot be computed"));
        }
        let expiration = if duration > 0.0 { start + duration } else { self.inventory.expiration() };
        if expiration > 0.0 && expiration <= self.now {
            return Err(Fail::invalid("the new duration has passed already"));
        }
        let update =
            Update { client: request.client, reply: request.message.reply_to(), id, duration, expiration };
        let Some(payload) = self.config.dialect.expiration(id, expiration) else {
            return Err(Fail::invalid(format!(
                "the scheduler cannot be told of another end of a running job in the dialect '{}'",
                self.config.dialect.name()
            )));
        };
        let tag = self.tag();
        let message =
            Message::request("sched.expiration").with_json(&payload).with_nodeid(0).with_matchtag(tag);
        if self.alloc.online() && self.send_to_service("job-manager", message) {
            self.updates.insert(tag, update);
        } else {
            self.updated(update);
        }
        Ok(Reply::Later)
    }

    /// Handles the scheduler's answer. ENOSYS counts as yes (R27-EXP-3).
    pub(super) fn expiration_response(&mut self, message: &Message) {
        let Some(update) = self.updates.remove(&message.matchtag()) else { return };
        match message.errnum() {
            0 | errno::ENOSYS => self.updated(update),
            errnum => {
                let text = message.text().filter(|text| !text.is_empty());
                let text = text.unwrap_or("scheduler refused expiration update").to_owned();
                self.reply_to(update.client, &update.reply, Err(Fail::new(errnum, text)));
            }
        }
    }

    fn updated(&mut self, update: Update) {
        let Update { client, reply, id, duration, expiration } = update;
        if self.table.active(id).is_none_or(|job| job.grant.is_none()) {
            let gone = Fail::invalid(format!("job {id} is inactive"));
            return self.reply_to(client, &reply, Err(gone));
        }
        self.post(id, "jobspec-update", context(json!({ DURATION: duration })));
        self.post(id, "resource-update", context(json!({ "expiration": expiration })));
        self.arm_limit(id);
        self.reply_to(client, &reply, Ok(None));
    }

    /// The end of the instance changed: jobs without a duration of their own end with it (pitfall 16).
    pub(super) fn follow_instance_expiration(&mut self) {
        let expiration = self.inventory.expiration();
        let follows = |job: &&crate::job::Job| {
            job.spec.duration == 0.0 && job.grant.as_ref().is_some_and(|grant| grant.r.expiration > 0.0)
        };
        let ids: Vec<JobId> = self.table.running().filter(follows).map(|job| job.id).collect();
        for id in ids {
            self.post(id, "resource-update", context(json!({ "expiration": expiration })));
            self.arm_limit(id);
        }
    }
}
