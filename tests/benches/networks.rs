//! Exported networks: the logits of a million rows, component against native code, to the bit; and the fuel, time and
//! memory of a decision among 128 waiting jobs.
//!
//! The time of a decision is the mean over passes that pick and start nothing. `cargo bench -p fluxgate-tests --bench networks`. Equality is asserted, times never.

use std::io::{self, Write};
use std::time::Instant;

use fluxgate_engine::{Event, Policy};
use fluxgate_formats::Idset;
use fluxgate_languages::template::Template;
use fluxgate_languages::weights::Weights;
use fluxgate_tests::drive::{drive, full};
use fluxgate_tests::networks::{PROBE, build, can_build, compare_logits, component, folder, weights};

const ROWS: usize = 1_000_000;
const WAITING: u64 = 128;
const PASSES: u64 = 1_000;

/// Words, widths of layers, further metadata, template.
type Case = (&'static str, &'static [usize], &'static [(&'static str, &'static str)], Template);

fn main() -> io::Result<()> {
    if !can_build() {
        return Ok(());
    }
    let mut out = io::stdout();
    let dir = tempfile::tempdir()?;
    let kernel = weights(&[8, 32, 16, 8, 1], &[("features", "rlscheduler-1")], 8);
    let read = Weights::read(&kernel).map_err(io::Error::other)?;
    for simd in [true, false] {
        let name = if simd { "probe" } else { "probe-scalar" };
        let made = folder(dir.path(), Template::MlpKernel, name, &kernel, Some(PROBE));
        let mut probe = component(&build(&made, simd));
        let begin = Instant::now();
        let numbers = compare_logits(&mut probe, &read, ROWS, 9);
        let (fuel, seconds) = (probe.cost().fuel, begin.elapsed().as_secs_f64());
        writeln!(
            out,
            "{name}: {ROWS} rows equal, {numbers} of them numbers; {} fuel a row, {seconds:.1} s",
            fuel / ROWS as u64
        )?;
    }
    let cases: [Case; 3] = [
        ("kernel 8-32-16-8-1", &[8, 32, 16, 8, 1], &[], Template::MlpKernel),
        ("flat 1024-128-128-128-128", &[1024, 128, 128, 128, 128], &[("network", "flat")], Template::MlpFlat),
        ("linear", &[8, 1], &[], Template::Linear),
    ];
    writeln!(
        out,
        "\n| network, {WAITING} jobs wait, one is picked | build | fuel | us | memory KiB |\n|--|--|--:|--:|--:|"
    )?;
    for (what, widths, more, template) in cases {
        let said =
            [("features", "rlscheduler-1"), ("window", "128"), ("backfill", "none"), ("mode", "commit")];
        let said = [&said, more].concat();
        let file = weights(widths, &said, 8);
        // Without a committed job, every pass picks.
        let again = weights(widths, &[&said[..], &[("mode", "pass")]].concat(), 8);
        for simd in [true, false] {
            let name = format!("{}-{}", template.name(), if simd { "simd" } else { "scalar" });
            let made = folder(dir.path(), template, &name, &file, None);
            let bytes = build(&made, simd);
            // None of them fits: one is picked, and committed. The passes that fill the machine are taken off.
            let [cost, before] = [WAITING, 0].map(|waiting| {
                let (engine, _) = full(Box::new(component(&bytes)), waiting);
                engine.policy_cost()
            });
            let made = folder(dir.path(), template, &format!("{name}-again"), &again, None);
            let (mut engine, _) = full(Box::new(component(&build(&made, simd))), WAITING);
            let begin = engine.policy_cost().nanos;
            for _ in 0..PASSES {
                drive(&mut engine, Event::Up(Idset::new()), 1.0);
            }
            let nanos = (engine.policy_cost().nanos - begin) / PASSES;
            writeln!(
                out,
                "| {what} | {} | {} | {:.1} | {} |",
                if simd { "simd128" } else { "scalar" },
                cost.fuel - before.fuel,
                nanos as f64 / 1e3,
                cost.memory / 1024
            )?;
        }
    }
    Ok(())
}
