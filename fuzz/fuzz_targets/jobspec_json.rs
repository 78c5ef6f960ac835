//! RFC 14 jobspecs as JSON: no panic, and what is accepted is accepted again after printing.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(spec) = fluxgate_formats::Jobspec::from_json(text) {
        fluxgate_formats::Jobspec::from_value(&spec.to_value()).unwrap();
    }
});
