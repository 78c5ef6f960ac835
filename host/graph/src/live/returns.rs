//! The cores and gpus that running jobs make free, over time: the part of every plan in counts that is the same until a job
//! starts or ends, kept from plan to plan.
//!
//! Must never know reservations, or what time it is.

use std::sync::{Mutex, PoisonError};

use fluxgate_formats::JobId;

use crate::layout::graph::Graph;
use crate::live::ends_sum::EndsSum;
use crate::live::index::Index;
use crate::live::ledger::Allocation;
use crate::live::machine::Machine;
use crate::live::node_ends::note_node_ends;
use crate::live::take;

/// Sums of the units that have become free by each expected end. Jobs without an end are left out.
#[derive(Debug, Clone)]
pub(crate) struct Returns {
    /// On nodes that are up.
    pub(crate) cores: EndsSum,
    /// On nodes that are up.
    pub(crate) gpus: EndsSum,
}

impl Returns {
    fn of(machine: &Machine) -> Returns {
        let ends = machine.ledger.ends().take_while(|(end, _)| end.is_finite());
        let back = |(end, id)| (end, machine.returns(&machine.ledger.jobs()[&id]));
        let all: Vec<(f64, (u64, u64))> = ends.map(back).collect();
        Returns {
            cores: EndsSum::new(all.iter().map(|(end, (cores, _))| (*end, *cores))),
            gpus: EndsSum::new(all.iter().map(|(end, (_, gpus))| (*end, *gpus))),
        }
    }

    fn note(&mut self, end: f64, (cores, gpus): (u64, u64), more: bool) {
        for (sum, units) in [(&mut self.cores, cores), (&mut self.gpus, gpus)] {
            if more { sum.add(end, units) } else { sum.take(end, units) }
        }
    }
}

fn note_returns(
    all: &mut Mutex<Option<Returns>>,
    (graph, index): (&Graph, &Index),
    allocation: &Allocation,
    made: bool,
) {
    let all = all.get_mut().unwrap_or_else(PoisonError::into_inner);
    if let Some(all) = all.as_mut().filter(|_| allocation.end.is_finite()) {
        all.note(allocation.end, returns(graph, index, allocation), made);
    }
}

/// Cores and gpus on nodes that are up that the end of an allocation makes free.
fn returns(graph: &Graph, index: &Index, allocation: &Allocation) -> (u64, u64) {
    if index.free().nodes as usize == graph.nodes.len() {
        return (allocation.cores, allocation.gpus);
    }
    let (mut cores, mut gpus) = (0, 0);
    for (_, takes) in take::nodes(&allocation.takes).filter(|(node, _)| index.is_up(*node)) {
        let (c, g) = take::count(graph, takes);
        cores += c;
        gpus += g;
    }
    (cores, gpus)
}

impl Machine {
    /// Cores and gpus on nodes that are up that the end of an allocation makes free.
    pub(crate) fn returns(&self, allocation: &Allocation) -> (u64, u64) {
        returns(&self.graph, &self.index, allocation)
    }

    /// Asks for the cores and gpus that running jobs make free.
    pub(crate) fn with_returns<T>(&self, ask: impl FnOnce(&mut Returns) -> T) -> T {
        // A panic elsewhere cannot leave sums that are read again: they are made by one call or not at all.
        let mut all = self.all_returns.lock().unwrap_or_else(PoisonError::into_inner);
        ask(all.get_or_insert_with(|| Returns::of(self)))
    }

    /// A node on which jobs run came up, or went down.
    pub(crate) fn forget_returns(&mut self) {
        *self.all_returns.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The allocation of a job was made, or is about to be released or changed.
    pub(crate) fn note_returns(&mut self, id: JobId, made: bool) {
        let Machine { node_ends, all_returns, graph, index, ledger, .. } = self;
        if let Some(allocation) = ledger.jobs().get(&id) {
            note_node_ends(node_ends, (graph, index), allocation, made);
            note_returns(all_returns, (graph, index), allocation, made);
        }
    }

    /// This allocation is about to be made.
    pub(crate) fn note_new(&mut self, allocation: &Allocation) {
        let Machine { node_ends, all_returns, graph, index, .. } = self;
        note_node_ends(node_ends, (graph, index), allocation, true);
        note_returns(all_returns, (graph, index), allocation, true);
    }

    /// Do they agree with the allocations?
    #[cfg(test)]
    pub(crate) fn returns_are_in_step(&self) -> bool {
        let steps = |mut of: Returns| (of.cores.read().steps(), of.gpus.read().steps());
        let kept = self.all_returns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.is_none_or(|all| steps(all) == steps(Returns::of(self)))
    }
}
