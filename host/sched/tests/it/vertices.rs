//! The services of the graph scheduler: vertices by path, bursts, counters, and what is kept over a restart.

use std::collections::BTreeMap;

use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use crate::world::World;

/// Chassis with this many vertices of storage, which the file says are down, and one node each.
pub fn machine(chassis: u32, ssds: u32) -> Value {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |mut data: Value, path: String, parent: Option<usize>| {
        let id = nodes.len();
        data["paths"] = json!({ "containment": path });
        nodes.push(json!({"id": id.to_string(), "metadata": data}));
        edges.extend(parent.map(|p| json!({"source": p.to_string(), "target": id.to_string()})));
        id
    };
    let root = add(json!({"type": "cluster", "name": "site"}), "/site".into(), None);
    for c in 0..chassis {
        let path = format!("/site/chassis{c}");
        let it = add(json!({"type": "chassis", "id": c}), path.clone(), Some(root));
        for s in 0..ssds {
            let data = json!({"type": "ssd", "unit": "GiB", "size": 100, "status": 1});
            add(data, format!("{path}/ssd{s}"), Some(it));
        }
        let data = json!({"type": "node", "name": format!("n{c}"), "rank": c});
        let node = add(data, format!("{path}/n{c}"), Some(it));
        add(json!({"type": "core", "id": 0, "rank": c}), format!("{path}/n{c}/core0"), Some(node));
    }
    let ranks = if chassis == 1 { "0".to_owned() } else { format!("0-{}", chassis - 1) };
    json!({"version": 1, "execution": {
        "R_lite": [{"rank": ranks, "children": {"core": "0"}}],
        "nodelist": [format!("n[{ranks}]")], "starttime": 0, "expiration": 0,
    }, "scheduling": {"graph": {"directed": false, "nodes": nodes, "edges": edges}}})
}

/// A node and storage beside it.
pub fn beside() -> Value {
    let node = json!({"type": "node", "count": 1, "exclusive": true,
        "with": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}]});
    let ssd = json!({"type": "ssd", "count": 10, "exclusive": true});
    json!({"version": 1, "resources": [{"type": "slot", "count": 1, "label": "rabbit", "with": [node, ssd]}],
        "attributes": {"system": {"duration": 60}},
        "tasks": [{"command": ["a"], "slot": "task", "count": {"per_slot": 1}}]})
}

/// The built-in policy decides.
fn table() -> Value {
    json!({"policy": "builtin-fcfs"})
}

pub fn world(chassis: u32, ssds: u32) -> World {
    World::on(machine(chassis, ssds), &table(), BTreeMap::new())
}

pub const STATUS: &str = "sched-fluxion-resource.set_status";
const SET: &str = "sched-fluxion-resource.set_property";
const REMOVE: &str = "sched-fluxion-resource.remove_property";
const GET: &str = "sched-fluxion-resource.get_property";

pub fn ssd(path: &str, status: &str) -> Value {
    json!({"resource_path": path, "status": status})
}

#[test]
fn site_59_60_79_a_status_is_set_or_refused_with_the_words_that_scripts_know() {
    let mut world = world(1, 2);
    world.submit_spec(1, &beside());
    world.settle();
    assert!(world.started.is_empty());
    let refused = |world: &mut World, payload: Value| world.call(STATUS, &payload).unwrap_err();
    let text = |text: &str| (errno::EINVAL, text.to_owned());
    assert_eq!(refused(&mut world, json!({"resource_path": "/site"})), text("malformed RPC"));
    let unknown = "could not find path '/site/chassis0/ssd9' in resource graph";
    assert_eq!(refused(&mut world, ssd("/site/chassis0/ssd9", "odd")), text(unknown));
    assert_eq!(refused(&mut world, ssd("/site/chassis0/ssd1", "odd")), text("unrecognized status 'odd'"));
    for _ in 0..2 {
        assert_eq!(world.call(STATUS, &ssd("/site/chassis0/ssd1", "up")), Ok(json!({})));
    }
    assert_eq!(world.started, [1]);
    // A status that is set already is no event of the engine.
    let events = world.told("stats-get", &json!({}))["engine"]["events"].clone();
    world.call(STATUS, &ssd("/site/chassis0/ssd1", "up")).unwrap();
    assert_eq!(world.told("stats-get", &json!({}))["engine"]["events"], events);
}

