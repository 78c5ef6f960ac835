//! Reading R whose `scheduling` describes the topology of nodes (RFC 49, writer `TreePool`).
//!
//! # Interpretations
//!
//! - `R_lite` decides which cores and GPUs exist; the topology, which may be that of the whole node, says where they
//!   are. Resources that the topology does not place are directly in the node, and ranks that R lacks are ignored.
//! - A locality is a vertex of the type that its key names; its id counts within the node. A locality without
//!   resources of R is left out, unless it has memory or storage.
//! - Memory is one pool in GiB. Storage is one pool with its mount point as property `path`, in its own unit.
//!
//! This module must never know how a scheduler uses locality.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::Idset;
use fluxgate_formats::rset::{Children, R};
use serde_json::{Map, Value};

use crate::description::error::LoadError;
use crate::description::model::{MODEL_DEPTH_MAX, Model, ModelError, Relation};
use crate::description::units;
use crate::description::vertex::{Pool, VertexId};

use super::r;

fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("TreePool", place, what)
}

/// The machine that an R with topology describes.
pub(crate) fn load(r: &R) -> Result<Model, LoadError> {
    let scheduling = r.scheduling.as_ref().and_then(Value::as_object);
    let scheduling =
        scheduling.ok_or_else(|| fault("scheduling", "nothing found; a dictionary is needed"))?;
    let none = Vec::new();
    let entries = match scheduling.get("children") {
        None => &none,
        Some(Value::Array(entries)) => entries,
        Some(other) => return Err(expected("scheduling.children", other, "an array")),
    };
    let mut by_rank: BTreeMap<u32, (String, &Map<String, Value>)> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let place = format!("scheduling.children[{index}]");
        let entry = entry.as_object().ok_or_else(|| expected(&place, entry, "a dictionary"))?;
        if let Some(key) = entry.keys().find(|key| !["ranks", "topo"].contains(&key.as_str())) {
            return Err(fault(place, format!("key '{key}' found; ranks and topo are accepted")));
        }
        let ranks = text(entry.get("ranks"), &format!("{place}.ranks"))?;
        let ranks: Idset = ranks.parse().map_err(|e| fault(format!("{place}.ranks"), format!("{e}")))?;
        let place = format!("{place}.topo");
        let topo = entry.get("topo").unwrap_or(&Value::Null);
        let topo = topo.as_object().ok_or_else(|| expected(&place, topo, "a dictionary"))?;
        for rank in r.ranks().intersection(&ranks).iter() {
            if by_rank.insert(rank, (place.clone(), topo)).is_some() {
                return Err(fault(place, format!("rank {rank} has a topology already")));
            }
        }
    }
    r::build(r, &mut |model, node| match by_rank.get(&node.rank) {
        None => node.flat(model),
        Some((place, topo)) => {
            let left = node.children.clone();
            let mut walk = Walk {
                model,
                rank: node.rank,
                has: node.children,
                left,
                seen: BTreeSet::new(),
                next: BTreeMap::new(),
            };
            walk.domain(node.vertex, topo, place, 0)?;
            let left = std::mem::take(&mut walk.left);
            for (type_, ids) in left {
                for id in ids.iter() {
                    walk.add(node.vertex, walk.pool(&type_, i64::from(id)), place)?;
                }
            }
            Ok(())
        }
    })
}

fn expected(place: &str, found: &Value, accepted: &str) -> LoadError {
    let found = found.to_string();
    let short: String = found.chars().take(40).collect();
    fault(place, format!("{short} found; {accepted} is accepted"))
}

fn text<'v>(value: Option<&'v Value>, place: &str) -> Result<&'v str, LoadError> {
    let value = value.unwrap_or(&Value::Null);
    value.as_str().ok_or_else(|| expected(place, value, "an idset in a text"))
}

/// The content of one node.
struct Walk<'m> {
    model: &'m mut Model,
    rank: u32,
    /// The resources of R on the node.
    has: &'m Children,
    /// Resources that are not placed yet.
    left: BTreeMap<String, Idset>,
    /// Resources that the topology placed, by type.
    seen: BTreeSet<(&'static str, u32)>,
    /// Next id of each type that the topology numbers.
    next: BTreeMap<String, i64>,
}

