//! `fluxgate demo`: the whole path in about half a minute, through the real binary and the real socket.
//!
//! An instance of 64 nodes works through a day or two of jobs on a fast clock. Half-way its policy is
//! exchanged; later a broken one is put in on purpose and the scheduler goes back by itself. Every figure of
//! the report and the audit comes from the instance's own job records, none from the scheduler.

mod audit;
mod records;
mod report;
mod workload;

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use fluxgate_formats::jobspec::Simple;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::client::Client;
use crate::fail::usage;
use crate::policy_source::PolicySource;
use crate::render::{self, READY};
use audit::SwapSeen;
use report::Phase;
use workload::DemoJob;

/// `fluxgate demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder with .wasm policies. Default: `policies` beside the installed binary.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// Jobs to submit.
    #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub(crate) jobs: u32,
    /// How many times faster than real time the clock runs. Default: 12000, with --web 1200.
    #[arg(long)]
    pub(crate) speed: Option<f64>,
    /// Serve pages about it to browsers on this host; the address is printed on standard error.
    #[arg(long)]
    pub(crate) web: bool,
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

/// Speeds without --speed: a demo in a terminal takes half a minute, one that is watched in a browser some minutes.
const SPEED: f64 = 12_000.0;
const SPEED_WEB: f64 = 1200.0;

const NODES: u32 = 64;
const CORES: u32 = 32;
const GPUS: u32 = 2;
/// Share of the machine that the jobs ask for: a bit more than it has, so that a queue builds up.
const LOAD: f64 = 1.05;
/// Real time between two samples of the instance.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Demo {
    fn speed(&self) -> f64 {
        self.speed.unwrap_or(if self.web { SPEED_WEB } else { SPEED })
    }
}

/// The dashboard as a child process, as long as this is there.
struct Pages(Child);

