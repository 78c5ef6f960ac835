//! Decides which subsystems carry flow: those whose edges form a forest of pools that leads to nodes. Any other
//! subsystem is kept as it was loaded, with the reason why it carries no flow.
//!
//! This module must never know a file format.

use std::collections::{BTreeMap, BTreeSet};

use crate::description::limits::{DEPTH_MAX, SIZE_MAX};
use crate::description::names::{Name, Names};
use crate::description::units;

/// Most subsystems that are examined; others carry no flow.
const SUBSYSTEMS_MAX: usize = 64;
/// Types that are never pools of flow, because they are allocated as resources.
const COUNTED: [&str; 2] = ["core", "gpu"];

/// A vertex on or at the end of edges of flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) type_: Name,
    pub(crate) basename: Name,
    pub(crate) name: Name,
    pub(crate) unit: Name,
    pub(crate) size: u64,
    pub(crate) id: Option<u32>,
    /// Number of identical pools in this vertex.
    pub(crate) members: u32,
}

/// The vertices of a machine by number, with their containment.
pub(crate) struct Parts<'a> {
    pub(crate) names: &'a Names,
    pub(crate) piece: &'a dyn Fn(u32) -> Piece,
    /// Containment parent.
    pub(crate) parent: &'a dyn Fn(u32) -> Option<u32>,
    /// True if the vertex contains others.
    pub(crate) contains: &'a dyn Fn(u32) -> bool,
    pub(crate) is_node: &'a dyn Fn(u32) -> bool,
}

/// An edge: from, to, type.
type Link = (u32, u32, Name);

/// A subsystem, in numbers of pools.
pub(crate) struct Found {
    pub(crate) name: Name,
    pub(crate) unit: Name,
    pub(crate) scale: u64,
    /// Each node, with the pool that feeds it.
    pub(crate) entries: Vec<(u32, u32)>,
    pub(crate) refused: Option<String>,
}

/// A pool that carries flow.
pub(crate) struct Carrier {
    pub(crate) kind: u32,
    pub(crate) above: Option<u32>,
    pub(crate) size: u64,
}

/// The subsystems found. Pools that carry flow are not part of the containment tree.
#[derive(Default)]
pub(crate) struct Channels {
    pub(crate) kinds: Vec<Found>,
    pub(crate) carriers: BTreeMap<u32, Carrier>,
}

impl Channels {
    /// Finds the subsystems that carry flow; an edge is given as source, target, type and subsystem.
    pub(crate) fn of(parts: &Parts<'_>, all: impl Iterator<Item = (u32, u32, Name, Name)>) -> Channels {
        let mut channels = Channels::default();
        let mut edges: BTreeMap<Name, Vec<Link>> = BTreeMap::new();
        for (from, to, type_, subsystem) in all {
            if edges.len() < SUBSYSTEMS_MAX || edges.contains_key(&subsystem) {
                edges.entry(subsystem).or_default().push((from, to, type_));
            }
        }
        for (name, edges) in edges {
            let one = One::read(parts, name, &edges);
            let found = match one.and_then(|one| channels.add(parts, name, &one)) {
                Ok(found) => found,
                Err(why) => {
                    Found { name, unit: Name::EMPTY, scale: 1, entries: Vec::new(), refused: Some(why) }
                }
            };
            channels.kinds.push(found);
        }
        channels
    }

    /// True if this pool carries flow.
    pub(crate) fn carries(&self, pool: u32) -> bool {
        self.carriers.contains_key(&pool)
    }

    /// The pools that carry flow, in order.
    pub(crate) fn carriers(&self) -> impl Iterator<Item = u32> + '_ {
        self.carriers.keys().copied()
    }

    /// Why some subsystems carry no flow.
    pub(crate) fn refused<'a>(&'a self, names: &'a Names) -> impl Iterator<Item = String> + 'a {
        let kinds = self.kinds.iter();
        kinds.filter_map(|kind| Some(format!("{}: {}", names.text(kind.name), kind.refused.as_ref()?)))
    }

    fn add(&mut self, parts: &Parts<'_>, name: Name, one: &One) -> Result<Found, String> {
        let kind = self.kinds.len() as u32;
        if let Some(both) = one.carriers.iter().find(|pool| self.carries(**pool)) {
            return Err(format!("{} is part of another subsystem", text(parts, *both)));
        }
        let (unit, scale, sizes) = one.sizes(parts)?;
        let entries = one.entries(parts)?;
        for (&pool, size) in one.carriers.iter().zip(sizes) {
            let above = one.source.get(&pool).copied();
            self.carriers.insert(pool, Carrier { kind, above, size });
        }
        Ok(Found { name, unit, scale, entries, refused: None })
    }
}

/// The edges of one subsystem.
struct One {
    carriers: BTreeSet<u32>,
    /// The source of the edge to each vertex.
    source: BTreeMap<u32, u32>,
    nodes: BTreeSet<u32>,
}

