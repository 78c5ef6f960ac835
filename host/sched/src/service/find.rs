//! Vertices by criteria and facts of single jobs, for scripts that ask under the graph scheduler's name.
//!
//! The machine is written out as R, read as a model and searched; nothing is kept. Must never change anything.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_engine::{Engine, RpcError};
use fluxgate_formats::rset::{Children, R};
use fluxgate_formats::{Idset, JobId};
use fluxgate_graph::description::{
    Above, Bookings, CONTAINMENT, Criteria, MODEL_DEPTH_MAX, Model, State, VertexId,
};
use fluxgate_wire::graph_service::refusal;
use fluxgate_wire::proto::errno;
use serde_json::{Map, Value, json};

/// Most vertices of a machine that is searched by a request: the scheduler does nothing else meanwhile.
pub(super) const FIND_VERTICES_MAX: usize = 1 << 18;
/// Formats of the answer.
const FORMATS: [&str; 4] = ["jgf", "rv1_nosched", "rv1", "rv1_shorthand"];

/// Which jobs hold a vertex.
#[derive(Default)]
struct Held(BTreeMap<VertexId, BTreeSet<u64>>);

impl Held {
    fn by(&self, v: VertexId, job: u64) -> bool {
        self.0.get(&v).is_some_and(|jobs| jobs.contains(&job))
    }
}

impl Bookings for Held {
    fn is_allocated(&self, v: VertexId, job: u64) -> bool {
        self.by(v, job)
    }

    // A reservation is of a time, not of a place.
    fn is_reserved(&self, _: VertexId, _: u64) -> bool {
        false
    }

    fn is_tagged(&self, v: VertexId, job: u64) -> bool {
        self.by(v, job)
    }

    fn is_counted(&self, _: VertexId, _: u64) -> bool {
        false
    }
}

/// The answer to `find`: the vertices that the criteria are true of, or null.
///
/// # Errors
/// Criteria or a format that are not known; a machine of more than [`FIND_VERTICES_MAX`] vertices.
pub(super) fn find(engine: &Engine, payload: &Value) -> Result<Value, RpcError> {
    let wrong = |text: String| refusal(errno::EINVAL, text);
    let criteria =
        payload["criteria"].as_str().ok_or_else(|| wrong("could not unpack payload".to_owned()))?;
    let criteria = Criteria::parse(criteria).map_err(|error| wrong(error.to_string()))?;
    let format = payload["format"].as_str().unwrap_or("rv1_nosched");
    if !FORMATS.contains(&format) {
        return Err(wrong(format!("unknown format '{format}'; expected one of {}", FORMATS.join(", "))));
    }
    let vertices = engine.resources().vertex_counts().vertices as usize;
    if vertices > FIND_VERTICES_MAX {
        let text = format!("a machine of {vertices} vertices is searched with 'flux gate graph find'");
        return Err(refusal(errno::EOVERFLOW, text));
    }
    let search = Search::of(engine, criteria).map_err(wrong)?;
    let found = search.found();
    if found.is_empty() {
        return Ok(json!({"R": null}));
    }
    let answer = match format {
        "jgf" => search.jgf(&found),
        format => search.r(&found, format != "rv1_nosched"),
    };
    Ok(json!({ "R": answer }))
}

/// The answer to `info`.
///
/// # Errors
/// A job that holds nothing.
pub(super) fn info(engine: &Engine, payload: &Value) -> Result<Value, RpcError> {
    let id = payload["jobid"].as_u64().ok_or_else(|| refusal(errno::EINVAL, "could not unpack payload"))?;
    let resources = engine.resources();
    let (status, at) = match resources.allocation_r(JobId(id)) {
        Some(r) => ("ALLOCATED", r.starttime),
        None => match resources.reservations().find(|(job, ..)| job.0 == id) {
            Some((_, start, _)) => ("RESERVED", start),
            None => return Err(refusal(errno::ENOENT, format!("job {id} holds nothing"))),
        },
    };
    Ok(json!({"jobid": id, "status": status, "at": at as u64, "overhead": 0.0}))
}

