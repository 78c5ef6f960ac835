//! Storage of a site for its services and administrators: status and properties by path, over the socket and by
//! command, and their state after a kill of the scheduler.

use std::path::{Path, PathBuf};

use fluxgate_tests::fixture::{World, folder};
use serde_json::{Value, json};

/// The names that other services use.
const STATUS: &str = "sched-fluxion-resource.set_status";
const SET: &str = "sched-fluxion-resource.set_property";
const GET: &str = "sched-fluxion-resource.get_property";

/// An R of two chassis with two vertices of storage, down in the file, and one node of two cores each; and this many nodes beside them.
fn machine(dir: &Path, beside: usize) -> PathBuf {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |mut data: Value, path: String, parent: Option<usize>| {
        let id = nodes.len();
        data["paths"] = json!({ "containment": path });
        nodes.push(json!({"id": id.to_string(), "metadata": data}));
        edges.extend(parent.map(|p| json!({"source": p.to_string(), "target": id.to_string()})));
        id
    };
    let root = add(json!({"type": "cluster", "name": "site"}), "/site".into(), None);
    for c in 0..2 + beside {
        let (mut path, mut above) = ("/site".to_owned(), root);
        if c < 2 {
            path = format!("/site/chassis{c}");
            above = add(json!({"type": "chassis", "id": c}), path.clone(), Some(root));
            for s in 0..2 {
                let data = json!({"type": "ssd", "unit": "GiB", "size": 100, "status": 1});
                add(data, format!("{path}/ssd{s}"), Some(above));
            }
        }
        let data = json!({"type": "node", "name": format!("n{c}"), "rank": c});
        let node = add(data, format!("{path}/n{c}"), Some(above));
        for core in 0..2 {
            let data = json!({"type": "core", "id": core, "rank": c});
            add(data, format!("{path}/n{c}/core{core}"), Some(node));
        }
    }
    let last = 1 + beside;
    let r = json!({"version": 1, "execution": {
        "R_lite": [{"rank": format!("0-{last}"), "children": {"core": "0-1"}}],
        "nodelist": [format!("n[0-{last}]")], "starttime": 0, "expiration": 0,
    }, "scheduling": {"graph": {"directed": false, "nodes": nodes, "edges": edges}}});
    let file = dir.join("rabbits.json");
    std::fs::write(&file, r.to_string()).unwrap();
    file
}

/// Submits a job of a node with storage beside it.
fn submit(world: &World) -> String {
    let file = world.dir.path().join("job.yaml");
    let text = "version: 9999\nresources:\n  - type: slot\n    count: 1\n    label: rabbit\n    with:\n      - type: node\n        \
                count: 1\n        exclusive: true\n        with:\n          - type: slot\n            label: task\n            \
                count: 1\n            with: [{type: core, count: 1}]\n      - {type: ssd, count: 10, exclusive: true}\n\
                tasks:\n  - command: [app]\n    slot: task\n    count: {per_slot: 1}\n\
                attributes: {system: {duration: 7200, simulate: {duration: 3600}}}\n";
    std::fs::write(&file, text).unwrap();
    world.cli(&["submit", "--jobspec", file.to_str().unwrap()]).ok().trim().to_owned()
}

fn up(dir: &Path) -> World {
    let file = machine(dir, 0);
    World::up(&["--resources", file.to_str().unwrap()])
}

#[test]
fn a_graph_alone_makes_an_instance_with_storage_too() {
    let dir = folder();
    let r: Value = serde_json::from_str(&std::fs::read_to_string(machine(dir.path(), 0)).unwrap()).unwrap();
    let file = dir.path().join("rabbits.jgf");
    std::fs::write(&file, r["scheduling"].to_string()).unwrap();
    let world = World::up(&["--resources", file.to_str().unwrap()]);
    status(&world, "/site/chassis1/ssd1", "up").unwrap();
    submit(&world);
    world.until("it runs", |world| world.jobs("running").len() == 1);
}

#[test]
fn site_37_jobs_without_storage_go_outside_of_chassis_first() {
    let dir = folder();
    let file = machine(dir.path(), 2);
    let sparing = ["--policy", "sparing", "--config", "last-within=chassis"];
    let world = World::up(&[&["--resources", file.to_str().unwrap()][..], &sparing].concat());
    let starts = |world: &World, id: String| {
        world.until("it runs", |world| world.jobs("running").contains(&id));
        let job = world.cli(&["job", &id, "--json"]).json();
        job["R"]["execution"]["R_lite"][0]["rank"].as_str().unwrap().to_owned()
    };
    let plain = |world: &World, nodes: &str| {
        let submit = ["submit", nodes, "--exclusive", "-t", "1h", "--simulate", "1h"];
        let id = world.cli(&submit).ok().trim().to_owned();
        starts(world, id)
    };
    assert_eq!(plain(&world, "-N1"), "2");
    status(&world, "/site/chassis1/ssd1", "up").unwrap();
    let with_storage = submit(&world);
    assert_eq!(starts(&world, with_storage), "1", "where its storage is");
    assert_eq!(plain(&world, "-N2"), "0,3", "no job waits for a node that is free");
}

