//! The R writer (RFC 20): ranks with ids of cores and gpus.
//!
//! This module must never know how resources were chosen.

use std::collections::BTreeMap;
use std::ops::Range;

use fluxgate_formats::Idset;
use fluxgate_formats::constraint::is_property_name;
use fluxgate_formats::idset::MAX_ID;
use fluxgate_formats::rset::{Children, R, RLite};

use crate::description::names::Name;
use crate::layout::graph::Graph;
use crate::layout::vertex::Ids;
use crate::live::bits::Bits;
use crate::live::take::{self, Take, What};

/// Which properties of nodes an R contains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// R of a job: without properties that describe the instance, and without those that were set while jobs ran.
    Job,
    /// R of the described machine: without properties that were set while jobs ran, and with those that were removed.
    Inventory,
    /// All properties.
    Now,
}

/// Collects ids by rank.
pub(crate) struct RBuilder<'a> {
    graph: &'a Graph,
    nodes: BTreeMap<u32, (u32, Children)>,
}

impl<'a> RBuilder<'a> {
    pub(crate) fn new(graph: &'a Graph) -> Self {
        RBuilder { graph, nodes: BTreeMap::new() }
    }

    /// Adds everything that is on a node.
    pub(crate) fn whole(&mut self, node: u32) {
        let graph = self.graph;
        let it = &graph.nodes[node as usize];
        let children = &mut self.nodes.entry(it.rank).or_insert_with(|| (node, Children::new())).1;
        for vertex in it.vertex + 1..graph.vertices[it.vertex as usize].end {
            let v = &graph.vertices[vertex as usize];
            if !named(graph, v.type_) {
                continue;
            }
            let ids = children.entry(graph.text(v.type_).to_owned()).or_default();
            match (&v.ids, graph.renumbered.contains_key(&vertex)) {
                (Ids::Range { first, count }, false) => ids.insert_range(*first..=first + (count - 1)),
                (all, _) => ids.extend((0..all.len()).map(|m| graph.r_id(vertex, m))),
            }
        }
    }

    /// The R, with the properties of its nodes that `whose` selects; those with a leading `+` describe the instance.
    pub(crate) fn finish(self, whose: Whose) -> R {
        let mut set = Assembly::new(self.graph, whose);
        for (node, children) in self.nodes.into_values() {
            let entry = set.entry(children);
            set.push(node, entry);
        }
        set.finish()
    }
}

/// The R of the takes of one job. It has no properties that describe the instance.
pub(crate) fn of_takes(graph: &Graph, takes: &[Take]) -> R {
    let rank = |node: u32| graph.nodes[node as usize].rank;
    // A machine that was read from R has its nodes in this order already.
    if take::nodes(takes).map(|(node, _)| rank(node)).is_sorted() {
        return of_nodes(graph, take::nodes(takes), Whose::Job);
    }
    let mut nodes: Vec<(u32, &[Take])> = take::nodes(takes).collect();
    nodes.sort_by_key(|(node, _)| rank(*node));
    of_nodes(graph, nodes.into_iter(), Whose::Job)
}

/// Number of different latest forms that a node is compared with before an entry is searched.
const FORMS_SEEN: usize = 8;

/// The R of these takes, of nodes in the order of their ranks.
pub(crate) fn of_nodes<'t>(graph: &Graph, nodes: impl Iterator<Item = (u32, &'t [Take])>, whose: Whose) -> R {
    let mut set = Assembly::new(graph, whose);
    // The latest different forms, the last one at the end: neighbouring nodes mostly have equal forms.
    let mut seen: Vec<(&[Take], Option<usize>)> = Vec::with_capacity(FORMS_SEEN);
    for (node, takes) in nodes {
        let known = seen.iter().rev().find(|(before, _)| alike(graph, before, takes));
        let entry = match known {
            Some((_, entry)) => *entry,
            None => {
                let mut children = Children::new();
                add(graph, takes, &mut children);
                let entry = set.entry(children);
                if seen.len() == FORMS_SEEN {
                    seen.remove(0);
                }
                seen.push((takes, entry));
                entry
            }
        };
        set.push(node, entry);
    }
    set.finish()
}

/// True if R names resources of this type.
fn named(graph: &Graph, type_: Name) -> bool {
    type_ == graph.core || type_ == graph.gpu || graph.in_r(type_)
}

/// Adds the takes on one node.
fn add(graph: &Graph, takes: &[Take], children: &mut Children) {
    for take in takes {
        let v = &graph.vertices[take.vertex as usize];
        if !named(graph, v.type_) {
            continue;
        }
        let What::Members(bits) = &take.what else { continue };
        let text = graph.text(v.type_);
        if !children.contains_key(text) {
            children.insert(text.to_owned(), Idset::new());
        }
        let Some(ids) = children.get_mut(text) else { continue };
        match (&v.ids, graph.renumbered.get(&take.vertex)) {
            (_, Some(first)) | (Ids::Range { first, .. }, None) => insert_runs(ids, *first, bits),
            (_, None) => ids.extend(bits.iter().map(|m| graph.r_id(take.vertex, m))),
        }
    }
}

