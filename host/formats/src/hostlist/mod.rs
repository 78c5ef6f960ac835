//! Hostlists (RFC 29): ordered lists of host names, written short as `node[0-3,8],login`.
//!
//! The order is significant and duplicates stay: in R the i-th host belongs to the i-th rank. A [`Hostlist`] keeps
//! ranges, so `node[0-100000]` costs as much as `node0`; single names are made on demand. This module gives host names
//! no meaning.
//!
//! # Where RFC 29 and flux-core differ
//!
//! **Zero padding.** RFC 29 spreads the leading zeros of the first id over its whole bracket: `[005,4,11-13]` is
//! `005,004,011,012,013`. flux-core pads each item by its own digits, reads the same text as `005,4,11,12,13`, and
//! writes such lists. [`Hostlist::parse`] reads as flux-core does, [`Hostlist::parse_rfc`] as the RFC says. Printed
//! lists have the same meaning in both readings: ids of different padding never share a bracket.
//!
//! | text | RFC 29 | flux-core | `parse` | `parse_rfc` |
//! |---|---|---|---|---|
//! | `a,,b` `a b` | not allowed | stray commas, blanks and tabs separate | as core | refused |
//! | `a[1-]` | not allowed | `a1` | refused | refused |
//! | `a[1-2]b[1-2]` | not allowed | `a1b[1-2]`, `a2b[1-2]` (second bracket literal) | refused | refused |
//! | `a[1-3,5]b` | one expression | written `a1b,a2b,a3b,a5b` | kept short | kept short |
//! | `é` | ASCII only | accepted | refused | refused |

mod parse;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

pub use parse::{HostlistError, HostlistErrorKind};

/// Most hosts that one range such as `[0-1048575]` may name (flux-core's limit, 2^20).
pub const RANGE_HOSTS_MAX: u64 = 1 << 20;
/// Most hosts that one parsed text may name, 2^24.
pub const TEXT_HOSTS_MAX: usize = 1 << 24;
/// Longest host name, and longest text of one id, in bytes.
pub const NAME_BYTES_MAX: usize = 1023;

/// An ordered list of host names, duplicates allowed (RFC 29).
///
/// Prints compressed and serialises as that string; reading the printed text and printing it again gives the same text.
/// Two hostlists are equal when they name the same hosts in the same order, in whatever form they were written.
#[derive(Clone, Default)]
pub struct Hostlist {
    spans: Vec<Span>,
}

/// A run of hosts: one name without a number, or consecutive numbers between the same prefix and suffix.
#[derive(Clone)]
struct Span {
    /// Position in the list of the first host of the run.
    start: usize,
    /// Shared with the neighbours that have the same.
    affix: Arc<Affix>,
    /// None: the prefix is the whole name.
    numbers: Option<Numbers>,
}

#[derive(Clone, PartialEq, Eq)]
struct Affix {
    prefix: Box<str>,
    suffix: Box<str>,
}

/// The numbers `lo..=hi`, padded with zeros to `width` digits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Numbers {
    lo: u64,
    hi: u64,
    /// 0 when `lo` needs no padding, so that equal runs have equal widths.
    width: usize,
}

impl Numbers {
    /// At most 2^64 - 1 for a parsed run, see [`RANGE_HOSTS_MAX`].
    fn count(self) -> usize {
        (self.hi - self.lo) as usize + 1
    }

    fn new(lo: u64, hi: u64, width: usize) -> Self {
        Numbers { lo, hi, width: if width > digits(lo) { width } else { 0 } }
    }

    /// Most digits that an id of the run prints with.
    fn digits_max(self) -> usize {
        self.width.max(digits(self.hi))
    }

    /// True when all ids of `self` print the same under the padding `width`.
    fn agrees_with(self, width: usize) -> bool {
        self.width == width || (self.width == 0 && digits(self.lo) >= width)
    }

    /// True when `next` continues `self`, so that both make one run.
    fn joins(self, next: Numbers) -> bool {
        self.hi.checked_add(1) == Some(next.lo) && next.agrees_with(self.width)
    }

    /// The offset in the run of the id written as `text`.
    fn position(self, text: &str) -> Option<usize> {
        let padded = text.len() == self.width;
        let natural = text.len() > self.width && (text.len() == 1 || !text.starts_with('0'));
        if !(padded || natural) || !text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let id: u64 = text.parse().ok()?;
        (self.lo <= id && id <= self.hi).then(|| (id - self.lo) as usize)
    }
}

/// Number of decimal digits of `id`.
fn digits(id: u64) -> usize {
    id.checked_ilog10().unwrap_or(0) as usize + 1
}

impl Span {
    fn count(&self) -> usize {
        self.numbers.map_or(1, Numbers::count)
    }

