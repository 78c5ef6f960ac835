//! GRUG recipes. Small ones only: a recipe of a few bytes may ask for millions of vertices, and is then refused or
//! made, both slowly.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if text.bytes().filter(u8::is_ascii_digit).count() < 12 {
        let _ = fluxgate_graph::model::Model::from_grug(text);
    }
});
