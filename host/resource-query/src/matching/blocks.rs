//! Sorting of long lists with long runs of equal keys, at a cost proportional to the number of runs.
//!
//! A list is stored as blocks: runs of elements with equal keys, with ascending or descending numbers. The result is
//! that of [`order`] on the elements, including the positions of equal ones: the medians and partitions are the same.
//! Where [`order`] compares and swaps single elements of two blocks, whole blocks are exchanged and reversed here. A
//! list of equal elements takes a logarithmic number of steps.
//!
//! [`order`]: super::order
//!
//! This module must never know the elements.

use super::order::RUN;

/// Consecutive elements with equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// Number of the first element.
    pub(super) from: u32,
    pub(super) len: u32,
    /// True if the numbers descend.
    pub(super) down: bool,
    /// Smaller keys come first.
    pub(super) key: i64,
}

impl Block {
    /// The number of the element at a position.
    pub(super) fn at(&self, place: u32) -> u32 {
        if self.down { self.from - place } else { self.from + place }
    }

    fn cut(&self, first: u32, len: u32) -> Block {
        Block { from: self.at(first), len, ..*self }
    }

    fn turned(&self) -> Block {
        Block { from: self.at(self.len - 1), down: !self.down, ..*self }
    }
}

/// Adds a block to a list; an adjacent block is extended.
pub(super) fn push(list: &mut Vec<Block>, block: Block) {
    if block.len == 0 {
        return;
    }
    if let Some(last) = list.last_mut().filter(|last| last.key == block.key) {
        let next = if last.down { last.from.checked_sub(last.len) } else { last.from.checked_add(last.len) };
        let same = last.down == block.down || block.len == 1;
        if same && next == Some(block.from) {
            last.len += block.len;
            return;
        }
    }
    list.push(block);
}

/// The first `count` elements of the sorted list, possibly more.
pub(super) fn sort_front(list: Vec<Block>, count: u32) -> Vec<Block> {
    let len = list.iter().map(|b| b.len).sum::<u32>();
    let mut sorted = Vec::new();
    if let Some(depth) = len.checked_ilog2() {
        parts(list, len, 2 * depth, count, &mut sorted);
    }
    sorted
}

fn parts(mut list: Vec<Block>, mut len: u32, mut depth: u32, count: u32, sorted: &mut Vec<Block>) {
    let mut behind: Vec<(Vec<Block>, u32, u32, u32)> = Vec::new();
    let mut count = count;
    loop {
        while len as usize > RUN && depth > 0 {
            depth -= 1;
            let (before, cut, after) = partition(list, len);
            if cut < count {
                behind.push((after, len - cut, depth, count - cut));
            }
            (list, len) = (before, cut);
        }
        list.sort_by_key(|block| block.key);
        list.drain(..).for_each(|block| push(sorted, block));
        match behind.pop() {
            Some(next) => (list, len, depth, count) = next,
            None => return,
        }
    }
}

/// The key of the element at a position.
fn key(list: &[Block], mut place: u32) -> i64 {
    for block in list {
        if place < block.len {
            return block.key;
        }
        place -= block.len;
    }
    i64::MAX
}

