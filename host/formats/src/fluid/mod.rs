//! Job ids: FLUIDs (RFC 19), 64-bit numbers with six spellings.
//!
//! A FLUID is a 40-bit count of milliseconds since an epoch, a 14-bit generator number and a 10-bit sequence number.
//! This module does not read a clock: the time is a parameter of [`Generator::next`].
//!
//! | encoding | example |
//! |---|---|
//! | F58 (base 58, what people see) | `ƒuZZybuNNy`, or `fuZZybuNNy` in plain ASCII |
//! | dothex (KVS directories) | `0017.e9fb.8df1.6c2e` |
//! | hex | `0x17e9fb8df16c2e` |
//! | decimal (JSON on the wire) | `6731191091817518` |
//! | words (over the phone) | `reform-remote-galileo--heart-package-academy` |
//! | emoji (base 576) | `👩💅📓😸👑🚓` |
//!
//! # Where RFC 19 and flux-core differ
//!
//! Blanks around an id are ignored in every encoding, as the RFC says; flux-core refuses them behind F58 and dothex. A
//! text for more than 64 bits is refused in every encoding; flux-core wraps twelve-digit F58. A sign in front of a
//! decimal, which flux-core takes, is refused. RFC 19 forbids ids as JSON numbers, RFC 27 and the services require
//! them: ids are written as JSON integers and read from integers and from strings.

mod emoji;
mod words;

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::text::excerpt;

/// Bits of the timestamp, the topmost.
pub const TIMESTAMP_BITS: u32 = 40;
/// Bits of the generator number.
pub const GENERATOR_BITS: u32 = 14;
/// Bits of the sequence number, the lowest.
pub const SEQUENCE_BITS: u32 = 10;

const TIMESTAMP_MAX: u64 = (1 << TIMESTAMP_BITS) - 1;
const GENERATOR_MAX: u16 = (1 << GENERATOR_BITS) - 1;
const SEQUENCE_MAX: u16 = (1 << SEQUENCE_BITS) - 1;

/// Digits of base 58: no 0, O, I and l, which are easily confused.
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// Most digits in an F58 text, as in flux-core; 2^64 - 1 has eleven.
const F58_DIGITS_MAX: usize = 12;

/// The id of a job, a FLUID (RFC 19).
///
/// Prints as F58 with `ƒ`, is read from every encoding, and serialises as JSON integer. Ids are ordered by the time
/// they were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// A text is not a job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "job id '{input}': {kind} at position {at}; a job id looks like 'ƒuZZybuNNy', '6731191091817518', '0x17e9fb8df16c2e' or '0017.e9fb.8df1.6c2e'"
)]
pub struct FluidError {
    /// The text, shortened when long.
    pub input: String,
    /// Byte offset in the text where reading stopped.
    pub at: usize,
    /// The kind of error.
    pub kind: FluidErrorKind,
}

/// The kinds of error in a job id text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FluidErrorKind {
    /// There is no text, or nothing behind the mark of the encoding.
    #[error("expected a digit")]
    Empty,
    /// Not a digit of the base 58 alphabet, which has no 0, O, I and l.
    #[error("not a base 58 digit")]
    Base58,
    /// Not four groups of one to four hexadecimal digits with dots between.
    #[error("not four groups of up to four hexadecimal digits")]
    Dothex,
    /// Not a hexadecimal digit.
    #[error("not a hexadecimal digit")]
    Hex,
    /// Not a decimal digit, and no mark of another encoding.
    #[error("not a decimal digit")]
    Decimal,
    /// Not a word of the mnemonic word list.
    #[error("not a word of the mnemonic word list")]
    Word,
    /// A mnemonic id has six words.
    #[error("not exactly six words")]
    WordCount,
    /// Three words that stand for no number of 32 bits.
    #[error("words that stand for no number")]
    WordValue,
    /// Not one of the 576 emoji of RFC 19.
    #[error("not one of the 576 emoji of RFC 19")]
    Emoji,
    /// The number does not fit 64 bits.
    #[error("number that does not fit 64 bits")]
    TooLarge,
}

use FluidErrorKind as Kind;

/// Where and why reading stopped, counted from the start of the piece that was handed on.
type Stop = (usize, Kind);

