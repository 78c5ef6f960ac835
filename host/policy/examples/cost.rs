//! Measures the cost of calls into a policy: keys over columns, events, and passes that start nothing.
//!
//! `cargo run -p fluxgate-policy --example cost -- target/policies/sjf.wasm target/policies/broken.wasm`
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fluxgate_engine::{Config as EngineConfig, Engine, Event, JobColumns, JobEvent, JobEventKind, Policy};
use fluxgate_formats::{Idset, JobId, Jobspec, R};
use fluxgate_graph::Resources;
use fluxgate_policy::{Config, Limits, LoadError, Loader, WasmPolicy};

fn columns(rows: usize) -> JobColumns {
    JobColumns {
        id: (0..rows as u64).map(JobId).collect(),
        t_submit: vec![1.0; rows],
        duration: (0..rows).map(|i| (i % 977) as f64).collect(),
        priority: vec![16; rows],
        userid: vec![1000; rows],
        queue: vec![0; rows],
        nodes: vec![1; rows],
        cores: vec![1; rows],
        gpus: vec![0; rows],
    }
}

/// Median of some runs, in microseconds.
fn median(mut run: impl FnMut()) -> f64 {
    let mut micros: Vec<f64> = (0..9)
        .map(|_| {
            let begun = Instant::now();
            run();
            begun.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    micros[micros.len() / 2]
}

/// Passes over a number of jobs of a shape whose nodes are down: the number of calls of `run`, and the time.
fn passes(policy: WasmPolicy, waiting: u64) -> Result<(u64, u64), Box<dyn std::error::Error>> {
    let r = r#"{"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0-3"}}],
        "nodelist": ["n0"], "starttime": 0, "expiration": 0}}"#;
    let job = r#"{"version": 1, "resources": [{"type": "node", "count": 1, "with": [{"type": "slot",
        "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}]}], "tasks": [{"command": ["true"], "slot": "task",
        "count": {"per_slot": 1}}], "attributes": {"system": {"duration": 60}}}"#;
    let jobspec = Jobspec::from_json(job)?;
    let mut engine = Engine::new(Resources::from_r(&R::from_json(r)?)?, EngineConfig::default());
    let meter = policy.meter();
    engine.swap(Box::new(policy))?;
    for id in 1..=waiting {
        let (id, jobspec) = (JobId(id), Arc::new(jobspec.clone()));
        engine.step(Event::Alloc { id, priority: 16, userid: 1, t_submit: 0.0, jobspec }, 0.0);
    }
    for i in 0..1_000 {
        engine.step(Event::Down(Idset::new()), f64::from(i));
        engine.pass(f64::from(i));
    }
    let run = meter.snapshot().calls.into_iter().find(|row| row.export == "scheduling.run");
    Ok(run.map_or((1, 0), |row| (row.calls, row.nanos)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("fluxgate-cost-{}", std::process::id()));
    for file in std::env::args().skip(1) {
        let path = Path::new(&file);
        let cold = Instant::now();
        let loader = Loader::new(Limits::default(), Some(&folder))?;
        let compiled = loader.compile_file(path)?;
        let cold = cold.elapsed();
        println!("{} ({} bytes)", compiled.description().name, compiled.size());
        println!("  compile                 {:>12.1} us", cold.as_secs_f64() * 1e6);
        println!("  compile, cached         {:>12.1} us", median(|| drop(loader.compile_file(path))));
        println!(
            "  instance, configured    {:>12.1} us",
            median(|| drop(compiled.instantiate(&Config::new())))
        );
        let mut policy = compiled.instantiate(&Config::new())?;
        if policy.abilities().ordering {
            for rows in [1, 1_000, 100_000, 1_000_000] {
                let jobs = columns(rows);
                let mut fuel = 0;
                let micros = median(|| {
                    let before = policy.cost().fuel;
                    policy.keys(0.0, &jobs).expect("keys");
                    fuel = policy.cost().fuel - before;
                });
                let (nanos, fuel) = (micros * 1e3 / rows as f64, fuel as f64 / rows as f64);
                println!(
                    "  keys of {rows:>9} jobs  {micros:>12.1} us  {nanos:>8.1} ns a job, fuel {fuel:.1}"
                );
            }
        }
        if policy.abilities().observing {
            for count in [1, 10, 10_000] {
                let event =
                    |i| JobEvent { kind: JobEventKind::Pending, job: JobId(i), time: 1.0, value: 0.0 };
                let events: Vec<JobEvent> = (0..count).map(event).collect();
                let micros = median(|| policy.observe(0.0, &events).expect("observe"));
                println!("  {count:>9} events        {micros:>12.1} us");
            }
        }
        if policy.abilities().scheduling {
            for waiting in [1, 1_000] {
                let (calls, nanos) = passes(compiled.instantiate(&Config::new())?, waiting)?;
                let nanos = nanos as f64 / calls as f64;
                println!("  pass, {waiting:>5} jobs that wait {nanos:>7.0} ns");
            }
        }
        println!("  memory                  {:>12} bytes", policy.cost().memory);
    }
    std::fs::remove_dir_all(&folder).map_err(LoadError::from)?;
    Ok(())
}
