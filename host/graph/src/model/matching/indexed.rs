//! Choosing by classes of nodes instead of by walking, with the result that a walk would have.
//!
//! Most requests ask, in the end, for nodes or for something inside nodes, and say nothing of what is above them. Such a
//! request is tried on one node of each class ([`Classes`]); what that node offers, every node of the class offers, with
//! scores that differ by the node's id alone. So the best come from the fronts of the classes, in the order of their ids,
//! and the cost follows the number of classes and of what is chosen, and not the number of nodes.
//!
//! Where several offers are equally good and not all of them are taken, which of them are depends on the sort; then the
//! scores of all nodes are laid out in the order of a walk and sorted as far as is needed. What was chosen is then visited
//! in earnest, node by node, or marked as it was marked in the one that stood for its class.
//!
//! Everything that does not fit (several subsystems, types above nodes, conditions, alternatives) is walked.
//!
//! This module must never know how what was chosen is booked or told.

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use foldhash::HashMap;

use crate::model::vertex::{EdgeId, VertexId};

use super::classes::{ClassId, Rank};
use super::frame::Site;
use super::policy::{Policy, Prefer};
use super::request::Want;
use super::schedule::Miss;
use super::scores::{Group, Scores, Use};
use super::select::Aim;
use super::{Mark, Matcher, order};

/// Most trials that are remembered.
const TRIALS_MAX: usize = 1 << 14;

/// What a request asks of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Nodes.
    Node,
    /// Slots of one node each.
    NodeSlots,
    /// Something inside nodes.
    Inside,
}

/// One group that a node offers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    /// Its score, but for what follows from the node's id.
    pub(super) base: i64,
    /// How many vertices it is made of: to each of them the node adds its own weight.
    parts: i64,
    pub(super) count: u64,
}

/// What the nodes of a class have for a request.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// In the order in which the node offers them.
    pub(super) offers: Vec<Offer>,
    /// Sum of their counts.
    count: u64,
    /// What was marked inside the node: where, whether exclusively, how many units.
    marks: Vec<(u32, bool, u64)>,
    labels: Vec<(u32, String)>,
    exclusive: bool,
}

/// What a trial was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Circumstances {
    class: ClassId,
    shape: u64,
    start: i64,
    end: i64,
    now: bool,
    inventory: bool,
}

/// Trials made before.
#[derive(Debug, Clone, Default)]
pub(super) struct Trials(HashMap<Circumstances, Arc<Trial>>);

/// A choice: a group of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pick {
    /// The smaller the better.
    pub(super) key: i64,
    pub(super) node: u32,
    pub(super) offer: u32,
    pub(super) count: u64,
}

/// What a search by classes goes by.
pub(super) struct Search<'w> {
    pub(super) form: Form,
    want: &'w Want,
    wants: &'w [Want],
    /// What nodes are asked, and how they are come to.
    asked: &'w [Want],
    pristine: bool,
    exclusive: bool,
    pub(super) trials: Vec<(ClassId, Arc<Trial>)>,
}

impl Matcher {
    /// Selects by classes; `None` when the request has to be walked.
    pub(super) fn select_by_class(
        &mut self,
        wants: &[Want],
        aim: &Aim<'_>,
        exclusive: bool,
    ) -> Option<Result<(), Miss>> {
        if self.walks_always
            || aim.shape == 0
            || aim.flow
            || self.subsystems.len() != 1
            || aim.constraint.is_some()
        {
            return None;
        }
        let form = self.form(wants)?;
        self.classes.refresh(&self.model, self.dominant, &mut self.ledger);
        self.classes.sweep();
        self.classes.usable()?;
        let [want] = wants else { return None };
        let inside_slot = form == Form::NodeSlots;
        let mut search = Search {
            form,
            want,
            wants,
            asked: if inside_slot { &want.with } else { wants },
            pristine: !inside_slot,
            exclusive: inside_slot || exclusive,
            trials: Vec::new(),
        };
        let total = self.try_classes(&mut search, aim);
        let count = want.take(total);
        if self.policy.first_match {
            // Which are first depends on more than ids, but that there are too few does not.
            return (count == 0 && self.is_steady(wants)).then_some(Err(Miss::Busy));
        }
        if count == 0 {
            return Some(Err(Miss::Busy));
        }
        let picks = self
            .pick_from_the_front(&search, count)
            .or_else(|| self.pick_from_stretches(&search, count))
            .or_else(|| self.pick_among_alike(&search, count))
            .unwrap_or_else(|| self.pick_among_all(&search, count));
        self.mark_picks(&search, picks, aim, exclusive);
        Some(Ok(()))
    }

