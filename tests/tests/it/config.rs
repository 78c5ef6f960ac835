//! Settings of a running scheduler: shown with their sources, reloaded by request and by SIGHUP, refused as a whole
//! if one is invalid (ADM-15).

use std::process::{Child, Stdio};

use fluxgate_tests::fixture::{World, cli, fluxgate, folder};
use fluxgate_tests::patience::{self, Lines};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// `fluxgate sched --config-file` on an instance without a scheduler of its own.
struct Site {
    world: World,
    sched: Child,
}

impl Site {
    fn start(table: &str, args: &[&str]) -> Site {
        let world = World::up(&["--nodes", "1", "--cores", "2", "--no-sched"]);
        let file = world.dir.path().join("flux.toml");
        std::fs::write(&file, table).unwrap();
        let mut command = fluxgate(["sched", "--uri", &world.uri(), "--config-file"]);
        let log = std::fs::File::create(world.dir.path().join("sched-log")).unwrap();
        command.arg(&file).args(args).stdout(Stdio::piped()).stderr(log);
        let mut sched = command.spawn().expect("the binary can be started");
        // Without the line a test goes on, and looks at its log.
        Lines::of(&mut sched).reach("ready");
        Site { world, sched }
    }

    fn write(&self, table: &str) {
        std::fs::write(self.world.dir.path().join("flux.toml"), table).unwrap();
    }

    fn show(&self) -> Value {
        self.world.cli(&["config", "show", "--json"]).json()
    }

    fn value(&self, key: &str) -> Value {
        self.show()["settings"][key]["value"].clone()
    }

    fn policy(&self) -> Value {
        self.world.stats()["policy"].clone()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.world.dir.path().join("sched-log")).unwrap_or_default()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.sched.kill();
        patience::end(&mut self.sched);
    }
}

#[test]
fn settings_come_from_table_and_arguments_and_are_shown_with_their_source() {
    let table =
        "[sched-fluxgate]\npolicy = \"sjf\"\nqueue-depth = 8\nplacement = \"low\"\n[resource]\nx = 1\n";
    let site = Site::start(table, &["placement=high", "reservations-max=7"]);
    let shown = site.show();
    for (key, value, source) in [
        ("policy", json!("sjf"), "table"),
        ("queue-depth", json!(8), "table"),
        ("placement", json!("high"), "argument"),
        ("reservations-max", json!(7), "argument"),
        ("annotate", json!(true), "default"),
    ] {
        let entry = &shown["settings"][key];
        assert_eq!((&entry["value"], &entry["source"]), (&value, &json!(source)), "{key}");
    }
    assert_eq!(site.policy(), "sjf");
    let text = site.world.cli(&["config", "show"]).ok();
    assert!(text.contains("placement") && text.contains("argument"), "{text}");
    let status = site.world.cli(&["status"]).ok();
    assert!(status.contains("sjf") && status.contains("serving") && status.contains("2/2 cores"), "{status}");
}

/// FEAT-79: where a site wants it, a waiting job has its reason for programs too, and loses it when it starts.
#[test]
fn feat_79_a_waiting_job_is_annotated_with_its_reason_for_programs() {
    let table = |on: bool| format!("[sched-fluxgate]\npolicy = \"easy\"\nannotate-reason = {on}\n");
    let site = Site::start(&table(true), &[]);
    site.world.cli(&["submit", "-n2", "-t", "1h", "--simulate", "1h"]).ok();
    site.world.until("it runs", |world| world.list("running").len() == 1);
    site.world.cli(&["submit", "-n2", "-t", "30m", "--simulate", "1h"]).ok();
    site.world.cli(&["submit", "-n2", "-t", "2h", "--simulate", "1h"]).ok();
    let told = |world: &World| -> Vec<Value> {
        let mut jobs = world.list("pending");
        jobs.sort_by_key(|job| job["id"].as_u64());
        jobs.iter().map(|job| job["annotations"]["sched"]["reason"].clone()).collect()
    };
    site.world.until("both are told", |world| {
        told(world) == [json!({"kind": "reserved"}), json!({"kind": "busy", "cores": 2})]
    });
    // The words are those of the answers.
    let ids: Vec<u64> = site.world.list("pending").iter().map(|job| job["id"].as_u64().unwrap()).collect();
    let first = ids.iter().min().unwrap();
    let why = site.world.rpc("sched-fluxgate.explain", json!({ "id": first })).unwrap();
    assert_eq!(why["reason_kind"], "reserved");

    site.write(&table(false));
    site.world.cli(&["config", "reload"]).ok();
    site.world.until("taken back", |world| told(world) == [Value::Null, Value::Null]);
    assert!(site.world.told("reserved start"), "the words stay");
    site.write(&table(true));
    site.world.cli(&["config", "reload"]).ok();
    site.world.until("told again", |world| told(world).iter().all(|reason| !reason.is_null()));

    let running = site.world.list("running")[0]["id"].as_u64().unwrap();
    site.world.cli(&["cancel", &running.to_string()]).ok();
    site.world.until("another runs", |world| {
        world.list("running").first().is_some_and(|job| job["id"].as_u64() == Some(*first))
    });
    assert_eq!(site.world.list("running")[0]["annotations"]["sched"].get("reason"), None);
}

