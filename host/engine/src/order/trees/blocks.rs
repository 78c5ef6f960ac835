//! The blocks of trees and the space of their entries; see [`Trees`](super::Trees).
//!
//! Numbers that are read together lie together: a search reads the sizes of a block one behind the other, and its keys only to find its
//! first place. A block has hardly more space than it needs, so that a list of few is small. Must never know which blocks are one tree.

use std::ops::Range;

use fluxgate_formats::JobId;

use super::super::OrderKey;

/// The number of no block, and the start of no room.
pub(super) const NIL: u32 = u32::MAX;

/// Most entries of a block; few in the tests of this crate, so that their trees are deep.
const ENTRIES_MAX: usize = if cfg!(test) { 4 } else { 32 };
/// Keys that a search passes over at a time.
const STRIDE: usize = if cfg!(test) { 2 } else { 8 };
/// Neighbours with at most this number of entries together become one block.
const FEW: usize = ENTRIES_MAX / 2;
/// The space of a block is so many times its room.
const STEP: usize = if cfg!(test) { 1 } else { 4 };
/// The largest room.
const ROOMS: usize = ENTRIES_MAX / STEP;

/// The part of its length by which a vector of entries grows.
const GROWTH: usize = 8;
/// The part of all space that may be vacant, once it is more than [`IDLE_MIN`].
const IDLE: usize = 8;
/// See [`IDLE`].
const IDLE_MIN: usize = 2 * ENTRIES_MAX;

/// Cores, and seconds, which may be infinite.
pub(crate) type Size = (u32, f64);

/// The size of no entry: no size is larger.
pub(super) const NONE: Size = (u32::MAX, f64::INFINITY);

/// The lesser of each number.
pub(super) fn least(a: Size, b: Size) -> Size {
    (a.0.min(b.0), a.1.min(b.1))
}

/// Numbers without the space between them.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(super) struct Packed(u32, f64);

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

/// An entry. In an inner block: a key that is no later than those of a block and later than those before it, the least numbers of that
/// block, and its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) key: OrderKey,
    pub(super) size: Size,
    pub(super) value: u32,
}

/// A block; its entries are at `start` in the vectors. In a vacant one `start` is the number of the next vacant one.
#[derive(Debug, Clone, Copy)]
struct Block {
    start: u32,
    len: u8,
    /// Its space, in steps; 0 for a vacant one.
    room: u8,
    /// 0 for a block of entries, and one more for each level above.
    level: u8,
}

impl Block {
    fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.len)
    }

    fn capacity(self) -> usize {
        usize::from(self.room) * STEP
    }
}

/// Blocks and their entries; see the module.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    /// The keys of the entries of all blocks, their sizes, and their values.
    keys: Vec<OrderKey>,
    sizes: Vec<Packed>,
    values: Vec<u32>,
    blocks: Vec<Block>,
    /// The first vacant block.
    vacant: u32,
    /// The first vacant space for each room but none, which has the start of the next one as its first value.
    rooms: [u32; ROOMS],
    /// Entries of all vacant spaces.
    idle: usize,
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks {
            keys: Vec::new(),
            sizes: Vec::new(),
            values: Vec::new(),
            blocks: Vec::new(),
            vacant: NIL,
            rooms: [NIL; ROOMS],
            idle: 0,
        }
    }
}

/// The room of a block of so many entries.
fn room_for(entries: usize) -> u8 {
    entries.div_ceil(STEP).max(1) as u8
}

/// Space for more entries. Not doubled, so that half of it does not stay empty: an entry is most of the memory of a waiting job.
fn grow<T: Clone>(list: &mut Vec<T>, more: usize, filler: T) {
    let len = list.len() + more;
    if len > list.capacity() {
        list.reserve_exact(more.max(list.len() / GROWTH));
    }
    list.resize(len, filler);
}

impl Blocks {
    fn block(&self, at: u32) -> Block {
        self.blocks[at as usize]
    }

    /// 0 for a block of entries, and one more for each level above.
    pub(super) fn level(&self, at: u32) -> u8 {
        self.block(at).level
    }

    /// The keys of a block.
    pub(super) fn keys(&self, at: u32) -> &[OrderKey] {
        &self.keys[self.block(at).range()]
    }

    /// Its sizes.
    pub(super) fn sizes(&self, at: u32) -> &[Packed] {
        &self.sizes[self.block(at).range()]
    }

    /// Its values.
    pub(super) fn values(&self, at: u32) -> &[u32] {
        &self.values[self.block(at).range()]
    }

