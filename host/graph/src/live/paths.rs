//! Vertices by containment path: status and properties that a site's services set while jobs run.
//!
//! This module must never know the origin of a request.

use std::sync::Arc;

use fluxgate_formats::Idset;
use serde::{Deserialize, Serialize};

use crate::layout::graph::Graph;
use crate::layout::rules::{Rules, SiteRules};
use crate::layout::site::{SetValue, Spot};
use crate::live::index::Status;
use crate::live::resources::Resources;

/// Path prefix of nodes on machines without a site's graph: `/cluster0/HOST`.
const ROOT: &str = "/cluster0/";

/// No vertex has this containment path.
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
        let host = graph.names.get(host).ok_or_else(unknown)?;
        let all = 0..graph.nodes.len() as u32;
        let found: Vec<Spot> =
            all.filter(|node| graph.nodes[*node as usize].host == host).map(Spot::Node).collect();
        // On a machine with a graph the path is an alias, which must name one node.
        let clear = !found.is_empty() && (site.is_empty() && graph.site.is_none() || found.len() == 1);
        if clear { Ok(found) } else { Err(unknown()) }
    }

    /// True if a vertex of the machine has this containment path.
    pub fn has_path(&self, path: &str) -> bool {
        self.spots(path).is_ok()
    }

    /// Marks the vertex of a path up or down, with every vertex below it. Jobs that hold some of it keep it. A node
    /// is up when it is reported up and neither it nor a vertex above it is marked down. True if the mark changed.
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

    /// True if the vertex of a path is itself marked down.
    ///
    /// # Errors
    /// The path is unknown.
    pub fn is_marked_down(&self, path: &str) -> Result<bool, UnknownPath> {
        Ok(self.spots(path)?.into_iter().any(|spot| self.machine.levels.is_marked(spot)))
    }

    /// Marks a vertex, and updates the nodes below it.
    pub(crate) fn mark(&mut self, spot: Spot, down: bool) -> bool {
        let graph = self.machine.graph.clone();
        if !self.machine.levels.mark(&graph, spot, down) {
            return false;
        }
        if let Spot::Upper(at) = spot {
            for below in at as usize..graph.upper_below(at as usize) {
                let down = self.machine.levels.down().is_some_and(|down| down.contains(below));
                self.machine.ledger.set_down(&graph, below, down);
            }
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

    /// Sets a property of the vertex of a path to a value, in place of an earlier value. Constraints (RFC 31) on a
    /// node see it from then on. The R of jobs does not contain it.
    ///
    /// # Errors
    /// The path is unknown; nothing was changed.
    pub fn set_vertex_property(&mut self, path: &str, key: &str, value: &str) -> Result<(), UnknownPath> {
        self.set_vertex_properties(&[path], key, Some(value)).map(drop)
    }

    /// Removes a property from the vertex of a path. It is no error if the vertex does not have it.
    ///
    /// # Errors
    /// The path is unknown; nothing was changed.
    pub fn remove_vertex_property(&mut self, path: &str, key: &str) -> Result<(), UnknownPath> {
        self.set_vertex_properties(&[path], key, None).map(drop)
    }

    /// Sets a property of the vertices of several paths to a value, or with `None` removes it. True if placements may
    /// change: a node gained or lost the property.
    ///
    /// # Errors
    /// The first path that is unknown; nothing was changed.
    pub fn set_vertex_properties<P: AsRef<str>>(
        &mut self,
        paths: &[P],
        key: &str,
        value: Option<&str>,
    ) -> Result<bool, UnknownPath> {
        let mut spots = Vec::with_capacity(paths.len());
        for path in paths {
            spots.extend(self.spots(path.as_ref())?);
        }
        let (mut nodes, mut news) = (Vec::new(), Vec::new());
        for spot in spots {
            let has = matches!(spot, Spot::Node(node) if self.graph().has(node, key));
            let before = self.machine.set_values.get(&spot).and_then(|values| values.get(key));
            let mut added = before.is_some_and(|before| before.added);
            let new = match value {
                Some(text) => {
                    added |= before.is_none() && matches!(spot, Spot::Node(_)) && !has;
                    Some(SetValue { value: Some(text.into()), added })
                }
                // The value in the machine's description is hidden.
                None => {
                    let hidden = before.is_some_and(|before| before.value.is_none());
                    let own = hidden || !added && (has || self.label_value(spot, key).is_some());
                    own.then_some(SetValue { value: None, added: false })
                }
            };
            if let Spot::Node(node) = spot
                && has != value.is_some()
            {
                nodes.push((node, added));
            }
            if before != new.as_ref() {
                news.push((spot, new));
            }
        }
        if !news.is_empty() {
            let all = Arc::make_mut(&mut self.machine.set_values);
            for (spot, new) in news {
                let values = all.entry(spot).or_default();
                match new {
                    Some(new) => drop(values.insert(key.into(), new)),
                    None => drop(values.remove(key)),
                }
                if values.is_empty() {
                    all.remove(&spot);
                }
            }
        }
        if nodes.is_empty() {
            return Ok(false);
        }
        let ranks: Idset = nodes.iter().map(|(node, _)| self.graph().nodes[*node as usize].rank).collect();
        if value.is_some() {
            self.property_add(key, &ranks);
        } else {
            self.property_remove(key, &ranks);
        }
        let graph = Arc::make_mut(&mut self.machine.graph);
        let name = graph.names.intern(key);
        for (node, added) in nodes {
            for (marked, is_in) in
                [(&mut graph.added, value.is_some() && added), (&mut graph.hidden, value.is_none() && !added)]
            {
                match is_in {
                    true => marked.insert((node, name)),
                    false => marked.remove(&(node, name)),
                };
            }
        }
        Ok(true)
    }

    /// Sets what the site decides about the resources of jobs beside their jobspecs. Whether a request fits is asked anew;
    /// [`SiteRules::nodes_below`] holds for the requests that are compiled from then on.
    pub fn set_site_rules(&mut self, rules: &SiteRules) {
        if self.graph().rules.said == *rules {
            return;
        }
        let graph = Arc::make_mut(&mut self.machine.graph);
        graph.rules = Rules::of(graph, rules.clone());
        self.forget_answers(0..self.graph().nodes.len() as u32, true);
    }

    /// The types and properties in these rules that no vertex of this machine has, in words; empty if all are there.
    pub fn missing_of(&self, rules: &SiteRules) -> Vec<String> {
        let graph = self.graph();
        let there =
            |type_: &&String| graph.names.get(type_).is_some_and(|name| graph.upper_of.contains_key(&name));
        let types = rules.by_unit.iter().filter(|type_| !there(type_)).map(|type_| format!("type '{type_}'"));
        let properties =
            rules.nodes_below.values().filter(|property| graph.having(property).next().is_none());
        types.chain(properties.map(|property| format!("property '{property}'"))).collect()
    }

    /// The value of a property of a vertex in the graph of the site.
    fn label_value(&self, spot: Spot, key: &str) -> Option<&str> {
        self.graph().site.as_ref()?.label(spot).values.get(key).map(|value| &**value)
    }

    /// The values of a property of the vertices of a path, as they were set last; empty if there are none.
    ///
    /// # Errors
    /// The path is unknown.
    pub fn vertex_property(&self, path: &str, key: &str) -> Result<Vec<String>, UnknownPath> {
        let graph = self.graph();
        let value = |spot: Spot| {
            if let Some(set) = self.machine.set_values.get(&spot).and_then(|values| values.get(key)) {
                return set.value.as_ref().map(ToString::to_string);
            }
            let plain = || matches!(spot, Spot::Node(node) if graph.has(node, key)).then(String::new);
            self.label_value(spot, key).map(str::to_owned).or_else(plain)
        };
        Ok(self.spots(path)?.into_iter().filter_map(value).collect())
    }
}

/// Marks and properties that were set while jobs ran, by path: the difference to the machine as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VertexMarks {
    /// Vertices that are marked down.
    pub down: Vec<String>,
    /// Vertices that are up although the machine's description says they are down.
    pub up: Vec<String>,
    /// Path, property and value; `None` for a property that was removed.
    pub properties: Vec<(String, String, Option<String>)>,
}

