//! Candidates beside the active policy, and policies on probation, on a live instance.

use fluxgate_tests::fixture::{World, for_both_dialects, policies};
use serde_json::{Value, json};

fn set(world: &World, table: &str) {
    let file = world.dir.path().join("settings.toml");
    std::fs::write(&file, format!("[sched-fluxgate]\npolicy = \"fcfs\"\n{table}\n")).unwrap();
    world.cli(&["config", "reload", "--file", file.to_str().unwrap()]).ok();
}

fn load_broken(world: &World, mode: &str) {
    let (path, mode) = (policies().join("broken.wasm"), format!("mode={mode}"));
    world.cli(&["policy", "load", path.to_str().unwrap(), "--config", &mode]).ok();
}

fn shadow(world: &World, name: &str) -> Value {
    let list = world.policies();
    let shadows = list["shadows"].as_array().unwrap();
    shadows.iter().find(|shadow| shadow["name"] == name).cloned().unwrap_or_default()
}

fn submit(world: &World, args: &[&str]) -> String {
    let said = world.cli(&[&["submit"], args].concat()).ok();
    said.split_whitespace().last().expect("an id").to_owned()
}

fn quiet(world: &World) {
    world.until_done();
}

const FCFS: [&str; 8] = ["--nodes", "1", "--cores", "4", "--policy", "fcfs", "--speed", "100"];

#[test]
fn a_candidate_is_compared_and_promoted_when_its_gate_holds() {
    for_both_dialects(&FCFS, |args| {
        let world = World::up(args);
        // A job that has waited since before the shadow began is part of its copy.
        let first = submit(&world, &["-n3", "-t", "100h", "--simulate", "360000s"]);
        submit(&world, &["-n4", "-t", "1h", "--simulate", "60s"]);
        world.cli(&["policy", "shadow", "easy"]).ok();
        world.cli(&["policy", "shadow", "easy"]).fails(1, &["a shadow already"]);
        let small = submit(&world, &["-n1", "-t", "5m", "--simulate", "60s"]);
        let diff = |world: &World| world.diff("easy", None);
        world.until("easy would run it", |world| diff(world)["jobs"]["would_run"] == 1);
        assert_eq!(world.jobs("running").len(), 1, "and fcfs does not");
        let told = world.cli(&["policy", "diff", "easy", "--job", &small]).ok();
        assert!(told.contains("waits, and would run"), "{told}");
        let watched = world.cli(&["policy", "watch", "--once", "--json"]).json();
        let rows = watched["policies"].as_array().unwrap();
        assert_eq!((&rows[0]["name"], &rows[0]["role"]), (&json!("fcfs"), &json!("decides")));
        assert_eq!((&rows[1]["name"], &rows[1]["role"]), (&json!("easy"), &json!("shadow")));
        assert!(rows.iter().all(|row| row["fuel_per_pass"].as_f64().unwrap() > 0.0), "{watched}");
        assert!(world.cli(&["policy", "watch", "--once"]).ok().contains("FUEL/PASS"));
        world.cli(&["policy", "watch"]).fails(2, &["--json and --once"]);
        world.cli(&["policy", "watch", "--json", "--every", "0"]).fails(2, &["0.05"]);
        world.cli(&["cancel", &first]).ok();
        quiet(&world);
        world.until("it is compared", |world| diff(world)["jobs"]["compared"] == 2);
        let told = world.cli(&["policy", "diff", "easy", "--json"]).json();
        assert_eq!((&told["earlier"]["jobs"], &told["ended"]), (&json!(1), &Value::Null), "{told}");
        assert!(told["earlier"]["mean_seconds"].as_f64().unwrap() > 0.0, "{told}");
        assert!(told["cost"]["fuel"].as_u64().unwrap() > 0, "{told}");
        let (live, with) = (&told["mean_wait"]["live"], &told["mean_wait"]["shadow"]);
        assert!(with.as_f64().unwrap() < live.as_f64().unwrap(), "{told}");
        let told = world.cli(&["policy", "diff", "easy", "--job", &small]).ok();
        assert!(told.contains("earlier"), "{told}");
        assert!(world.cli(&["policy", "diff", "easy"]).ok().contains("mean wait"));

        world.cli(&["policy", "promote", "easy"]).fails(1, &["promote-passes-min is 100", "--force"]);
        set(&world, "promote-passes-min = 2\npromote-differences-max = 10");
        world.cli(&["policy", "promote", "easy"]).fails(1, &["promote-differences-max is 10"]);
        set(&world, "promote-passes-min = 2\npromote-wait-max = 100");
        let said = world.cli(&["policy", "promote", "easy", "--json"]).json();
        assert_eq!((&said["from"], &said["to"]), (&json!("fcfs"), &json!("easy")));
        assert_eq!(shadow(&world, "easy"), Value::Null, "it is the live one now");
        world.cli(&["policy", "diff", "easy"]).fails(1, &["easy is no shadow"]);
        world.assert_clean();
    });
}

