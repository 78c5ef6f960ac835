//! The least that a request ever takes; of cores, more than it asks for, since exclusive nodes are held whole.
//!
//! Must never know what is free.

use std::collections::BTreeMap;

use crate::live::cache::{CACHE_MAX, remember};
use crate::live::request::{Level, Need, Request};
use crate::live::resources::Resources;
use crate::live::view::Eligible;

impl Request {
    /// The least that any alternative takes in all. `amount` tells how much a number of the vertices of a need takes, without the
    /// needs within them.
    pub(crate) fn least(&self, amount: &dyn Fn(&Need, u64) -> u64) -> u64 {
        let own = sum(&self.needs, 1, amount);
        self.alternatives.iter().map(|other| other.least(amount)).min().unwrap_or(own)
    }
}

/// The least that these needs take, all of them `times` over.
fn sum(needs: &[Need], times: u64, amount: &dyn Fn(&Need, u64) -> u64) -> u64 {
    let of_one = |need: &Need| {
        let count = times.saturating_mul(need.min());
        amount(need, count).saturating_add(sum(&need.with, count, amount))
    };
    needs.iter().map(of_one).fold(0, u64::saturating_add)
}

impl Resources {
    /// The fewest cores that any allocation of this request has on this machine. As [`Request::min_cores`] where it takes no
    /// nodes to itself; more where the smallest nodes that it may use have more.
    pub fn least_cores(&self, request: &Request) -> u64 {
        if !request.alternatives.is_empty() {
            let each = request.alternatives.iter().map(|one| self.least_cores(one));
            return each.min().unwrap_or_default();
        }
        let asked = u64::from(request.cores);
        let whole = match request.whole_nodes {
            true => u64::from(request.nodes).max(1),
            false => request.least(&|need, count| match need.level {
                Level::Node if need.exclusive && !need.slot => count,
                _ => 0,
            }),
        };
        if whole == 0 {
            return asked;
        }
        if let Some(known) = self.cache().least_cores.get(&request.shape) {
            return *known;
        }
        let made = asked.max(self.smallest_nodes(request, whole));
        remember(&mut self.cache().least_cores, CACHE_MAX, request.shape, made);
        made
    }

    /// The cores of this many nodes, the smallest that the request may use, now or with properties that come and go.
    fn smallest_nodes(&self, request: &Request, mut nodes: u64) -> u64 {
        let (machine, now) = (&self.machine, self.machine.eligible(request));
        let unread = self.properties_unread().then(|| machine.eligible_if(request, |_| true)).flatten();
        let by_other =
            [unread, machine.eligible_as_described(request), machine.eligible_of_instance(request)];
        let all: Vec<&Eligible> = by_other.iter().flatten().chain([&*now]).collect();
        let graph = &machine.graph;
        let mut by_cores: BTreeMap<u64, u64> = BTreeMap::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            let template = &graph.templates[node.template.0 as usize];
            let may = |eligible: &&Eligible| eligible.template(node.template) && eligible.node(at as u32);
            if template.node && all.iter().any(may) {
                *by_cores.entry(template.cores).or_default() += 1;
            }
        }
        let mut sum = 0u64;
        for (cores, count) in by_cores {
            let taken = count.min(nodes);
            sum = sum.saturating_add(cores.saturating_mul(taken));
            nodes -= taken;
        }
        sum
    }
}
