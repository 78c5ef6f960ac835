//! Lines for the broker's log, so that an administrator finds them where he looks (`flux dmesg`).
//!
//! The broker takes RFC 5424 lines, but with the two halves of the priority swapped: severity times 8.

use crate::message::Message;

/// Longest text of a line, in bytes; more is cut off.
pub const LOG_TEXT_MAX: usize = 2048;

/// How serious a line is (RFC 5424).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Severity {
    /// The service can not go on.
    Critical = 2,
    /// Something failed.
    Error = 3,
    /// Something is odd.
    Warning = 4,
    /// Rare and normal.
    Notice = 5,
    /// Normal.
    Info = 6,
    /// For developers.
    Debug = 7,
}

/// The request that appends a line to the broker's log. `time` is in seconds since the epoch; `rank` is the
/// broker's; `name` is who says it.
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

/// Seconds since the epoch as `2026-11-21T03:13:38.099639Z`. Times before the epoch, or beyond the year
/// 9999, read as its beginning.
pub fn utc(time: f64) -> String {
    const YEAR_10000: f64 = 253_402_300_800.0;
    let time = if (0.0..YEAR_10000 - 1.0).contains(&time) { time } else { 0.0 };
    let micros = (time * 1e6).round() as u64;
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days, with years that begin in March so that leap days come last.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
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
