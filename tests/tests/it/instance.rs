//! An instance for a user: start, submit, query, change, stop, kill.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use fluxgate_tests::fixture::{World, cli, fluxgate, folder, for_both_dialects, run};
use serde_json::Value;

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

        // A full machine, and a waiting job with its reason.
        let big = world.cli(&["submit", "-N2", "-n8", "--simulate", "1h"]).ok();
        world.until("the big job runs", |w| w.jobs("running").len() == 1);
        let waits = world.cli(&["submit", "-n3", "-t", "5m", "--simulate", "1s"]).ok();
        world.until("a reason is told", |w| w.told("insufficient resources: needs 3 cores"));
        assert!(world.cli(&["jobs"]).ok().contains("insufficient resources: needs 3 cores"));
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
fn an_end_that_a_client_asks_for_is_no_death_of_the_scheduler() {
    for _ in 0..4 {
        let world = World::up(&["--nodes", "1", "--cores", "1", "--policy", "builtin-fcfs"]);
        cli(&["down", "--uri", &world.uri()]).ok();
        // The last thing that an instance does is to remove this file.
        let pid = world.dir.path().join("instance.pid");
        world.until("it has ended", |_| !pid.exists());
        assert!(!world.log().contains("died"), "{}", world.log());
    }
}

/// Every name below a folder, with the contents of the files.
fn all_below(dir: &Path) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = std::fs::symlink_metadata(&path).unwrap();
        found.push((path.clone(), kind.is_file().then(|| std::fs::read(&path).unwrap())));
        if kind.is_dir() {
            found.extend(all_below(&path));
        }
    }
    found.sort();
    found
}

#[test]
fn a_process_that_got_the_number_of_a_killed_instance_is_none() {
    let dir = folder();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(dir.path().join("instance.pid"), format!("{}\n", std::process::id())).unwrap();
    cli(&["down", "--dir", dir.path().to_str().unwrap()]).fails(1, &["no instance runs in"]);
}

fn purge(dir: &Path) -> fluxgate_tests::fixture::Said {
    cli(&["down", "--purge", "--dir", dir.to_str().unwrap()])
}

/// A folder in which an instance has run a job and ended.
fn ended_instance() -> tempfile::TempDir {
    let world = World::up(&["--nodes", "1", "--cores", "1", "--policy", "builtin-fcfs"]);
    let id = world.cli(&["submit", "--", "true"]).ok();
    world.cli(&["job", id.trim(), "--wait"]).ok();
    let dir = world.kill_instance();
    std::fs::remove_file(dir.path().join("test-log")).unwrap();
    dir
}

#[test]
fn a_purge_removes_no_folder_without_an_instance() {
    let dir = folder();
    let refused = |why: &str| {
        let before = all_below(dir.path());
        purge(dir.path()).fails(1, &[dir.path().to_str().unwrap(), why]);
        assert_eq!(all_below(dir.path()), before);
    };
    std::fs::create_dir(dir.path().join("output")).unwrap();
    std::fs::write(dir.path().join("output/thesis.out"), "years of work").unwrap();
    refused("no instance has its records in this folder; nothing was removed");
    for name in ["instance.lock", "instance.pid", "log"] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    refused("no instance");
    std::fs::write(dir.path().join("instance.sqlite"), "").unwrap();
    refused("no instance");
    std::fs::write(dir.path().join("instance.sqlite"), "not a database, but a long enough file".repeat(99))
        .unwrap();
    refused("instance.sqlite: file is not a database");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open).unwrap();
    refused("is open to others");
    // Nor one of another user.
    let owner = nix::unistd::geteuid().is_root().then(|| nix::unistd::Uid::from_raw(1));
    match owner {
        Some(_) => nix::unistd::chown(dir.path(), owner, None).unwrap(),
        None => return purge(Path::new("/proc/1")).fails(1, &["belongs to user 0, not to you"]),
    }
    refused("belongs to user 1, not to you");
}

#[test]
fn a_purge_removes_what_the_instance_made_and_follows_no_link() {
    let dir = ended_instance();
    let link = folder().path().with_extension("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    for end in ["", "/"] {
        let named = format!("{}{end}", link.display());
        purge(Path::new(&named)).fails(1, &["is not a folder"]);
    }
    std::fs::remove_file(&link).unwrap();
    assert!(dir.path().join("instance.sqlite").exists());

    // Foreign files stay, also behind links with names of the instance's files.
    let other = folder();
    std::fs::write(other.path().join("f1.out"), "kept").unwrap();
    let output = dir.path().join("output");
    assert_eq!(std::fs::read_dir(&output).unwrap().count(), 2, "the job's output");
    std::fs::write(output.join("12.out"), "kept").unwrap();
    std::fs::write(output.join("f1.png"), "kept").unwrap();
    std::fs::write(dir.path().join("results"), "kept").unwrap();
    std::fs::rename(&output, other.path().join("output")).unwrap();
    std::os::unix::fs::symlink(other.path().join("output"), &output).unwrap();
    let before = all_below(other.path());
    let said = purge(dir.path()).ok();
    assert!(said.contains("stays: 2 in it not made by the instance: \"output\", \"results\""), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    assert_eq!(all_below(other.path()), before);
    purge(dir.path()).fails(1, &["no instance has its records"]);

    let dir = ended_instance();
    std::fs::write(dir.path().join("output/12.out"), "kept").unwrap();
    assert!(purge(dir.path()).ok().contains("stays: 1 in it"));
    assert_eq!(std::fs::read_dir(dir.path().join("output")).unwrap().count(), 1);
    let dir = ended_instance();
    assert_eq!(purge(dir.path()).ok(), "");
    assert!(!dir.path().exists());
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
    cli(&["sched", "--uri", &world.uri(), "--policy", "fcfs"]).fails(1, &["already"]);
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
            // The feasibility service was asked.
            return said.fails(1, &["nsatisfiable"]);
        }
        let id = said.ok();
        // It never ran.
        let said = world.cli(&["job", id.trim(), "--wait", "--json"]);
        assert_eq!(said.code, 1, "{said:?}");
        let job: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(job["result"], "FAILED", "{job}");
        assert!(job.to_string().contains("unsatisfiable"), "{job}");
        world.assert_clean();
    });
}

#[test]
fn resources_are_given_back_whatever_dies() {
    // More jobs than fit, so that each start needs the answer to the end of an earlier job.
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
