//! A site's own order of nodes, given by a component on a live instance: where jobs go, after a swap, after the scheduler was
//! killed, and when its journal is run again.

use fluxgate_tests::fixture::{World, cli, folder, for_both_dialects, policies};
use serde_json::{Value, json};

/// Four nodes of two cores: a GPU on the first, the second is old, nothing special on the others.
fn machine() -> Value {
    json!({
        "version": 1,
        "execution": {
            "R_lite": [
                {"rank": "0", "children": {"core": "0-1", "gpu": "0"}},
                {"rank": "1-3", "children": {"core": "0-1"}},
            ],
            "nodelist": ["n[0-3]"],
            "properties": {"old": "1"},
            "starttime": 0, "expiration": 0,
        },
    })
}

fn submit(world: &World, args: &[&str]) -> String {
    let args = [&["submit", "-t", "1h", "--simulate", "1h"], args].concat();
    let id = world.cli(&args).ok().trim().to_owned();
    world.until("it runs", |world| world.jobs("running").contains(&id));
    let job = world.cli(&["job", &id, "--json"]).json();
    let r = &job["R"]["execution"]["R_lite"];
    r.as_array().unwrap().iter().map(|row| row["rank"].as_str().unwrap()).collect::<Vec<_>>().join("+")
}

#[test]
fn jobs_go_where_the_sites_policy_wants_them() {
    let dir = folder();
    let file = dir.path().join("machine.json");
    std::fs::write(&file, machine().to_string()).unwrap();
    let journal = dir.path().join("journal");
    let args = ["--resources", file.to_str().unwrap(), "--policy", "sparing"];
    for_both_dialects(&args, |args| {
        let journal = journal.with_extension(args.last().unwrap());
        let journal = journal.to_str().unwrap();
        let world = World::up(&[args, &["--journal", journal]].concat());
        assert_eq!(submit(&world, &["-n1"]), "1", "what is plain");
        assert_eq!(submit(&world, &["-n2"]), "1+2");
        world.kill_scheduler();
        assert_eq!(submit(&world, &["-n1"]), "2");
        let sparing = policies().join("sparing.wasm");
        let said = ["policy", "load", sparing.to_str().unwrap(), "--config", "last=old", "--json"];
        world.cli(&said).ok();
        world.cli(&["policy", "swap", "sparing"]).ok();
        let shown = world.cli(&["policy", "show", "sparing", "--json"]).json();
        assert_eq!(shown["abilities"], json!(["scheduling", "ranking"]), "{shown}");
        assert_eq!(submit(&world, &["-n3"]), "0+3", "a GPU is rare, and goes when there is nothing else");
        world.cli(&["policy", "swap", "fcfs"]).ok();
        assert_eq!(submit(&world, &["-n1"]), "0");
        for id in world.jobs("running") {
            world.cli(&["cancel", &id]).ok();
        }
        world.until("all are done", |world| world.jobs("running").is_empty());
        assert_eq!(submit(&world, &["-n1"]), "0", "as nodes come");
        world.assert_clean();
        world.cli(&["down"]).ok();
        let done = cli(&["replay", "--json", "--journal", journal]).json();
        assert_eq!((&done["verified"], &done["lives"]), (&json!(true), &json!(2)), "{done}");
    });
}
