//! Values of flags: times, factors, mappings, settings.
//!
//! Must never touch files.

use anyhow::Result;
use fluxgate_sim::metrics::NodeWatts;
use fluxgate_sim::transform::Estimates;
use fluxgate_sim::workload::{Ask, Memory, Options, Overrun, Procs, Queues, TimeBase, Width, ZeroRun};

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

/// What a node draws.
pub(crate) fn watts(text: &str) -> std::result::Result<NodeWatts, String> {
    let watts = |text: &str| text.parse().ok().filter(|w: &f64| w.is_finite() && *w >= 0.0);
    let both = text.split_once(':').and_then(|(idle, busy)| Some((watts(idle)?, watts(busy)?)));
    let accepted = "two numbers of watts, the first no larger, such as 100:350";
    let both = both.filter(|(idle, busy)| idle <= busy);
    both.map(|(idle, busy)| NodeWatts { idle, busy })
        .ok_or_else(|| format!("found `{text}`, accepted is {accepted}"))
}

/// What jobs ask for.
pub(crate) fn estimates(text: &str) -> std::result::Result<Estimates, String> {
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

/// How lines become jobs, where that differs from what it would be otherwise: `KEY=VALUE,..`, checked.
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

/// Options with the differences that this text names.
pub(crate) fn mapped(mut options: Options, text: &str) -> std::result::Result<Options, String> {
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("procs", "cores")) => options.procs = Procs::Cores,
            Some(("procs", "nodes")) => options.procs = Procs::Nodes,
            Some(("width", "requested")) => options.width = Width::Requested,
            Some(("width", "allocated")) => options.width = Width::Allocated,
            Some(("width", "larger")) => options.width = Width::Larger,
            Some(("zero-run", "shortest")) => options.zero_run = ZeroRun::Shortest,
            Some(("zero-run", "left-out")) => options.zero_run = ZeroRun::LeftOut,
            Some(("unknown-run", "left-out")) => options.unknown_run = None,
            Some(("unknown-run", seconds)) => {
                let value = seconds.parse().ok().filter(|s: &f64| s.is_finite() && *s > 0.0);
                let wrong =
                    || format!("unknown-run: found `{seconds}`, accepted are seconds above 0 or left-out");
                options.unknown_run = Some(value.ok_or_else(wrong)?);
            }
            Some(("time", "epoch")) => options.time_base = TimeBase::Epoch,
            Some(("time", "log")) => options.time_base = TimeBase::Log,
            Some(("queue", "none")) => options.queues = Queues::One,
            Some(("queue", "queue")) => options.queues = Queues::Queue,
            Some(("queue", "partition")) => options.queues = Queues::Partition,
            Some(("memory", "none")) => options.memory = Memory::None,
            Some(("memory", "requested")) => options.memory = Memory::Requested,
            Some(("memory", "used")) => options.memory = Memory::Used,
            Some(("ask", "jobspec")) => options.ask = Ask::Jobspec,
            Some(("ask", "cores")) => options.ask = Ask::Cores,
            Some(("overrun", "kill")) => options.overrun = Overrun::Kill,
            Some(("overrun", "raise")) => options.overrun = Overrun::Raise,
            Some(("overrun", "run-on")) => options.overrun = Overrun::RunOn,
            Some(("min-run", seconds)) => {
                let value = seconds.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0);
                options.min_run =
                    value.ok_or_else(|| format!("min-run: found `{seconds}`, accepted are seconds"))?;
            }
            _ => {
                return Err(format!(
                    "found `{pair}`, accepted is procs=cores|nodes, width=requested|allocated|larger, \
                     queue=queue|partition|none, memory=requested|used|none, ask=jobspec|cores, overrun=kill|raise|run-on, \
                     zero-run=shortest|left-out, unknown-run=SECONDS|left-out, time=epoch|log and min-run=SECONDS"
                ));
            }
        }
    }
    Ok(options)
}

/// Rules of a replay; see [`fluxgate_sim::rules`].
pub(crate) fn rules(text: &str) -> std::result::Result<String, String> {
    fluxgate_sim::rules::Rules::default().set_all(text).map(|()| text.to_owned())
}

/// A policy and its own settings: `NAME:KEY=VALUE,KEY=VALUE`.
pub(crate) fn named(asked: &str) -> (&str, Vec<String>) {
    let key = |rest: &str| rest.split_once('=').is_some_and(|(key, _)| !key.contains([':', '/']));
    let own = asked.match_indices(':').map(|(at, _)| at).find(|at| key(&asked[at + 1..]));
    match own.map(|at| (&asked[..at], &asked[at + 1..])) {
        Some((policy, own)) => (policy, outside_of_parentheses(own)),
        None => (asked, Vec::new()),
    }
}

/// The parts between commas; a comma in parentheses belongs to an expression.
fn outside_of_parentheses(text: &str) -> Vec<String> {
    let mut depth = 0i64;
    let apart = |c: char| {
        depth += i64::from(c == '(') - i64::from(c == ')');
        c == ',' && depth <= 0
    };
    text.split(apart).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_and_estimates() {
        let read = |text: &str| mapping(text).map(|mapping| mapping.over(Options::default()));
        let options = read("procs=nodes,width=allocated,queue=partition,overrun=raise,min-run=0").unwrap();
        assert_eq!(
            (options.width, options.overrun, options.min_run),
            (Width::Allocated, Overrun::Raise, 0.0)
        );
        assert_eq!((options.procs, options.queues), (Procs::Nodes, Queues::Partition));
        assert_eq!(read("procs=cores,queue=queue").unwrap().queues, Queues::Queue);
        let other = read("width=larger,zero-run=left-out,unknown-run=10,time=log").unwrap();
        assert_eq!((other.width, other.zero_run), (Width::Larger, ZeroRun::LeftOut));
        assert_eq!((other.unknown_run, other.time_base), (Some(10.0), TimeBase::Log));
        assert!(read("unknown-run=0").unwrap_err().contains("seconds above 0"));
        let base = Options { width: Width::Larger, ..Options::default() };
        assert_eq!(mapping("min-run=0").unwrap().over(base).width, Width::Larger, "the rest stays");
        assert!(mapping("procs=requested").unwrap_err().contains("procs=cores|nodes"));
        assert_eq!(estimates("perturbed:3"), Ok(Estimates::Perturbed(3.0)));
        assert!(estimates("perturbed:0").is_err() && estimates("guessed").is_err());
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

    #[test]
    fn policies_with_settings_of_their_own() {
        assert_eq!(named("easy"), ("easy", vec![]));
        assert_eq!(named("a/b.wasm:x=1,y=2"), ("a/b.wasm", vec!["x=1".to_owned(), "y=2".to_owned()]));
        assert_eq!(named("c:/b.wasm"), ("c:/b.wasm", vec![]));
        assert_eq!(named("c:/b.wasm:x=08:00-20:00").0, "c:/b.wasm");
        assert_eq!(named("c:/b.wasm:x=08:00-20:00").1, ["x=08:00-20:00"]);
        assert_eq!(named("formula:score=max(cores,2),depth=0").1, ["score=max(cores,2)", "depth=0"]);
    }
}
