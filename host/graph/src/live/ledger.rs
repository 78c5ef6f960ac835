//! The ledger: which job holds which units, and its expected end.
//!
//! The ledger is the only place where allocations are stored. An allocation holds its units until it is released; its end
//! is an expectation and frees nothing. Every change is checked as a whole before any part of it is made.
//!
//! This module must never know a request or a policy.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;
use fluxgate_formats::{Idset, JobId, TotalF64};
use smallvec::SmallVec;

use crate::job_map::JobMap;
use crate::layout::flow::{self, Flow};
use crate::layout::graph::Graph;
use crate::layout::vertex::{NONE, VertexId};
use crate::live::bits::{self, Bits};
use crate::live::index::Index;
use crate::live::share::{self, Share, Shares, Taken};
use crate::live::take::{Match, Selection, Take, What, count, each_pool, nodes, position};

/// The allocation of a job: the units that it holds, since when, and until when as far as is expected.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// Start, in seconds since the epoch.
    pub start: f64,
    /// Expected end, in seconds since the epoch; infinite without a limit. The units stay held beyond it.
    pub end: f64,
    pub(crate) takes: Vec<Take>,
    /// The flow to its nodes, in order of node.
    pub(crate) flows: Box<[Flow]>,
    pub(crate) nslots: u32,
    pub(crate) cores: u64,
    pub(crate) gpus: u64,
}

impl Allocation {
    /// Number of nodes still held, whole or in part; other execution targets, such as storage nodes, count too.
    pub fn node_count(&self) -> usize {
        nodes(&self.takes).count()
    }

    /// Number of cores still held, on compute nodes.
    pub fn cores(&self) -> u64 {
        self.cores
    }

    /// Number of GPUs still held, on compute nodes.
    pub fn gpus(&self) -> u64 {
        self.gpus
    }
}

/// The reason for which the ledger refused a change. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The job holds resources already.
    #[error("job {0} holds resources already")]
    Exists(JobId),
    /// The job holds nothing.
    #[error("job {0} holds no resources")]
    Unknown(JobId),
    /// A resource of a node is not free.
    #[error("{what} of rank {rank} is in use")]
    InUse {
        /// The rank.
        rank: u32,
        /// The resource, such as `core3`.
        what: String,
    },
    /// A pool or another vertex above nodes has too few free units: its name.
    #[error("{0} is in use")]
    PoolInUse(String),
    /// A node is down: its rank.
    #[error("rank {0} is down")]
    Down(u32),
    /// A resource that the inventory lacks.
    #[error("{what} of rank {rank} is not in the inventory")]
    NotThere {
        /// The rank.
        rank: u32,
        /// The resource, such as `core3`, or `node` for a rank that is not there.
        what: String,
    },
    /// The rank has another host in the inventory.
    #[error("rank {rank} is host '{here}' here, '{there}' in the allocation")]
    Host {
        /// The rank.
        rank: u32,
        /// The host in the inventory.
        here: String,
        /// The host in the allocation.
        there: String,
    },
    /// The end is not after the start, or a time is not a number.
    #[error("not a time span: {start} to {end} (the end must be later)")]
    Span {
        /// The start as text, in seconds since the epoch.
        start: String,
        /// The end as text, in seconds since the epoch.
        end: String,
    },
}

/// True if shares are in order of their vertices, one of each.
fn in_order(nodes: &[(u32, Shares)]) -> bool {
    nodes.is_sorted_by(|(n, _), (m, _)| n < m)
        && nodes.iter().all(|(_, taken)| taken.is_sorted_by(|a, b| a.at < b.at))
}

/// Shares of vertices in order, one of each vertex; `None` if shares of one do not go together.
fn merged(mut shares: Vec<(u32, Taken)>) -> Option<Vec<(u32, Taken)>> {
    shares.sort_by_key(|(node, t)| (*node, t.at));
    let mut merged: Vec<(u32, Taken)> = Vec::with_capacity(shares.len());
    for (node, t) in shares {
        match merged.last_mut() {
            Some((n, Taken { at, share })) if *n == node && *at == t.at => match (share, t.share) {
                (Share::Units(have), Share::Units(more)) => *have += more,
                (Share::Shared, Share::Shared) => {}
                _ => return None,
            },
            _ => merged.push((node, t)),
        }
    }
    Some(merged)
}

