//! Fluxgate policy.