    /// The name of the host `offset` places into the run.
    fn name(&self, offset: usize) -> String {
        let Affix { prefix, suffix } = &*self.affix;
        match self.numbers {
            None => prefix.to_string(),
            Some(n) => format!("{prefix}{:0width$}{suffix}", n.lo + offset as u64, width = n.width),
        }
    }

    /// The offset in the run of the host called `name`.
    fn position(&self, name: &str) -> Option<usize> {
        let rest = name.strip_prefix(&*self.affix.prefix)?;
        match self.numbers {
            None => rest.is_empty().then_some(0),
            Some(n) => n.position(rest.strip_suffix(&*self.affix.suffix)?),
        }
    }
}

impl Hostlist {
    /// The empty list.
    pub const fn new() -> Self {
        Hostlist { spans: Vec::new() }
    }

    /// Reads a hostlist as flux-core does (the [module](self) lists the differences).
    ///
    /// At most [`RANGE_HOSTS_MAX`] hosts in one range and [`TEXT_HOSTS_MAX`] hosts in all.
    ///
    /// # Errors
    /// [`HostlistError`]: the place at which reading stopped, and the kind of error.
    pub fn parse(text: &str) -> Result<Self, HostlistError> {
        parse::parse(text, parse::Reading::Core)
    }

    /// Reads a hostlist by the text of RFC 29: commas only, and the padding of the first id of a bracket applies to the
    /// whole bracket. Same limits as [`parse`](Self::parse).
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_rfc(text: &str) -> Result<Self, HostlistError> {
        parse::parse(text, parse::Reading::Rfc)
    }

    /// Appends one host. The name must be 1 to [`NAME_BYTES_MAX`] printable ASCII characters without comma and brackets.
    ///
    /// # Errors
    /// The name has another form; nothing was appended.
    pub fn push(&mut self, host: &str) -> Result<(), HostlistError> {
        parse::check_name(host)?;
        self.push_name(host);
        Ok(())
    }

    /// Appends all hosts of `other`.
    pub fn append(&mut self, other: &Hostlist) {
        self.append_slice(other, 0..other.len());
    }

    /// The hosts at the positions `range`, clipped to the list.
    pub fn slice(&self, range: Range<usize>) -> Hostlist {
        let mut out = Hostlist::new();
        out.append_slice(self, range);
        out
    }

    /// Appends the hosts at the positions `range` of `other`, clipped to `other`.
    ///
    /// The cost is proportional to the number of ranges copied, not to the number of hosts.
    pub fn append_slice(&mut self, other: &Hostlist, range: Range<usize>) {
        let end = range.end.min(other.len());
        let mut at = range.start;
        let first = other.spans.partition_point(|s| s.start + s.count() <= at);
        for span in &other.spans[first..] {
            if at >= end {
                break;
            }
            let stop = end.min(span.start + span.count());
            let numbers = span.numbers.map(|n| {
                let lo = n.lo + (at - span.start) as u64;
                Numbers::new(lo, lo + (stop - at - 1) as u64, n.width)
            });
            self.push_span(&span.affix, numbers);
            at = stop;
        }
    }

    /// The number of hosts, duplicates counted.
    pub fn len(&self) -> usize {
        self.spans.last().map_or(0, |s| s.start + s.count())
    }

    /// True when there is no host.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The host at position `index`, counted from 0; `None` beyond the end. The cost is logarithmic in the number of ranges.
    pub fn nth(&self, index: usize) -> Option<String> {
        let span = &self.spans[self.spans.partition_point(|s| s.start <= index).checked_sub(1)?];
        let offset = index - span.start;
        (offset < span.count()).then(|| span.name(offset))
    }

    /// The first position of the host named exactly `host`, counted from 0; `None` if it is not in the list. The cost is linear in
    /// the number of ranges; for many look-ups in a list of many ranges, build a map from [`iter`](Self::iter) once.
    pub fn find(&self, host: &str) -> Option<usize> {
        self.spans.iter().find_map(|s| Some(s.start + s.position(host)?))
    }

    /// True when `host` is in the list. The cost is that of [`find`](Self::find).
    pub fn contains(&self, host: &str) -> bool {
        self.find(host).is_some()
    }

