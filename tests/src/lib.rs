//! What the end-to-end suites share: the binary, worlds to run it in, and the native twins of policies.
//!
//! The suites use the binary and the public crates as a user does; nothing here may know private items.

pub mod fixture;
pub mod native_twin;
