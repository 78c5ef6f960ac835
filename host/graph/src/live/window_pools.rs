//! Amounts of pools that windows keep: of storage, licences, power or bandwidth, with nodes or without.
//!
//! While a window keeps an amount of a pool, searches see the pool with this much less; a request for no pool never looks. This
//! module must never know the purpose of a window.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;

use crate::description::units;
use crate::layout::flow;
use crate::layout::graph::Graph;
use crate::layout::site::Spot;
use crate::layout::vertex::{NONE, VertexId};
use crate::live::calendar::{Window, WindowSpan};
use crate::live::machine::Machine;
use crate::live::overlay::Overlay;
use crate::live::request::Request;
use crate::live::resources::Resources;
use crate::live::timeline::Step;
use crate::live::{future, share, take};

/// An amount of a pool cannot be kept, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// No pool has this name.
    #[error(
        "there is no pool {0:?}: accepted are paths of pools above nodes, types of which there is one pool, and SUBSYSTEM/NAME of pools of flow"
    )]
    Unknown(String),
    /// It is no amount of this pool: pool, amount, its size in its unit.
    #[error(
        "pool {0}: found {1:?}, accepted are \"all\", \"50%\", and numbers up to {2} with or without a unit"
    )]
    Amount(String, String, String),
}

/// The position of a pool in `Graph::upper`.
fn find(graph: &Graph, name: &str) -> Option<u32> {
    let pool = |at: &u32| graph.is_upper_leaf(*at) && graph.flows.kind_of(*at).is_none();
    if let Some(site) = graph.site.as_ref().filter(|_| name.starts_with('/')) {
        let [Spot::Upper(at)] = site.find(name) else { return None };
        return Some(*at).filter(pool);
    }
    if let Some((of, own)) = name.split_once('/') {
        let (kind, _) = graph.flows.find(graph.names.get(of)?)?;
        let called = |at: &u32| {
            let name = graph.vertex_name(VertexId(graph.upper[*at as usize]), 0);
            name.is_some_and(|name| name == own)
        };
        let mut found = graph.flows.pools(kind).map(|(at, _)| at).filter(called);
        return found.next().filter(|_| found.next().is_none());
    }
    let name = graph.names.get(name)?;
    let mut found: Box<dyn Iterator<Item = u32>> = match graph.flows.find(name) {
        Some((kind, _)) => Box::new(graph.flows.kinds[kind].sources.iter().copied()),
        None => Box::new(graph.upper_of.get(&name)?.iter().copied().filter(pool)),
    };
    found.next().filter(|_| found.next().is_none())
}

/// The units of a pool when nothing holds any.
fn size(graph: &Graph, at: u32) -> u64 {
    let idle = graph.upper_idle(at);
    if graph.flows.kind_of(at).is_some() { flow::headroom(idle) } else { idle }
}

/// Units of a pool in words.
fn said(graph: &Graph, at: u32, units: u64) -> String {
    if let Some(kind) = graph.flows.kind_of(at) {
        return graph.flows.kinds[kind].said(&graph.names, units);
    }
    match graph.text(graph.vertices[graph.upper[at as usize] as usize].unit) {
        "" => units.to_string(),
        unit => format!("{units} {unit}"),
    }
}

/// This many units of a pool as a text says; at least one, and at most all.
fn amount(graph: &Graph, at: u32, text: &str) -> Option<u64> {
    let all = size(graph, at);
    let text = text.trim();
    let units = if text == "all" {
        all
    } else if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.trim().parse().ok().filter(|p| (0.0..=100.0).contains(p))?;
        // Rounded up, so that 100 % is all.
        (all as f64 * percent / 100.0).ceil() as u64
    } else {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (count, unit) = (text[..end].parse().ok()?, text[end..].trim());
        match graph.flows.kind_of(at) {
            Some(kind) => graph.flows.kinds[kind].amount(&graph.names, count, unit)?,
            None => {
                let own = graph.text(graph.vertices[graph.upper[at as usize] as usize].unit);
                units::scale(unit, own)?.pool_units(count)
            }
        }
    };
    (1..=all).contains(&units).then_some(units)
}

/// The states of pools and the reservations while a span lasts.
pub(crate) struct Future<'a> {
    /// The time from which they are seen.
    pub(crate) now: f64,
    /// The states above nodes at the start of the span, with the reservations that began by then; without, those of the present.
    pub(crate) then: Option<&'a BTreeMap<u32, u64>>,
    /// Planned reservations.
    pub(crate) steps: [&'a [Step]; 2],
}

impl Machine {
    /// Could this window be in the way of a request? One of pools alone is not, for a request without pools.
    pub(crate) fn concerns(request: &Request, window: &Window) -> bool {
        window.count > 0 || (request.flow || request.above)
    }

