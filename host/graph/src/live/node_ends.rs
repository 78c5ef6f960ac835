//! When nodes become idle: the last expected end on each node that jobs use, and sums of it over the nodes of some templates.
//! They change with each job that starts or ends, so that a plan of whole nodes walks over no other job.
//!
//! Must never know reservations, or what time it is.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use crate::layout::graph::Graph;
use crate::layout::template::TemplateId;
use crate::live::ends_sum::EndsSum;
use crate::live::index::Index;
use crate::live::ledger::Allocation;
use crate::live::machine::Machine;
use crate::live::profile::Profile;
use crate::live::take;

/// Sets of templates whose sums are kept; beyond, the one that was made first goes.
const SETS_MAX: usize = 8;

/// No job uses the node.
const IDLE: f64 = f64::NEG_INFINITY;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct NodeEnds {
    /// The last end on each node.
    last: Vec<f64>,
    /// The other ends on nodes that jobs share.
    others: FxHashMap<u32, Vec<f64>>,
    /// Nodes that are up, by the end at which they become idle, for sets of templates.
    sums: Vec<(Vec<TemplateId>, EndsSum)>,
}

/// A node whose last end changes, and the ends before and after.
type Change = (u32, f64, f64);

impl NodeEnds {
    fn of(machine: &Machine) -> NodeEnds {
        let (last, others) = (vec![IDLE; machine.graph.nodes.len()], FxHashMap::default());
        let mut ends = NodeEnds { last, others, sums: Vec::new() };
        for allocation in machine.ledger.jobs().values() {
            take::nodes(&allocation.takes).for_each(|(node, _)| {
                ends.begin(node, allocation.end);
            });
        }
        ends
    }

    /// One more job uses a node until `end`.
    fn begin(&mut self, node: u32, end: f64) -> Option<Change> {
        let last = &mut self.last[node as usize];
        let before = *last;
        if before == IDLE {
            *last = end;
            return Some((node, before, end));
        }
        *last = before.max(end);
        self.others.entry(node).or_default().push(before.min(end));
        (end > before).then_some((node, before, end))
    }

    /// A job that uses a node until `end` leaves it.
    fn leave(&mut self, node: u32, end: f64) -> Option<Change> {
        let last = &mut self.last[node as usize];
        let before = *last;
        let Some(others) = self.others.get_mut(&node) else {
            *last = IDLE;
            return Some((node, before, IDLE));
        };
        let latest = |ends: &[f64]| (0..ends.len()).max_by(|a, b| ends[*a].total_cmp(&ends[*b]));
        let at = if end == before { latest(others) } else { others.iter().position(|other| *other == end) };
        let left = at.map(|at| others.swap_remove(at));
        if others.is_empty() {
            self.others.remove(&node);
        }
        let after = left.filter(|_| end == before)?;
        *last = after;
        (after < before).then_some((node, before, after))
    }

    /// The nodes of one job change, those that are up.
    fn note(&mut self, changes: impl Iterator<Item = (TemplateId, Change)> + Clone) {
        for (templates, sum) in &mut self.sums {
            let ours = changes.clone().filter(|(template, _)| templates.binary_search(template).is_ok());
            let mut spans: Vec<(f64, f64)> = ours.map(|(_, (_, before, after))| (before, after)).collect();
            spans.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            for equal in spans.chunk_by(|a, b| a == b) {
                let (before, after) = equal[0];
                let nodes = equal.len() as u64;
                if before.is_finite() {
                    sum.take(before, nodes);
                }
                if after.is_finite() {
                    sum.add(after, nodes);
                }
            }
        }
    }

    fn sum(&self, machine: &Machine, templates: &[TemplateId]) -> EndsSum {
        let of = |node: usize| templates.binary_search(&machine.graph.nodes[node].template).is_ok();
        let nodes = (0..self.last.len()).filter(|&node| self.last[node].is_finite());
        let nodes = nodes.filter(|&node| machine.index.is_up(node as u32) && of(node));
        let mut ends: Vec<f64> = nodes.map(|node| self.last[node]).collect();
        ends.sort_by(f64::total_cmp);
        EndsSum::new(ends.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64)))
    }

    fn summed(&mut self, machine: &Machine, templates: &[TemplateId]) -> &Profile {
        let at = self.sums.iter().position(|(of, _)| of == templates).unwrap_or_else(|| {
            if self.sums.len() == SETS_MAX {
                self.sums.remove(0);
            }
            self.sums.push((templates.to_vec(), self.sum(machine, templates)));
            self.sums.len() - 1
        });
        self.sums[at].1.read()
    }
}

/// An allocation is about to be made, or to be released or changed.
pub(crate) fn note_node_ends(
    ends: &mut Mutex<Option<NodeEnds>>,
    (graph, index): (&Graph, &Index),
    allocation: &Allocation,
    made: bool,
) {
    let Some(ends) = ends.get_mut().unwrap_or_else(PoisonError::into_inner) else { return };
    let end = allocation.end;
    let nodes = take::nodes(&allocation.takes).map(|(node, _)| node);
    let change = |node| if made { ends.begin(node, end) } else { ends.leave(node, end) };
    let changes: Vec<Change> = nodes.filter_map(change).filter(|(node, ..)| index.is_up(*node)).collect();
    let of = |node: u32| graph.nodes[node as usize].template;
    ends.note(changes.iter().map(|change| (of(change.0), *change)));
}

impl Machine {
    /// Asks for the nodes of these templates, in order, that become idle by each expected end; those that are idle, down, or used
    /// by a job without an end are left out.
    pub(crate) fn with_node_ends<T>(&self, templates: &[TemplateId], ask: impl FnOnce(&Profile) -> T) -> T {
        // A panic elsewhere cannot leave sums that are read again: they are made by one call or not at all.
        let mut ends = self.node_ends.lock().unwrap_or_else(PoisonError::into_inner);
        ask(ends.get_or_insert_with(|| NodeEnds::of(self)).summed(self, templates))
    }

    /// A node came up, or went down.
    pub(crate) fn note_node_status(&mut self, node: u32) {
        let (up, template) = (self.index.is_up(node), self.graph.nodes[node as usize].template);
        let ends = self.node_ends.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(ends) = ends else { return };
        let last = ends.last[node as usize];
        let change = if up { (node, IDLE, last) } else { (node, last, IDLE) };
        ends.note(std::iter::once((template, change)));
    }

    /// Are they what the allocations say?
    #[cfg(test)]
    pub(crate) fn node_ends_are_in_step(&self) -> bool {
        let kept = self.node_ends.lock().unwrap_or_else(PoisonError::into_inner);
        let anew = NodeEnds::of(self);
        let sorted = |of: &NodeEnds, node: u32| {
            let mut ends = of.others.get(&node).cloned().unwrap_or_default();
            ends.sort_by(f64::total_cmp);
            ends
        };
        kept.as_ref().is_none_or(|kept| {
            kept.last == anew.last
                && (0..kept.last.len() as u32).all(|node| sorted(kept, node) == sorted(&anew, node))
                && kept
                    .sums
                    .iter()
                    .all(|(of, sum)| sum.clone().read().steps() == anew.sum(self, of).read().steps())
        })
    }
}
