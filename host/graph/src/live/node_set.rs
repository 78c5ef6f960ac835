//! Sets of small numbers, such as the nodes in a state: a bit for each number of the machine, or a sorted list where that takes much
//! less memory.
//!
//! A start or an end moves each of its nodes from one set to another, so both must be cheap at any size: a list is too short to be slow
//! to move, and bits need no search. A word of bits above 64 words of bits tells which of them are empty.
//!
//! This module must never know the meaning of the numbers.

/// Numbers from which on there are bits, however many words these take.
const MANY: usize = 64;
/// Words of bits for each number, up to which there are bits.
const WORDS_EACH: usize = 8;
/// Numbers below which the bits may be a list again.
const FEW: usize = 16;
/// Words that stay bits even if no number is left.
const WORDS_KEPT: usize = 128;

/// A set of numbers; see the module.
#[derive(Debug, Clone)]
pub(crate) struct NodeSet(Form);

#[derive(Debug, Clone)]
enum Form {
    List(Vec<u32>),
    Bits(Bits),
}

#[derive(Debug, Clone, Default)]
struct Bits {
    words: Vec<u64>,
    /// A bit for each word that is not 0.
    used: Vec<u64>,
    len: usize,
}

impl Default for NodeSet {
    fn default() -> Self {
        NodeSet(Form::List(Vec::new()))
    }
}

/// The first bit at `from` or after it.
fn first(bits: &[u64], from: usize) -> Option<usize> {
    let mut word = bits.get(from / 64)? & u64::MAX << (from % 64);
    let mut at = from / 64;
    while word == 0 {
        at += 1;
        word = *bits.get(at)?;
    }
    Some(at * 64 + word.trailing_zeros() as usize)
}

/// The last bit before `to`.
fn last(bits: &[u64], to: usize) -> Option<usize> {
    let to = to.min(bits.len() * 64);
    let part = bits.get(to / 64).map_or(0, |word| word & !(u64::MAX << (to % 64)));
    let (mut at, mut word) = (to / 64, part);
    while word == 0 {
        at = at.checked_sub(1)?;
        word = bits[at];
    }
    Some(at * 64 + 63 - word.leading_zeros() as usize)
}

impl Bits {
    #[inline(always)]
    fn insert(&mut self, number: u32) -> bool {
        let (at, bit) = (number as usize / 64, 1 << (number % 64));
        if at >= self.words.len() {
            self.grow(at);
        }
        let word = &mut self.words[at];
        if *word & bit != 0 {
            return false;
        }
        if *word == 0 {
            self.used[at / 64] |= 1 << (at % 64);
        }
        *word |= bit;
        self.len += 1;
        true
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.words.resize(at + 1, 0);
        self.used.resize(at / 64 + 1, 0);
    }

    #[inline(always)]
    fn remove(&mut self, number: u32) -> bool {
        let (at, bit) = (number as usize / 64, 1 << (number % 64));
        let Some(word) = self.words.get_mut(at).filter(|word| **word & bit != 0) else { return false };
        *word &= !bit;
        if *word == 0 {
            self.used[at / 64] &= !(1 << (at % 64));
        }
        self.len -= 1;
        true
    }

    /// The first number at `from` or after it.
    fn first(&self, from: u32) -> Option<u32> {
        let from = from as usize;
        let here = self.words.get(from / 64)? & u64::MAX << (from % 64);
        let found = match here {
            0 => {
                let at = first(&self.used, from / 64 + 1)?;
                at * 64 + self.words[at].trailing_zeros() as usize
            }
            here => from / 64 * 64 + here.trailing_zeros() as usize,
        };
        Some(found as u32)
    }

    /// The last number before `to`.
    fn last(&self, to: u32) -> Option<u32> {
        let to = (to as usize).min(self.words.len() * 64);
        let here = self.words.get(to / 64).map_or(0, |word| word & !(u64::MAX << (to % 64)));
        let found = match here {
            0 => {
                let at = last(&self.used, to / 64)?;
                at * 64 + 63 - self.words[at].leading_zeros() as usize
            }
            here => to / 64 * 64 + 63 - here.leading_zeros() as usize,
        };
        Some(found as u32)
    }
}