#[test]
fn r27_ann_3_a_waiting_job_is_annotated_with_its_expected_start() {
    let table = |estimates: &str| format!("[sched-fluxgate]\npolicy = \"easy\"\nestimates = {estimates}\n");
    let site = Site::start(&table("\"10ms\""), &[]);
    site.world.cli(&["submit", "-n2", "-t", "1h", "--simulate", "1h"]).ok();
    site.world.until("it runs", |world| world.list("running").len() == 1);
    site.world.cli(&["submit", "-n2", "-t", "30m", "--simulate", "1h", "--copies", "3"]).ok();
    let told = |world: &World| -> Vec<f64> {
        let jobs = world.list("pending");
        let mut told: Vec<f64> =
            jobs.iter().filter_map(|job| job["annotations"]["sched"]["t_estimate"].as_f64()).collect();
        told.sort_by(f64::total_cmp);
        told
    };
    // One job has a reservation, two have forecasts: half an hour apart.
    site.world.until("all are told", |world| told(world).len() == 3);
    let starts = told(&site.world);
    assert!(starts.windows(2).all(|pair| (pair[1] - pair[0] - 1800.0).abs() < 2.0), "{starts:?}");
    assert_eq!(site.world.stats()["expected"]["told"], 2);
    let last = site.world.list("pending").iter().map(|job| job["id"].as_u64().unwrap()).max().unwrap();
    let why = site.world.rpc("sched-fluxgate.explain", json!({ "id": last })).unwrap();
    assert_eq!((&why["t_estimate"], &why["expected"]), (&Value::Null, &json!(starts[2])), "{why}");
    assert!(why["text"].as_str().unwrap().contains("expected to start in "), "{why}");
    // The forecasts are removed when they are turned off; the reservation stays.
    site.write(&table("0"));
    site.world.cli(&["config", "reload"]).ok();
    site.world.until("taken back", |world| told(world).len() == 1);
    site.write(&table("\"10ms\""));
    site.world.cli(&["config", "reload"]).ok();
    // An event is needed for another forecast: the first job is cancelled.
    let first = site.world.list("pending").iter().map(|job| job["id"].as_u64().unwrap()).min().unwrap();
    site.world.cli(&["cancel", &first.to_string()]).ok();
    site.world.until("both are told", |world| world.list("pending").len() == 2 && told(world).len() == 2);
    // The annotation is removed at the start.
    let running = site.world.list("running")[0]["id"].as_u64().unwrap();
    site.world.cli(&["cancel", &running.to_string()]).ok();
    site.world.until("another runs", |world| {
        world.list("running").first().is_some_and(|job| job["id"].as_u64() != Some(running))
    });
    assert_eq!(site.world.list("running")[0]["annotations"]["sched"].get("t_estimate"), None);
}

