//! Flux Standard Duration (RFC 23): `30`, `2ms`, `5m`, `1.2h`, `inf`.
//!
//! Durations are seconds as f64 everywhere in this workspace; infinity means "no limit". This module does not know the
//! use of a duration: that `0` means "unlimited" in `policy.limits` is left to the reader of that table.
//!
//! # Where RFC 23 and flux-core differ
//!
//! RFC 23 takes any number that C's `strtod` takes, so `1e3s`, `.5h` and `0x10` are read. flux-core also takes the
//! empty text and a bare unit as 0, blanks in front, and numbers too large for a double as infinity; all four are
//! refused here.

use crate::text::excerpt;

/// Longest text of a duration, in bytes.
pub const TEXT_BYTES_MAX: usize = 128;

/// Significant digits that [`format`] prints, as flux-core does.
const PRECISION: usize = 6;

/// The units of RFC 23 and their length in seconds.
const UNITS: [(&str, f64); 5] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];

/// A text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "duration '{input}': {kind} at position {at}; a duration looks like '30', '1.5h' or 'inf' (units: ms s m h d)"
)]
pub struct FsdError {
    /// The text, shortened when long.
    pub input: String,
    /// Byte offset in the text where reading stopped.
    pub at: usize,
    /// The kind of error.
    pub kind: FsdErrorKind,
}

/// The kinds of error in a duration text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FsdErrorKind {
    /// A number was expected.
    #[error("expected a number")]
    NoNumber,
    /// The number is below zero.
    #[error("number below zero")]
    Negative,
    /// The number or the duration is finite but too large for an f64.
    #[error("number too large")]
    TooLarge,
    /// The text after the number is no unit.
    #[error("unknown unit")]
    Unit,
    /// `inf` takes no unit.
    #[error("unit after infinity")]
    UnitAfterInfinity,
    /// The text is longer than [`TEXT_BYTES_MAX`].
    #[error("text longer than {TEXT_BYTES_MAX} bytes")]
    TooLong,
}

use FsdErrorKind as Kind;

/// Reads a duration (RFC 23); the result is in seconds, 0 or more, possibly infinite, never NaN.
///
/// # Errors
/// [`FsdError`]: the place at which reading stopped, and the kind of error.
pub fn parse(text: &str) -> Result<f64, FsdError> {
    seconds(text).map_err(|(at, kind)| FsdError { input: excerpt(text), at, kind })
}

/// Prints a duration as flux-core does: in the largest unit that keeps the number at 1 or above (milliseconds below a
/// tenth of a second), with six significant digits.
///
/// A negative number, which is no duration, prints with its sign; NaN prints as `nan`.
pub fn format(seconds: f64) -> String {
    if seconds.is_nan() {
        return "nan".to_owned();
    }
    if seconds < 0.0 {
        return format!("-{}", format(-seconds));
    }
    if seconds.is_infinite() {
        return "infinity".to_owned();
    }
    let (number, unit) = match seconds {
        0.0 => (0.0, "s"),
        s if s < 0.1 => (s * 1000.0, "ms"),
        s if s < 60.0 => (s, "s"),
        s if s < 3600.0 => (s / 60.0, "m"),
        s if s < 86400.0 => (s / 3600.0, "h"),
        s => (s / 86400.0, "d"),
    };
    significant(number) + unit
}

