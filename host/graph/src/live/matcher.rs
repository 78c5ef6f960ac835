//! Matching a request against a view of the machine.
//!
//! Above nodes this is a walk over the containment tree; at the level of nodes a query to the index; inside a node it
//! is [`local`]. The result names positions on nodes, not members. The ledger chooses members, and only for a job
//! that starts now.
//!
//! This module must never know time, jobs or reservations: it sees one [`View`].

use crate::live::take::Match;

mod channel;
mod slots;

use crate::description::units;
use crate::layout::graph::Graph;
use crate::layout::template::NodeTemplate;
use crate::layout::vertex::NONE;
use crate::live::local::{self, Placed};
use crate::live::overlay::Overlay;
use crate::live::placement::Placement;
use crate::live::prefer;
use crate::live::request::{Level, Need, Request};
use crate::live::share::{self, Share, Shares, Taken, is_exclusive};
use crate::live::view::{Eligible, Order, View, Where};

/// A placement inside a node: template, state and count it was made for, and its result.
type Last = (*const NodeTemplate, *const [u64], u64, Shares, u64);

/// A point to return to: lengths of the lists of the match, slots, and length of the journal.
type Mark = (usize, usize, u64, usize, usize);

/// The state of a vertex before the search took units of it.
enum Before {
    Node(u32, Option<Box<[u64]>>),
    Upper(u32, Option<u64>),
}

/// Most steps (nodes and vertices visited) of one search. A search that reaches the bound is refused. Requests of
/// practice need a small part of it; the bound is for hostile ones (ranges of millions in ranges of millions).
const STEPS_MAX: u64 = 1 << 26;

/// A search in progress.
struct Matcher<'a> {
    view: View<'a>,
    eligible: &'a Eligible,
    order: Order,
    /// Takes from the far end.
    high: bool,
    /// Takes of this request so far, where a later part of it could want the same units.
    scratch: Overlay,
    /// The states that `scratch` replaced, change by change.
    journal: Vec<Before>,
    track: bool,
    /// Only idle nodes, and each of them as a whole.
    whole_nodes: bool,
    steps: u64,
    found: Match,
    /// The last placement inside a node, by template and state: nodes in one state are placed alike.
    last: Option<Last>,
}

/// Matches a request; `None` when it does not fit.
pub(crate) fn find(
    view: View<'_>,
    request: &Request,
    eligible: &Eligible,
    placement: Placement,
) -> Option<Match> {
    find_in(view, request, eligible, Order::Placed(placement))
}

/// As [`find`], in any order.
pub(crate) fn find_in(view: View<'_>, request: &Request, eligible: &Eligible, order: Order) -> Option<Match> {
    if !request.alternatives.is_empty() {
        return request.alternatives.iter().find_map(|one| find_in(view, one, eligible, order));
    }
    if view.unread && request.takes_above() {
        return None;
    }
    let mut matcher = Matcher {
        view,
        eligible,
        high: match order {
            Order::Late => true,
            Order::Placed(placement) => placement.is_high(),
            Order::PerfClasses(..) => false,
        },
        order,
        scratch: Overlay::default(),
        journal: Vec::new(),
        track: !request.single,
        whole_nodes: request.whole_nodes,
        steps: 0,
        found: Match::default(),
        last: None,
    };
    let met = matcher.all(NONE, &request.needs);
    let mut found = matcher.found;
    if request.whole_nodes {
        take_whole(view.graph, &mut found);
    }
    met.then_some(found)
}

/// Takes every node of a match as a whole.
fn take_whole(graph: &Graph, found: &mut Match) {
    let mut last: Option<(*const NodeTemplate, Shares)> = None;
    found.nodes.sort_by_key(|(node, _)| *node);
    found.nodes.dedup_by_key(|(node, _)| *node);
    for (node, taken) in &mut found.nodes {
        let template = graph.template(*node);
        let all = match last.take() {
            Some((of, all)) if std::ptr::eq(of, template) => all,
            _ => Shares::from(&local::everything(template)[..]),
        };
        *taken = all.clone();
        last = Some((template, all));
    }
}

