//! The resource graph of RFC 4, matching, and the ledger of resources over time.
//!
//! [`Resources`] is the interface: it loads a machine, compiles the resources of a jobspec into a [`Request`], finds
//! resources that are free now ([`Resources::match_now`]) or the earliest start ([`Resources::earliest`]), and books
//! them.
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
//! The crate has four rooms. Each stands on those below it:
//!
//! - `record`: R (RFC 20) of the resources that jobs hold, written and read back.
//! - `live`: index, ledger, reservations, windows, view and matcher.
//! - `layout`: the immutable machine that is compiled for scheduling.
//! - [`description`]: descriptions of machines in files, and the general model of RFC 4, with readers and writers.
//!
//! Beside them is [`JobMap`], a map by job, for the engine too.
//!
//! Times are seconds since the epoch and always parameters; spans are half-open, `[start, end)`. The crate reads no clock,
//! draws no random numbers, and no answer depends on the order of a hash table.
#![forbid(unsafe_code)]

// A file of tests that another crate includes uses the name of this crate.
#[cfg(test)]
extern crate self as fluxgate_graph;

pub mod description;
mod job_map;
mod layout;
mod live;
mod record;

pub use description::{CONTAINMENT, DEPTH_MAX, LoadError, Name, SIZE_MAX};
pub use job_map::JobMap;
pub use layout::builder::{GraphBuilder, GraphError, POOLS_MAX, Pool, PoolId};
pub use layout::graph::{Edge, Graph};
pub use layout::rules::SiteRules;
pub use layout::site::RecordFormat;
pub use layout::vertex::{Ids, Vertex, VertexId};
pub use live::alternatives::ALTERNATIVES_MAX;
pub use live::calendar::{
    Access, OCCURRENCES_MAX, Rights, Sharing, WINDOWS_MAX, WindowError, WindowId, WindowSpan, WindowTerms,
};
pub use live::error::{NoFit, Unsatisfiable};
pub use live::flow_kinds::{FLOW_SPANS_MAX, FlowSpan};
pub use live::groups::NodeGroups;
pub use live::hints::PlaceHint;
pub use live::ledger::{Allocation, LedgerError};
pub use live::node_rows::{NodeRow, Quantity};
pub use live::node_tests::{FREE_TIMES_MAX, NodeNow, NodeRefusal, NodeTest};
pub use live::paths::{UnknownPath, VertexMarks};
pub use live::placement::Placement;
pub use live::places::REPLAYS_MAX;
pub use live::profile::CoreLimits;
pub use live::queries::VertexCounts;
pub use live::renewal::ReservationsState;
pub use live::request::{REQUEST_VERTICES_MAX, Request, RequestError, SHAPES_KEPT, ShapeId};
pub use live::reservations::{RESERVATIONS_MAX, ReserveError};
pub use live::resource_kinds::ResourceKind;
pub use live::resources::{Resources, Totals};
pub use live::take::Selection;
pub use live::window_pools::PoolError;
pub use record::runs::CoreRun;
