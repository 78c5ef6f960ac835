//! Resource sets (RFC 20, version 1): *R*, the concrete resources of an instance, a job or a state.
//!
//! An [`R`] is kept in one canonical form, so that equal sets are equal values: ranks with equal children are in one
//! entry, the entries are sorted by their first rank, the host names are in the order of the ranks, and ranks without
//! resources are left out. The cost of every operation depends on the number of ranges, not on the number of ranks.
//! This module knows neither allocations nor the meaning of `scheduling`.
//!
//! # Interpretations
//!
//! - Several entries for one rank are merged; an id that two of them name is an error, as in flux-core.
//! - `core` is required in each entry but may be the empty idset, which flux-core writes when only gpus remain.
//! - An empty `R_lite` is the empty set, such as a scheduler's answer about down resources.
//! - A start or expiration time of 0 or below means unset, as in flux-core.
//! - Property names are those of RFC 20; flux-core lets some of the forbidden characters pass.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::document::DocumentError;
use crate::hostlist::Hostlist;
use crate::idset::Idset;

mod algebra;
mod read;
mod segments;
mod write;

/// The longest text of an R, in bytes. Its `scheduling` may be a whole resource graph.
pub const TEXT_BYTES_MAX: usize = 256 << 20;
/// A graph in `scheduling` of at most as many bytes is kept as a value, a longer one as text.
pub const GRAPH_TEXT_BYTES: usize = 256 << 10;
/// Maximum number of entries that name one rank; more than a node has kinds of resources.
pub const ENTRIES_PER_RANK_MAX: usize = 64;

/// The resources on a rank: ids by type, such as `core` and `gpu`. No id set is empty.
pub type Children = BTreeMap<String, Idset>;

/// A resource set (RFC 20), flattened and canonical.
///
/// Code that changes the fields directly keeps them canonical, or ends with [`R::canonical`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct R {
    /// The resources by ranks; no rank is in two entries.
    pub r_lite: Vec<RLite>,
    /// The host names, as many as ranks, in the order of the ranks.
    pub nodelist: Hostlist,
    /// Start of validity, seconds since the epoch; 0 = unset.
    pub starttime: f64,
    /// End of validity, seconds since the epoch; 0 = unset, else after a set `starttime`.
    pub expiration: f64,
    /// The number of slots of an allocation, 1 or more; `None` for an inventory.
    pub nslots: Option<u32>,
    /// Ranks by property; a leading `+` marks one that belongs to the instance, not to the hardware.
    pub properties: BTreeMap<String, Idset>,
    /// Opaque data of the scheduler, which this module copies unchanged; `None` if there are none.
    pub scheduling: Option<Value>,
    /// The key `graph` of `scheduling`, where its text is longer than [`GRAPH_TEXT_BYTES`]: the graph of a large machine
    /// has millions of values and is kept as text. `scheduling` is then without it. `None` for a shorter one, and without one.
    pub graph: Option<GraphText>,
}

/// A JSON object as text, shared by its copies.
#[derive(Debug, Clone)]
pub struct GraphText(Arc<RawValue>);

impl GraphText {
    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The object; several times as large as the text.
    pub fn value(&self) -> Value {
        // It was valid JSON when it was read.
        serde_json::from_str(self.text()).unwrap_or_default()
    }
}

impl PartialEq for GraphText {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.text() == other.text()
    }
}

/// The resources of the ranks of one entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RLite {
    /// The execution targets.
    pub rank: Idset,
    /// The resources of each of them.
    pub children: Children,
}

/// Two sets cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// Both contain the same resource.
    #[error("both sets hold {type_} {ids} of rank {rank}")]
    Overlap {
        /// The first such rank.
        rank: u32,
        /// The type of the resource.
        type_: String,
        /// The ids in both.
        ids: Idset,
    },
    /// The two sets have different host names for one rank.
    #[error("rank {rank} is host '{one}' in one set and '{other}' in the other")]
    Host {
        /// The first such rank.
        rank: u32,
        /// Its name in the first set.
        one: String,
        /// Its name in the second.
        other: String,
    },
}

impl R {
    /// The empty set.
    pub fn new() -> Self {
        R::default()
    }

