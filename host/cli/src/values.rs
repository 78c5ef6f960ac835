//! Values of flags: times, factors, mappings, settings.
//!
//! Must never touch files.

use anyhow::Result;
use fluxgate_sim::metrics::NodeWatts;
pub(crate) use fluxgate_sim::words::{estimates, feedback, mapped, named};
use fluxgate_sim::workload::Options;

use crate::fail::usage;

/// The pairs of `--config KEY=VALUE` flags.
pub(crate) fn settings(flags: &[String]) -> Result<Vec<(String, String)>> {
    flags
        .iter()
        .map(|flag| match flag.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(usage(format!("--config {flag}: expected KEY=VALUE"))),
        })
        .collect()
}

/// A time, see [`fluxgate_sim::dates::epoch`].
pub(crate) fn time(text: &str) -> std::result::Result<f64, String> {
    let accepted = "2002, 2002-08, 2002-08-15, 2002-08-15T01:02 or seconds since the epoch";
    fluxgate_sim::dates::epoch(text).ok_or_else(|| format!("found `{text}`, accepted is {accepted}"))
}

/// A factor above 0.
pub(crate) fn factor(text: &str) -> std::result::Result<f64, String> {
    let value = text.parse().ok().filter(|f: &f64| f.is_finite() && *f > 0.0);
    value.ok_or_else(|| format!("found `{text}`, accepted is a number above 0"))
}

/// A pool: `KIND=SIZE[UNIT]`.
pub(crate) fn pool(text: &str) -> std::result::Result<(String, u64, String), String> {
    let wrong = || format!("found `{text}`, accepted is KIND=SIZE[UNIT], such as power=20kW");
    let (kind, rest) = text.split_once('=').filter(|(kind, _)| !kind.is_empty()).ok_or_else(wrong)?;
    let (size, unit) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    Ok((kind.to_owned(), size.parse().map_err(|_| wrong())?, unit.to_owned()))
}

/// The power that a node draws: idle and busy, in watts.
pub(crate) fn watts(text: &str) -> std::result::Result<NodeWatts, String> {
    let watts = |text: &str| text.parse().ok().filter(|w: &f64| w.is_finite() && *w >= 0.0);
    let both = text.split_once(':').and_then(|(idle, busy)| Some((watts(idle)?, watts(busy)?)));
    let accepted = "two numbers of watts, the first no larger, such as 100:350";
    let both = both.filter(|(idle, busy)| idle <= busy);
    both.map(|(idle, busy)| NodeWatts { idle, busy })
        .ok_or_else(|| format!("found `{text}`, accepted is {accepted}"))
}

/// Changes to the rules from lines to jobs: `KEY=VALUE,..`, checked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mapping(String);

impl Mapping {
    /// These options with the differences.
    pub(crate) fn over(&self, base: Options) -> Options {
        mapped(base, &self.0).unwrap_or(base)
    }
}

/// The value of `--map`.
pub(crate) fn mapping(text: &str) -> std::result::Result<Mapping, String> {
    mapped(Options::default(), text).map(|_| Mapping(text.to_owned()))
}

/// Rules of a replay; see [`fluxgate_sim::rules`].
pub(crate) fn rules(text: &str) -> std::result::Result<String, String> {
    fluxgate_sim::rules::Rules::default().set_all(text).map(|()| text.to_owned())
}

#[cfg(test)]
mod tests {
    use fluxgate_sim::workload::Width;

    use super::*;

    #[test]
    fn mappings_are_differences() {
        let base = Options { width: Width::Larger, ..Options::default() };
        let options = mapping("min-run=0").unwrap().over(base);
        assert_eq!((options.width, options.min_run), (Width::Larger, 0.0), "the rest stays");
        assert!(mapping("procs=requested").unwrap_err().contains("procs=cores|nodes"));
    }

    #[test]
    fn factors_and_watts() {
        assert!(factor("0").is_err() && factor("1.2").is_ok());
        assert_eq!(watts("100:350"), Ok(NodeWatts { idle: 100.0, busy: 350.0 }));
        assert!(["100", "350:100", "-1:5", "a:b", "1:inf"].iter().all(|text| watts(text).is_err()));
    }

    #[test]
    fn pools_of_kinds() {
        assert_eq!(pool("power=20kW"), Ok(("power".to_owned(), 20, "kW".to_owned())));
        assert_eq!(pool("licence=7").unwrap().2, "");
        assert!(["power", "=3W", "power=W", "power=-1W"].iter().all(|text| pool(text).is_err()));
    }
}
