//! The machine, node by node, rack beside rack. A part in use fills a cell from below; each state has a mark of its own
//! besides its colour.
//!
//! Must never know how states are found.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use super::n;
use crate::machine::{Machine, Node, Rack, State};
use crate::words;

const WIDTH: f64 = 1120.0;
/// Space between racks, and height of their names.
const GAP: f64 = 14.0;
const NAME: f64 = 18.0;
/// Nodes up to which each is a link of its own.
pub(crate) const LINKS_MAX: usize = 512;

/// Size of a cell, and cells of a row of a rack.
fn shape(nodes: usize) -> (f64, usize) {
    match nodes {
        0..=64 => (33.5, 8),
        65..=256 => (26.0, 8),
        257..=512 => (15.0, 16),
        513..=2048 => (11.0, 16),
        _ => (6.0, 16),
    }
}

/// The text of a node under the pointer.
fn told(node: &Node) -> String {
    let mut text =
        format!("{} · {} · {} of {} cores in use", node.host, node.state.name(), node.used, node.cores);
    if let Some(reason) = node.reason.as_deref().filter(|reason| !reason.is_empty()) {
        let _ = write!(text, " · {reason}");
    }
    for more in [&node.reserved, &node.place] {
        if !more.is_empty() {
            let _ = write!(text, " · {more}");
        }
    }
    text
}

/// Are the hosts of a rack numbered without a gap? Then the name of any of them follows from the first, also in a browser.
fn numbered(rack: &Rack, nodes: &[Node]) -> bool {
    let number = |node: &Node| {
        let digits = node.host.len() - node.host.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        node.host[node.host.len() - digits..].parse::<u64>().ok()
    };
    let nodes = &nodes[rack.nodes.clone()];
    let first = nodes.first().and_then(number);
    first.is_some_and(|first| (first..).zip(nodes).all(|(wanted, node)| number(node) == Some(wanted)))
}

/// The text of a rack under the pointer.
fn summary(rack: &Rack, nodes: &[Node]) -> String {
    let nodes = &nodes[rack.nodes.clone()];
    let mut text = format!("{}: {}", rack.name, words::many(nodes.len() as u64, "node"));
    for state in State::ALL {
        let count = nodes.iter().filter(|node| node.state == state).count();
        if count > 0 {
            let _ = write!(text, ", {count} {}", state.name());
        }
    }
    text
}

