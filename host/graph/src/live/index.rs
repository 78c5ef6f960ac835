//! Free resources of every node, indexed by state.
//!
//! Nodes of equal template and equal free counts share one [`State`]; each state lists its nodes in order. A search
//! queries every state once and then visits only nodes that fit. Its cost follows the number of *different* states
//! and the size of the answer, not the number of nodes.
//!
//! A state lists nodes that are up. The free counts of a node that is down are tracked as well.
//!
//! This module must never know jobs, times or requests.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::layout::graph::Graph;
use crate::layout::template::{NodeTemplate, TemplateId};
use crate::live::node_set::NodeSet;
use crate::live::ranking::Ranking;
use crate::live::share::{self, Taken};

/// Whether a node can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// The node accepts jobs.
    Up,
    /// The node may come back up.
    Down,
    /// The node was removed from the inventory.
    Gone,
}

/// Nodes with equal template and equal free counts.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) template: TemplateId,
    pub(crate) free: Box<[u64]>,
    pub(crate) cores: u64,
    pub(crate) gpus: u64,
    pub(crate) idle: bool,
    /// Its nodes count as compute nodes of the machine.
    counted: bool,
    /// The nodes that are up.
    pub(crate) nodes: NodeSet,
    /// Their positions in the ranking, if there is one.
    pub(crate) ranked: NodeSet,
    /// Number of nodes in this state, up or down.
    refs: u32,
    /// Its position in `live`, if it has nodes that are up.
    live: u32,
}

/// Free units on nodes that are up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Free {
    pub(crate) nodes: u64,
    pub(crate) idle: u64,
    pub(crate) cores: u64,
    pub(crate) gpus: u64,
}

/// A change of a node's state, which a node of the same template in the same state repeats with the same shares.
#[derive(Debug, Clone)]
struct Change {
    from: u32,
    template: TemplateId,
    /// Takes the shares, or gives them back.
    takes: bool,
    shares: Vec<Taken>,
    to: u32,
}

impl Default for Change {
    /// From no state.
    fn default() -> Self {
        Change { from: u32::MAX, template: TemplateId(0), takes: true, shares: Vec::new(), to: u32::MAX }
    }
}

/// The index. See the module.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    states: Vec<State>,
    lookup: Vec<FxHashMap<Box<[u64]>, u32>>,
    of_node: Vec<u32>,
    status: Vec<Status>,
    live: Vec<u32>,
    free: Free,
    scratch: Vec<u64>,
    /// The last change: the nodes of a job often have the same one.
    last: Change,
    /// Number of states that have nodes.
    used: usize,
    ranking: Option<Arc<Ranking>>,
}

/// Number of unused states at which the table is packed.
const SPARE_STATES: usize = 256;

impl Index {
    /// An index of idle nodes with one status.
    pub(crate) fn new(graph: &Graph, status: Status) -> Self {
        let mut index = Index {
            states: Vec::new(),
            lookup: Vec::new(),
            of_node: Vec::with_capacity(graph.nodes.len()),
            status: vec![status; graph.nodes.len()],
            live: Vec::new(),
            free: Free::default(),
            scratch: Vec::new(),
            last: Change::default(),
            used: 0,
            ranking: None,
        };
        let mut by_template: Vec<Vec<u32>> = vec![Vec::new(); graph.templates.len()];
        for (node, it) in graph.nodes.iter().enumerate() {
            by_template[it.template.0 as usize].push(node as u32);
            index.of_node.push(0);
        }
        for (template, nodes) in by_template.into_iter().enumerate().filter(|(_, n)| !n.is_empty()) {
            let id = TemplateId(template as u32);
            let it = &graph.templates[template];
            let state = index.intern(it, id, &it.idle);
            for &node in &nodes {
                index.of_node[node as usize] = state;
            }
            index.states[state as usize].refs = nodes.len() as u32;
            index.used += 1;
            if status == Status::Up {
                let count = nodes.len() as u64;
                index.states[state as usize].nodes = nodes.into_iter().collect();
                index.mark_live(state);
                index.free.nodes += count * u64::from(it.node);
                index.free.idle += count * u64::from(it.node);
                index.free.cores += count * it.cores;
                index.free.gpus += count * it.gpus;
            }
        }
        index
    }

