//! How much of what fits at a time lies outside of the places of reservations that begin within a span, by counts.
//!
//! A search asks it at one time after the other, for spans of one length, so that every reservation comes into the span once. Between
//! two questions only nodes that changed are looked at again.
//!
//! This module must never place anything.

use rustc_hash::FxHashMap;

use crate::layout::graph::Graph;
use crate::layout::template::NodeTemplate;
use crate::live::timeline::Step;

/// The part of the count that reservations take which begin within the span. See the module.
#[derive(Debug)]
pub(crate) struct Outside<'a> {
    graph: &'a Graph,
    steps: &'a [Step],
    /// The reservations on each node, in the order of their starts.
    on: FxHashMap<u32, Vec<u32>>,
    /// One past the last reservation that has come into the span.
    known: usize,
    /// How much less fits outside of them on each node, and on all.
    less: FxHashMap<u32, i128>,
    sum: i128,
    /// Nodes that changed since the last question.
    changed: Vec<u32>,
    state: Vec<u64>,
}

impl<'a> Outside<'a> {
    /// The count for a span in which no reservation begins.
    pub(crate) fn new(graph: &'a Graph, steps: &'a [Step]) -> Self {
        let mut on: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (step, number) in steps.iter().zip(0..) {
            step.after.nodes().for_each(|(node, _)| on.entry(node).or_default().push(number));
        }
        let (less, changed, state) = (FxHashMap::default(), Vec::new(), Vec::new());
        Outside { graph, steps, on, known: 0, less, sum: 0, changed, state }
    }

    /// The state of a node, or whether it may be used, changes.
    pub(crate) fn change(&mut self, node: u32) {
        if self.less.contains_key(&node) {
            self.changed.push(node);
        }
    }

    /// How much less fits outside of the reservations that begin after `start` and before `end`, both not before those of the last
    /// question. `state` is that of a node at `start`, `fits` says how often the need fits on it in a state.
    pub(crate) fn less<'s>(
        &mut self,
        (start, end): (f64, f64),
        state: impl Fn(u32) -> &'s [u64],
        fits: impl Fn(u32, &[u64]) -> u64,
    ) -> i128 {
        let first = self.steps.partition_point(|step| step.start <= start);
        let after = self.steps.partition_point(|step| step.start < end).max(first);
        // Those that have begun since have changed their nodes.
        for step in &self.steps[first.max(self.known)..after.max(self.known)] {
            self.changed.extend(step.after.nodes().map(|(node, _)| node));
        }
        self.known = after.max(self.known);
        self.changed.sort_unstable();
        self.changed.dedup();
        for node in self.changed.drain(..) {
            let on = self.on.get(&node).map_or(&[][..], Vec::as_slice);
            let first = on.partition_point(|number| (*number as usize) < first);
            let within = on[first..].iter().take_while(|number| (**number as usize) < after);
            let mut within = within.peekable();
            let before = match within.peek() {
                None => self.less.remove(&node),
                Some(_) => {
                    let full = fits(node, state(node));
                    let mut less = 0;
                    if full > 0 {
                        self.state.clear();
                        self.state.extend_from_slice(state(node));
                        let after = within.filter_map(|number| self.steps[*number as usize].after.get(node));
                        after.for_each(|after| tighten(self.graph.template(node), &mut self.state, after));
                        less = i128::from(full) - i128::from(fits(node, &self.state));
                    }
                    self.sum += less;
                    self.less.insert(node, less)
                }
            };
            self.sum -= before.unwrap_or_default();
        }
        self.sum
    }
}

/// The smaller of two states of one vertex: fewer units, or the stronger mark.
pub(crate) fn tighter(leaf: bool, a: u64, b: u64) -> u64 {
    if leaf { a.min(b) } else { a.max(b) }
}

/// The same for each vertex of a node.
pub(crate) fn tighten(template: &NodeTemplate, state: &mut [u64], other: &[u64]) {
    for ((state, other), slot) in state.iter_mut().zip(other).zip(&template.slots) {
        *state = tighter(slot.leaf, *state, *other);
    }
}
