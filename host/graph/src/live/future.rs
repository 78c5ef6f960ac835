//! The earliest start without reservations, from the expected ends of running jobs.
//!
//! Without reservations, free resources only increase, so the earliest start is the first end at which enough is
//! released. For plain counts of cores that is a sum over the ends. For counts over nodes only the nodes of ended
//! jobs are examined again. For other requests ends are searched in growing steps, from the first that the counts and
//! the sources of flow allow.
//!
//! This module must never know reservations.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;

use crate::layout::flow;
use crate::layout::graph::Graph;
use crate::layout::template::NodeTemplate;
use crate::layout::vertex::NONE;
use crate::live::ledger::Allocation;
use crate::live::machine::Machine;
use crate::live::overlay::Overlay;
use crate::live::placement::Placement;
use crate::live::request::{Kind, Need, Request};
use crate::live::view::{Eligible, Where};
use crate::live::{local, matcher, share, take};

/// The assumed end of an allocation with this expected end, seen from `now`.
pub(crate) fn ends_at(end: f64, now: f64) -> f64 {
    if end > now { end } else { now.next_up() }
}

/// Returns the units of an allocation to an overlay of the future.
pub(crate) fn give_back(machine: &Machine, overlay: &mut Overlay, allocation: &Allocation) {
    let graph = &machine.graph;
    for (node, takes) in take::nodes(&allocation.takes) {
        let state = overlay.entry(node, || machine.index.state(node).free.clone());
        for take in takes {
            let t = take::position(graph, take);
            share::give(&mut state[t.at as usize], t.share);
        }
    }
    give_back_upper(graph, machine.ledger.upper(), overlay, allocation);
}

/// Returns what belongs to no node; `now` are the present states above nodes.
pub(crate) fn give_back_upper(graph: &Graph, now: &[u64], overlay: &mut Overlay, allocation: &Allocation) {
    for take in allocation.takes.iter().filter(|t| t.node == NONE) {
        if let Some(at) = graph.upper_index(take.vertex) {
            let state = overlay.upper.entry(at as u32).or_insert(now[at]);
            share::give(state, take.what.share());
        }
    }
    take::each_pool(graph, &allocation.flows, |at, units| {
        flow::credit(overlay.upper.entry(at).or_insert(now[at as usize]), units);
    });
}

/// The earliest start when there are no reservations.
pub(crate) fn earliest(machine: &Machine, request: &Request, eligible: &Eligible, now: f64) -> Option<f64> {
    if let Some((kind, want)) = request.fungible {
        return by_count(machine, kind, want, now);
    }
    let carried = enough_flow(machine, request, now)?;
    if carried <= now
        && machine.could_fit_counts(request)
        && matcher::find(machine.view(None), request, eligible, Placement::First).is_some()
    {
        return Some(now);
    }
    let helps = machine.helps(request);
    if let Some(want) = helps.nodes.filter(|_| !helps.upper && matcher::tally_decides(request)) {
        let short = want.saturating_sub(machine.index.idle_of(&helps.templates));
        if short > 0 {
            let first = machine.with_node_ends(&helps.templates, |idle| idle.first(short))?;
            return Some(ends_at(first, now));
        }
    }
    let from = enough_counts(machine, request, now)?;
    match matcher::tally(request) {
        Some((need, want)) if matcher::tally_decides(request) => {
            by_tally(machine, (eligible, request.whole_nodes), need, want, from, now)
        }
        _ => by_steps(machine, request, eligible, from.max(carried), now),
    }
}

fn by_count(machine: &Machine, kind: Kind, want: u64, now: f64) -> Option<f64> {
    let short = want.saturating_sub(machine.free_of(kind));
    if short == 0 {
        return Some(now);
    }
    let first = machine.with_returns(|all| {
        let returns = if kind == Kind::Core { &mut all.cores } else { &mut all.gpus };
        returns.read().first(short)
    });
    Some(ends_at(first?, now))
}

/// The time before which totals refuse the request; `None` if they always do.
fn enough_counts(machine: &Machine, request: &Request, now: f64) -> Option<f64> {
    let free = machine.index.free();
    if u64::from(request.nodes) > free.nodes {
        return None;
    }
    let cores = by_count(machine, Kind::Core, u64::from(request.cores), now)?;
    Some(cores.max(by_count(machine, Kind::Gpu, u64::from(request.gpus), now)?))
}

