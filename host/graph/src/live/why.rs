//! Explains why a request can never be satisfied, by naming the missing resources.
//!
//! This module must never decide a match: the matcher has refused already.

use crate::layout::template::TemplateId;
use crate::live::request::{Level, Need, Request};
use crate::live::view::{Eligible, View, Where};
use crate::live::{flow_shortage, level_shortage, local, matcher};

/// Most alternatives whose reasons are listed.
const REASONS_MAX: usize = 3;

/// The reason for which `request` cannot be satisfied in `view`, a view of the idle machine.
pub(crate) fn explain(view: View<'_>, request: &Request, eligible: &Eligible) -> String {
    if !request.alternatives.is_empty() {
        let reasons: Vec<String> =
            request.alternatives.iter().take(REASONS_MAX).map(|one| explain(view, one, eligible)).collect();
        let more = match request.alternatives.len().saturating_sub(REASONS_MAX) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        return format!("none of its alternatives can be met: {}{more}", reasons.join("; "));
    }
    if let Some(type_) = request.needs.iter().find_map(|n| unknown(view, n)) {
        let name = view.graph.names.get(type_);
        return match name.and_then(|name| view.graph.flows.find(name)?.1.refused.as_ref()) {
            Some(why) => format!("this machine can not give away '{type_}': {why}"),
            // Scripts of sites search for the second half of this text.
            None => format!(
                "this machine has no resource of type '{type_}'; it must be a resource type known to fluxion or to the \
                 site's graph"
            ),
        };
    }
    let all = (0, view.graph.nodes.len() as u32);
    let mut nodes = 0u64;
    let mut cores = 0u64;
    let mut gpus = 0u64;
    for state in view.index.live().filter(|s| eligible.template(s.template)) {
        let count = state.nodes.iter().filter(|&n| eligible.node(n)).count() as u64;
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
    if let Some(why) = flow_shortage::never(view, request, eligible) {
        return why;
    }
    if nodes == 0 && request.nodes > 0 {
        return "no node meets its constraints".to_owned();
    }
    if request.above
        && let Some(why) = level_shortage::never(view, request, eligible)
    {
        return why;
    }
    if let [need] = request.needs.as_slice()
        && let Some((inner, want)) = matcher::tally(request)
    {
        let graph = view.graph;
        let whole = Where { eligible, range: all, idle: false, cores: false };
        let found =
            view.total(whole, &mut |template, state| local::capacity(graph, template, state, inner, want));
        if found == 0
            && let Some(why) = too_much(view, inner, eligible)
        {
            return why;
        }
        let what = if need.slot && inner.level == Level::Local { "slots" } else { &inner.text };
        return format!("it asks for {want} of '{what}', and {found} fit at once");
    }
    "no part of this machine has what it asks for together".to_owned()
}

/// The resource of which no node has enough, if one alone decides. The content of a slot counts once for each slot.
fn too_much(view: View<'_>, need: &Need, eligible: &Eligible) -> Option<String> {
    short_part(view, &need.with, 1, eligible)
}

fn short_part(view: View<'_>, parts: &[Need], times: u64, eligible: &Eligible) -> Option<String> {
    let graph = view.graph;
    parts.iter().find_map(|part| {
        if part.slot {
            return short_part(view, &part.with, times.saturating_mul(part.min()), eligible);
        }
        if !part.with.is_empty() {
            return None;
        }
        let want = part.min().saturating_mul(times);
        let fits = |template: TemplateId, state: &[u64]| {
            let template_of = &graph.templates[template.0 as usize];
            eligible.template(template) && local::capacity(graph, template_of, state, part, want) >= want
        };
        let unit = if part.unit.is_empty() { String::new() } else { format!(" {}", part.unit) };
        let short = !view.index.live().any(|state| fits(state.template, &state.free));
        short.then(|| format!("no node has {want}{unit} of '{}'", part.text))
    })
}

/// A type that the machine does not have.
fn unknown<'n>(view: View<'_>, need: &'n Need) -> Option<&'n str> {
    let there = need.slot || view.graph.vertices.iter().any(|v| v.type_ == need.type_);
    if !there {
        return Some(&need.text);
    }
    need.with.iter().find_map(|n| unknown(view, n))
}
