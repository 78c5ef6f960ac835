//! Memory of nodes, from the description of the machine, and the minimum that a job must have where it runs.
//!
//! The independent checks of a schedule use it. Where a request leaves the amount open, the minimum counts, so no
//! result here is too large.
//!
//! This module does not know allocations.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::Jobspec;
use fluxgate_formats::jobspec::Resource;

use crate::schedule::Row;
use crate::workload::Job;

/// Name of the resource type, in machines and in requests.
pub(crate) const MEMORY: &str = "memory";

/// Bytes of one unit: `B` with a decimal or binary prefix; 1 for any other unit, which is comparable only with itself.
fn bytes(unit: &str) -> u64 {
    let Some(prefix) = unit.strip_suffix(['B', 'b']) else { return 1 };
    let (letter, step) = match prefix.strip_suffix('i') {
        Some(letter) => (letter, 1024_u64),
        None => (prefix, 1000),
    };
    let powers = ["", "K", "M", "G", "T", "P", "E"];
    let power = powers.iter().position(|known| known.eq_ignore_ascii_case(letter)).unwrap_or(0);
    step.pow(power as u32)
}

/// The memory of nodes, by rank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    unit: String,
    /// In bytes, or in the machine's own unit where that is no unit of storage.
    ranks: BTreeMap<u32, u64>,
}

/// The minimum of a job, in the unit of [`Memory::on`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LeastMemory {
    /// On single ranks, where its request determines the rank.
    pub ranks: Vec<(u32, u64)>,
    /// On all ranks together.
    pub all: u64,
}

