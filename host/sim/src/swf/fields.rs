//! The 18 numbers of a job line.
//!
//! A log is mostly numbers of a few digits between spaces, and their lengths are not to be foretold. So the bytes of a line are first
//! told from spaces, eight at a time, and then each number is computed from the eight bytes before its end.
//!
//! This module does not know the meaning of a field.

use super::{BadLine, quoted};

/// Fields of a job line.
const FIELDS: usize = 18;

/// The fields of a job line.
pub(super) struct Fields<'a> {
    number: u64,
    line: &'a [u8],
    /// Those that are short whole numbers; [`OTHER`] for the rest.
    wholes: [i64; FIELDS],
}

/// A field that takes a closer look.
const OTHER: i64 = i64::MIN;

/// The fields of a line, between white space.
fn tokens(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|token| !token.is_empty())
}

fn count_error(line: u64, found: usize) -> BadLine {
    let found = format!("{found} field{}", if found == 1 { "" } else { "s" });
    BadLine { line, field: None, found, accepted: "a line of 18 numbers, or a comment that begins with `;`" }
}

impl<'a> Fields<'a> {
    /// Fails if it is not a line of 18 fields; `number` is its line number in errors.
    #[inline(always)]
    pub(super) fn of(line: &'a [u8], number: u64) -> Result<Self, BadLine> {
        let mut fields = Fields { number, line, wholes: [OTHER; FIELDS] };
        if !fields.read_between_spaces() {
            fields.wholes = [OTHER; FIELDS];
            let found = tokens(line).count();
            if found != FIELDS {
                return Err(count_error(number, found));
            }
        }
        Ok(fields)
    }

    /// Reads the short whole numbers; false if not 18 fields are between spaces and tabs.
    #[inline(always)]
    fn read_between_spaces(&mut self) -> bool {
        let line = self.line;
        let mut places = [[0; 2]; FIELDS];
        let first = line.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let Some(first) = first.filter(|_| find_places(line, &mut places)) else { return false };
        for (whole, [begin, end]) in self.wholes.iter_mut().zip(places) {
            // The last byte of the field is the highest.
            let bytes = match end.checked_sub(8).and_then(|from| line.get(from..)?.first_chunk()) {
                Some(bytes) => u64::from_le_bytes(*bytes),
                None => first << (8 * (8 - end)),
            };
            *whole = match end - begin {
                2 if bytes >> 48 == 0x312d => -1,
                length @ 1..=8 => whole_number(bytes, length as u32),
                _ => OTHER,
            };
            // Other white space separates fields, too.
            if *whole == OTHER && line[begin..end].iter().any(u8::is_ascii_whitespace) {
                return false;
            }
        }
        true
    }

    /// NaN for a field that is no number.
    #[cold]
    fn other(&self, field: usize) -> f64 {
        tokens(self.line).nth(field - 1).and_then(parse_number).unwrap_or(f64::NAN)
    }

    pub(super) fn bad(&self, field: usize, accepted: &'static str) -> BadLine {
        let found = tokens(self.line).nth(field - 1).unwrap_or_default();
        let found = quoted(&String::from_utf8_lossy(found));
        BadLine { line: self.number, field: Some(field), found, accepted }
    }

    /// A number that is not negative; -1 is none.
    #[inline(always)]
    pub(super) fn number(&self, field: usize) -> Result<Option<f64>, BadLine> {
        match self.wholes[field - 1] {
            -1 => Ok(None),
            OTHER => match self.other(field) {
                -1.0 => Ok(None),
                n if n >= 0.0 => Ok(Some(n)),
                _ => Err(self.bad(field, "a number from 0, or -1 for unknown")),
            },
            n => Ok(Some(n as f64)),
        }
    }

    /// A whole number that is not negative, a fraction of zeros allowed; -1 is none.
    #[inline(always)]
    pub(super) fn whole(&self, field: usize) -> Result<Option<u64>, BadLine> {
        match self.wholes[field - 1] {
            -1 => Ok(None),
            OTHER => self.other_whole(field),
            n => Ok(Some(n as u64)),
        }
    }

    #[cold]
    fn other_whole(&self, field: usize) -> Result<Option<u64>, BadLine> {
        /// Beyond it f64 does not hold every whole number.
        const MOST: f64 = 9_007_199_254_740_992.0;
        match self.other(field) {
            -1.0 => Ok(None),
            n if (0.0..=MOST).contains(&n) && (n as i64) as f64 == n => Ok(Some(n as u64)),
            _ => Err(self.bad(field, "a whole number from 0, or -1 for unknown")),
        }
    }

    /// Like `whole`, of 32 bits.
    #[inline(always)]
    pub(super) fn small(&self, field: usize) -> Result<Option<u32>, BadLine> {
        match self.whole(field)? {
            None => Ok(None),
            Some(n) => u32::try_from(n)
                .map(Some)
                .map_err(|_| self.bad(field, "a whole number from 0 to 4294967295, or -1 for unknown")),
        }
    }
}

/// The same byte eight times.
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The highest bit of each of eight bytes that is not below `from`, which is from 1 to 128.
#[inline(always)]
fn not_below(bytes: u64, from: u8) -> u64 {
    (((bytes & each(0x7f)) + each(0x80 - from)) | bytes) & each(0x80)
}