#[test]
fn site_61_62_63_75_properties_are_set_read_and_removed() {
    let mut world = world(2, 1);
    let paths = json!(["/site/chassis0/n0", "/site/chassis1/n1"]);
    let set = |path: &Value, text: &str| json!({"sp_resource_path": path, "sp_keyval": text});
    assert_eq!(world.call(SET, &set(&paths, "badrabbit=a=b")), Ok(json!({})));
    let get = json!({"gp_resource_path": "/site/chassis1/n1", "gp_key": "badrabbit"});
    assert_eq!(world.call(GET, &get), Ok(json!({"values": ["a=b"]})));
    let missing = (errno::ENOENT, "Couldn't find '/site/x' in resource graph".to_owned());
    let some = json!(["/site/chassis0", "/site/x"]);
    assert_eq!(world.call(SET, &set(&some, "rabbit=x")).unwrap_err(), missing);
    let none = json!({"gp_resource_path": "/site/chassis0", "gp_key": "rabbit"});
    let absent = "Property 'rabbit' was not found for resource /site/chassis0";
    assert_eq!(world.call(GET, &none).unwrap_err(), (errno::ENOENT, absent.to_owned()));
    let format = "Incorrect format, use set-property <resource> PROPERTY=VALUE";
    assert_eq!(world.call(SET, &set(&paths, "rabbit")).unwrap_err(), (errno::EINVAL, format.to_owned()));
    let remove = |path: &Value| json!({"resource_path": path, "key": "badrabbit"});
    assert_eq!(world.call(REMOVE, &remove(&json!("/site/x"))).unwrap_err(), missing);
    for _ in 0..2 {
        assert_eq!(world.call(REMOVE, &remove(&paths)), Ok(json!({})));
    }
    assert_eq!(world.call(GET, &get).unwrap_err().0, errno::ENOENT);
}

#[test]
fn site_74_a_burst_is_answered_with_one_pass() {
    let (chassis, ssds) = (40, 36);
    let mut world = world(chassis, ssds);
    world.submit_spec(1, &beside());
    world.settle();
    let passes =
        |world: &mut World| world.told("stats-get", &json!({}))["engine"]["passes"].as_u64().unwrap();
    let before = passes(&mut world);
    let mut tags = Vec::new();
    for c in 0..chassis {
        for s in 0..ssds {
            tags.push(world.send(STATUS, &ssd(&format!("/site/chassis{c}/ssd{s}"), "up")));
        }
        let payload = json!({"resource_path": [format!("/site/chassis{c}/n{c}")], "key": "badrabbit"});
        tags.push(world.send(REMOVE, &payload));
    }
    world.settle();
    assert!(tags.iter().all(|tag| world.answer(*tag).is_some_and(Result::is_ok)));
    assert_eq!((passes(&mut world), &world.started[..]), (before + 1, &[1][..]));
    // A second of quiet later all of it is written, once.
    let commits = world.commits;
    world.advance(2.0);
    world.advance(2.0);
    assert_eq!(world.commits, commits + 1);
}

#[test]
fn site_78_what_was_set_is_set_in_the_next_scheduler_before_its_first_pass() {
    let mut world = world(2, 1);
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    world.call(STATUS, &ssd("/site/chassis1", "down")).unwrap();
    let bad = json!({"sp_resource_path": "/site/chassis0/n0", "sp_keyval": "badrabbit=x"});
    world.call(SET, &bad).unwrap();
    world.advance(2.0);
    let get = json!({"gp_resource_path": "/site/chassis0/n0", "gp_key": "badrabbit"});
    let mut next = World::on(machine(2, 1), &table(), world.kvs.clone());
    assert_eq!(next.call(GET, &get), Ok(json!({"values": ["x"]})));
    next.submit_spec(1, &beside());
    next.submit_spec(2, &beside());
    next.settle();
    assert_eq!(next.started, [1]);
    assert_eq!(next.commits, 1, "nothing is written that was read");
    // Storage that is gone, and a value that no scheduler wrote.
    let mut smaller = World::on(machine(1, 1), &table(), world.kvs.clone());
    assert_eq!(smaller.call(GET, &get), Ok(json!({"values": ["x"]})));
    let odd = json!({"ver": 1, "type": "val", "data": "bm9uc2Vuc2U="});
    let mut odd =
        World::on(machine(1, 1), &table(), BTreeMap::from([("sched-fluxgate.vertices".into(), odd)]));
    assert_eq!(odd.call(GET, &get).unwrap_err().0, errno::ENOENT);
}

