//! Services of a broker itself: services, attributes, log, and the methods of this instance alone.

use fluxgate_wire::errno;
use serde_json::{Map, Value, json};

use super::{Core, Handled, Reply, Request};
use crate::effect::{Effect, Record};
use crate::fail::Fail;
use crate::fields::Fields;
use crate::job::State;
use crate::limits::NOTE_LEN_MAX;

/// The version of flux-core whose protocol this is.
const FLUX_VERSION: &str = "0.88.0";

impl Core {
    pub(super) fn system_service(&mut self, service: &str, method: &str, request: &Request) -> Handled {
        if service == "log" {
            return self.log(request);
        }
        let fields = Fields::of(&request.payload)?;
        match (service, method) {
            ("service", "add") => {
                let name = fields.str("service")?;
                self.router.add_service(request.client, name)?;
                if name == "sched" {
                    self.records.push(Record::Count("scheduler_connections"));
                }
                Ok(Reply::Now(None))
            }
            ("service", "remove") => {
                self.router.remove_service(request.client, fields.str("service")?)?;
                Ok(Reply::Now(None))
            }
            // No events are published; a subscriber receives none, as in an idle broker.
            ("event", "subscribe" | "unsubscribe") => {
                fields.str("topic")?;
                Ok(Reply::Now(None))
            }
            ("attr", "get") => {
                let name = fields.str("name")?;
                let value = self.attribute(name);
                let value = value.ok_or_else(|| Fail::missing(format!("no attribute '{name}'")))?;
                Ok(Reply::Now(Some(json!({ "value": value, "flags": 1 }))))
            }
            ("config", "get") => Ok(Reply::Now(Some(self.config.full_document()))),
            ("broker", "ping") => {
                let mut answer = request.payload.as_object().cloned().unwrap_or_default();
                answer.insert("userid".into(), request.message.userid.into());
                answer.insert("rolemask".into(), request.message.rolemask.into());
                answer.insert("rank".into(), 0.into());
                Ok(Reply::Now(Some(Value::Object(answer))))
            }
            ("fluxgate-instance", "info") => Ok(Reply::Now(Some(self.info()))),
            ("fluxgate-instance", "audit") => {
                let active = self.table.pending().chain(self.table.running()).map(|job| job.id).collect();
                let reply = Box::new(request.message.reply_to());
                let machine = Box::new(self.inventory.r().clone());
                self.effects.push(Effect::Audit { client: request.client, reply, active, machine });
                Ok(Reply::Later)
            }
            ("fluxgate-instance", "shutdown") => {
                self.reply(request.client, &request.message, Ok(None));
                self.shutdown();
                Ok(Reply::Later)
            }
            _ => {
                let text = if crate::router::INTERNAL.contains(&service) {
                    format!("service '{service}' has no method '{method}'")
                } else {
                    format!("there is no service '{service}'")
                };
                Err(Fail::new(errno::ENOSYS, text))
            }
        }
    }

    /// The result of an audit has arrived.
    pub(crate) fn audited(
        &mut self,
        client: crate::effect::ClientId,
        reply: &fluxgate_wire::ReplyTo,
        answer: Result<Value, String>,
    ) {
        let answer = match answer {
            Ok(Value::Object(mut report)) => {
                report.insert("now".into(), self.now.into());
                Ok(Some(Value::Object(report)))
            }
            Ok(other) => Ok(Some(other)),
            Err(text) => Err(Fail::new(errno::EIO, text)),
        };
        self.reply_to(client, reply, answer);
    }

    fn attribute(&self, name: &str) -> Option<String> {
        Some(match name {
            "rank" | "tbon.level" => "0".to_owned(),
            "size" => self.inventory.ranks().len().to_string(),
            "version" => FLUX_VERSION.to_owned(),
            "instance-level" => "0".to_owned(),
            "hostlist" => self.inventory.r().nodelist.to_string(),
            "broker.starttime" => self.started_at.to_string(),
            "broker.pid" => std::process::id().to_string(),
            "local-uri" => self.uri.clone(),
            "security.owner" => self.owner.to_string(),
            _ => return None,
        })
    }

    fn info(&self) -> Value {
        let r = self.inventory.r();
        let services: Map<String, Value> =
            self.router.services().map(|(name, client)| (name.to_owned(), client.0.into())).collect();
        json!({
            "now": self.now,
            "speed": self.config.speed,
            "nodes": self.inventory.ranks().len(),
            "cores": r.count("core"),
            "gpus": r.count("gpu"),
            "version": env!("CARGO_PKG_VERSION"),
            "dialect": self.config.dialect.name(),
            "owner": self.owner,
            "pid": std::process::id(),
            "uri": self.uri,
            "dir": self.config.dir.display().to_string(),
            "scheduler": if self.alloc.online() { "online" } else { "offline" },
            "services": services,
            "pending": self.table.count(State::Depend)
                + self.table.count(State::Priority)
                + self.table.count(State::Sched),
            "running": self.table.count(State::Run),
            "jobs": self.job_stats(),
        })
    }

    /// `log.append`: `<PRI>1 TIME RANK NAME - - - text`, where Flux writes the severity times 8 into PRI.
    fn log(&self, request: &Request) -> Handled {
        if request.message.topic() != "log.append" {
            let text = format!("'{}' is not offered", request.message.topic());
            return Err(Fail::new(errno::ENOSYS, text));
        }
        let bytes = request.message.payload_bytes().unwrap_or(&[]);
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(NOTE_LEN_MAX)]);
        let severity = text
            .strip_prefix('<')
            .and_then(|rest| rest.split_once('>'))
            .and_then(|(number, _)| number.parse::<u32>().ok())
            .map_or(6, |pri| pri / 8);
        let words = text.splitn(8, ' ').last().unwrap_or("");
        match severity {
            0..=3 => tracing::error!(target: "broker", "{words}"),
            4 => tracing::warn!(target: "broker", "{words}"),
            5 | 6 => tracing::info!(target: "broker", "{words}"),
            _ => tracing::debug!(target: "broker", "{words}"),
        }
        Ok(Reply::Now(None))
    }
}
