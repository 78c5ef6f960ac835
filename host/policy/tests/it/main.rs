//! Policies as components, written by hand or shipped.

mod accepting;
mod calls;
mod catalogue;
mod passes;
mod shipped;
mod support;
