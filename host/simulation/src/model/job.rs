//! A job as the job manager knows it. Must never know the scheduler.

use std::collections::BTreeSet;

use fluxgate_formats::jobspec::Simple;
use serde_json::{Value, json};

use crate::book::Want;
use crate::flow::Asked;
use crate::plan::JobPlan;

/// The state of a job (RFC 21), as far as the scheduler is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its urgency is 0: it does not ask for resources.
    Priority,
    /// It asks for resources, or will.
    Sched,
    /// It runs.
    Run,
    /// It ends.
    Cleanup,
    /// It has ended.
    Inactive,
}

/// See the module text.
#[derive(Debug)]
pub struct Job {
    /// Its id.
    pub id: u64,
    /// Its plan.
    pub plan: JobPlan,
    /// RFC 27 priority.
    pub priority: u32,
    /// Its time limit now.
    pub limit: f64,
    /// The time limit of the request that is outstanding.
    pub requested: f64,
    /// Submission, seconds since the epoch.
    pub t_submit: f64,
    /// Its state.
    pub state: State,
    /// A request for resources is outstanding.
    pub pending: bool,
    /// The request was withdrawn.
    pub cancel_sent: bool,
    /// Its R, if it holds resources.
    pub r: Option<Value>,
    /// The end of its R now, whatever is written there.
    pub expiration: f64,
    /// Ranks that were released already.
    pub freed: BTreeSet<u32>,
    /// The parts of its ranks that are still to be released.
    pub parts: Vec<BTreeSet<u32>>,
    /// Alarms set so far; only the last counts.
    pub alarms: u32,
    /// The time of its start, microseconds of the world.
    pub started: u64,
    /// Starts that were accepted.
    pub starts: u32,
    /// Its start was forgotten, and its R is in the key-value store.
    pub stale_r: bool,
    /// Starts that were refused because of its stale R.
    pub refused: u32,
    /// The job manager never tells the scheduler that these resources are free (scheduler-restart, or offline).
    pub untold: bool,
    /// A change of its time limit that is asked for: its matchtag, and the new limit.
    pub asked_limit: Option<(u32, f64)>,
}

impl Job {
    /// A job that was just submitted.
    pub fn new(id: u64, plan: JobPlan, t_submit: f64) -> Job {
        Job {
            id,
            priority: priority(plan.urgency),
            limit: plan.limit,
            requested: plan.limit,
            plan,
            t_submit,
            state: State::Sched,
            pending: false,
            cancel_sent: false,
            r: None,
            expiration: 0.0,
            freed: BTreeSet::new(),
            parts: Vec::new(),
            alarms: 0,
            started: 0,
            starts: 0,
            stale_r: false,
            refused: 0,
            untold: false,
            asked_limit: None,
        }
    }

    /// Its request for resources, for the book.
    pub fn want(&self) -> Want {
        want(&self.plan)
    }

    /// Its jobspec as the scheduler gets it.
    pub fn jobspec(&self) -> Value {
        jobspec(&self.plan, self.limit)
    }

    /// Has it ended, and given everything back?
    pub fn is_over(&self) -> bool {
        self.state == State::Inactive && self.r.is_none()
    }
}

/// The request of a planned job for resources, for the book.
pub fn want(plan: &JobPlan) -> Want {
    Want {
        nodes: plan.nodes,
        slots: plan.slots,
        cores: plan.cores,
        gpus: plan.gpus,
        beside: plan.beside,
        flow: plan.flow,
        condition: plan.condition,
    }
}

/// The priority of an urgency (RFC 30).
pub fn priority(urgency: u32) -> u32 {
    if urgency >= 31 { u32::MAX } else { urgency }
}

/// The jobspec of a planned job with this time limit.
pub fn jobspec(plan: &JobPlan, limit: f64) -> Value {
    let simple = Simple {
        nodes: (plan.nodes > 0).then_some(plan.nodes),
        slots: plan.slots,
        cores_per_slot: plan.cores,
        gpus_per_slot: plan.gpus,
        exclusive: plan.exclusive,
        duration: limit,
        queue: plan.queue.map(str::to_owned),
        command: vec!["app".to_owned()],
        ..Simple::default()
    };
    let mut spec = simple.build();
    // All are attributes that every jobspec may have.
    if let Some(name) = plan.reservation {
        let _ = spec.set_system_attr("fluxgate.reservation", name.into());
    }
    if let Some(bank) = plan.bank {
        let _ = spec.set_system_attr("bank", bank.into());
    }
    if let Some(after) = plan.preemptible_after {
        let _ = spec.set_system_attr("preemptible-after", after.into());
    }
    let mut spec = spec.to_value();
    if let Some(constraint) = &plan.constraint {
        spec["attributes"]["system"]["constraints"] = constraint.clone();
    }
    if plan.beside.storage > 0 {
        let slot =
            json!({"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]});
        let node = json!({"type": "node", "count": 1, "exclusive": true, "with": [slot]});
        let ssd = json!({"type": "ssd", "count": plan.beside.storage, "exclusive": true});
        spec["resources"] =
            json!([{"type": "slot", "count": plan.nodes, "label": "rabbit", "with": [node, ssd]}]);
    }
    if let Some(list) = spec["resources"].as_array_mut().filter(|_| plan.beside.licences > 0) {
        list.push(json!({"type": "licence", "count": plan.beside.licences}));
    }
    if !plan.flow.is_none() {
        let first = &mut spec["resources"][0];
        let first = if plan.beside.storage > 0 { &mut first["with"][0] } else { first };
        let slot = if plan.nodes > 0 { &mut first["with"][0]["with"] } else { &mut first["with"] };
        slot.as_array_mut().into_iter().for_each(|slot| slot.extend(Asked::resources(plan.flow.slot)));
        if let Some(node) = first["with"].as_array_mut().filter(|_| plan.nodes > 0) {
            node.extend(Asked::resources(plan.flow.node));
        }
    }
    spec
}
