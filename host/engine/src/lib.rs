//! Fluxgate engine.
