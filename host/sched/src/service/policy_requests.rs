//! Requests about policies: load, swap, roll back, show, shadow, promote.
//!
//! Which policy decides is in [`crate::registry`]; how a swap goes is in [`super::swapping`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_formats::JobId;
use fluxgate_policy::{Compiled, Config};
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Map, Value, json};

use super::Service;
use super::control::{Answer, text};
use super::queues::queue;
use crate::components::Components;
use crate::pending_swap::PendingSwap;
use crate::policy_choice::Origin;

/// Most components that are compiled at a time for `policy-load`.
pub(super) const LOADS_MAX: usize = 4;

/// Longest probation in seconds: a year.
const PROBATION_MAX: f64 = 366.0 * 86_400.0;

pub(super) fn config(payload: &Value) -> Result<Config> {
    let empty = Map::new();
    let object = match &payload["config"] {
        Value::Null => &empty,
        Value::Object(object) => object,
        _ => return Err(anyhow!("config: expected an object")),
    };
    object
        .iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            Value::Bool(_) | Value::Number(_) => Ok((key.clone(), value.to_string())),
            _ => Err(anyhow!("config.{key}: expected a string, a number or a boolean")),
        })
        .collect()
}

impl Service {
    pub(super) fn policy_show(&self, payload: &Value) -> Result<Value> {
        let cost = self.engine.as_ref().map(|e| e.policy_cost()).unwrap_or_default();
        self.registry.show(text(payload, "name")?, cost)
    }

    /// Compile beside the scheduler: a large component takes seconds, and jobs do not wait for it.
    pub(super) fn policy_load(&mut self, request: &ControlRequest) -> Result<Answer> {
        let path = PathBuf::from(text(&request.payload, "path")?);
        let config = config(&request.payload)?;
        if !path.is_absolute() {
            return Err(anyhow!("path: expected an absolute path, found {}", path.display()));
        }
        if self.loading >= LOADS_MAX {
            return Err(anyhow!("{LOADS_MAX} policies are being loaded already; try again when they are"));
        }
        self.loading += 1;
        let (components, request) = (Arc::clone(&self.components), request.clone());
        self.start_work(
            "compile",
            move |_| (components.compile(&path.to_string_lossy()), path, components),
            move |service, (compiled, path, components)| {
                service.compiled(&request, &path, config, (&components, compiled));
            },
        );
        Ok(Answer::Later)
    }

    /// Forget a loaded policy that decides nowhere.
    pub(super) fn policy_unload(&mut self, request: &ControlRequest) -> Result<Value> {
        let name = text(&request.payload, "name")?;
        let wanted = |swap: &&PendingSwap| {
            swap.choice.name() == name || swap.before.as_ref().is_some_and(|before| before.name() == name)
        };
        if self.swaps.values().any(|swap| wanted(&swap)) || self.reloading {
            return Err(anyhow!("a swap is on its way; try again when it is done"));
        }
        if self.shadows.follows(name) {
            return Err(anyhow!("{name} is a shadow; end that first: fluxgate policy shadow {name} --stop"));
        }
        self.registry.unload(name)?;
        self.first_queues.retain(|(_, choice)| choice.name() != name);
        self.record("unload", Some(request), None, name, Ok(()));
        Ok(json!({ "name": name }))
    }

    /// The component of a request to load one is compiled, or cannot be had.
    fn compiled(
        &mut self,
        request: &ControlRequest,
        path: &Path,
        config: Config,
        (components, compiled): (&Arc<dyn Components>, Result<Compiled>),
    ) {
        self.loading -= 1;
        let added = compiled.and_then(|compiled| {
            if !Arc::ptr_eq(components, &self.components) {
                bail!("{}: the rules of the site changed meanwhile; try again", path.display());
            }
            self.registry.add(compiled, config, path).with_context(|| path.display().to_string())
        });
        match added.and_then(|name| self.registry.show(&name, Default::default())) {
            Ok(shown) => {
                fluxgate_log::log!(PolicyLoaded, name = %shown["name"], digest = %shown["digest"], "policy loaded");
                let name = shown["name"].as_str().unwrap_or_default();
                self.record("load", Some(request), None, name, Ok(()));
                self.send(request.ok(&shown));
            }
            Err(error) => {
                let reason = format!("{error:#}");
                self.record("load", Some(request), None, &path.to_string_lossy(), Err(&reason));
                self.send(request.error(errno::EINVAL, &reason));
            }
        }
    }