    /// What a request asks of nodes; `None` when it has to be walked.
    fn form(&self, wants: &[Want]) -> Option<Form> {
        let frame = self.classes.frame()?;
        let [want] = wants else { return None };
        if self.flexible || frame.sites.is_empty() || shares(wants) {
            return None;
        }
        let slot = self.types.slot;
        if want.type_ == self.types.node {
            return Some(Form::Node);
        }
        if want.type_ != slot {
            return (!frame.upper_types.contains(&want.type_)).then_some(Form::Inside);
        }
        match &*want.with {
            [] => None,
            [inner] if inner.type_ == self.types.node => {
                let one = inner.count.fixed() == Some(1) && !frame.nested;
                one.then_some(Form::NodeSlots)
            }
            // Where nodes are, slots of something else have no place.
            inner => inner.iter().any(|w| !frame.neighbours.contains(&w.type_)).then_some(Form::Inside),
        }
    }

    /// True when what fits does not depend on the order in which it is looked at: all counts are fixed, and of all types
    /// that are named every vertex is one unit.
    pub(super) fn is_steady(&self, wants: &[Want]) -> bool {
        let Some(frame) = self.classes.frame() else { return false };
        wants.iter().all(|want| {
            want.count.fixed().is_some()
                && want.flows.is_empty()
                && !frame.sized.contains(&want.type_)
                && self.is_steady(&want.with)
        })
    }

    /// Tries the request on one node of each class; how much there is in all.
    fn try_classes(&mut self, search: &mut Search<'_>, aim: &Aim<'_>) -> u64 {
        let live = |(id, class): (ClassId, &super::classes::Class)| {
            let &(_, _, node) = class.members.first()?;
            (!class.blocked || aim.inventory).then_some((id, node, class.members.len() as u64))
        };
        let live: Vec<(ClassId, u32, u64)> = self.classes.all().filter_map(live).collect();
        let mut total: u64 = 0;
        if self.trials.0.len() > TRIALS_MAX {
            self.trials.0.clear();
        }
        for (class, node, nodes) in live {
            let key = Circumstances {
                class,
                shape: aim.shape,
                start: aim.start,
                end: aim.end,
                now: aim.now,
                inventory: aim.inventory,
            };
            let trial = match self.trials.0.get(&key) {
                Some(trial) => trial.clone(),
                None => {
                    let trial = Arc::new(self.try_node(search, node, aim));
                    self.trials.0.insert(key, trial.clone());
                    trial
                }
            };
            if trial.count > 0 {
                total = total.saturating_add(nodes.saturating_mul(trial.count));
                search.trials.push((class, trial));
            }
        }
        total
    }

