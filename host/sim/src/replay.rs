//! A run with its judge, and the document that `fluxgate replay --json` prints of runs.
//!
//! The command line and the Python package run and print through this module, so that both give the same bytes. It
//! reads no clock: the seconds of a run are told by its driver.

use std::cell::RefCell;

use fluxgate_engine::Config;
use fluxgate_formats::JobId;
use serde_json::{Value, json};

use crate::calibration::Calibrated;
use crate::driver::{self, Deciders, Outcome, SimError, Surroundings};
use crate::flow::Usage;
use crate::machine::Machine;
use crate::metrics::Summary;
use crate::observe::Observer;
use crate::rules::{Rules, Semantics};
use crate::sweep::Report;
use crate::sweep::running::{Judge, Watch};
use crate::workload::Job;
use crate::workload::stream::Survey;

/// Runs a workload; with `check` the independent judge watches it, and its report is returned.
///
/// # Errors
/// As [`driver::run_with`].
pub fn run(
    jobs: impl Iterator<Item = Job>,
    surroundings: &Surroundings,
    machine: &Machine,
    config: Config,
    deciders: Deciders,
    observers: &mut [&mut dyn Observer],
    check: bool,
) -> Result<(Outcome, Option<Report>), SimError> {
    let resources = machine.resources.clone();
    if !check {
        let outcome = driver::run_with(jobs, surroundings, resources, config, deciders, observers)?;
        return Ok((outcome, None));
    }
    let (flow, jobspecs) = (&surroundings.flow, &surroundings.jobspecs);
    let mut judge = Judge::new(&machine.cores, surroundings.outages.changes());
    if !machine.memory.is_empty() {
        judge = judge.with_memory(&machine.memory, jobspecs);
    }
    let asked = !flow.is_empty() || !jobspecs.is_empty();
    if asked && !machine.pools.kinds.is_empty() {
        judge = judge.with_flow(&machine.pools, flow);
    }
    let judge = RefCell::new(judge);
    let mut watch = Watch(&judge);
    let mut all: Vec<&mut dyn Observer> = Vec::new();
    all.extend(observers.iter_mut().map(|observer| &mut **observer as &mut dyn Observer));
    all.push(&mut watch);
    let jobs = jobs.inspect(|job| judge.borrow().comes(job));
    let outcome = driver::run_with(jobs, surroundings, resources, config, deciders, &mut all)?;
    drop(all);
    Ok((outcome, Some(judge.into_inner().report())))
}

/// The figures of one run.
#[derive(Debug)]
pub struct RunFigures<'a> {
    /// Its name.
    pub policy: &'a str,
    /// Its metrics.
    pub summary: &'a Summary,
    /// Errors of forecasts, if any were made.
    pub forecasts: Option<&'a Calibrated>,
    /// Use of flow, by kind.
    pub flow: Vec<Usage>,
    /// Most jobs that waited at once.
    pub peak_waiting: u64,
    /// Jobs that a failed node ended.
    pub failed: u64,
    /// Jobs that can never run, with the reason.
    pub denied: &'a [(JobId, String)],
    /// Jobs that waited until no event was left, with the reason.
    pub never_started: &'a [(JobId, String)],
    /// True if the judge watched it.
    pub checked: bool,
    /// What the judge found.
    pub violations: &'a [String],
    /// Real time in seconds.
    pub seconds: f64,
    /// Of these, in policies.
    pub policy_seconds: f64,
    /// Fuel of policies.
    pub fuel: u64,
}

impl RunFigures<'_> {
    /// As JSON.
    ///
    /// # Errors
    /// A figure that JSON cannot hold.
    pub fn json(&self) -> serde_json::Result<Value> {
        Ok(json!({
            "policy": self.policy,
            "metrics": serde_json::to_value(self.summary)?,
            "forecasts": serde_json::to_value(self.forecasts)?,
            "flow": serde_json::to_value(&self.flow)?,
            "peak_waiting": self.peak_waiting,
            "ended_by_failures": self.failed,
            "denied": listed(self.denied),
            "never_started": listed(self.never_started),
            "checked": self.checked,
            "violations": self.violations,
            "seconds": self.seconds,
            "policy_seconds": self.policy_seconds,
            "fuel": self.fuel,
        }))
    }
}

/// Jobs with reasons.
fn listed(jobs: &[(JobId, String)]) -> Vec<Value> {
    jobs.iter().map(|(id, why)| json!({"job": id.0, "reason": why})).collect()
}

/// The document of all runs; `log` is its name.
pub fn document(
    log: &str,
    survey: &Survey,
    machine: &Machine,
    (semantics, rules): (Semantics, Rules),
    runs: Vec<Value>,
) -> Value {
    let left_out: Vec<Value> =
        survey.left_out.iter().map(|(why, count)| json!({"reason": why.text(), "count": count})).collect();
    json!({
        "log": log,
        "jobs": survey.jobs,
        "cores": machine.total_cores(),
        "left_out": left_out,
        "bad_lines": survey.bad.count,
        "semantics": semantics.name(),
        "rules": rules.values().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "runs": runs,
    })
}
