//! The consequences of a breach on a live instance: quarantine, return, permanent removal; failing open and closed;
//! every limit by its name, set by the site and counted.

use fluxgate_tests::fixture::{World, for_both_dialects, policies};
use serde_json::{Value, json};

fn path(policy: &str) -> String {
    policies().join(format!("{policy}.wasm")).to_str().unwrap().to_owned()
}

/// Reloads these settings.
fn set(world: &World, table: &str) {
    let file = world.dir.path().join("settings.toml");
    std::fs::write(&file, format!("[sched-fluxgate]\n{table}\n")).unwrap();
    world.cli(&["config", "reload", "--file", file.to_str().unwrap()]).ok();
}

fn load(world: &World, settings: &[&str]) {
    let path = path("broken");
    let mut args = vec!["policy", "load", &path];
    args.extend(settings.iter().flat_map(|setting| ["--config", setting]));
    world.cli(&args).ok();
}

/// A machine that is full for an hour of simulated time, and waiting jobs.
fn busy(world: &World) {
    world.cli(&["submit", "-n2", "-t", "100h", "--simulate", "360000s"]).ok();
    world.cli(&["submit", "-n1", "-t", "1h", "--simulate", "1s", "--copies", "3"]).ok();
}

fn listed(world: &World, name: &str) -> Value {
    let list = world.policies();
    list["policies"].as_array().unwrap().iter().find(|policy| policy["name"] == name).unwrap().clone()
}

#[test]
fn a_policy_comes_back_by_itself_and_stays_out_in_the_end() {
    let args = ["--nodes", "1", "--cores", "2", "--policy", "easy", "--speed", "100"];
    for_both_dialects(&args, |args| {
        let world = World::up(args);
        set(&world, "policy = \"easy\"\nquarantine = 2\nquarantine-tries = 2");
        busy(&world);
        load(&world, &["mode=trap", "when=first-pass"]);
        world.cli(&["policy", "swap", "broken"]).ok();
        world.until("it is out for good", |world| {
            let broken = listed(world, "broken");
            broken["failures"] == 3
                && broken["quarantined"] == true
                && broken["quarantined_until"] == Value::Null
        });
        world.until("easy decides", |world| world.stats()["policy"] == "easy");
        let told = world.stats()["containment"].clone();
        assert_eq!((&told["wanted"], &told["returns"]), (&json!("broken"), &json!(2)), "{told}");
        assert_eq!(told["breaches"], json!({"trap": 3}), "{told}");
        assert_eq!(told["rollbacks"], 3, "{told}");
        // Only a person swaps it in again, and then the count restarts.
        load(&world, &["mode=none"]);
        world.cli(&["policy", "swap", "broken"]).ok();
        assert_eq!(listed(&world, "broken")["failures"], 0);
        assert_eq!(world.stats()["policy"], "broken");
        assert_eq!(world.cli(&["policy", "rollback", "--json"]).json()["to"], "easy");
        world.assert_clean();
    });
}

#[test]
fn a_site_that_fails_closed_starts_nothing_and_says_why() {
    let args = ["--nodes", "1", "--cores", "2", "--policy", &path("broken")];
    let args =
        [&args[..], &["--config", "mode=trap", "--config", "when=mid-pass", "--speed", "100"]].concat();
    for_both_dialects(&args, |args| {
        let world = World::up(args);
        let broken = path("broken");
        let table = format!(
            "policy = \"{broken}\"\npolicy-config = {{ mode = \"trap\", when = \"mid-pass\" }}\n\
             on-breach = \"hold\"\nquarantine = 0"
        );
        set(&world, &table);
        assert_eq!(world.stats()["policy"], "broken");
        world.cli(&["submit", "-n1", "-t", "1h", "--simulate", "60s", "--copies", "3"]).ok();
        world.until("nothing starts", |world| world.stats()["containment"]["held"] == "broken");
        let id = world.jobs("pending").first().cloned().expect("it waits");
        let told = world.cli(&["job", &id, "--json"]).json().to_string();
        assert!(told.contains("nothing starts: policy broken failed"), "{told}");
        assert!(world.cli(&["status"]).ok().contains("nothing starts"));
        assert!(world.jobs("running").is_empty());
        world.cli(&["policy", "swap", "easy"]).ok();
        world.until_done();
        assert_eq!(world.stats()["containment"]["held"], Value::Null);
        world.assert_clean();
    });
}

