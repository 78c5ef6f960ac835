//! Reading hostlist texts, in flux-core's manner or to the letter of RFC 29.

use super::{Hostlist, NAME_BYTES_MAX, Numbers, RANGE_HOSTS_MAX, TEXT_HOSTS_MAX};
use crate::text::excerpt;

/// A text is not a hostlist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hostlist '{input}': {kind} at position {at}; a hostlist looks like 'node[0-3,8],login'")]
pub struct HostlistError {
    /// The text, shortened when long.
    pub input: String,
    /// Byte offset in the text where reading stopped.
    pub at: usize,
    /// The kind of error.
    pub kind: HostlistErrorKind,
}

/// The kinds of error in a hostlist text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostlistErrorKind {
    /// A host name is missing, as before a stray comma.
    #[error("expected a host name")]
    NoName,
    /// A character that a host name cannot have.
    #[error("character that a host name cannot have (printable ASCII without ',', '[' and ']')")]
    Character,
    /// A bracket without its partner, inside others, or a second one in the same expression.
    #[error("unmatched, nested or second bracket")]
    Bracket,
    /// A digit was expected.
    #[error("expected a digit")]
    NoId,
    /// A character that cannot follow an id.
    #[error("expected ',', '-' or ']'")]
    Unexpected,
    /// The end of a range is below its start.
    #[error("range that descends")]
    Descending,
    /// An id does not fit 64 bits.
    #[error("id that does not fit 64 bits")]
    IdTooLarge,
    /// One range names more hosts than [`RANGE_HOSTS_MAX`].
    #[error("range of more than {RANGE_HOSTS_MAX} hosts")]
    RangeTooLarge,
    /// The text names more hosts than [`TEXT_HOSTS_MAX`].
    #[error("list of more than {TEXT_HOSTS_MAX} hosts")]
    TooManyHosts,
    /// A name or the text of an id is longer than [`NAME_BYTES_MAX`].
    #[error("name longer than {NAME_BYTES_MAX} bytes")]
    NameTooLong,
}

use HostlistErrorKind as Kind;

/// The rules to apply where RFC 29 and flux-core differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// flux-core: each item is padded by its own digits; blanks and stray commas are skipped.
    Core,
    /// RFC 29: the first item's padding applies to the bracket; single commas only.
    Rfc,
}

/// True for characters that RFC 29 allows in a prefix or suffix.
pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, ',' | '[' | ']')
}

/// Checks one host name.
pub(super) fn check_name(name: &str) -> Result<(), HostlistError> {
    let stop = match name.char_indices().find(|&(_, c)| !is_name_char(c)) {
        Some((at, _)) => Some((at, Kind::Character)),
        None if name.is_empty() => Some((0, Kind::NoName)),
        None if name.len() > NAME_BYTES_MAX => Some((NAME_BYTES_MAX, Kind::NameTooLong)),
        None => None,
    };
    match stop {
        Some((at, kind)) => Err(HostlistError { input: excerpt(name), at, kind }),
        None => Ok(()),
    }
}

pub(super) fn parse(text: &str, reading: Reading) -> Result<Hostlist, HostlistError> {
    let mut reader = Reader { text, at: 0, reading, list: Hostlist::new() };
    match reader.expressions() {
        Ok(()) => Ok(reader.list),
        Err((at, kind)) => Err(HostlistError { input: excerpt(text), at, kind }),
    }
}

/// Where and why reading stopped.
type Stop = (usize, Kind);

