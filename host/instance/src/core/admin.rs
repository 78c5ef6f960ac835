//! The job manager's requests for users and tools: raise, kill, urgency, memo, queues.

use fluxgate_formats::JobId;
use fluxgate_wire::errno;
use serde_json::{Value, json};

use super::jobs::context;
use super::{Core, Handled, Reply, Request};
use crate::effect::Record;
use crate::fail::Fail;
use crate::fields::Fields;
use crate::job::{Job, State, URGENCY_DEFAULT, URGENCY_EXPEDITE};

/// The wildcard userid.
const ANY_USER: u32 = u32::MAX;
/// Largest signal number.
const SIGNAL_MAX: i64 = 64;

impl Core {
    pub(super) fn job_manager(&mut self, method: &str, request: &Request) -> Handled {
        let fields = Fields::of(&request.payload)?;
        match method {
            "sched-hello" => self.sched_hello(request),
            "sched-ready" => self.sched_ready(request),
            "raise" => self.raise_request(request, fields),
            "raiseall" => self.raise_all(request, fields),
            "kill" => self.kill_request(request, fields),
            "urgency" => self.urgency_request(request, fields),
            "memo" => {
                let id = fields.id()?;
                let memo = fields.object("memo")?.clone();
                self.find_active(id, errno::ENOENT)?;
                self.own(request, id, "add a memo to")?;
                self.post(id, "memo", Some(memo));
                Ok(Reply::Now(None))
            }
            "update" => self.update_request(request, fields),
            "resource-status" => Ok(Reply::Now(Some(json!({ "allocated": self.allocated().to_value() })))),
            "alloc-query" => {
                let (queued, pending) = self.alloc.counts();
                Ok(Reply::Now(Some(json!({
                    "queue_length": queued,
                    "alloc_pending": pending,
                    "running": self.table.count(State::Run),
                }))))
            }
            "queue-list" => {
                let name = |queue: &crate::queues::Queue| match queue.config.name.as_str() {
                    "" => Value::Null,
                    name => name.into(),
                };
                let names: Vec<Value> = self.queues.iter().map(name).filter(|name| !name.is_null()).collect();
                Ok(Reply::Now(Some(json!({ "queues": names }))))
            }
            "queue-status" => {
                let name = fields.opt_str("name")?;
                Ok(Reply::Now(Some(self.queues.status(name, self.alloc.online())?)))
            }
            "queue-enable" => self.queue_enable(fields),
            "queue-start" => self.queue_start(fields),
            "disconnect" => Ok(Reply::Later),
            _ => Err(Fail::new(errno::ENOSYS, format!("the job manager has no method '{method}'"))),
        }
    }

    /// A job that is not inactive.
    pub(super) fn find_active(&self, id: JobId, errnum: i32) -> Result<&Job, Fail> {
        match self.table.get(id) {
            None => Err(Fail::new(errnum, format!("unknown job {id}"))),
            Some(job) if job.state == State::Inactive => {
                Err(Fail::new(errnum, format!("job {id} is inactive")))
            }
            Some(job) => Ok(job),
        }
    }

    pub(super) fn own(&self, request: &Request, id: JobId, what: &str) -> Result<(), Fail> {
        request.authorize(self.table.get(id).map_or(ANY_USER, |job| job.userid), what)
    }

