//! The audit: the fate of every job, counted from the database alone.
//!
//! The audit neither asks the scheduler nor relies on the job manager. States are those of the event logs, and the use
//! of resources is swept over all R's in the order of the events, unit by unit and, for flow, pool by pool.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fluxgate_formats::pools::Pools;
use fluxgate_formats::{JobId, R};
use serde_json::{Value, json};

use crate::core::RestoredEvent;
use crate::inventory::parts_of;
use crate::store::{for_each_event, open_reader};

/// The content of a job's log.
#[derive(Debug, Default)]
struct Record {
    submits: u32,
    starts: u32,
    allocs: u32,
    freed: bool,
    status: Option<i64>,
    /// Type of the first fatal exception.
    fatal: Option<String>,
    clean: bool,
    overlapped: bool,
    without_r: bool,
}

/// A unit of a resource: rank, type, id.
type Unit = (u32, String, u32);

#[derive(Debug, Default)]
struct Sweep {
    records: BTreeMap<JobId, Record>,
    rs: BTreeMap<JobId, R>,
    used: BTreeMap<Unit, JobId>,
    /// The pools of this machine and the amount in use: by kind and pool, in units without a prefix.
    pools: Pools,
    flowing: BTreeMap<(usize, usize), u64>,
    overlaps: u64,
}

fn units(r: &R) -> impl Iterator<Item = Unit> {
    let mut units = Vec::new();
    for (rank, children) in parts_of(r) {
        for (kind, ids) in children {
            units.extend(ids.iter().map(|id| (rank, kind.clone(), id)));
        }
    }
    units.into_iter()
}

/// The flow to a job by its R: for each pool of the machine on the path.
fn flows(pools: &Pools, r: &R) -> Vec<((usize, usize), u64)> {
    let mut found = Vec::new();
    if pools.kinds.is_empty() {
        return found;
    }
    for of in Pools::of(r).kinds {
        let Some(kind) = pools.kinds.iter().position(|kind| kind.name == of.name) else { continue };
        let known = &pools.kinds[kind];
        for (rank, own) in of.at {
            let mut at = known.at.get(&rank).copied();
            // No path is longer than the number of pools.
            for _ in 0..known.pools.len() {
                let Some(pool) = at else { break };
                found.push(((kind, pool), of.pools[own].size));
                at = known.pools[pool].above;
            }
        }
    }
    found
}

impl Sweep {
    fn event(&mut self, event: &RestoredEvent) {
        let id = event.id;
        let context = || -> Value {
            event.context.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
        };
        let record = self.records.entry(id).or_default();
        match event.name.as_str() {
            "submit" => record.submits += 1,
            "start" => record.starts += 1,
            "alloc" => {
                record.allocs += 1;
                let Some(r) = self.rs.get(&id) else {
                    record.without_r = true;
                    return;
                };
                let mut clash = false;
                for unit in units(r) {
                    // Units that the job itself holds already are those of an allocation that was made twice.
                    if self.used.insert(unit, id).is_some() {
                        self.overlaps += 1;
                        clash = true;
                    }
                }
                let flows = flows(&self.pools, r);
                for &(pool, units) in &flows {
                    let used = self.flowing.entry(pool).or_default();
                    *used += units;
                    if *used > self.pools.kinds[pool.0].pools[pool.1].size {
                        self.overlaps += 1;
                        clash = true;
                    }
                }
                record.overlapped |= clash;
            }
            "finish" => record.status = context()["status"].as_i64().or(Some(0)),
            "exception" => {
                let context = context();
                let kind = context["type"].as_str().unwrap_or("").to_owned();
                let fatal = context["severity"].as_i64() == Some(0);
                if fatal && record.fatal.is_none() {
                    record.fatal = Some(kind.clone());
                }
                if fatal && kind == "scheduler-restart" {
                    self.release(id);
                }
            }
            "free" => self.release(id),
            "clean" => record.clean = true,
            _ => {}
        }
    }

    fn release(&mut self, id: JobId) {
        let Some(record) = self.records.get_mut(&id) else { return };
        if std::mem::replace(&mut record.freed, true) {
            return;
        }
        // A job without an allocation has nothing to release.
        let Some(r) = self.rs.get(&id).filter(|_| record.allocs > 0) else { return };
        for (pool, units) in flows(&self.pools, r) {
            let used = self.flowing.entry(pool).or_default();
            *used = used.saturating_sub(units);
        }
        for unit in units(r) {
            if self.used.get(&unit) == Some(&id) {
                self.used.remove(&unit);
            }
        }
    }