/// The only need of a request, and its count, for requests that are one count over all nodes.
pub(crate) fn tally(request: &Request) -> Option<(&Need, u64)> {
    let [need] = request.needs.as_slice() else { return None };
    match need.level {
        Level::Local | Level::Node => Some((need, need.min())),
        Level::Upper if need.slot => match need.with.as_slice() {
            [inner] if inner.level == Level::Node => Some((inner, need.min().saturating_mul(inner.min()))),
            _ => None,
        },
        Level::Upper => None,
    }
}

/// True if a match exists if and only if the [`tally`] suffices.
pub(crate) fn tally_decides(request: &Request) -> bool {
    if request.flow {
        return false;
    }
    match request.needs.as_slice() {
        [need] if need.level == Level::Upper => need.with.iter().all(|inner| inner.count.fixed().is_some()),
        _ => true,
    }
}

impl<'a> Matcher<'a> {
    fn mark(&self) -> Mark {
        let Match { nodes, upper, flows, slots } = &self.found;
        (nodes.len(), upper.len(), *slots, self.journal.len(), flows.len())
    }

    fn undo(&mut self, mark: Mark) {
        self.found.nodes.truncate(mark.0);
        self.found.upper.truncate(mark.1);
        self.found.slots = mark.2;
        self.found.flows.truncate(mark.4);
        self.last = None;
        for before in self.journal.drain(mark.3..).rev() {
            match before {
                Before::Node(node, Some(state)) => self.scratch.set(node, state),
                Before::Node(node, None) => self.scratch.unset(node),
                Before::Upper(at, Some(state)) => drop(self.scratch.upper.insert(at, state)),
                Before::Upper(at, None) => drop(self.scratch.upper.remove(&at)),
            }
        }
    }

    /// Stores the state in which this search leaves a node.
    fn see(&mut self, node: u32, state: Box<[u64]>) {
        self.journal.push(Before::Node(node, self.scratch.get(node).map(Into::into)));
        self.scratch.set(node, state);
    }

    /// Counts steps; false if there were too many.
    fn step(&mut self, steps: u64) -> bool {
        self.steps = self.steps.saturating_add(steps);
        self.steps <= STEPS_MAX
    }

    fn range(&self, scope: u32) -> (u32, u32) {
        match self.view.graph.upper_index(scope) {
            Some(at) => self.view.graph.upper_nodes[at],
            None => (0, self.view.graph.nodes.len() as u32),
        }
    }

    /// Places every need of a list within the subtree of `scope`, or none.
    fn all(&mut self, scope: u32, needs: &[Need]) -> bool {
        if let [one] = needs {
            return self.need(scope, one);
        }
        let mark = self.mark();
        let ok = needs.iter().all(|need| self.need(scope, need));
        if !ok {
            self.undo(mark);
        }
        ok
    }

    fn need(&mut self, scope: u32, need: &Need) -> bool {
        if !self.step(1) {
            return false;
        }
        match need.level {
            Level::Local | Level::Node => self.spread(scope, need, need, 1),
            Level::Upper if need.slot => match need.with.as_slice() {
                // A slot of a fixed number of nodes is the same as that number of nodes.
                [inner] if inner.level == Level::Node && inner.count.fixed().is_some() => {
                    let per = inner.min();
                    self.spread(scope, inner, need, per)
                }
                _ => self.slots(scope, need),
            },
            Level::Upper => self.vertices(scope, need),
        }
    }

    /// Repeats `once` as often as the count of the need allows.
    fn repeat(&mut self, need: &Need, mut once: impl FnMut(&mut Self) -> bool) -> bool {
        let start = self.mark();
        let mut marks = Vec::new();
        // No need fits more often than there are vertices. This also bounds slots without content.
        let limit = need.limit().min(self.view.graph.vertices.len() as u64 + 1);
        while (marks.len() as u64) < limit {
            let mark = self.mark();
            if !once(self) {
                break;
            }
            marks.push(mark);
            if need.slot && !self.took(mark) {
                // The need takes nothing that could run out, so it fits as often as necessary.
                let more = need.min().saturating_sub(marks.len() as u64);
                let each = self.found.slots - mark.2;
                self.found.slots = self.found.slots.saturating_add(each.saturating_mul(more));
                return true;
            }
        }
        match need.best(marks.len() as u64) {
            Some(best) => {
                if let Some(mark) = marks.into_iter().nth(best as usize) {
                    self.undo(mark);
                }
                true
            }
            None => {
                self.undo(start);
                false
            }
        }
    }

