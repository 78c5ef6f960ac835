//! The allocation interface (RFC 27), the job manager's side.
//!
//! A job in SCHED is queued; the pump sends its request; then it is pending until the scheduler answers. An answer that
//! cannot be read takes the interface down, without a message, until the next `sched-ready`.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use fluxgate_formats::{JobId, R};
use fluxgate_wire::{Message, errno};
use serde_json::{Value, json};

use super::jobs::context;
use super::{Core, Handled, Reply, Request};
use crate::annotate::merge_bounded;
use crate::dialect::{Hello, Mode, Verdict};
use crate::effect::{ClientId, Record};
use crate::fail::Fail;
use crate::job::{Grant, PRIORITY_MIN, State};
use crate::limits::TURN_ALLOCS_MAX;
use crate::table::Rank;

/// The queued and the pending requests.
#[derive(Debug, Default)]
pub(super) struct Interface {
    online: bool,
    limit: Option<usize>,
    /// The sender of `sched-ready`.
    sender: Option<String>,
    queue: BTreeSet<Rank>,
    sent: BTreeSet<Rank>,
    /// Jobs whose `sched.free` is not answered yet, in the revision that answers it.
    freeing: BTreeSet<JobId>,
}

fn rank(priority: u32, id: JobId) -> Rank {
    (Reverse(priority), id)
}

impl Interface {
    /// A priority changes.
    pub(super) fn reorder(&mut self, id: JobId, old: u32, new: u32, queued: bool, pending: bool) {
        for (set, there) in [(&mut self.queue, queued), (&mut self.sent, pending)] {
            if there {
                set.remove(&rank(old, id));
                set.insert(rank(new, id));
            }
        }
    }

    /// True if the scheduler is ready.
    pub(super) fn online(&self) -> bool {
        self.online
    }

    /// Number of jobs that wait to be sent, and of jobs that were sent to the scheduler.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.queue.len(), self.sent.len())
    }
}

impl Core {
    /// `job-manager.sched-hello`: the jobs that hold resources.
    pub(super) fn sched_hello(&mut self, request: &Request) -> Handled {
        let dialect = self.config.dialect;
        let partial_ok = dialect.read_hello(&request.payload, request.message.is_streaming())?;
        self.records.push(Record::Count("hellos"));
        let reply = request.message.reply_to();
        let mut lines = Vec::new();
        for job in self.table.holding() {
            lines.push(dialect.hello(&Hello {
                id: job.id,
                priority: job.priority,
                userid: job.userid,
                t_submit: job.times.submit,
                free: None,
            }));
        }
        // Without partial-ok, jobs with partly released resources are ended: hello cannot describe them (R27-HELLO-9).
        if !partial_ok {
            self.housekeeping.retain(|_, kept| kept.held == kept.r.ranks());
        }
        for (id, kept) in &self.housekeeping {
            let free = kept.r.ranks().difference(&kept.held);
            lines.push(dialect.hello(&Hello {
                id: *id,
                priority: kept.priority,
                userid: kept.userid,
                t_submit: kept.t_submit,
                free: Some(&free),
            }));
        }
        match dialect.hello_in_one(lines) {
            Ok(answer) => Ok(Reply::Now(Some(answer))),
            Err(lines) => {
                for line in lines {
                    self.reply_to(request.client, &reply, Ok(Some(line)));
                }
                Err(Fail::new(errno::ENODATA, ""))
            }
        }
    }

    /// `job-manager.sched-ready`.
    pub(super) fn sched_ready(&mut self, request: &Request) -> Handled {
        let mode = self.config.dialect.read_ready(&request.payload)?;
        self.alloc.limit = match mode {
            Mode::Unlimited => None,
            Mode::Limited(limit) => Some(limit),
        };
        self.alloc.sender = request.message.sender().map(str::to_owned);
        self.alloc.online = true;
        self.alloc.freeing.clear();
        tracing::info!(?mode, "scheduler is ready");
        let count = self.alloc.queue.len();
        self.reply(request.client, &request.message, Ok(self.config.dialect.ready(count)));
        // Frees that could not be sent while no scheduler was ready (R27-READY-7), after the answer (R27-READY-5).
        let stuck: Vec<JobId> =
            self.table.holding().filter(|job| job.state == State::Cleanup).map(|job| job.id).collect();
        for id in stuck {
            self.act(id);
        }
        Ok(Reply::Later)
    }

    /// Sends requests in the order of the queue. True if more could be sent.
    pub(super) fn pump_allocs(&mut self, window: usize) -> bool {
        let window = window.min(TURN_ALLOCS_MAX);
        for sent in 0.. {
            let room = self.alloc.limit.is_none_or(|limit| self.alloc.sent.len() < limit);
            if !self.alloc.online || !room {
                return false;
            }
            // The queue is ordered: if the first request may not be sent, none may.
            let Some((Reverse(priority), id)) = self.alloc.queue.first().copied() else { return false };
            if priority == PRIORITY_MIN {
                return false;
            }
            if sent >= window {
                return true;
            }
            let Some(job) = self.table.get(id) else {
                self.alloc.queue.pop_first();
                continue;
            };
            let text =
                self.config.dialect.alloc(id, job.priority, job.userid, job.times.submit, &job.spec.redacted);
            self.alloc.queue.pop_first();
            self.alloc.sent.insert(rank(priority, id));
            self.change(id, |job| (job.alloc_queued, job.alloc_pending) = (false, true));
            if !self.send_to_service("job-manager", Message::request("sched.alloc").with_text(&text)) {
                self.teardown("there is no service 'sched'");
                return false;
            }
        }
        false
    }

