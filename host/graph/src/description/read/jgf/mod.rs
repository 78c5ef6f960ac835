//! Reading JGF (RFC 40), with what the graph scheduler of Flux adds to it, as a description.
//!
//! # Interpretations
//!
//! - A vertex is `{"id", "metadata": {"type", ...}}`. Of the metadata `basename`, `name`, `id`, `uniq_id`, `rank`,
//!   `size`, `unit`, `status`, `properties`, `paths`, `tags` and `uuid` have a meaning; all other keys are kept as
//!   extended data. Defaults are those of the shorthand: `basename` is the type, `uniq_id` the number in the vertex
//!   `id`, `id` the number at the end of a node's name and else `uniq_id`, `name` basename and id, `size` 1. `id` and
//!   `rank` of -1 mean none.
//! - `status` is a number (0 up, 1 down) or a word of RFC 4.
//! - An edge is `{"source", "target", "metadata"}` with `subsystem` and `relationship`, or the older `{"name":
//!   {"containment": "contains"}}`, which may name several subsystems. The default subsystem is containment; the
//!   default relationship is `contains` there and [`LINKED`] elsewhere. `"directed": false` makes an edge go both ways.
//! - An edge `in` is the opposite of an edge that must be there; it is not stored.
//! - The root of a subsystem is the vertex with a path of one name there; without paths, the one without an edge to
//!   it.
//!
//! The text is read as a stream: no more of it is held than the vertex or edge at hand. This module must never know
//! the use of a description.

mod claims;
mod edge;
mod keys;
mod lookup;
mod opposites;
mod vertex;

use std::collections::{BTreeMap, BTreeSet};

use serde::de::{DeserializeSeed as _, MapAccess, SeqAccess};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::description::error::LoadError;
use crate::description::model::{Model, Relation};
use crate::description::runs::Description;
use crate::description::vertex::VertexId;

use edge::JsonEdge;
use keys::{Items, Keys, List, Object};
use lookup::Lookup;
use opposites::Opposites;
use vertex::JsonVertex;

pub use claims::{JgfClaim, JgfClaims};

/// The default type of an edge outside containment.
pub(crate) const LINKED: &str = "linked_to";
/// Longest part of a value in a message, in characters.
const SHOWN_MAX: usize = 60;

pub(crate) fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("JGF", place, what)
}

/// The message of the parser without the position, which stands before it.
fn words(e: &serde_json::Error) -> String {
    let text = e.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// A document: the graph alone, or an R with a graph in its `scheduling`.
#[derive(Default)]
struct Document<'de> {
    graph: Option<&'de RawValue>,
    scheduling: Option<&'de RawValue>,
    rest: Map<String, Value>,
}

impl<'de> Keys<'de> for Document<'de> {
    fn key<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "graph" => self.graph = map.next_value()?,
            "scheduling" => self.scheduling = map.next_value()?,
            other => drop(self.rest.insert(other.to_owned(), map.next_value()?)),
        }
        Ok(())
    }
}

impl<'de> Document<'de> {
    fn read(text: &'de str, whole: &str) -> Result<Self, LoadError> {
        let mut document = Document::default();
        let mut from = serde_json::Deserializer::from_str(text);
        let read = Object(&mut document).deserialize(&mut from).and_then(|()| from.end());
        read.map_err(|e| fault(line_of(&e, text, whole), words(&e)))?;
        Ok(document)
    }
}

/// Where an error lies in the whole text; `part` is a slice of it, or another text.
fn line_of(e: &serde_json::Error, part: &str, whole: &str) -> String {
    let before = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize);
    let before = before.and_then(|before| whole.get(..before)).unwrap_or_default();
    let last = before.rsplit('\n').next().unwrap_or_default().len();
    let line = before.matches('\n').count() + e.line();
    let column = e.column() + if e.line() == 1 { last } else { 0 };
    format!("line {line} column {column}")
}

/// The description in a JGF text, or in the `scheduling` of an R.
pub(crate) fn read(text: &str) -> Result<Description, LoadError> {
    let mut document = Document::read(text, text)?;
    if document.graph.is_none()
        && let Some(inner) = document.scheduling
    {
        document = Document::read(inner.get(), text)?;
    }
    let none = || fault("text", "no key 'graph' found; JGF has one at its top, or R in its 'scheduling'");
    let graph = document.graph.ok_or_else(none)?;
    let mut made = read_graph(graph.get(), Some(text))?;
    for (key, value) in document.rest {
        made.document.insert(key, value);
    }
    Ok(made)
}

/// The description in a graph: the value of the key `graph`. Faults of its form are told with their line if it is a part
/// of a `whole` text.
pub(crate) fn read_graph(graph: &str, whole: Option<&str>) -> Result<Description, LoadError> {
    let mut reading = Reading::default();
    let mut from = serde_json::Deserializer::from_str(graph);
    let read = Object(&mut reading).deserialize(&mut from).and_then(|()| from.end());
    reading.checked(read, graph, whole)?;
    if let Some(edges) = reading.early.take() {
        let mut from = serde_json::Deserializer::from_str(edges.get());
        let read = List(&mut Edges(&mut reading)).deserialize(&mut from);
        reading.checked(read, edges.get(), whole)?;
    }
    reading.finish()
}

/// A graph as far as it was read.
#[derive(Default)]
struct Reading<'de> {
    made: Description,
    uuids: BTreeSet<String>,
    /// Vertices by their ids in the file, once all of them were read.
    ids: Option<Lookup>,
    opposites: Opposites,
    edge_count: usize,
    relations: Vec<Relation>,
    /// Edges that stand before the vertices.
    early: Option<&'de RawValue>,
    rest: Map<String, Value>,
    /// The list with the vertex or edge at hand.
    list: Option<&'static str>,
    /// A fault of the content.
    fault: Option<LoadError>,
}

