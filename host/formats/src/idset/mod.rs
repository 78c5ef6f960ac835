//! Idsets (RFC 22): sets of small non-negative integers such as `0-3,8`; ranks, cores, gpus.
//!
//! An [`Idset`] is kept as sorted ranges, so `0-1000000` costs as much as `0`. The cost of every operation depends on
//! the number of ranges, never on the number of ids. This module gives ids no meaning.
//!
//! # Where RFC 22 and flux-core differ
//!
//! | text | RFC 22 | flux-core | here |
//! |---|---|---|---|
//! | `""`, `[]` | silent | the empty set | the empty set |
//! | `1,,2` `,1` `1,` | not allowed | accepted | refused |
//! | `1-3,4-5` | allowed | accepted | accepted, printed `1-5` |
//! | `4294967296` | no limit given | read as 0 | refused, as is every id above [`MAX_ID`] |

mod parse;

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

pub use parse::{IdsetError, IdsetErrorKind};

/// The largest id of an idset, 2^31 - 1, as in flux-core.
pub const MAX_ID: u32 = i32::MAX as u32;

/// A set of ids from 0 to [`MAX_ID`] (RFC 22).
///
/// Prints as the shortest RFC 22 text, ascending and without brackets; the empty set prints as the empty string.
/// Serialises as that string. The order of two idsets is that of their ranges, smallest first.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Idset {
    /// Inclusive, ascending, and at least one missing id between two of them.
    ranges: Vec<(u32, u32)>,
}

impl Idset {
    /// The empty set.
    pub const fn new() -> Self {
        Idset { ranges: Vec::new() }
    }

    /// Reads an RFC 22 text, with or without brackets; the empty text is the empty set.
    ///
    /// # Errors
    /// [`IdsetError`]: the place at which reading stopped, and the kind of error.
    pub fn parse(text: &str) -> Result<Self, IdsetError> {
        parse::parse(text)
    }

    /// Adds `id`; true when it was not a member before. An id above [`MAX_ID`] is never added.
    pub fn insert(&mut self, id: u32) -> bool {
        let fresh = id <= MAX_ID && !self.contains(id);
        if fresh {
            self.insert_range(id..=id);
        }
        fresh
    }

    /// Adds every id of `range` up to [`MAX_ID`]; an empty range adds nothing.
    pub fn insert_range(&mut self, range: RangeInclusive<u32>) {
        let (mut lo, mut hi) = (*range.start(), (*range.end()).min(MAX_ID));
        if range.is_empty() || lo > hi {
            return;
        }
        // No overflow here and below: hi < 2^31.
        if self.ranges.last().is_none_or(|tail| tail.1 + 1 < lo) {
            self.ranges.push((lo, hi));
            return;
        }
        // The ranges that touch or overlap the new one are replaced by their hull.
        let first = self.ranges.partition_point(|r| r.1 + 1 < lo);
        let last = self.ranges.partition_point(|r| r.0 <= hi + 1);
        if let [head, ..] = self.ranges[first..last] {
            lo = lo.min(head.0);
            hi = hi.max(self.ranges[last - 1].1);
        }
        self.ranges.splice(first..last, [(lo, hi)]);
    }

    /// Removes `id`; true when it was a member.
    pub fn remove(&mut self, id: u32) -> bool {
        let member = self.contains(id);
        if member {
            self.remove_range(id..=id);
        }
        member
    }

