//! Classes of nodes: nodes in the same condition, of which a search examines only one.
//!
//! Nodes with the same template are in one class if equal parts of them have equal states and equal bookings over the
//! same times, by any jobs. A request finds the same resources in each of them, so it is tried on one node of each
//! class, and the number of nodes of a class is known. The nodes of a class are sorted by id, so the lowest and the
//! highest are found at constant cost. After a booking, the nodes that it touched change their class, at a cost
//! proportional to their content.
//!
//! This module must never know requests.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_graph::description::{Model, Name, State, VertexId};
use foldhash::HashMap;
use smallvec::SmallVec;

use super::frame::{Frame, Place};
use super::fullest::Fullness;
use super::ledger::{Booking, Ledger, Touched};
use super::policy::CLASS_PROPERTY;

/// Most kinds of bookings, and most classes, that are kept.
const KNOWN_MAX: usize = 1 << 18;

/// Most changes of class that are kept.
const MOVES_MAX: usize = 1 << 16;

/// Number of a class; never reused.
pub(super) type ClassId = u64;

/// The rank of a node in its class: by id, then by a tie-break between nodes of equal id.
pub(super) type Rank = (i64, i64, u32);

/// Nodes by id and by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    pub(super) ranks: BTreeSet<Rank>,
    /// Stretches by number: the first node of each, and the last before a gap. Kept only for preferences that use
    /// them.
    pub(super) stretches: BTreeMap<u32, u32>,
}

/// A class of nodes.
#[derive(Debug, Clone)]
pub(super) struct Class {
    key: Box<[u32]>,
    pub(super) members: Members,
    /// True if a vertex above the nodes is not up.
    pub(super) blocked: bool,
}

/// The nodes of a tree by class; see the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Classes {
    frame: Option<Frame>,
    graded: bool,
    stretched: bool,
    class_of: Vec<ClassId>,
    all: BTreeMap<ClassId, Class>,
    by_key: HashMap<Box<[u32]>, ClassId>,
    next: ClassId,
    /// Conditions of single vertices.
    conditions: HashMap<Box<[i64]>, u32>,
    /// The last lookup; parts of a node are mostly equal.
    last: (Vec<i64>, u32),
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    /// The latest nodes that changed their class, and the number of earlier changes.
    moves: Vec<u32>,
    moved: u64,
    /// Vertices that are not up.
    down: BTreeSet<VertexId>,
    upper_held: BTreeSet<VertexId>,
    /// Numbers of nodes of each class among the children of each vertex.
    below: HashMap<VertexId, BTreeMap<ClassId, u32>>,
    /// The parts of each node that are no longer visited in the order of their edges: the vertex above, the free
    /// units, and the position. Kept only for preferences that stop at the first match.
    arranged: HashMap<u32, Vec<(VertexId, Fullness, u32)>>,
}

impl Members {
    /// Adds nodes.
    pub(super) fn extend(&mut self, mut ranks: Vec<Rank>, stretched: bool) {
        if stretched {
            ranks.iter().for_each(|&(_, _, node)| self.stretch(node));
        }
        if self.ranks.is_empty() {
            ranks.sort_unstable();
            self.ranks = ranks.into_iter().collect();
        } else {
            self.ranks.extend(ranks);
        }
    }

    pub(super) fn remove(&mut self, rank: &Rank, stretched: bool) {
        self.ranks.remove(rank);
        if stretched {
            self.unstretch(rank.2);
        }
    }

    /// True if one of them has a number in `from..to`.
    pub(super) fn any_in(&self, from: u32, to: u32) -> bool {
        self.stretches.range(..to).next_back().is_some_and(|(_, &last)| last >= from)
    }

    /// The numbers in `from..to`, in order.
    pub(super) fn numbers(&self, from: u32, to: u32) -> impl Iterator<Item = u32> {
        let first = self.stretches.range(..from).next_back();
        let others = self.stretches.range(from..to.max(from));
        let all = first.into_iter().chain(others);
        all.flat_map(move |(&first, &last)| first.max(from)..last.saturating_add(1).min(to))
    }

