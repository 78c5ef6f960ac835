//! The order of nodes that the default policy gives, for jobs whose placement is `ranked`.
//!
//! It is asked when the policy comes and when the inventory has changed, not at passes; a successor gives it while it
//! warms up. The resources keep it, so that a search costs the same as with any other placement.
//!
//! Must never know what the order is good for.

use std::sync::Arc;

use fluxgate_graph::NodeRow;

use crate::core::Core;
use crate::core::post::Post;
use crate::engine::Engine;
use crate::event::Action;
use crate::policy::{Policy, PolicyError};
use crate::swap::Seat;

/// Most nodes of one call (`wit/0.1.0/ranking.wit`).
const NODES_PER_CALL: usize = 4096;

/// An order of nodes, and the inventory that it is of.
#[derive(Debug, Clone)]
pub(crate) struct Ranked {
    pub(crate) of: u64,
    /// By broker rank.
    pub(crate) order: Arc<[u32]>,
}

/// Nodes in the order of the scores that a policy gives them, smaller ones first and equal ones as they come. The policy
/// has the ability to, and is asked in calls of at most 4096 nodes; what it says is checked.
pub fn order_by_scores<'r, T>(
    policy: &mut dyn Policy,
    nodes: impl Iterator<Item = (T, NodeRow<'r>)>,
) -> Result<Vec<T>, PolicyError> {
    let mut order: Vec<(f64, T)> = Vec::new();
    let mut nodes = nodes.peekable();
    while nodes.peek().is_some() {
        let (some, rows): (Vec<T>, Vec<NodeRow<'_>>) = nodes.by_ref().take(NODES_PER_CALL).unzip();
        let scores = policy.scores(&rows)?;
        let bad = |message| PolicyError::BadValue { during: "ranking.scores", message };
        if scores.len() != rows.len() {
            return Err(bad(format!("{} scores for {} nodes", scores.len(), rows.len())));
        }
        for ((node, row), score) in some.into_iter().zip(&rows).zip(scores) {
            if score.is_nan() {
                return Err(bad(format!("the score of rank {} is NaN", row.rank)));
            }
            // Both zeros are one number.
            order.push((score + 0.0, node));
        }
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(order.into_iter().map(|(_, node)| node).collect())
}

impl Seat {
    /// Have the order of nodes as they are now, if the policy gives one.
    pub(crate) fn rank(&mut self, core: &Core) -> Result<(), PolicyError> {
        let of = core.resources.inventory_version();
        if !self.policy.abilities().ranking || self.ranked.as_ref().is_some_and(|ranked| ranked.of == of) {
            return Ok(());
        }
        self.policy.machine(core.machine());
        let rows = core.resources.node_rows().map(|row| (row.rank, row));
        let order = order_by_scores(&mut *self.policy, rows)?;
        self.ranked = Some(Ranked { of, order: order.into() });
        Ok(())
    }
}

impl Core {
    /// Take nodes in this order from here on.
    pub(crate) fn order_nodes(&mut self, order: Option<Arc<[u32]>>) {
        let same = match (&self.node_order, &order) {
            (Some(have), Some(new)) => Arc::ptr_eq(have, new) || have == new,
            (have, new) => have.is_none() && new.is_none(),
        };
        if same {
            return;
        }
        self.resources.order_nodes(order.as_deref());
        self.node_order = order;
        // What was not found in one order may be found in another.
        self.queues.iter_mut().for_each(|queue| queue.unpark_all());
        self.all_dirty();
    }
}

impl Engine {
    /// Have the order of nodes of whoever decides by default.
    pub(crate) fn rank_nodes(&mut self, out: &mut Vec<Action>) {
        if let Err(error) = self.try_rank_nodes() {
            self.fail_live(Post::Default, error, out);
        }
    }

    /// The same; the policy that fails stays where it is.
    pub(crate) fn try_rank_nodes(&mut self) -> Result<(), PolicyError> {
        let Some(mut seat) = self.take_live(Post::Default) else {
            self.core_mut().order_nodes(None);
            return Ok(());
        };
        let asked = seat.rank(self.core());
        let order = seat.ranked.as_ref().map(|ranked| ranked.order.clone());
        self.set_live(Post::Default, seat);
        asked?;
        self.core_mut().order_nodes(order);
        Ok(())
    }
}
