//! Stand-ins: nodes of a class that need not be visited because another node of the class was.
//!
//! This module must never know how a node is visited.

use std::sync::Arc;

use foldhash::HashMap;

use super::classes::ClassId;
use super::request::Want;
use super::trials::Trial;
use super::views::View;

/// Most different needs of nodes that are distinguished in one walk.
pub(super) const WAYS_MAX: usize = 8;

/// The known result for the nodes of one class.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    /// No offer; true if they count as visited.
    Nothing(bool),
    /// The offers of this trial.
    Trial(u32),
    /// Each must be visited.
    Own,
}

/// One list of needs of nodes.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) wants: Vec<Want>,
    /// The address of the last needs.
    pub(super) place: usize,
    pub(super) pristine: bool,
    pub(super) exclusive: bool,
    pub(super) classes: HashMap<ClassId, Known>,
}

/// The known results for nodes in one walk.
#[derive(Debug, Clone, Default)]
pub(super) struct StandIns {
    pub(super) ways: Vec<Way>,
    pub(super) trials: Vec<Arc<Trial>>,
    /// For each node that was not visited, the numbers of its needs and of its trial.
    pub(super) stood: HashMap<u32, (u32, u32)>,
    /// The nodes that satisfy the constraint, if there is one.
    pub(super) view: Option<View>,
    /// True if the walk only reaches nodes that satisfy it.
    pub(super) led: bool,
}

impl StandIns {
    /// The number of a list of needs; `None` if there are too many. With `lasting`, equal addresses mean equal needs.
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
