//! Policies in languages other than Rust: the contents of an author's folder, and the conversion of a core module to a
//! component.
//!
//! Compilers for C and Go make core modules. [`wrap`] reads the abilities from their exports, describes them by the
//! contract's own WIT, and gives the module a WASI that denies every call (`deny.wat`), because a runtime such as Go's
//! calls clock, randomness and environment at its start. The resulting component imports only `fluxgate:policy`.
//!
//! [`weights`] reads files of trained networks, [`trained`] their training data, and [`template`] makes folders of them and of expressions.
//!
//! The folders beside `src/` are data: one for each language, with the files for its authors.
//!
//! This crate knows neither the scheduler nor how a component is run.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod contract;
pub mod project;
pub mod scaffold;
pub mod template;
pub mod trained;
pub mod weights;
mod wrap;

pub use wrap::{WrapError, is_core_module, wrap};
