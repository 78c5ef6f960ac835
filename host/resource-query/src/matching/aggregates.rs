//! Aggregates: units below a vertex of the types that are counted, by which a walk prunes a subtree.
//!
//! A spec such as `ALL:core,rack:node` lists the vertices at which units below are counted, and the types of these
//! units. Leaves of a type that it does not name are counted at the cluster too.
//!
//! This module must never know allocations.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_graph::description::{MODEL_DEPTH_MAX, Model, Name, VertexId};

/// The default spec.
pub const PRUNE_DEFAULT: &str = "ALL:core,ALL:node";

/// Units below one vertex, by type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Below {
    pub(crate) types: Vec<Name>,
    pub(crate) totals: Vec<i64>,
}

/// The counted types by vertex, with the totals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Aggregates {
    everywhere: BTreeSet<Name>,
    at: BTreeMap<Name, BTreeSet<Name>>,
    counted: BTreeSet<Name>,
    below: Vec<Option<Box<Below>>>,
}

impl Aggregates {
    /// Reads a spec: `anchor:type` pairs separated by commas, with `ALL` for every anchor.
    pub(crate) fn parse(model: &mut Model, spec: &str) -> Result<Self, String> {
        let mut all = Aggregates::default();
        if spec.is_empty() {
            return Ok(all);
        }
        for pair in spec.split(',') {
            let (anchor, type_) = pair.split_once(':').unwrap_or((pair, ""));
            let [anchor, type_] = [anchor, type_].map(|t| t.split_whitespace().collect::<String>());
            if anchor.is_empty() || type_.is_empty() {
                return Err(format!("'{pair}' found in '{spec}'; pairs such as ALL:core are accepted"));
            }
            let type_ = model.intern(&type_);
            if anchor == "ALL" {
                for others in all.at.values_mut() {
                    others.remove(&type_);
                }
                all.everywhere.insert(type_);
                all.counted.insert(type_);
            } else {
                let anchor = model.intern(&anchor);
                all.count_at(anchor, type_);
            }
        }
        Ok(all)
    }

    fn count_at(&mut self, anchor: Name, type_: Name) {
        if !self.everywhere.contains(&type_) {
            self.at.entry(anchor).or_default().insert(type_);
        }
        self.counted.insert(type_);
    }

    /// True for a type that is counted at any vertex.
    pub(crate) fn counts(&self, type_: Name) -> bool {
        self.counted.contains(&type_)
    }

    /// The counted units below a vertex, if there are any.
    pub(crate) fn below(&self, v: VertexId) -> Option<&Below> {
        self.below.get(v.index())?.as_deref()
    }

    /// Counts all units below the root of a subsystem again.
    pub(crate) fn prime(&mut self, model: &Model, subsystem: Name, root: VertexId) {
        self.below = vec![None; model.vertex_count()];
        let cluster = model.name("cluster").unwrap_or(Name::EMPTY);
        let mut seen = vec![false; model.vertex_count()];
        self.count(model, subsystem, cluster, root, &mut seen, &mut BTreeMap::new(), 0);
    }

    #[expect(clippy::too_many_arguments, reason = "a recursion that carries its surroundings")]
    fn count(
        &mut self,
        model: &Model,
        subsystem: Name,
        cluster: Name,
        v: VertexId,
        seen: &mut [bool],
        to_parent: &mut BTreeMap<Name, i64>,
        depth: usize,
    ) {
        seen[v.index()] = true;
        let (type_, size) = (model[v].type_(), model[v].size() as i64);
        let leaf = model.out_edges(v).next().is_none();
        if leaf && !self.counts(type_) {
            self.count_at(cluster, type_);
        }
        if self.counts(type_) {
            add(to_parent, type_, size);
        }
        if leaf || depth > MODEL_DEPTH_MAX {
            return;
        }
        let mut mine: BTreeMap<Name, i64> = BTreeMap::new();
        for edge in model.out_edges(v) {
            let edge = &model[edge];
            if edge.subsystem == subsystem && !seen[edge.to.index()] {
                self.count(model, subsystem, cluster, edge.to, seen, &mut mine, depth + 1);
            }
        }
        for (&type_, &units) in &mine {
            add(to_parent, type_, units);
        }
        let own = self.at.get(&type_).into_iter().flatten().copied();
        let every = self.everywhere.iter().copied().filter(|&t| t != type_);
        let types: Vec<Name> = own.chain(every).collect();
        if !types.is_empty() {
            let totals = types.iter().map(|t| mine.get(t).copied().unwrap_or(0)).collect();
            self.below[v.index()] = Some(Box::new(Below { types, totals }));
        }
    }
}

/// Adds units of a type to a sum, which saturates.
pub(crate) fn add(to: &mut BTreeMap<Name, i64>, type_: Name, units: i64) {
    let sum = to.entry(type_).or_default();
    *sum = sum.saturating_add(units);
}
