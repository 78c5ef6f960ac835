//! A run with its judge, and the document that `fluxgate replay --json` prints of runs.
//!
//! The command line and the Python package run and print through this module, so that both give the same bytes. It
//! reads no clock: the seconds of a run are told by its driver.

use std::cell::RefCell;

use fluxgate_engine::{Config, Policy};
use fluxgate_formats::JobId;
use fluxgate_graph::Resources;
use serde_json::{Value, json};

use crate::calibration::Calibrated;
use crate::driver::{Deciders, Outcome, SimError, Surroundings};
use crate::flow::Usage;
use crate::followed::Followed;
use crate::idle_before::ReservationCost;
use crate::keeping::{self, Keeping};
use crate::machine::Machine;
use crate::metrics::Summary;
use crate::observe::Observer;
use crate::rules::{Rules, Semantics};
use crate::sweep::Report;
use crate::sweep::running::{Judge, Watch};
use crate::workload::Job;
use crate::workload::stream::Survey;

/// True if nothing of a run depends on places: its jobs ask for cores alone, no node changes, and neither an observer nor a
/// policy asks for nodes. Then the machine can be one [pool](Machine::pool), with the same starts.
fn needs_no_places(
    first: Option<&Job>,
    surroundings: &Surroundings,
    machine: &Machine,
    config: &Config,
    deciders: &Deciders,
    observers: &[&mut dyn Observer],
) -> bool {
    let Surroundings { outages, reservations, jobspecs, flow, warm, .. } = surroundings;
    let whole =
        config.queue_placements.values().chain([&config.placement]).any(|placement| placement.whole_nodes());
    let single = machine.total_cores() == machine.cores.len() as u64;
    // With nodes of one core, as many nodes are free as cores.
    let counts = |policy: &dyn Policy| !policy.abilities().ranking && (single || !policy.reads_nodes());
    let later = deciders.queues.iter().map(|(_, policy)| policy);
    let later = later.chain(deciders.successors.iter().map(|(_, policy)| policy));
    let mut policies = deciders.default.iter().chain(later);
    // All jobs of a log ask for nodes, or none does.
    first.is_none_or(|job| job.nodes == 0)
        && outages.is_empty()
        && reservations.is_empty()
        && jobspecs.is_empty()
        && flow.is_empty()
        && warm.is_empty()
        && !whole
        && policies.all(|policy| counts(&**policy))
        && !observers.iter().any(|observer| observer.wants_r() || observer.wants_passes())
}

/// The machine as one pool of cores; `None` if something in a run with this first job needs their places, or the machine has no pool.
pub fn pool<'a>(
    first: Option<&Job>,
    surroundings: &Surroundings,
    machine: &'a Machine,
    config: &Config,
    deciders: &Deciders,
    observers: &[&mut dyn Observer],
) -> Option<&'a Resources> {
    let none = needs_no_places(first, surroundings, machine, config, deciders, observers);
    machine.pool.as_ref().filter(|_| none)
}

/// Runs a workload; with `check` the independent judge watches it, and its report is returned, else `None`. The machine is
/// scheduled as one pool of cores where nothing needs their places.
///
/// # Errors
/// As [`run_with`](crate::driver::run_with).
pub fn run(
    jobs: impl Iterator<Item = Job>,
    surroundings: &Surroundings,
    machine: &Machine,
    config: Config,
    deciders: Deciders,
    observers: &mut [&mut dyn Observer],
    check: bool,
) -> Result<(Outcome, Option<Report>), SimError> {
    let keeping = Keeping::default();
    run_keeping(jobs, surroundings, machine, (config, deciders), observers, check, keeping)
}