    /// Adds a node to the stretches.
    fn stretch(&mut self, node: u32) {
        let mut from = node;
        let before = self.stretches.range_mut(..node).next_back();
        if let Some((&before, last)) = before.filter(|(_, last)| **last + 1 == node) {
            (*last, from) = (node, before);
        }
        let joined = node.checked_add(1).and_then(|next| self.stretches.remove(&next));
        if from == node || joined.is_some() {
            self.stretches.insert(from, joined.unwrap_or(node));
        }
    }

    /// Removes a node from the stretches.
    fn unstretch(&mut self, node: u32) {
        let Some((&from, last)) = self.stretches.range_mut(..=node).next_back() else { return };
        let old = *last;
        if old < node {
            return;
        }
        if from == node {
            self.stretches.remove(&from);
        } else {
            *last = node - 1;
        }
        if node < old {
            self.stretches.insert(node + 1, old);
        }
    }
}

/// The number of no class.
const UNKNOWN: ClassId = 0;
/// Kinds of words in a key, in the high bits of a position.
const STATE: u32 = 1 << 30;
const GRADE: u32 = 1 << 31;
const ARRANGED: u32 = STATE | GRADE;

impl Classes {
    /// Starts with a frame; every node must be classified. With `graded` performance classes are part of the
    /// condition; with `stretched` stretches of nodes are kept.
    pub(super) fn new(frame: Option<Frame>, graded: bool, stretched: bool) -> Self {
        let count = frame.as_ref().map_or(0, |f| f.sites.len());
        let down = frame.as_ref().map_or(BTreeSet::new(), |f| f.down.clone());
        Classes {
            frame,
            down,
            graded,
            stretched,
            class_of: vec![UNKNOWN; count],
            next: UNKNOWN + 1,
            dirty: (0..count as u32).collect(),
            is_dirty: vec![true; count],
            ..Classes::default()
        }
    }

    /// The frame, if the graph has one and no job holds a vertex above the nodes: then classes decide alone.
    pub(super) fn usable(&self) -> Option<&Frame> {
        self.frame.as_ref().filter(|_| self.upper_held.is_empty())
    }

    /// The frame, if the graph has one.
    pub(super) fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// Removes the frame for a while; [`Classes::give_frame`] puts it back.
    pub(super) fn take_frame(&mut self) -> Option<Frame> {
        self.frame.take()
    }

    pub(super) fn give_frame(&mut self, frame: Frame) {
        self.frame = Some(frame);
    }

    /// All classes with nodes, in the order of their creation.
    pub(super) fn all(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        self.all.iter().map(|(&id, class)| (id, class))
    }

    pub(super) fn get(&self, id: ClassId) -> Option<&Class> {
        self.all.get(&id)
    }

    /// Numbers of nodes of each class among the children of a vertex.
    pub(super) fn right_below(&self, v: VertexId) -> impl Iterator<Item = (ClassId, u32)> {
        self.below.get(&v).into_iter().flatten().map(|(&class, &count)| (class, count))
    }

    /// The class of a node.
    pub(super) fn of(&self, node: u32) -> ClassId {
        self.class_of[node as usize]
    }

    /// Number of changes of class so far.
    pub(super) fn moves(&self) -> u64 {
        self.moved + self.moves.len() as u64
    }

    /// The nodes that changed their class after this number of changes; `None` if too many changes followed.
    pub(super) fn moved_since(&self, before: u64) -> Option<&[u32]> {
        self.moves.get(usize::try_from(before.checked_sub(self.moved)?).ok()?..)
    }

