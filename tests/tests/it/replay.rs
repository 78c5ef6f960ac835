//! Replays through the real binary: complete, valid, and with identical bytes in two runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fluxgate_tests::fixture::{cli, folder, shared};

/// Replays a log with a policy twice; the schedules must be equal byte for byte. Returns the metrics.
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

/// A log of 200 jobs for 8 cores, and one that is wider.
fn small_log(dir: &Path) -> String {
    let log = dir.join("l.swf");
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
    log.to_str().unwrap().to_owned()
}

#[test]
fn a_small_log_as_table_json_and_csv() {
    let dir = folder();
    let log = small_log(dir.path());
    let log = log.as_str();

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

/// The files of a folder by name.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|e| (e.file_name().to_string_lossy().into_owned(), std::fs::read(e.path()).unwrap()))
        .collect()
}

#[test]
fn a_report_is_the_same_on_one_thread_and_on_many_and_answers_why() {
    let dir = folder();
    let log = small_log(dir.path());
    let mut made = Vec::new();
    for threads in ["1", "4"] {
        let out = dir.path().join(threads);
        let mut args = vec!["replay", &log, "-q", "--threads", threads, "--report", out.to_str().unwrap()];
        for policy in ["fcfs", "easy", "hybrid:depth=2", "conservative"] {
            args.extend(["--policy", policy]);
        }
        let said = cli(&args).ok();
        assert!(said.contains("hybrid:depth=2"), "{said}");
        made.push(files(&out));
    }
    assert!(made[0] == made[1], "the number of threads changed the report");
    let names: Vec<&str> = made[0].keys().map(String::as_str).collect();
    for name in [
        "report.html",
        "report.json",
        "metrics.csv",
        "classes.csv",
        "curves.csv",
        "gantt.easy.svg",
        "gantt.easy.png",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let page = String::from_utf8_lossy(&made[0]["report.html"]).into_owned();
    assert!(page.contains("job 201") && page.contains("hybrid:depth=2"), "denied jobs are listed");

    let jobs = |policy: &str| dir.path().join("1").join(format!("jobs.{policy}.jsonl"));
    let (fcfs, easy) = (jobs("fcfs"), jobs("easy"));
    let pair = ["replay", "--diff", fcfs.to_str().unwrap(), easy.to_str().unwrap()];
    let view = cli(&[&pair[..], &["--json"]].concat()).json();
    assert_eq!(view["both"], 200);
    assert!(cli(&pair).ok().starts_with("200 jobs in both, of which "));
    let sooner = view["sooner_s"][0][0].to_string();
    let why = cli(&[&pair[..], &["--job", &sooner]].concat()).ok();
    assert!(why.contains("s later in") && why.contains("cores were in use"), "{why}");
    cli(&[&pair[..], &["--job", "201"]].concat()).fails(1, &["job 201 did not run in both"]);
    std::fs::write(&easy, "{}\n").unwrap();
    cli(&pair).fails(1, &["jobs.easy.jsonl", "line 1", "missing field"]);
}

#[test]
fn a_part_of_a_log_with_more_load_and_other_estimates() {
    let dir = folder();
    let log = small_log(dir.path());
    let run = |more: &[&str]| cli(&[&["replay", log.as_str(), "-q", "--json"][..], more].concat()).json();
    assert_eq!(run(&["--from", "100", "--until", "200"])["jobs"], 20);
    let wait = |said: &serde_json::Value| said["runs"][0]["metrics"]["wait_s"]["mean"].as_f64().unwrap();
    let usual = run(&[]);
    assert!(wait(&run(&["--load", "2"])) > wait(&usual));
    // The limits in the log are twice the run times, so exact estimates differ.
    assert_ne!(run(&["--estimates", "exact"])["runs"][0]["metrics"], usual["runs"][0]["metrics"]);
    let drawn = |seed| run(&["--estimates", "perturbed:4", "--seed", seed])["runs"][0]["metrics"].clone();
    assert_eq!(drawn("3"), drawn("3"));
    assert_ne!(drawn("3"), drawn("4"));
    cli(&["replay", &log, "--map", "procs=threads"]).fails(2, &["procs=cores|nodes"]);
    cli(&["replay", &log, "--from", "soon"]).fails(2, &["2002-08"]);
    cli(&["replay", &log, "--from", "1e9"]).fails(1, &["no jobs"]);
    assert!(cli(&["replay", "--definitions"]).ok().contains("Jain"));
}

#[test]
fn nothing_is_written_before_a_bad_line_is_found() {
    let dir = folder();
    let log = small_log(dir.path());
    let text = std::fs::read_to_string(&log).unwrap().replacen("\n50 ", "\n50 x ", 1);
    std::fs::write(&log, text).unwrap();
    let out = dir.path().join("out");
    let args = ["replay", &log, "-q", "--report", out.to_str().unwrap()];
    cli(&args).fails(1, &["line 52"]);
    assert!(!out.exists());
    cli(&[&args[..], &["--skip-bad"]].concat()).ok();
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains("1 bad lines skipped"));
}

