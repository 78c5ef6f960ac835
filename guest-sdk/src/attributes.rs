//! Attributes of jobs beside what they ask for: memory, group, application, name. Mirrors the WIT interface `attributes`, which was
//! added after the release of 0.1.0: a policy that uses nothing of this module runs on older hosts too.
//!
//! They are told by users and never checked, and unknown for many jobs.
//!
//! This module does not know the implementation of the pass.

use crate::pass::{Candidate, JOBS_MAX, Pass};

/// Memory of the whole job, in bytes.
pub const MEMORY: &str = "memory";
/// The group or bank that the job belongs to or is charged to.
pub const GROUP: &str = "group";
/// Its program, or the number of it in a log.
pub const APPLICATION: &str = "application";
/// The name that its user gave it.
pub const NAME: &str = "name";

/// For implementations of [`Pass`]: the same questions as the functions of this module.
pub trait Attributes {
    /// See [`text`]; at most [`JOBS_MAX`] candidates.
    fn text(&mut self, name: &str, candidates: &[Candidate]) -> Vec<Option<String>>;
    /// See [`numbers`]; at most [`JOBS_MAX`] candidates.
    fn numbers(&mut self, name: &str, candidates: &[Candidate]) -> Vec<f64>;
}

/// Asks about at most [`JOBS_MAX`] candidates at a time.
fn all<T>(candidates: &[Candidate], ask: impl FnMut(&[Candidate]) -> Vec<T>) -> Vec<T> {
    candidates.chunks(JOBS_MAX as usize).flat_map(ask).collect()
}

/// The attribute of each of these candidates as text; `None` where it is unknown.
pub fn text(pass: &mut dyn Pass, name: &str, candidates: &[Candidate]) -> Vec<Option<String>> {
    all(candidates, |some| {
        #[cfg(target_arch = "wasm32")]
        return crate::imports::from_host(&mut *pass, crate::imports::attributes::text(name, some));
        #[cfg(not(target_arch = "wasm32"))]
        pass.attributes().map_or_else(|| vec![None; some.len()], |known| known.text(name, some))
    })
}

/// The attribute of each of these candidates as a number; NaN where it is unknown, or a text that is no finite number.
pub fn numbers(pass: &mut dyn Pass, name: &str, candidates: &[Candidate]) -> Vec<f64> {
    all(candidates, |some| {
        #[cfg(target_arch = "wasm32")]
        return crate::imports::from_host(&mut *pass, crate::imports::attributes::numbers(name, some));
        #[cfg(not(target_arch = "wasm32"))]
        pass.attributes().map_or_else(|| vec![f64::NAN; some.len()], |known| known.numbers(name, some))
    })
}
