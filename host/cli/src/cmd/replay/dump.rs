//! `fluxgate replay --dump`: input and decisions of a policy, pass by pass; with two policies also the first instant
//! at which they start other jobs.
//!
//! Must never know figures.

use anyhow::{Context, Result, anyhow};
use fluxgate_engine::PassTrace;
use fluxgate_formats::JobId;
use fluxgate_sim::driver::Surroundings;
use fluxgate_sim::keeping::Keeping;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::observe::Observer;
use fluxgate_sim::passes::{self, Instants, PassesAt, Shown};
use serde_json::{Value, json};

use super::args::{Dump, Replay};
use super::bounds;
use super::deciders::Asked;
use super::input::Input;
use super::lockstep::ended;
use crate::fail::usage;
use crate::render;

/// A log with everything that a run needs.
pub(super) struct World<'a> {
    pub(super) args: &'a Replay,
    pub(super) input: &'a Input,
    pub(super) machine: &'a Machine,
    pub(super) surroundings: &'a Surroundings,
}

/// Refuses options that do not go together.
pub(super) fn check(args: &Replay) -> Result<()> {
    let policies = args.policy.len();
    match args.dump {
        Some(Dump::Difference) if policies != 2 => {
            Err(usage(format!("--dump=difference: found {policies} --policy, accepted are two")))
        }
        Some(Dump::Difference) if args.from_pass.is_some() || args.until_pass.is_some() => {
            Err(usage("--from-pass and --until-pass are for --dump=passes"))
        }
        Some(Dump::Passes) if policies > 1 => Err(usage(format!(
            "--dump: found {policies} --policy, accepted is one, or two with --dump=difference"
        ))),
        Some(Dump::Passes) if args.from_pass > args.until_pass && args.until_pass.is_some() => {
            Err(usage("--from-pass: accepted is a number up to that of --until-pass"))
        }
        _ => Ok(()),
    }
}

/// Show the passes that were asked for.
pub(super) fn run(kind: Dump, asked: &[Asked], world: &World<'_>) -> Result<()> {
    match (kind, asked) {
        (Dump::Difference, [a, b]) => difference(a, b, world),
        (_, [asked, ..]) => shown(asked, world),
        _ => Err(usage("--dump: name a --policy")),
    }
}

impl World<'_> {
    /// One run, which an observer may end.
    fn run(&self, asked: &Asked, observer: &mut dyn Observer) -> Result<()> {
        let (config, deciders) = (bounds::config(self.args)?, asked.recipes.make()?);
        let (part, whole) = (self.input.parts()[0], (false, Keeping::default()));
        let ran =
            self.input.run(part, (self.machine, self.surroundings), config, deciders, &mut [observer], whole);
        match ran {
            Err(error) if ended(&error) => Ok(()),
            ran => ran.map(drop).with_context(|| format!("replay with {}", asked.label)),
        }
    }
}

/// The passes of one policy.
fn shown(asked: &Asked, world: &World<'_>) -> Result<()> {
    let args = world.args;
    let (from, until) = (args.from_pass.unwrap_or(1), args.until_pass.unwrap_or(u64::MAX));
    let mut passes = Shown::new(from, until, |number, pass: &PassTrace| {
        let line = match args.json {
            true => passes::json(number, pass).to_string(),
            false => passes::text(number, pass).trim_end().to_owned(),
        };
        render::line(line).map_err(std::io::Error::other)
    });
    world.run(asked, &mut passes)?;
    let count = passes.count();
    if count < from {
        return Err(anyhow!("--from-pass {from}: the run has {count} passes"));
    }
    Ok(())
}

/// Shows the first instant at which two policies differ, and its passes.
fn difference(a: &Asked, b: &Asked, world: &World<'_>) -> Result<()> {
    let both = [a, b];
    let mut runs = [Instants::default(), Instants::default()];
    for (asked, instants) in both.iter().zip(&mut runs) {
        world.run(asked, instants)?;
    }
    let names = both.map(|asked| asked.label.as_str());
    let Some((time, only_a, only_b)) = runs[0].difference(&runs[1]) else {
        return match world.args.json {
            true => render::json(&json!({"policies": names, "same": true})),
            false => render::line(format!("{} and {} start every job at the same time", names[0], names[1])),
        };
    };
    let mut at = [PassesAt::of(time), PassesAt::of(time)];
    for (asked, passes) in both.iter().zip(&mut at) {
        world.run(asked, passes)?;
    }
    let only = [only_a, only_b];
    if world.args.json {
        let sides: Vec<Value> = (0..2)
            .map(|side| {
                let passes: Vec<Value> =
                    at[side].passes.iter().map(|(number, pass)| passes::json(*number, pass)).collect();
                let jobs: Vec<u64> = only[side].iter().map(|job| job.0).collect();
                json!({"policy": names[side], "starts_only_here": jobs, "passes": passes})
            })
            .collect();
        return render::json(&json!({"policies": names, "same": false, "time": time, "runs": sides}));
    }
    render::line(format!("{} and {} start the same jobs until {time}; then", names[0], names[1]))?;
    for (name, only) in names.iter().zip(&only) {
        render::line(format!("  only {name} starts {}", listed(only)))?;
    }
    for (name, passes) in names.iter().zip(&at) {
        render::line(format!("\n{name}:"))?;
        if passes.passes.is_empty() {
            render::line("no pass at this time")?;
        }
        for (number, pass) in &passes.passes {
            render::line(passes::text(*number, pass).trim_end())?;
        }
    }
    Ok(())
}

fn listed(jobs: &[JobId]) -> String {
    let ids: Vec<String> = jobs.iter().map(|job| job.0.to_string()).collect();
    if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
}
