//! The walk of a request and the graph together, with the choice on the way up.
//!
//! This module must never know how a selection is booked or printed.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use fluxgate_graph::description::{EdgeId, MODEL_DEPTH_MAX, Name, VertexId};
use smallvec::SmallVec;

use super::aim::{Aim, Shares, asks_exclusively};
use super::fullest::{Fullest, Fullness};
use super::matcher::{Mark, Matcher};
use super::op::Miss;
use super::policy::{CLASS_PROPERTY, CLASS_WORST, Policy, Prefer};
use super::request::Want;
use super::scores::{Group, Scores, Use};

/// The relation of a vertex to the next need.
enum Fit<'w> {
    /// It has the requested type; the walk goes on with the content of the need.
    Type(&'w [Want]),
    /// Slots of these shapes are filled below it, in this number.
    Slots(&'w [Want], u64),
    /// No need was met yet; the walk goes on with the whole request.
    NotYet,
    /// It does not match.
    No,
}

impl Matcher {
    /// Walks from the root and marks the selection.
    pub(super) fn select(&mut self, wants: &[Want], aim: &Aim<'_>, exclusive: bool) -> Result<(), Miss> {
        if let Some(result) = self.select_by_class(wants, aim, exclusive) {
            return result;
        }
        let result = self.select_by_walk(wants, aim, exclusive);
        self.end_offering();
        result
    }

    fn select_by_walk(&mut self, wants: &[Want], aim: &Aim<'_>, exclusive: bool) -> Result<(), Miss> {
        self.cut_off.clear();
        loop {
            if self.flexible {
                self.select_flexible(wants, aim, exclusive)?;
            } else {
                self.select_plain(wants, aim, exclusive)?;
            }
            if !aim.flow || self.find_ways(wants, aim) {
                return Ok(());
            }
        }
    }

    pub(super) fn select_plain(
        &mut self,
        wants: &[Want],
        aim: &Aim<'_>,
        exclusive: bool,
    ) -> Result<(), Miss> {
        self.begin_stand_ins(wants, aim);
        let result = self.select_from_root(wants, aim, exclusive);
        self.end_stand_ins(wants, aim);
        result
    }

    fn select_from_root(&mut self, wants: &[Want], aim: &Aim<'_>, exclusive: bool) -> Result<(), Miss> {
        self.begin();
        let (root, dominant) = (self.root, self.dominant);
        let mut found = Scores::default();
        let inside = self.visit(root, wants, true, exclusive, aim, &mut found, 0)?;
        let units = found.free;
        let type_ = self.model[root].type_();
        found.add(dominant, type_, Group::of(found.score, Use { edge: None, units, exclusive }));
        let chosen = self.settle_root(wants, &mut found);
        self.root_mark = Mark { round: self.round, exclusive: inside, units: chosen.unwrap_or(1) };
        chosen.map(drop).ok_or(Miss::Unsatisfiable)
    }

    /// The choice of the root. Returns the requested units of the root itself, or `None` if something is missing.
    pub(super) fn settle_root(&mut self, wants: &[Want], found: &mut Scores) -> Option<u64> {
        let (dominant, better) = (self.dominant, self.policy.better());
        let mut close = BTreeSet::new();
        for want in wants {
            let count = want.take(found.qualified(dominant, want.type_));
            if count == 0 {
                return None;
            }
            if self.policy.prefer == Prefer::Locality {
                found.choose_close(dominant, want.type_, count, &mut close);
            } else {
                found.choose(dominant, want.type_, count, better);
            }
        }
        let mut units = 1;
        let type_ = self.model[self.root].type_();
        for want in wants.iter().filter(|w| w.type_ == type_) {
            units = want.take(found.free);
            if units == 0 {
                return None;
            }
        }
        if self.subsystems.iter().any(|&s| found.of(s).any(|(_, f)| f.qualified == 0)) {
            return None;
        }
        for at in 0..self.subsystems.len() {
            let subsystem = self.subsystems[at];
            self.mark(subsystem, found, subsystem == dominant);
        }
        Some(units)
    }

    /// Visits a vertex; the groups found below are added to `to_parent`. True if it was visited as an exclusive one.
    #[expect(clippy::too_many_arguments, reason = "a recursion that carries its surroundings")]
    pub(super) fn visit(
        &mut self,
        v: VertexId,
        wants: &[Want],
        pristine: bool,
        exclusive: bool,
        aim: &Aim<'_>,
        to_parent: &mut Scores,
        depth: usize,
    ) -> Result<bool, Miss> {
        if depth > MODEL_DEPTH_MAX {
            return Err(Miss::Busy);
        }
        if let Some(known) = self.visit_by_class(v, wants, pristine, exclusive, aim, to_parent, depth) {
            return known;
        }
        let type_ = self.model[v].type_();
        let exclusive = exclusive || asks_exclusively(wants, type_);
        self.visits.0 += 1;
        let fit = self.fit(v, wants, pristine);
        if matches!(fit, Fit::No) {
            return Err(Miss::Busy);
        }
        self.prune(v, wants, exclusive, aim)?;
        if aim.flow && !self.flow_leads_to(v, wants, aim) {
            return Err(Miss::Busy);
        }
        let factor = self.enter(v)?;
        self.seen[v.index()] = self.round;
        let mut found = Scores::default();
        match fit {
            Fit::Slots(shapes, count) => self.fill_slots(v, shapes, count, aim, &mut found, depth),
            Fit::Type(inside) => self.explore_all(v, inside, false, exclusive, aim, &mut found, depth),
            Fit::NotYet | Fit::No => self.explore_all(v, wants, true, exclusive, aim, &mut found, depth),
        }
        self.factor -= factor;
        let free = self.free(v, aim.start, aim.end);
        if free == 0 || !self.finish(v, wants, &mut found) {
            return Err(Miss::Busy);
        }
        let score = found.score;
        if found.settled {
            for at in 0..self.subsystems.len() {
                self.mark(self.subsystems[at], &found, false);
            }
        } else {
            to_parent.merge(found);
        }
        (to_parent.free, to_parent.score) = (free, score);
        if let Some(label) = wants.iter().rev().find(|w| w.type_ == type_).and_then(|w| w.label.clone()) {
            self.labels.insert(v, label);
        }
        self.visits.1 += 1;
        Ok(exclusive)
    }

    /// The addend of a node to the scores of vertices inside it.
    fn enter(&mut self, v: VertexId) -> Result<i64, Miss> {
        let it = &self.model[v];
        if !self.policy.node_centric || it.type_() != self.types.node {
            return Ok(0);
        }
        let factor = Policy::node_factor(self.id(v), it.unique());
        self.factor = self.factor.checked_add(factor).ok_or(Miss::Busy)?;
        Ok(factor)
    }

    fn fit<'w>(&self, v: VertexId, wants: &'w [Want], pristine: bool) -> Fit<'w> {
        if self.flexible {
            return self.fit_flexible(v, wants, pristine);
        }
        let type_ = self.model[v].type_();
        let mut inside: Option<&Want> = None;
        let mut slot: Option<&Want> = None;
        let mut met = false;
        for want in wants {
            if want.type_ == type_ {
                inside = Some(want);
                slot = want.with.iter().rev().find(|w| w.type_ == self.types.slot).or(slot);
            } else if want.type_ == self.types.slot {
                slot = Some(want);
            } else {
                continue;
            }
            if std::mem::replace(&mut met, true) {
                // Two needs match at one vertex, which is ambiguous.
                return Fit::No;
            }
        }
        match (slot.filter(|slot| self.holds(v, slot)), inside) {
            (Some(slot), _) => Fit::Slots(std::slice::from_ref(slot), slot.enough()),
            (None, Some(want)) => Fit::Type(&want.with),
            (None, None) if pristine => Fit::NotYet,
            (None, None) => Fit::No,
        }
    }

    fn fit_flexible<'w>(&self, v: VertexId, wants: &'w [Want], pristine: bool) -> Fit<'w> {
        let type_ = self.model[v].type_();
        let mut inside: Option<&'w Want> = None;
        let mut slots: Option<(&'w [Want], u64)> = None;
        let mut or_met = false;
        for want in wants {
            if want.type_ == type_ {
                if inside.is_some() || or_met {
                    return Fit::No;
                }
                inside = Some(want);
                if let Some(last) = want.with.iter().rev().find(|w| w.type_ == self.types.slot) {
                    slots = Some((&want.with, last.enough()));
                }
            } else if want.type_ == self.types.slot {
                if inside.is_some() {
                    return Fit::No;
                }
                slots = Some((wants, want.enough()));
                or_met = true;
            }
        }
        match (slots, inside) {
            (Some((shapes, count)), _) if shapes.iter().any(|s| self.holds(v, s)) => {
                Fit::Slots(shapes, count)
            }
            (None, Some(want)) => Fit::Type(&want.with),
            _ if pristine => Fit::NotYet,
            _ => Fit::No,
        }
    }

    /// True if every type in a slot is the type of a neighbour.
    fn holds(&self, v: VertexId, slot: &Want) -> bool {
        if let Some(types) = self.classes.frame().and_then(|frame| frame.leads.get(&v)) {
            return slot.with.iter().all(|want| types.contains(&want.type_));
        }
        slot.with.iter().all(|want| {
            let to = |e: EdgeId| self.model[e].to;
            self.model.out_edges(v).any(|e| self.model[to(e)].type_() == want.type_)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "a recursion that carries its surroundings")]
    fn explore_all(
        &mut self,
        v: VertexId,
        wants: &[Want],
        pristine: bool,
        exclusive: bool,
        aim: &Aim<'_>,
        found: &mut Scores,
        depth: usize,
    ) {
        for at in 0..self.subsystems.len() {
            let subsystem = self.subsystems[at];
            self.explore(v, subsystem, wants, pristine, exclusive, aim, found, 1, depth);
        }
    }

    /// Visits the neighbours in a subsystem, and keeps those that qualified. False if none did.
    #[expect(clippy::too_many_arguments, reason = "a recursion that carries its surroundings")]
    pub(super) fn explore(
        &mut self,
        v: VertexId,
        subsystem: Name,
        wants: &[Want],
        pristine: bool,
        exclusive: bool,
        aim: &Aim<'_>,
        found: &mut Scores,
        shares: u64,
        depth: usize,
    ) -> bool {
        if self.model.first_out(v).is_none() {
            return false;
        }
        let first = self.policy.first_match;
        let order = first.then(|| self.fullest_first(v));
        // In the order of the list if there is one, else along the chain of edges.
        let mut few = if first { self.few_offers(v).map(Vec::into_iter) } else { None };
        let mut listed = order.as_deref().map(Fullest::iter);
        let mut chain = self.model.first_out(v);
        let mut tallies: SmallVec<[(Name, Shares); 2]> = SmallVec::new();
        for want in wants.iter().filter(|_| first) {
            // Of two needs of one type the last counts.
            tallies.retain(|(type_, _)| *type_ != want.type_);
            tallies.push((want.type_, Shares::of(want.enough())));
        }
        let mut done: SmallVec<[Name; 2]> = SmallVec::new();
        let mut any = false;
        loop {
            let edge = match (&mut few, &mut listed) {
                (Some(few), _) => few.next(),
                (None, Some(list)) => list.next().map(|it| it.edge),
                (None, None) => chain,
            };
            let Some(edge) = edge else { break };
            let it = self.model[edge];
            chain = self.model.next_out(edge);
            let dominant = subsystem == self.dominant;
            if it.subsystem != subsystem || (dominant && self.seen[it.to.index()] == self.round) {
                continue;
            }
            let type_ = self.model[it.to].type_();
            if done.contains(&type_) {
                continue;
            }
            let named = |want: &Want| want.type_ == type_ || want.type_ == self.types.slot;
            if dominant && !pristine && !wants.iter().any(named) {
                // A visit would refuse at once.
                self.visits.0 += 1;
                continue;
            }
            if dominant && !self.may_offer(it.to) {
                continue;
            }
            let visited = if dominant {
                self.visit(it.to, wants, pristine, exclusive, aim, found, depth + 1)
            } else {
                self.visit_beside(it.to, subsystem, wants, pristine, exclusive, aim, depth + 1)
            };
            let Ok(exclusive) = visited else { continue };
            any = true;
            let (score, count) = (found.score, found.free);
            found.add(subsystem, type_, Group::of(score, Use { edge: Some(edge), units: count, exclusive }));
            if !first {
                continue;
            }
            for (type_, tally) in &mut tallies {
                let total = found.total(subsystem, *type_);
                if total > tally.seen {
                    let new = total - std::mem::replace(&mut tally.seen, total);
                    tally.add(new);
                }
                if tally.enough(shares) && !done.contains(type_) {
                    done.push(*type_);
                }
            }
            if tallies.iter().all(|(_, tally)| tally.enough(shares)) {
                break;
            }
        }
        any
    }

    /// Visits a vertex of a subsystem that is not the dominant one, and its neighbours there.
    #[expect(clippy::too_many_arguments, reason = "a recursion that carries its surroundings")]
    fn visit_beside(
        &mut self,
        v: VertexId,
        subsystem: Name,
        wants: &[Want],
        pristine: bool,
        exclusive: bool,
        aim: &Aim<'_>,
        depth: usize,
    ) -> Result<bool, Miss> {
        if depth > MODEL_DEPTH_MAX {
            return Err(Miss::Busy);
        }
        self.prune(v, wants, exclusive, aim)?;
        if self.model.root_of(subsystem) != Some(v) {
            let mut found = Scores::default();
            self.explore(v, subsystem, wants, pristine, exclusive, aim, &mut found, 1, depth);
        }
        Ok(exclusive)
    }

    /// Fills slots below a vertex; each slot is offered as one group.
    fn fill_slots(
        &mut self,
        v: VertexId,
        shapes: &[Want],
        count: u64,
        aim: &Aim<'_>,
        found: &mut Scores,
        depth: usize,
    ) {
        if self.flexible {
            return self.fill_alternatives(v, shapes, count, aim, found, depth);
        }
        let (dominant, better) = (self.dominant, self.policy.better());
        let [slot] = shapes else { return };
        let mut inside = Scores::default();
        if !self.explore(v, dominant, &slot.with, false, true, aim, &mut inside, count, depth) {
            return;
        }
        inside.choose_all(dominant, better);
        let mut fit = u64::MAX;
        for want in &slot.with {
            let per_slot = want.take(inside.qualified(dominant, want.type_));
            let mut shares = Shares::of(per_slot);
            for group in inside.get(dominant, want.type_).map_or(&[][..], |f| &f.groups) {
                shares.add(group.units());
            }
            fit = fit.min(shares.full);
        }
        for _ in 0..fit {
            let Some(group) = self.take_slot(slot, &mut inside) else { return };
            found.add(dominant, self.types.slot, group);
        }
    }

    /// Makes the next slot from the groups found for it.
    pub(super) fn take_slot(&self, slot: &Want, inside: &mut Scores) -> Option<Group> {
        let mut group = Group::slot();
        for want in &slot.with {
            let count = want.take(inside.qualified(self.dominant, want.type_));
            let mut taken = 0;
            while taken < count {
                let next = inside.get_mut(self.dominant, want.type_)?.next()?;
                let units = next.units();
                group.score = group.score.saturating_add(next.score);
                group.push(Use { exclusive: true, ..next.first? });
                taken = taken.saturating_add(units);
            }
        }
        Some(group)
    }

    /// The choice of a vertex among the groups found below it. False if there are too few.
    pub(super) fn finish(&mut self, v: VertexId, wants: &[Want], found: &mut Scores) -> bool {
        let (dominant, better) = (self.dominant, self.policy.better());
        let it = &self.model[v];
        let mut met = true;
        for want in wants.iter().filter(|w| w.type_ == it.type_()) {
            for inside in &want.with {
                let count = inside.take(found.qualified(dominant, inside.type_));
                if count == 0 {
                    met = false;
                    break;
                }
                found.choose(dominant, inside.type_, count, better);
            }
        }
        found.score = match (met, self.policy.prefer) {
            (false, _) => 0,
            (true, Prefer::Variation) => {
                let class = self.model.property(v, CLASS_PROPERTY).and_then(|c| c.parse().ok());
                1 + class.filter(|c| (0..=CLASS_WORST).contains(c)).unwrap_or(CLASS_WORST)
            }
            (true, _) => self.factor.saturating_add(self.id(v)).saturating_add(2),
        };
        met
    }

    /// Marks the edges of the selection; at the root also those to it.
    pub(super) fn mark(&mut self, subsystem: Name, found: &Scores, up_to_root: bool) {
        for (_, it) in found.of(subsystem) {
            for used in it.groups[..it.chosen].iter().flat_map(Group::uses) {
                let Some(edge) = used.edge else { continue };
                let (units, exclusive) = (used.units, used.exclusive);
                self.set_mark(edge, exclusive, units);
                if up_to_root {
                    self.mark_above(subsystem, found, edge);
                }
            }
        }
    }

    fn mark_above(&mut self, subsystem: Name, found: &Scores, edge: EdgeId) {
        let mut at = self.model[edge].from;
        while let Some(above) = self.model.in_edge(at, subsystem) {
            if self.marks[above.index()].round == self.round {
                break;
            }
            let it = &self.model[at];
            let free = found.get(subsystem, it.type_()).is_some_and(|f| f.chosen == 0);
            if free {
                let size = it.size();
                self.set_mark(above, false, size);
            }
            at = self.model[above].from;
        }
    }

    /// The edges from a vertex, in descending order of the free units behind them at the last booking.
    fn fullest_first(&mut self, v: VertexId) -> Arc<Fullest> {
        if let Some(list) = self.fullest.get(&v) {
            return list.clone();
        }
        let mut list = Vec::new();
        for edge in self.model.out_edges(v) {
            let unique = Reverse(self.model[self.model[edge].to].unique());
            let turn = i64::from(edge.0);
            self.turns[edge.index()] = turn;
            list.push(Fullness { weight: Reverse(self.weights[edge.index()]), unique, turn, edge });
        }
        let list = Arc::new(Fullest::new(list));
        self.fullest.insert(v, list.clone());
        list
    }
}
