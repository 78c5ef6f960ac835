//! Binding the execution targets of a site's graph to the ranks of R, and their cores and gpus to its ids.
//!
//! # Interpretations
//!
//! - Nodes of the graph are bound to ranks by host name, since the graph's own ranks may be those of another boot or of an
//!   enclosing instance. Hosts with one name are bound in order of rank; where no host name of the graph is known, ranks
//!   decide, and nodes have the host names of R.
//! - A node that only one side names cannot be scheduled.
//! - RFC 20 names cores and gpus, and nothing below them: a job that holds one holds what is below, such as hardware threads,
//!   which is left out. Cores and gpus below others stand beside them.
//! - Ids of cores and gpus that differ from those of R, but are as many, are R's in the same order. Others that R lacks are
//!   left out; those that the graph lacks (a graph in shorthand) are added below the node.
//!
//! This module must never know more of a file than the outlines of vertices and their names.

use std::collections::{BTreeMap, HashMap};

use fluxgate_formats::rset::R;
use fluxgate_formats::{Hostlist, Idset};

use crate::description::Description;
use crate::layout::vertex::{Ids, NONE};

use super::site::{Fate, NAMED, Outline, name};

/// A vertex with a number of its own: its rank, or its id.
type Numbered = (Option<u32>, usize);

