//! Every command and flag, described once as data: parsing, help, completions and man pages come from here.
//!
//! This module must never do anything.

pub(crate) mod artefact;
pub(crate) mod journal;
pub(crate) mod policy;
mod replay;
pub(crate) mod shadow;
pub(crate) mod workload;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use replay::Replay;

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
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the instance is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Socket of the instance: local:///path or a path. Default: the instance of --dir.
    #[arg(long, env = "FLUX_URI", value_name = "URI", global = true)]
    pub(crate) uri: Option<String>,
    /// Folder of the embedded instance. Default: a folder of yours in $XDG_RUNTIME_DIR or the temporary one.
    #[arg(long, env = "FLUXGATE_DIR", value_name = "DIR", global = true)]
    pub(crate) dir: Option<PathBuf>,
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
    Submit(Submit),
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
    /// Look at queues, stop and start them.
    #[command(subcommand)]
    Queue(QueueCmd),
    /// Look at policies, load, swap and write them.
    #[command(subcommand)]
    Policy(policy::PolicyCmd),
    /// Look at the scheduler's settings, check a file of them, and have them read again.
    #[command(subcommand)]
    Config(ConfigCmd),
    /// The scheduler at a glance: who decides, what waits and runs, what is free.
    Status(Status),
    /// Replay a workload log, or a scheduler's journal, through policies, at full speed and without an instance.
    Replay(Box<Replay>),
    /// Look at what a scheduler wrote down, and check it.
    #[command(subcommand)]
    Journal(journal::JournalCmd),
    /// Make, look at, cut and convert workloads.
    Workload(workload::WorkloadArgs),
    /// Look at files that describe a machine: check them, show and search them, convert them.
    #[command(subcommand)]
    Graph(crate::cmd::graph::GraphCmd),
    /// Ask a resource graph for resources, line by line, as the graph scheduler's tool does.
    ResourceQuery(crate::cmd::resource_query::ResourceQuery),
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

/// Policy to start with, and where policies are looked for.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyArgs {
    /// Policy to begin with: a name, or a .wasm file. Default: easy.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) policy: Option<String>,
    /// Settings of that policy.
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,
    /// Folder with .wasm policies. Default: `policies` beside the installed binary.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
}

/// Where everything is written down.
#[derive(Debug, Clone, Args)]
pub(crate) struct JournalArgs {
    /// Write every event and decision into this folder, for `fluxgate replay --journal`.
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
    /// Most that the journal takes on the disk: bytes, or like 64M or 1G. Default: 256M.
    #[arg(long, value_name = "SIZE", requires = "journal")]
    pub(crate) journal_size: Option<String>,
}

/// `fluxgate up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Number of nodes.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) nodes: u32,
    /// Cores of each node.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) cores: u32,
    /// GPUs of each node.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_024))]
    pub(crate) gpus: u32,
    /// Resources from a file instead: R (RFC 20 JSON), TOML with [[resource.config]], or JGF.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "cores", "gpus"])]
    pub(crate) resources: Option<PathBuf>,
    /// Named queues; without any there is one anonymous queue. The first one is the default.
    #[arg(long = "queue", value_name = "NAME")]
    pub(crate) queues: Vec<String>,
    /// How many times faster than real time the instance's clock runs.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub(crate) speed: f64,
    /// Revision of the scheduler protocol (RFC 27 and 28) that the instance speaks. Schedulers find out by
    /// themselves.
    #[arg(long, value_enum, default_value_t = DialectArg::Current, value_name = "DIALECT")]
    pub(crate) dialect: DialectArg,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    /// Return when the instance serves, and let it run.
    #[arg(long)]
    pub(crate) detach: bool,
    /// Start no scheduler; run `fluxgate sched` yourself.
    #[arg(long)]
    pub(crate) no_sched: bool,
}

/// What `--dialect` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectArg {
    /// As flux-core 0.88.
    Current,
    /// As first written in 2020.
    Founding,
}

/// `fluxgate down`.
#[derive(Debug, Args)]
pub(crate) struct Down {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Also remove the instance's folder with all job records.
    #[arg(long)]
    pub(crate) purge: bool,
}

/// `fluxgate sched`.
#[derive(Debug, Args)]
pub(crate) struct Sched {
    /// Socket of the instance: local:///path or a path.
    #[arg(long, env = "FLUX_URI", value_name = "URI")]
    pub(crate) connect: String,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    /// Serve at most this many requests at once (RFC 27 limited mode). Default: unlimited.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2_147_483_647))]
    pub(crate) limit: Option<u32>,
    /// A Flux configuration (TOML) with the table [sched-fluxgate]. Default: the configuration of the instance.
    /// SIGHUP and `fluxgate config reload` read it again.
    #[arg(long, value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
    /// Settings as a broker module takes them; they win over flags, and these over the table. See `fluxgate
    /// config check`.
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
}

