//! Selection of vertices above nodes (racks, switches) without a visit to the nodes.
//!
//! Such a vertex fits if it has enough nodes of the requested kind, which the classes of its nodes show; its score
//! does not depend on them. So racks are chosen first, then nodes in the chosen racks, and only these are marked. The
//! cost is a few steps for each rack and each class of nodes in it, and the size of the selection. A walk that stops
//! at the first match is restricted by `offering` instead.
//!
//! This module must never know how a selection is booked or printed.

use fluxgate_graph::description::{EdgeId, VertexId};

use super::aim::Aim;
use super::classes::ClassId;
use super::matcher::{Mark, Matcher};
use super::op::Miss;
use super::order;
use super::request::Want;
use super::scores::{Group, Scores, Use};
use super::trials::{Form, Search};
use super::views::Offering;

impl Matcher {
    /// The needs of the nodes below a vertex above nodes, if the request consists of these; `None` if it must be
    /// walked.
    pub(super) fn asks_above<'w>(&self, wants: &'w [Want]) -> Option<(&'w Want, &'w Want)> {
        let frame = self.classes.frame()?;
        let [want] = wants else { return None };
        let [inner] = &*want.with else { return None };
        let root = self.model[self.root].type_();
        let plain = !self.flexible && frame.lowest >= 0;
        let above = want.type_ != self.types.slot && want.type_ != root && want.type_ != self.types.node;
        let fits = plain && above && inner.type_ == self.types.node && frame.only_below(want.type_, root);
        fits.then_some((want, inner))
    }

    /// Selects among vertices above nodes; `None` if these must be walked.
    pub(super) fn select_above(
        &mut self,
        search: &mut Search<'_>,
        aim: &Aim<'_>,
        exclusive: bool,
    ) -> Option<Result<(), Miss>> {
        debug_assert!(search.form == Form::Node, "nodes are asked for inside");
        self.try_classes(search, aim);
        self.begin();
        let (root, dominant, wants) = (self.root, self.dominant, search.wants);
        if let Err(miss) = self.prune(root, wants, exclusive, aim) {
            return Some(Err(miss));
        }
        let units = self.free(root, aim.start, aim.end);
        if units == 0 {
            return Some(Err(Miss::Busy));
        }
        let [want] = wants else { return None };
        let mut found = Scores::default();
        let edges: Vec<EdgeId> = self.model.out_edges(root).collect();
        for edge in edges {
            let it = self.model[edge];
            if it.subsystem != dominant || self.model[it.to].type_() != want.type_ {
                continue;
            }
            let nodes = self.count_below(search, it.to)?;
            let free = self.free(it.to, aim.start, aim.end);
            if free == 0 || nodes == 0 || self.prune(it.to, wants, search.exclusive, aim).is_err() {
                continue;
            }
            let mut inside = Scores::default();
            let mut all = Group::slot();
            all.count = nodes;
            inside.add(dominant, self.types.node, all);
            if self.finish(it.to, wants, &mut inside) {
                let used = Use { edge: Some(edge), units: free, exclusive: search.exclusive };
                found.add(dominant, want.type_, Group::of(inside.score, used));
            }
        }
        if self.settle_root(wants, &mut found).is_none() {
            return Some(Err(Miss::Unsatisfiable));
        }
        self.root_mark = Mark { round: self.round, exclusive, units: 1 };
        let chosen: Vec<EdgeId> = found.get(dominant, want.type_).map_or(Vec::new(), |found| {
            found.groups[..found.chosen].iter().filter_map(|group| group.first?.edge).collect()
        });
        let alike = !self.policy.node_centric || self.is_steady(wants);
        for edge in chosen {
            let v = self.model[edge].to;
            let only = self.choose_below(search, v);
            if alike {
                self.mark_below(search, v, &only);
                continue;
            }
            self.offering = Some(Offering { classes: Vec::new(), view: None, terms: 0, only: Some(only) });
            let visited = self.visit(v, wants, true, exclusive, aim, &mut Scores::default(), 1);
            debug_assert!(visited.is_ok(), "what its nodes offer it offers");
        }
        self.offering = None;
        Some(Ok(()))
    }

    /// The nodes below a vertex that it chooses, in order.
    fn choose_below(&self, search: &Search<'_>, v: VertexId) -> Vec<u32> {
        let Some(frame) = self.classes.frame() else { return Vec::new() };
        let mut all: Vec<(i64, u32, u64)> = Vec::new();
        for node in frame.below(v).filter(|&node| search.meets(node)) {
            let at = search.trials.binary_search_by_key(&self.classes.of(node), |(id, _)| *id);
            let offer = at.ok().and_then(|at| search.trials[at].1.offers.first());
            let key = |offer| self.key(Form::Node, &frame.sites[node as usize], offer);
            all.extend(offer.map(|offer| (key(offer), node, offer.count)));
        }
        order::sort(&mut all, |a, b| a.0 < b.0);
        let mut left = search.want.take(all.iter().fold(0, |sum: u64, it| sum.saturating_add(it.2)));
        let mut nodes: Vec<u32> = Vec::new();
        for (_, node, count) in all {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(count);
            nodes.push(node);
        }
        nodes.sort_unstable();
        nodes
    }

    /// Marks the nodes that a vertex chooses and their own choices, as a visit does.
    fn mark_below(&mut self, search: &Search<'_>, v: VertexId, nodes: &[u32]) {
        for &node in nodes {
            let at = search.trials.binary_search_by_key(&self.classes.of(node), |(id, _)| *id);
            let Some((_, trial)) = at.ok().and_then(|at| search.trials.get(at)) else { continue };
            let Some(frame) = self.classes.frame() else { return };
            let edge = frame.sites[node as usize].edge;
            self.mark_alike(node, trial);
            self.set_mark(edge, trial.exclusive, trial.offers.first().map_or(1, |offer| offer.count));
        }
        if let Some(label) = search.wants.first().and_then(|want| want.label.clone()) {
            self.labels.insert(v, label);
        }
    }

    /// Number of nodes below a vertex that fit; `None` if not all of them are its children.
    fn count_below(&self, search: &Search<'_>, v: VertexId) -> Option<u64> {
        let frame = self.classes.frame()?;
        let all = frame.below(v);
        if self.classes.right_below(v).map(|(_, count)| count as usize).sum::<usize>() != all.len() {
            return None;
        }
        let offers = |class: ClassId| {
            let at = search.trials.binary_search_by_key(&class, |(id, _)| *id);
            at.map_or(0, |at| search.trials[at].1.count)
        };
        if search.view.is_some() {
            let met = all.filter(|&node| search.meets(node));
            return Some(met.fold(0, |sum: u64, node| sum.saturating_add(offers(self.classes.of(node)))));
        }
        let of = |(class, count): (ClassId, u32)| offers(class).saturating_mul(u64::from(count));
        Some(self.classes.right_below(v).fold(0, |sum: u64, it| sum.saturating_add(of(it))))
    }
}
