//! What a Rust policy author imports.
