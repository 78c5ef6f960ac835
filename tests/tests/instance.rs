//! An instance as a user has it: start, submit, look, change, stop, kill.

use std::path::Path;

use fluxgate_tests::fixture::{World, cli, fluxgate, folder, for_both_dialects, run};

#[test]
fn a_day_in_the_life_of_a_small_cluster() {
    for_both_dialects(&["--nodes", "2", "--cores", "4", "--policy", "fcfs"], |args| {
        let world = World::up(args);
        let marker = world.dir.path().join("marker");
        let command = format!("echo $FLUX_JOB_ID > {}", marker.display());
        let id = world.cli(&["submit", "-n1", "-t", "10m", "--", "sh", "-c", &command]).ok();
        let id = id.trim();
        assert!(id.starts_with('ƒ'), "{id}");
        assert_eq!(world.cli(&["job", id, "--wait", "--json"]).json()["result"], "COMPLETED");
        assert!(Path::new(&marker).exists(), "the command really ran");

        // Every FLUID form names the job.
        let shown = world.cli(&["job", id, "--json"]).json();
        let number = shown["id"].as_u64().unwrap();
        for form in [number.to_string(), format!("{number:#x}"), id.replace('ƒ', "f")] {
            assert_eq!(world.cli(&["job", &form, "--json"]).json()["id"], number, "{form}");
        }

        // Fill the machine, then have one wait and say why.
        let big = world.cli(&["submit", "-N2", "-n8", "--simulate", "1h"]).ok();
        world.until("the big job runs", |w| w.jobs("running").len() == 1);
        let waits = world.cli(&["submit", "-n3", "-t", "5m", "--simulate", "1s"]).ok();
        world.until("a reason is told", |w| {
            w.cli(&["jobs"]).ok().contains("insufficient resources: needs 3 cores")
        });
        assert!(world.cli(&["job", waits.trim()]).ok().contains("jobs ahead in its queue"));

        // Urgency, hold, cancel.
        world.cli(&["urgency", waits.trim(), "hold"]).ok();
        world.cli(&["cancel", big.trim()]).ok();
        world.until("the big job is gone", |w| w.jobs("running").is_empty());
        assert_eq!(world.jobs("pending").len(), 1, "a held job does not start");
        world.cli(&["urgency", waits.trim(), "31"]).ok();
        assert_eq!(world.cli(&["job", waits.trim(), "--wait", "--json"]).json()["result"], "COMPLETED");

        // Drain and undrain.
        world.cli(&["drain", "1", "bad", "dimm"]).ok();
        let wide = world.cli(&["submit", "-N2", "--simulate", "1s"]).ok();
        world.until("it waits", |w| w.jobs("pending").len() == 1);
        let resources = world.cli(&["resource", "list", "--json"]).json();
        let down = resources["resources"].as_array().unwrap().iter().find(|r| r["state"] == "down").unwrap();
        assert_eq!(down["ranks"], "1");
        world.cli(&["undrain", "1"]).ok();
        assert_eq!(world.cli(&["job", wide.trim(), "--wait", "--json"]).json()["result"], "COMPLETED");

        world.assert_clean();
        world.cli(&["down"]).ok();
        world.cli(&["jobs"]).fails(1, &["local-0"]);
    });
}

#[test]
fn detached_and_down_again() {
    let dir = folder();
    let with = |args: &[&str]| {
        let mut command = fluxgate(args);
        command.env("FLUXGATE_DIR", dir.path());
        run(command)
    };
    let said = with(&["up", "--nodes", "1", "--cores", "2", "--policy", "easy", "--detach"]).ok();
    assert!(said.contains("FLUX_URI=local://"), "{said}");
    with(&["up"]).fails(1, &["runs in", "already"]);
    with(&["submit", "--copies", "3", "--simulate", "1s"]).ok();
    assert_eq!(with(&["jobs", "--json", "--all"]).json()["jobs"].as_array().unwrap().len(), 3);
    with(&["down", "--purge"]).ok();
    with(&["down"]).fails(1, &["no instance runs"]);
}

#[test]
fn a_killed_scheduler_learns_of_every_running_job_from_its_successor() {
    for_both_dialects(&["--nodes", "4", "--cores", "4", "--policy", "easy", "--speed", "10"], |args| {
        let world = World::up(args);
        world.cli(&["submit", "-n2", "-t", "1h", "--simulate", "20m", "--copies", "20"]).ok();
        world.until("the machine is full", |w| w.jobs("running").len() == 8);
        let before = world.jobs("running");
        for _ in 0..3 {
            world.kill_scheduler();
            let stats = world.stats();
            assert_eq!(stats["session"]["hello-jobs"], 8, "{stats}");
            assert_eq!(stats["resources"]["free_cores"], 0, "{stats}");
        }
        assert_eq!(world.jobs("running"), before);
        world
            .cli(&["cancel"].iter().copied().chain(before.iter().map(String::as_str)).collect::<Vec<_>>())
            .ok();
        world.until("the next eight run", |w| w.jobs("running").len() == 8);
        world.assert_clean();
    });
}