    pub(super) fn policy_swap(&mut self, request: &ControlRequest) -> Result<Answer> {
        let payload = &request.payload;
        let (name, probation) = (text(payload, "name")?, probation(payload)?);
        if payload["dry_run"] == true {
            return self.would_swap(request, name);
        }
        if let Some(queue) = queue(payload)? {
            return self.policy_swap_queue(request, queue, name, probation);
        }
        let (choice, before) = match &payload["config"] {
            Value::Null => (self.registry.get(name)?, None),
            _ => {
                let before = self.registry.get(name)?;
                (self.registry.configured(&before, config(payload)?)?, Some(before))
            }
        };
        self.give_way(None);
        let request = Some(request.clone());
        let put_back = before.clone();
        let swap = PendingSwap { request, probation, before, ..PendingSwap::new(choice, Origin::Person) };
        self.begin_swap(swap).inspect_err(|_| self.registry.put_back(put_back))?;
        Ok(Answer::Later)
    }

    /// Answers what a swap would do, with all checks of one; nothing changes.
    fn would_swap(&mut self, request: &ControlRequest, name: &str) -> Result<Answer> {
        let queue = queue(&request.payload)?;
        let known = self.registry.get(name)?;
        let choice = match &request.payload["config"] {
            Value::Null => known,
            _ => self.registry.variant(&known, config(&request.payload)?)?,
        };
        if let Some(queue) = queue
            && !self.queue_is_there(queue, request)?
        {
            return Ok(Answer::Later);
        }
        if let Some(reason) = self.registry.refusal(&choice) {
            bail!("{name}: the rules of the site refuse it: {reason}");
        }
        if let Some(swap) = self.swaps.get(&queue.map(str::to_owned)) {
            bail!("a swap to {} is on its way; try again", swap.choice.name());
        }
        let successor = choice.instantiate()?;
        let engine = self.engine.as_ref().ok_or_else(|| anyhow!("the scheduler is still starting"))?;
        let default = engine.policy_name().to_owned();
        let from = queue.and_then(|queue| engine.queue_policy(queue)).unwrap_or(&default).to_owned();
        let decided = engine.queues().filter(|of| match queue {
            Some(queue) => of.queue == queue,
            None => !of.own,
        });
        let (queues, waiting): (Vec<String>, Vec<usize>) =
            decided.map(|of| (of.queue.to_owned(), of.pending)).unzip();
        Ok(Answer::Now(json!({
            "dry_run": true, "from": from, "to": name, "queue": queue, "queues": queues,
            "waiting": waiting.iter().sum::<usize>(), "state": successor.abilities().state,
        })))
    }

    /// A policy of its own for one queue.
    fn policy_swap_queue(
        &mut self,
        request: &ControlRequest,
        queue: &str,
        name: &str,
        probation: Option<f64>,
    ) -> Result<Answer> {
        let known = self.registry.get(name)?;
        let choice = match &request.payload["config"] {
            Value::Null => known,
            _ => self.registry.variant(&known, config(&request.payload)?)?,
        };
        if !self.queue_is_there(queue, request)? {
            return Ok(Answer::Later);
        }
        self.give_way(Some(queue));
        let swap = PendingSwap::new(choice, Origin::Person).at(Some(queue));
        self.begin_swap(PendingSwap { request: Some(request.clone()), probation, ..swap })?;
        Ok(Answer::Later)
    }

