//! Storage that is down, chassis, properties by path.

use serde_json::json;

use super::*;

// SITE-116: nodes remain usable.
#[test]
fn site_10_31_113_storage_is_down_until_it_is_marked_up() {
    let mut m = Rabbits { status: 1, ..Rabbits::default() }.machine();
    let text = beside(1, 10);
    // The request is satisfiable, but does not fit now, and no start is known.
    assert!(satisfiable(&mut m, &text).is_ok());
    let request = ask(&mut m, &text);
    assert!(run(&mut m, 1, &text).is_none());
    assert_eq!(m.earliest(&request, 0.0, 60.0), None);
    let helped = m.helped(&request);
    assert_eq!(m.set_vertex_status("/site/chassis1/ssd1", true), Ok(true));
    assert_eq!(m.set_vertex_status("/site/chassis1/ssd1", true), Ok(false));
    assert_ne!(m.helped(&request), helped);
    let r = run(&mut m, 1, &text).unwrap();
    assert_eq!((r.summary().as_str(), held(&r)), ("rank2/core[0-3]", vec!["/site/chassis1/ssd1".to_owned()]));
    // Nodes were up throughout (116).
    assert!(run(&mut m, 2, &job(json!([node(2)]))).is_some());
}

#[test]
fn site_60_73_a_vertex_is_down_with_all_below_it() {
    let mut m = Rabbits::default().machine();
    assert_eq!(run(&mut m, 1, &beside(1, 10)).unwrap().summary(), "rank0/core[0-3]");
    m.set_vertex_status("/site/chassis0", false).unwrap();
    assert_eq!((m.up(), m.totals().up_nodes), (ids("2-4"), 3));
    // The job that runs there keeps its resources.
    assert_eq!(m.allocation(JobId(1)).unwrap().node_count(), 1);
    assert_eq!(run(&mut m, 2, &beside(1, 10)).unwrap().summary(), "rank2/core[0-3]");
    // A vertex below keeps its own mark.
    m.set_vertex_status("/site/chassis0/ssd0", false).unwrap();
    m.set_down(&ids("1"));
    m.release(JobId(1), None).unwrap();
    m.set_vertex_status("/site/chassis0", true).unwrap();
    assert_eq!(m.up(), ids("0,2-4"));
    assert_eq!(held(&run(&mut m, 3, &beside(1, 10)).unwrap()), ["/site/chassis0/ssd1"]);
    // A rank that comes up below a vertex that is down can be used once that vertex is up.
    m.set_vertex_status("/site/chassis0", false).unwrap();
    m.set_up(&ids("1"));
    assert_eq!(m.up(), ids("2-4"));
    m.set_vertex_status("/site/chassis0", true).unwrap();
    assert_eq!(m.up(), ids("0-4"));
    let unknown = m.set_vertex_status("/site/chassis7", false).unwrap_err();
    assert_eq!(unknown.to_string(), "could not find path '/site/chassis7' in resource graph");
}

#[test]
fn a_node_that_is_marked_down_needs_both_to_be_up() {
    let mut m = Rabbits::default().machine();
    m.set_vertex_status("/site/n4", false).unwrap();
    assert_eq!(m.up(), ids("0-3"));
    m.set_down(&ids("4"));
    m.set_up(&ids("4"));
    assert_eq!(m.up(), ids("0-3"));
    m.set_vertex_status("/site/n4", true).unwrap();
    assert_eq!(m.up(), ids("0-4"));
    m.set_vertex_status("/site/n4", false).unwrap();
    m.set_down(&ids("4"));
    m.set_vertex_status("/site/n4", true).unwrap();
    assert_eq!(m.up(), ids("0-3"));
}

#[test]
fn site_1_nodes_have_the_path_that_they_have_without_a_graph() {
    let mut m = Rabbits::default().machine();
    m.set_vertex_status("/cluster0/n1", false).unwrap();
    assert_eq!(m.up(), ids("0,2-4"));
    let mut flat = Rabbits::default().value();
    flat.as_object_mut().unwrap().remove("scheduling");
    let mut m = load(&flat);
    m.set_vertex_status("/cluster0/n1", false).unwrap();
    assert_eq!(m.up(), ids("0,2-4"));
    assert!(m.set_vertex_status("/cluster0/x", false).is_err());
}

