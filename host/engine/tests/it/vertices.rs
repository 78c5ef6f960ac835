//! Status and properties that a site's services set on vertices by path.

use std::collections::BTreeMap;

use fluxgate_engine::{Config, Engine, Event, Occurrence, Window};
use fluxgate_formats::jobspec::Jobspec;
use fluxgate_formats::{JobId, R};
use fluxgate_graph::{RecordFormat, Resources};
use serde_json::{Value, json};

use crate::common::*;

/// One chassis with storage that is down and two nodes.
fn rabbit() -> Resources {
    let vertex = |id: usize, mut data: Value, path: &str| {
        data["paths"] = json!({ "containment": path });
        json!({"id": id.to_string(), "metadata": data})
    };
    let nodes = json!([
        vertex(0, json!({"type": "cluster", "name": "site"}), "/site"),
        vertex(1, json!({"type": "chassis", "id": 0}), "/site/chassis0"),
        vertex(2, json!({"type": "ssd", "size": 100, "status": 1}), "/site/chassis0/ssd0"),
        vertex(3, json!({"type": "node", "name": "n0", "rank": 0}), "/site/chassis0/n0"),
        vertex(4, json!({"type": "core", "id": 0, "rank": 0}), "/site/chassis0/n0/core0"),
        vertex(5, json!({"type": "node", "name": "n1", "rank": 1}), "/site/chassis0/n1"),
        vertex(6, json!({"type": "core", "id": 0, "rank": 1}), "/site/chassis0/n1/core0"),
    ]);
    let edge = |pair: &[u32; 2]| json!({"source": pair[0].to_string(), "target": pair[1].to_string()});
    let edges: Vec<Value> = [[0, 1], [1, 2], [1, 3], [3, 4], [1, 5], [5, 6]].iter().map(edge).collect();
    let r = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0-1", "children": {"core": "0"}}], "nodelist": ["n[0-1]"],
        "starttime": 0, "expiration": 0,
    }, "scheduling": {"graph": {"directed": false, "nodes": nodes, "edges": edges}}});
    let r = R::from_value(&r).unwrap();
    let mut resources = Resources::from_r(&r).unwrap();
    resources.set_up(&r.ranks());
    resources
}

/// A node and storage beside it.
fn beside() -> std::sync::Arc<Jobspec> {
    let node = json!({"type": "node", "count": 1, "exclusive": true,
        "with": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}]});
    let ssd = json!({"type": "ssd", "count": 10, "exclusive": true});
    let spec = json!({"version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "rabbit", "with": [node, ssd]}],
        "attributes": {"system": {"duration": 60}},
        "tasks": [{"command": ["a"], "slot": "task", "count": {"per_slot": 1}}]});
    std::sync::Arc::new(Jobspec::from_value(&spec).unwrap())
}

fn status(path: &str, up: bool) -> Event {
    Event::VertexStatus { paths: vec![path.to_owned()], up }
}

fn property(path: &str, value: Option<&str>) -> Event {
    let value = value.map(str::to_owned);
    Event::VertexProperty { paths: vec![path.to_owned()], key: "badrabbit".to_owned(), value }
}

const SSD: &str = "/site/chassis0/ssd0";

#[test]
fn site_73_74_a_pass_is_due_after_what_is_news_and_not_after_repeats() {
    let mut engine = Engine::new(rabbit(), Config::default());
    assert!(started(&submit(&mut engine, 1.0, vec![(1, beside())])).is_empty());
    assert!(!engine.needs_pass(2.0));
    // A vertex that is down already, and an unknown path.
    engine.step(status(SSD, false), 2.0);
    engine.step(status("/site/chassis7/ssd0", true), 2.0);
    engine.step(property("/site/chassis7", Some("x")), 2.0);
    engine.step(property("/site/chassis0/n0", None), 2.0);
    assert!(!engine.needs_pass(2.0));
    engine.step(status(SSD, true), 3.0);
    assert!(engine.needs_pass(3.0));
    let passes = engine.stats().passes;
    assert_eq!(started(&engine.pass(3.0)), [1]);
    assert_eq!(engine.stats().passes, passes + 1);
    engine.step(status(SSD, true), 4.0);
    assert!(!engine.needs_pass(4.0));
    // The job keeps running when its storage goes down.
    engine.step(status("/site/chassis0", false), 5.0);
    assert_eq!(engine.running(), 1);
}

