//! Flow to nodes, such as power or bandwidth, as in the key `scheduling.flow` of R (RFC 20): pools that feed each
//! other, and the pool that each rank is attached to.
//!
//! This reader serves the independent checks of a schedule and shares no code with the scheduler's own. Input that it
//! cannot parse is ignored and no error.
//!
//! This module does not know which flow is free.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Hostlist, Idset, R};

/// The unit without its prefix, and the factor of the prefix.
fn parts(unit: &str) -> (&str, u64) {
    let Some(base) = ["B/s", "b/s", "W"].into_iter().find(|base| unit.ends_with(base)) else {
        return (unit, 1);
    };
    factor(&unit[..unit.len() - base.len()]).map_or((unit, 1), |factor| (base, factor))
}

/// The factor of a prefix such as `k` or `Gi`.
pub(crate) fn factor(prefix: &str) -> Option<u64> {
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
        _ => return None,
    };
    Some(step.pow(power))
}

/// The unit without its prefix: `W` for `kW`. A unit other than of W, B/s and b/s stays as it is.
pub fn base(unit: &str) -> &str {
    parts(unit).0
}

/// The factor of the unit's prefix: 1000 for `kW`, 1024 for `KiB/s`; 1 for a unit without a known one.
pub fn scale(unit: &str) -> u64 {
    parts(unit).1
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Name, for display.
    pub name: String,
    /// Capacity, in units without a prefix.
    pub size: u64,
    /// Index of the pool that feeds it; `None` for a source.
    pub above: Option<usize>,
}

/// One kind of flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Name of the kind, such as `power`.
    pub name: String,
    /// Unit of its pools; may be empty.
    pub unit: String,
    /// Its pools; [`Pool::above`] and `at` are indexes into this list.
    pub pools: Vec<Pool>,
    /// The pool that each rank is attached to, by index; ranks without flow are left out.
    pub at: BTreeMap<u32, usize>,
}

/// The pools of a machine or, as pools of single nodes, the flow of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pools {
    /// The kinds of flow, sorted by name.
    pub kinds: Vec<Kind>,
}

impl Pools {
    /// The pools in the key `scheduling.flow` of an R. Parts that cannot be parsed are ignored.
    pub fn of(r: &R) -> Pools {
        let flow = r.scheduling.as_ref().and_then(|it| it.get("flow")?.as_object());
        let mut ranks: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        if flow.is_some() {
            r.hosts().for_each(|(rank, host)| ranks.entry(host).or_default().push(rank));
        }
        let kinds = flow.into_iter().flatten().map(|(name, said)| kind(name, said, &ranks));
        Pools { kinds: kinds.collect() }
    }

    /// The capacity of all sources of a kind together, in the kind's unit.
    ///
    /// # Panics
    /// There is no kind of this number in [`kinds`](Self::kinds).
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
