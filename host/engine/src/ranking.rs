//! The order of nodes that a policy gives, for jobs whose placement is `ranked`.
//!
//! A policy is asked when it comes and when the inventory has changed, not at passes; a successor is asked while it is
//! warmed up. The resources keep the order, so that a search costs the same as with any other placement. Must never know
//! what the order is used for.

use fluxgate_graph::NodeRow;

use crate::policy::Policy;
use crate::policy_error::PolicyError;

/// Most nodes of one call (`wit/0.1.0/ranking.wit`).
const NODES_PER_CALL: usize = 4096;

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