#[test]
fn a_workload_is_made_looked_at_cut_converted_and_replayed() {
    let dir = folder();
    let make = |seed: &str| cli(&["workload", "make", "--jobs", "500", "--cores", "64", "--seed", seed]).ok();
    let text = make("1");
    assert_eq!(text, make("1"));
    assert_ne!(text, make("2"));
    let log = dir.path().join("made.swf");
    std::fs::write(&log, &text).unwrap();
    let log = log.to_str().unwrap();
    let info = cli(&["workload", "info", log, "--json"]).json();
    assert_eq!((&info["info"]["jobs"], &info["info"]["cores_of_machine"]), (&500.into(), &64.into()));
    assert!(cli(&["workload", "info", log]).ok().contains("offered_load"));

    let cut = cli(&["workload", "cut", log, "--limit", "100"]).ok();
    let part = dir.path().join("part.swf");
    std::fs::write(&part, &cut).unwrap();
    let jobs =
        |text: &str| text.lines().filter(|l| !l.starts_with(';')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(jobs(&cut), jobs(&text)[..100]);
    let csv = cli(&["workload", "convert", part.to_str().unwrap(), "--to", "csv"]).ok();
    assert_eq!(csv.lines().count(), 101);
    let lines = cli(&["workload", "convert", part.to_str().unwrap(), "--to", "jsonl"]).ok();
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["job"], 1);
    assert_eq!(cli(&["replay", log, "--policy", "conservative", "-q", "--json"]).json()["jobs"], 500);
    std::fs::write(&part, "oops\n").unwrap();
    cli(&["workload", "info", part.to_str().unwrap()]).fails(1, &["line 1"]);
    cli(&["workload", "make"]).fails(2, &["--jobs"]);
    let downey = cli(&["workload", "make", "--model", "downey97", "--jobs", "50", "--cores", "16"]).ok();
    assert!(
        downey.contains("downey97") && downey.lines().filter(|l| !l.starts_with(';')).count() == 50,
        "{downey}"
    );
}

