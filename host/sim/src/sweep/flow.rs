//! The check of flow: every job got its requested flow where it runs, and no pool ever carried more than its capacity.
//!
//! - By the rule of the requests and the cores of its row, each job has an amount on each rank. Its R has to have the
//!   same amount (that of a job with a jobspec of its own is taken as it is).
//! - At no instant do the amounts of running jobs exceed a pool, or a pool that feeds it.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;

use super::{Held, Report, Use, Violation};
use crate::flow::{Asks, Flow, Grant, Pools};
use crate::schedule::{Cores, Row};
use crate::workload::Job;

/// Checks the flow to the jobs of a schedule, whose rows have their cores; `grants` is the flow by their Rs. Violations are added
/// to `report`.
pub fn sweep_flow(
    pools: &Pools,
    asks: &Asks,
    jobs: &[Job],
    rows: &[Row],
    grants: &[Grant],
    report: &mut Report,
) {
    let by_id: BTreeMap<JobId, &Job> = jobs.iter().map(|job| (job.id, job)).collect();
    let granted: BTreeMap<JobId, &Grant> = grants.iter().map(|grant| (grant.job, grant)).collect();
    let mut used: BTreeMap<(usize, usize), Use> = BTreeMap::new();
    for row in rows {
        let (Some(job), Some(cores)) = (by_id.get(&row.job), &row.cores) else { continue };
        let flows = granted.get(&row.job).map_or(&[][..], |grant| &grant.flows);
        on_pools(pools, asks, job, cores, flows, report, |pool, units| {
            used.entry(pool).or_default().add(row, units);
        });
    }
    for ((kind, pool), used) in used {
        let it = &pools.kinds[kind].pools[pool];
        let (time, used) = used.peak();
        if used > it.size {
            let pool = format!("{} {}", pools.kinds[kind].name, it.name);
            report.add(Violation::PoolOverfull { time, pool, used, total: it.size });
        }
    }
}

/// Compares the flow of a job with its requirement, and reports for each pool on the path the amount: indices of kind
/// and pool, and units.
fn on_pools(
    pools: &Pools,
    asks: &Asks,
    job: &Job,
    cores: &Cores,
    flows: &[Flow],
    report: &mut Report,
    mut takes: impl FnMut((usize, usize), u64),
) {
    let mut found: BTreeMap<(usize, u32), u64> = BTreeMap::new();
    for (kind, rank, units) in flows {
        *found.entry((*kind, *rank)).or_default() += units;
    }
    let mut due: BTreeMap<(usize, u32), u64> = BTreeMap::new();
    if job.jobspec > 0 {
        // The job has a request of its own.
        due.clone_from(&found);
    } else {
        for (rank, ids) in cores {
            let each = asks.due(pools, job, ids.len());
            due.extend(each.map(|(kind, units)| ((kind, *rank), units)));
        }
    }
    for key in due.keys().chain(found.keys().filter(|key| !due.contains_key(key))) {
        let [found, expected] = [&found, &due].map(|map| map.get(key).copied().unwrap_or(0));
        let hangs = pools.kinds[key.0].at.get(&key.1);
        if found != expected || hangs.is_none() {
            let kind = pools.kinds[key.0].name.clone();
            report.add(Violation::Flow { job: job.id, kind, rank: key.1, found, expected });
        }
    }
    for ((kind, rank), units) in due {
        let known = &pools.kinds[kind];
        let mut at = known.at.get(&rank).copied();
        // No path is longer than the number of pools.
        for _ in 0..known.pools.len() {
            let Some(pool) = at else { break };
            takes((kind, pool), units);
            at = known.pools[pool].above;
        }
    }
}

/// The same while rows arrive in the order of their starts.
#[derive(Debug)]
pub(super) struct Running<'a> {
    pub(super) pools: &'a Pools,
    asks: &'a Asks,
    used: BTreeMap<(usize, usize), Held>,
}

impl<'a> Running<'a> {
    pub(super) fn new(pools: &'a Pools, asks: &'a Asks) -> Self {
        Running { pools, asks, used: BTreeMap::new() }
    }

    pub(super) fn starts(
        &mut self,
        job: &Job,
        (start, end): (f64, f64),
        cores: &Cores,
        flows: &[Flow],
        report: &mut Report,
    ) {
        let (pools, mut over) = (self.pools, Vec::new());
        // Each path begins with the rank's own pool: the amount counts in a pool once for each rank that it feeds.
        on_pools(pools, self.asks, job, cores, flows, report, |(kind, pool), units| {
            let used = self.used.entry((kind, pool)).or_default().add_span(start, end, units);
            let it = &pools.kinds[kind].pools[pool];
            if used > it.size {
                let pool = format!("{} {}", pools.kinds[kind].name, it.name);
                over.push(Violation::PoolOverfull { time: start, pool, used, total: it.size });
            }
        });
        over.into_iter().for_each(|it| report.add(it));
    }
}
