//! Numbers and times as people read them. Every page uses these words.
//!
//! Must never know what is told.

use fluxgate_formats::JobId;
use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde_json::Value;

/// A duration in at most two units: `45s`, `12m`, `1h 30m`, `2d 4h`.
pub(crate) fn span(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "unlimited".to_owned();
    }
    let s = seconds.max(0.0).round() as u64;
    let two = |big: u64, unit: &str, small: u64, lesser: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit} {small}{lesser}"),
    };
    match s {
        0..60 => format!("{s}s"),
        60..600 => two(s / 60, "m", s % 60, "s"),
        600..3600 => format!("{}m", s / 60),
        3600..86_400 => two(s / 3600, "h", s % 3600 / 60, "m"),
        _ => two(s / 86_400, "d", s % 86_400 / 3600, "h"),
    }
}

/// The time until something, seconds from now.
pub(crate) fn until(seconds: f64) -> String {
    if seconds < 1.0 { "now".to_owned() } else { format!("in {}", span(seconds)) }
}

fn as_format(time: f64, format: &str) -> String {
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    epoch.saturating_add(SignedDuration::from_secs(time.floor() as i64)).strftime(format).to_string()
}

/// Date and time of day, UTC.
pub(crate) fn date_time(time: f64) -> String {
    as_format(time, "%Y-%m-%d %H:%M:%S")
}

/// Date and time of day as addresses have them, UTC.
pub(crate) fn instant(time: f64) -> String {
    as_format(time, "%Y-%m-%dT%H:%M:%S")
}

/// Time of day, UTC.
pub(crate) fn clock(time: f64) -> String {
    as_format(time, "%H:%M")
}

/// Month and day, UTC.
pub(crate) fn day(time: f64) -> String {
    as_format(time, "%b %d")
}

/// A whole number with a comma between thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A large number in two or three digits: `12k`, `3.4M`.
pub(crate) fn short(number: f64) -> String {
    let scaled = |by: f64, unit: &str| {
        let value = number / by;
        if value < 9.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
    };
    match number.abs() {
        n if n >= 1e9 => scaled(1e9, "G"),
        n if n >= 1e6 => scaled(1e6, "M"),
        n if n >= 1e4 => scaled(1e3, "k"),
        _ => count(number.max(0.0) as u64),
    }
}

/// A share of a whole.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.0}%", 100.0 * part / whole) } else { "–".to_owned() }
}

/// The name of a job.
pub(crate) fn job(id: u64) -> String {
    JobId(id).to_f58()
}

/// A JSON string without quotes, anything else as JSON, null as nothing.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Many of something.
pub(crate) fn many(number: u64, one: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// The name of a state of a job (RFC 21) by its bit; `?` for any other number.
pub fn state_name(bits: u64) -> &'static str {
    match bits {
        1 => "NEW",
        2 => "DEPEND",
        4 => "PRIORITY",
        8 => "SCHED",
        16 => "RUN",
        32 => "CLEANUP",
        64 => "INACTIVE",
        _ => "?",
    }
}

/// The name of a result of a job (RFC 43) by its bit; `?` for any other number.
pub fn result_name(bits: u64) -> &'static str {
    match bits {
        1 => "COMPLETED",
        2 => "FAILED",
        4 => "CANCELED",
        8 => "TIMEOUT",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_numbers_are_short() {
        assert_eq!(
            [0.0, 59.4, 60.0, 272.0, 3599.0, 3600.0, 5432.0, 90_000.0, 172_800.0, f64::INFINITY].map(span),
            ["0s", "59s", "1m", "4m 32s", "59m", "1h", "1h 30m", "1d 1h", "2d", "unlimited"]
        );
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([999.0, 12_300.0, 3.4e6, 2.5e9].map(short), ["999", "12k", "3.4M", "2.5G"]);
        assert_eq!([until(0.2), until(61.0)], ["now", "in 1m 1s"]);
        assert_eq!(date_time(951_782_401.0), "2000-02-29 00:00:01");
    }
}