impl VertexMarks {
    /// True if there is no difference.
    pub fn is_empty(&self) -> bool {
        self.down.is_empty() && self.up.is_empty() && self.properties.is_empty()
    }
}

impl Resources {
    /// The path of a vertex.
    fn path_of(&self, spot: Spot) -> String {
        let graph = self.graph();
        let label = graph.site.as_ref().map(|site| &*site.label(spot).path).filter(|path| !path.is_empty());
        match (label, spot) {
            (Some(path), _) => path.to_owned(),
            (None, Spot::Node(node)) => format!("{ROOT}{}", graph.host(node)),
            (None, Spot::Upper(_)) => String::new(),
        }
    }

    /// The marks and properties that were set since the machine was read.
    pub fn vertex_marks(&self) -> VertexMarks {
        let levels = &self.machine.levels;
        let site = self.graph().site.as_ref();
        let said =
            |spot: &Spot| matches!(spot, Spot::Upper(_)) && site.is_some_and(|site| site.label(*spot).down);
        let down = levels.marked().filter(|spot| !said(spot)).map(|spot| self.path_of(spot));
        let up = site.into_iter().flat_map(|site| site.down()).map(Spot::Upper);
        let up = up.filter(|spot| !levels.is_marked(*spot)).map(|spot| self.path_of(spot));
        let mut marks = VertexMarks { down: down.collect(), up: up.collect(), properties: Vec::new() };
        // Nodes of equal host names have one path.
        marks.down.dedup();
        marks.up.dedup();
        for (spot, values) in &*self.machine.set_values {
            let path = self.path_of(*spot);
            for (key, set) in values {
                let value = set.value.as_ref().map(ToString::to_string);
                marks.properties.push((path.clone(), key.to_string(), value));
            }
        }
        marks.properties.dedup();
        marks
    }

    /// Sets the marks and properties of [`vertex_marks`](Self::vertex_marks) on a machine that was read again. Returns
    /// the paths that it does not have, which are left out.
    pub fn restore_marks(&mut self, marks: &VertexMarks) -> Vec<String> {
        let mut unknown = Vec::new();
        let mut note = |result: Result<bool, UnknownPath>| unknown.extend(result.err().map(|error| error.0));
        for (paths, up) in [(&marks.down, false), (&marks.up, true)] {
            paths.iter().for_each(|path| note(self.set_vertex_status(path, up)));
        }
        for (path, key, value) in &marks.properties {
            note(self.set_vertex_properties(&[path], key, value.as_deref()));
        }
        unknown
    }

    /// Ranks that are reported up, including those that a mark keeps down.
    pub fn reported_up(&self) -> Idset {
        let graph = self.graph();
        let held = self.machine.levels.held_back().filter(|node| (*node as usize) < graph.nodes.len());
        self.up().union(&held.map(|node| graph.nodes[node as usize].rank).collect())
    }
}

impl Graph {
    /// True if a node has this property.
    fn has(&self, node: u32, key: &str) -> bool {
        self.names.get(key).is_some_and(|name| self.props.contains(self.nodes[node as usize].props, name))
    }
}
