//! FCFS and EASY as components beside AccaSim, a simulator in Python, on the same log, machine and run times:
//! processor seconds including the reading of the log, jobs per second, the ratio, and mean waits. AccaSim is
//! installed from the registry into an environment below the build folder, and skipped where that fails.
//! Arguments choose policies: `cargo xtask bench --bench peers -- easy`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::driver;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::Metrics;
use fluxgate_sim::workload::{Options, TimeBase, Workload};
use fluxgate_tests::fixture::{policies, shared};
use nix::time::{ClockId, clock_gettime};

/// The package for pip.
const PEER: &str = "accasim==1.1.3";
/// A log whose machine has nodes of one processor: AccaSim treats a processor as a node.
const LOG: &str = "KTH-SP2-1996-2.1-cln";
/// Runs of each, in turns; the medians are printed.
const ROUNDS: usize = 3;

/// Processor time of this process so far.
fn spent() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock is there").into()
}

/// Python with the peer, or the error.
fn python(folder: &Path) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    let works = || {
        Command::new(&python).args(["-c", "import importlib.metadata as m; m.version('accasim')"]).output()
    };
    if works().is_ok_and(|output| output.status.success()) {
        return Ok(python);
    }
    let run = |program: &Path, args: &[&str]| {
        let output = Command::new(program).args(args).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        let last = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
        if output.status.success() { Ok(()) } else { Err(format!("{}: {last}", program.display())) }
    };
    let path = folder.to_str().ok_or("the build folder has no UTF-8 name")?;
    run(Path::new("python3"), &["-m", "venv", path])?;
    run(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PEER])?;
    Ok(python)
}

/// Seconds and mean wait of the peer.
fn peer(
    python: &Path,
    script: &Path,
    log: &Path,
    policy: &str,
    machine: &Machine,
) -> Result<(f64, f64), String> {
    let (nodes, cores) = (machine.cores.len(), machine.cores_per_node().map_err(|e| e.to_string())?);
    let mut command = Command::new(python);
    command.arg(script).arg(log).args([policy, &nodes.to_string(), &cores.to_string()]);
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("result "));
    let fields: Vec<f64> =
        line.unwrap_or_default().split(' ').filter_map(|field| field.parse().ok()).collect();
    match fields[..] {
        [_, seconds, wait, ..] => Ok((seconds, wait)),
        _ => Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()),
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

#[allow(clippy::print_stdout)]
fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let Some(path) = shared(&format!("data/swf/{LOG}.swf.gz")) else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let python = match python(&folder) {
        Ok(python) => python,
        Err(why) => {
            println!("skipped: no {PEER}: {why}");
            return;
        }
    };
    // The same jobs for both, with their run times here: killed at their limit.
    let options = Options { time_base: TimeBase::Log, ..Options::default() };
    let workload = Workload::load(&path, &options).expect("the log is good");
    let machine = Machine::from_header(&workload.header).expect("the header tells the machine");
    let dir = tempfile::tempdir().expect("a folder");
    let (log, script) = (dir.path().join("log.swf"), dir.path().join("peers.py"));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&log).expect("a file"));
    for line in ["; MaxProcs", "; MaxNodes"] {
        writeln!(file, "{line}: {}", machine.total_cores()).expect("room on the disk");
    }
    for job in &workload.jobs {
        let (id, submit, cores, user) = (job.id.0, job.submit, job.cores, job.user);
        let (run, limit) = (job.run_time(), job.limit);
        writeln!(file, "{id} {submit} -1 {run} {cores} -1 -1 {cores} {limit} -1 1 {user} 1 -1 1 -1 -1 -1")
            .expect("room on the disk");
    }
    drop(file);
    std::fs::write(&script, include_str!("peers.py")).expect("room on the disk");

    let loader = Loader::new(Limits::default(), None).expect("wasm runs here");
    println!("{LOG}, {} jobs; {PEER}", workload.jobs.len());
    println!("| policy | CPU s | jobs/s | mean wait, s | AccaSim CPU s | jobs/s | mean wait, s | ratio |");
    println!("|--|--:|--:|--:|--:|--:|--:|--:|");
    for name in ["fcfs", "easy"] {
        if !chosen.is_empty() && !chosen.iter().any(|one| one == name) {
            continue;
        }
        let compiled = loader
            .compile_file(&policies().join(format!("{name}.wasm")))
            .expect("run `cargo xtask policies`");
        let (mut ours, mut theirs, mut waits) = (Vec::new(), Vec::new(), (0.0, 0.0));
        for _ in 0..ROUNDS {
            let policy = compiled.instantiate(&Default::default()).expect("it starts");
            let mut metrics = Metrics::new(machine.total_cores());
            let begin = spent();
            let again = Workload::load(&log, &options).expect("it was written just now");
            let (resources, config) = (machine.resources.clone(), driver::replay_config());
            driver::run(again.jobs, resources, config, Some(Box::new(policy)), &mut [&mut metrics])
                .expect("the replay runs");
            ours.push((spent() - begin).as_secs_f64());
            waits.0 = metrics.summary().unwrap().wait_s.mean;
            match peer(&python, &script, &log, name, &machine) {
                Ok((seconds, wait)) => {
                    theirs.push(seconds);
                    waits.1 = wait;
                }
                Err(why) => {
                    println!("skipped: {PEER} did not run {name}: {why}");
                    return;
                }
            }
        }
        let (ours, theirs, jobs) = (median(ours), median(theirs), workload.jobs.len() as f64);
        println!(
            "| {name} | {ours:.2} | {:.0} | {:.1} | {theirs:.1} | {:.0} | {:.1} | {:.0} |",
            jobs / ours,
            waits.0,
            jobs / theirs,
            waits.1,
            theirs / ours,
        );
    }
}
