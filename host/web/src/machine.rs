//! The nodes of an instance and their states, from the answers of its resource service (R of RFC 20), in the order of its racks.
//!
//! Must never know how a node looks.

use std::collections::BTreeMap;

use fluxgate_formats::{Idset, R};

use crate::known::{Known, rows};
use crate::reserved::{Reserved, reservations};
use crate::words;

/// The state of a node: free, in use in part or in full, reserved, drained or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Free,
    Part,
    Full,
    /// No job uses the node, and a reservation that has begun has it.
    Reserved,
    Drained,
    Down,
}

impl State {
    /// All of them, in the order of legends.
    pub(crate) const ALL: [State; 6] =
        [State::Full, State::Part, State::Free, State::Reserved, State::Drained, State::Down];

    /// Its name, also in classes of style sheets.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Free => "free",
            State::Part => "part",
            State::Full => "full",
            State::Reserved => "reserved",
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
    /// The vertices that contain it, below the root: `rack3/chassis1`.
    pub(crate) place: String,
    /// A reservation that has begun has it.
    pub(crate) kept: bool,
    /// The reservation that has it, or has it next, in words.
    pub(crate) reserved: String,
}

/// A rack of the site; or, where the graph of the machine has none, nodes side by side with names that differ in their number
/// only.
#[derive(Debug, Clone)]
pub(crate) struct Rack {
    pub(crate) name: String,
    /// Positions in [`Machine::nodes`].
    pub(crate) nodes: std::ops::Range<usize>,
}

/// The machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    /// Rack by rack, and by rank in each; those of no rack are the last.
    pub(crate) nodes: Vec<Node>,
    pub(crate) racks: Vec<Rack>,
    /// Positions of ranks.
    positions: BTreeMap<u32, usize>,
}

/// Most nodes of a machine of which each is drawn; more are not listed at all.
pub(crate) const NODES_MAX: usize = 65_536;

/// Children of a type on each rank of R.
fn counts(r: &R, kind: &str) -> BTreeMap<u32, u32> {
    let mut found = BTreeMap::new();
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
        let reserved = by_rank(&reservations(known));
        let mut racks = RanksOfRacks::of(known);
        let nodes: Vec<Node> = all
            .hosts()
            .take(NODES_MAX)
            .map(|(rank, host)| {
                let of = |counts: &BTreeMap<u32, u32>| counts.get(&rank).copied().unwrap_or(0);
                let drain = drains.iter().find(|(ranks, _)| ranks.contains(rank));
                let (kept, reserved) = reserved.get(&rank).cloned().unwrap_or_default();
                let state = match () {
                    () if drain.is_some() => State::Drained,
                    () if down.contains(rank) => State::Down,
                    () if !held.contains(rank) && kept => State::Reserved,
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
                    place: racks.places.remove(&rank).unwrap_or_default(),
                    kept,
                    reserved,
                }
            })
            .collect();
        Machine::in_racks(nodes, &racks)
    }

    /// These nodes, which are by rank, in the order of the racks.
    fn in_racks(mut nodes: Vec<Node>, by_site: &RanksOfRacks) -> Machine {
        let rack = |node: &Node| by_site.of_rank.get(&node.rank).copied().unwrap_or(usize::MAX);
        nodes.sort_by_key(|node| (rack(node), node.rank));
        let alone = nodes.partition_point(|node| rack(node) != usize::MAX);
        let mut racks: Vec<Rack> = Vec::new();
        let mut at = 0;
        for part in nodes[..alone].chunk_by(|a, b| rack(a) == rack(b)) {
            let name = by_site.names.get(rack(&part[0])).cloned().unwrap_or_default();
            racks.push(Rack { name, nodes: at..at + part.len() });
            at += part.len();
        }
        racks.extend(runs(&nodes, alone));
        let positions = nodes.iter().enumerate().map(|(at, node)| (node.rank, at)).collect();
        Machine { nodes, racks, positions }
    }

    /// Nodes in a state.
    pub(crate) fn count(&self, state: State) -> u64 {
        self.nodes.iter().filter(|node| node.state == state).count() as u64
    }

    /// The position of a rank.
    pub(crate) fn position(&self, rank: u32) -> Option<usize> {
        self.positions.get(&rank).copied()
    }
}

