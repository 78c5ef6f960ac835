//! The inventory, and which of its ranks are up, drained or lost: the resource service without its protocol.

use std::collections::BTreeMap;

use fluxgate_formats::{Hostlist, Idset, R};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::fail::Fail;
use fluxgate_wire::errno;

/// Children of ranks: for each rank, ids by resource type.
pub(crate) type Parts = BTreeMap<u32, BTreeMap<String, Idset>>;

/// A drained rank: it gets no new jobs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drain {
    /// Begin, seconds since the epoch.
    pub timestamp: f64,
    /// Reason; may be empty.
    pub reason: String,
}

/// The inventory; see the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct Inventory {
    r: R,
    ranks: Idset,
    online: Idset,
    drained: BTreeMap<u32, Drain>,
    lost: Idset,
    /// The state that the scheduler got last: up, and lost.
    reported: (Idset, Idset),
    shrinks: bool,
}

/// The handling of ranks that are drained already in `resource.drain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrainMode {
    /// Refuse.
    Refuse,
    /// Leave them unchanged, drain the others.
    Update,
    /// New reason, old time.
    Overwrite,
    /// New reason, new time.
    ForceOverwrite,
}

/// The ids of a resource set by rank and type.
pub(crate) fn parts_of(r: &R) -> Parts {
    let mut parts = Parts::new();
    for lite in &r.r_lite {
        for rank in lite.rank.iter() {
            let here = parts.entry(rank).or_default();
            for (kind, ids) in &lite.children {
                let slot = here.entry(kind.clone()).or_default();
                *slot = slot.union(ids);
            }
        }
    }
    parts
}

impl Inventory {
    /// All ranks up, none drained. With `shrinks`, ranks that go down are lost permanently.
    pub(crate) fn new(r: R, shrinks: bool) -> Self {
        let ranks = r.ranks();
        Inventory {
            r,
            online: ranks.clone(),
            reported: Default::default(),
            ranks,
            drained: BTreeMap::new(),
            lost: Idset::new(),
            shrinks,
        }
    }

    /// The whole inventory.
    pub(crate) fn r(&self) -> &R {
        &self.r
    }

    /// Its ranks.
    pub(crate) fn ranks(&self) -> &Idset {
        &self.ranks
    }

    /// End of the instance, seconds since the epoch; 0 is never.
    pub(crate) fn expiration(&self) -> f64 {
        self.r.expiration
    }

    /// Changes the end of the instance.
    pub(crate) fn set_expiration(&mut self, expiration: f64) {
        self.r.expiration = expiration;
    }

    /// Ranks on which jobs may be started.
    pub(crate) fn up(&self) -> Idset {
        let drained: Idset = self.drained.keys().copied().collect();
        self.online.difference(&drained).difference(&self.lost)
    }

    /// Ranks on which no jobs may be started.
    pub(crate) fn down(&self) -> Idset {
        self.ranks.difference(&self.up())
    }

    /// Drained ranks.
    pub(crate) fn drained(&self) -> &BTreeMap<u32, Drain> {
        &self.drained
    }

    /// The content of the first response to `resource.acquire`.
    pub(crate) fn acquire(&mut self) -> Value {
        self.reported = (self.up(), self.lost.clone());
        json!({ "resources": self.r.to_value(), "up": self.reported.0.to_string() })
    }

    /// The changes since the last answer to the scheduler (R28-UPD-1 to 3).
    pub(crate) fn update(&mut self, dialect: Dialect) -> Option<Value> {
        let now = (self.up(), self.lost.clone());
        let up = now.0.difference(&self.reported.0);
        let down = self.reported.0.difference(&now.0);
        let shrink = now.1.difference(&self.reported.1);
        self.reported = now;
        dialect.resources(&up, &down, &shrink)
    }

    /// Ranks given as idset or as hostlist.
    pub(crate) fn targets(&self, text: &str) -> Result<Idset, Fail> {
        let ranks = match Idset::parse(text) {
            Ok(ranks) => ranks,
            Err(no_idset) => {
                let hosts: Hostlist = text.parse().map_err(|e| {
                    Fail::invalid(format!(
                        "field 'targets': '{text}' is neither an idset ({no_idset}) nor a hostlist ({e})"
                    ))
                })?;
                let mut ranks = Idset::new();
                for host in hosts.iter() {
                    let index = self.r.nodelist.find(&host);
                    let rank = index.and_then(|index| self.ranks.nth(index as u64));
                    let unknown = || Fail::missing(format!("field 'targets': there is no host '{host}'"));
                    ranks.insert(rank.ok_or_else(unknown)?);
                }
                ranks
            }
        };
        if ranks.is_empty() {
            return Err(Fail::invalid("field 'targets' names no rank"));
        }
        let unknown = ranks.difference(&self.ranks);
        if !unknown.is_empty() {
            return Err(Fail::invalid(format!(
                "field 'targets': there is no rank {unknown} (ranks are {})",
                self.ranks
            )));
        }
        Ok(ranks)
    }

