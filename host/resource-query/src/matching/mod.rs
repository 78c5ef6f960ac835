//! Matching requests on a whole model, vertex by vertex, as the graph scheduler of Flux does it.
//!
//! A request is walked down the dominant subsystem together with the graph. Where a vertex is of the type that the request
//! asks for next, the walk goes on with what it asks inside; until the first such vertex it goes on with the request as it
//! is, so that a request may leave out the levels above. On the way up each vertex chooses, by the [`Policy`], as many of
//! what was found below as it was asked for, and offers itself with a score. What the root chooses is marked on the edges,
//! and a second walk along the marks books it and tells what was booked.
//!
//! That walk is the rule; most requests are answered without it. `frame` knows which nodes are made alike, `classes` which
//! of them are in the same condition, and `indexed` asks one of each and takes the best from lists in the order of ids, so
//! that a match costs what is chosen and not what there is; `stretches` does so for preferences by which many nodes are
//! equally good, and `views` for requests with a constraint. A walk that stops at the first match is led by `offering` to
//! where something is. `parked` keeps misses until something changes that could help.
//! [`Matcher::walk_always`] switches both off; results are the same.
//!
//! Units of one vertex are never split between slots: what is taken of a pool is everything free in it.
//!
//! [`Matcher`] is the face. Time is a parameter, in whole seconds. Nothing here reads a clock or draws a random number.

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
