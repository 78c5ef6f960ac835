//! [`Model`] from a [`Description`]: one vertex for each vertex of the file.
//!
//! This module must never know a file format.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::error::LoadError;
use super::model::{Model, ModelError, VERTICES_MAX};
use super::names::Name;
use super::runs::{Description, Run};
use super::stencil::Stencil;
use super::vertex::VertexId;

/// Stencils by type, basename, unit and size.
type Stencils = BTreeMap<(Name, Name, Name, u64), Stencil>;

impl Model {
    /// The model of a description.
    ///
    /// # Errors
    /// The description breaks a rule of RFC 4 ([`Model::finish`]), or has more vertices or edges than a model.
    pub fn of(description: &Description) -> Result<Model, LoadError> {
        let mut model = Model { document: description.document.clone(), ..Model::default() };
        model.append(description, &BTreeMap::new())?;
        Ok(model)
    }

    /// Adds the vertices and edges of a description. `known` has the numbers of vertices that the model has already;
    /// edges between two of these are left out. On an error the model is left half changed.
    pub(crate) fn append(
        &mut self,
        description: &Description,
        known: &BTreeMap<u32, VertexId>,
    ) -> Result<(), LoadError> {
        if description.vertex_count() as usize > VERTICES_MAX {
            return Err(description.fault(None, "", ModelError::TooMany.to_string()));
        }
        let wrong = |error: ModelError| description.fault(None, "", error.to_string());
        let mut ids: Vec<VertexId> = Vec::with_capacity(description.vertex_count() as usize);
        let new = |number: u32| !known.contains_key(&number);
        let mut stencils = BTreeMap::new();
        for run in description.runs() {
            self.append_run(description, run, known, &mut ids, &mut stencils)?;
        }
        let mut bonds = BTreeMap::new();
        for (position, link) in description.links().iter().enumerate() {
            for to in link.targets().filter(|to| new(*to) || new(link.from)) {
                let bond = match bonds.entry(link.relation) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(none) => {
                        *none.insert(self.bond(description.relation(link)).map_err(wrong)?)
                    }
                };
                let id = self.bind(ids[link.from as usize], ids[to as usize], bond).map_err(wrong)?;
                let Some(extras) = description.link_extras(position) else { continue };
                if !extras.extended.is_empty() {
                    self.edge_extended.insert(id, extras.extended.clone());
                }
                if !extras.outer.is_empty() {
                    self.edge_outer.insert(id, extras.outer.clone());
                }
            }
        }
        self.settle_paths(description, known, &ids)?;
        for (subsystem, root) in &description.roots {
            self.set_root(subsystem, ids[*root as usize]).map_err(wrong)?;
        }
        self.finish().map_err(|error| {
            let vertex = match &error {
                ModelError::TwoParents(v)
                | ModelError::Cycle(v)
                | ModelError::TwoRoots(v)
                | ModelError::TooDeep(v) => ids.iter().position(|id| id == v),
                _ => None,
            };
            description.fault(vertex.map(|vertex| vertex as u32), "", error.to_string())
        })
    }

    fn append_run(
        &mut self,
        description: &Description,
        run: &Run,
        known: &BTreeMap<u32, VertexId>,
        ids: &mut Vec<VertexId>,
        stencils: &mut Stencils,
    ) -> Result<(), LoadError> {
        let mut pool = description.pool(run);
        let extras = description.extras(run);
        if run.count == 1 {
            let pairs = extras.into_iter().flat_map(|extras| &extras.properties);
            pool.properties = pairs.map(|(key, value)| (key.clone(), value.clone())).collect();
        }
        let fault = |error: ModelError| description.fault(Some(run.first), "", error.to_string());
        let mut stencil = match stencils.entry((run.type_, run.basename, run.unit, run.size)) {
            _ if run.count == 1 => None,
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(none) => Some(none.insert(self.stencil(&pool).map_err(fault)?)),
        };
        for (step, number) in run.numbers().enumerate() {
            if let Some(known) = known.get(&number) {
                ids.push(*known);
                continue;
            }
            let id = description.id(run, step as u32);
            let id = id.ok_or_else(|| {
                let file = description.file_id(run, step as u32);
                let what = format!("nothing found, and the vertex id '{file}' is no number");
                description.fault(Some(number), ".metadata.id", what)
            })?;
            // A run of several has no name of its own, no UUID and nothing that its name needs.
            let vertex = match &mut stencil {
                Some(stencil) => self.add_by(stencil, id, run.rank),
                None => self.add(pool.clone()),
            };
            let vertex = vertex.map_err(fault)?;
            ids.push(vertex);
            let it = &mut self.vertices[vertex.index()];
            it.state = run.state;
            it.unique = run.unique.map_or(i64::from(vertex.0), |unique| unique + step as i64);
            let Some(extras) = extras else { continue };
            if !extras.properties.is_empty() {
                self.properties.insert(vertex, extras.properties.clone());
            }
            if !extras.tags.is_empty() {
                self.tags.insert(vertex, extras.tags.clone());
            }
            if !extras.extended.is_empty() {
                self.extended.insert(vertex, extras.extended.clone());
            }
            if !extras.outer.is_empty() {
                self.outer.insert(vertex, extras.outer.clone());
            }
        }
        Ok(())
    }

    /// Finds the roots by paths, and keeps the paths that do not follow from the edges.
    fn settle_paths(
        &mut self,
        description: &Description,
        known: &BTreeMap<u32, VertexId>,
        ids: &[VertexId],
    ) -> Result<(), LoadError> {
        let new = |run: &&Run| run.count > 1 || !known.contains_key(&run.first);
        for run in description.runs().iter().filter(new) {
            for (subsystem, path) in description.paths(run) {
                let place = || format!(".metadata.paths.{subsystem}");
                if subsystem.is_empty() || !path.starts_with('/') || path.ends_with('/') {
                    let what = format!("'{path}' found; names that each follow a '/' are accepted");
                    return Err(description.fault(Some(run.first), &place(), what));
                }
                if path.matches('/').count() > 1 {
                    continue;
                }
                let name = self.add_subsystem(&subsystem);
                let root = ids[run.first as usize];
                let other = self.roots.insert(name, root).is_some_and(|before| before != root);
                if other || run.count > 1 {
                    let which = if other { run.first } else { run.first + 1 };
                    let what = "a second root of this subsystem found";
                    return Err(description.fault(Some(which), &place(), what));
                }
            }
        }
        for run in description.runs().iter().filter(new) {
            for (subsystem, path) in description.paths(run) {
                let subsystem = self.add_subsystem(&subsystem);
                if self.derived_path(ids[run.first as usize], subsystem).as_deref() == Some(&path) {
                    continue;
                }
                for (step, number) in
                    run.numbers().enumerate().filter(|(_, number)| !known.contains_key(number))
                {
                    let path = match step {
                        0 => path.clone(),
                        _ => description.path(run, step as u32).unwrap_or_default(),
                    };
                    self.odd_paths.insert((ids[number as usize], subsystem), path.into());
                }
            }
        }
        Ok(())
    }
}
