//! Reservations on a real instance: made by command, kept when the scheduler is killed, and true for who submits.

use fluxgate_tests::fixture::{World, fluxgate};
use fluxgate_tests::patience::{self, Lines};
use fluxgate_tests::site::{Site, TWO};
use serde_json::{Value, json};

fn world() -> World {
    World::up(&["--nodes", "4", "--cores", "2", "--policy", "easy"])
}

#[test]
fn feat_5_26_maintenance_is_kept_when_the_scheduler_is_killed() {
    let world = world();
    let create = [
        "reservation",
        "create",
        "dst",
        "--maintenance",
        "--start",
        "+1h",
        "--duration",
        "2h",
        "--hosts",
        "all",
    ];
    let would = world.cli(&[&create[..], &["--dry-run"]].concat()).ok();
    assert!(would.contains("reservation dst would keep 4 nodes"), "{would}");
    assert_eq!(world.cli(&["reservation", "list", "--json"]).json()["reservations"], json!([]));
    assert!(world.cli(&create).ok().contains("reservation dst keeps 4 nodes"));
    let long = world.cli(&["submit", "-N4", "-t", "90m", "--simulate", "1h"]).ok();
    world.until("it waits", |w| w.told("for maintenance dst"));
    world.kill_scheduler();
    let listed = world.cli(&["reservation", "list", "--json"]).json()["reservations"].clone();
    assert_eq!((&listed[0]["name"], &listed[0]["state"]), (&json!("dst"), &json!("planned")), "{listed}");
    world.until("it still waits for it", |w| w.told("for maintenance dst"));
    world.cli(&["submit", "-N1", "-x", "-t", "30m", "--simulate", "30m"]).ok();
    world.until("what ends before it runs", |w| w.jobs("running").len() == 1);
    let gaps = world.cli(&["gaps", "--json"]).json();
    assert_eq!(gaps["gaps"][0]["limit"]["kind"], "window", "{gaps}");
    assert!(world.cli(&["node", "3"]).ok().contains("reservations"), "of the node");
    let why = world.cli(&["job", long.trim()]).ok();
    assert!(why.contains("for maintenance dst"), "{why}");
    world.cli(&["reservation", "cancel", "dst"]).ok();
    world.until("nothing is reserved any more", |w| !w.told("for maintenance dst"));
    world.assert_clean();
}

#[test]
fn feat_12_14_members_use_their_reservation() {
    let world = world();
    let uid = nix::unistd::getuid().to_string();
    let made = world.cli(&[
        "reservation",
        "create",
        "dat",
        "--start",
        "now",
        "--duration",
        "2h",
        "--nodes",
        "2",
        "--users",
        &uid,
    ]);
    assert!(made.ok().contains("reservation dat keeps 2 nodes"));
    let ranks = world.cli(&["reservation", "show", "dat", "--json"]).json()["ranks"].clone();
    let named =
        ["submit", "-N2", "-x", "-t", "1h", "--simulate", "1h", "--setattr", "fluxgate.reservation=dat"];
    let id = world.cli(&named).ok();
    world.until("it runs", |w| w.jobs("running").len() == 1);
    assert_eq!(world.cli(&["job", id.trim(), "--json"]).json()["ranks"], ranks);
    // A job that does not name the reservation has the other two nodes.
    world.cli(&["submit", "-N3", "-x", "-t", "1h", "--simulate", "1h"]).ok();
    world.until("it waits", |w| w.jobs("pending").len() == 1);
    let unknown = ["submit", "-N1", "-t", "1h", "--simulate", "1h", "--setattr", "fluxgate.reservation=nope"];
    world.cli(&unknown).fails(1, &["there is no reservation nope", "dat"]);
    world
        .cli(&[
            "reservation",
            "create",
            "dat",
            "--start",
            "now",
            "--duration",
            "1h",
            "--hosts",
            "all",
            "--users",
            &uid,
        ])
        .fails(1, &["`alter` changes it"]);
    world
        .cli(&["reservation", "create", "x", "--start", "noon", "--duration", "1h", "--hosts", "all"])
        .fails(1, &["accepted are now, +2h"]);
    world.cli(&["reservation", "end", "dat"]).ok();
    assert_eq!(world.cli(&["reservation", "show", "dat", "--json"]).json()["state"], "over");
    world.assert_clean();
}

