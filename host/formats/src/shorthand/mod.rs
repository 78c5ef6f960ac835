//! Resource shapes (RFC 46): the resources of a jobspec in one line, such as `node=2/slot=4/[core=2;gpu]`.
//!
//! A vertex is `type=count{label,key:value}`, its contents follow after `/`, and several vertices stand in `[...]` with
//! `;` between them. This module does not know the meaning of the types, except that a `slot` has a label.
//!
//! # Interpretations
//!
//! - The label of the only slot may be left out and is then `default`, as in the RFC; flux-core uses `task`;
//!   [`parse_with_label`] takes the label as a parameter.
//! - A key is one that a vertex of RFC 14 has: `unit`, `exclusive` (`x`), `label`, `id`. Other keys are refused, as in
//!   a jobspec.
//! - A text in double quotes is a JSON string; one in single quotes stands for itself.
//! - Spaces between the parts are ignored.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::jobspec::{Count, CountErrorKind, DEPTH_MAX, Resource, SLOT, VERTICES_MAX};
use crate::text::excerpt;

mod read;

/// The label of the only slot when none is given.
pub const DEFAULT_LABEL: &str = "default";
/// The longest shape, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// A text is not a shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("shape '{input}': {kind} at position {at}; a shape looks like 'node=2/slot=4/[core=2;gpu]'")]
pub struct ShapeError {
    /// The text, shortened when long.
    pub input: String,
    /// Byte offset in the text where reading stopped.
    pub at: usize,
    /// The kind of error.
    pub kind: ShapeErrorKind,
}

/// The kinds of error in a shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeErrorKind {
    /// Text other than the expected one.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A bracket, brace or quote that is not closed.
    #[error("'{0}' is not closed")]
    Unclosed(char),
    /// An invalid count.
    #[error("{0}, for a count such as 4, 2-8, 2+ or 4,8")]
    Count(CountErrorKind),
    /// A key that no resource has.
    #[error("unknown key '{0}', expected one of unit, exclusive (x), label, id")]
    UnknownKey(String),
    /// A repeated key.
    #[error("key '{0}' a second time")]
    RepeatedKey(&'static str),
    /// A slot without label although there are several slots.
    #[error("a slot without label, though there is more than one slot")]
    NoLabel,
    /// A repeated label.
    #[error("label '{0}' a second time")]
    RepeatedLabel(String),
    /// An empty slot.
    #[error("a slot with nothing in it, expected '/' and resources")]
    EmptySlot,
    /// A quoted text that is no JSON string.
    #[error("not a JSON string")]
    BadString,
    /// More levels than a jobspec may have.
    #[error("more than {DEPTH_MAX} levels of resources")]
    TooDeep,
    /// More vertices than a jobspec may have.
    #[error("more than {VERTICES_MAX} resources")]
    TooMany,
    /// A text beyond [`TEXT_BYTES_MAX`].
    #[error("more than {TEXT_BYTES_MAX} bytes")]
    TooLong,
}

/// Reads a shape; the only slot has the label [`DEFAULT_LABEL`] unless the text gives one.
///
/// # Errors
/// [`ShapeError`]: the place at which reading stopped, and the kind of error.
///
/// ```
/// use fluxgate_formats::shorthand;
///
/// let resources = shorthand::parse("node=2/slot=4/[core=2;gpu]").unwrap();
/// assert_eq!(resources[0].with[0].with[1].type_, "gpu");
/// assert_eq!(shorthand::print(&resources), "node=2/slot=4/[core=2;gpu]");
/// ```
pub fn parse(text: &str) -> Result<Vec<Resource>, ShapeError> {
    parse_with_label(text, DEFAULT_LABEL)
}

