//! The journal of a live scheduler: killed under load, it is intact, and a rerun makes the same decisions; another
//! policy is compared with it.

use std::path::{Path, PathBuf};

use fluxgate_tests::fixture::{World, cli, folder, policies};
use serde_json::{Value, json};

fn path(policy: &str) -> String {
    policies().join(format!("{policy}.wasm")).to_str().unwrap().to_owned()
}

fn up(journal: &Path, more: &[&str]) -> World {
    let journal = journal.to_str().unwrap();
    let args = ["--nodes", "4", "--cores", "8", "--queue", "batch", "--queue", "debug", "--speed", "200"];
    World::up(&[&args[..], &["--policy", "fcfs", "--journal", journal], more].concat())
}

/// All kinds of events: two queues, priorities, cancels, nodes that are drained and undrained, swaps, a breach.
fn live_through(world: &World) {
    world.cli(&["submit", "-n5", "-t", "5m", "--simulate", "60s", "--queue", "batch", "--copies", "60"]).ok();
    world.cli(&["submit", "-n3", "-t", "2m", "--simulate", "30s", "--queue", "debug", "--copies", "60"]).ok();
    world.cli(&["submit", "-N4", "-x", "-t", "9m", "--simulate", "20s", "--copies", "3"]).ok();
    for policy in ["easy", "sjf", "easy", "conservative"] {
        world.cli(&["policy", "swap", policy]).ok();
        let waiting = world.jobs("pending");
        if let [first, .., last] = &waiting[..] {
            world.cli(&["urgency", last, "28"]).ok();
            // It may have started in the meantime; then it is cancelled all the same.
            world.cli(&["cancel", first]);
        }
        world.cli(&["drain", "1"]).ok();
        world
            .cli(&["submit", "-n2", "-t", "1m", "--simulate", "9s", "--queue", "debug", "--copies", "30"])
            .ok();
        world.cli(&["undrain", "1"]).ok();
    }
    world
        .cli(&["policy", "load", &path("broken"), "--config", "mode=trap", "--config", "when=first-pass"])
        .ok();
    world.cli(&["policy", "swap", "broken"]);
    world.cli(&["submit", "-n2", "-t", "1m", "--simulate", "9s", "--copies", "20"]).ok();
    world.until("the policy fails", |world| world.stats()["engine"]["policy_failures"] != 0);
    world.until("another decides", |world| {
        world.stats()["policy"] != "broken" && world.stats()["swap"].is_null()
    });
}

fn replay(journal: &Path, more: &[&str]) -> Value {
    let journal = journal.to_str().unwrap();
    cli(&[&["replay", "--json", "--journal", journal], more].concat()).json()
}

#[test]
fn a_scheduler_killed_under_load_leaves_a_journal_that_decides_the_same_again() {
    let dir = folder();
    let journal: PathBuf = dir.path().join("journal");
    let world = up(&journal, &[]);
    live_through(&world);
    let first = world.stats()["journal"].clone();
    assert!(first["records"].as_u64().unwrap() > 200 && first["dropped"] == 0, "{first}");
    // In the middle of the load.
    world.cli(&["submit", "-n1", "-t", "1m", "--simulate", "9s", "--copies", "400"]).ok();
    world.kill_scheduler();
    live_through(&world);
    world.until_done();
    world.assert_clean();
    let starts = world.jobs("inactive").len();
    world.cli(&["down"]).ok();

    let checked = cli(&["journal", "check", "--json", journal.to_str().unwrap()]).json();
    assert_eq!(checked["wrong"], json!([]), "{checked}");
    let done = replay(&journal, &[]);
    assert_eq!(
        (&done["verified"], &done["lives"], &done["gaps"]),
        (&json!(true), &json!(2), &json!([])),
        "{done}"
    );
    assert!(done["swaps"].as_u64().unwrap() >= 8 && done["breaches"].as_u64().unwrap() >= 2, "{done}");
    // Cancelled jobs never started; jobs in flight at the kill were not started again.
    assert!(done["starts"].as_u64().unwrap() as usize + 20 > starts, "{done} {starts}");
    assert!(done["passes"].as_u64().unwrap() > 100, "{done}");
    let text = cli(&["replay", "--journal", journal.to_str().unwrap()]).ok();
    assert!(text.contains("the same, to the byte"), "{text}");
    let lines = cli(&["journal", "show", "--json", journal.to_str().unwrap()]).ok();
    assert!(lines.lines().all(|line| line.starts_with('{')));
    assert!(lines.contains("\"kind\":\"down\"") && lines.contains("\"kind\":\"prioritize\""));

    // A missing component is named with its digest.
    let empty = dir.path().join("none");
    std::fs::create_dir(&empty).unwrap();
    let args = ["replay", "--journal", journal.to_str().unwrap(), "--policies", empty.to_str().unwrap()];
    cli(&args).fails(1, &["policy fcfs with the digest sha256:", "--policies"]);

    // Another policy, which is the use of a journal.
    let other = replay(&journal, &["--policy", "sjf", "--policy", "builtin-fcfs"]);
    for run in other["runs"].as_array().unwrap() {
        let (both, late, soon) = (&run["both"], &run["later_s"], &run["sooner_s"]);
        assert!(both.as_u64().unwrap() > 100, "{run}");
        assert!(late.as_array().unwrap().len() + soon.as_array().unwrap().len() > 10, "{run}");
        let used = run["figures"]["utilisation"].as_f64().unwrap();
        assert!(used > 0.0 && used <= 1.0, "{run}");
    }
    cli(&["replay", "--journal", journal.to_str().unwrap(), "--policy", "sjf"]).ok();

    // A flipped bit is reported with its place.
    let mut files: Vec<PathBuf> = std::fs::read_dir(&journal).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "journal"));
    files.sort();
    let mut bytes = std::fs::read(&files[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&files[0], bytes).unwrap();
    let name = files[0].file_name().unwrap().to_str().unwrap();
    cli(&["journal", "check", journal.to_str().unwrap()]).fails(1, &[name, "offset"]);
    cli(&["replay", "--journal", journal.to_str().unwrap()]).fails(1, &[name, "offset"]);
}

#[test]
fn settings_of_the_journal_are_checked_and_a_journal_that_cannot_be_had_is_no_reason_not_to_schedule() {
    let dir = folder();
    cli(&["up", "--journal", "/tmp/x", "--journal-size", "12Q"]).fails(1, &["journal-size", "12Q", "64M"]);
    cli(&["sched", "--uri", "local:///nosuch", "journal-size=5"]).fails(1, &["journal-size", "5"]);
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let world = up(&file, &[]);
    world.cli(&["submit", "-n1", "--simulate", "1s"]).ok();
    world.until("it has run", |world| world.jobs("inactive").len() == 1);
    assert!(world.stats()["journal"].is_null());
    assert!(world.log().contains("there will be no journal"), "{}", world.log());
    let journal = dir.path().join("j");
    cli(&["journal", "check", journal.to_str().unwrap()]).fails(1, &["j"]);
    cli(&["replay", "--journal", file.to_str().unwrap()]).fails(1, &["nothing in this span"]);
}