impl Walk<'_> {
    fn pool(&self, type_: &str, id: i64) -> Pool {
        Pool { rank: i64::from(self.rank), ..Pool::new(type_, id) }
    }

    fn number(&mut self, type_: &str) -> i64 {
        let next = self.next.entry(type_.to_owned()).or_default();
        *next += 1;
        *next - 1
    }

    fn add(&mut self, parent: VertexId, pool: Pool, place: &str) -> Result<VertexId, LoadError> {
        let wrong = |e: ModelError| fault(place, e.to_string());
        let id = self.model.add(pool).map_err(wrong)?;
        self.model.connect(parent, id, &Relation::contains()).map_err(wrong)?;
        Ok(id)
    }

    fn domain(
        &mut self,
        at: VertexId,
        domain: &Map<String, Value>,
        place: &str,
        depth: usize,
    ) -> Result<(), LoadError> {
        if depth > MODEL_DEPTH_MAX {
            return Err(fault(place, format!("more than {MODEL_DEPTH_MAX} localities inside each other")));
        }
        for (key, value) in domain {
            let place = format!("{place}.{key}");
            match key.as_str() {
                "cores" => self.members(at, "core", value, &place)?,
                "gpus" => self.members(at, "gpu", value, &place)?,
                "memory" => {
                    let size = value.as_u64().ok_or_else(|| expected(&place, value, "a number of GiB"))?;
                    let id = self.number("memory");
                    let pool = Pool { size, unit: "GiB".to_owned(), ..self.pool("memory", id) };
                    self.add(at, pool, &place)?;
                }
                "storage" => self.storage(at, value, &place)?,
                "" => return Err(fault(place, "a locality without a name found")),
                locality => {
                    let list = value.as_array().ok_or_else(|| expected(&place, value, "an array"))?;
                    for (index, inner) in list.iter().enumerate() {
                        let place = format!("{place}[{index}]");
                        let inner =
                            inner.as_object().ok_or_else(|| expected(&place, inner, "a dictionary"))?;
                        let id = self.number(locality);
                        if self.holds(inner, depth) {
                            let vertex = self.add(at, self.pool(locality, id), &place)?;
                            self.domain(vertex, inner, &place, depth + 1)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// False if a domain has no resource of R. Invalid domains are reported when they are read.
    fn holds(&self, domain: &Map<String, Value>, depth: usize) -> bool {
        depth > MODEL_DEPTH_MAX
            || domain.iter().any(|(key, value)| {
                let type_ = match (key.as_str(), value) {
                    ("cores", Value::String(_)) => "core",
                    ("gpus", Value::String(_)) => "gpu",
                    (_, Value::Array(list)) if key != "storage" => {
                        return list
                            .iter()
                            .any(|inner| inner.as_object().is_none_or(|d| self.holds(d, depth + 1)));
                    }
                    _ => return true,
                };
                let ids = value.as_str().and_then(|text| text.parse::<Idset>().ok());
                let has = self.has.get(type_);
                ids.is_none_or(|ids| has.is_some_and(|has| !ids.is_disjoint(has)))
            })
    }

    fn members(
        &mut self,
        at: VertexId,
        type_: &'static str,
        value: &Value,
        place: &str,
    ) -> Result<(), LoadError> {
        let ids: Idset = text(Some(value), place)?.parse().map_err(|e| fault(place, format!("{e}")))?;
        if ids.len() > crate::description::limits::MEMBERS_MAX {
            let what = format!(
                "{} ids found; at most {} are accepted",
                ids.len(),
                crate::description::limits::MEMBERS_MAX
            );
            return Err(fault(place, what));
        }
        for id in ids.iter() {
            if !self.seen.insert((type_, id)) {
                return Err(fault(place, format!("{type_} {id} of rank {} is in two places", self.rank)));
            }
            if self.left.get_mut(type_).is_some_and(|left| left.remove(id)) {
                self.add(at, self.pool(type_, i64::from(id)), place)?;
            }
        }
        Ok(())
    }

    fn storage(&mut self, at: VertexId, value: &Value, place: &str) -> Result<(), LoadError> {
        let list = value.as_array().ok_or_else(|| expected(place, value, "an array"))?;
        for (index, it) in list.iter().enumerate() {
            let here = |key: &str| format!("{place}[{index}].{key}");
            let it =
                it.as_object().ok_or_else(|| expected(&format!("{place}[{index}]"), it, "a dictionary"))?;
            let get = |key: &str| it.get(key).unwrap_or(&Value::Null);
            let path = get("path").as_str();
            let path = path.ok_or_else(|| expected(&here("path"), get("path"), "a text"))?;
            let unit = match it.get("unit") {
                None => "GiB",
                Some(unit) => {
                    let known =
                        unit.as_str().filter(|unit| units::scale(unit, "B").is_some() && !unit.is_empty());
                    known.ok_or_else(|| expected(&here("unit"), unit, "a unit such as GiB or TB"))?
                }
            };
            let (size, unit) = capacity(get("capacity"), unit).ok_or_else(|| {
                expected(&here("capacity"), get("capacity"), "a number of units, 1 or more,")
            })?;
            let id = self.number("storage");
            let properties = vec![("path".to_owned(), path.to_owned())];
            let pool = Pool { size, unit, properties, ..self.pool("storage", id) };
            self.add(at, pool, &format!("{place}[{index}]"))?;
        }
        Ok(())
    }
}

/// A capacity in whole units; a number with a fraction is converted to a smaller unit.
fn capacity(value: &Value, unit: &str) -> Option<(u64, String)> {
    if let Some(size) = value.as_u64() {
        return (size > 0).then(|| (size, unit.to_owned()));
    }
    let size = value.as_f64().filter(|size| *size > 0.0)?;
    let smaller = if unit.ends_with("iB") { "MiB" } else { "MB" };
    let units = size * units::scale(unit, smaller)?.pool_units(1) as f64;
    (1.0..9e15).contains(&units).then(|| (units as u64, smaller.to_owned()))
}
