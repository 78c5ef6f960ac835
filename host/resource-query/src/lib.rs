//! `resource-query`, the tool of the graph scheduler of Flux: its matching, its planner, its command language.
//!
//! [`Matcher`] matches requests on a whole [`Model`](fluxgate_graph::description::Model), vertex by vertex, and books
//! the matched vertices in intervals of whole seconds. [`Session`] loads a graph and executes command lines such as
//! `match allocate job.yaml` or `find status=down`.
//!
//! ```
//! use fluxgate_resource_query::{Options, Session, Stream, World};
//!
//! struct Desk;
//! impl World for Desk {
//!     fn read(&mut self, _path: &str) -> std::io::Result<String> {
//!         Ok("version: 9999\nresources: [{type: slot, count: 1, label: s, with: [{type: core, count: 1}]}]\n\
//!             tasks: [{command: [app], slot: s, count: {per_slot: 1}}]\nattributes: {}".to_owned())
//!     }
//!     fn seconds(&mut self) -> f64 {
//!         0.0
//!     }
//! }
//! let graph = r#"{"graph": {"nodes": [{"id": "0", "metadata": {"type": "node", "id": 0, "rank": 0}},
//!     {"id": "1", "metadata": {"type": "core", "id": 5}}], "edges": [{"source": "0", "target": "1"}]}}"#;
//! let options = Options { load_format: "jgf".to_owned(), ..Options::default() };
//! let mut session = Session::new(graph, &options).unwrap();
//! let said = session.obey("match allocate job.yaml", &mut Desk);
//! assert!(said.text(Stream::Result).starts_with("      ------core5[1:x]\n      ---node0[1:s]\n"));
//! ```
//!
//! Modules, lowest first: `planner` (one pool over time), `matching` (requests on a model), `render` (a selection as
//! text, JGF or R), `session` (the commands).
//!
//! This crate must never know the live scheduler's ledger, a queue, a policy or a clock: time is a parameter.
#![forbid(unsafe_code)]

mod matching;
mod planner;
mod render;
mod session;
#[cfg(test)]
mod tests;

pub use matching::{
    BOOKED, Booked, Described, FlowError, Item, Matched, Matcher, Miss, Op, PRUNE_DEFAULT, Policy,
    PolicyError, ReleaseError, Request, Setup, SetupError, Term, Usage,
};
pub use planner::{Amounts, FOREVER, PlanError, Planner, Span};
pub use render::Format;
pub use session::{LOAD_FORMATS, Options, SUBSYSTEMS, Said, Session, SessionError, Stream, World};
