//! Matching inside one node: whether a vector of free counts satisfies a need, how often, and with which takes.
//!
//! The answer is a function of template and vector, so a caller queries once for all nodes that share both. Needs of
//! plain counts, and of slots of them on a node, are divisions. Any other need is a walk over the template that takes matching vertices in order,
//! vertices before leaves. The walk does not undo choices: among nested alternatives of unequal size it may miss a
//! placement.
//!
//! This module must never know a node, a time or a job.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::description::names::Name;
use crate::description::units;
use crate::layout::graph::Graph;
use crate::layout::template::{NodeTemplate, TemplateSlot};
use crate::live::prefer;
use crate::live::request::{Level, Need};
use crate::live::share::{Share, Taken, give, is_exclusive, take};

/// Most steps of a walk through one node; then the need counts as not satisfied. Needs of plain counts take no step,
/// nested ones a few for each slot.
const QUESTIONS_MAX: u32 = 1 << 16;

/// Takes of the whole node.
pub(crate) fn everything(template: &NodeTemplate) -> Vec<Taken> {
    let share = |slot: &TemplateSlot| if slot.leaf { Share::Units(slot.units) } else { Share::Exclusive };
    template.slots.iter().enumerate().map(|(at, slot)| Taken { at: at as u32, share: share(slot) }).collect()
}

/// The placement of a need on one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Placed {
    pub(crate) taken: SmallVec<[Taken; 2]>,
    pub(crate) slots: u64,
}

/// How often `need` (a slot, a vertex inside the node, or the node itself) fits on a node, at most `limit`.
pub(crate) fn capacity(
    graph: &Graph,
    template: &NodeTemplate,
    state: &[u64],
    need: &Need,
    limit: u64,
) -> u64 {
    let target = match need.level {
        Level::Node if !template.node => need.type_ == template.slots[0].type_,
        Level::Node => need.type_ == graph.node,
        _ => template.node,
    };
    if !target || (need.level == Level::Node && need.exclusive && state != &*template.idle) {
        return 0;
    }
    if let Some(flat) = &need.flat {
        let limit = if need.level == Level::Node { 1 } else { limit };
        if flat.is_empty() && is_exclusive(state[0]) {
            return 0;
        }
        return flat
            .iter()
            .fold(limit, |n, &(type_, per)| n.min(template.units_of(state, type_) / per.max(1)));
    }
    if let Some((slots, flat)) = need.slots_of_counts() {
        let fits = |&(type_, per): &(Name, u64)| template.units_of(state, type_) >= per.saturating_mul(slots);
        return u64::from(!is_exclusive(state[0]) && flat.iter().all(fits));
    }
    Walk::new(graph, template, state, false).repeat(need, limit)
}

/// The position and the units of a need that takes units of one vertex of a node, as most needs do; `None` for any other need. It is
/// placed there as [`place`] does it, in which it makes no difference from which end is taken.
pub(crate) fn one_vertex(template: &NodeTemplate, need: &Need) -> Option<(u32, u64)> {
    let [(type_, per)] = need.flat.as_deref()? else { return None };
    let [at] = template.leaves.get(type_)?.as_slice() else { return None };
    let whole = need.level == Level::Node && need.exclusive;
    (!whole && *per > 0).then_some((*at, *per))
}

/// Places `need` `count` times on a node where it fits. `high` takes from the far end, `near` close together.
pub(crate) fn place(
    graph: &Graph,
    template: &NodeTemplate,
    state: &[u64],
    need: &Need,
    count: u64,
    (high, near): (bool, bool),
) -> Placed {
    let mut walk = Walk::new(graph, template, state, high);
    walk.near = near.then(|| prefer::depths(template));
    if need.level == Level::Node && need.exclusive {
        // The whole node is taken; the content of the need gives the number of slots.
        let slots = if walk.all(0, &need.with) { walk.slots } else { 0 };
        return Placed { taken: everything(template).into(), slots };
    }
    match &need.flat {
        Some(flat) if near && !flat.is_empty() => {
            let slots = if need.slot { count } else { 0 };
            return Placed { taken: prefer::near_inside(template, state, flat, count).into(), slots };
        }
        // Only counts of leaves: one division.
        Some(flat) if !flat.is_empty() => {
            for &(type_, per) in flat {
                walk.units(type_, per.saturating_mul(count));
            }
            walk.slots = if need.slot { count } else { 0 };
        }
        _ => match need.slots_of_counts().filter(|_| !near) {
            Some((slots, flat)) => {
                for &(type_, per) in flat {
                    walk.units(type_, per.saturating_mul(slots));
                }
                walk.slots = slots;
            }
            None => {
                walk.repeat(need, count);
                walk.grow();
            }
        },
    }
    walk.done()
}

