//! Sorted lists with a search for the next entry that is small enough, without a visit to the others: the jobs of a
//! class with their cores and requested durations, the classes with those of their jobs.
//!
//! One B+ tree for each list (Bayer and McCreight 1972; Comer 1979), sorted by [`OrderKey`]. An entry of an inner block stores
//! the least numbers below it, so a search costs a logarithm where one of the two numbers decides. In a million jobs a search mostly
//! waits for memory, and it waits for a block once, where a binary tree has a wait for each of its entries. The blocks of all trees are in
//! a few vectors (see `blocks`), so that a copy of the order for a forecast or a shadow is a few copies of memory.
//!
//! This module must never know the meaning of the numbers.

mod blocks;

use std::ops::Bound::{self, Excluded, Included, Unbounded};

pub(crate) use blocks::Size;
use blocks::{Blocks, Entry, NIL, NONE, Packed, least};

use super::{ClassId, OrderKey};

/// A tree: its uppermost block, and its least numbers.
#[derive(Debug, Clone, Copy)]
struct Root {
    block: u32,
    least: Packed,
}

/// The trees; see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trees {
    blocks: Blocks,
    /// By class.
    roots: Vec<Root>,
    /// Number of entries of all trees.
    len: usize,
}

impl Trees {
    fn root(&self, class: ClassId) -> Option<u32> {
        self.roots.get(class as usize).map(|root| root.block).filter(|block| *block != NIL)
    }

    /// The least numbers of a tree.
    pub(crate) fn least_of(&self, class: ClassId) -> Size {
        self.roots.get(class as usize).map_or(NONE, |root| root.least.into())
    }

    /// Adds an entry to a tree. An existing key gets this size and index.
    pub(crate) fn insert(&mut self, class: ClassId, key: OrderKey, size: Size, index: u32) {
        self.blocks.compact();
        let tree = class as usize;
        if self.roots.len() <= tree {
            self.roots.resize(tree + 1, Root { block: NIL, least: NONE.into() });
        }
        let root = match self.roots[tree].block {
            NIL => self.blocks.add(0, 0..0),
            root => root,
        };
        let count = self.len;
        let behind = self.insert_below(root, Entry { key, size, value: index }, true);
        if behind.is_none() && self.len > count {
            let before = self.roots[tree].least.into();
            self.roots[tree] = Root { block: root, least: least(before, size).into() };
            return;
        }
        let root = behind.map_or(root, |behind| {
            let above = self.blocks.add(self.blocks.level(root) + 1, 0..0);
            self.blocks.put(above, 0, self.blocks.entry_of(root), true);
            self.blocks.put(above, 1, behind, true);
            above
        });
        self.roots[tree] = Root { block: root, least: self.blocks.least_in(root).into() };
    }

    /// Adds an entry; `last` and the result as in [`Blocks::put`].
    fn insert_below(&mut self, at: u32, new: Entry, last: bool) -> Option<Entry> {
        if self.blocks.level(at) == 0 {
            let place = match self.blocks.place(at, &new.key) {
                Ok(place) => {
                    self.blocks.set(at, place, new);
                    return None;
                }
                Err(place) => place,
            };
            self.len += 1;
            return self.blocks.put(at, place, new, last);
        }
        let place = self.blocks.place_below(at, &new.key);
        let (entry, count) = (self.blocks.entry(at, place), self.len);
        let last_below = last && place + 1 == self.blocks.values(at).len();
        let behind = self.insert_below(entry.value, new, last_below);
        let only_more = behind.is_none() && self.len > count;
        let size = if only_more { least(entry.size, new.size) } else { self.blocks.least_in(entry.value) };
        // The first of all keys may be earlier.
        self.blocks.set(at, place, Entry { key: entry.key.min(new.key), size, ..entry });
        behind.and_then(|behind| self.blocks.put(at, place + 1, behind, last))
    }

    /// Removes an entry; false for an absent one.
    pub(crate) fn remove(&mut self, class: ClassId, key: &OrderKey) -> bool {
        let Some(mut root) = self.root(class) else { return false };
        let Some(gone) = self.remove_below(root, key) else { return false };
        self.len -= 1;
        while let (1.., [child]) = (self.blocks.level(root), self.blocks.values(root)) {
            let child = *child;
            self.blocks.remove(root);
            root = child;
        }
        let before = self.least_of(class);
        let same = gone.0 > before.0 && gone.1 > before.1;
        let least = if same { before } else { self.blocks.least_in(root) }.into();
        if self.blocks.values(root).is_empty() {
            self.blocks.remove(root);
            root = NIL;
        }
        self.roots[class as usize] = Root { block: root, least };
        true
    }

