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
use crate::live::changes::{Change, Changes};
use crate::live::node_set::{NodeSet, Numbers};
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
    /// The free units of one of its nodes.
    each: Free,
    /// The nodes that are up.
    pub(crate) nodes: NodeSet,
    /// Their positions in the ranking, if there is one.
    pub(crate) ranked: NodeSet,
    /// Number of nodes in this state, up or down.
    refs: u32,
    /// Its position in `live`, if it has nodes that are up.
    live: u32,
}

/// Free units on nodes that are up, or on one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Free {
    pub(crate) nodes: u64,
    pub(crate) idle: u64,
    pub(crate) cores: u64,
    pub(crate) gpus: u64,
}

impl Free {
    /// Of one node with these free cores and gpus.
    fn of(template: &NodeTemplate, idle: bool, (cores, gpus): (u64, u64)) -> Self {
        Free { nodes: u64::from(template.node), idle: u64::from(template.node && idle), cores, gpus }
    }

    /// Those of one node more.
    #[inline(always)]
    fn add(&mut self, each: Free) {
        self.nodes += each.nodes;
        self.idle += each.idle;
        self.cores += each.cores;
        self.gpus += each.gpus;
    }

    /// Those of one node fewer.
    #[inline(always)]
    fn take(&mut self, each: Free) {
        self.nodes -= each.nodes;
        self.idle -= each.idle;
        self.cores -= each.cores;
        self.gpus -= each.gpus;
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
    changes: Changes,
    /// The nodes that are up and have free cores; of no meaning on a machine of one node.
    with_cores: NodeSet,
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
            changes: Changes::default(),
            with_cores: NodeSet::default(),
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
                let of = &mut index.states[state as usize];
                nodes.iter().for_each(|_| index.free.add(of.each));
                of.nodes = nodes.into_iter().collect();
                index.mark_live(state);
            }
        }
        let with_cores = index.live().filter(|state| state.cores > 0);
        index.with_cores = with_cores.flat_map(|state| state.nodes.iter()).collect();
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
        let (cores, gpus) = template.core_gpu_units(free);
        let idle = *free == *template.idle;
        self.states.push(State {
            template: id,
            free: free.into(),
            cores,
            gpus,
            idle,
            each: Free::of(template, idle, (cores, gpus)),
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

    /// The last node that was up has left a state.
    fn unmark_live(&mut self, state: u32) {
        let at = std::mem::replace(&mut self.states[state as usize].live, u32::MAX);
        self.live.swap_remove(at as usize);
        if let Some(&moved) = self.live.get(at as usize) {
            self.states[moved as usize].live = at;
        }
    }

    /// Lists a node that came up.
    fn list(&mut self, node: u32, state: u32) {
        let it = &mut self.states[state as usize];
        it.nodes.insert(node);
        if let Some(ranking) = &self.ranking {
            it.ranked.insert(ranking.place(node));
        }
        self.free.add(it.each);
        if it.cores > 0 {
            self.with_cores.insert(node);
        }
        self.mark_live(state);
    }

    /// Takes a node off the lists that goes down.
    fn unlist(&mut self, node: u32, state: u32) {
        let it = &mut self.states[state as usize];
        it.nodes.remove(node);
        if let Some(ranking) = &self.ranking {
            it.ranked.remove(ranking.place(node));
        }
        self.free.take(it.each);
        self.with_cores.remove(node);
        if it.nodes.is_empty() {
            self.unmark_live(state);
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

    /// The nodes from `from` on and below `to` that are up and have free cores, ascending. `None` on a machine of one node.
    pub(crate) fn with_cores(&self, from: u32, to: u32) -> Option<Numbers<'_>> {
        (self.of_node.len() > 1).then(|| self.with_cores.range(from, to))
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
        let (from, template) = (self.of_node[node as usize], graph.nodes[node as usize].template);
        let change = Change { from, template, takes, shares };
        let to = self.changes.after(&change).unwrap_or_else(|| {
            let mut free = std::mem::take(&mut self.scratch);
            free.clear();
            free.extend_from_slice(&self.states[from as usize].free);
            edit(&mut free);
            let to = self.intern(&graph.templates[template.0 as usize], template, &free);
            self.scratch = free;
            self.changes.note(&change, to);
            to
        });
        if to != from {
            self.shift(node, from, to);
        }
    }

    /// Moves a node from one state to another.
    #[inline(always)]
    fn shift(&mut self, node: u32, from: u32, to: u32) {
        self.of_node[node as usize] = to;
        let Ok([left, entered]) = self.states.get_disjoint_mut([from as usize, to as usize]) else { return };
        (left.refs, entered.refs) = (left.refs - 1, entered.refs + 1);
        self.used = self.used + usize::from(entered.refs == 1) - usize::from(left.refs == 0);
        if self.status[node as usize] == Status::Up {
            left.nodes.remove(node);
            entered.nodes.insert(node);
            self.free.add(entered.each);
            self.free.take(left.each);
            match (left.cores > 0, entered.cores > 0) {
                (true, false) => _ = self.with_cores.remove(node),
                (false, true) => _ = self.with_cores.insert(node),
                _ => {}
            }
            if let Some(ranking) = &self.ranking {
                left.ranked.remove(ranking.place(node));
                entered.ranked.insert(ranking.place(node));
            }
            let (last, first) = (left.nodes.is_empty(), entered.live == u32::MAX);
            if first {
                self.mark_live(to);
            }
            if last {
                self.unmark_live(from);
            }
        }
        if self.states.len() >= SPARE_STATES + 2 * self.used {
            self.pack();
        }
    }

    /// The same on a machine of one node, whose only state changes in place.
    fn change_only(&mut self, graph: &Graph, edit: impl FnOnce(&mut [u64])) {
        let up = self.status[0] == Status::Up;
        let it = &mut self.states[0];
        edit(&mut it.free);
        it.template = graph.nodes[0].template;
        let template = graph.template(0);
        (it.cores, it.gpus) = template.core_gpu_units(&it.free);
        it.idle = *it.free == *template.idle;
        it.each = Free::of(template, it.idle, (it.cores, it.gpus));
        if up {
            self.free = it.each;
        }
    }

    /// Drops states without nodes once there are many. A long run meets many states, but few at a time.
    fn pack(&mut self) {
        let mut number = vec![u32::MAX; self.states.len()];
        let mut kept = Vec::new();
        for (old, state) in std::mem::take(&mut self.states).into_iter().enumerate() {
            if state.refs > 0 {
                number[old] = kept.len() as u32;
                kept.push(state);
            }
        }
        self.states = kept;
        self.changes.clear();
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::live::share::Share;
    use crate::live::tests::cluster;

    impl Index {
        /// Do the lists and sums agree with the free units of each node?
        fn is_in_step(&self, graph: &Graph) -> bool {
            let up = || (0..self.of_node.len() as u32).filter(|node| self.is_up(*node));
            let mut free = Free::default();
            let each = |node| {
                let (template, state) = (graph.template(node), self.state(node));
                Free::of(template, *state.free == *template.idle, template.core_gpu_units(&state.free))
            };
            up().for_each(|node| free.add(each(node)));
            let listed = self.live().map(|state| state.nodes.len()).sum::<usize>();
            let cores = up().filter(|node| self.state(*node).cores > 0);
            free == self.free
                && listed == up().count()
                && up().all(|node| self.state(node).nodes.range(node, node + 1).next().is_some())
                && self.with_cores(0, u32::MAX).is_none_or(|nodes| nodes.eq(cores))
        }
    }

    proptest! {
        /// Against the free units of each node, kept beside it.
        #[test]
        fn an_index_follows_its_nodes(
            nodes in prop_oneof![Just(1u32), Just(5), Just(200)],
            steps in prop::collection::vec((0.0..1.0f64, 0u8..6, 0usize..4, 1u64..5), 0..120),
        ) {
            let machine = cluster(nodes, 8, 2);
            let graph = machine.graph();
            let mut index = Index::new(graph, Status::Up);
            let mut model: Vec<Vec<u64>> = (0..nodes).map(|node| graph.template(node).idle.to_vec()).collect();
            for (node, kind, at, units) in steps {
                let node = (node * f64::from(nodes)) as u32;
                let state = &mut model[node as usize];
                let core = graph.template(node).leaves[&graph.core][0];
                let gpu = graph.template(node).leaves[&graph.gpu][0];
                let one = |at, units| Taken { at, share: Share::Units(units) };
                let shares = match at {
                    0 => vec![one(core, units)],
                    1 => vec![one(gpu, 1)],
                    2 => vec![one(core, units), one(gpu, 1)],
                    _ => vec![Taken { at: 0, share: Share::Shared }, one(core, units)],
                };
                let mut after = state.clone();
                match kind {
                    0..=2 if shares.iter().all(|t| share::take(&mut after[t.at as usize], t.share)) => {
                        prop_assert!(index.has(node, &shares));
                        index.take(graph, node, &shares);
                        *state = after;
                    }
                    3 | 4 => {
                        share::give_all(&mut after, &shares);
                        let idle = &graph.template(node).idle;
                        if after[0] == 0 && after.iter().zip(idle).skip(1).all(|(free, all)| free <= all) {
                            index.give(graph, node, &shares);
                            *state = after;
                        }
                    }
                    5 => {
                        let status = if index.is_up(node) { Status::Down } else { Status::Up };
                        prop_assert!(index.set_status(node, status));
                    }
                    _ => {}
                }
                prop_assert!(index.is_in_step(graph));
                prop_assert!((0..nodes).all(|node| *index.state(node).free == *model[node as usize]));
            }
        }
    }
}
