//! Recovery of the allocation of a running job from its R, without ranks that were released already (RFC 27, hello).
//!
//! This module must never know where the R comes from.

use std::collections::BTreeMap;

use fluxgate_formats::rset::{GraphText, R};
use fluxgate_formats::{Idset, JobId};
use serde_json::Value;

use crate::description::flow;
use crate::description::model::CONTAINMENT;
use crate::layout::flow::{Flow, merged};
use crate::layout::graph::Graph;
use crate::layout::site::Spot;
use crate::layout::vertex::NONE;
use crate::live::bits::Bits;
use crate::live::index::Status;
use crate::live::ledger::LedgerError;
use crate::live::resources::Resources;
use crate::live::share::Share;
use crate::live::take::{Selection, Take, What};

impl Resources {
    /// Ranks that were removed from the inventory.
    pub fn removed(&self) -> Idset {
        self.ranks_with(Status::Gone)
    }

    /// Books the resources in `r`, except those on the ranks `already_free`, from `start` to the expected `end` (seconds since the
    /// epoch, may be infinite). Nodes that are down are booked too: the job runs there. A node of which `r` has every core and gpu
    /// is held as a whole. Vertices above nodes in `r` are booked whatever ranks are free; those that the machine lacks are left
    /// out. If nothing remains, nothing is booked. Flow is booked even if the capacity of a pool is smaller now: the pool is
    /// short until the job ends.
    ///
    /// # Errors
    /// The job holds resources, a rank has another host here, a node or a resource of it is not in the inventory, another job holds
    /// a resource, or the end is not after the start. Nothing was changed then.
    pub fn allocate_r(
        &mut self,
        id: JobId,
        r: &R,
        already_free: &Idset,
        start: f64,
        end: f64,
    ) -> Result<(), LedgerError> {
        if self.allocation(id).is_some() {
            return Err(LedgerError::Exists(id));
        }
        let graph = self.machine.graph.clone();
        let hosts: Vec<(u32, String)> = r.hosts().filter(|(rank, _)| !already_free.contains(*rank)).collect();
        for (rank, there) in &hosts {
            let Some(&node) = graph.by_rank.get(rank) else { continue };
            let here = graph.host(node);
            if here != there {
                return Err(LedgerError::Host { rank: *rank, here: here.to_owned(), there: there.clone() });
            }
        }
        let mut takes = Vec::new();
        for entry in &r.r_lite {
            for rank in entry.rank.iter().filter(|&rank| !already_free.contains(rank)) {
                let &node = graph
                    .by_rank
                    .get(&rank)
                    .ok_or_else(|| LedgerError::NotThere { rank, what: "node".to_owned() })?;
                let from = takes.len();
                for (type_, ids) in &entry.children {
                    take_ids(&graph, node, rank, type_, ids, &mut takes)?;
                }
                whole_node(&graph, node, from, &mut takes);
            }
        }
        takes.extend(above(&graph, r));
        takes.sort_by_key(|t| (t.node, t.vertex));
        if takes.is_empty() {
            return Ok(());
        }
        let flows = flows(&graph, r, already_free);
        self.enter(id, Selection { takes, flows, nslots: r.nslots.unwrap_or(0) }, start, end)
    }
}

/// The vertices above nodes that the R of a job holds, where R has the form of a site's graph. Vertices that the
/// machine lacks, by path, type and size, are left out. The job holds them until its last release.
fn above(graph: &Graph, r: &R) -> Vec<Take> {
    let (Some(site), Some(scheduling)) = (&graph.site, &r.scheduling) else { return Vec::new() };
    let text = r.graph.as_ref().map(GraphText::value);
    let graph_of_job = text.as_ref().or_else(|| scheduling.get("graph"));
    let nodes = graph_of_job.and_then(|it| it.get("nodes")?.as_array()).map_or(&[][..], Vec::as_slice);
    let mut held: BTreeMap<u32, Share> = BTreeMap::new();
    for it in nodes.iter().map(|node| &node["metadata"]) {
        let Some(path) = it["paths"][CONTAINMENT].as_str() else { continue };
        let Some(Spot::Upper(at)) = site.find(path).first().copied() else { continue };
        let vertex = graph.upper[at as usize];
        let here = &graph.vertices[vertex as usize];
        let size = it["size"].as_u64().unwrap_or(1);
        if it["type"].as_str() != Some(graph.text(here.type_)) || size > here.units() {
            continue;
        }
        if graph.is_upper_leaf(at) {
            held.insert(vertex, Share::Units(size));
        } else if it["exclusive"] == Value::Bool(true) {
            // With all vertices below it, which shorthand does not list. Nodes below it are listed in R_lite.
            for below in at as usize..graph.upper_below(at as usize) {
                let leaf = graph.is_upper_leaf(below as u32);
                let units = graph.upper_idle(below as u32);
                held.insert(graph.upper[below], if leaf { Share::Units(units) } else { Share::Exclusive });
            }
        }
    }
    let what = |vertex: u32, share: Share| match share {
        Share::Units(_) if graph.vertices[vertex as usize].size == 1 => all_members(graph, vertex),
        share => What::Share(share),
    };
    held.into_iter().map(|(vertex, share)| Take { node: NONE, vertex, what: what(vertex, share) }).collect()
}

