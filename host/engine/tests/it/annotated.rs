//! Reasons of jobs in a form for programs (FEAT-79).

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::{Action, Config, Engine, Event, QueueBounds};
use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::Jobspec;
use serde_json::{Value, json};

use crate::common::*;
use crate::windows::{put, ranks, window};

fn told(config: bool) -> Config {
    Config { annotate_reason: config, ..Config::default() }
}

/// The annotation `sched.reason` that a job gets by these actions, null if it is removed.
fn fields(out: &[Action], job: u64) -> Option<Value> {
    let of = |action: &Action| match action {
        Action::Annotate { id, annotations } | Action::Start { id, annotations, .. } if id.0 == job => {
            annotations["sched"].get("reason").cloned()
        }
        _ => None,
    };
    out.iter().filter_map(of).next_back()
}

fn with_easy(config: Config) -> Engine {
    let mut engine = Engine::new(machine(2, 2), config);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    engine
}

fn jobs() -> Vec<(u64, Arc<Jobspec>)> {
    vec![(1, cores(2, 9.0)), (2, cores(4, 9.0)), (3, cores(2, 20.0))]
}

#[test]
fn feat_79_a_reason_for_programs_is_told_beside_the_words_and_removed_at_the_start() {
    let mut engine = with_easy(told(true));
    let out = submit(&mut engine, 0.0, jobs());
    assert_eq!(started(&out), [1]);
    assert_eq!(fields(&out, 1), None, "it never waited");
    assert_eq!(fields(&out, 2), Some(json!({"kind": "reserved"})));
    assert_eq!(fields(&out, 3), Some(json!({"kind": "delays", "job": 2})));
    assert!(engine.pass(1.0).is_empty(), "nothing is told twice");

    // A maintenance window is in the way of both.
    put(&mut engine, window("dst1201", (5.0, 100.0), ranks("0-1")), 1.0);
    let out = engine.pass(2.0);
    assert_eq!(fields(&out, 3), Some(json!({"kind": "window", "name": "dst1201"})));
    engine.step(Event::RemoveWindow { name: "dst1201".into() }, 3.0);
    engine.step(free(1), 9.0);
    let out = engine.pass(9.0);
    assert_eq!(started(&out), [2]);
    assert_eq!(fields(&out, 2), Some(Value::Null));
    let Some(kind) = engine.reason(JobId(3)).map(|reason| reason.kind()) else { panic!("it waits") };
    assert_eq!(fields(&out, 3).unwrap()["kind"], kind);
}

#[test]
fn feat_79_what_a_reason_names_beside_its_kind() {
    let mut config = told(true);
    let bounds = |ceiling: Option<&str>, floor: Option<&str>| QueueBounds {
        ceiling: ceiling.map(|amount| amount.parse().unwrap()),
        floor: floor.map(|amount| amount.parse().unwrap()),
    };
    config.queue_bounds.insert("low".to_owned(), bounds(Some("1"), None));
    config.queue_bounds.insert("fast".to_owned(), bounds(None, Some("1")));
    let mut engine = Engine::new(machine(1, 4), config);
    install(&mut engine, Script::named("picky").run(picky), 0.0);
    let jobs = vec![
        (1, queued(1, 9.0, "low")),
        (2, queued(1, 9.0, "low")),
        (3, cores(3, 9.0)),
        (4, queued(4, 9.0, "fast")),
        (5, cores(1, 60.0)),
    ];
    let out = submit(&mut engine, 0.0, jobs);
    assert_eq!(started(&out), [1]);
    assert_eq!(fields(&out, 2), Some(json!({"kind": "ceiling", "cores": 1})));
    assert_eq!(fields(&out, 3), Some(json!({"kind": "floor", "queue": "fast", "cores": 1})));
    assert_eq!(fields(&out, 4), Some(json!({"kind": "busy", "cores": 4})));
    assert_eq!(fields(&out, 5), Some(json!({"kind": "said"})));
}

#[test]
fn feat_79_it_is_off_unless_a_site_wants_it_and_changes_no_other_annotation() {
    let (mut with, mut without) = (with_easy(told(true)), with_easy(told(false)));
    let (mut one, two) = (submit(&mut with, 0.0, jobs()), submit(&mut without, 0.0, jobs()));
    assert!((1..=3).all(|job| fields(&two, job).is_none()));
    for action in &mut one {
        if let Action::Annotate { annotations, .. } = action {
            annotations["sched"].as_object_mut().unwrap().shift_remove("reason").unwrap();
        }
    }
    assert_eq!(format!("{one:?}"), format!("{two:?}"));
    assert_eq!(without.config(), &Config::default());
    assert!(!serde_json::to_string(without.config()).unwrap().contains("annotate_reason"));
}

#[test]
fn feat_79_waiting_jobs_get_and_lose_it_when_the_setting_changes() {
    let mut engine = with_easy(told(false));
    submit(&mut engine, 0.0, jobs());
    let out = engine.reconfigure(told(true));
    assert_eq!(fields(&out, 2), Some(json!({"kind": "reserved"})));
    assert_eq!(fields(&out, 3), Some(json!({"kind": "delays", "job": 2})));
    assert!(out.iter().all(|action| matches!(action, Action::Annotate { .. })));
    assert!(engine.pass(1.0).is_empty(), "known already");

    // A checkpoint keeps what was told.
    let checkpoint = engine.checkpoint().unwrap().0;
    let specs: BTreeMap<u64, Arc<Jobspec>> = jobs().into_iter().collect();
    let policy = Box::new(Script::named("easy").run(easy));
    let resumed = Engine::resume(&checkpoint, |id| specs.get(&id.0).cloned(), Some(policy), BTreeMap::new());
    let mut resumed = resumed.unwrap();
    for engine in [&mut engine, &mut resumed] {
        engine.step(free(1), 9.0);
    }
    let out = engine.pass(9.0);
    assert_eq!(fields(&out, 2), Some(Value::Null));
    assert_eq!(format!("{out:?}"), format!("{:?}", resumed.pass(9.0)));

    let out = engine.reconfigure(told(false));
    assert_eq!(out.len(), 1);
    assert_eq!(fields(&out, 3), Some(Value::Null));
    engine.step(free(2), 18.0);
    let out = engine.pass(18.0);
    assert_eq!((started(&out), fields(&out, 3)), (vec![3], None));
}
