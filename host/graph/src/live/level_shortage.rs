//! Finds the level above nodes for which a request waits: storage beside nodes, chassis, licences.
//!
//! This module must never decide a match: the matcher has refused already.

use crate::description::units;
use crate::layout::vertex::VertexId;
use crate::live::local;
use crate::live::overlay::Overlay;
use crate::live::request::{Level, Need, Request};
use crate::live::view::{Eligible, View, Where};

/// Most vertices that a text names.
const NAMES_MAX: usize = 3;

/// The shortage of a request that waits; `None` if it requests nothing above nodes.
pub(crate) fn waiting(view: View<'_>, request: &Request, eligible: &Eligible) -> Option<String> {
    said(view, request, eligible, true)
}

/// The shortage of a request that can never be satisfied, in a view of the idle machine.
pub(crate) fn never(view: View<'_>, request: &Request, eligible: &Eligible) -> Option<String> {
    said(view, request, eligible, false).map(|why| format!("it {why}"))
}

fn said(view: View<'_>, request: &Request, eligible: &Eligible, now: bool) -> Option<String> {
    let one = request.alternatives.first().map_or(request, |first| first);
    one.needs.iter().find_map(|need| of_need(view, need, eligible, now))
}

fn of_need(view: View<'_>, need: &Need, eligible: &Eligible, now: bool) -> Option<String> {
    if need.level != Level::Upper {
        return None;
    }
    let graph = view.graph;
    if !need.slot && need.with.is_empty() {
        return alone(view, need, now);
    }
    if let Some(short) = need
        .with
        .iter()
        .filter(|inner| inner.is_machine_wide(view.graph))
        .find_map(|inner| alone(view, inner, now))
    {
        return Some(short);
    }
    let all: Vec<u32> = match &need.places {
        Some(places) => places.to_vec(),
        None if need.slot => return need.with.iter().find_map(|inner| of_need(view, inner, eligible, now)),
        None => graph.upper_of.get(&need.type_)?.clone(),
    };
    let pools: Vec<&Need> =
        need.with.iter().filter(|inner| inner.is_pool() && !inner.is_machine_wide(view.graph)).collect();
    let nodes = need.with.iter().find(|inner| inner.level == Level::Node);
    let asks = asks(view, need, &pools, nodes)?;
    // The pools of a slot are directly below its place.
    let direct = need.places.is_some() && pools.iter().any(|pool| pool.min() > 0);
    let has_pools =
        |at: &u32| (!direct || view.is_open(*at)) && pools.iter().all(|pool| has_free(view, *at, pool));
    let with_pools: Vec<u32> = all.into_iter().filter(|at| view.upper_is_up(*at)).filter(has_pools).collect();
    let has_nodes = |at: &u32| nodes.is_none_or(|node| nodes_in(view, *at, node, eligible) >= node.min());
    let both: Vec<u32> = with_pools.iter().copied().filter(has_nodes).collect();
    let why = match (with_pools.as_slice(), both.as_slice()) {
        ([], _) => match pools.first() {
            Some(pool) if now => format!("no {} has it, {}", above(view, need), state_of(view, pool)),
            Some(_) => format!("no {} has as much", above(view, need)),
            None => "none is up".to_owned(),
        },
        (have, []) if !now => format!("{} {} not the nodes", names(view, have), has(have.len())),
        (have, []) if pools.is_empty() => {
            format!("{} {} up, but their nodes are down or in use", names(view, have), are(have.len()))
        }
        (have, []) => {
            let whose = if have.len() == 1 { "its" } else { "their" };
            format!("{} {} it, {whose} nodes are down or in use", names(view, have), has(have.len()))
        }
        (_, both) => format!("{} {} both, which is not enough", names(view, both), has(both.len())),
    };
    Some(format!("{asks}: {why}"))
}

/// A pool without nodes, anywhere in the machine.
fn alone(view: View<'_>, need: &Need, now: bool) -> Option<String> {
    let graph = view.graph;
    let list = graph.upper_of.get(&need.type_)?;
    let free = list.iter().map(|at| free_of(view, *at, need)).fold(0, u64::saturating_add);
    (free < need.min()).then(|| {
        let unit = unit_of(view, need);
        match now {
            true => {
                format!("needs {}, {free}{unit} can be had, {}", amount(view, need), state_of(view, need))
            }
            false => format!("needs {}, there are {free}{unit}", amount(view, need)),
        }
    })
}

/// Free units of one pool, as a request counts them.
fn free_of(view: View<'_>, at: u32, need: &Need) -> u64 {
    let graph = view.graph;
    let it = &graph.vertices[graph.upper[at as usize] as usize];
    let free = if view.upper_is_up(at) { view.upper(&Overlay::default(), at) } else { 0 };
    let free = if need.takes_whole(graph) && it.size > 1 && free != it.units() { 0 } else { free };
    units::scale(&need.unit, graph.text(it.unit)).map_or(0, |scale| scale.request_units(free))
}

