//! Logs of every format that is no SWF: good, odd and bad ones.

use std::io::Write as _;

use super::*;
use crate::swf::Status;
use crate::workload::{Options, Workload};

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn records(text: &str) -> Vec<Result<Record, String>> {
    let file = file(text.as_bytes());
    let name = file.path().display().to_string();
    match open(file.path(), None) {
        Ok(log) => log.map(|r| r.map_err(|e| e.to_string().replace(&name, "log"))).collect(),
        Err(error) => vec![Err(error.to_string().replace(&name, "log"))],
    }
}

fn good(text: &str) -> Vec<Record> {
    records(text).into_iter().map(|r| r.unwrap()).collect()
}

fn errors(text: &str) -> Vec<String> {
    records(text).into_iter().filter_map(Result::err).collect()
}

const SACCT: &str = "JobID|JobIDRaw|User|Partition|Submit|Start|End|Elapsed|AllocCPUS|ReqCPUS|Timelimit|State
100|100|anna|batch|2024-08-15T00:00:00|2024-08-15T00:01:00|2024-08-15T01:01:00|01:00:00|64|64|2-00:00:00|COMPLETED
100.batch|100.batch||||2024-08-15T00:01:00|2024-08-15T01:01:00|01:00:00|64|64||COMPLETED
101_7|108|bert|debug|2024-08-15T00:00:10|2024-08-15T00:01:00|2024-08-15T00:01:30|00:00:30|0|8|UNLIMITED|CANCELLED by 1000
102|102|anna|batch|2024-08-15T00:00:20|Unknown|Unknown|00:00:00|0|16|10:00|PENDING
103|103|anna|batch|2024-08-15T00:00:30|2024-08-15T00:00:30|2024-08-15T00:01:30|00:01:00|4|4|Partition_Limit|OUT_OF_MEMORY
";

#[test]
fn accounting_of_another_scheduler() {
    let found = good(SACCT);
    assert_eq!(found.iter().map(|r| r.job).collect::<Vec<_>>(), [100, 100, 108, 102, 103]);
    let first = &found[0];
    assert_eq!((first.submit, first.wait, first.run), (1_723_680_000.0, Some(60.0), Some(3600.0)));
    assert_eq!(
        (first.procs, first.procs_requested, first.time_requested),
        (Some(64), Some(64), Some(172_800.0))
    );
    assert_eq!((first.user, first.queue, first.status), (Some(1), Some(1), Status::Completed));
    assert!(found[1].status.is_partial());
    assert_eq!((found[2].user, found[2].queue, found[2].status), (Some(2), Some(2), Status::Cancelled));
    assert_eq!((found[2].time_requested, found[3].run, found[3].time_requested), (None, None, Some(600.0)));
    assert_eq!((found[4].status, found[4].time_requested), (Status::Failed, None));
    // The same as raw numbers, with unused columns, and a bar at the end as --parsable puts it.
    let raw = "JobIDRaw|Account|Submit|ElapsedRaw|NCPUS|TimelimitRaw|UID|\n7|x|1000|90|3|5|1000|\n";
    let found = good(raw);
    assert_eq!((found[0].job, found[0].submit, found[0].run), (7, 1000.0, Some(90.0)));
    assert_eq!((found[0].procs, found[0].time_requested, found[0].user), (Some(3), Some(300.0), Some(1000)));
    // The jobs of the simulator.
    let workload = Workload::load(file(SACCT.as_bytes()).path(), &Options::default()).unwrap();
    assert_eq!(
        workload.jobs.iter().map(|j| (j.id.0, j.cores)).collect::<Vec<_>>(),
        [(100, 64), (108, 8), (103, 4)]
    );
    assert_eq!(workload.left_out.len(), 2, "a step, and a job that never started");
    assert_eq!(workload.header.queues.values().collect::<Vec<_>>(), ["batch", "debug"]);
}

