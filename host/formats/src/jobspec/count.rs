//! Counts of a resource request: fixed counts, idsets of counts and ranges (RFC 14 `count`, RFC 45 range strings).
//!
//! A count is kept as a rule and never expanded, so `1-1000000` costs as much as `4`.

use std::fmt;
use std::str::FromStr;

use crate::idset::Idset;
use crate::text::excerpt;

/// The largest count, 2^63 - 1: the largest JSON integer that all parts of Flux read.
pub const COUNT_MAX: u64 = i64::MAX as u64;

/// The acceptable numbers of a resource. The set is not empty, and its smallest member is 1 or more.
///
/// Prints as the shortest RFC 45 or RFC 22 text. A rule that leaves one value only is read as [`Count::Fixed`], and an
/// idset without gaps as [`Count::Range`].
// Not `Ord`: its `min` and `max` would hide those of the count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Count {
    /// Exactly this many.
    Fixed(u64),
    /// `min`, and the values that follow from it by repeating the operation, up to `max`.
    Range {
        /// The smallest value, at least 1 (2 for [`Operator::Power`]).
        min: u64,
        /// The largest value allowed; `None` for a range without end.
        max: Option<u64>,
        /// The operand of the operation; at least 1 (2 unless adding).
        operand: u64,
        /// The operation that makes the next value from the one before.
        operator: Operator,
    },
    /// One of these values; none of them is 0, and there are at least two.
    Set(Idset),
}

/// The operation of a [`Count::Range`] (RFC 14 `operator`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `+`: the value before plus the operand.
    Plus,
    /// `*`: the value before times the operand.
    Times,
    /// `^`: the value before raised to the operand.
    Power,
}

impl Operator {
    /// The operator written as `symbol`; `None` for any other character.
    pub fn from_symbol(symbol: char) -> Option<Self> {
        match symbol {
            '+' => Some(Operator::Plus),
            '*' => Some(Operator::Times),
            '^' => Some(Operator::Power),
            _ => None,
        }
    }

    /// `+`, `*` or `^`.
    pub fn symbol(self) -> char {
        match self {
            Operator::Plus => '+',
            Operator::Times => '*',
            Operator::Power => '^',
        }
    }
}

/// A text is not a count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "count '{input}': {kind} at position {at}; a count looks like '4', '2,4,8', '2-8', '2+' or '2-64:2:*'"
)]
pub struct CountError {
    /// The text, shortened when long.
    pub input: String,
    /// Byte offset in the text where reading stopped.
    pub at: usize,
    /// The kind of error.
    pub kind: CountErrorKind,
}

/// The kinds of error in a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CountErrorKind {
    /// A number was expected.
    #[error("expected a positive number")]
    NoNumber,
    /// A number is written with a leading zero, or is zero.
    #[error("expected a positive number without leading zeros")]
    Zero,
    /// A number is larger than [`COUNT_MAX`].
    #[error("number larger than 9223372036854775807")]
    TooLarge,
    /// Text follows after the end of the count.
    #[error("unexpected character")]
    Unexpected,
    /// The operator is none of `+`, `*`, `^`.
    #[error("expected one of the operators '+', '*', '^'")]
    Operator,
    /// The largest is below the smallest.
    #[error("maximum below the minimum")]
    MaxBelowMin,
    /// `*` and `^` need an operand of 2 or more, and `+` one of 1 or more.
    #[error("operand too small ('+' needs 1 or more, '*' and '^' need 2 or more)")]
    Operand,
    /// `^` needs a minimum of 2 or more.
    #[error("minimum too small ('^' needs 2 or more)")]
    PowerMin,
    /// A list of counts is not an ascending idset.
    #[error("not an ascending list of counts")]
    Idset,
}

use CountErrorKind as Kind;

