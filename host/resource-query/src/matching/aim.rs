//! The parameters of a walk, and the count at which it has enough.
//!
//! This module must never know how the graph is walked.

use fluxgate_formats::constraint::Constraint;
use fluxgate_graph::description::Name;

use super::request::Want;

/// The parameters of a walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim<'r> {
    pub(super) start: i64,
    pub(super) end: i64,
    /// True if the start is the present, where overdue jobs still hold their resources.
    pub(super) now: bool,
    /// True if only the inventory counts, not the states of vertices.
    pub(super) inventory: bool,
    /// True if the request has flow.
    pub(super) flow: bool,
    pub(super) constraint: Option<&'r Constraint>,
    /// Shape of the request; 0 when it has none.
    pub(super) shape: u64,
    /// Number of the constraint; 0 when it has none.
    pub(super) terms: u64,
}

/// Whole groups, collected into equal shares.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shares {
    pub(super) per_share: u64,
    pub(super) seen: u64,
    pub(super) collected: u64,
    pub(super) full: u64,
}

impl Shares {
    pub(super) fn of(per_share: u64) -> Self {
        Shares { per_share, ..Shares::default() }
    }

    /// Adds a group as a whole: its excess over a share is not counted for the next share.
    pub(super) fn add(&mut self, count: u64) {
        self.collected = self.collected.saturating_add(count);
        if self.per_share > 0 && self.collected >= self.per_share {
            self.full += 1;
            self.collected = 0;
        }
    }

    pub(super) fn enough(&self, shares: u64) -> bool {
        self.per_share == 0 || self.full >= shares
    }
}

/// True if the request is for exclusive vertices of this type.
pub(super) fn asks_exclusively(wants: &[Want], type_: Name) -> bool {
    wants.iter().any(|w| w.type_ == type_ && w.exclusive == Some(true))
}
