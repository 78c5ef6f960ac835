//! RFC 20 resource sets: no panic, and what is accepted is accepted again after printing.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(r) = fluxgate_formats::R::from_json(text) {
        fluxgate_formats::R::from_json(&r.to_json()).unwrap();
    }
});
