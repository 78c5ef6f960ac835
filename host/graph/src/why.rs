//! Saying why a request can never be met, in words that name what is missing.
//!
//! This module must never decide anything: the matcher said no already.

use crate::local;
use crate::request::{Level, Need, Request};
use crate::view::{Eligible, View};

/// The reason that `request` cannot be met in `view`, a view of the idle machine.
pub(crate) fn explain(view: View<'_>, request: &Request, eligible: &Eligible) -> String {
    if let Some(type_) = request.needs.iter().find_map(|n| unknown(view, n)) {
        return format!("this machine has no resource of type '{type_}'");
    }
    let all = (0, view.graph.nodes.len() as u32);
    let mut nodes = 0u64;
    let mut cores = 0u64;
    let mut gpus = 0u64;
    for state in view.index.live().filter(|s| eligible.class(s.class)) {
        let count = state.nodes.iter().filter(|&&n| eligible.node(n)).count() as u64;
        nodes += count;
        cores += count * state.cores;
        gpus += count * state.gpus;
    }
    let constraint = match eligible {
        Eligible::All => "",
        _ => " meet its constraints",
    };
    let there = if constraint.is_empty() { " are there" } else { constraint };
    for (wanted, found, what) in
        [(request.nodes, nodes, "nodes"), (request.cores, cores, "cores"), (request.gpus, gpus, "gpus")]
    {
        if u64::from(wanted) > found {
            return match constraint {
                "" => format!("it asks for {wanted} {what}, and {found}{there}"),
                _ => format!("it asks for {wanted} {what}, and {found} on nodes that{there}"),
            };
        }
    }
    if nodes == 0 {
        return "no node meets its constraints".to_owned();
    }
    if let [need] = request.needs.as_slice()
        && let Some((inner, want)) = crate::matcher::tally(request)
    {
        let graph = view.graph;
        let found =
            view.total(eligible, all, &mut |class, state| local::capacity(graph, class, state, inner, want));
        let what = if need.slot && inner.level == Level::Local { "slots" } else { &inner.text };
        return format!("it asks for {want} of '{what}', and {found} fit at once");
    }
    "no part of this machine has what it asks for together".to_owned()
}

/// A type that the machine does not have.
fn unknown<'n>(view: View<'_>, need: &'n Need) -> Option<&'n str> {
    let there = need.slot || view.graph.vertices.iter().any(|v| v.type_ == need.type_);
    if !there {
        return Some(&need.text);
    }
    need.with.iter().find_map(|n| unknown(view, n))
}
