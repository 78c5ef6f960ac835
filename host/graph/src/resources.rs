//! [`Resources`]: the graph, which nodes are up, and the ledger, behind one face.
//!
//! This module must never know the queue, a policy, a protocol or a clock: time is a parameter.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fluxgate_formats::rset::R;
use fluxgate_formats::{Idset, JobId};

use crate::asking::Cache;
use crate::error::LoadError;
use crate::graph::Graph;
use crate::index::{Index, Status};
use crate::ledger::{self, Allocation, Ledger, LedgerError, Selection};
use crate::load;
use crate::load::treepool::Scheduling;
use crate::plan::Plan;
use crate::request::{Kind, Request, Shapes, Types};
use crate::reserve::{Reservations, ReserveError};
use crate::vertex::NONE;
use crate::view::{Eligible, View};

/// Counts over the machine. Free means: on a node that is up, held by nobody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nodes that were not removed.
    pub nodes: u32,
    /// Their cores.
    pub cores: u32,
    /// Their GPUs.
    pub gpus: u32,
    /// Nodes that are up.
    pub up_nodes: u32,
    /// Of those, nodes on which nobody holds anything.
    pub free_nodes: u32,
    /// Free cores.
    pub free_cores: u32,
    /// Free GPUs.
    pub free_gpus: u32,
}

/// The resources of a machine: what there is, what is up, who holds what until when. See the crate.
pub struct Resources {
    pub(crate) graph: Arc<Graph>,
    pub(crate) index: Index,
    /// Every node that was not removed, idle: what satisfiability is asked of.
    pub(crate) inventory: Index,
    pub(crate) idle_upper: Arc<[u64]>,
    pub(crate) ledger: Ledger,
    pub(crate) reservations: Reservations,
    pub(crate) types: Arc<Types>,
    pub(crate) shapes: Shapes,
    /// What a request without constraints may use.
    pub(crate) everything: Arc<Eligible>,
    pub(crate) scheduling: Scheduling,
    unused_topology: Option<String>,
    totals: Totals,
    pub(crate) epoch: u64,
    /// The epoch of the last change that could help, by class of nodes; and of vertices above nodes.
    pub(crate) class_epochs: Vec<u64>,
    pub(crate) upper_epoch: u64,
    pub(crate) version: u64,
    inventory_version: u64,
    /// Advances when something happened that could let a start no longer delay a reservation.
    pub(crate) loose: u64,
    pub(crate) cache: Mutex<Cache>,
}

impl fmt::Debug for Resources {
    /// Short: a machine has millions of parts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources")
            .field("totals", &self.totals())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Clone for Resources {
    /// A copy with an empty cache.
    fn clone(&self) -> Self {
        Resources {
            graph: self.graph.clone(),
            index: self.index.clone(),
            inventory: self.inventory.clone(),
            idle_upper: self.idle_upper.clone(),
            ledger: self.ledger.clone(),
            reservations: self.reservations.clone(),
            types: self.types.clone(),
            shapes: self.shapes.clone(),
            everything: self.everything.clone(),
            scheduling: self.scheduling.clone(),
            unused_topology: self.unused_topology.clone(),
            totals: self.totals,
            epoch: self.epoch,
            class_epochs: self.class_epochs.clone(),
            upper_epoch: self.upper_epoch,
            version: self.version,
            inventory_version: self.inventory_version,
            loose: self.loose,
            cache: Mutex::default(),
        }
    }
}

impl Resources {
    /// The machine that R describes. All nodes are down until [`set_up`](Self::set_up).
    pub fn from_r(r: &R) -> Result<Self, LoadError> {
        let loaded = load::r::load(r)?;
        let mut made = Self::from_graph(loaded.graph);
        let unused = loaded.unused.into_iter().chain(loaded.wrong_flow);
        made.unused_topology = unused.reduce(|all, why| format!("{all}; {why}"));
        made.scheduling = loaded.scheduling;
        Ok(made)
    }

    /// Why the topology that R told (RFC 49) is not used, for all nodes or for some; `None` when it is, or there is
    /// none. Such nodes are taken as flat: jobs get what they ask for, but not close together.
    pub fn unused_topology(&self) -> Option<&str> {
        self.unused_topology.as_deref()
    }

    /// The machine that a JGF text describes (RFC 40), all nodes down.
    pub fn from_jgf(text: &str) -> Result<Self, LoadError> {
        Ok(Self::from_graph(load::jgf::load(text)?))
    }

    /// The machine that the `[[resource.config]]` entries of a TOML text describe, all nodes down.
    pub fn from_toml(text: &str) -> Result<Self, LoadError> {
        Self::from_r(&load::toml::read(text)?)
    }

