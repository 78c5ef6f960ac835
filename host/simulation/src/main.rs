//! `fluxgate-simulation`: runs seeds, counts the situations that they reached, and says a failing one as a command.
//!
//! The only file of this crate with a clock. Must never know what a seed does.

#![forbid(unsafe_code)]
// Talking on standard error is a part of this program's purpose.
#![allow(clippy::print_stderr)]

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use fluxgate_formats::Idset;
use fluxgate_simulation::campaign::{command, profile_of, run, shrink};
use fluxgate_simulation::components::CompiledPolicies;
use fluxgate_simulation::fault::Kind;
use fluxgate_simulation::plan::{Keep, Plan, Profile};
use fluxgate_simulation::tally::Tally;

/// Seeds that are run where none are named.
const SEEDS: u64 = 1000;
/// Seconds between two lines of progress.
const PROGRESS: u64 = 10;

/// Run the whole scheduler under faults, from seeds.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask simulate", bin_name = "cargo xtask simulate")]
struct Arguments {
    /// Seeds to run, A..B without B. By default the first thousand, or with --minutes all from 0 on.
    #[arg(long, value_name = "A..B", value_parser = range, conflicts_with = "seed")]
    seeds: Option<Range<u64>>,
    /// Stop after this many minutes.
    #[arg(long, value_name = "N", value_parser = minutes, conflicts_with = "seed")]
    minutes: Option<f64>,
    /// Only these kinds of faults, in every seed; with an unknown name all names are listed.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    fault: Option<Vec<Kind>>,
    /// One seed.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Of the one seed, these jobs only: an idset, or none.
    #[arg(long, value_name = "IDSET", value_parser = numbers, requires = "seed")]
    jobs: Option<BTreeSet<u32>>,
    /// Of the one seed, these faults only: an idset, or none.
    #[arg(long, value_name = "IDSET", value_parser = numbers, requires = "seed")]
    faults: Option<BTreeSet<u32>>,
    /// Print the plan and every message of the one seed, and what the scheduler logs.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Worlds with components, without, or each in its turn.
    #[arg(long, value_parser = which(), default_value = "all")]
    profile: Which,
    /// Stop after this many seeds that fail.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    failures: u64,
    /// The folder of components that `cargo xtask policies` builds.
    #[arg(long, env = "FLUXGATE_POLICIES", default_value = "target/policies")]
    policies: PathBuf,
}

/// One profile, or by turns those that `--profile all` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Which(Option<Profile>);

/// Reads the name of a profile, or `all`.
fn which() -> impl TypedValueParser<Value = Which> {
    let names = ["all"].into_iter().chain(Profile::ALL.map(Profile::name));
    let named = |name: String| Profile::ALL.into_iter().find(|profile| profile.name() == name);
    PossibleValuesParser::new(names).map(move |name| Which(named(name)))
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    let parsed = parsed.filter(|range: &Range<u64>| range.start < range.end);
    parsed.ok_or_else(|| "expected A..B with numbers A < B, such as 0..1000".to_owned())
}

fn minutes(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|minutes: &f64| *minutes > 0.0 && *minutes <= 1e6);
    parsed.ok_or_else(|| "expected a number of minutes above 0".to_owned())
}

fn numbers(text: &str) -> Result<BTreeSet<u32>, String> {
    if text == "none" {
        return Ok(BTreeSet::new());
    }
    let set =
        Idset::parse(text).map_err(|error| format!("expected an idset such as 0-3,7, or none: {error}"))?;
    Ok(set.iter().collect())
}

