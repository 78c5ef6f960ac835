//! Promotions that a person asked for later: at a time, when no job waits, or both.
//!
//! None is made in the first minute of a window, when its members start. They are of this process: a restart forgets them, as it
//! does shadows. Must never judge a shadow.

use anyhow::{Result, anyhow, bail};
use fluxgate_wire::session::ControlRequest;
use serde_json::{Value, json};

use super::Service;
use crate::pending_swap::PendingSwap;
use crate::policy_choice::Origin;

/// Seconds from the start of a window in which no promotion is made.
const QUIET: f64 = 60.0;

/// A promotion to come.
#[derive(Debug, Clone)]
pub(super) struct Promotion {
    name: String,
    queue: Option<String>,
    /// Not before this time, seconds since the epoch.
    at: f64,
    /// Only while no job waits.
    when_idle: bool,
    force: bool,
    probation: Option<f64>,
}

impl Promotion {
    /// Is it of this shadow? Without a queue, of any queue's.
    pub(super) fn is_of(&self, name: &str, queue: Option<&str>) -> bool {
        self.name == name && (queue.is_none() || self.queue.as_deref() == queue)
    }

    fn row(&self) -> Value {
        json!({"name": self.name, "queue": self.queue, "at": self.at, "when_idle": self.when_idle})
    }
}

impl Service {
    /// Keeps a promotion for later, if the request is for one; a plan for the same shadow gives way.
    pub(super) fn plan_promotion(
        &mut self,
        request: &ControlRequest,
        (name, queue): (&str, Option<&str>),
        probation: Option<f64>,
    ) -> Result<Option<Value>> {
        let payload = &request.payload;
        let (now, when_idle) = (self.host.now(), payload["when_idle"] == true);
        let at = match &payload["at"] {
            Value::Null if !when_idle => return Ok(None),
            Value::Null => now,
            at => at.as_f64().ok_or_else(|| anyhow!("at: expected seconds since the epoch, found {at}"))?,
        };
        if at < now {
            bail!("at: {} is over", self.host.local_time(at));
        }
        let guard = &self.configuration.settings.guard;
        // Its gate is asked when the time comes.
        let (_, queue) = self.shadows.promote(name, queue, true, guard)?;
        let force = payload["force"] == true;
        let plan = Promotion { name: name.to_owned(), queue, at, when_idle, force, probation };
        self.drop_promotion(name, plan.queue.as_deref());
        self.record("promote-later", Some(request), plan.queue.as_deref(), name, Ok(()));
        let mut answer = plan.row();
        answer["planned"] = true.into();
        self.promotions.push(plan);
        Ok(Some(answer))
    }

    /// A shadow ends, or is promoted otherwise.
    pub(super) fn drop_promotion(&mut self, name: &str, queue: Option<&str>) {
        self.promotions.retain(|plan| (plan.name.as_str(), plan.queue.as_deref()) != (name, queue));
    }

    /// For `policy-list`.
    pub(super) fn promotions_told(&self) -> Value {
        self.promotions.iter().map(Promotion::row).collect()
    }

    /// The end of the first minute of a window, where that minute is not over.
    fn quiet_until(&self) -> Option<f64> {
        let now = self.host.now();
        let starts = self.engine.iter().flat_map(|engine| engine.windows());
        let starts = starts.flat_map(|window| window.occurrences.iter().map(|times| times.start));
        let quiet = starts.filter(|start| *start <= now && now < start + QUIET);
        quiet.max_by(f64::total_cmp).map(|start| start + QUIET)
    }

    /// The next time at which a promotion may be due though nothing happens.
    pub(super) fn promotions_due(&self) -> Option<f64> {
        let first = self.promotions.iter().map(|plan| plan.at).min_by(f64::total_cmp)?;
        let now = self.host.now();
        match first > now {
            true => Some(first),
            // A promotion that is due by time waits for the end of that minute, or for events.
            false => self.quiet_until(),
        }
    }

    /// Makes the promotions that are due.
    pub(super) fn tend_promotions(&mut self) {
        if self.promotions.is_empty() || !self.session.is_serving() || self.quiet_until().is_some() {
            return;
        }
        let now = self.host.now();
        let idle = self.engine.as_ref().is_some_and(|engine| engine.pending() == 0);
        let swaps = &self.swaps;
        let due = |plan: &Promotion| {
            plan.at <= now && (idle || !plan.when_idle) && !swaps.contains_key(&plan.queue)
        };
        let Some(place) = self.promotions.iter().position(due) else { return };
        let plan = self.promotions.remove(place);
        let (name, queue) = (plan.name.as_str(), plan.queue.as_deref());
        let guard = &self.configuration.settings.guard;
        let begun = self.shadows.promote(name, queue, plan.force, guard).and_then(|(choice, _)| {
            let swap = PendingSwap::new(choice, Origin::Person).at(queue);
            self.begin_swap(PendingSwap { probation: plan.probation, promoted: true, ..swap })
        });
        if let Err(error) = begun {
            let why = format!("{error:#}");
            fluxgate_log::log!(PromotionFailed, policy = name, queue, "not promoted at its time: {why}");
            self.record("promote", None, queue, name, Err(&why));
        }
    }
}
