//! RFC 18 event logs.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = fluxgate_formats::eventlog::parse(text);
});
