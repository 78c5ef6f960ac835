//! Marks and properties that services set on vertices, over a restart.

use serde_json::json;

use super::*;

/// A job of one node without this property.
fn without(property: &str, nodes: u32) -> String {
    on(&json!({"not": [{"properties": [property]}]}), nodes)
}

/// A job of nodes that meet a constraint.
fn on(constraint: &Value, nodes: u32) -> String {
    let mut text: Value = serde_json::from_str(&job(json!([node(nodes)]))).unwrap();
    text["attributes"]["system"]["constraints"] = constraint.clone();
    text.to_string()
}

#[test]
fn site_78_what_was_set_is_set_again_on_a_machine_read_anew() {
    let site = Rabbits { status: 1, ..Rabbits::default() };
    let mut m = site.machine();
    assert!(m.vertex_marks().is_empty());
    m.set_vertex_status("/site/chassis0/ssd1", true).unwrap();
    m.set_vertex_status("/site/chassis1", false).unwrap();
    m.set_vertex_status("/site/n4", false).unwrap();
    m.set_vertex_property("/site/chassis0/n0", "badrabbit", "a=b").unwrap();
    m.set_vertex_property("/site/chassis0", "state", "x").unwrap();
    m.remove_vertex_property("/site/chassis0/n0", "even").unwrap();
    m.remove_vertex_property("/site/chassis1", "rabbit").unwrap();
    let marks = m.vertex_marks();
    assert_eq!(marks.down, ["/site/chassis1", "/site/n4"]);
    assert_eq!(marks.up, ["/site/chassis0/ssd1"]);
    assert_eq!(marks.properties.len(), 4, "{marks:?}");
    assert!(m.vertex_property("/site/chassis1", "rabbit").unwrap().is_empty());
    assert_eq!((m.up(), m.reported_up()), (ids("0-1"), ids("0-4")));
    // From the inventory, and from the machine of a checkpoint.
    for value in [site.value(), m.to_r_ever().to_value()] {
        let mut again = Resources::from_r(&R::from_value(&value).unwrap()).unwrap();
        assert!(again.restore_marks(&marks).is_empty());
        again.set_up(&m.reported_up());
        assert_eq!((again.up(), again.reported_up()), (m.up(), m.reported_up()));
        assert_eq!(again.vertex_property("/site/chassis0/n0", "badrabbit").unwrap(), ["a=b"]);
        assert_eq!(again.vertex_property("/site/chassis0", "state").unwrap(), ["x"]);
        assert!(again.vertex_property("/site/chassis0/n0", "even").unwrap().is_empty());
        assert_eq!(run(&mut again, 1, &without("badrabbit", 1)).unwrap().summary(), "rank1/core[0-3]");
        again.release(JobId(1), None).unwrap();
        let r = run(&mut again, 2, &job(json!([node(2)]))).unwrap();
        assert!(r.properties.is_empty(), "{:?}", r.properties);
        again.release(JobId(2), None).unwrap();
        assert_eq!(held(&run(&mut again, 3, &beside(1, 10)).unwrap()), ["/site/chassis0/ssd1"]);
        assert_eq!(again.vertex_marks().up, marks.up);
        // A removed property is of the machine, and comes back with its place in R.
        again.set_vertex_property("/site/chassis0/n0", "even", "").unwrap();
        again.release(JobId(3), None).unwrap();
        let mut before = m.clone();
        before.set_vertex_property("/site/chassis0/n0", "even", "").unwrap();
        let text = on(&json!({"properties": ["even"]}), 1);
        let r = run(&mut again, 4, &text).unwrap();
        assert!(r.to_value().to_string().contains(r#""properties":{"even":""}"#), "{}", r.to_value());
        assert_eq!(r.to_value(), run(&mut before, 4, &text).unwrap().to_value());
    }
    // The paths that the new machine lacks are returned.
    let mut smaller = Rabbits { chassis: 1, status: 1, ..Rabbits::default() }.machine();
    assert_eq!(smaller.restore_marks(&marks), ["/site/chassis1", "/site/n4", "/site/chassis1"]);
}

#[test]
fn site_75_all_paths_are_checked_before_any_is_set() {
    let mut m = Rabbits::default().machine();
    let paths = ["/site/chassis0/n0", "/site/nowhere", "/site/chassis0/n1"];
    let error = m.set_vertex_properties(&paths, "badrabbit", Some("bad")).unwrap_err();
    assert_eq!(error, crate::UnknownPath("/site/nowhere".to_owned()));
    assert!(m.vertex_property("/site/chassis0/n0", "badrabbit").unwrap().is_empty());
    let paths = [paths[0], paths[2]];
    assert_eq!(m.set_vertex_properties(&paths, "badrabbit", Some("bad")), Ok(true));
    // A repeated property, or one on a vertex without nodes, can help no request.
    let version = m.version();
    assert_eq!(m.set_vertex_properties(&paths, "badrabbit", Some("bad")), Ok(false));
    assert_eq!(m.set_vertex_properties(&["/site/chassis0"], "badrabbit", Some("bad")), Ok(false));
    assert_eq!(m.set_vertex_properties(&["/site/chassis1/n2"], "badrabbit", None), Ok(false));
    assert_eq!(m.version(), version);
    assert_eq!(m.set_vertex_properties(&paths, "badrabbit", None), Ok(true));
    assert!(m.vertex_marks().properties.iter().all(|(path, ..)| path == "/site/chassis0"));
}

#[test]
fn site_77_a_job_that_set_properties_keep_from_every_node_waits() {
    let mut m = Rabbits::default().machine();
    let all: Vec<String> = ["chassis0/n0", "chassis0/n1", "chassis1/n2", "chassis1/n3", "n4"]
        .map(|path| format!("/site/{path}"))
        .to_vec();
    m.set_vertex_properties(&all, "badrabbit", Some("")).unwrap();
    let text = without("badrabbit", 1);
    assert_eq!(satisfiable(&mut m, &text), Ok(()));
    assert!(run(&mut m, 1, &text).is_none());
    assert!(satisfiable(&mut m, &without("badrabbit", 6)).is_err());
    m.set_vertex_properties(&all[..1], "badrabbit", None).unwrap();
    assert_eq!(run(&mut m, 1, &text).unwrap().summary(), "rank0/core[0-3]");
}

/// A restarted scheduler is asked again for jobs that wait: a property that was taken from nodes for a while denies none.
#[test]
fn site_77_a_job_whose_property_was_removed_from_every_node_waits() {
    let mut m = Rabbits::default().machine();
    let all = ["/site/chassis0/n0", "/site/chassis1/n2", "/site/n4"];
    m.set_vertex_properties(&all, "even", None).unwrap();
    let text = on(&json!({"properties": ["even"]}), 1);
    assert_eq!(satisfiable(&mut m, &text), Ok(()));
    assert!(run(&mut m, 1, &text).is_none());
    // The ceiling of a queue holds for it as before.
    let request = ask(&mut m, &text);
    assert_eq!(m.least_cores(&request), 4);
    m.set_vertex_properties(&all[..1], "even", Some("")).unwrap();
    assert_eq!(run(&mut m, 1, &text).unwrap().summary(), "rank0/core[0-3]");
    // A property that a node was given while jobs ran counts only as long as the node has it.
    let text = on(&json!({"properties": ["odd"]}), 1);
    m.set_vertex_properties(&all[..1], "odd", Some("")).unwrap();
    m.set_vertex_properties(&all[..1], "odd", None).unwrap();
    assert!(satisfiable(&mut m, &text).is_err());
}

/// A property that services set before the scheduler began may be one that a waiting job needs.
#[test]
fn site_78_no_job_is_refused_for_a_property_while_those_that_were_set_are_not_known() {
    let mut m = Rabbits::default().machine();
    let text = on(&json!({"properties": ["odd"]}), 1);
    let never = satisfiable(&mut m, &text).unwrap_err();
    assert!(m.set_properties_unread(true) && !m.set_properties_unread(true));
    assert_eq!(satisfiable(&mut m, &text), Ok(()));
    assert!(run(&mut m, 1, &text).is_none());
    let request = ask(&mut m, &text);
    let waits =
        "no node has property odd now; what services set before could not be read, and is tried again";
    assert_eq!(m.shortage(&request).as_deref(), Some(waits));
    assert_eq!((m.least_cores(&request), m.inventory().satisfiable(&request)), (4, Ok(())));
    // More nodes than there are, and hosts that are none, are no question of properties.
    assert!(satisfiable(&mut m, &on(&json!({"properties": ["odd"]}), 6)).is_err());
    assert!(satisfiable(&mut m, &on(&json!({"hostlist": ["elsewhere"]}), 1)).is_err());
    assert!(m.set_properties_unread(false));
    assert_eq!(satisfiable(&mut m, &text), Err(never));
}
