//! Fluxgate formats.
