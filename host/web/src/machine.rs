//! The nodes of an instance and their states, from what its resource service tells (R of RFC 20).
//!
//! Must never know how a node looks.

use fluxgate_formats::{Idset, R};

use crate::known::Known;

/// What a node can be used for at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Free,
    Part,
    Full,
    Drained,
    Down,
}

impl State {
    /// All of them, in the order of legends.
    pub(crate) const ALL: [State; 5] = [State::Full, State::Part, State::Free, State::Drained, State::Down];

    /// Its name, also in classes of style sheets.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Free => "free",
            State::Part => "part",
            State::Full => "full",
            State::Drained => "drained",
            State::Down => "down",
        }
    }
}

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) rank: u32,
    pub(crate) host: String,
    pub(crate) cores: u32,
    pub(crate) used: u32,
    pub(crate) gpus: u32,
    pub(crate) state: State,
    /// Why it was drained.
    pub(crate) reason: Option<String>,
}

/// Nodes side by side with names that differ in their number only.
#[derive(Debug, Clone)]
pub(crate) struct Rack {
    pub(crate) name: String,
    /// Positions in [`Machine::nodes`].
    pub(crate) nodes: std::ops::Range<usize>,
}

/// The machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    /// By rank.
    pub(crate) nodes: Vec<Node>,
    pub(crate) racks: Vec<Rack>,
}

/// Most nodes of a machine of which each is drawn; more are not listed at all.
pub(crate) const NODES_MAX: usize = 65_536;

/// Children of a type on each rank of R.
fn counts(r: &R, kind: &str) -> std::collections::BTreeMap<u32, u32> {
    let mut found = std::collections::BTreeMap::new();
    for part in &r.r_lite {
        let count = part.children.get(kind).map_or(0, |ids| ids.len() as u32);
        for rank in part.rank.iter().take(NODES_MAX) {
            let sum: &mut u32 = found.entry(rank).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    found
}

impl Machine {
    /// From the answers `resources` and `drains`.
    pub(crate) fn of(known: &Known) -> Machine {
        let part = |key: &str| R::from_value(&known.get("resources")[key]).unwrap_or_default();
        let (all, allocated, down) = (part("all"), part("allocated"), part("down").ranks());
        let (cores, gpus) = (counts(&all, "core"), counts(&all, "gpu"));
        let (used, used_gpus) = (counts(&allocated, "core"), counts(&allocated, "gpu"));
        let held = allocated.ranks();
        let drains: Vec<(Idset, String)> = known.get("drains")["drain"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(ranks, why)| {
                Some((ranks.parse().ok()?, why["reason"].as_str().unwrap_or_default().to_owned()))
            })
            .collect();
        let nodes: Vec<Node> = all
            .hosts()
            .take(NODES_MAX)
            .map(|(rank, host)| {
                let of =
                    |counts: &std::collections::BTreeMap<u32, u32>| counts.get(&rank).copied().unwrap_or(0);
                let drain = drains.iter().find(|(ranks, _)| ranks.contains(rank));
                let state = match () {
                    () if drain.is_some() => State::Drained,
                    () if down.contains(rank) => State::Down,
                    () if !held.contains(rank) => State::Free,
                    () if of(&used) >= of(&cores) && of(&used_gpus) >= of(&gpus) => State::Full,
                    () => State::Part,
                };
                Node {
                    rank,
                    host,
                    cores: of(&cores),
                    used: of(&used),
                    gpus: of(&gpus),
                    state,
                    reason: drain.map(|(_, reason)| reason.clone()),
                }
            })
            .collect();
        let racks = racks(&nodes);
        Machine { nodes, racks }
    }

    /// Nodes in a state.
    pub(crate) fn count(&self, state: State) -> u64 {
        self.nodes.iter().filter(|node| node.state == state).count() as u64
    }

    /// The position of a rank.
    pub(crate) fn position(&self, rank: u32) -> Option<usize> {
        self.nodes.binary_search_by_key(&rank, |node| node.rank).ok()
    }
}

/// The part of a host before its number.
fn stem(host: &str) -> &str {
    host.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Nodes of one stem, cut into parts of equal size: 16 of a small machine, 64 or 128 of larger ones.
fn racks(nodes: &[Node]) -> Vec<Rack> {
    let size = match nodes.len() {
        0..=256 => 16,
        257..=2048 => 64,
        _ => 128,
    };
    let mut racks: Vec<Rack> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        match racks.last_mut() {
            Some(last)
                if last.nodes.len() < size && stem(&nodes[last.nodes.start].host) == stem(&node.host) =>
            {
                last.nodes.end = at + 1;
            }
            _ => racks.push(Rack { name: String::new(), nodes: at..at + 1 }),
        }
    }
    for rack in &mut racks {
        let (first, last) = (&nodes[rack.nodes.start].host, &nodes[rack.nodes.end - 1].host);
        rack.name = if first == last { first.clone() } else { format!("{first} – {last}") };
    }
    racks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str) -> Node {
        let host = host.to_owned();
        Node { rank: 0, host, cores: 1, used: 0, gpus: 0, state: State::Free, reason: None }
    }

    #[test]
    fn nodes_side_by_side_share_a_stem() {
        let nodes: Vec<Node> =
            (0..20).map(|n| format!("n{n}")).chain(["login1".to_owned()]).map(|host| node(&host)).collect();
        let found = racks(&nodes);
        let seen: Vec<(&str, usize)> = found.iter().map(|rack| (&*rack.name, rack.nodes.len())).collect();
        assert_eq!(seen, [("n0 – n15", 16), ("n16 – n19", 4), ("login1", 1)]);
    }
}
