//! `config migrate`: the settings of the graph scheduler as settings of Fluxgate, through the binary (SITE-91,
//! SITE-92, SITE-93).

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use fluxgate_guest::bench::configured;
use fluxgate_tests::fixture::{Said, cli, fluxgate, folder, run};
use serde_json::{Value, json};

/// Runs the command on a configuration file in a folder.
fn migrate(text: &str, more: &[&str]) -> Said {
    let dir = folder();
    std::fs::write(dir.path().join("flux.toml"), text).unwrap();
    cli(&[&["config", "migrate", dir.path().to_str().unwrap()], more].concat())
}

/// The values of a file that the binary accepts as settings.
fn checked(path: &Path) -> Value {
    cli(&["config", "check", "--json", "--file", path.to_str().unwrap()]).json()
}

const SITE: &str = r#"
[queues.debug]
[queues.batch]
[sched-fluxion-resource]
match-policy = "lonodex"
match-format = "rv1_shorthand"
prune-filters = "ALL:core,ALL:gpu"
[sched-fluxion-feasibility]
match-policy = "lonodex"
[sched-fluxion-qmanager]
queue-policy = "easy"
queue-policy-per-queue = "debug:fcfs"
[sched-fluxion-qmanager.queue-params]
queue-depth = 1024
"#;

#[test]
fn site_91_lines_then_a_table_that_loads() {
    let out = migrate(SITE, &["--strict"]).ok();
    let (lines, table) = out.split_once("\n\n").expect("lines, a blank one, the table");
    for line in [
        "ok    sched-fluxion-resource.match-policy = \"lonodex\": placement = \"lonodex\"",
        "info  sched-fluxion-resource.prune-filters = ",
        "ok    sched-fluxion-feasibility.match-policy = \"lonodex\": the same",
        "ok    sched-fluxion-qmanager.queue-policy = \"easy\": policy = \"easy\"",
        "ok    sched-fluxion-qmanager.queue-policy-per-queue.debug = \"fcfs\": queues.debug.policy = \"fcfs\"",
        "info  sched-fluxion-qmanager.queue-params.queue-depth = 1024: candidates-per-pass-max = 1024",
    ] {
        assert!(lines.lines().any(|there| there.starts_with(line)), "{line}\n{out}");
    }
    let dir = folder();
    let path = dir.path().join("ours.toml");
    std::fs::write(&path, table).unwrap();
    let settings = checked(&path);
    assert_eq!(settings["policy"]["value"], "easy");
    assert_eq!(settings["placement"]["value"], "lonodex");
    assert_eq!(settings["candidates-per-pass-max"]["value"], 1024);
    assert_eq!(settings["queues"]["value"], json!({"debug": {"policy": "fcfs"}}));
}

