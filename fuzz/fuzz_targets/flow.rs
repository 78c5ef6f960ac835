//! What flows to nodes, as R describes it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|flow: &str| {
    let Ok(flow) = serde_json::from_str::<serde_json::Value>(flow) else { return };
    let r = serde_json::json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-3", "children": {"core": "0-1"}}],
            "nodelist": ["node[0-3]"],
            "starttime": 0, "expiration": 0,
        },
        "scheduling": {"writer": "fluxgate", "flow": flow},
    });
    if let Ok(r) = fluxgate_formats::R::from_value(&r) {
        let _ = fluxgate_graph::Resources::from_r(&r);
    }
});