#[test]
fn whatever_a_shadow_does_wrong_only_ends_it() {
    for_both_dialects(&FCFS, |args| {
        let world = World::up(args);
        let modes =
            ["trap", "loop", "memory", "stack", "unknown-job", "duplicate", "annotation-bomb", "nan-key"];
        for mode in modes {
            load_broken(&world, mode);
            world.cli(&["policy", "shadow", "broken"]).ok();
            // A pass in which it fails, and another for keys that are requested again.
            submit(&world, &["-n4", "-t", "5m", "--simulate", "10s"]);
            submit(&world, &["-n4", "-t", "5m", "--simulate", "10s"]);
            quiet(&world);
            submit(&world, &["-n4", "-t", "5m", "--simulate", "1s"]);
            world.until(mode, |world| shadow(world, "broken")["ended"].is_string());
            let refused = world.cli(&["policy", "promote", "broken"]);
            assert!(refused.code == 1 && refused.err.contains("it ended"), "{refused:?}");
            world.cli(&["policy", "shadow", "broken", "--stop"]).ok();
            world.cli(&["policy", "shadow", "broken", "--stop"]).fails(1, &["no shadow"]);
            quiet(&world);
            let stats = world.stats();
            assert_eq!(
                (&stats["policy"], &stats["engine"]["policy_failures"], &stats["containment"]["breaches"]),
                (&json!("fcfs"), &json!(0), &json!({})),
                "{mode}"
            );
        }
        world.assert_clean();
    });
}

#[test]
fn a_policy_on_probation_that_breaks_a_rule_is_rolled_back() {
    for_both_dialects(&FCFS, |args| {
        let world = World::up(args);
        set(&world, "probation-fuel-max = 1");
        world.cli(&["policy", "swap", "easy", "--probation", "10m"]).ok();
        submit(&world, &["-n1", "-t", "5m", "--simulate", "1s"]);
        world.until("it is rolled back", |world| world.stats()["policy"] == "fcfs");
        let shown = world.cli(&["policy", "show", "easy", "--json"]).json();
        assert_eq!(shown["failed"][0]["kind"], "probation", "{shown}");
        assert!(shown["failed"][0]["reason"].as_str().unwrap().contains("probation-fuel-max = 1"), "{shown}");
        assert_eq!((&shown["quarantined"], &shown["quarantined_until"]), (&json!(true), &Value::Null));
        assert!(world.log().contains("probation broken, rolling back"), "{}", world.log());

        // Without the rule it stays, and its probation ends.
        set(&world, "probation-wait-max = \"1h\"");
        world.cli(&["policy", "swap", "easy", "--probation", "10m"]).ok();
        let list = || world.policies();
        assert_eq!(list()["probation"]["policy"], "easy");
        world.until("it is over", |_| list()["probation"].is_null());
        assert_eq!(world.stats()["policy"], "easy");

        // A policy that fails on probation does not return by itself.
        set(&world, "quarantine = 1");
        load_broken(&world, "trap");
        world.cli(&["policy", "swap", "broken", "--probation", "10m"]).ok();
        submit(&world, &["-n1", "-t", "5m", "--simulate", "1s"]);
        world.until("easy is back", |world| world.stats()["policy"] == "easy");
        let broken = world.cli(&["policy", "show", "broken", "--json"]).json();
        assert_eq!((&broken["quarantined"], &broken["quarantined_until"]), (&json!(true), &Value::Null));
        world.cli(&["policy", "swap", "easy", "--probation", "x"]).fails(2, &["--probation x"]);
        world.assert_clean();
    });
}

#[test]
fn a_swap_may_bring_other_settings() {
    let world = World::up(&FCFS);
    let file = world.dir.path().join("easy.toml");
    std::fs::write(&file, "depth = 7\n").unwrap();
    let depth = || {
        world.cli(&["policy", "show", "easy", "--json"]).json()["config"][0]["value"]
            .as_str()
            .map(str::to_owned)
    };
    world.cli(&["policy", "swap", "easy", "--config", file.to_str().unwrap()]).ok();
    assert_eq!(depth().as_deref(), Some("7"));
    world.cli(&["policy", "swap", "easy", "--config", "depth=3"]).ok();
    assert_eq!(depth().as_deref(), Some("3"));
    world.cli(&["policy", "swap", "easy", "--config", "deep=3"]).fails(1, &["deep"]);
    assert_eq!(depth().as_deref(), Some("3"), "nothing changed");
    assert_eq!(world.stats()["policy"], "easy");
}