    /// Classifies again the nodes that may have changed.
    pub(super) fn refresh(&mut self, model: &Model, dominant: Name, ledger: &mut Ledger) {
        let touched = ledger.take_touched();
        let Some(frame) = self.frame.take() else { return };
        match touched {
            Touched::These(list) => {
                for v in list {
                    self.look(&frame, ledger, v);
                }
            }
            Touched::Anything => {
                for v in model.vertices() {
                    self.look(&frame, ledger, v);
                }
            }
        }
        if self.by_key.len() > KNOWN_MAX || self.conditions.len() > KNOWN_MAX {
            let (down, held) = (std::mem::take(&mut self.down), std::mem::take(&mut self.upper_held));
            let arranged = std::mem::take(&mut self.arranged);
            let (next, moved) = (self.next, self.moved + self.moves.len() as u64 + 1);
            *self = Classes::new(Some(frame.clone()), self.graded, self.stretched);
            (self.down, self.upper_held, self.next, self.moved) = (down, held, next, moved);
            self.arranged = arranged;
        }
        let dirty = std::mem::take(&mut self.dirty);
        let mut joined: BTreeMap<ClassId, Vec<Rank>> = BTreeMap::new();
        let mut key: Vec<u32> = Vec::new();
        let mut words: Vec<i64> = Vec::new();
        for &node in &dirty {
            self.is_dirty[node as usize] = false;
            self.key(&frame, model, dominant, ledger, node, &mut key, &mut words);
            let old = self.class_of[node as usize];
            let id = match self.by_key.get(&*key) {
                Some(&id) => id,
                None => {
                    let id = self.next;
                    self.next += 1;
                    self.by_key.insert(key.as_slice().into(), id);
                    let blocked = key[1] != 0;
                    let key = key.as_slice().into();
                    self.all.insert(id, Class { key, members: Members::default(), blocked });
                    id
                }
            };
            if id == old {
                continue;
            }
            let site = &frame.sites[node as usize];
            let rank = site.place_by_id(node);
            self.leave(old, &rank);
            let below = self.below.entry(site.parent).or_default();
            if let Some(count) = below.get_mut(&old) {
                *count -= 1;
                if *count == 0 {
                    below.remove(&old);
                }
            }
            *below.entry(id).or_default() += 1;
            self.class_of[node as usize] = id;
            if self.moves.len() >= MOVES_MAX {
                self.moved += self.moves.len() as u64;
                self.moves.clear();
            }
            self.moves.push(node);
            joined.entry(id).or_default().push(rank);
        }
        for (id, ranks) in joined {
            if let Some(class) = self.all.get_mut(&id) {
                class.members.extend(ranks, self.stretched);
            }
        }
        self.frame = Some(frame);
    }

    /// Notes the state of a vertex.
    pub(super) fn set_state(&mut self, v: VertexId, state: State) {
        let down = state != State::Up;
        let changed = if down { self.down.insert(v) } else { self.down.remove(&v) };
        // A vertex that is not up may change to another such state.
        if !changed && !down {
            return;
        }
        let Some(frame) = self.frame.take() else { return };
        match frame.place(v) {
            Place::Node(node) => self.soil(node),
            Place::Upper => frame.below(v).for_each(|node| self.soil(node)),
            Place::Nowhere => {}
        }
        self.frame = Some(frame);
    }

    fn look(&mut self, frame: &Frame, ledger: &Ledger, v: VertexId) {
        match frame.place(v) {
            Place::Node(node) => self.soil(node),
            Place::Nowhere => {}
            Place::Upper => {
                if ledger.get(v).is_some_and(|b| !b.units.is_empty()) {
                    self.upper_held.insert(v);
                } else {
                    self.upper_held.remove(&v);
                }
            }
        }
    }

    fn soil(&mut self, node: u32) {
        if !std::mem::replace(&mut self.is_dirty[node as usize], true) {
            self.dirty.push(node);
        }
    }

    fn leave(&mut self, id: ClassId, rank: &Rank) {
        let Some(class) = self.all.get_mut(&id) else { return };
        class.members.remove(rank, self.stretched);
    }

    /// Drops classes without nodes, once there are many.
    pub(super) fn sweep(&mut self) {
        if self.all.len() < 64 + 2 * self.class_of.len().min(1 << 12) {
            return;
        }
        let empty: Vec<ClassId> =
            self.all.iter().filter(|(_, c)| c.members.ranks.is_empty()).map(|(&id, _)| id).collect();
        for id in empty {
            if let Some(class) = self.all.remove(&id) {
                self.by_key.remove(&class.key);
            }
        }
    }

