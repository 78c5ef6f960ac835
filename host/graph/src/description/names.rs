//! Interned strings: types, units, names and properties, each stored once.
//!
//! This module must never know the meaning of a name.

use std::collections::HashMap;
use std::sync::Arc;

/// A string of one `Names` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub(crate) u32);

impl Name {
    /// The empty string, present in every table.
    pub const EMPTY: Name = Name(0);

    /// Position in its table, from 0: the order in which texts were first named.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A table of interned strings. Looked up by hash, never iterated in hash order.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    list: Vec<Arc<str>>,
    map: HashMap<Arc<str>, Name>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Names { list: Vec::new(), map: HashMap::new() };
        names.intern("");
        names
    }
}

impl Names {
    pub(crate) fn intern(&mut self, text: &str) -> Name {
        if let Some(&name) = self.map.get(text) {
            return name;
        }
        let shared: Arc<str> = text.into();
        let name = Name(self.list.len() as u32);
        self.list.push(shared.clone());
        self.map.insert(shared, name);
        name
    }

    pub(crate) fn get(&self, text: &str) -> Option<Name> {
        self.map.get(text).copied()
    }

    pub(crate) fn text(&self, name: Name) -> &str {
        &self.list[name.0 as usize]
    }
}

/// A set of properties of one [`PropSets`] table; equal sets have equal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PropSet(pub(crate) u32);

impl PropSet {
    pub(crate) const EMPTY: PropSet = PropSet(0);
}

/// Interned sets of property names: thousands of nodes share a few sets.
#[derive(Debug, Clone)]
pub(crate) struct PropSets {
    list: Vec<Arc<[Name]>>,
    map: HashMap<Arc<[Name]>, PropSet>,
}

impl Default for PropSets {
    fn default() -> Self {
        let mut sets = PropSets { list: Vec::new(), map: HashMap::new() };
        sets.intern(Vec::new());
        sets
    }
}

impl PropSets {
    pub(crate) fn intern(&mut self, mut names: Vec<Name>) -> PropSet {
        names.sort_unstable();
        names.dedup();
        let names: Arc<[Name]> = names.into();
        if let Some(&set) = self.map.get(&names) {
            return set;
        }
        let set = PropSet(self.list.len() as u32);
        self.list.push(names.clone());
        self.map.insert(names, set);
        set
    }

    pub(crate) fn names(&self, set: PropSet) -> &[Name] {
        &self.list[set.0 as usize]
    }

    pub(crate) fn contains(&self, set: PropSet, name: Name) -> bool {
        self.list[set.0 as usize].binary_search(&name).is_ok()
    }

    pub(crate) fn with(&mut self, set: PropSet, name: Name) -> PropSet {
        let mut names = self.names(set).to_vec();
        names.push(name);
        self.intern(names)
    }

    pub(crate) fn without(&mut self, set: PropSet, name: Name) -> PropSet {
        let names = self.names(set).iter().copied().filter(|&n| n != name).collect();
        self.intern(names)
    }
}