    /// An entry of a block.
    pub(super) fn entry(&self, at: u32, place: usize) -> Entry {
        let index = self.block(at).start as usize + place;
        Entry { key: self.keys[index], size: self.sizes[index].into(), value: self.values[index] }
    }

    /// Another entry in its place.
    pub(super) fn set(&mut self, at: u32, place: usize, entry: Entry) {
        let index = self.block(at).start as usize + place;
        self.keys[index] = entry.key;
        (self.sizes[index], self.values[index]) = (entry.size.into(), entry.value);
    }

    /// The entry of a block, which is not empty, in the block above.
    pub(super) fn entry_of(&self, at: u32) -> Entry {
        Entry { size: self.least_in(at), value: at, ..self.entry(at, 0) }
    }

    /// The least numbers of a block.
    pub(super) fn least_in(&self, at: u32) -> Size {
        self.sizes(at).iter().fold(NONE, |small, size| least(small, (*size).into()))
    }

    /// The place of a key in a block, or that at which it would be. Keys are read in their order, which takes no longer than the wait for
    /// one of them; most are passed over a few at a time.
    pub(super) fn place(&self, at: u32, key: &OrderKey) -> Result<usize, usize> {
        let keys = self.keys(at);
        let mut from = 0;
        while keys.get(from + STRIDE - 1).is_some_and(|other| other < key) {
            from += STRIDE;
        }
        let place =
            keys[from..].iter().position(|other| other >= key).map_or(keys.len(), |place| from + place);
        if keys.get(place) == Some(key) { Ok(place) } else { Err(place) }
    }

    /// The place in an inner block of the block that has a key, if any has.
    pub(super) fn place_below(&self, at: u32, key: &OrderKey) -> usize {
        self.place(at, key).unwrap_or_else(|behind| behind.saturating_sub(1))
    }

    /// Space for a room.
    fn occupy(&mut self, room: u8) -> u32 {
        let (vacant, space) = (&mut self.rooms[usize::from(room) - 1], usize::from(room) * STEP);
        let start = *vacant;
        if let Some(next) = self.values.get(start as usize) {
            *vacant = *next;
            self.idle -= space;
            return start;
        }
        let start = self.values.len() as u32;
        grow(&mut self.keys, space, OrderKey::new(0.0, 0, 0.0, JobId(0)));
        grow(&mut self.sizes, space, NONE.into());
        grow(&mut self.values, space, NIL);
        start
    }

    fn vacate(&mut self, start: u32, room: u8) {
        self.values[start as usize] = std::mem::replace(&mut self.rooms[usize::from(room) - 1], start);
        self.idle += usize::from(room) * STEP;
    }

    /// True if few spaces are vacant.
    pub(super) fn is_compact(&self) -> bool {
        self.idle <= IDLE_MIN.max(self.values.len() / IDLE)
    }

    /// Gives up vacant spaces, if they are many: those of small rooms stay behind when all lists grow.
    pub(super) fn compact(&mut self) {
        if self.is_compact() {
            return;
        }
        let all = self.values.len() - self.idle;
        let mut keys = Vec::with_capacity(all + all / GROWTH);
        let mut sizes = Vec::with_capacity(keys.capacity());
        let mut values = Vec::with_capacity(keys.capacity());
        for block in self.blocks.iter_mut().filter(|block| block.room > 0) {
            let start = block.start as usize;
            let space = start..start + block.capacity();
            block.start = values.len() as u32;
            keys.extend_from_slice(&self.keys[space.clone()]);
            sizes.extend_from_slice(&self.sizes[space.clone()]);
            values.extend_from_slice(&self.values[space]);
        }
        (self.keys, self.sizes, self.values) = (keys, sizes, values);
        (self.rooms, self.idle) = ([NIL; ROOMS], 0);
    }

    /// Moves entries within the vectors.
    fn shift(&mut self, from: Range<usize>, to: usize) {
        if from.is_empty() {
            return;
        }
        self.keys.copy_within(from.clone(), to);
        self.sizes.copy_within(from.clone(), to);
        self.values.copy_within(from, to);
    }

    /// Gives a block a room of another size.
    fn resize(&mut self, at: u32, room: u8) {
        let block = self.block(at);
        let start = self.occupy(room);
        self.shift(block.range(), start as usize);
        self.vacate(block.start, block.room);
        self.blocks[at as usize] = Block { start, room, ..block };
    }

    /// A new block, with copies of entries that are elsewhere in the vectors.
    pub(super) fn add(&mut self, level: u8, entries: Range<usize>) -> u32 {
        let room = room_for(entries.len());
        let start = self.occupy(room);
        let new = Block { start, len: entries.len() as u8, room, level };
        self.shift(entries, start as usize);
        let at = self.vacant;
        match self.blocks.get_mut(at as usize) {
            Some(place) => {
                self.vacant = place.start;
                *place = new;
                at
            }
            None => {
                self.blocks.push(new);
                (self.blocks.len() - 1) as u32
            }
        }
    }

