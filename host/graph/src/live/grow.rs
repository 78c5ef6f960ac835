//! Adding resources to a running job. [`Resources::release`] of some ranks takes resources away.
//!
//! This module must never know the job's request.

use fluxgate_formats::JobId;

use crate::layout::flow;
use crate::live::ledger::{Allocation, LedgerError};
use crate::live::resources::Resources;
use crate::live::take::{self, Selection};

impl Resources {
    /// Adds a selection to a job that holds resources, with the checks of [`allocate`](Self::allocate). The end does
    /// not change. Units that the job holds exclusively cannot be added again.
    ///
    /// # Errors
    /// The job holds nothing, a node is down, or a unit or flow is not free. Nothing was changed then.
    pub fn grow(&mut self, id: JobId, selection: &Selection) -> Result<(), LedgerError> {
        let Some(held) = self.allocation(id) else { return Err(LedgerError::Unknown(id)) };
        let (start, end) = (held.start, held.end);
        for (node, _) in take::nodes(&selection.takes) {
            if !self.machine.index.is_up(node) {
                return Err(LedgerError::Down(self.machine.graph.nodes[node as usize].rank));
            }
        }
        self.machine.ledger.check(&self.machine.graph, &self.machine.index, &selection.takes)?;
        self.machine.ledger.check_flows(&self.machine.graph, &selection.flows)?;
        let graph = self.machine.graph.clone();
        let flows = flow::merged(held.flows.iter().chain(&selection.flows).copied()).into();
        let takes = take::joined(&held.takes, &selection.takes);
        let nslots = held.nslots.saturating_add(selection.nslots);
        let (cores, gpus) = take::count(&graph, &takes);
        // Both parts are free now: the job's units were just released, and the new ones were checked.
        self.machine.note_returns(id, false);
        self.machine.ledger.release(&graph, &mut self.machine.index, id, None)?;
        let all = Allocation { start, end, takes, flows, nslots, cores, gpus };
        self.machine.ledger.book(&graph, &mut self.machine.index, id, all);
        self.machine.note_returns(id, true);
        self.changed(false, true);
        Ok(())
    }
}
