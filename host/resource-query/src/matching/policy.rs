//! Match policies: which of several possible selections is taken.
//!
//! A policy has independent parts with names of their own: an order of ids, whether the id of the node outweighs
//! those of the resources inside, whether whole nodes are taken, and whether the search ends with the first match.
//! `key=value` parts separated by spaces make further policies: `policy=high node_centric=true node_exclusive=true
//! stop_on_1_matches=true`.
//!
//! This module must never know how the graph is walked.

use super::scores::Better;

/// Weight of a node's id over the ids inside it.
pub(crate) const NODE_WEIGHT: i64 = 10_000;
/// Performance class of a vertex without the property, and the slowest one.
pub(crate) const CLASS_WORST: i64 = 9_999;
/// Property of a vertex with its performance class.
pub(crate) const CLASS_PROPERTY: &str = "perf_class";

/// The order of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefer {
    HighId,
    LowId,
    /// Resources with close ids first.
    Locality,
    /// Resources of low performance classes first.
    Variation,
}

/// A preference of resource selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub(crate) prefer: Prefer,
    pub(crate) node_centric: bool,
    pub(crate) node_exclusive: bool,
    pub(crate) first_match: bool,
}

/// An invalid preference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy '{text}': {what}; accepted are {}, or parts such as 'policy=low node_centric=true'", NAMES.join(", "))]
pub struct PolicyError {
    /// The text.
    pub text: String,
    /// The fault.
    pub what: String,
}

/// The named preferences.
const NAMES: [&str; 10] =
    ["first", "firstnodex", "high", "low", "hinode", "lonode", "hinodex", "lonodex", "locality", "variation"];

impl Policy {
    /// Reads a name or a list of parts.
    ///
    /// # Errors
    /// The text is neither; the error has the accepted names.
    ///
    /// ```
    /// use fluxgate_resource_query::Policy;
    /// assert_eq!(Policy::parse("lonode"), Policy::parse("policy=low node_centric=true"));
    /// assert!(Policy::parse("best").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Policy, PolicyError> {
        let plain =
            |prefer| Policy { prefer, node_centric: false, node_exclusive: false, first_match: false };
        let (high, low) = (plain(Prefer::HighId), plain(Prefer::LowId));
        Ok(match text {
            "high" => high,
            "low" => low,
            "hinode" => Policy { node_centric: true, ..high },
            "lonode" => Policy { node_centric: true, ..low },
            "hinodex" => Policy { node_centric: true, node_exclusive: true, ..high },
            "lonodex" => Policy { node_centric: true, node_exclusive: true, ..low },
            "first" => Policy { node_centric: true, first_match: true, ..high },
            "firstnodex" => Policy { node_centric: true, node_exclusive: true, first_match: true, ..high },
            "locality" => plain(Prefer::Locality),
            "variation" => plain(Prefer::Variation),
            parts => return Policy::parts(parts),
        })
    }

    /// The preference for an order of nodes that is set ([`Matcher::order_nodes`]): the first fitting nodes of it are
    /// taken, and in them the resources of low ids. Without an order it is `lonode`.
    ///
    /// [`Matcher::order_nodes`]: super::matcher::Matcher::order_nodes
    pub fn ranked() -> Policy {
        Policy { prefer: Prefer::LowId, node_centric: true, node_exclusive: false, first_match: false }
    }

    fn parts(text: &str) -> Result<Policy, PolicyError> {
        let wrong = |what: String| PolicyError { text: text.to_owned(), what };
        let mut prefer = None;
        let [mut node_centric, mut node_exclusive, mut first_match] = [false; 3];
        for part in text.split_whitespace() {
            let (key, value) =
                part.split_once('=').ok_or_else(|| wrong(format!("'{part}' is no key=value")))?;
            let flag = match key {
                "policy" => {
                    prefer = Some(match value {
                        "high" => Prefer::HighId,
                        "low" => Prefer::LowId,
                        _ => return Err(wrong(format!("policy is high or low, not '{value}'"))),
                    });
                    continue;
                }
                "node_centric" => &mut node_centric,
                "node_exclusive" => &mut node_exclusive,
                "stop_on_1_matches" => &mut first_match,
                _ => return Err(wrong(format!("there is no part '{key}'"))),
            };
            *flag = match value {
                "true" => true,
                "false" => false,
                _ => return Err(wrong(format!("{key} is true or false, not '{value}'"))),
            };
        }
        let prefer = prefer.ok_or_else(|| wrong("no 'policy=high' or 'policy=low' found".to_owned()))?;
        Ok(Policy { prefer, node_centric, node_exclusive, first_match })
    }

    /// The comparison of two groups.
    pub(crate) fn better(self) -> Better {
        match self.prefer {
            Prefer::HighId | Prefer::Locality => |a, b| a.score > b.score,
            Prefer::LowId | Prefer::Variation => |a, b| a.score < b.score,
        }
    }

    /// The addend of a node to the scores of all resources inside it.
    pub(crate) fn node_factor(id: i64, unique: i64) -> i64 {
        id.saturating_add(2).saturating_mul(NODE_WEIGHT).saturating_add(Policy::tie(unique))
    }

    /// The tie-break between nodes of equal id.
    pub(crate) fn tie(unique: i64) -> i64 {
        (unique % NODE_WEIGHT - 1).abs()
    }
}
