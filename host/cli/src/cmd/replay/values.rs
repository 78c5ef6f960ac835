//! Values of replay's arguments: times, factors, mappings, policies with settings.
//!
//! Must never touch files.

use fluxgate_sim::transform::Estimates;
use fluxgate_sim::workload::{Options, Overrun, Width};

use crate::args::Replay;

/// A time: seconds since the epoch, or a date in UTC as YYYY, YYYY-MM or YYYY-MM-DD, which means its begin.
pub(crate) fn time(text: &str) -> Result<f64, String> {
    let wrong =
        || format!("found `{text}`, accepted is 2002, 2002-08, 2002-08-15 or seconds since the epoch");
    let parts: Vec<&str> = text.split('-').collect();
    let dated = parts[0].len() == 4
        && parts.len() <= 3
        && parts.iter().all(|p| p.bytes().all(|b| b.is_ascii_digit()));
    if !dated {
        return text.parse().ok().filter(|t: &f64| t.is_finite()).ok_or_else(wrong);
    }
    let part = |i: usize| parts.get(i).map_or(Ok(1), |p| p.parse::<i64>().map_err(|_| wrong()));
    let (year, month, day) = (part(0)?, part(1)?, part(2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    if year < 1 || day < 1 || day > longest {
        return Err(wrong());
    }
    // Days from a civil date, years beginning in March (after H. Hinnant).
    let years = year - i64::from(month <= 2);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let of_era = (years % 400) * 365 + (years % 400) / 4 - (years % 400) / 100 + of_year;
    Ok(((years / 400) * 146_097 + of_era - 719_468) as f64 * 86_400.0)
}

/// A factor above 0.
pub(crate) fn factor(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|f: &f64| f.is_finite() && *f > 0.0);
    value.ok_or_else(|| format!("found `{text}`, accepted is a number above 0"))
}

/// What jobs ask for.
pub(crate) fn estimates(text: &str) -> Result<Estimates, String> {
    match text.split_once(':') {
        None if text == "logged" => Ok(Estimates::Logged),
        None if text == "exact" => Ok(Estimates::Exact),
        Some(("perturbed", most)) => most
            .parse()
            .ok()
            .filter(|f: &f64| f.is_finite() && *f >= 1.0)
            .map(Estimates::Perturbed)
            .ok_or_else(|| format!("found `{most}`, accepted is a number of at least 1")),
        _ => Err(format!("found `{text}`, accepted is logged, exact or perturbed:FACTOR")),
    }
}

/// How lines become jobs.
pub(crate) fn mapping(text: &str) -> Result<Options, String> {
    let mut options = Options::default();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("procs", "requested")) => options.width = Width::Requested,
            Some(("procs", "allocated")) => options.width = Width::Allocated,
            Some(("overrun", "kill")) => options.overrun = Overrun::Kill,
            Some(("overrun", "raise")) => options.overrun = Overrun::Raise,
            Some(("min-run", seconds)) => {
                let value = seconds.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0);
                options.min_run =
                    value.ok_or_else(|| format!("min-run: found `{seconds}`, accepted are seconds"))?;
            }
            _ => {
                return Err(format!(
                    "found `{pair}`, accepted is procs=requested|allocated, overrun=kill|raise and min-run=SECONDS"
                ));
            }
        }
    }
    Ok(options)
}

/// A policy and its own settings: `NAME:KEY=VALUE,KEY=VALUE`.
pub(super) fn policy(asked: &str) -> (&str, Vec<String>) {
    match asked.rsplit_once(':') {
        Some((policy, own)) if own.contains('=') => (policy, own.split(',').map(str::to_owned).collect()),
        _ => (asked, Vec::new()),
    }
}

/// What was asked for beyond the log itself, for the page of a report.
pub(super) fn told(args: &Replay) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(from) = args.from {
        told.push(format!("only jobs submitted at {from} or later"));
    }
    if let Some(until) = args.until {
        told.push(format!("only jobs submitted before {until}"));
    }
    if let Some(load) = args.load {
        told.push(format!("arrivals {load} times as fast as logged"));
    }
    match args.estimates {
        Estimates::Logged => {}
        Estimates::Exact => told.push("jobs ask for exactly their run times".to_owned()),
        Estimates::Perturbed(most) => told.push(format!(
            "jobs ask for their run times times an even draw from 1 to {most} (seed {})",
            args.seed
        )),
    }
    let (map, usual) = (args.map, Options::default());
    if map.width != usual.width {
        told.push("cores as allocated in the log, not as requested".to_owned());
    }
    told.push(match map.overrun {
        Overrun::Kill => "a job that would run longer than it asked for is killed then".to_owned(),
        Overrun::Raise => "a job that would run longer than it asked for asks for its run time".to_owned(),
    });
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(time("1970"), Ok(0.0));
        assert_eq!(time("2000-02-29"), Ok(951_782_400.0));
        assert_eq!(time("2002-08"), Ok(1_028_160_000.0));
        assert_eq!(time("1999"), Ok(915_148_800.0));
        assert_eq!(time("12345678"), Ok(12_345_678.0));
        for wrong in ["2001-02-29", "2002-13", "2002-00", "soon", "", "inf", "2002-08-15-1"] {
            assert!(time(wrong).unwrap_err().contains("accepted is 2002"), "{wrong}");
        }
    }

    #[test]
    fn mappings_and_estimates() {
        let options = mapping("procs=allocated,overrun=raise,min-run=0").unwrap();
        assert_eq!(
            (options.width, options.overrun, options.min_run),
            (Width::Allocated, Overrun::Raise, 0.0)
        );
        assert!(mapping("procs=nodes").unwrap_err().contains("procs=requested|allocated"));
        assert_eq!(estimates("perturbed:3"), Ok(Estimates::Perturbed(3.0)));
        assert!(estimates("perturbed:0").is_err() && estimates("guessed").is_err());
        assert!(factor("0").is_err() && factor("1.2").is_ok());
    }

    #[test]
    fn policies_with_settings_of_their_own() {
        assert_eq!(policy("easy"), ("easy", vec![]));
        assert_eq!(policy("a/b.wasm:x=1,y=2"), ("a/b.wasm", vec!["x=1".to_owned(), "y=2".to_owned()]));
        assert_eq!(policy("c:/b.wasm"), ("c:/b.wasm", vec![]));
    }
}
