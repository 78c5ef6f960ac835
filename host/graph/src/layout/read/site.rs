//! Reading the graph of a site (JGF, RFC 40): by itself, or in the `scheduling` of R (RFC 20) and bound to the resources of R.
//!
//! # Interpretations
//!
//! - An edge names its subsystem as RFC 40 does (`{"subsystem": "containment", "relationship": "contains"}`), without
//!   relationship, or in the older form `{"name": {"containment": "contains"}}`. Without metadata it is a containment edge.
//! - An edge `in` of containment is the opposite of a `contains` edge, which must be there.
//! - The graph says how the machine hangs together; R says which execution targets there are, which cores and gpus each has,
//!   and what its rank is (see [`bind`](super::bind)).
//! - A vertex without a rank has the status that the file gives it: 0 is up, 1 is down. One without an id has its unique
//!   id, or the number in its id in the file, or, of type `node`, at the end of its name.
//! - Where no vertex has a containment path, paths are made from names.
//!
//! This module must never know what jobs hold.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fluxgate_formats::Hostlist;
use fluxgate_formats::rset::R;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::description::error::LoadError;
use crate::description::model::CONTAINMENT;
use crate::layout::builder::{GraphBuilder, GraphError, Pool, PoolId};
use crate::layout::graph::Graph;
use crate::layout::site::Label;
use crate::layout::vertex::{Ids, NONE};

use super::bind::{bind, bind_alone, members};
use super::jgf::{self, ById, JsonNode, Metadata, Paths, Said, Text};

/// Longest text.
const BYTES_MAX: usize = 1 << 30;
/// Types whose ids R names.
pub(super) const NAMED: [&str; 2] = ["core", "gpu"];

/// The graph in a `scheduling`, if this reader knows its writer. The error names the writer of an unknown graph.
pub(super) fn graph_of(r: &R) -> Result<Option<Cow<'_, str>>, String> {
    let Some(scheduling) = &r.scheduling else { return Ok(None) };
    let value = || scheduling.get("graph").filter(|graph| graph.get("nodes").is_some());
    let graph = match &r.graph {
        Some(graph) => Cow::Borrowed(graph.text()),
        None => match value() {
            Some(graph) => Cow::Owned(graph.to_string()),
            None => return Ok(None),
        },
    };
    match scheduling.get("writer").map(|writer| writer.as_str().unwrap_or_default()) {
        None | Some("fluxion" | "fluxion:" | "fluxion:jgf" | "fluxion:jgf_shorthand" | "fluxgate") => {
            Ok(Some(graph))
        }
        Some(other) => Err(format!("scheduling.writer: '{other}' found; its graph is not used, R alone is")),
    }
}

/// A machine, and the differences between graph and R.
pub(super) struct Bound {
    pub(super) graph: Graph,
    pub(super) unbound: Option<String>,
}

/// The data of a vertex before it is added.
pub(super) struct Outline<'a> {
    id: &'a str,
    pub(super) type_: &'a str,
    pub(super) parent: u32,
    pub(super) rank: Option<u32>,
    pub(super) number: Option<u32>,
    has_path: bool,
    pub(super) fate: Fate,
}

/// What the reader does with a vertex.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fate {
    Kept,
    /// An execution target with this rank; without a rank in a graph that has no ranks.
    Target(Option<u32>),
    /// A vertex with another id than in the graph: that of R.
    Renumbered(u32),
    Dropped,
}

/// A graph. Its vertices and edges are read one by one: as values they would take ten times the memory.
#[derive(Deserialize)]
struct Lists<'a> {
    #[serde(borrow)]
    nodes: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    edges: Vec<&'a RawValue>,
}

/// The fields of a vertex that are read first.
#[derive(Deserialize)]
struct Glance<'a> {
    id: Option<&'a str>,
    #[serde(borrow)]
    metadata: Option<GlanceData<'a>>,
}

#[derive(Deserialize)]
struct GlanceData<'a> {
    #[serde(rename = "type")]
    type_: Option<&'a str>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    id: Option<i64>,
    uniq_id: Option<i64>,
    rank: Option<i64>,
    #[serde(borrow)]
    paths: Option<Paths<'a>>,
}

/// An edge.
#[derive(Deserialize)]
struct EdgeEnds<'a> {
    source: &'a str,
    target: &'a str,
    directed: Option<bool>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

/// A text with a graph: the graph alone, or R.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    graph: Option<&'a RawValue>,
    #[serde(borrow)]
    scheduling: Option<Within<'a>>,
}

#[derive(Deserialize)]
struct Within<'a> {
    #[serde(borrow)]
    graph: Option<&'a RawValue>,
}