    fn report(&self, accepted: &BTreeSet<JobId>, active: &BTreeSet<JobId>) -> Value {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for name in [
            "completed",
            "failed",
            "canceled",
            "timeout",
            "denied",
            "pending",
            "running",
            "lost",
            "run_twice",
        ] {
            counts.insert(name, 0);
        }
        let mut lost_ids = Vec::new();
        let nothing = Record::default();
        for id in accepted {
            let record = self.records.get(id).unwrap_or(&nothing);
            let mut count = |name: &'static str| *counts.entry(name).or_default() += 1;
            if record.starts > 1 || record.allocs > 1 || record.overlapped {
                count("run_twice");
            }
            let ended = record.status.is_some() || record.fatal.is_some();
            let known = if record.clean { ended } else { active.contains(id) };
            // A job whose resources no R names counts as lost, unless it was ended for that reason.
            let nameless = record.without_r && record.fatal.is_none();
            if record.submits == 0 || !known || nameless {
                lost_ids.push(*id);
                count("lost");
                continue;
            }
            count(match (record.clean, record.fatal.as_deref(), record.status) {
                (false, _, _) if record.allocs > 0 => "running",
                (false, _, _) => "pending",
                (true, Some("cancel"), _) => "canceled",
                (true, Some("timeout"), _) => "timeout",
                (true, Some("alloc"), _) => "denied",
                (true, Some(_), _) => "failed",
                (true, None, Some(0)) => "completed",
                (true, None, _) => "failed",
            });
        }
        let starts: u64 = self.records.values().map(|record| u64::from(record.starts)).sum();
        lost_ids.truncate(LOST_NAMED_MAX);
        let mut report = json!({
            "submitted": accepted.len(),
            "started": starts,
            "overlaps": self.overlaps,
            "lost_ids": lost_ids,
        });
        for (name, n) in counts {
            report[name] = n.into();
        }
        report
    }
}

/// Maximum number of lost jobs that the report names.
const LOST_NAMED_MAX: usize = 20;

