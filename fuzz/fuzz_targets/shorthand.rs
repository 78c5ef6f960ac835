//! RFC 46 shorthand.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = fluxgate_formats::shorthand::parse(text);
});
