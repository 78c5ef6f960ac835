//! Data, programs and components outside of the project that tests need, and the report of tests skipped without
//! them.
//!
//! A test without its data, program or component returns early. It calls [`skipped`] first, so that `cargo xtask
//! test` counts and names it, and fails with `--strict`. For tests only; must never know the tests.

pub mod counting;
pub mod pages;

use std::ffi::OsStr;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable that names the file to which [`skipped`] appends.
pub const SKIPS: &str = "FLUXGATE_SKIPS";

/// Something that a machine may lack. `cargo xtask test --strict` takes these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The folder `shared` beside the project, or FLUXGATE_SHARED.
    Shared,
    /// Workload logs beside those of the shared folder, in the folders that FLUXGATE_LOGS names.
    Logs,
    /// Components that `cargo xtask policies` builds.
    Policies,
    /// Components in other languages, which `cargo xtask policies --lang all` builds, and their tools.
    Languages,
    /// A real Flux.
    Flux,
    /// A browser.
    Chromium,
    /// Python with the packages that the tests of the Python package need, and the package as `cargo xtask test` makes it.
    Python,
    /// Another program.
    Program,
}

impl Need {
    /// All needs.
    pub const ALL: [Need; 8] = [
        Need::Shared,
        Need::Logs,
        Need::Policies,
        Need::Languages,
        Need::Flux,
        Need::Chromium,
        Need::Python,
        Need::Program,
    ];

    /// The name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Need::Shared => "shared",
            Need::Logs => "logs",
            Need::Policies => "policies",
            Need::Languages => "languages",
            Need::Flux => "flux",
            Need::Chromium => "chromium",
            Need::Python => "python",
            Need::Program => "program",
        }
    }
}

/// Reports that the calling test, or a part of it, is skipped because something is missing.
///
/// The line goes to standard error, and to the file that FLUXGATE_SKIPS names.
///
/// # Panics
/// That file cannot be written.
pub fn skipped(need: Need, what: impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}");
    let Some(file) = std::env::var_os(SKIPS) else { return };
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let thread = std::thread::current();
    let line = format!("{}\t{package} {}\t{what}\n", need.name(), thread.name().unwrap_or("?"));
    let file = OpenOptions::new().create(true).append(true).open(file);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("the list of skipped tests can be written");
}

/// The workspace's folder, an absolute path.
///
/// # Panics
/// The folder is not there.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// A file or folder of the shared data; `None`, as [`skipped`], where it is missing.
pub fn shared(path: &str) -> Option<PathBuf> {
    let base = std::env::var_os("FLUXGATE_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let file = base.join(path);
    if file.exists() {
        return Some(file);
    }
    skipped(Need::Shared, format_args!("no {path} in ../shared or $FLUXGATE_SHARED"));
    None
}

/// The folder of policy components: FLUXGATE_POLICIES, or the output folder of `cargo xtask policies`.
pub fn policies() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let target = || variable("CARGO_TARGET_DIR").unwrap_or_else(|| root().join("target"));
    variable("FLUXGATE_POLICIES").unwrap_or_else(|| target().join("policies"))
}

/// The policies of this repository, by name.
pub const SHIPPED: [&str; 18] = [
    "bandwidth-aware",
    "broken",
    "conservative",
    "easy",
    "easy-plus-plus",
    "fcfs",
    "formula",
    "hybrid",
    "ljf",
    "multifactor",
    "packing",
    "power-capped",
    "priority",
    "sjf",
    "smallest-first",
    "sparing",
    "topology",
    "xf",
];

/// The file of a policy of this repository; `None`, as [`skipped`], where it was not built.
pub fn component(name: &str) -> Option<PathBuf> {
    let path = policies().join(name).with_extension("wasm");
    if path.exists() {
        return Some(path);
    }
    skipped(Need::Policies, format_args!("{} is not there; run `cargo xtask policies`", path.display()));
    None
}

/// True if this program can be started: it is run with `--version`, and its exit status does not count. False, as [`skipped`], if not.
pub fn has(need: Need, program: impl AsRef<OsStr>) -> bool {
    let program = program.as_ref();
    let mut asked = Command::new(program);
    asked.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let found = asked.status().is_ok();
    if !found {
        skipped(need, format_args!("no {}", program.to_string_lossy()));
    }
    found
}