#[test]
fn site_91_a_file_is_written_and_only_if_all_went_well() {
    let dir = folder();
    let path = dir.path().join("ours.toml");
    let to = ["--output", path.to_str().unwrap()];
    migrate("[sched-fluxion-resource]\nfoo = 1\n", &to).fails(2, &["1 of the settings", "nothing was made"]);
    let warned = "[sched-fluxion-resource]\nload-file = \"/x\"\n";
    migrate(warned, &[&to[..], &["--strict"]].concat()).fails(1, &["--strict", "1 warnings"]);
    assert!(!path.exists());
    let out = migrate(warned, &to).ok();
    assert!(out.contains("warn  sched-fluxion-resource.load-file") && out.contains("written to"), "{out}");
    assert_eq!(checked(&path)["policy"]["value"], "fcfs");
    // An existing file stays when a later call fails.
    let before = std::fs::read(&path).unwrap();
    migrate("[sched-fluxion-qmanager]\nqueues = \"a\"\n", &to).fails(2, &["nothing was made"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    migrate(warned, &["--output", "/nosuch/ours.toml"]).fails(2, &["/nosuch/ours.toml"]);
}

#[test]
fn site_91_the_configuration_of_a_running_instance_comes_as_json() {
    let config =
        json!({"queues": {"debug": {}}, "sched-fluxion-qmanager": {"queue-policy-per-queue": "debug:easy"}});
    let mut command = fluxgate(["config", "migrate", "-", "--json"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["errors"], &answer["warnings"]), (&json!(0), &json!(0)));
    let level = |key: &str| {
        let lines = answer["lines"].as_array().unwrap();
        lines.iter().find(|line| line["key"] == key).map(|line| line["level"].clone())
    };
    assert_eq!(level("sched-fluxion-qmanager.queue-policy-per-queue.debug"), Some(json!("ok")));
    assert!(answer["toml"].as_str().unwrap().contains("[sched-fluxgate.queues.debug]"), "{answer}");
    // An empty text is no JSON, but an empty configuration.
    run(fluxgate(["config", "migrate", "-"])).ok();
}

#[test]
fn site_91_what_cannot_be_read_is_named() {
    cli(&["config", "migrate"]).fails(2, &["PATH"]);
    cli(&["config", "migrate", "/nosuch.toml"]).fails(2, &["/nosuch.toml"]);
    migrate("[sched-fluxion-resource\n", &[]).fails(2, &["flux.toml", "line 1"]);
    migrate(&"#".repeat((1 << 20) + 1), &[]).fails(2, &["flux.toml", "more than"]);
}

#[test]
fn site_92_feasibility_of_its_own_is_told() {
    let text = "[sched-fluxion-resource]\nmatch-policy = \"low\"\n[sched-fluxion-feasibility]\nmatch-policy = \"high\"\n";
    migrate(text, &["--strict"]).fails(1, &["1 warnings"]);
    assert!(migrate(text, &[]).ok().contains("warn  sched-fluxion-feasibility.match-policy"));
}

#[test]
fn site_93_arguments_are_read_with_and_without_a_configuration() {
    let args = [
        "--args",
        "queue-policy=hybrid queue-params=queue-depth=80",
        "--args",
        "policy-params=reservation-depth=3",
    ];
    let out = migrate(SITE, &args).ok();
    assert!(
        out.contains("info  sched-fluxion-qmanager.queue-policy = \"easy\": overridden by --args"),
        "{out}"
    );
    assert!(out.contains("policy = \"hybrid\"\n") && out.contains("candidates-per-pass-max = 80\n"), "{out}");
    let alone = cli(&[&["config", "migrate"], &args[..]].concat()).ok();
    assert!(alone.contains("depth = 3\n"), "{alone}");
    cli(&["config", "migrate", "--args", "queue-params=queue-depth=-1"]).fails(2, &["--args: 1 of"]);
}

/// The kinds of configuration in the tests of Fluxion's own queue manager: those that it accepts are accepted here,
/// those that it refuses are refused.
#[test]
fn site_91_what_fluxion_loads_is_translated_and_what_it_refuses_is_an_error() {
    const PARAMS: &str =
        "[sched-fluxion-qmanager.queue-params]\nmax-queue-depth = 1000000\nqueue-depth = 8192\n";
    const QUEUES: &str = "[queues.debug]\n[queues.batch]\n";
    let q = |text: &str| format!("[sched-fluxion-qmanager]\n{text}");
    let policy = |name: &str, most: u32, depth: u32| {
        let params = format!("max-reservation-depth = {most}\nreservation-depth = {depth}\n");
        q(&format!("queue-policy = \"{name}\"\n{PARAMS}[sched-fluxion-qmanager.policy-params]\n{params}"))
    };
    let first = "[sched-fluxion-resource]\nmatch-policy = \"first\"\n";
    let rows: [(&str, String, i32, &str); 19] = [
        ("defaults", policy("fcfs", 100_000, 64), 0, "policy = \"fcfs\""),
        (
            "no keys",
            q("[sched-fluxion-qmanager.queue-params]\n[sched-fluxion-resource]\n"),
            0,
            "policy = \"fcfs\"",
        ),
        (
            "extra keys",
            policy("fcfs", 100_000, 64).replace("queue-depth = 8192", "queue-depth = 8192\nfoo = 1"),
            0,
            "fcfs",
        ),
        ("conservative", policy("conservative", 64, 64), 0, "depth = 64\n"),
        (
            "small depth",
            q("[sched-fluxion-qmanager.queue-params]\nmax-queue-depth = 1000\nqueue-depth = 10\n"),
            0,
            "= 10\n",
        ),
        ("hybrid", policy("hybrid", 128, 64), 0, "depth = 64\n"),
        ("hybrid beyond its cap", policy("hybrid", 64, 128), 0, "depth = 64\n"),
        ("no queue depth", q("[sched-fluxion-qmanager.queue-params]\nmax-queue-depth = 1000\n"), 0, "fcfs"),
        ("invalid policy", policy("invalid", 100_000, 64) + first, 0, "policy = \"fcfs\""),
        ("negative value", policy("easy", 1, 1).replace("= 1000000", "= -1"), 2, "error"),
        ("no params", q("queue-policy = \"fcfs\"\n"), 0, "policy = \"fcfs\""),
        ("no policy params", q(&format!("queue-policy = \"fcfs\"\n{PARAMS}")), 0, "= 8192\n"),
        // Invalid TOML.
        ("bad value", policy("easy", 1, 1).replace("= 1000000", "= foo"), 2, ""),
        ("no queue params", q("[sched-fluxion-qmanager.policy-params]\nreservation-depth = 64\n"), 0, "fcfs"),
        ("no table of its own", PARAMS.to_owned(), 0, "= 8192\n"),
        ("queues", format!("{QUEUES}{}", policy("fcfs", 100_000, 64)), 0, "policy = \"fcfs\""),
        (
            "queues of different policies",
            QUEUES.to_owned()
                + &q(
                    "queue-policy-per-queue = \"debug:fcfs batch:hybrid\"\nqueue-params-per-queue = \"debug:queue-depth=16\"\n\
                      policy-params-per-queue = \"batch:max-reservation-depth=100000,reservation-depth=64\"\n",
                ),
            0,
            "[sched-fluxgate.queues.batch]",
        ),
        (
            "a queue that overrides",
            QUEUES.to_owned()
                + &q(&format!("queue-policy = \"easy\"\nqueue-policy-per-queue = \"debug:fcfs\"\n{PARAMS}")),
            0,
            "[sched-fluxgate.queues.debug]",
        ),
        ("queues inside the table", q("queues = \"debug batch\"\n"), 2, "error"),
    ];
    for (name, text, code, part) in rows {
        let said = migrate(&text, &[]);
        assert_eq!(said.code, code, "{name}: {said:?}");
        assert!(said.out.contains(part), "{name}: {}", said.out);
        assert_eq!(said.out.contains("[sched-fluxgate]\n"), code == 0, "{name}: {}", said.out);
    }
}

/// The policies accept the resulting settings: the greatest depth of `hybrid`, and how `conservative` renews.
#[test]
fn site_91_the_policies_take_their_settings() {
    for (text, depth) in [("queue-depth=1000", Some("1000")), ("queue-depth=1001", None)] {
        let args = format!("queue-policy=conservative queue-params={text}");
        let out = cli(&["config", "migrate", "--args", &args]).ok();
        match depth {
            Some(depth) => {
                assert!(out.contains(&format!("depth = {depth}\n")), "{out}");
                configured::<policy_hybrid::Hybrid>(&[("depth", depth)]).unwrap();
            }
            None => {
                assert!(out.contains("renew = \"queue\"\n"), "{out}");
                configured::<policy_conservative::Conservative>(&[("renew", "queue")]).unwrap();
                configured::<policy_hybrid::Hybrid>(&[("depth", "1001")]).unwrap_err();
            }
        }
    }
}
