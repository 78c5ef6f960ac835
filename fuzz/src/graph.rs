//! Targets for descriptions of machines, and for the commands of `resource-query`.

use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{Idset, JobId, R};
use fluxgate_graph::description::Model;
use fluxgate_graph::{Placement, Resources};
use fluxgate_resource_query::{Options, Session, World};
use serde_json::{Value, json};

use crate::text;

/// Flows to nodes, as R describes them.
pub(crate) fn flow(bytes: &[u8]) {
    let Ok(flow) = serde_json::from_slice::<Value>(bytes) else { return };
    let r = json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-3", "children": {"core": "0-1"}}],
            "nodelist": ["node[0-3]"],
            "starttime": 0, "expiration": 0,
        },
        "scheduling": {"writer": "fluxgate", "flow": flow},
    });
    if let Ok(r) = R::from_value(&r) {
        let _ = Resources::from_r(&r);
    }
}

/// GRUG recipes. Small ones only: a recipe of a few bytes may ask for millions of vertices, which takes long whether
/// it is refused or carried out.
pub(crate) fn grug(bytes: &[u8]) {
    text(bytes, |text| {
        if text.bytes().filter(u8::is_ascii_digit).count() < 12 {
            let _ = Model::from_grug(text);
        }
    });
}

/// Topologies of hwloc.
pub(crate) fn hwloc(bytes: &[u8]) {
    text(bytes, |text| drop(Model::from_hwloc(text, None)));
}

/// RFC 40 graphs, for scheduling.
pub(crate) fn jgf(bytes: &[u8]) {
    text(bytes, |text| {
        if let Ok(machine) = Resources::from_jgf(text) {
            holds_what_r_says(machine);
        }
    });
}

/// R with the RFC 40 graph of a site, which is bound to the resources of R.
pub(crate) fn site(bytes: &[u8]) {
    text(bytes, |text| {
        let Ok(r) = R::from_json(text) else { return };
        if let Ok(machine) = Resources::from_r(&r) {
            holds_what_r_says(machine);
        }
    });
}

/// The R of a job with a node is taken back by a machine on which nothing is held.
fn holds_what_r_says(mut machine: Resources) {
    machine.set_up(&machine.to_r_all().ranks());
    let mut idle = machine.clone();
    let job = Simple { nodes: Some(1), exclusive: true, duration: 60.0, ..Simple::default() }.build();
    let Ok(request) = machine.compile(&job) else { return };
    let Ok(found) = machine.match_now(&request, 0.0, 60.0, Placement::First) else { return };
    machine.allocate(JobId(1), &found, 0.0, 60.0).expect("a match can be held");
    let held = machine.allocation_r(JobId(1)).expect("the job holds something");
    let back = R::from_json(&held.to_json()).expect("R is read back");
    idle.allocate_r(JobId(1), &back, &Idset::new(), 0.0, 60.0).expect("R is taken back");
    assert_eq!(idle.totals(), machine.totals());
}

/// RFC 40 graphs as whole models: a model that was saved loads again, and saves the same.
pub(crate) fn model_jgf(bytes: &[u8]) {
    text(bytes, |text| {
        let Ok(model) = Model::from_jgf(text) else { return };
        let saved = model.to_jgf();
        if let Ok(again) = Model::from_jgf(&saved.to_string()) {
            assert_eq!(again.to_jgf(), saved);
        }
    });
}

/// Resource configuration in TOML.
pub(crate) fn toml(bytes: &[u8]) {
    text(bytes, |text| drop(Resources::from_toml(text)));
}

const GRAPH: &str = r#"{"graph": {"nodes": [
    {"id": "0", "metadata": {"type": "cluster", "id": 0, "rank": -1, "paths": {"containment": "/c0"}}},
    {"id": "1", "metadata": {"type": "node", "id": 0, "rank": 0, "paths": {"containment": "/c0/node0"}}},
    {"id": "2", "metadata": {"type": "core", "id": 0, "rank": 0, "paths": {"containment": "/c0/node0/core0"}}}],
    "edges": [{"source": "0", "target": "1"}, {"source": "1", "target": "2"}]}}"#;

/// Every file has this text.
struct Desk<'t>(&'t str);

impl World for Desk<'_> {
    fn read(&mut self, _path: &str) -> std::io::Result<String> {
        Ok(self.0.to_owned())
    }

    fn seconds(&mut self) -> f64 {
        0.0
    }
}

/// Lines of `resource-query`; behind an empty line, the text of every file that they name.
pub(crate) fn query(bytes: &[u8]) {
    text(bytes, |text| {
        let options = Options { load_format: "jgf".to_owned(), ..Options::default() };
        let mut session = Session::new(GRAPH, &options).expect("the graph is well-formed");
        let (lines, file) = text.split_once("\n\n").unwrap_or((text, ""));
        for line in lines.lines() {
            session.obey(line, &mut Desk(file));
        }
    });
}
