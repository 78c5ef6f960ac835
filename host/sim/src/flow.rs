//! Flow, such as power or bandwidth, in a replay: what jobs of a log ask for beside their cores ([`Asks`]), the pools of a
//! machine as its description has them ([`Pools`]), and what each job got by its R ([`Granted`]).
//!
//! No log says what its jobs drew, so a rule does: so much for each node or core, the same for all or an even draw between
//! two bounds, for all jobs or for a share of them. A job draws from the seed, its own number and the name of the kind, so that
//! a part of a log draws the same as the whole.
//!
//! Descriptions are read here once more, apart from the scheduler's own reader, for the sweep to judge by.
//!
//! This module must never know graph, engine or policies.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::str::FromStr;

use fluxgate_formats::jobspec::Resource;
use fluxgate_formats::{Count, Hostlist, Idset, JobId, R};
use serde::Serialize;
use serde_json::Value;

use crate::bootstrap::Numbers;
use crate::observe::{Observer, Started};
use crate::workload::Job;

/// Most kinds that may be asked for.
pub const KINDS_MAX: usize = 16;

/// What a request means by these is something else.
pub(crate) const TAKEN: [&str; 5] = ["cluster", "core", "gpu", "node", "slot"];

/// Most of one kind for one node or core, in units without a prefix.
const AMOUNT_MAX: u64 = 1 << 50;

/// What an amount is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// Each node of a job that has whole nodes.
    Node,
    /// Each core.
    Core,
}

/// What jobs ask for of one kind: `KIND=[SHARE%:]N[-M][UNIT]/node|core`.
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
    /// Least amount.
    pub least: u64,
    /// Largest amount; each whole number from `least` to it is as likely.
    pub most: u64,
    /// Unit of the amounts; empty is that of the machine's pools.
    pub unit: String,
    /// For what each amount is.
    pub per: Per,
    /// Share of the jobs that ask at all, 0 to 1.
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
    /// What a job asks for, for each node or core, in the unit of this rule.
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

/// All that jobs ask for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asks {
    /// At most one rule for each kind.
    list: Vec<Ask>,
    seed: u64,
}

impl Asks {
    /// These rules, held against the machine.
    ///
    /// # Errors
    /// A kind that is named twice or that the machine does not have, a unit that is another's, or too many of them; a
    /// sentence for people.
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

    /// Does nobody ask for anything?
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Can these jobs ask for it? One without nodes of its own cannot for each of them.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn check(&self, whole_nodes: bool) -> Result<(), String> {
        match self.list.iter().find(|ask| ask.per == Per::Node && !whole_nodes) {
            Some(ask) => Err(format!(
                "{} for each node: jobs have cores on any nodes; say /core, or --map procs=nodes",
                ask.kind
            )),
            None => Ok(()),
        }
    }

    /// What a job asks for in each slot or node, rule by rule; a rule's 0 is nothing.
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

    /// The same in a jobspec.
    pub(crate) fn resources(&self, amounts: &[u64]) -> Vec<Resource> {
        let asked = self.list.iter().zip(amounts).filter(|(_, amount)| **amount > 0);
        asked
            .map(|(ask, amount)| Resource {
                unit: Some(ask.unit.clone()).filter(|unit| !unit.is_empty()),
                ..Resource::new(&ask.kind, Count::Fixed(*amount))
            })
            .collect()
    }

