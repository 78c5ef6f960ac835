//! The form of resource sets for computing: maximal runs of consecutive ranks with equal children.
//!
//! Two sets are combined by walking both lists of runs once. The result for a pair of entries is computed once, however
//! many ranks share the pair.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{Children, R, RLite};
use crate::hostlist::Hostlist;
use crate::idset::Idset;

/// Consecutive ranks that belong to one entry.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub(super) lo: u32,
    pub(super) hi: u32,
    /// Index of the entry in the set.
    pub(super) entry: usize,
    /// The position of the host of `lo` in the node list.
    pub(super) host: usize,
}

impl Segment {
    fn len(&self) -> usize {
        (self.hi - self.lo) as usize + 1
    }
}

/// The runs of a canonical set, by rank.
pub(super) fn of(set: &R) -> Vec<Segment> {
    let mut segments = Vec::with_capacity(set.r_lite.len());
    for (entry, lite) in set.r_lite.iter().enumerate() {
        segments.extend(lite.rank.ranges().map(|range| segment(range, entry)));
    }
    segments.sort_unstable_by_key(|s| s.lo);
    let mut host = 0;
    for segment in &mut segments {
        segment.host = host;
        host += segment.len();
    }
    segments
}

/// The runs of a set of ranks, all of one entry and without hosts.
pub(super) fn of_ranks(ranks: &Idset) -> Vec<Segment> {
    ranks.ranges().map(|range| segment(range, 0)).collect()
}

fn segment(range: RangeInclusive<u32>, entry: usize) -> Segment {
    Segment { lo: *range.start(), hi: *range.end(), entry, host: 0 }
}

/// A stretch of ranks, and its entries in both sets.
pub(super) struct Stretch {
    pub(super) lo: u32,
    pub(super) hi: u32,
    /// Entry in the first set, and position of the host of `lo`.
    pub(super) a: Option<(usize, usize)>,
    /// The same in the second.
    pub(super) b: Option<(usize, usize)>,
}

/// Walks over two lists of runs together, by rank; each stretch lies in one run or none of each list.
pub(super) fn zip(a: &[Segment], b: &[Segment], mut visit: impl FnMut(Stretch)) {
    let (mut i, mut j) = (0, 0);
    // The first rank that is not visited yet.
    let mut at = 0;
    loop {
        while a.get(i).is_some_and(|s| s.hi < at) {
            i += 1;
        }
        while b.get(j).is_some_and(|s| s.hi < at) {
            j += 1;
        }
        let (x, y) = (a.get(i), b.get(j));
        let Some(lo) = x.into_iter().chain(y).map(|s| s.lo.max(at)).min() else { return };
        // Up to the next rank at which a run begins or ends.
        let edge = |s: &Segment| if s.lo > lo { s.lo - 1 } else { s.hi };
        let hi = x.into_iter().chain(y).map(edge).min().unwrap_or(lo);
        let inside =
            |s: Option<&Segment>| s.filter(|s| s.lo <= lo).map(|s| (s.entry, s.host + (lo - s.lo) as usize));
        visit(Stretch { lo, hi, a: inside(x), b: inside(y) });
        // Ids end at 2^31 - 1, so this does not overflow.
        at = hi + 1;
    }
}

/// Collects runs of ranks, by ascending rank, into canonical entries and node list.
#[derive(Default)]
pub(super) struct Builder {
    known: BTreeMap<Children, usize>,
    ranks: Vec<Idset>,
    hosts: Hostlist,
}

impl Builder {
    /// The number of the entry for `children`; none without resources.
    pub(super) fn entry(&mut self, mut children: Children) -> Option<usize> {
        children.retain(|_, ids| !ids.is_empty());
        if children.is_empty() {
            return None;
        }
        let next = self.ranks.len();
        let entry = *self.known.entry(children).or_insert(next);
        if entry == next {
            self.ranks.push(Idset::new());
        }
        Some(entry)
    }

    /// Adds `ranks` to an entry; their hosts begin at `host` of `hosts`.
    pub(super) fn push(&mut self, entry: usize, ranks: RangeInclusive<u32>, hosts: &Hostlist, host: usize) {
        let count = (ranks.end() - ranks.start()) as usize + 1;
        self.hosts.append_slice(hosts, host..host + count);
        self.ranks[entry].insert_range(ranks);
    }

    /// The entries sorted by first rank, and the hosts.
    pub(super) fn finish(self) -> (Vec<RLite>, Hostlist) {
        let mut ranks = self.ranks;
        let take = |(children, entry): (Children, usize)| RLite {
            rank: std::mem::take(&mut ranks[entry]),
            children,
        };
        let mut entries: Vec<RLite> =
            self.known.into_iter().map(take).filter(|e| !e.rank.is_empty()).collect();
        entries.sort_unstable_by_key(|entry| entry.rank.first());
        (entries, self.hosts)
    }
}