impl Memory {
    /// From rank, amount and unit (empty: none) of each node. With different units that are none of storage, or with and without
    /// a unit, the memory counts as unknown.
    pub fn of<'a>(nodes: impl IntoIterator<Item = (u32, u64, &'a str)>) -> Memory {
        let mut memory = Memory::default();
        for (rank, amount, unit) in nodes {
            if memory.ranks.is_empty() {
                memory.unit = unit.to_owned();
            } else if (bytes(&memory.unit) == 1 || bytes(unit) == 1) && memory.unit != unit {
                return Memory::default();
            }
            memory.ranks.insert(rank, amount.saturating_mul(bytes(unit)));
        }
        memory
    }

    /// True if no node has memory, or it is unknown.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The memory of a rank, in bytes or in the machine's own unit; 0 if the rank has none.
    pub fn on(&self, rank: u32) -> u64 {
        self.ranks.get(&rank).copied().unwrap_or(0)
    }

    /// The memory of all ranks together, in the unit of [`Memory::on`].
    pub fn total(&self) -> u64 {
        self.ranks.values().fold(0, |all, one| all.saturating_add(*one))
    }

    /// The amount of a request. A side without a unit has the other's.
    fn asked(&self, count: u64, unit: &str) -> u64 {
        let unit = if unit.is_empty() || self.unit.is_empty() { &self.unit } else { unit };
        count.saturating_mul(bytes(unit))
    }

    /// An amount in units of 1000 bytes.
    pub(crate) fn of_kb(&self, kb: u64) -> u64 {
        self.asked(kb, "kB")
    }

    /// The minimum of a complete request, on all its nodes together.
    pub(crate) fn of_request(&self, spec: &Jobspec) -> u64 {
        self.least(&spec.resources, false)
    }

    /// The memory that a job must have on the ranks of its row; `jobspecs` are the
    /// [requests](crate::workload::Workload::jobspecs) of jobs.
    pub fn due(&self, jobspecs: &[Arc<Jobspec>], job: &Job, row: &Row) -> LeastMemory {
        let brought = (job.jobspec as usize).checked_sub(1).and_then(|number| jobspecs.get(number));
        let mut due = LeastMemory::default();
        if let Some(spec) = brought {
            due.all = self.of_request(spec);
        } else {
            let each = self.of_kb(job.memory_kb);
            if job.nodes > 0 {
                due.ranks = row.ranks.iter().map(|rank| (rank, each)).collect();
            } else if let Some(cores) = &row.cores {
                due.ranks = cores.iter().map(|(rank, ids)| (*rank, each.saturating_mul(ids.len()))).collect();
            } else {
                due.all = each.saturating_mul(u64::from(job.cores));
            }
        }
        let mut ranks = row.ranks.iter();
        match (ranks.next(), ranks.next()) {
            (Some(rank), None) if due.ranks.is_empty() => due.ranks.push((rank, due.all)),
            _ if !due.ranks.is_empty() => {
                due.all = due.ranks.iter().fold(0, |all, (_, one)| all.saturating_add(*one));
            }
            _ => {}
        }
        due.ranks.retain(|(_, amount)| *amount > 0);
        due
    }

    /// The minimum of these requests: of memory in nodes, which is below a node or beside cores.
    fn least(&self, list: &[Resource], in_node: bool) -> u64 {
        let in_node = in_node || list.iter().any(|it| it.type_ == "core");
        list.iter().fold(0, |all, it| {
            // One of several alternatives is taken.
            let one = match it.type_.as_str() {
                "xor_slot" | "or_slot" => 0,
                MEMORY if in_node => self.asked(1, it.unit.as_deref().unwrap_or_default()),
                kind => self.least(&it.with, in_node || kind == "node"),
            };
            all.saturating_add(one.saturating_mul(it.count.min()))
        })
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::{Idset, JobId};

    use super::*;

    fn row(ranks: &str, cores: &[(u32, &str)]) -> Row {
        let ids = |text: &str| text.parse::<Idset>().unwrap();
        let cores =
            (!cores.is_empty()).then(|| cores.iter().map(|(rank, text)| (*rank, ids(text))).collect());
        Row { job: JobId(1), submit: 0.0, start: 0.0, end: 9.0, ranks: ids(ranks), cores }
    }

    fn job(cores: u32, nodes: u32, memory_kb: u64) -> Job {
        Job { nodes, memory_kb, ..Job::new(JobId(1), 0.0, cores, 9.0, 9.0) }
    }

    #[test]
    fn units_are_compared_in_bytes_and_without_one_as_they_are() {
        let memory = Memory::of([(0, 4, "GB"), (1, 4, "GiB")]);
        assert_eq!((memory.on(0), memory.on(1), memory.on(2)), (4_000_000_000, 4 << 30, 0));
        assert_eq!(memory.total(), 4_000_000_000 + (4 << 30));
        let due = memory.due(&[], &job(3, 0, 2), &row("0-1", &[(0, "0-1"), (1, "4")]));
        assert_eq!((due.ranks, due.all), (vec![(0, 4000), (1, 2000)], 6000));
        let bare = Memory::of([(0, 4, "")]);
        let due = bare.due(&[], &job(2, 0, 3), &row("0", &[]));
        assert_eq!((due.ranks, bare.on(0)), (vec![(0, 6)], 4));
        assert!(Memory::of([(0, 4, "GB"), (1, 4, "")]).is_empty());
    }

    #[test]
    fn whole_nodes_have_it_once_each() {
        let memory = Memory::of([(0, 4, "GB"), (1, 4, "GB")]);
        let due = memory.due(&[], &job(8, 2, 5), &row("0-1", &[(0, "0-3"), (1, "0-3")]));
        assert_eq!((due.ranks, due.all), (vec![(0, 5000), (1, 5000)], 10_000));
    }

    #[test]
    fn a_jobspec_says_it_itself() {
        let text = r#"{"version": 9999, "tasks": [{"command": ["app"], "slot": "a", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 1}}, "resources": [{"type": "node", "count": 2, "with": [
            {"type": "slot", "count": 3, "label": "a", "with": [{"type": "core", "count": 1},
            {"type": "memory", "count": 2, "unit": "GB"}]}]}, {"type": "memory", "count": 9}]}"#;
        let specs = [Arc::new(Jobspec::from_json(text).unwrap())];
        let memory = Memory::of([(0, 64, "GB"), (1, 64, "GB")]);
        let asks = Job { jobspec: 1, ..job(6, 0, 0) };
        let due = memory.due(&specs, &asks, &row("0-1", &[]));
        assert_eq!((due.ranks, due.all), (vec![], 12_000_000_000), "the nine are perhaps not in a node");
        assert_eq!(memory.due(&specs, &asks, &row("1", &[])).ranks, [(1, 12_000_000_000)]);
    }
}
