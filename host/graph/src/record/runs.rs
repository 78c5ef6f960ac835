//! The cores of a job as intervals, as R has them, for readers that need neither names nor entries by content.
//!
//! This module must never know how resources were chosen.

use fluxgate_formats::JobId;

use crate::live::resources::Resources;
use crate::live::take::{self, Take, What};

/// Ranks that are neighbours, first and last, each with these cores, the first and last id (RFC 20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreRun {
    /// First and last rank.
    pub ranks: (u32, u32),
    /// First and last id of a core.
    pub cores: (u32, u32),
}

impl Resources {
    /// Appends the cores that a job holds to a list, in the order of the graph's nodes; none for a job that holds nothing, and for cores that
    /// are not members of a vertex but units of one.
    pub fn append_core_runs(&self, id: JobId, runs: &mut Vec<CoreRun>) {
        let Some(allocation) = self.allocation(id) else { return };
        let (graph, begin) = (self.graph(), runs.len());
        // The last interval is of one node, or of neighbours that have no other.
        let mut single = false;
        for (node, takes) in take::nodes(&allocation.takes) {
            let rank = graph.nodes[node as usize].rank;
            let first = runs.len();
            takes.iter().for_each(|take| self.add_runs(rank, take, runs));
            let alone = runs.len() == first + 1;
            if single && alone && first > begin {
                let (new, last) = (runs[first], &mut runs[first - 1]);
                if last.cores == new.cores && last.ranks.1.checked_add(1) == Some(rank) {
                    last.ranks.1 = rank;
                    runs.pop();
                }
            }
            single = alone;
        }
    }

    fn add_runs(&self, rank: u32, take: &Take, runs: &mut Vec<CoreRun>) {
        let graph = self.graph();
        let What::Members(bits) = &take.what else { return };
        if graph.vertices[take.vertex as usize].type_ != graph.core {
            return;
        }
        let begin = runs.len();
        for (place, &word) in bits.words().iter().enumerate() {
            let (mut rest, base) = (word, place as u32 * 64);
            while rest != 0 {
                let start = rest.trailing_zeros();
                let end = start + (rest >> start).trailing_ones();
                rest = if end < 64 { rest & (u64::MAX << end) } else { 0 };
                // Members in order need not have consecutive ids.
                let [first, last] = [start, end - 1].map(|member| graph.r_id(take.vertex, base + member));
                if last.checked_sub(first) == Some(end - 1 - start) {
                    join(runs, begin, CoreRun { ranks: (rank, rank), cores: (first, last) });
                    continue;
                }
                for id in (start..end).map(|member| graph.r_id(take.vertex, base + member)) {
                    join(runs, begin, CoreRun { ranks: (rank, rank), cores: (id, id) });
                }
            }
        }
    }
}

/// Adds an interval of one vertex, whose intervals begin at `begin`.
fn join(runs: &mut Vec<CoreRun>, begin: usize, new: CoreRun) {
    match runs[begin..].last_mut() {
        Some(last) if last.cores.1.checked_add(1) == Some(new.cores.0) => last.cores.1 = new.cores.1,
        _ => runs.push(new),
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::rset::R;
    use fluxgate_formats::{Idset, jobspec};
    use proptest::prelude::*;

    use super::*;
    use crate::Placement;

    /// Rank and core of everything in intervals.
    fn listed(runs: &[CoreRun]) -> Vec<(u32, u32)> {
        let cores = |run: &CoreRun| {
            let cores = run.cores;
            (run.ranks.0..=run.ranks.1)
                .flat_map(move |rank| (cores.0..=cores.1).map(move |core| (rank, core)))
        };
        let mut all: Vec<(u32, u32)> = runs.iter().flat_map(cores).collect();
        all.sort_unstable();
        all
    }

    /// The cores of a job, which are the same behind those of another.
    fn core_runs(machine: &Resources, id: JobId) -> Vec<CoreRun> {
        let mut runs = Vec::new();
        machine.append_core_runs(id, &mut runs);
        let alone = runs.clone();
        machine.append_core_runs(id, &mut runs);
        assert_eq!(runs, [&alone[..], &alone].concat());
        alone
    }

    proptest! {
        #[test]
        fn intervals_say_what_r_says(
            ids in prop::collection::vec(prop::collection::btree_set(0u32..70, 1..9), 1..6),
            steps in prop::collection::vec((0u64..6, 1u32..12, any::<bool>()), 1..30),
        ) {
            let entries = ids.iter().enumerate().map(|(rank, ids)| {
                let ids: Idset = ids.iter().copied().collect();
                let children = [("core".to_owned(), ids)].into_iter().collect();
                (rank as u32, format!("n{rank}"), children)
            });
            let mut machine = Resources::from_r(&R::from_nodes(entries)).unwrap();
            machine.set_up(&(0..ids.len() as u32).collect());
            for (id, slots, high) in steps {
                let id = JobId(id);
                if machine.release(id, None).is_ok() {
                    prop_assert_eq!(core_runs(&machine, id), []);
                    continue;
                }
                let job = jobspec::Simple { slots, cores_per_slot: 1, duration: 60.0, ..Default::default() }.build();
                let request = machine.compile(&job).unwrap();
                let placement = if high { Placement::High } else { Placement::First };
                if let Ok(found) = machine.match_now(&request, 0.0, 60.0, placement) {
                    machine.allocate_owned(id, found, 0.0, 60.0).unwrap();
                    let r = machine.allocation_r(id).unwrap();
                    let mut expected: Vec<(u32, u32)> = Vec::new();
                    for entry in &r.r_lite {
                        let cores = entry.children["core"].iter().collect::<Vec<_>>();
                        expected.extend(entry.rank.iter().flat_map(|rank| cores.iter().map(move |core| (rank, *core))));
                    }
                    expected.sort_unstable();
                    prop_assert_eq!(listed(&core_runs(&machine, id)), expected);
                }
            }
        }
    }

    #[test]
    fn neighbours_with_equal_cores_are_one_interval() {
        let text = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-9","children":{"core":"0-7"}}],
            "nodelist":["n[0-9]"],"starttime":0,"expiration":0}}"#;
        let mut machine = Resources::from_r(&R::from_json(text).unwrap()).unwrap();
        machine.set_up(&"0-9".parse().unwrap());
        let mut starts = |id, slots| {
            let job =
                jobspec::Simple { slots, cores_per_slot: 1, duration: 60.0, ..Default::default() }.build();
            let request = machine.compile(&job).unwrap();
            let found = machine.match_now(&request, 0.0, 60.0, Placement::First).unwrap();
            machine.allocate_owned(JobId(id), found, 0.0, 60.0).unwrap();
            core_runs(&machine, JobId(id)).iter().map(|run| (run.ranks, run.cores)).collect::<Vec<_>>()
        };
        assert_eq!(starts(1, 3), [((0, 0), (0, 2))]);
        assert_eq!(starts(2, 70), [((0, 0), (3, 7)), ((1, 8), (0, 7)), ((9, 9), (0, 0))]);
    }
}
