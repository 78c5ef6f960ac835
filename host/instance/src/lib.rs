//! Fluxgate instance.
