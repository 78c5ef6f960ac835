//! What a policy is told of nodes that it ranks; mirrors `fluxgate:policy/ranking`.
//!
//! This module must never know who holds something of a node: it is not told.

/// So much of one kind of resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quantity {
    /// `core`, `gpu`, `memory` and whatever else there is.
    pub kind: String,
    /// How many units.
    pub amount: u64,
    /// What it is counted in, as `GB`; empty for what is counted one by one.
    pub unit: String,
}

/// A node, whoever holds something of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// The broker rank.
    pub rank: u32,
    /// The name of the host.
    pub host: String,
    /// Where it is, from the top: `/cluster0/rack3/node7`.
    pub path: String,
    /// RFC 20 properties, in alphabetical order.
    pub properties: Vec<String>,
    /// What is in it, by kind, in alphabetical order.
    pub holds: Vec<Quantity>,
}

impl Node {
    /// How much of a kind is in it.
    pub fn amount(&self, kind: &str) -> u64 {
        self.holds.iter().filter(|of| of.kind == kind).map(|of| of.amount).sum()
    }

    /// Has it this property?
    pub fn has(&self, property: &str) -> bool {
        self.properties.iter().any(|known| known == property)
    }

    /// The text of a property `key=text`; the first of several.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.properties.iter().find_map(|known| known.strip_prefix(key)?.strip_prefix('='))
    }

    /// The name of what it is in, of this type: `rack3` for `rack`.
    pub fn within(&self, kind: &str) -> Option<&str> {
        let numbered = |name: &&str| {
            name.strip_prefix(kind).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
        };
        self.path.split('/').find(numbered)
    }
}