#[test]
fn site_42_61_62_63_75_properties_by_path() {
    let mut m = Rabbits::default().machine();
    let mut text: Value = serde_json::from_str(&job(json!([node(4)]))).unwrap();
    text["attributes"]["system"]["constraints"] = json!({"not": [{"properties": ["badrabbit"]}]});
    let text = text.to_string();
    m.set_vertex_property("/site/chassis0/n0", "badrabbit", "a=b").unwrap();
    assert_eq!(m.vertex_property("/site/chassis0/n0", "badrabbit").unwrap(), ["a=b"]);
    let r = run(&mut m, 1, &text).unwrap();
    assert_eq!(r.summary(), "rank[1-4]/core[0-3]");
    assert!(run(&mut m, 2, &text).is_none());
    // R does not contain the property.
    let all = run(&mut m, 3, &job(json!([node(1)]))).unwrap();
    assert_eq!(all.properties.keys().collect::<Vec<_>>(), ["even"]);
    m.release(JobId(1), None).unwrap();
    m.remove_vertex_property("/site/chassis0/n0", "badrabbit").unwrap();
    m.remove_vertex_property("/site/chassis0/n0", "badrabbit").unwrap();
    assert!(m.vertex_property("/site/chassis0/n0", "badrabbit").unwrap().is_empty());
    m.release(JobId(3), None).unwrap();
    assert_eq!(run(&mut m, 2, &text).unwrap().summary(), "rank[0-3]/core[0-3]");
    // Properties in the file of vertices without a broker can be read.
    assert_eq!(m.vertex_property("/site/chassis1", "rabbit").unwrap(), ["r1"]);
    assert!(m.set_vertex_property("/nowhere", "a", "b").is_err());
}

#[test]
fn what_a_job_waits_for_is_said_by_level() {
    let mut m = Rabbits { status: 1, ..Rabbits::default() }.machine();
    let said = |m: &mut Resources, text: &str| {
        let request = ask(m, text);
        m.shortage(&request).unwrap_or_default()
    };
    assert_eq!(
        said(&mut m, &beside(1, 10)),
        "needs 10 GiB of ssd beside a node: no chassis has it, of 6 vertices 6 are down, 0 in use, 0 free"
    );
    for path in ["/site/chassis0/ssd0", "/site/chassis1/ssd1"] {
        m.set_vertex_status(path, true).unwrap();
    }
    m.set_down(&ids("0-3"));
    assert_eq!(said(&mut m, &beside(2, 100)), "");
    m.set_up(&ids("0-1"));
    assert!(run(&mut m, 1, &beside(1, 10)).is_some());
    m.set_up(&ids("2"));
    m.set_down(&ids("1"));
    let two = job(json!([{"type": "chassis", "count": 2, "with": [node(1), ssd(10)]}]));
    m.release(JobId(1), None).unwrap();
    m.set_down(&ids("0"));
    m.set_up(&ids("4"));
    assert_eq!(
        said(&mut m, &two),
        "needs a node and 10 GiB of ssd in each of 2 of 'chassis': chassis1 has both, which is not enough"
    );
    m.set_down(&ids("2"));
    m.set_up(&ids("3"));
    assert!(run(&mut m, 2, &job(json!([node(2)]))).is_some());
    m.set_up(&ids("0-1"));
    assert!(run(&mut m, 3, &job(json!([node(2)]))).is_some());
    m.release(JobId(2), None).unwrap();
    m.set_down(&ids("3"));
    assert_eq!(
        said(&mut m, &beside(1, 10)),
        "needs 10 GiB of ssd beside a node: chassis0 and chassis1 have it, their nodes are down or in use"
    );
}

#[test]
fn what_a_job_can_never_have_is_said_by_level() {
    let mut m = Rabbits::default().machine();
    let never = |m: &mut Resources, text: &str| satisfiable(m, text).unwrap_err();
    let why = never(&mut m, &beside(2, 793));
    assert!(why.ends_with("it needs 793 GiB of ssd beside each of 2 nodes: no chassis has as much"), "{why}");
    // Five cores, on nodes of four.
    let five = json!({"type": "node", "count": 1, "with": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 5}]}]});
    let why = never(&mut m, &job(json!([five])));
    assert!(why.ends_with("no node has 5 of 'core'"), "{why}");
}

// RFC 27 hello: R of a job could not be read, and the job manager counts its ranks only.
#[test]
fn nothing_is_taken_above_nodes_while_a_job_may_hold_it() {
    let mut m = Rabbits::default().machine();
    let (text, nodes) = (beside(1, 10), job(json!([node(1)])));
    let request = ask(&mut m, &text);
    assert!(m.set_unread(&[JobId(1), JobId(2)]) && !m.set_unread(&[JobId(1), JobId(2)]));
    assert!(run(&mut m, 3, &text).is_none());
    assert_eq!(m.earliest(&request, 0.0, 60.0), None);
    let said = m.shortage(&request).unwrap();
    assert_eq!(
        said,
        "what ƒ2, ƒ3 may hold above nodes is not known, since R could not be read; it is tried again"
    );
    // It can be satisfied, and requests for nodes fit.
    assert!(satisfiable(&mut m, &text).is_ok() && run(&mut m, 4, &nodes).is_some());
    let helped = m.helped(&request);
    assert!(m.set_unread(&[JobId(2)]));
    assert_eq!(m.helped(&request), helped, "one of them is enough");
    assert!(run(&mut m, 3, &text).is_none() && m.set_unread(&[]));
    assert_ne!(m.helped(&request), helped);
    assert!(run(&mut m, 3, &text).is_some());
}
