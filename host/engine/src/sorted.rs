//! A sorted list of keys with a slot each, in chunks that are full where keys come in order.
//!
//! A map of the standard library that grows at its end is little more than half full, and a search in a large one waits for memory at
//! each level; here, at the end of a binary search over the chunks. Must never know the meaning of the keys.

use std::collections::VecDeque;

use crate::order::Slot;

/// Most entries of a chunk; few in the tests of this crate, so that their lists have many chunks.
const ENTRIES_MAX: usize = if cfg!(test) { 4 } else { 64 };
/// Neighbours with at most this number of entries together become one chunk.
const FEW: usize = ENTRIES_MAX / 2;

/// A key with its slot, without the space between them.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
struct Entry<K: Copy>(K, Slot);

impl<K: Copy> Entry<K> {
    fn key(&self) -> K {
        self.0
    }

    fn both(&self) -> (K, Slot) {
        (self.0, self.1)
    }
}

/// Entries that are one behind the other.
#[derive(Debug, Clone)]
struct Chunk<K: Copy> {
    /// No later than the entries, and later than those of the chunk before.
    from: K,
    /// Not empty but in a list of one chunk, whose memory is used again.
    entries: Vec<Entry<K>>,
}

impl<K: Copy + Ord> Chunk<K> {
    /// The place of a key, or that at which it would be.
    fn place(&self, key: &K) -> Result<usize, usize> {
        self.entries.binary_search_by_key(key, Entry::key)
    }
}

/// The list; see the module.
#[derive(Debug, Clone)]
pub(crate) struct Sorted<K: Copy> {
    chunks: VecDeque<Chunk<K>>,
    len: usize,
}

impl<K: Copy> Default for Sorted<K> {
    fn default() -> Self {
        Sorted { chunks: VecDeque::new(), len: 0 }
    }
}

impl<K: Copy + Ord> Sorted<K> {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// True if there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The chunk that has a key, if any has.
    fn chunk(&self, key: &K) -> usize {
        self.chunks.partition_point(|chunk| chunk.from <= *key).saturating_sub(1)
    }

    /// The slot of a key.
    pub(crate) fn get(&self, key: &K) -> Option<Slot> {
        let chunk = self.chunks.get(self.chunk(key))?;
        Some(chunk.entries[chunk.place(key).ok()?].1)
    }