    fn intern(&mut self, template: &NodeTemplate, id: TemplateId, free: &[u64]) -> u32 {
        if self.lookup.len() <= id.0 as usize {
            self.lookup.resize_with(id.0 as usize + 1, FxHashMap::default);
        }
        if let Some(&state) = self.lookup[id.0 as usize].get(free) {
            return state;
        }
        let state = self.states.len() as u32;
        let (core, gpu) = template.core_gpu_units(free);
        self.states.push(State {
            template: id,
            free: free.into(),
            cores: core,
            gpus: gpu,
            idle: *free == *template.idle,
            counted: template.node,
            nodes: NodeSet::default(),
            ranked: NodeSet::default(),
            refs: 0,
            live: u32::MAX,
        });
        self.lookup[id.0 as usize].insert(free.into(), state);
        state
    }

    fn mark_live(&mut self, state: u32) {
        if self.states[state as usize].live == u32::MAX {
            self.states[state as usize].live = self.live.len() as u32;
            self.live.push(state);
        }
    }

    fn list(&mut self, node: u32, state: u32) {
        let it = &mut self.states[state as usize];
        it.nodes.insert(node);
        if let Some(ranking) = &self.ranking {
            it.ranked.insert(ranking.place(node));
        }
        self.free.nodes += u64::from(it.counted);
        self.free.idle += u64::from(it.idle && it.counted);
        self.free.cores += it.cores;
        self.free.gpus += it.gpus;
        self.mark_live(state);
    }

    fn unlist(&mut self, node: u32, state: u32) {
        let it = &mut self.states[state as usize];
        it.nodes.remove(node);
        if let Some(ranking) = &self.ranking {
            it.ranked.remove(ranking.place(node));
        }
        self.free.nodes -= u64::from(it.counted);
        self.free.idle -= u64::from(it.idle && it.counted);
        self.free.cores -= it.cores;
        self.free.gpus -= it.gpus;
        if it.nodes.is_empty() {
            let at = std::mem::replace(&mut it.live, u32::MAX);
            self.live.swap_remove(at as usize);
            if let Some(&moved) = self.live.get(at as usize) {
                self.states[moved as usize].live = at;
            }
        }
    }

    /// The order of nodes that the policy set.
    pub(crate) fn ranking(&self) -> Option<&Arc<Ranking>> {
        self.ranking.as_ref()
    }

    /// Sets or removes that order.
    pub(crate) fn set_ranking(&mut self, ranking: Option<Arc<Ranking>>) {
        for state in &mut self.states {
            let place = |ranking: &Arc<Ranking>| state.nodes.iter().map(|n| ranking.place(n)).collect();
            state.ranked = ranking.as_ref().map(place).unwrap_or_default();
        }
        self.ranking = ranking;
    }

    /// The state of a node: its free units.
    pub(crate) fn state(&self, node: u32) -> &State {
        &self.states[self.of_node[node as usize] as usize]
    }

    /// States with nodes that are up, in no meaningful order.
    pub(crate) fn live(&self) -> impl ExactSizeIterator<Item = &State> {
        self.live.iter().map(|&s| &self.states[s as usize])
    }

    /// Number of idle nodes of these templates that are up.
    pub(crate) fn idle_of(&self, templates: &[TemplateId]) -> u64 {
        let wanted = |s: &&State| s.idle && templates.binary_search(&s.template).is_ok();
        self.live().filter(wanted).map(|s| s.nodes.len() as u64).sum()
    }

    /// Totals over nodes that are up.
    pub(crate) fn free(&self) -> Free {
        self.free
    }

    pub(crate) fn status(&self, node: u32) -> Status {
        self.status[node as usize]
    }

    pub(crate) fn is_up(&self, node: u32) -> bool {
        self.status(node) == Status::Up
    }

    /// Sets the status; true if it changed.
    pub(crate) fn set_status(&mut self, node: u32, status: Status) -> bool {
        let old = self.status[node as usize];
        if old == status {
            return false;
        }
        self.status[node as usize] = status;
        let state = self.of_node[node as usize];
        match (old, status) {
            (Status::Up, _) => self.unlist(node, state),
            (_, Status::Up) => self.list(node, state),
            _ => {}
        }
        true
    }

