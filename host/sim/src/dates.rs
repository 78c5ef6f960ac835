//! Dates as people and accounting write them, as seconds since the epoch.
//!
//! Must never know a time zone: everything is UTC.

/// `2002`, `2002-08`, `2002-08-15`, also with a time of day as `T03:04`, `T03:04:05` (a space will do for the T, and a Z may
/// follow), which means the begin of it; or seconds since the epoch. `None` for everything else.
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
    let part = |i: usize| parts.get(i).map_or(Some(1), |p| p.parse::<i64>().ok());
    let day = days(part(0)?, part(1)?, part(2)?)? as f64 * 86_400.0;
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

/// Days from the epoch to a civil date, years beginning in March (after H. Hinnant).
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    if year < 1 || day < 1 || day > longest {
        return None;
    }
    let years = year - i64::from(month <= 2);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let of_era = (years % 400) * 365 + (years % 400) / 4 - (years % 400) / 100 + of_year;
    Some((years / 400) * 146_097 + of_era - 719_468)
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
