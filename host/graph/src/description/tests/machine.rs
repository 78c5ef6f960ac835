//! The machine for tests of models; the tests of `host/resource-query` include this file too.

use fluxgate_graph::description::{Model, Pool, Relation, VertexId};

/// A cluster of racks of nodes of cores, with a memory pool of 32 GB on each node.
pub(crate) fn machine(racks: i64, nodes: i64, cores: i64) -> Model {
    let mut model = Model::new();
    let cluster = model.add(Pool::new("cluster", 0)).unwrap();
    let inside = |model: &mut Model, parent: VertexId, pool: Pool| {
        let id = model.add(pool).unwrap();
        model.connect(parent, id, &Relation::contains()).unwrap();
        id
    };
    for r in 0..racks {
        let rack = inside(&mut model, cluster, Pool::new("rack", r));
        for n in 0..nodes {
            let mut pool = Pool::new("node", r * nodes + n);
            pool.rank = r * nodes + n;
            let node = inside(&mut model, rack, pool);
            for c in 0..cores {
                inside(&mut model, node, Pool::new("core", c));
            }
            let mut memory = Pool::new("memory", 0);
            (memory.size, memory.unit) = (32, "GB".to_owned());
            inside(&mut model, node, memory);
        }
    }
    model.finish().unwrap();
    model
}

/// The only vertex at a path.
pub(crate) fn at(model: &Model, path: &str) -> VertexId {
    let found = model.at_path(path);
    assert_eq!(found.len(), 1, "{path}");
    found[0]
}

/// The names of vertices.
pub(crate) fn names(model: &Model, vertices: &[VertexId]) -> Vec<String> {
    vertices.iter().map(|&v| model.text(model.vertex(v).unwrap().name()).to_owned()).collect()
}
