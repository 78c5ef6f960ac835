//! The rules of this repository that no compiler checks. They are also a test of this crate, so the suite holds them.
//!
//! - A source file opens with its purpose (`//!`).
//! - A sentence of a comment has a noun of the field as subject.
//! - A file in `host/` is short enough to be read at once.
//! - Arrows between crates, and between the rooms of `host/graph`, point down, as ARCHITECTURE.md draws them.
//! - Deterministic crates read no clock and draw no random numbers. (A lint forbids iteration in hash order, see
//!   `clippy.toml`.) The scheduler service names no thread, socket or file either.
//! - A path of the repository, and a test, that a page names exist.
//! - A link of a page leads to a file and a heading that exist, and `docs/SUMMARY.md` names every page.
//! - `docs/limits.md` tells the bounds that the code has.

mod limits;
mod links;
mod paths;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::house::Program;

/// Most lines of a file in `host/`.
const LINES_MAX: usize = 600;

/// Files that may be longer, each with a reason; there are none.
const LONG_FILES: [&str; 0] = [];

/// Crates whose results must follow from their input alone.
const DETERMINISTIC: [&str; 9] = [
    "host/formats/src",
    "host/graph/src",
    "host/resource-query/src",
    "host/engine/src",
    "host/journal/src",
    "host/sched/src",
    "host/sim/src",
    "host/environments/src",
    "host/simulation/src",
];

/// Their files that use the machine's own clock and threads.
const DRIVERS: [&str; 2] = ["host/journal/src/threaded.rs", "host/simulation/src/main.rs"];

/// The names that they must not use, and the alternative.
const FORBIDDEN: [(&str, &str); 5] = [
    ("Instant::now", "time is a parameter"),
    ("SystemTime", "time is a parameter"),
    ("std::thread", "a driver starts threads"),
    ("rand::", "randomness is a parameter"),
    ("RandomState", "use BTreeMap: hash order differs from run to run"),
];

/// Crates that reach everything outside of them through one trait, so that a simulation can run them.
const DRIVEN: [&str; 1] = ["host/sched/src"];

/// Further names that they must not use, because their trait offers the function.
const OUTSIDE: [&str; 11] = [
    "Instant",
    "tokio",
    "block_in_place",
    "std::fs",
    "File::",
    "std::env",
    "std::net",
    "std::os",
    "std::process",
    "UnixStream",
    "TcpStream",
];

/// The crates of the workspace on which each crate may depend. Crates that are not listed (the test suites) may use
/// all.
const ARROWS: &[(&str, &[&str])] = &[
    ("fluxgate-log", &[]),
    ("fluxgate-formats", &[]),
    ("fluxgate-graph", &["fluxgate-formats"]),
    ("fluxgate-resource-query", &["fluxgate-formats", "fluxgate-graph"]),
    ("fluxgate-engine", &["fluxgate-formats", "fluxgate-graph"]),
    ("fluxgate-journal", &["fluxgate-log", "fluxgate-formats", "fluxgate-graph", "fluxgate-engine"]),
    ("fluxgate-policy", &["fluxgate-log", "fluxgate-formats", "fluxgate-graph", "fluxgate-engine"]),
    ("fluxgate-artefact", &[]),
    ("fluxgate-conformance", &["fluxgate-formats", "fluxgate-graph", "fluxgate-engine", "fluxgate-policy"]),
    ("fluxgate-wire", &["fluxgate-log", "fluxgate-formats", "fluxgate-graph", "fluxgate-engine"]),
    (
        "fluxgate-sched",
        &[
            "fluxgate-log",
            "fluxgate-formats",
            "fluxgate-graph",
            "fluxgate-engine",
            "fluxgate-journal",
            "fluxgate-policy",
            "fluxgate-wire",
        ],
    ),
    ("fluxgate-instance", &["fluxgate-formats", "fluxgate-graph", "fluxgate-wire"]),
    ("fluxgate-web", &["fluxgate-formats", "fluxgate-wire"]),
    ("fluxgate-sim", &["fluxgate-formats", "fluxgate-graph", "fluxgate-engine"]),
    (
        "fluxgate-simulation",
        &[
            "fluxgate-formats",
            "fluxgate-engine",
            "fluxgate-journal",
            "fluxgate-policy",
            "fluxgate-wire",
            "fluxgate-sched",
            "fluxgate-instance",
        ],
    ),
    (
        "fluxgate",
        &[
            "fluxgate-log",
            "fluxgate-formats",
            "fluxgate-graph",
            "fluxgate-resource-query",
            "fluxgate-engine",
            "fluxgate-journal",
            "fluxgate-policy",
            "fluxgate-conformance",
            "fluxgate-artefact",
            "fluxgate-wire",
            "fluxgate-sched",
            "fluxgate-instance",
            "fluxgate-sim",
            "fluxgate-web",
            // For new policies, and for networks.
            "fluxgate-languages",
            "fluxgate-networks",
        ],
    ),
    (
        "fluxgate-environments",
        &[
            "fluxgate-formats",
            "fluxgate-graph",
            "fluxgate-engine",
            "fluxgate-guest",
            "fluxgate-networks",
            "fluxgate-sim",
            // For base orders, and for weights.
            "policy-formula",
            "policy-multifactor",
        ],
    ),
    (
        "fluxgate-python",
        &[
            "fluxgate-formats",
            "fluxgate-graph",
            "fluxgate-engine",
            "fluxgate-environments",
            "fluxgate-networks",
            "fluxgate-policy",
            "fluxgate-sim",
        ],
    ),
    ("fluxgate-guest", &[]),
    ("fluxgate-languages", &["fluxgate-guest", "fluxgate-networks", "policy-formula"]),
    ("fluxgate-networks", &["fluxgate-guest"]),
    ("fluxgate-testing", &[]),
    ("xtask", &["fluxgate-testing"]),
];