    /// What a job must have on a node where it holds so many cores: numbers of the kinds of these pools, and amounts in
    /// units without a prefix.
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

/// A unit without its prefix, and how many of that it is.
fn parts(unit: &str) -> (&str, u64) {
    let Some(base) = ["B/s", "b/s", "W"].into_iter().find(|base| unit.ends_with(base)) else {
        return (unit, 1);
    };
    let prefix = &unit[..unit.len() - base.len()];
    let (letter, step) = match prefix.strip_suffix('i') {
        Some(letter) => (letter, 1024_u64),
        None => (prefix, 1000),
    };
    let power = match letter.to_ascii_uppercase().as_str() {
        "" if step == 1000 => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return (unit, 1),
    };
    (base, step.pow(power))
}

fn base(unit: &str) -> &str {
    parts(unit).0
}

fn scale(unit: &str) -> u64 {
    parts(unit).1
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name, for people.
    pub name: String,
    /// What it carries, in units without a prefix.
    pub size: u64,
    /// What feeds it, by number.
    pub above: Option<usize>,
}

/// One kind of flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// In what its pools are counted; may be empty.
    pub unit: String,
    /// Its pools.
    pub pools: Vec<Pool>,
    /// The pool that each rank hangs on, by number.
    pub at: BTreeMap<u32, usize>,
}

/// The pools of a machine, or, as pools of nodes' own, what a job has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pools {
    /// By name.
    pub kinds: Vec<Kind>,
}

impl Pools {
    /// As the key `scheduling.flow` of an R tells. What cannot be understood there is nothing.
    pub fn of(r: &R) -> Pools {
        let flow = r.scheduling.as_ref().and_then(|it| it.get("flow")?.as_object());
        let mut ranks: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        if flow.is_some() {
            r.hosts().for_each(|(rank, host)| ranks.entry(host).or_default().push(rank));
        }
        let kinds = flow.into_iter().flatten().map(|(name, said)| kind(name, said, &ranks));
        Pools { kinds: kinds.collect() }
    }

    /// What all sources of a kind carry together, in its own unit.
    pub fn capacity(&self, kind: usize) -> f64 {
        let kind = &self.kinds[kind];
        let sources = kind.pools.iter().filter(|pool| pool.above.is_none());
        sources.map(|pool| pool.size as f64).sum::<f64>() / scale(&kind.unit) as f64
    }
}

fn kind(name: &str, said: &Value, ranks: &BTreeMap<String, Vec<u32>>) -> Kind {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let unit = text(said, "unit").unwrap_or_default();
    let mut kind = Kind { name: name.to_owned(), unit, pools: Vec::new(), at: BTreeMap::new() };
    let list = said.get("pools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let size = |pool: &Value, key: &str, unit: &str| {
        let factor = scale(&text(pool, "unit").unwrap_or_else(|| unit.to_owned()));
        pool.get(key).and_then(Value::as_u64).map(|size| size.saturating_mul(factor))
    };
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for pool in list {
        let (Some(size), called) = (size(pool, "size", &kind.unit), text(pool, "name")) else { continue };
        let called = called.unwrap_or_else(|| format!("{name}{}", kind.pools.len()));
        numbers.insert(called.clone(), kind.pools.len());
        kind.pools.push(Pool { name: called, size, above: None });
    }
    let mut shared = 0;
    for pool in list {
        let from = text(pool, "from").and_then(|from| numbers.get(&from).copied());
        let this = pool.get("size").and_then(Value::as_u64).map(|_| shared);
        if let Some(this) = this {
            kind.pools[this].above = from;
            shared += 1;
        }
        let hosts = text(pool, "hosts").and_then(|hosts| Hostlist::parse(&hosts).ok()).unwrap_or_default();
        let mut on: Vec<u32> = hosts.iter().filter_map(|host| ranks.get(&host)).flatten().copied().collect();
        if let Some(named) = text(pool, "ranks").and_then(|ranks| Idset::parse(&ranks).ok()) {
            on.extend(named.iter());
        }
        let each = size(pool, "each", &kind.unit);
        for rank in on {
            let hang = match (each, this) {
                (Some(size), above) => {
                    kind.pools.push(Pool { name: format!("of rank {rank}"), size, above: above.or(from) });
                    Some(kind.pools.len() - 1)
                }
                (None, this) => this,
            };
            if let Some(hang) = hang {
                kind.at.insert(rank, hang);
            }
        }
    }
    kind
}