    /// The machine of a finished graph, all nodes down.
    pub fn from_graph(graph: Graph) -> Self {
        let index = Index::new(&graph, Status::Down);
        let inventory = Index::new(&graph, Status::Up);
        let ledger = Ledger::new(&graph);
        let types = Arc::new(Types::of(&graph));
        let idle_upper: Arc<[u64]> = ledger.upper().into();
        let free = inventory.free();
        let totals = Totals {
            nodes: small(free.nodes),
            cores: small(free.cores),
            gpus: small(free.gpus),
            ..Totals::default()
        };
        Resources {
            graph: Arc::new(graph),
            index,
            inventory,
            idle_upper,
            ledger,
            reservations: Reservations::default(),
            types,
            shapes: Shapes::default(),
            everything: Arc::new(Eligible::All),
            scheduling: Scheduling::None,
            unused_topology: None,
            totals,
            epoch: 0,
            class_epochs: Vec::new(),
            upper_epoch: 0,
            version: 0,
            inventory_version: 0,
            loose: 0,
            cache: Mutex::default(),
        }
    }

    /// The machine as satisfiability sees it, for somebody who answers that beside the ledger: everything that was not
    /// removed is up, nobody holds anything. Shares the graph. True as long as
    /// [`inventory_version`](Self::inventory_version) stays.
    pub fn inventory(&self) -> Resources {
        Resources {
            graph: self.graph.clone(),
            index: self.inventory.clone(),
            inventory: self.inventory.clone(),
            idle_upper: self.idle_upper.clone(),
            ledger: Ledger::new(&self.graph),
            reservations: Reservations::default(),
            types: self.types.clone(),
            shapes: Shapes::default(),
            everything: self.everything.clone(),
            scheduling: Scheduling::None,
            unused_topology: None,
            totals: Totals { up_nodes: self.totals.nodes, ..self.totals },
            epoch: 0,
            class_epochs: Vec::new(),
            upper_epoch: 0,
            version: 0,
            inventory_version: self.inventory_version,
            loose: 0,
            cache: Mutex::default(),
        }
    }

    /// Advances when satisfiability changes: resources are removed, properties added or removed.
    pub fn inventory_version(&self) -> u64 {
        self.inventory_version
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn changed(&mut self, helps: bool, plan: bool) {
        self.version += 1;
        self.epoch += u64::from(helps);
        self.loose += u64::from(helps);
        if plan && let Some(plan) = self.plan_cache() {
            plan.expire();
        }
    }

    /// Something came back on these nodes, of which those that are down help nobody, or above nodes.
    fn help(&mut self, nodes: impl IntoIterator<Item = u32>, upper: bool) {
        let epoch = self.epoch + 1;
        for node in nodes.into_iter().filter(|&node| self.index.is_up(node)) {
            let class = self.graph.nodes[node as usize].class.0 as usize;
            if self.class_epochs.len() <= class {
                self.class_epochs.resize(class + 1, 0);
            }
            self.class_epochs[class] = epoch;
        }
        if upper {
            self.upper_epoch = epoch;
        }
    }

    fn plan_cache(&mut self) -> &mut Option<Plan> {
        &mut self.cache.get_mut().unwrap_or_else(PoisonError::into_inner).plan
    }

    /// Advances whenever something happened that could make a request fit that did not before: a release, nodes that
    /// came up, other properties, an earlier expected end.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Advances on every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    fn set_status(&mut self, ranks: &Idset, status: Status) {
        let graph = self.graph.clone();
        let mut any = false;
        for node in nodes_of(&graph, ranks) {
            let old = self.index.status(node);
            if old == Status::Gone || !self.index.set_status(node, status) {
                continue;
            }
            any = true;
            match status {
                Status::Up => self.totals.up_nodes += 1,
                _ if old == Status::Up => self.totals.up_nodes -= 1,
                _ => {}
            }
            if status == Status::Gone {
                self.inventory.set_status(node, Status::Gone);
            }
        }
        if any {
            let free = self.inventory.free();
            (self.totals.nodes, self.totals.cores, self.totals.gpus) =
                (small(free.nodes), small(free.cores), small(free.gpus));
            if status == Status::Gone {
                self.forget_satisfiable();
            }
            self.help(nodes_of(&graph, ranks), status == Status::Up);
            self.changed(status == Status::Up, true);
        }
    }

    fn forget_satisfiable(&mut self) {
        self.inventory_version += 1;
        let cache = self.cache.get_mut().unwrap_or_else(PoisonError::into_inner);
        cache.satisfiable.clear();
    }

    /// These ranks take jobs. Ranks that are not in the inventory, or were removed, are ignored.
    pub fn set_up(&mut self, ranks: &Idset) {
        self.set_status(ranks, Status::Up);
    }

