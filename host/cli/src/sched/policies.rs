//! Policies on request: load, swap, roll back, show.
//!
//! Who decides is in [`super::roster`]; how a swap goes is the engine's matter.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use fluxgate_policy::{Compiled, Config};
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Map, Value};

use super::control::{Answer, text};
use super::reload::Reload;
use super::roster::By;
use super::{Scheduler, Waiting};

/// Most components that are compiled at a time for `policy-load`.
const LOADS_MAX: usize = 4;

/// Components that were compiled beside the scheduler.
pub(crate) enum Loaded {
    /// For a request to load one.
    Policy { request: Box<ControlRequest>, path: PathBuf, config: Config, compiled: Result<Compiled> },
    /// For changed settings.
    Reload(Box<Reload>, Result<Option<(PathBuf, Compiled)>>),
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
        let cost = self.engine.as_ref().map(fluxgate_engine::Engine::policy_cost).unwrap_or_default();
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
        };
        self.loading -= 1;
        let added = compiled.and_then(|compiled| {
            self.roster.add(compiled, config, &path).with_context(|| path.display().to_string())
        });
        match added.and_then(|name| self.roster.show(&name, Default::default())) {
            Ok(shown) => {
                tracing::info!(name = %shown["name"], digest = %shown["digest"], "policy loaded");
                self.send(request.ok(&shown));
            }
            Err(error) => self.send(request.error(errno::EINVAL, &format!("{error:#}"))),
        }
    }

    pub(super) fn policy_swap(&mut self, request: &ControlRequest) -> Result<Answer> {
        let choice = self.roster.get(text(&request.payload, "name")?)?;
        self.give_way();
        let request = Some(request.clone());
        self.begin_swap(Waiting { choice, request, remember: true, reload: None, by: By::Person })?;
        Ok(Answer::Later)
    }

    pub(super) fn policy_rollback(&mut self, request: &ControlRequest) -> Result<Answer> {
        self.give_way();
        let choice = self
            .roster
            .previous(self.clock.now())
            .ok_or_else(|| anyhow!("there is no policy to go back to"))?;
        let (request, remember) = (Some(request.clone()), false);
        let waiting = Waiting { choice: choice.clone(), request, remember, reload: None, by: By::Person };
        if let Err(error) = self.begin_swap(waiting) {
            self.roster.keep(choice);
            return Err(error);
        }
        Ok(Answer::Later)
    }
}
