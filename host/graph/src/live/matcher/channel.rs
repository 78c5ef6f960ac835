//! Matching nodes that need flow: every pool on the way to the chosen nodes must have enough left.
//!
//! Pools form a tree. Among nodes with equal needs, taking in any order each node that still gets its flow finds the
//! largest number of nodes. If two subsystems have different shapes, a placement may be missed.
//!
//! This module must never know the kind of flow.

use std::collections::BTreeMap;

use crate::layout::flow::{self, Flow};
use crate::layout::graph::Graph;
use crate::layout::template::NodeTemplate;
use crate::layout::vertex::NONE;
use crate::live::overlay::Overlay;
use crate::live::placement::Placement;
use crate::live::request::{Level, Need};
use crate::live::view::{Order, View, Where};
use crate::live::{local, prefer};

use super::{Before, Matcher, level_out, trim};

/// The free units of pools during the choice of nodes.
struct Headroom<'a> {
    view: View<'a>,
    scratch: &'a Overlay,
    flows: &'a [(u32, u64)],
    /// Free units of the pools met so far.
    left: BTreeMap<u32, u64>,
}

impl Headroom<'_> {
    fn of(&self, at: u32) -> u64 {
        self.left.get(&at).copied().unwrap_or_else(|| flow::headroom(self.view.upper(self.scratch, at)))
    }

    /// How often a node gets its flow, at most `limit` times.
    fn fits(&self, node: u32, limit: u64) -> u64 {
        let flows = &self.view.graph.flows;
        self.flows.iter().fold(limit, |limit, &(kind, units)| match entry(self.view.graph, kind, node) {
            Some(_) if limit == 0 => 0,
            Some(pool) => flows.up(pool).fold(limit, |n, at| n.min(self.of(at) / units.max(1))),
            None => 0,
        })
    }

    fn take(&mut self, node: u32, count: u64) {
        for &(kind, units) in self.flows {
            let Some(pool) = entry(self.view.graph, kind, node) else { continue };
            for at in self.view.graph.flows.up(pool) {
                let left = self.of(at).saturating_sub(units.saturating_mul(count));
                self.left.insert(at, left);
            }
        }
    }

    /// How often all sources together can feed the need.
    fn sources(&self) -> u64 {
        let flows = &self.view.graph.flows;
        let most = |&(kind, units): &(u32, u64)| {
            let sources = flows.kinds[kind as usize].sources.iter();
            sources.fold(0u64, |sum, at| sum.saturating_add(self.of(*at) / units.max(1)))
        };
        self.flows.iter().map(most).min().unwrap_or(u64::MAX)
    }

    /// Of nodes in this order those that get their flow, up to `limit` in all.
    fn choose(mut self, list: &[(u32, u64)], limit: u64) -> (Vec<(u32, u64)>, u64) {
        let (mut plan, mut sum) = (Vec::new(), 0);
        for &(node, capacity) in list {
            let n = self.fits(node, capacity.min(limit - sum));
            if n > 0 {
                self.take(node, n);
                plan.push((node, n));
                sum += n;
            }
            if sum == limit {
                break;
            }
        }
        (plan, sum)
    }

    /// True if all of these nodes get their flow together.
    fn all(mut self, plan: &[(u32, u64)]) -> bool {
        plan.iter().all(|&(node, count)| {
            let fits = self.fits(node, count) == count;
            self.take(node, count);
            fits
        })
    }

    /// As [`choose`](Self::choose), distributed as evenly as the flow allows.
    fn level(&self, list: &[(u32, u64)], best: u64) -> Option<Vec<(u32, u64)>> {
        let again = || Headroom { left: BTreeMap::new(), ..*self };
        let mut even = list.to_vec();
        level_out(&mut even, best);
        again().all(&even).then_some(even)
    }
}

/// The pool that feeds a node.
fn entry(graph: &Graph, kind: u32, node: u32) -> Option<u32> {
    let pool = graph.flows.kinds.get(kind as usize)?.entry.get(node as usize)?;
    Some(*pool).filter(|pool| *pool != NONE)
}

