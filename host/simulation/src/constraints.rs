//! Properties of nodes, and conditions on nodes (RFC 31), by a reading of the world's own: no code of it is shared with the
//! scheduler.
//!
//! Must never know what has a condition.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::{Hostlist, Idset};
use serde_json::{Value, json};

/// The ranks that have a property, by its name.
pub type Properties = BTreeMap<String, BTreeSet<u32>>;

/// The properties that a machine is described with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Described {
    /// In R.
    pub in_r: Properties,
    /// In the graph of the site.
    pub in_graph: Properties,
}

/// See the module text.
#[derive(Debug, Clone, Default)]
pub struct Constraints {
    conditions: Vec<Value>,
    described: Described,
    all: Properties,
    /// The properties that the scheduler of now has been told, one version after the other.
    told: Vec<Properties>,
    /// The scheduler has read the kept properties.
    known: bool,
    changes: u64,
    /// Properties are being set or removed.
    unsure: bool,
}

impl Constraints {
    /// A machine with these properties, and these conditions, of which the first is number 1.
    pub fn new(described: Described, conditions: Vec<Value>) -> Constraints {
        let mut all = described.in_r.clone();
        for (name, ranks) in &described.in_graph {
            all.entry(name.clone()).or_default().extend(ranks);
        }
        Constraints { conditions, described, all, ..Constraints::default() }
    }

    /// The condition with this number; `None` for 0.
    pub fn condition(&self, number: u32) -> Option<&Value> {
        self.conditions.get((number as usize).checked_sub(1)?)
    }

    /// The properties of these ranks, as R has them; `None` if it has none.
    pub fn of_r(&self, ranks: &BTreeSet<u32>) -> Option<Value> {
        let there = self.described.in_r.iter().map(|(name, all)| (name, all.intersection(ranks).copied()));
        let text = there.map(|(name, ranks)| (name.clone(), ranks.collect::<Idset>()));
        let text = text.filter(|(_, ranks)| !ranks.is_empty()).map(|(name, ranks)| (name, ranks.to_string()));
        let properties: BTreeMap<String, String> = text.collect();
        (!properties.is_empty()).then(|| json!(properties))
    }

    /// The properties of a node, as the graph of the site has them; `None` if it has none.
    pub fn of_graph(&self, rank: u32) -> Option<Value> {
        let its = self.described.in_graph.iter().filter(|(_, ranks)| ranks.contains(&rank));
        let properties: BTreeMap<&str, &str> = its.map(|(name, _)| (name.as_str(), "")).collect();
        (!properties.is_empty()).then(|| json!(properties))
    }

    /// The properties that there are now, as far as the scheduler knows.
    pub fn now(&self) -> &Properties {
        self.told.last().unwrap_or(&self.all)
    }

    /// The properties that the machine is described with.
    pub fn described(&self) -> &Properties {
        &self.all
    }

    /// The number of changes of properties for schedulers.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// A scheduler begins, and does not know the kept properties yet.
    pub fn begin(&mut self) {
        (self.known, self.told) = (false, Vec::new());
        self.changes += 1;
    }

    /// The scheduler has been told of other properties.
    pub fn tell(&mut self, properties: Properties) {
        self.told.push(properties);
        self.changes += 1;
    }

    /// The scheduler has read the kept properties: those that it knew before count no more.
    pub fn know(&mut self, properties: Properties) {
        (self.known, self.told) = (true, vec![properties]);
        self.changes += 1;
    }

    /// Sets whether properties are being set or removed.
    pub fn set_unsure(&mut self, unsure: bool) {
        self.unsure = unsure;
    }

    /// Is nothing being set or removed?
    pub fn is_sure(&self) -> bool {
        !self.unsure
    }

    /// Does a rank meet a condition, with these properties?
    pub fn meets(&self, condition: u32, rank: u32, properties: &Properties) -> bool {
        self.condition(condition).is_none_or(|condition| meets(condition, rank, properties))
    }

    /// All properties that the scheduler of now has known.
    pub fn all_told(&self) -> impl Iterator<Item = &Properties> {
        self.told.iter().chain((!self.known).then_some(&self.all))
    }

    /// Does a condition depend on properties of which the scheduler does not know whether services had set them?
    pub fn is_unknown(&self, condition: u32) -> bool {
        let depends = |condition: &Value| condition.to_string().contains("\"properties\"");
        !self.known && self.condition(condition).is_some_and(depends)
    }

    /// The versions of properties with which the scheduler of now may have found that no node meets a condition that is not unknown.
    pub fn all_known(&self) -> Vec<&Properties> {
        if self.known { self.told.iter().collect() } else { vec![&self.all] }
    }

    /// Does a rank meet a condition with some properties, whatever they are?
    pub fn could_meet(&self, condition: u32, rank: u32) -> bool {
        let Some(condition) = self.condition(condition) else { return true };
        let mut names = BTreeSet::new();
        named(condition, &mut names);
        let names: Vec<String> = names.into_iter().collect();
        (0..1u32 << names.len()).any(|some| {
            let its = names.iter().enumerate().filter(|(at, _)| some >> at & 1 == 1);
            let properties = its.map(|(_, name)| (name.clone(), BTreeSet::from([rank]))).collect();
            meets(condition, rank, &properties)
        })
    }
}

/// Sets a property of a rank, or removes it.
pub fn put(properties: &mut Properties, name: &str, rank: u32, has: bool) {
    let ranks = properties.entry(name.to_owned()).or_default();
    match has {
        true => drop(ranks.insert(rank)),
        false => drop(ranks.remove(&rank)),
    }
}