    /// Removes every id of `range`.
    pub fn remove_range(&mut self, range: RangeInclusive<u32>) {
        let (lo, hi) = (*range.start(), *range.end());
        if range.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|r| r.1 < lo);
        let last = self.ranges.partition_point(|r| r.0 <= hi);
        if first >= last {
            return;
        }
        let left = (self.ranges[first].0, lo.wrapping_sub(1));
        let right = (hi.wrapping_add(1), self.ranges[last - 1].1);
        let keep_left = (left.0 < lo).then_some(left);
        let keep_right = (right.1 > hi).then_some(right);
        self.ranges.splice(first..last, keep_left.into_iter().chain(keep_right));
    }

    /// True when `id` is a member.
    pub fn contains(&self, id: u32) -> bool {
        self.ranges.get(self.ranges.partition_point(|r| r.1 < id)).is_some_and(|r| r.0 <= id)
    }

    /// The number of members.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|&(lo, hi)| u64::from(hi - lo) + 1).sum()
    }

    /// True when there is no member.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// The members, ascending.
    pub fn iter(&self) -> Iter<'_> {
        Iter { ranges: &self.ranges, open: None, close: None }
    }

    /// The maximal runs of consecutive members, ascending; none for the empty set.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = RangeInclusive<u32>> + ExactSizeIterator + '_ {
        self.ranges.iter().map(|&(lo, hi)| lo..=hi)
    }

    /// The smallest member; `None` for the empty set.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|r| r.0)
    }

    /// The largest member; `None` for the empty set.
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|r| r.1)
    }

    /// The member with exactly `n` smaller members, so `nth(0)` is [`first`](Self::first); `None` when there are fewer.
    pub fn nth(&self, n: u64) -> Option<u32> {
        let mut before = n;
        for &(lo, hi) in &self.ranges {
            let span = u64::from(hi - lo) + 1;
            if before < span {
                // Fits: before <= hi - lo < 2^31.
                return Some(lo + before as u32);
            }
            before -= span;
        }
        None
    }

    /// The number of members smaller than `id`; `None` when `id` is no member. The inverse of [`nth`](Self::nth).
    pub fn position(&self, id: u32) -> Option<u64> {
        let mut before = 0;
        for &(lo, hi) in &self.ranges {
            if id < lo {
                return None;
            }
            if id <= hi {
                return Some(before + u64::from(id - lo));
            }
            before += u64::from(hi - lo) + 1;
        }
        None
    }

    /// The `n` smallest members, or all when there are fewer.
    pub fn take(&self, n: u64) -> Idset {
        let mut left = n;
        let mut out = Idset::new();
        for &(lo, hi) in &self.ranges {
            let span = u64::from(hi - lo) + 1;
            if left == 0 {
                break;
            }
            let taken = span.min(left);
            out.ranges.push((lo, lo + (taken - 1) as u32));
            left -= taken;
        }
        out
    }

    /// All ids that are in `self` or in `other`.
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        let (mut a, mut b) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(self.ranges.len().max(other.ranges.len()));
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 <= y.0 => a.next(),
                (Some(_), None) => a.next(),
                _ => b.next(),
            };
            let Some(&(lo, hi)) = next else { break };
            match out.last_mut() {
                Some(tail) if lo <= tail.1 + 1 => tail.1 = tail.1.max(hi),
                _ => out.push((lo, hi)),
            }
        }
        Idset { ranges: out }
    }

    /// All ids that are in `self` but not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let mut out = Vec::with_capacity(self.ranges.len());
        let mut cuts = other.ranges.as_slice();
        for &(lo, hi) in &self.ranges {
            let mut from = lo;
            loop {
                match cuts {
                    [cut, rest @ ..] if cut.1 < from => cuts = rest,
                    [cut, ..] if cut.0 <= hi => {
                        if cut.0 > from {
                            out.push((from, cut.0 - 1));
                        }
                        from = cut.1 + 1;
                        // The cut may reach into the next range, so it is kept.
                        if from > hi {
                            break;
                        }
                    }
                    _ => {
                        out.push((from, hi));
                        break;
                    }
                }
            }
        }
        Idset { ranges: out }
    }

    /// All ids that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Idset { ranges: Overlaps { a: &self.ranges, b: &other.ranges }.collect() }
    }

    /// True when no id is in both sets; the empty set is disjoint from every set.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        Overlaps { a: &self.ranges, b: &other.ranges }.next().is_none()
    }

    /// True when every member of `self` is a member of `other`; the empty set is a subset of every set.
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut holders = other.ranges.as_slice();
        self.ranges.iter().all(|&(lo, hi)| {
            while let [head, rest @ ..] = holders
                && head.1 < lo
            {
                holders = rest;
            }
            holders.first().is_some_and(|r| r.0 <= lo && hi <= r.1)
        })
    }
}