    pub(super) fn remove(&mut self, at: u32) {
        let Block { start, room, .. } = self.block(at);
        self.vacate(start, room);
        let block = &mut self.blocks[at as usize];
        (block.start, block.room) = (std::mem::replace(&mut self.vacant, at), 0);
    }

    /// Adds an entry to a block at a place; `last` for the last block of its level. Returns an entry for the block behind it, if that one
    /// is new.
    pub(super) fn put(&mut self, at: u32, place: usize, entry: Entry, last: bool) -> Option<Entry> {
        let block = self.block(at);
        let len = usize::from(block.len);
        if len < ENTRIES_MAX {
            if len == block.capacity() {
                self.resize(at, room_for(len + 1));
            }
            let Range { start, end } = self.block(at).range();
            self.shift(start + place..end, start + place + 1);
            self.set(at, place, entry);
            self.blocks[at as usize].len += 1;
            return None;
        }
        // A list that grows at its end has full blocks.
        let keep = if last && place == len { len } else { len / 2 };
        let Range { start, end } = block.range();
        let behind = self.add(block.level, start + keep..end);
        self.blocks[at as usize].len = keep as u8;
        if keep < len {
            self.resize(at, room_for(keep + 1));
        }
        match place.checked_sub(keep) {
            Some(place) if place > 0 || keep == len => self.put(behind, place, entry, last),
            _ => self.put(at, place, entry, false),
        };
        Some(self.entry_of(behind))
    }

    /// Removes and returns the entry of a block at a place.
    pub(super) fn take_out(&mut self, at: u32, place: usize) -> Entry {
        let entry = self.entry(at, place);
        let Range { start, end } = self.block(at).range();
        self.shift(start + place + 1..end, start + place);
        let block = &mut self.blocks[at as usize];
        block.len -= 1;
        let block = *block;
        let room = room_for(block.len.into());
        if room * 2 <= block.room {
            self.resize(at, room);
        }
        entry
    }

    /// Makes one block of two below an inner block, at this place and behind it, if they have few entries.
    pub(super) fn join(&mut self, at: u32, place: usize) {
        let Some(&[this, behind]) = self.values(at).get(place..place + 2) else { return };
        let other = self.block(behind).range();
        let all = self.values(this).len() + other.len();
        if all > FEW {
            return;
        }
        if all > self.block(this).capacity() {
            self.resize(this, room_for(all));
        }
        self.shift(other, self.block(this).range().end);
        self.blocks[this as usize].len = all as u8;
        self.remove(behind);
        let entry = self.entry(at, place);
        self.set(at, place, Entry { size: self.least_in(this), ..entry });
        self.take_out(at, place + 1);
    }
}

#[cfg(test)]
impl Blocks {
    /// Checks a block that is in use, by itself and with those below it.
    pub(super) fn check_block(&self, at: u32) {
        let (block, keys) = (self.block(at), self.keys(at));
        assert!((1..=ENTRIES_MAX).contains(&keys.len()) && keys.is_sorted());
        assert!(keys.len() <= block.capacity() && block.room <= 2 * room_for(keys.len()));
        if block.level > 0 {
            let pairs = self.values(at).windows(2);
            let lens = pairs.map(|pair| self.values(pair[0]).len() + self.values(pair[1]).len());
            assert!(lens.min().is_none_or(|few| few > FEW));
        }
    }

    /// Checks that no block and no space is lost; `used` blocks are in use.
    pub(super) fn check(&self, used: usize) {
        let list = |first: u32, next: &dyn Fn(usize) -> u32| {
            let there = |at: u32| (at != NIL).then_some(at);
            std::iter::successors(there(first), |at| there(next(*at as usize))).count()
        };
        assert_eq!(used + list(self.vacant, &|at| self.blocks[at].start), self.blocks.len());
        assert_eq!(used, self.blocks.iter().filter(|block| block.room > 0).count());
        let vacant = self.rooms.iter().map(|first| list(*first, &|start| self.values[start]));
        assert_eq!(self.idle, vacant.zip(1..).map(|(count, room)| count * room * STEP).sum::<usize>());
        let space = self.blocks.iter().map(|block| block.capacity()).sum::<usize>() + self.idle;
        assert_eq!((space, space, space), (self.keys.len(), self.sizes.len(), self.values.len()));
    }
}
