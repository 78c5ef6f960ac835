//! libFuzzer on the target that FLUXGATE_FUZZ names. `cargo xtask fuzz` builds and starts it.

#![no_main]

use std::sync::OnceLock;

use fluxgate_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

fn target() -> Target {
    let name = std::env::var("FLUXGATE_FUZZ").expect("FLUXGATE_FUZZ names a target");
    let found = TARGETS.into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("there is no target {name}")).1
}

fuzz_target!(|bytes: &[u8]| {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(target)(bytes);
});
