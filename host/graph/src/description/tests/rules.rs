//! The rules of composite pools, and the removal of vertices.

use std::collections::BTreeSet;

use super::{at, machine};
use crate::description::{Model, ModelError, Pool, Relation, VertexId};

#[test]
fn a_number_of_no_vertex_is_not_removed() {
    let mut model = machine(1, 2, 2);
    let node = at(&model, "/cluster0/rack0/node0");
    let gone = model.subtree(node, model.name("containment").unwrap());
    let before = model.vertices().count();
    let unknown = [VertexId(model.vertex_count() as u32), VertexId(u32::MAX)];
    model.remove(&unknown.into_iter().collect());
    assert_eq!(model.vertices().count(), before);
    model.remove(&gone.iter().copied().chain(unknown).collect::<BTreeSet<_>>());
    assert_eq!(model.vertices().count(), before - gone.len());
    assert_eq!(model.check(), Ok(()));
}

/// A ring of vertices is named by one of its vertices, and not by one that hangs below it.
#[test]
fn a_ring_is_named_by_one_of_its_vertices() {
    let mut model = Model::new();
    let ids: Vec<VertexId> = (0..4).map(|n| model.add(Pool::new("box", n)).unwrap()).collect();
    for (from, to) in [(1, 0), (2, 1), (3, 2), (2, 3)] {
        model.connect(ids[from], ids[to], &Relation::contains()).unwrap();
    }
    let named = |fault: Result<(), ModelError>| match fault.unwrap_err() {
        ModelError::Cycle(vertex) => ids.iter().position(|id| *id == vertex),
        other => panic!("{other}"),
    };
    assert!(matches!(named(model.clone().finish()), Some(2 | 3)));
    // The same beside a tree that has a root.
    let (root, leaf) = (model.add(Pool::new("top", 0)).unwrap(), model.add(Pool::new("leaf", 0)).unwrap());
    model.connect(root, leaf, &Relation::contains()).unwrap();
    assert!(matches!(named(model.finish()), Some(2 | 3)));
}