#[test]
fn site_78_a_refused_request_is_no_newer_than_what_was_kept() {
    const KEY: &str = "sched-fluxgate.vertices";
    let mut world = world(2, 1);
    world.call(STATUS, &ssd("/site/chassis1", "down")).unwrap();
    let bad = |paths: Value| json!({"sp_resource_path": paths, "sp_keyval": "badrabbit=x"});
    world.call(SET, &bad(json!("/site/chassis0/n0"))).unwrap();
    world.advance(2.0);
    // The next scheduler cannot read the key at first.
    let kept = world.kvs[KEY].clone();
    let mut next = World::on(machine(2, 1), &table(), BTreeMap::from([(KEY.to_owned(), Value::Null)]));
    next.call(SET, &bad(json!(["/site/chassis0/n0", "/site/x"]))).unwrap_err();
    next.call(STATUS, &ssd("/site/chassis1", "odd")).unwrap_err();
    next.kvs.insert(KEY.to_owned(), kept);
    next.advance(11.0);
    let get = json!({"gp_resource_path": "/site/chassis0/n0", "gp_key": "badrabbit"});
    assert_eq!(next.call(GET, &get), Ok(json!({"values": ["x"]})));
    let marks = next.told("vertex-marks", &json!({}));
    assert_eq!(marks["down"], json!(["/site/chassis1"]));
}

#[test]
fn site_78_no_job_is_denied_for_a_property_that_was_kept_and_cannot_be_read() {
    const KEY: &str = "sched-fluxgate.vertices";
    let mut world = world(2, 1);
    let bad = json!({"sp_resource_path": "/site/chassis1/n1", "sp_keyval": "badrabbit=x"});
    world.call(SET, &bad).unwrap();
    world.advance(2.0);
    let kept = world.kvs[KEY].clone();
    let with = |property: &str| {
        let mut spec = beside();
        spec["resources"] = json!([spec["resources"][0]["with"][0]]);
        spec["attributes"]["system"]["constraints"] = json!({"properties": [property]});
        spec
    };
    let mut next = World::on(machine(2, 1), &table(), BTreeMap::from([(KEY.to_owned(), Value::Null)]));
    next.submit_spec(1, &with("badrabbit"));
    next.settle();
    assert_eq!((&next.denied, next.started.len()), (&BTreeMap::new(), 0));
    next.kvs.insert(KEY.to_owned(), kept);
    next.advance(11.0);
    next.settle();
    assert_eq!(next.started, [1]);
    // All is known now: a job that asks for a property of no node is denied.
    next.submit_spec(2, &with("good"));
    next.settle();
    assert_eq!(next.denied.len(), 1);
    // Where nothing was kept, all is known at once.
    let mut first = World::on(machine(2, 1), &table(), BTreeMap::new());
    first.submit_spec(1, &with("badrabbit"));
    first.settle();
    assert_eq!(first.denied.len(), 1);
}

