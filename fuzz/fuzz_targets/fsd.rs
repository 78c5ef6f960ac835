//! RFC 23 durations: no panic, never NaN or negative.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(seconds) = fluxgate_formats::fsd::parse(text) {
        assert!(seconds >= 0.0);
    }
});
