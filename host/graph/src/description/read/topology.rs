//! The topology of nodes in the `scheduling` of an R (RFC 49, writer `TreePool`): localities inside each other, with their
//! cores and gpus.
//!
//! Keys that are no localities are kept as they are: memory, storage, and keys that RFC 49 does not know. This module must
//! never know which resources R has.

use fluxgate_formats::Idset;
use fluxgate_formats::rset::Children;
use serde_json::{Map, Value};

use crate::description::error::LoadError;
use crate::description::limits::MEMBERS_MAX;

/// Most localities of one node.
const LOCALITIES_MAX: usize = 4096;
/// Most localities inside each other.
const NESTED_MAX: usize = 16;
/// Types that a locality cannot have, because they mean something else.
const TAKEN: [&str; 5] = ["cluster", "node", "slot", "core", "gpu"];

/// Nodes of one topology.
#[derive(Debug)]
pub(crate) struct Topology<'v> {
    /// Ranks of the R, or of an enclosing instance.
    pub(crate) ranks: Idset,
    pub(crate) node: Locality<'v>,
    /// All cores, and all gpus, that have a place.
    pub(crate) ids: [Idset; 2],
    /// The value that the node was read from.
    pub(crate) topo: &'v Value,
    /// A key beside `ranks` and `topo`.
    pub(crate) unknown: Option<&'v str>,
}

/// A node, or a locality in it.
#[derive(Debug)]
pub(crate) struct Locality<'v> {
    /// Where it stands in the file.
    pub(crate) place: String,
    /// Its parts, in the order of the file, by key.
    pub(crate) parts: Vec<(&'v str, Part<'v>)>,
}

/// A part of a locality.
#[derive(Debug)]
pub(crate) enum Part<'v> {
    /// Ids of cores or gpus, which are in no smaller locality.
    Members(&'static str, Idset),
    /// Localities of the type that the key names.
    Localities(Vec<Locality<'v>>),
    /// The value of any other key.
    Other(&'v Value),
}

pub(super) fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("TreePool", place, what)
}

/// The error of a value of another kind than the accepted one.
pub(super) fn expected(place: &str, found: &Value, accepted: &str) -> LoadError {
    let text = found.to_string();
    let short: String = text.chars().take(40).collect();
    fault(place, format!("{short} found; {accepted} is accepted"))
}

/// The topologies in a `scheduling`. No rank has two.
pub(crate) fn read(scheduling: &Value) -> Result<Vec<Topology<'_>>, LoadError> {
    let entries = match scheduling.get("children") {
        None => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(other) => return Err(expected("scheduling.children", other, "an array")),
    };
    let mut all = Idset::new();
    let mut topologies = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let place = format!("scheduling.children[{index}]");
        let entry = entry.as_object().ok_or_else(|| expected(&place, entry, "a dictionary"))?;
        let get = |key: &str| entry.get(key).unwrap_or(&Value::Null);
        let ranks = idset(get("ranks"), &format!("{place}.ranks"))?;
        if let Some(rank) = ranks.intersection(&all).iter().next() {
            return Err(fault(format!("{place}.ranks"), format!("rank {rank} has a topology already")));
        }
        all = all.union(&ranks);
        let topo = get("topo");
        let mut reading = Reading::default();
        let node = reading.locality(topo, format!("{place}.topo"), 0)?;
        let unknown = entry.keys().map(String::as_str).find(|key| !["ranks", "topo"].contains(key));
        let ids = [reading.cores, reading.gpus];
        topologies.push(Topology { ranks, node, ids, topo, unknown });
    }
    Ok(topologies)
}

fn idset(value: &Value, place: &str) -> Result<Idset, LoadError> {
    let text = value.as_str().ok_or_else(|| expected(place, value, "an idset in a text"))?;
    text.parse().map_err(|e| fault(place, format!("{e}")))
}

/// Counts and ids read of one node so far.
#[derive(Default)]
struct Reading {
    localities: usize,
    /// Ids of cores and of gpus that have a place.
    cores: Idset,
    gpus: Idset,
}

impl Reading {
    fn locality<'v>(
        &mut self,
        value: &'v Value,
        place: String,
        depth: usize,
    ) -> Result<Locality<'v>, LoadError> {
        let map: &'v Map<String, Value> =
            value.as_object().ok_or_else(|| expected(&place, value, "a dictionary"))?;
        self.localities += 1;
        if depth > NESTED_MAX || self.localities > LOCALITIES_MAX {
            let what = format!("more than {NESTED_MAX} levels or {LOCALITIES_MAX} localities found");
            return Err(fault(place, what));
        }
        let mut parts = Vec::with_capacity(map.len());
        for (key, value) in map {
            let here = format!("{place}.{key}");
            let part = match (key.as_str(), value) {
                ("cores", _) => self.members("core", value, &here)?,
                ("gpus", _) => self.members("gpu", value, &here)?,
                ("memory" | "storage", _) => Part::Other(value),
                ("", _) => return Err(fault(here, "a locality without a name found")),
                (_, Value::Array(_)) if TAKEN.contains(&key.as_str()) => {
                    return Err(fault(here, "a locality cannot be called so"));
                }
                (_, Value::Array(list)) => {
                    let inner = |(index, value)| self.locality(value, format!("{here}[{index}]"), depth + 1);
                    Part::Localities(list.iter().enumerate().map(inner).collect::<Result<_, _>>()?)
                }
                _ => Part::Other(value),
            };
            parts.push((key.as_str(), part));
        }
        Ok(Locality { place, parts })
    }

    fn members<'v>(
        &mut self,
        type_: &'static str,
        value: &Value,
        place: &str,
    ) -> Result<Part<'v>, LoadError> {
        let ids = idset(value, place)?;
        if ids.len() > MEMBERS_MAX {
            let what = format!("{} ids found; at most {MEMBERS_MAX} are accepted", ids.len());
            return Err(fault(place, what));
        }
        let all = if type_ == "core" { &mut self.cores } else { &mut self.gpus };
        if let Some(id) = ids.intersection(all).iter().next() {
            return Err(fault(place, format!("{type_} {id} is in two places")));
        }
        *all = all.union(&ids);
        Ok(Part::Members(type_, ids))
    }
}

impl Locality<'_> {
    /// True if it has one of these resources, or anything but cores and gpus.
    pub(crate) fn holds(&self, has: &Children) -> bool {
        let holds = |part: &Part<'_>| match part {
            Part::Members(type_, ids) => has.get(*type_).is_some_and(|has| !ids.is_disjoint(has)),
            Part::Localities(list) => list.iter().any(|inner| inner.holds(has)),
            Part::Other(_) => true,
        };
        self.parts.iter().any(|(_, part)| holds(part))
    }
}
