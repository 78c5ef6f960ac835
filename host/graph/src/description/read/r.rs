//! Reading R (RFC 20) as a description: a cluster, its nodes, and the resources of R on them.
//!
//! # Interpretations
//!
//! - The name of a node is its host. Its id is the number at the end of that name, its basename the part before.
//! - Properties belong to nodes; a property of R has no value.
//! - Resources on a node have the rank of the node.
//!
//! This module must never know the use of a description.

use std::collections::BTreeMap;

use fluxgate_formats::Idset;
use fluxgate_formats::rset::{Children, R};

use crate::description::error::LoadError;
use crate::description::limits::{MEMBERS_MAX, NODES_MAX};
use crate::description::model::{CONTAINMENT, ModelError, Relation};
use crate::description::place::Format;
use crate::description::runs::{Description, Extras, Said};

use super::flow;

fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("R", place, what)
}

/// A node whose content is to be made, or a vertex in it.
#[derive(Clone, Copy)]
pub(crate) struct Inside<'r> {
    pub(crate) vertex: u32,
    pub(crate) rank: u32,
    /// The resources of R on the node.
    pub(crate) children: &'r Children,
}

impl Inside<'_> {
    /// Adds a vertex below it; returns its number.
    pub(crate) fn add(&self, d: &mut Description, said: Said<'_>) -> Result<u32, ModelError> {
        let number = d.add(Said { rank: i64::from(self.rank), size: said.size.max(1), ..said })?;
        d.connect_row(self.vertex, number, 1, &Relation::contains())?;
        Ok(number)
    }

    /// Adds vertices of a type with these ids.
    pub(crate) fn members(&self, d: &mut Description, type_: &str, ids: &Idset) -> Result<(), ModelError> {
        for row in ids.ranges() {
            let (first, count) = (*row.start(), row.end() - row.start() + 1);
            let (id, rank) = (Some(i64::from(first)), i64::from(self.rank));
            let number = d.add_row(Said { type_, id, rank, size: 1, ..Said::default() }, count)?;
            d.connect_row(self.vertex, number, count, &Relation::contains())?;
        }
        Ok(())
    }

    /// Puts every resource directly into the node.
    pub(crate) fn flat(&self, d: &mut Description) -> Result<(), ModelError> {
        self.children.iter().try_for_each(|(type_, ids)| self.members(d, type_, ids))
    }
}

/// The machine that an R describes.
pub(crate) fn load(r: &R) -> Result<Description, LoadError> {
    whole(r, &mut |d, node| node.flat(d).map_err(|e| fault("execution", e.to_string())))
}