    /// The condition of a node: the template, whether the vertices above are up, and for each part that is booked,
    /// not up or graded its position and its condition.
    #[expect(clippy::too_many_arguments, reason = "two of them are buffers to be used again")]
    fn key(
        &mut self,
        frame: &Frame,
        model: &Model,
        dominant: Name,
        ledger: &Ledger,
        node: u32,
        key: &mut Vec<u32>,
        words: &mut Vec<i64>,
    ) {
        let site = &frame.sites[node as usize];
        key.clear();
        key.extend([site.template, u32::from(self.blocked(model, dominant, site.parent))]);
        let mut last = 0;
        for (place, &v) in frame.inside(node).iter().enumerate() {
            let place = place as u32;
            if !self.down.is_empty() && self.down.contains(&v) {
                key.extend([STATE | place, model[v].state() as u32]);
            }
            if self.graded && model.has_properties() {
                let grade = model.property(v, CLASS_PROPERTY).and_then(|c| c.parse::<u32>().ok());
                if let Some(grade) = grade {
                    key.extend([GRADE | place, grade]);
                }
            }
            let number = ledger.number(v);
            if number != 0 && number == last {
                key.extend([place, self.last.1]);
                continue;
            }
            let Some(booking) = ledger.get(v) else { continue };
            if booking.units.is_empty() && booking.tags().is_empty() && booking.allocations.is_empty() {
                continue;
            }
            write(booking, words);
            if *words != self.last.0 {
                let next = self.conditions.len() as u32;
                let condition = match self.conditions.get(&**words) {
                    Some(&condition) => condition,
                    None => {
                        self.conditions.insert(words.as_slice().into(), next);
                        next
                    }
                };
                self.last.0.clone_from(words);
                self.last.1 = condition;
            }
            last = number;
            key.extend([place, self.last.1]);
        }
        for &(_, _, at) in self.arranged.get(&node).into_iter().flatten() {
            key.extend([ARRANGED | at, 0]);
        }
    }

    /// Notes the free units behind an edge inside a node. Nodes whose parts are visited in another order are of
    /// another class.
    pub(super) fn arrange(&mut self, from: VertexId, fullness: Fullness) {
        let Some(frame) = self.frame.as_ref().filter(|frame| frame.orderly) else { return };
        let Place::Node(node) = frame.place(from) else { return };
        let Some(at) = frame.place_of(node, fullness.edge) else { return };
        let list = self.arranged.entry(node).or_default();
        list.retain(|(_, _, other)| *other != at);
        let place = list.partition_point(|it| (it.0, it.1) < (from, fullness));
        list.insert(place, (from, fullness, at));
        self.soil(node);
    }

    fn blocked(&self, model: &Model, dominant: Name, parent: VertexId) -> bool {
        if self.down.is_empty() {
            return false;
        }
        let mut at = Some(parent);
        while let Some(v) = at {
            if self.down.contains(&v) {
                return true;
            }
            at = model.parent(v, dominant);
        }
        false
    }
}

/// Writes a booking as words, without the job.
fn write(booking: &Booking, words: &mut Vec<i64>) {
    words.clear();
    words.push(i64::from(!booking.allocations.is_empty()));
    for planner in std::iter::once(&booking.units).chain(booking.tree.as_deref()) {
        let from = words.len();
        words.push(0);
        if planner.is_empty() {
            continue;
        }
        if let Some(one) = planner.only() {
            words[from] = 1;
            words.extend([one.start, one.end]);
            words.extend_from_slice(&one.amounts);
            continue;
        }
        let mut spans: SmallVec<[_; 4]> =
            planner.spans().map(|(_, s)| (s.start, s.end, &*s.amounts)).collect();
        spans.sort_unstable();
        words[from] = spans.len() as i64;
        for (start, end, amounts) in spans {
            words.extend([start, end]);
            words.extend_from_slice(amounts);
        }
    }
}
