//! A view of the machine at a moment: the present index, with the states of some nodes replaced.
//!
//! The future differs from the present only on nodes whose jobs end or whose reservations start, so a view of the
//! future is the index and an [`Overlay`] of those nodes. [`View::candidates`] yields the nodes on which a need fits,
//! in the order of a [`Placement`].
//!
//! This module must never know why a state is replaced.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use crate::layout::graph::Graph;
use crate::layout::template::{NodeTemplate, TemplateId};
use crate::live::index::{Index, State, Status};
use crate::live::node_set::{NodeSet, Numbers};
use crate::live::overlay::Overlay;
use crate::live::placement::Placement;
use crate::live::ranking::Ranking;
use crate::live::tournament::Tournament;

/// The order in which candidates are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Placed(Placement),
    /// Nodes of these performance classes, from first to last; the fastest first.
    PerfClasses(u64, u64),
    /// For reservations: nodes whose state differs from the present one first, of those the nodes with least free
    /// now, so that resources that are free now are taken last. Then from the far end.
    Late,
}

/// The nodes that a constraint allows.
#[derive(Debug, Clone)]
pub(crate) enum Eligible {
    All,
    /// By template.
    Templates(Vec<bool>),
    /// Node by node.
    Nodes(FixedBitSet),
}

impl Eligible {
    pub(crate) fn template(&self, template: TemplateId) -> bool {
        match self {
            Eligible::Templates(list) => list.get(template.0 as usize).copied().unwrap_or(false),
            Eligible::All | Eligible::Nodes(_) => true,
        }
    }

    pub(crate) fn node(&self, node: u32) -> bool {
        match self {
            Eligible::Nodes(set) => set.contains(node as usize),
            Eligible::All | Eligible::Templates(_) => true,
        }
    }
}

/// The nodes that a search may visit.
#[derive(Clone, Copy)]
pub(crate) struct Where<'a> {
    pub(crate) eligible: &'a Eligible,
    /// First node, and one past the last.
    pub(crate) range: (u32, u32),
    /// Only idle nodes.
    pub(crate) idle: bool,
    /// Only nodes with free cores fit, and most of those.
    pub(crate) cores: bool,
}

impl Where<'_> {
    fn allows(&self, template: &NodeTemplate, state: &[u64]) -> bool {
        !self.idle || state == &*template.idle
    }
}

/// The machine as one search sees it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) index: &'a Index,
    /// Free units or marks of upper vertices at present.
    pub(crate) upper: &'a [u64],
    /// Upper vertices that are down, themselves or because of a vertex above; `None` if all are up.
    pub(crate) upper_down: Option<&'a FixedBitSet>,
    /// Number of pools that are up and have free units, directly below each upper vertex, unless an overlay differs; `None` if
    /// unknown.
    pub(crate) open: Option<&'a [u32]>,
    pub(crate) overlay: Option<&'a Overlay>,
    /// True if it is not known of every job what it holds above nodes: nothing is taken there.
    pub(crate) unread: bool,
}

/// Called with a node that fits and its capacity; returns whether to go on.
pub(crate) type Sink<'s> = dyn FnMut(u32, u64) -> bool + 's;

/// Most nodes with free cores that a walk passes over because they do not fit. Then nodes are found by their states.
const MISSES: u32 = 64;

/// A list of candidates in ascending order of node.
struct Source<'a> {
    nodes: Nodes<'a>,
    key: (u64, u64),
}

