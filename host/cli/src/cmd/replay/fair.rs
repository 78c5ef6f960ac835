//! `fluxgate replay --fair-start`: the same policies again, each time without the jobs submitted after a sampled one.
//!
//! Must never know a policy's decisions.

use anyhow::{Context, Result};
use fluxgate_sim::driver::Surroundings;
use fluxgate_sim::fair::{self, Starts};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::FairStart;
use fluxgate_sim::workload::Job;
use indicatif::ProgressBar;

use super::deciders::Recipes;

/// Policies and settings of the runs.
pub(super) struct Asked<'a> {
    pub(super) recipes: &'a Recipes,
    pub(super) config: &'a fluxgate_engine::Config,
}

impl Asked<'_> {
    /// Compare the starts of sampled jobs with their fair starts.
    pub(super) fn compare(
        &self,
        (places, starts): (&[usize], &Starts),
        jobs: &[Job],
        machine: &Machine,
        surroundings: &Surroundings,
        bar: &ProgressBar,
    ) -> Result<FairStart> {
        let mut pairs = Vec::with_capacity(places.len());
        bar.set_length(places.len() as u64);
        bar.set_message("fair starts");
        bar.reset();
        for &place in places {
            bar.inc(1);
            let Some(start) = starts.start(jobs[place].id) else { continue };
            let policies = self.recipes.make()?;
            let (resources, config) = (machine.resources.clone(), self.config.clone());
            let fair = fair::start(jobs, place, surroundings, resources, config, policies)
                .with_context(|| format!("replay up to job {}", jobs[place].id.0))?;
            pairs.extend(fair.map(|fair| (start, fair)));
        }
        Ok(FairStart::of(&pairs))
    }
}
