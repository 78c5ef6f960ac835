//! Flow to nodes beside their cores, such as power or bandwidth, and planning with it. Mirrors the WIT interface
//! `flow`, which was added after the release of 0.1.0: a policy that uses nothing of this module runs on older hosts
//! too.
//!
//! The host keeps every pool within its capacity. This module is for policies with further rules: a budget below the
//! capacity, or a mix of jobs. Amounts are whole numbers of a kind's unit.
//!
//! This module does not know the implementation of the pass.

#[cfg(target_arch = "wasm32")]
use crate::imports::from_host;
use crate::pass::{Candidate, Pass, Refusal, column};

/// One kind of flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its name in a jobspec.
    pub name: String,
    /// `W`, `B/s` or `b/s`, never with a prefix, or the site's own unit; may be empty.
    pub unit: String,
    /// Capacity of all its sources together.
    pub total: u64,
    /// The part of it that no job holds, with staged decisions taken into account.
    pub free: u64,
}

/// An amount over a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Begin in seconds since the epoch; negative infinity for flow that is held now.
    pub start: f64,
    /// Expected end in seconds since the epoch; never before [`Pass::now`], possibly infinite.
    pub end: f64,
    /// Amount, in the unit of the kind.
    pub amount: u64,
}

/// For implementations of [`Pass`]: the same questions as the functions of this module.
pub trait Flow {
    /// See [`kinds`].
    fn kinds(&mut self) -> Vec<Kind>;
    /// See [`asked`]; at most [`JOBS_MAX`](crate::pass::JOBS_MAX) candidates.
    fn asked(&mut self, candidates: &[Candidate]) -> Vec<u64>;
    /// See [`spans`].
    fn spans(&mut self, kind: u32) -> Vec<Span>;
    /// See [`earliest_after`].
    fn earliest_after(&mut self, candidate: Candidate, time: f64) -> f64;
    /// See [`reserve_after`].
    fn reserve_after(&mut self, candidate: Candidate, time: f64) -> Result<f64, Refusal>;
}

/// All kinds; empty without flow. The other functions name a kind by its index in this list.
pub fn kinds(pass: &mut dyn Pass) -> Vec<Kind> {
    #[cfg(target_arch = "wasm32")]
    return from_host(pass, crate::imports::flow::kinds());
    #[cfg(not(target_arch = "wasm32"))]
    pass.flow().map(|flow| flow.kinds()).unwrap_or_default()
}

/// The minimum amount of one kind that each of these candidates takes.
pub fn asked(pass: &mut dyn Pass, kind: usize, candidates: &[Candidate]) -> Vec<u64> {
    column(kind, candidates, |some| {
        #[cfg(target_arch = "wasm32")]
        return from_host(&mut *pass, crate::imports::flow::asked(some));
        #[cfg(not(target_arch = "wasm32"))]
        pass.flow().map(|flow| flow.asked(some)).unwrap_or_default()
    })
}

/// The flow of a kind that is held or reserved, in all queues and in this pass. First the flow held, by end, equal ends
/// merged, at most 4096 spans, of which the last also stands for all later ends; then reservations by start, the first
/// 4096.
pub fn spans(pass: &mut dyn Pass, kind: usize) -> Vec<Span> {
    let kind = u32::try_from(kind).unwrap_or(u32::MAX);
    #[cfg(target_arch = "wasm32")]
    return from_host(pass, crate::imports::flow::spans(kind));
    #[cfg(not(target_arch = "wasm32"))]
    pass.flow().map(|flow| flow.spans(kind)).unwrap_or_default()
}

/// [`Pass::earliest`] for a start at this time (seconds since the epoch) or later. NaN is a breach of the contract.
pub fn earliest_after(pass: &mut dyn Pass, candidate: Candidate, time: f64) -> f64 {
    #[cfg(target_arch = "wasm32")]
    return from_host(pass, crate::imports::flow::earliest_after(candidate, time));
    #[cfg(not(target_arch = "wasm32"))]
    pass.flow().map_or(f64::INFINITY, |flow| flow.earliest_after(candidate, time))
}

/// [`Pass::reserve`] for a start at this time (seconds since the epoch) or later. NaN is a breach of the contract.
pub fn reserve_after(pass: &mut dyn Pass, candidate: Candidate, time: f64) -> Result<f64, Refusal> {
    #[cfg(target_arch = "wasm32")]
    return from_host(pass, crate::imports::flow::reserve_after(candidate, time));
    #[cfg(not(target_arch = "wasm32"))]
    pass.flow().map_or(Err(Refusal::Busy), |flow| flow.reserve_after(candidate, time))
}
