//! Commands for people: build, test, demo. Rust instead of shell, so that a command says what it does and why it failed.
//!
//! | command | what it does |
//! |---|---|
//! | `cargo xtask policies` | build the policies (or given folders) as components; `--lang` for more than Rust |
//! | `cargo xtask build` | policies and the binary, for use by hand |
//! | `cargo xtask test` | policies, the binary, then the test suites; names what was skipped |
//! | `cargo xtask ci` | formatting, lints, `test`, `book` |
//! | `cargo xtask tidy` | the rules of the house that no compiler checks |
//! | `cargo xtask simulate` | the whole scheduler under faults, from seeds |
//! | `cargo xtask fuzz` | the fuzz targets under libFuzzer |
//! | `cargo xtask flux-tests` | tests of a built flux-core and flux-sched with Fluxgate in the place of their schedulers |
//! | `cargo xtask deny` | licenses, duplicate versions, banned crates and sources |
//! | `cargo xtask book` | the pages as a book with search |
//! | `cargo xtask dist` | packages for users, the same bytes each time; `--guided` with counts of runs |
//! | `cargo xtask crates` | the crates for others, packed and checked as for a registry |
//! | `cargo xtask python` | the wheel of the Python package |
//! | `cargo xtask demo` | build what is needed and run it |
//! | `cargo xtask bench` | the same with the benchmarks; `--guided` with counts of runs |
//!
//! Must never know how scheduling works; it only starts other programs.

#![forbid(unsafe_code)]
// Talking on standard output and error is this program's purpose.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod book;
mod component;
mod crates;
mod debian;
mod deny;
mod dist;
mod flux_tests;
mod fuzz;
mod guided;
mod house;
mod languages;
mod pages;
mod policies;
mod python;
mod screenshots;
mod simulate;
mod stamp;
mod testing;
mod tidy;
mod toolchain;
mod tools;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

use house::House;
use tools::Language;

