//! Workload logs: bad lines are told of, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for record in fluxgate_sim::swf::Reader::new(bytes, "fuzz") {
        let _ = record;
    }
});
