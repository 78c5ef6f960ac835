//! Reading JGF (RFC 40) as a whole model, with what the graph scheduler of Flux adds to it.
//!
//! # Interpretations
//!
//! - A vertex is `{"id", "metadata": {"type", ...}}`. Of the metadata `basename`, `name`, `id`, `uniq_id`, `rank`,
//!   `size`, `unit`, `status`, `properties`, `paths`, `tags` and `uuid` have a meaning; all other keys are kept as
//!   extended data. Defaults are those of the shorthand: `basename` is the type, `uniq_id` the number in the vertex
//!   `id`, `id` the number at the end of a node's name and else `uniq_id`, `name` basename and id, `size` 1.
//! - `status` is a number (0 up, 1 down) or a word of RFC 4.
//! - An edge is `{"source", "target", "metadata"}` with `subsystem` and `relationship`, or the older `{"name":
//!   {"containment": "contains"}}`. The default subsystem is containment; the default relationship is `contains`
//!   there and [`LINKED`] elsewhere. `"directed": false` makes an edge go both ways.
//! - An edge `in` is the opposite of a `contains` edge, which must be there; it is not stored twice.
//! - The root of a subsystem is the vertex with a path of one name there; without paths, the one without an edge to
//!   it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fluxgate_formats::Idset;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::description::error::LoadError;
use crate::description::model::CONTAINMENT;
use crate::description::model::{CONTAINS, Direction, Model, ModelError, Relation};
use crate::description::vertex::{EdgeId, Pool, State, VertexId};

/// The default type of an edge outside containment.
pub(crate) const LINKED: &str = "linked_to";

