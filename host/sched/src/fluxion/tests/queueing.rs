//! The rows of `[sched-fluxion-qmanager]`, one test each.

use serde_json::json;

use super::*;

#[test]
fn site_91_queue_policy() {
    for (policy, ours, config, level) in [
        ("fcfs", "fcfs", json!({}), Level::Ok),
        ("easy", "easy", json!({}), Level::Ok),
        ("hybrid", "hybrid", json!({"depth": "64"}), Level::Ok),
        // Not our policy of that name: it has no bound on reservations.
        ("conservative", "hybrid", json!({"depth": "32"}), Level::Info),
        ("fifo", "fcfs", json!({}), Level::Warn),
    ] {
        let done = qmanager(json!({"queue-policy": policy}));
        let (found, text) = done.line(&qkey("queue-policy"));
        assert_eq!(found, level, "{policy}: {text}");
        assert_eq!((done.set("policy"), done.set("policy-config")), (json!(ours), config), "{policy}");
        assert_eq!(text.contains("known are fcfs, easy"), level == Level::Warn, "{text}");
    }
    let none = qmanager(json!({}));
    assert_eq!((none.line(&qkey("queue-policy")).0, none.set("policy")), (Level::Info, json!("fcfs")));
}

#[test]
fn site_91_queue_depth_is_the_jobs_looked_at_and_not_the_requests_of_the_job_manager() {
    let done = qmanager(json!({"queue-policy": "easy", "queue-params": {"queue-depth": 1024}}));
    let (level, text) = done.line(&qkey("queue-params.queue-depth"));
    assert_eq!(level, Level::Info, "{text}");
    assert_eq!(done.set("candidates-per-pass-max"), 1024);
    assert_eq!(done.set("queue-depth"), "unlimited");
    // A depth that a few jobs without a start fill.
    let small = qmanager(json!({"queue-policy": "easy", "queue-params": {"queue-depth": 8}}));
    assert_eq!(small.line(&qkey("queue-params.queue-depth")).0, Level::Warn);
    assert_eq!(small.set("candidates-per-pass-max"), 8);
    // The default of Fluxion is told.
    let none = qmanager(json!({}));
    assert_eq!(none.line(&qkey("queue-params.queue-depth")).0, Level::Info);
    assert_eq!(none.set("candidates-per-pass-max"), 1_000_000);
}

#[test]
fn site_91_max_queue_depth_is_a_cap() {
    let done = qmanager(json!({"queue-params": {"queue-depth": 1024, "max-queue-depth": 100}}));
    assert_eq!(done.set("candidates-per-pass-max"), 100);
    assert!(done.line(&qkey("queue-params.max-queue-depth")).1.contains("caps queue-depth"));
    let wide = qmanager(json!({"queue-params": {"queue-depth": 1024, "max-queue-depth": 1_000_000}}));
    assert_eq!(wide.set("candidates-per-pass-max"), 1024);
    assert_eq!(wide.line(&qkey("queue-params.max-queue-depth")).0, Level::Ok);
    let alone = qmanager(json!({"queue-params": {"max-queue-depth": 1000}}));
    assert_eq!(alone.line(&qkey("queue-params.max-queue-depth")).0, Level::Ok);
    assert_eq!(alone.line(&qkey("queue-params.queue-depth")).0, Level::Info);
}

#[test]
fn site_91_reservation_depth_is_of_hybrid() {
    for (policy, params, depth, level) in [
        ("hybrid", json!({"reservation-depth": 8}), "8", Level::Ok),
        ("hybrid", json!({"reservation-depth": 64, "max-reservation-depth": 128}), "64", Level::Ok),
        ("hybrid", json!({"reservation-depth": 128, "max-reservation-depth": 64}), "64", Level::Ok),
        ("hybrid", json!({"reservation-depth": 20, "max-reservation-depth": 10}), "10", Level::Warn),
        ("conservative", json!({"reservation-depth": 8}), "32", Level::Info),
    ] {
        let done = qmanager(json!({"queue-policy": policy, "policy-params": params}));
        let (found, text) = done.line(&qkey("policy-params.reservation-depth"));
        assert_eq!((done.set("policy"), found), (json!("hybrid"), level), "{policy} {params}: {text}");
        assert_eq!(done.set("policy-config"), json!({ "depth": depth }), "{policy} {params}");
    }
    for policy in ["fcfs", "easy"] {
        let done = qmanager(json!({"queue-policy": policy, "policy-params": {"reservation-depth": 8}}));
        assert_eq!(done.line(&qkey("policy-params.reservation-depth")).0, Level::Info);
        assert_eq!(done.set("policy-config"), json!({}));
    }
}