#[test]
fn limits_are_set_by_the_site_and_counted_by_name() {
    let args = ["--nodes", "1", "--cores", "2", "--policy", "easy", "--speed", "100"];
    for_both_dialects(&args, |args| {
        let world = World::up(args);
        set(
            &world,
            "policy = \"easy\"\nquarantine = 0\n[sched-fluxgate.limits]\nquestions = 40\nlog-burst = 3",
        );
        let shown = world.cli(&["config", "show", "--json"]).json();
        assert_eq!(shown["settings"]["limits"]["value"], json!({"questions": 40, "log-burst": 3}));
        busy(&world);
        // With so few queries no policy completes its pass over a queue.
        world.cli(&["submit", "-n1", "-t", "1h", "--simulate", "1s", "--copies", "60"]).ok();
        load(&world, &["mode=log-bomb", "when=first-pass"]);
        world.cli(&["policy", "swap", "broken"]).ok();
        world.until("the bound", |world| {
            world.stats()["containment"]["breaches"]["questions"].as_u64().unwrap_or(0) > 0
        });
        // No call may make more than 40 queries: 3 messages are a burst, the others of the 40 exceed it.
        let log = |world: &World| world.stats()["containment"]["log"].clone();
        world.until("the flood", |world| log(world)["dropped"].as_u64() >= Some(30));
        let before = log(&world);
        assert!(before["written"].as_u64() >= Some(3) && before["cut"] == 0, "{before}");
        // Other limits need another compiler; the counters are kept.
        set(&world, "policy = \"easy\"\n[sched-fluxgate.limits]\nquestions = 50");
        assert_eq!(log(&world), before);
        world.assert_clean();
    });
    let world = World::up(&["--nodes", "1", "--cores", "1", "--policy", "easy"]);
    let file = world.dir.path().join("bad.toml");
    for (table, words) in [
        ("limits = { fuel-runs = 1 }", &["fuel-runs: unknown limit", "fuel-run"][..]),
        ("limits = { stack-bytes = 1 }", &["stack-bytes is 1", "65536"]),
        ("limits = { fuel-run = \"x\" }", &["fuel-run: expected a whole number"]),
        ("on-breach = \"open\"", &["on-breach", "fallback or hold"]),
        ("quarantine-tries = 101", &["quarantine-tries", "0 to 100"]),
    ] {
        std::fs::write(&file, format!("[sched-fluxgate]\n{table}\n")).unwrap();
        world.cli(&["config", "reload", "--file", file.to_str().unwrap()]).fails(1, words);
    }
    assert_eq!(world.stats()["policy"], "easy");
}

/// A component of 88 kB that takes the compiler seconds and gigabytes: one function whose many variables are mixed in many
/// branches. Six times the branches take more than 4 GiB.
pub(crate) fn bomb() -> Vec<u8> {
    const VARIABLES: u64 = 1000;
    const BRANCHES: u64 = 5000;
    fn number(mut left: u64, into: &mut Vec<u8>) {
        while left >= 0x80 {
            into.push(left as u8 | 0x80);
            left >>= 7;
        }
        into.push(left as u8);
    }
    fn section(id: u8, body: &[u8], into: &mut Vec<u8>) {
        into.push(id);
        number(body.len() as u64, into);
        into.extend(body);
    }
    let mut code = vec![1];
    number(VARIABLES, &mut code);
    code.push(0x7f);
    let mut state: u64 = 1;
    let mut variable = |before: &[u8], code: &mut Vec<u8>| {
        code.extend(before);
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        number((state >> 33) % VARIABLES, code);
    };
    for _ in 0..BRANCHES {
        // block; local.get; br_if 0; local.get; local.get; i32.add; local.set; end
        variable(&[0x02, 0x40, 0x20], &mut code);
        variable(&[0x0d, 0x00, 0x20], &mut code);
        variable(&[0x20], &mut code);
        variable(&[0x6a, 0x21], &mut code);
        code.push(0x0b);
    }
    code.extend([0x20, 0x00, 0x0b]);
    let mut bodies = vec![1];
    number(code.len() as u64, &mut bodies);
    bodies.extend(code);
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f], &mut module);
    section(3, &[1, 0], &mut module);
    section(10, &bodies, &mut module);
    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    section(1, &module, &mut component);
    component
}

#[test]
fn compiling_is_held_to_its_limits_and_jobs_do_not_wait_for_it() {
    let world = World::up(&["--nodes", "1", "--cores", "2", "--policy", "easy"]);
    let bomb_file = world.dir.path().join("bomb.wasm");
    std::fs::write(&bomb_file, bomb()).unwrap();
    let load = || world.cli(&["policy", "load", bomb_file.to_str().unwrap()]);
    set(&world, "policy = \"easy\"\nlimits = { compile-seconds = 1 }");
    load().fails(
        1,
        &["bomb.wasm", "compiling it takes more than 1 seconds of processor time (limit compile-seconds)"],
    );
    set(&world, "policy = \"easy\"\nlimits = { compile-bytes = 268435456 }");
    load().fails(
        1,
        &["bomb.wasm", "compiling it takes more than 268435456 bytes of memory (limit compile-bytes)"],
    );
    world.cli(&["submit", "-n2", "-t", "1m", "true"]).ok();
    world.until_done();
    world.assert_clean();
}
