//! [`Resources`]: one interface to graph, node status, ledger, reservations and windows.
//!
//! This module must never know the queue, a policy, a protocol or a clock: time is a parameter.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fluxgate_formats::rset::R;
use fluxgate_formats::{Idset, JobId};
use smallvec::SmallVec;

use crate::description::Description;
use crate::description::error::LoadError;
use crate::description::read::toml;
use crate::layout::compile;
use crate::layout::compile::treepool::Scheduling;
use crate::layout::graph::Graph;
use crate::layout::site::{RecordFormat, Spot};
use crate::layout::vertex::NONE;
use crate::live::cache::Cache;
use crate::live::index::{Index, Status};
use crate::live::ledger::{Allocation, LedgerError};
use crate::live::machine::Machine;
use crate::live::plan::Gone;
use crate::live::planning::Planning;
use crate::live::pool::Uncounted;
use crate::live::request::{Request, Shapes, Types};
use crate::live::reservations::ReserveError;
use crate::live::take::{self, Selection};

/// Counts over the compute nodes of a machine, each at most `u32::MAX`. A core or GPU is free if its node is up and no job holds it.
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
    /// Nodes that are up and of which no job holds anything.
    pub free_nodes: u32,
    /// Free cores.
    pub free_cores: u32,
    /// Free GPUs.
    pub free_gpus: u32,
}

/// The resources of a machine: the graph, node status, allocations, reservations and windows. See the [crate](crate).
pub struct Resources {
    pub(crate) machine: Machine,
    /// Every node that was not removed, idle: the machine for which satisfiability is decided.
    pub(crate) inventory: Index,
    pub(crate) idle_upper: Arc<[u64]>,
    pub(crate) types: Arc<Types>,
    pub(crate) shapes: Shapes,
    pub(crate) scheduling: Scheduling,
    pub(crate) record_format: RecordFormat,
    unused_topology: Option<String>,
    totals: Totals,
    pub(crate) epoch: u64,
    /// The epoch of the last change that could help, by node template; `upper_epoch` is for vertices above nodes, `property_epoch` for
    /// requests that name properties: a change of properties changes the templates that they may use.
    pub(crate) template_epochs: Vec<u64>,
    pub(crate) upper_epoch: u64,
    pub(crate) property_epoch: u64,
    pub(crate) version: u64,
    inventory_version: u64,
    pub(crate) planning: Planning,
    pub(crate) cache: Mutex<Cache>,
    /// The nodes of a machine that is one pool.
    pub(crate) uncounted: Option<Uncounted>,
}

impl fmt::Debug for Resources {
    /// Short, because a machine may have millions of vertices.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources")
            .field("totals", &self.totals())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Clone for Resources {
    /// A copy that starts with the same hints and known misses.
    fn clone(&self) -> Self {
        Resources {
            machine: self.machine.clone(),
            inventory: self.inventory.clone(),
            idle_upper: self.idle_upper.clone(),
            types: self.types.clone(),
            shapes: self.shapes.clone(),
            scheduling: self.scheduling.clone(),
            record_format: self.record_format,
            unused_topology: self.unused_topology.clone(),
            totals: self.totals,
            epoch: self.epoch,
            template_epochs: self.template_epochs.clone(),
            upper_epoch: self.upper_epoch,
            property_epoch: self.property_epoch,
            version: self.version,
            inventory_version: self.inventory_version,
            planning: self.planning.clone(),
            cache: Mutex::default(),
            uncounted: self.uncounted,
        }
    }
}

impl Resources {
    /// The machine that an R (RFC 20) describes, all nodes down. Fails if R, or a graph of a machine in its `scheduling`, is invalid.
    pub fn from_r(r: &R) -> Result<Self, LoadError> {
        let loaded = compile::r::load(r)?;
        let mut made = Self::from_graph(loaded.graph);
        let unused = loaded.unused.into_iter().chain(loaded.wrong_flow);
        made.unused_topology = unused.reduce(|all, why| format!("{all}; {why}"));
        made.scheduling = loaded.scheduling;
        Ok(made)
    }

    /// Why the topology of R (RFC 49) is not used, for all nodes or for some; `None` when it is used or absent. Such nodes
    /// are flat: jobs get the resources they request, but not close together.
    pub fn unused_topology(&self) -> Option<&str> {
        self.unused_topology.as_deref()
    }

