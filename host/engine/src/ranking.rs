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
use crate::policy::PolicyError;
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

impl Seat {
    /// Have the order of nodes as they are now, if the policy gives one.
    pub(crate) fn rank(&mut self, core: &Core) -> Result<(), PolicyError> {
        let of = core.resources.inventory_version();
        if !self.policy.abilities().ranking || self.ranked.as_ref().is_some_and(|ranked| ranked.of == of) {
            return Ok(());
        }
        self.policy.machine(core.machine());
        let mut order: Vec<(f64, u32)> = Vec::new();
        let mut rows = core.resources.node_rows();
        loop {
            let some: Vec<NodeRow<'_>> = rows.by_ref().take(NODES_PER_CALL).collect();
            if some.is_empty() {
                break;
            }
            let scores = self.policy.scores(&some)?;
            let bad = |message| PolicyError::BadValue { during: "ranking.scores", message };
            if scores.len() != some.len() {
                return Err(bad(format!("{} scores for {} nodes", scores.len(), some.len())));
            }
            for (row, score) in some.iter().zip(scores) {
                if score.is_nan() {
                    return Err(bad(format!("the score of rank {} is NaN", row.rank)));
                }
                // Both zeros are one number.
                order.push((score + 0.0, row.rank));
            }
        }
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.ranked = Some(Ranked { of, order: order.into_iter().map(|(_, rank)| rank).collect() });
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
