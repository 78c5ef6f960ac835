//! The reader of workload logs on good, odd and bad lines.

use super::*;
use std::io::Write;

const JOB: &str =
    "    1        0 308434  31405   30  31405    -1   30  37980    -1  1   1   1  -1 -1  1 -1 -1";

fn read(text: &str) -> Vec<Result<Record, String>> {
    Reader::new(text.as_bytes(), "log").map(|r| r.map_err(|e| e.to_string())).collect()
}

#[test]
fn a_line_of_a_real_log() {
    let jobs = read(JOB);
    let [Ok(job)] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!(job.job, 1);
    assert_eq!(job.submit, 0.0);
    assert_eq!(job.wait, Some(308_434.0));
    assert_eq!(job.run, Some(31_405.0));
    assert_eq!((job.procs, job.procs_requested), (Some(30), Some(30)));
    assert_eq!(job.memory_kb, None);
    assert_eq!(job.time_requested, Some(37_980.0));
    assert_eq!(job.status, Status::Completed);
    assert_eq!((job.user, job.group, job.executable), (Some(1), Some(1), None));
    assert_eq!((job.queue, job.partition), (None, Some(1)));
    assert_eq!((job.preceding, job.think), (None, None));
}

#[test]
fn quirks_of_published_logs_are_accepted() {
    let text = "; first\r\n\r\n1 5.25 -1 552.21 4.00 -1.0 -1 4 100 -1 -1 1 1 -1 -1 -1 -1 -1\r\n;between\n\
                2 0 0 0 4 -1 -1 -1 -1 -1 5 -1 -1 -1 0 -1 1 1e3";
    let jobs: Vec<Record> = read(text).into_iter().map(Result::unwrap).collect();
    assert_eq!(jobs.len(), 2);
    assert_eq!((jobs[0].line, jobs[1].line), (3, 5));
    assert_eq!(jobs[0].submit, 5.25);
    assert_eq!((jobs[0].procs, jobs[0].cpu, jobs[0].status), (Some(4), None, Status::Unknown));
    assert_eq!((jobs[1].run, jobs[1].procs_requested, jobs[1].time_requested), (Some(0.0), None, None));
    assert_eq!((jobs[1].preceding, jobs[1].think), (Some(1), Some(1000.0)));
}

#[test]
fn bad_lines_are_named_and_reading_goes_on() {
    let rows = [
        (
            "1 2 3",
            "log: line 1: found 3 fields, accepted is a line of 18 numbers, or a comment that begins with `;`",
        ),
        (
            "x 0 0 0 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1",
            "log: line 1: field 1 (job number): found `x`, accepted is a whole number from 0, or -1 for unknown",
        ),
        (
            "-1 0 0 0 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1",
            "log: line 1: field 1 (job number): found `-1`, accepted is a whole number from 0 (it names the job)",
        ),
        (
            "1 -1 0 0 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1",
            "log: line 1: field 2 (submit time): found `-1`, accepted is seconds from 0 (a job needs a submit time)",
        ),
        (
            "1 0 0 -7 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1",
            "log: line 1: field 4 (run time): found `-7`, accepted is a number from 0, or -1 for unknown",
        ),
        (
            "1 0 0 nan 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1",
            "log: line 1: field 4 (run time): found `nan`, accepted is a number from 0, or -1 for unknown",
        ),
        (
            "1 0 0 1 4.5 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1",
            "log: line 1: field 5 (allocated processors): found `4.5`, accepted is a whole number from 0, or -1 for unknown",
        ),
        (
            "1 0 0 1 4 -1 -1 4294967296 100 -1 1 1 1 1 1 1 -1 -1",
            "log: line 1: field 8 (requested processors): found `4294967296`, accepted is a whole number from 0 to 4294967295, or -1 for unknown",
        ),
        (
            "1 0 0 1 4 -1 -1 4 100 -1 9 1 1 1 1 1 -1 -1",
            "log: line 1: field 11 (status): found `9`, accepted is 0 to 5, or -1 for unknown",
        ),
        (
            "1 0 0 1 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1 7",
            "log: line 1: found 19 fields, accepted is a line of 18 numbers, or a comment that begins with `;`",
        ),
    ];
    for (line, message) in rows {
        let got = read(&format!("{line}\n{JOB}"));
        assert_eq!(got[0].as_ref().unwrap_err(), message);
        assert!(got[1].is_ok(), "{line}");
    }
}

#[test]
fn a_line_without_end_is_bounded() {
    let text = format!("{}\n{JOB}\n", "7".repeat(3 * MAX_LINE_BYTES));
    let got = read(&text);
    assert_eq!(
        got[0].as_ref().unwrap_err(),
        "log: line 1: found a longer line, accepted is a line of at most 65536 bytes"
    );
    assert_eq!(got[1].as_ref().unwrap().line, 2);
    let exact = format!(";{}\n{JOB}", " ".repeat(MAX_LINE_BYTES - 2));
    assert!(read(&exact)[0].is_ok());
}

#[test]
fn gzip_is_recognised_and_damage_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.swf");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    write!(gz, "; MaxNodes: 4\n{JOB}\n").unwrap();
    let bytes = gz.finish().unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let mut log = FileReader::open(&path).unwrap();
    assert_eq!(log.header().unwrap().max_nodes, Some(4));
    assert_eq!(log.next().unwrap().unwrap().job, 1);
    assert!(log.next().is_none());

    std::fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
    let mut log = FileReader::open(&path).unwrap();
    let result: Result<(), SwfError> =
        log.header().map(|_| ()).and_then(|()| log.try_for_each(|r| r.map(|_| ())));
    assert!(matches!(result, Err(SwfError::Io { .. })), "{result:?}");
    let missing = dir.path().join("none.swf");
    assert!(matches!(FileReader::open(&missing), Err(SwfError::Io { line: 0, .. })));
}

#[test]
fn an_empty_log_has_no_jobs() {
    assert!(read("").is_empty());
    assert!(read("; Version: 2.2\n").is_empty());
    assert!(Reader::new("".as_bytes(), "log").header().unwrap().version.is_none());
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        for _ in Reader::new(&bytes[..], "log") {}
    }
}
