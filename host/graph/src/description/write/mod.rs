//! Writers of models.
//!
//! These modules must never know what a model is used for.

mod jgf;
mod pictures;
mod r;