/// The same jobs as another scheduler's accounting, as a list of Flux, and as our own table give the same schedule.
#[test]
fn logs_of_other_formats_are_recognised_and_replayed_alike() {
    let dir = folder();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let jobs = [(1, 0, 100, 3), (2, 10, 50, 2), (3, 20, 30, 2), (4, 30, 10, 1)];
    let table = |head: &str, line: &dyn Fn((u32, u32, u32, u32)) -> String| {
        std::iter::once(head.to_owned())
            .chain(jobs.iter().map(|job| line(*job)))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let machine = write("m.toml", "[[resource.config]]\nhosts = \"n[0-1]\"\ncores = \"0-1\"\n");
    let swf = table("; UnixStartTime: 0", &|(id, submit, run, cores)| {
        format!("{id} {submit} -1 {run} {cores} -1 -1 {cores} {run} -1 1 7 1 -1 {} -1 -1 -1", 1 + id % 2)
    });
    let sacct = table(
        "JobIDRaw|Submit|ElapsedRaw|AllocCPUS|TimelimitRaw|UID|State|Partition|Elapsed",
        &|(id, submit, run, cores)| format!("{id}|{submit}|{run}|{cores}||7|COMPLETED|p{}|", id % 2),
    );
    let flux = table("", &|(id, submit, run, cores)| {
        format!(
            "{{\"id\": {id}, \"t_submit\": {submit}.0, \"t_run\": 500.0, \"t_cleanup\": {}.0, \"ncores\": {cores}, \
             \"duration\": {run}.0, \"userid\": 7, \"result\": \"COMPLETED\"}}",
            500 + run
        )
    });
    let csv = table("job,user,submit,cores,limit_s,run_s", &|(id, submit, run, cores)| {
        format!("{id},7,{submit},{cores},{run},{run}")
    });
    let schedule = |log: &str, more: &[&str]| {
        let args = ["replay", log, "-q", "--policy", "easy", "--machine", &machine, "--schedule", "-"];
        cli(&[&args[..], more].concat()).ok()
    };
    let swf = write("log.swf", &swf);
    let expected = schedule(&swf, &[]);
    assert_eq!(expected.lines().count(), 5, "{expected}");
    let sacct = write("log.txt", &sacct);
    for log in [&sacct, &write("log.json", &flux), &write("log.csv", &csv)] {
        assert_eq!(schedule(log, &[]), expected, "{log}");
    }
    let converted = cli(&["workload", "convert", &sacct, "--to", "jsonl"]).ok();
    assert_eq!(schedule(&write("log.jsonl", &converted), &[]), expected);
    let converted = cli(&["workload", "convert", &sacct, "--to", "jobspecs"]).ok();
    assert_eq!(schedule(&write("log.jobspecs", &converted), &[]), expected);
    cli(&["workload", "info", &sacct, "--format", "swf"]).fails(1, &["log.txt: line 1", "18 numbers"]);
    // Queues of the log have passes of their own; the schedule is still valid.
    schedule(&sacct, &["--map", "procs=cores,queue=queue"]);
    let said = cli(&["replay", &swf, "-q", "--machine", &machine, "--map", "queue=queue", "--json"]).json();
    assert_eq!(said["jobs"], 4);
    // A processor that is a whole node of two cores: three of them exceed the machine.
    let said = cli(&["replay", &swf, "-q", "--machine", &machine, "--map", "procs=nodes", "--json"]).json();
    assert_eq!(said["runs"][0]["denied"].as_array().map(Vec::len), Some(1), "{said}");
    assert_eq!(said["runs"][0]["metrics"]["core_seconds"], 2.0 * 2.0 * 80.0 + 2.0 * 10.0, "{said}");
    cli(&["workload", "info", &swf, "--map", "procs=nodes"]).fails(2, &["procs=nodes"]);
    let uneven = write(
        "u.toml",
        "[[resource.config]]\nhosts = \"n0\"\ncores = \"0\"\n[[resource.config]]\nhosts = \"n1\"\ncores = \"0-1\"\n",
    );
    cli(&["replay", &swf, "-q", "--machine", &uneven, "--map", "procs=nodes"])
        .fails(1, &["nodes of 1 to 2 cores"]);
}

#[test]
fn nodes_fail_while_a_log_is_replayed() {
    let dir = folder();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let log = write("log.csv", "job,user,submit,cores,limit_s,run_s\n1,1,0,4,100,100\n2,1,10,4,5,5\n");
    let machine = write("m.toml", "[[resource.config]]\nhosts = \"n[0-1]\"\ncores = \"0-1\"\n");
    let outages = write("o.csv", "time,ranks,change\n40,1,fail\n60,1,return\n");
    let args = ["replay", &log, "-q", "--policy", "easy", "--machine", &machine];
    let said = cli(&[&args[..], &["--outages", &outages, "--json"]].concat()).json();
    let run = &said["runs"][0];
    assert_eq!((&run["ended_by_failures"], &run["checked"]), (&1.into(), &true.into()), "{said}");
    assert_eq!(run["metrics"]["last_end"], 65.0, "{said}");
    let bad = write("bad.csv", "time,ranks,change\n40,2,fail\n");
    cli(&[&args[..], &["--outages", &bad]].concat()).fails(1, &["bad.csv: line 2", "ranks of the machine"]);
    let never = write("never.csv", "time,ranks,change\n0,0,drain\n");
    let told = cli(&[&args[..], &["--outages", &never]].concat()).ok();
    assert!(told.contains("easy: 2 jobs never started"), "{told}");
    assert!(told.contains("easy: jobs 1, 2: insufficient resources: needs 4 cores"), "{told}");
}

/// A policy cannot deny: jobs that it keeps waiting for ever are listed with their reason, and the figures are of the
/// others.
#[test]
fn jobs_that_a_policy_never_starts_are_listed() {
    let dir = folder();
    let mut text = "; MaxProcs: 4\n; UnixStartTime: 0\n".to_owned();
    for id in 1..=80 {
        // Each seventh job is too wide for the budget.
        let cores = if id % 7 == 3 { 3 } else { 1 };
        text += &format!("{id} {} -1 50 {cores} -1 -1 {cores} 100 -1 1 1 1 -1 1 -1 -1 -1\n", 10 * id);
    }
    let log = dir.path().join("log.swf");
    std::fs::write(&log, text).unwrap();
    let args = ["replay", log.to_str().unwrap(), "-q", "--flow", "power=100W/core", "--policy"];
    let with = |policy: &str, more: &[&str]| cli(&[&args[..], &[policy], more].concat());
    let out = dir.path().join("out");
    let pool = ["--pool", "power=400W"];
    let report = [&pool[..], &["--json", "--report", out.to_str().unwrap()]].concat();
    let said = with("power-capped:budget=200", &report).json();
    let run = &said["runs"][0];
    let never = run["never_started"].as_array().unwrap();
    let why = "takes 300 W of power, the budget is never above 200";
    let expected: Vec<_> =
        (1..=80).filter(|id| id % 7 == 3).map(|id| serde_json::json!({"job": id, "reason": why})).collect();
    assert_eq!(*never, expected);
    let metrics = &run["metrics"];
    assert_eq!(
        (&metrics["jobs"], &metrics["never_started"], &metrics["denied"]),
        (&68.into(), &12.into(), &0.into())
    );
    assert_eq!((&run["violations"], &run["checked"]), (&serde_json::json!([]), &true.into()));
    // Jobs that wait for ever are in no figure.
    assert!(metrics["makespan_s"].as_f64().unwrap() < 2000.0, "{metrics}");
    let lost = metrics["loss_of_capacity"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&lost), "{lost}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("never started") && page.contains(why), "{page}");
    let table = with("power-capped:budget=200,peak-hours=08:00-09:00,peak-budget=100", &pool).ok();
    assert!(table.contains("12 jobs never started; the figures are of those that did"), "{table}");
    assert!(
        table.contains(&format!("jobs 3, 10, 17, 24, 31, 38, 45, 52, 59, 66 and 2 more: {why}")),
        "{table}"
    );
    // No job runs, whatever the number of jobs.
    let none = with("power-capped:budget=0", &[&pool[..], &["--json"]].concat()).json();
    let never = none["runs"][0]["never_started"].as_array().unwrap();
    assert_eq!((never.len(), &none["runs"][0]["metrics"]["jobs"]), (80, &0.into()));
    assert!(never.iter().all(|job| job["reason"].as_str().unwrap().contains("never above 0")), "{never:?}");
}

#[test]
fn expected_starts_are_held_against_those_that_came() {
    let dir = folder();
    let log = small_log(dir.path());
    let out = dir.path().join("out");
    let args = ["replay", &log, "--policy", "fcfs", "--policy", "easy", "--forecast=100", "-q", "--no-check"];
    let text = cli(&args).ok();
    assert!(text.contains("submission") && text.contains("MEAN_ABS_S"), "{text}");
    let told = cli(&[&args[..], &["--json", "--report", out.to_str().unwrap()]].concat()).json();
    for run in told["runs"].as_array().unwrap() {
        let found = &run["forecasts"];
        let all = found["errors"].as_array().unwrap().iter().find(|e| e["horizon"] == "all").unwrap();
        let jobs = found["at_once"].as_u64().unwrap()
            + found["untold"].as_u64().unwrap()
            + all["count"].as_u64().unwrap();
        assert_eq!(jobs, 200, "each job once");
        // All jobs use half of their limits, which the forecast soon learns.
        let (error, wait) = (all["abs_s"]["mean"].as_f64().unwrap(), all["mean_wait_s"].as_f64().unwrap());
        assert!(error < 0.25 * wait, "{error} of {wait}");
    }
    let without = cli(&["replay", &log, "--policy", "easy", "-q", "--json"]).json();
    assert_eq!(without["runs"][0]["metrics"], told["runs"][1]["metrics"], "a forecast changes nothing");
    let csv = std::fs::read_to_string(out.join("forecasts.csv")).unwrap();
    assert!(csv.lines().any(|line| line.starts_with("easy,submission,all,")), "{csv}");
    assert!(out.join("forecasts.svg").is_file());
}

#[test]
fn fair_starts_and_energy_are_told_when_asked_for() {
    let dir = folder();
    let log = small_log(dir.path());
    let args = [
        "replay",
        &log,
        "--policy",
        "fcfs",
        "--policy",
        "sjf",
        "-q",
        "--json",
        "--fair-start",
        "300",
        "--watts",
        "100:350",
    ];
    let told = cli(&args).json();
    let fair = |run: usize| told["runs"][run]["metrics"]["fair_start"].clone();
    // All 201 jobs except the one that can never run. Under FCFS a later job delays no earlier one.
    assert_eq!(fair(0)["samples"], 200);
    assert_eq!((&fair(0)["unfair_share"], &fair(0)["miss_s"]["max"]), (&0.0.into(), &0.0.into()));
    assert!(fair(1)["unfair_share"].as_f64().unwrap() > 0.1, "shorter jobs come first: {}", fair(1));
    assert_eq!(fair(1), cli(&args).json()["runs"][1]["metrics"]["fair_start"], "the same twice");
    for run in told["runs"].as_array().unwrap() {
        let metrics = &run["metrics"];
        let f = |name: &str| metrics[name].as_f64().unwrap();
        // The header's eight processors are eight nodes.
        let kwh = f("makespan_s") * 8.0 * (100.0 + 250.0 * f("utilisation")) / 3.6e6;
        assert!((f("energy_kwh") - kwh).abs() < 1e-9 * kwh, "{kwh} {metrics}");
    }
    let table = cli(&["replay", &log, "--fair-start=5", "-q"]).ok();
    assert!(table.contains("fair_start_miss_mean_s") && !table.contains("energy"), "{table}");
    cli(&["replay", &log, "--watts", "350:100"]).fails(2, &["--watts", "IDLE:BUSY"]);
}

/// Two queues on eight cores, all jobs at once: the cores that a ceiling and a floor leave to each.
#[test]
fn ceilings_and_floors_of_queues() {
    let dir = folder();
    let log = dir.path().join("l.swf");
    let mut text = "; MaxProcs: 8\n; UnixStartTime: 0\n".to_owned();
    for job in 1..=8 {
        text += &format!("{job} 0 -1 100 2 -1 -1 2 100 -1 1 1 1 -1 {} -1 -1 -1\n", 1 + job % 2);
    }
    std::fs::write(&log, text).unwrap();
    let log = log.to_str().unwrap();
    let starts = |more: &[&str]| -> Vec<(u64, f64)> {
        let args = ["replay", "-q", log, "--map", "queue=queue", "--schedule", "-"];
        let out = cli(&[&args[..], more].concat()).ok();
        let row = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields[0].parse().unwrap(), fields[2].parse().unwrap())
        };
        let mut rows: Vec<(u64, f64)> = out.lines().skip(1).map(row).collect();
        rows.sort_unstable_by_key(|(job, _)| *job);
        rows
    };
    let of = |rows: &[(u64, f64)], odd: u64| -> Vec<f64> {
        rows.iter().filter(|(job, _)| job % 2 == odd).map(|(_, start)| *start).collect()
    };
    // Even jobs are in q1, odd ones in q2, whose passes come first.
    let plain = starts(&[]);
    assert_eq!((of(&plain, 1), of(&plain, 0)), (vec![0.0; 4], vec![100.0; 4]));
    let ceiling = starts(&["--queue-ceiling", "q2=25%"]);
    assert_eq!(
        (of(&ceiling, 1), of(&ceiling, 0)),
        (vec![0.0, 100.0, 200.0, 300.0], vec![0.0, 0.0, 0.0, 100.0])
    );
    let floor = starts(&["--queue-floor", "q1=4"]);
    assert_eq!((of(&floor, 1), of(&floor, 0)), (vec![0.0, 0.0, 100.0, 100.0], vec![0.0, 0.0, 100.0, 100.0]));
    let none =
        cli(&["replay", "-q", log, "--map", "queue=queue", "--queue-ceiling", "q2=1", "--json"]).json();
    let denied = none["runs"][0]["denied"].as_array().unwrap();
    assert_eq!(denied.len(), 4);
    assert!(
        denied[0]["reason"].as_str().unwrap().contains("jobs of queue q2 hold at most 1 cores"),
        "{denied:?}"
    );
    let refused = |flag: &str, asked: &str, code: i32, words: &[&str]| {
        cli(&["replay", "-q", log, "--map", "queue=queue", flag, asked]).fails(code, words);
    };
    refused("--queue-floor", "q1", 2, &["expected QUEUE=AMOUNT"]);
    refused("--queue-floor", "q1=many", 2, &["--queue-floor q1=many", "8 nodes", "25%"]);
    refused("--queue-ceiling", "q9=4", 1, &["--queue-ceiling q9=4", "no job is in queue q9"]);
}