/// Tests that are not Rust; pages name them too.
const PYTHON_TESTS: &str = "python/tests";

/// The rooms of `host/graph`, lowest first: a room stands on those before it.
const GRAPH_ROOMS: [&str; 4] = ["description", "layout", "live", "record"];

/// The crates on which a policy may depend.
const POLICY_ARROWS: &[&str] = &["fluxgate-guest"];

/// Writes the pages that follow from the code.
pub(crate) fn write(root: &Path) -> Result<()> {
    fs::write(root.join(limits::PAGE), limits::page(root)?).context(limits::PAGE)
}

/// Runs all checks; the error lists every breach, one a line.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut breaches = Vec::new();
    let mut names = BTreeSet::new();
    let mut files = Vec::new();
    for room in ["host", "guest-sdk", "languages", "networks", "policies", "python", "tests", "fuzz", "xtask"]
    {
        sources(&root.join(room), &mut files)?;
    }
    files.sort();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy();
        breaches.extend(judge_file(&name, &text));
        breaches.extend(judge_rooms(&name, &text));
        breaches.extend(words::judge(&name, &text));
        paths::add_names(&text, &mut names);
    }
    for test in fs::read_dir(root.join(PYTHON_TESTS)).context(PYTHON_TESTS)? {
        let test = test?.path();
        if test.extension().is_some_and(|extension| extension == "py") {
            paths::add_names(&fs::read_to_string(&test)?, &mut names);
        }
    }
    breaches.extend(judge_arrows(&arrows(root)?));
    breaches.extend(paths::judge(root, &names)?);
    breaches.extend(links::judge(root)?);
    breaches.extend(limits::judge(root)?);
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("the house is not tidy:\n  {}", breaches.join("\n  "))
}

fn judge_file(name: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    if !text.starts_with("//!") {
        breaches.push(format!("{name}:1: does not open with `//!` and what the file is for"));
    }
    let lines = text.lines().count();
    if name.starts_with("host/") && lines > LINES_MAX && !LONG_FILES.contains(&name) {
        breaches.push(format!("{name}: {lines} lines; more than {LINES_MAX} is more than one file"));
    }
    // Tests may measure time.
    let deterministic = DETERMINISTIC.iter().any(|room| name.starts_with(room)) && !DRIVERS.contains(&name);
    if deterministic && !name.contains("/tests/") {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (word, instead) in FORBIDDEN.iter().filter(|(word, _)| code.contains(word)) {
                breaches.push(format!("{name}:{}: `{word}`: {instead}", number + 1));
            }
        }
    }
    if DRIVEN.iter().any(|room| name.starts_with(room)) {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in OUTSIDE.iter().filter(|word| code.contains(**word)) {
                breaches.push(format!("{name}:{}: `{word}`: the crate has a trait for it", number + 1));
            }
        }
    }
    breaches
}

