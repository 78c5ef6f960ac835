//! Stand-ins: nodes of a class that need not be visited in a walk because another node of the class was.
//!
//! This module must never know how a node is visited.

use std::sync::Arc;

use foldhash::HashMap;

use super::classes::ClassId;
use super::request::Want;
use super::trials::Trial;
use super::views::View;

/// Most ways in which nodes are asked that are told apart in one walk.
pub(super) const WAYS_MAX: usize = 8;

/// What is known of the nodes of one class.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    /// They have nothing; true when they count as seen all the same.
    Nothing(bool),
    /// They have what this trial has.
    Trial(u32),
    /// Each has to be visited.
    Own,
}

/// One way in which nodes are asked.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) wants: Vec<Want>,
    /// Where the request lies that was asked last.
    pub(super) place: usize,
    pub(super) pristine: bool,
    pub(super) exclusive: bool,
    pub(super) classes: HashMap<ClassId, Known>,
}

/// What is known of nodes in one walk.
#[derive(Debug, Clone, Default)]
pub(super) struct StandIns {
    pub(super) ways: Vec<Way>,
    pub(super) trials: Vec<Arc<Trial>>,
    /// For each node that was not visited the number of the way in which it was asked, and of its trial.
    pub(super) stood: HashMap<u32, (u32, u32)>,
    /// The nodes that meet the constraint, if there is one.
    pub(super) view: Option<View>,
    /// True when only nodes that meet it are come to.
    pub(super) led: bool,
}

impl StandIns {
    /// The number of a way; `None` when there are too many. What lies `lasting`ly in one place is the same request.
    pub(super) fn way(
        &mut self,
        wants: &[Want],
        pristine: bool,
        exclusive: bool,
        lasting: bool,
    ) -> Option<usize> {
        let place = wants.as_ptr() as usize;
        let same = |way: &Way| {
            (way.pristine, way.exclusive) == (pristine, exclusive)
                && way.wants.len() == wants.len()
                && ((lasting && way.place == place) || way.wants == wants)
        };
        if let Some(known) = self.ways.iter().position(same) {
            self.ways[known].place = place;
            return Some(known);
        }
        if self.ways.len() >= WAYS_MAX {
            return None;
        }
        self.ways.push(Way {
            wants: wants.to_vec(),
            place,
            pristine,
            exclusive,
            classes: HashMap::default(),
        });
        Some(self.ways.len() - 1)
    }
}