/// Calls `act` with each node of a list of takes, and the shares of it that are taken.
fn each_node(graph: &Graph, takes: &[Take], mut act: impl FnMut(u32, &[Taken])) {
    let mut several: SmallVec<[Taken; 8]> = SmallVec::new();
    for (node, takes) in nodes(takes) {
        if let [one] = takes {
            act(node, &[position(graph, one)]);
            continue;
        }
        several.clear();
        several.extend(takes.iter().map(|take| position(graph, take)));
        act(node, &several);
    }
}

/// The ledger. See the module.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    jobs: JobMap<Allocation>,
    /// Jobs by expected end.
    ends: BTreeSet<(TotalF64, JobId)>,
    /// Free members of every run, a bitmap each.
    free: Vec<u64>,
    /// Free units, or the mark, of every upper vertex.
    upper: Vec<u64>,
    /// Pools that are up and have free units, directly below each upper vertex.
    open: Vec<u32>,
    /// Upper vertices that are down.
    down: FixedBitSet,
}

impl Ledger {
    pub(crate) fn new(graph: &Graph) -> Self {
        let mut free = vec![0u64; graph.bit_words];
        for vertex in &graph.vertices {
            let (start, members) = (vertex.bits as usize, vertex.ids.len() as usize);
            for (i, word) in free[start..start + vertex.bit_words()].iter_mut().enumerate() {
                *word = bits::first(members - i * 64);
            }
        }
        let upper: Vec<u64> = (0..graph.upper.len() as u32).map(|at| graph.upper_idle(at)).collect();
        let mut open = vec![0; upper.len()];
        for (at, units) in upper.iter().enumerate() {
            if let Some(above) = graph.pool_parent(at) {
                open[above] += u32::from(*units > 0);
            }
        }
        let down = FixedBitSet::new();
        Ledger { jobs: JobMap::default(), ends: BTreeSet::new(), free, upper, open, down }
    }

    /// Pools that are up and have free units, directly below each upper vertex.
    pub(crate) fn open(&self) -> &[u32] {
        &self.open
    }

    /// Changes the free units, or the mark, of an upper vertex.
    fn edit_upper(&mut self, graph: &Graph, vertex: u32, edit: impl FnOnce(&mut u64)) {
        let Some(at) = graph.upper_index(vertex) else { return };
        let before = self.upper[at];
        edit(&mut self.upper[at]);
        if (before > 0) != (self.upper[at] > 0) && !self.down.contains(at) {
            self.count_open(graph, at, before == 0);
        }
    }

    /// An upper vertex, by position in `Graph::upper`, is down, or up.
    pub(crate) fn set_down(&mut self, graph: &Graph, at: usize, down: bool) {
        if self.down.contains(at) == down {
            return;
        }
        self.down.grow(graph.upper.len());
        self.down.set(at, down);
        if self.upper[at] > 0 {
            self.count_open(graph, at, !down);
        }
    }

    /// One pool more, or fewer, is open below the vertex above it.
    fn count_open(&mut self, graph: &Graph, at: usize, more: bool) {
        if let Some(above) = graph.pool_parent(at) {
            let open = &mut self.open[above];
            *open = if more { *open + 1 } else { open.saturating_sub(1) };
        }
    }

    pub(crate) fn upper(&self) -> &[u64] {
        &self.upper
    }

    pub(crate) fn jobs(&self) -> &JobMap<Allocation> {
        &self.jobs
    }

