//! The demo, small and fast: the statements of its last line are true.

use fluxgate_tests::fixture::cli;
use serde_json::Value;

#[test]
fn a_small_demo_ends_with_a_clean_audit() {
    let out = cli(&["demo", "--jobs", "80", "--speed", "20000", "--json"]).ok();
    let last: Value =
        serde_json::from_str(out.lines().last().expect("it prints something")).expect("one object");
    let audit = &last["audit"];
    assert_eq!((&audit["submitted"], &audit["completed"]), (&80.into(), &80.into()), "{audit}");
    for zero in ["denied", "lost", "run_twice", "dropped"] {
        assert_eq!(audit[zero], 0, "{zero}: {audit}");
    }
    assert_eq!(last["phases"].as_array().map(Vec::len), Some(3));
    for swap in last["swaps"].as_array().expect("a list") {
        assert_eq!(swap["held"], swap["kept"]);
    }
    assert!(out.contains("BOUNDED SLOWDOWN") && out.contains("jobs run twice"), "{out}");
}
