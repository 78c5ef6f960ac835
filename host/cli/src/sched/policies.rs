//! Policies on request: load, swap, roll back, show.
//!
//! Who decides is in [`super::roster`]; how a swap goes is the engine's matter.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fluxgate_engine::Forecast;
use fluxgate_formats::JobId;
use fluxgate_policy::{Compiled, Config};
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Map, Value, json};

use super::control::{Answer, text};
use super::queues::queue;
use super::reload::Reload;
use super::roster::By;
use super::{Scheduler, Waiting};

/// Most components that are compiled at a time for `policy-load`.
const LOADS_MAX: usize = 4;

/// Longest probation in seconds: a year.
const PROBATION_MAX: f64 = 366.0 * 86_400.0;

/// Components of changed settings: of the default policy, if it is to be another one, and of queues; without one, it is
/// the built-in policy or none of its own.
pub(crate) struct Components {
    pub(crate) default: Option<(PathBuf, Compiled)>,
    pub(crate) queues: Vec<(String, Option<(PathBuf, Compiled)>)>,
}

/// Work that was done beside the scheduler.
pub(crate) enum Loaded {
    /// What a shadow answers.
    Shadow(Box<ControlRequest>, Result<Value, (i32, String)>),
    /// For a request to load one.
    Policy { request: Box<ControlRequest>, path: PathBuf, config: Config, compiled: Result<Compiled> },
    /// For changed settings.
    Reload(Box<Reload>, Result<Components>),
    /// When waiting jobs are expected to start.
    Forecast { took: Duration, forecasts: Vec<Forecast> },
}