enum Nodes<'a> {
    State(&'a State, u64),
    List(Vec<Entry<'a>>),
}

impl<'a> View<'a> {
    /// The state of a node, from `scratch` first.
    pub(crate) fn state<'s>(&'s self, scratch: &'s Overlay, node: u32) -> &'s [u64] {
        scratch
            .get(node)
            .or_else(|| self.overlay.and_then(|o| o.get(node)))
            .unwrap_or_else(|| &self.index.state(node).free)
    }

    /// Free units or mark of an upper vertex.
    pub(crate) fn upper(&self, scratch: &Overlay, at: u32) -> u64 {
        scratch
            .upper
            .get(&at)
            .or_else(|| self.overlay.and_then(|o| o.upper.get(&at)))
            .copied()
            .unwrap_or_else(|| self.upper[at as usize])
    }

    /// True if an upper vertex is up.
    pub(crate) fn upper_is_up(&self, at: u32) -> bool {
        self.upper_down.is_none_or(|down| !down.contains(at as usize))
    }

    /// False if no pool directly below an upper vertex is up and has free units. Constant time.
    pub(crate) fn is_open(&self, at: u32) -> bool {
        self.overlay.is_some() || self.open.is_none_or(|open| open[at as usize] > 0)
    }

    /// The nodes nearest to `from` on which a need could fit: the first one at or after it, or the last one before
    /// it.
    pub(crate) fn nearest(&self, scratch: &Overlay, states: &[&State], from: u32, up: bool) -> Option<u32> {
        let of = |set: &NodeSet| match up {
            true => set.range(from, u32::MAX).next(),
            false => set.range(0, from).next_back(),
        };
        let seen = |overlay: &Overlay| match up {
            true => overlay.within(from..).next().map(|(node, _)| node),
            false => overlay.within(..from).next_back().map(|(node, _)| node),
        };
        let overlays = [Some(scratch), self.overlay].into_iter().flatten().filter_map(seen);
        let all = states.iter().filter_map(|state| of(&state.nodes)).chain(overlays);
        if up { all.min() } else { all.max() }
    }

    /// Sum of capacities over the nodes of a search.
    pub(crate) fn total(
        &self,
        place: Where<'_>,
        capacity: &mut dyn FnMut(&NodeTemplate, &[u64]) -> u64,
    ) -> u64 {
        let none = Overlay::default();
        self.totals(&none, place, capacity, |_| 0).into_values().sum()
    }

    /// Sums of capacities by a number of the node templates. Sums saturate, above any possible request.
    pub(crate) fn totals(
        &self,
        scratch: &'a Overlay,
        place: Where<'_>,
        capacity: &mut dyn FnMut(&NodeTemplate, &[u64]) -> u64,
        number: fn(&NodeTemplate) -> u64,
    ) -> BTreeMap<u64, u64> {
        let Where { eligible, range, .. } = place;
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        let mut add = |template: TemplateId, n: u64| {
            let sum = sums.entry(number(&self.graph.templates[template.0 as usize])).or_default();
            *sum = sum.saturating_add(n).min(u64::MAX >> 16);
        };
        let seen = |n: u32| self.overlay.is_some_and(|o| o.contains(n)) || scratch.contains(n);
        for source in self.sources(scratch, place, capacity) {
            match source.nodes {
                Nodes::List(list) => {
                    list.iter().for_each(|(_, capacity, template, _)| add(*template, *capacity))
                }
                Nodes::State(state, capacity) => {
                    let whole = range == (0, self.graph.nodes.len() as u32)
                        && self.overlay.is_none()
                        && scratch.len() == 0
                        && !matches!(eligible, Eligible::Nodes(_));
                    let count = if whole {
                        state.nodes.len()
                    } else {
                        let nodes = state.nodes.range(range.0, range.1);
                        nodes.filter(|n| !seen(*n) && eligible.node(*n)).count()
                    };
                    add(state.template, capacity.saturating_mul(count as u64));
                }
            }
        }
        sums
    }

    fn sources(
        &self,
        scratch: &'a Overlay,
        place: Where<'_>,
        capacity: &mut dyn FnMut(&NodeTemplate, &[u64]) -> u64,
    ) -> Vec<Source<'a>> {
        let Where { eligible, range, .. } = place;
        let mut sources: Vec<Source<'a>> = Vec::with_capacity(self.index.live().len() + 2);
        // Takes of the same search do not exclude a node.
        let mut list = |node: u32, template: TemplateId, state: &'a [u64], own: bool, out: &mut Vec<_>| {
            let it = &self.graph.templates[template.0 as usize];
            let capacity = if own || place.allows(it, state) { capacity(it, state) } else { 0 };
            if capacity > 0 {
                out.push((node, capacity, template, state));
            }
        };
        // A constraint that allows few nodes is cheaper to walk than the states.
        if let Eligible::Nodes(set) = eligible
            && set.count_ones(..) * 8 < self.graph.nodes.len()
        {
            let mut found = Vec::new();
            let nodes = set.ones().map(|node| node as u32);
            for node in nodes.skip_while(|node| *node < range.0).take_while(|node| *node < range.1) {
                if self.index.status(node) == Status::Up {
                    let own = scratch.get(node);
                    let state = own
                        .or_else(|| self.overlay.and_then(|o| o.get(node)))
                        .unwrap_or_else(|| &self.index.state(node).free);
                    let template = self.graph.nodes[node as usize].template;
                    list(node, template, state, own.is_some(), &mut found);
                }
            }
            sources.push(Source { nodes: Nodes::List(found), key: (0, 0) });
            return sources;
        }
        for (layer, overlay) in [(0, Some(scratch)), (1, self.overlay)] {
            let Some(overlay) = overlay else { continue };
            let mut found = Vec::new();
            for (node, state) in overlay.within(range.0..range.1) {
                let template = self.graph.nodes[node as usize].template;
                if (layer == 1 && scratch.contains(node))
                    || self.index.status(node) != Status::Up
                    || !eligible.template(template)
                    || !eligible.node(node)
                {
                    continue;
                }
                list(node, template, state, layer == 0, &mut found);
            }
            if !found.is_empty() {
                sources.push(Source { nodes: Nodes::List(found), key: (0, 0) });
            }
        }
        for state in self.index.live() {
            if !eligible.template(state.template) || (place.idle && !state.idle) {
                continue;
            }
            let capacity = capacity(&self.graph.templates[state.template.0 as usize], &state.free);
            if capacity > 0 {
                sources.push(Source { nodes: Nodes::State(state, capacity), key: (state.gpus, state.cores) });
            }
        }
        sources
    }

    /// Offers the nodes of a search with their capacity, in an order, until `sink` returns `false`.
    pub(crate) fn candidates(
        &self,
        scratch: &'a Overlay,
        place: Where<'_>,
        order: Order,
        capacity: &mut dyn FnMut(&NodeTemplate, &[u64]) -> u64,
        sink: &mut Sink<'_>,
    ) {
        let mut place = place;
        let first_fit = place.cores
            && matches!(order, Order::Placed(Placement::First | Placement::Low | Placement::LoNode));
        if first_fit && scratch.len() == 0 {
            match self.walk(place, capacity, sink) {
                Some(next) => place.range.0 = next,
                None => return,
            }
        }
        let sources = self.sources(scratch, place, capacity);
        let Where { eligible, range, .. } = place;
        let whole = range == (0, self.graph.nodes.len() as u32);
        let all = scratch.len() == 0 && self.overlay.is_none() && !matches!(eligible, Eligible::Nodes(_));
        let allowed = Allowed { overlay: self.overlay, scratch, eligible, range, whole, all };
        match order {
            Order::Placed(Placement::High | Placement::HiNode | Placement::HiNodeX) => {
                self.merge(&sources, &allowed, Way::Down, sink);
            }
            Order::Placed(Placement::Power) => {
                let groups = self.by_template(sources, |template| template.power);
                let _ = groups.values().all(|group| self.merge(group, &allowed, Way::Up, sink));
            }
            Order::PerfClasses(first, last) => {
                let groups = self.by_template(sources, |template| template.perf_class);
                let mut groups = groups.range(first..=last);
                let _ = groups.all(|(_, group)| self.merge(group, &allowed, Way::Up, sink));
            }
            Order::Late => {
                let mut late: Vec<Entry<'a>> = Vec::new();
                let mut rest: Vec<Source<'a>> = Vec::new();
                for source in sources {
                    match source.nodes {
                        Nodes::List(list) => late.extend(list),
                        Nodes::State(..) => rest.push(source),
                    }
                }
                let now = |node: u32| {
                    let state = self.index.state(node);
                    (state.idle, state.cores + state.gpus)
                };
                late.sort_by_key(|&(node, ..)| (now(node), Reverse(node)));
                if late.into_iter().all(|(node, capacity, ..)| sink(node, capacity)) {
                    self.merge(&rest, &allowed, Way::Down, sink);
                }
            }
            Order::Placed(placement @ (Placement::Pack | Placement::Locality | Placement::Spread)) => {
                let groups = self.by_fullness(sources);
                let mut offer = |group: &Vec<Source<'a>>| self.merge(group, &allowed, Way::Up, sink);
                if placement == Placement::Spread {
                    let _ = groups.values().rev().all(&mut offer);
                } else {
                    let _ = groups.values().all(&mut offer);
                }
            }
            Order::Placed(Placement::Ranked) => {
                self.merge(
                    &sources,
                    &allowed,
                    self.index.ranking().map_or(Way::Up, |r| Way::Ranked(r)),
                    sink,
                );
            }
            Order::Placed(_) => {
                self.merge(&sources, &allowed, Way::Up, sink);
            }
        }
    }

    /// Offers the nodes with free cores in ascending order, until `sink` returns `false` or many of them do not fit. Returns the node
    /// from which on nodes are left; `None` if it offered all, or enough.
    fn walk(
        &self,
        place: Where<'_>,
        capacity: &mut dyn FnMut(&NodeTemplate, &[u64]) -> u64,
        sink: &mut Sink<'_>,
    ) -> Option<u32> {
        let (from, to) = place.range;
        let others = self.overlay.is_some() || place.idle || matches!(place.eligible, Eligible::Nodes(_));
        let Some(nodes) = self.index.with_cores(from, to).filter(|_| !others) else { return Some(from) };
        let (mut misses, mut last) = (0, None);
        for node in nodes {
            let state = self.index.state(node);
            // Neighbours are often in the same state.
            let n = match last {
                Some((of, n)) if std::ptr::eq(of, state) => n,
                _ if !place.eligible.template(state.template) => 0,
                _ => capacity(&self.graph.templates[state.template.0 as usize], &state.free),
            };
            last = Some((state, n));
            if n == 0 {
                misses += 1;
                if misses > MISSES {
                    return Some(node + 1);
                }
            } else if !sink(node, n) {
                return None;
            }
        }
        None
    }

    /// Groups of nodes by a number of their template.
    fn by_template(
        &self,
        sources: Vec<Source<'a>>,
        number: fn(&NodeTemplate) -> u64,
    ) -> BTreeMap<u64, Vec<Source<'a>>> {
        let of = |template: TemplateId| number(&self.graph.templates[template.0 as usize]);
        let mut groups: BTreeMap<u64, Vec<Source<'a>>> = BTreeMap::new();
        for Source { nodes, key } in sources {
            match nodes {
                Nodes::State(state, _) => {
                    groups.entry(of(state.template)).or_default().push(Source { nodes, key })
                }
                Nodes::List(list) => {
                    let mut parts: BTreeMap<u64, Vec<Entry<'a>>> = BTreeMap::new();
                    list.into_iter().for_each(|entry| parts.entry(of(entry.2)).or_default().push(entry));
                    for (number, list) in parts {
                        groups.entry(number).or_default().push(Source { nodes: Nodes::List(list), key });
                    }
                }
            }
        }
        groups
    }

    /// Groups of nodes with equally many free gpus and cores.
    fn by_fullness(&self, sources: Vec<Source<'a>>) -> BTreeMap<(u64, u64), Vec<Source<'a>>> {
        let mut groups: BTreeMap<(u64, u64), Vec<Source<'a>>> = BTreeMap::new();
        for source in sources {
            let Nodes::List(list) = source.nodes else {
                groups.entry(source.key).or_default().push(source);
                continue;
            };
            for entry in list {
                let template = &self.graph.templates[entry.2.0 as usize];
                let (cores, gpus) = template.core_gpu_units(entry.3);
                let source = Source { nodes: Nodes::List(vec![entry]), key: (gpus, cores) };
                groups.entry(source.key).or_default().push(source);
            }
        }
        groups
    }

    /// Offers the nodes of several lists in one order; false if `sink` ended it.
    fn merge(
        &self,
        sources: &[Source<'a>],
        allowed: &Allowed<'_>,
        way: Way<'_>,
        sink: &mut Sink<'_>,
    ) -> bool {
        let rank = |node: u32| match way {
            Way::Up => node,
            Way::Down => u32::MAX - node,
            Way::Ranked(ranking) => ranking.place(node),
        };
        let mut lists: Vec<Offers<'_, 'a>> =
            sources.iter().map(|source| Offers::of(source, allowed, way)).collect();
        if let [one] = &mut lists[..] {
            return one.all(|(node, capacity)| sink(node, capacity));
        }
        let mut heads: Vec<Option<(u32, u64)>> = lists.iter_mut().map(Iterator::next).collect();
        let rank = |head: Option<(u32, u64)>| head.map(|(node, _)| rank(node));
        let mut tournament = Tournament::of(heads.iter().map(|head| rank(*head)));
        while let Some(of) = tournament.first() {
            if heads[of].is_none_or(|(node, capacity)| !sink(node, capacity)) {
                return false;
            }
            heads[of] = lists[of].next();
            tournament.set(of, rank(heads[of]));
        }
        true
    }
}

type Entry<'a> = (u32, u64, TemplateId, &'a [u64]);

