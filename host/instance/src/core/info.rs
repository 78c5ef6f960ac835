//! Lookup of jobs (RFC 41): jobspec, R, event log, and watching of the log.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;
use fluxgate_wire::{ReplyTo, errno};
use serde_json::{Map, Value, json};

use super::{Core, Handled, Reply, Request};
use crate::effect::ClientId;
use crate::fail::Fail;
use crate::fields::Fields;
use crate::job::{Job, State};
use crate::limits::WATCHERS_MAX;

/// Lookup flag: answer with JSON instead of its text.
const DECODE: u64 = 1;
/// Lookup flag: apply later updates.
const CURRENT: u64 = 2;

/// The watchers of each log.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    by_job: BTreeMap<JobId, Vec<(ClientId, ReplyTo)>>,
    count: usize,
}

impl Watchers {
    fn add(&mut self, id: JobId, client: ClientId, reply: ReplyTo) {
        self.by_job.entry(id).or_default().push((client, reply));
        self.count += 1;
    }

    fn retain(&mut self, keep: impl Fn(&(ClientId, ReplyTo)) -> bool) {
        self.by_job.retain(|_, watchers| {
            let before = watchers.len();
            watchers.retain(&keep);
            self.count -= before - watchers.len();
            !watchers.is_empty()
        });
    }

    /// A client disconnected.
    pub(super) fn disconnect(&mut self, client: ClientId) {
        self.retain(|(watcher, _)| *watcher != client);
    }
}

impl Core {
    pub(super) fn job_info(&mut self, method: &str, request: &Request) -> Handled {
        let fields = Fields::of(&request.payload)?;
        match method {
            "lookup" => self.lookup_job(request, fields),
            "eventlog-watch" => self.watch(request, fields),
            "eventlog-watch-cancel" => {
                let tag = fields.u64("matchtag")?;
                let mine = |reply: &ReplyTo| {
                    reply.sender() == request.message.sender() && u64::from(reply.matchtag()) == tag
                };
                let found = self.watchers.by_job.values().flatten().find(|(_, reply)| mine(reply)).cloned();
                if let Some((client, reply)) = found {
                    self.watchers.retain(|(_, reply)| !mine(reply));
                    self.reply_to(client, &reply, Err(Fail::new(errno::ENODATA, "")));
                }
                Ok(Reply::Later)
            }
            _ => Err(Fail::new(errno::ENOSYS, format!("job-info has no method '{method}'"))),
        }
    }

    fn known(&self, request: &Request, id: JobId) -> Result<&Job, Fail> {
        let job = self.table.get(id).ok_or_else(|| Fail::missing(format!("unknown job {id}")))?;
        request.authorize(job.userid, "look into")?;
        Ok(job)
    }

    fn lookup_job(&self, request: &Request, fields: Fields<'_>) -> Handled {
        let id = fields.id()?;
        let flags = fields.opt_u64("flags")?.unwrap_or(0);
        if flags & !(DECODE | CURRENT) != 0 {
            return Err(Fail::proto(format!("field 'flags' is {flags}, but 0 to 3 are accepted")));
        }
        let keys = fields.strings("keys")?;
        let job = self.known(request, id)?;
        let mut answer = Map::new();
        answer.insert("id".to_owned(), json!(id));
        for key in keys {
            let text = match key {
                "eventlog" => {
                    answer.insert(key.to_owned(), job.log.as_str().into());
                    continue;
                }
                "jobspec" => job.spec.text.to_string(),
                "R" => self.r_text(job, flags & CURRENT != 0).ok_or_else(|| no_key(id, key))?,
                other => {
                    let path = format!("{}.{other}", id.kvs_dir());
                    let value = self.kvs.get(&path).ok_or_else(|| no_key(id, other))?;
                    String::from_utf8_lossy(&value).into_owned()
                }
            };
            let value = if flags & DECODE != 0 {
                let wrong = |e| Fail::invalid(format!("'{key}' of job {id} is not JSON: {e}"));
                serde_json::from_str(&text).map_err(wrong)?
            } else {
                Value::String(text)
            };
            answer.insert(key.to_owned(), value);
        }
        Ok(Reply::Now(Some(Value::Object(answer))))
    }

    /// R as it was committed, or with later expirations applied (pitfall 5).
    fn r_text(&self, job: &Job, current: bool) -> Option<String> {
        let text = String::from_utf8_lossy(self.kvs.r_of(job.id)?).into_owned();
        let (Some(placed), true) = (&job.placed, current) else { return Some(text) };
        let mut value: Value = serde_json::from_str(&text).ok()?;
        if let Some(execution) = value.get_mut("execution").and_then(Value::as_object_mut) {
            execution.insert("expiration".to_owned(), placed.expiration.into());
        }
        Some(value.to_string())
    }

    fn watch(&mut self, request: &Request, fields: Fields<'_>) -> Handled {
        if !request.message.is_streaming() {
            return Err(Fail::proto("job-info.eventlog-watch must be sent with the streaming flag"));
        }
        let id = fields.id()?;
        let path = fields.opt_str("path")?.unwrap_or("eventlog");
        let job = self.known(request, id)?;
        if path != "eventlog" {
            return Err(Fail::missing(format!("field 'path': job {id} has no log '{path}'")));
        }
        if self.watchers.count >= WATCHERS_MAX {
            return Err(Fail::new(errno::EAGAIN, format!("more than {WATCHERS_MAX} watchers")));
        }
        let over = job.state == State::Inactive;
        let lines: Vec<String> = job.log.split_inclusive('\n').map(str::to_owned).collect();
        let reply = request.message.reply_to();
        for line in lines {
            self.reply_to(request.client, &reply, Ok(Some(json!({ "event": line }))));
        }
        if over {
            return Err(Fail::new(errno::ENODATA, ""));
        }
        self.watchers.add(id, request.client, reply);
        Ok(Reply::Later)
    }

    /// An event was appended to a log.
    pub(super) fn notify_watchers(&mut self, id: JobId, line: &str, last: bool) {
        let Some(watchers) = self.watchers.by_job.get(&id).cloned() else { return };
        for (client, reply) in &watchers {
            self.reply_to(*client, reply, Ok(Some(json!({ "event": line }))));
            if last {
                self.reply_to(*client, reply, Err(Fail::new(errno::ENODATA, "")));
            }
        }
        if last {
            self.watchers.by_job.remove(&id);
            self.watchers.count -= watchers.len();
        }
    }
}

fn no_key(id: JobId, key: &str) -> Fail {
    Fail::missing(format!("job {id} has no '{key}'"))
}
