//! The flow that R describes (`scheduling.flow`), as vertices and edges of a description.
//!
//! This module must never know the kind of flow.

use std::collections::BTreeMap;

use fluxgate_formats::rset::R;

use crate::description::error::LoadError;
use crate::description::flow;
use crate::description::model::{ModelError, Relation};
use crate::description::runs::{Description, Said};

/// Adds the pools that feed these nodes, given by rank.
pub(super) fn add(d: &mut Description, r: &R, nodes: &BTreeMap<u32, u32>) -> Result<(), LoadError> {
    let Some(flow) = flow::key(r.scheduling.as_ref()) else { return Ok(()) };
    let fault = |why: String| LoadError::new("R", "scheduling.flow", why);
    let wrong = |error: ModelError| fault(error.to_string());
    for subsystem in flow::sound(flow, r).map_err(fault)? {
        let relation = Relation::of(&subsystem.name, flow::RELATION, "");
        let mut known: BTreeMap<usize, u32> = BTreeMap::new();
        let mut vertex = |d: &mut Description, at: usize| {
            if let Some(known) = known.get(&at) {
                return Ok(*known);
            }
            let it = &subsystem.pools[at];
            let (type_, name, unit, size) = (&*it.type_, &*it.name, &*it.unit, it.size);
            let said = Said { type_, name, unit, size, id: Some(-1), rank: -1, ..Said::default() };
            let id = d.add(said).map_err(wrong)?;
            known.insert(at, id);
            Ok(id)
        };
        for (from, to) in subsystem.edges() {
            let from = vertex(d, from)?;
            let to = match to {
                Ok(rank) => nodes.get(&rank).copied(),
                Err(pool) => Some(vertex(d, pool)?),
            };
            if let Some(to) = to {
                d.connect_row(from, to, 1, &relation).map_err(wrong)?;
            }
        }
    }
    Ok(())
}
