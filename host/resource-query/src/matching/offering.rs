//! The vertices that a walk which stops at the first match must visit.
//!
//! The first match depends on earlier bookings, so such a request is walked. Whether a node fits does not depend on
//! them, if counts are fixed and units single. Then a node is not visited if its class has no offer or if it does not
//! satisfy the constraint, and neither is a vertex above nodes without other nodes below. If only a few of very many
//! children remain, only these are sorted.
//!
//! This module must never know the selection.

use std::cmp::Reverse;

use fluxgate_graph::description::{EdgeId, VertexId};

use super::classes::Members;
use super::frame::Place;
use super::fullest::Fullness;
use super::matcher::Matcher;
use super::views::Offering;

/// Most classes that are examined for one vertex above nodes, and most children that are sorted.
const FEW: usize = 64;

impl Matcher {
    /// Ends the restriction.
    pub(super) fn end_offering(&mut self) {
        if let Some(Offering { view: Some(view), terms, .. }) = self.offering.take() {
            self.views.give_back(terms, view);
        }
    }

    /// False if a visit would find nothing.
    pub(super) fn may_offer(&self, v: VertexId) -> bool {
        let (Some(offering), Some(frame)) = (&self.offering, self.classes.frame()) else { return true };
        match frame.place(v) {
            Place::Node(node) if frame.sites[node as usize].vertex == v => {
                if let Some(only) = &offering.only {
                    return only.binary_search(&node).is_ok();
                }
                offering.view.as_ref().is_none_or(|view| view.has(node))
                    && offering.classes.binary_search(&self.classes.of(node)).is_ok()
            }
            Place::Node(_) | Place::Nowhere => true,
            Place::Upper if offering.only.is_some() || offering.classes.len() > FEW => true,
            Place::Upper => {
                let below = frame.below(v);
                !below.is_empty()
                    && self.members_of(offering).any(|members| members.any_in(below.start, below.end))
            }
        }
    }

    fn members_of<'m>(&'m self, offering: &'m Offering) -> impl Iterator<Item = &'m Members> {
        offering.classes.iter().filter_map(|class| match &offering.view {
            Some(view) => view.classes.get(class),
            None => self.classes.get(*class).map(|class| &class.members),
        })
    }

    /// The edges to the children of a vertex that may have an offer, in the order of visits; `None` unless they are
    /// few of many, and all of them nodes.
    pub(super) fn few_offers(&self, v: VertexId) -> Option<Vec<EdgeId>> {
        let (offering, frame) = (self.offering.as_ref()?, self.classes.frame()?);
        let below = frame.below(v);
        let most = FEW.min(below.len() / 4);
        if most == 0 || offering.classes.len() > FEW {
            return None;
        }
        let mut all: Vec<Fullness> = Vec::new();
        for members in self.members_of(offering) {
            for node in members.numbers(below.start, below.end) {
                let site = &frame.sites[node as usize];
                if site.parent != v || all.len() >= most {
                    return None;
                }
                let at = site.edge.index();
                let unique = Reverse(self.model[site.vertex].unique());
                let (weight, turn) = (Reverse(self.weights[at]), self.turns[at]);
                all.push(Fullness { weight, unique, turn, edge: site.edge });
            }
        }
        all.sort_unstable();
        Some(all.into_iter().map(|it| it.edge).collect())
    }
}
