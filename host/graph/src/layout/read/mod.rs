//! Readers of R (RFC 20) and JGF (RFC 40) that compile a layout directly.
//!
//! A reader loads everything or nothing, bounds its input, and names the place of an error. These modules must never
//! know the use of a layout.

mod bind;
mod jgf;
pub(crate) mod r;
pub(crate) mod site;
pub(crate) mod treepool;
