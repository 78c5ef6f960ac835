//! More for a job that runs. Less is [`Resources::release`] of some ranks.
//!
//! This module must never know why, or what it asked for at first.

use fluxgate_formats::JobId;

use crate::flow;
use crate::ledger::{self, Allocation, LedgerError, Selection};
use crate::resources::Resources;

impl Resources {
    /// Gives a job that holds resources more, checked as by [`allocate`](Self::allocate); its end stays. Of what it has
    /// for itself already nothing can be added.
    pub fn grow(&mut self, id: JobId, selection: &Selection) -> Result<(), LedgerError> {
        let Some(held) = self.allocation(id) else { return Err(LedgerError::Unknown(id)) };
        let (start, end) = (held.start, held.end);
        for (node, _) in ledger::nodes(&selection.takes) {
            if !self.index.is_up(node) {
                return Err(LedgerError::Down(self.graph.nodes[node as usize].rank));
            }
        }
        self.ledger.check(&self.graph, &self.index, &selection.takes)?;
        self.ledger.check_flows(&self.graph, &selection.flows)?;
        let graph = self.graph.clone();
        let flows = flow::merged(held.flows.iter().chain(&selection.flows).copied()).into();
        let takes = ledger::joined(&held.takes, &selection.takes);
        let nslots = held.nslots.saturating_add(selection.nslots);
        let (cores, gpus) = ledger::count(&graph, &takes);
        // All of it is free together: what it held a moment ago, and what was just found free.
        self.ledger.release(&graph, &mut self.index, id, None)?;
        let all = Allocation { start, end, takes, flows, nslots, cores, gpus };
        self.ledger.book(&graph, &mut self.index, id, all);
        self.changed(false, true);
        Ok(())
    }
}