/// A log above the bound is read while its jobs run: all results are those of a log in memory.
#[test]
fn a_log_that_is_not_kept_gives_the_same() {
    let dir = folder();
    let log = small_log(dir.path());
    let plain = ["--load", "3", "--estimates", "perturbed:4", "--map", "queue=queue"];
    let flow = ["--pool", "power=500W", "--flow", "power=50-100W/core"];
    let run = |kept: &str, more: &[&str]| {
        let args = [more, &["--kept", kept]].concat();
        let (mut metrics, schedule) = twice(&log, "easy", &args);
        for name in ["seconds", "policy_seconds"] {
            metrics["runs"][0].as_object_mut().unwrap().remove(name);
        }
        (metrics, schedule)
    };
    assert!(run("200", &plain) == run("300", &plain));
    let with_flow = run("200", &flow);
    assert!(with_flow == run("300", &flow));
    assert!(with_flow.0["runs"][0]["flow"][0]["peak"].as_f64().unwrap() > 100.0, "{}", with_flow.0);
    // An error far down the file is reported before any output is written.
    let text = std::fs::read_to_string(&log).unwrap() + "and so on\n";
    std::fs::write(&log, text).unwrap();
    let out = dir.path().join("schedule.csv");
    let args = ["replay", &log, "--policy", "fcfs", "--kept", "5", "--schedule", out.to_str().unwrap()];
    cli(&args).fails(1, &["l.swf", "line 204"]);
    assert!(!out.exists());
}