/// True if the pools below a vertex have as much as is needed.
fn has_free(view: View<'_>, at: u32, need: &Need) -> bool {
    let graph = view.graph;
    let list = graph.upper_of.get(&need.type_).map_or(&[][..], Vec::as_slice);
    let first = list.partition_point(|pool| *pool <= at);
    let after = list.partition_point(|pool| (*pool as usize) < graph.upper_below(at as usize));
    let mut sums = list[first..after].iter().scan(0u64, |sum, pool| {
        *sum = sum.saturating_add(free_of(view, *pool, need));
        Some(*sum)
    });
    need.min() == 0 || sums.any(|sum| sum >= need.min())
}

fn nodes_in(view: View<'_>, at: u32, need: &Need, eligible: &Eligible) -> u64 {
    let graph = view.graph;
    let place = Where { eligible, range: graph.upper_nodes[at as usize], idle: false, cores: false };
    view.total(place, &mut |template, state| local::capacity(graph, template, state, need, 1))
}

/// The requested resources: `needs 10 GiB of ssd beside each of 2 nodes`.
fn asks(view: View<'_>, need: &Need, pools: &[&Need], nodes: Option<&Need>) -> Option<String> {
    let pools: Vec<String> = pools.iter().map(|pool| amount(view, pool)).collect();
    let (times, each) = (need.min(), nodes.map_or(0, Need::min));
    let plural = |n: u64, one: &str| if n == 1 { format!("a {one}") } else { format!("{n} {one}s") };
    let what = match (need.slot, pools.is_empty()) {
        (true, false) => {
            let nodes = times.saturating_mul(each.max(1));
            let beside = if nodes == 1 { "a node".to_owned() } else { format!("each of {nodes} nodes") };
            format!("{} beside {beside}", pools.join(" and "))
        }
        (false, _) => {
            let mut parts = pools;
            if each > 0 {
                parts.insert(0, plural(each, "node"));
            }
            let of = if times == 1 {
                format!("one {}", need.text)
            } else {
                format!("each of {times} of '{}'", need.text)
            };
            if parts.is_empty() { return None } else { format!("{} in {of}", parts.join(" and ")) }
        }
        (true, true) => return None,
    };
    Some(format!("needs {what}"))
}

fn unit_of(view: View<'_>, need: &Need) -> String {
    let graph = view.graph;
    let own = || {
        let at = graph.upper_of.get(&need.type_)?.first()?;
        Some(graph.text(graph.vertices[graph.upper[*at as usize] as usize].unit).to_owned())
    };
    let unit = if need.unit.is_empty() { own().unwrap_or_default() } else { need.unit.to_string() };
    if unit.is_empty() { unit } else { format!(" {unit}") }
}

fn amount(view: View<'_>, need: &Need) -> String {
    match unit_of(view, need) {
        unit if unit.is_empty() => format!("{} of '{}'", need.min(), need.text),
        unit => format!("{}{unit} of {}", need.min(), need.text),
    }
}

/// Numbers of vertices of a type that are down, and that jobs hold.
fn state_of(view: View<'_>, need: &Need) -> String {
    let graph = view.graph;
    let list = graph.upper_of.get(&need.type_).map_or(&[][..], Vec::as_slice);
    let down = list.iter().filter(|at| !view.upper_is_up(**at)).count();
    let idle =
        |at: &&u32| view.upper_is_up(**at) && view.upper(&Overlay::default(), **at) == graph.upper_idle(**at);
    let free = list.iter().filter(idle).count();
    let held = list.len() - down - free;
    format!("of {} vertices {down} are down, {held} in use, {free} free", list.len())
}

/// The type that lies above the requested vertices.
fn above<'v>(view: View<'v>, need: &'v Need) -> &'v str {
    if !need.slot {
        return &need.text;
    }
    let graph = view.graph;
    let first = need.places.as_ref().and_then(|places| places.first());
    first.map_or("part of the machine", |at| {
        graph.text(graph.vertices[graph.upper[*at as usize] as usize].type_)
    })
}

fn names(view: View<'_>, list: &[u32]) -> String {
    let name =
        |at: &u32| view.graph.vertex_name(VertexId(view.graph.upper[*at as usize]), 0).unwrap_or_default();
    let mut shown: Vec<String> = list.iter().take(NAMES_MAX).map(name).collect();
    match list.len() - shown.len() {
        0 => {}
        more => shown.push(format!("{more} more")),
    }
    match shown.pop() {
        Some(last) if !shown.is_empty() => format!("{} and {last}", shown.join(", ")),
        last => last.unwrap_or_default(),
    }
}

fn has(count: usize) -> &'static str {
    if count == 1 { "has" } else { "have" }
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
