//! Resources beside nodes, cores and gpus, such as storage, memory and licences. Mirrors the WIT interface `resources`,
//! which was added after the release of 0.1.0: a policy that uses nothing of this module runs on older hosts too.
//!
//! The host allocates and keeps each pool. This module is for policies with further rules: storage that stays free, or
//! jobs with much memory before others. Amounts are whole numbers of a kind's unit.
//!
//! This module does not know the implementation of the pass.

use crate::pass::{Candidate, Pass};

/// All pools of one type (RFC 4) that count in one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its type in a jobspec, such as `ssd`.
    pub name: String,
    /// Its unit, such as `GiB`; empty for what is counted one by one.
    pub unit: String,
    /// Units of all pools, also of those that are down.
    pub total: u64,
    /// Units of pools that are up and that no job holds, with staged decisions taken into account.
    pub free: u64,
}

/// For implementations of [`Pass`]: the same questions as the functions of this module.
pub trait Resources {
    /// See [`kinds`].
    fn kinds(&mut self) -> Vec<Kind>;
    /// See [`asked`]; at most [`JOBS_MAX`](crate::pass::JOBS_MAX) candidates, for each an amount of each kind.
    fn asked(&mut self, candidates: &[Candidate]) -> Vec<u64>;
}

/// All kinds; empty on a machine without such resources. [`asked`] names a kind by its index in this list.
pub fn kinds(pass: &mut dyn Pass) -> Vec<Kind> {
    #[cfg(target_arch = "wasm32")]
    return crate::imports::from_host(pass, crate::imports::resources::kinds());
    #[cfg(not(target_arch = "wasm32"))]
    pass.resources().map(|resources| resources.kinds()).unwrap_or_default()
}

/// The minimum amount of one kind that each of these candidates takes; 0 of an unknown kind.
pub fn asked(pass: &mut dyn Pass, kind: usize, candidates: &[Candidate]) -> Vec<u64> {
    crate::pass::column(kind, candidates, |some| {
        #[cfg(target_arch = "wasm32")]
        return crate::imports::from_host(&mut *pass, crate::imports::resources::asked(some));
        #[cfg(not(target_arch = "wasm32"))]
        pass.resources().map(|resources| resources.asked(some)).unwrap_or_default()
    })
}