/// The direction of an order.
#[derive(Clone, Copy)]
enum Way<'r> {
    Up,
    Down,
    Ranked(&'r Ranking),
}

/// The nodes of one list with their capacity, in order.
enum Offers<'s, 'a> {
    /// Of a state, ascending or descending.
    State(Numbers<'a>, &'s Allowed<'s>, bool, u64),
    /// Of a state, by their places in a ranking.
    Places(Numbers<'a>, &'s Allowed<'s>, &'s Ranking, u64),
    List(std::slice::Iter<'s, Entry<'a>>, bool),
    Sorted(std::vec::IntoIter<(u32, u64)>),
}

impl<'s, 'a> Offers<'s, 'a> {
    fn of(source: &'s Source<'a>, allowed: &'s Allowed<'_>, way: Way<'s>) -> Self {
        let down = matches!(way, Way::Down);
        let sorted = |mut nodes: Vec<(u32, u64)>, ranking: &Ranking| {
            nodes.sort_unstable_by_key(|(node, _)| ranking.place(*node));
            Offers::Sorted(nodes.into_iter())
        };
        match (&source.nodes, way) {
            (Nodes::State(state, capacity), Way::Ranked(ranking)) if allowed.whole => {
                Offers::Places(state.ranked.iter(), allowed, ranking, *capacity)
            }
            // A part of the machine is small compared with the whole ranking.
            (Nodes::State(state, capacity), Way::Ranked(ranking)) => {
                let nodes = state.nodes.range(allowed.range.0, allowed.range.1);
                let nodes = nodes.filter(|node| allowed.allows(*node));
                sorted(nodes.map(|node| (node, *capacity)).collect(), ranking)
            }
            (Nodes::State(state, capacity), Way::Up | Way::Down) => {
                let nodes = state.nodes.range(allowed.range.0, allowed.range.1);
                Offers::State(nodes, allowed, down, *capacity)
            }
            (Nodes::List(list), Way::Ranked(ranking)) => {
                sorted(list.iter().map(|(node, capacity, ..)| (*node, *capacity)).collect(), ranking)
            }
            (Nodes::List(list), Way::Up | Way::Down) => Offers::List(list.iter(), down),
        }
    }
}

impl Iterator for Offers<'_, '_> {
    type Item = (u32, u64);

