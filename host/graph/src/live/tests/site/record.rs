//! The resources of a job in its R, written and read back.

use serde_json::json;

use crate::RecordFormat;

use super::*;

// SITE-7, SITE-114, SITE-115, SITE-120: names, ids and paths differ, numbers are texts, and hosts end in digits.
#[test]
fn site_38_40_41_44_r_lists_what_is_held_in_shorthand() {
    let mut m = Rabbits::default().machine();
    let r = run(&mut m, 1, &beside(1, 10)).unwrap();
    assert_eq!(
        r.scheduling.unwrap(),
        json!({"graph": {"nodes": [
            {"id": "2", "metadata": {"type": "ssd", "id": 2, "rank": -1, "exclusive": true, "size": 100,
                "paths": {"containment": "/site/chassis0/ssd0"}}},
            {"id": "5", "metadata": {"type": "node", "name": "n0", "id": 0, "rank": 0, "exclusive": true,
                "properties": {"even": ""}, "paths": {"containment": "/site/chassis0/n0"}}},
            {"id": "0", "metadata": {"type": "cluster", "name": "site", "id": 0, "rank": -1,
                "paths": {"containment": "/site"}}},
            {"id": "1", "metadata": {"type": "chassis", "id": 0, "rank": -1,
                "properties": {"rabbit": "r0", "ssdcount": "3"}, "paths": {"containment": "/site/chassis0"}}},
        ], "edges": [{"source": "1", "target": "2"}, {"source": "1", "target": "5"}, {"source": "0", "target": "1"}]},
        "writer": "fluxion:jgf_shorthand"})
    );
}

