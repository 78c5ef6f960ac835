//! Writing of a workload as a log.
//!
//! This module does not know the origin of the jobs.

use std::io::{self, Write};

use crate::workload::Job;

/// The header of a written log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Lines of `Note`.
    pub notes: Vec<String>,
    /// UnixStartTime, seconds since the epoch; submissions are written relative to it.
    pub start: f64,
    /// MaxNodes.
    pub nodes: Option<u32>,
    /// MaxProcs.
    pub procs: Option<u32>,
}

/// Writes jobs in Standard Workload Format: number, submission, run time, cores (fields 5 and 8), limit and user. The status is 1; all
/// other fields are -1, also queue and memory. Times are written in the shortest form that reads back the same.
///
/// # Errors
/// Those of `out`.
pub fn write(mut out: impl Write, told: &Told, jobs: &[Job]) -> io::Result<()> {
    writeln!(out, "; Version: 2.2")?;
    writeln!(out, "; UnixStartTime: {}", told.start)?;
    writeln!(out, "; MaxJobs: {}", jobs.len())?;
    writeln!(out, "; MaxRecords: {}", jobs.len())?;
    for (name, value) in [("MaxNodes", told.nodes), ("MaxProcs", told.procs)] {
        if let Some(value) = value {
            writeln!(out, "; {name}: {value}")?;
        }
    }
    for note in &told.notes {
        writeln!(out, "; Note: {}", note.replace(['\n', '\r'], " "))?;
    }
    for job in jobs {
        let (submit, Job { cores, limit, run, user, .. }) = (job.submit - told.start, *job);
        let id = job.id.0;
        writeln!(out, "{id} {submit} -1 {run} {cores} -1 -1 {cores} {limit} -1 1 {user} -1 -1 -1 -1 -1 -1")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use crate::swf::Reader;
    use crate::workload::{Options, Workload};

    #[test]
    fn what_is_written_reads_back() {
        let jobs = crate::model::lublin99(200, 64, 3);
        let told =
            super::Told { notes: vec!["two\nlines".to_owned()], start: 0.0, nodes: Some(8), procs: Some(64) };
        let mut text = Vec::new();
        super::write(&mut text, &told, &jobs).unwrap();
        let read = Workload::read(&mut Reader::new(&text[..], "made"), &Options::default()).unwrap();
        assert_eq!(read.jobs, jobs);
        assert_eq!((read.header.max_nodes, read.header.max_procs), (Some(8), Some(64)));
        assert_eq!(read.header.notes, ["two lines"]);
    }
}