impl One {
    fn read(parts: &Parts<'_>, name: Name, edges: &[Link]) -> Result<One, String> {
        let mut one = One { carriers: BTreeSet::new(), source: BTreeMap::new(), nodes: BTreeSet::new() };
        for &(from, to, type_) in edges {
            // The opposite of an edge that is listed too.
            let (from, to) = match parts.names.text(type_).eq_ignore_ascii_case("in") {
                true => (to, from),
                false => (from, to),
            };
            for v in [from, to] {
                match (parts.is_node)(v) {
                    true => one.nodes.insert(v),
                    false => one.carriers.insert(v),
                };
            }
            if (parts.is_node)(from) {
                return Err(format!("{} is a node, and flow would pass it", text(parts, from)));
            }
            if one.source.insert(to, from).is_some_and(|other| other != from) {
                return Err(format!("two edges lead to {}; pools of flow form a tree", text(parts, to)));
            }
        }
        for &pool in &one.carriers {
            let it = (parts.piece)(pool);
            let type_ = parts.names.text(it.type_);
            let why = if (parts.contains)(pool) {
                "contains others"
            } else if COUNTED.contains(&type_) || it.type_ == name {
                "is given away by its own type"
            } else if it.members != 1 {
                "is several"
            } else {
                continue;
            };
            return Err(format!("{} {why}, so it can not carry flow", text(parts, pool)));
        }
        for &pool in &one.carriers {
            let above = |v: &u32| one.source.get(v).copied();
            if std::iter::successors(Some(pool), above).nth(DEPTH_MAX as usize).is_some() {
                return Err(format!("{} feeds itself, or lies too deep", text(parts, pool)));
            }
        }
        Ok(one)
    }

    /// The unit of a request without unit, its scale, and the capacity of each pool in units without a prefix.
    fn sizes(&self, parts: &Parts<'_>) -> Result<(Name, u64, Vec<u64>), String> {
        let unit_of = |pool: u32| (parts.piece)(pool).unit;
        let sources = self.carriers.iter().filter(|pool| !self.source.contains_key(pool));
        let named = |pool: &u32| unit_of(*pool) != Name::EMPTY;
        let unit = sources
            .copied()
            .find(named)
            .or_else(|| self.carriers.iter().copied().find(named))
            .map_or(Name::EMPTY, unit_of);
        let ours = units::flowing(parts.names.text(unit));
        let scale = ours.map_or(1, |(_, factor)| factor);
        let size = |pool: &u32| {
            let it = (parts.piece)(*pool);
            let factor = if it.unit == unit || it.unit == Name::EMPTY {
                Some(scale)
            } else {
                let theirs = units::flowing(parts.names.text(it.unit));
                theirs.zip(ours).filter(|(a, b)| a.0 == b.0).map(|(theirs, _)| theirs.1)
            };
            let Some(factor) = factor else {
                let [a, b] = [unit, it.unit].map(|name| parts.names.text(name));
                return Err(format!("{} counts in {b}, others in {a}", text(parts, *pool)));
            };
            it.size
                .checked_mul(factor)
                .filter(|n| *n <= SIZE_MAX)
                .ok_or_else(|| format!("{} has more than {SIZE_MAX} units", text(parts, *pool)))
        };
        Ok((unit, scale, self.carriers.iter().map(size).collect::<Result<_, _>>()?))
    }

    /// Every node with the pool that feeds it: a pool with an edge to it, or one inside it.
    fn entries(&self, parts: &Parts<'_>) -> Result<Vec<(u32, u32)>, String> {
        let mut entries: BTreeMap<u32, u32> = BTreeMap::new();
        let inside = self.carriers.iter().filter_map(|&pool| Some((node_of(parts, pool)?, pool)));
        // In a chain of pools inside a node the first counts.
        let first = inside.filter(|(node, pool)| {
            self.source.get(pool).and_then(|above| node_of(parts, *above)) != Some(*node)
        });
        let direct = self.nodes.iter().filter_map(|node| Some((*node, *self.source.get(node)?)));
        let direct = direct.filter(|(node, pool)| node_of(parts, *pool) != Some(*node));
        for (node, pool) in first.chain(direct) {
            if entries.insert(node, pool).is_some_and(|other| other != pool) {
                return Err(format!("{} hangs on two pools; one is accepted", text(parts, node)));
            }
        }
        Ok(entries.into_iter().collect())
    }
}

/// The node that contains a pool.
fn node_of(parts: &Parts<'_>, pool: u32) -> Option<u32> {
    let above = |v: &u32| (parts.parent)(*v);
    std::iter::successors(Some(pool), above).take(DEPTH_MAX as usize + 1).find(|v| (parts.is_node)(*v))
}

/// The name of a pool in messages.
fn text(parts: &Parts<'_>, pool: u32) -> String {
    let it = (parts.piece)(pool);
    let [name, basename, type_] = [it.name, it.basename, it.type_].map(|n| parts.names.text(n));
    let base = if basename.is_empty() { type_ } else { basename };
    match (name, it.id) {
        ("", Some(id)) => format!("{base}{id}"),
        ("", None) => base.to_owned(),
        (name, _) => name.to_owned(),
    }
}
