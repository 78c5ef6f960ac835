//! Satisfiability, which depends on the inventory alone, against a model that tries every placement of every slot.

use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{JobId, shorthand};
use fluxgate_graph::{GraphBuilder, Ids, Placement, Pool, Resources};
use proptest::prelude::*;

/// Cores and gpus of each socket, and memory of the node.
#[derive(Debug, Clone)]
struct Node {
    sockets: Vec<(u32, u32)>,
    memory: u32,
    ssd: bool,
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let socket = (1..4u32, 0..3u32);
    let node = (proptest::collection::vec(socket, 1..3), 1..5u32, any::<bool>());
    let node = node.prop_map(|(sockets, memory, ssd)| Node { sockets, memory, ssd });
    proptest::collection::vec(node, 1..4)
}

/// The kind of a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// A slot on one node, not exclusive.
    Flat,
    /// A slot with an exclusive node.
    Node,
    /// A slot with an exclusive socket.
    Socket,
}

#[derive(Debug, Clone, Copy)]
struct Want {
    kind: Kind,
    slots: u32,
    cores: u32,
    gpus: u32,
    memory: u32,
}

fn want() -> impl Strategy<Value = Want> {
    let kind = prop_oneof![Just(Kind::Flat), Just(Kind::Node), Just(Kind::Socket)];
    (kind, 1..5u32, 1..4u32, 0..3u32, 0..4u32).prop_map(|(kind, slots, cores, gpus, memory)| Want {
        kind,
        slots,
        cores,
        gpus,
        memory: if kind == Kind::Socket { 0 } else { memory },
    })
}

fn shape(want: &Want) -> String {
    let mut list = vec![format!("core={}", want.cores)];
    list.extend((want.gpus > 0).then(|| format!("gpu={}", want.gpus)));
    list.extend((want.memory > 0).then(|| format!("memory={}", want.memory)));
    let inside = format!("[{}]", list.join(";"));
    match want.kind {
        Kind::Flat => format!("slot={}/{inside}", want.slots),
        Kind::Node => format!("slot={}/node/{inside}", want.slots),
        Kind::Socket => format!("slot={}/socket/{inside}", want.slots),
    }
}

fn machine(nodes: &[Node]) -> Resources {
    let mut b = GraphBuilder::new();
    let [cluster, node, socket, core, gpu, memory, ssd] =
        ["cluster", "node", "socket", "core", "gpu", "memory", "ssd"].map(|t| b.name(t));
    let root = b.add(Pool::new(cluster, Ids::one(0))).unwrap();
    for (rank, it) in (0u32..).zip(nodes) {
        let mut pool = Pool::new(node, Ids::one(rank));
        (pool.rank, pool.name) = (Some(rank), b.name(&format!("n{rank}")));
        pool.properties = if it.ssd { vec![ssd] } else { Vec::new() };
        let at = b.add(pool).unwrap();
        b.contain(root, at);
        let mut pool = Pool::new(memory, Ids::one(0));
        pool.size = it.memory.into();
        let pool = b.add(pool).unwrap();
        b.contain(at, pool);
        let (mut cores, mut gpus) = (0, 0);
        for (id, &(n, g)) in (0u32..).zip(&it.sockets) {
            let place = b.add(Pool::new(socket, Ids::one(id))).unwrap();
            b.contain(at, place);
            for (type_, first, count) in [(core, &mut cores, n), (gpu, &mut gpus, g)] {
                if count > 0 {
                    let run = b.add(Pool::new(type_, Ids::Range { first: *first, count })).unwrap();
                    b.contain(place, run);
                    *first += count;
                }
            }
        }
    }
    Resources::from_graph(b.finish().unwrap())
}

/// True if this number of slots can be placed on these nodes. Tries every node for every slot.
fn possible(nodes: &[Node], want: &Want) -> bool {
    let room = |node: &Node| -> u32 {
        let cores: u32 = node.sockets.iter().map(|s| s.0).sum();
        let gpus: u32 = node.sockets.iter().map(|s| s.1).sum();
        let fits = |slots: u32| {
            slots * want.cores <= cores && slots * want.gpus <= gpus && slots * want.memory <= node.memory
        };
        match want.kind {
            Kind::Flat => (0..=want.slots).filter(|&n| fits(n)).max().unwrap_or(0),
            Kind::Node => u32::from(fits(1)),
            Kind::Socket => {
                node.sockets.iter().filter(|s| s.0 >= want.cores && s.1 >= want.gpus).count() as u32
            }
        }
    };
    nodes.iter().map(room).sum::<u32>() >= want.slots
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// The answer is that of the model. It does not depend on node status or allocations, and a satisfiable request
    /// starts on the idle machine.
    #[test]
    fn adm_13_it_is_what_could_ever_run(nodes in nodes(), want in want(), ssd in any::<bool>(), gone in 0..4u32) {
        let mut m = machine(&nodes);
        let mut spec = Simple { slots: 1, ..Simple::default() }.build();
        spec.resources = shorthand::parse(&shape(&want)).unwrap();
        if ssd {
            spec.add_constraint(Constraint::from_value(&serde_json::json!({"properties": ["ssd"]})).unwrap());
        }
        let request = m.compile(&spec).unwrap();
        let there = |keep: &dyn Fn(u32) -> bool| -> Vec<Node> {
            (0u32..).zip(&nodes).filter(|(r, n)| keep(*r) && (!ssd || n.ssd)).map(|(_, n)| n.clone()).collect()
        };
        let expected = possible(&there(&|_| true), &want);
        // All nodes are down.
        prop_assert_eq!(m.satisfiable(&request).is_ok(), expected);
        m.set_up(&(0..nodes.len() as u32).collect());
        let now = m.match_now(&request, 0.0, 1.0, Placement::First);
        prop_assert_eq!(now.is_ok(), expected);
        // All nodes are in use.
        let mut all = Simple { slots: 1, ..Simple::default() }.build();
        all.resources = shorthand::parse("slot=1+/core").unwrap();
        let everything = m.compile(&all).unwrap();
        let found = m.match_now(&everything, 0.0, 1.0, Placement::First).unwrap();
        m.allocate(JobId(1), &found, 0.0, 1.0).unwrap();
        prop_assert!(m.match_now(&request, 0.0, 1.0, Placement::First).is_err());
        prop_assert_eq!(m.satisfiable(&request).is_ok(), expected);
        // A removed node is not counted.
        m.shrink(&gone.into());
        let expected = possible(&there(&|rank| rank != gone), &want);
        prop_assert_eq!(m.satisfiable(&request).is_ok(), expected);
    }
}
