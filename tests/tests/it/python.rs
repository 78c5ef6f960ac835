//! The Python package: its own tests, run by the interpreter and on the package that `cargo xtask test` provides.

use std::path::PathBuf;
use std::process::Command;

use fluxgate_testing::{Need, component, root, skipped};

/// Packages that are too large to be fetched for a test; their tests run where they are installed.
const OPTIONAL: [&str; 3] = ["optuna", "pyright", "stable-baselines3"];

/// The interpreter and the folder of the package; says that the test is skipped where there are none.
pub fn python() -> Option<(PathBuf, PathBuf)> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let found = variable("FLUXGATE_PYTHON").zip(variable("FLUXGATE_PYTHON_PACKAGE"));
    if found.is_none() {
        let why =
            "no tools of the Python package; `cargo xtask ci` and `cargo xtask python --check` fetch them";
        skipped(Need::Python, why);
    }
    found
}

/// RES-21 to RES-50: `python/tests` has a test for each row that is not open.
#[test]
fn the_python_package_passes_its_tests() {
    let Some((python, package)) = python() else { return };
    if component("easy").is_none() {
        return;
    }
    let out = Command::new(python)
        .args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--strict-markers"])
        .arg(root().join("python/tests"))
        .env("PYTHONPATH", package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{told}");
    for line in told.lines().filter(|line| line.starts_with("SKIPPED")) {
        let known = OPTIONAL.iter().any(|package| line.contains(package));
        assert!(known, "a test of the package was skipped:\n{told}");
        skipped(Need::Program, line);
    }
}