/// A replay keeps the parts of a jobspec that other formats lack: gpus, whole nodes, constraints.
#[test]
fn a_stream_of_jobspecs_is_replayed_on_the_real_graph() {
    let dir = folder();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let machine = write(
        "m.toml",
        "[[resource.config]]\nhosts = \"n[0-2]\"\ncores = \"0-3\"\ngpus = \"0\"\n\
         [[resource.config]]\nhosts = \"n2\"\nproperties = [\"fast\"]\n",
    );
    let line = |submit: u32, resources: serde_json::Value, system: serde_json::Value| {
        let task = serde_json::json!({"command": ["x"], "slot": "t", "count": {"per_slot": 1}});
        let jobspec = serde_json::json!({
            "version": 9999, "resources": resources, "tasks": [task], "attributes": {"system": system},
        });
        serde_json::json!({"t_submit": submit, "runtime": 10, "userid": 5, "jobspec": jobspec}).to_string()
            + "\n"
    };
    let slot = |with: serde_json::Value| serde_json::json!([{"type": "slot", "count": 1, "label": "t", "with": with}]);
    let gpu = slot(serde_json::json!([{"type": "core", "count": 1}, {"type": "gpu", "count": 1}]));
    let node = serde_json::json!([{"type": "node", "count": 1, "exclusive": true,
        "with": slot(serde_json::json!([{"type": "core", "count": 1}]))}]);
    let limit = serde_json::json!({"duration": 20.0});
    let fast = serde_json::json!({"duration": 20.0, "constraints": {"properties": ["fast"]}});
    let log = line(0, gpu.clone(), fast.clone())
        + &line(0, gpu.clone(), limit.clone())
        + &line(0, gpu.clone(), limit.clone())
        + &line(1, gpu.clone(), limit.clone())
        + &line(2, node, fast)
        + &line(3, slot(serde_json::json!([{"type": "core", "count": 5}])), limit);
    let log = write("log.jobspecs", &log);
    let args = ["replay", &log, "-q", "--policy", "easy", "--machine", &machine];
    let schedule = cli(&[&args[..], &["--schedule", "-"]].concat()).ok();
    // One gpu each; the fourth job waits for one, the fifth for all of n2; the last fits on no node.
    assert_eq!(
        schedule,
        "job,submit,start,end,ranks\n1,0,0,10,2\n2,0,0,10,0\n3,0,0,10,1\n4,1,10,20,0\n5,2,10,20,2\n"
    );
    // The same result without all jobs in memory.
    assert_eq!(cli(&[&args[..], &["--kept", "2", "--schedule", "-"]].concat()).ok(), schedule);
    let said = cli(&[&args[..], &["--json"]].concat()).json();
    let run = &said["runs"][0];
    // The whole node counts with all its cores.
    assert_eq!((&run["metrics"]["core_seconds"], &run["violations"]), (&80.0.into(), &serde_json::json!([])));
    assert_eq!(run["denied"][0]["job"], 6);
    // With cores alone no job waits.
    let cores = cli(&[&args[..], &["--map", "ask=cores", "--schedule", "-"]].concat()).ok();
    assert!(cores.contains("4,1,1,11,"), "{cores}");
    let bad = write("bad.jobspecs", "{\"t_submit\": 1, \"jobspec\": {\"version\": 1}}\n");
    cli(&["replay", &bad, "--machine", &machine]).fails(1, &["bad.jobspecs", "line 1", "RFC 14"]);
    let bad = write("bad.jobspecs", "{\"jobspec\": 1, \"at\": 7}\n");
    cli(&["replay", &bad, "--machine", &machine]).fails(1, &["line 1", "unknown field", "t_submit"]);
    cli(&["replay", &log]).fails(1, &["name the machine"]);
}

