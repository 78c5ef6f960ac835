//! The resource service (RFC 28): acquisition, drains, nodes that go down and come up.

use std::collections::BTreeMap;

use fluxgate_formats::Idset;
use fluxgate_wire::errno;
use serde_json::{Value, json};

use super::{Core, Handled, Reply, Request};
use crate::effect::Record;
use crate::fail::Fail;
use crate::fields::Fields;
use crate::inventory::{Drain, DrainMode};
use crate::limits::NAME_LEN_MAX;

/// Characters that a property name must not contain (RFC 20).
const PROPERTY_FORBIDDEN: &str = "!&'\"^`|()";

impl Core {
    pub(super) fn resource_service(&mut self, method: &str, request: &Request) -> Handled {
        let fields = Fields::of(&request.payload)?;
        match method {
            "acquire" => self.acquire(request),
            "acquire-cancel" => {
                let tag = fields.u64("matchtag")?;
                let mine = |(_, reply): &(_, fluxgate_wire::ReplyTo)| {
                    u64::from(reply.matchtag()) == tag && reply.sender() == request.message.sender()
                };
                if self.acquired.as_ref().is_some_and(mine) {
                    self.end_acquisition("the acquisition was canceled");
                }
                Ok(Reply::Later)
            }
            "drain" => {
                let ranks = self.inventory.targets(fields.str("targets")?)?;
                let mode = match (fields.opt_str("mode")?, fields.opt_int("overwrite", 0, 2)?) {
                    (None, None | Some(0)) => DrainMode::Refuse,
                    (Some("update"), _) => DrainMode::Update,
                    (Some("overwrite"), _) | (None, Some(1)) => DrainMode::Overwrite,
                    (Some("force-overwrite"), _) | (None, _) => DrainMode::ForceOverwrite,
                    (Some(other), _) => {
                        return Err(Fail::invalid(format!(
                            "field 'mode' is '{other}', but update, overwrite and force-overwrite are accepted"
                        )));
                    }
                };
                let reason = fields.opt_str("reason")?.unwrap_or("");
                self.inventory.drain(&ranks, self.now, reason, mode)?;
                self.drains_changed(&ranks);
                Ok(Reply::Now(None))
            }
            "undrain" => {
                let ranks = self.inventory.targets(fields.str("targets")?)?;
                self.inventory.undrain(&ranks, fields.opt_str("mode")? == Some("force"))?;
                self.drains_changed(&ranks);
                Ok(Reply::Now(None))
            }
            "status" => Ok(Reply::Now(Some(self.inventory.status()))),
            "sched-status" => {
                let mut all = self.inventory.r().clone();
                all.expiration = 0.0;
                Ok(Reply::Now(Some(json!({
                    "all": all.to_value(),
                    "down": self.inventory.on_ranks(&self.inventory.down()).to_value(),
                    "allocated": self.allocated().to_value(),
                }))))
            }
            "monitor-force-down" => {
                let ranks = self.known_ranks(fields)?;
                self.nodes_down(&ranks, fields.opt_bool("shrink")?.unwrap_or(false));
                Ok(Reply::Now(None))
            }
            "monitor-force-up" => {
                let ranks = self.known_ranks(fields)?;
                self.nodes_up(&ranks);
                Ok(Reply::Now(None))
            }
            "property-add" | "property-remove" => self.change_property(method, fields),
            "expiration-update" => {
                let expiration = fields.f64("expiration")?;
                if expiration < 0.0 {
                    return Err(Fail::invalid("field 'expiration' must not be negative"));
                }
                self.set_instance_expiration(expiration);
                Ok(Reply::Now(None))
            }
            "reload" if self.acquired.is_some() => {
                Err(Fail::new(errno::EBUSY, "the scheduler must be unloaded before resources are reloaded"))
            }
            _ => Err(Fail::new(errno::ENOSYS, format!("the resource service has no method '{method}'"))),
        }
    }

