//! `when` under another policy than the one that decides: one that is loaded, or a component that is compiled for the question.
//!
//! It runs on the copy that questions are answered on, in the sandbox and under the rules of the site as any component. A compiled
//! one is not loaded: it cannot be swapped in, and no list has it. Only the owner may ask, as only the owner may load. Answers
//! take at most a second a minute; compiling is bounded as that for `policy-load`.
//!
//! Must never let anything of it reach the engine.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::{Anew, Policy as _, Questions, TrialError};
use fluxgate_formats::Jobspec;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Value, json};

use super::Service;
use super::control::Answer;
use super::policy_requests::{LOADS_MAX, config};
use super::questions::{Asked, Question, in_time};
use crate::answers::{self, Asker};
use crate::policy_choice::PolicyChoice;

/// A guest, or an administrator who is not the owner, wants a policy to run.
#[derive(Debug, thiserror::Error)]
#[error("policy: only the owner of the instance may have another policy answer")]
pub(super) struct OwnerOnly;

/// Another policy.
pub(crate) struct Other {
    name: String,
    anew: Anew,
}

impl Other {
    /// The answers to `when`. `spent` tells how long they have taken so far.
    pub(crate) fn when(
        &self,
        of: &Questions,
        asker: &Asker,
        (jobs, priority): (&[Jobspec], Option<u32>),
        spent: &dyn Fn() -> Duration,
        enough: &mut dyn FnMut() -> bool,
    ) -> Result<Value> {
        let (priority, source) = of.priority(asker.userid, priority);
        let mut rows = Vec::new();
        for job in jobs {
            in_time(rows.len(), jobs.len(), spent()).with_context(|| self.name.clone())?;
            rows.push(match of.when_under(job, asker.userid, priority, &self.anew, enough) {
                Ok(when) => answers::when(of, asker, &when),
                Err(TrialError::Never(never)) => json!({"never": never.to_string()}),
                Err(error) => return Err(error).context(self.name.clone()),
            });
        }
        Ok(json!({
            "as_of": of.now(), "policy": self.name, "priority": priority, "priority_from": source.name(),
            "jobs": rows,
        }))
    }
}

impl Service {
    /// Notes a question that another policy answers; it is compiled first, unless it is loaded.
    pub(super) fn ask_other(
        &mut self,
        request: &ControlRequest,
        asker: Asker,
        what: Question,
    ) -> Result<Answer> {
        if !request.message.is_from_owner() {
            return Err(OwnerOnly.into());
        }
        let policy = request.payload["policy"].as_str();
        let policy = policy.ok_or_else(|| anyhow!("policy: expected a name or an absolute path"))?;
        let config = config(&request.payload)?;
        if policy.contains('/') && !policy.starts_with('/') {
            bail!("policy: expected a name or an absolute path, found {policy}");
        }
        if let Some(wait) = self.other_policies_budget.wait(asker.userid, self.host.elapsed()) {
            bail!(
                "answers under other policies took a second in this minute; ask again in {}s",
                wait.as_secs() + 1
            );
        }
        let asked = Asked { request: request.clone(), asker, what };
        if let Ok(known) = self.registry.get(policy) {
            if let Some(reason) = self.registry.refusal(&known) {
                bail!("{policy}: the rules of the site refuse it: {reason}");
            }
            let choice = match config.is_empty() {
                true => known,
                false => self.registry.variant(&known, config)?,
            };
            self.asked.push(asked.under(other(&choice)?));
            return Ok(Answer::Later);
        }
        if self.loading >= LOADS_MAX {
            bail!("{LOADS_MAX} policies are being loaded already; try again when they are");
        }
        self.loading += 1;
        let (components, policy) = (Arc::clone(&self.components), policy.to_owned());
        self.start_work(
            "compile",
            move |_| {
                let made = components.compile(&policy).and_then(|compiled| {
                    let name = compiled.description().name.clone();
                    let instance = compiled.instantiate(&config)?;
                    Ok(Other { name, anew: instance.anew().context("no other instance can be made")? })
                });
                made.with_context(|| policy)
            },
            move |service, made| {
                service.loading -= 1;
                match made {
                    Ok(other) => service.asked.push(asked.under(other)),
                    Err(error) => service.send(asked.request.error(errno::EINVAL, &format!("{error:#}"))),
                }
            },
        );
        Ok(Answer::Later)
    }
}

fn other(choice: &PolicyChoice) -> Result<Other> {
    let anew = choice.instantiate()?.anew().context("no other instance can be made")?;
    Ok(Other { name: choice.name().to_owned(), anew })
}
