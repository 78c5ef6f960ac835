//! The arguments of `fluxgate workload`. Must never do anything.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fluxgate_sim::source::Format;
use fluxgate_sim::transform::{Estimates, Transform};
use fluxgate_sim::workload::{OnBadLine, Options};

use crate::values::Mapping;

/// `fluxgate workload`.
#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands on workloads.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a workload by a model and print it in Standard Workload Format.
    Make {
        /// The model; its parameters are those published for all jobs.
        #[arg(long, value_enum, default_value_t = Model::Lublin99)]
        model: Model,
        /// Jobs.
        #[arg(long, value_name = "N")]
        jobs: usize,
        /// Cores of the machine.
        #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
        cores: u32,
        /// Nodes of the machine, for the header; without it each core is one.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        nodes: Option<u32>,
        /// The machine as a file, instead of --cores: R (RFC 20 JSON), TOML with [[resource.config]], or JGF.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["cores", "nodes"])]
        machine: Option<PathBuf>,
        /// The seed of everything that is drawn.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Requested times: exact (their run times), or perturbed:F (run times times an even draw from 1 to F).
        #[arg(long, value_name = "WHICH", default_value = "exact", value_parser = crate::values::estimates)]
        estimates: Estimates,
    },
    /// Show the contents of a log.
    Info {
        /// Which.
        #[command(flatten)]
        part: Part,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a part of a log in Standard Workload Format.
    Cut {
        /// Which.
        #[command(flatten)]
        part: Part,
    },
    /// Print the jobs of a log, as replay understands them, in another format.
    Convert {
        /// Which.
        #[command(flatten)]
        part: Part,
        /// The format.
        #[arg(long, value_enum)]
        to: Form,
    },
}

/// A log, or a part of it.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// Log in Standard Workload Format, or another that --format names; plain or gzip.
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    /// Parts of the log to keep.
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Which jobs of a log, and how its lines become jobs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Selection {
    /// Format of the log. Default: as it looks.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<LogFormat>,
    /// Only the first N jobs.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Only jobs submitted then or later: 2002, 2002-08, 2002-08-15, 2002-08-15T01:02 (UTC), or seconds since the epoch.
    #[arg(long, value_name = "TIME", value_parser = crate::values::time)]
    pub(crate) from: Option<f64>,
    /// Only jobs submitted before then.
    #[arg(long, value_name = "TIME", value_parser = crate::values::time)]
    pub(crate) until: Option<f64>,
    /// Arrivals come that many times as fast.
    #[arg(long, value_name = "FACTOR", value_parser = crate::values::factor)]
    pub(crate) load: Option<f64>,
    /// Requested times: logged, exact (their run times), or perturbed:F (run times times an even draw from 1 to F).
    #[arg(long, value_name = "WHICH", default_value = "logged", value_parser = crate::values::estimates)]
    pub(crate) estimates: Estimates,
    /// How lines become jobs: procs=cores|nodes (a processor is a core, or a whole node), width=requested|allocated|larger
    /// (which field counts them), queue=queue|partition|none (which field names the queue; none: all jobs are in one),
    /// memory=requested|used|none (which field says how much memory each processor needs; the machine has to have it),
    /// ask=jobspec|cores (of logs that have jobspecs: what jobs ask for in full, or as this many cores; a stream of jobspecs has
    /// the former), overrun=kill|raise|run-on (a run time above the request), zero-run=shortest|left-out and
    /// unknown-run=SECONDS|left-out (jobs of such run times), time=epoch|log (second 0), min-run=SECONDS.
    #[arg(long, value_name = "KEY=VALUE,..", default_value = "", value_parser = crate::values::mapping)]
    pub(crate) map: Mapping,
    /// Seed of whatever is drawn: perturbed estimates, confidence intervals.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Skip lines that cannot be read, and count them; without it the first one stops the command.
    #[arg(long)]
    pub(crate) skip_bad: bool,
}

impl Selection {
    /// The rules from lines to jobs.
    pub(crate) fn options(&self) -> Options {
        self.options_over(Options::default())
    }

    /// The same, where rules differ from the usual ones unless --map says otherwise.
    pub(crate) fn options_over(&self, base: Options) -> Options {
        Options {
            on_bad_line: if self.skip_bad { OnBadLine::Skip } else { OnBadLine::Refuse },
            max_jobs: self.limit,
            format: self.format.map(Format::from),
            ..self.map.over(base)
        }
    }

    /// The transformation: the jobs that are taken, and their requests.
    pub(crate) fn transform(&self) -> Transform {
        let Selection { from, until, load, estimates, seed, .. } = *self;
        Transform { from, until, load, estimates, seed }
    }
}

/// Formats of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Standard Workload Format.
    Swf,
    /// The output of sacct --parsable2.
    Sacct,
    /// The output of flux jobs -a -c0 --json, or such jobs one after the other.
    Flux,
    /// An archive of flux dump.
    Dump,
    /// A workload of Batsim, in JSON: jobs, and profiles that are delays or sequences of delays.
    Batsim,
    /// Jobspecs with times: a JSON object a line with jobspec, t_submit, runtime, id and userid.
    Jobspecs,
    /// The output of fluxgate workload convert --to csv.
    Csv,
    /// The output of fluxgate workload convert --to jsonl.
    Jsonl,
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Format {
        match format {
            LogFormat::Swf => Format::Swf,
            LogFormat::Sacct => Format::Sacct,
            LogFormat::Flux => Format::Flux,
            LogFormat::Dump => Format::Dump,
            LogFormat::Batsim => Format::Batsim,
            LogFormat::Jobspecs => Format::Jobspecs,
            LogFormat::Csv => Format::Csv,
            LogFormat::Jsonl => Format::Jsonl,
        }
    }
}

/// Models.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Model {
    /// Lublin and Feitelson, JPDC 63(11), 2003.
    Lublin99,
    /// Downey, HPDC 1997: parallelism and work even in their logarithm, jobs as wide as their average parallelism.
    Downey97,
    /// Sizes of a large cluster, for measuring: lublin99 for a part of the machine, one job in a thousand wider.
    Wide,
}

/// Formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Standard Workload Format.
    Swf,
    /// One line a job: job,user,submit,cores,limit_s,run_s.
    Csv,
    /// One JSON object a line with the same fields.
    Jsonl,
    /// One JSON object a line with the job's whole request: jobspec, t_submit, runtime, id, userid.
    Jobspecs,
    /// A workload of Batsim: a profile for each run time, a delay. For its jobs.csv and schedule.json see replay --batsim.
    Batsim,
}
