//! Candidates of which the one with the largest score is taken, over and over.
//!
//! A pass scores the first job of each group and mostly takes two or three of them. So a candidate is kept as its score and the place
//! of its row, and the rest of the row is read where scores are equal. The first candidates are found by a look at all, and those
//! behind them from a heap. This module does not know what a score counts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::job::Job;
use crate::pass::Candidate;

/// A candidate with its job, or nothing.
pub(crate) type Row = Option<(Candidate, Job)>;

/// The score of a candidate, in the order of the score, and the place of its row.
pub(crate) type Placed = (u64, u32);

/// A candidate with its score: the largest is the first in the order of the pass.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Scored {
    score: u64,
    priority: u32,
    submitted: Reverse<u64>,
    id: Reverse<u64>,
    pub(super) candidate: Candidate,
    pub(super) cores: u32,
}

impl Scored {
    fn of(score: u64, (candidate, job): &(Candidate, Job)) -> Self {
        Scored {
            score,
            priority: job.priority,
            submitted: Reverse(in_order(job.t_submit)),
            id: Reverse(job.id),
            candidate: *candidate,
            cores: job.cores,
        }
    }
}

/// See the module.
pub(super) struct Ranking<'h> {
    /// The first rows, by place.
    firsts: &'h [Row],
    /// The rows of the places behind those.
    behind: Vec<Row>,
    list: Vec<Placed>,
    /// The place in the list of the one with the largest score, where that is known and no other has as large a one.
    best: Option<usize>,
    /// Looks at all of the list so far.
    looks: usize,
    heap: BinaryHeap<Scored>,
}

/// Most looks at all candidates of a list; making a heap costs about as many.
const LOOKS_MOST: usize = 8;

impl<'h> Ranking<'h> {
    /// Of these rows, in the memory of a list. With `all_equal` no score is asked for.
    pub(super) fn of(
        firsts: &'h [Row],
        mut list: Vec<Placed>,
        all_equal: bool,
        score: &mut impl FnMut(&Job) -> f64,
    ) -> Self {
        list.clear();
        let (behind, heap) = (Vec::new(), BinaryHeap::new());
        let mut ranking = Ranking { firsts, behind, list, best: None, looks: 0, heap };
        ranking.score_from(0, all_equal, score);
        ranking
    }

    /// The memory of the list.
    pub(super) fn into_list(self) -> Vec<Placed> {
        self.list
    }

    pub(super) fn len(&self) -> usize {
        self.list.len() + self.heap.len()
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: Row, all_equal: bool, score: &mut impl FnMut(&Job) -> f64) {
        if row.is_some() {
            self.behind.push(row);
            self.score_from(self.firsts.len() + self.behind.len() - 1, all_equal, score);
        }
    }

    /// Has these candidates in place of all.
    pub(super) fn replace(
        &mut self,
        rows: Vec<(Candidate, Job)>,
        all_equal: bool,
        score: &mut impl FnMut(&Job) -> f64,
    ) {
        self.heap.clear();
        self.list.clear();
        self.looks = 0;
        self.behind = rows.into_iter().map(Some).collect();
        self.score_from(self.firsts.len(), all_equal, score);
    }

    /// Scores the rows from a place on. The only place that asks for a score, so that its computation becomes a part of the loop.
    #[inline(never)]
    fn score_from(&mut self, from: usize, all_equal: bool, score: &mut impl FnMut(&Job) -> f64) {
        let rows = match from.checked_sub(self.firsts.len()) {
            Some(from) => &self.behind[from..],
            None => self.firsts,
        };
        let mut list = std::mem::take(&mut self.list);
        let (mut best, mut most, all) = (None, 0, list.is_empty());
        list.reserve(rows.len());
        for (row, place) in rows.iter().zip(from as u32..) {
            let Some(row) = row else { continue };
            let score = if all_equal { 0 } else { in_order(score(&row.1)) };
            if score >= most {
                best = (score > most).then_some(list.len());
                most = score;
            }
            list.push((score, place));
        }
        self.list = list;
        self.best = best.filter(|_| all);
    }

    /// The candidate of a place.
    fn scored(&self, (score, place): Placed) -> Option<Scored> {
        let place = place as usize;
        let row = match place.checked_sub(self.firsts.len()) {
            Some(behind) => self.behind.get(behind)?,
            None => &self.firsts[place],
        };
        row.as_ref().map(|row| Scored::of(score, row))
    }

    /// Removes and returns the one with the largest score.
    pub(super) fn take(&mut self) -> Option<Scored> {
        if self.heap.is_empty() && self.looks < LOOKS_MOST {
            self.looks += 1;
            let known = self.best.take();
            let at = known.or_else(|| self.largest())?;
            let placed = self.list.swap_remove(at);
            return self.scored(placed);
        }
        let list = std::mem::take(&mut self.list);
        self.heap.extend(list.iter().filter_map(|placed| self.scored(*placed)).collect::<Vec<_>>());
        self.list = list;
        self.list.clear();
        self.heap.pop()
    }

    /// The place of the largest one in the list.
    fn largest(&self) -> Option<usize> {
        /// Few of those that are read at one time have a score as large as the largest before them.
        const AT_ONCE: usize = 4;
        let (mut best, mut score) = (0, self.list.first()?.0);
        for (some, first) in self.list.chunks(AT_ONCE).zip((0..).step_by(AT_ONCE)) {
            if let [a, b, c, d] = some
                && a.0.max(b.0).max(c.0.max(d.0)) < score
            {
                continue;
            }
            for (placed, at) in some.iter().zip(first..) {
                let larger = placed.0 > score;
                if larger || placed.0 == score && self.scored(*placed) > self.scored(self.list[best]) {
                    (best, score) = (at, placed.0);
                }
            }
        }
        Some(best)
    }
}

/// A number in the order of [`f64::total_cmp`].
pub(super) fn in_order(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}