/// The same for a run that writes checkpoints, or goes on from one; the judge then also checks what came before.
///
/// # Errors
/// As [`run`]; also [`SimError::Checkpoint`]. A run with forecasts cannot be kept.
pub fn run_keeping(
    jobs: impl Iterator<Item = Job>,
    surroundings: &Surroundings,
    machine: &Machine,
    (config, deciders): (Config, Deciders),
    observers: &mut [&mut dyn Observer],
    check: bool,
    keeping: Keeping,
) -> Result<(Outcome, Option<Report>), SimError> {
    let mut jobs = jobs.peekable();
    // A checkpoint has the places of running jobs.
    let countable = keeping.is_empty();
    let pool = pool(jobs.peek(), surroundings, machine, &config, &deciders, observers).filter(|_| countable);
    let resources = pool.unwrap_or(&machine.resources).clone();
    let deciding = (config, deciders);
    if !check {
        let outcome = keeping::run(jobs, surroundings, resources, deciding, observers, keeping)?;
        return Ok((outcome, None));
    }
    let (flow, jobspecs) = (&surroundings.flow, &surroundings.jobspecs);
    let mut judge = match pool {
        Some(_) => Judge::of_pool(machine.total_cores()),
        None => Judge::new(&machine.cores, surroundings.outages.changes()),
    };
    judge = judge.with_submissions(surroundings.on_failure, &surroundings.following).with_jobspecs(jobspecs);
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
    let outcome = keeping::run(jobs, surroundings, resources, deciding, &mut all, keeping)?;
    drop(all);
    Ok((outcome, Some(judge.into_inner().report())))
}

/// The figures of one run.
#[derive(Debug)]
pub struct RunFigures<'a> {
    /// Name of the run: its policy with settings.
    pub policy: &'a str,
    /// Name of the part of the log; `None` if the run is of all of it.
    pub part: Option<&'a str>,
    /// Its metrics.
    pub summary: &'a Summary,
    /// Errors of forecasts; `None` if none were made.
    pub forecasts: Option<&'a Calibrated>,
    /// Use of flow, by kind; empty for a machine without flow.
    pub flow: Vec<Usage>,
    /// Most jobs that waited at once.
    pub peak_waiting: u64,
    /// Number of times that a job ended early, as in [`Outcome::failed`].
    pub failed: u64,
    /// Number of these after which the job was submitted again.
    pub requeued: u64,
    /// Core-seconds of work that was lost in them.
    pub lost_core_seconds: f64,
    /// Jobs that can never run, with the reason.
    pub denied: &'a [(JobId, String)],
    /// Jobs that waited until no event was left, with the reason.
    pub never_started: &'a [(JobId, String)],
    /// The cost of reservations; `None` if there were none.
    pub reservations: Option<&'a ReservationCost>,
    /// True if the judge watched it.
    pub checked: bool,
    /// The violations that the judge found.
    pub violations: &'a [String],
    /// Real time of the run, in seconds.
    pub seconds: f64,
    /// Real time in policies, in seconds.
    pub policy_seconds: f64,
    /// Fuel of policies.
    pub fuel: u64,
}

impl RunFigures<'_> {
    /// The figures as a JSON object. A figure that is NaN or infinite becomes null.
    ///
    /// # Errors
    /// A figure cannot be written as JSON; those of this crate all can.
    pub fn json(&self) -> serde_json::Result<Value> {
        let mut told = json!({
            "policy": self.policy,
            "metrics": serde_json::to_value(self.summary)?,
            "forecasts": serde_json::to_value(self.forecasts)?,
            "flow": serde_json::to_value(&self.flow)?,
            "peak_waiting": self.peak_waiting,
            "ended_by_failures": self.failed,
            "requeued": self.requeued,
            "lost_core_seconds": self.lost_core_seconds,
            "denied": listed(self.denied),
            "never_started": listed(self.never_started),
            "checked": self.checked,
            "violations": self.violations,
            "seconds": self.seconds,
            "policy_seconds": self.policy_seconds,
            "fuel": self.fuel,
        });
        if let Some(part) = self.part {
            told["part"] = part.into();
        }
        if let Some(cost) = self.reservations {
            told["reservations"] = serde_json::to_value(cost)?;
        }
        Ok(told)
    }
}

