//! Compiling layouts from descriptions, and from R (RFC 20).
//!
//! A compilation takes everything or nothing, and names the place of an error. These modules must never know the use of a
//! layout.

mod bind;
pub(crate) mod r;
pub(crate) mod site;
pub(crate) mod treepool;
