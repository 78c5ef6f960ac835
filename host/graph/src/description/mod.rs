//! Descriptions of machines in files: the resource model of RFC 4, without loss.
//!
//! - A [`Description`] is what a reader makes of a file: vertices and edges in their order, with a run of equal vertices as
//!   one entry. The machine that is scheduled is compiled from it ([`Graph::compile`](crate::Graph::compile)): a million
//!   cores are a few entries for each node, and the cost of a pass follows the changes.
//! - A [`Model`] is its expansion, the general graph: arbitrary types and levels, pools with sizes and units, several
//!   subsystems, edges with type and direction, states, tags, extended data, paths. It has one vertex for each vertex of
//!   the file, and it is saved without loss. `resource-query` matches on it, vertex by vertex. The cost of an operation
//!   follows the part of the graph that it walks.
//!
//! Use [`Resources`](crate::Resources) to schedule a stream of jobs on nodes; use [`Model`] to inspect a machine, to
//! convert it, and to match requests that need more than one subsystem or types above nodes.
//!
//! Modules, lowest first: `names`, `vertex`, `model`, `extended` and `check` (the graph), `runs` and `place` (descriptions), `expand`
//! (models of them), `flow` (subsystems that carry flow), `read` and `write` (formats), `rows` (saved versions and their
//! changes), `find` (criteria), `walk` (walker, filters, accumulator), `outline` (the tree with equal siblings folded).
//!
//! ```
//! use fluxgate_graph::description::{Model, Pool, Relation};
//!
//! let mut model = Model::new();
//! let rack = model.add(Pool::new("rack", 0)).unwrap();
//! let node = model.add(Pool::new("node", 7)).unwrap();
//! model.connect(rack, node, &Relation::contains()).unwrap();
//! model.finish().unwrap();
//! assert_eq!(model.at_path("/rack0/node7"), [node]);
//! ```

mod check;
pub(crate) mod error;
mod expand;
mod extended;
mod find;
pub(crate) mod flow;
pub(crate) mod limits;
pub(crate) mod model;
pub(crate) mod names;
mod outline;
pub(crate) mod place;
pub(crate) mod read;
mod rows;
pub(crate) mod runs;
mod stencil;
#[cfg(test)]
mod tests;
pub(crate) mod units;
pub(crate) mod vertex;
mod walk;
mod write;

pub use error::LoadError;
pub use find::{Above, Bookings, Criteria, FindError};
pub use limits::{DEPTH_MAX, SIZE_MAX};
pub use model::{
    CONTAINMENT, CONTAINS, Direction, Edge, MODEL_DEPTH_MAX, Model, ModelError, Relation, VERTICES_MAX,
};
pub use names::Name;
pub use outline::Group;
pub use read::{JgfClaim, JgfClaims, Source};
pub use rows::{Changes, Delta, Row, Rows, STATE_VERSION, Saved};
pub use runs::{Description, Link, Run};
pub use vertex::{EdgeId, Pool, State, Vertex, VertexId};
pub use walk::{Aborted, Accumulator, Pruning, Scored, Visit, Walker};
