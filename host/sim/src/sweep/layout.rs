//! The cores of a machine, numbered in one row in the order of ranks. The cores of a job on whole nodes of
//! neighbouring ranks are thus one interval.
//!
//! Must never know jobs.

use std::ops::RangeInclusive;

use fluxgate_formats::Idset;
use fluxgate_graph::CoreRun;

use crate::schedule::Cores;

/// Ids of cores of a rank.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ids<'i> {
    /// Any.
    Set(&'i Idset),
    /// Those of these intervals.
    Runs(&'i [CoreRun]),
}

impl Ids<'_> {
    /// Number of ids.
    pub(super) fn len(self) -> u64 {
        match self {
            Ids::Set(ids) => ids.len(),
            Ids::Runs(runs) => runs.iter().map(|run| u64::from(run.cores.1 - run.cores.0) + 1).sum(),
        }
    }

    fn each_range(self, mut see: impl FnMut(u32, u32)) {
        match self {
            Ids::Set(ids) => ids.ranges().for_each(|range| see(*range.start(), *range.end())),
            Ids::Runs(runs) => runs.iter().for_each(|run| see(run.cores.0, run.cores.1)),
        }
    }
}

/// Neighbouring ranks with equal ids of cores.
#[derive(Debug)]
struct Stretch<'a> {
    ranks: RangeInclusive<u32>,
    ids: &'a Idset,
    /// Number of ids.
    size: u32,
    /// Number of its first rank, and of that rank's first core.
    node: u32,
    core: u32,
}

/// Ranks of the machine that are neighbours and have equal ids of cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'l> {
    stretch: &'l Stretch<'l>,
    first: u32,
    last: u32,
}

/// The numbering; see the module.
#[derive(Debug, Default)]
pub(super) struct Layout<'a> {
    stretches: Vec<Stretch<'a>>,
    nodes: u32,
    cores: u32,
}

impl<'a> Layout<'a> {
    /// The numbering of these cores. Cores beyond the 2^32nd are ignored.
    pub(super) fn of(machine: &'a Cores) -> Layout<'a> {
        let mut layout = Layout { stretches: Vec::<Stretch<'a>>::new(), nodes: 0, cores: 0 };
        for (&rank, ids) in machine {
            let Some((size, after)) =
                u32::try_from(ids.len()).ok().and_then(|size| Some((size, layout.cores.checked_add(size)?)))
            else {
                break;
            };
            match layout.stretches.last_mut() {
                Some(last) if last.ranks.end().checked_add(1) == Some(rank) && last.ids == ids => {
                    last.ranks = *last.ranks.start()..=rank;
                }
                _ => {
                    let (node, core) = (layout.nodes, layout.cores);
                    layout.stretches.push(Stretch { ranks: rank..=rank, ids, size, node, core });
                }
            }
            layout.nodes += 1;
            layout.cores = after;
        }
        layout
    }

    /// Number of cores.
    pub(super) fn cores(&self) -> u32 {
        self.cores
    }

    /// The rank of a node, and the id of a core, by the number of the core.
    pub(super) fn place(&self, core: u32) -> (u32, u32) {
        let at = self.stretches.partition_point(|it| it.core <= core);
        let Some(it) = at.checked_sub(1).map(|at| &self.stretches[at]) else { return (0, 0) };
        let (rank, id) = ((core - it.core) / it.size.max(1), (core - it.core) % it.size.max(1));
        (it.ranks.start() + rank, it.ids.nth(u64::from(id)).unwrap_or(0))
    }

    /// The ranks, in the order of nodes.
    pub(super) fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.stretches.iter().flat_map(|it| it.ranks.clone())
    }

    /// The rank of a node, by its number.
    pub(super) fn rank(&self, node: u32) -> u32 {
        let at = self.stretches.partition_point(|it| it.node <= node);
        at.checked_sub(1).map_or(0, |at| self.stretches[at].ranks.start() + (node - self.stretches[at].node))
    }

    /// Splits neighbouring ranks into parts of the machine, in order, and those that the machine lacks, as `Err`.
    pub(super) fn parts(
        &self,
        ranks: RangeInclusive<u32>,
    ) -> impl Iterator<Item = Result<Part<'_>, RangeInclusive<u32>>> {
        let last = *ranks.end();
        let mut next = (!ranks.is_empty()).then_some(*ranks.start());
        let mut at = self.stretches.partition_point(|it| *it.ranks.end() < *ranks.start());
        std::iter::from_fn(move || {
            let first = next?;
            let stretch = self.stretches.get(at);
            let (part, end) = match stretch {
                Some(stretch) if *stretch.ranks.start() <= first => {
                    let end = last.min(*stretch.ranks.end());
                    at += 1;
                    (Ok(Part { stretch, first, last: end }), end)
                }
                other => {
                    let end = other.map_or(last, |it| last.min(it.ranks.start() - 1));
                    (Err(first..=end), end)
                }
            };
            next = (end < last).then(|| end + 1);
            Some(part)
        })
    }
}

