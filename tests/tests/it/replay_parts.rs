//! Parts of a log, running jobs at its begin, and passes in words, through the real binary.

use std::path::Path;

use fluxgate_tests::fixture::{cli, folder};
use serde_json::Value;

/// A log of 200 jobs for 8 cores.
fn log(dir: &Path) -> String {
    let mut text = "; MaxProcs: 8\n; UnixStartTime: 0\n".to_owned();
    for i in 0..200u32 {
        let (run, cores) = (1 + i * 7919 % 100, 1 + i * 31 % 8);
        let (id, submit, limit) = (i + 1, i * 5, run * 2);
        text += &format!("{id} {submit} -1 {run} {cores} -1 -1 {cores} {limit} -1 1 1 1 -1 1 -1 -1 -1\n");
    }
    write(dir, "l.swf", &text)
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn res_12_each_sequence_is_a_run_of_its_own() {
    let dir = folder();
    let log = log(dir.path());
    let schedule = dir.path().join("s.csv");
    let policies = ["--policy", "easy", "--policy", "fcfs"];
    let mut args = vec!["replay", &log, "-q", "--json", "--jobs", "0+50,100+40"];
    args.extend(policies);
    args.extend(["--schedule", schedule.to_str().unwrap()]);
    let said = cli(&args).json();
    let told: Vec<(&str, &str, u64)> = said["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            let text = |key: &str| run[key].as_str().unwrap();
            (text("policy"), text("part"), run["metrics"]["jobs"].as_u64().unwrap())
        })
        .collect();
    let expected =
        [("easy", "0+50", 50), ("easy", "100+40", 40), ("fcfs", "0+50", 50), ("fcfs", "100+40", 40)];
    assert_eq!(told, expected);

    // The first sequence is what --limit takes, and begins on an empty machine as the second does.
    let limited = cli(&["replay", &log, "-q", "--json", "--policy", "easy", "--limit", "50"]).json();
    assert_eq!(said["runs"][0]["metrics"], limited["runs"][0]["metrics"]);
    let alone = cli(&["replay", &log, "-q", "--json", "--policy", "easy", "--jobs", "100+40"]).json();
    assert_eq!(said["runs"][1]["metrics"], alone["runs"][0]["metrics"]);
    let lines = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap().lines().count();
    assert_eq!((lines("s.easy.0+50.csv"), lines("s.fcfs.100+40.csv")), (51, 41));

    // Over all: the mean of the two, each of which counts once.
    let mean = |run: &Value| run["metrics"]["wait_s"]["mean"].as_f64().unwrap();
    let waits: Vec<f64> = said["runs"].as_array().unwrap().iter().map(mean).collect();
    let over = &said["over_all"][1];
    assert_eq!((&over["policy"], &over["parts"]), (&"fcfs".into(), &2.into()));
    let wait =
        over["figures"].as_array().unwrap().iter().find(|figure| figure["figure"] == "wait_mean_s").unwrap();
    assert_eq!(wait["mean"].as_f64().unwrap(), (waits[2] + waits[3]) / 2.0);
    assert_eq!(wait["max"].as_f64().unwrap(), waits[2].max(waits[3]));

    let table = cli(&["replay", &log, "-q", "--policy", "easy", "--jobs", "0+50,100+40"]).ok();
    for word in ["MEAN OF PARTS", "0+50", "100+40", "BOUNDED_SLOWDOWN_10_MEAN"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let csv = cli(&["replay", &log, "-q", "--jobs", "0+50,100+40", "--uncounted", "10", "--csv", "-"]).ok();
    let rows: Vec<&str> = csv.lines().collect();
    assert!(rows[0].starts_with("policy,part,jobs,") && rows[2].starts_with("easy,100+40,30,"), "{csv}");
}

#[test]
fn res_12_sequences_that_are_not_there() {
    let dir = folder();
    let log = log(dir.path());
    let refused = cli(&["replay", &log, "-q", "--jobs", "190+11"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("found 190+11, accepted are sequences within the 200 jobs"),
        "{}",
        refused.err
    );
    let refused = cli(&["replay", &log, "-q", "--jobs", "5"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("found `5`, accepted is FIRST+COUNT"), "{}", refused.err);
    let twice = cli(&["replay", &log, "-q", "--jobs", "0+5,0+5"]);
    assert_eq!(twice.code, 2, "{}", twice.err);
}

/// Start of each job, from a schedule.
fn starts(csv: &str) -> Vec<(u64, f64)> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields[0].parse().unwrap(), fields[2].parse().unwrap())
    };
    csv.lines().skip(1).map(row).collect()
}

