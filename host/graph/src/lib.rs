//! Fluxgate graph.