#[test]
fn adm_15_a_reload_is_checked_whole_and_a_bad_one_changes_nothing() {
    let site = Site::start("[sched-fluxgate]\npolicy = \"fcfs\"\n", &["audit-period=30"]);
    // Jobs run and wait throughout.
    site.world.cli(&["submit", "-n2", "--simulate", "1h", "--copies", "3"]).ok();
    site.world.until("one job runs", |world| world.jobs("running").len() == 1);

    // A changed policy is a hot swap, bounds follow, arguments keep precedence.
    site.write("[sched-fluxgate]\npolicy = \"easy\"\nreservations-max = 3\naudit-period = 5\n");
    let answer = site.world.cli(&["config", "reload", "--json"]).json();
    assert_eq!(answer["changed"]["policy"], json!({"from": "fcfs", "to": "easy"}));
    assert_eq!(answer["changed"]["reservations-max"]["to"], 3);
    assert_eq!(answer["changed"].as_object().unwrap().len(), 2, "{answer}");
    assert_eq!((site.policy(), site.value("audit-period")), (json!("easy"), json!(30.0)));

    // With any error no setting is changed.
    for (table, words) in [
        ("placement = \"high\"\nreservations-max = -1\n", &["reservations-max", "-1"][..]),
        ("placement = \"high\"\npolcy = \"x\"\n", &["polcy", "unknown key"]),
        ("placement = \"high\"\npolicy = \"nosuch\"\n", &["nosuch"]),
        ("placement = \"high\"\npolicy = \"/nosuch.wasm\"\n", &["/nosuch.wasm"]),
        ("placement = \"high\"\npolicy-config.nosuch = 1\n", &["nosuch"]),
        ("placement = \"high\"\npolicies = \"nosuch\"\n", &["policies", "absolute"]),
        ("placement = \n", &["flux.toml", "line 2"]),
    ] {
        site.write(&format!("[sched-fluxgate]\n{table}"));
        site.world.cli(&["config", "reload"]).fails(1, words);
        assert_eq!((site.policy(), site.value("placement")), (json!("easy"), json!("first")), "{table}");
    }
    let refused = site.world.rpc("sched-fluxgate.config-reload", json!({"sched-fluxgate": []})).unwrap_err();
    assert!(refused.contains("[sched-fluxgate]") && refused.contains("a table"), "{refused}");

    // The queue depth is part of the handshake, which is reported.
    site.write("[sched-fluxgate]\npolicy = \"easy\"\nqueue-depth = 4\n");
    let answer = site.world.cli(&["config", "reload", "--json"]).json();
    assert!(answer["notes"][0].as_str().unwrap().contains("queue-depth stays \"unlimited\""), "{answer}");
    assert_eq!(site.value("queue-depth"), "unlimited");
    let shown = site.world.cli(&["config", "show"]).ok();
    assert!(shown.contains("note: queue-depth stays"), "{shown}");

    // A manual swap is not undone by a reload of other settings, but the reload reports it.
    site.world.cli(&["policy", "swap", "sjf"]).ok();
    site.write("[sched-fluxgate]\npolicy = \"easy\"\nplacement = \"pack\"\n");
    let answer = site.world.cli(&["config", "reload", "--json"]).json();
    assert!(answer["notes"][0].as_str().unwrap().contains("sjf decides, not easy"), "{answer}");
    assert_eq!((site.policy(), site.value("placement")), (json!("sjf"), json!("pack")));
    assert_eq!((site.world.jobs("running").len(), site.world.jobs("pending").len()), (1, 2));
    site.world.assert_clean();
}

#[test]
fn sighup_reads_the_file_again() {
    let site = Site::start("[sched-fluxgate]\nplacement = \"low\"\n", &[]);
    let hup = || kill(Pid::from_raw(site.sched.id() as i32), Signal::SIGHUP).unwrap();
    site.write("[sched-fluxgate]\nplacement = \"best\"\n");
    hup();
    site.world.until("it is refused", |_| site.log().contains("the old one stays"));
    assert!(site.log().contains("best"), "{}", site.log());
    site.write("[sched-fluxgate]\nplacement = \"spread\"\n");
    hup();
    site.world.until("it is in force", |_| site.value("placement") == "spread");
}

