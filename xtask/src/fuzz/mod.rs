//! `cargo xtask fuzz`: the fuzz targets under libFuzzer, with the stable compiler.
//!
//! The instrumentation is LLVM's, which the stable compiler offers; only address sanitizers need another compiler.
//! New inputs are kept below `target/fuzz`; the corpus in the tree stays small. Must never know the subject of a
//! target.

mod campaign;
mod keep;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::house::House;
use crate::toolchain;

/// The flags that count the edges of the control flow of an input.
const COVERAGE: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
];

/// Most memory of a target in MiB, and most seconds for one input.
const MEMORY_MIB: u32 = 2048;
const INPUT_SECONDS: u32 = 20;

/// The arguments of `cargo xtask fuzz`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Targets, by default all: the folders in `fuzz/corpus`.
    targets: Vec<String>,
    /// How long each target runs: a number with s, m or h.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = seconds)]
    seconds: u64,
    /// Run one target on this file only, such as a saved input that failed.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Targets that run at a time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Add processor time, inputs and edges to the table of docs/fuzzing.md.
    #[arg(long)]
    record: bool,
    /// Afterwards keep a few of the inputs that were found in fuzz/corpus: those that together reach the most.
    #[arg(long)]
    keep: bool,
}

/// The page with the table of runs.
const PAGE: &str = "docs/fuzzing.md";

fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let found = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let parsed = found.and_then(|(number, factor)| number.parse::<u64>().ok()?.checked_mul(*factor));
    parsed.filter(|seconds| *seconds > 0).ok_or_else(|| "expected a number with s, m or h".to_owned())
}

/// Builds the targets and runs them, one after the other.
pub(crate) fn run(house: &House, options: &Options) -> Result<()> {
    let known = targets(house)?;
    if let Some(unknown) = options.targets.iter().find(|name| !known.contains(name)) {
        bail!("no fuzz target {unknown}; there are {}", known.join(" "));
    }
    let targets = if options.targets.is_empty() { &known } else { &options.targets };
    let binary = build(house)?;
    if let Some(input) = &options.input {
        let [target] = targets.as_slice() else { bail!("--input: name one target") };
        let input = input.canonicalize().with_context(|| format!("{}", input.display()))?;
        return house.program(&binary).arg(input).env("FLUXGATE_FUZZ", target).run();
    }
    let commands = targets.iter().map(|target| fuzzing(house, &binary, target, options.seconds));
    let commands = commands.collect::<Result<Vec<Command>>>()?;
    let when = house.day_and_commit()?;
    let mut failed = Vec::new();
    campaign::run(commands, options.jobs, |place, run| {
        let target = &targets[place];
        println!(
            "fuzz: {target}: {} inputs in {:.0} s of processor time, {} edges, {} inputs kept",
            run.executions, run.seconds, run.edges, run.inputs
        );
        if run.failed {
            let crash = house.target().join("fuzz").join(format!("{target}-"));
            let crash = crash.display();
            println!("fuzz: {target} failed; `cargo xtask fuzz {target} --input {crash}...` repeats it");
            failed.push(target.as_str());
        }
        if options.record {
            let path = house.root().join(PAGE);
            let text = fs::read_to_string(&path).with_context(|| PAGE.to_owned())?;
            let (text, hours) = page::added(&text, target, run, &when)?;
            fs::write(&path, text).with_context(|| PAGE.to_owned())?;
            println!("fuzz: {hours:.2} hours of processor time on the page");
        }
        Ok(())
    })?;
    if options.keep {
        for target in targets {
            keep_inputs(house, &binary, target)?;
        }
    }
    if !failed.is_empty() {
        bail!("fuzz targets that failed: {}", failed.join(", "));
    }
    Ok(())
}

/// The folder of inputs that were found.
fn found(house: &House, target: &str) -> PathBuf {
    house.target().join("fuzz/corpus").join(target)
}

/// A run of one target for this many seconds.
fn fuzzing(house: &House, binary: &Path, target: &str, seconds: u64) -> Result<Command> {
    // The first folder takes new inputs; the corpus in the tree is only read.
    let found = found(house, target);
    fs::create_dir_all(&found).with_context(|| format!("{}", found.display()))?;
    let crash = house.target().join("fuzz").join(format!("{target}-"));
    let mut command = Command::new(binary);
    command
        .current_dir(house.root())
        .arg(&found)
        .arg(house.root().join("fuzz/corpus").join(target))
        .arg(format!("-artifact_prefix={}", crash.display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .args(["-verbosity=1", "-print_final_stats=1"])
        .env("FLUXGATE_FUZZ", target);
    Ok(command)
}

/// Adds inputs to the corpus in the tree, see [`keep`].
fn keep_inputs(house: &House, binary: &Path, target: &str) -> Result<()> {
    let kept = house.root().join("fuzz/corpus").join(target);
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let (least, control) = (folder.path().join("least"), folder.path().join("control"));
    fs::create_dir(&least).with_context(|| format!("{}", least.display()))?;
    let merged = Command::new(binary)
        .arg("-set_cover_merge=1")
        .arg(format!("-merge_control_file={}", control.display()))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .args([&least, &kept, &found(house, target)])
        .env("FLUXGATE_FUZZ", target)
        .output()
        .context("cannot start the targets")?;
    if !merged.status.success() {
        bail!("{target}: {}", String::from_utf8_lossy(&merged.stderr).lines().last().unwrap_or_default());
    }
    let control = fs::read_to_string(&control).with_context(|| format!("{}", control.display()))?;
    let (count, bytes) = keep::keep(&control, &kept)?;
    println!("fuzz: {target}: {count} files, {bytes} bytes in the corpus");
    Ok(())
}

/// The names of all targets.
fn targets(house: &House) -> Result<Vec<String>> {
    let folder = house.root().join("fuzz/corpus");
    let entries = fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Builds the program with the targets. With `--target`, build scripts and macros are not instrumented.
fn build(house: &House) -> Result<PathBuf> {
    let host = toolchain::host(house)?;
    let folder = house.target().join("fuzz/build");
    let name = "fluxgate-fuzz";
    house
        .cargo("build")
        .args([
            "--profile",
            "fuzz",
            "--package",
            name,
            "--bin",
            name,
            "--features",
            "libfuzzer",
            "--target",
            &host,
        ])
        .arg("--target-dir")
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\x1f"))
        .without_env("RUSTFLAGS")
        .run()
        .context("libFuzzer needs a C++ compiler, such as Debian's g++")?;
    Ok(folder.join(host).join("fuzz").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(["60s", "2m", "1h"].map(|text| seconds(text).unwrap()), [60, 120, 3600]);
        for bad in ["", "60", "s", "-1s", "0s", "1d"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_target_has_a_folder() {
        let house = House::find().unwrap();
        assert_eq!(targets(&house).unwrap().len(), 34);
    }
}
