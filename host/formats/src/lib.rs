//! The standard formats of the Flux resource manager: parse, print, validate.
//!
//! All formats that the other crates exchange with users, files and sockets are read and written here, and only here,
//! so that each has one reading: [`Idset`] (RFC 22), [`Hostlist`] (RFC 29), [`fsd`] (RFC 23), [`JobId`] (RFC 19),
//! [`eventlog`] (RFC 18), [`Jobspec`] (RFC 14, 25), [`shorthand`] (RFC 46), [`Constraint`] (RFC 31), [`R`] (RFC 20).
//!
//! All parsers take foreign text. They never panic. Their cost in time and memory is proportional to the length of the
//! text, not to the size of the set it names. Their errors give the byte at which reading stopped and the input that
//! would have been accepted. Where the RFC and flux-core read a text differently, the module documents the reading
//! taken.
//!
//! This crate knows no resource graph, no time of day and no I/O.
//!
//! ```
//! use fluxgate_formats::{Hostlist, Idset, JobId, fsd};
//!
//! let ranks: Idset = "0-3,8".parse().unwrap();
//! let hosts: Hostlist = "node[0-3,8]".parse().unwrap();
//! assert_eq!(ranks.len(), hosts.len() as u64);
//! assert_eq!(hosts.nth(4).as_deref(), Some("node8"));
//! assert_eq!(fsd::parse("1.5h").unwrap(), 5400.0);
//! assert_eq!("ƒuZZybuNNy".parse::<JobId>().unwrap().kvs_dir(), "job.0017.e9fb.8df1.6c2e");
//! ```
#![forbid(unsafe_code)]

pub mod constraint;
pub mod document;
pub mod eventlog;
pub mod fluid;
pub mod fsd;
mod histogram;
pub mod hostlist;
pub mod idset;
pub mod jobspec;
pub mod pools;
pub mod rset;
pub mod shorthand;
mod text;
mod total;

pub use constraint::{Constraint, Target};
pub use document::{DocumentError, DocumentErrorKind};
pub use eventlog::Event;
pub use fluid::JobId;
pub use histogram::Histogram;
pub use hostlist::Hostlist;
pub use idset::Idset;
pub use jobspec::{Count, Jobspec, Resource};
pub use rset::R;
pub use total::{TotalF64, quantile, select_quantile};
