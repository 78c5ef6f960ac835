//! Values of replay's arguments: times, factors, mappings, policies with settings.
//!
//! Must never touch files.

use fluxgate_sim::metrics::NodeWatts;
use fluxgate_sim::transform::Estimates;
use fluxgate_sim::workload::{Ask, Memory, Options, Overrun, Procs, Queues, Width};

use crate::args::Replay;

/// A time, see [`fluxgate_sim::dates::epoch`].
pub(crate) fn time(text: &str) -> Result<f64, String> {
    let accepted = "2002, 2002-08, 2002-08-15, 2002-08-15T01:02 or seconds since the epoch";
    fluxgate_sim::dates::epoch(text).ok_or_else(|| format!("found `{text}`, accepted is {accepted}"))
}

/// A factor above 0.
pub(crate) fn factor(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|f: &f64| f.is_finite() && *f > 0.0);
    value.ok_or_else(|| format!("found `{text}`, accepted is a number above 0"))
}

/// A pool: `KIND=SIZE[UNIT]`.
pub(crate) fn pool(text: &str) -> Result<(String, u64, String), String> {
    let wrong = || format!("found `{text}`, accepted is KIND=SIZE[UNIT], such as power=20kW");
    let (kind, rest) = text.split_once('=').filter(|(kind, _)| !kind.is_empty()).ok_or_else(wrong)?;
    let (size, unit) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    Ok((kind.to_owned(), size.parse().map_err(|_| wrong())?, unit.to_owned()))
}

/// What a node draws.
pub(crate) fn watts(text: &str) -> Result<NodeWatts, String> {
    let watts = |text: &str| text.parse().ok().filter(|w: &f64| w.is_finite() && *w >= 0.0);
    let both = text.split_once(':').and_then(|(idle, busy)| Some((watts(idle)?, watts(busy)?)));
    let accepted = "two numbers of watts, the first no larger, such as 100:350";
    let both = both.filter(|(idle, busy)| idle <= busy);
    both.map(|(idle, busy)| NodeWatts { idle, busy })
        .ok_or_else(|| format!("found `{text}`, accepted is {accepted}"))
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
            Some(("procs", "cores")) => options.procs = Procs::Cores,
            Some(("procs", "nodes")) => options.procs = Procs::Nodes,
            Some(("width", "requested")) => options.width = Width::Requested,
            Some(("width", "allocated")) => options.width = Width::Allocated,
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
            Some(("min-run", seconds)) => {
                let value = seconds.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0);
                options.min_run =
                    value.ok_or_else(|| format!("min-run: found `{seconds}`, accepted are seconds"))?;
            }
            _ => {
                return Err(format!(
                    "found `{pair}`, accepted is procs=cores|nodes, width=requested|allocated, queue=queue|partition|none, \
                     memory=requested|used|none, ask=jobspec|cores, overrun=kill|raise and min-run=SECONDS"
                ));
            }
        }
    }
    Ok(options)
}

/// A policy and its own settings: `NAME:KEY=VALUE,KEY=VALUE`.
pub(super) fn policy(asked: &str) -> (&str, Vec<String>) {
    let key = |rest: &str| rest.split_once('=').is_some_and(|(key, _)| !key.contains([':', '/']));
    let own = asked.match_indices(':').map(|(at, _)| at).find(|at| key(&asked[at + 1..]));
    match own.map(|at| (&asked[..at], &asked[at + 1..])) {
        Some((policy, own)) => (policy, own.split(',').map(str::to_owned).collect()),
        None => (asked, Vec::new()),
    }
}

/// What was asked for beyond the log itself, for the page of a report.
pub(super) fn told(args: &Replay) -> Vec<String> {
    let mut told: Vec<String> = args.flow.iter().map(super::flow::told).collect();
    let args = &args.selection;
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
        told.push("processors as allocated in the log, not as requested".to_owned());
    }
    if map.procs != usual.procs {
        told.push("each processor of the log is a whole node".to_owned());
    }
    match map.queues {
        Queues::One => {}
        Queues::Queue => told.push("jobs are in the queues of the log".to_owned()),
        Queues::Partition => told.push("jobs are in queues by the partitions of the log".to_owned()),
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
    fn mappings_and_estimates() {
        let options = mapping("procs=nodes,width=allocated,queue=partition,overrun=raise,min-run=0").unwrap();
        assert_eq!(
            (options.width, options.overrun, options.min_run),
            (Width::Allocated, Overrun::Raise, 0.0)
        );
        assert_eq!((options.procs, options.queues), (Procs::Nodes, Queues::Partition));
        assert_eq!(mapping("procs=cores,queue=queue").unwrap().queues, Queues::Queue);
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
        assert_eq!(policy("easy"), ("easy", vec![]));
        assert_eq!(policy("a/b.wasm:x=1,y=2"), ("a/b.wasm", vec!["x=1".to_owned(), "y=2".to_owned()]));
        assert_eq!(policy("c:/b.wasm"), ("c:/b.wasm", vec![]));
        assert_eq!(policy("c:/b.wasm:x=08:00-20:00").0, "c:/b.wasm");
        assert_eq!(policy("c:/b.wasm:x=08:00-20:00").1, ["x=08:00-20:00"]);
    }
}
