//! `fluxgate replay`: a log through policies, at full speed, checked by a judge that shares no code with the
//! scheduler, with figures as table, JSON or CSV.
//!
//! Everything that can be wrong with the input is found before the first byte is written. Runs go side by side, one
//! thread each; the results do not depend on their number.

mod args;
mod bounds;
mod compare;
mod deciders;
mod dump;
mod events;
mod fair;
mod flow;
mod following;
mod forecasts;
mod input;
mod journal;
mod keeping;
mod listed;
mod lockstep;
mod output;
mod parts;
mod run;

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_sim::driver::Surroundings;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::outages::Outages;
use fluxgate_sim::reservations::Reservations;
use fluxgate_sim::warm;
use fluxgate_sim::workload::Procs;

use crate::fail::usage;
use crate::policy_source::PolicySource;

pub(super) use self::args::Replay;
pub(super) use self::journal::ByDigest;
pub(super) use self::run::open;
use input::Input;

/// Run the command.
pub(crate) fn run(args: &Replay) -> Result<()> {
    if args.definitions {
        return compare::definitions(args.json);
    }
    if let Some(files) = &args.diff {
        return compare::diff(&files[0], &files[1], args.job, args.json);
    }
    if let Some(path) = &args.journal {
        return journal::run(args, path);
    }
    let Some(log) = &args.log else { return Err(usage("name a LOG")) };
    let outputs = [&args.schedule, &args.csv, &args.hook];
    let on_stdout = outputs.iter().filter(|p| p.as_deref().is_some_and(|p| p.as_os_str() == "-")).count();
    if on_stdout > 1 || (on_stdout == 1 && args.json) {
        return Err(usage("standard output can take only one of --schedule -, --hook -, --csv - and --json"));
    }
    let several = args.policy.len() > 1 || args.jobs.len() > 1 || args.resample.is_some();
    let of_one_run = [
        ("--schedule -", args.schedule.as_deref().is_some_and(|p| p.as_os_str() == "-")),
        ("--hook -", args.hook.as_deref().is_some_and(|p| p.as_os_str() == "-")),
        ("--serve", args.serve.is_some()),
    ];
    if let Some((flag, _)) = of_one_run.iter().find(|(_, asked)| *asked && several) {
        return Err(usage(format!("{flag} takes one --policy, one sequence of --jobs, and no --resample")));
    }
    if let Some(twice) = (1..args.jobs.len()).find(|place| args.jobs[..*place].contains(&args.jobs[*place])) {
        return Err(usage(format!(
            "--jobs: found {} twice, accepted are sequences that differ",
            args.jobs[twice]
        )));
    }
    let named = !args.policy.is_empty();
    let with_policies;
    let args = match keeping::resumed(args)? {
        Some(resumed) => {
            with_policies = resumed;
            &with_policies
        }
        None => args,
    };
    bounds::config(args)?;
    dump::check(args)?;
    let asked = deciders::policies(args, &PolicySource::open(args.policies.as_deref())?)?;

    let options = args.options();
    let attributes = asked.iter().any(|asked| asked.recipes.read_attributes());
    let mut input = Input::load(args, log, attributes)?;
    let machine = match &args.machine {
        Some(path) if !path.exists() => match path.to_str().and_then(Machine::in_words) {
            Some(machine) => machine.context("--machine")?,
            None => Machine::load(path)?,
        },
        Some(path) => Machine::load(path)?,
        None => Machine::from_header(&input.survey.header)
            .and_then(|machine| machine.with_pools(&args.pool))
            .with_context(|| log.display().to_string())?,
    };
    if options.procs == Procs::Nodes {
        input.on_nodes_of(machine.cores_per_node()?);
    }
    let mut notes = input.notes(&machine);
    notes.extend(output::semantics(args));
    notes.extend(output::uncounted(args));
    let warm =
        args.warm.as_deref().map(|path| warm::load(path, &machine.cores, options.procs)).transpose()?;
    let warm = warm.unwrap_or_default();
    if let Some(path) = &args.warm {
        let (ids, cores) = (
            warm.iter().map(|job| job.id).collect(),
            warm.iter().map(|job| u64::from(job.cores)).sum::<u64>(),
        );
        if let Some(job) = input.first_of(&ids)? {
            bail!("{}: found job {}, accepted are numbers that no job of the log has", path.display(), job.0);
        }
        notes.push(format!("{} jobs run on {cores} cores when the first one is submitted", warm.len()));
    }
    if !args.quiet {
        let _ = writeln!(io::stderr(), "{}: {}", log.display(), notes.join("; "));
    }

    let ranks = machine.cores.keys().copied().collect();
    let outages =
        args.outages.as_deref().map(|path| Outages::load(path, &ranks)).transpose()?.unwrap_or_default();
    let reservations = args.reservations.as_deref().map(Reservations::load).transpose()?.unwrap_or_default();
    let queues = input.queue_names(options.queues);
    deciders::check_queues(args, &input.queues(&queues))?;
    let flow = flow::asks(args, &machine, options.procs)?;
    let jobspecs = input.survey.jobspecs.clone();
    let surroundings = Surroundings {
        queues,
        warm,
        following: Arc::default(),
        outages,
        on_failure: args.on_failure,
        reservations,
        flow,
        jobspecs,
        attributes: input.survey.attributes.as_slice().into(),
        forecasts: args.forecast,
        fallback: false,
        rules: args.rules(),
    };
    if let Some(kind) = args.dump {
        let world = dump::World { args, input: &input, machine: &machine, surroundings: &surroundings };
        return dump::run(kind, &asked, &world);
    }
    let checkpoints = keeping::Checkpoints::of(args, log, named)?;
    checkpoints.check(&asked, &input)?;
    let runs = match &args.serve {
        None => run::side_by_side(args, &asked, &input, &machine, &surroundings, &checkpoints)?,
        Some(path) => {
            let socket = lockstep::Socket::bind(path)?;
            if !args.quiet {
                let _ = writeln!(io::stderr(), "{}: the run waits for its client", path.display());
            }
            let mut client = socket.accept()?;
            match run::driven(args, &asked, &input, &machine, &surroundings, &checkpoints, &mut client) {
                Err(_) if client.stopped() => return Ok(()),
                ran => ran?,
            }
        }
    };
    if let Some(folder) = &args.report {
        output::write_report(args, folder, log, notes, &machine, &runs)?;
    }
    output::show(args, log, &input, &machine, &runs, on_stdout > 0)?;
    let wrong: Vec<String> =
        runs.iter().flat_map(|r| r.violations.iter().map(move |v| format!("{}: {v}", r.label()))).collect();
    if wrong.is_empty() { Ok(()) } else { Err(anyhow!("the schedule is not valid:\n{}", wrong.join("\n"))) }
}