    /// Jobs by expected end, earliest first.
    pub(crate) fn ends(&self) -> impl DoubleEndedIterator<Item = (f64, JobId)> + '_ {
        self.ends.iter().map(|&(t, id)| (t.0, id))
    }

    pub(crate) fn free_words(&self, graph: &Graph, vertex: u32) -> &[u64] {
        let it = &graph.vertices[vertex as usize];
        &self.free[it.bits as usize..it.bits as usize + it.bit_words()]
    }

    /// The members that jobs hold on a node.
    pub(crate) fn held(&self, graph: &Graph, node: u32) -> Vec<Take> {
        let first = graph.nodes[node as usize].vertex;
        let held = |vertex: u32| {
            let free = self.free_words(graph, vertex);
            let members = graph.vertices[vertex as usize].ids.len() as usize;
            let words = free.iter().enumerate().map(|(i, word)| !word & bits::first(members - i * 64));
            let words: Vec<u64> = words.collect();
            let held = words.iter().any(|word| *word != 0);
            held.then(|| Take { node, vertex, what: What::Members(Bits::from_words(words)) })
        };
        (first + 1..graph.vertices[first as usize].end).filter_map(held).collect()
    }

    /// Chooses the units of a match; `None` if they are not free (the match was made at another moment).
    pub(crate) fn choose(&self, graph: &Graph, found: &Match, high: bool) -> Option<Selection> {
        let count = found.nodes.iter().map(|(_, taken)| taken.len()).sum::<usize>();
        let mut takes = Vec::with_capacity(count + found.upper.len());
        let mut take = |node: u32, t: Taken| {
            let vertex = graph.nodes[node as usize].vertex + t.at;
            takes.push(Take { node, vertex, what: self.name(graph, vertex, t.share, high)? });
            Some(())
        };
        // Mostly a search found each vertex once, and in this order.
        if in_order(&found.nodes) {
            for (node, taken) in &found.nodes {
                taken.iter().try_for_each(|t| take(*node, *t))?;
            }
        } else {
            let shares = found.nodes.iter().flat_map(|(node, taken)| taken.iter().map(|t| (*node, *t)));
            merged(shares.collect())?.into_iter().try_for_each(|(node, t)| take(node, t))?;
        }
        for &(at, share) in &found.upper {
            let vertex = graph.upper[at as usize];
            takes.push(Take { node: NONE, vertex, what: self.name(graph, vertex, share, high)? });
        }
        let slots = u32::try_from(found.slots).unwrap_or(u32::MAX);
        let flows =
            if found.flows.is_empty() { Vec::new() } else { flow::merged(found.flows.iter().copied()) };
        Some(Selection { takes, flows, nslots: slots })
    }

    fn name(&self, graph: &Graph, vertex: u32, share: Share, high: bool) -> Option<What> {
        let it = &graph.vertices[vertex as usize];
        match share {
            Share::Units(n) if it.size == 1 => {
                Some(What::Members(bits::pick(self.free_words(graph, vertex), n, high)?))
            }
            share => Some(What::Share(share)),
        }
    }

    /// Checks that every unit of a list of takes is free.
    pub(crate) fn check(&self, graph: &Graph, index: &Index, takes: &[Take]) -> Result<(), LedgerError> {
        for take in takes {
            let above = || if take.node == NONE { graph.upper_index(take.vertex) } else { None };
            let ok = match &take.what {
                // The index counts the members that are free here.
                What::Members(bits) if take.node != NONE => self.are_free(graph, take.vertex, bits),
                What::Members(bits) if !self.are_free(graph, take.vertex, bits) => false,
                what => match above() {
                    Some(at) => share::take(&mut { self.upper[at] }, what.share()),
                    None => index.has(take.node, &[position(graph, take)]),
                },
            };
            if !ok {
                return Err(self.in_use(graph, take));
            }
        }
        Ok(())
    }

    /// True if these members of a run are free.
    fn are_free(&self, graph: &Graph, vertex: u32, members: &Bits) -> bool {
        let words = self.free_words(graph, vertex);
        words.len() == members.words().len() && words.iter().zip(members.words()).all(|(f, m)| f & m == *m)
    }

    fn in_use(&self, graph: &Graph, take: &Take) -> LedgerError {
        let it = &graph.vertices[take.vertex as usize];
        let what = match &take.what {
            What::Members(bits) => {
                let words = self.free_words(graph, take.vertex);
                let busy =
                    bits.iter().find(|&m| words.get(m as usize / 64).is_none_or(|w| w >> (m % 64) & 1 == 0));
                format!("{}{}", graph.text(it.type_), graph.r_id(take.vertex, busy.unwrap_or(0)))
            }
            What::Share(_) => {
                graph.vertex_name(VertexId(take.vertex), 0).unwrap_or_else(|| "vertex".to_owned())
            }
        };
        match graph.nodes.get(take.node as usize) {
            Some(node) => LedgerError::InUse { rank: node.rank, what },
            None => LedgerError::PoolInUse(what),
        }
    }

    /// Checks that every pool on the way of the flows has enough free units.
    pub(crate) fn check_flows(&self, graph: &Graph, flows: &[Flow]) -> Result<(), LedgerError> {
        if flows.is_empty() {
            return Ok(());
        }
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        each_pool(graph, flows, |at, units| {
            let sum = sums.entry(at).or_default();
            *sum = sum.saturating_add(units);
        });
        match sums.into_iter().find(|(at, units)| flow::headroom(self.upper[*at as usize]) < *units) {
            Some((at, _)) => {
                let vertex = VertexId(graph.upper[at as usize]);
                Err(LedgerError::PoolInUse(graph.vertex_name(vertex, 0).unwrap_or_default()))
            }
            None => Ok(()),
        }
    }

    /// Books takes that [`check`](Self::check) found free; adds to the allocation of the job.
    pub(crate) fn book(&mut self, graph: &Graph, index: &mut Index, id: JobId, allocation: Allocation) {
        for take in &allocation.takes {
            if let What::Members(bits) = &take.what {
                let start = graph.vertices[take.vertex as usize].bits as usize;
                for (i, word) in bits.words().iter().enumerate() {
                    self.free[start + i] &= !word;
                }
            }
            if take.node == NONE {
                self.edit_upper(graph, take.vertex, |state| {
                    share::take(state, take.what.share());
                });
            }
        }
        each_pool(graph, &allocation.flows, |at, units| flow::force(&mut self.upper[at as usize], units));
        each_node(graph, &allocation.takes, |node, taken| index.take(graph, node, taken));
        self.ends.insert((TotalF64(allocation.end), id));
        self.jobs.insert(id, allocation);
    }

    /// Releases the units of a job: all, or those on some ranks. True if the job holds nothing any more. Upper
    /// vertices are released with all units only, not with the last rank.
    pub(crate) fn release(
        &mut self,
        graph: &Graph,
        index: &mut Index,
        id: JobId,
        ranks: Option<&Idset>,
    ) -> Result<bool, LedgerError> {
        let (gone, ended, last) = match ranks {
            Some(ranks) => self.release_on(graph, id, ranks)?,
            None => {
                let Allocation { takes, flows, end, .. } =
                    self.jobs.remove(&id).ok_or(LedgerError::Unknown(id))?;
                self.ends.remove(&(TotalF64(end), id));
                (takes, flows.into_vec(), true)
            }
        };
        for take in &gone {
            if let What::Members(bits) = &take.what {
                let start = graph.vertices[take.vertex as usize].bits as usize;
                for (i, word) in bits.words().iter().enumerate() {
                    self.free[start + i] |= word;
                }
            }
            if take.node == NONE {
                self.edit_upper(graph, take.vertex, |state| share::give(state, take.what.share()));
            }
        }
        each_pool(graph, &ended, |at, units| flow::credit(&mut self.upper[at as usize], units));
        each_node(graph, &gone, |node, taken| index.give(graph, node, taken));
        Ok(last)
    }

    /// Takes what a job holds on some ranks out of its allocation: takes, flows, and whether nothing is left.
    fn release_on(
        &mut self,
        graph: &Graph,
        id: JobId,
        ranks: &Idset,
    ) -> Result<(Vec<Take>, Vec<Flow>, bool), LedgerError> {
        let allocation = self.jobs.get_mut(&id).ok_or(LedgerError::Unknown(id))?;
        let on = |node: u32| graph.nodes.get(node as usize).is_some_and(|node| ranks.contains(node.rank));
        let (gone, kept): (Vec<Take>, Vec<Take>) =
            std::mem::take(&mut allocation.takes).into_iter().partition(|take| on(take.node));
        allocation.takes = kept;
        (allocation.cores, allocation.gpus) = count(graph, &allocation.takes);
        let last = allocation.takes.is_empty();
        let (ended, flows): (Vec<Flow>, Vec<Flow>) =
            std::mem::take(&mut allocation.flows).into_iter().partition(|flow| last || on(flow.node));
        allocation.flows = flows.into();
        if last {
            let end = allocation.end;
            self.jobs.remove(&id);
            self.ends.remove(&(TotalF64(end), id));
        }
        Ok((gone, ended, last))
    }

    /// Sets the expected end; returns the former one.
    pub(crate) fn set_end(&mut self, id: JobId, end: f64) -> Result<f64, LedgerError> {
        let allocation = self.jobs.get_mut(&id).ok_or(LedgerError::Unknown(id))?;
        let old = std::mem::replace(&mut allocation.end, end);
        self.ends.remove(&(TotalF64(old), id));
        self.ends.insert((TotalF64(end), id));
        Ok(old)
    }
}
