//! `fluxgate up` and `fluxgate down`: an embedded instance, and its scheduler as a process of its own.
//!
//! The scheduler is a child that is started again when it dies, as by a service manager: jobs go on, and the
//! new one learns of them by hello. A process that serves prints `ready` on its standard output.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use fluxgate_graph::Resources;
use fluxgate_instance::{Config as InstanceConfig, Dialect, Instance, InstanceError, QueueConfig};
use fluxgate_sched::settings::{POLICY_DEFAULT, Settings};
use fluxgate_sim::machine::Machine;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::AsyncBufReadExt;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{JournalArgs, PolicyArgs, Target};
use crate::client::Client;
use crate::fail::usage;
use crate::place::Place;
use crate::render::READY;
use crate::{files, invoked, machine, policy_source, render};

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
    /// Print JSON, once the instance serves, instead of its address and `ready`.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The values of `--dialect`.
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
    /// Also remove the job records and the other files that the instance has made, and its folder if that is then empty.
    #[arg(long)]
    pub(crate) purge: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate up`.
pub(crate) fn up(args: &Up) -> Result<()> {
    if invoked::as_subcommand() {
        return Err(invoked::elsewhere("up"));
    }
    if !(args.speed.is_finite() && (0.001..=1e6).contains(&args.speed)) {
        return Err(usage(format!("--speed {}: expected 0.001 to 1000000", args.speed)));
    }
    let place = Place::of(&args.target);
    place.prepare()?;
    if let Some(pid) = place.living_pid() {
        bail!(
            "an instance runs in {} already (process {pid}); stop it with 'fluxgate down', or name another \
             folder with --dir",
            place.dir.display()
        );
    }
    // Settings that the scheduler would refuse are refused here, before anything starts.
    let settings = files::settings(&args.policy.config)?;
    let policy = args.policy.policy.as_deref().unwrap_or(POLICY_DEFAULT);
    if !args.no_sched {
        policy_source::PolicySource::open(args.policy.policies.as_deref())?.check(policy, &settings)?;
    }
    if let Some(size) = &args.journal.journal_size {
        Settings::default().with_args(&[format!("journal-size={size}")])?;
    }
    let resources = match &args.resources {
        Some(path) => Machine::load(path)?.resources,
        None => Resources::from_r(&machine::uniform(args.nodes, args.cores, args.gpus)?)?,
    };
    if args.detach { detach(&place, args.json) } else { foreground(args, &place, resources) }
}

/// Start this very command again without `--detach`, in a session of its own, and wait until it is ready.
fn detach(place: &Place, as_json: bool) -> Result<()> {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(place.log())
        .with_context(|| format!("cannot write {}", place.log().display()))?;
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command
        .args(std::env::args_os().skip(1).filter(|arg| arg != "--detach"))
        .env("FLUXGATE_DIR", &place.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0);
    let mut child = command.spawn().context("cannot start the instance")?;
    let stdout = child.stdout.take().ok_or_else(|| anyhow!("no pipe to the instance"))?;
    let mut lines = BufReader::new(stdout).lines();
    let mut said = Vec::new();
    for line in lines.by_ref() {
        let line = line.context("cannot read from the instance")?;
        // For programs the instance prints one line, when it serves.
        if as_json {
            return render::line(line);
        }
        if line == READY {
            for line in said {
                render::line(line)?;
            }
            return Ok(());
        }
        said.push(line);
    }
    let status = child.wait().context("cannot wait for the instance")?;
    let log = std::fs::read_to_string(place.log()).unwrap_or_default();
    let tail: Vec<&str> = log.lines().rev().take(5).collect();
    bail!(
        "the instance ended before it was ready ({status}); the end of {}:\n{}",
        place.log().display(),
        tail.into_iter().rev().collect::<Vec<_>>().join("\n")
    )
}

fn foreground(args: &Up, place: &Place, resources: Resources) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(serve(args, place, resources))
}

/// The reason for which `up` stops.
enum Stop {
    /// By a signal.
    Asked,
    /// The instance has ended: by request of a client, or by an error.
    Ended(Result<(), InstanceError>),
    /// The scheduler cannot be started.
    Failed(anyhow::Error),
}

async fn serve(args: &Up, place: &Place, resources: Resources) -> Result<()> {
    let queue = |name: &String| QueueConfig { name: name.clone(), ..QueueConfig::default() };
    let config = InstanceConfig {
        socket: Some(place.socket()),
        queues: args.queues.iter().map(queue).collect(),
        default_queue: args.queues.first().cloned(),
        speed: args.speed,
        dialect: match args.dialect {
            DialectArg::Current => Dialect::Current,
            DialectArg::Founding => Dialect::Founding,
        },
        ..InstanceConfig::new(place.dir.clone(), resources.to_r_all())
    };
    let mut handle = Instance::start(config).await?;
    write_pid(place)?;
    if !args.json {
        render::line(format!("FLUX_URI={}", place.uri()))?;
    }
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut sched: Option<tokio::process::Child> = None;
    let mut deaths = 0u32;
    if !args.no_sched {
        sched = Some(start_sched(args, place).await?);
    }
    if args.json {
        render::line(
            json!({"uri": place.uri(), "dir": place.dir, "pid": std::process::id(), "scheduler": !args.no_sched}),
        )?;
    } else {
        render::line(READY)?;
    }
    let ended = loop {
        tokio::select! {
            _ = interrupt.recv() => break Stop::Asked,
            _ = terminate.recv() => break Stop::Asked,
            result = handle.ended() => break Stop::Ended(result),
            status = wait(&mut sched) => {
                sched = None;
                if handle.is_ending() {
                    // The instance took the scheduler down, and ends next.
                    continue;
                }
                deaths += 1;
                let status = status.map_or_else(|e| e.to_string(), |s| s.to_string());
                tracing::error!(status, "the scheduler died; starting it again");
                if deaths > SCHED_RESTARTS_MAX {
                    break Stop::Failed(anyhow!("the scheduler died {deaths} times; giving up"));
                }
                match start_sched(args, place).await {
                    Ok(child) => sched = Some(child),
                    Err(error) => break Stop::Failed(error),
                }
            }
        }
    };
    if let Some(mut child) = sched {
        if let Some(pid) = child.id() {
            let _ = nix::sys::signal::kill(Pid::from_raw(pid as i32), Signal::SIGTERM);
        }
        let _ = child.wait().await;
    }
    let stopped = match &ended {
        // The instance has ended already, and `ended` has the reason.
        Stop::Ended(_) => Ok(()),
        Stop::Asked | Stop::Failed(_) => handle.shutdown().await,
    };
    let _ = std::fs::remove_file(place.pid_file());
    match ended {
        Stop::Ended(result) => result.map_err(anyhow::Error::from),
        Stop::Failed(error) => Err(error),
        Stop::Asked => stopped.map_err(anyhow::Error::from),
    }
}

/// Restarts of the scheduler after which `up` gives up.
const SCHED_RESTARTS_MAX: u32 = 1000;

/// Most names of files that `down --purge` prints of those it leaves.
const LEFT_SHOWN_MAX: usize = 5;

/// Interval between two reads of the pid file of an instance that ends.
const PID_FILE_LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// Wait for a child; without one, for ever.
async fn wait(child: &mut Option<tokio::process::Child>) -> std::io::Result<std::process::ExitStatus> {
    match child {
        Some(child) => child.wait().await,
        None => std::future::pending().await,
    }
}

/// Start `fluxgate sched` on the instance and wait until it serves.
async fn start_sched(args: &Up, place: &Place) -> Result<tokio::process::Child> {
    let mut command =
        tokio::process::Command::new(std::env::current_exe().context("cannot find this program")?);
    command.arg("sched").arg("--uri").arg(place.uri());
    if let Some(policy) = &args.policy.policy {
        command.arg("--policy").arg(policy);
    }
    for setting in &args.policy.config {
        command.arg("--config").arg(setting);
    }
    if let Some(dir) = &args.policy.policies {
        command.arg("--policies").arg(dir);
    }
    if let Some(journal) = &args.journal.journal {
        command.arg("--journal").arg(journal);
    }
    if let Some(size) = &args.journal.journal_size {
        command.arg("--journal-size").arg(size);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().context("cannot start the scheduler")?;
    let stdout = child.stdout.take().ok_or_else(|| anyhow!("no pipe to the scheduler"))?;
    let mut lines = tokio::io::BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await.context("cannot read from the scheduler")? {
        if line == READY {
            return Ok(child);
        }
    }
    let status = child.wait().await.context("cannot wait for the scheduler")?;
    bail!("the scheduler ended before it was ready ({status}); its message is above")
}

fn write_pid(place: &Place) -> Result<()> {
    let path = place.pid_file();
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(file, "{}", std::process::id()).with_context(|| format!("cannot write {}", path.display()))
}

/// `fluxgate down`: ask the instance to stop, and wait until it has.
pub(crate) fn down(args: &Down) -> Result<()> {
    let place = Place::of(&args.target);
    if args.target.uri.is_some() && args.target.dir.is_none() {
        if args.purge {
            return Err(usage("--purge removes the files of a folder: name it with --dir".to_owned()));
        }
        // A socket named by itself: ask, and wait for the connection to end.
        ask_to_stop(&Client::connect(&args.target)?)?;
        return match args.json {
            true => render::json(&json!({"uri": args.target.uri, "stopped": true})),
            false => Ok(()),
        };
    }
    let purge = args.purge && place.may_purge()?;
    let running = place.living_pid();
    if running.is_none() && !args.purge {
        bail!("no instance runs in {}", place.dir.display());
    }
    if running.is_some() {
        ask_to_stop(&Client::connect_uri(&place.uri())?)?;
        // The last thing that an instance does is to remove its pid file.
        while place.living_pid().is_some() {
            std::thread::sleep(PID_FILE_LOOK);
        }
    }
    let left = if purge { place.purge()? } else { Vec::new() };
    if args.json {
        let left: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
        return render::json(
            &json!({"dir": place.dir, "stopped": running.is_some(), "purged": purge, "left": left}),
        );
    }
    if left.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = left.iter().take(LEFT_SHOWN_MAX).map(|name| format!("{name:?}")).collect();
    let more = if left.len() > shown.len() { ", ..." } else { "" };
    render::line(format!(
        "{} stays: {} in it not made by the instance: {}{more}",
        place.dir.display(),
        left.len(),
        shown.join(", ")
    ))
}

fn ask_to_stop(client: &Client) -> Result<()> {
    client.embedded("down")?;
    client.rpc("fluxgate-instance.shutdown", json!({}))?;
    client.wait_until_closed();
    Ok(())
}
