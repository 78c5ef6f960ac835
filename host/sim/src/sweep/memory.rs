//! The check of memory: at no instant do running jobs have more memory on a rank, or in all, than there is, counting
//! for every job the minimum that it must have ([`Memory::due`]).
//!
//! This module does not know the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::{JobId, Jobspec};

use super::{Held, Report, Use, Violation};
use crate::memory::Memory;
use crate::schedule::Row;
use crate::workload::Job;

/// Checks the memory of a schedule; `jobspecs` are the [requests](crate::workload::Workload::jobspecs) of jobs.
pub fn sweep_memory(
    memory: &Memory,
    jobspecs: &[Arc<Jobspec>],
    jobs: &[Job],
    rows: &[Row],
    report: &mut Report,
) {
    let by_id: BTreeMap<JobId, &Job> = jobs.iter().map(|job| (job.id, job)).collect();
    let mut all = Use::default();
    let mut ranks: BTreeMap<u32, Use> = BTreeMap::new();
    for row in rows {
        let Some(job) = by_id.get(&row.job) else { continue };
        let due = memory.due(jobspecs, job, row);
        all.add(row, due.all);
        for (rank, amount) in due.ranks {
            ranks.entry(rank).or_default().add(row, amount);
        }
    }
    let places = ranks.into_iter().map(|(rank, used)| (Some(rank), used, memory.on(rank)));
    for (rank, used, total) in places.chain([(None, all, memory.total())]) {
        let (time, used) = used.peak();
        if used > total {
            report.add(Violation::MemoryOverfull { time, rank, used, total });
        }
    }
}

/// The same while rows arrive in the order of their starts.
#[derive(Debug)]
pub(super) struct Running<'a> {
    memory: &'a Memory,
    jobspecs: &'a [Arc<Jobspec>],
    all: Held,
    ranks: BTreeMap<u32, Held>,
}

impl<'a> Running<'a> {
    pub(super) fn new(memory: &'a Memory, jobspecs: &'a [Arc<Jobspec>]) -> Self {
        Running { memory, jobspecs, all: Held::default(), ranks: BTreeMap::new() }
    }

    pub(super) fn starts(&mut self, job: &Job, row: &Row, report: &mut Report) {
        let due = self.memory.due(self.jobspecs, job, row);
        let mut found = |rank, used, total| {
            if used > total {
                report.add(Violation::MemoryOverfull { time: row.start, rank, used, total });
            }
        };
        for (rank, amount) in due.ranks {
            found(Some(rank), self.ranks.entry(rank).or_default().add(row, amount), self.memory.on(rank));
        }
        if due.all > 0 {
            found(None, self.all.add(row, due.all), self.memory.total());
        }
    }
}