    /// True if every share is free.
    pub(crate) fn has(&self, node: u32, taken: &[Taken]) -> bool {
        let state = &self.state(node).free;
        taken.iter().all(|t| state.get(t.at as usize).is_some_and(|&s| share::take(&mut { s }, t.share)))
    }

    /// Takes shares that [`has`](Self::has) found.
    pub(crate) fn take(&mut self, graph: &Graph, node: u32, taken: &[Taken]) {
        self.change(graph, node, true, taken);
    }

    /// Puts shares back.
    pub(crate) fn give(&mut self, graph: &Graph, node: u32, taken: &[Taken]) {
        self.change(graph, node, false, taken);
    }

    /// Gives a node its new template after its properties changed; its free counts are unchanged.
    pub(crate) fn set_template(&mut self, graph: &Graph, node: u32) {
        self.change(graph, node, true, &[]);
    }

    fn change(&mut self, graph: &Graph, node: u32, takes: bool, shares: &[Taken]) {
        let edit = |state: &mut [u64]| {
            for it in shares {
                let of = &mut state[it.at as usize];
                if takes { _ = share::take(of, it.share) } else { share::give(of, it.share) }
            }
        };
        if graph.nodes.len() == 1 {
            return self.change_only(graph, edit);
        }
        let (old, template) = (self.of_node[node as usize], graph.nodes[node as usize].template);
        let last = &self.last;
        let same = (last.from, last.template, last.takes) == (old, template, takes) && last.shares == shares;
        let new = if same {
            last.to
        } else {
            let mut free = std::mem::take(&mut self.scratch);
            free.clear();
            free.extend_from_slice(&self.states[old as usize].free);
            edit(&mut free);
            let new = self.intern(&graph.templates[template.0 as usize], template, &free);
            self.scratch = free;
            let mut kept = std::mem::take(&mut self.last.shares);
            kept.clear();
            kept.extend_from_slice(shares);
            self.last = Change { from: old, template, takes, shares: kept, to: new };
            new
        };
        if new == old {
            return;
        }
        let up = self.status[node as usize] == Status::Up;
        if up {
            self.unlist(node, old);
        }
        self.states[old as usize].refs -= 1;
        self.used -= usize::from(self.states[old as usize].refs == 0);
        self.used += usize::from(self.states[new as usize].refs == 0);
        self.states[new as usize].refs += 1;
        self.of_node[node as usize] = new;
        if up {
            self.list(node, new);
        }
        self.pack();
    }

    /// The same on a machine of one node, whose only state changes in place.
    fn change_only(&mut self, graph: &Graph, edit: impl FnOnce(&mut [u64])) {
        let up = self.status[0] == Status::Up;
        let it = &mut self.states[0];
        edit(&mut it.free);
        it.template = graph.nodes[0].template;
        let template = graph.template(0);
        (it.cores, it.gpus) = template.core_gpu_units(&it.free);
        (it.idle, it.counted) = (*it.free == *template.idle, template.node);
        if up {
            let (counted, idle) = (u64::from(it.counted), u64::from(it.idle && it.counted));
            self.free = Free { nodes: counted, idle, cores: it.cores, gpus: it.gpus };
        }
    }

    /// Drops states without nodes once there are many. A long run meets many states, but few at a time.
    fn pack(&mut self) {
        if self.states.len() < SPARE_STATES + 2 * self.used {
            return;
        }
        let mut number = vec![u32::MAX; self.states.len()];
        let mut kept = Vec::new();
        for (old, state) in std::mem::take(&mut self.states).into_iter().enumerate() {
            if state.refs > 0 {
                number[old] = kept.len() as u32;
                kept.push(state);
            }
        }
        self.states = kept;
        self.last = Change::default();
        for map in &mut self.lookup {
            map.retain(|_, state| {
                *state = number[*state as usize];
                *state != u32::MAX
            });
        }
        for state in self.of_node.iter_mut().chain(&mut self.live) {
            *state = number[*state as usize];
        }
    }
}
