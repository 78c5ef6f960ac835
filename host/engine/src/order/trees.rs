//! Sorted lists with a search for the next entry that is small enough, without a visit to the others: the jobs of a
//! class with their cores and requested durations, the classes with those of their jobs.
//!
//! One AVL tree for each list (Adelson-Velsky and Landis 1962), sorted by [`OrderKey`]. A node stores the least
//! numbers below it, so a search costs a logarithm where one of the two numbers decides. All trees are in one vector,
//! so that a copy of the order for a forecast or a shadow is one copy of memory.
//!
//! This module must never know the meaning of the numbers.

use std::ops::Bound;

use super::{ClassId, OrderKey};

/// The index of no node.
const NIL: u32 = u32::MAX;

/// The part of its length by which the vector of nodes grows.
const GROWTH: usize = 8;

/// Cores, and seconds, which may be infinite.
pub(crate) type Size = (u32, f64);

/// The lesser of each number.
fn least(a: Size, b: Size) -> Size {
    (a.0.min(b.0), a.1.min(b.1))
}

/// Numbers without the space between them.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
struct Packed(u32, f64);

impl From<Size> for Packed {
    fn from((cores, seconds): Size) -> Self {
        Packed(cores, seconds)
    }
}

impl From<Packed> for Size {
    fn from(Packed(cores, seconds): Packed) -> Self {
        (cores, seconds)
    }
}

#[derive(Debug, Clone, Copy)]
struct Node {
    key: OrderKey,
    size: Packed,
    /// The least numbers of this node and those below it.
    least: Packed,
    /// The value of the entry.
    index: u32,
    left: u32,
    /// In a vacant node: the next vacant node.
    right: u32,
    height: u8,
}

/// The trees; see the module.
#[derive(Debug, Clone)]
pub(crate) struct Trees {
    nodes: Vec<Node>,
    /// The first vacant node.
    vacant: u32,
    /// The root of each tree, by class.
    roots: Vec<u32>,
    /// Number of entries of all trees.
    len: usize,
}

impl Default for Trees {
    fn default() -> Self {
        Trees { nodes: Vec::new(), vacant: NIL, roots: Vec::new(), len: 0 }
    }
}

impl Trees {
    fn root(&self, class: ClassId) -> u32 {
        self.roots.get(class as usize).copied().unwrap_or(NIL)
    }

    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    fn height(&self, at: u32) -> u8 {
        self.node(at).map_or(0, |node| node.height)
    }

    fn least(&self, at: u32) -> Size {
        self.node(at).map_or((u32::MAX, f64::INFINITY), |node| node.least.into())
    }

    /// The least numbers of a tree.
    pub(crate) fn least_of(&self, class: ClassId) -> Size {
        self.least(self.root(class))
    }

    /// Adds an entry to a tree. An existing key gets this size and index.
    pub(crate) fn insert(&mut self, class: ClassId, key: OrderKey, size: Size, index: u32) {
        let tree = class as usize;
        if self.roots.len() <= tree {
            self.roots.resize(tree + 1, NIL);
        }
        let new =
            Node { key, size: size.into(), least: size.into(), index, left: NIL, right: NIL, height: 1 };
        self.roots[tree] = self.insert_below(self.roots[tree], new);
    }

    fn insert_below(&mut self, at: u32, new: Node) -> u32 {
        let Some(&node) = self.node(at) else { return self.settle(new) };
        match new.key.cmp(&node.key) {
            std::cmp::Ordering::Less => self.nodes[at as usize].left = self.insert_below(node.left, new),
            std::cmp::Ordering::Greater => self.nodes[at as usize].right = self.insert_below(node.right, new),
            std::cmp::Ordering::Equal => {
                let Node { size, index, .. } = new;
                self.nodes[at as usize] = Node { size, index, ..node };
            }
        }
        self.balance(at)
    }

    /// Puts a node into a vacant place.
    fn settle(&mut self, new: Node) -> u32 {
        self.len += 1;
        let at = self.vacant;
        match self.nodes.get_mut(at as usize) {
            Some(place) => {
                self.vacant = place.right;
                *place = new;
                at
            }
            None => {
                if self.nodes.len() == self.nodes.capacity() {
                    // Not doubled, so that half of it does not stay empty: a node is most of the memory of a waiting job.
                    self.nodes.reserve_exact(self.nodes.len() / GROWTH + 1);
                }
                self.nodes.push(new);
                (self.nodes.len() - 1) as u32
            }
        }
    }