impl Pages {
    fn serve(world: &World) -> Result<Pages> {
        let stderr = std::io::stderr().as_fd().try_clone_to_owned().context("no standard error")?;
        let child = Command::new(std::env::current_exe().context("cannot find this program")?)
            .args(["web", "--dir"])
            .arg(world.dir.path())
            .env_remove("FLUX_URI")
            .stdin(Stdio::null())
            .stdout(stderr)
            .spawn()
            .context("cannot start the dashboard")?;
        Ok(Pages(child))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The instance as a child process in a folder of its own.
struct World {
    child: Child,
    dir: tempfile::TempDir,
    keep: bool,
}

impl World {
    fn start(args: &Demo, policies: &std::path::Path) -> Result<World> {
        let dir = tempfile::Builder::new()
            .prefix("fluxgate-demo-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .tempdir()
            .context("cannot make a folder")?;
        let log = std::fs::File::create(dir.path().join("log")).context("cannot write the log")?;
        let mut child = Command::new(std::env::current_exe().context("cannot find this program")?)
            .args(["up", "--policy", "fcfs"])
            .args(["--nodes", &NODES.to_string(), "--cores", &CORES.to_string(), "--gpus", &GPUS.to_string()])
            .args(["--speed", &args.speed().to_string()])
            .arg("--policies")
            .arg(policies)
            .arg("--dir")
            .arg(dir.path())
            .env_remove("FLUX_URI")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot start the instance")?;
        let stdout = child.stdout.take().ok_or_else(|| anyhow!("no pipe to the instance"))?;
        let world = World { child, dir, keep: args.keep };
        for line in BufReader::new(stdout).lines() {
            if line.context("cannot read from the instance")? == READY {
                return Ok(world);
            }
        }
        let log = std::fs::read_to_string(world.dir.path().join("log")).unwrap_or_default();
        bail!("the instance ended before it was ready:\n{log}")
    }

    fn connect(&self) -> Result<Client> {
        Client::connect_uri(&format!("local://{}/local-0", self.dir.path().display()))
    }

    fn stop(mut self) -> Result<()> {
        self.connect()?.rpc("fluxgate-instance.shutdown", json!({}))?;
        self.child.wait().context("cannot wait for the instance")?;
        if self.keep {
            let mut err = std::io::stderr();
            let _ = writeln!(err, "kept {}", self.dir.path().display());
            self.dir.disable_cleanup(true);
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // After `stop` the child is gone and this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn jobspec(job: &DemoJob) -> Value {
    let mut spec = Simple {
        nodes: job.nodes,
        slots: job.slots,
        cores_per_slot: job.cores,
        gpus_per_slot: job.gpus,
        exclusive: job.nodes.is_some(),
        duration: job.limit,
        command: vec!["simulated".to_owned()],
        ..Simple::default()
    }
    .build();
    let name = match (job.gpus, job.nodes) {
        (0, Some(nodes)) => format!("mpi-{nodes}"),
        (0, None) => format!("small-{}", job.slots * job.cores),
        (gpus, _) => format!("train-{}", job.slots * gpus),
    };
    spec.attributes.system.insert("job".to_owned(), json!({ "name": name }));
    spec.attributes.system.insert("simulate".to_owned(), json!({ "duration": job.run }));
    spec.to_value()
}

/// Live progress: a bar on a terminal, lines elsewhere.
struct Show {
    bar: ProgressBar,
    live: bool,
    looks: u64,
}

impl Show {
    fn new(jobs: u64) -> Show {
        let live = std::io::stderr().is_terminal();
        let bar = if live { ProgressBar::new(jobs) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:28.cyan/blue} {pos}/{len} done  {msg}");
        Show { bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())), live, looks: 0 }
    }

    fn state(&mut self, look: &Look) {
        self.bar.set_position(look.inactive);
        let text = format!(
            "{} pending  {} running  {:>3.0}% busy  policy {}",
            look.pending,
            look.running,
            look.busy * 100.0,
            look.policy
        );
        self.bar.set_message(text.clone());
        self.looks += 1;
        if !self.live && self.looks % 250 == 1 {
            self.say(&format!("{} done  {text}", look.inactive));
        }
    }

    fn say(&self, text: &str) {
        if self.live {
            self.bar.println(text);
        } else {
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }
}

/// The instance at a moment.
struct Look {
    now: f64,
    pending: u64,
    running: u64,
    inactive: u64,
    busy: f64,
    policy: String,
}

fn look(client: &Client) -> Result<Look> {
    let info = client.rpc("fluxgate-instance.info", json!({}))?;
    let count = |state: &str| info["jobs"]["job_states"][state].as_u64().unwrap_or(0);
    let stats = client.sched("sched-fluxgate.stats-get", json!({}))?;
    let cores = |key: &str| stats["resources"][key].as_f64().unwrap_or(0.0);
    Ok(Look {
        now: info["now"].as_f64().context("fluxgate-instance.info: no number `now`")?,
        pending: count("depend") + count("priority") + count("sched"),
        running: count("run") + count("cleanup"),
        inactive: count("inactive"),
        busy: if cores("cores") > 0.0 { 1.0 - cores("free_cores") / cores("cores") } else { 0.0 },
        policy: render::plain(&stats["policy"]),
    })
}

fn running_ids(client: &Client) -> Result<Vec<u64>> {
    let list = client.rpc(
        "job-list.list",
        json!({"max_entries": 0, "attrs": ["state"], "constraint": {"states": [16]}}),
    )?;
    Ok(list["jobs"].as_array().into_iter().flatten().filter_map(|j| j["id"].as_u64()).collect())
}

/// Run the command.
pub(crate) fn run(args: &Demo) -> Result<()> {
    let speed = args.speed();
    if !(speed.is_finite() && (1.0..=100_000.0).contains(&speed)) {
        return Err(usage(format!("--speed {speed}: expected 1 to 100000")));
    }
    let source = PolicySource::open(args.policies.as_deref())?;
    let broken = source.find("broken")?;
    for name in ["fcfs", "easy"] {
        source.check(name, &[])?;
    }
    let policies = broken.parent().map(std::path::Path::to_owned).unwrap_or_default();
    let jobs = workload::make(args.jobs, args.seed, NODES, CORES, LOAD);
    let world = World::start(args, &policies)?;
    let client = world.connect()?;
    let mut show = Show::new(jobs.len() as u64);
    show.say(&format!(
        "{NODES} nodes x {CORES} cores, {GPUS} GPUs a node; {} jobs; the clock runs {} times as fast as yours",
        jobs.len(),
        speed
    ));
    let _pages = if args.web { Some(Pages::serve(&world)?) } else { None };

    let begin = look(&client)?.now;
    let mut phases = vec![Phase { policy: "fcfs".to_owned(), begin }];
    let mut swaps = Vec::new();
    let mut ids = Vec::with_capacity(jobs.len());
    let (half, three_quarters) = (jobs.len() / 2, jobs.len() * 3 / 4);
    loop {
        let seen = look(&client)?;
        // On a slow machine many jobs may be due at once; each policy has its part of them all the same.
        let part = [half, three_quarters, jobs.len()][swaps.len()];
        while ids.len() < part && begin + jobs[ids.len()].at <= seen.now {
            let request = json!({"jobspec": jobspec(&jobs[ids.len()]), "urgency": 16, "flags": 0});
            let answer = client.rpc("job-ingest.submit", request)?;
            ids.push(answer["id"].as_u64().context("job-ingest.submit: the answer has no id")?);
        }
        if phases.len() == 1 && ids.len() >= half {
            swaps.push(SwapSeen { what: "fcfs to easy".to_owned(), held: running_ids(&client)? });
            client.sched("sched-fluxgate.policy-swap", json!({"name": "easy"}))?;
            phases.push(Phase { policy: "easy".to_owned(), begin: look(&client)?.now });
            show.say("swapped fcfs for easy; nothing else changed");
        }
        if phases.len() == 2 && swaps.len() == 1 && ids.len() >= three_quarters {
            swaps.push(SwapSeen { what: "easy to broken and back".to_owned(), held: running_ids(&client)? });
            put_in(&client, &broken)?;
        }
        // Jobs go on coming meanwhile: a policy is asked, and fails, only where a job waits.
        if phases.len() == 2
            && swaps.len() == 2
            && let Some(reason) = failure(&client)?
        {
            show.say(&format!("put in a policy that is broken on purpose: {reason}"));
            show.say("the scheduler discarded its pass, decided by itself, and went back to easy");
            // Half a minute of the instance's clock later it would try the policy again.
            client.sched("sched-fluxgate.policy-swap", json!({"name": "easy"}))?;
            phases.push(Phase { policy: "easy, after broken".to_owned(), begin: look(&client)?.now });
        }
        show.state(&seen);
        if seen.inactive == jobs.len() as u64 {
            if phases.len() < 3 {
                bail!("all jobs ended under the policy that is broken on purpose, and it did not fail");
            }
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    show.bar.finish_and_clear();

    let records = records::read(&client)?;
    let phases = report::phases(&records, &phases, u64::from(NODES) * u64::from(CORES))?;
    let audit = audit::make(&client, &records, &ids, &swaps)?;
    world.stop()?;
    report::print(&phases, &audit)?;
    if args.json {
        let line = json!({"phases": phases, "swaps": audit.swaps, "audit": audit.numbers});
        render::line(serde_json::to_string(&line)?)?;
    }
    if audit.clean() { Ok(()) } else { Err(anyhow!("the audit is not clean: {}", audit.numbers)) }
}

/// Load `broken` so that it traps in the middle of a pass, and swap it in.
fn put_in(client: &Client, broken: &std::path::Path) -> Result<()> {
    let config = json!({"mode": "trap", "when": "mid-pass"});
    let path = std::fs::canonicalize(broken).with_context(|| broken.display().to_string())?;
    client.sched("sched-fluxgate.policy-load", json!({"path": path.to_string_lossy(), "config": config}))?;
    client.sched("sched-fluxgate.policy-swap", json!({"name": "broken"}))?;
    Ok(())
}

/// The reason that the scheduler gives for the failure of `broken`, once it has failed.
fn failure(client: &Client) -> Result<Option<String>> {
    let shown = client.sched("sched-fluxgate.policy-show", json!({"name": "broken"}))?;
    let failed = shown["failed"].as_array().and_then(|failed| failed.last());
    Ok(failed.map(|failed| render::plain(&failed["reason"])))
}
