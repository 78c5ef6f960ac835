//! Every row of the tables of Fluxion's settings: what a line says, what our table has, and that our table loads.

mod queueing;
mod resource;

use serde_json::{Value, json};

use super::*;
use crate::settings::{Settings, parse_config};

/// A migration, with the settings that its text makes in the same configuration.
struct Done {
    migration: Migration,
    settings: Option<Settings>,
}

impl Done {
    fn of(config: Value, args: &[&str]) -> Done {
        let migration = migrate(&config, args);
        let settings = migration.toml().map(|toml| {
            let mut made = parse_config(&toml).unwrap_or_else(|why| panic!("{why}: {toml}"));
            made["queues"] = config.get("queues").cloned().unwrap_or(json!({}));
            Settings::from_config(&made).unwrap_or_else(|why| panic!("{why:#}: {toml}"))
        });
        Done { migration, settings }
    }

    /// The level and the text of the line of a key; each key has one line.
    fn line(&self, key: &str) -> (Level, &str) {
        let mut lines = self.migration.lines.iter().filter(|line| line.key == key);
        let line = lines.next().unwrap_or_else(|| panic!("no {key} in {:#?}", self.migration.lines));
        assert!(lines.next().is_none(), "{key} twice: {:#?}", self.migration.lines);
        (line.level, &line.becomes)
    }

    fn set(&self, key: &str) -> Value {
        self.settings.as_ref().unwrap_or_else(|| panic!("{:#?}", self.migration.lines)).value(key)
    }

    fn toml(&self) -> String {
        self.migration.toml().expect("no error")
    }
}

fn resource(table: Value) -> Done {
    Done::of(json!({ RESOURCE: table }), &[])
}

fn qmanager(table: Value) -> Done {
    Done::of(json!({ QMANAGER: table, "queues": {"debug": {}, "batch": {}} }), &[])
}

fn qkey(key: &str) -> String {
    format!("{QMANAGER}.{key}")
}

#[test]
fn site_91_what_is_no_table_is_an_error() {
    for name in [RESOURCE, FEASIBILITY, QMANAGER, "queues"] {
        let done = Done::of(json!({ name: 5 }), &[]);
        assert_eq!(done.line(name).0, Level::Error);
    }
    assert!(Done::of(json!([1]), &[]).settings.is_none());
}

#[test]
fn site_91_nothing_to_translate_and_a_table_of_ours_are_told() {
    let none = Done::of(json!({"resource": {}}), &[]);
    assert!(none.line(RESOURCE).0 == Level::Warn && none.settings.is_some());
    let ours = Done::of(json!({"sched-fluxgate": {"policy": "xf"}, RESOURCE: {}}), &[]);
    assert_eq!(ours.line("sched-fluxgate").0, Level::Warn);
}

#[test]
fn site_91_a_line_has_level_key_value_and_outcome() {
    let done = resource(json!({"load-file": "/x\ny"}));
    let line = done.migration.lines.iter().find(|line| line.key.ends_with("load-file")).unwrap();
    let text = line.to_string();
    assert!(text.starts_with("warn  sched-fluxion-resource.load-file = \"/x\\ny\": ignored"), "{text}");
    let done = resource(json!({"a\u{1b}[31m\nb": 1}));
    assert!(done.migration.lines.iter().all(|line| !line.to_string().contains(['\n', '\u{1b}'])));
}

#[test]
fn site_91_the_setting_of_a_large_site() {
    let done = Done::of(
        json!({
            "queues": {"debug": {}, "batch": {}},
            RESOURCE: {"match-policy": "lonodex", "match-format": "rv1_shorthand", "prune-filters": "ALL:core"},
            QMANAGER: {"queue-policy-per-queue": "debug:easy batch:easy", "queue-params": {"queue-depth": 1024}},
        }),
        &[],
    );
    assert_eq!(done.migration.count(Level::Warn), 0, "{:#?}", done.migration.lines);
    let easy = json!({"policy": "easy"});
    assert_eq!(done.set("queues"), json!({"debug": easy, "batch": easy}));
    assert_eq!((done.set("placement"), done.set("candidates-per-pass-max")), (json!("lonodex"), json!(1024)));
}

#[test]
fn site_92_feasibility_that_differs_in_policy_or_load_is_a_warning() {
    let both = |key: &str, one: &str, other: &str| {
        let done = Done::of(json!({ RESOURCE: {key: one}, FEASIBILITY: {key: other} }), &[]);
        done.line(&format!("{FEASIBILITY}.{key}")).0
    };
    for (key, one, other) in [
        ("match-policy", "lonodex", "low"),
        ("load-file", "/a", "/b"),
        ("load-format", "rv1exec", "hwloc"),
        ("load-allowlist", "node,core,gpu", "node,core"),
    ] {
        assert_eq!((both(key, one, other), both(key, one, one)), (Level::Warn, Level::Ok), "{key}");
    }
    for (key, one, other) in [("prune-filters", "ALL:core", "ALL:gpu"), ("match-format", "rv1", "simple")] {
        assert_eq!(both(key, one, other), Level::Info, "{key}");
    }
    assert_eq!(both("match-policy", "low", "nosuch"), Level::Error);
    assert_eq!(both("traverser", "simple", "fast"), Level::Error);
}

