//! The conformance kit: every policy of this repository passes, and every misdeed fails its check.

use std::path::PathBuf;
use std::sync::OnceLock;

use fluxgate_conformance::{CHECKS, Report, Verdict, check};
use fluxgate_policy::{Config, Limits, Loader};
use fluxgate_tests::fixture::{self, SHIPPED, cli, folder, policies};

fn component(name: &str) -> Vec<u8> {
    std::fs::read(policies().join(format!("{name}.wasm"))).expect("run `cargo xtask policies`")
}

fn loader() -> &'static Loader {
    static LOADER: OnceLock<Loader> = OnceLock::new();
    LOADER.get_or_init(|| fixture::loader(Limits::default()))
}

#[test]
fn every_shipped_policy_passes() {
    for name in SHIPPED {
        let report = check(loader(), &component(name), &Config::new());
        assert!(report.passed(), "{name}: {:#?}", report.failed().collect::<Vec<_>>());
        assert_eq!(report.policy.as_deref(), Some(name));
        let names: Vec<&str> = report.checks.iter().map(|check| check.name).collect();
        assert_eq!(names, CHECKS.map(|(name, _)| name));
        for check in &report.checks {
            // Checks are skipped only for a missing ability or setting.
            let absent = ["it has no settings", "it keeps no state", "it does not observe"];
            let told = check.verdict != Verdict::Skip || absent.contains(&check.reason.as_str());
            assert!(told, "{name}: {check:?}");
        }
        let skipped = report.checks.iter().filter(|check| check.verdict == Verdict::Skip).count();
        assert!(name != "broken" || skipped == 0, "it has every ability: {report:#?}");
    }
}

fn broken(mode: &str, when: &str) -> Report {
    // A small memory and little fuel, so that filling the one and burning the other takes no time.
    static SMALL: OnceLock<Loader> = OnceLock::new();
    let limits = Limits { memory_bytes: 64 << 20, ..fixture::little_fuel(100_000_000) };
    let loader = SMALL.get_or_init(|| fixture::loader(limits));
    let config = Config::from([("mode".into(), mode.into()), ("when".into(), when.into())]);
    check(loader, &component("broken"), &config)
}

/// Every mode at every moment, and the check that must fail for it.
const MISDEEDS: [(&str, [&str; 6]); 11] = [
    // load, first-pass, mid-pass, swap, observe, keys
    ("trap", ["traps", "traps", "traps", "traps", "traps", "traps"]),
    ("loop", ["fuel", "fuel", "fuel", "fuel", "fuel", "fuel"]),
    ("memory", ["memory", "memory", "memory", "memory", "memory", "memory"]),
    ("stack", ["traps", "traps", "traps", "traps", "traps", "traps"]),
    // Outside of a pass these use the pass, which traps.
    ("unknown-job", ["traps", "decisions", "decisions", "traps", "traps", "traps"]),
    ("duplicate", ["traps", "decisions", "decisions", "traps", "traps", "traps"]),
    ("annotation-bomb", ["traps", "output", "output", "traps", "traps", "traps"]),
    ("log-bomb", ["fuel", "log", "log", "log", "log", "log"]),
    ("nan-key", ["keys", "keys", "keys", "keys", "keys", "keys"]),
    ("short-keys", ["keys", "keys", "keys", "keys", "keys", "keys"]),
    ("trap-in-save", ["traps", "traps", "traps", "traps", "traps", "traps"]),
];

const MOMENTS: [&str; 6] = ["load", "first-pass", "mid-pass", "swap", "observe", "keys"];

#[test]
fn every_misdeed_fails_the_check_that_is_about_it() {
    for (mode, checks) in MISDEEDS {
        for (when, right) in MOMENTS.into_iter().zip(checks) {
            let report = broken(mode, when);
            let failed: Vec<&str> = report.failed().map(|check| check.name).collect();
            assert!(failed.contains(&right), "{mode} at {when}: {failed:?}, without {right}");
        }
    }
}

#[test]
fn the_command_prints_a_table_and_ends_with_1_if_something_fails() {
    let said = cli(&["policy", "check", "easy"]).ok();
    assert!(said.contains("large-ids") && said.contains("pass") && !said.contains("FAIL"), "{said}");
    let report = cli(&["policy", "check", "easy", "--json", "--config", "depth=4"]).json();
    assert_eq!(report["passed"], true, "{report}");
    assert_eq!(report["checks"].as_array().map(Vec::len), Some(CHECKS.len()));

    cli(&["policy", "check", "broken", "--config", "mode=nan-key", "--config", "when=keys"])
        .fails(1, &["broken.wasm", "checks failed", "keys"]);
    cli(&["policy", "check", "nonexistent"]).fails(1, &["no policy \"nonexistent\""]);
    cli(&["policy", "check", "/nowhere/x.wasm"]).fails(1, &["/nowhere/x.wasm", "cannot be read"]);
    cli(&["policy", "check", "easy", "--config", "depth"]).fails(2, &["expected KEY=VALUE"]);
    let dir = folder();
    let file: PathBuf = dir.path().join("text.wasm");
    std::fs::write(&file, "hello").unwrap();
    cli(&["policy", "check", file.to_str().unwrap()]).fails(1, &["1 of 26 checks failed: contract"]);
}
