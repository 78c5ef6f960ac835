//! Resource sets as sets: union, difference, intersection, and the renumbering of a child instance.

use std::collections::BTreeMap;

use super::segments::{self, Builder, Stretch};
use super::{Children, MergeError, R};
use crate::hostlist::Hostlist;
use crate::idset::Idset;

impl R {
    /// The set of single nodes: rank, host name and children of each. The ranks may come in any order; of two nodes
    /// with one rank the first one is kept. Nodes without resources, and ranks above [`MAX_ID`](crate::idset::MAX_ID), are left out.
    pub fn from_nodes<S: AsRef<str>>(nodes: impl IntoIterator<Item = (u32, S, Children)>) -> R {
        let mut nodes: Vec<_> = nodes.into_iter().filter(|node| node.0 <= crate::idset::MAX_ID).collect();
        nodes.sort_by_key(|node| node.0);
        nodes.dedup_by_key(|node| node.0);
        let hosts: Hostlist = nodes.iter().map(|node| node.1.as_ref()).collect();
        let mut builder = Builder::default();
        for (place, (rank, _, children)) in nodes.into_iter().enumerate() {
            if let Some(entry) = builder.entry(children) {
                builder.push(entry, rank..=rank, &hosts, place);
            }
        }
        let (r_lite, nodelist) = builder.finish();
        R { r_lite, nodelist, ..R::default() }
    }

    /// The same set in canonical form, for a set built from entries that share no rank.
    #[must_use]
    pub fn canonical(&self) -> R {
        self.combine(&R::default(), |a, _| a.cloned().unwrap_or_default())
    }

