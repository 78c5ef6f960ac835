//! Fluxgate wire.
