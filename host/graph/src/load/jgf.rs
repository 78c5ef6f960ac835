//! Reading JGF, the JSON graph format (RFC 40), with what the Flux project's graph scheduler adds to it.
//!
//! # Readings taken
//!
//! - A vertex is `{"id", "metadata": {"type", ...}}`; of the metadata, `basename`, `name`, `id`, `size`, `unit`,
//!   `rank`, `properties` (a list, or an object with its keys) and `uuid` are used. `id` and `rank` of -1 mean none.
//!   Other keys (`uniq_id`, `exclusive`, `paths`, `status` ...) follow from the graph or belong to a scheduler's state.
//! - An edge is `{"source", "target", "metadata"}`. The metadata name the subsystem as RFC 40 does
//!   (`{"subsystem": "containment", "relationship": "contains"}`), without relationship, or in the older form
//!   `{"name": {"containment": "contains"}}`. Without metadata it is a containment edge, as newer writers leave it out.
//! - An edge `in` of containment is the opposite of a `contains` edge, which must be there.
//! - The text may be the graph alone, or R whose `scheduling` holds one.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::builder::{GraphBuilder, GraphError, Pool, PoolId};
use crate::error::LoadError;
use crate::graph::{CONTAINMENT, Graph};
use crate::names::Name;
use crate::vertex::Ids;

/// Longest text.
pub(crate) const BYTES_MAX: usize = 1 << 30;

#[derive(Deserialize)]
struct Document {
    graph: Option<JsonGraph>,
    scheduling: Option<Scheduling>,
}

#[derive(Deserialize)]
struct Scheduling {
    graph: JsonGraph,
}

#[derive(Deserialize)]
struct JsonGraph {
    nodes: Vec<JsonNode>,
    #[serde(default)]
    edges: Vec<JsonEdge>,
}

#[derive(Deserialize)]
struct JsonNode {
    id: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "type")]
    type_: String,
    basename: Option<String>,
    name: Option<String>,
    id: Option<i64>,
    size: Option<i64>,
    unit: Option<String>,
    rank: Option<i64>,
    properties: Option<Properties>,
    uuid: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Properties {
    List(Vec<String>),
    Map(BTreeMap<String, IgnoredAny>),
}

#[derive(Deserialize)]
struct JsonEdge {
    source: String,
    target: String,
    metadata: Option<EdgeMetadata>,
}

#[derive(Deserialize)]
struct EdgeMetadata {
    subsystem: Option<String>,
    relationship: Option<String>,
    name: Option<BTreeMap<String, String>>,
}

fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("JGF", place, what)
}

/// The machine that a JGF text describes.
pub(crate) fn load(text: &str) -> Result<Graph, LoadError> {
    if text.len() > BYTES_MAX {
        return Err(fault("text", format!("{} bytes found; at most {BYTES_MAX} are accepted", text.len())));
    }
    let document: Document = serde_json::from_str(text)
        .map_err(|e| fault(format!("line {} column {}", e.line(), e.column()), words(&e)))?;
    let graph = document.graph.or(document.scheduling.map(|s| s.graph)).ok_or_else(|| {
        fault("text", "no key 'graph' found; JGF has one at its top, or R in its 'scheduling'")
    })?;

    let mut build = GraphBuilder::new();
    let mut pools: HashMap<&str, PoolId> = HashMap::with_capacity(graph.nodes.len());
    for (index, node) in graph.nodes.iter().enumerate() {
        let place = || format!("graph.nodes[{index}] (id '{}')", node.id);
        let pool = pool(&mut build, &node.metadata)
            .map_err(|(key, what)| fault(place() + ".metadata" + key, what))?;
        let id = build.add(pool).map_err(|e| fault(place(), e.to_string()))?;
        if pools.insert(&node.id, id).is_some() {
            return Err(fault(place(), "another vertex has this id"));
        }
    }
    for (index, edge) in graph.edges.iter().enumerate() {
        let place = |key: &str| format!("graph.edges[{index}]{key}");
        let find = |key: &str, id: &str| {
            pools
                .get(id)
                .copied()
                .ok_or_else(|| fault(place(key), format!("there is no vertex with id '{id}'")))
        };
        let (from, to) = (find(".source", &edge.source)?, find(".target", &edge.target)?);
        match &edge.metadata {
            None => build.contain(from, to),
            Some(EdgeMetadata { subsystem: Some(subsystem), relationship, .. }) => {
                let type_ = relationship.as_deref().unwrap_or("contains");
                build.edge(from, to, type_, subsystem);
            }
            Some(EdgeMetadata { name: Some(name), .. }) if !name.is_empty() => {
                for (subsystem, type_) in name {
                    build.edge(from, to, type_, subsystem);
                }
            }
            Some(_) => {
                let what = format!("no 'subsystem' found; a text such as '{CONTAINMENT}' is needed");
                return Err(fault(place(".metadata"), what));
            }
        }
    }
    build.finish().map_err(|e: GraphError| {
        let place = match e.pool().and_then(|p| graph.nodes.get(p.0 as usize).map(|n| (p.0, n))) {
            Some((index, node)) => {
                let name = node.metadata.name.as_deref().unwrap_or(&node.metadata.type_);
                format!("graph.nodes[{index}] (id '{}', {name})", node.id)
            }
            None => "graph".to_owned(),
        };
        fault(place, e.to_string())
    })
}

/// What a parser says, without the position, which stands before it.
fn words(e: &serde_json::Error) -> String {
    let text = e.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

fn pool(build: &mut GraphBuilder, data: &Metadata) -> Result<Pool, (&'static str, String)> {
    if data.type_.is_empty() {
        return Err((".type", "an empty text found; the name of a type is needed".to_owned()));
    }
    let number = |key: &'static str, n: Option<i64>| match n {
        None | Some(-1) => Ok(None),
        Some(n) => match u32::try_from(n) {
            Ok(n) if n < u32::MAX => Ok(Some(n)),
            _ => Err((key, format!("{n} found; -1 or a number up to {} is accepted", u32::MAX - 1))),
        },
    };
    let id = number(".id", data.id)?;
    let mut pool = Pool::new(build.name(&data.type_), id.map_or(Ids::Unnumbered, Ids::one));
    pool.rank = number(".rank", data.rank)?;
    pool.size = match data.size {
        None => 1,
        Some(n) => u64::try_from(n).map_err(|_| (".size", format!("{n} found; 1 or more is accepted")))?,
    };
    let basename = data.basename.as_deref().filter(|b| !b.is_empty()).unwrap_or(&data.type_);
    pool.basename = build.name(basename);
    pool.unit = build.name(data.unit.as_deref().unwrap_or(""));
    // A name that follows from basename and id is not kept, so that a run of cores stays one.
    let made = id.map_or_else(|| basename.to_owned(), |id| format!("{basename}{id}"));
    if let Some(name) = data.name.as_deref().filter(|n| !n.is_empty() && *n != made) {
        pool.name = build.name(name);
    }
    pool.properties = match &data.properties {
        None => Vec::new(),
        Some(Properties::List(list)) => names(build, list.iter()),
        Some(Properties::Map(map)) => names(build, map.keys()),
    };
    pool.uuid = data.uuid.as_deref().filter(|u| !u.is_empty()).map(Into::into);
    Ok(pool)
}

fn names<'s>(build: &mut GraphBuilder, texts: impl Iterator<Item = &'s String>) -> Vec<Name> {
    texts.map(|text| build.name(text)).collect()
}