    fn try_node(&mut self, search: &Search<'_>, node: u32, aim: &Aim<'_>) -> Trial {
        let Some(frame) = self.classes.frame() else { return Trial::default() };
        let vertex = frame.sites[node as usize].vertex;
        self.begin();
        let mut found = Scores::default();
        let (asked, pristine) = (search.asked, search.pristine);
        let visited = self.visit(vertex, asked, pristine, search.exclusive, aim, &mut found, 0);
        let Ok(exclusive) = visited else { return Trial::default() };
        let mut trial = Trial { exclusive, ..Trial::default() };
        let weight = self.weight(vertex);
        match search.form {
            Form::Inside => {
                let groups = found.get(self.dominant, search.want.type_).map_or(&[][..], |f| &f.groups);
                for group in groups {
                    let parts = group.uses().count() as i64;
                    let base = group.score.saturating_sub(weight.saturating_mul(parts));
                    trial.offers.push(Offer { base, parts, count: group.count });
                }
            }
            Form::Node | Form::NodeSlots => {
                let id = if self.policy.prefer == Prefer::Variation { 0 } else { self.id(vertex) };
                let slot = i64::from(search.form == Form::NodeSlots);
                let base = found.score.saturating_sub(id).saturating_add(slot);
                let count = if search.form == Form::NodeSlots { 1 } else { found.free };
                trial.offers.push(Offer { base, parts: 0, count });
                let Some(frame) = self.classes.frame() else { return trial };
                let inside = frame.inside(node);
                let at = |v: VertexId| inside.iter().position(|&i| i == v).map(|at| at as u32);
                for &edge in &self.marked {
                    let mark = self.marks[edge.index()];
                    let to = self.model.edges[edge.index()].to;
                    trial.marks.extend(at(to).map(|at| (at, mark.exclusive, mark.units)));
                }
                trial.labels.extend(self.labels.iter().filter_map(|(&v, l)| Some((at(v)?, l.clone()))));
            }
        }
        trial.count = trial.offers.iter().fold(0, |sum: u64, o| sum.saturating_add(o.count));
        trial
    }

    fn id(&self, v: VertexId) -> i64 {
        self.model.vertices[v.index()].id
    }

    /// What a node adds to the score of each vertex inside it.
    fn weight(&self, v: VertexId) -> i64 {
        let it = &self.model.vertices[v.index()];
        if self.policy.node_centric { Policy::node_factor(it.id, it.unique) } else { 0 }
    }

    /// How good an offer of a node is: the smaller the better.
    fn key(&self, form: Form, site: &Site, offer: &Offer) -> i64 {
        let own = match form {
            Form::Inside if !self.policy.node_centric => 0,
            Form::Inside => self.weight(site.vertex).saturating_mul(offer.parts),
            _ if self.policy.prefer == Prefer::Variation => 0,
            _ => site.id,
        };
        let score = offer.base.saturating_add(own);
        match self.policy.prefer {
            Prefer::HighId | Prefer::Locality => score.saturating_neg(),
            Prefer::LowId | Prefer::Variation => score,
        }
    }