/// Build, test and show Fluxgate.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build policies as WebAssembly components into `target/policies`.
    ///
    /// Unchanged policies are not built again. FLUXGATE_WASM_TOOLCHAIN=rustup|debian chooses the tools; by
    /// default the installed target is taken, else rustup is asked to add it, else Debian's packages are
    /// unpacked into a cache folder.
    Policies {
        /// Folders of policies; by default all in `policies/` of the languages asked for.
        folders: Vec<PathBuf>,
        /// Languages to build in: rust, c, cpp, go, js, ts, python, or all. Tools that are missing are fetched below `target/`.
        #[arg(long, value_delimiter = ',', default_value = "rust", value_name = "LANGUAGES")]
        lang: Vec<String>,
        /// Put the components here instead.
        #[arg(long, conflicts_with = "check_reproducible")]
        out: Option<PathBuf>,
        /// Run the tests that folders of other languages than Rust come with.
        #[arg(long)]
        test: bool,
        /// Build a second time in another folder and compare the bytes.
        #[arg(long)]
        check_reproducible: bool,
    },
    /// Build policies and binary; says where they are.
    Build,
    /// Build policies and binary, check the house, then run the test suites and name what was skipped.
    Test(testing::Options),
    /// Formatting, lints with warnings denied, then `test` and `book`.
    Ci,
    /// Check the rules of the house that no compiler checks.
    Tidy {
        /// Write the pages that follow from the code first.
        #[arg(long)]
        write: bool,
    },
    /// Run fuzz targets under libFuzzer, one after the other.
    Fuzz(fuzz::Options),
    /// Run the whole scheduler under faults, from seeds, in one thread: docs/simulation.md.
    Simulate {
        /// Passed on to the simulation: --seeds A..B, --minutes N, --fault KINDS, --seed S --trace; `-- --help` lists all.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run tests of flux-core, flux-sched and flux-coral2, from trees that you have built, with Fluxgate in the place of their
    /// schedulers: docs/flux-core-tests.md.
    FluxTests(flux_tests::Options),
    /// The pages of the repository as a book with search, in `target/book`; mdBook is fetched below `target/`.
    Book,
    /// Check licenses, duplicate versions, banned crates and sources: `cargo deny` with deny.toml.
    Deny,
    /// Build the wheel of the Python package into `target/wheels`, with all policies inside.
    ///
    /// Needs Python 3.10 or newer with venv; maturin is fetched below `target/`.
    Python(python::Options),
    /// An embedded instance, a workload and policies swapped under it: `fluxgate demo`.
    Demo {
        /// Passed on to `fluxgate demo`, for example `--json`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Make what is handed to users: a small program with its policies inside, a tarball and a Debian package of it, a
    /// wheel of the Python package with the program inside, a bill of materials, and their digests.
    Dist(dist::Options),
    /// Pack the crates for others in their order, without network, and check what a registry expects of them.
    Crates(crates::Options),
    /// Pictures of every page of the dashboard, light and dark, by a headless Chromium.
    Screenshots(screenshots::Options),
    /// The benchmarks behind docs/benchmarks.md: `cargo bench`.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let house = House::find()?;
    match command {
        Command::Policies { folders, check_reproducible: true, .. } => {
            policies::check_reproducible(&house, &folders)
        }
        Command::Policies { folders, lang, out, test, .. } => {
            let out = out.map(std::path::absolute).transpose()?.unwrap_or_else(|| house.policies());
            build_policies(&house, folders, &lang, test, &out)
        }
        Command::Build => {
            println!("{}", build_all(&house)?.display());
            Ok(())
        }
        Command::Test(options) => testing::run(&house, &options),
        Command::Ci => {
            house.cargo("fmt").args(["--all", "--check"]).run()?;
            let lints = ["--workspace", "--all-targets", "--", "-D", "warnings"];
            house.cargo("clippy").args(lints).run()?;
            testing::all(&house)?;
            book::build(&house)
        }
        Command::Tidy { write } => {
            if write {
                tidy::write(house.root())?;
            }
            tidy::check(house.root())
        }
        Command::Fuzz(options) => fuzz::run(&house, &options),
        Command::Simulate { arguments } => simulate::run(&house, &arguments),
        Command::FluxTests(options) => flux_tests::run(&house, &options),
        Command::Book => book::build(&house),
        Command::Deny => deny::run(&house),
        Command::Python(options) => python::wheel(&house, &options),
        Command::Demo { arguments } => {
            let binary = build_demo(&house)?;
            house.program(&binary).arg("demo").args(&arguments).run()
        }
        Command::Crates(options) => crates::run(&house, &options),
        Command::Dist(options) => dist::run(&house, &options),
        Command::Screenshots(options) => screenshots::take(&house, &build_all(&house)?, &options),
        Command::Bench(options) => bench::run(&house, &options),
    }
}

/// Each folder in its own language, or without folders our own in those that were asked for.
fn build_policies(
    house: &House,
    folders: Vec<PathBuf>,
    asked: &[String],
    test: bool,
    out: &Path,
) -> Result<()> {
    let (mut rust, mut others) = (Vec::new(), Vec::new());
    let named = !folders.is_empty();
    for folder in folders {
        match languages::Folder::read(&folder)? {
            Some(other) => others.push(other),
            None => rust.push(folder),
        }
    }
    let mut with_rust = !rust.is_empty();
    if !named {
        let mut wanted = BTreeSet::new();
        for name in asked {
            match (name.as_str(), Language::named(name)) {
                ("all", _) => {
                    wanted.extend(Language::ALL);
                    with_rust = true;
                }
                ("rust", _) => with_rust = true,
                (_, Some(language)) => drop(wanted.insert(language)),
                _ => bail!("--lang {name}: accepted are rust, c, cpp, go, js, ts, python and all"),
            }
        }
        others = languages::find(house, &wanted)?;
    }
    if with_rust {
        policies::build_into(house, &rust, out)?;
    }
    languages::build(house, &others, test, out)
}

/// The policies that the demo exchanges.
const DEMO_POLICIES: [&str; 3] = ["fcfs", "easy", "broken"];

/// Policies and the binary; says where the binary is.
fn build_all(house: &House) -> Result<PathBuf> {
    build(house, &[], "dev")
}

/// The binary of the demo, which is compiled fast, and its policies.
fn build_demo(house: &House) -> Result<PathBuf> {
    build(house, &DEMO_POLICIES.map(|name| house.root().join("policies").join(name)), "demo")
}

/// The binary, built with a profile, and the policies in these folders or all.
fn build(house: &House, policies: &[PathBuf], profile: &str) -> Result<PathBuf> {
    let binary = ["--package", "fluxgate", "--bin", "fluxgate", "--profile", profile];
    policies::build_beside(house, policies, house.cargo("build").args(binary))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(house.target().join(folder).join("fluxgate"))
}

#[cfg(test)]
mod tests {
    use fluxgate_testing::pages::{Command, calls, commands, spans};

    use super::*;

    /// Commands of the pages for this program are commands of it. Names in capitals stand for a word, and a bar for a choice.
    #[test]
    fn commands_of_the_pages_are_parsed() {
        let house = House::find().unwrap();
        let mut all = commands(house.root(), &["fluxgate", "flux", "cargo", "pip"]);
        all.extend(spans(house.root(), &["cargo xtask"]));
        let (mut parsed, mut wrong) = (0, Vec::new());
        for Command { page, line, text } in all {
            for words in calls(&text).iter().filter(|words| words[0] == "cargo" && words[1] == "xtask") {
                let asked = Arguments::try_parse_from(&words[1..]);
                // The help is asked for on purpose.
                match asked.err().filter(clap::Error::use_stderr) {
                    Some(error) => wrong.push(format!("{page}:{line}: {text}: {error}")),
                    None => parsed += 1,
                }
            }
        }
        assert!(wrong.is_empty() && parsed > 30, "{parsed} are parsed, and\n{}", wrong.join("\n"));
    }
}
