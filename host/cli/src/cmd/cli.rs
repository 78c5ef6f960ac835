//! The command line: every command, and how it is parsed. Flags stand with the commands; help, completions and man pages are
//! made from both.
//!
//! This module must never do what a command says.

use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use super::bench::BenchCmd;
use super::config::ConfigCmd;
use super::control::{Cancel, Drain, Queue, Resource, Undrain, Urgency};
use super::demo::Demo;
use super::doctor::Doctor;
use super::drain_for::DrainFor;
use super::graph::GraphCmd;
use super::install::Install;
use super::jobs::{JobCmd, Jobs};
use super::journal::JournalCmd;
use super::metrics::Metrics;
use super::policy::PolicyCmd;
use super::questions::{Gaps, Node, When};
use super::replay::Replay;
use super::reservation::ReservationCmd;
use super::resource_query::ResourceQuery;
use super::sched::Sched;
use super::status::Status;
use super::submit::Submit;
use super::sweep::Sweep;
use super::top::Top;
use super::up::{Down, Up};
use super::web::Web;
use super::workload::WorkloadArgs;
use crate::{invoked, render, spelling};

/// A scheduler for Flux whose policies are WebAssembly components.
#[derive(Debug, Parser)]
#[command(
    name = "fluxgate",
    version,
    propagate_version = true,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(
    after_help = "Try it: 'fluxgate up --nodes 16 --cores 32 --policy easy --detach', then 'fluxgate submit \
    -n4 -t 10m --simulate 30s', 'fluxgate jobs', 'fluxgate down'.\n\nExit codes: 0 success, 1 failure, 2 usage."
)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start an embedded instance with its scheduler.
    Up(Up),
    /// Stop the embedded instance.
    Down(Down),
    /// Run the scheduler of an instance: connect to its socket and serve `sched`.
    Sched(Sched),
    /// Submit a job.
    Submit(Box<Submit>),
    /// List jobs.
    Jobs(Jobs),
    /// Show one job: its states, its resources, and why it waits.
    Job(JobCmd),
    /// Cancel jobs.
    Cancel(Cancel),
    /// Set the urgency of a job: 0 holds it, 16 is the default, 31 expedites it.
    Urgency(Urgency),
    /// Take nodes out of scheduling; running jobs stay.
    Drain(Drain),
    /// Give drained nodes back to scheduling.
    Undrain(Undrain),
    /// Look at resources.
    #[command(subcommand)]
    Resource(Resource),
    /// List the jobs that wait, in the order in which they will be looked at; or look at queues, stop and start them.
    Queue(Queue),
    /// Print when a job would start that is not submitted.
    When(Box<When>),
    /// List the shapes of jobs that would start at once.
    Gaps(Gaps),
    /// Show who is on a node, until when, and who is likely to come next.
    Node(Node),
    /// Keep nodes for maintenance, or for some users or queues, from one time to another.
    #[command(subcommand)]
    Reservation(ReservationCmd),
    /// Look at policies, load, swap and write them.
    #[command(subcommand)]
    Policy(PolicyCmd),
    /// Look at the scheduler's settings, check a file of them, and have them read again.
    #[command(subcommand)]
    Config(ConfigCmd),
    /// The scheduler at a glance: who decides, what waits and runs, what is free.
    Status(Status),
    /// Check what an administrator checks by hand: who decides, records that differ, nodes, queues, the clock.
    Doctor(Doctor),
    /// Wait until no reservation is about to begin and no swap is on its way: before a restart.
    DrainFor(DrainFor),
    /// Print the scheduler's figures for monitoring systems, as OpenMetrics text.
    Metrics(Metrics),
    /// The dashboard in a terminal: what runs, what waits and why, the machine, what policies cost.
    Top(Top),
    /// Serve pages about the instance to browsers on this host: what runs, what waits and why, the machine over time.
    Web(Web),
    /// Replay a workload log, or a scheduler's journal, through policies, at full speed and without an instance.
    Replay(Box<Replay>),
    /// Repeat published results: suites of tasks over logs that are named by their hashes.
    #[command(subcommand)]
    Bench(BenchCmd),
    /// Run policies with many settings on parts of logs, on all cores; results are kept, and a sweep that was killed goes on.
    Sweep(Sweep),
    /// Look at what a scheduler wrote down, and check it.
    #[command(subcommand)]
    Journal(JournalCmd),
    /// Make, look at, cut and convert workloads.
    Workload(WorkloadArgs),
    /// Look at files that describe a machine: check them, show and search them, convert them.
    #[command(subcommand)]
    Graph(GraphCmd),
    /// Ask a resource graph for resources, line by line, as the graph scheduler's tool does.
    ResourceQuery(ResourceQuery),
    /// Show everything at once: an instance under load, policies swapped live, a report and an audit.
    Demo(Demo),
    /// Install everything below a prefix: program, policies, man pages, Flux's and systemd's files.
    Install(Install),
    /// Print a completion script.
    Completions {
        /// For this shell.
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder.
    Man {
        /// The folder.
        dir: PathBuf,
    },
}

/// The arguments; ends the process for help and for arguments that cannot be parsed.
pub(crate) fn parse() -> Cli {
    let (arguments, hints) = spelling::today(std::env::args_os());
    for hint in hints {
        render::note(format!("{}: {hint}", invoked::name()));
    }
    if !invoked::as_subcommand() {
        return <Cli as Parser>::parse_from(arguments);
    }
    let matches = gate().get_matches_from(arguments);
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The command line as `flux gate`.
fn gate() -> clap::Command {
    let mut command = Cli::command().name("flux-gate").bin_name("flux gate").after_help(
        "The instance is that of FLUX_URI. Jobs, queues and resources have commands of Flux as well: flux \
         submit, flux jobs, flux queue, flux resource.\n\nExit codes: 0 success, 1 failure, 2 usage.",
    );
    for (embedded, _) in invoked::EMBEDDED {
        command = command.mut_subcommand(embedded, |c| c.hide(true));
    }
    command
}

#[cfg(test)]
mod pages;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_speaks_of_flux_gate_and_not_of_what_is_embedded() {
        let help = gate().render_help().to_string();
        assert!(help.contains("Usage: flux gate") && help.contains("policy"), "{help}");
        assert!(!help.contains("embedded") && !help.contains("'fluxgate"), "{help}");
        gate().debug_assert();
    }
}
