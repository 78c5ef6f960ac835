//! A model as rows that can be stored one by one, and the changes between two versions of it.
//!
//! A row is one vertex or edge, in the form of JGF, under a key that is the same in every version: the id of the
//! vertex; for an edge its ends, subsystem and type, and its number among equal ones. `place` keeps the order. The
//! document around the graph is a row of its own. Rows without changes are the whole model. Changes applied to the
//! rows of one version give the rows of the next.
//!
//! [`Saved`] is a whole model with the changes after it as one JSON text: a state in a file. This module must never
//! know where rows are stored.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::description::error::LoadError;
use crate::description::model::{Model, VERTICES_MAX};
use crate::description::runs::Description;

/// Version of the rows that are written, and the only one that is read.
pub const STATE_VERSION: u32 = 1;
/// Most changes in one text before the whole model is rewritten.
const SAVES_MAX: usize = 10_000;

/// One vertex or edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its place in the order of the vertices or edges; places ascend, with gaps.
    pub place: i64,
    /// The vertex or edge as JGF has it.
    pub data: Value,
}

/// Changes of one kind of rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delta {
    /// Rows that are new or have new contents, by key.
    pub put: BTreeMap<String, Row>,
    /// Keys of rows that were removed.
    pub gone: BTreeSet<String>,
}

/// Changes between two versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// The document around the graph, when it changed; `None` when it did not.
    pub document: Option<Value>,
    /// Changes of vertices.
    pub vertices: Delta,
    /// Changes of edges.
    pub edges: Delta,
}

/// A model as rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// The document around the graph.
    pub document: Value,
    /// Vertices by key.
    pub vertices: BTreeMap<String, Row>,
    /// Edges by key.
    pub edges: BTreeMap<String, Row>,
}

/// A whole model, and the changes of each later version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// [`STATE_VERSION`].
    fluxgate_state: u32,
    whole: Rows,
    changes: Vec<Changes>,
}

fn fault(place: impl Into<String>, what: impl Into<String>) -> LoadError {
    LoadError::new("state", place, what)
}

impl Changes {
    /// True when nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }
}

impl Delta {
    fn between(before: &BTreeMap<String, Row>, after: &BTreeMap<String, Row>) -> Delta {
        let mut order: Vec<(&String, &Row)> = after.iter().collect();
        order.sort_by_key(|(_, row)| row.place);
        // Places are kept if old rows are in their old order and new ones follow them.
        let mut last = before.values().map(|row| row.place).max().unwrap_or(-1);
        let old: Vec<i64> = order.iter().filter_map(|(key, _)| Some(before.get(*key)?.place)).collect();
        let appended = order.iter().skip(old.len()).all(|(key, _)| !before.contains_key(*key));
        let keep = appended && old.is_sorted();
        let mut delta = Delta::default();
        for (key, row) in order {
            let mut row = row.clone();
            match before.get(key) {
                Some(was) if keep => row.place = was.place,
                None if keep => {
                    last += 1;
                    row.place = last;
                }
                _ => {}
            }
            if before.get(key) != Some(&row) {
                delta.put.insert(key.clone(), row);
            }
        }
        delta.gone = before.keys().filter(|key| !after.contains_key(*key)).cloned().collect();
        delta
    }

    fn apply(&self, rows: &mut BTreeMap<String, Row>) {
        rows.retain(|key, _| !self.gone.contains(key));
        rows.extend(self.put.iter().map(|(key, row)| (key.clone(), row.clone())));
    }
}

impl Rows {
    /// The changes that turn the rows `before` into these.
    pub fn changes_since(&self, before: &Rows) -> Changes {
        Changes {
            document: (self.document != before.document).then(|| self.document.clone()),
            vertices: Delta::between(&before.vertices, &self.vertices),
            edges: Delta::between(&before.edges, &self.edges),
        }
    }

    /// Applies changes.
    pub fn apply(&mut self, changes: &Changes) {
        if let Some(document) = &changes.document {
            self.document = document.clone();
        }
        changes.vertices.apply(&mut self.vertices);
        changes.edges.apply(&mut self.edges);
    }

    /// The model of these rows.
    ///
    /// # Errors
    /// The rows are no valid JGF, or the graph breaks a rule of RFC 4.
    pub fn to_model(&self) -> Result<Model, LoadError> {
        Model::of(&self.to_description()?)
    }