    /// These ranks take no jobs for now. What runs there keeps what it holds.
    pub fn set_down(&mut self, ranks: &Idset) {
        self.set_status(ranks, Status::Down);
    }

    /// These ranks are removed for good: they count no more, also for satisfiability. What runs there keeps what it
    /// holds until it is released.
    pub fn shrink(&mut self, ranks: &Idset) {
        self.set_status(ranks, Status::Gone);
    }

    pub(crate) fn ranks_with(&self, status: Status) -> Idset {
        let graph = &self.graph;
        graph.by_rank.iter().filter(|&(_, &n)| self.index.status(n) == status).map(|(&r, _)| r).collect()
    }

    /// Ranks that are up.
    pub fn up(&self) -> Idset {
        self.ranks_with(Status::Up)
    }

    /// Ranks that are down and not removed.
    pub fn down(&self) -> Idset {
        self.ranks_with(Status::Down)
    }

    /// Gives ranks a property.
    pub fn property_add(&mut self, name: &str, ranks: &Idset) {
        self.edit_property(name, ranks, true);
    }

    /// Takes a property from ranks.
    pub fn property_remove(&mut self, name: &str, ranks: &Idset) {
        self.edit_property(name, ranks, false);
    }

    fn edit_property(&mut self, name: &str, ranks: &Idset, add: bool) {
        let list: Vec<u32> = nodes_of(&self.graph, ranks).collect();
        let graph = Arc::make_mut(&mut self.graph);
        let name = graph.names.intern(name);
        for &node in &list {
            let old = graph.nodes[node as usize].props;
            let new = if add { graph.props.with(old, name) } else { graph.props.without(old, name) };
            if new != old {
                graph.set_node_props(node, new);
                self.index.reclass(graph, node);
                self.inventory.reclass(graph, node);
            }
        }
        let cache = self.cache.get_mut().unwrap_or_else(PoisonError::into_inner);
        cache.forget_classes();
        self.shapes.forget_shared();
        self.forget_satisfiable();
        self.help(list, false);
        self.changed(true, true);
    }

    /// Guarantees a start time to a job: later answers of [`match_now`](Self::match_now) and
    /// [`earliest`](Self::earliest) leave room for it. The start should come from `earliest`; when it cannot be kept
    /// because running jobs overstay, the reservation holds from the first time at which it can.
    pub fn reserve(
        &mut self,
        id: JobId,
        request: &Arc<Request>,
        start: f64,
        duration: f64,
    ) -> Result<(), ReserveError> {
        let new = self.reservations.add(id, request.clone(), start, duration)?;
        let mut kept = self.plan_cache().take();
        if let Some(plan) = &mut kept
            && !plan.reserved(self, &new)
        {
            plan.expire();
        }
        *self.plan_cache() = kept;
        self.changed(false, false);
        Ok(())
    }

    /// Drops a reservation; false when the job has none.
    pub fn unreserve(&mut self, id: JobId) -> bool {
        let found = self.reservations.remove(id);
        if found {
            self.loose += 1;
            self.changed(false, true);
        }
        found
    }

    /// How many reservations stand.
    pub fn reservation_count(&self) -> usize {
        self.reservations.len()
    }

    /// The reservations: job, start, duration, in order of start.
    pub fn reservations(&self) -> impl Iterator<Item = (JobId, f64, f64)> + '_ {
        self.reservations.iter().map(|r| (r.id, r.start, r.duration))
    }

    /// Gives a job what was selected. Every unit is checked again: nothing is done unless all are free and every node
    /// is up.
    pub fn allocate(
        &mut self,
        id: JobId,
        selection: &Selection,
        start: f64,
        end: f64,
    ) -> Result<(), LedgerError> {
        self.allocate_owned(id, selection.clone(), start, end)
    }

    /// [`allocate`](Self::allocate) for a selection that is not needed any more.
    pub fn allocate_owned(
        &mut self,
        id: JobId,
        selection: Selection,
        start: f64,
        end: f64,
    ) -> Result<(), LedgerError> {
        for (node, _) in ledger::nodes(&selection.takes) {
            if !self.index.is_up(node) {
                return Err(LedgerError::Down(self.graph.nodes[node as usize].rank));
            }
        }
        self.ledger.check_flows(&self.graph, &selection.flows)?;
        self.enter(id, selection, start, end)
    }