#[test]
fn jobs_ask_for_flow_and_pools_are_kept() {
    let dir = folder();
    let log = small_log(dir.path());
    let log = log.as_str();
    // 500 W for 8 cores that take 50 to 100 W each: not all can be in use at once.
    let flow =
        ["--pool", "power=500W", "--flow", "power=50-100W/core", "--pool", "bandwidth=2GB/s", "--flow"];
    let flow = flow.into_iter().chain(["bandwidth=25%:500MB/s/core"]).collect::<Vec<_>>();
    let (said, _) = twice(log, "easy", &flow);
    let (free, _) = twice(log, "easy", &["--pool", "power=5kW", "--flow", "power=50-100W/core"]);
    let run = &said["runs"][0];
    let [power, bandwidth] = ["power", "bandwidth"].map(|kind| {
        let all = run["flow"].as_array().unwrap();
        all.iter().find(|usage| usage["kind"] == kind).unwrap().clone()
    });
    assert_eq!((power["capacity"].as_f64(), power["unit"].as_str()), (Some(500.0), Some("W")));
    let (peak, mean) = (power["peak"].as_f64().unwrap(), power["mean"].as_f64().unwrap());
    assert!(mean > 100.0 && mean < peak && peak <= 500.0, "{power}");
    assert!(bandwidth["peak"].as_f64().unwrap() <= 2.0, "{bandwidth}");
    assert!(free["runs"][0]["flow"][0]["peak"].as_f64().unwrap() > 0.5, "the cap is one");
    let denied = run["denied"].as_array().unwrap();
    let why = |word: &str| denied.iter().filter(|it| it["reason"].as_str().unwrap().contains(word)).count();
    assert!(why("power") > 0 && why("power") + why("bandwidth") + 1 >= denied.len(), "{denied:?}");
    // Another seed, another draw.
    let other: Vec<&str> = flow.iter().copied().chain(["--seed", "2"]).collect();
    assert_ne!(twice(log, "easy", &other).0["runs"][0]["flow"], run["flow"]);

    let out = dir.path().join("out");
    let mut args = vec!["replay", log, "-q", "--report", out.to_str().unwrap()];
    args.extend(&flow);
    let table = cli(&args).ok();
    assert!(table.contains("power_peak_W") && table.contains("bandwidth_mean_GB/s"), "{table}");
    let files = files(&out);
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    assert!(page.contains("power in use") && page.contains("share of 500 W"), "no curve of power");
    assert!(
        page.contains("25 % of the jobs ask for bandwidth: 500 MB/s for each core"),
        "no note of the rule"
    );
    assert!(files.contains_key("flow.power.svg"), "{:?}", files.keys());
    assert!(files["curves.csv"].starts_with(b"policy,from,to,cores_in_use,jobs_waiting,power_in_use,"));

    // A machine of a file, whole nodes, nested pools.
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/graphs/capped.json");
    let more = ["--machine", machine, "--map", "procs=nodes", "--flow", "power=700W/node", "--limit", "100"];
    let (said, _) = twice(log, "easy", &more);
    assert_eq!(said["runs"][0]["flow"][0]["peak"], 4900.0, "seven nodes of 700 W below 5000 W");

    for (args, says) in [
        (vec!["--flow", "power=3/core"], "no power flows in this machine; what flows is nothing"),
        (vec!["--flow", "power"], "accepted is KIND=[SHARE%:]N[-M][UNIT]/node|core"),
        (vec!["--pool", "power=9W", "--flow", "power=3W/node"], "say /core, or --map procs=nodes"),
        (vec!["--pool", "power=9W", "--flow", "power=3GB/s/core"], "power is counted in W, found GB/s"),
        (vec!["--pool", "core=9"], "core is no name for what flows"),
        (vec!["--pool", "power=9W", "--machine", machine], "cannot be used with"),
    ] {
        let all: Vec<&str> = ["replay", log, "-q"].into_iter().chain(args.iter().copied()).collect();
        let failed = cli(&all);
        assert!(failed.code != 0 && failed.err.contains(says), "{args:?}: {says}: {failed:?}");
    }
}

