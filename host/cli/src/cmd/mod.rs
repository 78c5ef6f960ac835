//! The commands, a file or a folder for each group with its flags. Those that talk to an instance do so over its socket
//! like any other client.
//!
//! Nothing below this file may know it.

mod bench;
pub(crate) mod cli;
mod config;
mod control;
mod demo;
mod doctor;
mod drain_for;
mod graph;
mod install;
mod job_args;
mod jobs;
mod journal;
mod metrics;
mod policy;
mod questions;
mod replay;
mod reservation;
mod resource_query;
mod sched;
mod status;
mod submit;
mod sweep;
mod top;
mod up;
mod web;
mod workload;

use anyhow::{Context, Result};
use clap::CommandFactory;

use self::cli::{Cli, Command};
use crate::{arena, logging, render};

/// Carry out a command.
pub(crate) fn run(cli: Cli) -> Result<()> {
    // The scheduler's log has two ends.
    if !matches!(cli.command, Command::Sched(_)) {
        logging::to_stderr();
    }
    match &cli.command {
        Command::Sched(args) => {
            arena::one();
            sched::run(args)
        }
        Command::Up(args) => up::up(args),
        Command::Down(args) => up::down(args),
        Command::Submit(args) => submit::run(args),
        Command::Jobs(args) => jobs::jobs(args),
        Command::Job(args) => jobs::job(args),
        Command::Cancel(args) => control::cancel(args),
        Command::Urgency(args) => control::urgency(args),
        Command::Drain(args) => control::drain(args),
        Command::Undrain(args) => control::undrain(args),
        Command::Resource(command) => control::resource(command),
        Command::Queue(args) => match &args.command {
            Some(command) => control::queue(command),
            None => questions::order::run(&args.order),
        },
        Command::When(args) => questions::when(args),
        Command::Gaps(args) => questions::gaps(args),
        Command::Node(args) => questions::node(args),
        Command::Reservation(command) => reservation::run(command),
        Command::Policy(command) => policy::run(command),
        Command::Config(command) => config::run(command),
        Command::Replay(args) => replay::run(args),
        Command::Bench(command) => bench::run(command),
        Command::Sweep(args) => sweep::run(args),
        Command::Journal(command) => journal::run(command),
        Command::Workload(args) => workload::run(args),
        Command::Graph(command) => graph::run(command),
        Command::ResourceQuery(args) => resource_query::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::DrainFor(args) => drain_for::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Status(args) => status::run(args),
        Command::Metrics(args) => metrics::run(args),
        Command::Top(args) => top::run(args),
        Command::Web(args) => web::run(args),
        Command::Install(args) => install::run(args, &mut Cli::command()),
        Command::Completions { shell } => {
            // Written at once: the generator panics when its reader goes away.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "fluxgate", &mut script);
            render::line(String::from_utf8_lossy(&script).trim_end())
        }
        Command::Man { dir } => {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            clap_mangen::generate_to(Cli::command(), dir)
                .with_context(|| format!("cannot write the man pages into {}", dir.display()))
        }
    }
}
