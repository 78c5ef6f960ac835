//! Channeled pools (RFC 4): flow such as power or bandwidth, from a source through pools to nodes.
//!
//! A subsystem beside containment is a forest of pools. Each pool has a capacity, and at most one pool feeds a node.
//! Flow to a node is debited from its pool and from every pool above it, or not at all. The free units of each pool
//! stand in the ledger beside the other vertices above nodes ([`Graph::upper`](crate::layout::graph::Graph::upper))
//! and in every view of the future. A request without flow never reads them.
//!
//! This module must never know the kind of flow, or jobs.

pub(crate) mod write;

use std::collections::BTreeMap;

use crate::description::flow::{Channels, Found};
use crate::description::limits::SIZE_MAX;
use crate::description::names::{Name, Names};
use crate::description::units;
use crate::layout::vertex::NONE;

/// The number in the ledger of a pool without free units. A recovered job keeps its flow even if the capacity is
/// smaller now; the number is then below this one.
pub(crate) const EMPTY: u64 = 1 << 62;

/// An amount of flow to one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flow {
    pub(crate) node: u32,
    /// The pool that feeds the node, by its position in `Graph::upper`.
    pub(crate) pool: u32,
    /// Units without a prefix.
    pub(crate) units: u64,
}

/// One subsystem.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) name: Name,
    /// The unit of its pools, and of requests that name no unit; may be empty.
    pub(crate) unit: Name,
    /// Units of the ledger in one such unit.
    pub(crate) scale: u64,
    /// The pool that feeds each node, or [`NONE`].
    pub(crate) entry: Vec<u32>,
    /// Pools that no other pool feeds.
    pub(crate) sources: Vec<u32>,
    /// Why jobs cannot get flow of this subsystem.
    pub(crate) refused: Option<String>,
}

/// A pool.
#[derive(Debug, Clone, Copy)]
struct Hop {
    /// The pool that feeds it, by position in `Graph::upper`, or [`NONE`].
    above: u32,
    kind: u32,
    size: u64,
}

/// All subsystems that may carry flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flows {
    pub(crate) kinds: Vec<Kind>,
    /// Position of the first pool in `Graph::upper`.
    first: u32,
    hops: Vec<Hop>,
}

impl Flows {
    /// The pools that were found: the first stands at `first` in `Graph::upper`, the others follow in order; `node` is
    /// the number of a vertex that is one of `nodes` nodes.
    pub(crate) fn new(found: Channels, first: u32, nodes: usize, node: impl Fn(u32) -> Option<u32>) -> Flows {
        let at: BTreeMap<u32, u32> = found.carriers.keys().copied().zip(first..).collect();
        let position = |pool: u32| at.get(&pool).copied().unwrap_or(NONE);
        let carriers = found.carriers.values();
        let hops = carriers
            .map(|it| Hop { above: it.above.map_or(NONE, position), kind: it.kind, size: it.size })
            .collect();
        let mut sources: Vec<Vec<u32>> = vec![Vec::new(); found.kinds.len()];
        for (pool, it) in found.carriers.iter().filter(|(_, it)| it.above.is_none()) {
            sources[it.kind as usize].push(position(*pool));
        }
        let kind = |(found, sources): (Found, Vec<u32>)| {
            let mut entry = Vec::new();
            if found.refused.is_none() {
                entry.resize(nodes, NONE);
            }
            for &(consumer, pool) in &found.entries {
                if let Some(slot) = node(consumer).and_then(|n| entry.get_mut(n as usize)) {
                    *slot = position(pool);
                }
            }
            let Found { name, unit, scale, refused, .. } = found;
            Kind { name, unit, scale, entry, sources, refused }
        };
        Flows { kinds: found.kinds.into_iter().zip(sources).map(kind).collect(), first, hops }
    }

    fn hop(&self, at: u32) -> Option<&Hop> {
        self.hops.get(at.checked_sub(self.first)? as usize)
    }

    /// The number in the ledger of an idle pool; `None` for a vertex that is not a pool of flow.
    pub(crate) fn idle(&self, at: u32) -> Option<u64> {
        self.hop(at).map(|hop| EMPTY + hop.size)
    }

