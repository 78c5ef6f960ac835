//! The outline of a subsystem: its tree with equal siblings folded, small for a machine of any size.
//!
//! Siblings are equal if they, and all vertices below them, differ only in names, ids and ranks. Edges of type
//! `contains` form the tree; without them the first edge to a vertex does. Each vertex is counted once.
//!
//! This module must never know how the outline is drawn.

use std::collections::BTreeMap;

use crate::description::names::Name;

use super::model::{MODEL_DEPTH_MAX, Model};
use super::vertex::{State, VertexId};

/// Equal siblings: below one vertex, or below equal ones.
#[derive(Debug, Clone)]
pub struct Group {
    /// All of them, in the order in which the tree is walked; at least one.
    pub members: Vec<VertexId>,
    /// How many of them are below each vertex of the group above.
    pub each: usize,
    /// The groups below them.
    pub below: Vec<Group>,
    /// True if the groups below were left out because of the depth.
    pub cut: bool,
}

/// The common data of equal vertices.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Shape<'m> {
    type_: Name,
    basename: Name,
    unit: Name,
    size: u64,
    state: State,
    properties: Option<&'m BTreeMap<String, String>>,
    below: Vec<(u32, usize)>,
}

impl Model {
    /// The tree of a subsystem, its root first, `depth` levels of it; `None` for an unknown subsystem. A subsystem
    /// without root has several trees.
    pub fn outline(&self, subsystem: &str, depth: usize) -> Option<Vec<Group>> {
        let name = self.names.get(subsystem).filter(|name| self.subsystems().contains(name))?;
        let all = self.subsystem(subsystem)?.0;
        let mut reached = vec![false; self.vertices.len()];
        let mut below: Vec<Vec<VertexId>> = vec![Vec::new(); self.vertices.len()];
        let mut order: Vec<VertexId> = Vec::with_capacity(all.len());
        let first = self.root(subsystem).into_iter();
        let tops = all.iter().copied().filter(|&v| self.in_edge(v, name).is_none());
        let mut roots = Vec::new();
        // Vertices that none of these leads to are on a circle, which is cut at the vertex that was added first.
        for top in first.chain(tops).chain(all.iter().copied()) {
            if std::mem::replace(&mut reached[top.index()], true) {
                continue;
            }
            roots.push(top);
            let mut at = order.len();
            order.push(top);
            while let Some(&v) = order.get(at) {
                at += 1;
                for child in self.steps(v, name) {
                    if self.parent(child, name) == Some(v) && !reached[child.index()] {
                        reached[child.index()] = true;
                        below[v.index()].push(child);
                        order.push(child);
                    }
                }
            }
        }
        let mut shapes: BTreeMap<Shape<'_>, u32> = BTreeMap::new();
        let mut shape_of = vec![0u32; self.vertices.len()];
        for &v in order.iter().rev() {
            let it = &self.vertices[v.index()];
            let kinds = kinds(&below[v.index()], &shape_of);
            let shape = Shape {
                type_: it.type_,
                basename: it.basename,
                unit: it.unit,
                size: it.size,
                state: it.state,
                properties: self.properties.get(&v),
                below: kinds.iter().map(|(shape, members)| (*shape, members.len())).collect(),
            };
            let next = shapes.len() as u32;
            shape_of[v.index()] = *shapes.entry(shape).or_insert(next);
        }
        let tree = Tree { below, shape_of };
        Some(tree.groups(&[&roots], depth.min(MODEL_DEPTH_MAX)))
    }
}

/// The vertices of a list by shape, shapes in the order of their first vertex.
fn kinds(list: &[VertexId], shape_of: &[u32]) -> Vec<(u32, Vec<VertexId>)> {
    let mut at: BTreeMap<u32, usize> = BTreeMap::new();
    let mut kinds: Vec<(u32, Vec<VertexId>)> = Vec::new();
    for &v in list {
        let shape = shape_of[v.index()];
        let index = *at.entry(shape).or_insert(kinds.len());
        if index == kinds.len() {
            kinds.push((shape, Vec::new()));
        }
        kinds[index].1.push(v);
    }
    kinds
}

struct Tree {
    below: Vec<Vec<VertexId>>,
    shape_of: Vec<u32>,
}

impl Tree {
    /// The groups below equal vertices: each of these has equally many of each shape below it.
    fn groups(&self, lists: &[&Vec<VertexId>], depth: usize) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut at: BTreeMap<u32, usize> = BTreeMap::new();
        for list in lists {
            for (shape, members) in kinds(list, &self.shape_of) {
                let index = *at.entry(shape).or_insert(groups.len());
                match groups.get_mut(index) {
                    Some(group) => group.members.extend(members),
                    None => {
                        groups.push(Group { each: members.len(), members, below: Vec::new(), cut: false })
                    }
                }
            }
        }
        for group in &mut groups {
            let lists: Vec<_> = group.members.iter().map(|v| &self.below[v.index()]).collect();
            if depth > 0 {
                group.below = self.groups(&lists, depth - 1);
            } else {
                group.cut = lists.iter().any(|list| !list.is_empty());
            }
        }
        groups
    }
}
