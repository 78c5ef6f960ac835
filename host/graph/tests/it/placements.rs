//! Each placement preference against a slow model that is obviously right and tries every node, every range of
//! performance classes and every part of the machine. Machines and allocations are random.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{JobId, R, shorthand};
use fluxgate_graph::{GraphBuilder, Ids, Placement, Pool, PoolId, Request, Resources};
use proptest::prelude::*;

const SOCKETS: u32 = 2;

/// A node as the model sees it.
#[derive(Debug, Clone, Copy)]
struct Node {
    cores_per_socket: u32,
    class: Option<u64>,
    power: Option<u64>,
}

/// Racks of switches of nodes.
type Plan = Vec<Vec<Vec<Node>>>;

fn plan() -> impl Strategy<Value = Plan> {
    let node = (1..4u32, proptest::option::of(0..6u64), proptest::option::of(0..4u64))
        .prop_map(|(cores_per_socket, class, power)| Node { cores_per_socket, class, power });
    let switch = proptest::collection::vec(node, 1..4);
    proptest::collection::vec(proptest::collection::vec(switch, 1..3), 1..3)
}

/// Ranks of the parts of a machine: its depth and its nodes, outer before inner.
fn parts(plan: &Plan) -> Vec<(u32, std::ops::Range<u32>)> {
    let nodes = |rack: &Vec<Vec<Node>>| rack.iter().map(|s| s.len() as u32).sum::<u32>();
    let mut list = vec![(1, 0..plan.iter().map(nodes).sum())];
    let mut at = 0;
    for rack in plan {
        list.push((2, at..at + nodes(rack)));
        for switch in rack {
            list.push((3, at..at + switch.len() as u32));
            at += switch.len() as u32;
        }
    }
    list
}

fn machine(plan: &Plan) -> Resources {
    let mut b = GraphBuilder::new();
    let core = b.name("core");
    let put = |b: &mut GraphBuilder, parent: Option<PoolId>, type_: &str, id: u32, ranked: Option<Node>| {
        let mut pool = Pool::new(b.name(type_), Ids::one(id));
        if let Some(node) = ranked {
            pool.rank = Some(id);
            pool.name = b.name(&format!("n{id}"));
            let said = [("perf_class", node.class), ("power", node.power)];
            pool.properties =
                said.iter().filter_map(|(k, v)| Some(b.name(&format!("{k}={}", (*v)?)))).collect();
        }
        let pool = b.add(pool).unwrap();
        if let Some(parent) = parent {
            b.contain(parent, pool);
        }
        pool
    };
    let root = put(&mut b, None, "cluster", 0, None);
    let (mut rank, mut switches) = (0, 0);
    for (id, rack) in plan.iter().enumerate() {
        let rack_at = put(&mut b, Some(root), "rack", id as u32, None);
        for switch in rack {
            let switch_at = put(&mut b, Some(rack_at), "switch", switches, None);
            switches += 1;
            for node in switch {
                let node_at = put(&mut b, Some(switch_at), "node", rank, Some(*node));
                rank += 1;
                for id in 0..SOCKETS {
                    let socket = put(&mut b, Some(node_at), "socket", id, None);
                    let count = node.cores_per_socket;
                    let cores = b.add(Pool::new(core, Ids::Range { first: id * count, count })).unwrap();
                    b.contain(socket, cores);
                }
            }
        }
    }
    let mut machine = Resources::from_graph(b.finish().unwrap());
    machine.set_up(&(0..rank).collect());
    machine
}

fn compile(machine: &mut Resources, shape: &str) -> Arc<Request> {
    let mut spec = Simple::default().build();
    spec.resources = shorthand::parse(shape).unwrap();
    machine.compile(&spec).unwrap()
}

/// The state of the model.
struct Model {
    nodes: Vec<Node>,
    /// Free cores of each socket of each node.
    free: Vec<Vec<u32>>,
    /// The order of ranked nodes.
    ranked: Vec<u32>,
}

