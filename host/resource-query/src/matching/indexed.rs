//! Selection by classes of nodes instead of a walk, with the result of the walk.
//!
//! Most requests name nodes or vertices inside nodes, and no vertex above them. Such a request is tried on one node
//! of each class ([`Classes`]). Every node of the class has the same offer, with scores that differ only by the
//! node's id. So the best offers come from the ordered lists of the classes, and the cost follows the number of
//! classes and the size of the selection, not the number of nodes.
//!
//! If several offers are equally good and not all of them are taken, the choice depends on the sort. Then the scores
//! of all nodes are listed in the order of a walk and sorted as far as necessary. The chosen nodes are then visited
//! one by one, or marked like the node that was tried for their class.
//!
//! For a request with a constraint only the nodes that satisfy it are considered ([`View`]).
//!
//! Requests for nodes in racks and the like are handled by `above`. All other requests (several subsystems, flow,
//! alternatives) are walked.
//!
//! This module must never know how a selection is booked or printed.

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use fluxgate_graph::description::{EdgeId, VertexId};
use smallvec::SmallVec;

use super::aim::Aim;
use super::classes::{ClassId, Members, Rank};
use super::frame::Site;
use super::matcher::{Mark, Matcher};
use super::op::Miss;
use super::policy::{Policy, Prefer};
use super::request::Want;
use super::scores::{Group, Scores, Use};
use super::trials::{Circumstances, Form, Offer, Pick, Search, Trial, shares};
use super::views::{Offering, View};

/// Most trials that are kept.
const TRIALS_MAX: usize = 1 << 14;

