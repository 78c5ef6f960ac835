//! The whole scheduler under faults, from a seed, in one thread.
//!
//! The scheduler service, its session, engine, journal and policies are the real ones, unchanged. Around them stands a
//! [`World`](world::World): a broker with a job manager, a resource service and a key-value store, a connection, a disk,
//! clocks, operators and guests. A [`Plan`](plan::Plan) says what happens in it; a [`Book`](book::Book) of the world's own
//! says who holds what.
//!
//! ```text
//! seed -> Plan -> World: heap of (time, sequence) -> step -> invariants -> step ...
//!                   |  Service <-> bytes <-> broker, job manager, resources, KVS
//!                   '- disk, clocks, work, faults
//! ```
//!
//! The same seed makes the same world, to the byte: [`Outcome::hash`](world::Outcome::hash) is the digest of all that
//! happened. This crate must never know real time, threads, sockets or files; its binary reads the components.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod agenda;
pub mod book;
pub mod calendar;
pub mod campaign;
pub mod components;
pub mod constraints;
pub mod dice;
pub mod disk;
pub mod embedded;
pub mod fault;
pub mod flow;
pub mod link;
pub mod model;
pub mod operations;
pub mod outside;
pub mod plan;
pub mod process;
pub mod rerun;
pub mod storage;
pub mod tally;
pub mod world;
