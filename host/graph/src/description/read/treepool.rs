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

use std::collections::BTreeMap;

use fluxgate_formats::Idset;
use fluxgate_formats::rset::R;
use serde_json::Value;

use crate::description::error::LoadError;
use crate::description::limits::SIZE_MAX;
use crate::description::model::ModelError;
use crate::description::runs::{Description, Extras, Said};
use crate::description::units;

use super::r::{self, Inside};
use super::topology::{self, Locality, Part, expected, fault};

/// The machine that an R with topology describes.
pub(crate) fn load(r: &R) -> Result<Description, LoadError> {
    let scheduling = r.scheduling.as_ref().filter(|scheduling| scheduling.is_object());
    let scheduling =
        scheduling.ok_or_else(|| fault("scheduling", "nothing found; a dictionary is needed"))?;
    let topologies = topology::read(scheduling)?;
    let ranks = r.ranks();
    let mut by_rank: BTreeMap<u32, &Locality<'_>> = BTreeMap::new();
    for (index, one) in topologies.iter().enumerate() {
        if let Some(key) = one.unknown {
            let what = format!("key '{key}' found; ranks and topo are accepted");
            return Err(fault(format!("scheduling.children[{index}]"), what));
        }
        by_rank.extend(ranks.intersection(&one.ranks).iter().map(|rank| (rank, &one.node)));
    }
    r::whole(r, &mut |d, node| {
        let wrong = |e: ModelError| LoadError::new("R", "execution", e.to_string());
        let Some(topology) = by_rank.get(&node.rank) else { return node.flat(d).map_err(wrong) };
        let mut walk = Walk { d, left: node.children.clone(), next: BTreeMap::new() };
        walk.locality(*node, topology)?;
        for (type_, ids) in std::mem::take(&mut walk.left) {
            node.members(d, &type_, &ids).map_err(wrong)?;
        }
        Ok(())
    })
}

/// The content of one node.
struct Walk<'d> {
    d: &'d mut Description,
    /// Resources of R that are not placed yet.
    left: BTreeMap<String, Idset>,
    /// Next id of each type that the topology numbers.
    next: BTreeMap<String, i64>,
}

impl Walk<'_> {
    fn number(&mut self, type_: &str) -> Option<i64> {
        let next = self.next.entry(type_.to_owned()).or_default();
        *next += 1;
        Some(*next - 1)
    }

    fn add(&mut self, at: Inside<'_>, place: &str, said: Said<'_>) -> Result<u32, LoadError> {
        at.add(self.d, said).map_err(|e| fault(place, e.to_string()))
    }

    fn locality(&mut self, at: Inside<'_>, locality: &Locality<'_>) -> Result<(), LoadError> {
        for (key, part) in &locality.parts {
            let place = format!("{}.{key}", locality.place);
            match part {
                Part::Members(type_, ids) => {
                    let Some(left) = self.left.get_mut(*type_) else { continue };
                    let here = left.intersection(ids);
                    *left = left.difference(&here);
                    at.members(self.d, type_, &here).map_err(|e| fault(place, e.to_string()))?;
                }
                Part::Localities(list) => {
                    for inner in list {
                        let id = self.number(key);
                        if inner.holds(at.children) {
                            let said = Said { type_: key, id, ..Said::default() };
                            let vertex = self.add(at, &inner.place, said)?;
                            self.locality(Inside { vertex, ..at }, inner)?;
                        }
                    }
                }
                Part::Other(value) => match *key {
                    "memory" => {
                        let size =
                            value.as_u64().ok_or_else(|| expected(&place, value, "a number of GiB"))?;
                        if !(1..=SIZE_MAX).contains(&size) {
                            return Err(fault(place, ModelError::Size(size).to_string()));
                        }
                        let id = self.number("memory");
                        let said = Said { type_: "memory", id, size, unit: "GiB", ..Said::default() };
                        self.add(at, &place, said)?;
                    }
                    "storage" => self.storage(at, value, &place)?,
                    _ => return Err(expected(&place, value, "an array")),
                },
            }
        }
        Ok(())
    }

    fn storage(&mut self, at: Inside<'_>, value: &Value, place: &str) -> Result<(), LoadError> {
        let list = value.as_array().ok_or_else(|| expected(place, value, "an array"))?;
        for (index, it) in list.iter().enumerate() {
            let here = |key: &str| format!("{place}[{index}]{key}");
            let it = it.as_object().ok_or_else(|| expected(&here(""), it, "a dictionary"))?;
            let get = |key: &str| it.get(key).unwrap_or(&Value::Null);
            let path = get("path").as_str();
            let path = path.ok_or_else(|| expected(&here(".path"), get("path"), "a text"))?;
            let unit = match it.get("unit") {
                None => "GiB",
                Some(unit) => {
                    let known =
                        unit.as_str().filter(|unit| units::scale(unit, "B").is_some() && !unit.is_empty());
                    known.ok_or_else(|| expected(&here(".unit"), unit, "a unit such as GiB or TB"))?
                }
            };
            let (size, unit) = capacity(get("capacity"), unit).ok_or_else(|| {
                expected(&here(".capacity"), get("capacity"), "a number of units, 1 or more,")
            })?;
            if size > SIZE_MAX {
                return Err(fault(here(""), ModelError::Size(size).to_string()));
            }
            let id = self.number("storage");
            let properties = BTreeMap::from([("path".to_owned(), path.to_owned())]);
            let extras = Extras { properties, ..Extras::default() };
            let said = Said { type_: "storage", id, size, unit: &unit, extras, ..Said::default() };
            self.add(at, &here(""), said)?;
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