/// Memory of a log's jobs, on a machine with memory: a job that fits by cores waits for memory.
#[test]
fn memory_of_a_log_is_asked_for_when_wanted() {
    let dir = folder();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |parent: Option<&str>, id: &str, more: serde_json::Value| {
        nodes.push(serde_json::json!({"id": id, "metadata": more}));
        edges.extend(parent.map(
            |parent| serde_json::json!({"source": parent, "target": id, "metadata": {"subsystem": "containment"}}),
        ));
    };
    add(None, "c", serde_json::json!({"type": "cluster", "id": 0}));
    for rank in 0..2 {
        let node = format!("n{rank}");
        add(Some("c"), &node, serde_json::json!({"type": "node", "id": rank, "rank": rank, "name": node}));
        for core in 0..4 {
            let id = format!("{node}c{core}");
            add(Some(&node), &id, serde_json::json!({"type": "core", "id": core, "rank": rank}));
        }
        let memory = serde_json::json!({"type": "memory", "id": 0, "rank": rank, "size": 8, "unit": "GB"});
        add(Some(&node), &format!("{node}m"), memory);
    }
    let machine = serde_json::json!({"graph": {"nodes": nodes, "edges": edges}}).to_string();
    let machine = write("m.json", &machine);
    // Two processors each; field 7 says 1 GB, field 10 says 3 GB (for each processor).
    let line = |id: u32| format!("{id} 0 -1 10 2 -1 1000000 2 10 3000000 1 1 1 1 1 1 -1 -1\n");
    let log = write("log.swf", &(1..=3).map(line).collect::<String>());
    let starts = |memory: &str| -> Vec<String> {
        let map = format!("memory={memory}");
        let args = [
            "replay",
            &log,
            "-q",
            "--policy",
            "fcfs",
            "--machine",
            &machine,
            "--map",
            &map,
            "--schedule",
            "-",
        ];
        let table = cli(&args).ok();
        table.lines().skip(1).map(|row| row.split(',').nth(2).unwrap().to_owned()).collect()
    };
    assert_eq!(starts("none"), ["0", "0", "0"]);
    assert_eq!(starts("used"), ["0", "0", "0"]);
    // 6 GB for a job's two slots: one job on a node.
    assert_eq!(starts("requested"), ["0", "0", "10"]);
    let args = ["replay", &log, "--machine", &machine, "--map", "memory=much"];
    cli(&args).fails(2, &["memory=much", "memory=requested|used|none"]);
}

