//! The flow that R describes (`scheduling.flow`), as vertices and edges of a model.
//!
//! This module must never know the kind of flow.

use std::collections::BTreeMap;

use fluxgate_formats::rset::R;

use crate::description::error::LoadError;
use crate::description::flow;
use crate::description::model::{Model, ModelError, Relation};
use crate::description::vertex::{Pool, VertexId};

/// Adds the pools that feed these nodes, given by rank.
pub(super) fn add(model: &mut Model, r: &R, nodes: &BTreeMap<u32, VertexId>) -> Result<(), LoadError> {
    let Some(flow) = flow::key(r.scheduling.as_ref()) else { return Ok(()) };
    let fault = |why: String| LoadError::new("R", "scheduling.flow", why);
    let wrong = |error: ModelError| fault(error.to_string());
    for subsystem in flow::sound(flow, r).map_err(fault)? {
        let relation = Relation::of(&subsystem.name, flow::RELATION, "");
        let mut known: BTreeMap<usize, VertexId> = BTreeMap::new();
        let mut vertex = |model: &mut Model, at: usize| {
            if let Some(known) = known.get(&at) {
                return Ok(*known);
            }
            let it = &subsystem.pools[at];
            let mut pool = Pool::new(&*it.type_, -1);
            (pool.name, pool.unit, pool.size) = (it.name.clone(), it.unit.clone(), it.size);
            let id = model.add(pool).map_err(wrong)?;
            known.insert(at, id);
            Ok(id)
        };
        for (from, to) in subsystem.edges() {
            let from = vertex(model, from)?;
            let to = match to {
                Ok(rank) => nodes.get(&rank).copied(),
                Err(pool) => Some(vertex(model, pool)?),
            };
            if let Some(to) = to {
                model.connect(from, to, &relation).map_err(wrong)?;
            }
        }
    }
    Ok(())
}