/// Units below a vertex, by type: those that are held, and all.
type Counts = BTreeMap<VertexId, BTreeMap<String, (u64, u64)>>;

struct Search {
    model: Model,
    criteria: Criteria,
    held: Held,
}

impl Search {
    fn of(engine: &Engine, criteria: Criteria) -> Result<Search, String> {
        let resources = engine.resources();
        let text = resources.to_r_all().to_value().to_string();
        let mut model = Model::load(&text, None).map_err(|error| error.to_string())?;
        let mut by_rank: BTreeMap<(i64, String, i64), VertexId> = BTreeMap::new();
        let mut by_path: BTreeMap<String, VertexId> = BTreeMap::new();
        let ranks = |r: &R| {
            r.r_lite.iter().flat_map(|entry| entry.rank.iter()).map(i64::from).collect::<BTreeSet<_>>()
        };
        let down = ranks(&resources.down_r());
        let all: Vec<VertexId> = model.vertices().collect();
        for &v in &all {
            let Some(it) = model.vertex(v) else { continue };
            let rank = it.rank().unwrap_or(-1);
            let type_ = model.text(it.type_()).to_owned();
            if rank < 0 || is_target(&type_) {
                by_path.extend(path(&model, v).map(|path| (path, v)));
            }
            if rank >= 0 && is_target(&type_) && down.contains(&rank) {
                model.set_state(v, State::Down).map_err(|error| error.to_string())?;
            } else if let Some(id) = it.id() {
                by_rank.insert((rank, type_, id), v);
            }
        }
        let mut held = Held::default();
        let jobs: Vec<JobId> = resources.allocations().map(|(id, _)| id).collect();
        for id in jobs {
            let Some(r) = resources.allocation_r(id) else { continue };
            let mut note = |v: Option<&VertexId>| {
                if let Some(v) = v {
                    held.0.entry(*v).or_default().insert(id.0);
                }
            };
            for entry in &r.r_lite {
                for (rank, (type_, ids)) in
                    entry.rank.iter().flat_map(|rank| entry.children.iter().map(move |it| (rank, it)))
                {
                    for member in ids.iter() {
                        note(by_rank.get(&(i64::from(rank), type_.clone(), i64::from(member))));
                    }
                }
            }
            for node in r.to_value()["scheduling"]["graph"]["nodes"].as_array().into_iter().flatten() {
                let data = &node["metadata"];
                if data["exclusive"] == true {
                    note(data["paths"][CONTAINMENT].as_str().and_then(|path| by_path.get(path)));
                }
            }
        }
        Ok(Search { model, criteria, held })
    }

    /// The vertices that the criteria are true of and those above them, in the order of the machine.
    fn found(&self) -> BTreeMap<VertexId, bool> {
        let mut found = BTreeMap::new();
        if let Some(root) = self.model.root(CONTAINMENT) {
            self.look(root, Above::default(), 1, &mut found);
        }
        found
    }

    /// True when the vertex or one below it was found.
    fn look(&self, v: VertexId, above: Above, level: usize, found: &mut BTreeMap<VertexId, bool>) -> bool {
        let (Some(it), Some(name)) = (self.model.vertex(v), self.model.name(CONTAINMENT)) else {
            return false;
        };
        let mine = Above {
            down: above.down || it.state() == State::Down,
            allocated: above.allocated || self.held.0.contains_key(&v),
            reserved: false,
        };
        let mut below = false;
        if level < MODEL_DEPTH_MAX {
            for child in self.model.steps(v, name) {
                below |= self.look(child, mine, level + 1, found);
            }
        }
        let holds = self.criteria.hold(&self.model, v, mine, &self.held);
        if holds || below {
            found.insert(v, holds);
        }
        holds || below
    }