/// The overlapping stretches of two sorted range lists, ascending.
struct Overlaps<'a> {
    a: &'a [(u32, u32)],
    b: &'a [(u32, u32)],
}

impl Iterator for Overlaps<'_> {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        while let ([x, a_rest @ ..], [y, b_rest @ ..]) = (self.a, self.b) {
            let both = (x.0.max(y.0), x.1.min(y.1));
            if x.1 < y.1 {
                self.a = a_rest;
            } else {
                self.b = b_rest;
            }
            if both.0 <= both.1 {
                return Some(both);
            }
        }
        None
    }
}

/// The members of an [`Idset`], ascending; see [`Idset::iter`].
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    ranges: &'a [(u32, u32)],
    /// The rest of the range at the front.
    open: Option<(u32, u32)>,
    /// The rest of the range at the back.
    close: Option<(u32, u32)>,
}

impl Iterator for Iter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.open.is_none() {
            self.open = match self.ranges {
                [head, rest @ ..] => {
                    self.ranges = rest;
                    Some(*head)
                }
                [] => self.close.take(),
            };
        }
        let (lo, hi) = self.open?;
        self.open = (lo < hi).then_some((lo + 1, hi));
        Some(lo)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let span = |r: &(u32, u32)| (r.1 - r.0) as usize + 1;
        let n = self.ranges.iter().chain(&self.open).chain(&self.close).map(span).sum();
        (n, Some(n))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<u32> {
        if self.close.is_none() {
            self.close = match self.ranges {
                [rest @ .., tail] => {
                    self.ranges = rest;
                    Some(*tail)
                }
                [] => self.open.take(),
            };
        }
        let (lo, hi) = self.close?;
        self.close = (lo < hi).then(|| (lo, hi - 1));
        Some(hi)
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Idset {
    type Item = u32;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl Extend<u32> for Idset {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, ids: I) {
        for id in ids {
            // Ascending input, the usual case, only ever touches the last range.
            match self.ranges.last_mut() {
                Some(tail) if id <= MAX_ID && id == tail.1 + 1 => tail.1 = id,
                Some(tail) if id <= MAX_ID && id > tail.1 => self.ranges.push((id, id)),
                _ => {
                    self.insert(id);
                }
            }
        }
    }
}

impl FromIterator<u32> for Idset {
    /// The set of the given ids, in any order; ids above [`MAX_ID`] are left out.
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut set = Idset::new();
        set.extend(ids);
        set
    }
}

impl FromIterator<RangeInclusive<u32>> for Idset {
    fn from_iter<I: IntoIterator<Item = RangeInclusive<u32>>>(ranges: I) -> Self {
        let mut set = Idset::new();
        for range in ranges {
            set.insert_range(range);
        }
        set
    }
}

impl From<u32> for Idset {
    fn from(id: u32) -> Self {
        Idset::from_iter([id])
    }
}

impl From<RangeInclusive<u32>> for Idset {
    fn from(range: RangeInclusive<u32>) -> Self {
        Idset::from_iter([range])
    }
}

impl fmt::Display for Idset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &(lo, hi)) in self.ranges.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if lo == hi {
                write!(f, "{comma}{lo}")?;
            } else {
                write!(f, "{comma}{lo}-{hi}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Idset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Idset({self})")
    }
}

impl FromStr for Idset {
    type Err = IdsetError;

    fn from_str(text: &str) -> Result<Self, IdsetError> {
        Idset::parse(text)
    }
}

impl Serialize for Idset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Idset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Idset;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an idset such as \"0-3,8\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Idset, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests;
