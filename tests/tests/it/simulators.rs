//! Files of other simulators, through the real binary: workloads and results of Batsim, machines of Alea.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use fluxgate_testing::{Need, skipped};
use fluxgate_tests::fixture::{cli, folder};
use serde_json::Value;

/// A log of 200 jobs for 8 cores, of which every tenth is killed at its limit, and one is too wide.
fn log(dir: &Path) -> String {
    let mut text = "; MaxProcs: 8\n; UnixStartTime: 0\n".to_owned();
    for i in 0..200u32 {
        let (run, cores) = (1 + i * 7919 % 100, if i == 77 { 9 } else { 1 + i * 31 % 8 });
        let (id, submit, limit) = (i + 1, i * 5, if i % 10 == 5 { run / 2 } else { run * 2 });
        text += &format!("{id} {submit} -1 {run} {cores} -1 -1 {cores} {limit} -1 1 1 1 -1 1 -1 -1 -1\n");
    }
    write(dir, "l.swf", &text)
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The columns of `jobs.csv` as Batsim 5 documents them (`docs/output-jobs.rst`), and whether each is a number.
const COLUMNS: [(&str, bool); 17] = [
    ("job_id", false),
    ("workload_name", false),
    ("profile", false),
    ("submission_time", true),
    ("requested_number_of_resources", true),
    ("requested_time", true),
    ("success", true),
    ("final_state", false),
    ("starting_time", true),
    ("execution_time", true),
    ("finish_time", true),
    ("waiting_time", true),
    ("turnaround_time", true),
    ("stretch", true),
    ("allocated_resources", false),
    ("consumed_energy", true),
    ("metadata", false),
];

/// The rows of a `jobs.csv`, as values by column.
fn rows(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(names, COLUMNS.map(|(name, _)| name));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields.len(), names.len(), "{line}");
            names.iter().copied().zip(fields).collect()
        })
        .collect()
}

fn number(row: &BTreeMap<&str, &str>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {row:?}"))
}

#[test]
fn res_20_jobs_and_schedule_of_batsim() {
    let dir = folder();
    let log = log(dir.path());
    let out = dir.path().join("out");
    let args = ["replay", &log, "-q", "--policy", "easy", "--json", "--batsim", out.to_str().unwrap()];
    let csv = dir.path().join("s.csv");
    let said = cli(&[&args[..], &["--schedule", csv.to_str().unwrap()]].concat()).json();
    let text = read(&out.join("jobs.csv"));
    let rows = rows(&text);
    for (column, numeric) in COLUMNS {
        for row in rows.iter().filter(|row| numeric && row["final_state"] != "REJECTED") {
            number(row, column);
        }
    }

    // The starts and ends of the schedule, and the cores of each job: no job holds a core that another has.
    let ran: Vec<_> = rows.iter().filter(|row| row["final_state"] != "REJECTED").collect();
    let schedule: BTreeMap<String, (f64, f64)> = read(&csv)
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields[0].to_owned(), (fields[2].parse().unwrap(), fields[3].parse().unwrap()))
        })
        .collect();
    assert_eq!((ran.len(), schedule.len()), (199, 199));
    let mut held: Vec<Vec<(f64, f64)>> = vec![Vec::new(); 8];
    for row in &ran {
        let span = (number(row, "starting_time"), number(row, "finish_time"));
        assert_eq!(span, schedule[row["job_id"]], "{row:?}");
        let mut count = 0;
        for part in row["allocated_resources"].split(' ') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
            count += to - from + 1;
            held[from..=to].iter_mut().for_each(|core| core.push(span));
        }
        assert_eq!(count as f64, number(row, "requested_number_of_resources"), "{row:?}");
        let (wait, run) = (number(row, "waiting_time"), number(row, "execution_time"));
        assert_eq!(number(row, "submission_time") + wait, span.0);
        assert_eq!((number(row, "turnaround_time"), span.1 - span.0), (wait + run, run));
        let killed = run == number(row, "requested_time");
        assert_eq!(row["final_state"] == "COMPLETED_WALLTIME_REACHED", killed, "{row:?}");
        assert_eq!(row["success"] == "1", !killed);
    }
    for core in &mut held {
        core.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(core.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{core:?}");
    }
    // In the order of ends, as Batsim writes them.
    assert!(ran.is_sorted_by(|a, b| number(a, "finish_time") <= number(b, "finish_time")));

    let schedule: Value = serde_json::from_str(&read(&out.join("schedule.json"))).unwrap();
    let metrics = &said["runs"][0]["metrics"];
    let close = |a: &Value, b: f64| (a.as_f64().unwrap() - b).abs() <= 1e-9 * b.abs().max(1.0);
    let mean = |key: &str| metrics[key]["mean"].as_f64().unwrap() * 199.0 / 200.0;
    assert!(close(&schedule["mean_waiting_time"], mean("wait_s")), "{schedule}");
    assert!(close(&schedule["mean_turnaround_time"], mean("response_s")), "{schedule}");
    assert!(close(&schedule["makespan"], metrics["makespan_s"].as_f64().unwrap()), "{schedule}");
    assert!(close(&schedule["time_computing"], metrics["core_seconds"].as_f64().unwrap()), "{schedule}");
    assert_eq!((&schedule["nb_jobs"], &schedule["nb_jobs_rejected"]), (&200.into(), &1.into()));
    assert_eq!(schedule["nb_jobs_killed"], 20);

    // Several runs have two files each.
    let args =
        ["replay", &log, "-q", "--policy", "easy", "--policy", "fcfs", "--batsim", out.to_str().unwrap()];
    cli(&args).ok();
    assert_eq!(read(&out.join("jobs.easy.csv")), text);
    assert_ne!(read(&out.join("jobs.fcfs.csv")), text);
    assert!(out.join("schedule.fcfs.json").exists());
}