    /// True if the search has since taken anything that others cannot share.
    fn took(&self, mark: Mark) -> bool {
        let nodes = self.found.nodes[mark.0..].iter().flat_map(|(_, taken)| taken.iter().map(|t| t.share));
        let upper = self.found.upper[mark.1..].iter().map(|(_, share)| *share);
        self.whole_nodes && self.found.nodes.len() > mark.0
            || self.found.flows.len() > mark.4
            || nodes.chain(upper).any(|share| share != Share::Shared)
    }

    /// Places a need on upper vertices of its type below `scope`, or on `scope` itself if the need names nothing
    /// above nodes.
    fn vertices(&mut self, scope: u32, need: &Need) -> bool {
        let graph = self.view.graph;
        let (start, end) = match scope {
            NONE => (0, graph.upper_tree()),
            _ => {
                let at = graph.upper_index(scope).unwrap_or(0);
                let end = graph.vertices[scope as usize].end;
                (at + 1, graph.upper.partition_point(|&v| v < end))
            }
        };
        let of_type = graph.upper_of.get(&need.type_).map_or(&[][..], Vec::as_slice);
        let (start, end) = match graph.machine_wide.contains(&need.type_) {
            true => (0, graph.upper_tree()),
            false => (start, end),
        };
        let first = of_type.partition_point(|&at| (at as usize) < start);
        let after = of_type.partition_point(|&at| (at as usize) < end);
        let mut list: Vec<u32> = Vec::new();
        let mut skip = 0;
        for &at in &of_type[first..after] {
            let vertex = graph.upper[at as usize];
            if vertex >= skip && self.view.upper_is_up(at) {
                list.push(at);
                skip = graph.vertices[vertex as usize].end;
            }
        }
        if self.high {
            list.reverse();
        }
        let is_leaf = |at: u32| graph.is_upper_leaf(at);
        if need.with.is_empty() && !list.is_empty() && list.iter().all(|&at| is_leaf(at)) {
            return self.pools(need, &list);
        }
        let mut list = list.into_iter();
        self.repeat(need, |this| list.by_ref().any(|at| this.vertex(at, need)))
    }

    fn vertex(&mut self, at: u32, need: &Need) -> bool {
        let graph = self.view.graph;
        if graph.is_upper_leaf(at) || is_exclusive(self.view.upper(&self.scratch, at)) {
            return false;
        }
        let vertex = graph.upper[at as usize];
        if need.exclusive {
            return self.exclusive(at, vertex, need);
        }
        if need.with.is_empty() {
            return self.take_upper(at, Share::Shared);
        }
        self.all(vertex, &need.with)
    }

    /// Takes a whole idle subtree.
    fn exclusive(&mut self, at: u32, vertex: u32, need: &Need) -> bool {
        let graph = self.view.graph;
        let end = graph.vertices[vertex as usize].end;
        let last = graph.upper.partition_point(|&v| v < end) as u32;
        let inside = at..last;
        let taken = |u: u32| self.view.upper(&self.scratch, u) != graph.upper_idle(u);
        if inside.clone().any(|u| taken(u) || !self.view.upper_is_up(u)) {
            return false;
        }
        let (first, after) = graph.upper_nodes[at as usize];
        for node in first..after {
            let ok = self.view.index.is_up(node)
                && self.eligible.template(graph.nodes[node as usize].template)
                && self.eligible.node(node)
                && self.view.state(&self.scratch, node) == &*graph.template(node).idle;
            if !ok {
                return false;
            }
        }
        let mark = self.mark();
        if !self.all(vertex, &need.with) {
            return false;
        }
        let (slots, flows) = (self.found.slots, self.found.flows[mark.4..].to_vec());
        self.undo(mark);
        self.found.slots = slots;
        flows.into_iter().for_each(|flow| self.take_flow(flow));
        for u in inside {
            let idle = graph.upper_idle(u);
            self.take_upper(u, if graph.is_upper_leaf(u) { Share::Units(idle) } else { Share::Exclusive });
        }
        for node in first..after {
            let template = graph.template(node);
            self.take_node(node, Shares::from(&local::everything(template)[..]));
        }
        true
    }