impl Count {
    /// The range from `min` to `max`, checked by the rules of RFC 14; equal bounds become [`Count::Fixed`].
    ///
    /// # Errors
    /// The first rule that the numbers break; see [`CountErrorKind`].
    pub fn range(
        min: u64,
        max: Option<u64>,
        operand: u64,
        operator: Operator,
    ) -> Result<Self, CountErrorKind> {
        if min == 0 {
            return Err(Kind::Zero);
        }
        if min > COUNT_MAX || operand > COUNT_MAX || max.is_some_and(|max| max > COUNT_MAX) {
            return Err(Kind::TooLarge);
        }
        if max.is_some_and(|max| max < min) {
            return Err(Kind::MaxBelowMin);
        }
        if operand < if operator == Operator::Plus { 1 } else { 2 } {
            return Err(Kind::Operand);
        }
        if operator == Operator::Power && min < 2 {
            return Err(Kind::PowerMin);
        }
        if max == Some(min) {
            return Ok(Count::Fixed(min));
        }
        Ok(Count::Range { min, max, operand, operator })
    }

    /// The counts in `set`, which must not be empty and must not contain 0.
    ///
    /// # Errors
    /// [`CountErrorKind::Zero`] for a set with 0, [`CountErrorKind::NoNumber`] for the empty set.
    pub fn set(set: Idset) -> Result<Self, CountErrorKind> {
        if set.contains(0) {
            return Err(Kind::Zero);
        }
        match (set.first(), set.last()) {
            (Some(min), Some(max)) if set.ranges().len() == 1 => {
                Count::range(min.into(), Some(max.into()), 1, Operator::Plus)
            }
            (Some(_), _) => Ok(Count::Set(set)),
            _ => Err(Kind::NoNumber),
        }
    }

    /// Reads an integer, an RFC 22 idset or an RFC 45 range, with or without brackets.
    ///
    /// # Errors
    /// [`CountError`]: the place at which reading stopped, and the kind of error.
    pub fn parse(text: &str) -> Result<Self, CountError> {
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        reader.count().map_err(|kind| CountError { input: excerpt(text), at: reader.at, kind })
    }

    /// The smallest acceptable number, at least 1 in a jobspec that was read.
    pub fn min(&self) -> u64 {
        match self {
            Count::Fixed(n) => *n,
            Count::Range { min, .. } => *min,
            Count::Set(set) => set.first().map_or(1, u64::from),
        }
    }

    /// The largest acceptable number; `None` for a range without end.
    pub fn max(&self) -> Option<u64> {
        match self {
            Count::Range { max, .. } => self.largest_at_most((*max)?),
            _ => self.largest_at_most(u64::MAX),
        }
    }

    /// True when `n` is acceptable.
    pub fn contains(&self, n: u64) -> bool {
        self.largest_at_most(n) == Some(n)
    }

    /// The only acceptable number; `None` when there are several.
    pub fn fixed(&self) -> Option<u64> {
        self.max().filter(|&max| max == self.min())
    }

    /// The largest acceptable number that is not above `n`, found without stepping through the numbers; `None` if all are above `n`.
    pub fn largest_at_most(&self, n: u64) -> Option<u64> {
        match self {
            Count::Fixed(count) => (*count <= n).then_some(*count),
            Count::Range { min, max, operand, operator } => {
                let cap = n.min(max.unwrap_or(COUNT_MAX));
                if cap < *min {
                    return None;
                }
                if *operator == Operator::Plus {
                    return Some(cap - (cap - min) % operand.max(&1));
                }
                // Doubles at least with every turn, so there are at most 63.
                let mut value = *min;
                while let Some(next) = self.next_after(value).filter(|&next| next <= cap) {
                    value = next;
                }
                Some(value)
            }
            Count::Set(set) => {
                let n = u32::try_from(n).unwrap_or(u32::MAX);
                let range = set.ranges().rev().find(|range| *range.start() <= n)?;
                Some(n.min(*range.end()).into())
            }
        }
    }

