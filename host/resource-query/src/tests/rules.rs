//! The rules of valid models, and parts of models.

use std::collections::BTreeSet;

use fluxgate_formats::jobspec::{Checks, Jobspec};

use super::{at, machine, names};
use crate::matching::{Item, Matcher, Miss, Op, Policy, Setup};
use fluxgate_graph::description::{Direction, MODEL_DEPTH_MAX, Model, ModelError, Pool, Relation, VertexId};

fn two() -> (Model, VertexId, VertexId) {
    let mut model = Model::new();
    let a = model.add(Pool::new("switch", 0)).unwrap();
    let b = model.add(Pool::new("switch", 1)).unwrap();
    (model, a, b)
}

#[test]
fn m4_12_edges_have_type_and_subsystem_and_may_go_both_ways() {
    let (mut model, a, b) = two();
    assert_eq!(model.connect(a, b, &Relation::of("", "linked", "")), Err(ModelError::NoSubsystem));
    assert_eq!(model.connect(a, b, &Relation::of("net", "", "")), Err(ModelError::NoEdgeType));
    let mut both = Relation::of("net", "linked", "");
    both.direction = Direction::Both;
    model.connect(a, b, &both).unwrap();
    let net = model.name("net").unwrap();
    assert_eq!(model.steps(a, net).collect::<Vec<_>>(), [b]);
    assert_eq!(model.steps(b, net).collect::<Vec<_>>(), [a]);

    let (mut two_edges, a, b) = two();
    two_edges.connect(a, b, &Relation::of("net", "linked", "")).unwrap();
    two_edges.connect(b, a, &Relation::of("net", "linked", "")).unwrap();
    let net = two_edges.name("net").unwrap();
    assert_eq!(two_edges.steps(a, net).collect::<Vec<_>>(), [b]);
    assert_eq!(two_edges.steps(b, net).collect::<Vec<_>>(), [a]);
}

#[test]
fn m4_13_opposites_are_found_stored_or_not_and_must_fit() {
    let model = machine(1, 1, 1);
    let containment = model.name("containment").unwrap();
    let (rack, node) = (at(&model, "/cluster0/rack0"), at(&model, "/cluster0/rack0/node0"));
    assert_eq!(model.parent(node, containment), Some(rack));

    let text = |back: &str| {
        let node = |id: u32| format!(r#"{{"id":"{id}","metadata":{{"type":"t"}}}}"#);
        let edge = |a: u32, b: u32, what: &str| {
            let name = format!(r#"{{"name":{{"containment":"{what}"}}}}"#);
            format!(r#"{{"source":"{a}","target":"{b}","metadata":{name}}}"#)
        };
        let nodes = [0, 1, 2].map(node).join(",");
        let edges = [edge(0, 1, "contains"), edge(1, 2, "contains"), back.to_owned()].join(",");
        format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{edges}]}}}}"#)
    };
    let back = |from: u32| {
        format!(r#"{{"source":"2","target":"{from}","metadata":{{"name":{{"containment":"in"}}}}}}"#)
    };
    let stored = Model::from_jgf(&text(&back(1))).unwrap();
    assert_eq!(stored.edge_count(), 2, "the opposite is no edge of its own");
    let wrong = Model::from_jgf(&text(&back(0))).unwrap_err();
    assert_eq!(wrong.place, "graph.edges[2]");
}

#[test]
fn m4_14_a_subsystem_is_its_edges_and_their_ends() {
    let mut model = machine(1, 2, 1);
    let pdu = model.add(Pool::new("pdu", 0)).unwrap();
    let nodes = [at(&model, "/cluster0/rack0/node0"), at(&model, "/cluster0/rack0/node1")];
    let edges = nodes.map(|n| model.connect(pdu, n, &Relation::of("power", "supplies_to", "")).unwrap());
    model.finish().unwrap();
    let (vertices, found) = model.subsystem("power").unwrap();
    assert_eq!(found, edges);
    assert_eq!(vertices, [nodes[0], nodes[1], pdu]);
    assert!(model.subsystem("plumbing").is_none());
}

