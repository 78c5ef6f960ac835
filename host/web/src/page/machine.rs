//! The machine: racks of the site or runs of host names, with nodes by state; filters by state, rack or text; nodes that are out, and why.
//!
//! Must never know how states are found.

use maud::{Markup, html};

use super::now::states;
use super::query::Query;
use super::{ROWS_MAX, Section, Shown, missing};
use crate::draw::grid;
use crate::jobs::listed;
use crate::known::Known;
use crate::machine::{Machine, Node, Rack, State};
use crate::words;

/// The page.
pub(super) fn show(known: &Known, query: &Query) -> Shown {
    let machine = Machine::of(known);
    Shown {
        title: "Machine".to_owned(),
        command: "resource list".to_owned(),
        sections: vec![
            Section { id: "machine", body: picture(known, &machine, query) },
            Section { id: "nodes-listed", body: listing(known, &machine, query) },
        ],
    }
}

/// Is this node asked for?
fn wanted(node: &Node, query: &Query) -> bool {
    query.get("state").is_none_or(|state| node.state.name() == state)
        && query.get("text").is_none_or(|text| node.host.contains(text))
}

fn filters(query: &Query) -> bool {
    query.get("state").is_some() || query.get("text").is_some()
}

fn picture(known: &Known, machine: &Machine, query: &Query) -> Markup {
    let rack = query.get("rack").and_then(|rack| rack.parse::<usize>().ok());
    let racks: Vec<(usize, &Rack)> =
        machine.racks.iter().enumerate().filter(|(at, _)| rack.is_none_or(|rack| rack == *at)).collect();
    let found: Vec<usize> = match filters(query) {
        true => {
            (0..machine.nodes.len()).filter(|at| wanted(&machine.nodes[*at], query)).take(ROWS_MAX).collect()
        }
        false => Vec::new(),
    };
    html! {
        h1 { (words::many(machine.nodes.len() as u64, "node"))
            @if rack.is_some() { " · " a href=(query.with("rack", "").on("/machine")) { "all racks" } } }
        (missing(known, "resources"))
        form class="filter" action="/machine" role="search" {
            label { "State "
                select name="state" {
                    option value="" { "all" }
                    @for state in State::ALL {
                        option value=(state.name()) selected[query.get("state") == Some(state.name())] { (state.name()) }
                    }
                }
            }
            label { "Host " input name="text" size="16" maxlength="64" value=(query.get("text").unwrap_or_default()); }
            button { "Show" }
        }
        (states(machine))
        (grid::picture(machine, &racks, &found))
    }
}

/// The list of nodes: those asked for, or those of a rack, or those that are out.
fn listing(known: &Known, machine: &Machine, query: &Query) -> Markup {
    let rack = query
        .get("rack")
        .and_then(|rack| rack.parse::<usize>().ok())
        .and_then(|rack| machine.racks.get(rack));
    let (heading, nodes): (&str, Vec<&Node>) = match (filters(query), rack) {
        (true, _) => ("Found", machine.nodes.iter().filter(|node| wanted(node, query)).collect()),
        (false, Some(rack)) => ("Nodes of this rack", machine.nodes[rack.nodes.clone()].iter().collect()),
        (false, None) => {
            let out = |node: &&Node| matches!(node.state, State::Down | State::Drained);
            ("Out of scheduling", machine.nodes.iter().filter(out).collect())
        }
    };
    let jobs = listed(known, "running");
    let count = |rank: u32| jobs.iter().filter(|job| job.ranks.contains(rank)).count() as u64;
    html! {
        h2 { (heading) " " span class="count" { (words::count(nodes.len() as u64)) } }
        @if nodes.is_empty() {
            p class="none" { "None." }
        } @else {
            table class="rows" {
                thead { tr { th { "Node" } th class="num" { "Rank" } th { "State" } th class="num" { "Cores in use" }
                    th class="num" { "GPUs" } th class="num" { "Jobs" } th { "Reason or reservation" } } }
                tbody {
                    @for node in nodes.iter().take(ROWS_MAX) {
                        tr {
                            td { a class="id" href={"/node/" (node.rank)} { (node.host) } }
                            td class="num dim" { (node.rank) }
                            td { span class={"key s-" (node.state.name())} { (node.state.name()) } }
                            td class="num" { (node.used) " of " (node.cores) }
                            td class="num" { (node.gpus) }
                            td class="num" { (count(node.rank)) }
                            td class="reason" { (node.reason.as_deref().unwrap_or(&node.reserved)) }
                        }
                    }
                }
            }
            @if nodes.len() > ROWS_MAX { p class="none" { "These are the first " (ROWS_MAX) "; filter by host for others." } }
        }
    }
}