impl JobId {
    /// Reads an id in any encoding, distinguished by the rules of RFC 19. Blanks around it are ignored.
    ///
    /// # Errors
    /// [`FluidError`]: the place at which reading stopped, and the kind of error by the encoding that the text seems to have.
    pub fn parse(text: &str) -> Result<Self, FluidError> {
        let skipped = text.len() - text.trim_start().len();
        decode(text.trim()).map(JobId).map_err(|(at, kind)| FluidError {
            input: excerpt(text),
            at: skipped + at,
            kind,
        })
    }

    /// F58 with the prefix `ƒ`: `ƒuZZybuNNy`.
    pub fn to_f58(self) -> String {
        format!("ƒ{}", base58(self.0))
    }

    /// F58 with the ASCII prefix `f`: `fuZZybuNNy`.
    pub fn to_f58_ascii(self) -> String {
        format!("f{}", base58(self.0))
    }

    /// Four groups of four hexadecimal digits: `0017.e9fb.8df1.6c2e`.
    pub fn to_dothex(self) -> String {
        let group = |shift: u32| (self.0 >> shift) & 0xffff;
        format!("{:04x}.{:04x}.{:04x}.{:04x}", group(48), group(32), group(16), group(0))
    }

    /// Hexadecimal with prefix: `0x17e9fb8df16c2e`.
    pub fn to_hex(self) -> String {
        format!("{:#x}", self.0)
    }

    /// Decimal: `6731191091817518`.
    pub fn to_decimal(self) -> String {
        self.0.to_string()
    }

    /// Six words: `reform-remote-galileo--heart-package-academy`.
    pub fn to_words(self) -> String {
        words::encode(self.0)
    }

    /// One to seven emoji: `👩💅📓😸👑🚓`.
    pub fn to_emoji(self) -> String {
        emoji::encode(self.0)
    }

    /// The job's directory in the KVS (RFC 16): `job.0017.e9fb.8df1.6c2e`.
    pub fn kvs_dir(self) -> String {
        format!("job.{}", self.to_dothex())
    }

    /// Milliseconds from the epoch of its generator to the creation of the id, below 2^40.
    pub fn timestamp_ms(self) -> u64 {
        self.0 >> (GENERATOR_BITS + SEQUENCE_BITS)
    }

    /// The number of the generator that created the id, 0 to 16,383.
    pub fn generator(self) -> u16 {
        (self.0 >> SEQUENCE_BITS) as u16 & GENERATOR_MAX
    }

    /// The sequence number among the ids of one generator and millisecond, 0 to 1,023.
    pub fn sequence(self) -> u16 {
        self.0 as u16 & SEQUENCE_MAX
    }
}

/// Digits of `id` in base 58, most significant first.
fn base58(mut id: u64) -> String {
    let mut digits = Vec::with_capacity(F58_DIGITS_MAX);
    loop {
        digits.push(char::from(BASE58[(id % 58) as usize]));
        id /= 58;
        if id == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Reads a trimmed text by RFC 19, "Decoding Alternate FLUID Representations", in the order given there.
fn decode(text: &str) -> Result<u64, Stop> {
    let behind = |prefix: &str, (at, kind): Stop| (prefix.len() + at, kind);
    if text.contains('.') {
        dothex(text)
    } else if text.contains('-') {
        words::decode(text)
    } else if let Some(digits) = text.strip_prefix('ƒ') {
        f58(digits).map_err(|stop| behind("ƒ", stop))
    } else if let Some(digits) = text.strip_prefix('f') {
        f58(digits).map_err(|stop| behind("f", stop))
    } else if text.as_bytes().starts_with(&[0xf0, 0x9f]) {
        emoji::decode(text)
    } else if let Some(digits) = text.strip_prefix("0x") {
        positional(digits, 16, Kind::Hex).map_err(|stop| behind("0x", stop))
    } else {
        positional(text, 10, Kind::Decimal)
    }
}

/// Appends a digit to a number, most significant first.
fn append(id: u64, base: u64, digit: u64) -> Option<u64> {
    id.checked_mul(base)?.checked_add(digit)
}

fn positional(text: &str, base: u32, wrong: Kind) -> Result<u64, Stop> {
    if text.is_empty() {
        return Err((0, Kind::Empty));
    }
    let step = |id: u64, (at, c): (usize, char)| {
        let digit = c.to_digit(base).ok_or((at, wrong))?;
        append(id, base.into(), digit.into()).ok_or((at, Kind::TooLarge))
    };
    text.char_indices().try_fold(0, step)
}

fn f58(text: &str) -> Result<u64, Stop> {
    if text.is_empty() {
        return Err((0, Kind::Empty));
    }
    let step = |id: u64, (at, byte): (usize, u8)| {
        let digit = BASE58.iter().position(|&b| b == byte).ok_or((at, Kind::Base58))?;
        match append(id, 58, digit as u64) {
            Some(id) if at < F58_DIGITS_MAX => Ok(id),
            _ => Err((at, Kind::TooLarge)),
        }
    };
    text.bytes().enumerate().try_fold(0, step)
}

fn dothex(text: &str) -> Result<u64, Stop> {
    let (mut id, mut groups, mut at) = (0, 0, 0);
    for group in text.split('.') {
        groups += 1;
        if groups > 4 || group.is_empty() || group.len() > 4 {
            return Err((at, Kind::Dothex));
        }
        let value = positional(group, 16, Kind::Hex).map_err(|(offset, kind)| (at + offset, kind))?;
        id = id << 16 | value;
        at += group.len() + 1;
    }
    if groups == 4 { Ok(id) } else { Err((text.len(), Kind::Dothex)) }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_f58())
    }
}

