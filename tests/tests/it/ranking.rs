//! A site's own order of nodes, given by a component on a live instance: the places of jobs, after a swap, after a
//! kill of the scheduler, and in a rerun of its journal.

use std::io::{Seek, Write};

use fluxgate_tests::fixture::{Said, World, cli, fluxgate, folder, for_both_dialects, policies, run};
use serde_json::{Value, json};

/// Four nodes of two cores: the first has a GPU, the second has the property `old`.
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

/// A session of `resource-query` on the machine, with further arguments and these command lines.
fn asked(args: &[&str], lines: &str) -> Said {
    let dir = folder();
    let graph = dir.path().join("machine.json");
    std::fs::write(&graph, machine().to_string()).unwrap();
    let node =
        "{type: node, count: 1, with: [{type: slot, count: 1, label: s, with: [{type: core, count: 2}]}]}";
    let job = dir.path().join("job.yaml");
    let text = format!(
        "version: 9999\nresources: [{node}]\ntasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\nattributes: {{}}\n"
    );
    std::fs::write(&job, text).unwrap();
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(lines.replace("JOB", job.to_str().unwrap()).as_bytes()).unwrap();
    input.rewind().unwrap();
    let graph = ["resource-query", "-L", graph.to_str().unwrap(), "-f", "rv1exec", "-F", "pretty_simple"];
    let mut command = fluxgate([&graph, args].concat());
    command.stdin(input);
    run(command)
}

/// The hosts of the jobs, in order.
fn hosts(said: Said) -> Vec<String> {
    let out = said.ok();
    let names = out.split(|c: char| !c.is_ascii_alphanumeric());
    names.filter(|name| matches!(*name, "n0" | "n1" | "n2" | "n3")).map(str::to_owned).collect()
}

#[test]
fn a_graph_is_asked_in_the_order_of_a_component() {
    let file = policies().join("sparing.wasm");
    let file = file.to_str().unwrap();
    let four = "match allocate JOB\n".repeat(4);
    let low = asked(&["-P", "lonode"], &four);
    assert_eq!(hosts(low), ["n0", "n1", "n2", "n3"]);
    let sparing = asked(&["-P", file], &four);
    assert_eq!(hosts(sparing), ["n1", "n2", "n3", "n0"], "a GPU is rare");
    let settings = ["-P", file, "--config", "last=old,flaky=1", "--config", "rare=memory"];
    assert_eq!(hosts(asked(&settings, &four)), ["n0", "n2", "n3", "n1"]);
    let changed =
        format!("match allocate JOB\nset-property /cluster0/n2 flaky=1\n{}", &four[..3 * four.len() / 4]);
    assert_eq!(hosts(asked(&settings, &changed)), ["n0", "n3", "n1", "n2"], "it is asked again");
}

#[test]
fn components_that_give_no_order_are_told_of() {
    let of = |name: &str| policies().join(name).to_str().unwrap().to_owned();
    asked(&["-P", &of("easy.wasm")], "").fails(1, &["easy.wasm", "no export 'ranking'"]);
    asked(&["-P", "./not-there.wasm"], "").fails(1, &["not-there.wasm"]);
    let dir = folder();
    let text = dir.path().join("text.wasm");
    std::fs::write(&text, "not a component").unwrap();
    asked(&["-P", text.to_str().unwrap()], "").fails(1, &["text.wasm", "component"]);
    asked(&["-P", &of("sparing.wasm"), "--config", "lost=old"], "").fails(1, &["sparing.wasm", "lost"]);
    asked(&["-P", "low", "--config", "last=old"], "").fails(2, &["--config", "FILE.wasm"]);
    asked(&["-P", "best"], "").fails(2, &["best", "FILE.wasm"]);
    let nan = ["--config", "mode=nan-key", "--config", "when=rank"];
    asked(&[&["-P", &of("broken.wasm")], &nan[..]].concat(), "").fails(1, &["broken", "ranking.scores"]);
}
