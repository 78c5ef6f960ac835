//! The one binary `fluxgate`.
fn main() {}