#[test]
fn res_20_a_workload_of_batsim_has_the_schedule_of_its_log() {
    let dir = folder();
    let log = log(dir.path());
    let workload = write(dir.path(), "w.json", &cli(&["workload", "convert", &log, "--to", "batsim"]).ok());
    let replay = |log: &str| cli(&["replay", log, "-q", "--policy", "sjf", "--schedule", "-"]).ok();
    assert_eq!(replay(&workload), replay(&log));
    let said = cli(&["workload", "info", &workload, "--json"]).json();
    let info = &said["info"];
    assert_eq!((&info["jobs"], &info["cores_of_machine"]), (&200.into(), &8.into()));
    // A job that has no run time without a platform is refused in words, or skipped and counted.
    let text =
        read(Path::new(&workload)).replacen(r#""type":"DelayProfile""#, r#""type":"TraceReplayProfile""#, 1);
    let mixed = write(dir.path(), "mixed.json", &text);
    cli(&["replay", &mixed, "-q"])
        .fails(1, &["of type `TraceReplayProfile`, accepted is a delay", "--skip-bad"]);
    let said = cli(&["replay", &mixed, "-q", "--json", "--skip-bad"]).json();
    assert!(said["bad_lines"].as_u64().unwrap() > 0 && said["jobs"].as_u64().unwrap() < 200, "{said}");
}

#[test]
fn res_20_machines_of_alea() {
    let dir = folder();
    let machine = write(dir.path(), "l.swf.machines", "0\tsmall\t2\t2\t1\t1000\n1\tlarge\t1\t4\t1\t8000\n");
    // Job 1 needs 1500 kB for each of its cores: only the node of the second cluster has as much. Job 2 waits for it.
    let line = |id: u32, kb: u32| format!("{id} 0 -1 10 3 -1 -1 3 10 {kb} 1 1 1 1 1 1 -1 -1\n");
    let log = write(dir.path(), "l.swf", &format!("{}{}", line(1, 1500), line(2, 1500)));
    let args = ["replay", &log, "-q", "--machine", &machine, "--schedule", "-"];
    let starts = |more: &[&str]| {
        let out = cli(&[&args[..], more].concat()).ok();
        let row = |line: &str| line.split(',').skip(2).collect::<Vec<_>>().join(",");
        out.lines().skip(1).map(row).collect::<Vec<_>>()
    };
    assert_eq!(starts(&["--map", "memory=requested"]), ["0,10,2", "10,20,2"]);
    assert_eq!(starts(&[]).iter().filter(|row| row.starts_with("0,")).count(), 2);
    let bad = write(dir.path(), "bad.machines", "0\tsmall\t2\t2\t1\n1\tlarge\t1\t4\t2\n");
    cli(&["replay", &log, "-q", "--machine", &bad])
        .fails(1, &["bad.machines: line 2: speed: found `2`, accepted is the speed of the first line"]);
}

#[test]
fn res_20_evalys_opens_jobs() {
    let python = std::env::var_os("FLUXGATE_EVALYS_PYTHON").unwrap_or_else(|| "python3".into());
    let known = Command::new(&python).args(["-c", "import evalys.jobset"]).output();
    if !known.is_ok_and(|out| out.status.success()) {
        return skipped(Need::Program, "no Python with evalys; FLUXGATE_EVALYS_PYTHON names one");
    }
    let dir = folder();
    let log = log(dir.path());
    let out = dir.path().join("out");
    cli(&["replay", &log, "-q", "--batsim", out.to_str().unwrap()]).ok();
    let script = "
import json, sys
from evalys.jobset import JobSet
jobs = JobSet.from_csv(sys.argv[1] + '/jobs.csv', resource_bounds=(0, 7))
told = json.load(open(sys.argv[1] + '/schedule.json'))
ran = jobs.df[jobs.df.final_state != 'REJECTED']
assert len(jobs.df) == told['nb_jobs'] == 200 and len(ran) == 199
assert (ran.proc_alloc == ran.requested_number_of_resources).all()
assert abs((ran.proc_alloc * ran.execution_time).sum() - told['time_computing']) < 1e-3
assert jobs.MaxProcs == 8 and jobs.utilisation.load.max() <= 8 and jobs.queue.load.min() >= 0
";
    let mut command = Command::new(python);
    command.args(["-c", script, out.to_str().unwrap()]).env("MPLBACKEND", "Agg");
    let said = command.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}
