//! Preferences that consider more than the order of nodes.
//!
//! - *Locality*: the smallest part of the machine with enough capacity: one node if any has it (the fullest
//!   such node), else the deepest vertex above nodes (the one with least spare capacity), where the nodes with most
//!   capacity come first. Inside a node the same holds: one NUMA domain or socket if any has enough.
//! - *Variation*: performance classes as close to one another as possible, so that no part of a job waits for a slower
//!   one; among equally close ones the best (lowest) classes.
//! - *Power*: nodes with the least power draw come first.
//!
//! The last two read node properties `perf_class=N` and `power=WATTS`. This module must never know a request or a job.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::description::names::Name;
use crate::layout::graph::Graph;
use crate::layout::template::NodeTemplate;
use crate::layout::vertex::NONE;
use crate::live::share::{Share, Taken};

/// How good a part of the machine is: deep, then with little room to spare.
type Rank = (u32, Reverse<u64>);

/// The performance classes, from first to last, that together have `want` and lie closest together. Of equal spans the lowest.
/// `None` when all of them together have less.
pub(crate) fn closest(room: &BTreeMap<u64, u64>, want: u64) -> Option<(u64, u64)> {
    let list: Vec<(u64, u64)> = room.iter().map(|(&class, &room)| (class, room)).collect();
    let (mut best, mut sum, mut last) = (None::<(u64, u64)>, 0u64, 0);
    for (first, &(low, room)) in list.iter().enumerate() {
        while sum < want && last < list.len() {
            sum = sum.saturating_add(list[last].1);
            last += 1;
        }
        if sum < want || last == 0 {
            break;
        }
        let high = list[last.max(first + 1) - 1].0;
        if best.is_none_or(|(l, h)| high - low < h - l) {
            best = Some((low, high));
        }
        sum = sum.saturating_sub(room);
    }
    best
}

/// Of nodes with room, fullest first, those to be used for `want` close together: nodes and how much of each. They
/// must have `want` together.
pub(crate) fn near(graph: &Graph, scope: u32, room: Vec<(u32, u64)>, want: u64) -> Vec<(u32, u64)> {
    if let Some(&(node, _)) = room.iter().find(|(_, n)| *n >= want) {
        return vec![(node, want)];
    }
    let mut room = room;
    room.sort_unstable_by_key(|(node, _)| *node);
    // Room before each of these nodes, so that a part of the machine is a difference.
    let mut before = vec![0u64];
    before.extend(room.iter().scan(0u64, |sum, (_, n)| {
        *sum = sum.saturating_add(*n);
        Some(*sum)
    }));
    let part = |range: (u32, u32)| {
        let at = |node: u32| room.partition_point(|(n, _)| *n < node);
        (at(range.0), at(range.1))
    };
    let end = graph.vertices.get(scope as usize).map_or(NONE, |v| v.end);
    let below = |v: u32| scope == NONE || (v >= scope && v < end);
    // Depth and room of the best part, and its slice of `room`.
    let mut best: Option<(Rank, (usize, usize))> = None;
    let mut path: Vec<u32> = Vec::new();
    for (at, &vertex) in graph.upper[..graph.upper_tree()].iter().enumerate() {
        while path.last().is_some_and(|&end| end <= vertex) {
            path.pop();
        }
        path.push(graph.vertices[vertex as usize].end);
        let (from, to) = part(graph.upper_nodes[at]);
        let sum = before[to] - before[from];
        if !below(vertex) || sum < want {
            continue;
        }
        let rank = (path.len() as u32, Reverse(sum));
        if best.as_ref().is_none_or(|(known, _)| rank > *known) {
            best = Some((rank, (from, to)));
        }
    }
    let (from, to) = best.map_or((0, room.len()), |(_, range)| range);
    let mut chosen: Vec<(u32, u64)> = room[from..to].to_vec();
    chosen.sort_by_key(|(node, n)| (Reverse(*n), *node));
    let mut left = want;
    chosen.retain_mut(|(_, n)| {
        *n = left.min(*n);
        left -= *n;
        *n > 0
    });
    chosen
}

/// `count` times some numbers of leaves on one node that has them, close together.
pub(crate) fn near_inside(
    template: &NodeTemplate,
    state: &[u64],
    flat: &[(Name, u64)],
    count: u64,
) -> Vec<Taken> {
    let mut free = state.to_vec();
    let mut taken: BTreeMap<u32, u64> = BTreeMap::new();
    let mut left = count;
    let depths = depths(template);
    while left > 0 {
        let room = |at: usize, free: &[u64]| {
            flat.iter().fold(left, |n, &(type_, per)| n.min(units(template, free, at, type_) / per.max(1)))
        };
        let spare = |at: usize, free: &[u64]| -> u64 {
            flat.iter().map(|&(type_, _)| units(template, free, at, type_)).sum()
        };
        let inside = (1..template.slots.len()).filter(|&at| !template.slots[at].leaf);
        // All of it in the deepest part with room, the fullest of those; else as much as possible in one part.
        let best = inside.map(|at| (at, room(at, &free))).filter(|(_, n)| *n > 0).max_by_key(|&(at, n)| {
            let all = n == left;
            let spare = if all { Reverse(spare(at, &free)) } else { Reverse(0) };
            (n, depths[at], spare, Reverse(at))
        });
        let (at, n) = best.unwrap_or((0, left));
        for &(type_, per) in flat {
            let mut want = per.saturating_mul(n);
            let end = template.slots[at].end;
            for &leaf in template.leaves.get(&type_).into_iter().flatten() {
                if (leaf as usize) < at || leaf >= end {
                    continue;
                }
                let some = want.min(free[leaf as usize]);
                if some > 0 {
                    free[leaf as usize] -= some;
                    *taken.entry(leaf).or_default() += some;
                    want -= some;
                }
            }
        }
        left -= n;
    }
    taken.into_iter().map(|(at, n)| Taken { at, share: Share::Units(n) }).collect()
}

/// How deep each vertex of a template lies.
pub(crate) fn depths(template: &NodeTemplate) -> Vec<u32> {
    let mut path: Vec<u32> = Vec::new();
    let depth = |(at, slot): (usize, &crate::layout::template::TemplateSlot)| {
        while path.last().is_some_and(|&end| end as usize <= at) {
            path.pop();
        }
        path.push(slot.end);
        path.len() as u32
    };
    template.slots.iter().enumerate().map(depth).collect()
}

/// Free units of a leaf type below a vertex.
pub(crate) fn units(template: &NodeTemplate, free: &[u64], at: usize, type_: Name) -> u64 {
    let end = template.slots[at].end;
    let leaves = template.leaves.get(&type_).into_iter().flatten();
    leaves.filter(|&&l| l as usize > at && l < end).map(|&l| free[l as usize]).sum()
}
