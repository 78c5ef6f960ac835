//! The check of memory: at no instant do running jobs have more memory on a rank, or in all, than exists, where every
//! job counts with its minimum ([`Memory::due`]).
//!
//! This module does not know the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::{JobId, Jobspec};

use super::layout::Layout;
use super::running::Places;
use super::{Report, Use, Violation};
use crate::memory::Memory;
use crate::schedule::Row;
use crate::workload::Job;

/// Checks the memory of a schedule; `jobspecs` are the [requests](crate::workload::Workload::jobspecs) of jobs. Violations are
/// added to `report`.
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

/// The memory that a running job must have.
#[derive(Debug, Default)]
pub(super) struct Amounts {
    /// On each of these nodes, by number: from, to before, amount.
    nodes: Vec<(u32, u32, u64)>,
    /// On all nodes together.
    all: u64,
}

/// The same while rows arrive in the order of their starts.
#[derive(Debug)]
pub(super) struct Running<'a> {
    memory: &'a Memory,
    /// The minimum of each complete request.
    brought: Vec<u64>,
    /// Amount in use on each node, by number, and its memory.
    nodes: Vec<(u128, u64)>,
    /// The same for all nodes together.
    all: (u128, u64),
}

impl<'a> Running<'a> {
    pub(super) fn new(memory: &'a Memory, jobspecs: &[Arc<Jobspec>], layout: &Layout<'_>) -> Self {
        Running {
            memory,
            brought: jobspecs.iter().map(|spec| memory.of_request(spec)).collect(),
            nodes: layout.ranks().map(|rank| (0, memory.on(rank))).collect(),
            all: (0, memory.total()),
        }
    }

    /// The memory that a job must have on these nodes.
    pub(super) fn due(&self, job: &Job, layout: &Layout<'_>, places: &(impl Places + ?Sized)) -> Amounts {
        let mut due = Amounts::default();
        let mut add = |ranks, amount: u64| {
            for part in layout.parts(ranks).flatten().filter(|_| amount > 0) {
                let (from, to) = part.nodes();
                due.nodes.push((from, to, amount));
                due.all = due.all.saturating_add(amount.saturating_mul(u64::from(to - from)));
            }
        };
        let brought = (job.jobspec as usize).checked_sub(1).and_then(|number| self.brought.get(number));
        if let Some(&amount) = brought {
            let mut each = places.ranks().flatten();
            match (each.next(), each.next()) {
                (Some(rank), None) => add(rank..=rank, amount),
                _ => due.all = amount,
            }
        } else if job.memory_kb > 0 {
            let each = self.memory.of_kb(job.memory_kb);
            if job.nodes > 0 {
                places.ranks().for_each(|ranks| add(ranks, each));
            } else {
                places.entries().for_each(|(ranks, ids)| add(ranks, each.saturating_mul(ids.len())));
            }
        }
        due
    }

    /// Adds the memory of a job that starts.
    pub(super) fn starts(&mut self, time: f64, due: &Amounts, layout: &Layout<'_>, report: &mut Report) {
        let mut over = |rank, used: u128, total| {
            if used > u128::from(total) {
                let used = u64::try_from(used).unwrap_or(u64::MAX);
                report.add(Violation::MemoryOverfull { time, rank, used, total });
            }
        };
        for &(from, to, amount) in &due.nodes {
            for (node, (used, total)) in (from..to).zip(&mut self.nodes[from as usize..to as usize]) {
                *used += u128::from(amount);
                if *used > u128::from(*total) {
                    over(Some(layout.rank(node)), *used, *total);
                }
            }
        }
        self.all.0 += u128::from(due.all);
        if due.all > 0 {
            over(None, self.all.0, self.all.1);
        }
    }

    /// Subtracts the memory of a job that ended.
    pub(super) fn ends(&mut self, due: &Amounts) {
        for &(from, to, amount) in &due.nodes {
            self.nodes[from as usize..to as usize].iter_mut().for_each(|it| it.0 -= u128::from(amount));
        }
        self.all.0 -= u128::from(due.all);
    }
}