    /// Units of pools that belong to no node.
    fn pools(&mut self, need: &Need, list: &[u32]) -> bool {
        let graph = self.view.graph;
        let mut plan = Vec::new();
        let mut found = 0u64;
        let all = need.takes_whole(graph);
        for &at in list {
            let it = &graph.vertices[graph.upper[at as usize] as usize];
            let Some(scale) = units::scale(&need.unit, graph.text(it.unit)) else { continue };
            let free = self.view.upper(&self.scratch, at);
            let whole = all && it.size > 1;
            let wanted = need.limit().saturating_sub(found);
            if wanted == 0 || free == 0 || (whole && free != it.units()) {
                continue;
            }
            let units = if whole { free } else { scale.pool_units(wanted).min(free) };
            found += scale.request_units(units).min(wanted);
            plan.push((at, units, scale));
        }
        let Some(best) = need.best(found) else { return false };
        // The takes above the largest allowed count are undone, the last pool first.
        let mut over = found - best;
        for (at, units, scale) in plan.into_iter().rev() {
            let back = scale.pool_units(over).min(units);
            over -= scale.request_units(back).min(over);
            let keep = if all { units } else { units - back };
            if keep > 0 {
                self.take_upper(at, Share::Units(keep));
            }
        }
        true
    }

    fn take_upper(&mut self, at: u32, share: Share) -> bool {
        let mut state = self.view.upper(&self.scratch, at);
        if !share::take(&mut state, share) {
            return false;
        }
        // Stored even if no other need can want it: the overlay of upper vertices is small.
        self.journal.push(Before::Upper(at, self.scratch.upper.insert(at, state)));
        self.found.upper.push((at, share));
        true
    }

    fn take_node(&mut self, node: u32, taken: Shares) {
        if self.track {
            let mut state: Box<[u64]> = self.view.state(&self.scratch, node).into();
            for t in taken.iter() {
                share::take(&mut state[t.at as usize], t.share);
            }
            self.see(node, state);
        }
        self.found.nodes.push((node, taken));
    }

    /// Counts `need` (a node, or something inside nodes) over the nodes of `scope`. `counted` is the vertex of the
    /// request whose count says how many, in steps of `per`.
    fn spread(&mut self, scope: u32, need: &Need, counted: &Need, per: u64) -> bool {
        if !need.flows.is_empty() {
            return self.channel(scope, need, counted, per);
        }
        let range = self.range(scope);
        self.last = None;
        let limit = counted.limit().saturating_mul(per);
        let mut plan: Vec<(u32, u64)> = Vec::with_capacity(limit.min(PLAN_ROOM) as usize);
        let mut sum = 0u64;
        let even = self.order == Order::Placed(Placement::Spread) && need.level == Level::Local;
        let near = self.order == Order::Placed(Placement::Locality);
        let scratch = std::mem::take(&mut self.scratch);
        let mut steps = scratch.len() as u64;
        let core = self.view.graph.core;
        let counts = need.flat.as_deref().filter(|_| need.level == Level::Local);
        let cores = counts.is_some_and(|counts| counts.iter().any(|(type_, n)| *type_ == core && *n > 0));
        let place = Where { eligible: self.eligible, range, idle: self.whole_nodes, cores };
        {
            let graph = self.view.graph;
            // For plain counts the capacity of a node is computed up to the whole limit, which costs nothing. For
            // other needs it is computed only up to the number that can matter.
            let mut capacity =
                |template: &NodeTemplate, state: &[u64]| local::capacity(graph, template, state, need, limit);
            let mut order = self.order;
            if order == Order::Placed(Placement::Variation) {
                let room = self.view.totals(&scratch, place, &mut capacity, |template| template.perf_class);
                let sum = room.values().fold(0u64, |sum, n| sum.saturating_add(*n)).min(limit);
                let want = counted.best(sum / per.max(1)).map_or(0, |n| n.saturating_mul(per));
                if let Some((first, last)) = prefer::closest(&room, want) {
                    order = Order::PerfClasses(first, last);
                }
            }
            let mut sink = |node: u32, capacity: u64| {
                steps += 1;
                let n = if even || near { capacity } else { capacity.min(limit - sum) };
                plan.push((node, n));
                sum = sum.saturating_add(n);
                // An even choice examines more nodes than the fewest that suffice, a close choice all of them.
                match (even, near) {
                    (true, _) => (plan.len() as u64) < limit,
                    (_, true) => capacity < limit,
                    _ => sum < limit,
                }
            };
            self.view.candidates(&scratch, place, order, &mut capacity, &mut sink);
        }
        let in_time = self.step(steps);
        let best = counted.best(sum.min(limit) / per.max(1)).map(|n| n.saturating_mul(per));
        let Some(best) = best.filter(|_| in_time) else {
            self.scratch = scratch;
            return false;
        };
        if near {
            plan = prefer::near(self.view.graph, scope, plan, best);
        } else if even {
            level_out(&mut plan, best);
        } else {
            trim(&mut plan, best, sum);
        }
        self.settle(scratch, plan, need);
        if need.level == Level::Node && counted.is_task_slot() {
            self.found.slots += best / per.max(1);
        }
        true
    }

