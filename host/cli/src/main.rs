//! The one binary: commands, rendering, signals, and the scheduler's main loop.
//!
//! Uses the other crates through their public faces only.

#![forbid(unsafe_code)]

mod arena;
mod args;
mod client;
mod cmd;
mod demo;
mod fail;
mod install;
mod invoked;
mod logging;
mod machine;
mod place;
mod policies;
mod render;
mod sched;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;

use args::{Cli, Command};

fn main() -> ExitCode {
    // A broker that starts us as its module says so in the environment, not in arguments.
    if let Some(birth) = sched::module::Birth::find() {
        arena::one();
        return sched::module::run(birth);
    }
    // clap ends with exit code 2 on its own for what it cannot parse.
    let cli = invoked::parse();
    match run(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere to say it is no reason to panic.
            let _ = writeln!(std::io::stderr(), "{}: {error:#}", invoked::name());
            ExitCode::from(fail::code(&error))
        }
    }
}

fn run(command: &Command) -> Result<()> {
    // The scheduler's log has two ends.
    if !matches!(command, Command::Sched(_)) {
        logging::to_stderr();
    }
    match command {
        Command::Sched(args) => {
            arena::one();
            sched::run(args)
        }
        Command::Up(args) => cmd::up::up(args),
        Command::Down(args) => cmd::up::down(args),
        Command::Submit(args) => cmd::submit::run(args),
        Command::Jobs(args) => cmd::jobs::jobs(args),
        Command::Job(args) => cmd::jobs::job(args),
        Command::Cancel(args) => cmd::control::cancel(args),
        Command::Urgency(args) => cmd::control::urgency(args),
        Command::Drain(args) => cmd::control::drain(args),
        Command::Undrain(args) => cmd::control::undrain(args),
        Command::Resource(command) => cmd::control::resource(command),
        Command::Queue(command) => cmd::control::queue(command),
        Command::Policy(command) => cmd::policy::run(command),
        Command::Config(command) => cmd::config::run(command),
        Command::Replay(args) => cmd::replay::run(args),
        Command::Journal(command) => cmd::journal::run(command),
        Command::Workload(args) => cmd::workload::run(args),
        Command::Graph(command) => cmd::graph::run(command),
        Command::ResourceQuery(args) => cmd::resource_query::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Status(args) => cmd::status::run(args),
        Command::Install(args) => install::run(args),
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "fluxgate", &mut std::io::stdout());
            Ok(())
        }
        Command::Man { dir } => {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            clap_mangen::generate_to(Cli::command(), dir)
                .with_context(|| format!("cannot write the man pages into {}", dir.display()))
        }
    }
}