#[test]
fn res_10_running_jobs_hold_cores_until_they_end() {
    let dir = folder();
    let job = |id: u32, submit: u32, cores: u32| {
        format!("{id} {submit} -1 10 {cores} -1 -1 {cores} 10 -1 1 1 1 -1 1 -1 -1 -1\n")
    };
    let text = format!("; MaxProcs: 4\n; UnixStartTime: 0\n{}{}", job(1, 100, 3), job(2, 101, 1));
    let log = write(dir.path(), "l.swf", &text);
    let warm = write(dir.path(), "w.csv", "job,cores,user,ran,limit,left\n77,3,5,20,100,50\n");
    let args = ["replay", &log, "-q", "--policy", "easy", "--schedule", "-"];
    assert_eq!(starts(&cli(&args).ok()), [(1, 100.0), (2, 101.0)]);
    let with = |more: &[&str]| cli(&[&args[..], more].concat());
    // Job 77 began at 80, asked for 100 seconds and ends at 150: job 2 passes job 1, which waits for it.
    assert_eq!(starts(&with(&["--warm", &warm]).ok()), [(2, 101.0), (1, 150.0)]);
    let said = cli(&["replay", &log, "-q", "--json", "--warm", &warm]).json();
    assert_eq!(said["runs"][0]["metrics"]["jobs"], 2, "a running job is in no figure");
    assert_eq!(
        (&said["runs"][0]["checked"], &said["runs"][0]["violations"]),
        (&true.into(), &Value::Array(vec![]))
    );

    let rows = [
        ("1,3,5,20,100,50", "found job 1, accepted are numbers that no job of the log has"),
        ("77,5,5,20,100,50", "w.csv: line 2: found cores `5`, accepted is at most as many as are free"),
        ("77,3,5,60,100,50", "w.csv: line 2: found left `50`, accepted is at most limit less ran"),
    ];
    for (line, expected) in rows {
        let warm = write(dir.path(), "w.csv", &format!("job,cores,user,ran,limit,left\n{line}\n"));
        let refused = with(&["--warm", &warm]);
        assert!(refused.code == 1 && refused.err.contains(expected), "{}", refused.err);
    }
}

