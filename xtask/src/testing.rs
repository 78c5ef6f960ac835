//! `cargo xtask test`: builds policies and binary, runs the suites, and counts skipped tests.
//!
//! A test that is skipped appends a line to a file (`fluxgate_testing::skipped`). Those lines, and the tests marked
//! `#[ignore]`, are named at the end. Must never know the subject of a test.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use fluxgate_testing::{Need, SKIPS};

use crate::house::{House, Program};
use crate::toolchain::on_path;
use crate::tools::Language;
use crate::{languages, policies, python, tidy};

/// The name of tests marked `#[ignore]`, beside the names of [`Need`].
const IGNORED: &str = "ignored";

/// The module of the Python package, which is built only where its tests can run.
const MODULE: &str = "fluxgate-python";

/// How many tests a suite runs at once (libtest).
const THREADS: &str = "RUST_TEST_THREADS";

/// End-to-end suites: the binary in processes of its own, and policies built in other folders.
const END_TO_END: [&str; 2] = ["fluxgate-tests", "xtask"];

/// The test binary of the first of these, and the options that select all other tests but those in documentation: the name of no
/// other test begins with an e.
const END_TO_END_TEST: &str = "end_to_end";
const OTHERS: [&str; 4] = ["--lib", "--bins", "--test", "[!e]*"];

/// The arguments of `cargo xtask test`.
#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// Leave out the end-to-end suites (packages fluxgate-tests and xtask).
    #[arg(long)]
    quick: bool,
    /// Fail if a test was skipped; with names, only if it was skipped for lack of these: shared, policies, languages,
    /// flux, chromium, python, program, ignored.
    #[arg(long, value_name = "NAMES", num_args = 0.., require_equals = true, value_delimiter = ',')]
    strict: Option<Vec<String>>,
    /// Passed on to `cargo test`; with -p only that package is tested.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs the suites.
pub(crate) fn run(house: &House, options: &Options) -> Result<()> {
    let known = |name: &str| name == IGNORED || Need::ALL.iter().any(|need| need.name() == name);
    if let Some(unknown) = options.strict.iter().flatten().find(|name| !known(name)) {
        bail!("--strict={unknown}: accepted are {}, {IGNORED}", Need::ALL.map(Need::name).join(", "));
    }
    tidy::check(house.root())?;
    let arguments = &options.arguments;
    let names_package = |argument: &String| argument.starts_with("-p") || argument.starts_with("--package");
    let mut scope: Vec<&str> = Vec::new();
    let python = if options.quick { None } else { interpreter(house, false) };
    if !arguments.iter().any(names_package) {
        scope.push("--workspace");
        if options.quick {
            scope.extend(END_TO_END.iter().flat_map(|package| ["--exclude", package]));
        }
        scope.extend(["--exclude", MODULE].iter().filter(|_| python.is_none()));
    }
    if options.quick {
        policies::build(house, &[])?;
    } else {
        // One build for binary and tests: two builds would have different features and compile the WebAssembly
        // compiler twice.
        let build = house.cargo("build").args(["--workspace", "--bins", "--tests"]);
        // The module of the Python package is a library without tests.
        let build = match python {
            Some(_) => build.arg("--lib"),
            None => build.args(["--exclude", MODULE]),
        };
        policies::build_beside(house, &[], build)?;
    }
    let package = python.as_ref().map(|_| python::assemble(house)).transpose()?;
    let binary = house.target().join("debug").join("fluxgate");
    let list = house.target().join("skipped");
    fs::write(&list, "").with_context(|| format!("{}", list.display()))?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let suites = |selection: &[&str], threads: usize| {
        let tested = house.cargo("test").args(&scope).args(selection).args(arguments);
        let mut tested = tested.env("FLUXGATE_BIN", &binary).env(SKIPS, &list);
        if let (Some(python), Some(package)) = (&python, &package) {
            tested = tested.env("FLUXGATE_PYTHON", python).env("FLUXGATE_PYTHON_PACKAGE", package);
        }
        if env::var_os(THREADS).is_none() {
            tested = tested.env(THREADS, threads.to_string());
        }
        tested
    };
    // Half of the end-to-end tests wait for processes of their own.
    let tested = if !options.quick && arguments.iter().all(|argument| argument == "--no-fail-fast") {
        beside(suites(&["--test", END_TO_END_TEST], 2 * cores), || {
            let ends = |line: &str| line.starts_with("test result:");
            let run = suites(&OTHERS, cores).run_in_blocks(ends);
            run.and_then(|()| suites(&["--doc"], cores).run_in_blocks(ends))
        })
    } else {
        suites(&[], 2 * cores).run()
    };
    let mut skipped = read(&fs::read_to_string(&list)?);
    if tested.is_ok() && !arguments.iter().any(|argument| argument.ends_with("ignored")) {
        skipped.extend(ignored(house, &scope, arguments)?);
    }
    report(&skipped);
    tested?;
    let Some(strict) = &options.strict else { return Ok(()) };
    let counts = |need: &str| strict.is_empty() || strict.iter().any(|name| name == need);
    match skipped.values().filter(|(need, _)| counts(need)).count() {
        0 => Ok(()),
        missed => bail!("--strict: {missed} tests were skipped; they are named above"),
    }
}