#[test]
fn accounting_that_is_not_good() {
    let rows = [
        (
            "JobID|State\n1|COMPLETED\n",
            "log: line 1: found no such columns, accepted is the columns of `sacct",
        ),
        ("JobID|Submit|ElapsedRaw|NCPUS\n1|0|5\n", "log: line 2: found 3 fields, accepted is as many fields"),
        (
            "JobID|Submit|ElapsedRaw|NCPUS\n1_4|0|5|1\n",
            "log: line 2: found JobID `1_4`, accepted is a whole number; JobIDRaw",
        ),
        (
            "JobID|Submit|ElapsedRaw|NCPUS\n1|soon|5|1\n",
            "log: line 2: found Submit `soon`, accepted is a date such as",
        ),
        (
            "JobID|Submit|Elapsed|NCPUS\n1|0|5|1\n",
            "log: line 2: found Elapsed `5`, accepted is [DD-]HH:MM:SS",
        ),
        (
            "JobID|Submit|ElapsedRaw|NCPUS\n1|0|5|-1\n",
            "log: line 2: found AllocCPUS `-1`, accepted is a whole number",
        ),
        (
            "JobID|Submit|ElapsedRaw|NCPUS|Timelimit\n1|0|5|1|long\n",
            "log: line 2: found Timelimit `long`, accepted is",
        ),
    ];
    for (text, expected) in rows {
        let found = errors(text);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}\n{expected}");
    }
}

const FLUX: &str = r#"{"jobs": [
 {"t_submit": 1000.5, "t_run": 1001.5, "t_cleanup": 1011.5, "duration": 60.0, "ncores": 8, "nnodes": 2, "id": 58938359808,
  "userid": 1000, "queue": "batch", "result": "COMPLETED", "state": "INACTIVE", "annotations": {}},
 {"t_submit": 1001.0, "duration": 0.0, "ncores": 1, "id": 68165828608, "userid": 0, "state": "SCHED"}
]}"#;

#[test]
fn jobs_of_flux() {
    let found = good(FLUX);
    let first = &found[0];
    assert_eq!(
        (first.job, first.submit, first.wait, first.run),
        (58_938_359_808, 1000.5, Some(1.0), Some(10.0))
    );
    assert_eq!((first.procs_requested, first.time_requested, first.user), (Some(8), Some(60.0), Some(1000)));
    assert_eq!((first.status, first.queue), (Status::Completed, Some(1)));
    assert_eq!((found[1].run, found[1].time_requested), (None, None));
    // Jobs one after the other are accepted too.
    let jobs: serde_json::Value = serde_json::from_str(FLUX).unwrap();
    let lines: String = jobs["jobs"].as_array().unwrap().iter().map(|job| format!("{job}\n")).collect();
    assert_eq!(good(&lines), found);
    let rows = [
        ("{\"jobs\": 3}", "log: line 1: found `3`, accepted is an object with an array of jobs"),
        ("{\"jobs\": [", "log: line 1: found `EOF while parsing"),
        ("{\"id\": \"x\", \"t_submit\": 1}", "log: line 1: found job `\"x\"`: `invalid type"),
        ("{\"id\": 1, \"t_submit\": -1}", "log: line 1: found a time `-1`, accepted is seconds"),
        ("{\"jobs\": [{\"id\": 1}]}", "log: line 1: found job `1`: `missing field `t_submit``"),
    ];
    for (text, expected) in rows {
        let found = errors(text);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}\n{expected}");
    }
}

/// An archive with these files.
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_cksum();
        archive.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap()
}