    fn exception<'a>(&self, fields: Fields<'a>) -> Result<(&'a str, i64, &'a str), Fail> {
        let severity = fields.opt_int("severity", i64::MIN, i64::MAX)?;
        let Some(severity) = severity.filter(|s| (0..=7).contains(s)) else {
            return Err(Fail::proto("field 'severity' must be from 0 to 7"));
        };
        let kind = fields.str("type")?;
        if kind.is_empty() || kind.chars().any(|c| c.is_whitespace() || c == '=') {
            return Err(Fail::proto("field 'type' must be one word without '='"));
        }
        Ok((kind, severity, fields.opt_str("note")?.unwrap_or("")))
    }

    fn raise_request(&mut self, request: &Request, fields: Fields<'_>) -> Handled {
        let id = fields.id()?;
        let (kind, severity, note) = self.exception(fields)?;
        self.find_active(id, errno::ENOENT)?;
        self.own(request, id, "raise exceptions on")?;
        self.raise(id, kind, severity, request.message.userid, note);
        Ok(Reply::Now(None))
    }

    fn raise_all(&mut self, request: &Request, fields: Fields<'_>) -> Handled {
        let dry_run = fields.bool("dry_run")?;
        // flux-core's tools send the wildcard as -1 or as 4294967295.
        let userid = fields.int("userid", -1, i64::from(u32::MAX))? as u32;
        let states = fields.int("states", 0, 127)?;
        let (kind, severity, note) = self.exception(fields)?;
        request.authorize(userid, "raise exceptions on")?;
        let hit = |job: &&Job| job.state.bit() & states != 0 && (userid == ANY_USER || job.userid == userid);
        let ids: Vec<JobId> =
            self.table.pending().chain(self.table.running()).filter(hit).map(|job| job.id).collect();
        if !dry_run {
            for id in &ids {
                self.raise(*id, kind, severity, request.message.userid, note);
            }
        }
        Ok(Reply::Now(Some(json!({ "count": ids.len(), "errors": 0 }))))
    }

    fn kill_request(&mut self, request: &Request, fields: Fields<'_>) -> Handled {
        let id = fields.id()?;
        let signal = fields.int("signum", 1, SIGNAL_MAX)?;
        let job = self.find_active(id, errno::EINVAL)?;
        request.authorize(job.userid, "send signals to")?;
        if job.state.bit() & State::RUNNING == 0 {
            return Err(Fail::invalid(format!("job {id} is not running")));
        }
        self.signal(id, signal as i32);
        Ok(Reply::Now(None))
    }

    fn urgency_request(&mut self, request: &Request, fields: Fields<'_>) -> Handled {
        let id = fields.id()?;
        let urgency = fields.int("urgency", 0, i64::from(URGENCY_EXPEDITE))?;
        let job = self.find_active(id, errno::EINVAL)?;
        request.authorize(job.userid, "reprioritize")?;
        let old = job.urgency;
        let ceiling = old.max(URGENCY_DEFAULT);
        if !request.message.is_from_owner() && urgency > i64::from(ceiling) {
            return Err(Fail::denied(format!("guests can only adjust urgency <= {ceiling}")));
        }
        if job.has_resources {
            return Err(Fail::invalid("urgency cannot be changed once resources are allocated"));
        }
        let details = json!({ "userid": request.message.userid, "urgency": urgency });
        self.post(id, "urgency", context(details));
        Ok(Reply::Now(Some(json!({ "old_urgency": old }))))
    }

    fn queue_enable(&mut self, fields: Fields<'_>) -> Handled {
        let (name, all) = (fields.opt_str("name")?, fields.opt_bool("all")?.unwrap_or(false));
        let (enable, reason) = (fields.bool("enable")?, fields.opt_str("reason")?);
        if !enable && reason.is_none() {
            return Err(Fail::invalid("reason is required for disable"));
        }
        let changed = self.queues.change(name, all, |queue| {
            queue.disabled = if enable { None } else { reason.map(str::to_owned) };
        })?;
        self.save_queues(&changed);
        Ok(Reply::Now(None))
    }

    fn queue_start(&mut self, fields: Fields<'_>) -> Handled {
        let (name, all) = (fields.opt_str("name")?, fields.opt_bool("all")?.unwrap_or(false));
        let (start, reason) = (fields.bool("start")?, fields.opt_str("reason")?);
        let changed = self.queues.change(name, all, |queue| {
            queue.stopped = if start { None } else { Some(reason.unwrap_or("").to_owned()) };
        })?;
        if !fields.opt_bool("nocheckpoint")?.unwrap_or(false) {
            self.save_queues(&changed);
        }
        let covered = |job: &&Job| changed.iter().any(|q| q == job.spec.queue.as_deref().unwrap_or(""));
        let jobs: Vec<JobId> = self.table.pending().filter(covered).map(|job| job.id).collect();
        for id in jobs {
            if start {
                self.enqueue(id);
                self.recalc_pending();
                continue;
            }
            let pending = self.table.get(id).is_some_and(|job| job.alloc_pending);
            self.dequeue(id);
            if pending {
                self.cancel_request(id);
            }
        }
        Ok(Reply::Now(None))
    }

    fn save_queues(&mut self, names: &[String]) {
        for name in names {
            let value = self.queues.saved(name);
            self.records.push(Record::Fact { name: format!("queue.{name}"), value });
        }
    }
}
