//! One replay of one policy on jobs that are in memory, with its figures and its judge. Must never read a file or print.

use anyhow::Result;
use fluxgate_formats::JobId;
use fluxgate_policy::{Compiled, Config};
use fluxgate_sim::driver::{self, Deciders, Outcome, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::{Metrics, Summary};
use fluxgate_sim::observe::Observer;
use fluxgate_sim::replay;
use fluxgate_sim::rules::picking;
use fluxgate_sim::workload::Job;

/// The input of a replay.
pub(crate) struct Once<'a> {
    /// The component; `None` is the built-in policy.
    pub(crate) component: Option<&'a Compiled>,
    /// Its settings.
    pub(crate) config: &'a Config,
    /// The environment of the jobs.
    pub(crate) surroundings: &'a Surroundings,
    /// The machine.
    pub(crate) machine: &'a Machine,
    /// The first job that counts.
    pub(crate) counted: Option<(f64, JobId)>,
    /// Whether the schedule is checked.
    pub(crate) check: bool,
}

/// The results of a replay.
pub(crate) struct Ran {
    /// Its figures.
    pub(crate) summary: Summary,
    /// Its end.
    pub(crate) outcome: Outcome,
    /// The first violations that the judge found.
    pub(crate) violations: Vec<String>,
}

impl Once<'_> {
    /// Runs jobs, sorted by submission and id. `more` observers see them too.
    pub(crate) fn run(&self, jobs: &[Job], more: Vec<&mut dyn Observer>) -> Result<Ran> {
        let made: Option<Box<dyn fluxgate_engine::Policy>> = match self.component {
            Some(component) => Some(Box::new(component.instantiate(self.config)?)),
            None => None,
        };
        let default = picking::apply(made, &self.surroundings.rules)?;
        let mut metrics = Metrics::new(self.machine.total_cores()).counting_from(self.counted);
        let mut observers: Vec<&mut dyn Observer> = vec![&mut metrics];
        for observer in more {
            observers.push(observer);
        }
        let (outcome, judged) = replay::run(
            jobs.iter().copied(),
            self.surroundings,
            self.machine,
            driver::replay_config(),
            Deciders { default, ..Deciders::default() },
            &mut observers,
            self.check,
        )?;
        drop(observers);
        let violations = judged.iter().flat_map(|report| report.first.iter().map(ToString::to_string));
        Ok(Ran { violations: violations.collect(), summary: metrics.summary()?, outcome })
    }
}
