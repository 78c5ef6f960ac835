//! Nodes in the same condition, as one: what a search looks at instead of the nodes.
//!
//! Nodes of one make are of one class when equal parts of them are in equal states and equally booked, at the same times,
//! by whomever. What a request finds in one of them it finds in all, so a request is tried on one node of each class, and
//! how many there are of a class is known without looking. The nodes of a class are kept in the order of their ids, so
//! that the lowest and the highest of a kind are at hand whatever the number of nodes. After every booking the nodes that
//! it touched change their class; it costs what is inside those nodes, and nothing for the others.
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

/// Most kinds of bookings, and most classes, whose names are remembered.
const KNOWN_MAX: usize = 1 << 18;

/// Most changes of class that are remembered.
const MOVES_MAX: usize = 1 << 16;

/// Number of a class. It is never used again for another.
pub(super) type ClassId = u64;

/// Where a node stands among those of its class: by its id, and by what else tells nodes of one id apart.
pub(super) type Rank = (i64, i64, u32);

/// Nodes by their ids and by their numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    pub(super) ranks: BTreeSet<Rank>,
    /// By their numbers: from each to the last before a gap. Kept only for preferences that ask for it.
    pub(super) stretches: BTreeMap<u32, u32>,
}

/// Nodes in the same condition.
#[derive(Debug, Clone)]
pub(super) struct Class {
    key: Box<[u32]>,
    pub(super) members: Members,
    /// True when something above the nodes is not up.
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
    /// The one that was looked up last: parts of a node are mostly alike.
    last: (Vec<i64>, u32),
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    /// Nodes that changed their class, the last ones only, and how many there were before these.
    moves: Vec<u32>,
    moved: u64,
    /// Vertices that are not up.
    down: BTreeSet<VertexId>,
    upper_held: BTreeSet<VertexId>,
    /// How many nodes of which class are right below each vertex.
    below: HashMap<VertexId, BTreeMap<ClassId, u32>>,
    /// Of each node the parts that are not looked at in the order of their edges any more: below which vertex, how full
    /// they are, and where they are. Kept only by preferences that stop at the first match.
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

    /// True when one of them has a number from `from` to before `to`.
    pub(super) fn any_in(&self, from: u32, to: u32) -> bool {
        self.stretches.range(..to).next_back().is_some_and(|(_, &last)| last >= from)
    }

    /// Those with a number from `from` to before `to`, in order.
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

    /// Takes a node out of the stretches.
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

/// No class yet.
const UNKNOWN: ClassId = 0;
/// Kinds of words in a key, in the high bits of a place.
const STATE: u32 = 1 << 30;
const GRADE: u32 = 1 << 31;
const ARRANGED: u32 = STATE | GRADE;

impl Classes {
    /// Begins anew on a frame, with every node to be looked at. Classes of performance tell nodes apart when `graded`;
    /// stretches of nodes are known when `stretched`.
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

    /// The frame, if the graph has one and nothing above the nodes is held: then classes tell all there is to know.
    pub(super) fn usable(&self) -> Option<&Frame> {
        self.frame.as_ref().filter(|_| self.upper_held.is_empty())
    }

    /// The frame, if the graph has one.
    pub(super) fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// Takes the frame out for a moment; to be given back with [`Classes::give_frame`].
    pub(super) fn take_frame(&mut self) -> Option<Frame> {
        self.frame.take()
    }

    pub(super) fn give_frame(&mut self, frame: Frame) {
        self.frame = Some(frame);
    }

    /// All classes that have nodes, in the order in which they first had.
    pub(super) fn all(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        self.all.iter().map(|(&id, class)| (id, class))
    }

    pub(super) fn get(&self, id: ClassId) -> Option<&Class> {
        self.all.get(&id)
    }

    /// How many nodes of which class are right below a vertex.
    pub(super) fn right_below(&self, v: VertexId) -> impl Iterator<Item = (ClassId, u32)> {
        self.below.get(&v).into_iter().flatten().map(|(&class, &count)| (class, count))
    }

    /// The class of a node.
    pub(super) fn of(&self, node: u32) -> ClassId {
        self.class_of[node as usize]
    }

    /// How often nodes have changed their class.
    pub(super) fn moves(&self) -> u64 {
        self.moved + self.moves.len() as u64
    }

    /// The nodes that changed their class since there were so many changes; `None` when nobody knows any more.
    pub(super) fn moved_since(&self, before: u64) -> Option<&[u32]> {
        self.moves.get(usize::try_from(before.checked_sub(self.moved)?).ok()?..)
    }

    /// Looks again at what may have changed.
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
        // One that is not up may be so in another way.
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

    /// Forgets classes without nodes, once they are many.
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

    /// All that a search could tell nodes apart by: the make, whether what is above is up, and for each part that is
    /// booked, not up or graded its place and its condition.
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
        key.extend([site.make, u32::from(self.blocked(model, dominant, site.parent))]);
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

    /// Notes how full it is behind an edge inside a node. Nodes that are looked through in another order are of another
    /// class.
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

/// Writes a booking down without saying whose it is.
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