/// Every member of a run.
fn all_members(graph: &Graph, vertex: u32) -> What {
    let count = graph.vertices[vertex as usize].ids.len();
    let words = (0..count.div_ceil(64)).map(|w| match count - w * 64 {
        left @ 0..=63 => (1u64 << left) - 1,
        _ => u64::MAX,
    });
    What::Members(Bits::from_words(words.collect()))
}

/// The flow to the nodes of a job by its R, without nodes that were `freed`. Flow that the machine does not have is
/// left out.
fn flows(graph: &Graph, r: &R, freed: &Idset) -> Vec<Flow> {
    if graph.flows.len() == 0 {
        return Vec::new();
    }
    let kind = |subsystem: &str| Some(graph.flows.find(graph.names.get(subsystem)?)?.1);
    let mut flows = Vec::new();
    flow::of_job(
        r,
        |subsystem, count, unit| kind(subsystem)?.amount(&graph.names, count, unit),
        |subsystem, rank, units| {
            let node = graph.by_rank.get(&rank).copied().filter(|_| units > 0 && !freed.contains(rank));
            let pool = node.and_then(|node| Some((node, *kind(subsystem)?.entry.get(node as usize)?)));
            if let Some((node, pool)) = pool.filter(|(_, pool)| *pool != NONE) {
                flows.push(Flow { node, pool, units });
            }
        },
    );
    merged(flows)
}

fn take_ids(
    graph: &Graph,
    node: u32,
    rank: u32,
    type_: &str,
    ids: &Idset,
    takes: &mut Vec<Take>,
) -> Result<(), LedgerError> {
    let missing = |id: Option<u32>| LedgerError::NotThere {
        rank,
        what: id.map_or_else(|| type_.to_owned(), |id| format!("{type_}{id}")),
    };
    let Some(name) = graph.names.get(type_) else {
        return if ids.is_empty() { Ok(()) } else { Err(missing(ids.first())) };
    };
    let vertex = graph.nodes[node as usize].vertex;
    let mut left = ids.clone();
    for v in vertex + 1..graph.vertices[vertex as usize].end {
        let it = &graph.vertices[v as usize];
        if left.is_empty() {
            break;
        }
        if it.type_ != name || it.size != 1 || it.end != v + 1 {
            continue;
        }
        let mut words = vec![0u64; it.bit_words()];
        let mut found = Vec::new();
        for id in left.iter() {
            if let Some(member) = graph.r_member(v, id) {
                words[member as usize / 64] |= 1 << (member % 64);
                found.push(id);
            }
        }
        if !found.is_empty() {
            left = left.difference(&found.into_iter().collect());
            takes.push(Take { node, vertex: v, what: What::Members(Bits::from_words(words)) });
        }
    }
    if left.is_empty() { Ok(()) } else { Err(missing(left.first())) }
}

/// Adds the other vertices of a node of which every member is taken. R does not name sockets or memory, but no other
/// job can use them.
fn whole_node(graph: &Graph, node: u32, from: usize, takes: &mut Vec<Take>) {
    let template = graph.template(node);
    let vertex = graph.nodes[node as usize].vertex;
    let named = |at: usize| template.slots[at].type_ == graph.core || template.slots[at].type_ == graph.gpu;
    let all = (1..template.slots.len()).filter(|&at| template.slots[at].leaf && named(at)).all(|at| {
        let vertex = vertex + at as u32;
        takes[from..]
            .iter()
            .any(|t| t.vertex == vertex && t.what.share() == Share::Units(template.slots[at].units))
    });
    if !all || takes.len() == from {
        return;
    }
    for (at, slot) in template.slots.iter().enumerate() {
        let vertex = vertex + at as u32;
        if takes[from..].iter().any(|t| t.vertex == vertex) {
            continue;
        }
        let what = match slot.leaf {
            false => What::Share(Share::Exclusive),
            true if graph.vertices[vertex as usize].size == 1 => all_members(graph, vertex),
            true => What::Share(Share::Units(slot.units)),
        };
        takes.push(Take { node, vertex, what });
    }
}