#[test]
fn m4_15_one_parent_per_subsystem_one_root_no_cycle() {
    let mut model = machine(1, 2, 1);
    let (rack, core) = (at(&model, "/cluster0/rack0"), at(&model, "/cluster0/rack0/node0/core0"));
    let mut other = model.clone();
    model.connect(rack, core, &Relation::contains()).unwrap();
    assert_eq!(model.check(), Err(ModelError::TwoParents(core)));
    other.connect(rack, core, &Relation::tree("virtual")).unwrap();
    assert_eq!(other.finish(), Ok(()));

    let (mut model, a, b) = two();
    model.connect(a, b, &Relation::contains()).unwrap();
    model.connect(b, a, &Relation::contains()).unwrap();
    assert_eq!(model.finish(), Err(ModelError::Cycle(a)));
    model.set_root("containment", a).unwrap();
    assert_eq!(model.check(), Err(ModelError::Cycle(a)));
    // A cycle beside a tree.
    let mut model = machine(1, 1, 1);
    let [x, y] = [0, 1].map(|n| model.add(Pool::new("x", n)).unwrap());
    model.connect(x, y, &Relation::contains()).unwrap();
    model.connect(y, x, &Relation::contains()).unwrap();
    assert_eq!(model.check(), Err(ModelError::Cycle(x)));
    // Two roots.
    let mut model = machine(1, 1, 1);
    let [x, y] = [0, 1].map(|n| model.add(Pool::new("x", n)).unwrap());
    model.connect(x, y, &Relation::contains()).unwrap();
    assert_eq!(model.check(), Err(ModelError::TwoRoots(x)));
}

#[test]
fn trees_are_bounded_in_depth() {
    let mut model = Model::new();
    let mut last = model.add(Pool::new("level", 0)).unwrap();
    for n in 1..=MODEL_DEPTH_MAX as i64 {
        let next = model.add(Pool::new("level", n)).unwrap();
        model.connect(last, next, &Relation::contains()).unwrap();
        last = next;
    }
    assert!(matches!(model.finish(), Err(ModelError::TooDeep(_))));
}

#[test]
fn m4_16_a_subset_is_a_model_of_its_own() {
    let mut model = machine(2, 2, 4);
    let node = at(&model, "/cluster0/rack1/node3");
    model.set_tag(node, "lent", vec![]).unwrap();
    let part: BTreeSet<_> =
        ["core1", "core2"].iter().map(|c| at(&model, &format!("/cluster0/rack1/node3/{c}"))).collect();
    let part = model.subset(&part).unwrap();
    let part = Model::from_jgf(&part.to_jgf().to_string()).unwrap();
    let all: Vec<_> = part.vertices().collect();
    assert_eq!(names(&part, &all), ["cluster0", "rack1", "node3", "core1", "core2"]);
    assert!(
        part.tag(at(&part, "/cluster0/rack1/node3"), "lent").is_some(),
        "what vertices carry comes along"
    );
}

#[test]
fn m4_17_a_rack_is_built_from_nodes_and_answers_for_them() {
    let mut model = Model::new();
    let nodes: Vec<_> = (0..3)
        .map(|n| {
            let node = model.add(Pool::new("node", n)).unwrap();
            for c in 0..4 {
                let core = model.add(Pool::new("core", c)).unwrap();
                model.connect(node, core, &Relation::contains()).unwrap();
            }
            node
        })
        .collect();
    let rack = model.add(Pool::new("rack", 0)).unwrap();
    for node in nodes {
        model.connect(rack, node, &Relation::contains()).unwrap();
    }
    model.finish().unwrap();
    let (containment, core) = (model.name("containment").unwrap(), model.name("core").unwrap());
    let below = model.subtree(rack, containment);
    assert_eq!(below.iter().filter(|&&v| model.vertex(v).unwrap().type_() == core).count(), 12);
    assert_eq!(model.root("containment"), Some(rack));
}