impl Matcher<'_> {
    /// [`spread`](Self::spread) of a need with flow.
    pub(super) fn channel(&mut self, scope: u32, need: &Need, counted: &Need, per: u64) -> bool {
        let range = self.range(scope);
        self.last = None;
        let per = per.max(1);
        let view = self.view;
        let scratch = std::mem::take(&mut self.scratch);
        let headroom = || Headroom { view, scratch: &scratch, flows: &need.flows, left: BTreeMap::new() };
        // The sources bound the number of nodes.
        let limit = counted.limit().saturating_mul(per).min(headroom().sources());
        let least = counted.min().saturating_mul(per);
        let mut steps = 1;
        let mut list: Vec<(u32, u64)> = Vec::new();
        if limit >= least {
            let place = Where { eligible: self.eligible, range, idle: self.whole_nodes, cores: false };
            let mut capacity = |template: &NodeTemplate, state: &[u64]| {
                local::capacity(view.graph, template, state, need, limit)
            };
            let order = match self.order {
                Order::Placed(Placement::Variation) => Order::PerfClasses(0, u64::MAX),
                order => order,
            };
            // A preference examines all nodes, other orders only as many as are taken.
            let all = matches!(
                self.order,
                Order::Placed(Placement::Spread | Placement::Locality | Placement::Variation)
            );
            let (mut taken, mut sum) = (headroom(), 0);
            view.candidates(&scratch, place, order, &mut capacity, &mut |node, capacity| {
                steps += 1;
                if all {
                    list.push((node, capacity));
                    return true;
                }
                let n = taken.fits(node, capacity.min(limit - sum));
                if n > 0 {
                    taken.take(node, n);
                    list.push((node, n));
                    sum += n;
                }
                sum < limit
            });
        }
        let (mut plan, sum) = headroom().choose(&list, limit);
        let in_time = self.step(steps);
        let best = counted.best(sum / per).map(|n| n.saturating_mul(per));
        let Some(best) = best.filter(|_| in_time) else {
            self.scratch = scratch;
            return false;
        };
        trim(&mut plan, best, sum);
        if let Some(better) = self.preferred(scope, need, &list, best, &headroom()) {
            plan = better;
        }
        self.settle(scratch, plan.clone(), need);
        for (node, count) in plan {
            for &(kind, units) in &need.flows {
                if let Some(pool) = entry(view.graph, kind, node) {
                    self.take_flow(Flow { node, pool, units: units.saturating_mul(count) });
                }
            }
        }
        if need.level == Level::Node && counted.is_task_slot() {
            self.found.slots += best / per;
        }
        true
    }

    /// An even or close choice, or one of close performance classes, if there is flow for it.
    fn preferred(
        &self,
        scope: u32,
        need: &Need,
        list: &[(u32, u64)],
        best: u64,
        headroom: &Headroom<'_>,
    ) -> Option<Vec<(u32, u64)>> {
        let again = || Headroom { left: BTreeMap::new(), ..*headroom };
        let alone =
            || list.iter().map(|&(node, n)| (node, headroom.fits(node, n.min(best)))).filter(|(_, n)| *n > 0);
        match self.order {
            Order::Placed(Placement::Spread) if need.level == Level::Local => {
                headroom.level(&alone().collect::<Vec<_>>(), best)
            }
            Order::Placed(Placement::Locality) => {
                let plan = prefer::near(self.view.graph, scope, alone().collect(), best);
                again().all(&plan).then_some(plan)
            }
            Order::Placed(Placement::Variation) => {
                let perf_class = |node: u32| self.view.graph.template(node).perf_class;
                let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
                alone().for_each(|(node, n)| *sums.entry(perf_class(node)).or_default() += n);
                let (first, last) = prefer::closest(&sums, best)?;
                let near: Vec<(u32, u64)> = list
                    .iter()
                    .copied()
                    .filter(|(node, _)| (first..=last).contains(&perf_class(*node)))
                    .collect();
                let (plan, sum) = again().choose(&near, best);
                (sum == best).then_some(plan)
            }
            _ => None,
        }
    }

    /// Takes flow that is known to be free.
    pub(super) fn take_flow(&mut self, flow: Flow) {
        let graph = self.view.graph;
        for at in graph.flows.up(flow.pool) {
            let mut state = self.view.upper(&self.scratch, at);
            flow::debit(&mut state, flow.units);
            self.journal.push(Before::Upper(at, self.scratch.upper.insert(at, state)));
        }
        self.found.flows.push(flow);
    }
}