/// What a job had from its start to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// The job.
    pub job: JobId,
    /// Seconds.
    pub start: f64,
    /// Seconds.
    pub end: f64,
    /// Number of the kind, rank, units without a prefix.
    pub flows: Vec<(usize, u32, u64)>,
}

/// How much of a kind was in use over a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Usage {
    /// Name of the kind.
    pub kind: String,
    /// Unit of the figures.
    pub unit: String,
    /// What the sources carry together.
    pub capacity: f64,
    /// Most at one instant.
    pub peak: f64,
    /// Mean from the first submission to the last end.
    pub mean: f64,
}

/// Collects what every job has by its R.
#[derive(Debug, Clone, Default)]
pub struct Granted {
    names: Vec<String>,
    /// In the order of start.
    pub grants: Vec<Grant>,
    first: Option<f64>,
}

impl Granted {
    /// Of the kinds of this machine.
    pub fn of(pools: &Pools) -> Granted {
        let names = pools.kinds.iter().map(|kind| kind.name.clone()).collect();
        Granted { names, ..Granted::default() }
    }

    /// Figures of every kind.
    pub fn usage(&self, pools: &Pools) -> Vec<Usage> {
        let end = self.grants.iter().map(|grant| grant.end).fold(f64::NEG_INFINITY, f64::max);
        let length = (end - self.first.unwrap_or(end)).max(f64::MIN_POSITIVE);
        let usage = |(number, kind): (usize, &Kind)| {
            let (mut changes, mut area) = (Vec::new(), 0.0);
            for (grant, units) in self.of_kind(number) {
                changes.push((grant.start, units as i64));
                changes.push((grant.end, -(units as i64)));
                area += units as f64 * (grant.end - grant.start);
            }
            changes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let used = changes.iter().scan(0, |now, (_, change)| {
                *now += change;
                Some(*now)
            });
            let factor = scale(&kind.unit) as f64;
            Usage {
                kind: kind.name.clone(),
                unit: kind.unit.clone(),
                capacity: pools.capacity(number),
                peak: used.max().unwrap_or(0) as f64 / factor,
                mean: area / length / factor,
            }
        };
        pools.kinds.iter().enumerate().map(usage).collect()
    }

    /// Who has something of a kind, and how much in all.
    fn of_kind(&self, kind: usize) -> impl Iterator<Item = (&Grant, u64)> {
        self.grants.iter().filter_map(move |grant| {
            let units = grant.flows.iter().filter(|flow| flow.0 == kind).map(|flow| flow.2).sum::<u64>();
            (units > 0).then_some((grant, units))
        })
    }

    /// Spans of use of a kind in its own unit: from, to, how much.
    pub fn spans(&self, kind: usize, unit: &str) -> Vec<(f64, f64, f64)> {
        let factor = scale(unit) as f64;
        self.of_kind(kind).map(|(grant, units)| (grant.start, grant.end, units as f64 / factor)).collect()
    }
}

impl Observer for Granted {
    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        self.first = Some(self.first.map_or(s.job.submit, |first| first.min(s.job.submit)));
        let has = Pools::of(s.r);
        let mut flows = Vec::new();
        for kind in &has.kinds {
            let Some(number) = self.names.iter().position(|name| *name == kind.name) else { continue };
            flows.extend(kind.at.iter().map(|(rank, pool)| (number, *rank, kind.pools[*pool].size)));
        }
        self.grants.push(Grant { job: s.job.id, start: s.start, end: s.end, flows });
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
    fn units_have_prefixes() {
        let found = ["W", "kW", "MiB/s", "Gb/s", "litres", "xW", ""].map(parts);
        let expected = [
            ("W", 1),
            ("W", 1000),
            ("B/s", 1 << 20),
            ("b/s", 1_000_000_000),
            ("litres", 1),
            ("xW", 1),
            ("", 1),
        ];
        assert_eq!(found, expected);
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