    /// Drains ranks; returns those that changed.
    pub(crate) fn drain(
        &mut self,
        ranks: &Idset,
        now: f64,
        reason: &str,
        mode: DrainMode,
    ) -> Result<Idset, Fail> {
        let already: Idset = ranks.iter().filter(|rank| self.drained.contains_key(rank)).collect();
        if mode == DrainMode::Refuse && !already.is_empty() {
            return Err(Fail::new(errno::EEXIST, format!("rank(s) {already} already drained")));
        }
        let mut changed = Idset::new();
        for rank in ranks.iter() {
            match (self.drained.get_mut(&rank), mode) {
                (Some(_), DrainMode::Refuse) => continue,
                (Some(drain), DrainMode::Update) if !drain.reason.is_empty() => continue,
                (Some(drain), DrainMode::Update | DrainMode::Overwrite) => drain.reason = reason.to_owned(),
                (Some(_), DrainMode::ForceOverwrite) | (None, _) => {
                    self.drained.insert(rank, Drain { timestamp: now, reason: reason.to_owned() });
                }
            }
            changed.insert(rank);
        }
        Ok(changed)
    }

    /// Undrains ranks; with `force`, ranks that are not drained are ignored instead of being an error.
    pub(crate) fn undrain(&mut self, ranks: &Idset, force: bool) -> Result<(), Fail> {
        let not: Idset = ranks.iter().filter(|rank| !self.drained.contains_key(rank)).collect();
        if !not.is_empty() && !force {
            return Err(Fail::invalid(format!("rank(s) {not} not drained")));
        }
        for rank in ranks.iter() {
            self.drained.remove(&rank);
        }
        Ok(())
    }

    /// Restores a drain from the database.
    pub(crate) fn restore_drain(&mut self, rank: u32, drain: Drain) {
        if self.ranks.contains(rank) {
            self.drained.insert(rank, drain);
        }
    }

    /// Nodes went down; they are lost if the inventory shrinks, or if `lost` is set.
    pub(crate) fn offline(&mut self, ranks: &Idset, lost: bool) {
        let ranks = ranks.intersection(&self.ranks);
        self.online = self.online.difference(&ranks);
        if self.shrinks || lost {
            self.lost = self.lost.union(&ranks);
        }
    }

    /// Nodes came up. Lost nodes stay lost.
    pub(crate) fn online(&mut self, ranks: &Idset) {
        self.online = self.online.union(&ranks.intersection(&self.ranks));
    }

    /// Adds a property to ranks, or removes it; returns the ranks that changed, and those that have it now.
    pub(crate) fn set_property(&mut self, name: &str, ranks: &Idset, add: bool) -> (Idset, Idset) {
        let had = self.r.properties.get(name).cloned().unwrap_or_default();
        let ranks = ranks.intersection(&self.ranks);
        let has = if add { had.union(&ranks) } else { had.difference(&ranks) };
        if has.is_empty() {
            self.r.properties.remove(name);
        } else {
            self.r.properties.insert(name.to_owned(), has.clone());
        }
        let changed = if add { has.difference(&had) } else { had.difference(&has) };
        (changed, has)
    }

    /// `resource.status`.
    pub(crate) fn status(&self) -> Value {
        let mut groups: Vec<(Idset, &Drain)> = Vec::new();
        for (rank, drain) in &self.drained {
            match groups.iter_mut().find(|(_, d)| *d == drain) {
                Some((ranks, _)) => {
                    ranks.insert(*rank);
                }
                None => groups.push((Idset::from(*rank), drain)),
            }
        }
        let mut drain = Map::new();
        for (ranks, why) in groups {
            drain.insert(ranks.to_string(), json!({ "timestamp": why.timestamp, "reason": why.reason }));
        }
        json!({
            "R": self.r.to_value(),
            "drain": drain,
            "online": self.online.to_string(),
            "offline": self.ranks.difference(&self.online).to_string(),
            "exclude": "",
            "torpid": "",
        })
    }

    /// The inventory's part on some ranks, for `resource.sched-status`.
    pub(crate) fn on_ranks(&self, ranks: &Idset) -> R {
        let mut r = self.r.subset(ranks);
        r.expiration = 0.0;
        r
    }
}