/// A bit for each of eight bytes that is neither space nor tab.
#[inline(always)]
fn not_spaces(bytes: [u8; 8]) -> u64 {
    let bytes = u64::from_le_bytes(bytes);
    let others = not_below(bytes ^ each(b' '), 1) & not_below(bytes ^ each(b'\t'), 1);
    // The multiplication moves the bit of each byte next to that of the byte before.
    (others >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// Finds the begin and the end of each field, where these are between spaces and tabs; false if there are not 18.
#[inline(always)]
fn find_places(line: &[u8], places: &mut [[usize; 2]; FIELDS]) -> bool {
    let edges = places.as_flattened_mut();
    let (mut count, mut begin, mut inside) = (0, 0, 0);
    for block in line.chunks(64) {
        let (eights, rest) = block.as_chunks();
        let mut mask = 0;
        for (i, bytes) in eights.iter().enumerate() {
            mask |= not_spaces(*bytes) << (8 * i);
        }
        if !rest.is_empty() {
            let mut last = [b' '; 8];
            last[..rest.len()].copy_from_slice(rest);
            mask |= not_spaces(last) << (8 * eights.len());
        }
        let mut changes = mask ^ (mask << 1 | inside);
        while changes != 0 {
            let Some(edge) = edges.get_mut(count) else { return false };
            *edge = begin + changes.trailing_zeros() as usize;
            count += 1;
            changes &= changes - 1;
        }
        (begin, inside) = (begin + 64, mask >> 63);
    }
    if inside == 1 {
        let Some(edge) = edges.get_mut(count) else { return false };
        *edge = line.len();
        count += 1;
    }
    count == 2 * FIELDS
}

/// The whole number in the last bytes of eight, `length` of them from 1 to 8; [`OTHER`] if one is no digit.
#[inline(always)]
fn whole_number(bytes: u64, length: u32) -> i64 {
    // Zeros come before the digits; then neighbours are joined to pairs, to fours, and to one number.
    let digits = (bytes ^ each(b'0')) & (u64::MAX << (64 - 8 * length));
    if not_below(digits, 10) != 0 {
        return OTHER;
    }
    let pairs = (digits.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000 << 32 | 1) >> 32) as i64
}

/// A finite decimal number.
pub(crate) fn parse_number(text: &[u8]) -> Option<f64> {
    // `inf` and `nan` are numbers to the general parser, but not in this format.
    if text.iter().any(|b| b.is_ascii_alphabetic() && !matches!(b, b'e' | b'E')) {
        return None;
    }
    let n: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    n.is_finite().then_some(n)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each number is what the general parser makes of it, whatever is beside it.
        #[test]
        fn numbers_are_those_between_white_space(
            texts in prop::collection::vec(
                prop_oneof![4 => "[0-9]{1,9}", 4 => Just("-1".to_owned()), 1 => "[-+]?[0-9]{0,17}(\\.[0-9]{0,3})?(e[0-9])?[a-z-]?"],
                17..20,
            ),
            spaces in prop::collection::vec(prop_oneof![6 => "[ ]{1,9}", 1 => "[ \t]{1,3}", 1 => "[ \t\r\x0c]{1,3}"], 20),
        ) {
            let all: Vec<String> = texts.iter().zip(&spaces).map(|(text, space)| format!("{text}{space}")).collect();
            let line = all.concat();
            let line = line.trim_ascii().as_bytes();
            let expected: Vec<&str> = texts.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
            match Fields::of(line, 7) {
                Ok(fields) => {
                    prop_assert_eq!(expected.len(), 18);
                    for (i, text) in expected.into_iter().enumerate() {
                        let number = parse_number(text.as_bytes()).filter(|n| *n >= 0.0 || *n == -1.0);
                        let whole = number.filter(|n| n.fract() == 0.0 && *n <= 9_007_199_254_740_992.0).map(|n| n as i64);
                        let known = |n: f64| (n >= 0.0).then_some(n);
                        prop_assert_eq!(fields.number(i + 1).ok(), number.map(known));
                        prop_assert_eq!(fields.whole(i + 1).ok(), whole.map(|n| u64::try_from(n).ok()));
                        prop_assert_eq!(fields.bad(i + 1, "").found, format!("`{text}`"));
                    }
                }
                Err(bad) => prop_assert_eq!(bad, count_error(7, expected.len())),
            }
        }
    }

    /// Lines of spaces and digits alone are read eight bytes at a time, at any length.
    #[test]
    fn lines_of_short_numbers_need_no_closer_look() {
        for extra in 0..200 {
            let line = format!("12345678{} 9 -1{}", " ".repeat(1 + extra), " 7".repeat(15));
            let mut expected = [7; FIELDS];
            expected[..3].copy_from_slice(&[12_345_678, 9, -1]);
            let read = |line: &str| {
                let mut fields = Fields { number: 1, line: line.as_bytes(), wholes: [OTHER; FIELDS] };
                fields.read_between_spaces().then_some(fields.wholes)
            };
            assert_eq!(read(&line), Some(expected), "{line}");
            assert_eq!((read(&format!("{line} 7")), read("1 2 3")), (None, None));
        }
    }
}