impl Model {
    fn of(plan: &Plan, machine: &Resources, ranked: &[u32]) -> Model {
        let nodes: Vec<Node> = plan.iter().flatten().flatten().copied().collect();
        let held = machine.allocated_r();
        let free = |(rank, node): (usize, &Node)| {
            let taken = |core: u32| held.children(rank as u32).is_some_and(|c| c["core"].contains(core));
            let socket = |s: u32| {
                let ids = s * node.cores_per_socket..(s + 1) * node.cores_per_socket;
                ids.filter(|&core| !taken(core)).count() as u32
            };
            (0..SOCKETS).map(socket).collect()
        };
        Model { free: nodes.iter().enumerate().map(free).collect(), nodes, ranked: ranked.to_vec() }
    }

    fn cores(&self, rank: usize) -> u32 {
        self.free[rank].iter().sum()
    }

    fn idle(&self, rank: usize) -> bool {
        self.cores(rank) == self.nodes[rank].cores_per_socket * SOCKETS
    }

    /// The slots by rank that a preference gives, from the number of slots that fit on each node.
    fn expected(&self, plan: &Plan, placement: Placement, fits: &[u32], slots: u32) -> BTreeMap<u32, u32> {
        let all = 0..fits.len();
        let class = |rank: usize| self.nodes[rank].class.unwrap_or(9_999);
        let order: Vec<usize> = match placement {
            Placement::First | Placement::Low | Placement::LoNode => all.collect(),
            Placement::FirstNodeX | Placement::LoNodeX => all.collect(),
            Placement::High | Placement::HiNode | Placement::HiNodeX => all.rev().collect(),
            Placement::Pack => by(all, |rank| self.cores(rank)),
            Placement::Ranked => {
                let first = |rank: usize| self.ranked.iter().position(|&r| r as usize == rank);
                by(all, |rank| first(rank).unwrap_or(usize::MAX))
            }
            Placement::Spread => unreachable!("checked by its own rule"),
            Placement::Power => by(all, |rank| self.nodes[rank].power.unwrap_or(u64::MAX)),
            Placement::Variation => {
                let classes: Vec<u64> = all.clone().filter(|&r| fits[r] > 0).map(class).collect();
                let within =
                    |low: u64, high: u64| all.clone().filter(move |&r| (low..=high).contains(&class(r)));
                let windows = classes.iter().flat_map(|&low| classes.iter().map(move |&high| (low, high)));
                let enough = |&(low, high): &(u64, u64)| {
                    low <= high && within(low, high).map(|r| fits[r]).sum::<u32>() >= slots
                };
                let (low, high) =
                    windows.filter(enough).min_by_key(|(low, high)| (high - low, *low)).unwrap();
                by(within(low, high), class)
            }
            Placement::Locality => {
                let one = by(all.clone().filter(|&r| fits[r] >= slots), |rank| self.cores(rank));
                if let Some(&one) = one.first() {
                    return BTreeMap::from([(one as u32, slots)]);
                }
                let room = |part: &std::ops::Range<u32>| part.clone().map(|r| fits[r as usize]).sum::<u32>();
                let enough = parts(plan).into_iter().filter(|(_, part)| room(part) >= slots);
                let best = enough.min_by_key(|(depth, part)| (Reverse(*depth), room(part))).unwrap().1;
                by(best.map(|r| r as usize), |rank| Reverse(fits[rank]))
            }
        };
        let mut left = slots;
        let mut given = BTreeMap::new();
        for rank in order {
            let n = fits[rank].min(left);
            left -= n;
            if n > 0 {
                given.insert(rank as u32, n);
            }
        }
        given
    }
}

/// In order of a key, then of rank.
fn by<K: Ord>(ranks: impl Iterator<Item = usize>, key: impl Fn(usize) -> K) -> Vec<usize> {
    let mut list: Vec<usize> = ranks.collect();
    list.sort_by_key(|&rank| (key(rank), rank));
    list
}

fn slots_by_rank(r: &R, per: u32) -> BTreeMap<u32, u32> {
    let cores = |rank: u32| r.children(rank).unwrap()["core"].len() as u32;
    r.ranks().iter().map(|rank| (rank, cores(rank) / per)).collect()
}

