//! Vertices by containment path: status and properties that a site's services set while jobs run.
//!
//! This module must never know who asks.

use std::sync::Arc;

use fluxgate_formats::Idset;

use crate::layout::graph::{Graph, SetValue};
use crate::layout::site::Spot;
use crate::live::index::Status;
use crate::live::resources::Resources;

/// Where machines without a graph of their own have their nodes: `/cluster0/HOST`.
const ROOT: &str = "/cluster0/";

/// No vertex has this path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not find path '{0}' in resource graph")]
pub struct UnknownPath(pub String);

impl Resources {
    /// The vertices of a path: upper vertices and nodes, several where hosts of one name have several ranks.
    fn spots(&self, path: &str) -> Result<Vec<Spot>, UnknownPath> {
        let graph = self.graph();
        let site = graph.site.as_ref().map_or(&[][..], |site| site.find(path));
        if !site.is_empty() {
            return Ok(site.to_vec());
        }
        let unknown = || UnknownPath(path.to_owned());
        let host = path.strip_prefix(ROOT).ok_or_else(unknown)?;
        let all = 0..graph.nodes.len() as u32;
        let found: Vec<Spot> = all.filter(|node| graph.host(*node) == host).map(Spot::Node).collect();
        // With a graph the path is an alias, which must mean one node.
        let clear = !found.is_empty() && (site.is_empty() && graph.site.is_none() || found.len() == 1);
        if clear { Ok(found) } else { Err(unknown()) }
    }

    /// Whether a path is known.
    pub fn has_path(&self, path: &str) -> bool {
        self.spots(path).is_ok()
    }

    /// Marks the vertex of a path up or down, with everything below it. Jobs that hold any of it keep it. A node is used
    /// when it is reported up and neither it nor anything above it is marked down. True when that was news.
    ///
    /// # Errors
    /// The path is unknown; nothing was changed.
    pub fn set_vertex_status(&mut self, path: &str, up: bool) -> Result<bool, UnknownPath> {
        let spots = self.spots(path)?;
        let mut any = false;
        for spot in spots {
            any |= self.mark(spot, !up);
        }
        Ok(any)
    }

    /// Is the vertex of a path marked down itself?
    pub fn is_marked_down(&self, path: &str) -> Result<bool, UnknownPath> {
        Ok(self.spots(path)?.into_iter().any(|spot| self.machine.levels.is_marked(spot)))
    }

    /// Marks a vertex, and takes along the nodes below it.
    pub(crate) fn mark(&mut self, spot: Spot, down: bool) -> bool {
        let graph = self.machine.graph.clone();
        if !self.machine.levels.mark(&graph, spot, down) {
            return false;
        }
        let nodes = match spot {
            Spot::Upper(at) => graph.upper_nodes[at as usize].0..graph.upper_nodes[at as usize].1,
            Spot::Node(node) => node..node + 1,
        };
        for node in nodes.clone() {
            let held = self.machine.levels.holds_back(&graph, node);
            match self.machine.index.status(node) {
                Status::Up if held => {
                    self.machine.levels.report(node, true);
                    self.turn(node, Status::Down);
                }
                Status::Down if !held && self.machine.levels.report(node, false) => {
                    self.turn(node, Status::Up);
                }
                _ => {}
            }
        }
        let upper = matches!(spot, Spot::Upper(_));
        if !down {
            self.help(nodes, upper);
        }
        self.changed(!down, true);
        true
    }

    /// Gives the vertex of a path a property with a value, in place of an earlier value. On a node it counts in
    /// constraints (RFC 31) from then on; it is no part of the R of jobs.
    ///
    /// # Errors
    /// The path is unknown; nothing was changed.
    pub fn set_vertex_property(&mut self, path: &str, key: &str, value: &str) -> Result<(), UnknownPath> {
        for spot in self.spots(path)? {
            let mut added = false;
            if let Spot::Node(node) = spot
                && !self.graph().has(node, key)
            {
                let rank = self.graph().nodes[node as usize].rank;
                self.property_add(key, &Idset::from(rank));
                added = true;
            }
            let graph = Arc::make_mut(&mut self.machine.graph);
            let values = graph.set_values.entry(spot).or_default();
            added |= values.get(key).is_some_and(|before| before.added);
            values.insert(key.into(), SetValue { value: value.into(), added });
        }
        Ok(())
    }

    /// Takes a property from the vertex of a path; one that it does not have is no error.
    ///
    /// # Errors
    /// The path is unknown; nothing was changed.
    pub fn remove_vertex_property(&mut self, path: &str, key: &str) -> Result<(), UnknownPath> {
        for spot in self.spots(path)? {
            if let Spot::Node(node) = spot
                && self.graph().has(node, key)
            {
                let rank = self.graph().nodes[node as usize].rank;
                self.property_remove(key, &Idset::from(rank));
            }
            if self.graph().set_values.contains_key(&spot) {
                let graph = Arc::make_mut(&mut self.machine.graph);
                graph.set_values.entry(spot).or_default().remove(key);
                graph.set_values.retain(|_, values| !values.is_empty());
            }
        }
        Ok(())
    }

    /// The values of a property of the vertices of a path, as they were set last; empty for none.
    ///
    /// # Errors
    /// The path is unknown.
    pub fn vertex_property(&self, path: &str, key: &str) -> Result<Vec<String>, UnknownPath> {
        let graph = self.graph();
        let value = |spot: Spot| {
            let set = graph.set_values.get(&spot).and_then(|values| Some(&values.get(key)?.value));
            let site = || graph.site.as_ref()?.label(spot).values.get(key);
            let plain = || matches!(spot, Spot::Node(node) if graph.has(node, key)).then(String::new);
            set.or_else(site).map(|value| value.to_string()).or_else(plain)
        };
        Ok(self.spots(path)?.into_iter().filter_map(value).collect())
    }
}

impl Graph {
    /// Has a node this property?
    fn has(&self, node: u32, key: &str) -> bool {
        self.names.get(key).is_some_and(|name| self.props.contains(self.nodes[node as usize].props, name))
    }
}