    /// The description of these rows.
    pub(crate) fn to_description(&self) -> Result<Description, LoadError> {
        let in_order = |rows: &BTreeMap<String, Row>| {
            let mut rows: Vec<&Row> = rows.values().collect();
            rows.sort_by_key(|row| row.place);
            Value::Array(rows.into_iter().map(|row| row.data.clone()).collect())
        };
        let Value::Object(mut document) = self.document.clone() else {
            return Err(fault("document", "a dictionary is needed"));
        };
        let graph = document.entry("graph").or_insert_with(|| Value::Object(Map::new()));
        let graph = graph.as_object_mut().ok_or_else(|| fault("document.graph", "a dictionary is needed"))?;
        graph.insert("nodes".to_owned(), in_order(&self.vertices));
        graph.insert("edges".to_owned(), in_order(&self.edges));
        Description::from_jgf(&Value::Object(document).to_string())
    }
}

impl Model {
    /// The model as rows.
    ///
    /// ```
    /// # use fluxgate_graph::description::{Model, Source};
    /// let text = "[[resource.config]]\nhosts = \"node[0-3]\"\ncores = \"0-7\"\n";
    /// let mut model = Model::load(text, None).unwrap();
    /// let before = model.to_rows();
    /// let node = model.at_path("/cluster0/node2")[0];
    /// model.set_property(node, "ssd", "").unwrap();
    /// let changes = model.to_rows().changes_since(&before);
    /// assert_eq!((changes.vertices.put.len(), changes.edges.put.len()), (1, 0));
    /// ```
    pub fn to_rows(&self) -> Rows {
        let mut document = self.to_jgf();
        let mut take = |key: &str| match document.pointer_mut("/graph").and_then(Value::as_object_mut) {
            Some(graph) => match graph.remove(key) {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            },
            None => Vec::new(),
        };
        let (vertices, edges) = (take("nodes"), take("edges"));
        let row = |(place, data): (usize, Value), key: String| (key, Row { place: place as i64, data });
        let id = |data: &Value| data["id"].as_str().unwrap_or_default().to_owned();
        let vertices = vertices.into_iter().enumerate().map(|it| {
            let key = id(&it.1);
            row(it, key)
        });
        let mut like: BTreeMap<String, u32> = BTreeMap::new();
        let edges = edges.into_iter().enumerate().map(|it| {
            let (data, more) = (&it.1, &it.1["metadata"]);
            let key = json!([data["source"], data["target"], more["subsystem"], more["relationship"]]);
            let key = key.to_string();
            let number = like.entry(key.clone()).or_default();
            *number += 1;
            let key = if *number == 1 { key } else { format!("{key}#{number}") };
            row(it, key)
        });
        Rows { vertices: vertices.collect(), edges: edges.collect(), document }
    }
}

impl Saved {
    /// A state with one whole model and no changes.
    pub fn whole(rows: Rows) -> Saved {
        Saved { fluxgate_state: STATE_VERSION, whole: rows, changes: Vec::new() }
    }

    /// Adds the changes since the last version; returns them, without any if nothing changed. When there are very many versions, the
    /// one before becomes the whole model, and its history is dropped.
    pub fn add(&mut self, rows: &Rows) -> Changes {
        let before = self.rows();
        let changes = rows.changes_since(&before);
        if self.changes.len() >= SAVES_MAX {
            self.whole = before;
            self.changes.clear();
        }
        if !changes.is_empty() {
            self.changes.push(changes.clone());
        }
        changes
    }

    /// The rows after all changes.
    pub fn rows(&self) -> Rows {
        let mut rows = self.whole.clone();
        self.changes.iter().for_each(|changes| rows.apply(changes));
        rows
    }

    /// The state as JSON.
    pub fn to_json(&self) -> Value {
        json!(self)
    }

    /// The state in a text.
    ///
    /// # Errors
    /// The text is no such JSON, is of another version than [`STATE_VERSION`], or has more than [`VERTICES_MAX`] vertices or edges.
    pub fn from_json(text: &str) -> Result<Saved, LoadError> {
        let saved: Saved = serde_json::from_str(text).map_err(|e| {
            let words = e.to_string();
            let words = words.split(" at line ").next().unwrap_or(&words);
            fault(format!("line {} column {}", e.line(), e.column()), words)
        })?;
        if saved.fluxgate_state != STATE_VERSION {
            let what = format!("version {} found; {STATE_VERSION} is accepted", saved.fluxgate_state);
            return Err(fault("fluxgate_state", what));
        }
        if saved.whole.vertices.len() > VERTICES_MAX || saved.whole.edges.len() > VERTICES_MAX {
            return Err(fault("whole", format!("more than {VERTICES_MAX} vertices or edges found")));
        }
        Ok(saved)
    }
}
