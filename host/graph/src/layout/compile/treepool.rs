//! The inside of nodes that R describes in `scheduling` (RFC 49, writer `TreePool`): sockets, NUMA domains and other
//! domains, each with its cores and gpus.
//!
//! The topology ([`topology`] reads it) is a hint; R_lite decides which resources there are. A node whose ids differ
//! from those of its topology (a child instance that got part of a node) is read as flat. A malformed topology is not
//! used, and the reason is kept. `memory` and `storage` are not tracked (RFC 49). Ranks may be those of the enclosing instance;
//! they are renumbered in their order.
//!
//! This module must never know which units are free.

use std::sync::Arc;

use fluxgate_formats::Idset;
use fluxgate_formats::rset::R;
use serde_json::{Map, Value, json};

use crate::description::model::ModelError;
use crate::description::read::r::Inside;
use crate::description::read::topology::{self, Locality, Part, Topology};
use crate::description::runs::{Description, Said};

/// The writer that RFC 49 names.
const WRITER: &str = "TreePool";

/// The key `scheduling` of an R, by its meaning to this scheduler.
#[derive(Debug, Clone, Default)]
pub(crate) enum Scheduling {
    /// R has no such key.
    #[default]
    None,
    /// The key of another writer; it is kept unchanged.
    Opaque(Arc<Value>),
    /// The graph of a site, which is stored in the layout.
    Site,
    /// RFC 49; an allocation gets the part about its ranks.
    TreePool(Arc<TreePool>),
}

/// A topology, with the ranks of this instance.
#[derive(Debug)]
pub(crate) struct TreePool {
    rest: Map<String, Value>,
    /// Ranks and topologies of the entries that have ranks here.
    entries: Vec<(Idset, Value)>,
}

impl Scheduling {
    /// Reads the key of an R of these ranks, with the topologies of its nodes; the text says why they are not used.
    pub(super) fn read<'v>(
        scheduling: Option<&'v Value>,
        ranks: &Idset,
    ) -> (Scheduling, Vec<Topology<'v>>, Option<String>) {
        let Some(value) = scheduling else { return (Scheduling::None, Vec::new(), None) };
        let opaque = || Scheduling::Opaque(Arc::new(value.clone()));
        if value.get("writer").and_then(Value::as_str) != Some(WRITER) {
            return (opaque(), Vec::new(), None);
        }
        let read = topology::read(value).map_err(|e| format!("{}: {}", e.place, e.what));
        match read.and_then(|all| here(all, ranks)) {
            Err(why) => (opaque(), Vec::new(), Some(why)),
            Ok(topologies) => {
                let mut rest = value.as_object().cloned().unwrap_or_default();
                rest.remove("children");
                let entries = topologies.iter().map(|one| (one.ranks.clone(), one.topo.clone())).collect();
                (Scheduling::TreePool(Arc::new(TreePool { rest, entries })), topologies, None)
            }
        }
    }

    /// The key for this R, which is a part of the R that was read (of the machine or of an allocation).
    pub(crate) fn of(&self, r: &R) -> Option<Value> {
        match self {
            Scheduling::None | Scheduling::Site => None,
            Scheduling::Opaque(value) => Some(Value::clone(value)),
            Scheduling::TreePool(pool) => Some(pool.of(&r.ranks())),
        }
    }
}

/// The topologies of an R of these ranks, with the ranks of this instance.
fn here<'v>(mut all: Vec<Topology<'v>>, ranks: &Idset) -> Result<Vec<Topology<'v>>, String> {
    let named = all.iter().fold(Idset::new(), |named, one| named.union(&one.ranks));
    let direct = ranks.is_subset(&named);
    if !direct && ranks.len() != named.len() {
        return Err(format!("scheduling.children: {} ranks, but R_lite has {}", named.len(), ranks.len()));
    }
    for one in &mut all {
        one.ranks = if direct {
            one.ranks.intersection(ranks)
        } else {
            one.ranks.iter().filter_map(|rank| ranks.nth(named.position(rank)?)).collect()
        };
    }
    all.retain(|one| !one.ranks.is_empty());
    Ok(all)
}

impl TreePool {
    /// The part about these ranks (RFC 49: entries without ranks are dropped, topologies are unchanged).
    fn of(&self, ranks: &Idset) -> Value {
        let trimmed = |(of, topo): &(Idset, Value)| {
            let ranks = of.intersection(ranks);
            (!ranks.is_empty()).then(|| json!({"ranks": ranks.to_string(), "topo": topo}))
        };
        let mut scheduling = self.rest.clone();
        scheduling.insert("children".to_owned(), self.entries.iter().filter_map(trimmed).collect());
        Value::Object(scheduling)
    }
}

/// Adds the content of a locality, and of the localities in it: its cores and gpus, then those in it.
pub(super) fn inside(d: &mut Description, at: Inside<'_>, locality: &Locality<'_>) -> Result<(), ModelError> {
    for type_ in ["core", "gpu"] {
        for (_, part) in &locality.parts {
            match part {
                Part::Members(of, ids) if *of == type_ => at.members(d, type_, ids)?,
                _ => {}
            }
        }
    }
    for (type_, part) in &locality.parts {
        let Part::Localities(list) = part else { continue };
        for (id, smaller) in (0..).zip(list) {
            let vertex = at.add(d, Said { type_, id: Some(id), ..Said::default() })?;
            inside(d, Inside { vertex, ..at }, smaller)?;
        }
    }
    Ok(())
}