/// Adds members whose ids are consecutive from `first` on: run by run.
fn insert_runs(ids: &mut Idset, first: u32, bits: &Bits) {
    for (place, &word) in bits.words().iter().enumerate() {
        let (mut rest, first) = (word, first + place as u32 * 64);
        while rest != 0 {
            let start = rest.trailing_zeros();
            let end = start + (rest >> start).trailing_ones();
            ids.insert_range(first + start..=first + end - 1);
            rest = if end < 64 { rest & (u64::MAX << end) } else { 0 };
        }
    }
}

/// True if both nodes have the same ids taken. False is always safe.
fn alike(graph: &Graph, a: &[Take], b: &[Take]) -> bool {
    let numbers = |vertex: u32| graph.renumbered.get(&vertex);
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| a.what == b.what)
        && a.iter().zip(b).all(|(a, b)| {
            let (x, y) = (&graph.vertices[a.vertex as usize], &graph.vertices[b.vertex as usize]);
            x.type_ == y.type_
                && x.ids == y.ids
                && (graph.renumbered.is_empty() || numbers(a.vertex) == numbers(b.vertex))
        })
}

/// Number of entries up to which entries are compared one by one.
const ENTRIES_COMPARED: usize = 4;

/// Assembles R from nodes in order of rank. Nodes with equal ids become one entry, and hosts are copied in runs, not
/// one by one.
struct Assembly<'a> {
    graph: &'a Graph,
    whose: Whose,
    /// Numbers of entries by their hash ([`mixed`]), once there are more than [`ENTRIES_COMPARED`]; of equal hashes
    /// the first.
    known: BTreeMap<u64, usize>,
    /// Positions of hosts that are not copied yet.
    run: Range<usize>,
    /// Its entries are in the order of their first ranks, because nodes are added in order of rank.
    r: R,
}

/// A hash of these ids.
fn mixed(children: &Children) -> u64 {
    let mut number = 0u64;
    for (type_, ids) in children {
        number = number.wrapping_add(type_.len() as u64 + 1);
        for range in ids.ranges() {
            let range = u64::from(*range.start()) << 32 | u64::from(*range.end());
            number = (number.rotate_left(5) ^ range).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
    number
}

impl<'a> Assembly<'a> {
    fn new(graph: &'a Graph, whose: Whose) -> Self {
        Assembly { graph, whose, known: BTreeMap::new(), run: 0..0, r: R::default() }
    }

    /// The entry for these ids; `None` when there are none.
    fn entry(&mut self, mut children: Children) -> Option<usize> {
        children.retain(|_, ids| !ids.is_empty());
        if children.is_empty() {
            return None;
        }
        let entries = &mut self.r.r_lite;
        let found = if entries.len() <= ENTRIES_COMPARED {
            entries.iter().position(|it| it.children == children)
        } else {
            if self.known.is_empty() {
                for (number, entry) in entries.iter().enumerate() {
                    self.known.entry(mixed(&entry.children)).or_insert(number);
                }
            }
            let next = entries.len();
            let number = *self.known.entry(mixed(&children)).or_insert(next);
            if number == next || entries[number].children == children {
                Some(number).filter(|number| *number < next)
            } else {
                entries.iter().position(|it| it.children == children)
            }
        };
        Some(found.unwrap_or_else(|| {
            entries.push(RLite { rank: Idset::new(), children });
            entries.len() - 1
        }))
    }

    fn push(&mut self, node: u32, entry: Option<usize>) {
        let graph = self.graph;
        let it = &graph.nodes[node as usize];
        let removed = graph.hidden.range((node, Name::EMPTY)..).take_while(|(of, _)| *of == node);
        let removed = removed.map(|(_, name)| name).filter(|_| matches!(self.whose, Whose::Inventory));
        for &name in graph.props.names(it.props).iter().chain(removed) {
            let text = graph.text(name);
            let unsaid = match self.whose {
                Whose::Job => text.starts_with('+') || graph.added.contains(&(node, name)),
                Whose::Inventory => graph.added.contains(&(node, name)),
                Whose::Now => false,
            };
            // RFC 20 has no such names; a graph may.
            if unsaid || !is_property_name(text) {
                continue;
            }
            match self.r.properties.get_mut(text) {
                Some(ranks) => ranks.extend([it.rank]),
                None => {
                    self.r.properties.insert(text.to_owned(), Idset::from(it.rank));
                }
            }
        }
        let Some(entry) = entry else { return };
        if it.rank > MAX_ID {
            return;
        }
        self.r.r_lite[entry].rank.extend([it.rank]);
        let place = graph.places[node as usize] as usize;
        if self.run.end != place {
            self.copy_hosts();
            self.run = place..place;
        }
        self.run.end = place + 1;
    }

    fn copy_hosts(&mut self) {
        if !self.run.is_empty() {
            self.r.nodelist.append_slice(&self.graph.hosts, self.run.clone());
        }
    }

    fn finish(mut self) -> R {
        self.copy_hosts();
        self.r.r_lite.retain(|entry| !entry.rank.is_empty());
        self.r
    }
}
