//! An order of nodes that is set, and the descriptions of nodes.

use fluxgate_formats::jobspec::{Checks, Jobspec};

use crate::matching::{Item, Matcher, Miss, Op, Policy, Setup};
use fluxgate_graph::Quantity;
use fluxgate_graph::description::{Model, Pool, Relation, VertexId};

/// Two racks of two nodes of two cores and memory; a GPU in the last node.
fn machine() -> Model {
    let mut model = Model::new();
    let cluster = model.add(Pool::new("cluster", 0)).unwrap();
    let inside = |model: &mut Model, above: VertexId, pool: Pool| {
        let v = model.add(pool).unwrap();
        model.connect(above, v, &Relation::contains()).unwrap();
        v
    };
    for r in 0..2 {
        let rack = inside(&mut model, cluster, Pool::new("rack", r));
        for n in 0..2 {
            let mut pool = Pool::new("node", 2 * r + n);
            // The graph knows the ranks of the first rack only.
            pool.rank = if r == 0 { 10 + n } else { -1 };
            if n == 1 {
                pool.properties.push(("watts".to_owned(), "250".to_owned()));
                pool.properties.push(("old".to_owned(), String::new()));
            }
            let node = inside(&mut model, rack, pool);
            let socket = inside(&mut model, node, Pool::new("socket", 0));
            for c in 0..2 {
                inside(&mut model, socket, Pool::new("core", c));
            }
            let mut memory = Pool::new("memory", 0);
            (memory.size, memory.unit) = (16, "GB".to_owned());
            inside(&mut model, node, memory);
            if 2 * r + n == 3 {
                inside(&mut model, node, Pool::new("gpu", 0));
            }
        }
    }
    model.finish().unwrap();
    model
}

fn matcher(walks: bool) -> Matcher {
    let setup = Setup { policy: Policy::ranked(), ..Setup::default() };
    let mut matcher = Matcher::new(machine(), &setup).unwrap();
    matcher.walk_always(walks);
    matcher
}

fn node(matcher: &mut Matcher, job: u64, resources: &str) -> Result<Vec<String>, Miss> {
    let text = format!(
        "version: 9999\nresources: [{resources}]\ntasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\n\
         attributes: {{}}"
    );
    let request = matcher.compile(&Jobspec::from_yaml_with(&text, Checks::Scheduling).unwrap());
    let booked = matcher.run(&request, Op::Allocate, job, 0)?.booked;
    let model = matcher.model();
    let name = |item: &Item| match *item {
        Item::Vertex { vertex, .. } => Some(model.text(model.vertex(vertex).unwrap().name()).to_owned()),
        Item::Edge { .. } => None,
    };
    Ok(booked.items.iter().filter_map(name).filter(|name| name.starts_with("node")).collect())
}

const ONE: &str = "{type: slot, count: 1, label: s, with: [{type: node, count: 1, with: [{type: socket, count: 1, with: [{type: core, count: 2}]}]}]}";
const CORE: &str = "{type: slot, count: 1, label: s, with: [{type: core, count: 1}]}";

#[test]
fn nodes_are_taken_in_the_order_given() {
    for walks in [false, true] {
        let mut matcher = matcher(walks);
        let nodes: Vec<VertexId> = matcher.node_rows().map(|node| node.vertex).collect();
        matcher.order_nodes(&[nodes[3], nodes[1], nodes[3]]);
        let mut taken = Vec::new();
        for job in 1..=4 {
            taken.extend(node(&mut matcher, job, ONE).unwrap());
        }
        assert_eq!(taken, ["node3", "node1", "node0", "node2"], "walks: {walks}");
        assert_eq!(node(&mut matcher, 5, ONE).unwrap_err(), Miss::Busy);
        matcher.cancel(3).unwrap();
        matcher.cancel(2).unwrap();
        assert_eq!(node(&mut matcher, 6, CORE).unwrap(), ["node1"], "cores too");
        matcher.order_nodes(&[nodes[0]]);
        assert_eq!(
            node(&mut matcher, 7, CORE).unwrap(),
            ["node0"],
            "what is booked stays, the order is another"
        );
    }
}

#[test]
fn rows_say_what_nodes_are() {
    let matcher = matcher(false);
    let rows: Vec<_> = matcher.node_rows().collect();
    let last = rows[3].row();
    assert_eq!(
        rows.iter().map(|row| row.row().rank).collect::<Vec<_>>(),
        [10, 11, 2, 3],
        "a rank, or the place"
    );
    assert_eq!((last.host, &*last.path), ("node3", "/cluster0/rack1/node3"));
    assert_eq!(last.properties, ["old", "watts=250"]);
    let of = |kind, amount, unit| Quantity { kind, amount, unit };
    assert_eq!(last.holds, [of("core", 2, ""), of("gpu", 1, ""), of("memory", 16, "GB")]);
    assert_eq!((rows[0].amount("gpu"), rows[3].amount("gpu")), (0, 1));
}

#[test]
fn the_inventory_is_another_when_a_property_changes_or_a_node_goes() {
    let mut matcher = matcher(false);
    let v = matcher.model().at_path("/cluster0/rack0/node0")[0];
    let before = matcher.inventory_version();
    node(&mut matcher, 1, ONE).unwrap();
    assert_eq!(matcher.inventory_version(), before, "what is booked says nothing of what there is");
    matcher.set_property(v, "old", "").unwrap();
    let changed = matcher.inventory_version();
    assert_ne!(changed, before);
    assert!(matcher.remove_path("/cluster0/rack0/node1"));
    assert_ne!(matcher.inventory_version(), changed);
    assert_eq!(matcher.node_rows().count(), 3);
}
