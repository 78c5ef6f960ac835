//! The arguments of `fluxgate replay`. Must never do anything.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use fluxgate_sim::flow::Ask;
use fluxgate_sim::keeping::Every;
use fluxgate_sim::metrics::NodeWatts;
use fluxgate_sim::outages::OnFailure;
use fluxgate_sim::parts::Sequence;
use fluxgate_sim::resample::{DRAWS, Resample};
use fluxgate_sim::rules::{Rules, Semantics};
use fluxgate_sim::workload::Options;

use crate::cmd::workload::args::Selection;

/// `fluxgate replay`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Replay {
    /// Log in Standard Workload Format, or another that --format names; plain or gzip.
    #[arg(value_name = "LOG", required_unless_present_any = ["diff", "definitions", "journal"])]
    pub(crate) log: Option<PathBuf>,
    /// Policies, by name or .wasm file, also with settings of their own: hybrid:depth=4. Each makes a run. Default: easy;
    /// with --journal those that decided.
    #[arg(long = "policy", value_name = "NAME|FILE[:KEY=VALUE,..]")]
    pub(crate) policy: Vec<String>,
    /// A policy that decides one queue in every run, while --policy decides the others.
    #[arg(long = "queue-policy", value_name = "QUEUE=NAME|FILE[:KEY=VALUE,..]", conflicts_with = "diff")]
    pub(crate) queue_policy: Vec<String>,
    /// The most cores that jobs of one queue hold at one time: a number of cores, `8 nodes` or `25%`.
    #[arg(long = "queue-ceiling", value_name = "QUEUE=AMOUNT", conflicts_with_all = ["diff", "journal"])]
    pub(crate) queue_ceiling: Vec<String>,
    /// Cores that jobs of other queues leave to one queue, as long as its jobs do not hold them.
    #[arg(long = "queue-floor", value_name = "QUEUE=AMOUNT", conflicts_with_all = ["diff", "journal"])]
    pub(crate) queue_floor: Vec<String>,
    /// Run a scheduler's journal again instead of a log: its folder, or one file of it. The decisions have to be the same
    /// to the byte; with --policy, what that policy would have done is compared with what was done.
    #[arg(long, value_name = "DIR|FILE", conflicts_with_all = ["log", "diff", "definitions", "machine", "limit", "load",
        "report", "schedule", "csv"])]
    pub(crate) journal: Option<PathBuf>,
    /// Settings of the policies, KEY=VALUE or a TOML file with them; a policy takes those it knows.
    #[arg(long = "config", value_name = "KEY=VALUE|FILE")]
    pub(crate) config: Vec<String>,
    /// Folder with .wasm policies. Default: `policies` beside the installed binary.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// Resources, in words: 256 (nodes of one core), 128x8 (nodes of cores), 128x8+4gpu; or a file with R (RFC 20 JSON), TOML
    /// with [[resource.config]], JGF, or the .machines of Alea. Default: from the log's header.
    #[arg(long, value_name = "WORDS|FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Jobs ask for flow that the machine has (power, bandwidth), this much for each node or core: power=350W/node;
    /// between two bounds, drawn with --seed: power=100-350W/node; only a share of the jobs: bandwidth=30%:1-4GB/s/core.
    #[arg(long, value_name = "KIND=[SHARE%:]N[-M][UNIT]/node|core", conflicts_with_all = ["journal", "diff", "definitions"])]
    pub(crate) flow: Vec<Ask>,
    /// A pool that feeds all nodes of the machine of the log's header: power=20kW.
    #[arg(long, value_name = "KIND=SIZE[UNIT]", value_parser = crate::values::pool,
        conflicts_with_all = ["machine", "journal", "diff", "definitions"])]
    pub(crate) pool: Vec<(String, u64, String)>,
    /// Failures and drains of nodes: a table with the first line time,ranks,change; a change is fail, drain or return.
    #[arg(long, value_name = "FILE")]
    pub(crate) outages: Option<PathBuf>,
    /// Nodes that are kept for maintenance, or for some jobs: a JSON file, see docs/formats.md.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["journal", "diff", "definitions"])]
    pub(crate) reservations: Option<PathBuf>,
    /// Forecast the start of every waiting job, when it is submitted and again every this many seconds of the log (3600 when
    /// none are given), and tell how far off that was. See docs/semantics.md.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "3600",
        value_parser = crate::values::factor, conflicts_with_all = ["journal", "diff", "definitions"])]
    pub(crate) forecast: Option<f64>,
    /// For this many jobs, drawn with --seed: would they have started earlier if nobody had come after them? Each costs a
    /// replay up to that job.
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["journal", "diff", "definitions"])]
    pub(crate) fair_start: Option<u32>,
    /// This many jobs, the first ones, are in no figure: they warm up the machine.
    #[arg(long, value_name = "JOBS", conflicts_with_all = ["journal", "diff", "definitions", "fair_start", "forecast"])]
    pub(crate) uncounted: Option<usize>,
    /// Jobs that run already when the first job is submitted: a table with the first line job,cores,user,ran,limit,left. They are
    /// in no figure; see docs/replay.md.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["journal", "diff", "definitions", "fair_start"])]
    pub(crate) warm: Option<PathBuf>,
    /// Jobs submitted before then are in no figure: 2002, 2002-08, 2002-08-15, 2002-08-15T01:02 (UTC), or seconds since
    /// the epoch.
    #[arg(long, value_name = "TIME", value_parser = crate::values::time,
        conflicts_with_all = ["journal", "diff", "definitions", "fair_start", "forecast", "uncounted"])]
    pub(crate) uncounted_until: Option<f64>,
    /// Only some jobs, by index in the order of submission, from 0: 1981+1024 are 1024 jobs from index 1981 on. Each of several
    /// sequences is a run of its own on an empty machine, with figures of its own and over all.
    #[arg(long, value_name = "FIRST+COUNT[,..]", value_delimiter = ',',
        conflicts_with_all = ["journal", "diff", "definitions", "fair_start", "forecast", "report"])]
    pub(crate) jobs: Vec<Sequence>,
    /// Use of fields 17 and 18 of the log: with `respect`, a job is submitted its think time after the job that it
    /// follows has ended in the simulation.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Dependencies::Ignore,
        conflicts_with_all = ["journal", "diff", "definitions", "fair_start", "uncounted"])]
    pub(crate) dependencies: Dependencies,
    /// Users react to the schedule: with `sessions`, a batch of jobs of a user that began at most GAP seconds (1200) after the
    /// user's batch before it had ended in the log comes that time after its end in the simulation. See docs/replay.md.
    #[arg(long, value_name = "sessions[:GAP]", value_parser = crate::values::feedback,
        conflicts_with_all = ["journal", "diff", "definitions", "fair_start", "uncounted", "dependencies"])]
    pub(crate) feedback: Option<f64>,
    /// Draw workloads from the log, a run each: `weeks`, or `users` with all of their jobs. --draws says how many, and --seed
    /// what is drawn.
    #[arg(long, value_name = "WHAT", value_parser = Resample::from_str,
        conflicts_with_all = ["journal", "diff", "definitions", "fair_start", "forecast", "report", "jobs", "feedback", "dependencies",
        "dump"])]
    pub(crate) resample: Option<Resample>,
    /// With --resample: how many workloads.
    #[arg(long, value_name = "N", default_value_t = DRAWS, requires = "resample", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) draws: u16,
    /// Fate of jobs whose nodes fail (--outages): `end`; `requeue`: they are submitted again at once and begin anew;
    /// checkpoint:SECONDS: they go on from the last of the checkpoints that they make each time when they have run for so long.
    #[arg(long, value_name = "WHAT", default_value = "end", value_parser = OnFailure::named,
        conflicts_with_all = ["journal", "diff", "definitions"])]
    pub(crate) on_failure: OnFailure,
    /// Power of a node with none and with all of its cores in use, for the energy of the schedule.
    #[arg(long, value_name = "IDLE:BUSY", value_parser = crate::values::watts,
        conflicts_with_all = ["journal", "diff", "definitions"])]
    pub(crate) watts: Option<NodeWatts>,
    /// The rules of a published simulator: fluxgate (the own ones), pyss (SC'15), rlscheduler (SC'20) or sc17. They are
    /// rules of the clock and of the pass, and from lines to jobs. See docs/research.md.
    #[arg(long, value_name = "NAME", default_value = "fluxgate", value_parser = Semantics::named,
        conflicts_with_all = ["journal", "diff", "definitions"])]
    pub(crate) semantics: Semantics,
    /// Single rules that differ from those of --semantics: pass=instant|event, first=ends|submissions, ends=id|start,
    /// free=held|requested|predicted, after-submission=always|fitting, wakes=yes|no, commit=no|yes,
    /// backfill=policy|none|submission|score, shadow=fresh|frozen, extra=yes|no, bound=by|before.
    #[arg(long, value_name = "KEY=VALUE,..", default_value = "", value_parser = crate::values::rules,
        conflicts_with_all = ["journal", "diff", "definitions"])]
    pub(crate) rules: String,
    /// Which jobs, and what they are.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// A log of more jobs than this is not kept in memory where figures and schedules are all that is asked for (no --report,
    /// --forecast or --fair-start), but read again by each run while its jobs come.
    #[arg(long, value_name = "JOBS", default_value_t = 1_000_000)]
    pub(crate) kept: usize,
    /// Runs side by side. Default: as many as there are cores. The results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Write a report into this folder: a page with pictures that needs no network, the pictures as SVG and PNG, figures as CSV
    /// and JSON, and what --diff compares as jobs.POLICY.jsonl.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Write the schedule as CSV: job,submit,start,end,ranks. With several policies, one file each: the
    /// name of the policy is put before the file's ending. - is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) schedule: Option<PathBuf>,
    /// Write the files of Batsim into this folder: jobs.csv with a line for each job, and schedule.json with its figures. With several
    /// policies or parts, two files each: jobs.easy.csv, schedule.easy.json.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["journal", "diff", "definitions", "dump", "outages",
        "resume"])]
    pub(crate) batsim: Option<PathBuf>,
    /// Write the metrics as CSV, one row for each policy. - is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Show what the policy was told, what it asked and what it decided, pass by pass, instead of figures; with --json an object a
    /// line. With `difference` and two policies: the first time at which they start other jobs, and the passes then.
    #[arg(long, value_name = "WHAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "passes",
        conflicts_with_all = ["journal", "diff", "definitions", "report", "schedule", "csv", "fair_start", "forecast", "jobs"])]
    pub(crate) dump: Option<Dump>,
    /// With --dump: from this pass on, counted from 1.
    #[arg(long, value_name = "PASS", requires = "dump", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) from_pass: Option<u64>,
    /// With --dump: up to this pass, with which the run ends.
    #[arg(long, value_name = "PASS", requires = "dump", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) until_pass: Option<u64>,
    /// Write what happens, as it happens, as JSON lines to a file or a FIFO: submissions, starts, ends, refusals, and passes with the
    /// length of the queue. With several policies or parts, one file each. - is standard output. See docs/replay.md.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["journal", "diff", "definitions", "dump", "resume"])]
    pub(crate) hook: Option<PathBuf>,
    /// Let a client drive the run: it connects to this socket, is told the same lines, and says at each instant how far the run
    /// goes on: next, until TIME, end or stop. The schedule is that of any other run. See docs/replay.md.
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["journal", "diff", "definitions", "dump", "resume"])]
    pub(crate) serve: Option<PathBuf>,
    /// Write a checkpoint of each run now and then, from which --resume goes on: each time when the log is so much further, such
    /// as 86400, 12h or 7d, or when this many more jobs were submitted, such as 10000jobs.
    #[arg(long, value_name = "SECONDS|JOBS", requires = "checkpoint_to",
        conflicts_with_all = ["journal", "diff", "definitions", "forecast", "dump"])]
    pub(crate) checkpoint_every: Option<Every>,
    /// With --checkpoint-every: the folder of the checkpoints, POLICY.7200s.checkpoint and so on.
    #[arg(long, value_name = "DIR", requires = "checkpoint_every")]
    pub(crate) checkpoint_to: Option<PathBuf>,
    /// Go on from a checkpoint of this log with these options, to the end that the run without interruption has. With --policy, it
    /// goes on under other policies, each in a run of its own; without, under those of the checkpoint. See docs/replay.md.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["journal", "diff", "definitions", "forecast", "dump"])]
    pub(crate) resume: Option<PathBuf>,
    /// Do not have the schedule checked by the independent sweep.
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Compare two runs of one workload, jobs.POLICY.jsonl of a report each, instead of making one.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "log")]
    pub(crate) diff: Option<Vec<PathBuf>>,
    /// With --diff: why did this job start later?
    #[arg(long, value_name = "N", requires = "diff")]
    pub(crate) job: Option<u64>,
    /// Print what each metric means, and where that comes from.
    #[arg(long, conflicts_with_all = ["log", "diff"])]
    pub(crate) definitions: bool,
}

/// Treatment of jobs that follow others in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dependencies {
    /// They are submitted at the time of the log.
    Ignore,
    /// They are submitted their think time after the others have ended.
    Respect,
}

/// The values of `--dump`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dump {
    /// Passes of one policy.
    Passes,
    /// Where two policies first differ.
    Difference,
}

impl Replay {
    /// The rules of the clock and of the pass.
    pub(crate) fn rules(&self) -> Rules {
        let mut rules = self.semantics.rules();
        // Checked when it was parsed.
        let _ = rules.set_all(&self.rules);
        rules
    }

    /// The rules from lines to jobs.
    pub(crate) fn options(&self) -> Options {
        let links = self.dependencies == Dependencies::Respect || self.feedback.is_some();
        Options { links, ..self.selection.options_over(self.semantics.options()) }
    }
}