#[test]
fn job_records_survive_a_crash_of_the_instance() {
    for_both_dialects(&["--nodes", "2", "--cores", "2", "--policy", "fcfs"], |args| {
        let world = World::up(args);
        world.cli(&["submit", "--simulate", "1s"]).ok();
        world.until("one is done", |w| w.jobs("inactive").len() == 1);
        world.cli(&["submit", "-n2", "-t", "2h", "--simulate", "1h", "--copies", "3"]).ok();
        world.until("two run", |w| w.jobs("running").len() == 2);
        let (running, pending) = (world.jobs("running"), world.jobs("pending"));
        let dir = world.kill_instance();
        let world = World::up_in(dir, args);
        assert_eq!((world.jobs("running"), world.jobs("pending")), (running.clone(), pending));
        assert_eq!(world.jobs("inactive").len(), 1);
        world.cli(&["cancel", &running[0], &running[1]]).ok();
        world.until("the third starts", |w| w.jobs("running").len() == 1);
        world.assert_clean();
    });
}

#[test]
fn a_second_scheduler_is_refused() {
    let world = World::up(&["--nodes", "1", "--cores", "1", "--policy", "fcfs"]);
    cli(&["sched", "--connect", &world.uri(), "--policy", "fcfs"]).fails(1, &["already"]);
    assert_eq!(world.stats()["ready"], true, "the first one goes on");
}

#[test]
fn queues_and_copies_and_jobspec_files() {
    for_both_dialects(&["--nodes", "1", "--cores", "4", "--queue", "batch", "--queue", "debug"], |args| {
        let world = World::up(args);
        world.cli(&["submit", "--queue", "nosuch", "--simulate", "1s"]).fails(1, &["nosuch"]);
        world.cli(&["queue", "stop", "debug"]).ok();
        world.cli(&["submit", "--queue", "debug", "--simulate", "1s"]).ok();
        world.cli(&["submit", "--queue", "batch", "--simulate", "1s", "--copies", "4"]).ok();
        world.until("batch is done", |w| w.jobs("inactive").len() == 4);
        assert_eq!(world.jobs("pending").len(), 1);
        world.cli(&["queue", "start", "debug"]).ok();
        world.until("debug is done", |w| w.jobs("inactive").len() == 5);

        let file = world.dir.path().join("job.yaml");
        std::fs::write(
            &file,
            "version: 9999\nresources:\n  - type: slot\n    label: default\n    count: 2\n    with: [{type: core, count: 1}]\n\
             tasks:\n  - command: [sleep, '0']\n    slot: default\n    count: {per_slot: 1}\n\
             attributes: {system: {duration: 60, simulate: {duration: 1}}}\n",
        )
        .unwrap();
        let said = world.cli(&["submit", "--jobspec", file.to_str().unwrap(), "-n", "3", "--json"]).json();
        assert_eq!(said["jobs"].as_array().unwrap().len(), 3);
        world.until("they are done", |w| w.jobs("inactive").len() == 8);
        world.assert_clean();
    });
}

#[test]
fn what_can_never_run_is_refused_or_denied() {
    for_both_dialects(&["--nodes", "1", "--cores", "2", "--policy", "fcfs"], |args| {
        let world = World::up(args);
        assert_eq!(world.dialect(), args[args.len() - 1]);
        let said = world.cli(&["submit", "-n3", "--simulate", "1s"]);
        if world.dialect() == "current" {
            // Asked by the feasibility service.
            return said.fails(1, &["unsatisfiable"]);
        }
        let id = said.ok();
        let job = world.cli(&["job", id.trim(), "--wait", "--json"]).json();
        assert_eq!(job["result"], "FAILED", "{job}");
        assert!(job.to_string().contains("unsatisfiable"), "{job}");
        world.assert_clean();
    });
}

#[test]
fn resources_are_given_back_whatever_dies() {
    // More jobs than fit, so that each start needs the answer to an earlier job's end.
    let args = ["--nodes", "2", "--cores", "2", "--policy", "easy", "--speed", "100"];
    for_both_dialects(&args, |args| {
        let world = World::up(args);
        world.cli(&["submit", "-n1", "-t", "1h", "--simulate", "10s", "--copies", "100"]).ok();
        for done in [20, 40] {
            world.until("some are done", |w| w.jobs("inactive").len() >= done);
            world.kill_scheduler();
        }
        let world = World::up_in(world.kill_instance(), args);
        world.until("all are done", |w| w.jobs("inactive").len() == 100);
        world.assert_clean();
        assert_eq!(world.stats()["resources"]["free_cores"], 4);
    });
}
