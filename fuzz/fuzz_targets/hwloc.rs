//! Topologies of hwloc.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = fluxgate_graph::model::Model::from_hwloc(text, None);
});