/// FEAT-28: a real log with a weekly window of six hours: idle cores before it, jobs put off, and the figures of the run without.
#[test]
fn feat_28_kth_sp2_with_a_weekly_window() {
    let Some(log) = shared("data/swf/KTH-SP2-1996-2.1-cln.swf.gz") else { return };
    let dir = folder();
    let file = dir.path().join("weekly.json");
    let weekly = serde_json::json!({"version": 1, "reservations": [
        {"name": "weekly", "kind": "maintenance", "start": "+60h", "duration": "6h", "ranks": "0-99", "every": "168h", "times": 60}
    ]});
    std::fs::write(&file, weekly.to_string()).unwrap();
    let log = log.to_str().unwrap();
    let (without, _) = twice(log, "easy", &[]);
    let (with, _) = twice(log, "easy", &["--reservations", file.to_str().unwrap()]);
    assert!(without["runs"][0].get("reservations").is_none());
    let cost = &with["runs"][0]["reservations"];
    let told = |value: &serde_json::Value| format!("{:.1}", value.as_f64().unwrap());
    let row = &cost["reservations"][0];
    let figures = [
        told(&without["runs"][0]["metrics"]["wait_s"]["mean"]),
        told(&with["runs"][0]["metrics"]["wait_s"]["mean"]),
        told(&row["core_hours"]),
        told(&row["idle_core_hours"]),
        told(&cost["put_off_job_hours"]),
    ];
    assert_eq!((row["times"].as_u64(), cost["put_off_most"].as_u64()), (Some(48), Some(7)));
    assert_eq!(figures, ["6351.5", "8982.5", "100207.4", "37654.3", "2587.4"]);
}