    /// Chooses from the fronts of the classes. `None` when ids do not tell which are better.
    fn pick_from_the_front(&self, search: &Search<'_>, count: u64) -> Option<Vec<Pick>> {
        let by_id = search.form != Form::Inside || self.policy.node_centric;
        let low = match self.policy.prefer {
            Prefer::LowId => true,
            Prefer::HighId => false,
            Prefer::Locality | Prefer::Variation => return None,
        };
        if !by_id {
            return None;
        }
        let frame = self.classes.frame()?;
        // The next of each class, the best first.
        let mut fronts: Vec<Box<dyn Iterator<Item = &Rank> + '_>> = Vec::new();
        let mut heads: BinaryHeap<(std::cmp::Reverse<Rank>, usize)> = BinaryHeap::new();
        let turned = |&(id, tie, node): &Rank| if low { (id, tie, node) } else { (-id, -tie, node) };
        for (at, (class, _)) in search.trials.iter().enumerate() {
            let members = &self.classes.get(*class)?.members;
            let mut front: Box<dyn Iterator<Item = &Rank>> =
                if low { Box::new(members.iter()) } else { Box::new(members.iter().rev()) };
            heads.extend(front.next().map(|rank| (std::cmp::Reverse(turned(rank)), at)));
            fronts.push(front);
        }
        let all = || search.trials.iter().flat_map(|(_, trial)| &trial.offers);
        // The best that any node could offer with the id that this one has: later ones have worse ids.
        let least = Offer {
            base: if low { all().map(|o| o.base).min()? } else { all().map(|o| o.base).max()? },
            parts: if low { all().map(|o| o.parts).min()? } else { all().map(|o| o.parts).max()? },
            count: 0,
        };
        let mut taken: BinaryHeap<Pick> = BinaryHeap::new();
        let (mut sum, mut left_out): (u64, Option<i64>) = (0, None);
        while let Some((std::cmp::Reverse((_, _, node)), at)) = heads.pop() {
            heads.extend(fronts[at].next().map(|rank| (std::cmp::Reverse(turned(rank)), at)));
            let site = &frame.sites[node as usize];
            if sum >= count && taken.peek().is_some_and(|w| self.key(search.form, site, &least) > w.key) {
                break;
            }
            for (offer, it) in search.trials[at].1.offers.iter().enumerate() {
                let key = self.key(search.form, site, it);
                taken.push(Pick { key, node, offer: offer as u32, count: it.count });
                sum = sum.saturating_add(it.count);
                while let Some(worst) = taken.peek().filter(|w| sum - w.count >= count) {
                    sum -= worst.count;
                    left_out = Some(left_out.map_or(worst.key, |k| k.min(worst.key)));
                    taken.pop();
                }
            }
        }
        let worst = taken.peek()?.key;
        (sum >= count && left_out.is_none_or(|key| key > worst)).then(|| taken.into_vec())
    }

    /// Chooses among nodes that all offer the same but for their ids, laid out in the order of a walk; `None` when they
    /// differ in more.
    fn pick_among_alike(&self, search: &Search<'_>, count: u64) -> Option<Vec<Pick>> {
        let frame = self.classes.frame()?;
        let offer = *search.trials.first()?.1.offers.first()?;
        let alike = |t: &Trial| matches!(&*t.offers, [o] if (o.base, o.count) == (offer.base, offer.count));
        if search.form == Form::Inside || !search.trials.iter().all(|(_, t)| alike(t)) {
            return None;
        }
        let fits: Vec<ClassId> = search.trials.iter().map(|(id, _)| *id).collect();
        let mut last = (ClassId::MAX, false);
        let offers: Vec<bool> = (0..frame.sites.len() as u32)
            .map(|node| {
                let class = self.classes.of(node);
                if class != last.0 {
                    last = (class, fits.binary_search(&class).is_ok());
                }
                last.1
            })
            .collect();
        let key = |site: &Site| match self.policy.prefer {
            Prefer::HighId | Prefer::Locality => -site.rank,
            Prefer::LowId => site.rank,
            Prefer::Variation => 0,
        };
        let mut list: Vec<(i32, u32)> = Vec::with_capacity(frame.sites.len());
        let (mut row, mut parent, mut known) = (0, None, Rows::default());
        for (node, site) in frame.sites.iter().enumerate().filter(|&(node, _)| offers[node]) {
            if search.form == Form::NodeSlots && parent != Some(site.parent) {
                // Slots are filled below each parent with the best first.
                sort_row(&mut list[row..], &mut known);
                (row, parent) = (list.len(), Some(site.parent));
            }
            list.push((key(site), node as u32));
        }
        if search.form == Form::NodeSlots {
            sort_row(&mut list[row..], &mut known);
        }
        if self.policy.prefer == Prefer::Locality {
            let (mut runs, mut run, mut before) = (vec![0; frame.sites.len()], 0, None);
            for &node in frame.by_id.iter().filter(|&&node| offers[node as usize]) {
                let rank = frame.sites[node as usize].rank;
                run -= i32::from(before.is_none_or(|before| rank - before > 1));
                before = Some(rank);
                runs[node as usize] = run;
            }
            list.iter_mut().for_each(|it| it.0 = runs[it.1 as usize]);
        }
        let enough = usize::try_from(count.div_ceil(offer.count.max(1))).unwrap_or(usize::MAX);
        order::sort_front(&mut list, enough, |a, b| a.0 < b.0);
        let pick =
            |&(key, node): &(i32, u32)| Pick { key: i64::from(key), node, offer: 0, count: offer.count };
        Some(list.iter().take(enough).map(pick).collect())
    }

