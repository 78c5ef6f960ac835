//! Times as people write and read them, in a time zone: the only place that knows a calendar.
//!
//! Must never read the clock: the present is a parameter.

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_formats::fsd;
use jiff::civil::{DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

/// Rules by which something comes again.
pub(crate) const RULES: &str = "hourly, daily, weekly, weekdays, weekend or a duration such as 36h";

const TIMES: &str =
    "now, +2h, 17:00, tomorrow 17:00, 2026-12-01, 2026-12-01 08:00 or seconds since the epoch as @N";

/// An instant, seconds since the epoch, in a zone.
fn zoned(time: f64, zone: &TimeZone) -> Result<Zoned> {
    // The cast saturates.
    let millis = (time * 1e3).round() as i64;
    let at = Timestamp::from_millisecond(millis).with_context(|| format!("{time} is no time"))?;
    Ok(at.to_zoned(zone.clone()))
}

fn seconds(time: &Zoned) -> f64 {
    time.timestamp().as_millisecond() as f64 / 1e3
}

/// The zone of this name; of this machine, for an empty one.
pub(crate) fn zone(name: &str) -> Result<TimeZone> {
    if name.is_empty() {
        return Ok(TimeZone::system());
    }
    TimeZone::get(name)
        .map_err(|_| anyhow!("time zone: found {name:?}, names such as Europe/Paris and UTC are accepted"))
}

/// The name of the zone of this machine.
pub(crate) fn own_zone() -> String {
    TimeZone::system().iana_name().unwrap_or("UTC").to_owned()
}

/// A time as it is told: minutes, and seconds where there are some.
pub(crate) fn local(time: f64, zone: &TimeZone) -> String {
    let Ok(at) = zoned(time, zone) else { return format!("@{time}") };
    let format = if at.second() == 0 { "%Y-%m-%dT%H:%M" } else { "%Y-%m-%dT%H:%M:%S" };
    at.strftime(format).to_string()
}

/// A time as people write it, seconds since the epoch. `+2h` is 2 hours after `from`.
pub(crate) fn parse(text: &str, now: f64, from: f64, zone: &TimeZone) -> Result<f64> {
    let wrong = || anyhow!("time: found {text:?}, accepted are {TIMES}");
    let text = text.trim();
    if text == "now" {
        return Ok(now);
    }
    if let Some(later) = text.strip_prefix('+') {
        return Ok(from + fsd::parse(later).map_err(|_| wrong())?);
    }
    if let Some(epoch) = text.strip_prefix('@') {
        return epoch.parse().ok().filter(|time: &f64| time.is_finite()).ok_or_else(wrong);
    }
    let today = zoned(now, zone)?;
    let (day, clock) = match text.split_once([' ', 'T']) {
        Some((day, clock)) => (Some(day), Some(clock.trim())),
        None if text.contains(':') => (None, Some(text)),
        None => (Some(text), None),
    };
    let clock: Time = clock.map_or(Ok(Time::midnight()), str::parse).map_err(|_| wrong())?;
    let date = match day {
        Some("today") => today.date(),
        Some("tomorrow") => today.date().tomorrow().map_err(|_| wrong())?,
        Some(day) => day.parse().map_err(|_| wrong())?,
        // The next time that the clock shows it.
        None if clock > today.time() => today.date(),
        None => today.date().tomorrow().map_err(|_| wrong())?,
    };
    let at = DateTime::from_parts(date, clock).to_zoned(zone.clone()).map_err(|_| wrong())?;
    Ok(seconds(&at))
}

/// The next time of a rule after `after`. Rules of whole days keep the time of the clock over changes of the zone's clock.
pub(crate) fn next(every: &str, zone: &TimeZone, after: f64) -> Result<f64> {
    let at = zoned(after, zone)?;
    let day = |count: i32| at.checked_add(count.days());
    let on = |wanted: fn(Weekday) -> bool| {
        let days = (1..=7).map(day).map(|at| at.map_err(anyhow::Error::from));
        days.filter_map(Result::ok)
            .find(|at| wanted(at.weekday()))
            .ok_or_else(|| anyhow!("{after} is the last day"))
    };
    let weekend = |day: Weekday| matches!(day, Weekday::Saturday | Weekday::Sunday);
    let next = match every {
        "hourly" => at.checked_add(1.hour())?,
        "daily" => day(1)?,
        "weekly" => day(7)?,
        "weekdays" => on(|day| !matches!(day, Weekday::Saturday | Weekday::Sunday))?,
        "weekend" => on(weekend)?,
        other => match fsd::parse(other) {
            Ok(long) if long > 0.0 && long.is_finite() => return Ok(after + long),
            _ => bail!("found {other:?}, accepted are {RULES}"),
        },
    };
    Ok(seconds(&next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paris() -> TimeZone {
        zone("Europe/Paris").unwrap()
    }

    /// Monday 2026-11-23T12:00 in Paris.
    const NOON: f64 = 1_795_431_600.0;

    #[test]
    fn times_as_people_write_them() {
        let said = |text: &str| parse(text, NOON, NOON + 60.0, &paris()).map(|time| local(time, &paris()));
        let cases = [
            ("now", "2026-11-23T12:00"),
            ("+2h", "2026-11-23T14:01"),
            ("17:00", "2026-11-23T17:00"),
            ("08:00", "2026-11-24T08:00"),
            ("today 08:00", "2026-11-23T08:00"),
            ("tomorrow 17:00", "2026-11-24T17:00"),
            ("2026-12-01", "2026-12-01T00:00"),
            ("2026-12-01 08:00", "2026-12-01T08:00"),
            ("2026-12-01T08:00:30", "2026-12-01T08:00:30"),
            ("@1795431600", "2026-11-23T12:00"),
        ];
        for (text, time) in cases {
            assert_eq!(said(text).unwrap(), time, "{text}");
        }
        for text in ["", "noon", "25:00", "+x", "@", "@inf", "2026-13-01", "next week"] {
            let error = said(text).unwrap_err().to_string();
            assert!(error.contains("accepted are now, +2h"), "{text}: {error}");
        }
        assert!(zone("Mars/Olympus").unwrap_err().to_string().contains("Europe/Paris and UTC are accepted"));
    }

    /// FEAT-22: at a change of the clock 08:00 stays 08:00.
    #[test]
    fn feat_22_rules_keep_the_time_of_the_clock() {
        let zone = paris();
        // The Saturday before the clock went forward.
        let saturday = parse("2026-03-28 08:00", NOON, NOON, &zone).unwrap();
        let series = |every: &str| {
            let mut at = saturday;
            let mut said = Vec::new();
            for _ in 0..3 {
                at = next(every, &zone, at).unwrap();
                said.push(local(at, &zone));
            }
            said
        };
        assert_eq!(series("daily"), ["2026-03-29T08:00", "2026-03-30T08:00", "2026-03-31T08:00"]);
        assert_eq!(next("daily", &zone, saturday).unwrap() - saturday, 23.0 * 3600.0);
        assert_eq!(series("weekly"), ["2026-04-04T08:00", "2026-04-11T08:00", "2026-04-18T08:00"]);
        assert_eq!(series("weekdays"), ["2026-03-30T08:00", "2026-03-31T08:00", "2026-04-01T08:00"]);
        assert_eq!(series("weekend"), ["2026-03-29T08:00", "2026-04-04T08:00", "2026-04-05T08:00"]);
        assert_eq!(series("hourly"), ["2026-03-28T09:00", "2026-03-28T10:00", "2026-03-28T11:00"]);
        assert_eq!(series("36h"), ["2026-03-29T21:00", "2026-03-31T09:00", "2026-04-01T21:00"]);
        let error = next("monthly", &zone, saturday).unwrap_err().to_string();
        assert!(error.contains(RULES), "{error}");
    }
}