#[test]
fn passes_of_a_policy_in_words_and_as_json() {
    let dir = folder();
    let log = log(dir.path());
    let shown =
        cli(&["replay", &log, "-q", "--policy", "easy", "--dump", "--from-pass", "8", "--until-pass", "9"])
            .ok();
    insta::assert_snapshot!(shown, @r"
    pass 8 at 35 by easy: 5 wait, 1 run; free are 1 of 8 cores, 1 of 8 nodes
      offered 4: 6 cores for 116 s, submitted at 15
      did not start 4: does not fit on the free resources
      RESERVED 4 at 103
    pass 9 at 40 by easy: 6 wait, 1 run; free are 1 of 8 cores, 1 of 8 nodes
      offered 4: 6 cores for 116 s, submitted at 15
      did not start 4: does not fit on the free resources
      RESERVED 4 at 103
      offered 9: 1 core for 106 s, submitted at 40
      STARTED 9
    ");
    let lines = cli(&["replay", &log, "-q", "--policy", "sjf", "--dump", "--until-pass", "5", "--json"]).ok();
    let passes: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(passes.iter().map(|pass| pass["pass"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(
        passes[0]["keys"],
        serde_json::json!([{"job": 1, "key": 2.0}]),
        "sjf orders by requested time"
    );
    let started =
        |pass: &Value| pass["steps"].as_array().unwrap().iter().any(|step| step["step"] == "started");
    assert!(started(&passes[0]), "{lines}");
}

#[test]
fn the_first_difference_of_two_policies() {
    let dir = folder();
    let log = log(dir.path());
    let both = |a: &str, b: &str, more: &[&str]| {
        let args = ["replay", &log, "-q", "--dump=difference", "--policy", a, "--policy", b];
        cli(&[&args[..], more].concat())
    };
    let same = both("easy", "hybrid:depth=1", &[]).ok();
    assert!(same.contains("start every job at the same time"), "{same}");
    let said = both("fcfs", "easy", &["--json"]).json();
    // The schedules agree up to this time, and not at it.
    let time = said["time"].as_f64().unwrap();
    let of = |policy: &str| {
        let all = starts(&cli(&["replay", &log, "-q", "--policy", policy, "--schedule", "-"]).ok());
        let until = |end: &dyn Fn(f64) -> bool| {
            all.iter().filter(|(_, start)| end(*start)).copied().collect::<Vec<_>>()
        };
        (until(&|start| start < time), until(&|start| start == time))
    };
    let (fcfs, easy) = (of("fcfs"), of("easy"));
    assert_eq!(fcfs.0, easy.0);
    assert_ne!(fcfs.1, easy.1);
    let only: Vec<u64> = easy.1.iter().filter(|start| !fcfs.1.contains(start)).map(|(job, _)| *job).collect();
    let told: Vec<u64> = serde_json::from_value(said["runs"][1]["starts_only_here"].clone()).unwrap();
    assert_eq!(told, only);
    assert!(!said["runs"][1]["passes"].as_array().unwrap().is_empty());
    let words = both("fcfs", "easy", &[]).ok();
    assert!(words.contains(&format!("start the same jobs until {time}; then")), "{words}");

    let one = cli(&["replay", &log, "-q", "--dump=difference", "--policy", "easy"]);
    assert!(one.code == 2 && one.err.contains("found 1 --policy, accepted are two"), "{}", one.err);
    let far = cli(&["replay", &log, "-q", "--policy", "easy", "--dump", "--from-pass", "100000"]);
    assert!(far.code == 1 && far.err.contains("--from-pass 100000: the run has "), "{}", far.err);
}

#[test]
fn res_13_14_jobs_follow_others() {
    let dir = folder();
    let job = |id: u32, submit: u32, wait: u32, run: u32, after: i32, think: i32| {
        format!("{id} {submit} {wait} {run} 4 -1 -1 4 {run} -1 1 7 1 1 1 1 {after} {think}\n")
    };
    // In the log job 2 waited for 10 s; on this machine of 4 cores it waits for 90.
    let text = "; MaxProcs: 4\n; UnixStartTime: 0\n".to_owned()
        + &job(1, 0, 0, 100, -1, -1)
        + &job(2, 10, 10, 50, -1, -1)
        + &job(3, 120, 0, 20, 2, 30);
    let log = write(dir.path(), "l.swf", &text);
    let args = ["replay", &log, "-q", "--policy", "fcfs"];
    let with = |more: &[&str]| cli(&[&args[..], more].concat());
    let schedule = |more: &[&str]| starts(&with(&[more, &["--schedule", "-"]].concat()).ok());
    assert_eq!(schedule(&[]), [(1, 0.0), (2, 100.0), (3, 150.0)]);
    assert_eq!(schedule(&["--dependencies", "respect"]), [(1, 0.0), (2, 100.0), (3, 180.0)]);
    let table = with(&["--dependencies", "respect"]).ok();
    assert!(table.contains("chain: 2, 3"), "{table}");
    let said = with(&["--dependencies", "respect", "--json"]).json();
    assert_eq!(
        said["following"],
        serde_json::json!({"by": "dependencies", "jobs": 1, "chains": [[2, 3]], "unknown": 0})
    );
    assert_eq!((&said["jobs"], &said["runs"][0]["metrics"]["jobs"]), (&3.into(), &3.into()));

    // Jobs 1 and 2 are a batch that ended at 100 in the log; job 3 came 20 s later.
    assert_eq!(schedule(&["--feedback", "sessions"]), [(1, 0.0), (2, 100.0), (3, 170.0)]);
    assert_eq!(schedule(&["--feedback", "sessions:19"]), [(1, 0.0), (2, 100.0), (3, 150.0)]);
    let refused = with(&["--feedback", "weekly"]);
    assert!(
        refused.code == 2 && refused.err.contains("accepted is sessions or sessions:GAP"),
        "{}",
        refused.err
    );
}

#[test]
fn res_16_workloads_are_drawn_from_a_log() {
    let dir = folder();
    let mut text = "; MaxProcs: 8\n; UnixStartTime: 0\n".to_owned();
    for i in 0..300u32 {
        let (run, cores, user) = (1000 + i * 7919 % 9000, 1 + i * 31 % 8, 1 + i % 7);
        let submit = i * 12_000;
        text +=
            &format!("{} {submit} -1 {run} {cores} -1 -1 {cores} {run} -1 1 {user} 1 -1 1 -1 -1 -1\n", i + 1);
    }
    let log = write(dir.path(), "l.swf", &text);
    let draw = |what: &str, more: &[&str]| {
        let args = ["replay", &log, "-q", "--json", "--policy", "easy", "--resample", what, "--draws", "4"];
        let mut said = cli(&[&args[..], more].concat()).json();
        for run in said["runs"].as_array_mut().unwrap() {
            // Measured.
            run["seconds"].take();
            run["policy_seconds"].take();
        }
        said
    };
    for what in ["weeks", "users"] {
        let said = draw(what, &[]);
        assert_eq!(said, draw(what, &["--threads", "1"]), "the seed decides");
        assert_ne!(said, draw(what, &["--seed", "2"]));
        let over = said["over_all"][0]["figures"].as_array().unwrap();
        let wait = over.iter().find(|figure| figure["figure"] == "wait_mean_s").unwrap();
        let of = |key: &str| wait[key].as_f64().unwrap();
        assert!(of("min") <= of("low") && of("low") < of("mean") && of("mean") < of("high"), "{wait}");
    }
    let table = cli(&["replay", &log, "-q", "--policy", "easy", "--resample", "weeks", "--draws", "3"]).ok();
    assert!(table.contains("draw-3") && table.contains("97.5_PERCENT"), "{table}");
}

#[test]
fn res_17_jobs_of_failed_nodes_are_submitted_again() {
    let dir = folder();
    let text = "; MaxProcs: 2\n; UnixStartTime: 0\n1 0 -1 100 2 -1 -1 2 100 -1 1 1 1 -1 1 -1 -1 -1\n";
    let log = write(dir.path(), "l.swf", text);
    let outages = write(dir.path(), "o.csv", "time,ranks,change\n45,0,fail\n60,0,return\n");
    let with = |more: &[&str]| {
        let args = ["replay", &log, "-q", "--policy", "easy", "--outages", &outages];
        cli(&[&args[..], more].concat())
    };
    let said = with(&["--json", "--on-failure", "checkpoint:20"]).json();
    let run = &said["runs"][0];
    assert_eq!((&run["requeued"], &run["lost_core_seconds"]), (&1.into(), &10.0.into()));
    assert_eq!((&run["metrics"]["last_end"], &run["violations"]), (&120.0.into(), &Value::Array(vec![])));
    let table = with(&["--on-failure", "requeue"]).ok();
    assert!(table.contains("submitted_again") && table.contains("lost_core_seconds"), "{table}");
    let refused = with(&["--on-failure", "pray"]);
    assert!(
        refused.code == 2 && refused.err.contains("end, requeue or checkpoint:SECONDS"),
        "{}",
        refused.err
    );
}
