//! Named queues (RFC 33): submission and scheduling enabled or disabled.

use serde_json::{Map, Value, json};

use crate::config::{Config, QueueConfig};
use crate::fail::Fail;
use crate::limits::NAME_LEN_MAX;

/// One queue.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Queue {
    /// Its configuration; the anonymous queue has an empty name.
    pub config: QueueConfig,
    /// The reason why submission is disabled; `None` if it is enabled.
    pub disabled: Option<String>,
    /// The reason why its jobs are not sent to the scheduler, possibly empty; `None` if they are.
    pub stopped: Option<String>,
}

/// All queues.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Queues {
    queues: Vec<Queue>,
    default: Option<String>,
}

impl Queues {
    /// The queues of a configuration.
    pub(crate) fn new(config: &Config) -> Result<Self, Fail> {
        let mut queues: Vec<Queue> = Vec::new();
        for queue in &config.queues {
            if queue.name.is_empty() || queue.name.len() > NAME_LEN_MAX {
                return Err(Fail::invalid(format!(
                    "queue '{}': a name has 1 to {NAME_LEN_MAX} bytes",
                    queue.name
                )));
            }
            if queues.iter().any(|q| q.config.name == queue.name) {
                return Err(Fail::invalid(format!("queue '{}' is configured twice", queue.name)));
            }
            queues.push(Queue { config: queue.clone(), disabled: None, stopped: None });
        }
        if let Some(name) = &config.default_queue
            && !queues.iter().any(|q| q.config.name == *name)
        {
            return Err(Fail::invalid(format!("the default queue '{name}' is not configured")));
        }
        let mut default = config.default_queue.clone();
        match queues.as_slice() {
            [] => queues.push(Queue { config: QueueConfig::default(), disabled: None, stopped: None }),
            [only] => default = default.or_else(|| Some(only.config.name.clone())),
            _ if default.is_none() => {
                return Err(Fail::invalid("with more than one queue, a default queue must be named"));
            }
            _ => {}
        }
        Ok(Queues { queues, default })
    }

    /// True if there are named queues.
    pub(crate) fn named(&self) -> bool {
        self.queues.iter().any(|q| !q.config.name.is_empty())
    }

    /// The queue of jobs without one.
    pub(crate) fn default_name(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter()
    }

    /// The queue of a job.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<&Queue, Fail> {
        match (name, self.named()) {
            (None, true) => Err(Fail::invalid("a named queue is required")),
            (Some(name), false) => Err(Fail::invalid(format!("'{name}' is not a valid queue"))),
            (name, _) => {
                let name = name.unwrap_or("");
                let found = self.queues.iter().find(|q| q.config.name == name);
                found.ok_or_else(|| Fail::invalid(format!("'{name}' is not a valid queue")))
            }
        }
    }

    /// True if jobs of this queue may be sent to the scheduler. Jobs of queues that were removed may not.
    pub(crate) fn started(&self, name: Option<&str>) -> bool {
        self.find(name).is_ok_and(|queue| queue.stopped.is_none())
    }

    /// Changes one queue by name, or all, for `queue-enable` and `queue-start`.
    pub(crate) fn change(
        &mut self,
        name: Option<&str>,
        all: bool,
        change: impl Fn(&mut Queue),
    ) -> Result<Vec<String>, Fail> {
        if name.is_none() && self.named() && !all {
            return Err(Fail::invalid("Use --all to apply this command to all queues"));
        }
        if let Some(name) = name {
            self.find(Some(name))?;
        }
        let mut changed = Vec::new();
        for queue in &mut self.queues {
            if name.is_none_or(|name| queue.config.name == name) {
                change(queue);
                changed.push(queue.config.name.clone());
            }
        }
        Ok(changed)
    }

    /// `queue-status`.
    pub(crate) fn status(&self, name: Option<&str>, scheduler: bool) -> Result<Value, Fail> {
        let queue = self.find(name)?;
        let mut status = Map::new();
        let start = queue.stopped.is_none() && scheduler;
        status.insert("enable".into(), queue.disabled.is_none().into());
        status.insert("start".into(), start.into());
        if let Some(reason) = &queue.disabled {
            status.insert("disable_reason".into(), reason.as_str().into());
        }
        match &queue.stopped {
            Some(reason) if !reason.is_empty() => {
                status.insert("stop_reason".into(), reason.as_str().into());
            }
            None if !scheduler => {
                status.insert("blocked".into(), "scheduler".into());
                status.insert("stop_reason".into(), "Scheduler is offline".into());
            }
            _ => {}
        }
        Ok(Value::Object(status))
    }

    /// The state that survives a restart, by queue name.
    pub(crate) fn saved(&self, name: &str) -> Option<String> {
        let queue = self.queues.iter().find(|q| q.config.name == name)?;
        Some(json!({ "disabled": queue.disabled, "stopped": queue.stopped }).to_string())
    }

    /// Restores the saved state. Queues that were removed are ignored.
    pub(crate) fn restore(&mut self, name: &str, text: &str) {
        let Ok(saved) = serde_json::from_str::<Value>(text) else { return };
        let reason = |key: &str| saved.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(queue) = self.queues.iter_mut().find(|q| q.config.name == name) {
            (queue.disabled, queue.stopped) = (reason("disabled"), reason("stopped"));
        }
    }
}
