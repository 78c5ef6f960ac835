//! Machines with storage beside nodes, against a plain list of units and the jobs that hold them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::super::config;
use super::*;

/// A request; the list decides when it fits.
#[derive(Debug, Clone, Copy)]
enum Ask {
    /// Slots of a node and storage vertices beside it.
    Beside(u32, u32),
    /// Chassis with nodes and storage vertices in each.
    Chassis(u32, u32, u32),
    /// A node, and storage vertices anywhere.
    Apart(u32),
    /// Exclusive nodes.
    Nodes(u32),
    /// Cores anywhere.
    Cores(u32),
    /// An exclusive chassis.
    Alone,
    /// A storage node in a chassis with a node.
    Storage,
}

impl Ask {
    fn text(self) -> String {
        let gib = |vertices: u32| vertices * 100 - 50;
        match self {
            Ask::Beside(slots, vertices) => beside(slots, gib(vertices)),
            Ask::Chassis(count, nodes, vertices) => {
                job(json!([{"type": "chassis", "count": count, "with": [node(nodes), ssd(gib(vertices))]}]))
            }
            Ask::Apart(vertices) => job(json!([node(1), ssd(gib(vertices))])),
            Ask::Nodes(count) => job(json!([node(count)])),
            Ask::Cores(count) => {
                let core = json!([{"type": "core", "count": 1}]);
                job(json!([{"type": "slot", "count": count, "label": "task", "with": core}]))
            }
            Ask::Alone => job(json!([{"type": "chassis", "count": 1, "exclusive": true, "with": [node(1)]}])),
            Ask::Storage => {
                let on = json!({"type": "storage_node", "count": 1, "with": [{"type": "core", "count": 1, "exclusive": true}]});
                job(json!([{"type": "chassis", "count": 1, "with": [node(1), on]}]))
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Start(Ask, f64),
    /// The nth job ends.
    End(usize),
    /// The nth job releases its nth rank.
    Part(usize, usize),
    /// Marks a storage vertex, chassis or node by path.
    Mark(u32, u32, bool),
    Rank(u32, bool),
    Restart,
}

/// One core, storage vertex or chassis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Core(u32, u32),
    Ssd(u32, u32),
    /// The chassis itself, held exclusively by a job until its last release.
    Chassis(u32),
}

/// The plain list of units.
#[derive(Debug, Clone, Default)]
struct List {
    held: BTreeMap<Unit, u64>,
    ends: BTreeMap<u64, f64>,
    down: Vec<String>,
    ranks_down: Vec<u32>,
}

struct World {
    site: Rabbits,
    machine: Resources,
    list: List,
}

impl World {
    fn path_of_rank(&self, rank: u32) -> (Option<u32>, String) {
        let Rabbits { chassis, nodes, .. } = self.site;
        if rank < chassis * nodes {
            (Some(rank / nodes), format!("/site/chassis{}/n{rank}", rank / nodes))
        } else if rank == chassis * nodes {
            (None, format!("/site/n{rank}"))
        } else {
            let c = rank - chassis * nodes - 1;
            (Some(c), format!("/site/chassis{c}/r{c}"))
        }
    }

    fn is_marked(&self, path: &str) -> bool {
        self.list.down.iter().any(|down| path == down || path.starts_with(&format!("{down}/")))
    }

    fn rank_is_up(&self, rank: u32) -> bool {
        !self.list.ranks_down.contains(&rank) && !self.is_marked(&self.path_of_rank(rank).1)
    }

    fn cores(&self, rank: u32) -> u32 {
        if rank < self.site.node_count() { self.site.cores } else { 2 }
    }

    fn free_cores(&self, list: &List, rank: u32) -> u32 {
        let free = |core: &u32| !list.held.contains_key(&Unit::Core(rank, *core));
        if self.rank_is_up(rank) { (0..self.cores(rank)).filter(free).count() as u32 } else { 0 }
    }

    fn idle(&self, list: &List, rank: u32) -> bool {
        self.free_cores(list, rank) == self.cores(rank)
    }

    fn idle_in(&self, list: &List, chassis: Option<u32>) -> u32 {
        let ranks = 0..self.site.node_count();
        ranks.filter(|rank| self.path_of_rank(*rank).0 == chassis && self.idle(list, *rank)).count() as u32
    }

    fn ssds_in(&self, list: &List, chassis: u32) -> u32 {
        let usable = |s: &u32| {
            !list.held.contains_key(&Unit::Ssd(chassis, *s))
                && !self.is_marked(&format!("/site/chassis{chassis}/ssd{s}"))
        };
        (0..self.site.ssds).filter(usable).count() as u32
    }

    fn fits(&self, list: &List, ask: Ask) -> bool {
        let open = |c: &u32| !list.held.contains_key(&Unit::Chassis(*c));
        let all = (0..self.site.chassis).filter(open);
        let idle: u32 = (0..self.site.node_count()).filter(|rank| self.idle(list, *rank)).count() as u32;
        match ask {
            Ask::Beside(slots, vertices) => {
                let of = |c: u32| self.idle_in(list, Some(c)).min(self.ssds_in(list, c) / vertices);
                all.map(of).sum::<u32>() >= slots
            }
            Ask::Chassis(count, nodes, vertices) => {
                let of =
                    |c: &u32| self.idle_in(list, Some(*c)) >= nodes && self.ssds_in(list, *c) >= vertices;
                all.filter(of).count() as u32 >= count
            }
            Ask::Apart(vertices) => {
                idle >= 1 && (0..self.site.chassis).map(|c| self.ssds_in(list, c)).sum::<u32>() >= vertices
            }
            Ask::Nodes(count) => idle >= count,
            Ask::Cores(count) => {
                (0..self.site.node_count()).map(|rank| self.free_cores(list, rank)).sum::<u32>() >= count
            }
            Ask::Alone => all.into_iter().any(|c| {
                let storage = !self.site.storage_nodes || self.idle(list, self.site.node_count() + c);
                self.idle_in(list, Some(c)) == self.site.nodes
                    && self.ssds_in(list, c) == self.site.ssds
                    && storage
            }),
            Ask::Storage => {
                let of = |c: u32| {
                    self.idle_in(list, Some(c)) >= 1 && self.free_cores(list, self.site.node_count() + c) >= 1
                };
                self.site.storage_nodes && all.into_iter().any(of)
            }
        }
    }

    /// Units in an R.
    fn units(&self, r: &R) -> Vec<Unit> {
        let mut units = Vec::new();
        for entry in &r.r_lite {
            for rank in entry.rank.iter() {
                units.extend(entry.children["core"].iter().map(|core| Unit::Core(rank, core)));
            }
        }
        let nodes =
            r.scheduling.as_ref().map_or(Vec::new(), |it| it["graph"]["nodes"].as_array().unwrap().clone());
        for it in nodes.iter().map(|node| &node["metadata"]) {
            let path = it["paths"]["containment"].as_str().unwrap();
            let Some((chassis, rest)) = path.strip_prefix("/site/chassis").and_then(|p| p.split_once('/'))
            else {
                continue;
            };
            if let Some(ssd) = rest.strip_prefix("ssd") {
                units.push(Unit::Ssd(chassis.parse().unwrap(), ssd.parse().unwrap()));
            }
        }
        // An exclusive chassis holds all units in it.
        for it in nodes.iter().map(|node| &node["metadata"]) {
            if it["type"] == "chassis" && it["exclusive"] == true {
                let c = it["id"].as_u64().unwrap() as u32;
                units.extend((0..self.site.ssds).map(|s| Unit::Ssd(c, s)));
                units.push(Unit::Chassis(c));
            }
        }
        units.sort_unstable();
        units.dedup();
        units
    }

    /// True if a job holds the resources that it requested.
    fn holds(&self, ask: Ask, units: &[Unit]) -> bool {
        let ssds = |c: u32| units.iter().filter(|u| matches!(u, Unit::Ssd(of, _) if *of == c)).count() as u32;
        let mut ranks: Vec<u32> = units
            .iter()
            .filter_map(|u| match u {
                Unit::Core(rank, _) => Some(*rank),
                _ => None,
            })
            .collect();
        ranks.dedup();
        let nodes = |c: Option<u32>| {
            ranks.iter().filter(|r| **r < self.site.node_count() && self.path_of_rank(**r).0 == c).count()
                as u32
        };
        let all = 0..self.site.chassis;
        let total: u32 = all.clone().map(ssds).sum();
        match ask {
            Ask::Beside(slots, vertices) => {
                ranks.len() as u32 == slots
                    && nodes(None) == 0
                    && all.clone().all(|c| ssds(c) == nodes(Some(c)) * vertices)
            }
            Ask::Chassis(count, each, vertices) => {
                let used: Vec<u32> = all.filter(|c| nodes(Some(*c)) > 0).collect();
                used.len() as u32 == count
                    && used.iter().all(|c| nodes(Some(*c)) == each && ssds(*c) == vertices)
            }
            Ask::Apart(vertices) => ranks.len() == 1 && total == vertices,
            Ask::Nodes(count) => ranks.len() as u32 == count && total == 0,
            Ask::Cores(count) => units.len() as u32 == count,
            Ask::Alone => all.clone().any(|c| nodes(Some(c)) == self.site.nodes && ssds(c) == self.site.ssds),
            Ask::Storage => ranks.len() == 2 && ranks[1] >= self.site.node_count(),
        }
    }

    fn step(&mut self, step: &Step, next: &mut u64) {
        let nth = |list: &List, n: usize| list.ends.keys().nth(n % list.ends.len().max(1)).copied();
        match *step {
            Step::Start(ask, end) => {
                *next += 1;
                self.start(*next, ask, end);
            }
            Step::End(n) => {
                let Some(id) = nth(&self.list, n) else { return };
                assert!(self.machine.release(JobId(id), None).unwrap());
                self.list.held.retain(|_, job| *job != id);
                self.list.ends.remove(&id);
            }
            Step::Part(n, at) => {
                let Some(id) = nth(&self.list, n) else { return };
                let ranks: Vec<u32> = self
                    .list
                    .held
                    .iter()
                    .filter(|(_, job)| **job == id)
                    .filter_map(|(u, _)| match u {
                        Unit::Core(rank, _) => Some(*rank),
                        Unit::Ssd(..) | Unit::Chassis(_) => None,
                    })
                    .collect();
                let Some(&rank) = ranks.get(at % ranks.len().max(1)) else { return };
                let last = self.machine.release(JobId(id), Some(&Idset::from(rank))).unwrap();
                self.list
                    .held
                    .retain(|unit, job| *job != id || !matches!(unit, Unit::Core(r, _) if *r == rank));
                let rest = self.list.held.values().any(|job| *job == id);
                assert!(!last || !rest);
                if last {
                    self.list.ends.remove(&id);
                }
            }
            Step::Mark(c, what, up) => {
                let c = c % self.site.chassis;
                let (s, n) = (what % self.site.ssds.max(1), what % (self.site.nodes + 1));
                let path = match what % 3 {
                    0 if self.site.ssds > 0 => format!("/site/chassis{c}/ssd{s}"),
                    1 => self.path_of_rank(c * self.site.nodes + n).1,
                    _ => format!("/site/chassis{c}"),
                };
                self.machine.set_vertex_status(&path, up).unwrap();
                self.list.down.retain(|down| *down != path);
                if !up {
                    self.list.down.push(path);
                }
            }
            Step::Rank(rank, up) => {
                let all =
                    self.site.node_count() + if self.site.storage_nodes { self.site.chassis } else { 0 };
                let rank = rank % all;
                self.list.ranks_down.retain(|down| *down != rank);
                if up {
                    self.machine.set_up(&Idset::from(rank));
                } else {
                    self.machine.set_down(&Idset::from(rank));
                    self.list.ranks_down.push(rank);
                }
            }
            Step::Restart => self.restart(),
        }
    }

    fn start(&mut self, id: u64, ask: Ask, end: f64) {
        let request = self::ask(&mut self.machine, &ask.text());
        let fits = self.fits(&self.list, ask);
        // The expected earliest start, if jobs end as expected.
        let mut future = self.list.clone();
        let mut expected = fits.then_some(0.0);
        let mut ends: Vec<(f64, u64)> = self.list.ends.iter().map(|(id, end)| (*end, *id)).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, done) in ends {
            future.held.retain(|_, job| *job != done);
            if expected.is_none() && self.fits(&future, ask) {
                expected = Some(at);
            }
        }
        let found = self.machine.match_now(&request, 0.0, end, Placement::First).ok();
        assert_eq!(found.is_some(), fits, "{ask:?} {:?}", self.list);
        let earliest = self.machine.earliest(&request, 0.0, 1.0);
        // Of several jobs that end at the same time the last counts.
        assert_eq!(earliest, expected, "{ask:?} {:?}", self.list);
        let Some(found) = found else { return };
        self.machine.allocate(JobId(id), &found, 0.0, end).unwrap();
        let units = self.units(&self.machine.allocation_r(JobId(id)).unwrap());
        assert!(self.holds(ask, &units), "{ask:?} {units:?}");
        for unit in units {
            let up = match unit {
                Unit::Core(rank, _) => self.rank_is_up(rank),
                Unit::Chassis(c) => !self.is_marked(&format!("/site/chassis{c}")),
                Unit::Ssd(c, s) => !self.is_marked(&format!("/site/chassis{c}/ssd{s}")),
            };
            assert!(up, "{unit:?} is down");
            let before = self.list.held.insert(unit, id);
            assert_eq!(before, None, "{unit:?} is held twice");
        }
        self.list.ends.insert(id, end);
    }

    /// Another process recovers the running jobs from their R.
    fn restart(&mut self) {
        let all = self.machine.to_r_all();
        let mut again = Resources::from_r(&all).unwrap();
        let down: Idset = self.list.ranks_down.iter().copied().collect();
        again.set_up(&all.ranks().difference(&down));
        let held: Vec<(JobId, R)> =
            self.machine.allocations().map(|(id, _)| (id, self.machine.allocation_r(id).unwrap())).collect();
        for (id, r) in held {
            again.allocate_r(id, &r, &none(), 0.0, self.list.ends[&id.0]).unwrap();
        }
        // The service keeps marks of nodes: the reported status of a rank is not in its graph.
        for path in &self.list.down {
            again.set_vertex_status(path, false).unwrap();
        }
        assert_eq!((again.totals(), again.up()), (self.machine.totals(), self.machine.up()));
        self.machine = again;
    }
}

fn asks() -> impl Strategy<Value = Ask> {
    prop_oneof![
        (1..4u32, 1..3u32).prop_map(|(slots, vertices)| Ask::Beside(slots, vertices)),
        (1..3u32, 1..3u32, 1..3u32).prop_map(|(c, n, v)| Ask::Chassis(c, n, v)),
        (1..5u32).prop_map(Ask::Apart),
        (1..4u32).prop_map(Ask::Nodes),
        (1..6u32).prop_map(Ask::Cores),
        Just(Ask::Alone),
        Just(Ask::Storage),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (asks(), 1..50u32).prop_map(|(ask, end)| Step::Start(ask, f64::from(end))),
        3 => any::<usize>().prop_map(Step::End),
        2 => any::<(usize, usize)>().prop_map(|(n, at)| Step::Part(n, at)),
        2 => (0..3u32, 0..12u32, any::<bool>()).prop_map(|(c, what, up)| Step::Mark(c, what, up)),
        1 => (0..12u32, any::<bool>()).prop_map(|(rank, up)| Step::Rank(rank, up)),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn site_117_every_start_is_right_and_none_is_missed(
        (chassis, ssds, nodes, cores, storage_nodes) in (1..4u32, 1..4u32, 1..4u32, 1..3u32, any::<bool>()),
        steps in steps(),
    ) {
        let site = Rabbits { chassis, ssds, nodes, cores, status: 0, storage_nodes };
        let machine = site.machine();
        let mut world = World { site, machine, list: List::default() };
        let mut next = 0;
        steps.iter().for_each(|step| world.step(step, &mut next));
    }
}
