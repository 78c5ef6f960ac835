//! JGF of an allocation: the vertices that it claims, to be found in a model.
//!
//! This module must never know which vertices are free.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::Idset;
use serde_json::Value;

use crate::description::error::LoadError;
use crate::description::model::CONTAINMENT;
use crate::description::vertex::Pool;

use super::{fault, read};

/// A vertex that a JGF text claims, to be found in a model.
#[derive(Debug, Clone)]
pub struct JgfClaim {
    /// Its id in the text.
    pub id: String,
    /// Its paths by subsystem.
    pub paths: BTreeMap<String, String>,
    /// Its base data.
    pub pool: Pool,
    /// `exclusive: true` stands in its metadata.
    pub exclusive: bool,
}

/// The resources that a JGF text claims: an allocation (the `scheduling` of an R), not a machine.
#[derive(Debug, Clone)]
pub struct JgfClaims {
    /// The vertices, in order.
    pub vertices: Vec<JgfClaim>,
    /// Source and target of each edge, by the positions of the vertices.
    pub edges: Vec<(u32, u32)>,
    /// The ranks under `free_ranks`: ranks that the job has released already.
    pub free_ranks: BTreeSet<i64>,
}

impl JgfClaims {
    /// Reads a JGF text, or the one in the `scheduling` of an R.
    pub fn read(text: &str) -> Result<JgfClaims, LoadError> {
        let description = read(text)?;
        let mut free = BTreeSet::new();
        if let Some(ranks) = description.document.get("free_ranks") {
            let text = ranks.as_str().map_or_else(|| ranks.to_string(), str::to_owned);
            let ids: Idset = text.parse().map_err(|e| fault("free_ranks", format!("{e}")))?;
            free = ids.iter().map(i64::from).collect();
        }
        let mut vertices = Vec::new();
        for run in description.runs() {
            let pool = description.pool(run);
            let exclusive = description.extras(run).and_then(|extras| extras.extended.get("exclusive"));
            let mut paths = description.paths(run);
            for at in 0..run.count {
                if let Some(path) = description.path(run, at) {
                    paths.insert(CONTAINMENT.to_owned(), path);
                }
                vertices.push(JgfClaim {
                    id: description.file_id(run, at),
                    paths: paths.clone(),
                    pool: Pool { id: description.id(run, at).unwrap_or(-1), ..pool.clone() },
                    exclusive: exclusive == Some(&Value::Bool(true)),
                });
            }
        }
        let links = description.links().iter();
        let edges = links.flat_map(|link| link.targets().map(move |to| (link.from, to))).collect();
        Ok(JgfClaims { vertices, edges, free_ranks: free })
    }
}
