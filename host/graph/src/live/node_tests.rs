//! Each node held against a request: the first test that it fails, and the state of a single node. For the questions of
//! people, never for a decision.
//!
//! This module must never choose nodes for a job.

use std::collections::BTreeMap;

use fluxgate_formats::{Idset, JobId};

use crate::live::future::ends_at;
use crate::live::index::Status;
use crate::live::local;
use crate::live::plan::Plan;
use crate::live::request::{Level, Need, Request};
use crate::live::resources::Resources;
use crate::live::view::Eligible;
use crate::live::{share, take};

/// Most different times at which nodes come free that are told apart; the later ones are told as one.
pub const FREE_TIMES_MAX: usize = 16;

/// The first test that a node fails for one request, in the order of this list; the last two are no failures.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum NodeTest {
    /// It is down or drained.
    Down,
    /// It does not meet the constraint of the request.
    Constraint,
    /// It has too little even when it is idle.
    TooSmall,
    /// It must be idle, and jobs hold a part of it.
    NotIdle {
        /// Time at which the last of these is expected to end, in seconds since the epoch; infinite without limit.
        until: f64,
    },
    /// Jobs hold all that it could give.
    InUse {
        /// Time at which enough of it is expected to be free, in seconds since the epoch; infinite without limit.
        until: f64,
    },
    /// Jobs hold a part of it, and the rest is too little.
    Partly {
        /// Time at which enough of it is expected to be free, in seconds since the epoch; infinite without limit.
        until: f64,
    },
    /// It could give a part of what is asked for, and the reservation of this job, the first by start, is likely to be placed on it.
    Reserved(JobId),
    /// It could give a part of what is asked for.
    Free,
}

impl NodeTest {
    fn until(self) -> Option<f64> {
        match self {
            NodeTest::NotIdle { until } | NodeTest::InUse { until } | NodeTest::Partly { until } => {
                Some(until)
            }
            _ => None,
        }
    }

    fn with_until(self, until: f64) -> NodeTest {
        match self {
            NodeTest::NotIdle { .. } => NodeTest::NotIdle { until },
            NodeTest::InUse { .. } => NodeTest::InUse { until },
            NodeTest::Partly { .. } => NodeTest::Partly { until },
            other => other,
        }
    }

    /// Place among the tests, whatever the times.
    fn place(self) -> u8 {
        match self {
            NodeTest::Down => 0,
            NodeTest::Constraint => 1,
            NodeTest::TooSmall => 2,
            NodeTest::NotIdle { .. } => 3,
            NodeTest::InUse { .. } => 4,
            NodeTest::Partly { .. } => 5,
            NodeTest::Reserved(_) => 6,
            NodeTest::Free => 7,
        }
    }
}

/// The present state of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeNow {
    /// True if it accepts jobs.
    pub up: bool,
    /// Its cores.
    pub cores: u64,
    /// Of these, the ones that no job holds, also while it is down.
    pub free_cores: u64,
    /// Its GPUs.
    pub gpus: u64,
    /// Of these, the ones that no job holds, also while it is down.
    pub free_gpus: u64,
    /// The jobs that hold something of it, by expected end, each with the number of its cores on this node.
    pub jobs: Vec<(JobId, u64)>,
    /// Jobs whose reservations are likely to be placed on it, by start.
    pub reserved: Vec<JobId>,
}

/// The needs of a request that are looked for inside nodes.
fn inside<'r>(needs: &'r [Need], found: &mut Vec<&'r Need>) {
    for need in needs {
        match need.level {
            Level::Upper => inside(&need.with, found),
            _ => found.push(need),
        }
    }
}

/// All needs of a request that are looked for inside nodes.
fn needs_inside(request: &Request) -> Vec<&Need> {
    let mut needs = Vec::new();
    match request.alternatives.as_slice() {
        [] => inside(&request.needs, &mut needs),
        list => list.iter().for_each(|one| inside(&one.needs, &mut needs)),
    }
    needs
}

/// The reason for which no request of several may use a node, though it is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NodeRefusal {
    /// It meets the constraint of none.
    Constraint,
    /// It has too little for those whose constraint it meets.
    TooSmall,
    /// A window keeps it from those that it would suit.
    Window,
}