struct Reader<'a> {
    text: &'a str,
    at: usize,
    reading: Reading,
    list: Hostlist,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let hit = self.peek() == Some(byte);
        self.at += usize::from(hit);
        hit
    }

    fn expressions(&mut self) -> Result<(), Stop> {
        if self.text.is_empty() {
            return Ok(());
        }
        loop {
            if self.reading == Reading::Core {
                while matches!(self.peek(), Some(b',' | b' ' | b'\t')) {
                    self.at += 1;
                }
                if self.peek().is_none() {
                    return Ok(());
                }
            }
            self.expression()?;
            let separated = match self.reading {
                Reading::Core => matches!(self.peek(), Some(b',' | b' ' | b'\t')),
                Reading::Rfc => self.eat(b','),
            };
            if !separated {
                return match self.peek() {
                    None => Ok(()),
                    Some(b'[' | b']') => Err((self.at, Kind::Bracket)),
                    Some(_) => Err((self.at, Kind::Character)),
                };
            }
        }
    }

    /// Reads characters of a name; may be none.
    fn affix(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let affix = &rest[..rest.find(|c| !is_name_char(c)).unwrap_or(rest.len())];
        self.at += affix.len();
        affix
    }

    fn expression(&mut self) -> Result<(), Stop> {
        let start = self.at;
        let prefix = self.affix();
        if !self.eat(b'[') {
            return match self.peek() {
                None | Some(b',' | b' ' | b'\t') if prefix.len() > NAME_BYTES_MAX => {
                    Err((start, Kind::NameTooLong))
                }
                None | Some(b',') if prefix.is_empty() => Err((start, Kind::NoName)),
                Some(b']') => Err((self.at, Kind::Bracket)),
                _ if prefix.is_empty() => Err((self.at, Kind::Character)),
                _ => {
                    self.list.push_name(prefix);
                    self.check_total(start)
                }
            };
        }
        let open = self.at - 1;
        // The suffix follows ids that are not read yet, but is needed to store them: its end is searched first.
        let close = match self.text[self.at..].find(['[', ']']) {
            Some(offset) if self.text.as_bytes()[self.at + offset] == b']' => self.at + offset,
            _ => return Err((open, Kind::Bracket)),
        };
        let ids = self.at;
        self.at = close + 1;
        let suffix = self.affix();
        let after = self.at;
        self.at = ids;
        // Only a first item with leading zeros has a padding to spread.
        let mut spread = None;
        let mut first = true;
        loop {
            let item = self.at;
            let numbers = self.item(spread)?;
            if first && self.reading == Reading::Rfc && numbers.width > 0 {
                spread = Some(numbers.width);
            }
            first = false;
            if prefix.len() + numbers.digits_max() + suffix.len() > NAME_BYTES_MAX {
                return Err((item, Kind::NameTooLong));
            }
            self.list.push_run(prefix, suffix, numbers);
            self.check_total(item)?;
            if !self.eat(b',') {
                break;
            }
        }
        if self.at != close {
            return Err((self.at, Kind::Unexpected));
        }
        self.at = after;
        Ok(())
    }

    /// Reads `id` or `id-id`; `spread` is the padding that the bracket's first item imposes, if any.
    fn item(&mut self, spread: Option<usize>) -> Result<Numbers, Stop> {
        let start = self.at;
        let (lo, width) = self.id()?;
        let hi = if self.eat(b'-') { self.id()?.0 } else { lo };
        if hi < lo {
            return Err((start, Kind::Descending));
        }
        if hi - lo >= RANGE_HOSTS_MAX {
            return Err((start, Kind::RangeTooLarge));
        }
        Ok(Numbers::new(lo, hi, spread.unwrap_or(width)))
    }

    /// Reads an id; gives its value and the number of digits it was written with.
    fn id(&mut self) -> Result<(u64, usize), Stop> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        if text.is_empty() {
            return Err((start, Kind::NoId));
        }
        if text.len() > NAME_BYTES_MAX {
            return Err((start, Kind::NameTooLong));
        }
        text.parse().map(|id| (id, text.len())).map_err(|_| (start, Kind::IdTooLarge))
    }

    fn check_total(&self, at: usize) -> Result<(), Stop> {
        if self.list.len() > TEXT_HOSTS_MAX { Err((at, Kind::TooManyHosts)) } else { Ok(()) }
    }
}
