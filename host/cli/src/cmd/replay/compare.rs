//! `fluxgate replay --diff` and `--definitions`: output without a run.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Result, bail};
use fluxgate_sim::diff::{LISTED_MAX, Pair};
use fluxgate_sim::metrics::DEFINITIONS;
use fluxgate_sim::record::{Done, RecordError, read_jsonl};
use serde_json::json;

use crate::render;

/// Prints the definitions of the metrics.
pub(super) fn definitions(as_json: bool) -> Result<()> {
    if as_json {
        return render::json(&json!(DEFINITIONS));
    }
    for d in DEFINITIONS {
        render::line(format!("{} [{}]\n    {}\n    {}", d.name, d.unit, d.formula, d.source))?;
    }
    Ok(())
}

fn load(path: &Path) -> Result<Vec<Done>> {
    let file = path.display().to_string();
    let opened = File::open(path).map_err(|source| RecordError::Io { file: file.clone(), source })?;
    Ok(read_jsonl(BufReader::new(opened), &file)?)
}

/// Two runs, or one job of them.
pub(super) fn diff(a: &Path, b: &Path, job: Option<u64>, as_json: bool) -> Result<()> {
    let (jobs_a, jobs_b) = (load(a)?, load(b)?);
    let pair = Pair::new(&jobs_a, &jobs_b);
    let (name_a, name_b) = (a.display().to_string(), b.display().to_string());
    if let Some(job) = job {
        let side = |jobs: &[Done]| jobs.iter().find(|done| done.job == job).copied();
        let (Some(in_a), Some(in_b)) = (side(&jobs_a), side(&jobs_b)) else {
            bail!("job {job} did not run in both of {name_a} and {name_b}");
        };
        let why = pair.why(job);
        if as_json {
            return render::json(&json!({
                "job": job, "a": in_a, "b": in_b,
                "why": why.map(|w| json!({
                    "later_in": if w.later_in_b { "b" } else { "a" }, "time": w.time, "busy": w.busy, "peak": w.peak,
                    "waiting": w.waiting, "instead": w.instead, "submitted_after": w.passed,
                })),
            }));
        }
        return match why {
            Some(why) => render::line(why.text((&name_a, &name_b))),
            None => render::line(format!("job {job} started at {} in both", in_a.start)),
        };
    }
    let view = pair.overview();
    if as_json {
        return render::json(&json!({
            "both": view.both, "same": view.same, "only_a": view.only_a, "only_b": view.only_b, "first": view.first,
            "later_s": view.later, "sooner_s": view.sooner, "total_s": view.total,
        }));
    }
    let different = view.later.len() + view.sooner.len();
    render::line(format!(
        "{} jobs in both, of which {} started at the same time, {} later and {} sooner in {name_b}; {} only in {name_a}, {} \
         only in {name_b}",
        view.both,
        view.same,
        view.later.len(),
        view.sooner.len(),
        view.only_a.len(),
        view.only_b.len()
    ))?;
    if different == 0 {
        return Ok(());
    }
    let mean = view.total / view.both as f64;
    render::line(format!("mean wait {mean:+.1} s in {name_b}"))?;
    if let Some(first) = view.first {
        render::line(format!(
            "the runs are equal until job {first}; --job {first} says why it started later"
        ))?;
    }
    for (words, list) in [("later", &view.later), ("sooner", &view.sooner)] {
        for (job, seconds) in list.iter().take(LISTED_MAX) {
            render::line(format!("job {job}: {seconds} s {words}"))?;
        }
        if list.len() > LISTED_MAX {
            render::line(format!("and {} more {words}; --json lists all", list.len() - LISTED_MAX))?;
        }
    }
    Ok(())
}