#[test]
fn a_dump_of_flux() {
    let spec = r#"{"version":1,"resources":[{"type":"slot","count":2,"label":"t","with":[{"type":"core","count":3}]}],
        "tasks":[{"command":["a"],"slot":"t","count":{"per_slot":1}}],
        "attributes":{"system":{"duration":60,"queue":"batch"}}}"#;
    let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-3"}}],"nodelist":["n[0-1]"],
        "starttime":0,"expiration":0}}"#;
    let log = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let whole = log(&[
        r#"{"timestamp":1000.0,"name":"submit","context":{"userid":7,"urgency":16,"flags":0,"version":1}}"#,
        r#"{"timestamp":1002.0,"name":"alloc"}"#,
        r#"{"timestamp":1003.0,"name":"start"}"#,
        r#"{"timestamp":1013.0,"name":"finish","context":{"status":256}}"#,
        r#"{"timestamp":1014.0,"name":"free"}"#,
    ]);
    let waits = log(&[r#"{"timestamp":1001.0,"name":"submit","context":{"userid":8}}"#]);
    let bytes = archive(&[
        ("resource/R", "whatever"),
        ("job/0000/0000/0000/0010/jobspec", spec),
        ("job/0000/0000/0000/0010/eventlog", &whole),
        ("job/0000/0000/0000/0010/R", r),
        ("job/0000/0000/0000/0010/guest/output", "hello"),
        ("job/0000/0000/0000/0011/jobspec", spec),
        ("job/0000/0000/0000/0011/eventlog", &waits),
        ("job/0000/0000/0000/0012/eventlog", &waits),
        ("job/0000/0000/0000/0013/jobspec", "{"),
        ("job/0000/0000/0000/0013/eventlog", &waits),
    ]);
    let dumped = file(&bytes);
    let found: Vec<_> = open(dumped.path(), None).unwrap().map(|r| r.map_err(|e| e.to_string())).collect();
    let first = found[0].as_ref().unwrap();
    assert_eq!((first.job, first.submit, first.wait, first.run), (16, 1000.0, Some(2.0), Some(10.0)));
    assert_eq!((first.procs, first.procs_requested, first.time_requested), (Some(8), Some(8), Some(60.0)));
    assert_eq!((first.user, first.queue, first.status), (Some(7), Some(1), Status::Failed));
    let second = found[1].as_ref().unwrap();
    assert_eq!((second.job, second.run, second.procs), (17, None, None));
    assert_eq!(second.procs_requested, Some(6));
    assert!(
        found[2]
            .as_ref()
            .unwrap_err()
            .ends_with(": no jobspec, accepted is jobspec and eventlog of every job")
    );
    assert!(found[3].as_ref().unwrap_err().contains("jobspec: `EOF"), "{:?}", found[3]);
    // Cut off in the middle of a file.
    let cut = file(&bytes[..700]);
    assert!(open(cut.path(), None).is_err());
}

#[test]
fn our_own_tables() {
    let csv = "job,user,submit,cores,limit_s,run_s\n18446744073709551615,3,100.5,8,60,30\n";
    let jsonl = "{\"job\":18446744073709551615,\"user\":3,\"submit\":100.5,\"cores\":8,\"limit_s\":60.0,\"run_s\":30.0}\n";
    for text in [csv, jsonl] {
        let found = good(text);
        assert_eq!(
            (found.len(), found[0].job, found[0].submit, found[0].run),
            (1, u64::MAX, 100.5, Some(30.0))
        );
        assert_eq!(
            (found[0].procs_requested, found[0].time_requested, found[0].user),
            (Some(8), Some(60.0), Some(3))
        );
    }
    let rows = [
        ("job,user,submit,cores,limit_s,run_s\n1,2,3\n", "log: line 2: found 3 fields, accepted is job,user"),
        (
            "job,user,submit,cores,limit_s,run_s\n1,2,3,x,5,6\n",
            "log: line 2: found cores `x`, accepted is a number",
        ),
        (
            "job,user,submit,cores,limit_s,run_s\n1,2,3,1.5,5,6\n",
            "log: line 2: found cores `1.5`, accepted is a whole",
        ),
        (
            "job,user,submit,cores,limit_s,run_s\nx,2,3,1,5,6\n",
            "log: line 2: found job `x`, accepted is a whole number",
        ),
        ("{\"job\":1}\n", "log: line 1: found user ``, accepted is a number from 0"),
    ];
    for (text, expected) in rows {
        let found = errors(text);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}\n{expected}");
    }
}

const BATSIM: &str = r#"{
  "description": "profiles of both forms",
  "nb_res": 8,
  "jobs": [
    {"id": "w0!7", "subtime": 1.5, "res": 4, "profile": "ten", "walltime": 60},
    {"id": 3, "subtime": 0, "res": 8, "profile": "w0!steps", "walltime": -1},
    {"id": "9", "subtime": 2, "res": 1, "profile": "fails", "extra_data": "{}"}
  ],
  "profiles": {
    "ten": {"type": "delay", "delay": 10},
    "fails": {"type": "DelayProfile", "delay": 2.25, "ret": 1},
    "steps": {"type": "SequentialCompositionProfile", "repeat": 3, "seq": ["ten", "pair"]},
    "pair": {"type": "composed", "seq": ["fails", "fails"]},
    "unused": {"type": "ParallelTaskHomogeneousProfile", "cpu": 1e9, "com": 0}
  }
}"#;