    /// The hosts in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { spans: &self.spans, offset: 0, left: self.len() }
    }

    /// Appends a name that is known to be well-formed; its trailing digits become the number.
    fn push_name(&mut self, host: &str) {
        let stem = host.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = &host[stem.len()..];
        match number.parse() {
            Ok(id) => self.push_run(stem, "", Numbers::new(id, id, number.len())),
            // No digits, or too many for a number: the name stands for itself.
            Err(_) => self.push_span(&self.share(host, ""), None),
        }
    }

    fn push_run(&mut self, prefix: &str, suffix: &str, numbers: Numbers) {
        self.push_span(&self.share(prefix, suffix), Some(numbers));
    }

    /// The affix of the last span when it is the same, else a new one.
    fn share(&self, prefix: &str, suffix: &str) -> Arc<Affix> {
        match self.spans.last() {
            Some(tail) if *tail.affix.prefix == *prefix && *tail.affix.suffix == *suffix => {
                tail.affix.clone()
            }
            _ => Arc::new(Affix { prefix: prefix.into(), suffix: suffix.into() }),
        }
    }

    fn push_span(&mut self, affix: &Arc<Affix>, numbers: Option<Numbers>) {
        let start = self.len();
        if let Some(tail) = self.spans.last_mut()
            && let (Some(have), Some(more)) = (&mut tail.numbers, numbers)
            && have.joins(more)
            && tail.affix == *affix
        {
            have.hi = more.hi;
            return;
        }
        self.spans.push(Span { start, affix: affix.clone(), numbers });
    }
}

/// The hosts of a [`Hostlist`] in order; see [`Hostlist::iter`].
#[derive(Clone)]
pub struct Iter<'a> {
    spans: &'a [Span],
    /// Place in the first of `spans`.
    offset: usize,
    left: usize,
}

impl Iterator for Iter<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let (span, rest) = self.spans.split_first()?;
        let name = span.name(self.offset);
        self.offset += 1;
        self.left -= 1;
        if self.offset == span.count() {
            (self.spans, self.offset) = (rest, 0);
        }
        Some(name)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Hostlist {
    type Item = String;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Hostlist {
    /// The list of the given names, for names that the program itself made; foreign names go through
    /// [`parse`](Hostlist::parse) or [`push`](Hostlist::push). No name is refused, so that positions never shift:
    /// each forbidden character is replaced by `_`, and so is an empty name.
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut list = Hostlist::new();
        for name in names {
            let name = name.as_ref();
            if parse::check_name(name).is_ok() {
                list.push_name(name);
                continue;
            }
            let mended =
                name.chars().take(NAME_BYTES_MAX).map(|c| if parse::is_name_char(c) { c } else { '_' });
            let mended: String = mended.collect();
            list.push_name(if mended.is_empty() { "_" } else { &mended });
        }
        list
    }
}

impl PartialEq for Hostlist {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&Span, &Span)| a.affix == b.affix && a.numbers == b.numbers;
        self.len() == other.len()
            && (self.spans.len() == other.spans.len() && self.spans.iter().zip(&other.spans).all(same)
                || self.iter().eq(other.iter()))
    }
}

impl Eq for Hostlist {}

impl fmt::Display for Hostlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.spans.as_slice();
        while let Some((head, tail)) = rest.split_first() {
            if rest.len() < self.spans.len() {
                f.write_str(",")?;
            }
            let Affix { prefix, suffix } = &*head.affix;
            let Some(first) = head.numbers else {
                f.write_str(prefix)?;
                rest = tail;
                continue;
            };
            // One bracket holds the following ids with the same affixes that agree with the padding of its first id,
            // so that the readings of the RFC and of flux-core give the same list.
            let fits =
                |s: &&Span| s.affix == head.affix && s.numbers.is_some_and(|n| n.agrees_with(first.width));
            let more = tail.iter().take_while(fits).count();
            let (group, next) = rest.split_at(more + 1);
            rest = next;
            // A single host needs no bracket if its number is its trailing digits, which is how a name is read, or if
            // it is the whole list.
            let plain = suffix.is_empty() && !prefix.ends_with(|c: char| c.is_ascii_digit());
            let single = group.len() == 1 && first.count() == 1 && (plain || self.spans.len() == 1);
            let (open, close) = if single { ("", "") } else { ("[", "]") };
            write!(f, "{prefix}{open}")?;
            for (i, numbers) in group.iter().filter_map(|s| s.numbers).enumerate() {
                let comma = if i == 0 { "" } else { "," };
                write!(f, "{comma}{:0width$}", numbers.lo, width = numbers.width)?;
                if numbers.hi > numbers.lo {
                    write!(f, "-{:0width$}", numbers.hi, width = numbers.width)?;
                }
            }
            write!(f, "{close}{suffix}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Hostlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hostlist({self})")
    }
}

impl FromStr for Hostlist {
    type Err = HostlistError;

    fn from_str(text: &str) -> Result<Self, HostlistError> {
        Hostlist::parse(text)
    }
}

impl Serialize for Hostlist {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hostlist {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Hostlist;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a hostlist such as \"node[0-3]\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Hostlist, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests;
