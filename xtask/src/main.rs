//! Build, test, demo: what a person runs.
fn main() {}