    /// The states of pools that a request may use for a span: `seen` at most, and at every time of the span no more than is free then
    /// beside what windows keep. `None` if they keep nothing that matters to the request.
    pub(crate) fn less(
        &self,
        seen: Option<&Overlay>,
        request: &Request,
        future: &Future<'_>,
        (start, end): (f64, f64),
    ) -> Option<Overlay> {
        if self.calendar.is_empty() || !(request.flow || request.above) {
            return None;
        }
        let met = self.calendar.meeting(start, end);
        let kept = met.flat_map(|(_, span, of)| of.amounts.iter().map(|(at, units)| (*at, *span, *units)));
        let kept: Vec<(u32, WindowSpan, u64)> = kept.collect();
        let mut less: Option<Overlay> = None;
        let mut pools: Vec<u32> = kept.iter().map(|(at, ..)| *at).collect();
        pools.sort_unstable();
        pools.dedup();
        let state = |upper: Option<&BTreeMap<u32, u64>>, at: u32| {
            let known = upper.and_then(|upper| upper.get(&at));
            known.copied().unwrap_or(self.ledger.upper()[at as usize])
        };
        for at in pools {
            let of = || kept.iter().filter(|(of, ..)| *of == at);
            let changes = self.changes(at, future, (start, end));
            let free = i128::from(state(future.then, at));
            // More is used when a window begins, or a reservation does.
            let begins =
                of().map(|(_, span, _)| span.from.max(start)).chain(changes.iter().map(|(time, _)| *time));
            let left = begins.map(|time| {
                let then = of().filter(|(_, span, _)| span.from <= time && time < span.end);
                let kept: i128 = then.map(|(.., units)| i128::from(*units)).sum();
                let changed: i128 =
                    changes.iter().filter(|(at, _)| *at <= time).map(|(_, units)| units).sum();
                free + changed - kept
            });
            let left = left.min().map_or(u64::MAX, |left| u64::try_from(left.max(0)).unwrap_or(u64::MAX));
            let most = state(seen.map(|seen| &seen.upper), at).min(left);
            less.get_or_insert_with(|| seen.cloned().unwrap_or_default()).upper.insert(at, most);
        }
        less
    }

    /// The times in a span at which the free units of a pool change, and by how many.
    fn changes(&self, at: u32, future: &Future<'_>, (start, end): (f64, f64)) -> Vec<(f64, i128)> {
        let vertex = self.graph.upper[at as usize];
        let of_flow = |flows: &[flow::Flow]| {
            let mut units = 0;
            take::each_pool(&self.graph, flows, |pool, more| {
                units += if pool == at { i128::from(more) } else { 0 }
            });
            units
        };
        let mut changes = Vec::new();
        for (ends, id) in self.ledger.ends().take_while(|(ends, _)| *ends < end || *ends <= future.now) {
            let ends = future::ends_at(ends, future.now);
            if ends <= start {
                continue;
            }
            let allocation = &self.ledger.jobs()[&id];
            let takes = allocation.takes.iter().filter(|take| take.node == NONE && take.vertex == vertex);
            let mut back = 0;
            takes.for_each(|take| share::give(&mut back, take.what.share()));
            changes.push((ends, i128::from(back) + of_flow(&allocation.flows)));
        }
        for step in future.steps.into_iter().flatten() {
            let mut units = 0;
            let found = step.found.upper.iter().filter(|(of, _)| *of == at);
            found.for_each(|(_, share)| share::give(&mut units, *share));
            let units = i128::from(units) + of_flow(&step.found.flows);
            let begun = future.then.is_some() && step.start <= start;
            if !begun && step.start < end {
                changes.push((step.start.max(start), -units));
            }
            if step.end > start && step.end < end {
                changes.push((step.end, units));
            }
        }
        changes.retain(|(_, units)| *units != 0);
        changes
    }
}

impl Resources {
    /// This many units of a pool, as a text says: `all`, `50%`, or a number with or without a unit. A pool is named by its
    /// containment path, by its type if there is one pool of it, or as `SUBSYSTEM/NAME`, or `SUBSYSTEM` for its only source, if it
    /// carries flow.
    ///
    /// # Errors
    /// There is no such pool, or it has no such amount.
    pub fn pool_units(&self, pool: &str, text: &str) -> Result<u64, PoolError> {
        let graph = self.graph();
        let at = find(graph, pool).ok_or_else(|| PoolError::Unknown(pool.to_owned()))?;
        let of = || PoolError::Amount(pool.to_owned(), text.to_owned(), said(graph, at, size(graph, at)));
        amount(graph, at, text).ok_or_else(of)
    }

    /// True if a job holds units of a pool; false for a pool or job that is not known.
    pub fn holds_of_pool(&self, id: JobId, pool: &str) -> bool {
        let (graph, allocation) = (self.graph(), self.machine.ledger.jobs().get(&id));
        let Some((at, allocation)) = find(graph, pool).zip(allocation) else { return false };
        let vertex = graph.upper[at as usize];
        let mut held = allocation.takes.iter().any(|take| take.node == NONE && take.vertex == vertex);
        take::each_pool(graph, &allocation.flows, |pool, _| held |= pool == at);
        held
    }

    /// Units of a pool in words, in its unit; the number for a pool that is not known.
    pub fn said_of_pool(&self, pool: &str, units: u64) -> String {
        find(self.graph(), pool).map_or_else(|| units.to_string(), |at| said(self.graph(), at, units))
    }

    /// The positions of pools with the units that a window keeps; those that are not known are left out.
    pub(crate) fn kept_amounts(&self, amounts: &[(String, u64)]) -> Box<[(u32, u64)]> {
        amounts.iter().filter_map(|(pool, units)| Some((find(self.graph(), pool)?, *units))).collect()
    }
}