#[test]
fn site_91_max_reservation_depth_is_of_hybrid_and_conservative() {
    let conservative = |depth: u32, most: u32| {
        let params = json!({"queue-depth": depth});
        qmanager(json!({"queue-policy": "conservative", "queue-params": params,
                        "policy-params": {"max-reservation-depth": most}}))
    };
    let done = conservative(8192, 64);
    assert_eq!(done.set("policy-config"), json!({"depth": "64"}));
    assert_eq!(done.line(&qkey("policy-params.max-reservation-depth")).0, Level::Ok);
    // More than our hybrid takes.
    let deep = conservative(8192, 100_000);
    assert_eq!(deep.line(&qkey("queue-policy")).0, Level::Warn);
    assert_eq!(
        (deep.set("policy"), deep.set("policy-config")),
        (json!("conservative"), json!({"renew": "queue"}))
    );
    // The code of Fluxion does not cap its default.
    let hybrid = qmanager(json!({"queue-policy": "hybrid", "policy-params": {"max-reservation-depth": 10}}));
    assert_eq!(hybrid.line(&qkey("policy-params.max-reservation-depth")).0, Level::Warn);
    assert_eq!(hybrid.set("policy-config"), json!({"depth": "10"}));
    let easy = qmanager(json!({"queue-policy": "easy", "policy-params": {"max-reservation-depth": 10}}));
    assert_eq!(easy.line(&qkey("policy-params.max-reservation-depth")).0, Level::Info);
}

#[test]
fn site_91_params_as_a_table_and_as_a_text_are_the_same() {
    let table = qmanager(json!({
        "queue-policy": "hybrid",
        "queue-params": {"queue-depth": 100, "max-queue-depth": 200},
        "policy-params": {"reservation-depth": 7, "max-reservation-depth": 9},
    }));
    let text = qmanager(json!({
        "queue-policy": "hybrid",
        "queue-params": "queue-depth=100,max-queue-depth=200",
        "policy-params": "reservation-depth=7, max-reservation-depth=9",
    }));
    assert_eq!(table.settings, text.settings);
    assert_eq!(table.set("policy-config"), json!({"depth": "7"}));
    // Nothing is a text too.
    assert_eq!(
        qmanager(json!({"queue-params": "", "policy-params": {}})).settings,
        qmanager(json!({})).settings
    );
}

#[test]
fn site_91_a_depth_that_is_no_positive_number_is_an_error() {
    for key in ["queue-params.queue-depth", "queue-params.max-queue-depth"]
        .into_iter()
        .chain(["policy-params.reservation-depth", "policy-params.max-reservation-depth"])
    {
        let (table, name) = key.split_once('.').unwrap();
        for bad in
            [json!(0), json!(-1), json!("foo"), json!("8"), json!(8.5), json!(true), json!(2_147_483_648_u64)]
        {
            let done = qmanager(json!({"queue-policy": "hybrid", table: {name: bad}}));
            let (level, text) = done.line(&qkey(key));
            assert_eq!((level, done.migration.toml()), (Level::Error, None), "{key} = {bad}");
            assert!(text.contains("from 1 to"), "{text}");
        }
        for bad in ["0", "-1", "foo", "", "+8", "8.5", "99999999999999999999"] {
            let done = qmanager(json!({"queue-policy": "hybrid", table: format!("{name}={bad}")}));
            assert_eq!(done.line(&qkey(key)).0, Level::Error, "{key} = {bad:?}");
        }
    }
    for bad in [json!("queue-depth"), json!("=8"), json!("queue-depth=8,"), json!(8), json!([1])] {
        let done = qmanager(json!({ "queue-params": bad }));
        assert_eq!(done.line(&qkey("queue-params")).0, Level::Error, "{bad}");
    }
}

#[test]
fn site_91_an_unknown_key_of_params_is_tolerated() {
    for params in [json!({"queue-depth": 100, "foo": 1234}), json!("queue-depth=100,foo=1234")] {
        let done = qmanager(json!({ "queue-params": params }));
        assert_eq!(done.line(&qkey("queue-params.foo")).0, Level::Info, "{params}");
        assert_eq!(done.set("candidates-per-pass-max"), 100);
    }
}

#[test]
fn site_91_queue_policy_per_queue() {
    let done = qmanager(json!({"queue-policy": "easy", "queue-policy-per-queue": "debug:fcfs batch:easy"}));
    assert_eq!(done.set("policy"), "easy");
    assert_eq!(done.set("queues"), json!({"debug": {"policy": "fcfs"}}));
    let (level, text) = done.line(&qkey("queue-policy-per-queue.debug"));
    assert_eq!(level, Level::Ok);
    assert!(text.contains("queues.debug.policy = \"fcfs\""), "{text}");
    assert_eq!(done.line(&qkey("queue-policy-per-queue.batch")).0, Level::Ok);
    // Unknown: that of all queues.
    let unknown = qmanager(json!({"queue-policy": "easy", "queue-policy-per-queue": "debug:fifo"}));
    assert_eq!(unknown.line(&qkey("queue-policy-per-queue.debug")).0, Level::Warn);
    assert_eq!(unknown.set("queues"), json!({}));
}