/// The time before which the sources of flow have too little left for the request; `None` if they always have.
fn enough_flow(machine: &Machine, request: &Request, now: f64) -> Option<f64> {
    if !request.flow {
        return Some(now);
    }
    let flows = &machine.graph.flows;
    let mut from = now;
    for (kind, sources) in flows.kinds.iter().enumerate().map(|(kind, it)| (kind, &it.sources)) {
        let free = |at: &u32| flow::headroom(machine.ledger.upper()[*at as usize]);
        let free = sources.iter().map(free).fold(0, u64::saturating_add);
        let mut short = request.least_flow(kind as u32).saturating_sub(free);
        let mut ends = machine.ledger.ends();
        while short > 0 {
            let (end, id) = ends.next().filter(|(end, _)| end.is_finite())?;
            let of_kind =
                machine.ledger.jobs()[&id].flows.iter().filter(|it| flows.kind_of(it.pool) == Some(kind));
            let back = of_kind.map(|it| it.units).fold(0, u64::saturating_add);
            if back > 0 {
                short = short.saturating_sub(back);
                from = from.max(ends_at(end, now));
            }
        }
    }
    Some(from)
}

fn by_tally(
    machine: &Machine,
    (eligible, idle): (&Eligible, bool),
    need: &Need,
    want: u64,
    from: f64,
    now: f64,
) -> Option<f64> {
    let graph = &machine.graph;
    let fits = |template: &NodeTemplate, state: &[u64]| match idle && state != &*template.idle {
        true => 0,
        false => local::capacity(graph, template, state, need, want),
    };
    let all = Where { eligible, range: (0, graph.nodes.len() as u32), idle, cores: false };
    let mut sum = machine.view(None).total(all, &mut { fits });
    // Nodes that other jobs hold in part. A node is dropped once it is idle.
    let mut partly: BTreeMap<u32, Box<[u64]>> = BTreeMap::new();
    let mut state: Vec<u64> = Vec::new();
    let mut ends = machine.ledger.ends().take_while(|(end, _)| end.is_finite()).peekable();
    while let Some((end, id)) = ends.next() {
        for (node, takes) in take::nodes(&machine.ledger.jobs()[&id].takes) {
            if !machine.index.is_up(node)
                || !eligible.template(graph.nodes[node as usize].template)
                || !eligible.node(node)
            {
                continue;
            }
            let template = graph.template(node);
            state.clear();
            state.extend_from_slice(partly.get(&node).unwrap_or(&machine.index.state(node).free));
            let before = fits(template, &state);
            for take in takes {
                let t = take::position(graph, take);
                share::give(&mut state[t.at as usize], t.share);
            }
            sum = sum.saturating_add(fits(template, &state)).saturating_sub(before);
            if *state != *template.idle {
                partly.insert(node, state.as_slice().into());
            }
        }
        let at = ends_at(end, now);
        let more = ends.peek().is_some_and(|(next, _)| ends_at(*next, now) <= at);
        if !more && at >= from && sum >= want {
            return Some(at);
        }
    }
    None
}

/// Tries the ends from `from` on in steps that double until the request fits, then bisects the last step.
fn by_steps(machine: &Machine, request: &Request, eligible: &Eligible, from: f64, now: f64) -> Option<f64> {
    let finite = machine.ledger.ends().take_while(|(end, _)| end.is_finite());
    let ends: Vec<(f64, JobId)> = finite.map(|(end, id)| (ends_at(end, now), id)).collect();
    let mut times: Vec<f64> = ends.iter().map(|(end, _)| *end).filter(|end| *end >= from).collect();
    times.dedup();
    // The machine once this many jobs have ended, which is too few.
    let (mut overlay, mut ended) = (Overlay::default(), 0);
    let mut fits = |at: f64| {
        overlay.begin();
        let until = ended + ends[ended..].partition_point(|(end, _)| *end <= at);
        for (_, id) in &ends[ended..until] {
            give_back(machine, &mut overlay, &machine.ledger.jobs()[id]);
        }
        let fits = matcher::find(machine.view(Some(&overlay)), request, eligible, Placement::First).is_some();
        if fits {
            overlay.restore()
        } else {
            ended = until
        }
        fits
    };
    let (mut low, mut step) = (0, 1);
    let mut high = loop {
        let tried = (low + step - 1).min(times.len().checked_sub(1)?);
        if fits(times[tried]) {
            break tried;
        }
        low = Some(tried + 1).filter(|next| *next < times.len())?;
        step *= 2;
    };
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(times[middle]) { high = middle } else { low = middle + 1 }
    }
    Some(times[high])
}