/// Audits a database. `active` are the jobs that the job manager knows as not ended: a job which neither ended by its
/// log nor is in `active` is lost. `machine` has the pools and their capacities.
///
/// The report is a JSON object of counts: those of the [crate](crate#the-audit), `started` (start events), `overlaps` (units and pools
/// that were given while in use) and those of the connections of schedulers. `lost_ids` names lost jobs, at most 20.
///
/// # Errors
/// The path of the database and the error of SQLite, if it cannot be read.
pub fn audit(database: &Path, active: &[JobId], machine: &R) -> Result<Value, String> {
    let fail = |e: rusqlite::Error| format!("{}: {e}", database.display());
    let mut connection = open_reader(database).map_err(fail)?;
    // One transaction, so that all data are of one moment.
    let snapshot = connection.transaction().map_err(fail)?;
    let mut sweep = Sweep { pools: Pools::of(machine), ..Sweep::default() };
    let mut accepted = BTreeSet::new();
    let mut counters = BTreeMap::new();
    let mut read = || -> rusqlite::Result<()> {
        let mut statement = snapshot.prepare("SELECT id FROM job")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            accepted.insert(JobId(row.get::<_, i64>(0)? as u64));
        }
        let mut statement = snapshot.prepare("SELECT key, value FROM value WHERE key LIKE 'job.%.R'")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (key, value): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
            let id = key.strip_prefix("job.").and_then(|k| k.strip_suffix(".R")).map(JobId::parse);
            let r = std::str::from_utf8(&value).ok().map(R::from_json);
            if let (Some(Ok(id)), Some(Ok(r))) = (id, r) {
                sweep.rs.insert(id, r);
            }
        }
        for_each_event(&snapshot, |_, event| sweep.event(&event))?;
        let mut statement = snapshot.prepare("SELECT name, n FROM counter")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            counters.insert(row.get::<_, String>(0)?, row.get::<_, i64>(1)?);
        }
        Ok(())
    };
    read().map_err(fail)?;
    let mut report = sweep.report(&accepted, &active.iter().copied().collect());
    let counter = |name: &str| counters.get(name).copied().unwrap_or(0);
    for (key, name) in [
        ("rejected", "jobs_rejected"),
        ("connections", "scheduler_connections"),
        ("dropped", "scheduler_connections_dropped"),
        ("teardowns", "scheduler_teardowns"),
        ("hellos", "hellos"),
    ] {
        report[key] = counter(name).into();
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(ranks: &str, cores: &str) -> R {
        let value = json!({
            "version": 1,
            "execution": {
                "R_lite": [{ "rank": ranks, "children": { "core": cores } }],
                "nodelist": ["node0"], "starttime": 1.0, "expiration": 0.0,
            },
        });
        R::from_value(&value).unwrap()
    }

    fn sweep(rs: &[(u64, R)], events: &[(u64, &str, &str)]) -> Sweep {
        let mut sweep = Sweep::default();
        sweep.rs.extend(rs.iter().map(|(id, r)| (JobId(*id), r.clone())));
        for (id, name, context) in events {
            let context = (!context.is_empty()).then(|| (*context).to_owned());
            sweep.event(&RestoredEvent { id: JobId(*id), time: 1.0, name: (*name).into(), context });
        }
        sweep
    }

    const LIFE: [(&str, &str); 6] = [
        ("submit", ""),
        ("alloc", ""),
        ("start", ""),
        ("finish", "{\"status\":0}"),
        ("free", ""),
        ("clean", ""),
    ];

    #[test]
    fn jobs_one_after_the_other_are_fine_and_jobs_at_a_time_are_not() {
        let rs = [(1, r("0", "0-3")), (2, r("0", "3-4"))];
        let one: Vec<_> = LIFE.iter().map(|(name, context)| (1, *name, *context)).collect();
        let two: Vec<_> = LIFE.iter().map(|(name, context)| (2, *name, *context)).collect();
        let ids = BTreeSet::from([JobId(1), JobId(2)]);
        let none = BTreeSet::new();
        let serial = sweep(&rs, &[&one[..], &two[..]].concat()).report(&ids, &none);
        assert_eq!(
            (&serial["completed"], &serial["run_twice"], &serial["lost"]),
            (&json!(2), &json!(0), &json!(0))
        );
        let mixed: Vec<_> = one.iter().zip(&two).flat_map(|(a, b)| [*a, *b]).collect();
        let mixed = sweep(&rs, &mixed).report(&ids, &none);
        assert_eq!((&mixed["overlaps"], &mixed["run_twice"]), (&json!(1), &json!(1)));
    }

    #[test]
    fn a_pool_carries_what_it_can_and_no_more() {
        let with = |ranks: &str, cores: &str, pools: Value| {
            let scheduling = json!({"writer": "fluxgate", "flow": {"power": {"unit": "W", "pools": pools}}});
            let mut of = r("0", cores);
            of.r_lite[0].rank = ranks.parse().unwrap();
            R { scheduling: Some(scheduling), ..of }
        };
        let pools = json!([{"name": "row", "size": 2, "unit": "kW"}, {"name": "rack", "size": 1500, "from": "row", "ranks": "0"},
            {"from": "row", "each": 900, "ranks": "1"}]);
        let machine = with("0-1", "0-7", pools);
        let job =
            |rank: &str, core: &str, watts: u32| with(rank, core, json!([{"each": watts, "ranks": rank}]));
        let overlaps = |rs: &[(u64, R)], events: &[(u64, &str, &str)]| {
            let mut sweep = Sweep { pools: Pools::of(&machine), ..Sweep::default() };
            sweep.rs.extend(rs.iter().map(|(id, r)| (JobId(*id), r.clone())));
            for (id, name, _) in events {
                let name = (*name).into();
                sweep.event(&RestoredEvent { id: JobId(*id), time: 1.0, name, context: None });
            }
            sweep.overlaps
        };
        let both = [(1, "alloc", ""), (2, "alloc", "")];
        let fine = [(1, job("0", "0", 1200)), (2, job("1", "1", 800))];
        assert_eq!(overlaps(&fine, &both), 0);
        let rack = [(1, job("0", "0", 800)), (2, job("0", "1", 800))];
        assert_eq!(overlaps(&rack, &both), 1);
        let row = [(1, job("0", "0", 1200)), (2, job("1", "1", 801))];
        assert_eq!(overlaps(&row, &both), 1);
        assert_eq!(overlaps(&row, &[(1, "alloc", ""), (1, "free", ""), (2, "alloc", "")]), 0);
        // A resource that was never allocated is not released.
        let again = [(3, "exception", ""), (3, "free", ""), (1, "alloc", ""), (2, "alloc", "")];
        let three = [rack[0].clone(), rack[1].clone(), (3, job("0", "2", 700))];
        assert_eq!(overlaps(&three, &again), 1);
    }

    #[test]
    fn what_is_lost_is_found() {
        let rs = [(1, r("0", "0"))];
        let all: BTreeSet<JobId> = (1..=6).map(JobId).collect();
        let events = [
            (1, "submit", ""),
            (1, "alloc", ""),
            (1, "start", ""),
            (1, "start", ""),
            (2, "submit", ""),
            (2, "alloc", ""),
            (3, "submit", ""),
            (3, "exception", "{\"type\":\"alloc\",\"severity\":0}"),
            (3, "clean", ""),
            (4, "submit", ""),
            (4, "clean", ""),
            (5, "submit", ""),
        ];
        let report = sweep(&rs, &events).report(&all, &BTreeSet::from([JobId(1), JobId(2), JobId(6)]));
        // 2 has no R, 4 ended without an end, 5 is not known any more, 6 has no log.
        assert_eq!(report["lost_ids"], json!([2, 4, 5, 6]));
        assert_eq!(
            (&report["denied"], &report["running"], &report["run_twice"]),
            (&json!(1), &json!(1), &json!(1))
        );
    }
}