    /// The acceptable numbers, ascending; not finite when [`max`](Self::max) is `None`.
    pub fn values(&self) -> impl Iterator<Item = u64> + '_ {
        let ids = match self {
            Count::Set(set) => Some(set.iter().map(u64::from)),
            _ => None,
        };
        let walk = match self {
            Count::Set(_) => None,
            _ => Some(std::iter::successors(Some(self.min()), |&value| self.next_after(value))),
        };
        ids.into_iter().flatten().chain(walk.into_iter().flatten())
    }

    /// The acceptable numbers that are not above `limit`, ascending.
    pub fn values_up_to(&self, limit: u64) -> impl Iterator<Item = u64> + '_ {
        self.values().take_while(move |&value| value <= limit)
    }

    /// The value of a range that follows `value`.
    fn next_after(&self, value: u64) -> Option<u64> {
        let Count::Range { max, operand, operator, .. } = self else { return None };
        let next = match operator {
            Operator::Plus => value.checked_add(*operand),
            Operator::Times => value.checked_mul(*operand),
            Operator::Power => u32::try_from(*operand).ok().and_then(|operand| value.checked_pow(operand)),
        };
        // A range that code makes may not advance; it ends there.
        next.filter(|&next| next > value && next <= max.unwrap_or(COUNT_MAX))
    }

    /// The range with every part written (`2+:1:+`); other counts as they print.
    pub fn to_long_string(&self) -> String {
        match self {
            Count::Range { min, max, operand, operator } => {
                let max = max.map_or_else(|| "+".to_owned(), |max| format!("-{max}"));
                format!("{min}{max}:{operand}:{}", operator.symbol())
            }
            _ => self.to_string(),
        }
    }
}

impl From<u32> for Count {
    /// A fixed count; 0 becomes 1, because a count is at least 1.
    fn from(n: u32) -> Self {
        Count::Fixed(n.max(1).into())
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Count::Fixed(n) => write!(f, "{n}"),
            Count::Set(set) => write!(f, "{set}"),
            Count::Range { min, max, operand, operator } => {
                match max {
                    Some(max) => write!(f, "{min}-{max}")?,
                    None => write!(f, "{min}+")?,
                }
                match (operator, operand) {
                    (Operator::Plus, 1) => Ok(()),
                    (Operator::Plus, _) => write!(f, ":{operand}"),
                    _ => write!(f, ":{operand}:{}", operator.symbol()),
                }
            }
        }
    }
}

impl FromStr for Count {
    type Err = CountError;

    fn from_str(text: &str) -> Result<Self, CountError> {
        Count::parse(text)
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn eat(&mut self, byte: u8) -> bool {
        let hit = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(hit);
        hit
    }

    fn count(&mut self) -> Result<Count, CountErrorKind> {
        if self.eat(b'[') {
            match self.text {
                [.., b']'] => self.text = &self.text[..self.text.len() - 1],
                _ => return Err(Kind::Unexpected),
            }
        }
        if self.text.contains(&b',') {
            return self.list();
        }
        let min = self.number()?;
        let max = if self.eat(b'-') {
            Some(self.number()?)
        } else if self.eat(b'+') {
            None
        } else {
            return if self.at == self.text.len() { Ok(Count::Fixed(min)) } else { Err(Kind::Unexpected) };
        };
        let (mut operand, mut operator) = (1, Operator::Plus);
        if self.eat(b':') {
            operand = self.number()?;
            if self.eat(b':') {
                let symbol = self.text.get(self.at).map(|&byte| char::from(byte));
                operator = symbol.and_then(Operator::from_symbol).ok_or(Kind::Operator)?;
                self.at += 1;
            }
        }
        if self.at < self.text.len() {
            return Err(Kind::Unexpected);
        }
        Count::range(min, max, operand, operator)
    }

    fn list(&mut self) -> Result<Count, CountErrorKind> {
        let text = std::str::from_utf8(&self.text[self.at..]).map_err(|_| Kind::Unexpected)?;
        match Idset::parse(text) {
            Ok(set) => Count::set(set),
            Err(error) => {
                self.at += error.at;
                Err(Kind::Idset)
            }
        }
    }

    fn number(&mut self) -> Result<u64, CountErrorKind> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        match &self.text[self.at..self.at + digits] {
            [] => Err(Kind::NoNumber),
            [b'0', ..] => Err(Kind::Zero),
            digits => {
                let add = |n: u64, digit: &u8| n.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
                let number = digits.iter().try_fold(0, add).filter(|&n| n <= COUNT_MAX);
                let number = number.ok_or(Kind::TooLarge)?;
                self.at += digits.len();
                Ok(number)
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