    /// Places a need on the chosen nodes, on top of the earlier takes of this search.
    fn settle(&mut self, scratch: Overlay, plan: Vec<(u32, u64)>, need: &Need) {
        let view = self.view;
        let mut fresh: Vec<(u32, Box<[u64]>)> = Vec::new();
        let near = self.order == Order::Placed(Placement::Locality);
        let mut last: Option<(*const NodeTemplate, Option<(u32, u64)>)> = None;
        self.found.nodes.reserve(plan.len());
        for (node, count) in plan {
            let template = view.graph.template(node);
            let one = match last {
                Some((of, one)) if std::ptr::eq(of, template) => one,
                _ => local::one_vertex(template, need).filter(|_| !near),
            };
            last = Some((template, one));
            // The loop does not change the state of a later node: no node occurs twice in one plan.
            let (taken, slots) = match one {
                Some((at, per)) => {
                    let share = Share::Units(per.saturating_mul(count));
                    (Shares::One(Taken { at, share }), if need.slot { count } else { 0 })
                }
                None => self.place(node, view.state(&scratch, node), need, count),
            };
            self.found.slots += slots;
            if self.track {
                let mut after: Box<[u64]> = view.state(&scratch, node).into();
                for t in taken.iter() {
                    share::take(&mut after[t.at as usize], t.share);
                }
                fresh.push((node, after));
            }
            self.found.nodes.push((node, taken));
        }
        // Earlier states are kept below those of this loop.
        self.scratch = scratch;
        for (node, state) in fresh {
            self.see(node, state);
        }
    }

    fn place(&mut self, node: u32, state: &[u64], need: &Need, count: u64) -> (Shares, u64) {
        let graph = self.view.graph;
        let template = graph.template(node);
        let key = (std::ptr::from_ref(template), std::ptr::from_ref(state), count);
        if let Some((template, state, count, taken, slots)) = &self.last
            && (*template, *state, *count) == key
        {
            return (taken.clone(), *slots);
        }
        let near = self.order == Order::Placed(Placement::Locality);
        let Placed { taken, slots } = local::place(graph, template, state, need, count, (self.high, near));
        let taken = Shares::from(&taken[..]);
        self.last = Some((key.0, key.1, key.2, taken.clone(), slots));
        (taken, slots)
    }
}

/// Most nodes for which a plan has space before it is known how many it needs.
const PLAN_ROOM: u64 = 64;

/// Removes the excess over `best`, from the end.
fn trim(plan: &mut Vec<(u32, u64)>, best: u64, sum: u64) {
    let mut over = sum.saturating_sub(best);
    while over > 0 {
        let Some(last) = plan.last_mut() else { return };
        if last.1 <= over {
            over -= last.1;
            plan.pop();
        } else {
            last.1 -= over;
            over = 0;
        }
    }
}

/// Distributes `best` evenly: no node gets a second one while another could have a first.
fn level_out(plan: &mut Vec<(u32, u64)>, best: u64) {
    let (mut low, mut high) = (0u64, best);
    // The least level at which there is enough.
    while low < high {
        let level = low + (high - low) / 2;
        let sum = plan.iter().fold(0u64, |s, p| s.saturating_add(p.1.min(level)));
        if sum >= best { high = level } else { low = level + 1 }
    }
    let mut over = plan.iter().fold(0u64, |s, p| s.saturating_add(p.1.min(low))) - best;
    for p in plan.iter_mut() {
        p.1 = p.1.min(low);
    }
    for p in plan.iter_mut().rev() {
        if over > 0 && p.1 == low {
            p.1 -= 1;
            over -= 1;
        }
    }
    plan.retain(|p| p.1 > 0);
}
