//! Flow, such as power or bandwidth, in a replay: the requests of a log's jobs ([`Asks`]), the pools of a machine in
//! its description ([`Pools`]), and the flow of each job by its R ([`Granted`]).
//!
//! Logs do not record flow, so a rule sets the requests: an amount for each node or core, constant or drawn uniformly
//! between two bounds, for all jobs or for a fraction of them. The draw depends on the seed, the job's number and the
//! name of the kind, so a part of a log draws the same as the whole.
//!
//! This module knows neither graph, engine nor policies.

use std::collections::BTreeSet;
use std::io;
use std::str::FromStr;

use fluxgate_formats::jobspec::Resource;
pub use fluxgate_formats::pools::{Kind, Pool, Pools};
use fluxgate_formats::pools::{base, scale};
use fluxgate_formats::{Count, JobId, R};
use serde::Serialize;

use crate::bootstrap::Numbers;
use crate::observe::{Observer, Started};
use crate::sweep::Held;
use crate::workload::Job;

/// Maximum number of kinds of flow.
pub const KINDS_MAX: usize = 16;

/// Names with another meaning in a request.
pub(crate) const TAKEN: [&str; 5] = ["cluster", "core", "gpu", "node", "slot"];

/// Maximum amount of one kind for one node or core, in units without a prefix.
const AMOUNT_MAX: u64 = 1 << 50;

/// The unit of the request to which an amount applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// Each node of a job that has whole nodes.
    Node,
    /// Each core.
    Core,
}

/// The rule for the requests of one kind: `KIND=[SHARE%:]N[-M][UNIT]/node|core`.
///
/// ```
/// use fluxgate_sim::flow::{Ask, Per};
/// let ask: Ask = "bandwidth=30%:1-4GB/s/core".parse().unwrap();
/// assert_eq!((ask.kind.as_str(), ask.least, ask.most, ask.unit.as_str()), ("bandwidth", 1, 4, "GB/s"));
/// assert_eq!((ask.per, ask.share), (Per::Core, 0.3));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Name of the kind.
    pub kind: String,
    /// Least amount, in `unit`.
    pub least: u64,
    /// Largest amount; each whole number from `least` to it has the same probability.
    pub most: u64,
    /// Unit of the amounts; empty for that of the machine's pools.
    pub unit: String,
    /// The unit of the request to which an amount applies.
    pub per: Per,
    /// Fraction of jobs with a request, 0 to 1.
    pub share: f64,
}

impl FromStr for Ask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "found `{text}`, accepted is KIND=[SHARE%:]N[-M][UNIT]/node|core, such as power=350W/node or \
                 bandwidth=30%:1-4GB/s/core"
            )
        };
        let (kind, rest) = text.split_once('=').filter(|(kind, _)| !kind.is_empty()).ok_or_else(wrong)?;
        let (rest, per) = rest.rsplit_once('/').ok_or_else(wrong)?;
        let per = match per {
            "node" => Per::Node,
            "core" => Per::Core,
            _ => return Err(wrong()),
        };
        let (share, rest) = match rest.split_once("%:") {
            Some((share, rest)) => (share.parse::<f64>().map_err(|_| wrong())? / 100.0, rest),
            None => (1.0, rest),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        let (amount, unit) = rest.split_at(end);
        let (least, most) = amount.split_once('-').unwrap_or((amount, amount));
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let (least, most) = (number(least)?, number(most)?);
        let too_much = scale(unit).checked_mul(most).is_none_or(|all| all > AMOUNT_MAX);
        if !(0.0..=1.0).contains(&share) || least > most || too_much {
            return Err(wrong());
        }
        Ok(Ask { kind: kind.to_owned(), least, most, unit: unit.to_owned(), per, share })
    }
}

impl Ask {
    /// The amount that a job requests, for each node or core, in the unit of this rule.
    fn drawn(&self, job: JobId, seed: u64) -> u64 {
        // FNV-1a: every kind draws its own numbers.
        let name = self.kind.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let mut numbers = Numbers(seed ^ name ^ job.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if self.share < 1.0 && numbers.unit() >= self.share {
            return 0;
        }
        let choices = usize::try_from(self.most - self.least).map_or(usize::MAX, |n| n.saturating_add(1));
        self.least + numbers.below(choices) as u64
    }
}

/// The rules for all kinds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asks {
    /// At most one rule for each kind.
    list: Vec<Ask>,
    seed: u64,
}

