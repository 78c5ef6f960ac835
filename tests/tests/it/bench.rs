//! `fluxgate bench` and `replay --semantics` through the real binary: logs found by hash, verdicts, the same bytes twice
//! (RES-2, RES-7, RES-8, RES-51 to RES-56).

use std::path::Path;

use fluxgate_testing::{Need, skipped};
use fluxgate_tests::fixture::{cli, folder};
use serde_json::Value;

/// Eight cores; at 10 the first job ends and two come, the longer one first.
const LOG: &str = "; MaxProcs: 8
1 0 0 10 8 -1 -1 8 10 -1 1 1 1 -1 1 -1 -1 -1
2 10 0 20 8 -1 -1 8 20 -1 1 1 1 -1 1 -1 -1 -1
3 10 20 5 8 -1 -1 8 5 -1 1 1 1 -1 1 -1 -1 -1
";

fn suite(dir: &Path, sha256: &str, value: &str, because: &str) -> String {
    let path = dir.join("suite.toml");
    let text = format!(
        "name = \"mine\"\nversion = 1\ntitle = \"A title\"\nsource = \"A paper\"\n\
         [[log]]\nname = \"l\"\nsha256 = \"{sha256}\"\npublished = \"a public place\"\n\
         [[log]]\nname = \"none\"\nsha256 = \"{}\"\npublished = \"another place\"\n\
         [[task]]\nname = \"one\"\nlog = \"l\"\nsemantics = \"pyss\"\n\
         [[task.entry]]\nname = \"SJF\"\npolicy = \"sjf\"\nschedule = \"l\"\n\
         published = [{{ metric = \"wait_mean_s\", value = \"{value}\"{because} }}]\n\
         [[task]]\nname = \"two\"\nlog = \"none\"\n\
         [[task.entry]]\nname = \"EASY\"\npolicy = \"easy\"\n",
        "0".repeat(64)
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn res_51_logs_are_found_by_hash_and_missing_ones_named() {
    let (dir, logs) = (folder(), folder());
    let log = logs.path().join("any name at all");
    std::fs::write(&log, LOG).unwrap();
    let listed = std::process::Command::new("sha256sum").arg(&log).output().unwrap();
    let sha256 = String::from_utf8(listed.stdout).unwrap()[..64].to_owned();
    let logs = logs.path().to_str().unwrap();
    let out = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();

    // A pass after each submission starts job 2, as the waits in the log say; with shortest job first it would be job 3.
    let file = suite(dir.path(), &sha256, "6.67", "");
    let (one, two) = (out("one.json"), out("two.json"));
    let table = cli(&["bench", "run", &file, "--logs", logs, "--quiet", "--out", &one]).ok();
    assert!(table.contains("exact") && table.contains("another place"), "{table}");
    assert!(!table.contains(logs), "no path of this machine: {table}");
    cli(&["bench", "run", &file, "--logs", logs, "--quiet", "--out", &two, "--threads", "1"]).ok();
    let bytes = std::fs::read(&one).unwrap();
    assert!(bytes == std::fs::read(&two).unwrap(), "two runs give the same bytes");
    let results: Value = serde_json::from_slice(&bytes).unwrap();
    let entry = &results["tasks"][0]["entries"][0];
    assert_eq!(entry["starts"], serde_json::json!([3, 3]), "{results}");
    assert!(entry["digest"].as_str().unwrap().starts_with("sha256:"));
    let missing = results["tasks"][1]["missing"][0].as_str().unwrap();
    assert!(missing.contains(&"0".repeat(64)) && missing.contains("another place"), "{missing}");

    // RES-55, RES-56: pages, and the results once more.
    let page = cli(&["bench", "table", &one, "--format", "html"]).ok();
    assert!(page.starts_with("<!doctype html>") && page.contains("<td>SJF<td>wait_mean_s"), "{page}");
    let same = cli(&["bench", "verify", &one, "--suite", &file, "--logs", logs, "--quiet"]);
    same.fails(1, &["two: no file with sha256 0000"]);
    let only = out("only.json");
    cli(&["bench", "run", &file, "--task", "one", "--logs", logs, "--quiet", "--out", &only]).ok();
    let same = cli(&["bench", "verify", &only, "--suite", &file, "--logs", logs, "--quiet", "--json"]).json();
    assert_eq!(same["same"], 1);
    let changed = String::from_utf8(std::fs::read(&only).unwrap()).unwrap().replace("6.66", "6.65");
    std::fs::write(&only, changed).unwrap();
    cli(&["bench", "verify", &only, "--suite", &file, "--logs", logs, "--quiet"])
        .fails(1, &["one: SJF: other values"]);

    // RES-52: a difference without a reason ends the command with 1; a reason stands in the table.
    let file = suite(dir.path(), &sha256, "6.68", "");
    cli(&["bench", "run", &file, "--task", "one", "--logs", logs, "--quiet"])
        .fails(1, &["differs from what was published, without a known reason: one: SJF"]);
    let file = suite(dir.path(), &sha256, "6.68", ", because = \"of rounding\"");
    let told = cli(&["bench", "run", &file, "--task", "one", "--logs", logs, "--quiet"]).ok();
    assert!(told.contains("differs because of rounding"), "{told}");

    let list = cli(&["bench", "list", &file, "--logs", logs]).ok();
    assert!(list.contains("a public place") && list.contains("pyss"), "{list}");
    cli(&["bench", "run", "unknown"])
        .fails(1, &["own-whole", "sc15-exact, sc15-starts, sc20-hpc2n, sc20-heuristics, sc20-network"]);
    cli(&["bench", "run", &file, "--task", "three"]).fails(1, &["tasks are one, two"]);
    cli(&["bench", "list", "--logs", "/nowhere"]).fails(1, &["no such folder"]);
}

#[test]
fn res_2_semantics_of_a_replay_are_told() {
    let dir = folder();
    let log = dir.path().join("l.swf");
    std::fs::write(&log, LOG).unwrap();
    let log = log.to_str().unwrap();
    let run = |more: &[&str]| {
        let args = [&["replay", log, "--policy", "sjf", "--json", "--quiet"][..], more].concat();
        let said = cli(&args).json();
        (said["runs"][0]["metrics"]["wait_s"]["max"].as_f64().unwrap(), said)
    };
    // Job 2 waits for job 3, or job 3 for job 2.
    assert_eq!(run(&[]).0, 5.0);
    let (wait, said) = run(&["--semantics", "pyss"]);
    assert_eq!((wait, &said["semantics"], &said["rules"]["pass"]), (20.0, &"pyss".into(), &"event".into()));
    assert_eq!(run(&["--rules", "pass=event"]).0, 20.0, "a pass after each submission");
    assert_eq!(run(&["--semantics", "pyss", "--rules", "pass=instant"]).0, 5.0);
    let report = dir.path().join("report");
    let args = [
        "replay",
        log,
        "--policy",
        "sjf",
        "--semantics",
        "rlscheduler",
        "--report",
        report.to_str().unwrap(),
    ];
    let said = cli(&args);
    said.ok();
    let page = std::fs::read_to_string(report.join("report.html")).unwrap();
    assert!(page.contains("semantics rlscheduler: pass=event first=submissions"), "{page}");
    cli(&["replay", log, "--semantics", "alea"]).fails(2, &["accepted is fluxgate, pyss, rlscheduler, sc17"]);
    cli(&["replay", log, "--rules", "commit=maybe"]).fails(2, &["found `commit=maybe`", "commit=no|yes"]);
    cli(&["replay", log, "--semantics", "rlscheduler", "--policy", "easy"])
        .fails(1, &["policy easy: found a policy that makes passes and gives no order"]);
}

/// RES-5, RES-3: a policy from an expression, and an expression that is none.
#[test]
fn res_5_a_policy_from_an_expression() {
    let dir = folder();
    let log = dir.path().join("l.swf");
    std::fs::write(&log, LOG).unwrap();
    let log = log.to_str().unwrap();
    let run = |policy: &str| {
        let said = cli(&["replay", log, "--policy", policy, "--json", "--quiet"]).json();
        said["runs"][0]["metrics"]["wait_s"]["max"].as_f64().unwrap()
    };
    assert_eq!(run("formula:score=duration"), 5.0);
    assert_eq!(run("formula:score=max(0-duration,0-100),depth=0"), 20.0);
    assert_eq!(run("formula:score=f4"), 5.0);
    cli(&["replay", log, "--policy", "formula:score=cores *"])
        .fails(1, &["column 8: found the end, accepted is a number, a variable, a function"]);
}

/// The tasks of a shipped suite whose logs are in the folders of $FLUXGATE_LOGS: everything there is as published.
fn as_published(suite: &str, task: &str) {
    if std::env::var_os("FLUXGATE_LOGS").is_none() {
        return skipped(Need::Logs, format_args!("no folder of logs in $FLUXGATE_LOGS for bench {suite}"));
    }
    let said = cli(&["bench", "run", suite, "--task", task, "--json", "--quiet"]).json();
    for task in said["tasks"].as_array().unwrap() {
        if let Some(missing) = task["missing"][0].as_str() {
            skipped(Need::Logs, format_args!("bench {suite}: {missing}"));
        }
        for entry in task["entries"].as_array().unwrap() {
            for value in entry["values"].as_array().unwrap() {
                assert_eq!(value["verdict"], "exact", "{task}");
            }
        }
    }
}

#[test]
fn res_6_easy_with_exact_estimates_of_sc15() {
    as_published("sc15-exact", "KTH-SP2");
}

#[test]
fn res_7_heuristics_of_sc20() {
    as_published("sc20-heuristics", "lublin-1");
}

#[test]
fn res_8_starts_of_sc15() {
    as_published("sc15-starts", "KTH-SP2");
}

#[test]
fn a_bad_line_names_the_flag_that_skips_it() {
    let dir = folder();
    let log = dir.path().join("l.swf");
    std::fs::write(&log, LOG.replace("2 10 0", "2 ten 0")).unwrap();
    let log = log.to_str().unwrap();
    for command in [&["replay", log, "--policy", "sjf"][..], &["workload", "info", log]] {
        cli(command).fails(1, &["line 3", "--skip-bad skips such lines"]);
    }
    cli(&["replay", log, "--policy", "sjf", "--skip-bad", "--quiet"]).ok();
}

/// The machine is named in words, and the first jobs are in no figure.
#[test]
fn res_10_11_a_machine_in_words_and_jobs_that_warm_up() {
    let dir = folder();
    let log = dir.path().join("l.swf");
    std::fs::write(&log, LOG.replace("; MaxProcs: 8\n", "")).unwrap();
    let log = log.to_str().unwrap();
    cli(&["replay", log, "--policy", "sjf"]).fails(1, &["256 (single cores), 128x8", "a file with R"]);
    cli(&["replay", log, "--policy", "sjf", "--machine", "8x0"])
        .fails(1, &["machine `8x0`: accepted is CORES"]);
    let run = |more: &[&str]| {
        let args =
            [&["replay", log, "--policy", "sjf", "--json", "--quiet", "--machine", "4x2"][..], more].concat();
        let said = cli(&args).json();
        let metrics = &said["runs"][0]["metrics"];
        [&metrics["jobs"], &metrics["cores"], &metrics["wait_s"]["mean"]].map(|value| value.as_f64().unwrap())
    };
    assert_eq!(run(&[]), [3.0, 8.0, 5.0 / 3.0]);
    assert_eq!(run(&["--uncounted", "1"]), [2.0, 8.0, 2.5]);
    assert_eq!(run(&["--uncounted-until", "10"]), [2.0, 8.0, 2.5]);
    let said = cli(&["replay", log, "--policy", "sjf", "--machine", "8", "--uncounted", "1"]);
    assert!(said.err.contains("the first 1 jobs are in no figure"), "{said:?}");
    cli(&["replay", log, "--policy", "sjf", "--machine", "8", "--uncounted", "3"])
        .fails(1, &["--uncounted 3: found 3 jobs"]);
}