fn status(world: &World, path: &str, status: &str) -> Result<Value, String> {
    world.rpc(STATUS, json!({"resource_path": path, "status": status}))
}

#[test]
fn site_56_60_73_storage_that_comes_up_starts_the_job_that_waits_for_it() {
    let dir = folder();
    let world = up(dir.path());
    let id = submit(&world);
    world.until("it waits", |world| world.jobs("pending").len() == 1);
    let error = status(&world, "/site/chassis7/ssd0", "up").unwrap_err();
    assert!(error.contains("could not find path '/site/chassis7/ssd0' in resource graph"), "{error}");
    status(&world, "/site/chassis1/ssd1", "up").unwrap();
    world.until("it runs", |world| world.jobs("running").len() == 1);
    let job = world.cli(&["job", &id, "--json"]).json();
    let held = job["R"]["scheduling"]["graph"]["nodes"].to_string();
    assert!(
        held.contains("/site/chassis1/ssd1") && job["R"]["execution"]["R_lite"][0]["rank"] == "1",
        "{job}"
    );
    // The job keeps its resources.
    status(&world, "/site/chassis1", "down").unwrap();
    assert_eq!(world.jobs("running").len(), 1);
    // Unknown paths are reported once for each parent.
    status(&world, "/site/chassis7/ssd1", "up").unwrap_err();
    world.until("it is logged", |world| world.log().contains("/site/chassis7/ssd0"));
    assert!(!world.log().contains("/site/chassis7/ssd1"), "{}", world.log());
}

#[test]
fn site_61_63_78_what_was_set_stays_when_the_scheduler_dies() {
    let dir = folder();
    let world = up(dir.path());
    for path in ["/site/chassis0/ssd0", "/site/chassis1/ssd0"] {
        status(&world, path, "up").unwrap();
    }
    world.rpc(SET, json!({"sp_resource_path": "/site/chassis0/n0", "sp_keyval": "badrabbit=x"})).unwrap();
    // It is written within about a second.
    let kept = json!({"key": "sched-fluxgate.vertices", "namespace": "primary", "flags": 0});
    world.until("it is written", |world| world.rpc("kvs.lookup", kept.clone()).is_ok());
    world.kill_scheduler();
    let get = json!({"gp_resource_path": "/site/chassis0/n0", "gp_key": "badrabbit"});
    assert_eq!(world.rpc(GET, get.clone()).unwrap(), json!({"values": ["x"]}));
    submit(&world);
    world.until("it runs", |world| world.jobs("running").len() == 1);
    let remove = json!({"resource_path": ["/site/chassis0/n0"], "key": "badrabbit"});
    assert_eq!(world.rpc("sched-fluxion-resource.remove_property", remove).unwrap(), json!({}));
    assert!(
        world
            .rpc(GET, get)
            .unwrap_err()
            .contains("Property 'badrabbit' was not found for resource /site/chassis0/n0")
    );
    world.assert_clean();
}

#[test]
fn site_78_commands_mark_vertices_and_show_them() {
    let dir = folder();
    let world = up(dir.path());
    let find = |query: &str| world.cli(&["graph", "find", "--from-instance", query]).ok();
    assert_eq!(find("type=ssd and status=up"), "");
    let done = world.cli(&["graph", "set-status", "/site/chassis0", "up", "--each", "ssd"]).ok();
    assert_eq!(done, "2 vertices below /site/chassis0 are marked up\n");
    assert_eq!(find("type=ssd and status=up"), "/site/chassis0/ssd0\n/site/chassis0/ssd1\n");
    let json = world.cli(&["graph", "set-status", "/site/chassis1", "down", "--json"]).json();
    assert_eq!(json, json!({"paths": ["/site/chassis1"], "status": "down"}));
    assert!(find("type=chassis and status=down").contains("/site/chassis1"));
    let text = world.cli(&["graph", "set-property", "/site/chassis0/n0", "bad=a=b"]).ok();
    assert_eq!(text, "/site/chassis0/n0 has bad=a=b\n");
    let get = json!({"gp_resource_path": "/site/chassis0/n0", "gp_key": "bad"});
    assert_eq!(world.rpc(GET, get.clone()).unwrap(), json!({"values": ["a=b"]}));
    let json = world.cli(&["graph", "remove-property", "/site/chassis0/n0", "bad", "--json"]).json();
    assert_eq!(json, json!({"path": "/site/chassis0/n0", "property": "bad", "value": null}));
    world.rpc(GET, get).unwrap_err();
    world.cli(&["graph", "set-status", "/nowhere", "up"]).fails(1, &["could not find path '/nowhere'"]);
    world.cli(&["graph", "set-status", "/site", "up", "--each", "gpu"]).fails(2, &["no vertex of type gpu"]);
    world.cli(&["graph", "set-property", "/site", "bad"]).fails(2, &["PROPERTY=VALUE"]);
    world.cli(&["graph", "set-status", "/site", "odd"]).fails(2, &["up, down"]);
}
