//! R (RFC 20) of the inventory, of a selection and of an allocation, with their `scheduling`.
//!
//! This module must never know how resources were chosen.

use fluxgate_formats::JobId;
use fluxgate_formats::rset::R;

use crate::layout::flow::{Flow, write};
use crate::layout::site::RecordFormat;
use crate::layout::vertex::NONE;
use crate::live::index::Status;
use crate::live::ledger::Allocation;
use crate::live::resources::Resources;
use crate::live::take::{Selection, Take};
use crate::record::write_jgf;
use crate::record::write_r::{self, RBuilder, Whose};

impl Resources {
    /// The inventory without removed nodes, as R, with the properties that describe the instance, and without `scheduling`.
    pub fn inventory_r(&self) -> R {
        self.whole(Whose::Now, |status| status != Status::Gone)
    }

    /// As [`inventory_r`](Self::inventory_r), with `scheduling`.
    pub fn to_r_all(&self) -> R {
        self.to_r(Whose::Now, |status| status != Status::Gone)
    }

    /// As [`to_r_all`](Self::to_r_all), with removed nodes and with properties as they were before some were set or removed by path
    /// ([`vertex_marks`](Self::vertex_marks)).
    pub fn to_r_ever(&self) -> R {
        self.to_r(Whose::Inventory, |_| true)
    }

    fn to_r(&self, whose: Whose, wanted: impl Fn(Status) -> bool) -> R {
        let mut r = self.whole(whose, wanted);
        let levels = matches!(whose, Whose::Now).then_some(&self.machine.levels);
        r.scheduling = write_jgf::machine(&self.machine.graph, levels).or_else(|| self.scheduling.of(&r));
        write::machine(&self.machine.graph, &mut r);
        r
    }

    fn whole(&self, whose: Whose, wanted: impl Fn(Status) -> bool) -> R {
        let mut out = RBuilder::new(&self.machine.graph);
        let nodes = 0..self.machine.graph.nodes.len() as u32;
        nodes.filter(|&n| wanted(self.machine.index.status(n))).for_each(|n| out.whole(n));
        out.finish(whose)
    }

    /// The R of a selection, for the job that gets it. Times are in seconds since the epoch; an `expiration` of 0, or one that is not
    /// finite, means none.
    pub fn selection_to_r(&self, selection: &Selection, start: f64, expiration: f64) -> R {
        let Selection { takes, flows, nslots } = selection;
        self.of_job(takes, flows, *nslots, (start, expiration))
    }

    /// The R of the allocation of a job, with `expiration` 0 if its expected end is infinite; `None` when it holds nothing.
    pub fn allocation_r(&self, id: JobId) -> Option<R> {
        let allocation = self.allocation(id)?;
        let end = if allocation.end.is_finite() { allocation.end } else { 0.0 };
        let Allocation { takes, flows, nslots, start, .. } = allocation;
        Some(self.of_job(takes, flows, *nslots, (*start, end)))
    }

    fn of_job(&self, takes: &[Take], flows: &[Flow], nslots: u32, (start, expiration): (f64, f64)) -> R {
        let graph = &self.machine.graph;
        let mut r = write_r::of_takes(graph, takes);
        // An execution target that is not a compute node has no slot. The job's shell runs there too, and finds a
        // task for each target only if slots are counted by the jobspec.
        let other =
            |node: u32| graph.vertices[graph.nodes[node as usize].vertex as usize].type_ != graph.node;
        let slots_everywhere = !takes.iter().any(|take| take.node != NONE && other(take.node));
        r.nslots = (nslots > 0 && slots_everywhere).then_some(nslots);
        r.starttime = start;
        r.expiration = if expiration.is_finite() { expiration } else { 0.0 };
        let vertices = write_jgf::of_takes(graph, takes, self.record_format);
        r.scheduling = vertices.or_else(|| self.scheduling.of(&r));
        write::job(graph, flows, &mut r);
        r
    }

    /// The vertices beside cores and gpus that the R of jobs names.
    pub fn record_format(&self) -> RecordFormat {
        self.record_format
    }

    /// Sets [`record_format`](Self::record_format) for all later R.
    pub fn set_record_format(&mut self, format: RecordFormat) {
        self.record_format = format;
    }

    /// True if the machine was read with the graph of a site.
    pub fn has_site_graph(&self) -> bool {
        self.machine.graph.site.is_some()
    }

    /// The resources on nodes that jobs hold, as R without `scheduling`.
    pub fn allocated_r(&self) -> R {
        let (graph, ledger) = (&self.machine.graph, &self.machine.ledger);
        let mut nodes: Vec<u32> = (0..graph.nodes.len() as u32).collect();
        nodes.sort_by_key(|node| graph.nodes[*node as usize].rank);
        let held = nodes.into_iter().map(|node| (node, ledger.held(graph, node)));
        let held: Vec<(u32, Vec<Take>)> = held.filter(|(_, takes)| !takes.is_empty()).collect();
        write_r::of_nodes(graph, held.iter().map(|(node, takes)| (*node, &takes[..])), Whose::Now)
    }

    /// The resources of nodes that are down, as R without `scheduling`. Removed nodes are left out.
    pub fn down_r(&self) -> R {
        self.whole(Whose::Now, |status| status == Status::Down)
    }
}
