//! Compiling layouts: from a description alone, from one that is bound to an R (RFC 20), and from an R.
//!
//! A compilation takes everything or nothing, and names the place of an error. These modules must never know the use of a
//! layout.

mod bind;
pub(crate) mod r;
mod site;
pub(crate) mod treepool;

use crate::description::{Description, LoadError};
use crate::layout::graph::Graph;

impl Graph {
    /// The machine of a description, with the ranks, cores and gpus that it has itself.
    ///
    /// ```
    /// use fluxgate_graph::Graph;
    /// use fluxgate_graph::description::Description;
    ///
    /// let described = Description::from_jgf(r#"{"graph": {"nodes": [
    ///     {"id": "0", "metadata": {"type": "node", "name": "n0"}}, {"id": "1", "metadata": {"type": "core", "id": 0}},
    ///     {"id": "2", "metadata": {"type": "core", "id": 1}}],
    ///     "edges": [{"source": "0", "target": "1"}, {"source": "0", "target": "2"}]}}"#).unwrap();
    /// assert_eq!((described.vertex_count(), described.runs().len()), (3, 2));
    /// let machine = Graph::compile(&described).unwrap();
    /// assert_eq!((machine.node_count(), machine.vertex_count()), (1, 2));
    /// ```
    ///
    /// # Errors
    /// The description breaks a rule of [`GraphBuilder::finish`](crate::GraphBuilder::finish), or has what cannot be scheduled.
    pub fn compile(description: &Description) -> Result<Graph, LoadError> {
        Ok(site::load(description, site::Source::Graph, &mut |_, _| {})?.graph)
    }
}
