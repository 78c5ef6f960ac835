//! Pictures in a page, as SVG that takes its colours from the style sheet: so they follow light and dark.
//!
//! - `axis.rs`: time from left to right.
//! - `usage.rs`: cores in use, so far and from now on.
//! - `gantt.rs`: jobs and reservations over time and nodes.
//! - `grid.rs`: the machine, node by node.
//!
//! Must never know how an answer is asked for.

pub(crate) mod axis;
pub(crate) mod gantt;
pub(crate) mod grid;
pub(crate) mod usage;

use maud::{Markup, html};

/// Patterns beside the colours: for drained nodes, reservations of people, the time of a job up to its limit, and reserved and
/// expected starts.
pub(crate) fn patterns() -> Markup {
    html! {
        svg class="defs" width="0" height="0" aria-hidden="true" {
            defs {
                (stripes("p-limit", "M-1 7L7 -1M5 13L13 5", 6.0))
                (stripes("p-reserved", "M-1 -1L9 9M-1 7L1 9M7 -1L9 1", 8.0))
                (stripes("p-expected", "M1.5 1.5h1.4v1.4h-1.4z", 5.0))
                (stripes("p-window", "M0 2.5H5", 5.0))
                (stripes("p-drained", "M-1 -1L7 7M-1 5L1 7M5 -1L7 1", 6.0))
            }
        }
    }
}

fn stripes(name: &str, path: &str, size: f64) -> Markup {
    html! {
        pattern id=(name) width=(size) height=(size) patternUnits="userSpaceOnUse" {
            path class=(name) d=(path) {}
        }
    }
}

/// A number of a picture, with one digit.
pub(crate) fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