/// Capacity and place of one node by the walk alone, for tests of the divisions.
#[cfg(test)]
pub(crate) fn walked(
    graph: &Graph,
    template: &NodeTemplate,
    state: &[u64],
    need: &Need,
    high: bool,
) -> (u64, Placed) {
    let fits = Walk::new(graph, template, state, false).repeat(need, 1);
    let mut walk = Walk::new(graph, template, state, high);
    walk.repeat(need, 1);
    walk.grow();
    (fits, walk.done())
}

struct Walk<'a> {
    graph: &'a Graph,
    template: &'a NodeTemplate,
    state: SmallVec<[u64; 8]>,
    high: bool,
    /// Depth of nested slots; inside more than one, a range takes its least count first.
    frugal: u32,
    questions: u32,
    taken: SmallVec<[Taken; 2]>,
    slots: u64,
    /// Leaves with a range of counts: need, scope, count so far.
    open: Vec<(&'a Need, u32, u64)>,
    /// The depth of each vertex, if slots are to have their leaves close together.
    near: Option<Vec<u32>>,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, template: &'a NodeTemplate, state: &[u64], high: bool) -> Self {
        Walk {
            graph,
            template,
            state: SmallVec::from_slice(state),
            high,
            frugal: 0,
            questions: 0,
            taken: SmallVec::new(),
            slots: 0,
            open: Vec::new(),
            near: None,
        }
    }

    fn done(mut self) -> Placed {
        // Shares of equal position are merged.
        self.taken.sort_by_key(|t| t.at);
        let mut merged: SmallVec<[Taken; 2]> = SmallVec::new();
        for t in self.taken {
            match (merged.last_mut(), t.share) {
                (Some(Taken { at, share: Share::Units(n) }), Share::Units(more)) if *at == t.at => *n += more,
                (Some(last), Share::Shared) if *last == t => {}
                _ => merged.push(t),
            }
        }
        Placed { taken: merged, slots: self.slots }
    }

    /// Places a need at the level of the node up to `limit` times; returns how often.
    fn repeat(&mut self, need: &'a Need, limit: u64) -> u64 {
        match need.level {
            Level::Node => u64::from(self.node(need)),
            _ => self.find(0, need, limit),
        }
    }

    fn node(&mut self, need: &'a Need) -> bool {
        if is_exclusive(self.state[0]) {
            return false;
        }
        if need.with.is_empty() {
            return self.take(0, Share::Shared);
        }
        self.all(0, &need.with)
    }

    fn take(&mut self, at: u32, share: Share) -> bool {
        let ok = take(&mut self.state[at as usize], share);
        if ok {
            self.taken.push(Taken { at, share });
        }
        ok
    }

    /// Returns to an earlier point.
    fn undo(&mut self, mark: (usize, u64, usize)) {
        for t in self.taken.drain(mark.0..) {
            give(&mut self.state[t.at as usize], t.share);
        }
        self.slots = mark.1;
        self.open.truncate(mark.2);
    }

    fn mark(&self) -> (usize, u64, usize) {
        (self.taken.len(), self.slots, self.open.len())
    }

    /// Places every need of a list below `scope`, or none.
    fn all(&mut self, scope: u32, needs: &'a [Need]) -> bool {
        let mark = self.mark();
        // Needs with a vertex of their own go first; counts of leaves take the rest.
        let mut order: Vec<&'a Need> = needs.iter().collect();
        order.sort_by_key(|n| Reverse((n.whole, !n.with.is_empty())));
        for need in order {
            let limit =
                if self.frugal > 0 || need.is_leafy(self.template) { need.min() } else { need.limit() };
            let before = self.mark();
            let found = self.find(scope, need, limit);
            match need.best(found) {
                Some(best) if best == found => {}
                Some(best) => {
                    // The number found is no allowed count. The walk is repeated for the next smaller allowed count.
                    self.undo(before);
                    self.find(scope, need, best);
                }
                None => {
                    self.undo(mark);
                    return false;
                }
            }
        }
        true
    }

    fn find(&mut self, scope: u32, need: &'a Need, limit: u64) -> u64 {
        self.questions += 1;
        if self.questions > QUESTIONS_MAX {
            return 0;
        }
        if need.slot { self.slot(scope, need, limit) } else { self.vertices(scope, need, limit) }
    }

    fn slot(&mut self, scope: u32, need: &'a Need, limit: u64) -> u64 {
        let several = u32::from(limit != 1);
        let counts = u64::from(need.is_task_slot());
        self.frugal += several;
        let mut found = 0;
        while found < limit {
            let before = self.taken.len();
            self.slots += counts;
            let part = self.closest(scope, &need.with);
            if !(part.is_some_and(|part| self.all(part, &need.with)) || self.all(scope, &need.with)) {
                self.slots -= counts;
                break;
            }
            found += 1;
            if self.taken[before..].iter().all(|t| t.share == Share::Shared) {
                // The need takes nothing that could run out, so it fits as often as necessary.
                let rest = limit.min(need.min()).saturating_sub(found);
                self.slots = self.slots.saturating_add(rest * counts);
                found += rest;
                break;
            }
        }
        self.frugal -= several;
        found
    }

    /// The deepest vertex below `scope` with enough of these leaves, of equal ones the fullest; `None` if it makes no
    /// difference.
    fn closest(&mut self, scope: u32, needs: &[Need]) -> Option<u32> {
        let depths = self.near.as_ref()?;
        if !needs.iter().all(|need| need.is_leafy(self.template)) {
            return None;
        }
        let free = |at: u32, need: &Need| prefer::units(self.template, &self.state, at as usize, need.type_);
        let end = self.template.slots[scope as usize].end;
        self.questions = self.questions.saturating_add((end - scope) / 64);
        (scope + 1..end)
            .filter(|&at| !self.template.slots[at as usize].leaf && !is_exclusive(self.state[at as usize]))
            .filter(|&at| needs.iter().all(|need| free(at, need) >= need.min()))
            .max_by_key(|&at| {
                let spare = needs.iter().map(|need| free(at, need)).fold(0, u64::saturating_add);
                (depths[at as usize], Reverse(spare), Reverse(at))
            })
    }

    /// Positions of a type below `scope`, not nested in one another, in order.
    fn positions(&self, scope: u32, need: &Need) -> Vec<u32> {
        let end = self.template.slots[scope as usize].end;
        let mut list = Vec::new();
        let mut at = scope + 1;
        while at < end {
            let slot = &self.template.slots[at as usize];
            if slot.type_ == need.type_ {
                list.push(at);
                at = slot.end;
            } else {
                at += 1;
            }
        }
        if self.high {
            list.reverse();
        }
        list
    }

    fn vertices(&mut self, scope: u32, need: &'a Need, limit: u64) -> u64 {
        let positions = self.positions(scope, need);
        let leaf = |at: u32| self.template.slots[at as usize].leaf;
        if need.with.is_empty() && positions.iter().all(|&at| leaf(at)) {
            return self.leaves(scope, need, limit, &positions);
        }
        let mut found = 0;
        for at in positions {
            if found == limit {
                break;
            }
            found += u64::from(self.vertex(at, need));
        }
        found
    }

    fn vertex(&mut self, at: u32, need: &'a Need) -> bool {
        let slot = &self.template.slots[at as usize];
        if slot.leaf {
            return false;
        }
        let range = at as usize..slot.end as usize;
        if need.exclusive {
            if self.state[range.clone()] != self.template.idle[range.clone()] {
                return false;
            }
            let mark = self.mark();
            if !self.all(at, &need.with) {
                return false;
            }
            let slots = self.slots;
            self.undo(mark);
            self.slots = slots;
            for at in range {
                let slot = &self.template.slots[at];
                self.take(at as u32, if slot.leaf { Share::Units(slot.units) } else { Share::Exclusive });
            }
            return true;
        }
        if is_exclusive(self.state[at as usize]) {
            return false;
        }
        if need.with.is_empty() { self.take(at, Share::Shared) } else { self.all(at, &need.with) }
    }

    /// Units of leaves below `scope`: up to `limit`, or none if there are fewer than the least count.
    fn leaves(&mut self, scope: u32, need: &'a Need, limit: u64, positions: &[u32]) -> u64 {
        let mark = self.mark();
        let mut found = 0u64;
        for &at in positions {
            if found >= limit {
                break;
            }
            let slot = &self.template.slots[at as usize];
            let Some(scale) = units::scale(&need.unit, self.graph.text(slot.unit)) else { continue };
            let free = self.state[at as usize];
            let whole = need.whole && slot.sized;
            if whole && free != slot.units {
                continue;
            }
            // In units of the pool, rounded up: 1 GB of a pool counted in GiB takes a whole one.
            let want = if whole { free } else { scale.pool_units(limit - found).min(free) };
            if want == 0 {
                continue;
            }
            let got = scale.request_units(want).min(limit - found);
            self.take(at, Share::Units(want));
            found += got;
        }
        if found < need.min() {
            self.undo(mark);
            return 0;
        }
        if !need.whole && need.count.fixed().is_none() && found < need.limit() {
            self.open.push((need, scope, found));
        }
        found
    }

    /// Takes units of a leaf type anywhere on the node.
    fn units(&mut self, type_: Name, mut count: u64) {
        let template = self.template;
        let Some(positions) = template.leaves.get(&type_) else { return };
        let mut one = |this: &mut Self, at: u32| {
            let n = count.min(this.state[at as usize]);
            if n > 0 {
                this.take(at, Share::Units(n));
                count -= n;
            }
        };
        if self.high {
            positions.iter().rev().for_each(|&at| one(self, at));
        } else {
            positions.iter().for_each(|&at| one(self, at));
        }
    }

    /// Adds leaves to needs with a range of counts, as long as some are free.
    fn grow(&mut self) {
        for (need, scope, have) in std::mem::take(&mut self.open) {
            let positions = self.positions(scope, need);
            let free = positions.iter().map(|&at| self.state[at as usize]).fold(0, u64::saturating_add);
            let Some(best) = need.best(have.saturating_add(free)) else { continue };
            let mut more = best.saturating_sub(have);
            for at in positions {
                let n = more.min(self.state[at as usize]);
                if n > 0 {
                    self.take(at, Share::Units(n));
                    more -= n;
                }
            }
        }
    }
}

impl Need {
    /// Of a node with a fixed number of slots that are counts, as most jobs ask for: that number, and the counts in a slot. `None`
    /// where a walk might end at its bound.
    fn slots_of_counts(&self) -> Option<(u64, &[(Name, u64)])> {
        let [slot] = self.with.as_slice() else { return None };
        let flat =
            slot.flat.as_deref().filter(|flat| self.level == Level::Node && slot.slot && !flat.is_empty())?;
        let steps = slot.with.len() as u64 + 2;
        let slots = slot.count.fixed().filter(|slots| slots.saturating_mul(steps) <= QUESTIONS_MAX.into())?;
        Some((slots, flat))
    }

    /// True if its type is a leaf everywhere in this template, so that more of it can be added at the end.
    fn is_leafy(&self, template: &NodeTemplate) -> bool {
        self.with.is_empty() && !self.slot && !self.whole && template.leaves.contains_key(&self.type_)
    }
}