#[test]
fn site_76_77_jobs_that_wait_are_looked_at_again_and_are_not_denied() {
    let mut engine = Engine::new(rabbit(), Config::default());
    let paths = ["/site/chassis0/n0", "/site/chassis0/n1"].map(str::to_owned).to_vec();
    let key = "badrabbit".to_owned();
    engine.step(
        Event::VertexProperty { paths: paths.clone(), key: key.clone(), value: Some("bad".into()) },
        1.0,
    );
    let mut spec = (*cores(1, 60.0)).clone();
    spec.set_system_attr("constraints", json!({"not": [{"properties": ["badrabbit"]}]})).unwrap();
    assert!(started(&submit(&mut engine, 1.0, vec![(1, spec.into())])).is_empty());
    assert_eq!(engine.pending(), 1);
    engine.step(property(&paths[1], None), 2.0);
    assert_eq!(started(&engine.pass(2.0)), [1]);
}

/// A job that waits for a reservation and then for a property says so, also where no other change came before.
#[test]
fn site_76_77_a_property_that_is_in_the_way_is_the_reason() {
    let mut engine = Engine::new(rabbit(), Config::default());
    let times = Occurrence { start: 30.0, end: 100.0, begins: "30".to_owned() };
    let window = Window::maintenance("dst", vec![times], "0-1".parse().unwrap());
    engine.step(Event::PutWindow(Box::new(window)), 0.0);
    engine.step(status(SSD, true), 0.0);
    let mut spec = (*beside()).clone();
    spec.set_system_attr("constraints", json!({"properties": ["^badrabbit"]})).unwrap();
    assert!(started(&submit(&mut engine, 1.0, vec![(1, spec.into())])).is_empty());
    let reason = |engine: &Engine| engine.reason(JobId(1)).unwrap().to_string();
    assert!(reason(&engine).contains("maintenance dst"), "{}", reason(&engine));
    engine.step(property("/site/chassis0/n0", Some("x")), 2.0);
    engine.step(property("/site/chassis0/n1", Some("x")), 2.0);
    assert!(started(&engine.pass(2.0)).is_empty());
    assert!(reason(&engine).contains("properties"), "{}", reason(&engine));
    engine.step(property("/site/chassis0/n1", None), 3.0);
    engine.pass(3.0);
    assert!(reason(&engine).contains("maintenance dst"), "{}", reason(&engine));
}

#[test]
fn site_78_a_checkpoint_has_what_was_set_and_what_jobs_hold_of_storage() {
    for record_format in RecordFormat::ALL {
        let config = Config { record_format, ..Config::default() };
        let mut engine = Engine::new(rabbit(), config);
        engine.step(status(SSD, true), 1.0);
        engine.step(property("/site/chassis0/n1", Some("a=b")), 1.0);
        engine.step(Event::PropertiesUnread(true), 1.0);
        assert_eq!(started(&submit(&mut engine, 1.0, vec![(1, beside()), (2, beside())])), [1]);
        engine.step(status("/site/chassis0/n1", false), 1.0);
        let checkpoint = engine.checkpoint().unwrap().0;
        assert_eq!(engine.resources().record_format(), record_format);
        let resume = || Engine::resume(&checkpoint, |_| Some(beside()), None, BTreeMap::new()).unwrap();
        let mut other = resume();
        assert_eq!(other.checkpoint().unwrap().0, checkpoint);
        for engine in [&mut engine, &mut other] {
            let value = engine.resources().vertex_property("/site/chassis0/n1", "badrabbit");
            assert_eq!(value.unwrap(), ["a=b"]);
            assert!(engine.resources().properties_unread());
            engine.step(Event::PropertiesUnread(false), 2.0);
            assert!(!engine.resources().properties_unread());
            // Node 1 is free and the storage is not; then the reverse.
            engine.step(status("/site/chassis0/n1", true), 2.0);
            assert!(started(&engine.pass(2.0)).is_empty(), "{record_format:?}");
            engine.step(free(1), 3.0);
            assert_eq!(started(&engine.pass(3.0)), [2]);
        }
    }
}

#[test]
fn site_38_the_format_of_r_changes_with_the_settings() {
    let mut engine = Engine::new(rabbit(), Config::default());
    engine.step(status(SSD, true), 1.0);
    let graph = |engine: &mut Engine, id: u64| {
        let actions = submit(engine, 1.0, vec![(id, beside())]);
        engine.step(free(id), 1.0);
        let found = actions.iter().find_map(|action| match action {
            fluxgate_engine::Action::Start { r, .. } => Some(r.scheduling.clone()),
            _ => None,
        });
        found.unwrap()
    };
    let short = graph(&mut engine, 1).unwrap();
    engine.reconfigure(Config { record_format: RecordFormat::Full, ..Config::default() });
    let full = graph(&mut engine, 2).unwrap();
    let count = |graph: &Value| graph["graph"]["nodes"].as_array().unwrap().len();
    assert!(count(&full) > count(&short), "{full} {short}");
    engine.reconfigure(Config { record_format: RecordFormat::NoGraph, ..Config::default() });
    assert_eq!(graph(&mut engine, 3), None);
}