#[test]
fn site_92_feasibility_alone_is_held_against_the_defaults() {
    let alone = |key: &str, value: &str| {
        let done = Done::of(json!({ FEASIBILITY: {key: value} }), &[]);
        (done.line(&format!("{FEASIBILITY}.{key}")).0, done.set("placement"))
    };
    assert_eq!(alone("match-policy", "first"), (Level::Ok, json!("first")));
    assert_eq!(alone("policy", "lonodex"), (Level::Warn, json!("first")));
    assert_eq!(alone("load-format", "rv1exec").0, Level::Ok);
    assert_eq!(alone("load-allowlist", "node").0, Level::Warn);
}

#[test]
fn site_93_arguments_override_the_tables() {
    let config = json!({
        RESOURCE: {"match-policy": "low"}, FEASIBILITY: {"match-policy": "low"},
        QMANAGER: {"queue-policy": "easy", "queue-params": {"queue-depth": 1024}},
    });
    let args =
        ["queue-policy=hybrid queue-params=queue-depth=80", "policy=high policy-params=reservation-depth=3"];
    let done = Done::of(config, &args);
    assert_eq!((done.set("policy"), done.set("policy-config")), (json!("hybrid"), json!({"depth": "3"})));
    assert_eq!((done.set("placement"), done.set("candidates-per-pass-max")), (json!("high"), json!(80)));
    for key in
        [format!("{RESOURCE}.match-policy"), format!("{FEASIBILITY}.match-policy"), qkey("queue-policy")]
    {
        let (level, text) = done.line(&key);
        assert!(level == Level::Info && text.contains("overridden by --args"), "{key}: {text}");
    }
    assert_eq!(done.line("--args queue-policy").0, Level::Ok);
    assert_eq!(done.line("--args queue-params.queue-depth").0, Level::Info);
    assert_eq!(done.line("--args match-policy").0, Level::Ok);
}

#[test]
fn site_93_arguments_alone_and_with_blanks_in_quotes() {
    let done = Done::of(
        json!({"queues": {"a": {}, "b": {}}}),
        &["queue-policy-per-queue=\"a:easy b:fcfs\" match-policy='policy=low node_exclusive=true'"],
    );
    assert_eq!(done.set("queues"), json!({"a": {"policy": "easy"}}));
    assert_eq!(done.set("placement"), "lonodex");
    assert_eq!(done.migration.count(Level::Warn), 0, "{:#?}", done.migration.lines);
}

#[test]
fn site_93_bad_arguments_are_errors() {
    for (args, key, part) in [
        ("frobnicate", "--args", "KEY=VALUE"),
        ("=1", "--args", "KEY=VALUE"),
        ("a='b", "--args", "quote"),
        ("frob=1", "--args frob", "known are match-policy"),
        ("match-policy=policy=low node_centric=true", "--args node_centric", "in quotes"),
        ("queue-policy=easy queue-policy=fcfs", "--args queue-policy", "once"),
        ("policy=low match-policy=high", "--args match-policy", "once"),
        ("queue-params=queue-depth=0", "--args queue-params.queue-depth", "from 1 to"),
        ("traverser=fast", "--args traverser", "flexible"),
    ] {
        let done = Done::of(json!({}), &[args]);
        let said = |line: &Line| line.level == Level::Error && line.key == key && line.becomes.contains(part);
        assert!(done.migration.lines.iter().any(said), "{args}: {:#?}", done.migration.lines);
        assert!(done.settings.is_none());
    }
    // The same for both modules, as start-up files have it.
    assert!(Done::of(json!({}), &["load-allowlist=node", "load-allowlist=node"]).settings.is_some());
    let long = format!("load-file={}", "x".repeat(ARGS_BYTES_MAX));
    assert!(Done::of(json!({}), &[&long]).settings.is_none());
    assert_eq!(Done::of(json!({}), &["queues=a"]).line("--args queues").0, Level::Warn);
}

#[test]
fn site_94_95_tables_and_arguments_of_the_graph_scheduler_are_settings() {
    let config = json!({
        QMANAGER: {"queue-policy": "hybrid", "policy-params": {"reservation-depth": 3}},
        RESOURCE: {"match-policy": "lonodex"},
        TABLE: {"log-level": "err"},
    });
    let (with, lines) = settings(&config, &["match-format=rv1"]).unwrap();
    assert_eq!((with.policy.as_str(), with.value("log-level")), ("hybrid", json!("err")));
    assert_eq!((with.value("placement"), with.value("record-format")), (json!("lonodex"), json!("rv1")));
    assert!(
        lines.iter().any(|line| line.level == Level::Warn && line.key.contains("match-format")),
        "{lines:?}"
    );
    // Our own table wins; settings for another policy are dropped.
    let mut own = config.clone();
    own[TABLE] = json!({"policy": "sjf"});
    let (with, _) = settings(&own, &[] as &[&str]).unwrap();
    assert_eq!((with.policy.as_str(), with.policy_config.len()), ("sjf", 0));
    // Settings with which Fluxion refuses to load.
    for args in [["queue-params=queue-depth=-1"], ["queue-params=queue-depth=foo"], ["traverser=odd"]] {
        assert!(settings(&Value::Null, &args).is_err(), "{args:?}");
    }
    assert!(settings(&json!({ RESOURCE: {"odd": 1} }), &[] as &[&str]).is_err());
    assert_eq!(settings(&Value::Null, &["queue-policy=fifo"]).unwrap().0.policy, "fcfs");
}