/// C's `%.6g`: six significant digits, no trailing zeros, an exponent when the number is very small or very large.
fn significant(number: f64) -> String {
    let scientific = format!("{:.*e}", PRECISION - 1, number);
    // The standard library always writes "d.ddddde±x".
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    if (-4..PRECISION as i32).contains(&exponent) {
        let decimals = (PRECISION as i32 - 1 - exponent) as usize;
        return trim(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
}

/// Where and why reading stopped.
type Stop = (usize, Kind);

fn seconds(text: &str) -> Result<f64, Stop> {
    if text.len() > TEXT_BYTES_MAX {
        return Err((TEXT_BYTES_MAX, Kind::TooLong));
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = text.len() - unsigned.len();
    let (number, length) = number(unsigned).ok_or((sign, Kind::NoNumber))?;
    let unit = &unsigned[length..];
    if text.starts_with('-') && number != 0.0 {
        return Err((0, Kind::Negative));
    }
    let at = sign + length;
    let factor = match UNITS.iter().find(|(name, _)| *name == unit) {
        _ if unit.is_empty() => 1.0,
        _ if number.is_infinite() && is_word(unsigned) => return Err((at, Kind::UnitAfterInfinity)),
        Some((_, factor)) => *factor,
        None => return Err((at, Kind::Unit)),
    };
    let seconds = number * factor;
    if seconds.is_infinite() && !is_word(unsigned) { Err((sign, Kind::TooLarge)) } else { Ok(seconds) }
}

/// True when the number is spelled as a word, so that only `inf` and `infinity` can have been read.
fn is_word(unsigned: &str) -> bool {
    unsigned.starts_with(['i', 'I'])
}

/// Reads a number as `strtod` does, without sign and NaN, at the start of `text`; returns the value and its length in
/// bytes.
fn number(text: &str) -> Option<(f64, usize)> {
    for word in ["infinity", "inf"] {
        if text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)) {
            return Some((f64::INFINITY, word.len()));
        }
    }
    if let Some(hex) = text.strip_prefix("0x").or(text.strip_prefix("0X"))
        && let Some((value, length)) = hexadecimal(hex)
    {
        return Some((value, 2 + length));
    }
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(0);
    let mut end = whole;
    if text[end..].starts_with('.') {
        let fraction = digits(end + 1);
        if whole + fraction == 0 {
            return None;
        }
        end += 1 + fraction;
    } else if whole == 0 {
        return None;
    }
    end += exponent(&text[end..], ['e', 'E']).map_or(0, |(_, length)| length);
    // The standard library reads the scanned text too.
    Some((text[..end].parse().ok()?, end))
}

/// Reads a hexadecimal number of C99 after its `0x`: `1f`, `1.8`, `1p-3`.
fn hexadecimal(text: &str) -> Option<(f64, usize)> {
    let mut value = 0.0f64;
    let (mut digits, mut length, mut scale) = (0, 0, 0i32);
    let mut point = false;
    for c in text.chars() {
        match c.to_digit(16) {
            Some(digit) => {
                value = value * 16.0 + f64::from(digit);
                digits += 1;
                scale -= if point { 4 } else { 0 };
            }
            None if c == '.' && !point => point = true,
            None => break,
        }
        length += 1;
    }
    if digits == 0 {
        return None;
    }
    if let Some((power, more)) = exponent(&text[length..], ['p', 'P']) {
        scale = scale.saturating_add(power);
        length += more;
    }
    // A power that is out of range makes no number of these.
    if value == 0.0 || value.is_infinite() {
        return Some((value, length));
    }
    // The power in two halves, because 2^scale alone may be out of range while the product is not.
    let scale = scale.clamp(-2200, 2200);
    let half = scale / 2;
    Some((value * 2f64.powi(half) * 2f64.powi(scale - half), length))
}

/// Reads an exponent such as `e+3`; none when no digits follow, as the mark may then be a unit.
fn exponent(text: &str, marks: [char; 2]) -> Option<(i32, usize)> {
    let signed = text.strip_prefix(marks)?;
    let unsigned = signed.strip_prefix(['+', '-']).unwrap_or(signed);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return None;
    }
    let size = unsigned[..digits].parse().unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
    let power = if signed.starts_with('-') { -size } else { size };
    Some((power, text.len() - unsigned.len() + digits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn valid_texts() {
        let rows = [
            ("RFC 23", "2ms", 0.002),
            ("RFC 23", "0.1s", 0.1),
            ("RFC 23", "30", 30.0),
            ("RFC 23", "1.2h", 4320.0),
            ("RFC 23", "5m", 300.0),
            ("RFC 23", "0s", 0.0),
            ("RFC 23", "5d", 432000.0),
            ("RFC 23", "inf", f64::INFINITY),
            ("RFC 23", "INF", f64::INFINITY),
            ("RFC 23", "infinity", f64::INFINITY),
            ("core", "InFinity", f64::INFINITY),
            ("core", "0", 0.0),
            ("core", "0ms", 0.0),
            ("core", "500ms", 0.5),
            ("core", "0.2ms", 0.0002),
            ("core", "0.5m", 30.0),
            ("core", "0.5h", 1800.0),
            ("core", "1.0d", 86400.0),
            ("strtod", "1e3s", 1000.0),
            ("strtod", "1E+3", 1000.0),
            ("strtod", "5e-1m", 30.0),
            ("strtod", ".5h", 1800.0),
            ("strtod", "5.", 5.0),
            ("strtod", "+5s", 5.0),
            ("strtod", "-0", 0.0),
            ("strtod", "0x10", 16.0),
            ("strtod", "0x0p9999999999", 0.0),
            ("strtod", "0X1.8p1m", 180.0),
            ("strtod, d is a digit", "0x5d", 93.0),
            ("strtod, too small", "1e-400", 0.0),
        ];
        for (name, text, seconds) in rows {
            assert_eq!(parse(text), Ok(seconds), "{name}: {text}");
            assert!(parse(text).is_ok_and(f64::is_sign_positive), "{name}: {text}");
        }
    }

    #[test]
    fn invalid_texts_and_where_they_break() {
        use FsdErrorKind::*;
        let rows = [
            ("-1.", 0, Negative),
            ("-inf", 0, Negative),
            ("1.0f", 3, Unit),
            ("1.0sec", 3, Unit),
            ("NaNs", 0, NoNumber),
            ("nan", 0, NoNumber),
            ("infd", 3, UnitAfterInfinity),
            ("infinites", 3, UnitAfterInfinity),
            ("infinity s", 8, UnitAfterInfinity),
            ("5 m", 1, Unit),
            ("5M", 1, Unit),
            ("5m ", 1, Unit),
            ("5mm", 1, Unit),
            ("5e", 1, Unit),
            ("5m30s", 1, Unit),
            ("0xs", 1, Unit),
            ("1,5", 1, Unit),
            ("5é", 1, Unit),
            (".", 0, NoNumber),
            ("+-5", 1, NoNumber),
            // Texts that flux-core accepts.
            ("", 0, NoNumber),
            ("s", 0, NoNumber),
            (" 5", 0, NoNumber),
            ("1e999", 0, TooLarge),
            ("1e308d", 0, TooLarge),
            ("0x1p99999999999", 0, TooLarge),
        ];
        for (text, at, kind) in rows {
            let error = parse(text).expect_err(text);
            assert_eq!((error.at, error.kind), (at, kind), "{text}");
        }
        let long = "1".repeat(TEXT_BYTES_MAX + 1);
        assert_eq!(parse(&long).map_err(|e| e.kind), Err(TooLong));
    }

    #[test]
    fn prints_as_flux_core() {
        let rows = [
            (0.0, "0s"),
            (-0.0, "0s"),
            (0.001, "1ms"),
            (0.01, "10ms"),
            (0.0000123, "0.0123ms"),
            (1e-9, "1e-06ms"),
            (0.1, "0.1s"),
            (5.0, "5s"),
            (5.1, "5.1s"),
            (59.9999999, "60s"),
            (62.0, "1.03333m"),
            (3600.0, "1h"),
            (4500.0, "1.25h"),
            (86400.0, "1d"),
            (103680.0, "1.2d"),
            (86400.0 * 1234567.0, "1.23457e+06d"),
            (86400.0 * 100000.0, "100000d"),
            (f64::INFINITY, "infinity"),
            (f64::NAN, "nan"),
            (-90.0, "-1.5m"),
        ];
        for (seconds, text) in rows {
            assert_eq!(format(seconds), text, "{seconds}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn no_near_miss_panics_and_none_is_negative(text in "[-+]?(0x)?[0-9a-fpinmshd.+-]{0,12}") {
            if let Ok(seconds) = parse(&text) {
                prop_assert!(seconds >= 0.0);
            }
        }

        #[test]
        fn prints_within_its_precision(seconds in prop_oneof![0.0..1.0f64, 0.0..1e6f64, 0.0..1e300f64]) {
            let back = parse(&format(seconds)).unwrap();
            prop_assert!((back - seconds).abs() <= seconds * 5.1e-6, "{} {}", seconds, back);
        }

        #[test]
        fn whole_numbers_of_a_unit_are_exact(n in 0u32..60, unit in 0usize..5) {
            let text = format!("{n}{}", UNITS[unit].0);
            prop_assert_eq!(parse(&text), Ok(f64::from(n) * UNITS[unit].1));
        }
    }
}
