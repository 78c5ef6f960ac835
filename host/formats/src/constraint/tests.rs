//! Vectors of constraints.
