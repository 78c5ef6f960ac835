//! Policies in languages other than Rust: what an author's folder holds, and how a core module becomes a component.
//!
//! Compilers for C and Go make core modules. [`wrap`] reads from their exports which abilities they have, describes
//! these by the contract's own WIT, and gives the module a WASI that denies everything (`deny.wat`), because a
//! runtime such as Go's asks for clock, randomness and environment as it starts. What comes out imports nothing but
//! `fluxgate:policy`.
//!
//! The folders beside `src/` are data: one for each language, with what its authors get.
//!
//! Must never know the scheduler, nor how a component is run.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod project;
pub mod scaffold;
mod wrap;

pub use wrap::{WrapError, is_core_module, wrap};