/// Jobs with reasons.
fn listed(jobs: &[(JobId, String)]) -> Vec<Value> {
    jobs.iter().map(|(id, why)| json!({"job": id.0, "reason": why})).collect()
}

/// The document of all runs; `log` is the name of the log, `over_all` has the figures over the parts of a log that is run in parts.
pub fn document(
    log: &str,
    survey: &Survey,
    machine: &Machine,
    (semantics, rules): (Semantics, Rules),
    runs: Vec<Value>,
    (followed, over_all): (&Followed, Option<Vec<Value>>),
) -> Value {
    let left_out: Vec<Value> =
        survey.left_out.iter().map(|(why, count)| json!({"reason": why.text(), "count": count})).collect();
    let mut told = json!({
        "log": log,
        "jobs": survey.jobs,
        "cores": machine.total_cores(),
        "left_out": left_out,
        "bad_lines": survey.bad.count,
        "semantics": semantics.name(),
        "rules": rules.values().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "runs": runs,
    });
    if let Some(following) = followed.json() {
        told["following"] = following;
    }
    if let Some(over_all) = over_all {
        told["over_all"] = over_all.into();
    }
    told
}

#[cfg(test)]
mod tests {
    use fluxgate_engine::Abilities;
    use fluxgate_formats::Idset;
    use fluxgate_graph::Placement;

    use super::*;
    use crate::driver;
    use crate::metrics::Metrics;
    use crate::outages::{Change, Outage, Outages};
    use crate::schedule::Collect;

    /// Ability to rank nodes, and whether it reads nodes.
    struct Reads(bool, bool);

    impl Policy for Reads {
        fn name(&self) -> &str {
            "reads"
        }

        fn abilities(&self) -> Abilities {
            Abilities { ranking: self.0, ..Abilities::default() }
        }

        fn reads_nodes(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn a_pool_is_for_runs_without_places() {
        let job = Job::new(JobId(1), 0.0, 2, 1.0, 1.0);
        let single = Machine::uniform(8, 8).unwrap();
        let machine = Machine::uniform(4, 8).unwrap();
        let plain = (Surroundings::default(), driver::replay_config());
        let asks = |machine: &Machine,
                    job: &Job,
                    world: &(Surroundings, Config),
                    reads: Option<Reads>,
                    places: bool| {
            let (mut figures, mut rows) = (Metrics::new(8), Collect::default());
            let mut observers: Vec<&mut dyn Observer> = vec![&mut figures];
            if places {
                observers.push(&mut rows);
            }
            let deciders = Deciders::from(reads.map(|reads| Box::new(reads) as Box<dyn Policy>));
            needs_no_places(Some(job), &world.0, machine, &world.1, &deciders, &observers)
        };
        assert!(asks(&machine, &job, &plain, None, false), "the built-in policy");
        assert!(asks(&machine, &job, &plain, Some(Reads(false, false)), false));
        assert!(!asks(&machine, &job, &plain, Some(Reads(false, true)), false));
        assert!(asks(&single, &job, &plain, Some(Reads(false, true)), false), "nodes of one core");
        assert!(!asks(&single, &job, &plain, Some(Reads(true, true)), false));
        assert!(!asks(&machine, &job, &plain, None, true), "an observer of places");
        assert!(!asks(&machine, &Job { nodes: 2, ..job }, &plain, None, false), "whole nodes");
        let config = Config { placement: Placement::HiNodeX, ..driver::replay_config() };
        assert!(!asks(&machine, &job, &(Surroundings::default(), config), None, false));
        let outages = Outages::of(vec![(1.0, Outage { ranks: Idset::from_iter([0]), change: Change::Fail })]);
        let failing = (Surroundings { outages, ..Surroundings::default() }, driver::replay_config());
        assert!(!asks(&machine, &job, &failing, None, false));
    }
}
