//! Resources beside nodes, cores and gpus, as policies see them: storage, memory, licences and other pools in sums by type
//! and unit.
//!
//! Flow has sums of its own ([`flow_kinds`](super::flow_kinds)). This module must never know a policy.

use std::sync::Arc;

use fluxgate_formats::Idset;

use crate::description::names::Name;
use crate::description::units;
use crate::layout::graph::Graph;
use crate::layout::template::NodeTemplate;
use crate::live::index::Status;
use crate::live::overlay::Overlay;
use crate::live::request::{Need, Request};
use crate::live::resources::{Resources, nodes_of};
use crate::live::view::{Eligible, Where};

/// A kind of resource: all pools of one type that count in one unit, or all flow of a subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceKind {
    /// The type of its pools, as a jobspec has it; of flow, the name of the subsystem.
    pub name: String,
    /// The name of its unit, such as `GiB`; empty for pools that are counted one by one. Flow has a unit without a prefix.
    pub unit: String,
    /// Units of all pools, also of those that are down.
    pub total: u64,
    /// Units of pools that are up, and that no job holds.
    pub free: u64,
}

/// Type and unit.
pub(crate) type Key = (Name, Name);

/// The kinds of a graph: those above nodes first, in the order of the graph.
fn keys(graph: &Graph) -> Arc<[Key]> {
    let above = (0..graph.upper_tree() as u32).filter(|at| graph.is_upper_leaf(*at)).map(|at| {
        let pool = &graph.vertices[graph.upper[at as usize] as usize];
        (pool.type_, pool.unit)
    });
    let inside = graph.templates.iter().flat_map(|template| {
        let counted = |type_: Name| [template.core, template.gpu].contains(&type_);
        template.slots.iter().filter(move |slot| slot.leaf && !counted(slot.type_))
    });
    let mut kinds: Vec<Key> = Vec::new();
    for key in above.chain(inside.map(|slot| (slot.type_, slot.unit))) {
        if !kinds.contains(&key) {
            kinds.push(key);
        }
    }
    kinds.into()
}

/// Units of a kind in a state of a node.
fn inside(template: &NodeTemplate, state: &[u64], (type_, unit): Key) -> u64 {
    let leaves = template.leaves.get(&type_).into_iter().flatten().map(|at| *at as usize);
    leaves.filter(|at| template.slots[*at].unit == unit).map(|at| state[at]).fold(0, u64::saturating_add)
}

impl Resources {
    /// The kinds of resources beside nodes, cores, gpus and flow. [`resources_asked`](Self::resources_asked) counts them in
    /// this order, which does not change while the machine is the same.
    ///
    /// Costs a look at each pool above nodes and at each state of nodes; the answer is kept until the next change.
    pub fn resource_kinds(&self) -> Arc<[ResourceKind]> {
        if let Some((version, known)) = &self.cache().kinds
            && *version == self.version
        {
            return Arc::clone(known);
        }
        let made: Arc<[ResourceKind]> = self.kind_keys().iter().map(|key| self.kind(*key)).collect();
        self.cache().kinds = Some((self.version, Arc::clone(&made)));
        made
    }

    fn kind_keys(&self) -> Arc<[Key]> {
        let now = self.inventory_version();
        if let Some((version, known)) = &self.cache().kind_keys
            && *version == now
        {
            return Arc::clone(known);
        }
        let made = keys(&self.machine.graph);
        self.cache().kind_keys = Some((now, Arc::clone(&made)));
        made
    }

    fn kind(&self, key: Key) -> ResourceKind {
        let (graph, view, (type_, unit)) = (&self.machine.graph, self.machine.view(None), key);
        let (mut total, mut free) = (0u64, 0u64);
        for &at in graph.upper_of.get(&type_).into_iter().flatten() {
            let pool = &graph.vertices[graph.upper[at as usize] as usize];
            if pool.unit != unit || !graph.is_upper_leaf(at) {
                continue;
            }
            total = total.saturating_add(pool.units());
            if view.upper_is_up(at) {
                free = free.saturating_add(view.upper(&Overlay::default(), at));
            }
        }
        for node in &graph.nodes {
            let template = &graph.templates[node.template.0 as usize];
            total = total.saturating_add(inside(template, &template.idle, key));
        }
        let anywhere = Where {
            eligible: &Eligible::All,
            range: (0, graph.nodes.len() as u32),
            idle: false,
            cores: false,
        };
        let in_nodes = view.total(anywhere, &mut |template, state| inside(template, state, key));
        ResourceKind {
            name: graph.text(type_).to_owned(),
            unit: graph.text(unit).to_owned(),
            total,
            free: free.saturating_add(in_nodes),
        }
    }

    /// Nodes, cores and GPUs that are down, whether a job holds them or not. Costs a look at the status of each node.
    pub fn down_counts(&self) -> (u32, u32, u32) {
        let (graph, index) = (&self.machine.graph, &self.machine.index);
        let down = (0..graph.nodes.len() as u32).filter(|node| index.status(*node) == Status::Down);
        let templates = down.map(|node| &graph.templates[graph.nodes[node as usize].template.0 as usize]);
        templates.filter(|template| template.node).fold((0, 0, 0), |(nodes, cores, gpus), template| {
            (nodes + 1, cores + template.cores as u32, gpus + template.gpus as u32)
        })
    }

    /// Nodes that are up and partly held: some of their cores are free and some are not. Costs a look at each node.
    pub fn fragmented_nodes(&self) -> u32 {
        let (graph, index) = (&self.machine.graph, &self.machine.index);
        let up = (0..graph.nodes.len() as u32).filter(|node| index.status(*node) == Status::Up);
        let partly = up.filter(|node| {
            let (template, state) = (graph.template(*node), index.state(*node));
            template.node && 0 < state.cores && state.cores < template.cores
        });
        partly.count() as u32
    }

    /// Idle nodes, free cores and free GPUs, in this order, on those of these ranks that are up.
    pub fn free_counts(&self, ranks: &Idset) -> (u32, u32, u32) {
        let (graph, index) = (&self.machine.graph, &self.machine.index);
        let up = nodes_of(graph, ranks).filter(|node| index.status(*node) == Status::Up);
        let states = up.filter(|node| graph.template(*node).node).map(|node| index.state(node));
        states.fold((0, 0, 0), |(nodes, cores, gpus), state| {
            (nodes + u32::from(state.idle), cores + state.cores as u32, gpus + state.gpus as u32)
        })
    }

    /// The least units that a request takes of each kind of [`resource_kinds`](Self::resource_kinds). An amount in a unit that
    /// does not convert counts for none.
    pub fn resources_asked(&self, request: &Request) -> Vec<u64> {
        let graph = &self.machine.graph;
        let kinds = self.kind_keys();
        let asked = |kind: usize| {
            request.least(&|need, count| match kind_of(graph, &kinds, need) {
                Some((at, scale)) if at == kind => scale.pool_units(count),
                _ => 0,
            })
        };
        (0..kinds.len()).map(asked).collect()
    }
}

/// The first kind of a need's type whose unit converts, and how it does.
fn kind_of(graph: &Graph, kinds: &[Key], need: &Need) -> Option<(usize, units::Scale)> {
    let of_type = kinds.iter().enumerate().filter(|(_, (type_, _))| !need.slot && *type_ == need.type_);
    let scale = |(at, (_, unit)): (usize, &Key)| Some((at, units::scale(&need.unit, graph.text(*unit))?));
    of_type.filter_map(scale).next()
}