#[test]
fn res_20_workloads_of_batsim() {
    let found = good(BATSIM);
    let fields = |r: &Record| (r.line, r.job, r.submit, r.procs_requested, r.run, r.time_requested);
    assert_eq!(
        found.iter().map(fields).collect::<Vec<_>>(),
        [
            (1, 7, 1.5, Some(4), Some(10.0), Some(60.0)),
            (2, 3, 0.0, Some(8), Some(43.5), None),
            (3, 9, 2.0, Some(1), Some(2.25), None),
        ]
    );
    let ends: Vec<Status> = found.iter().map(|r| r.status).collect();
    assert_eq!(ends, [Status::Completed, Status::Completed, Status::Failed]);
    let workload = Workload::load(file(BATSIM.as_bytes()).path(), &Options::default()).unwrap();
    assert_eq!((workload.header.max_procs, workload.jobs.len()), (Some(8), 3));
    // A name that is no number: all have their places.
    let named = good(&BATSIM.replace("\"9\"", "\"nine\""));
    assert_eq!(named.iter().map(|r| r.job).collect::<Vec<_>>(), [1, 2, 3]);
    // On one line, and with the jobs first.
    let line = r#"{"jobs":[{"id":"a","subtime":0,"res":1,"profile":"p"}],"profiles":{"p":{"type":"delay","delay":1}},"nb_res":1}"#;
    assert_eq!(good(line).len(), 1);
}

#[test]
fn res_20_workloads_of_batsim_that_are_not_good() {
    let job = |job: &str, profiles: &str| {
        format!("{{\"nb_res\": 4, \"jobs\": [{job}], \"profiles\": {{{profiles}}}}}")
    };
    let delay = r#""p": {"type": "delay", "delay": 1}"#;
    let at = |profile: &str| format!(r#"{{"id": "1", "subtime": 0, "res": 1, "profile": "{profile}"}}"#);
    let mut deep = r#""p0": {"type": "delay", "delay": 1}"#.to_owned();
    for n in 1..50 {
        deep += &format!(r#", "p{n}": {{"type": "composed", "seq": ["p{}"]}}"#, n - 1);
    }
    let mut wide = r#""p0": {"type": "delay", "delay": 1}"#.to_owned();
    for n in 1..20 {
        let before = n - 1;
        wide += &format!(r#", "p{n}": {{"type": "composed", "seq": ["p{before}", "p{before}"]}}"#);
    }
    let rows = [
        (
            job(&at("q"), delay),
            "log: line 1: found job `\"1\"`: profile `q`, which is not there, accepted is",
        ),
        (
            job(&at("p"), r#""p": {"type": "parallel_homogeneous", "cpu": 1, "com": 1}"#),
            "log: line 1: found job `\"1\"`: profile `p` of type `parallel_homogeneous`, accepted is a delay",
        ),
        (
            job(&at("p"), r#""p": {"type": "delay"}"#),
            "log: line 1: found job `\"1\"`: profile `p`: delay null",
        ),
        (
            job(&at("p"), r#""p": {"type": "composed", "seq": ["p"]}"#),
            "log: line 1: found job `\"1\"`: profile `p`: seq",
        ),
        (job(&at("p40"), &deep), "log: line 1: found job `\"1\"`: profile `p7`: sequences in sequences"),
        (
            job(&at("p19"), &wide),
            "log: line 1: found job `\"1\"`: profile `p1`: a longer sequence, accepted is at most",
        ),
        (
            job(r#"{"id": "1", "subtime": 0, "res": -1, "profile": "p"}"#, delay),
            "log: line 1: found job `\"1\"`: `invalid value: integer `-1`",
        ),
        (
            job(r#"{"id": "1", "subtime": -5, "res": 1, "profile": "p"}"#, delay),
            "log: line 1: found job `\"1\"`: subtime -5, accepted is seconds from 0",
        ),
        (
            job(r#"{"id": "1", "subtime": 0, "res": 1, "profile": "p", "walltime": 0}"#, delay),
            "log: line 1: found job `\"1\"`: walltime 0, accepted is seconds above 0",
        ),
        ("{\"nb_res\": 4, \"jobs\": []}".to_owned(), "log: line 1: found `missing field `profiles`"),
        (
            "{\"nb_res\": 4, \"jobs\": 5, \"profiles\": {}}".to_owned(),
            "log: line 1: found `invalid type: integer",
        ),
    ];
    for (text, expected) in rows {
        let found = errors(&text);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}\n{expected}");
    }
}

#[test]
fn a_format_that_is_named_is_not_guessed() {
    let file = file(SACCT.as_bytes());
    let found: Vec<_> = open(file.path(), Some(Format::Swf)).unwrap().collect();
    assert!(found.iter().all(Result::is_err));
    assert_eq!(good("1 0 -1 60 4 -1 -1 4 100 -1 1 1 1 -1 -1 -1 -1 -1\n").len(), 1);
    assert!(records("").is_empty());
}
