//! Events of jobs and their consequences.
//!
//! [`Core::post`] applies an event to a job; [`Core::act`] takes the action that the state then requires. A repeated
//! call has no effect, so it may be made whenever in doubt.

use fluxgate_formats::{Event, JobId};
use fluxgate_wire::Message;
use serde_json::{Map, Value, json};

use super::Core;
use crate::effect::Record;
use crate::job::{Job, PRIORITY_MIN, State};

/// The context of an event from a JSON object.
pub(super) fn context(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(map) if !map.is_empty() => Some(map),
        _ => None,
    }
}

impl Core {
    /// Changes a job.
    pub(super) fn change<T>(&mut self, id: JobId, change: impl FnOnce(&mut Job) -> T) -> Option<T> {
        let (result, purged) = self.table.change(id, change)?;
        for old in purged {
            self.kvs.forget_job(old);
        }
        Some(result)
    }

    /// Applies an event to a job that is not inactive.
    pub(super) fn post(&mut self, id: JobId, name: &str, context: Option<Map<String, Value>>) {
        let Some(before) = self.table.active(id).map(|job| job.state) else { return };
        let now = self.now;
        let event = Event { timestamp: now, name: name.to_owned(), context };
        let line = event.encode();
        let empty = Map::new();
        let after = self.change(id, |job| {
            job.apply(name, event.context.as_ref().unwrap_or(&empty), now);
            job.log.push_str(&line);
            job.state
        });
        let context = event.context.map(|context| Value::Object(context).to_string());
        self.records.push(Record::Event { id, time: now, name: name.to_owned(), context });
        self.notify_watchers(id, &line, after == Some(State::Inactive));
        if name == "start" || after == Some(State::Inactive) {
            self.spread_news(id);
        }
        if name == "exception" {
            self.exception_hits(id);
        }
        if after == Some(State::Priority) && before != State::Priority {
            self.enter_priority(id);
        } else {
            self.act(id);
        }
    }

    /// A job entered PRIORITY: it gets a priority, the scheduler gets a message, and the job goes on to SCHED. The
    /// order of the messages is that of flux-core: `prioritize`, `cancel`, and later another `alloc`.
    pub(super) fn enter_priority(&mut self, id: JobId) {
        let Some(priority) = self.table.get(id).map(Job::natural_priority) else { return };
        self.set_priority(id, priority);
        let Some(job) = self.table.get(id) else { return };
        if job.alloc_queued {
            self.recalc_pending();
        } else if job.alloc_pending {
            if priority == PRIORITY_MIN {
                self.cancel_request(id);
            } else {
                let payload = self.config.dialect.prioritize(&[(id, priority)]);
                self.send_to_service(
                    "job-manager",
                    Message::request("sched.prioritize").with_json(&payload).noresponse(),
                );
                self.recalc_pending();
            }
        }
        self.act(id);
        self.post(id, "priority", context(json!({ "priority": priority })));
    }

    /// Takes the action that the state of a job requires.
    pub(super) fn act(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        match job.state {
            State::New | State::Inactive => {}
            State::Depend => {
                if job.waits.is_empty() {
                    self.post(id, "depend", None);
                }
            }
            State::Priority => {
                let (pending, queued) = (job.alloc_pending, job.alloc_queued);
                if pending {
                    self.cancel_request(id);
                }
                if queued {
                    self.dequeue(id);
                }
            }
            State::Sched => {
                self.enqueue(id);
                self.recalc_pending();
            }
            State::Run => {
                if !job.started && !job.exec.active {
                    self.start(id);
                }
            }
            State::Cleanup => self.clean_up(id),
        }
    }

    fn clean_up(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        if job.alloc_pending {
            self.cancel_finally(id);
        }
        self.dequeue(id);
        let Some(job) = self.table.get(id) else { return };
        if job.exec.active {
            return;
        }
        if job.has_resources && !job.free_posted {
            if self.config.dialect.free_is_answered() {
                return self.ask_free(id);
            }
            self.release(id);
            return self.post(id, "free", None);
        }
        if !job.has_resources {
            self.post(id, "clean", None);
        }
    }

    /// Raises an exception (RFC 21).
    pub(super) fn raise(&mut self, id: JobId, kind: &str, severity: i64, userid: u32, note: &str) {
        let context = json!({ "type": kind, "severity": severity, "note": note, "userid": userid });
        self.post(id, "exception", self::context(context));
    }

    pub(super) fn set_priority(&mut self, id: JobId, priority: u32) {
        let Some(job) = self.table.get(id) else { return };
        let (old, queued, pending) = (job.priority, job.alloc_queued, job.alloc_pending);
        if old == priority {
            return;
        }
        self.alloc.reorder(id, old, priority, queued, pending);
        self.change(id, |job| job.priority = priority);
    }
}
