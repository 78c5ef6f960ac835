//! Queues with policies of their own: which queues there are, which policy decides each, and which swaps are still to be begun.
//!
//! How a swap goes is in [`super::swapping`]. The job manager knows whether a queue exists.

use anyhow::{Result, anyhow, bail};
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Value, json};

use super::Service;
use super::control::Answer;
use crate::pending_swap::PendingSwap;
use crate::policy_choice::{Origin, PolicyChoice};

/// Matchtag of `job-manager.queue-list`, far from those that the session counts up from 1.
const QUEUES_TAG: u32 = u32::MAX - 2;
/// Most requests that wait for the names of the queues.
const ASKERS_MAX: usize = 64;

/// The queue that a request is about.
pub(super) fn queue(payload: &Value) -> Result<Option<&str>> {
    match &payload["queue"] {
        Value::Null => Ok(None),
        Value::String(queue) if !queue.is_empty() => Ok(Some(queue)),
        _ => Err(anyhow!("queue: expected the name of a queue")),
    }
}

impl Service {
    /// Is there a queue of this name? `None` when the job manager has to be asked.
    fn is_queue(&self, queue: &str) -> bool {
        let seen = |engine: &fluxgate_journal::Recorded| engine.queues().any(|d| d.queue == queue);
        self.queues.known.iter().any(|known| known == queue) || self.engine.as_ref().is_some_and(seen)
    }

    /// Serve this request when the job manager has said that there is such a queue; true when that is known already.
    pub(super) fn queue_is_there(&mut self, queue: &str, request: &ControlRequest) -> Result<bool> {
        if self.engine.is_none() {
            bail!("the scheduler is still starting");
        }
        if self.is_queue(queue) {
            return Ok(true);
        }
        if self.queues.askers.len() >= ASKERS_MAX {
            bail!("more than {ASKERS_MAX} requests wait for the names of the queues");
        }
        self.queues.askers.push(request.clone());
        if self.queues.askers.len() == 1 {
            let question =
                Message::request("job-manager.queue-list").with_json(&json!({})).with_matchtag(QUEUES_TAG);
            self.send(Some(question));
        }
        Ok(false)
    }

    /// Are these the names of the queues? Then the requests that wait for them are served.
    pub(super) fn queues_answer(&mut self, message: &Message) -> bool {
        if !(message.is_response() && message.matchtag() == QUEUES_TAG) {
            return false;
        }
        let names: Result<Vec<String>> = match message.errnum() {
            0 => message.json().map_err(|e| anyhow!("job-manager.queue-list: {e}")).map(|answer| {
                let names = answer["queues"].as_array().into_iter().flatten();
                names.filter_map(|name| Some(name.as_str()?.to_owned())).collect()
            }),
            errnum => Err(anyhow!("job-manager.queue-list: the job manager answers error {errnum}")),
        };
        for request in std::mem::take(&mut self.queues.askers) {
            let asked = request.payload["queue"].as_str().unwrap_or_default().to_owned();
            let refused = match &names {
                Ok(names) if names.contains(&asked) => {
                    self.queues.known.clone_from(names);
                    self.control(request);
                    self.queues.known.clear();
                    continue;
                }
                Ok(names) if names.is_empty() => {
                    format!("no queue {asked:?}: this instance has no named queues")
                }
                Ok(names) => format!("no queue {asked:?}; queues are {}", names.join(", ")),
                Err(error) => format!("{error:#}"),
            };
            self.record_refused(&request, &refused);
            self.send(request.error(errno::EINVAL, &refused));
        }
        true
    }

    /// Let the default policy decide a queue again.
    pub(super) fn policy_unset(&mut self, request: &ControlRequest) -> Result<Answer> {
        let queue = queue(&request.payload)?.ok_or_else(|| anyhow!("queue: expected the name of a queue"))?;
        if self.engine.as_ref().is_some_and(|engine| engine.queue_policy(queue).is_some()) {
            self.give_way(Some(queue));
            let waiting = PendingSwap::new(PolicyChoice::Default, Origin::Person).at(Some(queue));
            self.begin_swap(PendingSwap { request: Some(request.clone()), ..waiting })?;
        } else if self.queue_is_there(queue, request)? {
            bail!("queue {queue} has no policy of its own");
        }
        Ok(Answer::Later)
    }

    /// These policies are to decide their queues, as soon as no other swap is in the way.
    pub(super) fn want_queue_policies(&mut self, choices: Vec<(String, PolicyChoice)>, origin: Origin) {
        for (queue, choice) in choices {
            let is = |waiting: &PendingSwap| waiting.queue.as_deref() == Some(&queue);
            self.queues.later.retain(|waiting| !is(waiting));
            self.queues.later.push(PendingSwap::new(choice, origin).at(Some(&queue)));
        }
    }

    /// Begin the swaps that no other is in the way of any more.
    pub(super) fn begin_queue_swaps(&mut self) {
        if self.engine.is_none() || self.swaps.contains_key(&None) {
            return;
        }
        for waiting in std::mem::take(&mut self.queues.later) {
            let queue = waiting.queue.clone();
            self.give_way(queue.as_deref());
            if self.swaps.contains_key(&queue) {
                self.queues.later.push(waiting);
                continue;
            }
            let own = |engine: &fluxgate_journal::Recorded| {
                queue.as_deref().is_some_and(|queue| engine.queue_policy(queue).is_some())
            };
            if waiting.choice.name() == PolicyChoice::Default.name() && !self.engine.as_ref().is_some_and(own)
            {
                // The default policy decides the queue already.
                continue;
            }
            let (choice, origin, at) = (waiting.choice.clone(), waiting.origin, queue.unwrap_or_default());
            if let Err(error) = self.begin_swap(waiting) {
                fluxgate_log::log!(
                    QueuePolicyRefused,
                    policy = choice.name(),
                    "queue {at}: its policy cannot take over: {error:#}"
                );
                if origin == Origin::Start {
                    let error = fluxgate_engine::PolicyError::Refused {
                        during: "start-up",
                        message: format!("{error:#}"),
                    };
                    let now = self.host.now();
                    let guard = &self.configuration.settings.guard;
                    let history = self.registry.at(Some(&at));
                    history.failed(choice.name(), &error, now, guard);
                    history.start_failed(choice);
                }
            }
        }
    }

    /// Which policy decides which queue, for `policy list` and `stats-get`.
    pub(super) fn queue_rows(&self) -> Value {
        let Some(engine) = &self.engine else { return json!([]) };
        let row = |decider: fluxgate_engine::QueueStatus<'_>| {
            let mut row = self.registry.describe(&decider);
            if decider.own {
                row["probation"] = self.probation(Some(decider.queue));
            }
            row
        };
        engine.queues().map(row).collect()
    }
}
