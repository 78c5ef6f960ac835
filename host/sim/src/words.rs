//! The words in which people name the parameters of a replay: requested durations, how lines become jobs, policies with
//! settings of their own.
//!
//! The command line and the Python package read them here. This module must never touch files.

use crate::follow::GAP_S;
use crate::transform::Estimates;
use crate::workload::{Ask, Memory, Options, Overrun, Procs, Queues, TimeBase, Width, ZeroRun};

/// The requested durations of jobs: `logged`, `exact` or `perturbed:FACTOR`, with a factor of 1 or more.
///
/// # Errors
/// The text found and what is accepted.
pub fn estimates(text: &str) -> Result<Estimates, String> {
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

/// The use of fields 17 and 18 of a log: `ignore` or `respect`; true for the latter.
///
/// # Errors
/// The text found and what is accepted.
pub fn dependencies(text: &str) -> Result<bool, String> {
    match text {
        "ignore" => Ok(false),
        "respect" => Ok(true),
        _ => Err(format!("found `{text}`, accepted is ignore or respect")),
    }
}

/// The feedback of users: `sessions` or `sessions:GAP`; the gap in seconds.
///
/// # Errors
/// The text found and what is accepted.
pub fn feedback(text: &str) -> Result<f64, String> {
    let gap = match text.split_once(':') {
        None if text == "sessions" => Some(GAP_S),
        Some(("sessions", gap)) => gap.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0),
        _ => None,
    };
    gap.ok_or_else(|| {
        format!("found `{text}`, accepted is sessions or sessions:GAP, with the gap in seconds, 0 or more")
    })
}

/// Options with the differences that this text names, as `KEY=VALUE,..`. An empty text changes nothing.
///
/// # Errors
/// The text found and what is accepted.
pub fn mapped(mut options: Options, text: &str) -> Result<Options, String> {
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

/// A policy as the user named it, and its own settings: `NAME:KEY=VALUE,KEY=VALUE`. Without a setting the list is empty.
pub fn named(asked: &str) -> (&str, Vec<String>) {
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

/// The name of a run in tables: of the policy with its own settings, and a number where another run has that name.
pub fn label<'a>(name: &str, own: &[String], others: impl IntoIterator<Item = &'a str>) -> String {
    let label = if own.is_empty() { name.to_owned() } else { format!("{name}:{}", own.join(",")) };
    let numbered = format!("{label}#");
    let same = others.into_iter().filter(|other| *other == label || other.starts_with(&numbered)).count();
    if same == 0 { label } else { format!("{label}#{}", same + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_and_estimates() {
        let read = |text: &str| mapped(Options::default(), text);
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
        assert_eq!(estimates("perturbed:3"), Ok(Estimates::Perturbed(3.0)));
        assert!(estimates("perturbed:0").is_err() && estimates("guessed").is_err());
    }

    #[test]
    fn res_13_14_jobs_that_follow_others() {
        assert_eq!((dependencies("respect"), dependencies("ignore")), (Ok(true), Ok(false)));
        assert!(dependencies("yes").unwrap_err().contains("ignore or respect"));
        assert_eq!((feedback("sessions"), feedback("sessions:60")), (Ok(GAP_S), Ok(60.0)));
        for wrong in ["batches", "sessions:", "sessions:-1", "sessions:inf"] {
            assert!(feedback(wrong).unwrap_err().contains("sessions:GAP"), "{wrong}");
        }
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

    #[test]
    fn names_of_runs_differ() {
        let own = ["depth=4".to_owned()];
        assert_eq!(label("hybrid", &own, []), "hybrid:depth=4");
        assert_eq!(label("easy", &[], ["easy"]), "easy#2");
        assert_eq!(label("easy", &[], ["easy", "easy#2", "hybrid"]), "easy#3");
    }
}
