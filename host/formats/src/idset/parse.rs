//! Reading idset texts.

use super::{Idset, MAX_ID};
use crate::text::excerpt;

/// A text is not an idset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("idset '{input}': {kind} at position {at}; an idset looks like '0-3,8' (ascending, no spaces)")]
pub struct IdsetError {
    /// The text, shortened when long.
    pub input: String,
    /// Byte offset in the text where reading stopped.
    pub at: usize,
    /// The kind of error.
    pub kind: IdsetErrorKind,
}

/// The kinds of error in an idset text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdsetErrorKind {
    /// A digit was expected.
    #[error("expected a digit")]
    NoId,
    /// A character that cannot follow an id.
    #[error("expected ',' or '-' or the end")]
    Unexpected,
    /// An id is written with a leading zero.
    #[error("id with a leading zero")]
    LeadingZero,
    /// An id is larger than [`MAX_ID`].
    #[error("id larger than 2147483647")]
    TooLarge,
    /// The end of a range is not above its start.
    #[error("range that does not ascend")]
    Descending,
    /// An id is not above all ids before it in the text.
    #[error("id not above the ones before it")]
    OutOfOrder,
    /// A bracket without its partner, or inside others.
    #[error("unmatched or nested bracket")]
    Bracket,
}

/// Where and why reading stopped.
type Stop = (usize, IdsetErrorKind);

pub(super) fn parse(text: &str) -> Result<Idset, IdsetError> {
    Reader { text, at: 0 }.idset().map_err(|(at, kind)| IdsetError { input: excerpt(text), at, kind })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let hit = self.peek() == Some(byte);
        self.at += usize::from(hit);
        hit
    }

    fn idset(&mut self) -> Result<Idset, Stop> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        let bracketed = self.eat(b'[');
        let end = if bracketed { Some(b']') } else { None };
        if self.peek() != end {
            loop {
                let start = self.at;
                let (lo, hi) = self.item()?;
                match ranges.last_mut() {
                    Some(tail) if lo <= tail.1 => return Err((start, IdsetErrorKind::OutOfOrder)),
                    Some(tail) if lo == tail.1 + 1 => tail.1 = hi,
                    _ => ranges.push((lo, hi)),
                }
                if !self.eat(b',') {
                    break;
                }
            }
        }
        if bracketed && !self.eat(b']') {
            return Err((
                self.at,
                if self.peek().is_none() { IdsetErrorKind::Bracket } else { self.unexpected() },
            ));
        }
        match self.peek() {
            None => Ok(Idset { ranges }),
            Some(_) => Err((self.at, self.unexpected())),
        }
    }

    fn unexpected(&self) -> IdsetErrorKind {
        match self.peek() {
            Some(b'[' | b']') => IdsetErrorKind::Bracket,
            _ => IdsetErrorKind::Unexpected,
        }
    }

    fn item(&mut self) -> Result<(u32, u32), Stop> {
        let start = self.at;
        let lo = self.id()?;
        let hi = if self.eat(b'-') { Some(self.id()?) } else { None };
        match hi {
            None => Ok((lo, lo)),
            Some(hi) if hi > lo => Ok((lo, hi)),
            Some(_) => Err((start, IdsetErrorKind::Descending)),
        }
    }

    fn id(&mut self) -> Result<u32, Stop> {
        let start = self.at;
        let mut id: u32 = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            if self.at == start + 1 && id == 0 {
                return Err((start, IdsetErrorKind::LeadingZero));
            }
            // No overflow of u64: id stays below 2^31.
            let next = u64::from(id) * 10 + u64::from(digit - b'0');
            match u32::try_from(next) {
                Ok(next) if next <= MAX_ID => id = next,
                _ => return Err((start, IdsetErrorKind::TooLarge)),
            }
            self.at += 1;
        }
        if self.at == start {
            let bracket = matches!(self.peek(), Some(b'[' | b']'));
            return Err((start, if bracket { IdsetErrorKind::Bracket } else { IdsetErrorKind::NoId }));
        }
        Ok(id)
    }
}