/// FEAT-102: a restart is waited for until nothing is about to begin; the exit code is for scripts.
#[test]
fn feat_102_drain_for_waits_until_nothing_begins_soon() {
    use std::process::Stdio;
    let world = World::up(&["--nodes", "2"]);
    assert_eq!(world.cli(&["drain-for", "restart"]).ok().trim(), "clear for restart");
    let create = |name: &str, start: &str| {
        let args = ["--maintenance", "--start", start, "--duration", "1h", "--hosts", "all"];
        world.cli(&[&["reservation", "create", name], &args[..]].concat()).ok();
    };
    create("far", "+2h");
    create("soon", "+4m");
    world
        .cli(&["drain-for", "restart", "--timeout", "0"])
        .fails(1, &["not clear for restart", "reservation soon begins at"]);
    world.cli(&["drain-for", "restart", "--within", "1s", "--timeout", "0"]).ok();
    let all = world.cli(&["drain-for", "upgrade", "--within", "1d", "--timeout", "0", "--json"]);
    let told: Value = serde_json::from_str(&all.out).unwrap();
    assert_eq!(
        (all.code, &told["clear"], told["in_the_way"].as_array().map(Vec::len)),
        (1, &json!(false), Some(2))
    );
    world.cli(&["drain-for", "restart", "--within", "soon"]).fails(2, &["--within soon"]);
    world.cli(&["drain-for"]).fails(2, &["NAME"]);
    // It waits, says for what, and goes on when that is gone.
    let mut command = fluxgate(["drain-for", "restart"]);
    let mut child = command.env("FLUXGATE_DIR", world.dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = Lines::of(&mut child);
    assert!(lines.next().unwrap().starts_with("waits: reservation soon begins at"));
    world.cli(&["reservation", "cancel", "soon"]).ok();
    assert_eq!(lines.next().unwrap(), "clear for restart");
    assert!(patience::end(&mut child).success());
}

/// FEAT-29: a queue that is stopped is open while a reservation of it is on, and its jobs run then.
#[test]
fn feat_29_jobs_of_a_stopped_queue_run_in_its_reservation() {
    let table = format!("{TWO}\n[sched-fluxgate.reservations]\nstart-queues = true\n");
    let site = Site::up(&table, &[]);
    let started = |world: &World| {
        let status = world.rpc("job-manager.queue-status", json!({"name": "debug"})).unwrap();
        (status["start"] == true, status["stop_reason"].clone())
    };
    let stop = json!({"name": "debug", "start": false, "all": false, "reason": "until its time"});
    site.world.rpc("job-manager.queue-start", stop).unwrap();
    site.cli(&["submit", "--queue", "debug", "-n1", "-t", "10m", "--simulate", "1m"]).ok();
    site.cli(&["submit", "--queue", "debug", "-n4", "-t", "100h", "--simulate", "100h"]).ok();
    let create = ["reservation", "create", "dat", "--duration", "50h", "--hosts", "all", "--queues", "debug"];
    site.cli(&[&create[..], &["--start", "+100h"]].concat()).ok();
    assert_eq!(started(&site.world), (false, json!("until its time")), "it is still to come");
    site.cli(&["reservation", "cancel", "dat"]).ok();
    site.cli(&[&create[..], &["--start", "now"]].concat()).ok();
    site.world.until("a job that ends inside of it runs", |w| w.jobs("inactive").len() == 1);
    assert!(started(&site.world).0);
    site.cli(&["reservation", "end", "dat"]).ok();
    site.world.until("the queue is stopped", |w| {
        started(w) == (false, json!("no reservation of this queue is on"))
    });
    assert_eq!(site.world.jobs("pending").len(), 1, "a job that does not fit into it waits");
    assert!(site.log().contains("FG-1417"), "{}", site.log());
    site.world.assert_clean();
}