    /// Removes an entry below a block; returns its size.
    fn remove_below(&mut self, at: u32, key: &OrderKey) -> Option<Size> {
        if self.blocks.level(at) == 0 {
            let place = self.blocks.place(at, key).ok()?;
            return Some(self.blocks.take_out(at, place).size);
        }
        let place = self.blocks.place_below(at, key);
        let entry = self.blocks.entry(at, place);
        let gone = self.remove_below(entry.value, key)?;
        if self.blocks.values(entry.value).is_empty() {
            self.blocks.remove(entry.value);
            self.blocks.take_out(at, place);
            return Some(gone);
        }
        if gone.0 <= entry.size.0 || gone.1 <= entry.size.1 {
            self.blocks.set(at, place, Entry { size: self.blocks.least_in(entry.value), ..entry });
        }
        self.blocks.join(at, place);
        if let Some(before) = place.checked_sub(1) {
            self.blocks.join(at, before);
        }
        Some(gone)
    }

    /// Number of entries of all trees.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The entries of all trees, tree by tree.
    pub(super) fn entries(&self) -> Vec<(OrderKey, ClassId, u32)> {
        let mut entries = Vec::with_capacity(self.len);
        for class in 0..self.roots.len() as ClassId {
            let Some(root) = self.root(class) else { continue };
            let mut left = vec![root];
            while let Some(at) = left.pop() {
                let values = self.blocks.values(at);
                match self.blocks.level(at) {
                    0 => {
                        let keys = self.blocks.keys(at).iter();
                        entries.extend(keys.zip(values).map(|(key, value)| (*key, class, *value)));
                    }
                    _ => left.extend(values),
                }
            }
        }
        entries
    }

    /// The first key of a tree.
    pub(crate) fn first(&self, class: ClassId) -> Option<OrderKey> {
        let mut at = self.root(class)?;
        while self.blocks.level(at) > 0 {
            at = *self.blocks.values(at).first()?;
        }
        self.blocks.keys(at).first().copied()
    }

    /// The first entry of a tree from a key on whose size is `small` enough, with its value. `small` must be
    /// monotonic: true for a size implies true for all sizes that are smaller in both numbers.
    pub(crate) fn next(
        &self,
        class: ClassId,
        from: Bound<&OrderKey>,
        small: &impl Fn(Size) -> bool,
    ) -> Option<(OrderKey, u32)> {
        let root = self.root(class).filter(|_| small(self.least_of(class)))?;
        self.next_below(root, from, small)
    }

    fn next_below(
        &self,
        at: u32,
        from: Bound<&OrderKey>,
        small: &impl Fn(Size) -> bool,
    ) -> Option<(OrderKey, u32)> {
        let level = self.blocks.level(at);
        let first = match from {
            Unbounded => 0,
            Included(key) | Excluded(key) if level > 0 => self.blocks.place_below(at, key),
            Included(key) => self.blocks.place(at, key).unwrap_or_else(|behind| behind),
            Excluded(key) => self.blocks.place(at, key).map_or_else(|behind| behind, |place| place + 1),
        };
        let mut large: Option<Size> = None;
        for (place, size) in self.blocks.sizes(at).iter().enumerate().skip(first) {
            let size = Size::from(*size);
            // A size that is no smaller than one that is too large is too large, too.
            if large.is_some_and(|large| size.0 >= large.0 && size.1 >= large.1) {
                continue;
            }
            if !small(size) {
                large = Some(size);
                continue;
            }
            let value = self.blocks.values(at)[place];
            let found = match level {
                0 => Some((self.blocks.keys(at)[place], value)),
                // All entries but the first are after the key.
                _ => self.next_below(value, if place == first { from } else { Unbounded }, small),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Calls `act` with the values of the entries of a tree whose size is `small` enough, in order; `small` as in [`next`](Self::next).
    pub(super) fn each(&self, class: ClassId, small: &impl Fn(Size) -> bool, act: &mut impl FnMut(u32)) {
        if let Some(root) = self.root(class) {
            self.each_below(root, small, act);
        }
    }

    fn each_below(&self, at: u32, small: &impl Fn(Size) -> bool, act: &mut impl FnMut(u32)) {
        for (size, value) in self.blocks.sizes(at).iter().zip(self.blocks.values(at)) {
            if small((*size).into()) {
                match self.blocks.level(at) {
                    0 => act(*value),
                    _ => self.each_below(*value, small, act),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
