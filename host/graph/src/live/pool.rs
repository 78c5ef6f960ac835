//! A machine as one pool of cores (RFC 4, "Resource Pool Data Model"): jobs hold numbers of cores, and no places.
//!
//! It is one vertex with a size, so to take a number of cores is one subtraction, on a machine of any size. A request for a number of
//! cores on any nodes has the same answers as on nodes, at any time: it fits if and only if this many cores are free.
//! Must never know why no places are asked for.

use fluxgate_formats::Idset;

use crate::layout::builder::{GraphBuilder, GraphError, Pool};
use crate::layout::vertex::Ids;
use crate::live::cache::{CACHE_MAX, remember};
use crate::live::error::NoFit;
use crate::live::request::Request;
use crate::live::resources::{Resources, Totals};
use crate::live::take::Selection;

/// The nodes that count in totals of a machine and are not in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uncounted {
    nodes: u32,
}

impl Resources {
    /// A machine of this many cores on this many nodes (at least 1 of each) as one pool, all of it up. It is for requests of a number of
    /// cores; no request may name nodes. Its [`totals`](Self::totals) have these nodes; as free ones they count as
    /// many as have room in the free cores, which is exact where each node has one core. R of its jobs has no cores.
    ///
    /// # Errors
    /// [`GraphError::ZeroSize`] without cores.
    pub fn one_pool(nodes: u32, cores: u32) -> Result<Self, GraphError> {
        let mut builder = GraphBuilder::new();
        let [cluster, node, core] = ["cluster", "node", "core"].map(|name| builder.name(name));
        let cluster = builder.add(Pool::new(cluster, Ids::one(0)))?;
        let node = builder.add(Pool { rank: Some(0), ..Pool::new(node, Ids::one(0)) })?;
        let core = builder.add(Pool { size: u64::from(cores), ..Pool::new(core, Ids::one(0)) })?;
        builder.contain(cluster, node);
        builder.contain(node, core);
        let mut made = Resources::from_graph(builder.finish()?);
        made.set_up(&Idset::from_iter([0]));
        made.uncounted = Some(Uncounted { nodes });
        Ok(made)
    }
}

impl Resources {
    /// The selection of a request on a pool, whatever is free: always the same for a fixed number of cores. `None` if it is not known.
    pub(crate) fn pooled(&self, request: &Request) -> Option<&Selection> {
        self.uncounted.and_then(|_| self.planning.pooled.get(&request.shape))
    }

    /// Notes the selection that a search on a pool has found.
    pub(crate) fn note_pooled(&mut self, request: &Request, selection: &Selection) {
        let fixed = self.uncounted.is_some() && request.fixed && request.plain_cores().is_some();
        if fixed && self.machine.calendar.is_empty() {
            remember(&mut self.planning.pooled, CACHE_MAX, request.shape, selection.clone());
        }
    }

    /// [`match_now`](Self::match_now) where the selection is known and enough cores are free, so that counts decide. `None` if they do not.
    pub(crate) fn match_in_pool(
        &mut self,
        request: &Request,
        now: f64,
        end: f64,
    ) -> Option<Result<Selection, NoFit>> {
        self.pooled(request)?;
        if !self.machine.calendar.is_empty() {
            return None;
        }
        if self.machine.reservations.any_before(end) {
            let delay = self.with_plan(now, |plan, machine| plan.admits(machine, request, end))?;
            if let Some((id, latest)) = delay {
                return Some(Err(NoFit::WouldDelay(id, latest)));
            }
        }
        self.pooled(request).cloned().map(Ok)
    }
}

impl Uncounted {
    /// These totals, with the nodes.
    pub(crate) fn complete(self, totals: Totals) -> Totals {
        let (nodes, cores) = (u64::from(self.nodes), u64::from(totals.cores.max(1)));
        let free = u64::from(totals.free_cores) * nodes / cores;
        Totals {
            nodes: self.nodes,
            up_nodes: self.nodes,
            free_nodes: u32::try_from(free).unwrap_or(u32::MAX),
            ..totals
        }
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::{JobId, jobspec};

    use super::*;
    use crate::live::placement::Placement;

    #[test]
    fn cores_are_counted_and_have_no_places() {
        let mut pool = Resources::one_pool(4, 80_640).unwrap();
        let simple =
            |slots| jobspec::Simple { slots, cores_per_slot: 1, duration: 60.0, ..Default::default() };
        let ask = |pool: &mut Resources, slots| pool.compile(&simple(slots).build()).unwrap();
        let request = ask(&mut pool, 80_000);
        assert_eq!(request.plain_cores(), Some(80_000));
        let found = pool.match_now(&request, 0.0, 60.0, Placement::First).unwrap();
        pool.allocate_owned(JobId(1), found, 0.0, 60.0).unwrap();
        let totals = pool.totals();
        assert_eq!((totals.nodes, totals.cores, totals.free_cores), (4, 80_640, 640));
        assert!(pool.match_now(&request, 0.0, 60.0, Placement::First).is_err());
        assert_eq!(pool.earliest(&request, 0.0, 10.0), Some(60.0));
        let small = ask(&mut pool, 640);
        assert!(pool.match_now(&small, 0.0, 60.0, Placement::High).is_ok());
        assert!(pool.release(JobId(1), None).unwrap());
        assert_eq!(pool.totals().free_nodes, 4);
        let wide = ask(&mut pool, 80_641);
        let why = pool.satisfiable(&wide).unwrap_err().to_string();
        assert!(why.contains("it asks for 80641 cores, and 80640 are there"), "{why}");
    }

    #[test]
    fn a_pool_of_nothing_is_refused() {
        assert!(Resources::one_pool(1, 0).is_err());
    }
}
