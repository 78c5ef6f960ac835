//! RFC 31 constraints.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(value) = serde_json::from_str(text) {
        let _ = fluxgate_formats::Constraint::from_value(&value);
    }
});
