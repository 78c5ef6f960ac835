//! Shares of vertices: units of a leaf, or an interior vertex exclusively or shared.
//!
//! This module must never know a request or a job.

use std::ops::Deref;
use std::sync::Arc;

/// The state of an interior vertex that is held exclusively. The state of any other interior vertex is the number of
/// jobs that share it, and the state of a leaf is the number of its free units.
const EXCLUSIVE: u64 = u64::MAX;

/// True if an interior vertex in this state is held exclusively.
pub(crate) fn is_exclusive(state: u64) -> bool {
    state == EXCLUSIVE
}

/// A share of one vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) enum Share {
    /// Units of a leaf.
    Units(u64),
    /// An interior vertex exclusively; its leaves have takes of their own.
    Exclusive,
    /// A vertex shared with other jobs.
    Shared,
}

/// A share at one position of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) at: u32,
    pub(crate) share: Share,
}

/// The shares of one node. Mostly it is one, and otherwise nodes in one state have the same ones.
#[derive(Debug, Clone)]
pub(crate) enum Shares {
    One(Taken),
    Many(Arc<[Taken]>),
}

impl Deref for Shares {
    type Target = [Taken];

    fn deref(&self) -> &[Taken] {
        match self {
            Shares::One(taken) => std::slice::from_ref(taken),
            Shares::Many(taken) => taken,
        }
    }
}

impl PartialEq for Shares {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Shares {}

impl From<&[Taken]> for Shares {
    fn from(taken: &[Taken]) -> Self {
        match taken {
            [one] => Shares::One(*one),
            many => Shares::Many(many.into()),
        }
    }
}

/// Takes a share out of a state; false, without a change, if it is not free.
pub(crate) fn take(state: &mut u64, share: Share) -> bool {
    match share {
        Share::Units(n) if *state >= n => *state -= n,
        Share::Exclusive if *state == 0 => *state = EXCLUSIVE,
        Share::Shared if *state < EXCLUSIVE - 1 => *state += 1,
        _ => return false,
    }
    true
}

/// Puts a share back.
pub(crate) fn give(state: &mut u64, share: Share) {
    match share {
        Share::Units(n) => *state += n,
        Share::Exclusive => *state = 0,
        Share::Shared => *state = state.saturating_sub(1),
    }
}

/// Returns shares to a state.
pub(crate) fn give_all(state: &mut [u64], taken: &[Taken]) {
    for t in taken {
        give(&mut state[t.at as usize], t.share);
    }
}