    /// Chooses among everything, laid out in the order of a walk.
    fn pick_among_all(&self, search: &Search<'_>, count: u64) -> Vec<Pick> {
        let Some(frame) = self.classes.frame() else { return Vec::new() };
        let trials: BTreeMap<ClassId, &Trial> = search.trials.iter().map(|(id, t)| (*id, &**t)).collect();
        let mut all: Vec<Pick> = Vec::new();
        let mut last: Option<(ClassId, Option<&Trial>)> = None;
        let (mut row, mut parent) = (0, None);
        let less = |a: &Pick, b: &Pick| a.key < b.key;
        for (node, site) in frame.sites.iter().enumerate() {
            let class = self.classes.of(node as u32);
            let trial = match last {
                Some((id, trial)) if id == class => trial,
                _ => trials.get(&class).copied(),
            };
            last = Some((class, trial));
            let Some(trial) = trial else { continue };
            if search.form == Form::NodeSlots && parent != Some(site.parent) {
                // Slots are filled below each parent with the best first.
                order::sort(&mut all[row..], less);
                (row, parent) = (all.len(), Some(site.parent));
            }
            for (offer, it) in trial.offers.iter().enumerate() {
                let key = self.key(search.form, site, it);
                all.push(Pick { key, node: node as u32, offer: offer as u32, count: it.count });
            }
        }
        if search.form == Form::NodeSlots {
            order::sort(&mut all[row..], less);
        }
        if self.policy.prefer == Prefer::Locality {
            by_runs(&mut all);
        }
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        order::sort_front(&mut all, most, less);
        let mut left = count;
        let enough = all.iter().take_while(|pick| {
            let more = left > 0;
            left = left.saturating_sub(pick.count);
            more
        });
        let long = enough.count();
        all.truncate(long);
        all
    }

    /// Marks what was chosen as a walk does.
    fn mark_picks(&mut self, search: &Search<'_>, mut picks: Vec<Pick>, aim: &Aim<'_>, exclusive: bool) {
        picks.sort_unstable_by_key(|p| (p.node, p.offer));
        let trials: BTreeMap<ClassId, Arc<Trial>> = search.trials.iter().cloned().collect();
        let alike = !self.policy.node_centric || self.is_steady(search.wants);
        self.begin();
        self.root_mark = Mark { round: self.round, exclusive, units: 1 };
        let (dominant, type_) = (self.dominant, search.want.type_);
        let mut found = Scores::default();
        let mut chosen: Vec<usize> = Vec::new();
        for picks in picks.chunk_by(|a, b| a.node == b.node) {
            let node = picks[0].node;
            let Some(frame) = self.classes.frame() else { return };
            let site = frame.sites[node as usize];
            let trial = &trials[&self.classes.of(node)];
            if search.form != Form::Inside && alike {
                let inside = frame.inside(node);
                let edges: Vec<EdgeId> = trial.marks.iter().map(|&(at, ..)| frame.edge(node, at)).collect();
                self.labels.extend(trial.labels.iter().map(|(at, l)| (inside[*at as usize], l.clone())));
                for (edge, &(_, exclusive, units)) in edges.into_iter().zip(&trial.marks) {
                    self.set_mark(edge, exclusive, units);
                }
            } else {
                let before = found.get(dominant, type_).map_or(0, |f| f.groups.len());
                let visited = self.visit(
                    site.vertex,
                    search.asked,
                    search.pristine,
                    search.exclusive,
                    aim,
                    &mut found,
                    0,
                );
                debug_assert!(visited.is_ok(), "what one node of a class offers every one does");
                chosen.extend(picks.iter().map(|p| before + p.offer as usize));
            }
            match search.form {
                Form::Inside => {
                    let free = found.free;
                    let used = Use { edge: Some(site.edge), units: free, exclusive: trial.exclusive };
                    let node_type = self.types.node;
                    found.add(dominant, node_type, Group::of(found.score, used));
                }
                Form::Node => {
                    let units = trial.offers.first().map_or(1, |o| o.count);
                    self.set_mark(site.edge, trial.exclusive, units);
                    self.mark_upper(site.parent);
                }
                Form::NodeSlots => {
                    let units = self.free(site.vertex, aim.start, aim.end);
                    self.set_mark(site.edge, true, units);
                    self.mark_upper(site.parent);
                }
            }
        }
        if search.form != Form::Inside {
            return;
        }
        if let Some(found) = found.get_mut(dominant, type_) {
            found.choose_these(&chosen);
        }
        self.mark(dominant, &found, true);
        for picks in picks.chunk_by(|a, b| a.node == b.node) {
            let Some(frame) = self.classes.frame() else { return };
            let parent = frame.sites[picks[0].node as usize].parent;
            self.mark_upper(parent);
        }
    }