/// The machine that a JGF text describes without R, with its own ranks, cores and gpus.
pub(crate) fn alone(text: &str) -> Result<Graph, LoadError> {
    if text.len() > BYTES_MAX {
        return Err(jgf::fault(
            "text",
            format!("{} bytes found; at most {BYTES_MAX} are accepted", text.len()),
        ));
    }
    let document: Document<'_> = serde_json::from_str(text)
        .map_err(|e| jgf::fault(format!("line {} column {}", e.line(), e.column()), jgf::words(&e)))?;
    let graph = document.graph.or(document.scheduling.and_then(|it| it.graph)).ok_or_else(|| {
        jgf::fault("text", "no key 'graph' found; JGF has one at its top, or R in its 'scheduling'")
    })?;
    Ok(load(graph.get(), None, &mut |_, _| {})?.graph)
}

/// Reads a graph and binds it to R, if there is one. `more` adds the other parts of R, and gets the nodes by rank.
pub(super) fn load(
    graph: &str,
    r: Option<&R>,
    more: &mut dyn FnMut(&mut GraphBuilder, &BTreeMap<u32, PoolId>),
) -> Result<Bound, LoadError> {
    let Lists { nodes, edges } =
        serde_json::from_str(graph).map_err(|e| jgf::fault("graph", e.to_string()))?;
    let nodes = nodes.as_slice();
    let mut seen = outlines(nodes)?;
    let links = parents(&edges, &mut seen)?;
    drop(edges);
    let pathless = check_paths(&seen)?;
    let (mut unbound, mut renamed, mut missing) = (None, BTreeMap::new(), Vec::new());
    match r {
        Some(r) => {
            (unbound, renamed) = bind(nodes, &mut seen, r);
            missing = members(&mut seen, r);
        }
        None => bind_alone(&mut seen),
    }
    let mut build = GraphBuilder::new();
    let mut pools: Vec<Option<PoolId>> = Vec::with_capacity(seen.len());
    for (index, vertex) in seen.iter().enumerate() {
        pools.push(match vertex.fate {
            Fate::Dropped => None,
            _ => Some(add(&mut build, nodes, index, &seen, (r, &renamed), pathless)?),
        });
    }
    let fault = |e: GraphError| graph_fault(&e, &seen, &pools);
    for (index, vertex) in seen.iter().enumerate().filter(|(_, vertex)| vertex.parent != NONE) {
        if let (Some(parent), Some(child)) = (pools[vertex.parent as usize], pools[index]) {
            build.contain(parent, child);
        }
    }
    for (target, type_, ids) in missing {
        let type_ = build.name(&type_);
        let pool = build.add(Pool::new(type_, Ids::from_sorted(ids.iter().collect()))).map_err(fault)?;
        if let Some(parent) = pools[target] {
            build.contain(parent, pool);
        }
    }
    for (from, to, type_, subsystem) in links {
        if let (Some(from), Some(to)) = (pools[from as usize], pools[to as usize]) {
            build.edge(from, to, &type_, &subsystem);
        }
    }
    let of_rank = |(vertex, pool): (&Outline<'_>, &Option<PoolId>)| match vertex.fate {
        Fate::Target(rank) => Some((rank?, (*pool)?)),
        _ => None,
    };
    more(&mut build, &seen.iter().zip(&pools).filter_map(of_rank).collect());
    Ok(Bound { graph: build.finish().map_err(fault)?, unbound })
}

fn graph_fault(error: &GraphError, seen: &[Outline<'_>], pools: &[Option<PoolId>]) -> LoadError {
    let at = error.pool().and_then(|pool| pools.iter().position(|p| *p == Some(pool)));
    jgf::fault(at.map_or("graph".to_owned(), |at| place(seen, at)), error.to_string())
}

/// Where a vertex stands in the file.
fn place(seen: &[Outline<'_>], at: usize) -> String {
    format!("graph.nodes[{at}] (id '{}', {})", seen[at].id, seen[at].type_)
}

fn outlines<'a>(nodes: &[&'a RawValue]) -> Result<Vec<Outline<'a>>, LoadError> {
    let mut ids = ById::new(nodes.len());
    let mut seen = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let read = serde_json::from_str(node.get());
        let Glance { id, metadata } =
            read.map_err(|e| jgf::fault(format!("graph.nodes[{index}]"), jgf::words(&e)))?;
        let place = |key: &str| match id {
            Some(id) => format!("graph.nodes[{index}] (id '{id}'){key}"),
            None => format!("graph.nodes[{index}]{key}"),
        };
        let id = id.ok_or_else(|| jgf::fault(place(".id"), "no text found; vertices have one"))?;
        if ids.insert(id, PoolId(index as u32)).is_some() {
            return Err(jgf::fault(place(""), "another vertex has this id"));
        }
        let it = metadata.ok_or_else(|| jgf::fault(place(".metadata"), "nothing found; vertices have it"))?;
        let type_ = it.type_.filter(|type_| !type_.is_empty());
        let type_ =
            type_.ok_or_else(|| jgf::fault(place(".metadata.type"), "no text found; a type is needed"))?;
        let number = |n: Option<i64>| n.and_then(|n| u32::try_from(n).ok());
        for (key, n) in [("id", it.id), ("rank", it.rank)] {
            if let Some(n) = n.filter(|n| *n != -1 && !(0..i64::from(u32::MAX)).contains(n)) {
                let what = format!("{n} found; -1 or a number up to {} is accepted", u32::MAX - 1);
                return Err(jgf::fault(place(&format!(".metadata.{key}")), what));
            }
        }
        let uniq = number(it.uniq_id).or_else(|| id.parse().ok());
        let own = || match (type_, it.name.as_deref()) {
            ("node", Some(name)) => trailing(name).or(uniq),
            _ => uniq,
        };
        seen.push(Outline {
            id,
            type_,
            parent: NONE,
            rank: number(it.rank),
            number: number(it.id).or_else(own).filter(|n| *n != u32::MAX),
            has_path: it.paths.is_some_and(|paths| paths.containment().is_some()),
            fate: Fate::Kept,
        });
    }
    Ok(seen)
}

