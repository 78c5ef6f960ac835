//! Preferences that consider more than the order of nodes.
//!
//! - *Locality*: the smallest part of the machine with enough capacity. That is one node if any has it (the fullest
//!   such node), else the deepest vertex above nodes (the one with least spare capacity), in which the nodes with
//!   most capacity come first. The same holds inside a node: one NUMA domain or socket if any has enough.
//! - *Variation*: performance classes as close to one another as possible, so that no part of a job waits for a
//!   slower one. Among equally close ones the lowest (fastest) classes.
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

/// Quality of a part of the machine: depth, then little spare capacity.
type Rank = (u32, Reverse<u64>);

/// The first and the last of the performance classes that lie closest together and together have `want`; of equal
/// spans the lowest. `None` if all classes together have less.
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

/// Of nodes with capacity, fullest first, those that hold `want` close together, with the amount on each. Together
/// they must have `want`.
pub(crate) fn near(graph: &Graph, scope: u32, room: Vec<(u32, u64)>, want: u64) -> Vec<(u32, u64)> {
    if let Some(&(node, _)) = room.iter().find(|(_, n)| *n >= want) {
        return vec![(node, want)];
    }
    let mut room = room;
    room.sort_unstable_by_key(|(node, _)| *node);
    // Prefix sums of capacity, so that the capacity of a part of the machine is a difference.
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
    // Rank of the best part, and its slice of `room`.
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

/// `count` times some numbers of leaves, close together on one node that has them.
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
            flat.iter().map(|&(type_, _)| units(template, free, at, type_)).fold(0, u64::saturating_add)
        };
        let inside = (1..template.slots.len()).filter(|&at| !template.slots[at].leaf);
        // All of them in the deepest part with enough capacity, of those the fullest; else as many as possible in one
        // part.
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

/// The depth of each vertex of a template.
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

/// Free units of a leaf type below a vertex. The sum saturates, above any possible request.
pub(crate) fn units(template: &NodeTemplate, free: &[u64], at: usize, type_: Name) -> u64 {
    let end = template.slots[at].end;
    let leaves = template.leaves.get(&type_).into_iter().flatten();
    leaves.filter(|&&l| l as usize > at && l < end).map(|&l| free[l as usize]).fold(0, u64::saturating_add)
}
