//! Settings from tables and arguments: which are accepted, which win, and how each wrong one is told.

use serde_json::json;

use super::*;

fn refused(result: Result<Settings>) -> String {
    format!("{:#}", result.expect_err("refused"))
}

#[test]
fn without_anything_the_defaults_are_those_of_the_engine() {
    let settings = Settings::from_config(&json!({"resource": {"noverify": true}})).unwrap();
    assert_eq!(settings, Settings::default());
    assert_eq!(settings.engine(), EngineConfig::default());
    assert_eq!((settings.policy.as_str(), settings.mode()), ("easy", Mode::Unlimited));
    assert!(settings.hello_partial);
    assert!(KEYS.iter().all(|key| settings.source(key.name) == Source::Default));
}

#[test]
fn a_table_sets_every_key() {
    let mut table = json!({
        "policy": "/opt/mine.wasm", "policy-config": {"depth": 4, "fair": true, "window": "5m"},
        "policies": "/opt/policies", "queue-depth": 8, "placement": "pack", "record-format": "rv1", "annotate": false, "annotate-reason": true, "estimates": "5m",
        "queues": {"debug": {"placement": "lonodex"}, "batch": {}},
        "log-level": "DEBUG", "candidates-per-pass-max": 5, "decisions-per-pass-max": 6,
        "reservations-max": 0, "queues-max": 7, "annotation-bytes-per-job-max": 9,
        "annotation-bytes-per-pass-max": 10, "annotation-keys-per-job-max": 11, "annotations-per-pass-max": 12,
        "limits": {"fuel-run": 13}, "on-breach": "hold", "quarantine": "1m", "quarantine-max": "2h",
        "quarantine-tries": 4, "probation-pass-time-max": "100ms", "probation-fuel-max": 14,
        "probation-wait-max": "1h", "probation-starts-per-hour-min": 15, "promote-passes-min": 16,
        "promote-differences-max": 17, "promote-wait-max": 18, "watch-period": "1m", "audit-period": 0,
        "require-manifest": true, "require-signature": false, "trusted-keys": "/etc/keys",
        "audit-trail": "/var/trail", "policy-state": "/var/learned",
        "journal": "/var/journal", "journal-size": "128M",
    });
    table["reservations"] = json!({"create": "admin", "margin": "10m", "lost": "hold", "banks": true, "start-queues": true, "wait-for-nodes": "20m"});
    table["resources"] = json!({"by-unit": ["ssd"], "nodes-below": {"dw": "rabbit"}});
    let settings = Settings::from_config(&json!({ "sched-fluxgate": table })).unwrap();
    for key in KEYS {
        assert_eq!(settings.source(key.name), Source::Table, "{}", key.name);
    }
    assert_eq!(settings.value("policy-config"), json!({"depth": "4", "fair": "true", "window": "5m"}));
    assert_eq!(settings.mode(), Mode::Limited(8));
    assert_eq!(settings.log_level, LogLevel::Debug);
    assert_eq!((settings.watch_period, settings.audit_period, settings.estimates), (60.0, 0.0, 300.0));
    let engine = settings.engine();
    assert_eq!((engine.candidates_per_pass_max, engine.decisions_per_pass_max), (5, 6));
    assert_eq!((engine.reservations_max, engine.queues_max), (0, 7));
    assert_eq!((engine.annotation_bytes_per_job_max, engine.annotation_bytes_per_pass_max), (9, 10));
    assert_eq!((engine.annotation_keys_per_job_max, engine.annotations_per_pass_max), (11, 12));
    assert_eq!(engine.on_breach, fluxgate_engine::OnBreach::Suspend);
    let guard = &settings.guard;
    assert_eq!((guard.quarantine, guard.quarantine_max, guard.quarantine_tries), (60.0, 7200.0, 4));
    assert_eq!(guard.limits.fuel_run, 13);
    assert_eq!((guard.probation_pass_time_max, guard.probation_fuel_max), (0.1, 14));
    assert_eq!((guard.probation_wait_max, guard.probation_starts_per_hour_min), (3600.0, 15));
    let gate = (guard.promote_passes_min, guard.promote_differences_max, guard.promote_wait_max);
    assert_eq!(gate, (16, 17, 18));
    assert_eq!((engine.placement, engine.annotate, engine.annotate_reason), (Placement::Pack, false, true));
    assert_eq!(engine.queue_placements, BTreeMap::from([("debug".to_owned(), Placement::LoNodeX)]));
    assert_eq!(
        settings.reservations,
        Reservations {
            create: Makers::Admin,
            margin: 600.0,
            lost: Lost::Hold,
            banks: true,
            wait_for_nodes: 1200.0,
            start_queues: true,
        }
    );
    // The values that are shown can be given back.
    let again: Map<String, Value> =
        KEYS.iter().map(|key| (key.name.to_owned(), settings.value(key.name))).collect();
    assert_eq!(Settings::from_table(&Value::Object(again)).unwrap(), settings);
}