    /// The resources in `self` and not in `other`. Times, slots and `scheduling` are those of `self`, also in the other
    /// operations; properties are restricted to the remaining ranks.
    #[must_use]
    pub fn diff(&self, other: &R) -> R {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => each(a, b, Idset::difference),
            (a, _) => a.cloned().unwrap_or_default(),
        })
    }

    /// The resources in both.
    #[must_use]
    pub fn intersect(&self, other: &R) -> R {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => each(a, b, Idset::intersection),
            _ => Children::new(),
        })
    }

    /// The resources in either. When both name a rank, its host name is that of `self`; the rank has the properties of
    /// both.
    #[must_use]
    pub fn union(&self, other: &R) -> R {
        let mut sum = self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => join(a, b),
            (a, b) => a.or(b).cloned().unwrap_or_default(),
        });
        let ranks = sum.ranks();
        for (name, more) in &other.properties {
            let has = sum.properties.entry(name.clone()).or_default();
            *has = has.union(&more.intersection(&ranks));
        }
        sum.properties.retain(|_, ranks| !ranks.is_empty());
        sum
    }

    /// The [`union`](Self::union) of many sets, in time that grows with the number of their different runs of ranks, times its
    /// logarithm. Without any set it is empty.
    #[must_use]
    pub fn union_all(sets: impl IntoIterator<Item = R>) -> R {
        let mut sets: Vec<R> = sets.into_iter().collect();
        while sets.len() > 1 {
            let mut pairs = sets.into_iter();
            let mut sums = Vec::with_capacity(pairs.len().div_ceil(2));
            while let Some(one) = pairs.next() {
                sums.push(match pairs.next() {
                    Some(other) => one.union(&other),
                    None => one,
                });
            }
            sets = sums;
        }
        sets.pop().unwrap_or_default()
    }

    /// The union of two sets that must have no resource in common and agree about the hosts of common ranks.
    ///
    /// # Errors
    /// [`MergeError`]: the first rank on which both hold a resource, or have different host names.
    pub fn append(&self, other: &R) -> Result<R, MergeError> {
        let mut wrong = None;
        segments::zip(&segments::of(self), &segments::of(other), |stretch| {
            if let (Some(a), Some(b), None) = (stretch.a, stretch.b, &wrong) {
                wrong = self.clash(other, &stretch, a, b);
            }
        });
        wrong.map_or_else(|| Ok(self.union(other)), Err)
    }

    fn clash(&self, other: &R, at: &Stretch, a: (usize, usize), b: (usize, usize)) -> Option<MergeError> {
        let (mine, theirs) = (&self.r_lite[a.0].children, &other.r_lite[b.0].children);
        for (type_, ids) in mine {
            let ids = theirs.get(type_).map(|more| ids.intersection(more)).unwrap_or_default();
            if !ids.is_empty() {
                return Some(MergeError::Overlap { rank: at.lo, type_: type_.clone(), ids });
            }
        }
        (0..=(at.hi - at.lo)).find_map(|step| {
            let one = self.nodelist.nth(a.1 + step as usize).unwrap_or_default();
            let other = other.nodelist.nth(b.1 + step as usize).unwrap_or_default();
            (one != other).then_some(MergeError::Host { rank: at.lo + step, one, other })
        })
    }

    /// True when everything in `other` is in `self` too; host names and properties do not count.
    pub fn covers(&self, other: &R) -> bool {
        other.diff(self).is_empty()
    }

    /// True when the two have no resource in common.
    pub fn is_disjoint(&self, other: &R) -> bool {
        self.intersect(other).is_empty()
    }

    /// The resources on the given ranks.
    #[must_use]
    pub fn subset(&self, ranks: &Idset) -> R {
        let mut builder = Builder::default();
        let entries: Vec<_> = self.r_lite.iter().map(|entry| builder.entry(entry.children.clone())).collect();
        segments::zip(&segments::of(self), &segments::of_ranks(ranks), |stretch| {
            if let (Some((entry, host)), Some(_)) = (stretch.a, stretch.b)
                && let Some(entry) = entries[entry]
            {
                builder.push(entry, stretch.lo..=stretch.hi, &self.nodelist, host);
            }
        });
        self.with_parts(builder)
    }

    /// The set as a child instance sees it: ranks, also those of properties, numbered from 0 in their order and the cores of each rank
    /// too; gpus keep their numbers, `scheduling` stays as it is (RFC 20).
    #[must_use]
    pub fn remap(&self) -> R {
        let ranks = self.ranks();
        // Positions are below 2^31, as ranks are.
        let place = |rank: u32| ranks.position(rank).map(|n| n as u32);
        let mut out = self.clone();
        for entry in &mut out.r_lite {
            entry.rank =
                entry.rank.ranges().filter_map(|r| Some(place(*r.start())?..=place(*r.end())?)).collect();
            if let Some(cores) = entry.children.get_mut("core").filter(|cores| !cores.is_empty()) {
                *cores = Idset::from(0..=(cores.len() - 1) as u32);
            }
        }
        for set in out.properties.values_mut() {
            *set = set.intersection(&ranks).iter().filter_map(place).collect();
        }
        out.canonical()
    }

    /// Walks over both sets; on each rank keeps the result of `pick` for the children in both.
    fn combine(&self, other: &R, pick: impl Fn(Option<&Children>, Option<&Children>) -> Children) -> R {
        let mut builder = Builder::default();
        let mut made = BTreeMap::new();
        segments::zip(&segments::of(self), &segments::of(other), |stretch| {
            let (a, b) = (stretch.a.map(|a| a.0), stretch.b.map(|b| b.0));
            let entry = *made.entry((a, b)).or_insert_with(|| {
                let of =
                    |set: &'_ R, entry: Option<usize>| entry.map(|entry| set.r_lite[entry].children.clone());
                builder.entry(pick(of(self, a).as_ref(), of(other, b).as_ref()))
            });
            let Some(entry) = entry else { return };
            let ranks = stretch.lo..=stretch.hi;
            match (stretch.a, stretch.b) {
                (Some((_, host)), _) => builder.push(entry, ranks, &self.nodelist, host),
                (None, Some((_, host))) => builder.push(entry, ranks, &other.nodelist, host),
                (None, None) => {}
            }
        });
        self.with_parts(builder)
    }

    /// `self` with other resources, and properties restricted to their ranks.
    fn with_parts(&self, parts: Builder) -> R {
        let (r_lite, nodelist) = parts.finish();
        let mut out = R {
            r_lite,
            nodelist,
            starttime: self.starttime,
            expiration: self.expiration,
            nslots: self.nslots,
            properties: BTreeMap::new(),
            scheduling: self.scheduling.clone(),
            graph: self.graph.clone(),
        };
        if !self.properties.is_empty() {
            let ranks = out.ranks();
            let cut = self.properties.iter().map(|(name, set)| (name.clone(), set.intersection(&ranks)));
            out.properties = cut.filter(|(_, set)| !set.is_empty()).collect();
        }
        out
    }
}

/// `op` on the ids of each type of `a`; a type that `b` lacks counts as the empty set.
fn each(a: &Children, b: &Children, op: impl Fn(&Idset, &Idset) -> Idset) -> Children {
    let nothing = Idset::new();
    a.iter().map(|(type_, ids)| (type_.clone(), op(ids, b.get(type_).unwrap_or(&nothing)))).collect()
}

/// All ids of both.
pub(super) fn join(a: &Children, b: &Children) -> Children {
    let mut sum = a.clone();
    for (type_, ids) in b {
        let has = sum.entry(type_.clone()).or_default();
        *has = has.union(ids);
    }
    sum
}
