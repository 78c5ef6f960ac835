//! Replays a log natively and prints the figures and the speed:
//! `cargo run --release -p fluxgate-sim --example replay -- LOG.swf[.gz] fcfs|easy [JOBS]`.

#[allow(dead_code)]
#[path = "../tests/it/native.rs"]
mod native;

use std::error::Error;
use std::io::Write as _;
use std::time::Instant;

use fluxgate_engine::Policy;
use fluxgate_sim::driver;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::Metrics;
use fluxgate_sim::workload::{Options, Workload};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(log), Some(policy)) = (args.next(), args.next()) else {
        return Err("usage: replay LOG.swf[.gz] fcfs|easy [JOBS]".into());
    };
    let max_jobs = args.next().map(|n| n.parse()).transpose()?;
    let policy: Option<Box<dyn Policy>> = match policy.as_str() {
        "fcfs" => None,
        "easy" => Some(Box::new(native::easy())),
        other => return Err(format!("policy: found `{other}`, accepted is fcfs or easy").into()),
    };
    let mut out = std::io::stdout().lock();
    let begin = Instant::now();
    let workload = Workload::load(log.as_ref(), &Options { max_jobs, ..Options::default() })?;
    let machine = Machine::from_header(&workload.header)?;
    writeln!(out, "read {} jobs in {:.3} s", workload.jobs.len(), begin.elapsed().as_secs_f64())?;

    let mut metrics = Metrics::new(machine.total_cores());
    let begin = Instant::now();
    let jobs = workload.jobs.len();
    let outcome =
        driver::run(workload.jobs, machine.resources, driver::replay_config(), policy, &mut [&mut metrics])?;
    let seconds = begin.elapsed().as_secs_f64();
    writeln!(out, "{jobs} jobs in {seconds:.3} s: {:.0} jobs/s", jobs as f64 / seconds)?;
    writeln!(
        out,
        "{} instants, most waiting {}, {:?}",
        outcome.instants, outcome.peak_waiting, outcome.engine
    )?;
    for (name, value) in metrics.summary()?.figures() {
        writeln!(out, "{name:32} {value}")?;
    }
    Ok(())
}
