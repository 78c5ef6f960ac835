//! Bookings in saved states, whole and as changes.

use fluxgate_formats::jobspec::{Checks, Jobspec};
use fluxgate_graph::description::Saved;
use serde_json::json;

use super::machine;
use crate::{Matcher, Op, Setup};

#[test]
fn m16_2_after_one_allocation_just_the_touched_vertices_are_saved() {
    let mut matcher = Matcher::new(machine(2, 2, 2), &Setup::default()).unwrap();
    let mut saved = Saved::whole(matcher.recorded().to_rows());
    let text = "version: 9999\nresources: [{type: slot, count: 1, label: s, with: [{type: core, count: 2}]}]\n\
                tasks: [{command: [app], slot: s, count: {per_slot: 1}}]\nattributes: {system: {duration: 60}}";
    let jobspec = Jobspec::from_yaml_with(text, Checks::Scheduling).unwrap();
    let request = matcher.compile(&jobspec);
    matcher.run(&request, Op::Allocate, 7, 0).unwrap();
    let changes = saved.add(&matcher.recorded().to_rows());
    let cores: Vec<_> = changes.vertices.put.values().map(|row| &row.data["metadata"]).collect();
    assert_eq!(cores.len(), 2, "{changes:?}");
    for core in cores {
        assert_eq!((&core["type"], core["booked"][0]["job"].as_u64()), (&json!("core"), Some(7)));
        assert_eq!(core["booked"], json!([{"job": 7, "start": 0, "end": 60, "units": 1, "reserved": false}]));
    }
    assert!(changes.vertices.gone.is_empty() && changes.edges.put.is_empty() && changes.document.is_none());
    assert!(saved.add(&matcher.recorded().to_rows()).is_empty(), "the second time nothing");
    matcher.cancel(7).unwrap();
    assert_eq!(saved.add(&matcher.recorded().to_rows()).vertices.put.len(), 2, "a release is a change");
    assert_eq!(saved.rows().to_model().unwrap().to_jgf(), matcher.recorded().to_jgf());
}
