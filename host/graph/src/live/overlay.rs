//! States of some nodes, and of what lies above nodes, that replace those of the index: a later time, or what a search has taken.
//!
//! This module must never know why a state is replaced.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use fixedbitset::FixedBitSet;

/// States that replace those of the index.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    mask: FixedBitSet,
    nodes: BTreeMap<u32, Box<[u64]>>,
    /// Free units or mark of upper vertices, by position in `Graph::upper`.
    pub(crate) upper: BTreeMap<u32, u64>,
    /// The states before a trial began.
    journal: Option<Box<Journal>>,
}

/// The states before the first change of each.
#[derive(Debug, Clone, Default)]
struct Journal {
    seen: FixedBitSet,
    nodes: Vec<(u32, Option<Box<[u64]>>)>,
    upper: BTreeMap<u32, u64>,
}

impl Overlay {
    /// Begins a trial: until [`restore`](Self::restore) it is changed by [`entry`](Self::entry) alone, and above nodes.
    pub(crate) fn begin(&mut self) {
        let journal = Journal { upper: self.upper.clone(), ..Journal::default() };
        self.journal = Some(Box::new(journal));
    }

    /// Undoes the changes since the trial began.
    pub(crate) fn restore(&mut self) {
        let Some(journal) = self.journal.take() else { return };
        for (node, state) in journal.nodes {
            match state {
                Some(state) => self.set(node, state),
                None => self.unset(node),
            }
        }
        self.upper = journal.upper;
    }

    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn get(&self, node: u32) -> Option<&[u64]> {
        if self.mask.contains(node as usize) { self.nodes.get(&node).map(|s| &**s) } else { None }
    }

    pub(crate) fn set(&mut self, node: u32, state: Box<[u64]>) {
        self.mask.grow_and_insert(node as usize);
        self.nodes.insert(node, state);
    }

    /// The state of a node that is in this overlay.
    pub(crate) fn get_mut(&mut self, node: u32) -> Option<&mut Box<[u64]>> {
        self.nodes.get_mut(&node)
    }

    pub(crate) fn unset(&mut self, node: u32) {
        if self.mask.contains(node as usize) {
            self.mask.remove(node as usize);
        }
        self.nodes.remove(&node);
    }

    /// The state of a node in this overlay, to be changed; taken from `base` at first.
    pub(crate) fn entry(&mut self, node: u32, base: impl FnOnce() -> Box<[u64]>) -> &mut Box<[u64]> {
        if let Some(journal) = &mut self.journal
            && !journal.seen.contains(node as usize)
        {
            journal.seen.grow_and_insert(node as usize);
            journal.nodes.push((node, self.nodes.get(&node).cloned()));
        }
        self.mask.grow_and_insert(node as usize);
        self.nodes.entry(node).or_insert_with(base)
    }

    /// True if it has a state of a node.
    pub(crate) fn contains(&self, node: u32) -> bool {
        self.mask.contains(node as usize)
    }

    /// Its nodes in a range.
    pub(crate) fn within(
        &self,
        range: impl RangeBounds<u32>,
    ) -> impl DoubleEndedIterator<Item = (u32, &[u64])> {
        self.nodes.range(range).map(|(&node, state)| (node, &**state))
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (u32, &[u64])> {
        self.nodes.iter().map(|(&n, s)| (n, &**s))
    }
}