#[test]
fn site_91_queue_params_per_queue() {
    // One bound for all queues: the largest, or none where a queue has none.
    let both = json!({"queue-params-per-queue": "debug:queue-depth=100 batch:queue-depth=200"});
    let done = qmanager(both);
    assert_eq!(done.line(&qkey("queue-params-per-queue.debug.queue-depth")).0, Level::Warn);
    assert_eq!(done.set("candidates-per-pass-max"), 200);
    let one = qmanager(json!({"queue-params-per-queue": "debug:queue-depth=16"}));
    let (level, text) = one.line(&qkey("queue-params-per-queue.debug.queue-depth"));
    assert!(level == Level::Warn && text.contains("not carried over"), "{text}");
    assert_eq!(one.set("candidates-per-pass-max"), 1_000_000);
    // It replaces the params of all queues as a whole, and with it what conservative reserves.
    let done = qmanager(json!({
        "queue-policy": "conservative",
        "queue-params": {"queue-depth": 500, "max-queue-depth": 10},
        "queue-params-per-queue": "debug:queue-depth=300",
    }));
    assert_eq!(done.set("policy-config"), json!({"depth": "10"}));
    assert_eq!(done.set("queues"), json!({"debug": {"policy": "hybrid", "policy-config": {"depth": "300"}}}));
    assert!(done.line(&qkey("queue-policy of debug")).1.contains("depth = 300"));
}

#[test]
fn site_91_policy_params_per_queue() {
    let done = qmanager(json!({
        "queue-policy-per-queue": "debug:fcfs batch:hybrid",
        "policy-params-per-queue": "batch:max-reservation-depth=100000,reservation-depth=24",
    }));
    assert_eq!(done.set("queues"), json!({"batch": {"policy": "hybrid", "policy-config": {"depth": "24"}}}));
    assert_eq!(done.line(&qkey("policy-params-per-queue.batch.reservation-depth")).0, Level::Ok);
}

#[test]
fn site_91_an_entry_for_an_unknown_queue_is_an_error() {
    for (key, text) in [
        ("queue-policy-per-queue", "gpu:easy"),
        ("queue-params-per-queue", "gpu:queue-depth=8"),
        ("policy-params-per-queue", "gpu:reservation-depth=8"),
    ] {
        let done = qmanager(json!({ key: text }));
        let (level, why) = done.line(&format!("{}.gpu", qkey(key)));
        assert_eq!(level, Level::Error);
        assert!(why.contains("batch, debug"), "{why}");
        for bad in ["gpu", "debug:a debug:b"] {
            assert!(qmanager(json!({ key: bad })).settings.is_none(), "{key} = {bad}");
        }
    }
    let none = Done::of(json!({ QMANAGER: {"queue-policy-per-queue": "debug:easy"} }), &[]);
    assert!(none.line(&qkey("queue-policy-per-queue.debug")).1.contains("none"));
}

#[test]
fn site_91_virtual_queues_take_no_settings() {
    let queues = json!({"batch": {}, "night": {"parent": "batch"}});
    let with = |table: Value| Done::of(json!({ QMANAGER: table, "queues": queues }), &[]);
    let done = with(json!({"queue-policy-per-queue": "night:easy"}));
    assert_eq!(done.line(&qkey("queue-policy-per-queue.night")).0, Level::Error);
    // Its jobs have the policy of the parent.
    let done = with(json!({"queue-policy-per-queue": "batch:easy"}));
    assert_eq!(done.line("queues.night.parent").0, Level::Warn);
    assert_eq!(done.set("queues"), json!({"batch": {"policy": "easy"}, "night": {"policy": "easy"}}));
    for parent in ["nosuch", "night"] {
        let queues = json!({"batch": {}, "night": {"parent": "batch"}, "late": {"parent": parent}});
        let done = Done::of(json!({ QMANAGER: {}, "queues": queues }), &[]);
        assert_eq!(done.line("queues.late.parent").0, Level::Error);
    }
}

#[test]
fn site_91_queues_inside_the_table_is_an_error() {
    let done = qmanager(json!({"queues": "debug batch"}));
    let (level, text) = done.line(&qkey("queues"));
    assert!(level == Level::Error && text.contains("[queues]"), "{text}");
}
