//! Lines for the broker's log (`flux dmesg`).
//!
//! The broker takes RFC 5424 lines with one difference: the two halves of the priority are swapped, so it is severity
//! times 8.

use jiff::SignedDuration;
use jiff::civil::DateTime;

use crate::message::Message;

/// Longest text of a line, in bytes; the rest is cut off.
pub const LOG_TEXT_MAX: usize = 2048;

/// Severity of a line (RFC 5424).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Severity {
    /// The service cannot go on.
    Critical = 2,
    /// An operation failed.
    Error = 3,
    /// An unexpected state.
    Warning = 4,
    /// Rare and normal.
    Notice = 5,
    /// Normal.
    Info = 6,
    /// For developers.
    Debug = 7,
}

/// The request that appends a line to the broker's log. `time` is in seconds since the epoch, `rank` is the broker's,
/// `name` is the source of the line. A control character of `text` becomes a blank.
pub fn append(severity: Severity, time: f64, rank: u32, name: &str, text: &str) -> Message {
    let mut end = text.len().min(LOG_TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text: String = text[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let priority = severity as u8 * 8;
    let line = format!("<{priority}>1 {} {rank} {name} - - - {}", utc(time), text.trim_end());
    // Unlike other payloads this is text without NUL.
    Message::request("log.append").with_payload(line.into_bytes()).noresponse()
}

/// Seconds since the epoch as `2026-11-21T03:13:38.099639Z`. A time before the epoch, beyond the year 9999 or NaN reads as the epoch
/// itself.
pub fn utc(time: f64) -> String {
    const YEAR_10000: f64 = 253_402_300_800.0;
    let time = if (0.0..YEAR_10000 - 1.0).contains(&time) { time } else { 0.0 };
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let time = epoch.saturating_add(SignedDuration::from_micros((time * 1e6).round() as i64));
    format!("{time:.6}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_measured_protocol() {
        let message =
            append(Severity::Info, 1_795_230_818.099_639, 0, "sched-fluxgate", "ready:\n rank0/core0\n");
        assert_eq!(
            message.text(),
            Some("<48>1 2026-11-21T03:13:38.099639Z 0 sched-fluxgate - - - ready:  rank0/core0")
        );
        assert!(!message.payload.as_ref().unwrap().ends_with(&[0]));
        assert!(!message.wants_response());
    }

    #[test]
    fn dates() {
        for (time, text) in [
            (0.0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400.0, "2000-02-29T00:00:00.000000Z"),
            (951_868_800.0, "2000-03-01T00:00:00.000000Z"),
            (1_709_164_800.5, "2024-02-29T00:00:00.500000Z"),
            (4_107_542_400.0, "2100-03-01T00:00:00.000000Z"),
            (253_402_300_798.0, "9999-12-31T23:59:58.000000Z"),
            (-1.0, "1970-01-01T00:00:00.000000Z"),
            (f64::NAN, "1970-01-01T00:00:00.000000Z"),
            (f64::INFINITY, "1970-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(utc(time), text, "{time}");
        }
        let long = append(Severity::Error, 0.0, 0, "x", &"ƒ".repeat(2000));
        assert!(long.text().unwrap().len() < LOG_TEXT_MAX + 100);
    }
}