    /// Marks the way from the root to a vertex above nodes.
    fn mark_upper(&mut self, v: VertexId) {
        let mut at = v;
        while let Some(edge) = self.model.in_edge(at, self.dominant) {
            if self.marks[edge.index()].round == self.round {
                return;
            }
            self.set_mark(edge, false, self.model.vertices[at.index()].size);
            at = self.model.edges[edge.index()].from;
        }
    }
}

/// True when something is asked for that others may share in where it could not be.
fn shares(wants: &[Want]) -> bool {
    wants.iter().any(|w| w.exclusive == Some(false) || shares(&w.with))
}

/// Where equal keys come from when a list of them is sorted, by its length; and room to move them.
#[derive(Default)]
struct Rows {
    places: BTreeMap<usize, Vec<(i32, u32)>>,
    before: Vec<(i32, u32)>,
}

/// Sorts a short list, and quickly where that is easy: where all keys differ and are in order, or all are equal.
fn sort_row(row: &mut [(i32, u32)], known: &mut Rows) {
    if row.len() < 2 || row.windows(2).all(|w| w[0].0 < w[1].0) {
        return;
    }
    if row.windows(2).all(|w| w[0].0 > w[1].0) {
        row.reverse();
    } else if row.windows(2).all(|w| w[0].0 == w[1].0) {
        let places = known.places.entry(row.len()).or_insert_with(|| {
            let mut places: Vec<(i32, u32)> = (0..row.len() as u32).map(|at| (0, at)).collect();
            order::sort(&mut places, |a, b| a.0 < b.0);
            places
        });
        known.before.clear();
        known.before.extend_from_slice(row);
        for (to, &(_, from)) in row.iter_mut().zip(&*places) {
            *to = known.before[from as usize];
        }
    } else {
        order::sort(row, |a, b| a.0 < b.0);
    }
}

/// Ranks picks by the runs of consecutive scores that they are in, the run of the highest scores first.
fn by_runs(all: &mut [Pick]) {
    let mut scores: Vec<i64> = all.iter().map(|p| p.key.saturating_neg()).collect();
    scores.sort_unstable();
    scores.dedup();
    // Where each run begins.
    let starts: Vec<i64> = scores
        .iter()
        .enumerate()
        .filter(|&(at, &score)| at == 0 || scores[at - 1] + 1 != score)
        .map(|(_, &score)| score)
        .collect();
    for pick in all {
        let run = starts.partition_point(|&s| s <= pick.key.saturating_neg());
        pick.key = -(run as i64);
    }
}
