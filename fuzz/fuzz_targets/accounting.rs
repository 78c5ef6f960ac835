//! Workloads of other formats than SWF: what is no job is told of, never a panic.

#![no_main]

use fluxgate_sim::source::{dump, flux, jobspecs, sacct, table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(log) = sacct::Reader::new(bytes, "fuzz") {
        log.for_each(drop);
    }
    if let Ok(log) = flux::read(bytes, "fuzz") {
        log.for_each(drop);
    }
    if let Ok(log) = dump::read(bytes, "fuzz") {
        log.for_each(drop);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = fluxgate_sim::outages::Outages::parse(text, "fuzz", &Default::default());
    }
    jobspecs::Reader::new(bytes, "fuzz").for_each(drop);
    table::Reader::csv(bytes, "fuzz").for_each(drop);
    table::Reader::jsonl(bytes, "fuzz").for_each(drop);
});
