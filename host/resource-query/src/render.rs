//! Output of a selection in the formats of the graph scheduler's tools.
//!
//! This module must never know how a selection was found.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use fluxgate_formats::{Hostlist, Idset};
use fluxgate_graph::description::{CONTAINMENT, EdgeId, Model, VertexId};
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Value, json};

use crate::matching::{Booked, Item, Usage};

/// The writer in the shorthand.
const SHORTHAND: &str = "fluxion:jgf_shorthand";

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A line for each vertex, children first.
    Simple,
    /// A line for each vertex, parents first.
    PrettySimple,
    /// JGF (RFC 40).
    Jgf,
    /// JGF without the vertices below one that is held exclusively.
    JgfShorthand,
    /// The `R_lite` of R (RFC 20).
    Rlite,
    /// R with JGF as `scheduling`.
    Rv1,
    /// R without `scheduling`.
    Rv1Nosched,
    /// R with the JGF shorthand as `scheduling`.
    Rv1Shorthand,
}

impl Format {
    /// All of them with their names.
    pub const ALL: [(&'static str, Format); 8] = [
        ("simple", Format::Simple),
        ("pretty_simple", Format::PrettySimple),
        ("jgf", Format::Jgf),
        ("jgf_shorthand", Format::JgfShorthand),
        ("rlite", Format::Rlite),
        ("rv1", Format::Rv1),
        ("rv1_nosched", Format::Rv1Nosched),
        ("rv1_shorthand", Format::Rv1Shorthand),
    ];

    /// The format with this name; `None` for any other text.
    pub fn parse(text: &str) -> Option<Format> {
        Format::ALL.iter().find(|(name, _)| *name == text).map(|(_, format)| *format)
    }
}

impl Booked {
    /// The selection as text, with a line end. The text is empty if the format has no output for it, such as R for a selection without
    /// nodes.
    pub fn render(&self, model: &Model, format: Format) -> String {
        self.render_with(model, format, &Usage::new())
    }

    /// The text of [`render`](Self::render), with remarks on some vertices in formats that have room for them.
    pub fn render_with(&self, model: &Model, format: Format, remarks: &Usage) -> String {
        let document = match format {
            Format::Simple | Format::PrettySimple => return self.lines(model, format),
            Format::Jgf => self.jgf(model, false, remarks),
            Format::JgfShorthand => self.jgf(model, true, remarks),
            Format::Rlite => self.rlite(model).map(|it| Value::Array(it.entries)),
            Format::Rv1 => self.rv1(model, Some(false), remarks),
            Format::Rv1Shorthand => self.rv1(model, Some(true), remarks),
            Format::Rv1Nosched => self.rv1(model, None, remarks),
        };
        document.map_or_else(String::new, |document| spaced(&document) + "\n")
    }

    fn lines(&self, model: &Model, format: Format) -> String {
        let mut lines: Vec<String> = Vec::new();
        for item in &self.items {
            let Item::Vertex { vertex, level, units, exclusive, .. } = item else { continue };
            let words = match format {
                Format::PrettySimple => ["shared", "exclusive"],
                _ => ["s", "x"],
            };
            let (name, word) = (name(model, *vertex), words[usize::from(*exclusive)]);
            lines.push(format!("      {}{name}[{units}:{word}]\n", "---".repeat(*level)));
        }
        if format == Format::PrettySimple {
            lines.reverse();
        }
        lines.concat()
    }

    fn jgf(&self, model: &Model, shorthand: bool, remarks: &Usage) -> Option<Value> {
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        let mut complete = true;
        for item in &self.items {
            match item {
                Item::Vertex { implied: true, .. } | Item::Edge { implied: true, .. } if shorthand => {
                    complete = false;
                }
                Item::Vertex { vertex, units, exclusive, label, .. } => {
                    nodes.push(node(model, *vertex, *units, *exclusive, label.as_deref(), remarks));
                }
                Item::Edge { edge: id, .. } => edges.push(edge(model, *id)),
            }
        }
        if nodes.is_empty() || edges.is_empty() {
            return None;
        }
        let mut document = Map::new();
        document.insert("graph".to_owned(), json!({ "nodes": nodes, "edges": edges }));
        if shorthand && !complete {
            document.insert("writer".to_owned(), SHORTHAND.into());
        }
        Some(Value::Object(document))
    }

