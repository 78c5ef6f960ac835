//! Policies on a live instance: swapped under load, broken in every way, written from scratch.

use fluxgate_tests::fixture::{SHIPPED, World, cli, folder, for_both_dialects, note, policies};
use serde_json::{Value, json};

/// The components that `cargo xtask policies --lang all` builds beside the policies in Rust.
const OTHER_LANGUAGES: [&str; 12] = [
    "abilities-c",
    "abilities-cpp",
    "abilities-go",
    "abilities-js",
    "abilities-python",
    "abilities-ts",
    "easy-c",
    "easy-cpp",
    "easy-go",
    "easy-js",
    "easy-python",
    "easy-ts",
];

fn path(policy: &str) -> String {
    policies().join(format!("{policy}.wasm")).to_str().unwrap().to_owned()
}

fn load_broken(world: &World, mode: &str, when: &str) -> fluxgate_tests::fixture::Said {
    let (mode, when) = (format!("mode={mode}"), format!("when={when}"));
    world.cli(&["policy", "load", &path("broken"), "--config", &mode, "--config", &when, "--json"])
}

#[test]
fn list_show_load_swap_rollback() {
    for_both_dialects(&["--nodes", "1", "--cores", "2", "--policy", "fcfs"], |args| {
        let world = World::up(args);
        let list = world.cli(&["policy", "list", "--json"]).json();
        let all = list["policies"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap());
        // Policies in other languages are in the same folder, if they were built.
        let names: Vec<&str> = all.filter(|name| !OTHER_LANGUAGES.contains(name)).collect();
        assert_eq!(names, [&["builtin-fcfs"], &SHIPPED[..]].concat());
        assert!(world.cli(&["policy", "show", "easy"]).ok().contains("depth"));

        let said = world.cli(&["policy", "load", &path("easy"), "--config", "depth=3", "--json"]).json();
        assert_eq!((&said["name"], &said["active"]), (&json!("easy"), &json!(false)));
        assert!(said["digest"].as_str().unwrap().starts_with("sha256:"));
        let said = world.cli(&["policy", "swap", "easy", "--json"]).json();
        assert_eq!((&said["from"], &said["to"]), (&json!("fcfs"), &json!("easy")));
        let shown = world.cli(&["policy", "show", "easy", "--json"]).json();
        assert_eq!((&shown["active"], &shown["config"][0]["value"]), (&json!(true), &json!("3")));
        world.cli(&["policy", "swap", "sjf"]).ok();
        assert_eq!(world.cli(&["policy", "rollback", "--json"]).json()["to"], "easy");
        assert_eq!(world.cli(&["policy", "rollback", "--json"]).json()["to"], "fcfs");
        world.cli(&["policy", "rollback"]).fails(1, &["no policy to go back to"]);
    });
}

#[test]
fn a_thousand_swaps_under_load_lose_nothing() {
    for_both_dialects(&["--nodes", "8", "--cores", "8", "--policy", "fcfs", "--speed", "100"], |args| {
        let world = World::up(args);
        world.cli(&["submit", "-n3", "-t", "5m", "--simulate", "60s", "--copies", "1500"]).ok();
        world.cli(&["submit", "-N8", "-x", "-t", "5m", "--simulate", "20s", "--copies", "5"]).ok();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, _requests) = fluxgate_wire::rpc::Client::connect(&world.uri()).await.unwrap();
            let names = ["easy", "sjf", "fcfs"];
            for i in 0..1000 {
                let name = names[i % names.len()];
                let said = client.rpc("sched-fluxgate.policy-swap", json!({ "name": name })).await.unwrap();
                assert_eq!(said["to"], name);
            }
        });
        let stats = world.stats();
        assert_eq!(stats["swap_pause"]["count"], 1001, "a thousand and the first policy: {stats}");
        assert_eq!(stats["engine"]["policy_failures"], 0);
        note(&format!("passes: {}; passes with a flip: {}", stats["pass"], stats["swap_pause"]));
        for state in ["pending", "running"] {
            for batch in world.jobs(state).chunks(500) {
                world
                    .cli(&["cancel"].into_iter().chain(batch.iter().map(String::as_str)).collect::<Vec<_>>());
            }
        }
        world.until_done();
        let audit = world.audit();
        assert_eq!(
            (&audit["submitted"], &audit["denied"], &audit["hellos"]),
            (&json!(1505), &json!(0), &json!(1)),
            "{audit}"
        );
        world.assert_clean();
    });
}

/// The report on `broken` for the operator: the kind of its last failure.
fn told(world: &World) -> Option<String> {
    let shown = world.cli(&["policy", "show", "broken", "--json"]).json();
    shown["failed"].as_array()?.last()?["kind"].as_str().map(str::to_owned)
}

