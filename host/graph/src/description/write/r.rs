//! Writing a model as R (RFC 20): nodes with their cores and GPUs; with `scheduling` also the whole graph.
//!
//! This module must never know the use of R.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::rset::{Children, R};
use fluxgate_formats::{Hostlist, Idset};

use crate::description::error::LoadError;
use crate::description::model::CONTAINMENT;
use crate::description::model::Model;
use crate::description::vertex::VertexId;

/// Types of resources that R names on nodes.
const NAMED: [&str; 2] = ["core", "gpu"];

impl Model {
    /// The nodes of the model with their cores, GPUs and properties; with `scheduling` also the whole graph (RFC 40,
    /// writer `fluxion:jgf`), so that nothing is lost. If no node has a rank, nodes get ranks from 0 in their order.
    /// A property with a value is written as `name=value`.
    ///
    /// # Errors
    /// The model has no node, or R cannot express it: two nodes of one rank, ranks of some nodes only, a node without
    /// cores and GPUs, two cores of one id on a node, a name that is no host name.
    pub fn to_r(&self, scheduling: bool) -> Result<R, LoadError> {
        let nodes: Vec<VertexId> = self
            .vertices()
            .filter(|v| self.vertex(*v).is_some_and(|it| self.text(it.type_()) == "node"))
            .collect();
        let ranked = nodes.iter().filter(|v| self.vertex(**v).is_some_and(|it| it.rank().is_some())).count();
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        let mut properties: BTreeMap<String, Idset> = BTreeMap::new();
        let mut all: Vec<(u32, &str, Children)> = Vec::new();
        for (index, &v) in nodes.iter().enumerate() {
            let Some(it) = self.vertex(v) else { continue };
            let name = self.text(it.name());
            let fault = |what: String| LoadError::new("R", format!("node '{name}'"), what);
            let rank = if ranked == 0 { Some(index as i64) } else { it.rank() };
            let rank = rank.and_then(|rank| u32::try_from(rank).ok());
            let rank = rank.ok_or_else(|| fault("no rank found, which other nodes have".to_owned()))?;
            if !seen.insert(rank) {
                return Err(fault(format!("rank {rank} is another node's")));
            }
            Hostlist::new().push(name).map_err(|e| fault(e.to_string()))?;
            let children = self.named_on(v).map_err(fault)?;
            if children.is_empty() {
                return Err(fault("no cores and no GPUs found; R cannot name a node without".to_owned()));
            }
            for (key, value) in self.properties(v) {
                let key = if value.is_empty() { key.to_owned() } else { format!("{key}={value}") };
                properties.entry(key).or_default().insert(rank);
            }
            all.push((rank, name, children));
        }
        if all.is_empty() {
            return Err(LoadError::new(
                "R",
                "graph",
                "no vertex of type 'node' found; at least one is needed",
            ));
        }
        let mut r = R::from_nodes(all);
        r.properties = properties;
        if scheduling {
            let mut graph = self.to_jgf();
            if let Some(graph) = graph.as_object_mut() {
                graph.insert("writer".to_owned(), "fluxion:jgf".into());
            }
            r.scheduling = Some(graph);
        }
        Ok(r)
    }

    /// Cores and GPUs below a vertex.
    fn named_on(&self, node: VertexId) -> Result<Children, String> {
        let mut children = Children::new();
        let Some(containment) = self.name(CONTAINMENT) else { return Ok(children) };
        for v in self.subtree(node, containment) {
            let Some(it) = self.vertex(v) else { continue };
            let Some(type_) = NAMED.into_iter().find(|type_| self.text(it.type_()) == *type_) else {
                continue;
            };
            let id = it.id().and_then(|id| u32::try_from(id).ok());
            let id = id.ok_or_else(|| format!("'{}' has no id that R can name", self.text(it.name())))?;
            if !children.entry(type_.to_owned()).or_default().insert(id) {
                return Err(format!("two of type {type_} with id {id} found; R names them by ids"));
            }
        }
        Ok(children)
    }
}
