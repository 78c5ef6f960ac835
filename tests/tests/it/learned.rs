//! The learned state of a policy survives its scheduler, for all queues and for one, and is repeated from the
//! journal.

use std::os::unix::fs::PermissionsExt;

use fluxgate_tests::fixture::cli;
use fluxgate_tests::site::Site;
use serde_json::{Value, json};

/// A job that uses up its user's fair share, to its end.
fn used(site: &Site, queue: &str) {
    let starts = |stats: &Value| stats["engine"]["starts"].as_u64().unwrap();
    let before = starts(&site.world.stats());
    site.cli(&["submit", "--queue", queue, "-n4", "-t", "1h", "--simulate", "60s"]).ok();
    site.world.until("it has ended", |world| {
        let stats = world.stats();
        starts(&stats) > before && stats["running"] == 0
    });
}

fn learned(site: &Site) -> Vec<(Value, Value)> {
    let stats = site.world.stats();
    let rows = stats["learned"].as_array().unwrap();
    rows.iter().map(|row| (row["queue"].clone(), row["policy"].clone())).collect()
}

#[test]
fn what_a_policy_has_learned_outlives_its_scheduler() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, journal) = (dir.path().join("learned"), dir.path().join("journal"));
    let table = format!(
        "[queues.batch]\n[queues.debug]\n[sched-fluxgate]\npolicy = \"multifactor\"\npolicy-state = {folder:?}\n\
         journal = {journal:?}\n[sched-fluxgate.queues.debug]\npolicy = \"multifactor\"\n"
    );
    let mut site = Site::up(&table, &[]);
    assert_eq!(learned(&site), [], "there is nothing yet");
    used(&site, "batch");
    used(&site, "debug");
    site.restart(&[]);
    let both = [(Value::Null, json!("multifactor")), (json!("debug"), json!("multifactor"))];
    assert_eq!(learned(&site), both);
    let files = ["default.state", "queue-debug.state"].map(|name| folder.join(name));
    for file in &files {
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(
            std::fs::read_to_string(file).unwrap().starts_with("{\"format\":1,\"policy\":\"multifactor\"")
        );
    }
    let usage = |queue: Option<&str>| {
        let stats = site.world.stats();
        let rows = stats["learned"].as_array().unwrap().iter();
        rows.filter(|row| row["queue"].as_str() == queue)
            .map(|row| row["bytes"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert!(usage(None) > 0 && usage(Some("debug")) > 0);
    let taken = |log: &str| {
        log.lines().filter(|line| line.contains("policy swapped") && line.contains("state=true")).count()
    };
    // In the first run the queue's policy took the state of the default one.
    assert_eq!(taken(&site.log()), 1 + 2, "both took it over: {}", site.log());
    used(&site, "batch");

    // An unusable file is reported, and its policy starts cold.
    std::fs::write(&files[1], "nonsense").unwrap();
    // The stopping scheduler writes them once more.
    site.restart(&[]);
    assert_eq!(learned(&site), both);
    assert_eq!(taken(&site.log()), 1 + 4);
    site.stop();
    std::fs::write(&files[1], "nonsense").unwrap();
    site.start(&[]);
    assert_eq!(learned(&site), both[..1]);
    assert_eq!(taken(&site.log()), 1 + 6, "the queue's policy inherits again");
    let said = site.log();
    let line =
        said.lines().find(|line| line.contains("queue-debug.state: its policy begins without")).unwrap();
    assert!(line.contains("its first line is not that of a state"), "{line}");
    site.world.assert_clean();
    drop(site);

    let done = cli(&["replay", "--json", "--journal", journal.to_str().unwrap()]).json();
    assert_eq!((&done["verified"], &done["gaps"]), (&json!(true), &json!([])), "{done}");
    let lines = cli(&["journal", "show", journal.to_str().unwrap()]).ok();
    assert!(lines.contains("bytes of multifactor, version"), "{lines}");
}