#[test]
fn a_file_given_by_hand_is_checked_and_without_any_the_instance_is_asked() {
    let world = World::up(&["--nodes", "1", "--cores", "1", "--policy", "fcfs"]);
    let dir = folder();
    let file = dir.path().join("x.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "[sched-fluxgate]\nplacement = \"pack\"\npolicy = \"sjf\"\n").unwrap();
    let answer = world.cli(&["config", "reload", "--json", "--file", path]).json();
    // The policy on the command line has precedence.
    assert_eq!(answer["changed"], json!({"placement": {"from": "first", "to": "pack"}}));
    assert_eq!(world.stats()["policy"], "fcfs");
    std::fs::write(&file, "[sched-fluxgate]\nplacement = 3\n").unwrap();
    world.cli(&["config", "reload", "--file", path]).fails(1, &["x.toml", "placement", "found 3"]);
    world.cli(&["config", "reload", "--file", "/nosuch.toml"]).fails(1, &["/nosuch.toml"]);
    // The instance's own configuration has no such table: back to the defaults.
    let answer = world.cli(&["config", "reload", "--json"]).json();
    assert_eq!(answer["changed"], json!({"placement": {"from": "pack", "to": "first"}}));
}

#[test]
fn a_start_with_bad_settings_says_which() {
    let world = World::up(&["--nodes", "1", "--cores", "1", "--no-sched"]);
    let file = world.dir.path().join("flux.toml");
    let start = |table: &str, args: &[&str]| {
        std::fs::write(&file, table).unwrap();
        let (uri, path) = (world.uri(), file.to_str().unwrap().to_owned());
        cli(&[&["sched", "--uri", &uri, "--config-file", &path], args].concat())
    };
    start("[sched-fluxgate]\npolcy = 1\n", &[]).fails(1, &["flux.toml", "polcy", "known are"]);
    start("[sched-fluxgate]\n[", &[]).fails(1, &["flux.toml", "line 2"]);
    start("", &["queue-depth=0"]).fails(1, &["queue-depth=0", "from 1 to"]);
    start("", &["frobnicate"]).fails(1, &["frobnicate", "KEY=VALUE"]);
    start("", &["--policy", "nosuch"]).fails(1, &["nosuch"]);
    start("", &["--config", "x"]).fails(2, &["--config", "KEY=VALUE"]);
    cli(&["config", "check", "queue-depth=0"]).fails(1, &["queue-depth=0"]);
    cli(&["config", "check", "--file", "/nosuch.toml"]).fails(1, &["/nosuch.toml"]);
}

/// FEAT-97: each fault of a file with its key and place, as a person and as a program reads it; the exit code tells good from wrong.
#[test]
fn feat_97_faults_of_a_file_are_told_with_key_and_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.toml");
    let check = |text: &str, more: &[&str]| {
        std::fs::write(&path, text).unwrap();
        cli(&[&["config", "check", "--file", path.to_str().unwrap()], more].concat())
    };
    let wrong = "[queues.batch]\n[sched-fluxgate]\nplacment = \"pack\"\nqueues.batch.ceiling = \"much\"\n";
    check(wrong, &[]).fails(
        1,
        &[
            "x.toml:3:1: [sched-fluxgate] placment: unknown key; known are policy, ",
            "x.toml:4:14: [sched-fluxgate] queues.batch.ceiling: expected a number of cores",
        ],
    );
    let faults = |text: &str, more: &[&str]| {
        let said = check(text, &[&["--json"], more].concat());
        assert_eq!(said.code, 1, "{said:?}");
        let answer: Value = serde_json::from_str(&said.out).unwrap();
        answer["faults"].as_array().unwrap().clone()
    };
    let found = faults(wrong, &[]);
    assert_eq!(
        (found[0]["key"].as_str(), found[0]["found"].as_str()),
        (Some("sched-fluxgate.placment"), Some("placment"))
    );
    assert_eq!((&found[1]["line"], &found[1]["column"]), (&json!(4), &json!(14)));
    let no_toml = faults("[sched-fluxgate]\npolicy = \n", &[]);
    assert_eq!((&no_toml[0]["key"], &no_toml[0]["line"]), (&Value::Null, &json!(2)));
    let argument = faults("", &["queue-depth=0"]);
    assert_eq!((&argument[0]["found"], &argument[0]["line"]), (&json!("queue-depth=0"), &Value::Null));
    std::fs::remove_file(&path).unwrap();
    let gone = cli(&["config", "check", "--json", "--file", path.to_str().unwrap()]);
    assert!(gone.code == 1 && gone.out.contains("x.toml"), "{gone:?}");
    // Good ones are shown as ever.
    assert!(
        check("[sched-fluxgate]\nplacement = \"pack\"\n", &["--json"]).json()["placement"]["value"] == "pack"
    );
}