fn main() -> ExitCode {
    match start(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The profiles of a seed: that of the seed, and the same world with reservations, or the one that is asked for.
fn profiles(Which(one): Which, seed: u64) -> Vec<Profile> {
    one.map_or_else(|| vec![profile_of(seed), profile_of(seed).with_reservations()], |one| vec![one])
}

/// True if no seed failed.
fn start(arguments: &Arguments) -> Result<bool> {
    let kinds = arguments.fault.as_ref().map(|kinds| kinds.iter().copied().collect());
    let has_components = arguments.profile.0.is_none_or(Profile::has_components);
    let compiled = match has_components {
        false => CompiledPolicies::empty()?,
        true => CompiledPolicies::open(&arguments.policies)
            .context("`cargo xtask policies` builds the components; --profile builtin does without")?,
    };
    let compiled = Arc::new(compiled);
    let keep = Keep { jobs: arguments.jobs.clone(), faults: arguments.faults.clone(), kinds };
    match arguments.seed {
        Some(seed) => Ok(one(arguments, seed, &keep, &compiled)),
        None => Ok(many(arguments, &keep, &compiled)),
    }
}

/// Writes a line on standard output; the program ends if that fails, as with a reader that is gone.
fn say(line: &str) {
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(1);
    }
}

fn one(arguments: &Arguments, seed: u64, keep: &Keep, compiled: &Arc<CompiledPolicies>) -> bool {
    let profile = arguments.profile.0.unwrap_or_else(|| profile_of(seed));
    if arguments.trace {
        say(&format!("{:#?}", Plan::new(seed, profile, keep)));
        tracing_subscriber::fmt()
            .with_max_level(tracing::level_filters::LevelFilter::DEBUG)
            .with_writer(std::io::stdout)
            .with_ansi(false)
            .without_time()
            .init();
    }
    let outcome = run(seed, profile, keep, compiled, arguments.trace);
    say(&format!(
        "seed {seed}: {} steps, {} messages, hash {:016x}",
        outcome.tally.steps, outcome.tally.messages, outcome.hash
    ));
    match &outcome.broken {
        None => say("nothing is broken"),
        Some((time, what)) => say(&format!("broken at {time:.6} s: {what}")),
    }
    outcome.broken.is_none()
}

fn many(arguments: &Arguments, keep: &Keep, compiled: &Arc<CompiledPolicies>) -> bool {
    let end = if arguments.minutes.is_some() { u64::MAX } else { SEEDS };
    let seeds = arguments.seeds.clone().unwrap_or(0..end);
    let limit = arguments.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let (begin, mut told) = (Instant::now(), 0);
    let (mut tally, mut done, mut failed) = (Tally::default(), 0u64, 0u64);
    for (seed, profile) in
        seeds.flat_map(|seed| profiles(arguments.profile, seed).into_iter().map(move |p| (seed, p)))
    {
        let took = begin.elapsed();
        if limit.is_some_and(|limit| took >= limit) || failed >= arguments.failures {
            break;
        }
        if took.as_secs() >= told + PROGRESS {
            told = took.as_secs();
            say(&progress(done, took, failed, &tally));
        }
        let outcome = run(seed, profile, keep, compiled, false);
        tally.add(&outcome.tally);
        done += 1;
        let Some((time, what)) = &outcome.broken else { continue };
        failed += 1;
        say(&format!("seed {seed}: broken at {time:.6} s: {what}"));
        let small = shrink(seed, profile, keep, compiled);
        if let Some((time, what)) = run(seed, profile, &small, compiled, false).broken {
            say(&format!("  smaller, at {time:.6} s: {what}"));
        }
        say(&format!("  {} --trace", command(seed, profile, &small)));
    }
    say(&progress(done, begin.elapsed(), failed, &tally));
    say(&counts(&tally));
    failed == 0
}

fn progress(done: u64, took: Duration, failed: u64, tally: &Tally) -> String {
    let rate = done as f64 / took.as_secs_f64().max(1e-3);
    format!(
        "{done} seeds in {:.0} s, {rate:.1}/s, {failed} failed; {} jobs, {} starts, {} schedulers, {} messages",
        took.as_secs_f64(),
        tally.jobs,
        tally.starts,
        tally.lives,
        tally.messages,
    )
}

fn counts(tally: &Tally) -> String {
    let faults: Vec<String> = Kind::ALL
        .into_iter()
        .map(|kind| format!("{kind} {}", tally.faults.get(&kind).unwrap_or(&0)))
        .collect();
    let mut lines = vec![format!("faults: {}", faults.join(", "))];
    for (what, count) in &tally.reached {
        lines.push(format!("{count:>10}  {what}"));
    }
    let never = tally.never();
    if !never.is_empty() {
        lines.push(format!("never reached: {}", never.join("; ")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_are_checked_and_errors_are_clear() {
        Arguments::command().debug_assert();
        let error = |arguments: &[&str]| {
            let all = [&["simulate"], arguments].concat();
            Arguments::try_parse_from(all).unwrap_err().to_string()
        };
        assert!(error(&["--seeds", "5"]).contains("expected A..B"));
        assert!(error(&["--seeds", "5..5"]).contains("expected A..B"));
        assert!(
            error(&["--minutes", "-1"]).contains("--minutes") || error(&["--minutes=-1"]).contains("above 0")
        );
        assert!(error(&["--minutes", "0"]).contains("above 0"));
        assert!(error(&["--fault", "kil"]).contains("faults are kill"));
        assert!(error(&["--trace"]).contains("--seed"));
        assert!(error(&["--seed", "1", "--jobs", "x"]).contains("expected an idset"));
        assert!(error(&["--seed", "1", "--seeds", "1..2"]).contains("cannot be used with"));
        let good =
            Arguments::try_parse_from(["simulate", "--seed", "7", "--faults", "none", "--jobs", "0-2"])
                .unwrap();
        assert_eq!((good.faults.unwrap().len(), good.jobs.unwrap().len()), (0, 3));
    }
}
