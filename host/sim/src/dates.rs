//! Dates in the forms of users and of accounting, as seconds since the epoch.
//!
//! All times are UTC; this module does not know time zones.

use jiff::civil::Date;

/// Reads `2002`, `2002-08`, `2002-08-15`, also with a time of day as `T03:04`, `T03:04:05` (a space may replace the T,
/// and a Z may follow), as the beginning of that period; or seconds since the epoch, finite. `None` for any other text.
pub fn epoch(text: &str) -> Option<f64> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let parts: Vec<&str> = date.split('-').collect();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if parts[0].len() != 4 || parts.len() > 3 || !parts.iter().all(|part| digits(part)) {
        let seconds = time.is_none().then(|| text.parse().ok()).flatten();
        return seconds.filter(|t: &f64| t.is_finite());
    }
    let part = |i: usize| parts.get(i).map_or(Some(1), |p| p.parse().ok());
    let day = f64::from(days(parts[0].parse().ok()?, part(1)?, part(2)?)?) * 86_400.0;
    let Some(time) = time else { return Some(day) };
    if parts.len() != 3 {
        return None;
    }
    let parts: Vec<&str> = time.strip_suffix('Z').unwrap_or(time).split(':').collect();
    let part = |i: usize, most: f64| match parts.get(i) {
        Some(p) if p.len() >= 2 && p.starts_with(|c: char| c.is_ascii_digit()) => {
            p.parse().ok().filter(|n| (0.0..most).contains(n))
        }
        Some(_) => None,
        None => Some(0.0),
    };
    if !(2..=3).contains(&parts.len()) || !digits(parts[0]) || !digits(parts[1]) {
        return None;
    }
    Some(day + part(0, 24.0)? * 3600.0 + part(1, 60.0)? * 60.0 + part(2, 61.0)?)
}

/// Days from the epoch to a date of the years 1 to 9999.
fn days(year: i16, month: i8, day: i8) -> Option<i32> {
    let date = Date::new(year, month, day).ok().filter(|date| date.year() >= 1)?;
    Some(date.since(Date::constant(1970, 1, 1)).ok()?.get_days())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let rows = [
            ("1970", 0.0),
            ("2000-02-29", 951_782_400.0),
            ("2002-08", 1_028_160_000.0),
            ("1999", 915_148_800.0),
            ("12345678", 12_345_678.0),
            ("-1", -1.0),
            ("2002-08-15T01:02", 1_029_373_320.0),
            ("2002-08-15T01:02:03", 1_029_373_323.0),
            ("2002-08-15 01:02:03.5Z", 1_029_373_323.5),
        ];
        for (text, seconds) in rows {
            assert_eq!(epoch(text), Some(seconds), "{text}");
        }
        for wrong in [
            "2001-02-29",
            "2002-13",
            "2002-00",
            "soon",
            "",
            "inf",
            "2002-08-15-1",
            "2002-08T01:02",
            "2002-08-15T24:00",
            "2002-08-15T1:02",
            "2002-08-15T01",
            "2002-08-15T01:60",
            "2002-08-15T01:02:+3",
            "Unknown",
        ] {
            assert_eq!(epoch(wrong), None, "{wrong}");
        }
    }
}