    /// The cores and gpus of R by node; `None` if no node was booked.
    fn rlite(&self, model: &Model) -> Option<Lite> {
        let types = ["core", "gpu"].map(|t| model.name(t));
        let gather = ["node", "storage_node"].map(|t| model.name(t));
        let mut ids: [Idset; 2] = Default::default();
        let mut nodes: BTreeMap<String, Vec<(u32, VertexId)>> = BTreeMap::new();
        for item in &self.items {
            let Item::Vertex { vertex, .. } = item else { continue };
            let it = &model[*vertex];
            if let Some(which) = types.iter().position(|&t| t == Some(it.type_())) {
                if let Ok(id) = u32::try_from(it.id().unwrap_or(-1)) {
                    ids[which].insert(id);
                }
            } else if gather.contains(&Some(it.type_())) && ids.iter().any(|ids| !ids.is_empty()) {
                let taken = std::mem::take(&mut ids);
                let children = ["core", "gpu"].into_iter().zip(taken).filter(|(_, ids)| !ids.is_empty());
                let children: Map<String, Value> =
                    children.map(|(t, ids)| (t.to_owned(), ids.to_string().into())).collect();
                // R cannot name a node without rank.
                let rank = u32::try_from(it.rank().unwrap_or(-1)).ok()?;
                nodes.entry(spaced(&Value::Object(children))).or_default().push((rank, *vertex));
            }
        }
        if nodes.is_empty() {
            return None;
        }
        let mut lite = Lite { entries: Vec::new(), nodelist: Hostlist::new(), properties: BTreeMap::new() };
        let mut all: Vec<(u32, VertexId)> = Vec::new();
        for (children, mut list) in nodes {
            list.sort_by_key(|&(rank, _)| rank);
            let ranks: Idset = list.iter().map(|&(rank, _)| rank).collect();
            let children: Value = serde_json::from_str(&children).unwrap_or_default();
            lite.entries.push(json!({ "rank": ranks.to_string(), "children": children }));
            all.extend(list);
        }
        all.sort_by_key(|&(rank, _)| rank);
        for (rank, vertex) in all {
            // A name that is no host name is left out, because no task could be started there.
            let _ = lite.nodelist.push(name(model, vertex));
            for (key, value) in model.properties(vertex) {
                let mut property = key.to_owned();
                if !value.is_empty() {
                    let _ = write!(property, "={value}");
                }
                lite.properties.entry(property).or_default().insert(rank);
            }
        }
        Some(lite)
    }

    /// R; with JGF as `scheduling` if that is not `None`, and its shorthand if that is true.
    fn rv1(&self, model: &Model, scheduling: Option<bool>, remarks: &Usage) -> Option<Value> {
        let lite = self.rlite(model)?;
        let mut execution = Map::new();
        execution.insert("R_lite".to_owned(), Value::Array(lite.entries));
        execution.insert("nodelist".to_owned(), json!([lite.nodelist.to_string()]));
        if !lite.properties.is_empty() {
            let properties = lite.properties.into_iter().map(|(key, ids)| (key, ids.to_string().into()));
            execution.insert("properties".to_owned(), Value::Object(properties.collect()));
        }
        execution.insert("starttime".to_owned(), self.start.into());
        execution.insert("expiration".to_owned(), self.end.into());
        let mut document = Map::new();
        document.insert("version".to_owned(), 1.into());
        document.insert("execution".to_owned(), Value::Object(execution));
        if let Some(shorthand) = scheduling {
            document.insert("scheduling".to_owned(), self.jgf(model, shorthand, remarks)?);
            if let Some(queue) = &self.queue {
                let attributes = json!({ "system": { "scheduler": { "queue": queue } } });
                document.insert("attributes".to_owned(), attributes);
            }
        }
        Some(Value::Object(document))
    }
}

struct Lite {
    entries: Vec<Value>,
    nodelist: Hostlist,
    properties: BTreeMap<String, Idset>,
}

fn name(model: &Model, vertex: VertexId) -> &str {
    model.text(model[vertex].name())
}

fn node(
    model: &Model,
    vertex: VertexId,
    units: u64,
    exclusive: bool,
    label: Option<&str>,
    remarks: &Usage,
) -> Value {
    let it = &model[vertex];
    let mut data = Map::new();
    let mut put = |key: &str, value: Value| data.insert(key.to_owned(), value);
    put("type", model.text(it.type_()).into());
    if it.basename() != it.type_() {
        put("basename", model.text(it.basename()).into());
    }
    if model.text(it.name()) != format!("{}{}", model.text(it.basename()), it.id().unwrap_or(-1)) {
        put("name", model.text(it.name()).into());
    }
    put("id", it.id().unwrap_or(-1).into());
    put("rank", it.rank().unwrap_or(-1).into());
    let properties: Map<String, Value> =
        model.properties(vertex).map(|(key, value)| (key.to_owned(), value.into())).collect();
    if !properties.is_empty() {
        put("properties", Value::Object(properties));
    }
    if !model.text(it.unit()).is_empty() {
        put("unit", model.text(it.unit()).into());
    }
    if exclusive {
        put("exclusive", true.into());
    }
    if units != 1 {
        put("size", units.into());
    }
    let paths: Map<String, Value> =
        model.paths(vertex).into_iter().map(|(s, path)| (model.text(s).to_owned(), path.into())).collect();
    if !paths.is_empty() {
        put("paths", Value::Object(paths));
    }
    if let Some(label) = label {
        put("ephemeral", json!({ "label": label }));
    }
    if let Some(remarks) = remarks.get(&vertex) {
        put("agfilter", json!(remarks));
    }
    json!({ "id": it.unique().to_string(), "metadata": data })
}

fn edge(model: &Model, edge: EdgeId) -> Value {
    let it = &model[edge];
    let unique = |v: VertexId| model[v].unique().to_string();
    let mut out = Map::new();
    out.insert("source".to_owned(), unique(it.from).into());
    out.insert("target".to_owned(), unique(it.to).into());
    if model.text(it.subsystem) != CONTAINMENT {
        out.insert("metadata".to_owned(), json!({ "subsystem": model.text(it.subsystem) }));
    }
    Value::Object(out)
}

/// JSON on one line with a space after each comma and colon.
fn spaced(value: &Value) -> String {
    struct Spaced;
    impl Formatter for Spaced {
        fn begin_array_value<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
            if first { Ok(()) } else { w.write_all(b", ") }
        }
        fn begin_object_key<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
            if first { Ok(()) } else { w.write_all(b", ") }
        }
        fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
            w.write_all(b": ")
        }
    }
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Spaced);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(_) => String::new(),
    }
}