#[test]
fn site_69_70_83_85_86_87_counters_parameters_and_status_have_their_shapes() {
    let mut world = world(2, 1);
    let ask = |world: &mut World, topic: &str| world.call(topic, &json!({})).unwrap();
    let queues = ask(&mut world, "sched-fluxion-qmanager.stats-get")["queues"].clone();
    assert_eq!(queues["default"]["action_counts"]["pending"], 0, "before the first job: {queues}");
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    world.submit_spec(1, &beside());
    world.submit_spec(2, &beside());
    world.settle();
    let stats = ask(&mut world, "sched-fluxion-resource.stats-get");
    assert_eq!((&stats["V"], &stats["E"], &stats["by_rank"]), (&json!(9), &json!(8), &json!({"[0-1]": 2})));
    assert_eq!(
        (&stats["match"]["succeeded"]["njobs"], &stats["match"]["failed"]["njobs"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(ask(&mut world, "sched-fluxion-resource.stats-clear"), json!({}));
    let stats = ask(&mut world, "sched-fluxion-resource.stats-get");
    assert_eq!(stats["match"]["succeeded"]["njobs-reset"], 0);
    let params = ask(&mut world, "sched-fluxion-resource.params");
    assert_eq!(
        (&params["params"]["match-format"], &params["params"]["load-format"]),
        (&json!("rv1_shorthand"), &json!("jgf"))
    );
    let status = ask(&mut world, "sched-fluxion-resource.status");
    assert!(
        status["all"].is_object() && status["down"].is_object() && status["allocated"].is_object(),
        "{status}"
    );
    assert_eq!(status, ask(&mut world, "sched.resource-status"));
    // Passed on by a module that has the name.
    assert_eq!(status, ask(&mut world, "sched-fluxgate.sched-fluxion-resource.status"));
    let queue = ask(&mut world, "sched-fluxion-qmanager.stats-get")["queues"]["default"].clone();
    assert_eq!(queue["action_counts"]["pending"], 1);
    assert_eq!(queue["pending_queues"]["pending"], json!(["f3"]));
    assert_eq!(queue["scheduled_queues"]["running"], json!(["f2"]));
    let params = ask(&mut world, "sched-fluxion-qmanager.params")["params"].clone();
    assert_eq!(params["queue-params"], "queue-depth=unlimited");
    assert!(params["queue-policy"].is_string());
    assert_eq!(ask(&mut world, "sched-fluxion-qmanager.stats-clear"), json!({}));
    for topic in ["sched-fluxion-resource.match", "sched-fluxion-qmanager.set_status"] {
        assert_eq!(world.call(topic, &json!({})).unwrap_err().0, errno::ENOSYS, "{topic}");
    }
}

#[test]
fn site_38_the_format_of_r_is_a_setting_that_a_reload_changes() {
    let table = json!({"policy": "builtin-fcfs", "record-format": "rv1_nosched"});
    let mut world = World::on(machine(1, 3), &table, BTreeMap::new());
    let format = |world: &mut World| {
        let params = world.call("sched-fluxion-resource.params", &json!({})).unwrap();
        params["params"]["match-format"].as_str().unwrap().to_owned()
    };
    assert_eq!(format(&mut world), "rv1_nosched");
    let table = json!({"sched-fluxgate": {"policy": "builtin-fcfs", "record-format": "rv1"}});
    let told = world.told("config-reload", &table);
    assert_eq!(told["changed"]["record-format"]["to"], "rv1");
    assert_eq!(format(&mut world), "rv1");
    let table = json!({"sched-fluxgate": {"policy": "builtin-fcfs", "record-format": "jgf"}});
    let tag = world.ask("config-reload", &table);
    let error = world.answer(tag).unwrap().clone().unwrap_err().1;
    assert!(error.contains("rv1_nosched, rv1 or rv1_shorthand"), "{error}");
}

#[test]
fn site_64_68_80_vertices_are_found_and_jobs_told() {
    const FIND: &str = "sched-fluxion-resource.find";
    let mut world = world(2, 1);
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    world.submit_spec(1, &beside());
    world.settle();
    let find = |world: &mut World, criteria: &str, format: &str| {
        world.call(FIND, &json!({"criteria": criteria, "format": format})).unwrap()["R"].clone()
    };
    let paths = |found: &Value| {
        let nodes = found["graph"]["nodes"].as_array().unwrap();
        let paths = nodes.iter().map(|node| node["metadata"]["paths"]["containment"].as_str().unwrap());
        paths.map(str::to_owned).collect::<Vec<_>>()
    };
    let held = paths(&find(&mut world, "sched-now=allocated", "jgf"));
    assert!(held.contains(&"/site/chassis0/ssd0".to_owned()), "{held:?}");
    assert!(!held.iter().any(|path| path.starts_with("/site/chassis1")), "{held:?}");
    let down = paths(&find(&mut world, "status=down and type=ssd", "jgf"));
    assert!(
        down.contains(&"/site/chassis1/ssd0".to_owned()) && !down.contains(&"/site/chassis0/ssd0".to_owned())
    );
    let all = find(&mut world, "status=up or status=down", "rv1_nosched");
    let whole = world.call("sched.resource-status", &json!({})).unwrap()["all"].clone();
    assert_eq!(all["execution"]["R_lite"], whole["execution"]["R_lite"]);
    let allocated = find(&mut world, "jobid-alloc=1", "rv1_nosched");
    assert_eq!(allocated["execution"]["R_lite"][0]["rank"], "0");
    assert_eq!(find(&mut world, "status=up and status=down", "rv1_nosched"), Value::Null);
    for bad in [json!({}), json!({"criteria": "status="}), json!({"criteria": "status=up", "format": "odd"})]
    {
        assert_eq!(world.call(FIND, &bad).unwrap_err().0, errno::EINVAL, "{bad}");
    }
    let info = world.call("sched-fluxion-resource.info", &json!({"jobid": 1})).unwrap();
    assert_eq!((&info["jobid"], &info["status"]), (&json!(1), &json!("ALLOCATED")));
    let none = world.call("sched-fluxion-resource.info", &json!({"jobid": 9})).unwrap_err();
    assert_eq!(none.0, errno::ENOENT);
}

/// FEAT-63: racks and the like, by name and with their nodes, for pictures of the machine; guests may ask.
#[test]
fn feat_63_levels_of_the_graph_of_a_site() {
    let mut world = World::on(machine(3, 2), &json!({"policy": "builtin-fcfs"}), BTreeMap::new());
    let tag = world.send_as((5, 2), "sched-fluxgate.levels", &json!({}));
    world.settle();
    let told = world.answer(tag).unwrap().clone().unwrap();
    let chassis = |c: u32| json!({"name": format!("chassis{c}"), "ranks": c.to_string()});
    // The storage of a chassis is no level.
    let level = json!({"type": "chassis", "vertices": [chassis(0), chassis(1), chassis(2)]});
    assert_eq!(told, json!({ "levels": [level] }));
    let mut flat = World::serving(&json!({"policy": "builtin-fcfs"}));
    assert_eq!(flat.told("levels", &json!({})), json!({"levels": []}));
}

#[test]
fn site_18_36_rules_about_resources_are_settings() {
    let rules = |rules: Value| json!({"policy": "builtin-fcfs", "resources": rules});
    let mut world = World::on(machine(2, 1), &rules(json!({"by-unit": ["ssd"]})), BTreeMap::new());
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    let apart = |gib: u32, attribute: &str| {
        let mut spec = beside();
        let node = spec["resources"][0]["with"][0].take();
        spec["resources"] = json!([node, {"type": "ssd", "count": gib, "exclusive": true}]);
        spec["attributes"]["system"][attribute] = json!("#DW persistentdw name=lib");
        spec
    };
    world.submit_spec(1, &apart(60, "dw"));
    world.submit_spec(2, &apart(40, "other"));
    world.settle();
    assert_eq!(world.started, [1, 2]);
    // They are read when a scheduler begins.
    let table = json!({"sched-fluxgate": rules(json!({"by-unit": []}))});
    let told = world.told("config-reload", &table);
    let note = "resources stays as it is until the scheduler is started again";
    assert_eq!((&told["changed"], &told["notes"]), (&json!({}), &json!([note])));
    let shown = world.told("config-show", &json!({}));
    assert_eq!(shown["settings"]["resources"]["value"]["by-unit"], json!(["ssd"]));
    // No vertex has the property, so a job with the attribute can never run.
    let mut world =
        World::on(machine(2, 1), &rules(json!({"nodes-below": {"dw": "rabbit"}})), BTreeMap::new());
    world.call(STATUS, &ssd("/site/chassis0/ssd0", "up")).unwrap();
    world.submit_spec(1, &apart(60, "dw"));
    world.submit_spec(2, &apart(40, "other"));
    world.settle();
    assert_eq!(world.started, [2]);
}