/// As [`load`], with the content of each node made by `inside`.
pub(super) fn whole(
    r: &R,
    inside: &mut dyn FnMut(&mut Description, &Inside<'_>) -> Result<(), LoadError>,
) -> Result<Description, LoadError> {
    if r.ranks().is_empty() {
        let what = format!("0 ranks found; 1 to {NODES_MAX} are accepted");
        return Err(fault("execution.R_lite", what));
    }
    for host in r.nodelist.iter() {
        split(&host).map_err(|what| fault("execution.nodelist", what))?;
    }
    let (mut description, nodes) = read(r, inside)?;
    flow::add(&mut description, r, &nodes)?;
    description.settle();
    Ok(description)
}

/// Adds the resources of R to nodes of a graph that have no content: the shorthand of JGF leaves out vertices below
/// one that is given as a whole.
pub(crate) fn fill(d: &mut Description, r: &R) -> Result<(), LoadError> {
    // Execution targets of any type; not the vertices on them.
    let mut bare: BTreeMap<u32, u32> = BTreeMap::new();
    for run in d.runs() {
        let rank = u32::try_from(run.rank).ok();
        let target =
            rank.filter(|rank| r.children(*rank).is_some_and(|has| !has.contains_key(d.text(run.type_))));
        bare.extend(run.numbers().filter_map(|number| Some((number, target?))));
    }
    for link in d.links() {
        let relation = d.relation(link);
        if relation.subsystem == CONTAINMENT {
            bare.remove(&link.from);
        }
    }
    for (vertex, rank) in bare {
        let Some(children) = r.children(rank) else { continue };
        let node = Inside { vertex, rank, children };
        node.flat(d).map_err(|e| fault("execution", e.to_string()))?;
    }
    d.settle();
    Ok(())
}

/// Checks the numbers of ranks and hosts.
pub(crate) fn check(r: &R) -> Result<(), LoadError> {
    let ranks = r.ranks();
    if ranks.len() > NODES_MAX {
        let what = format!("{} ranks found; at most {NODES_MAX} are accepted", ranks.len());
        return Err(fault("execution.R_lite", what));
    }
    if r.nodelist.len() as u64 != ranks.len() {
        let what = format!("{} hosts found for {} ranks; one each is needed", r.nodelist.len(), ranks.len());
        return Err(fault("execution.nodelist", what));
    }
    Ok(())
}

/// The description of an R, and its nodes by rank. Without ranks it is a cluster alone. `inside` makes the content of
/// each node. [`Description::settle`] is the caller's, who may add more.
pub(crate) fn read(
    r: &R,
    inside: &mut dyn FnMut(&mut Description, &Inside<'_>) -> Result<(), LoadError>,
) -> Result<(Description, BTreeMap<u32, u32>), LoadError> {
    check(r)?;
    let ranks = r.ranks();
    let wrong = |e: ModelError| fault("execution", e.to_string());
    let mut d = Description::new(Format::R);
    let cluster =
        d.add(Said { type_: "cluster", id: Some(0), rank: -1, size: 1, ..Said::default() }).map_err(wrong)?;
    let mut properties: BTreeMap<u32, BTreeMap<String, String>> = BTreeMap::new();
    for (property, on) in &r.properties {
        for rank in on.iter() {
            if !ranks.contains(rank) {
                let what = format!("'{property}' is given to rank {rank}, which is not in R_lite");
                return Err(fault("execution.properties", what));
            }
            properties.entry(rank).or_default().insert(property.clone(), String::new());
        }
    }
    let mut hosts: Vec<(u32, String)> = r.hosts().collect();
    hosts.sort_unstable();
    let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
    for (index, entry) in r.r_lite.iter().enumerate() {
        let place = |key: &str| format!("execution.R_lite[{index}].{key}");
        for (type_, ids) in &entry.children {
            if ids.len() > MEMBERS_MAX {
                let what = format!("{} ids found; at most {MEMBERS_MAX} are accepted", ids.len());
                return Err(fault(place(&format!("children.{type_}")), what));
            }
        }
        for rank in entry.rank.iter() {
            let host = hosts.binary_search_by_key(&rank, |(rank, _)| *rank).ok().and_then(|at| hosts.get(at));
            let name = host.map_or("", |(_, name)| name);
            let (basename, id) = split(name).unwrap_or((name, -1));
            let extras =
                Extras { properties: properties.remove(&rank).unwrap_or_default(), ..Extras::default() };
            let (id, rank_of) = (Some(id), i64::from(rank));
            let said =
                Said { type_: "node", basename, name, id, rank: rank_of, size: 1, extras, ..Said::default() };
            let vertex = d.add(said).map_err(wrong)?;
            d.connect_row(cluster, vertex, 1, &Relation::contains()).map_err(wrong)?;
            if nodes.insert(rank, vertex).is_some() {
                return Err(fault(place("rank"), format!("rank {rank} stands in two entries")));
            }
            inside(&mut d, &Inside { vertex, rank, children: &entry.children })?;
        }
    }
    Ok((d, nodes))
}

/// The basename and the number at the end of a host name; -1 without a number.
pub(crate) fn split(host: &str) -> Result<(&str, i64), String> {
    let base = host.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &host[base.len()..];
    if digits.is_empty() {
        return Ok((host, -1));
    }
    let id = digits
        .parse()
        .map_err(|_| format!("host '{host}' found; the number it ends with may be up to {}", i64::MAX))?;
    Ok((if base.is_empty() { host } else { base }, id))
}
