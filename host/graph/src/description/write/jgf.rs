//! Writing a model as JGF (RFC 40) so that reading it gives the same model again.
//!
//! Keys with the default value of the reader are left out, as in the shorthand: a file of half a million vertices is
//! shorter for people and faster for programs.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::description::model::CONTAINMENT;
use crate::description::model::{CONTAINS, Direction, Model};
use crate::description::read::LINKED;
use crate::description::vertex::{EdgeId, State, VertexId};

impl Model {
    /// The model as JGF: all vertices and edges with all their data.
    pub fn to_jgf(&self) -> Value {
        let mut seen = BTreeSet::new();
        let distinct = self.vertices().all(|v| seen.insert(self.vertices[v.index()].unique));
        let id = |v: VertexId| match distinct {
            true => self.vertices[v.index()].unique.to_string(),
            false => v.index().to_string(),
        };
        let nodes: Vec<Value> = self.vertices().map(|v| self.node_value(v, id(v))).collect();
        let edges = (0..self.edge_count() as u32).map(EdgeId).filter(|e| !self.is_removed(*e));
        let edges: Vec<Value> = edges.map(|e| self.edge_value(e, &id)).collect();
        let mut document = self.document.clone();
        let mut graph = match document.remove("graph") {
            Some(Value::Object(rest)) => rest,
            _ => Map::new(),
        };
        graph.insert("nodes".to_owned(), Value::Array(nodes));
        graph.insert("edges".to_owned(), Value::Array(edges));
        document.insert("graph".to_owned(), Value::Object(graph));
        Value::Object(document)
    }

    fn node_value(&self, v: VertexId, id: String) -> Value {
        let it = &self.vertices[v.index()];
        let mut data = Map::new();
        data.insert("type".to_owned(), self.text(it.type_).into());
        if it.basename != it.type_ {
            data.insert("basename".to_owned(), self.text(it.basename).into());
        }
        let name = self.text(it.name);
        data.insert("id".to_owned(), it.id.into());
        data.insert("name".to_owned(), name.into());
        data.insert("uniq_id".to_owned(), it.unique.into());
        data.insert("rank".to_owned(), it.rank.into());
        if it.size != 1 {
            data.insert("size".to_owned(), it.size.into());
        }
        if !self.text(it.unit).is_empty() {
            data.insert("unit".to_owned(), self.text(it.unit).into());
        }
        if it.state != State::Up {
            data.insert("status".to_owned(), it.state.text().into());
        }
        if let Some(uuid) = self.uuid(v) {
            data.insert("uuid".to_owned(), uuid.into());
        }
        if let Some(properties) = self.properties.get(&v) {
            data.insert("properties".to_owned(), json!(properties));
        }
        if let Some(tags) = self.tags.get(&v) {
            data.insert("tags".to_owned(), json!(tags));
        }
        let paths = self.paths(v).into_iter().map(|(s, path)| (self.text(s).to_owned(), path.into()));
        data.insert("paths".to_owned(), Value::Object(paths.collect()));
        if let Some(rest) = self.extended.get(&v) {
            data.extend(rest.clone());
        }
        let mut node = Map::new();
        node.insert("id".to_owned(), id.into());
        node.insert("metadata".to_owned(), Value::Object(data));
        if let Some(rest) = self.outer.get(&v) {
            node.extend(rest.clone());
        }
        Value::Object(node)
    }

    fn edge_value(&self, id: EdgeId, node: &dyn Fn(VertexId) -> String) -> Value {
        let it = &self.edges[id.index()];
        let mut edge = Map::new();
        edge.insert("source".to_owned(), node(it.from).into());
        edge.insert("target".to_owned(), node(it.to).into());
        if it.direction == Direction::Both {
            edge.insert("directed".to_owned(), false.into());
        }
        let (subsystem, type_) = (self.text(it.subsystem), self.text(it.type_));
        let mut data = Map::new();
        if subsystem != CONTAINMENT {
            data.insert("subsystem".to_owned(), subsystem.into());
        }
        if type_ != if subsystem == CONTAINMENT { CONTAINS } else { LINKED } {
            data.insert("relationship".to_owned(), type_.into());
        }
        if self.text(it.opposite) != if type_ == CONTAINS { "in" } else { "" } {
            data.insert("opposite".to_owned(), self.text(it.opposite).into());
        }
        if let Some(rest) = self.edge_extended.get(&id) {
            data.extend(rest.clone());
        }
        if !data.is_empty() {
            edge.insert("metadata".to_owned(), Value::Object(data));
        }
        if let Some(rest) = self.edge_outer.get(&id) {
            edge.extend(rest.clone());
        }
        Value::Object(edge)
    }
}