/// Imports of a room of `host/graph` from one above it.
fn judge_rooms(name: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let room = name.strip_prefix("host/graph/src/").and_then(|rest| rest.split('/').next());
    // Tests may use all rooms.
    let room = room.filter(|_| !name.contains("/tests/"));
    let Some(floor) = GRAPH_ROOMS.iter().position(|it| Some(*it) == room) else { return breaches };
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let words = || code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        for above in &GRAPH_ROOMS[floor + 1..] {
            let path = format!("crate::{above}");
            let named = |word: &str| word == path || word.starts_with(&format!("{path}::"));
            if words().any(named) {
                let rule = "a room stands on those below it";
                breaches.push(format!("{name}:{}: `{path}` in `{}`: {rule}", number + 1, GRAPH_ROOMS[floor]));
            }
        }
    }
    breaches
}

fn judge_arrows(arrows: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut breaches = Vec::new();
    for (from, to) in arrows {
        let allowed = match ARROWS.iter().find(|(name, _)| name == from) {
            Some((_, allowed)) => allowed,
            None if from.starts_with("policy-") => POLICY_ARROWS,
            None => continue,
        };
        for to in to.iter().filter(|to| !allowed.contains(&to.as_str())) {
            breaches.push(format!("{from} must not depend on {to}: arrows point down"));
        }
    }
    breaches
}

/// For each crate of the workspace, the crates of the workspace on which it depends (tests aside).
fn arrows(root: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let metadata = Program::new(cargo).args(arguments).folder(root).read()?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
    let mut arrows = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().context("cargo metadata names no package")?;
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let inside = dependencies.filter(|each| each["path"].is_string() && each["kind"] != "dev");
        let names = inside.filter_map(|each| each["name"].as_str()).map(str::to_owned);
        arrows.insert(name.to_owned(), names.collect());
    }
    Ok(arrows)
}

/// All Rust files below a folder, except built ones.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
            sources(&path, found)?;
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        if let Err(breaches) = check(root) {
            panic!("{breaches}");
        }
    }

    #[test]
    fn breaches_are_found() {
        assert!(judge_file("host/graph/src/a.rs", "//! Fine.\n// SystemTime in a comment\n").is_empty());
        assert_eq!(judge_file("tests/a.rs", "fn main() {}\n").len(), 1);
        assert_eq!(judge_file("host/graph/src/a.rs", "//! x\nuse std::time::SystemTime;\n").len(), 1);
        assert!(judge_file("host/wire/src/a.rs", "//! x\nuse std::time::SystemTime;\n").is_empty());
        assert!(judge_file("host/journal/src/threaded.rs", "//! x\nuse std::thread;\n").is_empty());
        let outside = "//! x\nlet file = std::fs::read(path); // tokio in a comment\n";
        assert_eq!(judge_file("host/sched/src/a.rs", outside).len(), 1);
        assert!(judge_file("host/cli/src/a.rs", outside).is_empty());
        let long = format!("//! x\n{}", "\n".repeat(LINES_MAX));
        assert_eq!(judge_file("host/wire/src/a.rs", &long).len(), 1);
        assert!(judge_file("xtask/src/a.rs", &long).is_empty());
    }

    #[test]
    fn a_room_of_the_graph_stands_on_those_below_it() {
        let file = |room: &str| format!("host/graph/src/{room}/a.rs");
        let up = "use crate::live::index::Index;\nlet it = crate::record::write(crate::live);\n";
        assert_eq!(judge_rooms(&file("layout"), up).len(), 3);
        assert_eq!(judge_rooms(&file("live"), up).len(), 1);
        assert!(judge_rooms(&file("record"), up).is_empty());
        assert!(judge_rooms(&file("description"), "// crate::live\nuse crate::liveness;\n").is_empty());
        assert!(judge_rooms("host/graph/src/layout/tests/a.rs", up).is_empty());
        assert!(judge_rooms("host/graph/src/lib.rs", up).is_empty());
        assert!(judge_rooms("host/engine/src/live/a.rs", up).is_empty());
    }

    #[test]
    fn arrows_point_down() {
        let arrow = |from: &str, to: &str| BTreeMap::from([(from.to_owned(), vec![to.to_owned()])]);
        assert!(judge_arrows(&arrow("fluxgate-engine", "fluxgate-graph")).is_empty());
        assert_eq!(judge_arrows(&arrow("fluxgate-graph", "fluxgate-engine")).len(), 1);
        assert_eq!(judge_arrows(&arrow("policy-x", "fluxgate-engine")).len(), 1);
        assert!(judge_arrows(&arrow("fluxgate-tests", "fluxgate-policy")).is_empty());
    }
}