    /// Queues a job for sending, if it may be sent.
    pub(super) fn enqueue(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        let fit = job.state == State::Sched
            && !job.alloc_queued
            && !job.alloc_pending
            && job.priority != PRIORITY_MIN
            && self.queues.started(job.spec.queue.as_deref());
        if fit {
            self.alloc.queue.insert(rank(job.priority, id));
            self.change(id, |job| job.alloc_queued = true);
        }
    }

    /// Takes a job out of the queue.
    pub(super) fn dequeue(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        if job.alloc_queued {
            self.alloc.queue.remove(&rank(job.priority, id));
            self.change(id, |job| job.alloc_queued = false);
        }
    }

    fn unsend(&mut self, id: JobId) {
        if let Some(job) = self.table.get(id) {
            self.alloc.sent.remove(&rank(job.priority, id));
            self.change(id, |job| job.alloc_pending = false);
        }
    }

    /// In limited mode, requests of higher priority displace requests that were sent (pitfall 24).
    pub(super) fn recalc_pending(&mut self) {
        if self.alloc.limit.is_none() {
            return;
        }
        let pairs = self.alloc.queue.iter().zip(self.alloc.sent.iter().rev());
        let displaced: Vec<JobId> =
            pairs.take_while(|(head, tail)| head < tail).map(|(_, tail)| tail.1).collect();
        for id in displaced {
            self.cancel_request(id);
        }
    }

    /// Asks the scheduler to cancel a pending request. It answers on the request itself.
    pub(super) fn cancel_request(&mut self, id: JobId) {
        let payload = self.config.dialect.cancel(id);
        self.send_to_service(
            "job-manager",
            Message::request("sched.cancel").with_json(&payload).noresponse(),
        );
    }

    /// The same for a job that does not wait for the answer.
    pub(super) fn cancel_finally(&mut self, id: JobId) {
        self.cancel_request(id);
        self.unsend(id);
        self.change(id, |job| job.annotations.clear());
    }

    fn requeue(&mut self, id: JobId) {
        self.unsend(id);
        let Some(job) = self.table.get(id) else { return };
        if self.queues.started(job.spec.queue.as_deref()) {
            self.alloc.queue.insert(rank(job.priority, id));
            self.change(id, |job| job.alloc_queued = true);
        }
        self.change(id, |job| job.annotations.shift_remove("sched"));
    }

    /// The interface is down: pending requests are queued again, and the scheduler gets no message (R27-FIN).
    pub(super) fn teardown(&mut self, why: &str) {
        if !self.alloc.online {
            return;
        }
        tracing::warn!("the scheduler is offline: {why}");
        self.records.push(Record::Count("scheduler_teardowns"));
        let pending: Vec<JobId> = self.alloc.sent.iter().map(|(_, id)| *id).collect();
        for id in pending {
            self.requeue(id);
        }
        self.alloc.online = false;
        self.alloc.sender = None;
        // The next scheduler that is ready is asked again.
        self.alloc.freeing.clear();
    }

    pub(super) fn alloc_disconnect(&mut self, client: ClientId) {
        let sender = self.alloc.sender.as_deref();
        // The router has dropped the client already, so an unknown sender is the one.
        if sender.is_some_and(|uuid| self.router.client_of(uuid).is_none()) {
            tracing::debug!(client = client.0, "disconnect of the scheduler");
            self.teardown("its connection is gone");
        }
    }

    /// Handles a response to `sched.alloc`.
    pub(super) fn alloc_response(&mut self, message: &Message) {
        if message.errnum() != 0 {
            let text = message.text().unwrap_or("");
            return self.teardown(&format!("it answered with {} {text}", errno::describe(message.errnum())));
        }
        let verdict = match message.json() {
            Ok(payload) => self.config.dialect.read_verdict(payload),
            Err(error) => Err(Fail::proto(error.to_string())),
        };
        match verdict {
            Err(fail) => self.teardown(&format!("undecodable response to sched.alloc: {fail}")),
            Ok(Verdict::Success { id, r, annotations }) => self.succeeded(id, r, annotations),
            Ok(Verdict::Annotate { id, annotations }) => {
                if self.pending(id) {
                    self.annotate(id, &annotations);
                }
            }
            Ok(Verdict::Deny { id, note }) => {
                if self.pending(id) {
                    self.unsend(id);
                    self.change(id, |job| job.annotations.clear());
                    self.raise(id, "alloc", 0, self.owner, &note);
                }
            }
            Ok(Verdict::Cancel { id }) => {
                if !self.pending(id) {
                    return;
                }
                if self.table.get(id).is_some_and(|job| job.state == State::Sched) {
                    self.requeue(id);
                } else {
                    self.unsend(id);
                    self.change(id, |job| job.annotations.clear());
                }
                let queue = self.table.get(id).and_then(|job| job.spec.queue.clone());
                if self.queues.started(queue.as_deref()) {
                    self.act(id);
                }
            }
        }
    }