    /// Books what is there; of flow also what is not.
    pub(crate) fn enter(
        &mut self,
        id: JobId,
        selection: Selection,
        start: f64,
        end: f64,
    ) -> Result<(), LedgerError> {
        let Selection { takes, flows, nslots } = selection;
        let flows = flows.into();
        if self.ledger.jobs().contains_key(&id) {
            return Err(LedgerError::Exists(id));
        }
        if start.is_nan() || end.is_nan() || end <= start {
            return Err(LedgerError::Span { start: start.to_string(), end: end.to_string() });
        }
        self.ledger.check(&self.graph, &self.index, &takes)?;
        let (cores, gpus) = ledger::count(&self.graph, &takes);
        let allocation = Allocation { start, end, takes, flows, nslots, cores, gpus };
        let graph = self.graph.clone();
        let mut kept = self.plan_cache().take();
        let in_step = kept.as_mut().is_some_and(|plan| plan.started(self, &allocation));
        self.ledger.book(&graph, &mut self.index, id, allocation);
        if let Some(plan) = &mut kept
            && !in_step
        {
            plan.expire();
        } else if let Some(plan) = &mut kept {
            let view = View { graph: &graph, index: &self.index, upper: self.ledger.upper(), overlay: None };
            plan.refresh(view, &self.ledger.jobs()[&id]);
        }
        *self.plan_cache() = kept;
        self.changed(false, false);
        Ok(())
    }

    /// Releases what a job holds on `ranks`, or everything. True when it holds nothing any more. Ranks on which it
    /// holds nothing are ignored.
    pub fn release(&mut self, id: JobId, ranks: Option<&Idset>) -> Result<bool, LedgerError> {
        let graph = self.graph.clone();
        let held = self.ledger.jobs().get(&id);
        let takes = held.map_or(&[][..], |a| &a.takes);
        let rank = |node: u32| graph.nodes[node as usize].rank;
        let here = |node: &u32| ranks.is_none_or(|ranks| ranks.contains(rank(*node)));
        let nodes: Vec<u32> = ledger::nodes(takes).map(|(node, _)| node).filter(here).collect();
        let upper = takes.iter().any(|take| take.node == NONE);
        let flows = held.map_or(0, |a| a.flows.len());
        let last = self.ledger.release(&graph, &mut self.index, id, ranks)?;
        let ended = flows > 0 && self.ledger.jobs().get(&id).is_none_or(|a| a.flows.len() < flows);
        self.help(nodes, upper && last || ended);
        self.changed(true, true);
        Ok(last)
    }

    /// Changes when a job is expected to end.
    pub fn set_end(&mut self, id: JobId, end: f64) -> Result<(), LedgerError> {
        let span = |start: f64| LedgerError::Span { start: start.to_string(), end: end.to_string() };
        let start = self.ledger.jobs().get(&id).ok_or(LedgerError::Unknown(id))?.start;
        if end.is_nan() || end <= start {
            return Err(span(start));
        }
        let old = self.ledger.set_end(id, end)?;
        self.changed(end < old, true);
        // A later end can only take room from reservations, but their times may move, and with them what delays them.
        self.loose += 1;
        Ok(())
    }

    /// What a job holds.
    pub fn allocation(&self, id: JobId) -> Option<&Allocation> {
        self.ledger.jobs().get(&id)
    }

    /// All allocations, by job.
    pub fn allocations(&self) -> impl Iterator<Item = (JobId, &Allocation)> {
        self.ledger.jobs().iter().map(|(&id, a)| (id, a))
    }

    /// Counts over the machine.
    pub fn totals(&self) -> Totals {
        let free = self.index.free();
        Totals {
            free_nodes: small(free.idle),
            free_cores: small(free.cores),
            free_gpus: small(free.gpus),
            ..self.totals
        }
    }

    /// Free cores or gpus on nodes that are up.
    pub(crate) fn free_of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Core => self.index.free().cores,
            Kind::Gpu => self.index.free().gpus,
        }
    }

    /// Have all nodes equally many cores and gpus? Then what a request takes does not depend on where.
    pub(crate) fn alike(&self) -> bool {
        let mut kinds = self.graph.classes.iter().map(|c| (c.cores, c.gpus));
        let first = kinds.next();
        kinds.all(|k| Some(k) == first)
    }

    /// What of an allocation becomes free for others when it ends: cores and gpus on nodes that are up.
    pub(crate) fn returns(&self, allocation: &Allocation) -> (u64, u64) {
        if self.totals.up_nodes as usize == self.graph.nodes.len() {
            return (allocation.cores, allocation.gpus);
        }
        let (mut cores, mut gpus) = (0, 0);
        for (node, takes) in ledger::nodes(&allocation.takes).filter(|(n, _)| self.index.is_up(*n)) {
            let _ = node;
            let (c, g) = ledger::count(&self.graph, takes);
            cores += c;
            gpus += g;
        }
        (cores, gpus)
    }
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The nodes of a set of ranks; ranks that are not there are left out.
pub(crate) fn nodes_of<'a>(graph: &'a Graph, ranks: &'a Idset) -> impl Iterator<Item = u32> + 'a {
    ranks.ranges().flat_map(|range| graph.by_rank.range(range).map(|(_, &node)| node))
}
