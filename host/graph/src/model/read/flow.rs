//! What R tells of flow (`scheduling.flow`) as vertices and edges of a model: what the scheduler's own graph makes of it.
//!
//! This module must never know what flows.

use std::collections::BTreeMap;

use fluxgate_formats::rset::R;

use crate::error::LoadError;
use crate::flow::read;
use crate::load::r;
use crate::model::graph::{Model, ModelError, Relation};
use crate::model::vertex::{Pool, VertexId};

/// Adds the pools that feed these nodes, given by rank.
pub(super) fn add(model: &mut Model, r: &R, nodes: &BTreeMap<u32, VertexId>) -> Result<(), LoadError> {
    if read::key(r.scheduling.as_ref()).is_none() {
        return Ok(());
    }
    let place = "scheduling.flow";
    let wrong = |e: ModelError| LoadError::new("R", place, e.to_string());
    let loaded = r::load(r)?;
    if let Some(why) = loaded.wrong_flow {
        return Err(LoadError::new("R", place, why));
    }
    let graph = loaded.graph;
    let mut known: BTreeMap<u32, VertexId> =
        graph.nodes.iter().filter_map(|node| Some((node.vertex, *nodes.get(&node.rank)?))).collect();
    for edge in graph.edges() {
        for end in [edge.from, edge.to] {
            let Some(vertex) = graph.vertex(end).filter(|_| !known.contains_key(&end.0)) else { continue };
            let mut pool = Pool::new(graph.text(vertex.type_), -1);
            pool.name = graph.vertex_name(end, 0).unwrap_or_default();
            pool.size = vertex.size;
            pool.unit = graph.text(vertex.unit).to_owned();
            known.insert(end.0, model.add(pool).map_err(wrong)?);
        }
        let relation = Relation::of(graph.text(edge.subsystem), graph.text(edge.type_), "");
        if let (Some(&from), Some(&to)) = (known.get(&edge.from.0), known.get(&edge.to.0)) {
            model.connect(from, to, &relation).map_err(wrong)?;
        }
    }
    Ok(())
}