    /// The machine that a JGF text describes (RFC 40), all nodes down. Fails if the text, or the graph in it, is invalid.
    pub fn from_jgf(text: &str) -> Result<Self, LoadError> {
        let mut made = Self::from_graph(Graph::compile(&Description::from_jgf(text)?)?);
        made.scheduling = Scheduling::Site;
        Ok(made)
    }

    /// The machine of the `[[resource.config]]` entries of a TOML text, all nodes down. Fails if the text or an entry is invalid.
    pub fn from_toml(text: &str) -> Result<Self, LoadError> {
        Self::from_r(&toml::read(text)?)
    }

    /// The machine of a finished graph, all nodes down.
    pub fn from_graph(graph: Graph) -> Self {
        let index = Index::new(&graph, Status::Down);
        let inventory = Index::new(&graph, Status::Up);
        let types = Arc::new(Types::of(&graph));
        let machine = Machine::new(Arc::new(graph), index);
        let idle_upper: Arc<[u64]> = machine.ledger.upper().into();
        let free = inventory.free();
        let site = machine.graph.site.clone();
        let totals = Totals {
            nodes: small(free.nodes),
            cores: small(free.cores),
            gpus: small(free.gpus),
            ..Totals::default()
        };
        let mut made = Resources {
            machine,
            inventory,
            idle_upper,
            types,
            shapes: Shapes::default(),
            scheduling: Scheduling::None,
            record_format: RecordFormat::default(),
            unused_topology: None,
            totals,
            epoch: 0,
            template_epochs: Vec::new(),
            upper_epoch: 0,
            property_epoch: 0,
            version: 0,
            inventory_version: 0,
            planning: Planning::default(),
            cache: Mutex::default(),
            uncounted: None,
        };
        for at in site.iter().flat_map(|site| site.down()) {
            made.mark(Spot::Upper(at), true);
        }
        made
    }

    /// The machine for satisfiability, for a responder without the ledger: every node that was not removed is up and
    /// idle. Shares the graph. Valid while [`inventory_version`](Self::inventory_version) does not change.
    pub fn inventory(&self) -> Resources {
        Resources {
            machine: self.machine.idle(self.inventory.clone()),
            inventory: self.inventory.clone(),
            idle_upper: self.idle_upper.clone(),
            types: self.types.clone(),
            shapes: Shapes::default(),
            scheduling: Scheduling::None,
            record_format: RecordFormat::default(),
            unused_topology: None,
            totals: Totals { up_nodes: self.totals.nodes, ..self.totals },
            epoch: 0,
            template_epochs: Vec::new(),
            upper_epoch: 0,
            property_epoch: 0,
            version: 0,
            inventory_version: self.inventory_version,
            planning: Planning::default(),
            cache: Mutex::default(),
            uncounted: self.uncounted,
        }
    }

    /// A number that grows when satisfiability may change: resources are removed, properties or rules of the site change.
    pub fn inventory_version(&self) -> u64 {
        self.inventory_version
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.machine.graph
    }

    pub(crate) fn changed(&mut self, helps: bool, plan: bool) {
        self.version += 1;
        self.epoch += u64::from(helps);
        if plan && let Some(plan) = &mut self.planning.plan {
            plan.outdate();
        }
    }

    /// Notes a release on these nodes (those that are down help no request), or above nodes.
    pub(crate) fn help(&mut self, nodes: impl IntoIterator<Item = u32>, upper: bool) {
        let epoch = self.epoch + 1;
        for node in nodes.into_iter().filter(|&node| self.machine.index.is_up(node)) {
            let template = self.machine.graph.nodes[node as usize].template.0 as usize;
            if self.template_epochs.len() <= template {
                self.template_epochs.resize(template + 1, 0);
            }
            self.template_epochs[template] = epoch;
        }
        if upper {
            self.upper_epoch = epoch;
        }
    }

    /// Advances on every change that could make a request fit that did not fit before: a release, nodes that
    /// came up, other properties, an earlier expected end.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A number that grows with every change of node status, allocations, reservations, windows, properties or rules.
    pub fn version(&self) -> u64 {
        self.version
    }