/// Partitions a list by the median of three: the part before the cut, the position of the cut, and the part after it.
fn partition(list: Vec<Block>, len: u32) -> (Vec<Block>, u32, Vec<Block>) {
    let pivot = median(&list, [1, len / 2, len - 1]);
    let mut middle: Vec<Block> = Vec::with_capacity(list.len() + 3);
    let mut first = None;
    let mut chosen = None;
    let mut place = 0;
    // The first element and the pivot are exchanged; the elements after the first are partitioned.
    for block in list {
        let mut rest = block;
        if first.is_none() {
            first = Some(block.cut(0, 1));
            rest = block.cut(1.min(block.len - 1), block.len - 1);
        }
        let start = place + (block.len - rest.len);
        place += block.len;
        if (start..place).contains(&pivot) {
            let at = pivot - start;
            chosen = Some(rest.cut(at, 1));
            push(&mut middle, rest.cut(0, at));
            first.iter().for_each(|&first| push(&mut middle, first));
            if at + 1 < rest.len {
                push(&mut middle, rest.cut(at + 1, rest.len - at - 1));
            }
        } else {
            push(&mut middle, rest);
        }
    }
    let Some(chosen) = chosen else { return (middle, len, Vec::new()) };
    let key = chosen.key;
    let (mut before, mut after) = (vec![chosen], Vec::new());
    let (mut low, mut high) = (0, middle.len());
    while low < high {
        let (front, back) = (middle[low], middle[high - 1]);
        if front.key < key {
            push(&mut before, front);
            low += 1;
        } else if back.key > key {
            after.push(back);
            high -= 1;
        } else if low + 1 == high {
            let half = front.len / 2;
            if half > 0 {
                push(&mut before, front.cut(front.len - half, half).turned());
                after.push(front.cut(0, half).turned());
            }
            if front.len % 2 == 1 {
                after.push(front.cut(half, 1));
            }
            break;
        } else {
            let both = front.len.min(back.len);
            push(&mut before, back.cut(back.len - both, both).turned());
            after.push(front.cut(0, both).turned());
            if both < front.len {
                middle[low] = front.cut(both, front.len - both);
            } else {
                low += 1;
            }
            if both < back.len {
                middle[high - 1] = back.cut(0, back.len - both);
            } else {
                high -= 1;
            }
        }
    }
    let cut = before.iter().map(|b| b.len).sum();
    let mut behind = Vec::with_capacity(after.len());
    after.into_iter().rev().for_each(|block| push(&mut behind, block));
    (before, cut, behind)
}

/// The position of the median of three elements.
fn median(list: &[Block], places: [u32; 3]) -> u32 {
    let [a, b, c] = places.map(|place| (key(list, place), place));
    let less = |x: (i64, u32), y: (i64, u32)| x.0 < y.0;
    let middle = match (less(a, b), less(b, c), less(a, c)) {
        (true, true, _) | (false, false, false) => b,
        (true, false, true) | (false, true, false) => c,
        (true, false, false) | (false, _, true) => a,
    };
    middle.1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::matching::order;

    fn spread(list: &[Block]) -> Vec<(i64, u32)> {
        list.iter().flat_map(|b| (0..b.len).map(|at| (b.key, b.at(at)))).collect()
    }

    fn held_against_elements(lens: &[(u32, i64)]) {
        let mut blocks = Vec::new();
        let mut from = 0;
        for &(len, key) in lens {
            push(&mut blocks, Block { from, len, down: false, key });
            from += len;
        }
        let mut elements = spread(&blocks);
        order::sort(&mut elements, |a, b| a.0 < b.0);
        for count in [1, 2, from / 3, from] {
            let front = spread(&sort_front(blocks.clone(), count));
            let count = count as usize;
            assert!(front.len() >= count.min(elements.len()), "enough of them");
            let count = count.min(elements.len());
            assert_eq!(front[..count], elements[..count], "{lens:?}");
        }
    }

    proptest! {
        #[test]
        fn blocks_go_where_their_elements_would(
            lens in prop::collection::vec((1..60u32, 0..6i64), 0..40),
            long in prop::collection::vec((1..900u32, 0..3i64), 0..8),
            singles in prop::collection::vec((1..2u32, 0..40i64), 0..200),
        ) {
            held_against_elements(&lens);
            held_against_elements(&long);
            held_against_elements(&singles);
        }
    }

    #[test]
    fn equal_elements_go_where_they_would() {
        for len in 0..600 {
            held_against_elements(&[(len, 0)]);
        }
    }

    #[test]
    fn lists_that_make_partitions_uneven_go_where_they_would() {
        let rising: Vec<(u32, i64)> = (0..300).map(|k| (1 + k as u32 % 3, k)).collect();
        let falling: Vec<(u32, i64)> = rising.iter().rev().copied().collect();
        let organ: Vec<(u32, i64)> = rising.iter().chain(&falling).copied().collect();
        for list in [rising, falling, organ] {
            held_against_elements(&list);
        }
    }
}
