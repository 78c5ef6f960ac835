//! The resources found below a vertex, by subsystem and type, and the chosen ones among them (RFC 4, accumulator).
//!
//! This module must never know the meaning of a score.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_graph::description::{EdgeId, Name};

/// An edge of a selection, with the units of the vertex at its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    /// `None` for the root.
    pub(crate) edge: Option<EdgeId>,
    pub(crate) units: u64,
    pub(crate) exclusive: bool,
}

/// Vertices that are taken together or not at all: one vertex, or the content of one slot.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) score: i64,
    /// Its count: units of a vertex, 1 for a slot.
    pub(crate) count: u64,
    /// The only use of a vertex; separate because most groups are vertices, and a list costs an allocation.
    pub(crate) first: Option<Use>,
    /// The other uses of a slot.
    pub(crate) more: Vec<Use>,
}

impl Group {
    /// The units of the first edge.
    pub(crate) fn units(&self) -> u64 {
        self.first.map_or(0, |u| u.units)
    }

    /// A vertex.
    pub(crate) fn of(score: i64, used: Use) -> Self {
        Group { score, count: used.units, first: Some(used), more: Vec::new() }
    }

    /// An empty slot.
    pub(crate) fn slot() -> Self {
        Group { score: 1, count: 1, first: None, more: Vec::new() }
    }

    pub(crate) fn push(&mut self, used: Use) {
        match self.first {
            None => self.first = Some(used),
            Some(_) => self.more.push(used),
        }
    }

    /// All uses.
    pub(crate) fn uses(&self) -> impl Iterator<Item = &Use> {
        self.first.iter().chain(&self.more)
    }
}

/// True if the first is better than the second.
pub(crate) type Better = fn(&Group, &Group) -> bool;

/// All groups of one type.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    pub(crate) groups: Vec<Group>,
    /// Sum of the counts with a score above 0.
    pub(crate) qualified: u64,
    /// Sum of all counts.
    pub(crate) total: u64,
    /// Number of chosen `groups`; 0 before a choice.
    pub(crate) chosen: usize,
    next: usize,
}

impl Found {
    fn add(&mut self, group: Group) {
        self.total = self.total.saturating_add(group.count);
        if group.score > 0 {
            self.qualified = self.qualified.saturating_add(group.count);
        }
        self.groups.push(group);
    }

    /// Sorts the groups and chooses from the front until their counts reach `count`. False, without a change, if
    /// `count` is 0 or more than qualified. The sort decides the order of equally good groups.
    fn choose(&mut self, count: u64, better: &dyn Fn(&Group, &Group) -> bool) -> bool {
        if count == 0 || count > self.qualified {
            return false;
        }
        super::order::sort(&mut self.groups, better);
        let mut left = count;
        let mut chosen = 0;
        for group in &self.groups {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(group.count);
            chosen += 1;
        }
        self.chosen = chosen;
        true
    }

    /// Chooses the groups at these positions, which are in order.
    pub(crate) fn choose_these(&mut self, places: &[usize]) {
        for (to, &from) in places.iter().enumerate() {
            self.groups.swap(to, from);
        }
        self.chosen = places.len();
    }

    /// The next group that was not returned yet.
    pub(crate) fn next(&mut self) -> Option<&Group> {
        let group = self.groups.get(self.next)?;
        self.next += 1;
        Some(group)
    }
}

/// The groups found below one vertex.
#[derive(Debug, Clone)]
pub(crate) struct Scores {
    /// By subsystem and type, in order: there are few, and a map would cost many allocations.
    found: Vec<((Name, Name), Found)>,
    /// True after a choice: the parents do not need the groups below.
    pub(crate) settled: bool,
    /// Score of the child visited last.
    pub(crate) score: i64,
    /// Free units of the child visited last.
    pub(crate) free: u64,
}

impl Default for Scores {
    fn default() -> Self {
        Scores { found: Vec::new(), settled: false, score: -1, free: 0 }
    }
}

impl Scores {
    pub(crate) fn add(&mut self, subsystem: Name, type_: Name, group: Group) {
        self.entry((subsystem, type_)).add(group);
    }

    /// True if nothing was found, or the groups found are settled and not passed on.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    fn place(&self, key: (Name, Name)) -> Result<usize, usize> {
        self.found.binary_search_by_key(&key, |(key, _)| *key)
    }

    fn entry(&mut self, key: (Name, Name)) -> &mut Found {
        let place = self.place(key).unwrap_or_else(|place| {
            self.found.insert(place, (key, Found::default()));
            place
        });
        &mut self.found[place].1
    }

    pub(crate) fn get(&self, subsystem: Name, type_: Name) -> Option<&Found> {
        self.place((subsystem, type_)).ok().map(|place| &self.found[place].1)
    }

    pub(crate) fn get_mut(&mut self, subsystem: Name, type_: Name) -> Option<&mut Found> {
        self.place((subsystem, type_)).ok().map(|place| &mut self.found[place].1)
    }

    pub(crate) fn qualified(&self, subsystem: Name, type_: Name) -> u64 {
        self.get(subsystem, type_).map_or(0, |f| f.qualified)
    }

    pub(crate) fn total(&self, subsystem: Name, type_: Name) -> u64 {
        self.get(subsystem, type_).map_or(0, |f| f.total)
    }

    /// All groups of a subsystem, by type.
    pub(crate) fn of(&self, subsystem: Name) -> impl Iterator<Item = (Name, &Found)> {
        let of = self.found.iter().filter(move |((of, _), _)| *of == subsystem);
        of.map(|((_, type_), found)| (*type_, found))
    }

    /// Chooses the best of a type.
    pub(crate) fn choose(&mut self, subsystem: Name, type_: Name, count: u64, better: Better) {
        let chosen = self.get_mut(subsystem, type_).is_some_and(|f| f.choose(count, &better));
        self.settled |= chosen;
    }

    /// Chooses groups of a type with close scores: first all of the highest run of consecutive scores. `seen`
    /// collects the scores of all types requested so far.
    pub(crate) fn choose_close(
        &mut self,
        subsystem: Name,
        type_: Name,
        count: u64,
        seen: &mut BTreeSet<i64>,
    ) {
        let Some(found) = self.get_mut(subsystem, type_) else { return };
        seen.extend(found.groups.iter().map(|g| g.score));
        let mut runs: BTreeMap<i64, i64> = BTreeMap::new();
        let mut run = None;
        for &score in seen.iter() {
            let first = match run {
                Some((first, last)) if last + 1 == score => first,
                _ => score,
            };
            run = Some((first, score));
            runs.insert(score, first);
        }
        let chosen = found.choose(count, &|a, b| runs.get(&a.score) > runs.get(&b.score));
        self.settled |= chosen;
    }

    /// Chooses all groups of every type of a subsystem, which sorts them.
    pub(crate) fn choose_all(&mut self, subsystem: Name, better: Better) {
        let types: Vec<Name> = self.of(subsystem).map(|(type_, _)| type_).collect();
        for type_ in types {
            self.choose(subsystem, type_, self.qualified(subsystem, type_), better);
        }
    }

    /// Merges the groups found further down.
    pub(crate) fn merge(&mut self, other: Scores) {
        if self.found.is_empty() {
            self.found = other.found;
            // The choice is repeated further up.
            for (_, found) in &mut self.found {
                (found.chosen, found.next) = (0, 0);
            }
            return;
        }
        for (key, found) in other.found {
            let mine = self.entry(key);
            mine.qualified = mine.qualified.saturating_add(found.qualified);
            mine.total = mine.total.saturating_add(found.total);
            mine.groups.extend(found.groups);
        }
    }
}
