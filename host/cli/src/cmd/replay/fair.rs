//! `fluxgate replay --fair-start`: the same policies again, each time without those who come after some job.
//!
//! Must never know what a policy decides.

use anyhow::{Context, Result};
use fluxgate_engine::{BUILTIN, Policy};
use fluxgate_policy::{Compiled, Config};
use fluxgate_sim::driver::{Deciders, Surroundings};
use fluxgate_sim::fair::{self, Starts};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::FairStart;
use fluxgate_sim::workload::Job;
use indicatif::ProgressBar;

use crate::policies::Shelf;
use crate::sched::roster::Builtin;

/// How to make a policy, as often as need be: from a component, or the built-in one.
pub(super) struct Recipe {
    name: String,
    component: Option<(Compiled, Config)>,
}

impl Recipe {
    /// Of a policy by name or path, with these settings.
    pub(super) fn of(shelf: &Shelf, policy: &str, settings: &[(String, String)]) -> Result<Recipe> {
        let config = settings.iter().cloned().collect();
        let compiled = (policy != BUILTIN).then(|| shelf.compile(policy)).transpose()?;
        Ok(Recipe { name: policy.to_owned(), component: compiled.map(|compiled| (compiled, config)) })
    }

    /// One, fresh; `None` is the built-in one.
    pub(super) fn make(&self) -> Result<Option<Box<dyn Policy>>> {
        let Some((compiled, config)) = &self.component else { return Ok(None) };
        Ok(Some(Box::new(compiled.instantiate(config).with_context(|| self.name.clone())?)))
    }
}

/// Who decides in one run.
pub(super) struct Recipes {
    pub(super) default: Recipe,
    /// By queue.
    pub(super) queues: Vec<(String, Recipe)>,
}

impl Recipes {
    /// The policies of queues, fresh.
    pub(super) fn of_queues(&self) -> Result<Vec<(String, Box<dyn Policy>)>> {
        let make = |(queue, recipe): &(String, Recipe)| {
            Ok((queue.clone(), recipe.make()?.unwrap_or_else(|| Box::new(Builtin))))
        };
        self.queues.iter().map(make).collect()
    }
}

/// What is replayed, over and over.
pub(super) struct Asked<'a> {
    pub(super) recipes: &'a Recipes,
    pub(super) config: &'a fluxgate_engine::Config,
}

impl Asked<'_> {
    /// Hold the starts of some jobs against their fair ones.
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
            let policies =
                Deciders { default: self.recipes.default.make()?, queues: self.recipes.of_queues()? };
            let (resources, config) = (machine.resources.clone(), self.config.clone());
            let fair = fair::start(jobs, place, surroundings, resources, config, policies)
                .with_context(|| format!("replay up to job {}", jobs[place].id.0))?;
            pairs.extend(fair.map(|fair| (start, fair)));
        }
        Ok(FairStart::of(&pairs))
    }
}