    /// Reads JSON text.
    ///
    /// # Errors
    /// The text is longer than [`TEXT_BYTES_MAX`], is no JSON, or breaks a rule of RFC 20.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        let (value, graph) = read::without_graph(text)?;
        Ok(R { graph, ..Self::try_from(value)? })
    }

    /// Reads a JSON value. `R::try_from(value)` takes the value and saves a copy of `scheduling`.
    ///
    /// # Errors
    /// The value breaks a rule of RFC 20: the path, the value found and the values accepted.
    pub fn from_value(value: &Value) -> Result<Self, DocumentError> {
        let scheduling = value.as_object().and_then(|map| map.get("scheduling")).cloned();
        read::read(value, scheduling).map_err(|fault| DocumentError::invalid(read::WHAT, fault))
    }

    /// True when there is no resource in it.
    pub fn is_empty(&self) -> bool {
        self.r_lite.is_empty()
    }

    /// All ranks.
    pub fn ranks(&self) -> Idset {
        if let [one] = self.r_lite.as_slice() {
            return one.rank.clone();
        }
        // Sorted first, so that each range is appended and none inserted.
        let mut ranges: Vec<_> = self.r_lite.iter().flat_map(|entry| entry.rank.ranges()).collect();
        ranges.sort_unstable_by_key(|range| *range.start());
        ranges.into_iter().collect()
    }

    /// The host name of `rank`; `None` if the set lacks the rank. For many look-ups, walk over [`hosts`](Self::hosts) once.
    pub fn hostname(&self, rank: u32) -> Option<String> {
        self.nodelist.nth(usize::try_from(self.ranks().position(rank)?).ok()?)
    }

    /// The ranks and the names of their hosts, by rank.
    pub fn hosts(&self) -> impl Iterator<Item = (u32, String)> + '_ {
        let ranks: Vec<u32> = self.ranks().iter().collect();
        ranks.into_iter().zip(self.nodelist.iter())
    }

    /// The rank of the first host called `host`; `None` if no host has this name.
    pub fn rank_of(&self, host: &str) -> Option<u32> {
        self.ranks().nth(self.nodelist.find(host)? as u64)
    }

    /// The resources on `rank`; `None` if the set lacks the rank.
    pub fn children(&self, rank: u32) -> Option<&Children> {
        self.r_lite.iter().find(|entry| entry.rank.contains(rank)).map(|entry| &entry.children)
    }

    /// The number of resources of type `type_` on all ranks; `node` counts the ranks.
    pub fn count(&self, type_: &str) -> u64 {
        let of = |entry: &RLite| match type_ {
            "node" => entry.rank.len(),
            _ => entry.rank.len().saturating_mul(entry.children.get(type_).map_or(0, Idset::len)),
        };
        self.r_lite.iter().fold(0, |sum: u64, entry| sum.saturating_add(of(entry)))
    }

    /// The set in flux-core's short form for display: `rank[0-1]/core[0-3],gpu0 rank3/core2`; empty for the empty set.
    pub fn summary(&self) -> String {
        fn ids(out: &mut String, name: &str, ids: &Idset) {
            // Writing to a string cannot fail.
            let _ = if ids.len() == 1 { write!(out, "{name}{ids}") } else { write!(out, "{name}[{ids}]") };
        }
        let mut out = String::new();
        for entry in &self.r_lite {
            if !out.is_empty() {
                out.push(' ');
            }
            ids(&mut out, "rank", &entry.rank);
            for (i, (type_, set)) in entry.children.iter().enumerate() {
                out.push(if i == 0 { '/' } else { ',' });
                ids(&mut out, type_, set);
            }
        }
        out
    }

    /// The same set without the properties that describe the instance (a leading `+`), as a job's R must be (RFC 20).
    #[must_use]
    pub fn without_instance_properties(mut self) -> Self {
        self.properties.retain(|name, _| !name.starts_with('+'));
        self
    }

    /// The ranks that have the property `name`; `None` if no rank has it.
    pub fn property(&self, name: &str) -> Option<&Idset> {
        self.properties.get(name)
    }

    /// The scheduler that wrote `scheduling`: the scheme of its `writer`, or `fluxion` when it does not say (RFC 20). `None` without
    /// `scheduling`.
    pub fn scheduling_writer(&self) -> Option<&str> {
        let writer = self.scheduling.as_ref()?.get("writer").and_then(Value::as_str).unwrap_or("fluxion");
        Some(writer.split(':').next().unwrap_or(writer))
    }
}

impl TryFrom<Value> for R {
    type Error = DocumentError;

    /// Reads a JSON value without copying `scheduling`.
    fn try_from(mut value: Value) -> Result<Self, DocumentError> {
        let scheduling = value.as_object_mut().and_then(|map| map.remove("scheduling"));
        read::read(&value, scheduling).map_err(|fault| DocumentError::invalid(read::WHAT, fault))
    }
}

impl Serialize for R {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for R {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        R::try_from(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