    /// Removes an entry; false for an absent one.
    pub(crate) fn remove(&mut self, class: ClassId, key: &OrderKey) -> bool {
        let root = self.root(class);
        let Some(gone) = self.find(class, key) else { return false };
        self.roots[class as usize] = self.remove_below(root, key);
        self.nodes[gone as usize].right = self.vacant;
        self.vacant = gone;
        self.len -= 1;
        true
    }

    /// Removes a node from the tree below `at`; returns the new root. The node itself is unchanged.
    fn remove_below(&mut self, at: u32, key: &OrderKey) -> u32 {
        let node = self.nodes[at as usize];
        match key.cmp(&node.key) {
            std::cmp::Ordering::Less => self.nodes[at as usize].left = self.remove_below(node.left, key),
            std::cmp::Ordering::Greater => {
                self.nodes[at as usize].right = self.remove_below(node.right, key);
            }
            std::cmp::Ordering::Equal => {
                if node.left == NIL || node.right == NIL {
                    return if node.left == NIL { node.right } else { node.left };
                }
                // Its successor takes its place.
                let next = self.leftmost(node.right);
                let heir = self.nodes[next as usize].key;
                let right = self.remove_below(node.right, &heir);
                let place = &mut self.nodes[next as usize];
                (place.left, place.right) = (node.left, right);
                return self.balance(next);
            }
        }
        self.balance(at)
    }

    /// Restores the balance at a node whose subtrees are balanced, and its least numbers. Returns the new root.
    fn balance(&mut self, at: u32) -> u32 {
        let Node { left, right, .. } = self.nodes[at as usize];
        let (l, r) = (self.height(left), self.height(right));
        if l > r + 1 {
            let Node { left: outer, right: inner, .. } = self.nodes[left as usize];
            if self.height(inner) > self.height(outer) {
                self.nodes[at as usize].left = self.rotate_left(left);
            }
            return self.rotate_right(at);
        }
        if r > l + 1 {
            let Node { left: inner, right: outer, .. } = self.nodes[right as usize];
            if self.height(inner) > self.height(outer) {
                self.nodes[at as usize].right = self.rotate_right(right);
            }
            return self.rotate_left(at);
        }
        self.measure(at);
        at
    }

    fn measure(&mut self, at: u32) {
        let Node { left, right, size, .. } = self.nodes[at as usize];
        let height = 1 + self.height(left).max(self.height(right));
        let least = least(size.into(), least(self.least(left), self.least(right)));
        let node = &mut self.nodes[at as usize];
        (node.height, node.least) = (height, least.into());
    }

    fn rotate_left(&mut self, at: u32) -> u32 {
        let top = self.nodes[at as usize].right;
        self.nodes[at as usize].right = std::mem::replace(&mut self.nodes[top as usize].left, at);
        self.measure(at);
        self.measure(top);
        top
    }

    fn rotate_right(&mut self, at: u32) -> u32 {
        let top = self.nodes[at as usize].left;
        self.nodes[at as usize].left = std::mem::replace(&mut self.nodes[top as usize].right, at);
        self.measure(at);
        self.measure(top);
        top
    }

    /// The first node of a tree that is not empty.
    fn leftmost(&self, mut at: u32) -> u32 {
        while let Some(node) = self.node(at).filter(|node| node.left != NIL) {
            at = node.left;
        }
        at
    }

    fn find(&self, class: ClassId, key: &OrderKey) -> Option<u32> {
        let mut at = self.root(class);
        loop {
            let node = self.node(at)?;
            at = match key.cmp(&node.key) {
                std::cmp::Ordering::Less => node.left,
                std::cmp::Ordering::Greater => node.right,
                std::cmp::Ordering::Equal => return Some(at),
            };
        }
    }

    /// Number of entries of all trees.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The entries of all trees, tree by tree.
    pub(super) fn entries(&self) -> Vec<(OrderKey, ClassId, u32)> {
        let mut entries = Vec::with_capacity(self.len);
        let mut left = Vec::new();
        for (class, root) in self.roots.iter().enumerate() {
            left.push(*root);
            while let Some(at) = left.pop() {
                let Some(node) = self.node(at) else { continue };
                entries.push((node.key, class as ClassId, node.index));
                left.extend([node.left, node.right]);
            }
        }
        entries
    }

    /// The first key of a tree.
    pub(crate) fn first(&self, class: ClassId) -> Option<OrderKey> {
        self.node(self.leftmost(self.root(class))).map(|node| node.key)
    }

