//! Flow as policies see it: capacity, use and reservations, summed by subsystem, in units without a prefix.
//!
//! This module must never know a policy.

use std::collections::BTreeMap;

use fluxgate_formats::TotalF64;

use crate::description::units;
use crate::layout::flow::{EMPTY, headroom};
use crate::live::ledger::Allocation;
use crate::live::request::Request;
use crate::live::resource_kinds::ResourceKind;
use crate::live::resources::Resources;

/// Most spans of running jobs in [`Resources::flow_spans`], and most of reservations.
pub const FLOW_SPANS_MAX: usize = 4096;

/// An amount of flow over a span of time, of a running job or a reservation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowSpan {
    /// When it starts, seconds since the epoch; negative infinity for a running job.
    pub start: f64,
    /// When it is expected to end, seconds since the epoch; may be infinite.
    pub end: f64,
    /// Units without a prefix, such as W or B/s.
    pub amount: u64,
}

impl Resources {
    /// The kinds of flow that jobs can get, as numbered in the graph.
    fn flow_numbers(&self) -> impl Iterator<Item = usize> + '_ {
        let kinds = self.machine.graph.flows.kinds.iter().enumerate();
        kinds.filter(|(_, kind)| kind.refused.is_none()).map(|(number, _)| number)
    }

    /// The kinds of flow that jobs can request; the other functions number them in this order.
    pub fn flow_kinds(&self) -> Vec<ResourceKind> {
        let graph = &self.machine.graph;
        let kind = |number: usize| {
            let kind = &graph.flows.kinds[number];
            let text = graph.text(kind.unit);
            let sum = |of: &dyn Fn(u32) -> u64| {
                kind.sources.iter().fold(0, |sum: u64, at| sum.saturating_add(of(*at)))
            };
            ResourceKind {
                name: graph.text(kind.name).to_owned(),
                unit: units::flowing(text).map_or(text, |(base, _)| base).to_owned(),
                total: sum(&|at| graph.flows.idle(at).map_or(0, |idle| idle - EMPTY)),
                free: sum(&|at| headroom(self.machine.ledger.upper()[at as usize])),
            }
        };
        self.flow_numbers().map(kind).collect()
    }

    /// The least amount of each kind of [`flow_kinds`](Self::flow_kinds) that a request takes, in units without a prefix; 0 if none.
    pub fn flow_asked(&self, request: &Request) -> Vec<u64> {
        self.flow_numbers().map(|kind| request.least_flow(kind as u32)).collect()
    }

    /// Flow of a kind over time; `kind` counts in the order of [`flow_kinds`](Self::flow_kinds), and an unknown one has no spans.
    /// Running jobs come first, by expected end; jobs of equal end form one span. Jobs that end after the first [`FLOW_SPANS_MAX`]
    /// ends form one span with the last end. Reservations follow by start, at most [`FLOW_SPANS_MAX`], each with the least amount
    /// that it takes.
    pub fn flow_spans(&self, kind: usize) -> Vec<FlowSpan> {
        let Some(number) = self.flow_numbers().nth(kind) else { return Vec::new() };
        let flows = &self.machine.graph.flows;
        let held = |allocation: &Allocation| {
            let of = allocation.flows.iter().filter(|flow| flows.kind_of(flow.pool) == Some(number));
            of.fold(0, |sum: u64, flow| sum.saturating_add(flow.units))
        };
        let mut ends: BTreeMap<TotalF64, u64> = BTreeMap::new();
        for allocation in
            self.machine.ledger.jobs().values().filter(|allocation| !allocation.flows.is_empty())
        {
            let amount = held(allocation);
            if amount > 0 {
                let sum = ends.entry(TotalF64(allocation.end)).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        while ends.len() > FLOW_SPANS_MAX {
            let Some((last, more)) = ends.pop_last() else { break };
            if let Some((_, before)) = ends.pop_last() {
                ends.insert(last, more.saturating_add(before));
            }
        }
        let begun =
            |(end, amount): (TotalF64, u64)| FlowSpan { start: f64::NEG_INFINITY, end: end.0, amount };
        let reserved = self.machine.reservations.iter().filter_map(|it| {
            let amount = it.request.least_flow(number as u32);
            let span = FlowSpan { start: it.start, end: it.start + it.duration, amount };
            (amount > 0).then_some(span)
        });
        ends.into_iter().map(begun).chain(reserved.take(FLOW_SPANS_MAX)).collect()
    }
}

impl Request {
    /// The least amount of a kind of flow, by its number in the graph, that the request takes.
    pub(crate) fn least_flow(&self, kind: u32) -> u64 {
        if !self.flow {
            return 0;
        }
        self.least(&|need, count| {
            let each = need.flows.iter().find(|flow| flow.0 == kind).map_or(0, |flow| flow.1);
            count.saturating_mul(each)
        })
    }
}