    fn pending(&self, id: JobId) -> bool {
        self.table.active(id).is_some_and(|job| job.alloc_pending)
    }

    fn annotate(&mut self, id: JobId, update: &serde_json::Map<String, Value>) {
        let merged = self.change(id, |job| merge_bounded(&mut job.annotations, update));
        if merged == Some(false) {
            tracing::warn!(%id, "annotations are too large or too deep, and were not merged");
        }
    }

    fn succeeded(
        &mut self,
        id: JobId,
        value: Option<Value>,
        annotations: Option<serde_json::Map<String, Value>>,
    ) {
        // A free by id alone would release the job's actual allocation, so no free is sent then.
        let held = self.table.get(id).is_some_and(|job| job.has_resources);
        let harmful = held && self.config.dialect.free_is_answered();
        if !self.pending(id) && !harmful {
            // No request waits for it any more: it is sent back as a free (R27-FREE-6).
            return self.send_free(id, &value.unwrap_or_default(), true);
        }
        if self.table.get(id).is_some_and(|job| job.has_resources || job.grant.is_some()) {
            return self.teardown(&format!("{id} is already allocated"));
        }
        self.unsend(id);
        let unknown = |r: &R| {
            let unknown = r.ranks().difference(self.inventory.ranks());
            if unknown.is_empty() { Ok(()) } else { Err(format!("there is no rank {unknown}")) }
        };
        let (value, r) = match value {
            Some(value) => {
                let r = R::from_value(&value).map_err(|e| e.to_string());
                (value, r)
            }
            None => match self.committed_r(id) {
                Ok(Grant { value, r }) => (value, Ok(r)),
                Err(why) => (Value::Null, Err(format!("in the KVS: {why}"))),
            },
        };
        match r.and_then(|r| unknown(&r).map(|()| r)) {
            Err(why) => {
                self.send_free(id, &value, true);
                self.raise(id, "exec", 0, self.owner, &format!("the scheduler sent an invalid R: {why}"));
            }
            Ok(r) => {
                self.change(id, |job| job.take(Grant { value, r }));
                if let Some(update) = annotations {
                    self.annotate(id, &update);
                }
                let snapshot = self.table.get(id).map(|job| job.annotations.clone()).unwrap_or_default();
                let details =
                    if snapshot.is_empty() { Value::Null } else { json!({ "annotations": snapshot }) };
                self.post(id, "alloc", context(details));
            }
        }
    }

    /// Sends a free to the scheduler. While it is offline none is sent: the next hello has the state.
    pub(super) fn send_free(&mut self, id: JobId, r: &Value, last: bool) {
        if self.alloc.online {
            let payload = self.config.dialect.free(id, r, last);
            self.send_to_service("job-manager", Message::request("sched.free").with_json(&payload));
        }
    }

    /// Sends a free to the scheduler and waits for its answer, in the revision that answers it. Until then the job
    /// holds its resources; while the scheduler is offline, until the next one is ready, which gets the job in hello.
    pub(super) fn ask_free(&mut self, id: JobId) {
        if !self.alloc.online || !self.alloc.freeing.insert(id) {
            return;
        }
        let payload = self.config.dialect.free(id, &Value::Null, true);
        if !self.send_to_service("job-manager", Message::request("sched.free").with_json(&payload)) {
            self.teardown("there is no service 'sched'");
        }
    }

    /// Handles a response to `sched.free`.
    pub(super) fn free_response(&mut self, message: &Message) {
        if !self.config.dialect.free_is_answered() {
            return tracing::debug!("a response to sched.free, which wants none");
        }
        if message.errnum() != 0 {
            let text = message.text().unwrap_or("");
            return self.teardown(&format!("it answered with {} {text}", errno::describe(message.errnum())));
        }
        let freed = message.json().map_err(|error| Fail::proto(error.to_string()));
        match freed.and_then(|payload| self.config.dialect.read_freed(&payload)) {
            Err(fail) => self.teardown(&format!("undecodable response to sched.free: {fail}")),
            // A response to a free that was sent back belongs to no job.
            Ok(id) if !self.alloc.freeing.remove(&id) => {}
            Ok(id) => self.post(id, "free", None),
        }
    }

    /// `job-manager.resource-status`: the job manager's own view of the allocations.
    pub(super) fn allocated(&self) -> R {
        let granted = self.table.holding().filter_map(|job| job.grant.as_ref().map(|grant| grant.r.clone()));
        let kept = self.housekeeping.values().map(|kept| kept.r.subset(&kept.held));
        let mut r = self.inventory.r().intersect(&R::union_all(granted.chain(kept)));
        (r.starttime, r.expiration) = (0.0, 0.0);
        r
    }
}
