//! The complete resource model of RFC 4: any graph, exactly as it was given.
//!
//! There are two graphs in this crate, for two purposes.
//!
//! - [`Resources`](crate::Resources) is what the engine schedules on. It keeps one containment tree in which runs of equal
//!   leaves are one vertex and nodes of equal make are of one class, so that a pass costs what has changed and not what
//!   there is. It knows nodes, what is inside them, and what lies above them.
//! - [`Model`] is the general graph: arbitrary types and levels, pools with sizes and units, several subsystems, edges
//!   with type and direction, states, tags, extended data, paths; a vertex for every vertex of the file. It is what the
//!   readers of all formats make, what is saved without loss, and what `resource-query` matches on, vertex by vertex.
//!   It answers anything that RFC 4 can say, at a cost that follows the part of the graph that is walked.
//!
//! Use [`Resources`](crate::Resources) to schedule a stream of jobs on nodes; use [`Model`] to look at a machine, to
//! convert it, and to match requests that need more than one subsystem or types above nodes.
//!
//! From the ground up: `vertex`, `graph`, `extended` and `check` (what there is), `planner` (one pool over time), `read`
//! and `write` (files), `rows` (what is saved, and what changed), `walk` (walker, filters, accumulator), `judge` (filters
//! that are somebody else's code), `outline` (the tree with equal siblings folded).
//!
//! ```
//! use fluxgate_graph::model::{Model, Pool, Relation};
//!
//! let mut model = Model::new();
//! let rack = model.add(Pool::new("rack", 0)).unwrap();
//! let node = model.add(Pool::new("node", 7)).unwrap();
//! model.connect(rack, node, &Relation::contains()).unwrap();
//! model.finish().unwrap();
//! assert_eq!(model.at_path("/rack0/node7"), [node]);
//! ```

mod check;
mod extended;
mod graph;
mod judge;
pub mod matching;
mod outline;
mod planner;
mod read;
mod rows;
mod stencil;
#[cfg(test)]
mod tests;
mod vertex;
mod walk;
mod write;

pub use graph::{CONTAINS, Direction, Edge, MODEL_DEPTH_MAX, Model, ModelError, Relation, VERTICES_MAX};
pub use judge::{Asked, BATCH_MAX, Judge, JudgeError, Judged, Verdict};
pub use outline::Group;
pub use planner::{Amounts, FOREVER, PlanError, Planner, Span};
pub use read::Source;
pub use rows::{Changes, Delta, Row, Rows, STATE_VERSION, Saved};
pub use vertex::{EdgeId, Pool, State, Vertex, VertexId};
pub use walk::{Aborted, Accumulator, Pruning, Scored, Visit, Walker};
pub use write::Format;