    /// Changes properties of ranks while they are acquired (R28-UPD-4; flux-core 0.88 never sends these).
    fn change_property(&mut self, method: &str, fields: Fields<'_>) -> Handled {
        let name = fields.str("name")?;
        let plain = |c: char| !c.is_whitespace() && !c.is_control() && !PROPERTY_FORBIDDEN.contains(c);
        if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(plain) {
            return Err(Fail::invalid(format!("field 'name': '{name}' is not the name of a property")));
        }
        let ranks = self.known_ranks(fields)?;
        let (changed, has) = self.inventory.set_property(name, &ranks, method == "property-add");
        if !changed.is_empty() {
            let value = Some(has.to_string());
            self.records.push(Record::Fact { name: format!("property.{name}"), value });
            if let Some((client, reply)) = self.acquired.clone() {
                let update = json!({ method: { name: changed.to_string() } });
                self.reply_to(client, &reply, Ok(Some(update)));
            }
        }
        Ok(Reply::Now(None))
    }

    fn known_ranks(&self, fields: Fields<'_>) -> Result<Idset, Fail> {
        let ranks = fields.opt_idset("ranks")?;
        let ranks = ranks.ok_or_else(|| Fail::proto("field 'ranks' is missing (an idset is expected)"))?;
        let unknown = ranks.difference(self.inventory.ranks());
        if unknown.is_empty() {
            return Ok(ranks);
        }
        Err(Fail::invalid(format!("field 'ranks': there is no rank {unknown}")))
    }

    fn acquire(&mut self, request: &Request) -> Handled {
        if !request.message.is_streaming() {
            return Err(Fail::proto("resource.acquire must be sent with the streaming flag"));
        }
        if self.acquired.is_some() {
            return Err(Fail::new(errno::EBUSY, "the resources are acquired by another scheduler"));
        }
        self.acquired = Some((request.client, request.message.reply_to()));
        Ok(Reply::Now(Some(self.inventory.acquire())))
    }

    /// Ends the stream of the client that acquired the resources.
    pub(super) fn end_acquisition(&mut self, why: &str) {
        if let Some((client, reply)) = self.acquired.take() {
            self.reply_to(client, &reply, Err(Fail::new(errno::ECANCELED, why)));
        }
    }

    fn publish_resources(&mut self) {
        let Some((client, reply)) = self.acquired.clone() else { return };
        if let Some(update) = self.inventory.update(self.config.dialect) {
            self.reply_to(client, &reply, Ok(Some(update)));
        }
    }

    fn drains_changed(&mut self, ranks: &Idset) {
        for rank in ranks.iter() {
            let drain = self.inventory.drained().get(&rank);
            let value = drain.map(|d| json!({ "timestamp": d.timestamp, "reason": d.reason }).to_string());
            self.records.push(Record::Fact { name: format!("drain.{rank}"), value });
        }
        self.publish_resources();
    }

    /// Restores drains and properties from the database.
    pub(super) fn restore_resources(&mut self, facts: &BTreeMap<String, String>) {
        for (name, text) in facts {
            if let (Some(property), Ok(ranks)) = (name.strip_prefix("property."), Idset::parse(text)) {
                let all = self.inventory.ranks().clone();
                self.inventory.set_property(property, &all, false);
                self.inventory.set_property(property, &ranks, true);
                continue;
            }
            let Some(rank) = name.strip_prefix("drain.").and_then(|rank| rank.parse().ok()) else { continue };
            let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
            let timestamp = value["timestamp"].as_f64().unwrap_or(0.0);
            let reason = value["reason"].as_str().unwrap_or("").to_owned();
            self.inventory.restore_drain(rank, Drain { timestamp, reason });
        }
    }

    /// Nodes went down.
    pub(crate) fn nodes_down(&mut self, ranks: &Idset, lost: bool) {
        self.inventory.offline(ranks, lost);
        self.publish_resources();
    }

    /// Nodes came up.
    pub(crate) fn nodes_up(&mut self, ranks: &Idset) {
        self.inventory.online(ranks);
        self.publish_resources();
    }

    fn set_instance_expiration(&mut self, expiration: f64) {
        let old = self.inventory.expiration();
        if (old - expiration).abs() < 1e-5 {
            return;
        }
        self.inventory.set_expiration(expiration);
        let value = Some(expiration.to_string());
        self.records.push(Record::Fact { name: "expiration".into(), value });
        if let Some((client, reply)) = self.acquired.clone() {
            self.reply_to(client, &reply, Ok(Some(json!({ "expiration": expiration }))));
        }
        self.follow_instance_expiration();
    }
}