    fn set_status(&mut self, ranks: &Idset, status: Status) {
        let graph = self.machine.graph.clone();
        let mut any = false;
        for node in nodes_of(&graph, ranks) {
            if self.machine.index.status(node) == Status::Gone {
                continue;
            }
            let held = self.machine.levels.holds_back(&graph, node);
            let news = held && self.machine.levels.report(node, status == Status::Up);
            any |= self.turn(node, if held && status == Status::Up { Status::Down } else { status }) || news;
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

    /// Sets the effective status of one node; false if it has it already.
    pub(crate) fn turn(&mut self, node: u32, status: Status) -> bool {
        let old = self.machine.index.status(node);
        if !self.machine.index.state(node).idle {
            self.machine.forget_returns();
        }
        if !self.machine.index.set_status(node, status) {
            return false;
        }
        if (old == Status::Up) != (status == Status::Up) {
            self.machine.note_node_status(node);
        }
        let counted = u32::from(self.machine.graph.template(node).node);
        match status {
            Status::Up => self.totals.up_nodes += counted,
            _ if old == Status::Up => self.totals.up_nodes -= counted,
            _ => {}
        }
        if status == Status::Gone {
            self.inventory.set_status(node, Status::Gone);
        }
        true
    }

    pub(crate) fn forget_satisfiable(&mut self) {
        self.inventory_version += 1;
        let cache = self.cache.get_mut().unwrap_or_else(PoisonError::into_inner);
        cache.satisfiable.clear();
        cache.least_cores.clear();
    }

    /// Forgets what requests mean and whether they fit, after a change of the graph that may help on these nodes, or above nodes.
    pub(crate) fn forget_answers(&mut self, nodes: impl IntoIterator<Item = u32>, upper: bool) {
        self.machine.forget_templates();
        self.shapes.forget_jobspecs();
        self.forget_satisfiable();
        self.help(nodes, upper);
        self.changed(true, true);
    }

    /// Marks ranks up: they accept jobs unless [`set_vertex_status`](Self::set_vertex_status) says down. Unknown ranks are ignored.
    pub fn set_up(&mut self, ranks: &Idset) {
        self.set_status(ranks, Status::Up);
    }

    /// Marks ranks down: they accept no jobs. Running jobs keep their resources.
    pub fn set_down(&mut self, ranks: &Idset) {
        self.set_status(ranks, Status::Down);
    }

    /// Removes these ranks from the inventory: they do not count any more, nor for satisfiability. Jobs on them keep
    /// their resources until they release them.
    pub fn shrink(&mut self, ranks: &Idset) {
        self.set_status(ranks, Status::Gone);
    }

    pub(crate) fn ranks_with(&self, status: Status) -> Idset {
        let graph = &self.machine.graph;
        graph
            .by_rank
            .iter()
            .filter(|&(_, &n)| self.machine.index.status(n) == status)
            .map(|(&r, _)| r)
            .collect()
    }

    /// Ranks that are up. A rank that is reported up and that a mark keeps down is not among them.
    pub fn up(&self) -> Idset {
        self.ranks_with(Status::Up)
    }

    /// Ranks that are down and not removed.
    pub fn down(&self) -> Idset {
        self.ranks_with(Status::Down)
    }

    /// Adds a property (RFC 20) to ranks. Ranks that are not in the inventory are ignored.
    pub fn property_add(&mut self, name: &str, ranks: &Idset) {
        self.edit_property(name, ranks, true);
    }

    /// Removes a property from ranks. Ranks without it are ignored.
    pub fn property_remove(&mut self, name: &str, ranks: &Idset) {
        self.edit_property(name, ranks, false);
    }

    fn edit_property(&mut self, name: &str, ranks: &Idset, add: bool) {
        let list: Vec<u32> = nodes_of(&self.machine.graph, ranks).collect();
        let Machine { graph, index, .. } = &mut self.machine;
        let graph = Arc::make_mut(graph);
        let name = graph.names.intern(name);
        for &node in &list {
            let old = graph.nodes[node as usize].props;
            let new = if add { graph.props.with(old, name) } else { graph.props.without(old, name) };
            if new != old {
                graph.set_node_props(node, new);
                index.set_template(graph, node);
                self.inventory.set_template(graph, node);
            }
        }
        self.property_epoch = self.epoch + 1;
        self.forget_answers(list, false);
    }

    /// Reserves a start time for a job, which later answers of [`match_now`](Self::match_now) and [`earliest`](Self::earliest)
    /// respect. The start should come from `earliest`. If running jobs overstay, it is in force from the first time that is possible.
    /// Fails if the job has a reservation, `start` (since the epoch) is not finite, or `duration` (seconds) is not positive.
    pub fn reserve(
        &mut self,
        id: JobId,
        request: &Arc<Request>,
        start: f64,
        duration: f64,
    ) -> Result<(), ReserveError> {
        self.reserve_expected(id, request, start, (duration, duration))
    }

    /// [`reserve`](Self::reserve) for a job that is expected to take the first duration, and may take the second, which
    /// windows must leave it. Both are in seconds. Fails as `reserve` does, for either duration.
    pub fn reserve_expected(
        &mut self,
        id: JobId,
        request: &Arc<Request>,
        start: f64,
        (duration, limit): (f64, f64),
    ) -> Result<(), ReserveError> {
        let new = self.machine.reservations.add(id, request.clone(), start, (duration, limit))?;
        // The plan notes the order in which reservations are made.
        self.planning.plan.get_or_insert_default();
        self.keep_in_step(|plan, machine| plan.reserved(machine, &new));
        self.changed(false, false);
        Ok(())
    }

    /// Drops a reservation; false if the job has none.
    pub fn unreserve(&mut self, id: JobId) -> bool {
        let found = self.machine.reservations.remove(id);
        if found {
            self.unreserved(&[id]);
        }
        found
    }

    /// Drops the reservations of these jobs, as [`unreserve`](Self::unreserve) of each would.
    pub fn unreserve_all(&mut self, ids: impl IntoIterator<Item = JobId>) {
        let found = self.machine.reservations.remove_all(ids);
        if !found.is_empty() {
            self.unreserved(&found);
        }
    }

    fn unreserved(&mut self, ids: &[JobId]) {
        self.planning.sooner.advance();
        if self.machine.reservations.is_empty() {
            self.keep_in_step(|plan, machine| plan.cleared(machine));
        } else {
            for id in ids {
                self.keep_in_step(|plan, _| plan.unreserved(*id));
            }
        }
        self.changed(false, false);
    }

    /// Number of reservations in force.
    pub fn reservation_count(&self) -> usize {
        self.machine.reservations.len()
    }

    /// The reservations in order of start: job, start (seconds since the epoch), duration (seconds, may be infinite).
    pub fn reservations(&self) -> impl Iterator<Item = (JobId, f64, f64)> + '_ {
        self.machine.reservations.iter().map(|r| (r.id, r.start, r.duration))
    }

    /// Allocates a selection to a job, from `start` to the expected `end` (seconds since the epoch, may be infinite). Fails, without a
    /// change, if the job holds resources, the end is not after the start, a node is down, or a unit or flow is not free any more.
    pub fn allocate(
        &mut self,
        id: JobId,
        selection: &Selection,
        start: f64,
        end: f64,
    ) -> Result<(), LedgerError> {
        self.allocate_owned(id, selection.clone(), start, end)
    }

    /// [`allocate`](Self::allocate) that consumes the selection.
    pub fn allocate_owned(
        &mut self,
        id: JobId,
        selection: Selection,
        start: f64,
        end: f64,
    ) -> Result<(), LedgerError> {
        for (node, _) in take::nodes(&selection.takes) {
            if !self.machine.index.is_up(node) {
                return Err(LedgerError::Down(self.machine.graph.nodes[node as usize].rank));
            }
        }
        self.machine.ledger.check_flows(&self.machine.graph, &selection.flows)?;
        self.enter(id, selection, start, end)
    }

    /// Books a selection; flow also from pools with too few free units.
    pub(crate) fn enter(
        &mut self,
        id: JobId,
        selection: Selection,
        start: f64,
        end: f64,
    ) -> Result<(), LedgerError> {
        let Selection { takes, flows, nslots } = selection;
        let flows = flows.into();
        if self.machine.ledger.jobs().contains_key(&id) {
            return Err(LedgerError::Exists(id));
        }
        if start.is_nan() || end.is_nan() || end <= start {
            return Err(LedgerError::Span { start: start.to_string(), end: end.to_string() });
        }
        self.machine.ledger.check(&self.machine.graph, &self.machine.index, &takes)?;
        let (cores, gpus) = take::count(&self.machine.graph, &takes);
        let allocation = Allocation { start, end, takes, flows, nslots, cores, gpus };
        let plan = &mut self.planning.plan;
        let in_step = plan.as_mut().is_some_and(|plan| plan.started(&self.machine, &allocation));
        self.machine.note_new(&allocation);
        let Machine { graph, index, ledger, .. } = &mut self.machine;
        ledger.book(graph, index, id, allocation);
        match plan {
            Some(plan) if in_step => plan.refresh(&self.machine, id),
            Some(plan) => plan.expire(),
            None => {}
        }
        self.planning.sooner.started(id, end);
        self.changed(false, false);
        Ok(())
    }

    /// Releases the resources of a job on `ranks`, or with `None` all of them. Vertices above nodes are released with `None` only. True
    /// if the job then holds nothing. Ranks on which it holds nothing are ignored. Fails if it holds nothing at all.
    pub fn release(&mut self, id: JobId, ranks: Option<&Idset>) -> Result<bool, LedgerError> {
        let held = self.machine.ledger.jobs().get(&id).ok_or(LedgerError::Unknown(id))?;
        let rank = |node: u32| self.machine.graph.nodes[node as usize].rank;
        let here = |node: &u32| ranks.is_none_or(|ranks| ranks.contains(rank(*node)));
        let mut nodes: SmallVec<[u32; 8]> = SmallVec::with_capacity(held.takes.len());
        nodes.extend(take::nodes(&held.takes).map(|(node, _)| node).filter(here));
        let upper = held.takes.iter().any(|take| take.node == NONE);
        let (flows, end) = (held.flows.len(), held.end);
        let gone = self.planning.plan.as_ref().filter(|plan| !plan.is_expired()).map(|plan| Gone {
            end,
            returns: self.machine.returns(held),
            allocation: plan.has_places().then(|| held.clone()),
        });
        self.machine.note_returns(id, false);
        let Machine { graph, index, ledger, .. } = &mut self.machine;
        let released = ledger.release(graph, index, id, ranks);
        if !matches!(released, Ok(true)) {
            self.machine.note_returns(id, true);
        }
        let last = released?;
        let left = || self.machine.ledger.jobs().get(&id).map_or(0, |held| held.flows.len());
        let ended = flows > 0 && left() < flows;
        self.keep_in_step(|plan, machine| {
            plan.forget_answers();
            last && gone.is_some_and(|gone| plan.ended(machine, &nodes, &gone))
        });
        self.help(nodes, upper && last || ended);
        self.changed(true, false);
        self.planning.sooner.released(end);
        Ok(last)
    }

    /// Sets the expected end of a job (since the epoch, may be infinite). Fails if it holds nothing, or the end is not after its start.
    pub fn set_end(&mut self, id: JobId, end: f64) -> Result<(), LedgerError> {
        let span = |start: f64| LedgerError::Span { start: start.to_string(), end: end.to_string() };
        let start = self.machine.ledger.jobs().get(&id).ok_or(LedgerError::Unknown(id))?.start;
        if end.is_nan() || end <= start {
            return Err(span(start));
        }
        self.machine.note_returns(id, false);
        let changed = self.machine.ledger.set_end(id, end);
        self.machine.note_returns(id, true);
        let old = changed?;
        self.changed(end < old, true);
        Ok(())
    }

    /// The allocation of a job; `None` if the job holds nothing.
    pub fn allocation(&self, id: JobId) -> Option<&Allocation> {
        self.machine.ledger.jobs().get(&id)
    }

    /// All allocations, by job.
    pub fn allocations(&self) -> impl Iterator<Item = (JobId, &Allocation)> {
        self.machine.ledger.jobs().iter().map(|(&id, a)| (id, a))
    }

    /// Counts over the machine.
    pub fn totals(&self) -> Totals {
        let free = self.machine.index.free();
        let totals = Totals {
            free_nodes: small(free.idle),
            free_cores: small(free.cores),
            free_gpus: small(free.gpus),
            ..self.totals
        };
        self.uncounted.map_or(totals, |uncounted| uncounted.complete(totals))
    }
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The nodes of a set of ranks; unknown ranks are left out.
pub(crate) fn nodes_of<'a>(graph: &'a Graph, ranks: &'a Idset) -> impl Iterator<Item = u32> + 'a {
    ranks.ranges().flat_map(|range| graph.by_rank.range(range).map(|(_, &node)| node))
}
