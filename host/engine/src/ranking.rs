//! The order of nodes that a policy gives, for jobs whose placement is `ranked`.
//!
//! A policy ranks nodes when it becomes active and when the inventory has changed, not in passes; a successor does so
//! while it is warmed up. The resources keep the order, so a search costs the same as with any other placement. Must
//! never know the use of the order.

use fluxgate_graph::NodeRow;

use crate::policy::Policy;
use crate::policy_error::PolicyError;

/// Most nodes of one call (`wit/0.1.0/ranking.wit`).
const NODES_PER_CALL: usize = 4096;

/// Nodes in the order of the scores that a policy gives them, smaller ones first, equal ones in their own order. The
/// policy must have [`Abilities::ranking`](crate::Abilities::ranking); it is called for at most 4096 nodes at a time.
///
/// # Errors
/// The error of the policy, or [`PolicyError::BadValue`] for a NaN or another number of scores than of nodes.
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
            // Negative zero becomes zero.
            order.push((score + 0.0, node));
        }
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(order.into_iter().map(|(_, node)| node).collect())
}