#[test]
fn every_mode_of_broken_at_every_moment_is_contained() {
    for_both_dialects(&["--nodes", "2", "--cores", "4", "--policy", "easy", "--speed", "1000"], |args| {
        let modes = [
            ("trap", &["trap"][..]),
            ("loop", &["fuel"]),
            ("memory", &["memory", "trap"]),
            ("stack", &["bound", "trap"]),
            ("unknown-job", &["bad-decision", "trap"]),
            ("duplicate", &["bad-decision", "trap"]),
            ("annotation-bomb", &["bound", "bad-decision", "trap", "fuel", "memory"]),
            ("nan-key", &["bad-value"]),
            ("trap-in-save", &["trap"]),
        ];
        let world = World::up(args);
        let mut rows = Vec::new();
        for (mode, kinds) in modes {
            for when in ["load", "first-pass", "mid-pass", "swap"] {
                // One job runs and two wait, so that every kind of pass has something to do.
                world.cli(&["submit", "-n5", "-t", "10m", "--simulate", "300s", "--copies", "3"]).ok();
                let loaded = load_broken(&world, mode, when);
                let outcome = if loaded.code != 0 {
                    assert!(!loaded.err.contains("thread 'main'"), "{loaded:?}");
                    format!("refused: {}", loaded.err.trim())
                } else {
                    let swap = world.cli(&["policy", "swap", "broken"]);
                    // A pass in which it fails, then a successor that requests its state.
                    world.cli(&["submit", "-n1", "-t", "10m", "--simulate", "10s", "--copies", "2"]).ok();
                    world.until("the queue is worked off", |w| w.jobs("pending").is_empty());
                    let mut kind = told(&world);
                    if kind.is_none() {
                        assert_eq!(load_broken(&world, "none", "load").code, 0);
                        world.cli(&["policy", "swap", "broken"]).ok();
                        kind = told(&world);
                    }
                    let back = world.cli(&["policy", "swap", "easy"]);
                    assert_eq!(back.code, 0, "{mode} {when}: {back:?}");
                    if let Some(kind) = &kind {
                        assert!(kinds.contains(&kind.as_str()), "{mode} {when}: {kind}\n{}", world.log());
                    }
                    format!("swap {}, told {kind:?}", swap.code)
                };
                world.until_done();
                assert_eq!(
                    world.cli(&["policy", "list", "--json"]).json()["active"],
                    "easy",
                    "{mode} {when}"
                );
                rows.push((mode, when, outcome));
            }
        }
        world.assert_clean();
        let audit = world.audit();
        assert_eq!(audit["submitted"], audit["completed"], "{audit}");
        // Each mode was detected at least once by its typed reason, or refused at loading.
        for (mode, _) in modes {
            let caught =
                rows.iter().any(|(m, _, o)| *m == mode && (o.contains("told Some") || o.contains("refused")));
            assert!(caught, "{mode}: {rows:#?}");
        }
    });
}

#[test]
fn a_new_policy_builds_and_replays() {
    let dir = folder();
    let folder = dir.path().join("mine");
    cli(&["policy", "new", "mine", "--path", folder.to_str().unwrap()]).ok();
    for file in ["Cargo.toml", "src/lib.rs", "sdk/Cargo.toml", "sdk/wit/policy.wit", ".cargo/config.toml"] {
        assert!(folder.join(file).exists(), "{file}");
    }
    cli(&["policy", "new", "mine", "--path", folder.to_str().unwrap()]).fails(1, &["something already"]);
    for lang in ["rust", "c", "cpp", "go", "js", "ts", "python"] {
        let folder = dir.path().join(lang);
        cli(&["policy", "new", "mine", "--lang", lang, "--path", folder.to_str().unwrap()]).ok();
        let said = std::fs::read_to_string(folder.join("fluxgate-policy.toml")).unwrap();
        assert!(
            said.contains("name = \"mine\"") && said.contains(&format!("language = \"{lang}\"")),
            "{said}"
        );
    }
    let cobol = dir.path().join("cobol");
    cli(&["policy", "new", "mine", "--lang", "cobol", "--path", cobol.to_str().unwrap()])
        .fails(2, &["rust, c, cpp, go, js, ts and python"]);
    assert!(!cobol.exists());
    cli(&["policy", "build", dir.path().to_str().unwrap()]).fails(1, &["not a policy's folder"]);
    std::fs::write(
        folder.join("fluxgate-policy.toml"),
        "name = \"x\"\nlanguage = \"c\"\nbuild = \"exit 3\"\n",
    )
    .unwrap();
    cli(&["policy", "build", folder.to_str().unwrap()]).fails(1, &["exit status: 3", "Debian's clang"]);
    cli(&["policy", "test", folder.to_str().unwrap()]).ok();
}

#[test]
fn the_audit_names_its_numbers() {
    for_both_dialects(&["--nodes", "1", "--cores", "1", "--policy", "fcfs"], |args| {
        let world = World::up(args);
        let audit: Value = world.audit();
        for key in ["submitted", "completed", "denied", "lost", "run_twice", "dropped"] {
            assert!(audit[key].is_u64(), "{key}: {audit}");
        }
    });
}
