//! Placement preferences by name: which of several possible placements is taken.
//!
//! This module must never know how placements are found.

use serde::{Deserialize, Serialize};

/// Which of several possible placements is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Placement {
    /// The first place that is found: lowest nodes and lowest ids.
    #[default]
    First,
    /// Lowest nodes and lowest ids.
    Low,
    /// Highest nodes and highest ids.
    High,
    /// The fullest nodes on which the request fits, so that empty nodes stay empty.
    Pack,
    /// The emptiest nodes, with the takes spread as evenly as possible.
    Spread,
    /// Lowest nodes; the same as `Low`, since the node always comes before the resources inside it.
    LoNode,
    /// Highest nodes; the same as `High`.
    HiNode,
    /// As `First`, with every node exclusive.
    FirstNodeX,
    /// As `LoNode`, with every node exclusive.
    LoNodeX,
    /// As `HiNode`, with every node exclusive.
    HiNodeX,
    /// As close together as possible: in one NUMA domain, socket, node, switch or rack, if one of them has enough.
    Locality,
    /// Nodes whose performance classes (property `perf_class=N`) are closest together, of those the fastest.
    Variation,
    /// Nodes with the least power draw (property `power=WATTS`); nodes without the property come last.
    Power,
    /// In the order that was set from outside ([`Resources::order_nodes`](crate::Resources::order_nodes)): the running
    /// policy ranks the nodes. As `Low` while no order is set.
    Ranked,
}

impl Placement {
    /// All placements, in the order of their numbers.
    pub const ALL: [Placement; 14] = [
        Placement::First,
        Placement::Low,
        Placement::High,
        Placement::Pack,
        Placement::Spread,
        Placement::LoNode,
        Placement::HiNode,
        Placement::FirstNodeX,
        Placement::LoNodeX,
        Placement::HiNodeX,
        Placement::Locality,
        Placement::Variation,
        Placement::Power,
        Placement::Ranked,
    ];

    /// All names, for messages.
    pub const NAMES: &'static str = "first, low, high, pack, spread, lonode, hinode, firstnodex, lonodex, hinodex, \
                                     locality, variation, power or ranked";

    /// The placement with this name, one of [`NAMES`](Self::NAMES); `None` for any other text.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Its name in configurations and messages.
    pub fn name(self) -> &'static str {
        match self {
            Placement::First => "first",
            Placement::Low => "low",
            Placement::High => "high",
            Placement::Pack => "pack",
            Placement::Spread => "spread",
            Placement::LoNode => "lonode",
            Placement::HiNode => "hinode",
            Placement::FirstNodeX => "firstnodex",
            Placement::LoNodeX => "lonodex",
            Placement::HiNodeX => "hinodex",
            Placement::Locality => "locality",
            Placement::Variation => "variation",
            Placement::Power => "power",
            Placement::Ranked => "ranked",
        }
    }

    /// True if its nodes are exclusive. [`Resources::with_whole_nodes`](crate::Resources::with_whole_nodes) makes
    /// such a request; the search considers only the order.
    pub fn whole_nodes(self) -> bool {
        matches!(self, Placement::FirstNodeX | Placement::LoNodeX | Placement::HiNodeX)
    }

    /// True when it takes the highest nodes first.
    pub(crate) fn is_high(self) -> bool {
        matches!(self, Placement::High | Placement::HiNode | Placement::HiNodeX)
    }
}