/// Reads a shape; the only slot has the label `label` unless the text gives one.
///
/// # Errors
/// As [`parse`].
pub fn parse_with_label(text: &str, label: &str) -> Result<Vec<Resource>, ShapeError> {
    let fail = |at, kind| ShapeError { input: excerpt(text), at, kind };
    if text.len() > TEXT_BYTES_MAX {
        return Err(fail(TEXT_BYTES_MAX, ShapeErrorKind::TooLong));
    }
    read::read(text, label).map_err(|(at, kind)| fail(at, kind))
}

/// The shape of `resources`. Reading it gives them back if slots have labels, as in every [`Jobspec`].
///
/// [`Jobspec`]: crate::Jobspec
pub fn print(resources: &[Resource]) -> String {
    let slots = resources.iter().flat_map(Resource::walk).filter(|vertex| vertex.is_slot()).count();
    let mut out = String::new();
    list(&mut out, resources, slots == 1);
    out
}

fn list(out: &mut String, vertices: &[Resource], one_slot: bool) {
    if let [one] = vertices {
        return vertex(out, one, one_slot);
    }
    out.push('[');
    for (i, inner) in vertices.iter().enumerate() {
        if i > 0 {
            out.push(';');
        }
        vertex(out, inner, one_slot);
    }
    out.push(']');
}

fn vertex(out: &mut String, vertex: &Resource, one_slot: bool) {
    out.push_str(&quoted(&vertex.type_, read::is_type_char));
    if vertex.count != Count::Fixed(1) {
        // Writing to a string cannot fail.
        let _ = write!(out, "={}", vertex.count);
    }
    let text = |text: &str| quoted(text, read::is_value_char);
    let mut items = Vec::new();
    let others = vertex.unit.is_some() || vertex.id.is_some() || vertex.exclusive.is_some();
    match vertex.label.as_deref() {
        Some(DEFAULT_LABEL) if vertex.is_slot() && one_slot && !others => {}
        Some(label) if vertex.is_slot() => items.push(text(label)),
        Some(label) => items.push(format!("label:{}", text(label))),
        None => {}
    }
    items.extend(vertex.unit.as_deref().map(|unit| format!("unit:{}", text(unit))));
    items.extend(vertex.exclusive.map(|exclusive| if exclusive { "x" } else { "-x" }.to_owned()));
    items.extend(vertex.id.as_deref().map(|id| format!("id:{}", text(id))));
    if !items.is_empty() {
        let _ = write!(out, "{{{}}}", items.join(","));
    }
    if !vertex.with.is_empty() {
        out.push('/');
        list(out, &vertex.with, one_slot);
    }
}

/// `text`, in quotes if it would have another meaning without.
fn quoted(text: &str, plain: fn(char) -> bool) -> String {
    let first = text.chars().next();
    let is_json = serde_json::from_str::<serde_json::Value>(text).is_ok();
    let is_word = ["true", "false", "null"].iter().any(|word| text.eq_ignore_ascii_case(word));
    let signed = matches!(first, None | Some('+' | '-'));
    if !signed && !is_json && !is_word && text.chars().all(plain) {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

/// Checks labels and their uniqueness, which only the whole shape shows.
fn label_slots(resources: &mut [Resource], label: &str) -> Result<(), ShapeErrorKind> {
    let slots = resources.iter().flat_map(Resource::walk).filter(|vertex| vertex.is_slot()).count();
    let mut labels = BTreeSet::new();
    set_labels(resources, label, slots == 1, &mut labels)
}

fn set_labels(
    vertices: &mut [Resource],
    label: &str,
    one_slot: bool,
    labels: &mut BTreeSet<String>,
) -> Result<(), ShapeErrorKind> {
    for vertex in vertices {
        if vertex.type_ == SLOT && vertex.label.is_none() {
            if !one_slot {
                return Err(ShapeErrorKind::NoLabel);
            }
            vertex.label = Some(label.to_owned());
        }
        if let Some(label) = &vertex.label
            && !labels.insert(label.clone())
        {
            return Err(ShapeErrorKind::RepeatedLabel(excerpt(label)));
        }
        set_labels(&mut vertex.with, label, one_slot, labels)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