impl Asks {
    /// Checks the rules against the machine.
    ///
    /// # Errors
    /// A kind that is named twice, has a name with another meaning or that the machine does not have, a unit of another kind, or
    /// too many rules; as a sentence.
    pub fn new(list: Vec<Ask>, seed: u64, pools: &Pools) -> Result<Asks, String> {
        let mut seen = BTreeSet::new();
        if list.len() > KINDS_MAX {
            return Err(format!("found {} kinds of flow, accepted are {KINDS_MAX}", list.len()));
        }
        for ask in &list {
            let kind = &ask.kind;
            if TAKEN.contains(&kind.as_str()) {
                return Err(format!("{kind} is no name for what flows"));
            }
            if !seen.insert(kind) {
                return Err(format!("{kind} is asked for twice"));
            }
            let Some(known) = pools.kinds.iter().find(|known| known.name == *kind) else {
                let names: Vec<&str> = pools.kinds.iter().map(|kind| kind.name.as_str()).collect();
                let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
                return Err(format!("no {kind} flows in this machine; what flows is {names}"));
            };
            if base(&ask.unit) != base(&known.unit) && !ask.unit.is_empty() && !known.unit.is_empty() {
                return Err(format!("{kind} is counted in {}, found {}", known.unit, ask.unit));
            }
        }
        Ok(Asks { list, seed })
    }

    /// True if no job has a request.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Checks that jobs of this form can have the requests: jobs without nodes of their own cannot request flow for
    /// each node.
    ///
    /// # Errors
    /// A sentence, if there is a rule for each node and jobs have no nodes of their own.
    pub fn check(&self, whole_nodes: bool) -> Result<(), String> {
        match self.list.iter().find(|ask| ask.per == Per::Node && !whole_nodes) {
            Some(ask) => Err(format!(
                "{} for each node: jobs have cores on any nodes; say /core, or --map procs=nodes",
                ask.kind
            )),
            None => Ok(()),
        }
    }

    /// The amounts of a job for each slot or node, rule by rule; 0 means no request.
    pub(crate) fn amounts(&self, job: &Job) -> Box<[u64]> {
        let amount = |ask: &Ask| {
            let drawn = ask.drawn(job.id, self.seed);
            match ask.per {
                // A slot is a core.
                Per::Core if job.nodes == 0 => drawn,
                Per::Core => drawn.saturating_mul(u64::from(job.cores / job.nodes)),
                Per::Node => drawn,
            }
        };
        self.list.iter().map(amount).collect()
    }

    /// The same as part of a jobspec.
    pub(crate) fn resources(&self, amounts: &[u64]) -> Vec<Resource> {
        let asked = self.list.iter().zip(amounts).filter(|(_, amount)| **amount > 0);
        asked
            .map(|(ask, amount)| Resource {
                unit: Some(ask.unit.clone()).filter(|unit| !unit.is_empty()),
                ..Resource::new(&ask.kind, Count::Fixed(*amount))
            })
            .collect()
    }

    /// The flow that a job must have on a node on which it holds this many cores: index of the kind in these pools, and
    /// amount in units without a prefix.
    pub fn due<'a>(
        &'a self,
        pools: &'a Pools,
        job: &'a Job,
        cores: u64,
    ) -> impl Iterator<Item = (usize, u64)> + 'a {
        let due = move |(ask, amount): (&Ask, &u64)| {
            let kind = pools.kinds.iter().position(|kind| kind.name == ask.kind)?;
            let unit = if ask.unit.is_empty() { &pools.kinds[kind].unit } else { &ask.unit };
            let slots = if job.nodes == 0 { cores } else { 1 };
            Some((kind, amount.saturating_mul(slots).saturating_mul(scale(unit)))).filter(|due| due.1 > 0)
        };
        let amounts = self.amounts(job);
        self.list.iter().zip(amounts.iter()).filter_map(due).collect::<Vec<_>>().into_iter()
    }
}

/// Flow to a rank: index of the kind, rank, amount in units without a prefix.
pub type Flow = (usize, u32, u64);

/// The flow to a job by its R, of the kinds that `pools` has; other kinds are left out.
pub fn flows_of(pools: &Pools, r: &R) -> Vec<Flow> {
    let mut flows = Vec::new();
    for kind in &Pools::of(r).kinds {
        let Some(number) = pools.kinds.iter().position(|known| known.name == kind.name) else { continue };
        flows.extend(kind.at.iter().map(|(rank, pool)| (number, *rank, kind.pools[*pool].size)));
    }
    flows
}

/// The flow of a job from its start to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// The job.
    pub job: JobId,
    /// Start, in seconds in the time base of the workload.
    pub start: f64,
    /// End, in seconds in the time base of the workload.
    pub end: f64,
    /// The flow to each of its ranks, for its whole run.
    pub flows: Vec<Flow>,
}

/// The use of a kind over a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Usage {
    /// Name of the kind.
    pub kind: String,
    /// Unit of the figures; empty if the machine names none.
    pub unit: String,
    /// Capacity of all sources together.
    pub capacity: f64,
    /// Largest amount in use at one instant.
    pub peak: f64,
    /// Mean amount in use from the first submission of a job that ran to the last end.
    pub mean: f64,
}

