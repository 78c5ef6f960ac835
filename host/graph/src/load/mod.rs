//! Readers: R (RFC 20), JGF (RFC 40) and TOML `[[resource.config]]` become graphs.
//!
//! A reader loads everything or nothing, bounds what it reads, and says where in the file something is wrong.
//!
//! These modules must never know what a graph is used for.

pub(crate) mod jgf;
pub(crate) mod r;
pub(crate) mod toml;
pub(crate) mod treepool;