/// Does a rank have a property?
pub fn has(properties: &Properties, name: &str, rank: u32) -> bool {
    properties.get(name).is_some_and(|ranks| ranks.contains(&rank))
}

/// The properties that a condition names.
fn named(condition: &Value, names: &mut BTreeSet<String>) {
    for (operator, values) in condition.as_object().into_iter().flatten() {
        for value in values.as_array().into_iter().flatten() {
            match value.as_str().filter(|_| operator == "properties") {
                Some(text) => drop(names.insert(text.trim_start_matches('^').to_owned())),
                None => named(value, names),
            }
        }
    }
}

/// Does a rank meet a condition: an object with at most one operator, each with a list of values?
pub fn meets(condition: &Value, rank: u32, properties: &Properties) -> bool {
    let Some((operator, values)) = condition.as_object().and_then(|object| object.iter().next()) else {
        return true;
    };
    let values: Vec<&Value> = values.as_array().into_iter().flatten().collect();
    let inner = |value: &&Value| meets(value, rank, properties);
    let texts = || values.iter().filter_map(|value| value.as_str());
    match operator.as_str() {
        "properties" => texts().all(|text| match text.strip_prefix('^') {
            Some(name) => !has(properties, name, rank),
            None => has(properties, text, rank),
        }),
        "hostlist" => texts()
            .any(|text| Hostlist::parse(text).is_ok_and(|hosts| hosts.contains(&format!("node{rank}")))),
        "ranks" => texts().any(|text| Idset::parse(text).is_ok_and(|ranks| ranks.contains(rank))),
        "and" => values.iter().all(inner),
        "or" => values.is_empty() || values.iter().any(inner),
        // No rank meets it with an empty list.
        "not" => !values.iter().all(inner),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(ranks: &[u32]) -> BTreeSet<u32> {
        ranks.iter().copied().collect()
    }

    #[test]
    fn conditions_are_met_as_rfc_31_has_them() {
        let properties: Properties =
            [("a".to_owned(), ranks(&[0, 1])), ("b".to_owned(), ranks(&[1, 2]))].into();
        let met = |condition: Value| -> Vec<u32> {
            (0..4).filter(|rank| meets(&condition, *rank, &properties)).collect()
        };
        assert_eq!(met(json!({})), [0, 1, 2, 3]);
        assert_eq!(met(json!({"properties": ["a", "^b"]})), [0]);
        assert_eq!(met(json!({"properties": ["none"]})), [] as [u32; 0]);
        assert_eq!(met(json!({"hostlist": ["node[0-1]", "node3", "other"]})), [0, 1, 3]);
        assert_eq!(met(json!({"ranks": ["0", "2-9"]})), [0, 2, 3]);
        assert_eq!(met(json!({"and": [{"properties": ["a"]}, {"ranks": ["1-3"]}]})), [1]);
        assert_eq!(met(json!({"or": [{"properties": ["b"]}, {"ranks": ["0"]}]})), [0, 1, 2]);
        assert_eq!(met(json!({"not": [{"properties": ["a"]}, {"properties": ["b"]}]})), [0, 2, 3]);
        assert_eq!(met(json!({"or": []})), [0, 1, 2, 3]);
        assert_eq!(met(json!({"not": []})), [] as [u32; 0]);
    }

    #[test]
    fn what_is_told_is_beside_what_is_described() {
        let described = Described {
            in_r: [("a".to_owned(), ranks(&[0, 1]))].into(),
            in_graph: [("a".to_owned(), ranks(&[2])), ("b".to_owned(), ranks(&[0]))].into(),
        };
        let mut constraints = Constraints::new(described, vec![json!({"properties": ["a"]})]);
        assert_eq!(constraints.of_r(&ranks(&[1, 2])), Some(json!({"a": "1"})));
        assert_eq!((constraints.of_r(&ranks(&[3])), constraints.of_graph(1)), (None, None));
        assert_eq!(constraints.of_graph(0), Some(json!({"b": ""})));
        assert!(constraints.meets(1, 2, constraints.now()) && !constraints.meets(1, 3, constraints.now()));
        let mut other = constraints.now().clone();
        put(&mut other, "a", 2, false);
        put(&mut other, "a", 3, true);
        constraints.tell(other);
        assert!(constraints.meets(1, 3, constraints.now()) && !constraints.meets(1, 2, constraints.now()));
        assert!(constraints.meets(1, 2, constraints.described()));
        constraints.begin();
        assert_eq!(constraints.now(), constraints.described());
        assert!(constraints.is_unknown(1) && !constraints.is_unknown(0));
        assert_eq!(constraints.all_known(), [constraints.described()]);
        constraints.know(Properties::new());
        assert_eq!((constraints.all_known(), constraints.is_unknown(1)), (vec![&Properties::new()], false));
    }

    #[test]
    fn what_some_properties_would_meet() {
        let of = |condition: Value| Constraints::new(Described::default(), vec![condition]);
        let could = |condition: Value| of(condition).could_meet(1, 1);
        assert!(could(json!({"and": [{"properties": ["a", "^b"]}, {"ranks": ["1"]}]})));
        assert!(!could(json!({"and": [{"properties": ["a", "^b"]}, {"ranks": ["2"]}]})));
        assert!(!could(json!({"and": [{"properties": ["a"]}, {"not": [{"properties": ["a"]}]}]})));
        assert!(could(json!({"not": [{"properties": ["a"]}]})));
    }
}