    /// A pool, and all pools that feed it.
    pub(crate) fn up(&self, pool: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(pool), |at| self.hop(*at).map(|hop| hop.above))
            .take_while(|at| *at != NONE)
    }

    /// The pools of a subsystem, with what each can carry.
    pub(crate) fn pools(&self, kind: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
        let of = move |hop: &&(usize, &Hop)| hop.1.kind as usize == kind;
        let at = |(index, hop): (usize, &Hop)| (self.first + index as u32, hop.size);
        self.hops.iter().enumerate().filter(move |hop| of(&hop)).map(at)
    }

    /// The pool that feeds a pool.
    pub(crate) fn above(&self, at: u32) -> Option<u32> {
        self.hop(at).map(|hop| hop.above).filter(|above| *above != NONE)
    }

    /// The subsystem of a pool.
    pub(crate) fn kind_of(&self, at: u32) -> Option<usize> {
        self.hop(at).map(|hop| hop.kind as usize)
    }

    /// The subsystem of this name, whether it can carry flow or not.
    pub(crate) fn find(&self, name: Name) -> Option<(usize, &Kind)> {
        self.kinds.iter().enumerate().find(|(_, kind)| kind.name == name)
    }

    /// How many pools there are.
    pub(crate) fn len(&self) -> usize {
        self.hops.len()
    }

    /// Why some subsystems are not used.
    pub(crate) fn refused<'a>(&'a self, names: &'a Names) -> impl Iterator<Item = String> + 'a {
        self.kinds
            .iter()
            .filter_map(|kind| Some(format!("{}: {}", names.text(kind.name), kind.refused.as_ref()?)))
    }
}

impl Kind {
    /// An amount of a unit in units of the ledger; `None` when the unit cannot be compared, or the amount is too large.
    pub(crate) fn amount(&self, names: &Names, count: u64, unit: &str) -> Option<u64> {
        let own = names.text(self.unit);
        let factor = if unit.is_empty() || own.is_empty() || unit == own {
            self.scale
        } else {
            let (base, factor) = units::flowing(unit)?;
            let (ours, _) = units::flowing(own)?;
            (base == ours).then_some(factor)?
        };
        count.checked_mul(factor).filter(|n| *n <= SIZE_MAX)
    }

    /// An amount of the ledger, in the largest unit in which it is a whole number.
    pub(crate) fn counted<'a>(&self, names: &'a Names, units: u64) -> (u64, &'a str) {
        let own = names.text(self.unit);
        match units::flowing(own) {
            Some((base, _)) if !units.is_multiple_of(self.scale) => (units, base),
            _ => (units / self.scale.max(1), own),
        }
    }

    /// The same as text.
    pub(crate) fn said(&self, names: &Names, units: u64) -> String {
        match self.counted(names, units) {
            (count, "") => count.to_string(),
            (count, unit) => format!("{count} {unit}"),
        }
    }
}

/// Headroom of a pool: the units it has left.
pub(crate) fn headroom(state: u64) -> u64 {
    state.saturating_sub(EMPTY)
}

/// Takes units of a pool; false, and nothing done, when too few are left.
pub(crate) fn debit(state: &mut u64, units: u64) -> bool {
    let enough = headroom(*state) >= units;
    if enough {
        *state -= units;
    }
    enough
}

/// Debits a pool even if it has too few free units.
pub(crate) fn force(state: &mut u64, units: u64) {
    *state = state.saturating_sub(units);
}

/// Returns units to a pool.
pub(crate) fn credit(state: &mut u64, units: u64) {
    *state = state.saturating_add(units);
}

/// The flows, with those of equal node and pool added up.
pub(crate) fn merged(flows: impl IntoIterator<Item = Flow>) -> Vec<Flow> {
    let mut all: Vec<Flow> = flows.into_iter().collect();
    all.sort_unstable();
    all.dedup_by(|b, a| {
        let same = (a.node, a.pool) == (b.node, b.pool);
        if same {
            a.units = a.units.saturating_add(b.units);
        }
        same
    });
    all
}
