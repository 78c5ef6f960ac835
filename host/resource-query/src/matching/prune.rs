//! Pruning: the decision at a vertex before any vertex below it is visited (RFC 4, pruning filter).
//!
//! Pruning does not change the result, only the number of visits; an exception are the state, conditions and
//! exclusivity of the vertex itself, which are checked only here.
//!
//! This module must never know scores.

use fluxgate_formats::constraint::{Constraint, Target};
use fluxgate_graph::description::{Name, State, VertexId};
use smallvec::SmallVec;

use super::aim::Aim;
use super::matcher::Matcher;
use super::op::Miss;
use super::request::Want;

impl Matcher {
    /// Refuses a vertex below which a visit would find nothing.
    pub(super) fn prune(
        &mut self,
        v: VertexId,
        wants: &[Want],
        exclusive: bool,
        aim: &Aim<'_>,
    ) -> Result<(), Miss> {
        let it = &self.model[v];
        if !aim.inventory && it.state() != State::Up {
            return Err(Miss::Busy);
        }
        let target = it.type_() == self.types.node || it.type_() == self.types.storage_node;
        if target && aim.constraint.is_some_and(|c| !self.meets(v, c)) {
            return Err(Miss::Busy);
        }
        if self.free(v, aim.start, aim.end) == 0 {
            return Err(Miss::Busy);
        }
        let type_ = it.type_();
        let mut alternatives = None;
        for want in wants {
            let slot = want.type_ == self.types.slot;
            if want.type_ != type_ && !slot {
                continue;
            }
            if !slot {
                self.check_exclusive(v, want, exclusive, aim)?;
            }
            let enough = self.enough_below(v, want, aim);
            if self.flexible && slot {
                alternatives = Some(enough || alternatives == Some(true));
            } else if !enough {
                return Err(Miss::Busy);
            }
        }
        // Of alternative slots one suffices.
        if alternatives == Some(false) { Err(Miss::Busy) } else { Ok(()) }
    }

    fn check_exclusive(
        &mut self,
        v: VertexId,
        want: &Want,
        exclusive: bool,
        aim: &Aim<'_>,
    ) -> Result<(), Miss> {
        if exclusive && want.exclusive == Some(false) {
            let name = self.model.text(self.model[v].name());
            let label = want.label.as_deref().unwrap_or("");
            self.messages += &format!("exclusivity conflicts at jobspec={label} : vertex={name}\n");
            return Err(Miss::Invalid);
        }
        if !exclusive && want.exclusive != Some(true) {
            return Ok(());
        }
        let Some(booking) = self.ledger.get(v) else { return Ok(()) };
        let late = aim.now && !booking.allocations.is_empty();
        if late || !booking.is_alone(aim.start, aim.end) { Err(Miss::Busy) } else { Ok(()) }
    }

    fn enough_below(&self, v: VertexId, want: &Want, aim: &Aim<'_>) -> bool {
        let Some(below) = self.aggregates.below(v) else { return true };
        if want.below.is_empty() {
            return true;
        }
        let need = |t: &Name| want.below.get(t).copied().unwrap_or(0);
        if below.types.iter().zip(&below.totals).any(|(t, &total)| need(t) > total) {
            return false;
        }
        let mut amounts: SmallVec<[i64; 8]> = SmallVec::new();
        amounts.push(0);
        amounts.extend(below.types.iter().map(need));
        self.ledger.get(v).is_none_or(|b| b.tags().fits(aim.start, aim.end, &amounts))
    }

    pub(super) fn meets(&self, v: VertexId, constraint: &Constraint) -> bool {
        struct Vertex<'m>(&'m Matcher, VertexId);
        impl Target for Vertex<'_> {
            fn host(&self) -> &str {
                self.0.model.text(self.0.model[self.1].name())
            }
            fn rank(&self) -> u32 {
                u32::try_from(self.0.model[self.1].rank().unwrap_or(-1)).unwrap_or(u32::MAX)
            }
            fn has_property(&self, name: &str) -> bool {
                self.0.model.property(self.1, name).is_some()
            }
        }
        constraint.matches(&Vertex(self, v))
    }
}
