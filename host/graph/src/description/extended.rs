//! Extended data of vertices (RFC 4): properties, tags, namespaced blobs; and paths.
//!
//! This module must never know the meaning of a key.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::description::names::Name;

use super::model::{MODEL_DEPTH_MAX, Model, ModelError};
use super::vertex::VertexId;

/// Metadata keys of a file that are base data.
const BASE_KEYS: [&str; 13] = [
    "type",
    "basename",
    "name",
    "id",
    "uniq_id",
    "rank",
    "size",
    "unit",
    "status",
    "properties",
    "paths",
    "tags",
    "uuid",
];

impl Model {
    /// The properties of a vertex with their values, by name.
    pub fn properties(&self, id: VertexId) -> impl Iterator<Item = (&str, &str)> {
        self.properties.get(&id).into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of a property, which may be empty; `None` if the vertex does not have it.
    pub fn property(&self, id: VertexId, key: &str) -> Option<&str> {
        self.properties.get(&id)?.get(key).map(String::as_str)
    }

    /// Sets a property of a vertex, in place of one of the same name.
    ///
    /// # Errors
    /// [`NoVertex`](ModelError::NoVertex): the vertex is unknown or was removed.
    pub fn set_property(&mut self, id: VertexId, key: &str, value: &str) -> Result<(), ModelError> {
        self.vertex(id).ok_or(ModelError::NoVertex(id))?;
        self.properties.entry(id).or_default().insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// Removes a property from a vertex; returns its value, `None` if the vertex did not have it.
    pub fn remove_property(&mut self, id: VertexId, key: &str) -> Option<String> {
        let all = self.properties.get_mut(&id)?;
        let value = all.remove(key);
        if all.is_empty() {
            self.properties.remove(&id);
        }
        value
    }

    /// Sets a tag of a vertex, in place of one of the same key. A tag may have no value.
    ///
    /// # Errors
    /// [`NoVertex`](ModelError::NoVertex): the vertex is unknown or was removed.
    pub fn set_tag(&mut self, id: VertexId, key: &str, values: Vec<String>) -> Result<(), ModelError> {
        self.vertex(id).ok_or(ModelError::NoVertex(id))?;
        self.tags.entry(id).or_default().insert(key.to_owned(), values);
        Ok(())
    }

    /// Removes a tag; returns its values, `None` if the vertex did not have it.
    pub fn remove_tag(&mut self, id: VertexId, key: &str) -> Option<Vec<String>> {
        let all = self.tags.get_mut(&id)?;
        let values = all.remove(key);
        if all.is_empty() {
            self.tags.remove(&id);
        }
        values
    }

    /// The values of a tag; `None` if the vertex does not have the tag.
    pub fn tag(&self, id: VertexId, key: &str) -> Option<&[String]> {
        self.tags.get(&id)?.get(key).map(Vec::as_slice)
    }

    /// All tags of a vertex, by key; `None` if it has none.
    pub fn tags(&self, id: VertexId) -> Option<&BTreeMap<String, Vec<String>>> {
        self.tags.get(&id)
    }

    /// The extended data that an owner stored with a vertex under its own key; `None` if there are none.
    pub fn extended(&self, id: VertexId, owner: &str) -> Option<&Value> {
        self.extended.get(&id)?.get(owner)
    }

    /// Stores extended data of an owner with a vertex; it is saved with the model.
    ///
    /// # Errors
    /// [`NoVertex`](ModelError::NoVertex), or [`Reserved`](ModelError::Reserved) for a key of the base data.
    pub fn set_extended(&mut self, id: VertexId, owner: &str, value: Value) -> Result<(), ModelError> {
        self.vertex(id).ok_or(ModelError::NoVertex(id))?;
        if BASE_KEYS.contains(&owner) {
            return Err(ModelError::Reserved(owner.to_owned()));
        }
        self.extended.entry(id).or_default().insert(owner.to_owned(), value);
        Ok(())
    }

    /// The path of a vertex in a subsystem: the names from the root down, such as `/tiny0/rack0/node1`. `None` for a
    /// vertex outside of the subsystem.
    pub fn path(&self, id: VertexId, subsystem: Name) -> Option<String> {
        if let Some(path) = self.odd_paths.get(&(id, subsystem)) {
            return Some(path.to_string());
        }
        self.derived_path(id, subsystem)
    }

    /// The path that follows from the edges.
    pub(crate) fn derived_path(&self, id: VertexId, subsystem: Name) -> Option<String> {
        let mut names = vec![self.vertex(id)?.name];
        let mut at = id;
        let mut prefix: &str = "";
        while let Some(up) = self.parent(at, subsystem) {
            if let Some(path) = self.odd_paths.get(&(up, subsystem)) {
                prefix = path;
                break;
            }
            if names.len() > MODEL_DEPTH_MAX {
                return None;
            }
            names.push(self.vertex(up)?.name);
            at = up;
        }
        if prefix.is_empty() && self.roots.get(&subsystem) != Some(&at) {
            return None;
        }
        let mut path = prefix.to_owned();
        for &name in names.iter().rev() {
            let _ = write!(path, "/{}", self.text(name));
        }
        Some(path)
    }

    /// The paths of a vertex in all subsystems it is in.
    pub fn paths(&self, id: VertexId) -> Vec<(Name, String)> {
        let paths = self.subsystems.iter().filter_map(|&s| self.path(id, s).map(|path| (s, path)));
        paths.collect()
    }

    /// The vertices at a path of any subsystem, in the order they were added; none for an unknown path.
    pub fn at_path(&self, path: &str) -> Vec<VertexId> {
        let mut found: Vec<VertexId> = Vec::new();
        for (&(vertex, _), odd) in &self.odd_paths {
            if &**odd == path {
                found.push(vertex);
            }
        }
        let Some(names) = path.strip_prefix('/') else { return found };
        for (&subsystem, &root) in &self.roots {
            let mut names = names.split('/');
            let mut level: Vec<VertexId> = vec![root];
            level.retain(|&v| Some(self.text(self.vertices[v.index()].name)) == names.clone().next());
            names.next();
            for name in names {
                let below = level.iter().flat_map(|&v| self.steps(v, subsystem));
                level = below.filter(|v| self.text(self.vertices[v.index()].name) == name).collect();
                level.sort_unstable();
                level.dedup();
            }
            level.retain(|&v| !self.odd_paths.contains_key(&(v, subsystem)));
            found.extend(level);
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
