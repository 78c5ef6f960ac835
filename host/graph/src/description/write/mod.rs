//! Writers of models.
//!
//! These modules must never know the use of a model.

mod jgf;
mod pictures;
mod r;
