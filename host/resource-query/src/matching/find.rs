//! Search of vertices by [`Criteria`], and the use of their aggregates.
//!
//! This module must never know the output format.

use std::collections::BTreeMap;

use fluxgate_graph::description::{Above, Bookings, Criteria, FindError, MODEL_DEPTH_MAX, State, VertexId};

use super::booked::{Booked, Item};
use super::ledger::Ledger;
use super::matcher::Matcher;

/// The aggregates of vertices, by type: texts such as `used:4, total:8`.
pub type Usage = BTreeMap<VertexId, BTreeMap<String, String>>;

struct Search {
    criteria: Criteria,
    items: Vec<Item>,
    /// The vertices that satisfy the expression, without those above them.
    holding: Vec<VertexId>,
    usage: Usage,
}

impl Matcher {
    /// The vertices that satisfy an expression with those above them, children before parents; with `agfilter=true`
    /// also their aggregates.
    ///
    /// # Errors
    /// The expression is invalid.
    pub fn find(&self, text: &str) -> Result<(Booked, Usage), FindError> {
        let search = self.searched(text)?;
        Ok((Booked { items: search.items, ..Booked::default() }, search.usage))
    }

    /// The vertices that satisfy an expression, in the order they were added; none if no vertex does.
    ///
    /// # Errors
    /// The expression is invalid.
    pub fn holding(&self, text: &str) -> Result<Vec<VertexId>, FindError> {
        let mut holding = self.searched(text)?.holding;
        holding.sort_unstable();
        Ok(holding)
    }

    fn searched(&self, text: &str) -> Result<Search, FindError> {
        let criteria = Criteria::parse(text)?;
        let mut search = Search { criteria, items: Vec::new(), holding: Vec::new(), usage: Usage::new() };
        let mut seen = vec![false; self.model.vertex_count()];
        self.search(self.root, Above::default(), 1, &mut seen, &mut search);
        Ok(search)
    }

    /// True if the vertex or one below it was found.
    fn search(&self, v: VertexId, above: Above, level: usize, seen: &mut [bool], to: &mut Search) -> bool {
        seen[v.index()] = true;
        let it = &self.model[v];
        let booking = self.ledger.get(v);
        let mine = Above {
            down: above.down || it.state() == State::Down,
            allocated: above.allocated || booking.is_some_and(|b| !b.allocations.is_empty()),
            reserved: above.reserved || booking.is_some_and(|b| !b.reservations.is_empty()),
        };
        let mut below = false;
        for edge in self.model.out_edges(v) {
            let child = self.model[edge];
            if child.subsystem != self.dominant || seen[child.to.index()] || level > MODEL_DEPTH_MAX {
                continue;
            }
            if self.search(child.to, mine, level + 1, seen, to) {
                to.items.push(Item::Edge { edge, implied: false });
                below = true;
            }
        }
        let holds = to.criteria.hold(&self.model, v, mine, &self.ledger);
        if !holds && !below {
            return false;
        }
        if let Some(job) = to.criteria.usage() {
            let Some(usage) = self.usage(v, job) else { return false };
            to.usage.insert(v, usage);
        }
        to.holding.extend(holds.then_some(v));
        to.items.push(Item::Vertex {
            vertex: v,
            level,
            units: it.size(),
            exclusive: true,
            implied: false,
            label: None,
        });
        true
    }

    /// The used part of a vertex's aggregates, by one job or by all; `None` for a vertex without aggregates.
    fn usage(&self, v: VertexId, job: u64) -> Option<BTreeMap<String, String>> {
        let below = self.aggregates.below(v)?;
        let booking = self.ledger.get(v);
        let tree = booking.map(|b| b.tags());
        let span =
            tree.and_then(|t| t.span(job)).filter(|_| booking.is_some_and(|b| b.counted.contains(job)));
        if job != 0 && span.is_none() {
            return None;
        }
        let counts = below.types.iter().zip(&below.totals).enumerate().map(|(i, (&type_, total))| {
            let used = match span {
                Some(span) => span.amounts[i + 1],
                None => tree.map_or(0, |t| total - t.free_at(i + 1, 0)),
            };
            (self.model.text(type_).to_owned(), format!("used:{used}, total:{total}"))
        });
        Some(counts.collect())
    }
}

impl Bookings for Ledger {
    fn is_allocated(&self, v: VertexId, job: u64) -> bool {
        self.get(v).is_some_and(|b| b.allocations.contains(job))
    }

    fn is_reserved(&self, v: VertexId, job: u64) -> bool {
        self.get(v).is_some_and(|b| b.reservations.contains(job))
    }

    fn is_tagged(&self, v: VertexId, job: u64) -> bool {
        self.get(v).is_some_and(|b| b.is_tagged(job))
    }

    fn is_counted(&self, v: VertexId, job: u64) -> bool {
        self.get(v).is_some_and(|b| b.counted.contains(job))
    }
}
