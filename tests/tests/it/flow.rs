//! Power caps for a user: a job waits for power while cores are free, its reason names the pool, it starts when
//! another job releases power, and it keeps its power when the scheduler is killed.

use std::path::{Path, PathBuf};

use fluxgate_tests::fixture::{World, cli, folder, for_both_dialects, policies, root};
use serde_json::Value;

/// A jobspec of a number of nodes of the example machine with a core and this many watts each, for an hour of
/// simulated work.
fn job(dir: &Path, nodes: u32, watts: u32) -> PathBuf {
    let file = dir.join(format!("{nodes}-{watts}.yaml"));
    let text = format!(
        "version: 9999\nresources:\n  - type: node\n    count: {nodes}\n    with:\n      - type: slot\n        count: 1\n        \
         label: task\n        with: [{{type: core, count: 1}}, {{type: power, count: {watts}, unit: W}}]\n\
         tasks:\n  - command: [app]\n    slot: task\n    count: {{per_slot: 1}}\n\
         attributes: {{system: {{duration: 7200, simulate: {{duration: 3600}}}}}}\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

fn submit(world: &World, nodes: u32, watts: u32) -> String {
    let file = job(world.dir.path(), nodes, watts);
    world.cli(&["submit", "--jobspec", file.to_str().unwrap()]).ok().trim().to_owned()
}

fn watts(world: &World, id: &str) -> Value {
    let job = world.cli(&["job", id, "--json"]).json();
    job["R"]["scheduling"]["flow"]["power"]["pools"].clone()
}

/// M4-18, M16-18: the rack's cap admits no third job although cores are free. R27-HELLO-6: allocations survive the
/// scheduler.
#[test]
fn m16_18_a_power_cap_makes_a_job_wait_until_another_ends() {
    let machine = root().join("docs/graphs/capped.json");
    for (number, policy) in ["fcfs", "easy", "conservative"].into_iter().enumerate() {
        let args = ["--resources", machine.to_str().unwrap(), "--policy", policy];
        for_both_dialects(&args, |args| {
            // Each policy with one of the two dialects.
            if (args.last() == Some(&"current")) != (number % 2 == 0) {
                return;
            }
            let world = World::up(args);
            let first = submit(&world, 3, 1000);
            world.until("the first runs", |w| w.jobs("running").len() == 1);
            // 2000 W of 5000 W are left, and seven eighths of the cores.
            let second = submit(&world, 3, 900);
            let short = "insufficient power: needs 3 times 900 W, row has too little left";
            // With a reserved start the list says so, and the job itself names the shortage.
            let list = if policy == "fcfs" { short } else { "has a reserved start" };
            world.until("a reason is told", |w| w.told(list));
            assert!(world.cli(&["jobs"]).ok().contains(list));
            if policy != "fcfs" {
                world.until("a start is expected", |w| {
                    let told = w.list("pending")[0]["annotations"]["sched"]["t_estimate"].as_f64();
                    told.is_some_and(|start| start > 0.0)
                });
                let list = world.cli(&["jobs", "--json", "--filter", "pending"]).json();
                assert!(list["jobs"][0]["t_estimate"].as_f64().is_some_and(|start| start > 0.0), "{list}");
                assert!(world.cli(&["jobs"]).ok().contains("ETA"), "a column for people");
            }
            world.until("the pool is named", |w| w.why(&second).contains(short));
            assert!(world.cli(&["job", &second]).ok().contains(short));
            world.kill_scheduler();
            assert_eq!(world.jobs("running").len(), 1);
            world.until("the next scheduler says so as well", |w| {
                w.why(&second).contains("row has too little left")
            });
            if policy != "fcfs" {
                // A job without power, or within the remaining power, passes it.
                world.cli(&["submit", "-n4", "-t", "1h", "--simulate", "30m"]).ok();
                world.until("that runs", |w| w.jobs("running").len() == 2);
            }
            world.cli(&["cancel", &first]).ok();
            world.until("the second runs", |w| w.jobs("running").contains(&second));
            assert_eq!(watts(&world, &second), serde_json::json!([{"hosts": "node[0-2]", "each": 900}]));
            world.assert_clean();
        });
    }
}

#[test]
fn m4_18_power_that_is_not_there_is_never_promised() {
    let machine = root().join("docs/graphs/capped.json");
    let world = World::up(&["--resources", machine.to_str().unwrap(), "--policy", "easy"]);
    for (nodes, watts, why) in [
        (1, 1001, "it asks for 1001 W of 'power', and supply of node0 carries 1000 W"),
        (6, 900, "it asks for 6 times 900 W of 'power', and row carries 5000 W"),
    ] {
        let file = job(world.dir.path(), nodes, watts);
        world.cli(&["submit", "--jobspec", file.to_str().unwrap()]).fails(1, &[why]);
    }
}

/// A policy cannot deny a job, but the reason says why it never starts.
#[test]
fn a_job_above_every_budget_is_told_so() {
    let machine = root().join("docs/graphs/capped.json");
    let world = World::up(&["--resources", machine.to_str().unwrap(), "--policy", "easy"]);
    let component = policies().join("power-capped.wasm");
    world.cli(&["policy", "load", component.to_str().unwrap(), "--config", "budget=1500"]).ok();
    world.cli(&["policy", "swap", "power-capped"]).ok();
    let wide = submit(&world, 3, 900);
    let why = "takes 2700 W of power, the budget is never above 1500";
    world.until("the list tells why", |w| w.told(why));
    assert!(world.cli(&["jobs"]).ok().contains(why));
    assert!(world.cli(&["job", &wide]).ok().contains(why));
    submit(&world, 1, 900);
    world.until("who comes later runs", |w| w.jobs("running").len() == 1);
    world.assert_clean();
}

/// The tools check the machine too.
#[test]
fn a_capped_machine_is_shown() {
    let machine = root().join("docs/graphs/capped.json");
    let dir = folder();
    let said = cli(&["graph", "show", machine.to_str().unwrap(), "--subsystem", "bandwidth"]).ok();
    assert!(said.contains("scratch") && said.contains("switch[0-1]"), "{said}");
    let wrong =
        std::fs::read_to_string(machine).unwrap().replacen("\"from\": \"row\"", "\"from\": \"rom\"", 1);
    let file = dir.path().join("wrong.json");
    std::fs::write(&file, wrong).unwrap();
    cli(&["graph", "check", file.to_str().unwrap()]).fails(1, &["power.pools[1].from", "no pool 'rom'"]);
}