    fn next(&mut self) -> Option<(u32, u64)> {
        match self {
            Offers::State(nodes, allowed, down, capacity) => {
                let allows = |node: &u32| allowed.allows(*node);
                let node = if *down { nodes.rfind(allows) } else { nodes.find(allows) };
                node.map(|node| (node, *capacity))
            }
            Offers::Places(places, allowed, ranking, capacity) => {
                let mut nodes = places.map(|place| ranking.node(place));
                nodes.find(|node| allowed.allows(*node)).map(|node| (node, *capacity))
            }
            Offers::List(list, down) => {
                let entry = if *down { list.next_back() } else { list.next() };
                entry.map(|(node, capacity, ..)| (*node, *capacity))
            }
            Offers::Sorted(nodes) => nodes.next(),
        }
    }
}

/// The filter on the nodes of a state's list.
struct Allowed<'a> {
    overlay: Option<&'a Overlay>,
    scratch: &'a Overlay,
    eligible: &'a Eligible,
    range: (u32, u32),
    /// True if the range is the whole machine.
    whole: bool,
    /// True if it leaves out no node of the range.
    all: bool,
}

impl Allowed<'_> {
    fn allows(&self, node: u32) -> bool {
        self.all
            || !self.scratch.contains(node)
                && !self.overlay.is_some_and(|o| o.contains(node))
                && self.eligible.node(node)
    }
}