#[derive(Deserialize)]
pub(crate) struct Document {
    graph: Option<JsonGraph>,
    scheduling: Option<Box<Document>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
pub(crate) struct JsonGraph {
    pub(crate) nodes: Vec<JsonNode>,
    #[serde(default)]
    pub(crate) edges: Vec<JsonEdge>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
pub(crate) struct JsonNode {
    pub(crate) id: String,
    pub(crate) metadata: Metadata,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
pub(crate) struct Metadata {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    basename: Option<String>,
    name: Option<String>,
    id: Option<i64>,
    uniq_id: Option<i64>,
    rank: Option<i64>,
    size: Option<i64>,
    unit: Option<String>,
    status: Option<Value>,
    properties: Option<Properties>,
    paths: Option<BTreeMap<String, String>>,
    tags: Option<BTreeMap<String, Vec<String>>>,
    uuid: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Properties {
    List(Vec<String>),
    Map(BTreeMap<String, String>),
}

#[derive(Deserialize)]
pub(crate) struct JsonEdge {
    pub(crate) source: String,
    pub(crate) target: String,
    directed: Option<bool>,
    relation: Option<String>,
    metadata: Option<EdgeMetadata>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct EdgeMetadata {
    subsystem: Option<String>,
    relationship: Option<String>,
    opposite: Option<String>,
    name: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

pub(crate) fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("JGF", place, what)
}

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
    /// Source and target of each edge, by the ids of the text.
    pub edges: Vec<(String, String)>,
    /// The ranks under `free_ranks`: ranks that the job has released already.
    pub free_ranks: BTreeSet<i64>,
}

impl JgfClaims {
    /// Reads a JGF text, or the one in the `scheduling` of an R.
    pub fn read(text: &str) -> Result<JgfClaims, LoadError> {
        claims(text)
    }
}

fn claims(text: &str) -> Result<JgfClaims, LoadError> {
    let (graph, around) = parse(text)?;
    let mut free = BTreeSet::new();
    if let Some(ranks) = around.get("free_ranks") {
        let text = ranks.as_str().map_or_else(|| ranks.to_string(), str::to_owned);
        let ids: Idset = text.parse().map_err(|e| fault("free_ranks", format!("{e}")))?;
        free = ids.iter().map(i64::from).collect();
    }
    let mut claims: Vec<JgfClaim> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for node in &graph.nodes {
        let place = format!("node '{}'", node.id);
        if !seen.insert(&node.id) {
            return Err(fault(place, "this id was used before"));
        }
        let pool = pool(&node.id, &node.metadata, &|key| format!("{place}.metadata.{key}"))?;
        claims.push(JgfClaim {
            id: node.id.clone(),
            paths: node.metadata.paths.clone().unwrap_or_default(),
            pool,
            exclusive: node.metadata.rest.get("exclusive") == Some(&Value::Bool(true)),
        });
    }
    let edges = graph.edges.iter().map(|e| (e.source.clone(), e.target.clone())).collect();
    Ok(JgfClaims { vertices: claims, edges, free_ranks: free })
}

/// The message of the parser without the position, which stands before it.
pub(crate) fn syntax(e: &serde_json::Error) -> LoadError {
    let text = e.to_string();
    let words = text.split(" at line ").next().unwrap_or(&text);
    fault(format!("line {} column {}", e.line(), e.column()), words)
}

/// The graph of a text, and the document around it.
pub(crate) fn parse(text: &str) -> Result<(JsonGraph, Map<String, Value>), LoadError> {
    let document: Document = serde_json::from_str(text).map_err(|e| syntax(&e))?;
    let (graph, mut around) = match (document.graph, document.scheduling) {
        (Some(graph), _) => (Some(graph), document.rest),
        (None, Some(inner)) => (inner.graph, inner.rest),
        (None, None) => (None, Map::new()),
    };
    let mut graph = graph.ok_or_else(|| fault("text", "no key 'graph' found; it is needed"))?;
    let rest = std::mem::take(&mut graph.rest);
    if !rest.is_empty() {
        around.insert("graph".to_owned(), Value::Object(rest));
    }
    Ok((graph, around))
}

/// The model that a text describes.
pub(crate) fn load(text: &str) -> Result<Model, LoadError> {
    let (graph, around) = parse(text)?;
    let mut model = Model { document: around, ..Model::default() };
    model.add_jgf(graph, &mut HashMap::new())?;
    Ok(model)
}

impl Model {
    /// Adds the vertices of a JGF text that the model lacks, with their edges. A vertex is known if one of its paths
    /// leads to a vertex of its rank. On an error the model is left half changed.
    pub fn attach_jgf(&mut self, text: &str) -> Result<(), LoadError> {
        let mut graph = parse(text)?.0;
        let mut ids: HashMap<String, VertexId> = HashMap::new();
        let mut new = Vec::new();
        for node in graph.nodes {
            let rank = node.metadata.rank.unwrap_or(-1);
            let paths = node.metadata.paths.iter().flat_map(BTreeMap::values);
            let known =
                paths.flat_map(|path| self.at_path(path)).find(|v| self.vertices[v.index()].rank == rank);
            match known {
                Some(known) if ids.insert(node.id.clone(), known).is_some() => {
                    return Err(fault(format!("node '{}'", node.id), "this id was used before"));
                }
                Some(_) => {}
                None => new.push(node),
            }
        }
        graph.edges.retain(|e| !ids.contains_key(&e.source) || !ids.contains_key(&e.target));
        graph.nodes = new;
        self.add_jgf(graph, &mut ids)
    }

    /// Adds the vertices and edges of a graph; `ids` has the known vertices by id, and gets the new ones.
    pub(crate) fn add_jgf(
        &mut self,
        graph: JsonGraph,
        ids: &mut HashMap<String, VertexId>,
    ) -> Result<(), LoadError> {
        let mut paths: Vec<(VertexId, BTreeMap<String, String>)> = Vec::new();
        let mut places: BTreeMap<VertexId, String> = BTreeMap::new();
        for node in graph.nodes {
            let place = format!("node '{}'", node.id);
            let vertex = self.add_node(node, ids, &mut paths, &place)?;
            places.insert(vertex, place);
        }
        let mut opposites: Vec<(usize, VertexId, VertexId, String)> = Vec::new();
        for (index, edge) in graph.edges.into_iter().enumerate() {
            self.add_edge(index, edge, ids, &mut opposites)?;
        }
        for (index, child, parent, subsystem) in opposites {
            let there = self.out_edges(parent).any(|e| {
                let e = &self.edges[e.index()];
                e.to == child && self.text(e.subsystem) == subsystem && self.text(e.type_) == CONTAINS
            });
            if !there {
                let what = "an edge 'in' found without the edge 'contains' that it is the opposite of";
                return Err(fault(format!("edge {index}"), what));
            }
        }
        self.settle_paths(paths, &places)?;
        self.finish().map_err(|e| {
            let place = match &e {
                ModelError::TwoParents(v)
                | ModelError::Cycle(v)
                | ModelError::TwoRoots(v)
                | ModelError::TooDeep(v) => places.get(v).cloned(),
                _ => None,
            };
            fault(place.unwrap_or_else(|| "graph".to_owned()), e.to_string())
        })
    }

