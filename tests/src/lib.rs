//! Shared by the end-to-end suites: the binary, worlds to run it in, the native twins of policies, and the semantics of
//! policies.
//!
//! The suites use the binary and the public crates as a user does; this crate does not know private items.

pub mod browser;
pub mod drive;
pub mod fixture;
pub mod flowing;
pub mod networks;
pub mod patience;
pub mod semantics;
pub mod site;
pub mod stand_in;

pub use fluxgate_environments::native_twin;