#[test]
fn site_118_a_part_of_a_node_is_listed_and_the_full_form_lists_all() {
    let mut m = Rabbits::default().machine();
    let part =
        job(json!([{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 2}]}]));
    let r = run(&mut m, 1, &part).unwrap();
    let scheduling = r.scheduling.unwrap();
    let paths = |scheduling: &Value| {
        let nodes = scheduling["graph"]["nodes"].as_array().unwrap().clone();
        nodes
            .iter()
            .map(|n| n["metadata"]["paths"]["containment"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(scheduling.get("writer"), None);
    let n0 = "/site/chassis0/n0";
    assert_eq!(
        paths(&scheduling),
        [n0, &format!("{n0}/core0"), &format!("{n0}/core1"), "/site", "/site/chassis0"]
    );
    m.set_record_format(RecordFormat::Full);
    let full = run(&mut m, 2, &beside(1, 10)).unwrap().scheduling.unwrap();
    assert_eq!((paths(&full).len(), full.get("writer")), (1 + 1 + 4 + 2, None));
    m.set_record_format(RecordFormat::NoGraph);
    assert_eq!(run(&mut m, 3, &beside(1, 10)).unwrap().scheduling, None);
}

#[test]
fn site_48_50_52_what_was_held_is_held_after_a_restart() {
    for format in [RecordFormat::Full, RecordFormat::Shorthand] {
        let site = Rabbits { status: 1, ..Rabbits::default() };
        let mut m = Rabbits { status: 0, ..Rabbits::default() }.machine();
        m.set_record_format(format);
        let one = run(&mut m, 1, &beside(1, 200)).unwrap();
        let alone = job(json!([{"type": "chassis", "count": 1, "exclusive": true, "with": [node(1)]}]));
        let two = run(&mut m, 2, &alone).unwrap();
        // Storage is down at boot; the storage that jobs hold is still held.
        let mut again = site.machine();
        again.set_record_format(format);
        again.allocate_r(JobId(1), &one, &none(), 0.0, 60.0).unwrap();
        again.allocate_r(JobId(2), &two, &none(), 0.0, 60.0).unwrap();
        assert_eq!(again.allocation_r(JobId(1)), Some(one.clone()));
        assert_eq!(again.allocation_r(JobId(2)).unwrap().summary(), two.summary());
        for path in (0..2).flat_map(|c| (0..3).map(move |s| format!("/site/chassis{c}/ssd{s}"))) {
            again.set_vertex_status(&path, true).unwrap();
        }
        assert!(run(&mut again, 3, &beside(1, 101)).is_none());
        assert_eq!(held(&run(&mut again, 3, &beside(1, 1)).unwrap()), ["/site/chassis0/ssd2"]);
        // Its ranks were released before; the storage was not.
        let mut again = Rabbits::default().machine();
        again.allocate_r(JobId(1), &one, &ids("0"), 0.0, 60.0).unwrap();
        assert_eq!(again.allocation(JobId(1)).unwrap().node_count(), 0);
        assert_eq!(held(&run(&mut again, 3, &beside(1, 1)).unwrap()), ["/site/chassis0/ssd2"]);
        again.release(JobId(1), None).unwrap();
        assert_eq!(held(&run(&mut again, 4, &beside(1, 200)).unwrap()).len(), 2);
    }
}

#[test]
fn site_48_what_the_machine_does_not_have_is_left_out() {
    let mut m = Rabbits::default().machine();
    let mut r = run(&mut m, 1, &beside(1, 10)).unwrap();
    let nodes = r.scheduling.as_mut().unwrap()["graph"]["nodes"].as_array_mut().unwrap();
    nodes[0]["metadata"]["paths"]["containment"] = json!("/site/chassis9/ssd0");
    nodes.push(json!({"id": "x"}));
    let mut again = Rabbits::default().machine();
    again.allocate_r(JobId(1), &r, &none(), 0.0, 60.0).unwrap();
    assert_eq!(held(&run(&mut again, 2, &beside(1, 10)).unwrap()), ["/site/chassis0/ssd0"]);
}

#[test]
fn site_51_52_storage_stays_until_the_last_free() {
    let mut m = Rabbits { chassis: 1, ssds: 4, ..Rabbits::default() }.machine();
    run(&mut m, 1, &beside(2, 150)).unwrap();
    // Housekeeping releases nodes one by one.
    assert!(!m.release(JobId(1), Some(&ids("0"))).unwrap());
    assert!(run(&mut m, 2, &beside(1, 10)).is_none());
    assert!(!m.release(JobId(1), Some(&ids("1"))).unwrap());
    assert!(run(&mut m, 2, &beside(1, 10)).is_none());
    assert!(run(&mut m, 3, &job(json!([node(1)]))).is_some());
    assert!(m.release(JobId(1), None).unwrap());
    assert!(run(&mut m, 2, &beside(1, 10)).is_some());
}

#[test]
fn site_47_an_instance_in_a_job_has_its_chassis_and_storage() {
    let mut m = Rabbits { status: 1, ..Rabbits::default() }.machine();
    for path in ["/site/chassis1/ssd0", "/site/chassis1/ssd2"] {
        m.set_vertex_status(path, true).unwrap();
    }
    let r = run(&mut m, 1, &beside(2, 10)).unwrap();
    assert_eq!(r.summary(), "rank[2-3]/core[0-3]");
    // The instance has its own ranks; the graph is unchanged.
    let mut value = r.to_value();
    value["execution"]["R_lite"][0]["rank"] = json!("0-1");
    value["execution"]["properties"] = json!({"even": "0"});
    let mut inner = load(&value);
    assert_eq!((inner.totals().nodes, inner.totals().cores), (2, 8));
    let r = run(&mut inner, 1, &beside(1, 10)).unwrap();
    assert_eq!((r.summary().as_str(), held(&r)), ("rank0/core[0-3]", vec!["/site/chassis1/ssd0".to_owned()]));
    let chassis = job(json!([{"type": "chassis", "count": 1, "with": [node(1), ssd(10)]}]));
    assert_eq!(run(&mut inner, 2, &chassis).unwrap().summary(), "rank1/core[0-3]");
}

#[test]
fn a_machine_is_written_as_it_was_read() {
    let site = Rabbits { storage_nodes: true, ..Rabbits::default() };
    let mut m = site.machine();
    m.set_vertex_status("/site/chassis0/ssd1", false).unwrap();
    m.set_vertex_status("/site/chassis1", false).unwrap();
    m.property_remove("even", &ids("2"));
    let all = m.to_r_all();
    let mut again = Resources::from_r(&all).unwrap();
    again.set_up(&all.ranks());
    assert_eq!((again.to_r_all(), again.up(), again.totals()), (all, m.up(), m.totals()));
    assert_eq!(
        held(&run(&mut again, 1, &beside(1, 200)).unwrap()),
        ["/site/chassis0/ssd0", "/site/chassis0/ssd2"]
    );
    again.set_vertex_status("/site/chassis1", true).unwrap();
    assert_eq!(again.up(), ids("0-6"));
}

#[test]
fn site_16_a_long_graph_is_kept_as_text() {
    let site = Rabbits { chassis: 20, ssds: 36, nodes: 8, cores: 8, ..Rabbits::default() };
    let text = site.value().to_string();
    let r = R::from_json(&text).unwrap();
    assert!(r.graph.is_some() && r.scheduling.as_ref().unwrap().get("graph").is_none());
    assert_eq!(r.to_value()["scheduling"], site.value()["scheduling"]);
    let (mut long, mut short) = (Resources::from_r(&r).unwrap(), site.machine());
    long.set_up(&r.ranks());
    assert_eq!(long.to_r_all(), short.to_r_all());
    assert_eq!(run(&mut long, 1, &beside(9, 10)), run(&mut short, 1, &beside(9, 10)));
}
