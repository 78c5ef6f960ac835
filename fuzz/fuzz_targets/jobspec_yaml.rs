//! RFC 14 jobspecs as YAML.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = fluxgate_formats::Jobspec::from_yaml(text);
});