/// Cores on one node are in as few sockets as possible: in the fullest socket with enough for all of them, or else as
/// many as possible in the socket with most, and so on.
fn near_inside(free: &[u32], taken: &[u32], per: u32, slots: u32) {
    let mut free = free.to_vec();
    let mut expected = vec![0u32; free.len()];
    let mut left = slots;
    while left > 0 {
        let room = |n: u32| (n / per).min(left);
        let sockets: Vec<usize> = (0..free.len()).filter(|&s| room(free[s]) > 0).collect();
        let whole = sockets.iter().copied().filter(|&s| room(free[s]) == left).min_by_key(|&s| (free[s], s));
        let most = sockets.iter().copied().max_by_key(|&s| (room(free[s]), Reverse(s)));
        let Some(socket) = whole.or(most) else {
            // No socket has enough for a slot: the rest comes from any socket.
            let before: u32 = expected.iter().sum();
            assert_eq!(taken.iter().sum::<u32>(), before + left * per);
            return;
        };
        let n = room(free[socket]);
        free[socket] -= n * per;
        expected[socket] += n * per;
        left -= n;
    }
    assert_eq!(taken, expected, "{slots} slots of {per} cores");
}

fn check(plan: &Plan, held: &[(u32, u32, bool)], slots: u32, per: u32, ranked: &[u32]) {
    let mut machine = machine(plan);
    machine.order_nodes(Some(ranked));
    let mut id = 0;
    for &(count, size, high) in held {
        let request = compile(&mut machine, &format!("slot={count}/core={size}"));
        let placement = if high { Placement::High } else { Placement::Spread };
        let Ok(found) = machine.match_now(&request, 0.0, 1.0, placement) else { continue };
        id += 1;
        machine.allocate(JobId(id), &found, 0.0, 1.0).unwrap();
    }
    let model = Model::of(plan, &machine, ranked);
    let shared = compile(&mut machine, &format!("slot={slots}/core={per}"));
    for placement in Placement::ALL {
        let request = machine.with_whole_nodes(shared.clone(), placement.whole_nodes());
        let fits = |rank: usize| match placement.whole_nodes() && !model.idle(rank) {
            true => 0,
            false => (model.cores(rank) / per).min(slots),
        };
        let fits: Vec<u32> = (0..model.nodes.len()).map(fits).collect();
        let found = machine.match_now(&request, 0.0, 1.0, placement);
        assert_eq!(found.is_ok(), fits.iter().sum::<u32>() >= slots, "{}", placement.name());
        let Ok(found) = found else { continue };
        let r = machine.selection_to_r(&found, 0.0, 1.0);
        let got = slots_by_rank(&r, per);
        assert_eq!(r.nslots, Some(slots));
        if placement.whole_nodes() {
            let expected = model.expected(plan, placement, &fits, slots);
            assert!(got.keys().eq(expected.keys()), "{}: {got:?} {expected:?}", placement.name());
            for rank in r.ranks().iter() {
                let all = u64::from(model.nodes[rank as usize].cores_per_socket * SOCKETS);
                assert_eq!(r.children(rank).unwrap()["core"].len(), all, "no other job is on the node");
            }
        } else if placement == Placement::Spread {
            let level = (1..).find(|&l| fits.iter().map(|&n| n.min(l)).sum::<u32>() >= slots);
            assert_eq!(got.values().max().copied(), level, "as evenly as it goes");
            assert_eq!(got.values().sum::<u32>(), slots);
        } else {
            assert_eq!(got, model.expected(plan, placement, &fits, slots), "{}", placement.name());
        }
        if placement == Placement::Locality {
            for (&rank, &n) in &got {
                let size = model.nodes[rank as usize].cores_per_socket;
                let cores = &r.children(rank).unwrap()["core"];
                let taken: Vec<u32> =
                    (0..SOCKETS).map(|s| cores.iter().filter(|c| c / size == s).count() as u32).collect();
                near_inside(&model.free[rank as usize], &taken, per, n);
            }
        }
        machine.allocate(JobId(999), &found, 0.0, 1.0).unwrap();
        machine.release(JobId(999), None).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every preference gives the result of the model.
    #[test]
    fn every_preference_is_what_it_says(
        plan in plan(),
        held in proptest::collection::vec((1..4u32, 1..4u32, any::<bool>()), 0..6),
        slots in 1..9u32,
        per in 1..4u32,
        ranked in proptest::collection::vec(0..20u32, 0..24),
    ) {
        check(&plan, &held, slots, per, &ranked);
    }
}

/// Every name is found again, and no other text is a name.
#[test]
fn names_of_preferences() {
    for placement in Placement::ALL {
        assert_eq!(Placement::from_name(placement.name()), Some(placement));
        assert!(Placement::NAMES.contains(placement.name()));
    }
    assert_eq!(Placement::from_name("best"), None);
}

/// The order applies within a rack, in the view of a reservation, and to nodes that come back up; without an order
/// nodes are taken in their own.
#[test]
fn ranked_nodes_of_a_part() {
    let node = Node { cores_per_socket: 1, class: None, power: None };
    let mut machine = machine(&vec![vec![vec![node; 3]]; 2]);
    let take = |machine: &mut Resources, shape: &str| {
        let request = compile(machine, shape);
        let found = machine.match_now(&request, 0.0, 1.0, Placement::Ranked).unwrap();
        machine.selection_to_r(&found, 0.0, 1.0).ranks().to_string()
    };
    let shape = "rack=2/slot=1/node";
    assert_eq!(take(&mut machine, shape), "0,3");
    machine.order_nodes(Some(&[5, 2, 4, 99, 5]));
    assert_eq!(machine.node_order(), Some(vec![5, 2, 4, 0, 1, 3]));
    assert_eq!(take(&mut machine, shape), "2,5");
    machine.set_down(&"2,5".parse().unwrap());
    assert_eq!(take(&mut machine, shape), "0,4");
    machine.set_up(&"5".parse().unwrap());
    let whole = compile(&mut machine, "slot=4/node");
    machine.reserve(JobId(9), &whole, 0.5, 1.0).unwrap();
    assert_eq!(take(&mut machine.clone(), "slot=1/node"), "5", "the same in a copy");
    machine.property_add("late", &"5".parse().unwrap());
    assert_eq!(take(&mut machine, "slot=1/node"), "5");
    machine.order_nodes(None);
    assert_eq!((take(&mut machine, "slot=1/node").as_str(), machine.node_order()), ("0", None));
}

/// The memory, gpu and cores of a slot come from one socket if one has them all.
#[test]
fn locality_looks_at_all_of_a_slot() {
    let mut b = GraphBuilder::new();
    let [cluster, node, socket, core, gpu] = ["cluster", "node", "socket", "core", "gpu"].map(|t| b.name(t));
    let root = b.add(Pool::new(cluster, Ids::one(0))).unwrap();
    let mut pool = Pool::new(node, Ids::one(0));
    (pool.rank, pool.name) = (Some(0), b.name("n0"));
    let at = b.add(pool).unwrap();
    b.contain(root, at);
    for id in 0..3u32 {
        let socket = b.add(Pool::new(socket, Ids::one(id))).unwrap();
        b.contain(at, socket);
        let cores = b.add(Pool::new(core, Ids::Range { first: id * 4, count: 4 })).unwrap();
        b.contain(socket, cores);
        if id > 0 {
            let gpus = b.add(Pool::new(gpu, Ids::Range { first: id * 2 - 2, count: 2 })).unwrap();
            b.contain(socket, gpus);
        }
    }
    let mut machine = Resources::from_graph(b.finish().unwrap());
    machine.set_up(&"0".parse().unwrap());
    for (shape, placement, expected) in [
        ("slot=2/[core=2;gpu]", Placement::First, "rank0/core[0-3],gpu[0-1]"),
        ("slot=2/[core=2;gpu]", Placement::Locality, "rank0/core[4-7],gpu[0-1]"),
        ("slot=4/[core=2;gpu]", Placement::Locality, "rank0/core[4-11],gpu[0-3]"),
        ("slot=4/[core=3;gpu]", Placement::Locality, "rank0/core[0-11],gpu[0-3]"),
        ("slot=5/core", Placement::Locality, "rank0/core[0-4]"),
    ] {
        let request = compile(&mut machine, shape);
        let found = machine.match_now(&request, 0.0, 1.0, placement).unwrap();
        assert_eq!(machine.selection_to_r(&found, 0.0, 1.0).summary(), expected, "{shape}");
    }
}