#[test]
fn arguments_are_those_of_fluxs_own_schedulers() {
    for (arg, mode) in [
        ("queue-depth=8", Mode::Limited(8)),
        ("queue-depth=unlimited", Mode::Unlimited),
        ("mode=limited=1", Mode::Limited(1)),
        ("mode=unlimited", Mode::Unlimited),
    ] {
        let table = json!({"queue-depth": 3});
        let settings = Settings::from_table(&table).unwrap().with_args(&[arg]).unwrap();
        assert_eq!(settings.mode(), mode, "{arg}");
        assert_eq!(settings.source("queue-depth"), Source::Argument);
    }
    let none: [&str; 0] = [];
    assert!(Settings::default().with_args(&none).unwrap().hello_partial);
    assert!(!Settings::default().with_args(&["test-hello-nopartial"]).unwrap().hello_partial);
}

#[test]
fn arguments_win_over_the_table_and_later_ones_over_earlier_ones() {
    let table = json!({"policy": "sjf", "placement": "low", "policy-config": {"a": "1", "b": "2"}});
    let settings = Settings::from_table(&table).unwrap();
    let settings = settings.with_args(&["placement=high", "placement=spread", "policy.b=3"]).unwrap();
    assert_eq!(settings.placement, Placement::Spread);
    assert_eq!(settings.value("policy-config"), json!({"a": "1", "b": "3"}));
    assert_eq!(settings.source("policy"), Source::Table);
    assert_eq!(settings.source("policy-config"), Source::Argument);
}

#[test]
fn queues_have_placements_of_their_own() {
    let table = json!({"queues": {"debug": {"placement": "low"}, "batch": {"placement": "pack"}}});
    let settings = Settings::from_table(&table).unwrap();
    let settings = settings.with_args(&["queues.debug.placement=locality"]).unwrap();
    let shown = json!({"batch": {"placement": "pack"}, "debug": {"placement": "locality"}});
    assert_eq!((settings.value("queues"), settings.source("queues")), (shown, Source::Argument));
    let error = refused(Settings::default().with_args(&["queues.debug.placement=best"]));
    assert!(error.contains("debug.placement") && error.contains(Placement::NAMES), "{error}");
    let error = refused(Settings::default().with_args(&["queues=low"]));
    assert!(error.contains("queues.QUEUE.placement=NAME"), "{error}");
}

