//! `fluxgate policy test`: the conformance kit and a synthetic workload; `fluxgate policy bench`: the cost of each call.
//!
//! Must never know how a component is built.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fluxgate_conformance::measure;
use fluxgate_policy::{Compiled, Config};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::model::lublin99;
use fluxgate_sim::{driver, metrics};
use serde_json::{Value, json};

use super::check;
use crate::files::settings;
use crate::policy_source::PolicySource;
use crate::render;

/// The synthetic workload of `policy test`: jobs, nodes, cores of each, seed.
const TRIAL: (usize, u32, u32, u64) = (1000, 16, 16, 1);

/// The conformance kit, then a synthetic workload.
pub(crate) fn test(
    policy: &str,
    config: &[String],
    dir: Option<&Path>,
    mut answer: Value,
    as_json: bool,
) -> Result<()> {
    let config: Config = settings(config)?.into_iter().collect();
    let source = PolicySource::open(dir)?;
    let (path, bytes) = source.take(policy)?;
    let report = check::quietly(|| fluxgate_conformance::check(source.loader(), &bytes, &config));
    if as_json {
        answer["conformance"] = check::as_json(&report);
        if !report.passed() {
            render::json(&answer)?;
        }
    } else {
        check::print(&report, false)?;
    }
    check::verdict(&report, &path)?;
    let compiled = source.loader().compile(&bytes).with_context(|| path.display().to_string())?;
    let rows = trial(&compiled, &config)?;
    let pass = cost_of_pass(&source, &compiled, &config)?;
    if as_json {
        answer["trial"] = rows.into();
        answer["pass"] = pass;
        return render::json(&answer);
    }
    render::line("")?;
    let mut table = render::table(&["POLICY", "STARTED>", "MEAN WAIT>", "UTILISATION>", "FUEL>"]);
    for row in &rows {
        table.add_row([
            render::plain(&row["policy"]),
            render::plain(&row["started"]),
            format!("{:.0} s", row["wait_mean_s"].as_f64().unwrap_or(0.0)),
            format!("{:.1} %", row["utilisation"].as_f64().unwrap_or(0.0) * 100.0),
            render::plain(&row["fuel"]),
        ]);
    }
    render::show(&table)?;
    render::line(format!(
        "\nwith 10,000 waiting jobs a pass takes at most {} fuel of {}, and the component has {} KiB of memory",
        render::plain(&pass["fuel_max"]),
        render::plain(&pass["fuel_limit"]),
        pass["memory_bytes"].as_u64().unwrap_or(0).div_ceil(1024)
    ))
}

/// The largest cost of a pass over a deep queue.
fn cost_of_pass(source: &PolicySource, compiled: &Compiled, config: &Config) -> Result<Value> {
    let measured = check::quietly(|| measure(source.loader(), compiled, config)).context("cost of a pass")?;
    let calls = measured.iter().flat_map(|world| &world.counters.calls);
    let fuel = calls.filter(|call| call.export == "scheduling.run").map(|call| call.fuel_max).max();
    let memory = measured.iter().map(|world| world.counters.memory).max();
    Ok(json!({
        "fuel_max": fuel.unwrap_or(0), "fuel_limit": source.loader().limits().fuel_pass,
        "memory_bytes": memory.unwrap_or(0),
    }))
}

/// A workload to its end, beside the built-in policy.
fn trial(compiled: &Compiled, config: &Config) -> Result<Vec<Value>> {
    let (jobs, nodes, cores, seed) = TRIAL;
    let machine = Machine::uniform(nodes, cores)?;
    let workload = lublin99(jobs, nodes * cores, seed);
    let mut rows = Vec::new();
    for own in [false, true] {
        let policy: Option<Box<dyn fluxgate_engine::Policy>> =
            if own { Some(Box::new(compiled.instantiate(config)?)) } else { None };
        let mut figures = metrics::Metrics::new(machine.total_cores());
        let outcome = driver::run(
            workload.iter().copied(),
            machine.resources.clone(),
            driver::replay_config(),
            policy,
            &mut [&mut figures],
        )
        .context("made-up workload")?;
        if let Some((id, why)) = outcome.unfinished.first().filter(|_| own) {
            let count = outcome.unfinished.len();
            bail!("{count} of {jobs} jobs of a made-up workload were never started; job {}: {why}", id.0);
        }
        let summary = figures.summary().context("figures")?;
        rows.push(json!({
            "policy": outcome.policy, "started": outcome.started, "wait_mean_s": summary.wait_s.mean,
            "utilisation": summary.utilisation, "fuel": outcome.cost.fuel,
        }));
    }
    Ok(rows)
}

/// `fluxgate policy bench`.
pub(super) fn bench(policy: &str, config: &[String], as_json: bool, dir: Option<&Path>) -> Result<()> {
    let config: Config = settings(config)?.into_iter().collect();
    let source = PolicySource::open(dir)?;
    let compiled = source.compile(policy)?;
    let measured =
        check::quietly(|| measure(source.loader(), &compiled, &config)).context(policy.to_owned())?;
    if as_json {
        return render::json(&json!({"digest": compiled.digest().to_string(), "worlds": measured}));
    }
    let columns =
        ["WORLD", "CALL", "CALLS>", "FUEL/CALL>", "FUEL MAX>", "US/CALL>", "US MAX>", "MEMORY KIB>"];
    let mut table = render::table(&columns);
    for world in &measured {
        for call in &world.counters.calls {
            let calls = call.calls.max(1);
            table.add_row([
                world.world.to_owned(),
                call.export.to_owned(),
                call.calls.to_string(),
                (call.fuel / calls).to_string(),
                call.fuel_max.to_string(),
                format!("{:.1}", call.nanos as f64 / calls as f64 / 1e3),
                format!("{:.1}", call.nanos_max as f64 / 1e3),
                (world.counters.memory >> 10).to_string(),
            ]);
        }
    }
    render::show(&table)?;
    match measured.iter().find_map(|world| Some((world.world, world.breach.as_ref()?))) {
        Some((world, breach)) => bail!("in {world}: {breach}"),
        None => Ok(()),
    }
}