/// Binds the execution targets of the graph to the ranks of R, and drops targets that are not bound with all vertices
/// below them. The text names the hosts that only one side has, and says where ranks differ; beside it are the host names of
/// targets that have another name in the graph, by rank.
pub(super) fn bind(
    d: &Description,
    seen: &mut [Outline<'_>],
    r: &R,
) -> (Option<String>, BTreeMap<u32, String>) {
    let targets = targets(seen);
    // By host: the ranks of R, in order, and the targets of the graph, in order of their own ranks.
    let mut hosts: BTreeMap<String, (Vec<u32>, Vec<Numbered>)> = BTreeMap::new();
    for (rank, name) in r.hosts() {
        hosts.entry(name).or_default().0.push(rank);
    }
    for &at in &targets {
        hosts.entry(name(d, &seen[at])).or_default().1.push((seen[at].rank, at));
    }
    let mut bound: HashMap<usize, u32> = HashMap::new();
    let (mut only_r, mut only_graph, mut differ): (Vec<String>, Vec<String>, Vec<String>) =
        Default::default();
    let mut renamed = BTreeMap::new();
    let any = hosts.values().any(|(ranks, targets)| !ranks.is_empty() && !targets.is_empty());
    if any {
        for (name, (ranks, mut targets)) in hosts {
            targets.sort_unstable();
            for (&rank, &(own, at)) in ranks.iter().zip(&targets) {
                bound.insert(at, rank);
                if own.is_some_and(|own| own != rank) {
                    differ.push(name.clone());
                }
            }
            only_graph.extend(std::iter::repeat_n(name.clone(), targets.len().saturating_sub(ranks.len())));
            only_r.extend(std::iter::repeat_n(name, ranks.len().saturating_sub(targets.len())));
        }
    } else {
        let ranks = r.ranks();
        let own = |at: &usize| seen[*at].rank.filter(|rank| ranks.contains(*rank));
        bound.extend(targets.iter().filter_map(|at| Some((*at, own(at)?))));
        differ = r.nodelist.iter().collect();
        renamed = r.hosts().collect();
    }
    for at in targets {
        seen[at].fate = bound.get(&at).map_or(Fate::Dropped, |rank| Fate::Target(Some(*rank)));
    }
    drop_below(seen);
    let said = [
        (only_r, "of R are not in the graph and cannot be scheduled"),
        (only_graph, "of the graph are not in R and cannot be scheduled"),
        (differ, "have other ranks in the graph than in R; R's are used"),
    ];
    let said = said.into_iter().filter(|(hosts, _)| !hosts.is_empty());
    let told = |(hosts, what): (Vec<String>, &str)| {
        format!("scheduling.graph: hosts {} {what}", hosts.iter().collect::<Hostlist>())
    };
    (said.map(told).reduce(|a, b| format!("{a}; {b}")), renamed)
}

/// The execution targets of a graph without R, with the ranks that the graph gives them.
pub(super) fn bind_alone(seen: &mut [Outline<'_>]) {
    for at in targets(seen) {
        seen[at].fate = Fate::Target(seen[at].rank);
    }
}

/// Vertices of type `node`, and the highest other vertices with a rank that contain no node.
fn targets(seen: &[Outline<'_>]) -> Vec<usize> {
    let is_kept = |at: usize| seen[at].fate != Fate::Dropped;
    let is_node = |at: usize| seen[at].type_ == "node" && is_kept(at);
    let above =
        |at: usize| std::iter::successors(Some(seen[at].parent), |p| Some(seen.get(*p as usize)?.parent));
    // As deep as a tree may be; a deeper one is refused later.
    let chain = |at: usize| above(at).take_while(|p| *p != NONE).take(crate::DEPTH_MAX as usize + 1);
    let mut holds = vec![false; seen.len()];
    for at in (0..seen.len()).filter(|at| is_node(*at)) {
        for parent in chain(at) {
            if std::mem::replace(&mut holds[parent as usize], true) {
                break;
            }
        }
    }
    let other = |at: usize| {
        seen[at].rank.is_some()
            && is_kept(at)
            && !holds[at]
            && !NAMED.contains(&seen[at].type_)
            && chain(at).all(|parent| seen[parent as usize].rank.is_none() && !is_node(parent as usize))
    };
    (0..seen.len()).filter(|at| is_node(*at) || other(*at)).collect()
}

/// Leaves out what is below cores and gpus, and hangs cores and gpus that are below others beside them.
pub(super) fn divide_no_core(seen: &mut [Outline<'_>]) {
    let is_named = |seen: &[Outline<'_>], at: u32| {
        seen.get(at as usize).is_some_and(|vertex| NAMED.contains(&vertex.type_))
    };
    if !seen.iter().any(|vertex| is_named(seen, vertex.parent)) {
        return;
    }
    for at in 0..seen.len() {
        let above = |at: &u32| Some(seen.get(*at as usize)?.parent);
        let chain = std::iter::successors(Some(seen[at].parent), above).take_while(|at| *at != NONE);
        // As deep as a tree may be; a deeper one is refused later.
        let Some(highest) =
            chain.take(crate::DEPTH_MAX as usize + 1).filter(|above| is_named(seen, *above)).last()
        else {
            continue;
        };
        if NAMED.contains(&seen[at].type_) {
            seen[at].parent = seen[highest as usize].parent;
        } else {
            seen[at].fate = Fate::Dropped;
        }
    }
}

/// Drops the vertices below dropped vertices.
fn drop_below(seen: &mut [Outline<'_>]) {
    let mut fates: Vec<Option<bool>> = vec![None; seen.len()];
    let mut chain = Vec::new();
    for at in 0..seen.len() {
        let mut here = at as u32;
        let dropped = loop {
            if here == NONE {
                break false;
            }
            match (fates[here as usize], &seen[here as usize].fate) {
                (Some(known), _) => break known,
                (None, Fate::Dropped) => break true,
                _ => chain.push(here),
            }
            here = seen[here as usize].parent;
        };
        for vertex in chain.drain(..) {
            fates[vertex as usize] = Some(dropped);
        }
    }
    for (vertex, fate) in seen.iter_mut().zip(fates) {
        if fate == Some(true) {
            vertex.fate = Fate::Dropped;
        }
    }
}

/// Gives cores and gpus their ids of R; returns those that the graph lacks: target, type, ids.
pub(super) fn members(seen: &mut [Outline<'_>], r: &R) -> Vec<(usize, String, Idset)> {
    let mut inside: BTreeMap<(u32, &str), Vec<Numbered>> = BTreeMap::new();
    for (at, vertex) in seen.iter().enumerate().filter(|(_, vertex)| NAMED.contains(&vertex.type_)) {
        let mut here = vertex.parent;
        while here != NONE && vertex.fate != Fate::Dropped {
            if let Fate::Target(Some(rank)) = seen[here as usize].fate {
                inside.entry((rank, vertex.type_)).or_default().push((vertex.id, at));
                break;
            }
            here = seen[here as usize].parent;
        }
    }
    let target_of: BTreeMap<u32, usize> = seen
        .iter()
        .enumerate()
        .filter_map(|(at, vertex)| match vertex.fate {
            Fate::Target(rank) => Some((rank?, at)),
            _ => None,
        })
        .collect();
    let mut changes: Vec<(usize, Fate)> = Vec::new();
    let mut missing = Vec::new();
    for entry in &r.r_lite {
        for (rank, &target) in entry.rank.iter().filter_map(|rank| Some((rank, target_of.get(&rank)?))) {
            for type_ in NAMED {
                let none = Idset::new();
                let want = entry.children.get(type_).unwrap_or(&none);
                let have = inside.remove(&(rank, type_)).unwrap_or_default();
                let left = rename(seen, have, want, &mut changes);
                if !left.is_empty() {
                    missing.push((target, type_.to_owned(), left));
                }
            }
            let others = entry
                .children
                .iter()
                .filter(|(type_, ids)| !NAMED.contains(&type_.as_str()) && !ids.is_empty());
            missing.extend(others.map(|(type_, ids)| (target, type_.clone(), ids.clone())));
        }
    }
    for (at, fate) in changes {
        seen[at].fate = fate;
    }
    missing
}

/// Notes the ids that cores or gpus of a node get, which are to have the ids of R; returns ids that are missing.
fn rename(
    seen: &[Outline<'_>],
    mut have: Vec<Numbered>,
    want: &Idset,
    changes: &mut Vec<(usize, Fate)>,
) -> Idset {
    have.sort_unstable();
    let mut numbers = Idset::new();
    for &(first, at) in &have {
        first.into_iter().for_each(|first| numbers.insert_range(first..=first + (seen[at].count - 1)));
    }
    let count: u64 = have.iter().map(|(_, at)| u64::from(seen[*at].count)).sum();
    if numbers == *want && numbers.len() == count {
        return Idset::new();
    }
    let each = |(first, at): Numbered| (0..seen[at].count).map(move |by| (first.map(|first| first + by), at));
    let mut each: Vec<Numbered> = have.iter().copied().flat_map(each).collect();
    each.sort_unstable();
    let mut ids: BTreeMap<usize, Vec<u32>> = have.iter().map(|(_, at)| (*at, Vec::new())).collect();
    let mut left = want.clone();
    let mut of = |at: usize, id: u32| ids.entry(at).or_default().push(id);
    if count == want.len() {
        each.iter().zip(want.iter()).for_each(|((_, at), id)| of(*at, id));
        left = Idset::new();
    } else {
        let known = |(number, at): &Numbered| Some(((*number)?, *at));
        for (number, at) in each.iter().filter_map(known) {
            if left.remove(number) {
                of(at, number);
            }
        }
    }
    let fate =
        |ids: Vec<u32>| if ids.is_empty() { Fate::Dropped } else { Fate::Renumbered(Ids::from_sorted(ids)) };
    changes.extend(ids.into_iter().map(|(at, ids)| (at, fate(ids))));
    left
}