/// Runs the end-to-end suite while others run. A failure of one does not end the other.
fn beside(end_to_end: Program, others: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    thread::scope(|scope| {
        let others = scope.spawn(others);
        let ran = end_to_end.run();
        let others = others.join().map_err(|_| anyhow!("a thread with suites panicked"))?;
        ran.and(others)
    })
}

/// An interpreter for the tests of the Python package; the reason why there is none is told.
fn interpreter(house: &House, fetch: bool) -> Option<PathBuf> {
    let found = python::interpreter(house, fetch);
    if let Err(reason) = &found {
        eprintln!("no tests of the Python package: {reason:#}");
    }
    found.ok()
}

/// Runs all suites with everything that this machine has: the shared data, a browser, a real Flux, and the tools of
/// all languages, which are fetched where possible.
pub(crate) fn all(house: &House) -> Result<()> {
    let mut strict = vec![Need::Policies];
    if env::var_os("FLUXGATE_SHARED").is_some() || house.root().join("../shared").is_dir() {
        strict.push(Need::Shared);
    }
    if env::var_os("FLUXGATE_LOGS").is_some() {
        strict.push(Need::Logs);
    }
    if ["chromium", "chromium-browser", "google-chrome"].into_iter().any(on_path) {
        strict.push(Need::Chromium);
    }
    if on_path("flux") {
        strict.push(Need::Flux);
    }
    let folders = languages::find(house, &Language::ALL.into())?;
    match languages::build(house, &folders, true, &house.policies()) {
        Ok(()) => strict.push(Need::Languages),
        Err(reason) => eprintln!("{reason:#}"),
    }
    if interpreter(house, true).is_some() {
        strict.push(Need::Python);
    }
    let strict = strict.into_iter().map(|need| need.name().to_owned()).collect();
    run(house, &Options { strict: Some(strict), arguments: vec!["--no-fail-fast".to_owned()], quick: false })
}

/// Skipped tests: the missing thing, and the reason.
type Skipped = BTreeMap<String, (String, String)>;

/// The lines that tests appended: need, test, reason.
fn read(list: &str) -> Skipped {
    let mut skipped = Skipped::new();
    for line in list.lines() {
        let mut fields = line.splitn(3, '\t').map(str::to_owned);
        if let (Some(need), Some(test), Some(why)) = (fields.next(), fields.next(), fields.next()) {
            skipped.entry(test).or_insert((need, why));
        }
    }
    skipped
}

/// The tests marked `#[ignore]` among those that the arguments select.
fn ignored(house: &House, scope: &[&str], arguments: &[String]) -> Result<Skipped> {
    let selection = arguments.split(|argument| argument == "--").next().unwrap_or_default();
    // Without the benches, which would run: whatever has tests, which the module of the Python package has not.
    let all: &[&str] = if selection.is_empty() { &["--tests"] } else { &[] };
    let cargo = house.cargo("test").arg("--quiet").args(scope).args(all).args(selection);
    let listed = cargo.args(["--", "--list", "--ignored", "--format", "terse"]).read()?;
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(|name| (name.to_owned(), (IGNORED.to_owned(), "#[ignore]".to_owned()))).collect())
}

fn report(skipped: &Skipped) {
    if skipped.is_empty() {
        return println!("skipped: no test");
    }
    println!("skipped: {} tests", skipped.len());
    for (test, (need, why)) in skipped {
        println!("  {need}: {test}: {why}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_name_of_one_test_begins_with_an_e() {
        let metadata = House::find().unwrap().cargo("metadata").args(["--no-deps", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&metadata.read().unwrap()).unwrap();
        let packages = metadata["packages"].as_array().unwrap().iter();
        let targets = packages.flat_map(|package| package["targets"].as_array().unwrap());
        let tests = targets.filter(|target| target["kind"] == json!(["test"]));
        let names: Vec<&str> = tests.filter_map(|target| target["name"].as_str()).collect();
        let first: Vec<&&str> = names.iter().filter(|name| name.starts_with('e')).collect();
        assert_eq!((first, names.contains(&"it")), (vec![&END_TO_END_TEST], true));
    }

    #[test]
    fn a_test_is_counted_once() {
        let skipped =
            read("shared\ta one::x\tno a\nshared\ta one::x\tno b\nflux\tb two::y\tno flux\nnonsense\n");
        let needs: Vec<&str> = skipped.values().map(|(need, _)| need.as_str()).collect();
        assert_eq!(needs, ["shared", "flux"]);
        assert_eq!(skipped["a one::x"].1, "no a");
    }
}
