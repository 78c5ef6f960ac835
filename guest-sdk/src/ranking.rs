//! The description of nodes for a policy that ranks them; mirrors `fluxgate:policy/ranking`.
//!
//! The description does not include allocations.

/// An amount of one kind of resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quantity {
    /// `core`, `gpu`, `memory` or another resource type.
    pub kind: String,
    /// How many units.
    pub amount: u64,
    /// Unit, such as `GB`; empty for a count.
    pub unit: String,
}

/// A node, free or in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// The broker rank.
    pub rank: u32,
    /// The name of the host.
    pub host: String,
    /// Its path from the root: `/cluster0/rack3/node7`.
    pub path: String,
    /// RFC 20 properties, in alphabetical order.
    pub properties: Vec<String>,
    /// Its contents, by kind, in alphabetical order.
    pub holds: Vec<Quantity>,
}

impl Node {
    /// The amount of a kind in it.
    pub fn amount(&self, kind: &str) -> u64 {
        self.holds.iter().filter(|of| of.kind == kind).map(|of| of.amount).sum()
    }

    /// True if it has this property.
    pub fn has(&self, property: &str) -> bool {
        self.properties.iter().any(|known| known == property)
    }

    /// The text of a property `key=text`; the first of several.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.properties.iter().find_map(|known| known.strip_prefix(key)?.strip_prefix('='))
    }

    /// The name of the vertex of this type that contains it: `rack3` for `rack`.
    pub fn within(&self, kind: &str) -> Option<&str> {
        let numbered = |name: &&str| {
            name.strip_prefix(kind).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
        };
        self.path.split('/').find(numbered)
    }
}
