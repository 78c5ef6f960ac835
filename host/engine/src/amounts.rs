//! Parts of the machine as a site writes them, and the bounds of queues in such parts.
//!
//! Must never know jobs, or what is free.

use std::collections::BTreeMap;
use std::str::FromStr;

use fluxgate_graph::{Request, Resources, Totals};
use serde::{Deserialize, Serialize};

/// A part of the machine, counted in cores.
///
/// It is parsed from the texts of [`AMOUNTS`]; the error of any other text says what is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Amount {
    /// A number of cores.
    Cores(u64),
    /// The cores that a number of nodes have on average, rounded up.
    Nodes(u64),
    /// Percent of all cores, 0 to 100, rounded down.
    Percent(f64),
}

/// The texts that [`Amount`] accepts, for messages.
pub const AMOUNTS: &str = "a number of cores, or a text like \"64\", \"8 nodes\" or \"25%\"";

impl Amount {
    /// The amount in cores of a machine with these totals, including nodes that are down. An amount may exceed the machine.
    pub fn cores(self, totals: &Totals) -> u64 {
        let (cores, nodes) = (u64::from(totals.cores), u64::from(totals.nodes.max(1)));
        match self {
            Amount::Cores(n) => n,
            Amount::Nodes(n) => n.saturating_mul(cores).div_ceil(nodes),
            // The cast saturates.
            Amount::Percent(part) => (cores as f64 * part / 100.0) as u64,
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected {AMOUNTS}, found {text:?}");
        let text = text.trim();
        if let Some(part) = text.strip_suffix('%') {
            let part: f64 = part.trim().parse().map_err(|_| wrong())?;
            return if (0.0..=100.0).contains(&part) { Ok(Amount::Percent(part)) } else { Err(wrong()) };
        }
        let nodes = text.strip_suffix("nodes").or_else(|| text.strip_suffix("node"));
        match nodes {
            Some(count) => count.trim().parse().map(Amount::Nodes).map_err(|_| wrong()),
            None => text.parse().map(Amount::Cores).map_err(|_| wrong()),
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Amount::Cores(n) => write!(f, "{n}"),
            Amount::Nodes(1) => f.write_str("1 node"),
            Amount::Nodes(n) => write!(f, "{n} nodes"),
            Amount::Percent(part) => write!(f, "{part}%"),
        }
    }
}

/// The bounds of one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueBounds {
    /// Most cores that its jobs hold at one time; `None` for no bound.
    pub ceiling: Option<Amount>,
    /// Cores that jobs of other queues leave free, less those that its own jobs hold; `None` for none.
    pub floor: Option<Amount>,
}

/// Checks that the bounds of all queues are consistent.
///
/// # Errors
/// A floor above the ceiling of its queue, where both have the same unit, or floors in percent of more than 100 together; in
/// words.
pub fn check_bounds(bounds: &BTreeMap<String, QueueBounds>) -> Result<(), String> {
    let mut shares = 0.0;
    for (queue, QueueBounds { ceiling, floor }) in bounds {
        let above = match (ceiling, floor) {
            (Some(Amount::Cores(most)), Some(Amount::Cores(least))) => least > most,
            (Some(Amount::Nodes(most)), Some(Amount::Nodes(least))) => least > most,
            (Some(Amount::Percent(most)), Some(Amount::Percent(least))) => least > most,
            _ => false,
        };
        if let (true, Some(ceiling), Some(floor)) = (above, ceiling, floor) {
            return Err(format!("queue {queue}: the floor, {floor}, is above the ceiling, {ceiling}"));
        }
        if let Some(Amount::Percent(part)) = floor {
            shares += part;
        }
    }
    if shares > 100.0 {
        return Err(format!(
            "the floors of all queues are {shares}% of the machine, accepted is at most 100%"
        ));
    }
    Ok(())
}

/// Why a job of a queue with this request can never start within these bounds, even on an idle machine.
pub(crate) fn never_within(
    bounds: &BTreeMap<String, QueueBounds>,
    resources: &Resources,
    queue: &str,
    request: &Request,
) -> Option<String> {
    if bounds.is_empty() {
        return None;
    }
    never(bounds, &resources.totals(), queue, resources.least_cores(request))
}

/// Why a job of a queue with at least this number of cores could never start within these bounds.
fn never(bounds: &BTreeMap<String, QueueBounds>, totals: &Totals, queue: &str, cores: u64) -> Option<String> {
    let ceiling = bounds.get(queue).and_then(|own| own.ceiling).map(|most| most.cores(totals));
    if let Some(ceiling) = ceiling.filter(|most| cores > *most) {
        let jobs = if queue.is_empty() {
            "jobs without a queue".to_owned()
        } else {
            format!("jobs of queue {queue}")
        };
        return Some(format!("{jobs} hold at most {ceiling} cores together, and this one needs {cores}"));
    }
    let others = bounds.iter().filter(|(other, _)| *other != queue);
    let kept = others.filter_map(|(_, of)| of.floor).map(|floor| floor.cores(totals));
    let kept = kept.fold(0, u64::saturating_add);
    (kept > 0 && cores.saturating_add(kept) > u64::from(totals.cores)).then(|| {
        let all = totals.cores;
        format!("of {all} cores {kept} are kept for other queues, and this job needs {cores}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_do_not_go_together() {
        let of = |bounds: &[(&str, Option<&str>, Option<&str>)]| {
            let read = |text: &Option<&str>| text.map(|text| text.parse().unwrap());
            let one = |(name, ceiling, floor): &(&str, Option<&str>, Option<&str>)| {
                ((*name).to_owned(), QueueBounds { ceiling: read(ceiling), floor: read(floor) })
            };
            check_bounds(&bounds.iter().map(one).collect())
        };
        of(&[("a", Some("50%"), Some("50%")), ("b", Some("8"), Some("8 nodes")), ("c", None, Some("50%"))])
            .unwrap();
        for (ceiling, floor) in [("49%", "50%"), ("7", "8"), ("1 node", "2 nodes")] {
            let error = of(&[("a", Some(ceiling), Some(floor))]).unwrap_err();
            assert!(error.contains("queue a") && error.contains(ceiling) && error.contains(floor), "{error}");
        }
        let error = of(&[("a", None, Some("60%")), ("b", None, Some("41%"))]).unwrap_err();
        assert!(error.contains("101%"), "{error}");
    }

    #[test]
    fn amounts() {
        let totals = Totals { nodes: 3, cores: 16, ..Totals::default() };
        for (text, amount, cores) in [
            ("12", Amount::Cores(12), 12),
            ("2 nodes", Amount::Nodes(2), 11),
            ("1 node", Amount::Nodes(1), 6),
            ("50%", Amount::Percent(50.0), 8),
            ("12.5%", Amount::Percent(12.5), 2),
            ("0", Amount::Cores(0), 0),
        ] {
            let read: Amount = text.parse().unwrap();
            assert_eq!((read, read.cores(&totals), read.to_string()), (amount, cores, text.to_owned()));
        }
        for text in ["", "-1", "101%", "-1%", "x%", "1.5", "nodes", "NaN%", "3 racks"] {
            let error = text.parse::<Amount>().unwrap_err();
            assert!(error.contains(AMOUNTS) && error.contains(text), "{error}");
        }
    }
}
