//! What flows to nodes beside their cores, such as power or bandwidth, and planning by it. Mirrors the WIT interface `flow`,
//! which hosts have since after the release of 0.1.0: a policy that uses nothing of this module runs on older ones too.
//!
//! The host keeps every pool within what it carries. This is for policies that want more: a budget below what there is, or
//! a mix of jobs. Amounts are whole numbers of a kind's unit.
//!
//! Must never know who answers.

use crate::pass::{Candidate, JOBS_MAX, Pass, Refusal};

/// One kind of flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// What a jobspec calls it.
    pub name: String,
    /// `W`, `B/s` or `b/s`, never with a prefix, or the site's own word; may be empty.
    pub unit: String,
    /// What all its sources carry together.
    pub total: u64,
    /// What of that no job holds, with the decisions that are staged.
    pub free: u64,
}

/// An amount over a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// When it begins; negative infinity for what is held now.
    pub start: f64,
    /// When it is expected to come back; never before [`Pass::now`], maybe infinite.
    pub end: f64,
    /// How much.
    pub amount: u64,
}

/// For whoever implements [`Pass`]: the same questions as the functions of this module.
pub trait Flow {
    /// See [`kinds`].
    fn kinds(&mut self) -> Vec<Kind>;
    /// See [`asked`]; of at most [`JOBS_MAX`] candidates.
    fn asked(&mut self, candidates: &[Candidate]) -> Vec<u64>;
    /// See [`spans`].
    fn spans(&mut self, kind: u32) -> Vec<Span>;
    /// See [`earliest_after`].
    fn earliest_after(&mut self, candidate: Candidate, time: f64) -> f64;
    /// See [`reserve_after`].
    fn reserve_after(&mut self, candidate: Candidate, time: f64) -> Result<f64, Refusal>;
}

/// All kinds; none where nothing flows. In the other functions a kind is its place in this list.
pub fn kinds(pass: &mut dyn Pass) -> Vec<Kind> {
    #[cfg(target_arch = "wasm32")]
    return with(pass, crate::abi::flow::kinds());
    #[cfg(not(target_arch = "wasm32"))]
    pass.flow().map(|flow| flow.kinds()).unwrap_or_default()
}

/// The least that each of these candidates takes of one kind.
pub fn asked(pass: &mut dyn Pass, kind: usize, candidates: &[Candidate]) -> Vec<u64> {
    let mut amounts = Vec::with_capacity(candidates.len());
    for some in candidates.chunks(JOBS_MAX as usize) {
        #[cfg(target_arch = "wasm32")]
        let all = with(pass, crate::abi::flow::asked(some));
        #[cfg(not(target_arch = "wasm32"))]
        let all = pass.flow().map(|flow| flow.asked(some)).unwrap_or_default();
        // As many for each candidate as there are kinds.
        let width = (all.len() / some.len()).max(1);
        amounts.extend((0..some.len()).map(|row| match kind < width {
            true => all.get(row * width + kind).copied().unwrap_or(0),
            false => 0,
        }));
    }
    amounts
}

/// What is held and what has been guaranteed of a kind, in all queues and in this pass: first what is held, by end and with
/// equal ends as one, at most 4096, of which the last stands for all that end later; then guarantees by start, the first
/// 4096.
pub fn spans(pass: &mut dyn Pass, kind: usize) -> Vec<Span> {
    let kind = u32::try_from(kind).unwrap_or(u32::MAX);
    #[cfg(target_arch = "wasm32")]
    return with(pass, crate::abi::flow::spans(kind));
    #[cfg(not(target_arch = "wasm32"))]
    pass.flow().map(|flow| flow.spans(kind)).unwrap_or_default()
}

/// [`Pass::earliest`] for a start at this time or later. A time that is not a number is a breach of the contract.
pub fn earliest_after(pass: &mut dyn Pass, candidate: Candidate, time: f64) -> f64 {
    #[cfg(target_arch = "wasm32")]
    return with(pass, crate::abi::flow::earliest_after(candidate, time));
    #[cfg(not(target_arch = "wasm32"))]
    pass.flow().map_or(f64::INFINITY, |flow| flow.earliest_after(candidate, time))
}

/// [`Pass::reserve`] for a start at this time or later. A time that is not a number is a breach of the contract.
pub fn reserve_after(pass: &mut dyn Pass, candidate: Candidate, time: f64) -> Result<f64, Refusal> {
    #[cfg(target_arch = "wasm32")]
    return with(pass, crate::abi::flow::reserve_after(candidate, time));
    #[cfg(not(target_arch = "wasm32"))]
    pass.flow().map_or(Err(Refusal::Busy), |flow| flow.reserve_after(candidate, time))
}

/// In a component the host is asked past the pass.
#[cfg(target_arch = "wasm32")]
fn with<T>(_: &mut dyn Pass, answer: T) -> T {
    answer
}
