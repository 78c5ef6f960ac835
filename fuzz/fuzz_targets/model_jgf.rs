//! RFC 40 graphs as whole models: what was loaded and saved loads again, and saves the same.

#![no_main]

use fluxgate_graph::model::Model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(model) = Model::from_jgf(text) {
        let saved = model.to_jgf();
        if let Ok(again) = Model::from_jgf(&saved.to_string()) {
            assert_eq!(again.to_jgf(), saved);
        }
    }
});