/// The selection for a number of vertices of a type: their paths, children first.
fn allocate(matcher: &mut Matcher, job: u64, what: &str) -> Result<Vec<String>, Miss> {
    let text = format!(
        "version: 9999\nresources: [{{type: slot, count: 1, label: s, with: [{what}]}}]\n\
         tasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\nattributes: {{system: {{duration: 60}}}}"
    );
    let jobspec = Jobspec::from_yaml_with(&text, Checks::Scheduling).unwrap();
    let request = matcher.compile(&jobspec);
    let matched = matcher.run(&request, Op::Allocate, job, 0)?;
    let model = matcher.model();
    let containment = model.name("containment").unwrap();
    let held = matched.booked.items.iter().filter_map(|item| match item {
        Item::Vertex { vertex, exclusive: true, .. } => model.path(*vertex, containment),
        _ => None,
    });
    Ok(held.collect())
}

#[test]
fn m4_21_any_granularity_from_a_center_to_a_slice() {
    // The center at the granularity of racks: 10,000 nodes as pools of 20.
    let mut center = Model::new();
    let top = center.add(Pool::new("cluster", 0)).unwrap();
    for n in 0..500 {
        let rack = center.add(Pool::new("rack", n)).unwrap();
        let nodes = center.add(Pool { size: 20, ..Pool::new("node", n) }).unwrap();
        center.connect(top, rack, &Relation::contains()).unwrap();
        center.connect(rack, nodes, &Relation::contains()).unwrap();
    }
    center.finish().unwrap();
    let setup = Setup { policy: Policy::parse("low").unwrap(), ..Setup::default() };
    let mut parent = Matcher::new(center, &setup).unwrap();
    let racks = allocate(&mut parent, 1, "{type: rack, count: 2}").unwrap();
    assert_eq!(racks, ["/cluster0/rack0", "/cluster0/rack1"]);
    assert_eq!(allocate(&mut parent, 2, "{type: rack, count: 499}"), Err(Miss::Busy));
    // The child sees only the nodes and cores of these racks.
    let fine = machine(500, 20, 4);
    let containment = fine.name("containment").unwrap();
    let below = racks.iter().flat_map(|path| fine.subtree(at(&fine, path), containment));
    let mut child = Matcher::new(fine.subset(&below.collect()).unwrap(), &setup).unwrap();
    assert_eq!(child.holding("type=node").unwrap().len(), 40);
    assert!(child.model().at_path("/cluster0/rack2").is_empty());
    let nodes = "{type: node, count: 20, with: [{type: core, count: 4}]}";
    for job in 1..=2 {
        assert_eq!(allocate(&mut child, job, nodes).unwrap().len(), 20 * 5);
    }
    assert_eq!(allocate(&mut child, 3, "{type: core, count: 1}"), Err(Miss::Busy));
    // One node of it is a graph again, at the granularity of cores.
    let node = child.model().at_path("/cluster0/rack1/node39")[0];
    let below = child.model().subtree(node, child.model().name("containment").unwrap());
    let mut slice =
        Matcher::new(child.model().subset(&below.into_iter().collect()).unwrap(), &setup).unwrap();
    let got = allocate(&mut slice, 1, "{type: core, count: 3}").unwrap();
    assert_eq!((got.len(), got[0].as_str()), (3, "/cluster0/rack1/node39/core0"));
}

#[test]
fn removed_vertices_are_gone_with_their_edges() {
    let mut model = machine(2, 2, 2);
    let containment = model.name("containment").unwrap();
    let rack = at(&model, "/cluster0/rack0");
    let gone: BTreeSet<_> = model.subtree(rack, containment).into_iter().collect();
    model.remove(&gone);
    assert!(model.at_path("/cluster0/rack0/node0").is_empty());
    let root = model.root("containment").unwrap();
    assert_eq!(model.steps(root, containment).count(), 1);
    assert_eq!(model.check(), Ok(()));
    let again = Model::from_jgf(&model.to_jgf().to_string()).unwrap();
    assert_eq!(again.vertex_count(), model.vertices().count());
}