    fn add_node(
        &mut self,
        node: JsonNode,
        ids: &mut HashMap<String, VertexId>,
        paths: &mut Vec<(VertexId, BTreeMap<String, String>)>,
        place: &str,
    ) -> Result<VertexId, LoadError> {
        let JsonNode { id, mut metadata, rest } = node;
        let here = |key: &str| format!("{place}.metadata.{key}");
        let pool = pool(&id, &metadata, &here)?;
        let vertex = self.add(pool).map_err(|e| fault(place, e.to_string()))?;
        if ids.insert(id, vertex).is_some() {
            return Err(fault(place, "this id was used before"));
        }
        if let Some(tags) = metadata.tags.take().filter(|tags| !tags.is_empty()) {
            self.tags.insert(vertex, tags);
        }
        if !metadata.rest.is_empty() {
            self.extended.insert(vertex, std::mem::take(&mut metadata.rest));
        }
        if !rest.is_empty() {
            self.outer.insert(vertex, rest);
        }
        if let Some(given) = metadata.paths.take() {
            paths.push((vertex, given));
        }
        Ok(vertex)
    }

    fn add_edge(
        &mut self,
        index: usize,
        edge: JsonEdge,
        ids: &HashMap<String, VertexId>,
        opposites: &mut Vec<(usize, VertexId, VertexId, String)>,
    ) -> Result<(), LoadError> {
        let place = format!("edge {index}");
        let end = |key: &str, id: &str| {
            let unknown = || fault(format!("{place}.{key}"), format!("'{id}' is no vertex of the graph"));
            ids.get(id).copied().ok_or_else(unknown)
        };
        let (from, to) = (end("source", &edge.source)?, end("target", &edge.target)?);
        let metadata = edge.metadata.unwrap_or(EdgeMetadata {
            subsystem: None,
            relationship: None,
            opposite: None,
            name: None,
            rest: Map::new(),
        });
        let older = metadata.name.unwrap_or_default().into_iter().next();
        let (older_subsystem, older_type) = older.unzip();
        let subsystem = metadata.subsystem.or(older_subsystem).unwrap_or_else(|| CONTAINMENT.to_owned());
        let type_ = metadata.relationship.or(older_type).or(edge.relation);
        let type_ =
            type_.unwrap_or_else(|| if subsystem == CONTAINMENT { CONTAINS } else { LINKED }.to_owned());
        if type_ == "in" {
            opposites.push((index, from, to, subsystem));
            return Ok(());
        }
        let opposite =
            metadata.opposite.unwrap_or_else(|| if type_ == CONTAINS { "in" } else { "" }.to_owned());
        let direction = if edge.directed == Some(false) { Direction::Both } else { Direction::Forward };
        let relation = Relation { subsystem, type_, opposite, direction };
        let id: EdgeId = self.connect(from, to, &relation).map_err(|e| fault(&*place, e.to_string()))?;
        if !metadata.rest.is_empty() {
            self.edge_extended.insert(id, metadata.rest);
        }
        if !edge.rest.is_empty() {
            self.edge_outer.insert(id, edge.rest);
        }
        Ok(())
    }