/// The picture of these racks. `found` are positions of nodes that are marked.
pub(crate) fn picture(machine: &Machine, racks: &[(usize, &Rack)], found: &[usize]) -> Markup {
    let shown: usize = racks.iter().map(|(_, rack)| rack.nodes.len()).sum();
    let (cell, per_row) = shape(shown);
    let width = |rack: &Rack| rack.nodes.len().min(per_row) as f64 * cell;
    let height = |rack: &Rack| NAME + rack.nodes.len().div_ceil(per_row) as f64 * cell;
    let mut placed = Vec::new();
    let (mut x, mut y, mut row) = (0.0, 0.0, 0.0_f64);
    for (number, rack) in racks {
        let wide = width(rack).max(cell * per_row as f64 * 0.5);
        if x > 0.0 && x + wide > WIDTH {
            (x, y, row) = (0.0, y + row + GAP, 0.0);
        }
        placed.push((*number, *rack, x, y));
        x += wide + GAP;
        row = row.max(height(rack));
    }
    let total = y + row + 4.0;
    // One path for each state, and one dashed line for nodes of equal state side by side: the size of the picture grows slowly
    // with the machine.
    let mut paths: [String; State::ALL.len()] = Default::default();
    let (mut used, mut marks, mut kept) = (String::new(), String::new(), String::new());
    let gap = if cell > 10.0 { 3.0 } else { 1.0 };
    let size = cell - gap;
    let mut links = String::new();
    for (_, rack, x0, y0) in &placed {
        for (i, at) in rack.nodes.clone().enumerate() {
            let node = &machine.nodes[at];
            let (x, y) = (x0 + (i % per_row) as f64 * cell, y0 + NAME + (i / per_row) as f64 * cell);
            let same = |at: usize| machine.nodes[at].state == node.state;
            if i % per_row == 0 || !same(at - 1) {
                let left = (per_row - i % per_row).min(rack.nodes.end - at);
                let run = (at..at + left).take_while(|at| same(*at)).count() as f64;
                let which = State::ALL.iter().position(|state| *state == node.state).unwrap_or_default();
                let _ = write!(paths[which], "M{} {}h{}", n(x), n(y + size / 2.0), n(run * cell - gap));
            }
            if node.kept && (i % per_row == 0 || !machine.nodes[at - 1].kept) {
                let left = (per_row - i % per_row).min(rack.nodes.end - at);
                let run = machine.nodes[at..at + left].iter().take_while(|node| node.kept).count() as f64;
                let _ = write!(kept, "M{} {}h{}", n(x), n(y + 1.0), n(run * cell - gap));
            }
            if node.state == State::Part || (node.state == State::Drained && node.used > 0) {
                let part = f64::from(node.used) / f64::from(node.cores.max(1)) * size;
                let _ = write!(used, "M{} {}h{size}v{}h-{size}z", n(x), n(y + size - part), n(part));
            }
            if node.state == State::Down {
                let (a, b) = (size * 0.25, size * 0.5);
                let _ =
                    write!(marks, "M{} {}l{3} {3}M{2} {1}l-{3} {3}", n(x + a), n(y + a), n(x + a + b), n(b));
            }
            if found.contains(&at) {
                let _ = write!(
                    links,
                    "<rect class=\"found\" x=\"{}\" y=\"{}\" width=\"{2}\" height=\"{2}\"/>",
                    n(x - 1.5),
                    n(y - 1.5),
                    n(size + 3.0)
                );
            }
            if shown <= LINKS_MAX {
                let link = html! {
                    a href={"/node/" (node.rank)} {
                        title { (told(node)) }
                        rect class="cell" x=(n(x)) y=(n(y)) width=(size) height=(size) {}
                    }
                };
                links.push_str(&link.into_string());
            }
        }
    }
    html! {
        svg class="picture grid-picture" viewBox={"0 0 " (WIDTH) " " (n(total))} role="img"
            aria-label="Nodes of the machine by state" data-cell=(cell) data-row=(per_row) data-top=(NAME) {
            @for (state, path) in State::ALL.iter().zip(&paths) {
                @if !path.is_empty() {
                    path class={"s-" (state.name())} d=(path) stroke-width=(size)
                        stroke-dasharray={(size) " " (gap)} {}
                }
            }
            path class="s-used" d=(used) {}
            path class="s-mark" d=(marks) {}
            @if !kept.is_empty() { path class="s-kept" d=(kept) {} }
            @for (number, rack, x, y) in &placed {
                text class="rack" x=(n(*x)) y=(n(y + 12.0)) { (short_name(rack, per_row as f64 * cell)) }
                @if shown > LINKS_MAX {
                    @let first = numbered(rack, &machine.nodes).then(|| &machine.nodes[rack.nodes.start].host);
                    a href={"/machine?rack=" (number)} data-host=[first] {
                        title { (summary(rack, &machine.nodes)) }
                        rect class="cell" x=(n(*x)) y=(n(*y)) width=(n(width(rack))) height=(n(height(rack))) {}
                    }
                }
            }
            (PreEscaped(links))
        }
    }
}

/// The name of a rack, or its first node where there is not enough room.
fn short_name(rack: &Rack, width: f64) -> &str {
    let fits = rack.name.chars().count() as f64 * 6.6 <= width;
    if fits { &rack.name } else { rack.name.split(' ').next().unwrap_or_default() }
}
