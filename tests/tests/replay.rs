//! Replays through the real binary: complete, valid, and the same bytes twice.

use std::path::PathBuf;

use fluxgate_tests::fixture::{cli, folder, shared};

/// Replay a log with a policy twice; the schedules must be equal to the byte. Returns the metrics.
fn twice(log: &str, policy: &str, more: &[&str]) -> (serde_json::Value, Vec<u8>) {
    let dir = folder();
    let mut schedules = Vec::new();
    let mut metrics = serde_json::Value::Null;
    for round in ["a", "b"] {
        let file: PathBuf = dir.path().join(round);
        let mut args = vec![
            "replay",
            log,
            "--policy",
            policy,
            "--quiet",
            "--json",
            "--schedule",
            file.to_str().unwrap(),
        ];
        args.extend(more);
        metrics = cli(&args).json();
        assert_eq!(
            metrics["runs"][0]["violations"].as_array().unwrap().len(),
            0,
            "the sweep found something"
        );
        schedules.push(std::fs::read(&file).unwrap());
    }
    assert!(schedules[0] == schedules[1], "{log} with {policy}: two runs differ");
    (metrics, schedules.swap_remove(0))
}

#[test]
fn a_small_log_as_table_json_and_csv() {
    let dir = folder();
    let log = dir.path().join("l.swf");
    let mut text = "; MaxProcs: 8\n; UnixStartTime: 0\n".to_owned();
    for i in 0..200u32 {
        let (run, cores) = (1 + i * 7919 % 100, 1 + i * 31 % 8);
        text += &format!(
            "{} {} -1 {run} {cores} -1 -1 {cores} {} -1 1 1 1 -1 1 -1 -1 -1\n",
            i + 1,
            i * 5,
            run * 2
        );
    }
    // Wider than the machine: listed, not dropped.
    text += "201 1000 -1 10 9 -1 -1 9 20 -1 1 1 1 -1 1 -1 -1 -1\n";
    std::fs::write(&log, text).unwrap();
    let log = log.to_str().unwrap();

    let (said, schedule) = twice(log, "easy", &[]);
    assert_eq!(said["runs"][0]["metrics"]["jobs"], 200);
    assert_eq!(said["runs"][0]["denied"][0]["job"], 201);
    let schedule = String::from_utf8(schedule).unwrap();
    assert!(schedule.starts_with("job,submit,start,end,ranks\n"), "{schedule}");
    assert_eq!(schedule.lines().count(), 201);

    let table = cli(&["replay", log, "--policy", "fcfs", "--policy", "easy", "--policy", "sjf", "-q"]).ok();
    for word in
        ["bounded_slowdown_10_mean", "bounded_slowdown_60_mean", "utilisation", "job 201 can never run"]
    {
        assert!(table.contains(word), "{word}: {table}");
    }
    let csv = cli(&["replay", log, "--policy", "fcfs", "--policy", "easy", "-q", "--csv", "-"]).ok();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let easy: f64 = said["runs"][0]["metrics"]["wait_s"]["mean"].as_f64().unwrap();
    let fcfs = cli(&["replay", log, "--policy", "fcfs", "--json", "-q"]).json();
    assert!(easy < fcfs["runs"][0]["metrics"]["wait_s"]["mean"].as_f64().unwrap(), "backfilling helps here");
}

#[test]
fn the_first_jobs_of_real_logs() {
    for log in ["KTH-SP2-1996-2.1-cln", "HPC2N-2002-2.1-cln", "SDSC-BLUE-2000-4.2-cln"] {
        let Some(log) = shared(&format!("data/swf/{log}.swf.gz")) else { return };
        for policy in ["fcfs", "easy"] {
            let (said, _) = twice(log.to_str().unwrap(), policy, &["--limit", "3000"]);
            assert_eq!(said["jobs"], 3000);
        }
    }
}

#[test]
fn whole_logs_complete_conserve_jobs_and_repeat() {
    for (log, jobs) in [("KTH-SP2-1996-2.1-cln", 27_000), ("HPC2N-2002-2.1-cln", 200_000)] {
        let Some(log) = shared(&format!("data/swf/{log}.swf.gz")) else { return };
        for policy in ["fcfs", "easy"] {
            let (said, _) = twice(log.to_str().unwrap(), policy, &[]);
            assert!(said["jobs"].as_u64().unwrap() > jobs, "{said}");
        }
    }
}
