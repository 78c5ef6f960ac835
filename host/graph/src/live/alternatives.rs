//! Expansion of `xor_slot`s: a request with alternative slots becomes several requests, in order of preference.
//!
//! Of neighbouring `xor_slot`s one is filled, in the way of a `slot`. This module must never know the machine.

use fluxgate_formats::jobspec::{Resource, SLOT};

/// Type of a slot that is an alternative to its neighbours.
const XOR_SLOT: &str = "xor_slot";
/// Most requests into which one is expanded.
pub const ALTERNATIVES_MAX: usize = 100;

/// True if the resources contain alternatives.
pub(crate) fn any(resources: &[Resource]) -> bool {
    resources.iter().any(|r| r.walk().any(|vertex| vertex.type_ == XOR_SLOT))
}

/// The lists without alternatives for a list of resources, in order of preference: first the alternative that is
/// named first. `None` if there are more than [`ALTERNATIVES_MAX`].
pub(crate) fn expand(resources: &[Resource]) -> Option<Vec<Vec<Resource>>> {
    let mut all: Vec<Vec<Resource>> = vec![Vec::new()];
    let mut choices: Vec<Resource> = Vec::new();
    for resource in resources {
        let inside = expand(&resource.with)?.into_iter().map(|with| Resource { with, ..shallow(resource) });
        if resource.type_ == XOR_SLOT {
            choices.extend(inside.map(|choice| Resource { type_: SLOT.to_owned(), ..choice }));
        } else {
            all = cross(&all, &inside.collect::<Vec<_>>())?;
        }
    }
    if choices.is_empty() { Some(all) } else { cross(&all, &choices) }
}

/// Every list followed by every one of `more`.
fn cross(lists: &[Vec<Resource>], more: &[Resource]) -> Option<Vec<Vec<Resource>>> {
    if lists.len().saturating_mul(more.len()) > ALTERNATIVES_MAX {
        return None;
    }
    let with = |list: &Vec<Resource>, one: &Resource| list.iter().cloned().chain([one.clone()]).collect();
    Some(lists.iter().flat_map(|list| more.iter().map(move |one| with(list, one))).collect())
}

/// The vertex without its content.
fn shallow(resource: &Resource) -> Resource {
    let Resource { type_, count, unit, exclusive, label, id, with: _ } = resource;
    Resource {
        type_: type_.clone(),
        count: count.clone(),
        unit: unit.clone(),
        exclusive: *exclusive,
        label: label.clone(),
        id: id.clone(),
        with: Vec::new(),
    }
}
