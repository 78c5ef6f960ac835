//! `cargo xtask bench`: the benchmarks behind docs/benchmarks.md, with a release build or with one that is optimised with counts of
//! runs, as packages are.
//!
//! Must never know what a benchmark measures.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::house::{House, Program};
use crate::{guided, policies, toolchain};

/// `cargo xtask bench`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Optimise with counts of runs, as packages are: build with counters below `target/guided`, make replays and a demo, then build
    /// with the counts. Takes twice the time.
    #[arg(long, conflicts_with = "counts")]
    guided: bool,
    /// Optimise with these counts, which an earlier run with `--guided` named. Those of packages are of another build.
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,
    /// Passed on to `cargo bench`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// A release build for the benchmarks.
struct Build<'a> {
    house: &'a House,
    target: PathBuf,
    /// The flag of the compiler for counts, and the platform: with one, build scripts and macros are compiled without the flag.
    flag: Option<(String, &'a str)>,
}

impl Build<'_> {
    fn cargo(&self, subcommand: &str) -> Program {
        let cargo = self.house.cargo(subcommand).env("CARGO_TARGET_DIR", &self.target);
        match &self.flag {
            Some((flag, host)) => cargo.args(["--target", host]).env("CARGO_ENCODED_RUSTFLAGS", flag),
            None => cargo,
        }
    }

    /// The build of all programs: benchmarks on a real Flux start one. Counts are those of functions by names, in which the features
    /// of all crates of a build are.
    fn binaries(&self) -> Program {
        self.cargo("build").args(["--release", "--workspace", "--bins"])
    }

    fn program(&self) -> PathBuf {
        let folder = self.flag.as_ref().map_or(self.target.clone(), |(_, host)| self.target.join(host));
        folder.join("release/fluxgate")
    }
}

/// Builds all and runs the benchmarks.
pub(crate) fn run(house: &House, options: &Options) -> Result<()> {
    let host = toolchain::host(house)?;
    let below = house.target().join("guided");
    let counts = match &options.counts {
        Some(counts) => Some(counts.clone()),
        None if options.guided => Some(count(house, &host, &below)?),
        None => None,
    };
    let build = match counts {
        Some(counts) => {
            let kept = guided::kept(&counts, &below)?;
            println!("counts of runs: {}", kept.display());
            Build { house, target: below.join("release"), flag: Some((guided::using(&kept), &host)) }
        }
        None => Build { house, target: house.target().to_owned(), flag: None },
    };
    policies::build_beside(house, &[], build.binaries())?;
    println!("{}", house.day_and_commit()?);
    // One that is named is run alone.
    let arguments = &options.arguments;
    let named = arguments.iter().any(|a| a == "--bench" || a.starts_with("--bench="));
    let all = (!named).then_some("--benches");
    let bench = build.cargo("bench").arg("--workspace").args(all).args(arguments);
    bench.env("FLUXGATE_BIN", build.program()).run()
}

/// Builds a program with counters and lets it count.
fn count(house: &House, host: &str, below: &Path) -> Result<PathBuf> {
    // Fetched before the long build.
    let merge = toolchain::llvm_profdata(house)?;
    let (runs, counts) = (below.join("runs"), below.join("last.profdata"));
    let flag = Some((guided::counting(&runs), host));
    let build = Build { house, target: below.join("counting"), flag };
    policies::build_beside(house, &[], build.binaries())?;
    guided::count(house, &merge, &build.program(), &runs, &counts)?;
    Ok(counts)
}
