//! The nodes that a constraint (RFC 31) names by host or rank, so that not every node of the machine is asked whether it
//! meets it.
//!
//! Must never know a job.

use fixedbitset::FixedBitSet;
use fluxgate_formats::constraint::Constraint;

use crate::layout::graph::Graph;

/// A list that names more than one in this many nodes is no gain: all nodes are asked.
const FEW: usize = 8;

/// The nodes for which `fits` holds, which must hold for no node that does not meet the constraint whatever its properties
/// are.
pub(crate) fn nodes_that(graph: &Graph, constraint: &Constraint, fits: impl Fn(u32) -> bool) -> FixedBitSet {
    nodes_among(graph, named(graph, constraint, graph.nodes.len() / FEW), fits)
}

/// The nodes for which `fits` holds among these, or among all.
fn nodes_among(graph: &Graph, among: Option<Vec<u32>>, fits: impl Fn(u32) -> bool) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(graph.nodes.len());
    let mut ask = |node: u32| {
        if fits(node) {
            set.insert(node as usize);
        }
    };
    match among {
        Some(nodes) => nodes.into_iter().for_each(&mut ask),
        None => (0..graph.nodes.len() as u32).for_each(&mut ask),
    }
    set
}

/// All nodes that can meet a constraint whatever their properties are, perhaps with others and in any order; `None` if it
/// names none, or lists more than `most`.
fn named(graph: &Graph, constraint: &Constraint, most: usize) -> Option<Vec<u32>> {
    match constraint {
        Constraint::None => Some(Vec::new()),
        Constraint::Hostlist(hosts) if hosts.len() <= most => {
            Some(hosts.iter().flat_map(|host| graph.nodes_of(&host).iter().map(|of| of.1)).collect())
        }
        Constraint::Ranks(ranks) if ranks.len() <= most as u64 => {
            Some(ranks.iter().filter_map(|rank| graph.by_rank.get(&rank).copied()).collect())
        }
        Constraint::And(all) => all.iter().filter_map(|one| named(graph, one, most)).min_by_key(Vec::len),
        Constraint::Or(all) => {
            let each: Option<Vec<Vec<u32>>> = all.iter().map(|one| named(graph, one, most)).collect();
            each.map(|nodes| nodes.concat())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::R;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::live::resources::Resources;

    /// Ten nodes on seven hosts, and a gap in the ranks.
    fn machine() -> Resources {
        let hosts = ["a0", "a1", "a2", "a1", "b7", "a0", "c", "d9", "a0", "e"];
        let r = json!({"version": 1, "execution": {
            "R_lite": [{"rank": "0-4,7-11", "children": {"core": "0-1"}}], "nodelist": hosts,
            "properties": {"fast": "1-3", "old": "3,9"}, "starttime": 0, "expiration": 0,
        }});
        Resources::from_r(&R::from_value(&r).unwrap()).unwrap()
    }

    fn constraints() -> impl Strategy<Value = Value> {
        let host = prop::sample::select(vec!["a[0-1]", "a0,c", "b7", "x[0-99999]", "a2,e,d9", ""]);
        let ranks = prop::sample::select(vec!["0", "3-8", "11", "5-6", "0-400000", "2,9"]);
        let property = prop::sample::select(vec!["fast", "^fast", "old", "new"]);
        let leaf = prop_oneof![
            host.prop_map(|hosts| json!({"hostlist": [hosts]})),
            ranks.prop_map(|ranks| json!({"ranks": [ranks]})),
            property.prop_map(|property| json!({"properties": [property]})),
            Just(json!({})),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let several = prop::collection::vec(inner, 0..4);
            (several, prop::sample::select(vec!["and", "or", "not"]))
                .prop_map(|(all, operator)| json!({ operator: all }))
        })
    }

    proptest! {
        #[test]
        fn named_nodes_are_those_of_a_walk_of_all(value in constraints()) {
            let Ok(constraint) = Constraint::from_value(&value) else { return Ok(()) };
            let machine = &machine().machine;
            let fits = |node: u32| machine.meets(node, &constraint);
            let all: Vec<usize> = (0..10).filter(|node| fits(*node as u32)).collect();
            let found = |set: FixedBitSet| set.ones().collect::<Vec<usize>>();
            let graph = &*machine.graph;
            for most in [0, 1, 10, 1_000_000] {
                prop_assert_eq!(&found(nodes_among(graph, named(graph, &constraint, most), fits)), &all);
            }
            prop_assert_eq!(found(nodes_that(graph, &constraint, fits)), all);
        }
    }
}
