//! Places for jobs that ran on a machine of which only cores were counted: from their starts, ends and numbers of cores alone.
//!
//! The cores of the machine stand in one row, in the order of ranks and ids. Each job gets the first free ones. Any jobs that
//! never hold more cores together than there are find places so. This module does not know how starts came about.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fluxgate_formats::{JobId, TotalF64};

use crate::record::Done;
use crate::schedule::{Cores, Row};

/// Jobs cannot have places.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoPlaces {
    /// The job starts earlier than the job before it.
    #[error("job {}: it starts before a job that is listed before it: sort by start", .0.0)]
    Order(JobId),
    /// At the start of the job too few cores are free.
    #[error("job {}: it holds {cores} cores, and at its start {free} are free", job.0)]
    Overfull {
        /// The job.
        job: JobId,
        /// Its cores.
        cores: u32,
        /// Cores that no other job holds.
        free: u64,
    },
}

/// The free cores of a row, as intervals: from, and to before.
struct Free {
    parts: BTreeMap<u32, u32>,
    count: u64,
}

impl Free {
    fn give(&mut self, (from, to): (u32, u32)) {
        self.count += u64::from(to - from);
        let to = self.parts.remove(&to).unwrap_or(to);
        match self.parts.range_mut(..from).next_back().filter(|(_, end)| **end == from) {
            Some((_, end)) => *end = to,
            None => drop(self.parts.insert(from, to)),
        }
    }

    /// The first free cores, which are at least this many.
    fn take(&mut self, cores: u32) -> Vec<(u32, u32)> {
        let (mut taken, mut left) = (Vec::new(), cores);
        while let Some((from, to)) = (left > 0).then(|| self.parts.pop_first()).flatten() {
            let end = from + left.min(to - from);
            left -= end - from;
            taken.push((from, end));
            if end < to {
                self.parts.insert(end, to);
            }
        }
        self.count -= u64::from(cores - left);
        taken
    }
}

/// The schedule of jobs in the order of their starts, with places on the cores of a machine.
///
/// # Errors
/// The jobs are in another order, or hold more cores at one time than the machine has.
pub fn schedule(machine: &Cores, jobs: &[Done]) -> Result<Vec<Row>, NoPlaces> {
    // The first core of each rank in the row.
    let mut firsts: BTreeMap<u32, u32> = BTreeMap::new();
    let mut all = 0_u32;
    for (rank, ids) in machine {
        firsts.insert(all, *rank);
        all = all.saturating_add(u32::try_from(ids.len()).unwrap_or(u32::MAX));
    }
    let mut free = Free { parts: BTreeMap::new(), count: 0 };
    if all > 0 {
        free.give((0, all));
    }
    let mut ends: BinaryHeap<Reverse<(TotalF64, usize)>> = BinaryHeap::new();
    let mut held: Vec<Vec<(u32, u32)>> = Vec::with_capacity(jobs.len());
    let mut rows: Vec<Row> = Vec::with_capacity(jobs.len());
    for (index, done) in jobs.iter().enumerate() {
        let job = JobId(done.job);
        if rows.last().is_some_and(|before| done.start < before.start) {
            return Err(NoPlaces::Order(job));
        }
        while let Some(Reverse((_, ended))) = ends.peek().filter(|end| end.0.0.0 <= done.start).copied() {
            ends.pop();
            held[ended].drain(..).for_each(|part| free.give(part));
        }
        if u64::from(done.cores) > free.count {
            return Err(NoPlaces::Overfull { job, cores: done.cores, free: free.count });
        }
        let taken = free.take(done.cores);
        let mut cores = Cores::new();
        for &(from, to) in &taken {
            for (first, rank) in firsts.range(..to).rev() {
                let ids = &machine[rank];
                let end = first.saturating_add(u32::try_from(ids.len()).unwrap_or(u32::MAX));
                if end <= from {
                    break;
                }
                let places = u64::from(from.max(*first) - first)..u64::from(to.min(end) - first);
                cores.entry(*rank).or_default().extend(places.filter_map(|at| ids.nth(at)));
            }
        }
        let ranks = cores.keys().copied().collect();
        rows.push(Row {
            job,
            submit: done.submit,
            start: done.start,
            end: done.end,
            ranks,
            cores: Some(cores),
        });
        held.push(taken);
        ends.push(Reverse((TotalF64(done.end), index)));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(job: u64, start: f64, end: f64, cores: u32) -> Done {
        Done { job, user: 0, cores, submit: 0.0, start, end, limit: 9.0, backfilled: false }
    }

    fn machine() -> Cores {
        [(3, "0-3"), (5, "0,2,7")].into_iter().map(|(rank, ids)| (rank, ids.parse().unwrap())).collect()
    }

    fn words(rows: &[Row]) -> Vec<String> {
        let of = |row: &Row| {
            let parts = row.cores.iter().flatten().map(|(rank, ids)| format!("{rank}/{ids}"));
            parts.collect::<Vec<_>>().join(" ")
        };
        rows.iter().map(of).collect()
    }

    #[test]
    fn each_job_gets_the_first_free_cores() {
        let jobs = [
            done(1, 0.0, 5.0, 2),
            done(2, 0.0, 9.0, 3),
            done(3, 1.0, 1.0, 1),
            done(4, 1.0, 7.0, 2),
            done(5, 5.0, 6.0, 2),
        ];
        let rows = schedule(&machine(), &jobs).unwrap();
        assert_eq!(words(&rows), ["3/0-1", "3/2-3 5/0", "5/2", "5/2,7", "3/0-1"]);
        assert_eq!(rows[1].ranks.to_string(), "3,5");
    }

    #[test]
    fn what_has_no_place_is_told() {
        let error = |jobs: &[Done]| schedule(&machine(), jobs).unwrap_err().to_string();
        let text = error(&[done(1, 0.0, 5.0, 2), done(2, 4.9, 9.0, 6)]);
        assert_eq!(text, "job 2: it holds 6 cores, and at its start 5 are free");
        assert!(error(&[done(1, 2.0, 5.0, 2), done(2, 1.0, 9.0, 1)]).starts_with("job 2: it starts before"));
        assert_eq!(schedule(&Cores::new(), &[]), Ok(Vec::new()));
    }
}