impl NodeSet {
    /// Adds a number; false if it was there.
    #[inline(always)]
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        match &mut self.0 {
            Form::Bits(bits) => bits.insert(number),
            Form::List(_) => self.insert_in_list(number),
        }
    }

    fn insert_in_list(&mut self, number: u32) -> bool {
        let Form::List(list) = &mut self.0 else { return false };
        let Err(at) = list.binary_search(&number) else { return false };
        list.insert(at, number);
        let words = list.last().map_or(0, |last| *last as usize / 64 + 1);
        if list.len() > MANY || words <= WORDS_EACH * list.len() {
            let mut bits = Bits::default();
            list.iter().for_each(|number| _ = bits.insert(*number));
            self.0 = Form::Bits(bits);
        }
        true
    }

    /// Removes a number; false if it was not there.
    #[inline(always)]
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        match &mut self.0 {
            Form::List(list) => match list.binary_search(&number) {
                Ok(at) => list.remove(at) == number,
                Err(_) => false,
            },
            Form::Bits(bits) => {
                let removed = bits.remove(number);
                if bits.len < FEW {
                    self.shorten();
                }
                removed
            }
        }
    }

    /// Makes a list of few bits in many words.
    fn shorten(&mut self) {
        if let Form::Bits(bits) = &self.0
            && bits.words.len() > WORDS_KEPT + 2 * WORDS_EACH * bits.len
        {
            self.0 = Form::List(self.iter().collect());
        }
    }

    /// Number of numbers.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Form::List(list) => list.len(),
            Form::Bits(bits) => bits.len,
        }
    }

    /// True without any number.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers, ascending.
    pub(crate) fn iter(&self) -> Numbers<'_> {
        self.range(0, u32::MAX)
    }

    /// The numbers from `from` on and below `to`, ascending.
    pub(crate) fn range(&self, from: u32, to: u32) -> Numbers<'_> {
        Numbers(match &self.0 {
            Form::List(list) => {
                let place = |bound: u32| match bound {
                    0 => 0,
                    u32::MAX => list.len(),
                    _ => list.partition_point(|number| *number < bound),
                };
                let (from, to) = (place(from), place(to));
                Rest::List(list[from.min(to)..to].iter())
            }
            Form::Bits(bits) => Rest::Bits { bits, from, to },
        })
    }
}

impl FromIterator<u32> for NodeSet {
    fn from_iter<T: IntoIterator<Item = u32>>(numbers: T) -> Self {
        let mut set = NodeSet::default();
        numbers.into_iter().for_each(|number| _ = set.insert(number));
        set
    }
}

/// An iterator over numbers of a [`NodeSet`].
#[derive(Debug, Clone)]
pub(crate) struct Numbers<'a>(Rest<'a>);

#[derive(Debug, Clone)]
enum Rest<'a> {
    List(std::slice::Iter<'a, u32>),
    Bits { bits: &'a Bits, from: u32, to: u32 },
}

impl Iterator for Numbers<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        match &mut self.0 {
            Rest::List(list) => list.next().copied(),
            Rest::Bits { bits, from, to } => {
                let next = bits.first(*from).filter(|next| next < to)?;
                *from = next + 1;
                Some(next)
            }
        }
    }
}

impl DoubleEndedIterator for Numbers<'_> {
    fn next_back(&mut self) -> Option<u32> {
        match &mut self.0 {
            Rest::List(list) => list.next_back().copied(),
            Rest::Bits { bits, from, to } => {
                let next = bits.last(*to).filter(|next| next >= from)?;
                *to = next;
                Some(next)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_is_a_set(
            widest in prop_oneof![Just(40u32), Just(300), Just(9000), Just(70_000)],
            adds in prop::collection::vec((0.0..1.0f64, 0..60u32), 1..12),
            removals in prop::collection::vec(0.0..1.0f64, 0..300),
            ranges in prop::collection::vec((0.0..1.1f64, 0.0..1.1f64), 1..20),
        ) {
            let at = |part: f64| (part * f64::from(widest)) as u32;
            let (mut set, mut model) = (NodeSet::default(), BTreeSet::new());
            let same = |set: &NodeSet, model: &BTreeSet<u32>| {
                prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(set.iter().eq(model.iter().copied()));
                for (from, to) in &ranges {
                    let (from, to) = (at(*from), at(*to));
                    let part = || model.range(from..to.max(from)).copied();
                    prop_assert!(set.range(from, to).eq(part()));
                    prop_assert!(set.range(from, to).rev().eq(part().rev()));
                    // From both ends.
                    let (mut both, mut expected) = (set.range(from, to), part());
                    while let Some(next) = expected.next() {
                        prop_assert_eq!(both.next(), Some(next));
                        prop_assert_eq!(both.next_back(), expected.next_back());
                    }
                    prop_assert_eq!((both.next(), both.next_back()), (None, None));
                }
                Ok(())
            };
            for (from, count) in adds {
                for number in at(from)..at(from) + count {
                    prop_assert_eq!(set.insert(number), model.insert(number));
                }
                same(&set, &model)?;
            }
            prop_assert!(model.iter().copied().collect::<NodeSet>().iter().eq(model.iter().copied()));
            for (step, part) in removals.into_iter().enumerate() {
                // Most of them are there.
                let any = model.iter().nth((part * model.len() as f64) as usize).copied();
                let number = any.filter(|_| step % 5 > 0).unwrap_or(at(part));
                prop_assert_eq!(set.remove(number), model.remove(&number));
                if step % 40 == 0 {
                    same(&set, &model)?;
                }
            }
            same(&set, &model)?;
        }
    }
}
