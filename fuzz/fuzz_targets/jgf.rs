//! RFC 40 graphs.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = fluxgate_graph::Resources::from_jgf(text);
});