impl Matcher {
    /// Selects by classes; `None` if the request must be walked.
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
            || (aim.constraint.is_some() && aim.terms == 0)
        {
            return None;
        }
        let above = self.asks_above(wants).filter(|_| !shares(wants));
        let form = match above {
            Some(_) => Form::Node,
            None => self.form(wants)?,
        };
        self.classes.refresh(&self.model, self.dominant, &mut self.ledger);
        self.classes.sweep();
        self.classes.usable()?;
        let [want] = wants else { return None };
        let inside_slot = form == Form::NodeSlots;
        let alone = above.is_some_and(|(want, _)| want.exclusive == Some(true));
        let mut search = Search {
            form,
            want: above.map_or(want, |(_, inner)| inner),
            wants,
            asked: if inside_slot || above.is_some() { &want.with } else { wants },
            pristine: !inside_slot && above.is_none(),
            exclusive: inside_slot || exclusive || alone,
            trials: Vec::new(),
            view: self.view(aim),
        };
        let result = match above {
            Some(_) if self.policy.first_match => {
                self.try_classes(&mut search, aim);
                None
            }
            Some(_) => self.select_above(&mut search, aim, exclusive),
            None => self.select_from_classes(&mut search, aim, exclusive),
        };
        if result.is_none() && self.policy.first_match && self.is_steady(wants) {
            let classes = search.trials.iter().map(|(id, _)| *id).collect();
            self.offering = Some(Offering { classes, view: search.view, terms: aim.terms, only: None });
        } else if let Some(view) = search.view {
            self.views.give_back(aim.terms, view);
        }
        result
    }

    /// The nodes that satisfy the constraint, by class.
    pub(super) fn view(&mut self, aim: &Aim<'_>) -> Option<View> {
        let constraint = aim.constraint.filter(|_| aim.terms > 0)?;
        let mut views = std::mem::take(&mut self.views);
        let view = self.classes.frame().map(|frame| {
            let meets = |node: u32| self.meets(frame.sites[node as usize].vertex, constraint);
            views.take(aim.terms, &self.classes, meets)
        });
        self.views = views;
        view
    }

    /// Selects from the classes; `None` if a walk must select.
    fn select_from_classes(
        &mut self,
        search: &mut Search<'_>,
        aim: &Aim<'_>,
        exclusive: bool,
    ) -> Option<Result<(), Miss>> {
        let total = self.try_classes(search, aim);
        let count = search.want.take(total);
        if self.policy.first_match {
            // The order depends on more than ids, but a shortage does not.
            return (count == 0 && self.is_steady(search.wants)).then_some(Err(Miss::Busy));
        }
        if count == 0 {
            return Some(Err(Miss::Busy));
        }
        let picks = self
            .pick_from_the_front(search, count)
            .or_else(|| self.pick_from_stretches(search, count))
            .or_else(|| self.pick_among_alike(search, count))
            .unwrap_or_else(|| self.pick_among_all(search, count));
        self.mark_picks(search, picks, aim, exclusive);
        Some(Ok(()))
    }

    /// The form of the needs of nodes; `None` if the request must be walked.
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
            // Next to nodes there is no place for slots of other types.
            inner => inner.iter().any(|w| !frame.neighbours.contains(&w.type_)).then_some(Form::Inside),
        }
    }

    /// True if the result does not depend on the order of visits: all counts are fixed, and every vertex of a named
    /// type has one unit.
    pub(super) fn is_steady(&self, wants: &[Want]) -> bool {
        let Some(frame) = self.classes.frame() else { return false };
        wants.iter().all(|want| {
            want.count.fixed().is_some()
                && want.flows.is_empty()
                && !frame.sized.contains(&want.type_)
                && self.is_steady(&want.with)
        })
    }

    /// Tries the request on one node of each class; returns the total count.
    pub(super) fn try_classes(&mut self, search: &mut Search<'_>, aim: &Aim<'_>) -> u64 {
        let live = |id: ClassId, members: &Members, blocked: bool| {
            let &(_, _, node) = members.ranks.first()?;
            (!blocked || aim.inventory).then_some((id, node, members.ranks.len() as u64))
        };
        let live: Vec<(ClassId, u32, u64)> = match &search.view {
            None => self.classes.all().filter_map(|(id, c)| live(id, &c.members, c.blocked)).collect(),
            Some(view) => {
                let blocked = |id: ClassId| self.classes.get(id).is_none_or(|class| class.blocked);
                view.classes.iter().filter_map(|(&id, members)| live(id, members, blocked(id))).collect()
            }
        };
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
                trial = self.trial_of(node, 0, exclusive, (base, count));
            }
        }
        trial.count = trial.offers.iter().fold(0, |sum: u64, o| sum.saturating_add(o.count));
        trial
    }

    /// The offers of a node, with the marks inside it that were made since a number of others.
    pub(super) fn trial_of(
        &self,
        node: u32,
        after: usize,
        exclusive: bool,
        (base, count): (i64, u64),
    ) -> Trial {
        let offers = vec![Offer { base, parts: 0, count }];
        let mut trial = Trial { offers, count, exclusive, ..Trial::default() };
        let Some(frame) = self.classes.frame() else { return trial };
        let inside = frame.inside(node);
        let at = |v: VertexId| inside.iter().position(|&i| i == v).map(|at| at as u32);
        for &edge in self.marked.edges().get(after..).unwrap_or(&[]) {
            let mark = self.marks[edge.index()];
            let to = self.model[edge].to;
            trial.marks.extend(at(to).map(|at| (at, mark.exclusive, mark.units)));
        }
        trial.labels.extend(self.labels.iter().filter_map(|(&v, l)| Some((at(v)?, l.clone()))));
        trial
    }

    /// The weight that a node adds to the score of each vertex inside it.
    fn weight(&self, v: VertexId) -> i64 {
        let it = &self.model[v];
        if self.policy.node_centric { Policy::node_factor(self.id(v), it.unique()) } else { 0 }
    }

    /// The sort key of an offer of a node: smaller is better.
    pub(super) fn key(&self, form: Form, site: &Site, offer: &Offer) -> i64 {
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

    /// Selects from the ordered lists of the classes; `None` if ids do not decide.
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
        // The next offer of each class, the best first.
        let mut fronts: Vec<Box<dyn Iterator<Item = &Rank> + '_>> = Vec::new();
        let mut heads: BinaryHeap<(std::cmp::Reverse<Rank>, usize)> = BinaryHeap::new();
        let turned = |&(id, tie, node): &Rank| if low { (id, tie, node) } else { (-id, -tie, node) };
        for (at, (class, _)) in search.trials.iter().enumerate() {
            let members = &search.members(&self.classes, *class)?.ranks;
            let mut front: Box<dyn Iterator<Item = &Rank>> =
                if low { Box::new(members.iter()) } else { Box::new(members.iter().rev()) };
            heads.extend(front.next().map(|rank| (std::cmp::Reverse(turned(rank)), at)));
            fronts.push(front);
        }
        let all = || search.trials.iter().flat_map(|(_, trial)| &trial.offers);
        // The best offer possible with the id of this node: later nodes have worse ids.
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

    /// Marks the selection as a walk does.
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
                self.mark_alike(node, trial);
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

    /// Marks a node like the node that was tried for its class.
    pub(super) fn mark_alike(&mut self, node: u32, trial: &Trial) {
        let Some(frame) = self.classes.frame() else { return };
        let inside = frame.inside(node);
        self.labels.extend(trial.labels.iter().map(|(at, l)| (inside[*at as usize], l.clone())));
        let edges: SmallVec<[EdgeId; 16]> =
            trial.marks.iter().map(|&(at, ..)| frame.edge(node, at)).collect();
        for (edge, &(_, exclusive, units)) in edges.into_iter().zip(&trial.marks) {
            self.set_mark(edge, exclusive, units);
        }
    }

    /// Marks the path from the root to a vertex above nodes.
    fn mark_upper(&mut self, v: VertexId) {
        let mut at = v;
        while let Some(edge) = self.model.in_edge(at, self.dominant) {
            if self.marks[edge.index()].round == self.round {
                return;
            }
            self.set_mark(edge, false, self.model[at].size());
            at = self.model[edge].from;
        }
    }
}