impl Reading<'_> {
    /// The fault of the content, or of the form.
    fn checked(
        &mut self,
        read: Result<(), serde_json::Error>,
        part: &str,
        whole: Option<&str>,
    ) -> Result<(), LoadError> {
        if let Some(found) = self.fault.take() {
            return Err(found);
        }
        read.map_err(|e| {
            let item = match self.list {
                Some("nodes") => Some(format!("graph.nodes[{}]", self.made.vertex_count())),
                Some(_) => Some(edge::place(self.edge_count, "")),
                None => None,
            };
            let place: Vec<String> =
                whole.map(|whole| line_of(&e, part, whole)).into_iter().chain(item).collect();
            fault(if place.is_empty() { "graph".to_owned() } else { place.join(", ") }, words(&e))
        })
    }

    /// Keeps a fault of the content beside the parser, whose errors are texts.
    fn kept<E: serde::de::Error>(&mut self, result: Result<(), LoadError>) -> Result<(), E> {
        result.map_err(|found| {
            self.fault = Some(found);
            E::custom("")
        })
    }

    fn finish(self) -> Result<Description, LoadError> {
        let mut made = self.made;
        if self.ids.is_none() {
            return Err(fault("graph.nodes", "nothing found; an array of vertices is needed"));
        }
        self.opposites.check()?;
        made.settle();
        if !self.rest.is_empty() {
            made.document.insert("graph".to_owned(), Value::Object(self.rest));
        }
        Ok(made)
    }

    fn add_vertex(&mut self, vertex: JsonVertex<'_>) -> Result<(), LoadError> {
        let at = self.made.vertex_count();
        if let Some(uuid) = vertex.uuid()
            && !self.uuids.insert(uuid.to_owned())
        {
            let what = format!("the uuid '{uuid}' belongs to another vertex");
            return Err(fault(vertex.place(at, ""), what));
        }
        vertex.add(&mut self.made)
    }

    fn add_edge(&mut self, edge: JsonEdge<'_>) -> Result<(), LoadError> {
        let at = self.edge_count;
        let (source, target) = edge.ends(at)?;
        let ids = self.ids.get_or_insert_default();
        let mut find = |key: &str, id: &str| {
            let none = || fault(edge::place(at, key), format!("there is no vertex with id '{id}'"));
            ids.find(id).ok_or_else(none)
        };
        let (from, to) = (find(".source", source)?, find(".target", target)?);
        self.edge_count += 1;
        self.relations.clear();
        let mut extras = edge.relations(at, &mut self.relations)?;
        for relation in &self.relations {
            if relation.type_.eq_ignore_ascii_case("in") {
                self.opposites.opposite(at, from, to, &relation.subsystem);
                continue;
            }
            self.opposites.edge(from, to, &relation.subsystem);
            let added = self.made.connect(from, to, relation, std::mem::take(&mut extras));
            added.map_err(|error| fault(edge::place(at, ""), error.to_string()))?;
        }
        Ok(())
    }
}

impl<'de> Keys<'de> for Reading<'de> {
    fn key<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "nodes" => {
                map.next_value_seed(List(&mut Vertices(self)))?;
                let again = |number| self.made.fault(Some(number), ".id", "another vertex has this id");
                let ids = Lookup::of(&self.made).map_err(again).map(|ids| self.ids = Some(ids));
                self.kept(ids)?;
            }
            "edges" if self.ids.is_none() => self.early = map.next_value()?,
            "edges" => map.next_value_seed(List(&mut Edges(self)))?,
            other => drop(self.rest.insert(other.to_owned(), map.next_value()?)),
        }
        self.list = None;
        Ok(())
    }
}

/// The list of vertices.
struct Vertices<'r, 'de>(&'r mut Reading<'de>);

impl<'de> Items<'de> for Vertices<'_, 'de> {
    fn item<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        self.0.list = Some("nodes");
        let mut vertex = JsonVertex::default();
        if list.next_element_seed(Object(&mut vertex))?.is_none() {
            return Ok(false);
        }
        let added = self.0.add_vertex(vertex);
        self.0.kept(added).map(|()| true)
    }
}

/// The list of edges.
struct Edges<'r, 'de>(&'r mut Reading<'de>);

impl<'de> Items<'de> for Edges<'_, 'de> {
    fn item<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        self.0.list = Some("edges");
        let mut edge = JsonEdge::default();
        if list.next_element_seed(Object(&mut edge))?.is_none() {
            return Ok(false);
        }
        let added = self.0.add_edge(edge);
        self.0.kept(added).map(|()| true)
    }
}

impl Model {
    /// Adds the vertices of a JGF text that the model lacks, with their edges. A vertex is known if one of its paths
    /// leads to a vertex of its rank. On an error the model is left half changed.
    pub fn attach_jgf(&mut self, text: &str) -> Result<(), LoadError> {
        let description = read(text)?;
        let mut known: BTreeMap<u32, VertexId> = BTreeMap::new();
        for run in description.runs() {
            let others = description.paths(run).into_values();
            let mut found = others.flat_map(|path| self.at_path(&path));
            for number in run.numbers() {
                let it = match number - run.first {
                    0 => found.by_ref().find(|v| self.vertices[v.index()].rank == run.rank),
                    at => description
                        .path(run, at)
                        .into_iter()
                        .flat_map(|path| self.at_path(&path))
                        .find(|v| self.vertices[v.index()].rank == run.rank),
                };
                known.extend(it.map(|it| (number, it)));
            }
        }
        self.append(&description, &known)
    }
}