/// The use of one kind so far.
#[derive(Debug, Clone, Default)]
struct Used {
    held: Held,
    peak: u64,
    /// Units times seconds.
    area: f64,
}

/// Figures of the jobs' flow by their Rs and, optionally, the flow of each job.
#[derive(Debug, Clone, Default)]
pub struct Granted {
    pools: Pools,
    used: Vec<Used>,
    kept: bool,
    /// In the order of start; empty unless kept.
    pub grants: Vec<Grant>,
    first: Option<f64>,
    last: f64,
}

impl Granted {
    /// For the kinds of this machine; the flow of every job is kept.
    pub fn of(pools: &Pools) -> Granted {
        Granted { kept: true, ..Granted::figures(pools) }
    }

    /// The same for figures alone; memory is needed for running jobs only.
    pub fn figures(pools: &Pools) -> Granted {
        let used = vec![Used::default(); pools.kinds.len()];
        Granted { pools: pools.clone(), used, last: f64::NEG_INFINITY, ..Granted::default() }
    }

    /// The figures of every kind of the machine, in its order.
    pub fn usage(&self) -> Vec<Usage> {
        let length = (self.last - self.first.unwrap_or(self.last)).max(f64::MIN_POSITIVE);
        let usage = |(number, (kind, used)): (usize, (&Kind, &Used))| {
            let factor = scale(&kind.unit) as f64;
            Usage {
                kind: kind.name.clone(),
                unit: kind.unit.clone(),
                capacity: self.pools.capacity(number),
                peak: used.peak as f64 / factor,
                mean: used.area / length / factor,
            }
        };
        self.pools.kinds.iter().zip(&self.used).enumerate().map(usage).collect()
    }

    /// The use of a kind over time, in this unit, job by job: from, to (seconds) and amount. Empty unless the flow of jobs is kept.
    pub fn spans(&self, kind: usize, unit: &str) -> Vec<(f64, f64, f64)> {
        let factor = scale(unit) as f64;
        let span = |grant: &Grant| {
            let units = sum_of(&grant.flows, kind);
            (units > 0).then(|| (grant.start, grant.end, units as f64 / factor))
        };
        self.grants.iter().filter_map(span).collect()
    }
}

/// The total flow of a kind.
fn sum_of(flows: &[Flow], kind: usize) -> u64 {
    flows.iter().filter(|flow| flow.0 == kind).map(|flow| flow.2).sum()
}

impl Observer for Granted {
    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        self.first = Some(self.first.map_or(s.job.submit, |first| first.min(s.job.submit)));
        self.last = self.last.max(s.end);
        let flows = flows_of(&self.pools, s.r);
        for (kind, used) in self.used.iter_mut().enumerate() {
            let units = sum_of(&flows, kind);
            if units > 0 {
                used.area += units as f64 * (s.end - s.start);
                used.peak = used.peak.max(used.held.add_span(s.start, s.end, units));
            }
        }
        if self.kept {
            self.grants.push(Grant { job: s.job.id, start: s.start, end: s.end, flows });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_others_are_refused() {
        let ask: Ask = "power=350W/node".parse().unwrap();
        assert_eq!((ask.least, ask.most, ask.unit.as_str(), ask.per), (350, 350, "W", Per::Node));
        let ask: Ask = "power=2/core".parse().unwrap();
        assert_eq!((ask.unit.as_str(), ask.per, ask.share), ("", Per::Core, 1.0));
        for text in ["power", "power=350W", "=3/core", "p=4-1/core", "p=101%:1/core", "p=x/core", "p=-1/core"]
        {
            assert!(text.parse::<Ask>().is_err(), "{text}");
        }
        assert!("p=99999999999999999999/core".parse::<Ask>().is_err());
        assert!("p=9000000EW/core".parse::<Ask>().is_err());
    }

    #[test]
    fn draws_are_even_between_the_bounds_and_the_same_again() {
        let ask: Ask = "power=30%:1-4/core".parse().unwrap();
        let drawn: Vec<u64> = (0..4000).map(|job| ask.drawn(JobId(job), 7)).collect();
        let count = |n: u64| drawn.iter().filter(|found| **found == n).count();
        assert!((2650..2950).contains(&count(0)), "{}", count(0));
        assert!((1..=4).all(|n| (220..380).contains(&count(n))), "{:?}", [1, 2, 3, 4].map(count));
        assert_eq!(drawn[17], ask.drawn(JobId(17), 7));
        let other = Ask { kind: "bandwidth".to_owned(), ..ask };
        assert!((0..50).any(|job| other.drawn(JobId(job), 7) != drawn[job as usize]));
    }
}
