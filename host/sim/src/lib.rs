//! Fluxgate sim.