fn config(payload: &Value) -> Result<Config> {
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

impl Scheduler {
    pub(super) fn policy_show(&self, payload: &Value) -> Result<Value> {
        let cost = self.engine.as_ref().map(|e| e.policy_cost()).unwrap_or_default();
        self.roster.show(text(payload, "name")?, cost)
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
        let (shelf, done, request) = (self.shelf.clone(), self.loaded.clone(), request.clone());
        tokio::task::spawn_blocking(move || {
            let compiled = shelf.compile(&path.to_string_lossy());
            // Without a receiver the scheduler is gone, and so is whoever asked.
            let _ = done.send(Loaded::Policy { request: Box::new(request), path, config, compiled });
        });
        Ok(Answer::Later)
    }

    /// A component is there.
    pub(super) fn finish_load(&mut self, loaded: Loaded) {
        let (request, path, config, compiled) = match loaded {
            Loaded::Policy { request, path, config, compiled } => (request, path, config, compiled),
            Loaded::Reload(reload, compiled) => return self.finish_reload(*reload, compiled),
            Loaded::Forecast { took, forecasts } => return self.tell_expected(took, &forecasts),
            Loaded::Shadow(request, Ok(found)) => return self.send(request.ok(&found)),
            Loaded::Shadow(request, Err((errnum, why))) => return self.send(request.error(errnum, &why)),
        };
        self.loading -= 1;
        let added = compiled.and_then(|compiled| {
            self.roster.add(compiled, config, &path).with_context(|| path.display().to_string())
        });
        match added.and_then(|name| self.roster.show(&name, Default::default())) {
            Ok(shown) => {
                tracing::info!(name = %shown["name"], digest = %shown["digest"], "policy loaded");
                self.record(
                    "load",
                    Some(&*request),
                    None,
                    shown["name"].as_str().unwrap_or_default(),
                    Ok(()),
                );
                self.send(request.ok(&shown));
            }
            Err(error) => {
                let reason = format!("{error:#}");
                self.record("load", Some(&*request), None, &path.to_string_lossy(), Err(&reason));
                self.send(request.error(errno::EINVAL, &reason));
            }
        }
    }

    pub(super) fn policy_swap(&mut self, request: &ControlRequest) -> Result<Answer> {
        let payload = &request.payload;
        let (name, probation) = (text(payload, "name")?, probation(payload)?);
        if let Some(queue) = queue(payload)? {
            return self.policy_swap_queue(request, queue, name, probation);
        }
        let (choice, before) = match &payload["config"] {
            Value::Null => (self.roster.get(name)?, None),
            _ => {
                let before = self.roster.get(name)?;
                (self.roster.configured(&before, config(payload)?)?, Some(before))
            }
        };
        self.give_way(None);
        let request = Some(request.clone());
        let put_back = before.clone();
        let waiting = Waiting { request, probation, before, ..Waiting::new(choice, By::Person) };
        self.begin_swap(waiting).inspect_err(|_| self.roster.put_back(put_back))?;
        Ok(Answer::Later)
    }

    /// A policy of its own for one queue.
    fn policy_swap_queue(
        &mut self,
        request: &ControlRequest,
        queue: &str,
        name: &str,
        probation: Option<f64>,
    ) -> Result<Answer> {
        let known = self.roster.get(name)?;
        let choice = match &request.payload["config"] {
            Value::Null => known,
            _ => self.roster.variant(&known, config(&request.payload)?)?,
        };
        if !self.queue_is_there(queue, request)? {
            return Ok(Answer::Later);
        }
        self.give_way(Some(queue));
        let waiting = Waiting::new(choice, By::Person).at(Some(queue));
        self.begin_swap(Waiting { request: Some(request.clone()), probation, ..waiting })?;
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
        let choice = self.roster.at(queue).previous(self.clock.now());
        let choice = choice.ok_or_else(|| match queue {
            None => anyhow!("there is no policy to go back to"),
            Some(queue) => anyhow!("queue {queue}: there is no policy to go back to"),
        })?;
        let request = Some(request.clone());
        let waiting = Waiting::new(choice.clone(), By::Person).at(queue);
        let begun = self.begin_swap(Waiting { request, remember: false, ..waiting });
        begun.inspect_err(|_| self.roster.at(queue).keep(choice))?;
        Ok(Answer::Later)
    }

    /// Begin or end a shadow.
    pub(super) fn policy_shadow(&mut self, request: &ControlRequest) -> Result<Answer> {
        let (name, queue) = (text(&request.payload, "name")?, queue(&request.payload)?);
        let stop = request.payload["stop"] == true;
        if stop {
            self.shadows.stop(name, queue)?;
        } else {
            let choice = self.roster.get(name)?;
            if let Some(queue) = queue
                && !self.queue_is_there(queue, request)?
            {
                return Ok(Answer::Later);
            }
            let engine = self.engine.as_ref().ok_or_else(|| anyhow!("the scheduler is still starting"))?;
            self.shadows.begin(choice, queue, engine, self.clock.now(), self.loaded.clone())?;
            tracing::info!(policy = name, queue, "shadow follows");
        }
        Ok(Answer::Now(json!({"name": name, "queue": queue, "stopped": stop})))
    }

    /// What a shadow found; its thread answers.
    pub(super) fn policy_diff(&mut self, request: &ControlRequest) -> Result<Answer> {
        let job = match &request.payload["job"] {
            Value::Null => None,
            job => Some(JobId(job.as_u64().ok_or_else(|| anyhow!("job: expected a job id"))?)),
        };
        let (name, queue) = (text(&request.payload, "name")?, queue(&request.payload)?);
        self.shadows.ask(name, queue, job, request, &self.in_force.settings.guard)?;
        Ok(Answer::Later)
    }

    /// Let a shadow decide, if its gate holds.
    pub(super) fn policy_promote(&mut self, request: &ControlRequest) -> Result<Answer> {
        let payload = &request.payload;
        let (name, probation, force) =
            (text(payload, "name")?, probation(payload)?, payload["force"] == true);
        let guard = &self.in_force.settings.guard;
        let (choice, queue) = self.shadows.promote(name, queue(payload)?, force, guard)?;
        self.give_way(queue.as_deref());
        let request = Some(request.clone());
        let waiting = Waiting::new(choice, By::Person).at(queue.as_deref());
        self.begin_swap(Waiting { request, probation, promoted: true, ..waiting })?;
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