    /// Finds the roots by paths, and keeps the paths that do not follow from the edges.
    fn settle_paths(
        &mut self,
        paths: Vec<(VertexId, BTreeMap<String, String>)>,
        places: &BTreeMap<VertexId, String>,
    ) -> Result<(), LoadError> {
        for (vertex, given) in &paths {
            for (subsystem, path) in given {
                let place = || format!("{}.metadata.paths.{subsystem}", places[vertex]);
                if subsystem.is_empty() || !path.starts_with('/') || path.ends_with('/') {
                    let what = format!("'{path}' found; names that each follow a '/' are accepted");
                    return Err(fault(place(), what));
                }
                if path.matches('/').count() > 1 {
                    continue;
                }
                let subsystem = self.add_subsystem(subsystem);
                if self.roots.insert(subsystem, *vertex).is_some_and(|before| before != *vertex) {
                    return Err(fault(place(), "a second root of this subsystem found"));
                }
            }
        }
        for (vertex, given) in paths {
            for (subsystem, path) in given {
                let subsystem = self.add_subsystem(&subsystem);
                if self.derived_path(vertex, subsystem).as_deref() != Some(&path) {
                    self.odd_paths.insert((vertex, subsystem), path.into());
                }
            }
        }
        Ok(())
    }
}

/// The base data of a vertex.
fn pool(id: &str, data: &Metadata, here: &dyn Fn(&str) -> String) -> Result<Pool, LoadError> {
    if data.type_.is_empty() {
        return Err(fault(here("type"), "an empty text found; the name of a type is needed"));
    }
    let wrong = |key: &str, n: i64, accepted: &str| fault(here(key), format!("{n} found; {accepted}"));
    let unique = data.uniq_id.or_else(|| id.parse().ok());
    let number = match data.id {
        Some(n) if n < -1 => return Err(wrong("id", n, "-1 or more is accepted")),
        Some(n) => n,
        None => match data.name.as_deref().filter(|_| data.type_ == "node").and_then(trailing_number) {
            Some(n) => n,
            None => unique.filter(|&n| n >= 0).ok_or_else(|| {
                fault(here("id"), format!("nothing found, and the vertex id '{id}' is no number"))
            })?,
        },
    };
    let mut pool = Pool::new(&*data.type_, number);
    pool.unique = unique;
    pool.basename = data.basename.clone().unwrap_or_default();
    pool.unit = data.unit.clone().unwrap_or_default();
    // Variables in it are filled in, so that a machine may be described with variables.
    pool.name = data.name.clone().unwrap_or_default();
    pool.rank = match data.rank {
        Some(n) if !(-1..=i64::from(u32::MAX)).contains(&n) => {
            return Err(wrong("rank", n, "-1 or an execution target is accepted"));
        }
        rank => rank.unwrap_or(-1),
    };
    pool.size = match data.size {
        None => 1,
        Some(n) => u64::try_from(n).map_err(|_| wrong("size", n, "1 or more is accepted"))?,
    };
    pool.state = match &data.status {
        None => State::Up,
        Some(value) => status(value).ok_or_else(|| {
            let words = State::ALL.map(State::text).join(", ");
            fault(here("status"), format!("{value} found; 0 (up), 1 (down) or one of {words} is accepted"))
        })?,
    };
    pool.properties = match &data.properties {
        None => Vec::new(),
        Some(Properties::List(list)) => list.iter().map(|key| (key.clone(), String::new())).collect(),
        Some(Properties::Map(map)) => map.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
    };
    pool.uuid = data.uuid.clone().filter(|uuid| !uuid.is_empty());
    Ok(pool)
}

fn status(value: &Value) -> Option<State> {
    match value {
        Value::Number(n) => match n.as_u64()? {
            0 => Some(State::Up),
            1 => Some(State::Down),
            _ => None,
        },
        Value::String(text) => State::parse(text),
        _ => None,
    }
}

/// The number at the end of a name.
fn trailing_number(name: &str) -> Option<i64> {
    let start = name.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    let start = if name.is_char_boundary(start) { start } else { name.len() };
    name[start..].parse().ok()
}