#[test]
fn rules_about_resources() {
    let table = json!({"resources": {"by-unit": ["ssd", "ansys"], "nodes-below": {"dw": "rabbit"}}});
    let settings = Settings::from_table(&table).unwrap();
    assert_eq!(
        settings.value("resources"),
        json!({"by-unit": ["ansys", "ssd"], "nodes-below": {"dw": "rabbit"}})
    );
    assert_eq!(settings.engine().site_rules, settings.site_rules);
    let args = ["resources.by-unit=ssd", "resources.nodes-below.x=y"];
    let settings = settings.with_args(&args).unwrap();
    let shown = json!({"by-unit": ["ssd"], "nodes-below": {"dw": "rabbit", "x": "y"}});
    assert_eq!((settings.value("resources"), settings.source("resources")), (shown, Source::Argument));
    let many: Vec<String> = (0..65).map(|n| format!("t{n}")).collect();
    for (table, words) in [
        (json!({"resources": ["ssd"]}), &["resources", "by-unit = [TYPE, ...]", "an array"][..]),
        (json!({"resources": {"by-unit": "ssd"}}), &["resources.by-unit", "[\"ssd\"]", "found \"ssd\""]),
        (json!({"resources": {"by-unit": [7]}}), &["resources.by-unit", "found 7"]),
        (json!({"resources": {"by-unit": many}}), &["resources.by-unit", "more than 64 entries"]),
        (
            json!({"resources": {"nodes-below": {"dw": true}}}),
            &["resources.nodes-below", "ATTRIBUTE", "found true"],
        ),
        (json!({"resources": {"by-units": []}}), &["resources.by-units", "by-unit, nodes-below"]),
    ] {
        let error = refused(Settings::from_table(&table));
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    for arg in
        ["resources=ssd", "resources.by-unit=", "resources.by-unit=ssd,", "resources.nodes-below.=rabbit"]
    {
        let error = refused(Settings::default().with_args(&[arg]));
        assert!(error.contains("resources.by-unit") || error.contains("resources.nodes-below"), "{error}");
    }
}

#[test]
fn queues_have_ceilings_and_floors() {
    let table =
        json!({"queues": {"debug": {"ceiling": 64, "floor": "2 nodes"}, "batch": {"ceiling": "75%"}}});
    let settings = Settings::from_table(&table).unwrap();
    assert_eq!(settings.value("queues"), table["queues"]);
    let settings = settings.with_args(&["queues.batch.floor=12.5%", "queues.debug.ceiling=8"]).unwrap();
    let bounds = settings.engine().queue_bounds;
    assert_eq!((bounds["debug"].ceiling, bounds["debug"].floor), ("8".parse().ok(), "2 nodes".parse().ok()));
    assert_eq!(bounds["batch"].floor, "12.5%".parse().ok());
    for (table, words) in [
        (json!({"queues": {"q": {"ceiling": -1}}}), &["q.ceiling", "8 nodes", "found -1"][..]),
        (json!({"queues": {"q": {"floor": "120%"}}}), &["q.floor", "25%", "120%"]),
        (json!({"queues": {"q": {"floor": true}}}), &["q.floor", "25%", "found true"]),
        (json!({"queues": {"q": {"floor": 9, "ceiling": 8}}}), &["queue q", "9", "8"]),
        (json!({"queues": {"q": {"floor": "51%"}, "r": {"floor": "50%"}}}), &["101%"]),
    ] {
        let error = refused(Settings::from_table(&table));
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

#[test]
fn queues_have_policies_of_their_own() {
    let table = json!({"queues": {
        "debug": {"placement": "low", "policy": "fcfs", "policy-config": {"depth": "4"}},
        "batch": {"policy": "easy"},
    }});
    let config = json!({"queues": {"debug": {}, "batch": {}, "a.b": {}}, "sched-fluxgate": table});
    let settings = Settings::from_config(&config).unwrap();
    assert_eq!(settings.value("queues"), table["queues"]);
    let settings = settings.with_args(&["queues.debug.policy=sjf", "queues.a.b.policy=hybrid"]).unwrap();
    let settings = settings.with_args(&["queues.a.b.policy.depth=9"]).unwrap();
    let of = |name: &str| settings.queue_policy(name).map(|own| (own.policy.as_str(), own.config.len()));
    // Settings of another policy do not reach this one.
    assert_eq!(
        (of("debug"), of("batch"), of("a.b")),
        (Some(("sjf", 0)), Some(("easy", 0)), Some(("hybrid", 1)))
    );
    let before = Settings::from_config(&config).unwrap();
    assert_eq!(settings.other_queue_policies(&before, false), ["a.b", "debug"]);
    assert_eq!(before.other_queue_policies(&settings, true), ["a.b", "batch", "debug"]);

    // The configuration says which queues there are.
    let unknown = json!({"queues": {"debug": {}}, "sched-fluxgate": table});
    let error = refused(Settings::from_config(&unknown));
    assert!(error.contains("no queue \"batch\"") && error.contains("queues are: debug"), "{error}");
    let error = refused(before.with_args(&["queues.nosuch.policy=easy"]));
    assert!(error.contains("no queue \"nosuch\"") && error.contains("a.b, batch, debug"), "{error}");
    let error = refused(Settings::default().with_args(&["queues.debug.policy.depth=1"]));
    assert!(error.contains("there is no queues.debug.policy"), "{error}");
    let error = refused(Settings::default().with_args(&["queues.debug.nosuch=1"]));
    assert!(error.contains("known are placement, policy"), "{error}");
}

#[test]
fn settings_of_a_policy_do_not_reach_another() {
    let table = json!({"policy-config": {"a": "1"}, "policy": "sjf"});
    // The order of keys in a table says nothing.
    let settings = Settings::from_table(&table).unwrap();
    assert_eq!(settings.value("policy-config"), json!({"a": "1"}));
    // The order of arguments says nothing either.
    let settings = settings.with_args(&["policy.c=3=4", "policy=fcfs"]).unwrap();
    assert_eq!((settings.policy.as_str(), settings.value("policy-config")), ("fcfs", json!({"c": "3=4"})));
}

#[test]
fn what_is_wrong_in_a_table_is_named() {
    for (table, words) in [
        (json!([]), &["[sched-fluxgate]", "a table", "an array"][..]),
        (json!({"polcy": "easy"}), &["[sched-fluxgate] polcy", "unknown key", "policy, policy-config"]),
        (json!({"policy": 1}), &["policy: expected a policy's name", "found 1"]),
        (json!({"policy": ""}), &["policy", "found \"\""]),
        (json!({"policy": "./mine.wasm"}), &["policy", "absolute", "./mine.wasm"]),
        (json!({"policies": "policies"}), &["policies", "absolute"]),
        (json!({"policy-config": []}), &["policy-config: expected a table", "an array"]),
        (json!({"policy-config": {"x": {}}}), &["policy-config: x", "a table"]),
        (json!({"queue-depth": 0}), &["queue-depth", "from 1 to 2147483647", "found 0"]),
        (json!({"queue-depth": 2147483648u64}), &["queue-depth", "found 2147483648"]),
        (json!({"queue-depth": -1}), &["queue-depth", "found -1"]),
        (json!({"queue-depth": 1.5}), &["queue-depth", "found 1.5"]),
        (json!({"queue-depth": "many"}), &["queue-depth", "unlimited", "many"]),
        (json!({"placement": "best"}), &["placement", Placement::NAMES, "best"]),
        (json!({"queues": {"q": {"placement": "best"}}}), &["q.placement", Placement::NAMES, "best"]),
        (json!({"queues": {"q": {"priority": 3}}}), &["q.priority", "known are placement, policy"]),
        (json!({"queues": {"q": "low"}}), &["q", "{ placement = NAME, policy = NAME }", "a string"]),
        (json!({"queues": {"q": {"policy": 3}}}), &["q.policy", "a policy's name", "found 3"]),
        (json!({"queues": {"q": {"policy": "a/b.wasm"}}}), &["q.policy", "absolute"]),
        (json!({"queues": {"q": {"policy-config": {"a": 1}}}}), &["q.policy-config", "no queues.q.policy"]),
        (
            json!({"queues": {"q": {"policy": "p", "policy-config": {"a": []}}}}),
            &["q.policy-config", "a: expected"],
        ),
        (json!({"queues": 3}), &["queues", "found 3"]),
        (json!({"queues": {"": {"placement": "low"}}}), &["name of a queue"]),
        (json!({"annotate": "true"}), &["annotate", "true or false", "\"true\""]),
        (json!({"log-level": "loud"}), &["log-level", "emerg", "loud"]),
        (json!({"candidates-per-pass-max": 0}), &["candidates-per-pass-max", "from 1 to", "found 0"]),
        (json!({"reservations-max": null}), &["reservations-max", "found null"]),
        (json!({"watch-period": "soon"}), &["watch-period", "a duration", "soon"]),
        (json!({"watch-period": -1}), &["watch-period", "found -1"]),
        (json!({"reservations": {"create": "all"}}), &["reservations.create", "owner or admin", "all"]),
        (json!({"reservations": {"margin": -1}}), &["reservations.margin", "a duration", "-1"]),
        (
            json!({"reservations": {"color": 1}}),
            &["reservations.color", "known are create, banks, lost, margin, start-queues, wait-for-nodes"],
        ),
        (json!({"reservations": {"lost": "wait"}}), &["reservations.lost", "go-on or hold", "wait"]),
        (json!({"reservations": 1}), &["reservations", "a table"]),
        (json!({"audit-period": "infinity"}), &["audit-period", "infinity"]),
    ] {
        let said = refused(Settings::from_table(&table));
        for word in words {
            assert!(said.contains(word), "{table}: expected {word:?} in {said:?}");
        }
    }
    assert!(refused(Settings::from_config(&json!(7))).contains("found a number"));
}

#[test]
fn what_is_wrong_in_an_argument_is_named() {
    for (arg, words) in [
        ("polcy=easy", &["argument \"polcy=easy\"", "unknown key", "policy.KEY", "mode"][..]),
        ("easy", &["argument \"easy\"", "KEY=VALUE", "test-hello-nopartial"]),
        ("", &["argument \"\"", "KEY=VALUE"]),
        ("queue-depth=", &["queue-depth=", "from 1 to"]),
        ("queue-depth=+8", &["from 1 to", "\"+8\""]),
        ("queue-depth=8x", &["\"8x\""]),
        ("queue-depth=99999999999999999999", &["from 1 to"]),
        ("mode=limited", &["mode: expected unlimited or limited=N", "limited"]),
        ("mode=limited=0", &["mode=limited=0", "from 1 to"]),
        ("policy.=1", &["policy.KEY=VALUE"]),
        ("policy-config=x", &["policy.KEY=VALUE"]),
        ("test-hello-nopartial=1", &["unknown key"]),
        ("policy=a\nb", &["policy's name"]),
    ] {
        let said = refused(Settings::default().with_args(&[arg]));
        for word in words {
            assert!(said.contains(word), "{arg}: expected {word:?} in {said:?}");
        }
    }
    // The part of a wrong argument that is repeated is bounded, and so is the number of settings.
    let long = "x".repeat(100_000);
    assert!(refused(Settings::default().with_args(&[&long])).len() < 1200);
    let many: Vec<String> = (0..300).map(|n| format!("policy.k{n}=1")).collect();
    assert!(refused(Settings::default().with_args(&many)).contains("at most 256"));
}

#[test]
fn the_text_of_a_file_is_toml_and_its_faults_have_a_line() {
    let good = parse_config("[sched-fluxgate]\npolicy = \"sjf\"\npolicy-config.depth = 3\n").unwrap();
    let settings = Settings::from_config(&good).unwrap();
    assert_eq!((settings.policy.as_str(), settings.value("policy-config")), ("sjf", json!({"depth": "3"})));
    let said = format!("{:#}", parse_config("[sched-fluxgate]\npolicy = \n").unwrap_err());
    assert!(said.contains("line 2"), "{said}");
    let large = "#".repeat((CONFIG_BYTES_MAX + 1) as usize);
    assert!(format!("{:#}", parse_config(&large).unwrap_err()).contains("more than"));
    // A date is a value of TOML, and none of ours.
    let date = parse_config("[sched-fluxgate]\nwatch-period = 2026-01-01\n").unwrap();
    assert!(refused(Settings::from_config(&date)).contains("watch-period"));
}

#[test]
fn every_log_level_that_is_accepted_can_be_set() {
    let expected = ["ERROR", "ERROR", "ERROR", "ERROR", "WARN", "INFO", "INFO", "DEBUG"];
    let names = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
    for (name, expected) in names.into_iter().zip(expected) {
        let settings = Settings::from_table(&json!({ "log-level": name })).unwrap();
        assert_eq!(
            (settings.log_level.name(), settings.log_level.filter().to_string()),
            (name, expected.to_lowercase())
        );
    }
}