impl FromStr for JobId {
    type Err = FluidError;

    fn from_str(text: &str) -> Result<Self, FluidError> {
        JobId::parse(text)
    }
}

impl From<u64> for JobId {
    fn from(id: u64) -> Self {
        JobId(id)
    }
}

impl From<JobId> for u64 {
    fn from(id: JobId) -> Self {
        id.0
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = JobId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a job id (an integer below 2^64, or a string in any FLUID encoding)")
            }

            fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<JobId, E> {
                Ok(JobId(id))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<JobId, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Makes ids that are unique and ascending for one generator number.
///
/// The time is a parameter; it may stand still and may jump back. The generator then stays at its latest millisecond.
/// When the 1024 sequence numbers of that millisecond are used up, it runs ahead of the time by a millisecond.
#[derive(Debug, Clone)]
pub struct Generator {
    epoch_ms: u64,
    generator: u16,
    timestamp: u64,
    /// Next sequence number to give out, up to one above the last.
    sequence: u16,
}

impl Generator {
    /// A generator whose timestamps count from `epoch_ms` (milliseconds since the UNIX epoch). Only the lower 14 bits
    /// of `id` are used; they must differ between the generators of one instance.
    pub fn new(epoch_ms: u64, id: u16) -> Self {
        Generator { epoch_ms, generator: id & GENERATOR_MAX, timestamp: 0, sequence: 0 }
    }

    /// Makes every further id larger than `last`, for a generator that goes on after a restart.
    pub fn resume_after(&mut self, last: JobId) {
        // One millisecond up leaves the other generators' ids of that millisecond behind, too.
        let next = (last.timestamp_ms() + 1).min(TIMESTAMP_MAX);
        if next > self.timestamp {
            (self.timestamp, self.sequence) = (next, 0);
        }
    }

    /// The next id at the time `now_ms` (milliseconds since the UNIX epoch; before the epoch of the generator counts
    /// as the epoch).
    ///
    /// The timestamps last for 34.8 years after the epoch; from then on ids repeat.
    pub fn next(&mut self, now_ms: u64) -> JobId {
        let elapsed = now_ms.saturating_sub(self.epoch_ms).min(TIMESTAMP_MAX);
        if elapsed > self.timestamp {
            (self.timestamp, self.sequence) = (elapsed, 0);
        }
        if self.sequence > SEQUENCE_MAX {
            (self.timestamp, self.sequence) = ((self.timestamp + 1).min(TIMESTAMP_MAX), 0);
        }
        let id = self.timestamp << (GENERATOR_BITS + SEQUENCE_BITS)
            | u64::from(self.generator) << SEQUENCE_BITS
            | u64::from(self.sequence);
        self.sequence += 1;
        JobId(id)
    }
}

#[cfg(test)]
mod tests;
