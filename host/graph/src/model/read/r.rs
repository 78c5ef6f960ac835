//! Reading R (RFC 20) as a whole model: a cluster, its nodes, and one vertex for each thing that R names on them.
//!
//! # Readings taken
//!
//! - A node is called as its host. The number its name ends in is its id, and what stands before that its basename.
//! - Properties belong to nodes; a property of R has no value.
//! - What is on a node has the rank of the node.

use std::collections::BTreeMap;

use fluxgate_formats::rset::R;

use crate::error::LoadError;
use crate::load::r::{MEMBERS_MAX, NODES_MAX};
use crate::model::graph::{Model, ModelError, Relation};
use crate::model::vertex::Pool;

fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("R", place, what)
}

/// The machine that an R describes.
pub(crate) fn load(r: &R) -> Result<Model, LoadError> {
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
            (pool.basename, pool.id) = split(&host);
            pool.name = host;
            pool.rank = i64::from(rank);
            pool.properties = properties.remove(&rank).unwrap_or_default();
            let node = model.add(pool).map_err(wrong)?;
            model.connect(cluster, node, &contains).map_err(wrong)?;
            for (type_, ids) in &entry.children {
                for id in ids.iter() {
                    let mut pool = Pool::new(&**type_, i64::from(id));
                    pool.rank = i64::from(rank);
                    let child = model.add(pool).map_err(wrong)?;
                    model.connect(node, child, &contains).map_err(wrong)?;
                }
            }
        }
    }
    model.finish().map_err(wrong)?;
    Ok(model)
}

/// What stands before the number that a host name ends in, and the number; -1 without one.
pub(crate) fn split(host: &str) -> (String, i64) {
    let base = host.trim_end_matches(|c: char| c.is_ascii_digit());
    match host[base.len()..].parse() {
        Ok(id) if base.is_empty() => (host.to_owned(), id),
        Ok(id) => (base.to_owned(), id),
        Err(_) => (host.to_owned(), -1),
    }
}
