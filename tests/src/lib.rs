//! What the end-to-end suites share: the binary, worlds to run it in, the native twins of policies, and what
//! policies mean.
//!
//! The suites use the binary and the public crates as a user does; nothing here may know private items.

pub mod crank;
pub mod fixture;
pub mod flowing;
pub mod native_twin;
pub mod semantics;
pub mod site;