impl Resources {
    /// The nodes that are up and idle and of no use to any of these requests at `now` (seconds since the epoch), by what comes closest to
    /// a use; each node once. Looks at no further request when every node has a use.
    pub fn idle_without_use<'r>(
        &self,
        requests: impl Iterator<Item = &'r Request>,
        now: f64,
    ) -> BTreeMap<NodeRefusal, Idset> {
        let (machine, graph) = (&self.machine, &*self.machine.graph);
        let idle = (0..graph.nodes.len() as u32).filter(|node| machine.index.is_up(*node));
        let idle = idle.filter(|node| graph.template(*node).node && machine.index.state(*node).idle);
        let mut left: Vec<(u32, NodeRefusal)> = idle.map(|node| (node, NodeRefusal::Constraint)).collect();
        for request in requests {
            if left.is_empty() {
                break;
            }
            let (needs, eligible) = (needs_inside(request), machine.eligible(request));
            let beside_windows = machine.eligible_between(request, now, now.next_up());
            let admits = |eligible: &Eligible, node: u32| {
                eligible.template(graph.nodes[node as usize].template) && eligible.node(node)
            };
            let refusal = |node: u32| {
                let template = graph.template(node);
                let gives = |need: &&Need| local::capacity(graph, template, &template.idle, need, 1) > 0;
                match () {
                    () if !admits(&eligible, node) => Some(NodeRefusal::Constraint),
                    () if !needs.is_empty() && !needs.iter().any(gives) => Some(NodeRefusal::TooSmall),
                    () if !admits(&beside_windows, node) => Some(NodeRefusal::Window),
                    () => None,
                }
            };
            left.retain_mut(|(node, closest)| {
                let Some(found) = refusal(*node) else { return false };
                *closest = found.max(*closest);
                true
            });
        }
        let mut rows: BTreeMap<NodeRefusal, Idset> = BTreeMap::new();
        for (node, refusal) in left {
            rows.entry(refusal).or_default().insert(graph.nodes[node as usize].rank);
        }
        rows
    }

    /// Every node that was not removed under the first test that it fails, seen from `now` (seconds since the epoch): each node once, in
    /// the order of the tests and then of times. A request that waits may well find free nodes, but too few of them together.
    pub fn node_tests(&self, request: &Request, now: f64) -> Vec<(NodeTest, Idset)> {
        let (machine, graph) = (&self.machine, &*self.machine.graph);
        let eligible = machine.eligible(request);
        let needs = needs_inside(request);
        let of_idle_nodes = |need: &&Need| need.level == Level::Node && need.exclusive;
        let idle_only = request.whole_nodes || (!needs.is_empty() && needs.iter().all(of_idle_nodes));
        let likely = self.likely_places();
        let held = self.holders();
        let mut rows: BTreeMap<(u8, u64, u64), (NodeTest, Idset)> = BTreeMap::new();
        for node in 0..graph.nodes.len() as u32 {
            let template = graph.template(node);
            let whole = |state: &[u64]| !idle_only || state == &*template.idle;
            let fits = |state: &[u64]| {
                let gives = |need: &&Need| local::capacity(graph, template, state, need, 1) > 0;
                whole(state) && (needs.is_empty() || needs.iter().any(gives))
            };
            let state = &*machine.index.state(node).free;
            // Storage nodes and the like count where a request asks for them.
            let counts = template.node || fits(&template.idle);
            let test = if machine.index.status(node) == Status::Gone || !counts {
                continue;
            } else if !machine.index.is_up(node) {
                NodeTest::Down
            } else if !(eligible.template(graph.nodes[node as usize].template) && eligible.node(node)) {
                NodeTest::Constraint
            } else if !fits(&template.idle) {
                NodeTest::TooSmall
            } else if fits(state) {
                likely.get(&node).map_or(NodeTest::Free, |ids| NodeTest::Reserved(ids[0]))
            } else {
                let until = self.free_from(node, held.get(&node).map_or(&[][..], |h| h), now, fits);
                if !whole(state) {
                    NodeTest::NotIdle { until }
                } else if template.units_of(state, graph.core) == 0 {
                    NodeTest::InUse { until }
                } else {
                    NodeTest::Partly { until }
                }
            };
            let job = if let NodeTest::Reserved(id) = test { id.0 } else { 0 };
            // Times are not negative, and so are in the order of their bits.
            let key = (test.place(), test.until().map_or(0, f64::to_bits), job);
            rows.entry(key).or_insert_with(|| (test, Idset::new())).1.insert(graph.nodes[node as usize].rank);
        }
        merge(rows.into_values().collect())
    }

    /// The present state of the node of this rank; `None` for a rank that is not there or was removed.
    pub fn node_now(&self, rank: u32) -> Option<NodeNow> {
        let (machine, graph) = (&self.machine, &*self.machine.graph);
        let node = *graph.by_rank.get(&rank)?;
        let status = machine.index.status(node);
        if status == Status::Gone {
            return None;
        }
        let (template, state) = (graph.template(node), &*machine.index.state(node).free);
        let mut jobs: Vec<(f64, JobId, u64)> = Vec::new();
        for (&id, allocation) in machine.ledger.jobs() {
            let mut here = take::nodes(&allocation.takes).filter(|(at, _)| *at == node);
            if let Some((_, takes)) = here.next() {
                jobs.push((allocation.end, id, take::count(graph, takes).0));
            }
        }
        jobs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Some(NodeNow {
            up: status == Status::Up,
            cores: template.units_of(&template.idle, graph.core),
            free_cores: template.units_of(state, graph.core),
            gpus: template.units_of(&template.idle, graph.gpu),
            free_gpus: template.units_of(state, graph.gpu),
            jobs: jobs.into_iter().map(|(_, id, cores)| (id, cores)).collect(),
            reserved: self.likely_places().remove(&node).unwrap_or_default(),
        })
    }

    /// The rank of a host, of several the first node; `None` for an unknown host. Removed nodes are found too.
    pub fn rank_of(&self, host: &str) -> Option<u32> {
        let graph = &*self.machine.graph;
        let node = (0..graph.nodes.len() as u32).find(|node| graph.host(*node) == host)?;
        Some(graph.nodes[node as usize].rank)
    }

    /// The hosts of ranks, in order of rank. Unknown ranks are left out, removed ones are not.
    pub fn hosts_of(&self, ranks: &Idset) -> Vec<&str> {
        let graph = &*self.machine.graph;
        ranks.iter().filter_map(|rank| Some(graph.host(*graph.by_rank.get(&rank)?))).collect()
    }

    /// The nodes on which reservations are likely to be placed, with their jobs by start.
    fn likely_places(&self) -> BTreeMap<u32, Vec<JobId>> {
        let mut places: BTreeMap<u32, Vec<JobId>> = BTreeMap::new();
        let Some(mut plan) = self.planning.plan.as_ref().map(Plan::outline) else { return places };
        for reservation in self.machine.reservations.iter() {
            let Some((_, found)) = plan.hints_mut().get(&reservation.id) else { continue };
            for (node, _) in &found.nodes {
                places.entry(*node).or_default().push(reservation.id);
            }
        }
        places
    }

    /// The jobs on each node, by expected end.
    fn holders(&self) -> BTreeMap<u32, Vec<JobId>> {
        let mut held: BTreeMap<u32, Vec<JobId>> = BTreeMap::new();
        for (_, id) in self.machine.ledger.ends() {
            for (node, _) in take::nodes(&self.machine.ledger.jobs()[&id].takes) {
                held.entry(node).or_default().push(id);
            }
        }
        held
    }

    /// When a node is expected to do, as the jobs on it end one after the other.
    fn free_from(&self, node: u32, jobs: &[JobId], now: f64, fits: impl Fn(&[u64]) -> bool) -> f64 {
        let mut state = self.machine.index.state(node).free.clone();
        for id in jobs {
            let Some(allocation) = self.machine.ledger.jobs().get(id) else { continue };
            for take in allocation.takes.iter().filter(|take| take.node == node) {
                let taken = take::position(&self.machine.graph, take);
                share::give(&mut state[taken.at as usize], taken.share);
            }
            if fits(&state) {
                return ends_at(allocation.end, now);
            }
        }
        f64::INFINITY
    }
}

/// Tells at most this many times of each test apart.
fn merge(rows: Vec<(NodeTest, Idset)>) -> Vec<(NodeTest, Idset)> {
    let mut merged: Vec<(NodeTest, Idset)> = Vec::new();
    let mut alike = 0;
    for (test, ranks) in rows {
        match merged.last_mut() {
            Some((last, all)) if last.place() == test.place() && test.until().is_some() => {
                alike += 1;
                if alike >= FREE_TIMES_MAX {
                    *last = last.with_until(test.until().unwrap_or(f64::INFINITY));
                    *all = all.union(&ranks);
                    continue;
                }
            }
            _ => alike = 0,
        }
        merged.push((test, ranks));
    }
    merged
}