/// True if no vertex has a path, so that paths are made from names. Otherwise each contained vertex needs a path.
fn check_paths(seen: &[Outline<'_>]) -> Result<bool, LoadError> {
    let pathless = !seen.iter().any(|vertex| vertex.has_path);
    match seen.iter().position(|vertex| vertex.parent != NONE && !vertex.has_path) {
        Some(at) if !pathless => {
            let place = format!("graph.nodes[{at}] (id '{}').metadata.paths.containment", seen[at].id);
            Err(jgf::fault(place, "no text found; the containment path is needed"))
        }
        _ => Ok(pathless),
    }
}

/// The path of a vertex, made from the names of the vertices above it.
fn made_path(nodes: &[&RawValue], seen: &[Outline<'_>], index: usize) -> String {
    let above = |at: &u32| Some(seen.get(*at as usize)?.parent);
    let chain = std::iter::successors(Some(index as u32), above).take_while(|at| *at != NONE);
    let mut names: Vec<String> =
        chain.take(crate::DEPTH_MAX as usize).map(|at| name(nodes, seen, at as usize)).collect();
    names.push(String::new());
    names.reverse();
    names.join("/")
}

/// The name of a vertex, given or by basename and id.
pub(super) fn name(nodes: &[&RawValue], seen: &[Outline<'_>], at: usize) -> String {
    let node: Option<JsonNode<'_>> = serde_json::from_str(nodes[at].get()).ok();
    named(node.as_ref().map(|node| &node.metadata), &seen[at])
}

fn named(metadata: Option<&Metadata<'_>>, vertex: &Outline<'_>) -> String {
    let (given, base) = metadata.map_or((None, None), Metadata::names);
    let base = base.unwrap_or(vertex.type_);
    let made = || vertex.number.map_or(base.to_owned(), |id| format!("{base}{id}"));
    given.map_or_else(made, str::to_owned)
}

/// The number at the end of a host name.
fn trailing(name: &str) -> Option<u32> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().ok()
}

/// An edge of another subsystem, or the opposite of a containment edge: from, to, type, subsystem.
type Link = (u32, u32, String, String);

/// Sets the containment parents; returns the other edges.
fn parents(edges: &[&RawValue], seen: &mut [Outline<'_>]) -> Result<Vec<Link>, LoadError> {
    let mut ids = ById::new(seen.len());
    for (index, vertex) in seen.iter().enumerate() {
        ids.insert(vertex.id, PoolId(index as u32));
    }
    let mut set: Vec<u32> = vec![NONE; seen.len()];
    let mut links = Vec::new();
    for (index, edge) in edges.iter().enumerate() {
        let place = |key: &str| format!("graph.edges[{index}]{key}");
        let edge: EdgeEnds<'_> =
            serde_json::from_str(edge.get()).map_err(|e| jgf::fault(place(""), jgf::words(&e)))?;
        let find = |key: &str, id: &str| {
            let none = || jgf::fault(place(key), format!("there is no vertex with id '{id}'"));
            ids.get(id).map(|pool| pool.0).ok_or_else(none)
        };
        let (from, to) = (find(".source", edge.source)?, find(".target", edge.target)?);
        for (type_, subsystem) in kinds(edge.metadata) {
            if subsystem != CONTAINMENT {
                if edge.directed == Some(false) {
                    links.push((to, from, type_.clone(), subsystem.clone()));
                }
                links.push((from, to, type_, subsystem));
            } else if type_.eq_ignore_ascii_case("in") {
                links.push((from, to, type_, subsystem));
            } else {
                if ![NONE, from].contains(&set[to as usize]) {
                    return Err(jgf::fault(place(".target"), "this vertex has two parents in one subsystem"));
                }
                set[to as usize] = from;
            }
        }
    }
    if let Some(at) = on_a_cycle(&set) {
        return Err(jgf::fault(place(seen, at as usize), GraphError::Cycle(PoolId(at)).to_string()));
    }
    for (vertex, parent) in seen.iter_mut().zip(set) {
        vertex.parent = parent;
    }
    Ok(links)
}

/// A vertex that contains itself, directly or through others. All that read the outlines follow parents to their end.
fn on_a_cycle(parents: &[u32]) -> Option<u32> {
    // The walk that met a vertex, by the vertex at which the walk began.
    let mut met = vec![NONE; parents.len()];
    (0..parents.len() as u32).find_map(|begin| {
        let mut here = begin;
        while here != NONE && met[here as usize] == NONE {
            met[here as usize] = begin;
            here = parents[here as usize];
        }
        (here != NONE && met[here as usize] == begin).then_some(here)
    })
}

/// The types and subsystems of an edge; containment if it names none.
fn kinds(metadata: Option<&RawValue>) -> Vec<(String, String)> {
    let metadata: Value = metadata.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let own = |text: &str| text.to_owned();
    if let Some(names) = metadata["name"].as_object().filter(|names| !names.is_empty()) {
        return names
            .iter()
            .map(|(of, type_)| (own(type_.as_str().unwrap_or_default()), of.clone()))
            .collect();
    }
    let text = |key: &str, usual| own(metadata[key].as_str().unwrap_or(usual));
    vec![(text("relationship", "contains"), text("subsystem", CONTAINMENT))]
}

fn add(
    build: &mut GraphBuilder,
    nodes: &[&RawValue],
    index: usize,
    seen: &[Outline<'_>],
    (r, renamed): (Option<&R>, &BTreeMap<u32, String>),
    pathless: bool,
) -> Result<PoolId, LoadError> {
    let vertex = &seen[index];
    let place = |key: &str| format!("graph.nodes[{index}] (id '{}'){key}", vertex.id);
    let JsonNode { mut metadata, .. } =
        serde_json::from_str(nodes[index].get()).map_err(|e| jgf::fault(place(""), jgf::words(&e)))?;
    metadata.rank = None;
    metadata.id = vertex.number.map(i64::from);
    let mut values = BTreeMap::new();
    for (key, value) in metadata.properties.iter().flat_map(|properties| properties.pairs()) {
        let Said::Text(text) = value else {
            let what = "no text found; properties have texts as values";
            return Err(jgf::fault(place(&format!(".metadata.properties.{key}")), what));
        };
        values.insert(key.into(), text.as_str().into());
    }
    let (mut labelled, mut down) = (!NAMED.contains(&vertex.type_), false);
    match vertex.fate {
        Fate::Target(rank) => {
            metadata.rank = rank.map(i64::from);
            if let Some(host) = rank.and_then(|rank| renamed.get(&rank)) {
                metadata.rename(host);
            }
            // A host name of R is one.
            let alone = r.is_none().then(|| Hostlist::new().push(&named(Some(&metadata), vertex)));
            if let Some(Err(why)) = alone {
                return Err(jgf::fault(place(".metadata.name"), why.to_string()));
            }
        }
        Fate::Renumbered(id) => metadata.id = Some(i64::from(id)),
        _ => down = metadata.status == Some(1) && vertex.rank.is_none(),
    }
    let mut pool = jgf::pool(build, &metadata)
        .map_err(|(key, what)| jgf::fault(place(&format!(".metadata{key}")), what))?;
    if let Fate::Target(rank) = vertex.fate {
        let all = r.into_iter().flat_map(|r| &r.properties);
        let more = all.filter(|(_, ranks)| rank.is_some_and(|rank| ranks.contains(rank)));
        pool.properties.extend(more.map(|(name, _)| build.name(name)));
    } else {
        // Vertices inside a node have no label.
        let mut here = vertex.parent;
        while here != NONE && labelled {
            labelled = !matches!(seen[here as usize].fate, Fate::Target(_));
            here = seen[here as usize].parent;
        }
    }
    let id = build.add(pool).map_err(|e| jgf::fault(place(""), e.to_string()))?;
    if labelled {
        let path = if pathless {
            made_path(nodes, seen, index)
        } else {
            metadata.path().unwrap_or_default().to_owned()
        };
        build.label(Label { path: path.into(), id: vertex.id.into(), values, down });
    }
    Ok(id)
}
