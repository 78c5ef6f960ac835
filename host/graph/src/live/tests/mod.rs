//! Tests of the crate through its interface.

mod basic;
mod flow;
mod flow_model;
mod future;
mod kept_plan;
mod large;
mod load;
mod model;
mod renewal;
mod scale;
mod site;
mod story;
mod treepool;
mod window_pools;
mod windows;

use std::sync::Arc;

use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::rset::R;
use fluxgate_formats::{Idset, JobId, Jobspec};

use proptest::prelude::ProptestConfig;

use crate::{NoFit, Placement, Request, Resources};

/// This number of cases, or `PROPTEST_CASES` for a long run.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(cases);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub(crate) fn ids(text: &str) -> Idset {
    text.parse().unwrap()
}

/// `nodes` equal nodes, all up.
pub(crate) fn cluster(nodes: u32, cores: u32, gpus: u32) -> Resources {
    let gpu =
        if gpus > 0 { format!(r#","gpu":"0-{}""#, gpus - 1).replace("0-0", "0") } else { String::new() };
    let core = if cores > 1 { format!("0-{}", cores - 1) } else { "0".to_owned() };
    let all = if nodes > 1 { format!("0-{}", nodes - 1) } else { "0".to_owned() };
    let text = format!(
        r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{all}","children":{{"core":"{core}"{gpu}}}}}],
        "nodelist":["n[{all}]"],"starttime":0,"expiration":0}}}}"#
    );
    let mut machine = Resources::from_r(&R::from_json(&text).unwrap()).unwrap();
    machine.set_up(&ids(&all));
    machine
}

/// A jobspec with these resources in the shorthand of a JSON list.
pub(crate) fn jobspec(resources: &str) -> Jobspec {
    jobspec_with(resources, "{}")
}

pub(crate) fn jobspec_with(resources: &str, constraints: &str) -> Jobspec {
    let text = format!(
        r#"{{"version":9999,"resources":{resources},"tasks":[{{"command":["a"],"slot":"x","count":{{"per_slot":1}}}}],
        "attributes":{{"system":{{"duration":10,"constraints":{constraints}}}}}}}"#
    );
    Jobspec::from_json(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A number of slots with this many cores each.
pub(crate) fn cores(machine: &mut Resources, slots: u32, per: u32) -> Arc<Request> {
    machine.compile(&Simple { slots, cores_per_slot: per, ..Simple::default() }.build()).unwrap()
}

/// A number of whole nodes.
pub(crate) fn nodes(machine: &mut Resources, nodes: u32) -> Arc<Request> {
    let text = format!(
        r#"[{{"type":"slot","count":1,"label":"x","with":[{{"type":"node","count":{nodes},"with":[{{"type":"core","count":1}}]}}]}}]"#
    );
    machine.compile(&jobspec(&text)).unwrap()
}

/// Matches and books a request; returns its R.
pub(crate) fn start(
    machine: &mut Resources,
    id: u64,
    request: &Request,
    now: f64,
    end: f64,
    placement: Placement,
) -> Result<String, NoFit> {
    let found = machine.match_now(request, now, end, placement)?;
    let summary = machine.selection_to_r(&found, now, end).summary();
    machine.allocate(JobId(id), &found, now, end).unwrap();
    Ok(summary)
}

/// All nodes of an instance may be excluded: nothing fits, and no call fails.
#[test]
fn adm_6_a_machine_without_nodes() {
    let mut r = R::new();
    r.expiration = 0.0;
    let mut machine = Resources::from_r(&r).unwrap();
    assert_eq!((machine.totals().nodes, machine.totals().cores), (0, 0));
    machine.set_up(&Idset::new());
    assert!(machine.to_r_all().ranks().is_empty() && machine.allocated_r().is_empty());
    let jobspec = Jobspec::from_value(&serde_json::json!({
        "version": 1, "resources": [{"type": "slot", "count": 1, "label": "t",
            "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["x"], "slot": "t", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0}},
    }))
    .unwrap();
    let refused = match machine.compile(&jobspec) {
        Ok(request) => machine.satisfiable(&request).is_err(),
        Err(_) => true,
    };
    assert!(refused);
}