/// The part of a host before its number.
fn stem(host: &str) -> &str {
    host.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// For each rank, whether a reservation that has begun has it, and the reservation that has it, or has it next, in words.
fn by_rank(all: &[Reserved]) -> BTreeMap<u32, (bool, String)> {
    let mut found = BTreeMap::new();
    for one in all {
        let told = one.told();
        for rank in one.ranks.iter().take(NODES_MAX) {
            found.entry(rank).or_insert_with(|| (one.on, told.clone()));
        }
    }
    found
}

/// The racks of a site by rank.
#[derive(Debug, Default)]
struct RanksOfRacks {
    names: Vec<String>,
    /// The position of the rack in `names`.
    of_rank: BTreeMap<u32, usize>,
    /// The innermost vertex that contains a rank.
    places: BTreeMap<u32, String>,
}

impl RanksOfRacks {
    /// From the answer `levels`: the level of racks, or else the innermost, if that has more than one vertex.
    fn of(known: &Known) -> RanksOfRacks {
        let levels = rows(&known.get("levels")["levels"]);
        let ranks = |vertex: &serde_json::Value| {
            vertex["ranks"].as_str().and_then(|ranks| ranks.parse::<Idset>().ok())
        };
        let mut found = RanksOfRacks::default();
        for vertex in levels.iter().flat_map(|level| rows(&level["vertices"])) {
            let (name, ranks) = (words::plain(&vertex["name"]), ranks(vertex).unwrap_or_default());
            // Further levels are further in.
            found.places.extend(ranks.iter().take(NODES_MAX).map(|rank| (rank, name.clone())));
        }
        let of_racks = levels.iter().find(|level| level["type"] == "rack");
        let innermost = levels.iter().rev().find(|level| rows(&level["vertices"]).len() > 1);
        for vertex in of_racks.or(innermost).map_or(&[][..], |level| rows(&level["vertices"])) {
            let at = found.names.len();
            found.names.push(words::plain(&vertex["name"]));
            found
                .of_rank
                .extend(ranks(vertex).unwrap_or_default().iter().take(NODES_MAX).map(|rank| (rank, at)));
        }
        found
    }
}

/// Nodes from `from` on in runs of one stem, cut into parts of equal size: 16 nodes of a small machine, 64 or 128 of larger ones.
fn runs(nodes: &[Node], from: usize) -> Vec<Rack> {
    let size = match nodes.len() {
        0..=256 => 16,
        257..=2048 => 64,
        _ => 128,
    };
    let mut racks: Vec<Rack> = Vec::new();
    for (at, node) in nodes.iter().enumerate().skip(from) {
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

    fn node(rank: u32, host: &str) -> Node {
        let (host, place, reserved) = (host.to_owned(), String::new(), String::new());
        let state = State::Free;
        Node { rank, host, cores: 1, used: 0, gpus: 0, state, reason: None, place, kept: false, reserved }
    }

    impl Machine {
        /// Free nodes by number, in racks by name.
        pub(crate) fn of_hosts(count: u32) -> Machine {
            let nodes = (0..count).map(|rank| node(rank, &format!("n{rank}")));
            Machine::in_racks(nodes.collect(), &RanksOfRacks::default())
        }
    }

    #[test]
    fn nodes_side_by_side_share_a_stem() {
        let hosts = (0..20).map(|n| format!("n{n}")).chain(["login1".to_owned()]);
        let nodes: Vec<Node> = (0..).zip(hosts).map(|(rank, host)| node(rank, &host)).collect();
        let found = Machine::in_racks(nodes, &RanksOfRacks::default()).racks;
        let seen: Vec<(&str, usize)> = found.iter().map(|rack| (&*rack.name, rack.nodes.len())).collect();
        assert_eq!(seen, [("n0 – n15", 16), ("n16 – n19", 4), ("login1", 1)]);
    }
}
