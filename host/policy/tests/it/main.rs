//! Policies as components: in text form, and those of this repository.

mod accepting;
mod calls;
mod catalogue;
mod passes;
mod repeats;
mod shipped;
mod support;
