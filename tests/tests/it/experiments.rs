//! `fluxgate sweep`: every combination has a row, and a sweep that was killed goes on (RES-33).

use std::path::Path;

use fluxgate_tests::fixture::{cli, folder, policies};
use fluxgate_tests::networks::learned;

const TEXT: &str = "policies = [\"hybrid\", \"fcfs\"]\nseeds = [1, 2]\n[[part]]\nname = \"made\"\nmodel = \"lublin99\"\n\
     count = 200\ncores = 32\nload = 2.0\n[[part]]\nname = \"log\"\nlog = \"a.swf\"\njobs = \"1+6\"\n";

/// A sweep in a folder, with a log beside it.
fn sweep(dir: &Path, text: &str) -> String {
    let log: String =
        (1..=9).map(|id| format!("{id} {id} 0 {id}0 4 -1 -1 4 {id}0 -1 1 1 1 -1 1 -1 -1 -1\n")).collect();
    std::fs::write(dir.join("a.swf"), format!("; MaxProcs: 8\n{log}")).unwrap();
    let path = dir.join("sweep.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn res_33_a_sweep_that_was_killed_goes_on() {
    let dir = folder();
    let file = sweep(dir.path(), TEXT);
    let lines = dir.path().join("sweep.jsonl");
    let rows = cli(&["sweep", &file, "--json", "--quiet", "--threads", "1"]).json();
    let rows = rows.as_array().unwrap();
    let named: Vec<String> =
        rows.iter().map(|row| format!("{} {} {}", row["policy"], row["part"], row["seed"])).collect();
    assert_eq!(rows.len(), 8);
    assert_eq!(named[..3], ["\"hybrid\" \"made\" 1", "\"hybrid\" \"made\" 2", "\"hybrid\" \"log\" 1"]);
    assert_ne!(rows[0]["wait_mean_s"], rows[1]["wait_mean_s"], "a seed is another workload");
    assert_eq!(rows[2]["wait_mean_s"], rows[3]["wait_mean_s"], "but not another part of a log");
    // The same as a replay of the command line.
    let log = dir.path().join("a.swf");
    let replay = ["replay", log.to_str().unwrap(), "--policy", "fcfs", "--jobs", "1+6", "--json", "--quiet"];
    let said = cli(&replay).json();
    assert_eq!(rows[7]["wait_mean_s"], said["runs"][0]["metrics"]["wait_s"]["mean"], "{said}");

    // Killed when three results were there, and in the middle of the fourth.
    let whole = std::fs::read_to_string(&lines).unwrap();
    let kept: Vec<&str> = whole.lines().take(3).collect();
    // A result that is taken is not computed again: this one is marked.
    let marked = kept.join("\n").replacen("\"wait_mean_s\":", "\"wait_mean_s\":77777.0,\"was\":", 1);
    std::fs::write(&lines, format!("{marked}\n{}", &whole[..50])).unwrap();
    let table = cli(&["sweep", &file, "--quiet", "--threads", "2", "--metric", "wait_mean_s"]).ok();
    assert_eq!(table.lines().count(), 9, "{table}");
    assert_eq!(table.matches("77777").count(), 1, "{table}");
    assert_eq!(std::fs::read_to_string(&lines).unwrap().lines().count(), 8);
    let csv = cli(&["sweep", &file, "--quiet", "--csv", "-"]).ok();
    assert!(csv.starts_with("policy,part,seed,") && csv.lines().count() == 9, "{csv}");
}

#[test]
fn res_33_results_of_other_components_jobs_and_settings_are_not_taken() {
    let dir = folder();
    let own = dir.path().join("policies");
    std::fs::create_dir(&own).unwrap();
    let easy = std::fs::read(policies().join("easy.wasm")).unwrap();
    std::fs::write(own.join("mine.wasm"), &easy).unwrap();
    let text = "policies = [\"mine\"]\n[[part]]\nname = \"log\"\nlog = \"a.swf\"\n";
    let out = dir.path().join("r.jsonl");
    let run = |text: &str| {
        let file = sweep(dir.path(), text);
        let args = [
            "sweep",
            &file,
            "--quiet",
            "--out",
            out.to_str().unwrap(),
            "--policies",
            own.to_str().unwrap(),
            "--json",
        ];
        let rows = cli(&args).json();
        (rows.as_array().unwrap().len(), std::fs::read_to_string(&out).unwrap().lines().count())
    };
    assert_eq!(run(text), (1, 1));
    assert_eq!(run(text), (1, 1), "nothing is computed again");
    assert_eq!(
        run(&text.replace("log = \"a.swf\"", "log = \"a.swf\"\njobs = \"0+5\"")),
        (1, 2),
        "other jobs"
    );
    assert_eq!(run(&format!("machine = \"16\"\n{text}")), (1, 3), "another machine");
    assert_eq!(run(&format!("rules = \"wakes=no\"\n{text}")), (1, 4), "another rule");
    std::fs::write(own.join("mine.wasm"), learned(&easy, b"something")).unwrap();
    assert_eq!(run(text), (1, 5), "another component");
}

#[test]
fn res_33_what_is_wrong_with_a_sweep_is_told_before_it_runs() {
    let dir = folder();
    let run = |from: &str, to: &str| cli(&["sweep", &sweep(dir.path(), &TEXT.replace(from, to)), "--quiet"]);
    run("fcfs", "nobody").fails(1, &["sweep.toml", "no policy \"nobody\""]);
    run("seeds = [1, 2]\n", "seeds = [1, 2]\n[space]\ndepht = [1]\n")
        .fails(1, &["hybrid depht=1 on made, seed 1", "depht"]);
    run("a.swf", "b.swf").fails(1, &["part log", "b.swf"]);
    run("1+6", "8+6").fails(1, &["part log: found 8+6, accepted are sequences within the 9 jobs"]);
    run("lublin99", "alea").fails(1, &["part made: model: found `alea`"]);
    assert!(!dir.path().join("sweep.jsonl").exists(), "and nothing is written");
    cli(&["sweep", &sweep(dir.path(), TEXT), "--metric", "beauty"])
        .fails(2, &["--metric beauty: accepted is jobs"]);
    std::fs::write(dir.path().join("sweep.jsonl"), "{}\n").unwrap();
    run("", "").fails(1, &["sweep.jsonl: line 1: not a result of a sweep"]);
}