    /// Adds a key with a slot. A key that is there gets this slot.
    pub(crate) fn insert(&mut self, key: K, slot: Slot) {
        let mut at = self.chunk(&key);
        let last = at + 1 == self.chunks.len();
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push_back(Chunk { from: key, entries: vec![Entry(key, slot)] });
            self.len = 1;
            return;
        };
        let mut place = match chunk.place(&key) {
            Ok(place) => {
                chunk.entries[place].1 = slot;
                return;
            }
            Err(place) => place,
        };
        self.len += 1;
        // The first of all keys may be earlier.
        chunk.from = chunk.from.min(key);
        if chunk.entries.len() == ENTRIES_MAX {
            // A list that grows at its end has full chunks.
            let keep = if last && place == ENTRIES_MAX { ENTRIES_MAX } else { ENTRIES_MAX / 2 };
            let behind = chunk.entries.split_off(keep);
            let from = behind.first().map_or(key, |entry| entry.0);
            at += 1;
            self.chunks.insert(at, Chunk { from, entries: behind });
            match place.checked_sub(keep) {
                Some(behind) if behind > 0 || keep == ENTRIES_MAX => place = behind,
                _ => at -= 1,
            }
        }
        self.chunks[at].entries.insert(place, Entry(key, slot));
    }

    /// Removes a key. No effect for an absent one.
    pub(crate) fn remove(&mut self, key: &K) {
        let at = self.chunk(key);
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let Ok(place) = chunk.place(key) else { return };
        chunk.entries.remove(place);
        self.len -= 1;
        if chunk.entries.len() < FEW / 2 && chunk.entries.capacity() > FEW {
            chunk.entries.shrink_to(FEW);
        }
        if chunk.entries.is_empty() && self.len > 0 {
            self.chunks.remove(at);
            return;
        }
        self.join(at);
        if let Some(before) = at.checked_sub(1) {
            self.join(before);
        }
    }

    /// Makes one chunk of two, this one and the one behind it, if they have few entries.
    fn join(&mut self, at: usize) {
        let lens = |at: usize| self.chunks.get(at).map(|chunk| chunk.entries.len());
        if let (Some(len), Some(other)) = (lens(at), lens(at + 1))
            && len + other <= FEW
            && let Some(behind) = self.chunks.remove(at + 1)
        {
            self.chunks[at].entries.extend(behind.entries);
        }
    }

    /// Keeps the entries for which `keep` is true.
    pub(crate) fn retain(&mut self, keep: impl Fn(K, Slot) -> bool) {
        let all = std::mem::take(self);
        for Entry(key, slot) in all.chunks.into_iter().flat_map(|chunk| chunk.entries) {
            if keep(key, slot) {
                self.insert(key, slot);
            }
        }
    }

    /// The first entry.
    pub(crate) fn first(&self) -> Option<(K, Slot)> {
        self.chunks.front()?.entries.first().map(Entry::both)
    }

    /// The slots in order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.after(None).map(|(_, slot)| slot)
    }

    /// The entries behind a key, or all, in order.
    pub(crate) fn after(&self, key: Option<K>) -> impl Iterator<Item = (K, Slot)> {
        let at = key.map_or(0, |key| self.chunk(&key));
        let first = self.chunks.get(at).map_or(&[][..], |chunk| {
            let behind = |key| chunk.place(&key).map_or_else(|behind| behind, |place| place + 1);
            &chunk.entries[key.map_or(0, behind)..]
        });
        let others = self.chunks.range((at + 1).min(self.chunks.len())..);
        first.iter().chain(others.flat_map(|chunk| &chunk.entries)).map(Entry::both)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound::{Excluded, Unbounded};

    use proptest::prelude::*;

    use super::*;

    fn check(list: &Sorted<u16>) {
        let mut before: Option<u16> = None;
        for chunk in &list.chunks {
            let keys = || chunk.entries.iter().map(Entry::key);
            assert!(chunk.entries.len() <= ENTRIES_MAX && keys().is_sorted());
            assert!(!chunk.entries.is_empty() || list.chunks.len() == 1);
            assert!(before.is_none_or(|before| before < chunk.from));
            assert!(keys().all(|key| key >= chunk.from));
            before = keys().next_back();
        }
        let pairs = list.chunks.iter().zip(list.chunks.iter().skip(1));
        assert!(pairs.into_iter().all(|(a, b)| a.entries.len() + b.entries.len() > FEW));
    }

    proptest! {
        #[test]
        fn the_list_is_a_sorted_map(
            steps in prop::collection::vec((0u16..100, 0u8..5), 0..300),
            kept in 1u32..4,
            asked in prop::collection::vec(0u16..100, 10),
        ) {
            let (mut list, mut model) = (Sorted::default(), BTreeMap::new());
            for (number, (key, act)) in steps.into_iter().enumerate() {
                // Some keys come in order.
                let key = if act == 4 { number as u16 } else { key };
                if act == 0 {
                    list.remove(&key);
                    model.remove(&key);
                } else {
                    list.insert(key, number as Slot);
                    model.insert(key, number as Slot);
                }
                check(&list);
                prop_assert_eq!(list.len(), model.len());
                prop_assert_eq!(list.first(), model.first_key_value().map(|(key, slot)| (*key, *slot)));
            }
            list.retain(|_, slot| slot.is_multiple_of(kept));
            model.retain(|_, slot| slot.is_multiple_of(kept));
            check(&list);
            prop_assert_eq!(list.is_empty(), model.is_empty());
            prop_assert!(list.slots().eq(model.values().copied()));
            for key in asked {
                prop_assert_eq!(list.get(&key), model.get(&key).copied());
                let behind = model.range((Excluded(key), Unbounded)).map(|(key, slot)| (*key, *slot));
                prop_assert!(list.after(Some(key)).eq(behind));
            }
        }
    }
}