    pub(super) fn policy_rollback(&mut self, request: &ControlRequest) -> Result<Answer> {
        let queue = queue(&request.payload)?;
        if let Some(queue) = queue
            && !self.queue_is_there(queue, request)?
        {
            return Ok(Answer::Later);
        }
        self.give_way(queue);
        let choice = self.registry.at(queue).previous(self.host.now());
        let choice = choice.ok_or_else(|| match queue {
            None => anyhow!("there is no policy to go back to"),
            Some(queue) => anyhow!("queue {queue}: there is no policy to go back to"),
        })?;
        let request = Some(request.clone());
        let swap = PendingSwap::new(choice.clone(), Origin::Person).at(queue);
        let begun = self.begin_swap(PendingSwap { request, remember: false, ..swap });
        begun.inspect_err(|_| self.registry.at(queue).keep(choice))?;
        Ok(Answer::Later)
    }

    /// Begin or end a shadow.
    pub(super) fn policy_shadow(&mut self, request: &ControlRequest) -> Result<Answer> {
        let (name, queue) = (text(&request.payload, "name")?, queue(&request.payload)?);
        let stop = request.payload["stop"] == true;
        if stop {
            self.shadows.stop(name, queue)?;
            self.promotions.retain(|plan| !plan.is_of(name, queue));
        } else {
            let choice = self.registry.get(name)?;
            if let Some(queue) = queue
                && !self.queue_is_there(queue, request)?
            {
                return Ok(Answer::Later);
            }
            let engine = self.engine.as_ref().ok_or_else(|| anyhow!("the scheduler is still starting"))?;
            self.shadows.begin(choice, queue, engine, self.host.now())?;
            fluxgate_log::log!(ShadowFollows, policy = name, queue, "shadow follows");
        }
        self.record(if stop { "shadow-stop" } else { "shadow" }, Some(request), queue, name, Ok(()));
        Ok(Answer::Now(json!({"name": name, "queue": queue, "stopped": stop})))
    }

    /// The results of a shadow. The shadow answers itself, when it has followed so far.
    pub(super) fn policy_diff(&mut self, request: &ControlRequest) -> Result<Answer> {
        let job = match &request.payload["job"] {
            Value::Null => None,
            job => Some(JobId(job.as_u64().ok_or_else(|| anyhow!("job: expected a job id"))?)),
        };
        let (name, queue) = (text(&request.payload, "name")?, queue(&request.payload)?);
        self.shadows.ask(name, queue, job, request, &self.configuration.settings.guard)?;
        Ok(Answer::Later)
    }

    /// Let a shadow decide, if its gate holds.
    pub(super) fn policy_promote(&mut self, request: &ControlRequest) -> Result<Answer> {
        let payload = &request.payload;
        let (name, probation, force) =
            (text(payload, "name")?, probation(payload)?, payload["force"] == true);
        if let Some(planned) = self.plan_promotion(request, (name, queue(payload)?), probation)? {
            return Ok(Answer::Now(planned));
        }
        let guard = &self.configuration.settings.guard;
        let (choice, queue) = self.shadows.promote(name, queue(payload)?, force, guard)?;
        self.drop_promotion(name, queue.as_deref());
        self.give_way(queue.as_deref());
        let request = Some(request.clone());
        let swap = PendingSwap::new(choice, Origin::Person).at(queue.as_deref());
        self.begin_swap(PendingSwap { request, probation, promoted: true, ..swap })?;
        Ok(Answer::Later)
    }
}

/// Seconds on probation, if it was asked for.
fn probation(payload: &Value) -> Result<Option<f64>> {
    match &payload["probation"] {
        Value::Null => Ok(None),
        value => match value.as_f64() {
            Some(length) if length > 0.0 && length <= PROBATION_MAX => Ok(Some(length)),
            _ => Err(anyhow!(
                "probation: expected seconds, above 0 and at most {PROBATION_MAX}, found {value}"
            )),
        },
    }
}
