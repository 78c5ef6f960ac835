//! What a call into a policy costs: keys over columns, and events.
//!
//! `cargo run -p fluxgate-policy --example cost -- target/policies/sjf.wasm target/policies/broken.wasm`
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::path::Path;
use std::time::Instant;

use fluxgate_engine::{JobColumns, JobEvent, JobEventKind, Policy};
use fluxgate_formats::JobId;
use fluxgate_policy::{Config, Limits, LoadError, Loader};

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
        println!("  memory                  {:>12} bytes", policy.cost().memory);
    }
    std::fs::remove_dir_all(&folder).map_err(LoadError::from)?;
    Ok(())
}
