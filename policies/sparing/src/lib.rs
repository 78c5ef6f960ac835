//! The policy `sparing`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use fluxgate_guest::backfill::{self, DEPTH_MAX};
use fluxgate_guest::prelude::*;

/// Maximum number of names in a list.
const LIST_MAX: usize = 32;
/// Number of kinds that a score distinguishes.
const KINDS: usize = 3;
/// Number of units of a kind that a score distinguishes, plus one.
const UNITS: u64 = 1 << 16;

/// The policy; README.md of this crate defines its rule.
#[derive(Debug)]
pub struct Sparing {
    depth: u32,
    first: Vec<String>,
    last: Vec<String>,
    last_within: Vec<String>,
    rare: Vec<String>,
}

impl Default for Sparing {
    fn default() -> Self {
        let rare = vec!["gpu".to_owned(), "memory".to_owned()];
        Sparing { depth: 1, first: Vec::new(), last: Vec::new(), last_within: Vec::new(), rare }
    }
}

/// Names separated by commas.
fn list(config: &Config, key: &str) -> Result<Vec<String>, String> {
    let names = config.text(key)?.split(',').map(str::trim).filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.len() > LIST_MAX {
        return Err(format!("`{key}` has {} names; at most {LIST_MAX} are accepted", names.len()));
    }
    Ok(names)
}

impl Policy for Sparing {
    fn info() -> Info {
        Info::new("sparing", "EASY that keeps nodes with what is rare for jobs that need it")
            .version(env!("CARGO_PKG_VERSION"))
            .key("depth", Kind::Integer, "1", "how many waiting jobs have a reservation, 1 to 1000")
            .key("first", Kind::Text, "", "properties of nodes that are taken first, separated by commas")
            .key("last", Kind::Text, "", "properties of nodes that are taken last, separated by commas")
            .key(
                "last-within",
                Kind::Text,
                "",
                "types of vertices, separated by commas; nodes within one are taken last",
            )
            .key(
                "rare",
                Kind::Text,
                "gpu,memory",
                "kinds of resource to keep, rarest first, separated by commas",
            )
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.depth = config.integer_in("depth", 1..=DEPTH_MAX)? as u32;
        (self.first, self.last) = (list(config, "first")?, list(config, "last")?);
        (self.last_within, self.rare) = (list(config, "last-within")?, list(config, "rare")?);
        Ok(())
    }
}

impl Ranking for Sparing {
    fn score(&mut self, node: &Node) -> f64 {
        let has = |list: &[String]| u64::from(list.iter().any(|property| node.has(property)));
        let kinds = self.rare.iter().map(String::as_str).chain(std::iter::repeat(""));
        let within = self.last_within.iter().any(|kind| node.within(kind).is_some());
        let properties = 2 * (1 - has(&self.first)) + has(&self.last).max(u64::from(within));
        // Below 2^50, so exact.
        let score = kinds
            .take(KINDS)
            .fold(properties, |score, kind| score * UNITS + node.amount(kind).min(UNITS - 1));
        score as f64
    }
}

impl Scheduling for Sparing {
    fn run(&mut self, pass: &mut dyn Pass) {
        let ranked = pass.placement("ranked");
        backfill::in_queue_order_at(pass, self.depth, ranked);
    }
}

export_policy!(Sparing: scheduling, ranking);

#[cfg(test)]
mod tests {
    use fluxgate_guest::Quantity;
    use fluxgate_guest::bench::{Bench, configured, node_order};

    use super::*;

    fn node(rank: u32, properties: &[&str], holds: &[(&str, u64)]) -> Node {
        let holds =
            holds.iter().map(|&(kind, amount)| Quantity { kind: kind.into(), amount, unit: "".into() });
        let properties = properties.iter().map(|&text| text.into()).collect();
        Node { rank, properties, holds: holds.collect(), ..Node::default() }
    }

    #[test]
    fn what_is_rare_comes_last() {
        let nodes = [
            node(0, &[], &[("core", 8), ("gpu", 2), ("memory", 64)]),
            node(1, &[], &[("core", 8), ("memory", 256)]),
            node(2, &[], &[("core", 8), ("memory", 64)]),
            node(3, &[], &[("core", 4), ("gpu", 1), ("memory", 256)]),
            node(4, &[], &[("core", 99), ("memory", 64)]),
        ];
        assert_eq!(node_order(&mut Sparing::default(), &nodes), [2, 4, 1, 3, 0]);
        let mut memory = configured::<Sparing>(&[("rare", "memory, gpu")]).unwrap();
        assert_eq!(node_order(&mut memory, &nodes), [2, 4, 0, 1, 3]);
    }

    #[test]
    fn properties_come_before_amounts() {
        let nodes = [
            node(0, &["old"], &[]),
            node(1, &[], &[("gpu", 9)]),
            node(2, &["new"], &[("gpu", u64::MAX)]),
            node(3, &["old", "new"], &[]),
        ];
        let settings = [("first", "new"), ("last", "old,older")];
        assert_eq!(node_order(&mut configured::<Sparing>(&settings).unwrap(), &nodes), [2, 3, 1, 0]);
    }

    #[test]
    fn nodes_within_a_chassis_come_last() {
        let at = |rank: u32, path: &str| Node { path: path.into(), ..node(rank, &[], &[]) };
        let nodes = [
            at(0, "/site0/chassis0/n0"),
            at(1, "/site0/n1"),
            at(2, "/site0/rack7/n2"),
            at(3, "/site0/chassis1/n3"),
        ];
        let order =
            |kinds| node_order(&mut configured::<Sparing>(&[("last-within", kinds)]).unwrap(), &nodes);
        assert_eq!(order("chassis"), [1, 2, 0, 3]);
        assert_eq!(order("rack,chassis"), [1, 0, 2, 3]);
        assert_eq!(order(""), [0, 1, 2, 3]);
    }

    #[test]
    fn starts_are_ranked_where_the_host_can() {
        let mut bench = Bench::new(4);
        bench.job(1).cores(2).submit();
        bench.run(&mut Sparing::default());
        assert_eq!(bench.started(), [1]);
        assert_eq!(bench.placement(1), Some("ranked"));
    }

    #[test]
    fn lists_have_a_bound() {
        let many = vec!["a"; 33].join(",");
        let refusal = configured::<Sparing>(&[("rare", &many)]).unwrap_err();
        assert!(refusal.contains("at most 32"), "{refusal}");
    }
}