impl Part<'_> {
    /// The ranks, first and last.
    pub(super) fn ranks(&self) -> RangeInclusive<u32> {
        self.first..=self.last
    }

    /// The nodes, by number: from, and one past the last.
    pub(super) fn nodes(&self) -> (u32, u32) {
        let node = |rank: u32| self.stretch.node + (rank - self.stretch.ranks.start());
        (node(self.first), node(self.last) + 1)
    }

    /// True if each of the ranks has these cores.
    pub(super) fn has(&self, ids: Ids<'_>) -> bool {
        match ids {
            Ids::Set(ids) => ids.is_subset(self.stretch.ids),
            Ids::Runs(runs) => runs.iter().all(|CoreRun { cores: (first, last), .. }| {
                self.stretch.ids.ranges().any(|have| have.contains(first) && have.contains(last))
            }),
        }
    }

    /// Reports the numbers of these cores on each of the ranks, as intervals (from, one past the last). Unknown cores
    /// are left out.
    pub(super) fn intervals(&self, ids: Ids<'_>, mut see: impl FnMut(u32, u32)) {
        let Stretch { ids: all, size, core, ranks, .. } = self.stretch;
        let first = |rank: u32| core + (rank - ranks.start()) * size;
        if ids.len() == u64::from(*size) && self.has(ids) {
            return see(first(self.first), first(self.last) + size);
        }
        if ids.len() == 0 {
            return;
        }
        for rank in self.ranks() {
            // Positions of the ids among those of the rank.
            let mut before = first(rank);
            for have in all.ranges() {
                ids.each_range(|first, last| {
                    let (from, to) = (first.max(*have.start()), last.min(*have.end()));
                    if from <= to {
                        see(before + (from - have.start()), before + (to - have.start()) + 1);
                    }
                });
                before += have.end() - have.start() + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(text: &str) -> Idset {
        text.parse().unwrap()
    }

    #[test]
    fn nodes_that_are_alike_are_one_interval() {
        let machine: Cores =
            (3..9).map(|rank| (rank, ids(if rank == 6 { "0,2-3" } else { "0-3" }))).collect();
        let layout = Layout::of(&machine);
        assert_eq!((layout.nodes, layout.cores(), layout.stretches.len()), (6, 23, 3));
        let mut found = Vec::new();
        for part in layout.parts(0..=7) {
            match part {
                Err(ranks) => found.push((*ranks.start(), *ranks.end(), 99)),
                Ok(part) => {
                    part.intervals(Ids::Set(&ids("0-3")), |from, to| found.push((from, to, part.nodes().0)))
                }
            }
        }
        assert_eq!(found, [(0, 2, 99), (0, 12, 0), (12, 13, 3), (13, 15, 3), (15, 19, 4)]);
        assert_eq!([0, 12, 13, 22].map(|core| layout.place(core)), [(3, 0), (6, 0), (6, 2), (8, 3)]);
    }

    proptest! {
        #[test]
        fn every_core_has_a_number_of_its_own(
            machine in prop::collection::btree_map(0u32..12, prop::collection::btree_set(0u32..5, 1..4), 0..9),
            (first, more) in (0u32..12, 0u32..12),
            wanted in prop::collection::btree_set(0u32..6, 0..5),
        ) {
            let machine: Cores = machine.into_iter().map(|(rank, ids)| (rank, ids.into_iter().collect())).collect();
            let layout = Layout::of(&machine);
            let all: Vec<(u32, u32)> = machine.iter().flat_map(|(rank, ids)| ids.iter().map(|id| (*rank, id))).collect();
            prop_assert_eq!((0..layout.cores()).map(|core| layout.place(core)).collect::<Vec<_>>(), all.clone());
            let wanted: Idset = wanted.into_iter().collect();
            let (mut found, mut strange) = (Vec::new(), Vec::new());
            for part in layout.parts(first..=first + more) {
                match part {
                    Ok(part) => {
                        part.intervals(Ids::Set(&wanted), |from, to| found.extend((from..to).map(|core| layout.place(core))));
                        for rank in part.ranks() {
                            prop_assert_eq!(part.has(Ids::Set(&wanted)), wanted.is_subset(&machine[&rank]));
                            let (mut runs, mut told) = (Vec::new(), Vec::new());
                            Ids::Set(&wanted).each_range(|first, last| runs.push(CoreRun { ranks: (rank, rank), cores: (first, last) }));
                            prop_assert_eq!(part.has(Ids::Runs(&runs)), part.has(Ids::Set(&wanted)));
                            part.intervals(Ids::Runs(&runs), |from, to| told.extend((from..to).map(|core| layout.place(core))));
                            let mut set = Vec::new();
                            part.intervals(Ids::Set(&wanted), |from, to| set.extend((from..to).map(|core| layout.place(core))));
                            prop_assert_eq!(told, set);
                        }
                        let (from, to) = part.nodes();
                        let ranks: Vec<u32> = machine.keys().copied().collect();
                        prop_assert_eq!(&ranks[from as usize..to as usize], part.ranks().collect::<Vec<_>>());
                        prop_assert_eq!((from..to).map(|node| layout.rank(node)).collect::<Vec<_>>(), part.ranks().collect::<Vec<_>>());
                    }
                    Err(ranks) => strange.extend(ranks),
                }
            }
            let here = |rank: &u32| (first..=first + more).contains(rank);
            let expected = all.into_iter().filter(|(rank, id)| here(rank) && wanted.contains(*id)).collect::<Vec<_>>();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(strange, (first..=first + more).filter(|rank| !machine.contains_key(rank)).collect::<Vec<_>>());
        }
    }
}
