//! The resource graph of RFC 4, matching, and the ledger: the one place that knows who holds what from when to when.
//!
//! [`Resources`] is the face: load a machine, compile a jobspec's resources into a [`Request`], ask what fits now
//! ([`Resources::match_now`]) or when it could ([`Resources::earliest`]), and book it.
//!
//! ```
//! use fluxgate_formats::rset::R;
//! use fluxgate_formats::{JobId, jobspec};
//! use fluxgate_graph::{Placement, Resources};
//!
//! let r = R::from_json(r#"{"version":1,"execution":{"R_lite":[{"rank":"0-3","children":{"core":"0-7"}}],
//!     "nodelist":["node[0-3]"],"starttime":0,"expiration":0}}"#).unwrap();
//! let mut machine = Resources::from_r(&r).unwrap();
//! machine.set_up(&"0-3".parse().unwrap());
//!
//! let job = jobspec::Simple { slots: 4, cores_per_slot: 2, duration: 60.0, ..Default::default() }.build();
//! let request = machine.compile(&job).unwrap();
//! let found = machine.match_now(&request, 0.0, 60.0, Placement::First).unwrap();
//! assert_eq!(machine.selection_to_r(&found, 0.0, 60.0).summary(), "rank0/core[0-7]");
//! machine.allocate(JobId(1), &found, 0.0, 60.0).unwrap();
//! assert_eq!(machine.totals().free_cores, 24);
//! ```
//!
//! How it is laid out, from the ground up: `vertex`, `graph` and `builder` (what there is), `load` (readers), `index`
//! (what is free, by state), `alternatives` and `request` (what is asked), `local`, `matcher` and `prefer`, `ranking` (does it fit, and where best), `flow` (what flows to nodes), `ledger` and `grow` (who holds what),
//! `future`, `reserve`, `counts`, `play` and `plan` (when), `rout`, `given` and `recover` (R out and in), `asking` and
//! `resources` (the face).
//!
//! [`model`] is the general graph beside it; its page says which of the two is for what.
//!
//! Time is a parameter everywhere, in seconds since the epoch; spans are half-open, `[start, end)`. Nothing here reads
//! a clock, draws a random number or walks a hash table.
#![forbid(unsafe_code)]

mod alternatives;
mod asking;
mod bits;
mod builder;
mod counts;
mod error;
mod flow;
mod future;
mod given;
mod graph;
mod grow;
mod index;
mod ledger;
mod load;
mod local;
mod matcher;
pub mod model;
mod names;
mod placement;
mod plan;
mod play;
mod prefer;
mod profile;
pub mod query;
mod ranking;
mod recover;
mod request;
mod reserve;
mod resources;
mod rout;
#[cfg(test)]
mod tests;
mod units;
mod vertex;
mod view;
mod why;

pub use alternatives::ALTERNATIVES_MAX;
pub use builder::{DEPTH_MAX, GraphBuilder, GraphError, POOLS_MAX, Pool, PoolId, SIZE_MAX};
pub use error::{LoadError, NoFit, Unsatisfiable};
pub use flow::seen::{FLOW_SPANS_MAX, FlowKind, FlowSpan};
pub use graph::{CONTAINMENT, Edge, Graph};
pub use ledger::{Allocation, LedgerError, Selection};
pub use names::Name;
pub use placement::Placement;
pub use plan::REPLAYS_MAX;
pub use ranking::{NodeRow, Quantity};
pub use request::{REQUEST_VERTICES_MAX, Request, RequestError, SHAPES_KEPT, ShapeId};
pub use reserve::{RESERVATIONS_MAX, ReserveError};
pub use resources::{Resources, Totals};
pub use vertex::{Ids, Vertex, VertexId};
