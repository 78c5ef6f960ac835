//! The tree of a machine as a picture: boxes in boxes, a group of equal siblings one box. The picture needs no other file.

use std::fmt::Write;

use fluxgate_graph::description::{Group, Model};

use super::label::{names, size};

/// Most boxes; of further ones only the number is drawn.
const BOXES_MAX: usize = 500;
/// Longest label, in characters.
const LABEL_MAX: usize = 60;
/// Height of a label, width of a character, and space between boxes, in pixels.
const LINE: usize = 20;
const CHARACTER: usize = 8;
const GAP: usize = 8;

/// A box with its label, its size in pixels and the boxes inside.
struct Drawn {
    label: String,
    width: usize,
    height: usize,
    inside: Vec<Drawn>,
}

/// The picture.
pub(super) fn picture(model: &Model, tree: &[Group]) -> String {
    let (mut left, mut omitted) = (BOXES_MAX, 0);
    let mut boxes = boxes(model, tree, &mut left, &mut omitted);
    if omitted > 0 {
        boxes.push(label(format!("... and {omitted} more"), Vec::new()));
    }
    let width = boxes.iter().map(|b| b.width).max().unwrap_or(0) + 2 * GAP;
    let height = boxes.iter().map(|b| b.height + GAP).sum::<usize>() + GAP;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"13\">\n"
    );
    let mut y = GAP;
    for it in &boxes {
        draw(it, GAP, y, 0, &mut out);
        y += it.height + GAP;
    }
    out.push_str("</svg>\n");
    out
}

fn boxes(model: &Model, groups: &[Group], left: &mut usize, omitted: &mut usize) -> Vec<Drawn> {
    let mut all = Vec::new();
    for group in groups {
        let Some(it) = group.members.first().and_then(|&v| model.vertex(v)) else { continue };
        if *left == 0 {
            *omitted += 1;
            continue;
        }
        *left -= 1;
        let mut text = names(model, group);
        if group.members.len() > 1 {
            let _ = write!(text, " ×{}", group.members.len());
        }
        let size = size(model, it);
        if !size.is_empty() {
            let _ = write!(text, ", {size}");
        }
        let inside = boxes(model, &group.below, left, omitted);
        all.push(label(text, inside));
    }
    all
}

/// A box just large enough.
fn label(text: String, inside: Vec<Drawn>) -> Drawn {
    let label: String = match text.chars().count() > LABEL_MAX {
        true => text.chars().take(LABEL_MAX - 1).chain(['…']).collect(),
        false => text,
    };
    let widest = inside.iter().map(|b| b.width).max().unwrap_or(0);
    let width = (label.chars().count() * CHARACTER).max(widest) + 2 * GAP;
    let height = LINE + GAP + inside.iter().map(|b| b.height + GAP).sum::<usize>();
    Drawn { label, width, height, inside }
}

fn draw(it: &Drawn, x: usize, y: usize, level: usize, out: &mut String) {
    let fill = ["#f7f7f2", "#e3ecf5", "#dcefdc", "#fbeed5", "#f3dfe6"][level % 5];
    let (width, height) = (it.width, it.height);
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" fill=\"{fill}\" stroke=\"#555\"/>\
         <text x=\"{}\" y=\"{}\">{}</text>",
        x + GAP,
        y + LINE - 3,
        escaped(&it.label)
    );
    let mut below = y + LINE + GAP;
    for inner in &it.inside {
        draw(inner, x + GAP, below, level + 1, out);
        below += inner.height + GAP;
    }
}

/// Text that XML can hold.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
