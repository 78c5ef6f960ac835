//! Matching requests on a whole model, vertex by vertex, as the graph scheduler of Flux does it.
//!
//! A request is walked down the dominant subsystem together with the graph. At a vertex of the type that the request
//! names next, the walk goes on with the content of that need; before the first such vertex it goes on with the whole
//! request, so a request may omit the levels above. On the way up each vertex chooses, by the [`Policy`], as many of
//! the vertices found below as the request needs, and offers itself with a score. The choice of the root is marked on
//! the edges, and a second walk along the marks books it and lists it.
//!
//! That walk defines the result, but most requests are answered without it. `frame` has the nodes with equal
//! templates, `classes` the nodes in the same condition, and `indexed` tries one node of each class and takes the
//! best from lists in the order of ids, so that the cost of a match follows the selection and not the machine.
//! `stretches` does so for preferences by which many nodes are equally good, and `views` for requests with a
//! constraint. A walk that stops at the first match is restricted by `offering`. `parked` stores misses until a
//! change could help. [`Matcher::walk_always`] switches all of this off; results are the same.
//!
//! Units of one vertex are never split between slots: a request takes all free units of a pool.
//!
//! [`Matcher`] is the interface. Time is a parameter, in whole seconds. This module reads no clock and draws no
//! random number.

mod above;
mod aggregates;
mod aim;
mod among;
mod apply;
mod blocks;
mod booked;
mod claim;
mod classes;
mod find;
mod flexible;
mod flow;
mod frame;
mod fullest;
mod grow;
mod indexed;
mod ledger;
mod marked;
mod matcher;
mod misses;
mod offering;
mod op;
mod order;
mod parked;
mod policy;
mod prune;
mod ranked;
mod record;
mod release;
mod request;
mod schedule;
mod scores;
mod select;
mod stand_in;
mod stand_ins;
mod stretches;
mod trials;
mod views;
mod ways;
mod whole;

pub use aggregates::PRUNE_DEFAULT;
pub use booked::{Booked, Item, Term};
pub use find::Usage;
pub use flow::FlowError;
pub use matcher::{Matcher, Setup, SetupError};
pub use op::{Miss, Op};
pub use policy::{Policy, PolicyError};
pub use ranked::Described;
pub use record::BOOKED;
pub use release::ReleaseError;
pub use request::Request;
pub use schedule::Matched;
