//! Reading R (RFC 20) as a whole model: a cluster, its nodes, and one vertex for each resource of R on them.
//!
//! # Interpretations
//!
//! - The name of a node is its host. Its id is the number at the end of that name, its basename the part before.
//! - Properties belong to nodes; a property of R has no value.
//! - Resources on a node have the rank of the node.

use std::collections::BTreeMap;

use fluxgate_formats::rset::{Children, R};

use crate::description::error::LoadError;
use crate::description::limits::{MEMBERS_MAX, NODES_MAX};
use crate::description::model::CONTAINMENT;
use crate::description::model::{Model, ModelError, Relation};
use crate::description::vertex::{Pool, VertexId};

use super::flow;

fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("R", place, what)
}

/// A node whose content is to be made.
pub(super) struct Inside<'r> {
    pub(super) vertex: VertexId,
    pub(super) rank: u32,
    /// The resources of R on it.
    pub(super) children: &'r Children,
    place: &'r str,
}

impl Inside<'_> {
    /// Puts every resource directly into the node.
    pub(super) fn flat(&self, model: &mut Model) -> Result<(), LoadError> {
        let wrong = |e: ModelError| fault(self.place, e.to_string());
        for (type_, ids) in self.children {
            for id in ids.iter() {
                let mut pool = Pool::new(&**type_, i64::from(id));
                pool.rank = i64::from(self.rank);
                let child = model.add(pool).map_err(wrong)?;
                model.connect(self.vertex, child, &Relation::contains()).map_err(wrong)?;
            }
        }
        Ok(())
    }
}

/// The machine that an R describes.
pub(crate) fn load(r: &R) -> Result<Model, LoadError> {
    build(r, &mut |model, node| node.flat(model))
}

/// Adds the resources of R to nodes of a graph that have no content: the shorthand of JGF leaves out vertices below
/// one that is given as a whole.
pub(crate) fn fill(model: &mut Model, r: &R) -> Result<(), LoadError> {
    // Execution targets of any type; not the vertices on them.
    let target = |v: &VertexId| {
        let it = model.vertex(*v)?;
        let rank = it.rank().and_then(|rank| u32::try_from(rank).ok())?;
        let on = model.text(it.type_());
        r.children(rank).map(|children| !children.contains_key(on))
    };
    let nodes: Vec<VertexId> = model.vertices().filter(|v| target(v) == Some(true)).collect();
    for vertex in nodes {
        let rank = model.vertex(vertex).and_then(|it| it.rank()).and_then(|rank| u32::try_from(rank).ok());
        let Some((rank, children)) = rank.and_then(|rank| Some((rank, r.children(rank)?))) else { continue };
        let bare = model.name(CONTAINMENT).is_some_and(|name| model.steps(vertex, name).next().is_none());
        if bare {
            Inside { vertex, rank, children, place: "execution" }.flat(model)?;
        }
    }
    Ok(())
}

/// As [`load`], with the content of each node made by `inside`.
pub(super) fn build(
    r: &R,
    inside: &mut dyn FnMut(&mut Model, &Inside<'_>) -> Result<(), LoadError>,
) -> Result<Model, LoadError> {
    let ranks = r.ranks();
    if ranks.is_empty() || ranks.len() > NODES_MAX {
        let what = format!("{} ranks found; 1 to {NODES_MAX} are accepted", ranks.len());
        return Err(fault("execution.R_lite", what));
    }
    if r.nodelist.len() as u64 != ranks.len() {
        let what = format!("{} hosts found for {} ranks; one each is needed", r.nodelist.len(), ranks.len());
        return Err(fault("execution.nodelist", what));
    }
    let wrong = |e: ModelError| fault("execution", e.to_string());
    let mut model = Model::new();
    let contains = Relation::contains();
    let cluster = model.add(Pool::new("cluster", 0)).map_err(wrong)?;
    let mut properties: BTreeMap<u32, Vec<(String, String)>> = BTreeMap::new();
    for (property, on) in &r.properties {
        for rank in on.iter() {
            if !ranks.contains(rank) {
                let what = format!("'{property}' is given to rank {rank}, which is not in R_lite");
                return Err(fault("execution.properties", what));
            }
            properties.entry(rank).or_default().push((property.clone(), String::new()));
        }
    }
    let mut nodes: BTreeMap<u32, VertexId> = BTreeMap::new();
    for (index, entry) in r.r_lite.iter().enumerate() {
        let place = format!("execution.R_lite[{index}]");
        for (type_, ids) in &entry.children {
            if ids.len() > MEMBERS_MAX {
                let what = format!("{} ids found; at most {MEMBERS_MAX} are accepted", ids.len());
                return Err(fault(format!("{place}.children.{type_}"), what));
            }
        }
        for rank in entry.rank.iter() {
            let host = r.hostname(rank).unwrap_or_default();
            let mut pool = Pool::new("node", -1);
            (pool.basename, pool.id) =
                split(&host).map_err(|what| fault("execution.nodelist".to_owned(), what))?;
            pool.name = host;
            pool.rank = i64::from(rank);
            pool.properties = properties.remove(&rank).unwrap_or_default();
            let node = model.add(pool).map_err(wrong)?;
            model.connect(cluster, node, &contains).map_err(wrong)?;
            nodes.insert(rank, node);
            let children = &entry.children;
            inside(&mut model, &Inside { vertex: node, rank, children, place: &place })?;
        }
    }
    flow::add(&mut model, r, &nodes)?;
    model.finish().map_err(wrong)?;
    Ok(model)
}

/// The basename and the number at the end of a host name; -1 without a number.
pub(crate) fn split(host: &str) -> Result<(String, i64), String> {
    let base = host.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &host[base.len()..];
    if digits.is_empty() {
        return Ok((host.to_owned(), -1));
    }
    let id = digits
        .parse()
        .map_err(|_| format!("host '{host}' found; the number it ends with may be up to {}", i64::MAX))?;
    Ok((if base.is_empty() { host } else { base }.to_owned(), id))
}