    /// The first entry of a tree from a key on whose size is `small` enough, with its value. `small` must be
    /// monotonic: true for a size implies true for all sizes that are smaller in both numbers.
    pub(crate) fn next(
        &self,
        class: ClassId,
        from: Bound<&OrderKey>,
        small: &impl Fn(Size) -> bool,
    ) -> Option<(OrderKey, u32)> {
        self.next_below(self.root(class), from, small)
    }

    /// Calls `act` with the values of the entries of a tree whose size is `small` enough, in order; `small` as in [`next`](Self::next).
    pub(super) fn each(&self, class: ClassId, small: &impl Fn(Size) -> bool, act: &mut impl FnMut(u32)) {
        self.each_below(self.root(class), small, act);
    }

    fn each_below(&self, mut at: u32, small: &impl Fn(Size) -> bool, act: &mut impl FnMut(u32)) {
        while let Some(node) = self.node(at).filter(|node| small(node.least.into())) {
            self.each_below(node.left, small, act);
            if small(node.size.into()) {
                act(node.index);
            }
            at = node.right;
        }
    }

    fn next_below(
        &self,
        mut at: u32,
        from: Bound<&OrderKey>,
        small: &impl Fn(Size) -> bool,
    ) -> Option<(OrderKey, u32)> {
        loop {
            let node = self.node(at).filter(|node| small(node.least.into()))?;
            let before = match from {
                Bound::Excluded(key) => node.key <= *key,
                Bound::Included(key) => node.key < *key,
                Bound::Unbounded => false,
            };
            if before {
                at = node.right;
                continue;
            }
            if let Some(found) = self.next_below(node.left, from, small) {
                return Some(found);
            }
            if small(node.size.into()) {
                return Some((node.key, node.index));
            }
            // All following entries are after the key.
            return self.next_below(node.right, Bound::Unbounded, small);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fluxgate_formats::JobId;
    use proptest::prelude::*;

    use super::*;

    fn key(n: u64) -> OrderKey {
        OrderKey::new(n as f64, 16, 0.0, JobId(n))
    }

    /// Height of a tree, after a check of the least numbers of every node.
    fn checked(trees: &Trees, at: u32) -> u8 {
        let Some(node) = trees.node(at) else { return 0 };
        let (l, r) = (checked(trees, node.left), checked(trees, node.right));
        assert!(l.abs_diff(r) <= 1);
        assert_eq!(node.height, 1 + l.max(r));
        let below = least(trees.least(node.left), trees.least(node.right));
        assert_eq!(Size::from(node.least), least(node.size.into(), below));
        node.height
    }

    proptest! {
        #[test]
        fn the_trees_are_sorted_lists(
            steps in prop::collection::vec((0u32..3, 0u64..40, any::<bool>(), 0u32..5, 0u8..6), 0..200),
            asked in prop::collection::vec((0u32..3, 0u64..40, 0u32..6, 0u8..7), 20),
        ) {
            let size = |c: u32, d: u8| (c, if d == 5 { f64::INFINITY } else { f64::from(d) });
            let mut trees = Trees::default();
            let mut model: BTreeMap<(u32, OrderKey), (Size, u32)> = BTreeMap::new();
            let mut most = 0;
            for (number, (class, n, add, c, d)) in steps.into_iter().enumerate() {
                if add {
                    trees.insert(class, key(n), size(c, d), number as u32);
                    model.insert((class, key(n)), (size(c, d), number as u32));
                } else {
                    prop_assert_eq!(trees.remove(class, &key(n)), model.remove(&(class, key(n))).is_some());
                }
                most = most.max(model.len());
                for root in &trees.roots {
                    checked(&trees, *root);
                }
            }
            prop_assert!(trees.nodes.len() <= most, "vacant nodes are used again");
            for (class, n, widest, longest) in asked {
                let of = |c: &u32| *c == class;
                let first = model.keys().find(|(c, _)| of(c)).map(|(_, k)| *k);
                prop_assert_eq!(trees.first(class), first);
                let small = |(cores, seconds): Size| cores <= widest && seconds <= size(0, longest).1;
                let next = |included: bool| {
                    let after = |k: OrderKey| k > key(n) || included && k == key(n);
                    let mut list = model.iter().filter(|((c, k), _)| of(c) && after(*k));
                    list.find(|(_, (size, _))| small(*size)).map(|((_, k), (_, index))| (*k, *index))
                };
                prop_assert_eq!(trees.next(class, Bound::Excluded(&key(n)), &small), next(false));
                prop_assert_eq!(trees.next(class, Bound::Included(&key(n)), &small), next(true));
            }
        }
    }
}