/// `fluxgate submit`.
#[derive(Debug, Args)]
#[command(
    override_usage = "fluxgate submit [OPTIONS] [-- COMMAND...]\n       fluxgate submit --jobspec FILE [OPTIONS]"
)]
pub(crate) struct Submit {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Nodes.
    #[arg(short = 'N', long, value_name = "N")]
    pub(crate) nodes: Option<u32>,
    /// Tasks (slots). Default: one, or one for each node. With --jobspec: the number of copies.
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) ntasks: Option<u32>,
    /// Cores for each task.
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    pub(crate) cores_per_task: u32,
    /// GPUs for each task.
    #[arg(short = 'g', long, value_name = "N", default_value_t = 0)]
    pub(crate) gpus_per_task: u32,
    /// Take whole nodes.
    #[arg(short = 'x', long)]
    pub(crate) exclusive: bool,
    /// Time limit as RFC 23 duration: 90s, 10m, 1.5h, 2d. Default: none.
    #[arg(short = 't', long, value_name = "FSD")]
    pub(crate) time_limit: Option<String>,
    /// Queue.
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Required properties, hosts or ranks as an RFC 31 constraint (JSON), or a plain property name.
    #[arg(long, value_name = "CONSTRAINT")]
    pub(crate) requires: Option<String>,
    /// Urgency, 0 to 31.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(0..=31))]
    pub(crate) urgency: u8,
    /// Name shown in lists. Default: the command.
    #[arg(long, value_name = "NAME")]
    pub(crate) job_name: Option<String>,
    /// A jobspec (RFC 14 or 25, JSON or YAML; - for standard input) instead of the flags above.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "exclusive", "requires"])]
    pub(crate) jobspec: Option<PathBuf>,
    /// Submit this many copies.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) copies: u32,
    /// Do not run anything: hold the resources for this long (RFC 23 duration) of the instance's clock.
    #[arg(long, value_name = "FSD")]
    pub(crate) simulate: Option<String>,
    /// Print the jobspec instead of submitting it.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The command of each task.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `fluxgate jobs`.
#[derive(Debug, Args)]
pub(crate) struct Jobs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Also jobs that are done.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Only jobs in this state.
    #[arg(short, long, value_name = "STATE")]
    pub(crate) filter: Option<StateFilter>,
    /// At most this many, 0 for no limit.
    #[arg(short, long, default_value_t = 1000, value_name = "N")]
    pub(crate) count: u32,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// States that `fluxgate jobs` can be limited to.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum StateFilter {
    /// DEPEND, PRIORITY, SCHED.
    Pending,
    /// RUN, CLEANUP.
    Running,
    /// INACTIVE.
    Inactive,
}

/// `fluxgate job`.
#[derive(Debug, Args)]
pub(crate) struct JobCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The job, in any FLUID form.
    #[arg(value_name = "JOBID")]
    pub(crate) id: String,
    /// Wait until the job is done.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate cancel`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Jobs, in any FLUID form.
    #[arg(value_name = "JOBID", required = true)]
    pub(crate) ids: Vec<String>,
    /// For the job's record.
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// `fluxgate urgency`.
#[derive(Debug, Args)]
pub(crate) struct Urgency {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The job, in any FLUID form.
    #[arg(value_name = "JOBID")]
    pub(crate) id: String,
    /// 0 to 31, or hold, default, expedite.
    #[arg(value_name = "VALUE")]
    pub(crate) value: String,
}

/// `fluxgate drain`.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Ranks (0-3,7) or hosts (node[0-3]).
    #[arg(value_name = "TARGETS")]
    pub(crate) targets: String,
    /// Why.
    #[arg(value_name = "REASON", trailing_var_arg = true)]
    pub(crate) reason: Vec<String>,
}

/// `fluxgate undrain`.
#[derive(Debug, Args)]
pub(crate) struct Undrain {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Ranks (0-3,7) or hosts (node[0-3]).
    #[arg(value_name = "TARGETS")]
    pub(crate) targets: String,
}

/// `fluxgate resource`.
#[derive(Debug, Subcommand)]
pub(crate) enum Resource {
    /// Free, allocated and down resources.
    List {
        #[command(flatten)]
        target: Target,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `fluxgate queue`.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCmd {
    /// Queues and their state.
    List {
        #[command(flatten)]
        target: Target,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Start no more jobs of a queue, or of all.
    Stop {
        #[command(flatten)]
        target: Target,
        /// The queue; all without it.
        queue: Option<String>,
    },
    /// Start jobs of a queue again, or of all.
    Start {
        #[command(flatten)]
        target: Target,
        /// The queue; all without it.
        queue: Option<String>,
    },
}

/// `fluxgate status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCmd {
    /// The settings in force, and where each comes from: an argument, the table, or its default.
    Show {
        #[command(flatten)]
        target: Target,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Bring changed settings into force. All of them are checked first: nothing changes if one is wrong.
    Reload {
        #[command(flatten)]
        target: Target,
        /// A Flux configuration (TOML) with the table [sched-fluxgate]. Default: the scheduler reads again
        /// what it was started with, its file or the configuration of the instance.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check the [sched-fluxgate] table of a Flux configuration, and show what it would set. Asks nobody.
    Check {
        /// The configuration (TOML). Without it, only the arguments over the defaults.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Arguments as a module would get them.
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `fluxgate install`.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing is changed unless all of it can be. Files of others are never overwritten, and files \
    below etc and unit files that were changed since they were installed are kept."
)]
pub(crate) struct Install {
    /// Where to. In the prefix of a Flux its next instances load the scheduler by themselves.
    #[arg(long, value_name = "DIR")]
    pub(crate) prefix: PathBuf,
    /// Folder of configuration. Default: etc in the prefix, or /etc for /usr.
    #[arg(long, value_name = "DIR")]
    pub(crate) sysconfdir: Option<PathBuf>,
    /// Folder with the .wasm policies to install. Default: `policies` beside this program.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// Only say what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove what was installed.
    #[arg(long)]
    pub(crate) uninstall: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder with .wasm policies. Default: `policies` beside the installed binary.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// Jobs to submit.
    #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub(crate) jobs: u32,
    /// How many times faster than real time the clock runs.
    #[arg(long, default_value_t = 6000.0)]
    pub(crate) speed: f64,
    /// Seed of the workload.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the instance's folder.
    #[arg(long)]
    pub(crate) keep: bool,
}