    /// Units below a vertex, by type: those that are held, and all.
    fn count(
        &self,
        v: VertexId,
        held: bool,
        level: usize,
        counts: &mut Counts,
    ) -> BTreeMap<String, (u64, u64)> {
        let mut sum: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let Some(name) = self.model.name(CONTAINMENT).filter(|_| level < MODEL_DEPTH_MAX) else { return sum };
        for child in self.model.steps(v, name) {
            let Some(it) = self.model.vertex(child) else { continue };
            let held = held || self.held.0.contains_key(&child);
            let own = (self.model.text(it.type_()).to_owned(), (if held { it.size() } else { 0 }, it.size()));
            for (type_, (used, all)) in self.count(child, held, level + 1, counts).into_iter().chain([own]) {
                let entry = sum.entry(type_).or_default();
                *entry = (entry.0.saturating_add(used), entry.1.saturating_add(all));
            }
        }
        counts.insert(v, sum.clone());
        sum
    }

    fn jgf(&self, found: &BTreeMap<VertexId, bool>) -> Value {
        let mut counts = Counts::new();
        if self.criteria.usage().is_some()
            && let Some(root) = self.model.root(CONTAINMENT)
        {
            self.count(root, false, 1, &mut counts);
        }
        let Some(name) = self.model.name(CONTAINMENT) else { return Value::Null };
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        for &v in found.keys() {
            let Some(it) = self.model.vertex(v) else { continue };
            let mut data = Map::new();
            data.insert("type".to_owned(), self.model.text(it.type_()).into());
            data.insert("name".to_owned(), self.model.text(it.name()).into());
            data.insert("id".to_owned(), it.id().unwrap_or(-1).into());
            data.insert("rank".to_owned(), it.rank().unwrap_or(-1).into());
            data.insert("size".to_owned(), it.size().into());
            let properties: Map<String, Value> =
                self.model.properties(v).map(|(key, value)| (key.to_owned(), value.into())).collect();
            if !properties.is_empty() {
                data.insert("properties".to_owned(), properties.into());
            }
            let used = counts.get(&v).into_iter().flatten();
            let used: Map<String, Value> = used
                .map(|(type_, (used, all))| (type_.clone(), format!("used:{used}, total:{all}").into()))
                .collect();
            if used.is_empty() && self.criteria.usage().is_some() {
                // Nothing is below it, so nothing is counted.
                continue;
            }
            if !used.is_empty() {
                data.insert("agfilter".to_owned(), used.into());
            }
            data.insert("paths".to_owned(), json!({ CONTAINMENT: path(&self.model, v) }));
            nodes.push(json!({"id": v.index().to_string(), "metadata": data}));
            if let Some(up) = self.model.parent(v, name) {
                edges.push(json!({"source": up.index().to_string(), "target": v.index().to_string()}));
            }
        }
        json!({"graph": {"nodes": nodes, "edges": edges}})
    }

    /// Cores and gpus that were found, as R; null without any.
    fn r(&self, found: &BTreeMap<VertexId, bool>, graph: bool) -> Value {
        let mut ranks: BTreeMap<u32, (String, Children)> = BTreeMap::new();
        for (&v, &holds) in found {
            let Some(it) = self.model.vertex(v) else { continue };
            let Some(rank) = it.rank().and_then(|rank| u32::try_from(rank).ok()) else { continue };
            let type_ = self.model.text(it.type_());
            let entry = ranks.entry(rank).or_default();
            if is_target(type_) {
                entry.0 = self.model.text(it.name()).to_owned();
            }
            if let Some(id) = it
                .id()
                .and_then(|id| u32::try_from(id).ok())
                .filter(|_| holds && matches!(type_, "core" | "gpu"))
            {
                let ids = entry.1.entry(type_.to_owned()).or_default();
                *ids = ids.union(&Idset::from_iter([id]));
            }
        }
        ranks.retain(|_, (_, children)| !children.is_empty());
        if ranks.is_empty() {
            return Value::Null;
        }
        let mut r = R::from_nodes(ranks.into_iter().map(|(rank, (host, children))| (rank, host, children)))
            .to_value();
        if graph {
            r["scheduling"] = self.jgf(found);
        }
        r
    }
}

/// Types that have a rank of their own, by which Flux tells what is up.
fn is_target(type_: &str) -> bool {
    matches!(type_, "node" | "storage_node")
}

fn path(model: &Model, v: VertexId) -> Option<String> {
    model.path(v, model.name(CONTAINMENT)?)
}
