//! Selection among equally good nodes, for preferences that distinguish few nodes.
//!
//! By locality all nodes of a run of consecutive ids are equally good, by variation all of a performance class. A
//! sort of all nodes decides which of them are taken. The nodes of a class are stored as stretches, from one node to
//! another without a gap. Split at the ends of rows of siblings, and at gaps in the ids, they form the list that a
//! walk would sort, stored as [`blocks`](super::blocks) of equal keys. So the cost follows the number of stretches
//! and of rows, not of nodes.
//!
//! This module must never know how a selection is marked.

use std::collections::BTreeMap;

use super::blocks::{self, Block};
use super::matcher::Matcher;
use super::policy::Prefer;
use super::trials::{Form, Pick, Search};

/// A number of stretches that is small for any machine.
const FEW: usize = 64;

/// Nodes from one number to another, in the order of a row.
#[derive(Debug, Clone, Copy)]
struct Piece {
    first: u32,
    last: u32,
    /// The row, by the number of its first node.
    row: u32,
    key: i64,
}

impl Piece {
    fn len(&self) -> u32 {
        self.last - self.first + 1
    }

    fn block(&self, down: bool) -> Block {
        let from = if down { self.last } else { self.first };
        Block { from, len: self.len(), down, key: self.key }
    }
}

impl Matcher {
    /// Selects among nodes in stretches; `None` if the preference distinguishes more nodes, or if the
    /// number of stretches is so large that single nodes cost no more.
    pub(super) fn pick_from_stretches(&self, search: &Search<'_>, count: u64) -> Option<Vec<Pick>> {
        let frame = self.classes.frame()?;
        let close = match self.policy.prefer {
            Prefer::Locality => true,
            Prefer::Variation => false,
            Prefer::LowId | Prefer::HighId => return None,
        };
        if search.form == Form::Inside {
            return None;
        }
        let offer = *search.trials.first()?.1.offers.first()?;
        let mut stretches: Vec<(u32, u32, i64)> = Vec::new();
        for (id, trial) in &search.trials {
            let [one] = &*trial.offers else { return None };
            if one.count != offer.count || (close && one.base != offer.base) {
                return None;
            }
            let class = search.members(&self.classes, *id)?;
            if stretches.len() + class.stretches.len() > FEW + frame.sites.len() / 8 {
                return None;
            }
            stretches.extend(class.stretches.iter().map(|(&first, &last)| (first, last, one.base)));
        }
        stretches.sort_unstable();
        let by_row = search.form == Form::NodeSlots;
        let mut pieces = self.pieces(&stretches, by_row, close);
        if close {
            self.by_runs(&mut pieces);
        }
        // The list, and the start and the pieces of each row in it.
        let mut list: Vec<Block> = Vec::new();
        let mut rows: Vec<(u32, &[Piece])> = Vec::new();
        let mut keys: Vec<(i64, u32)> = Vec::new();
        let mut len = 0;
        for row in pieces.chunk_by(|a, b| a.row == b.row) {
            rows.push((len, row));
            if let [piece] = row {
                blocks::push(&mut list, Block { from: len, len: piece.len(), down: false, key: piece.key });
                len += piece.len();
                continue;
            }
            keys.clear();
            keys.extend(row.iter().map(|piece| (piece.key, piece.len())));
            match (by_row, close) {
                (false, _) => {}
                (true, true) => {
                    // Slots are filled below each parent, highest id first.
                    let rank = |node: u32| frame.sites[node as usize].rank;
                    if !row.windows(2).all(|w| rank(w[0].last) < rank(w[1].first)) {
                        return None;
                    }
                    keys.reverse();
                }
                // The order of equal ones in a row matters only for a choice from it.
                (true, false) => keys.sort_unstable(),
            }
            for &(key, count) in &keys {
                blocks::push(&mut list, Block { from: len, len: count, down: false, key });
                len += count;
            }
        }
        let enough = u32::try_from(count.div_ceil(offer.count.max(1))).unwrap_or(u32::MAX).min(len);
        let mut picks = Vec::with_capacity(enough as usize);
        let mut sorted: BTreeMap<u32, Vec<Block>> = BTreeMap::new();
        for block in blocks::sort_front(list, enough) {
            for at in 0..block.len.min(enough - picks.len() as u32) {
                let place = block.at(at);
                let (start, row) = rows[rows.partition_point(|&(start, _)| start <= place).checked_sub(1)?];
                let row = sorted.entry(start).or_insert_with(|| {
                    let all = row.iter();
                    match (by_row, close) {
                        (false, _) => all.map(|piece| piece.block(false)).collect(),
                        (true, true) => all.rev().map(|piece| piece.block(true)).collect(),
                        (true, false) => {
                            blocks::sort_front(all.map(|piece| piece.block(false)).collect(), u32::MAX)
                        }
                    }
                });
                let node = nth(row, place - start)?;
                picks.push(Pick { key: block.key, node, offer: 0, count: offer.count });
            }
        }
        Some(picks)
    }

    /// Splits stretches at the ends of rows and, with `close`, at gaps in the ids.
    fn pieces(&self, stretches: &[(u32, u32, i64)], by_row: bool, close: bool) -> Vec<Piece> {
        let Some(frame) = self.classes.frame() else { return Vec::new() };
        let rows = if by_row { frame.rows.len() } else { 0 };
        let mut all: Vec<Piece> = Vec::with_capacity(stretches.len() + rows);
        let (mut row, mut gap) = (0, 0);
        for &(mut first, last, key) in stretches {
            while first <= last {
                let mut end = last;
                let mut number = 0;
                if by_row {
                    go_on(&frame.rows, &mut row, first);
                    number = row as u32;
                    end = frame.rows.get(row).map_or(end, |&next| end.min(next - 1));
                }
                if close {
                    go_on(&frame.breaks, &mut gap, first);
                    end = frame.breaks.get(gap).map_or(end, |&next| end.min(next - 1));
                }
                all.push(Piece { first, last: end, row: number, key });
                first = end + 1;
            }
        }
        all
    }

    /// Gives pieces the keys of their runs of consecutive ids, the run of the highest ids first.
    fn by_runs(&self, pieces: &mut [Piece]) {
        let Some(frame) = self.classes.frame() else { return };
        let rank = |node: u32| frame.sites[node as usize].rank;
        let mut order: Vec<(i32, i32, usize)> =
            pieces.iter().enumerate().map(|(at, p)| (rank(p.first), rank(p.last), at)).collect();
        order.sort_unstable();
        let (mut run, mut reached) = (0, None);
        for (first, last, at) in order {
            run -= i64::from(reached.is_none_or(|reached: i32| first.saturating_sub(reached) > 1));
            reached = reached.max(Some(last));
            pieces[at].key = run;
        }
    }
}

/// Advances in a sorted list to the first number above `number`; mostly that is the next one.
fn go_on(list: &[u32], at: &mut usize, number: u32) {
    for _ in 0..2 {
        if list.get(*at).is_none_or(|&it| it > number) {
            return;
        }
        *at += 1;
    }
    *at += list[*at..].partition_point(|&it| it <= number);
}

/// The number of an element of a list of blocks.
fn nth(list: &[Block], mut place: u32) -> Option<u32> {
    for block in list {
        if place < block.len {
            return Some(block.at(place));
        }
        place -= block.len;
    }
    None
}
