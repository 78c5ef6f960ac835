//! Memo tables of answers by shape. No entry changes an answer; the state that steers answers is in `planning.rs`.
//!
//! Each entry carries the version of the state that it is valid for. This module must never know how an answer is found.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::live::error::Unsatisfiable;
use crate::live::request::ShapeId;
use crate::live::resource_kinds::{Key, ResourceKind};

/// Number of entries at which a table is emptied.
pub(crate) const CACHE_MAX: usize = 65_536;

/// Stores an answer; a table with `most` entries is emptied first.
pub(crate) fn remember<K: std::hash::Hash + Eq, V>(map: &mut FxHashMap<K, V>, most: usize, key: K, value: V) {
    if map.len() >= most {
        map.clear();
    }
    map.insert(key, value);
}

/// Whether the idle machine satisfies a shape.
#[derive(Debug)]
pub(crate) struct Satisfiability {
    /// Properties that belong to this instance alone, or are set by services, count as there.
    pub(crate) result: Result<(), Unsatisfiable>,
    /// The properties that nodes would have to be given first, in words; `None` when that is not what it needs.
    pub(crate) unmet: Option<String>,
}

/// Memo tables by shape. No entry changes an answer.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) satisfiable: FxHashMap<ShapeId, Satisfiability>,
    pub(crate) least_cores: FxHashMap<ShapeId, u64>,
    /// The flow that a shape waits for: version, answer.
    pub(crate) short: FxHashMap<ShapeId, (u64, Option<String>)>,
    /// The sums of resources by kind: version, answer.
    pub(crate) kinds: Option<(u64, Arc<[ResourceKind]>)>,
    /// The kinds themselves: version of the inventory, answer.
    pub(crate) kind_keys: Option<(u64, Arc<[Key]>)>,
}
