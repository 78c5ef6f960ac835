//! Settings that change under a running engine.

use fluxgate_engine::{Action, Config, Engine};
use fluxgate_formats::JobId;
use fluxgate_graph::Placement;
use serde_json::{Value, json};

use crate::common::*;

fn annotations(actions: &[Action]) -> Vec<(u64, Value)> {
    let annotation = |action: &Action| match action {
        Action::Annotate { id, annotations } => Some((id.0, annotations.clone())),
        _ => None,
    };
    actions.iter().filter_map(annotation).collect()
}

#[test]
fn a_raised_bound_lets_waiting_jobs_start_in_the_next_pass() {
    let config = Config { decisions_per_pass_max: 1, ..Config::default() };
    let mut engine = Engine::new(machine(1, 4), config.clone());
    let out = submit(&mut engine, 0.0, vec![(1, cores(1, 9.0)), (2, cores(1, 9.0)), (3, cores(1, 9.0))]);
    assert_eq!(started(&out), [1]);
    assert!(engine.reconfigure(config.clone()).is_empty());
    engine.reconfigure(Config { decisions_per_pass_max: 10, ..config });
    assert!(engine.needs_pass(1.0));
    assert_eq!(started(&engine.pass(1.0)), [2, 3]);
}

#[test]
fn a_lowered_bound_holds_from_the_next_pass_and_takes_nothing_from_who_runs() {
    let mut engine = engine(1, 4);
    install(
        &mut engine,
        Script::named("reserver").run(|pass| {
            while let Some(c) = pass.next() {
                if pass.start(c, None)?.is_err() {
                    let _ = pass.reserve(c)?;
                }
            }
            Ok(())
        }),
        0.0,
    );
    submit(&mut engine, 0.0, vec![(1, cores(4, 9.0)), (2, cores(4, 9.0)), (3, cores(4, 9.0))]);
    assert_eq!(engine.resources().reservations().count(), 2);
    engine.reconfigure(Config { reservations_max: 1, ..Config::default() });
    engine.pass(1.0);
    assert_eq!(engine.resources().reservations().count(), 1);
    assert_eq!((engine.running(), engine.pending()), (1, 2));
    engine.reconfigure(Config { reservations_max: 0, ..Config::default() });
    engine.pass(2.0);
    assert_eq!(engine.resources().reservations().count(), 0);
}

#[test]
fn another_placement_holds_for_the_next_job() {
    let ranks = |out: &[Action]| match &out[0] {
        Action::Start { r, .. } => r.ranks().to_string(),
        other => panic!("{other:?}"),
    };
    let mut engine = engine(4, 2);
    assert_eq!(ranks(&submit(&mut engine, 0.0, vec![(1, cores(1, 9.0))])), "0");
    engine.reconfigure(Config { placement: Placement::High, ..Config::default() });
    assert_eq!(ranks(&submit(&mut engine, 0.0, vec![(2, cores(1, 9.0))])), "3");
}

#[test]
fn queues_that_exist_outlive_a_lower_bound() {
    let mut engine = engine(1, 1);
    submit(&mut engine, 0.0, vec![(1, queued(1, 9.0, "a")), (2, queued(1, 9.0, "b"))]);
    engine.reconfigure(Config { queues_max: 1, ..Config::default() });
    let out = submit(&mut engine, 1.0, vec![(3, queued(1, 9.0, "b")), (4, queued(1, 9.0, "c"))]);
    assert!(out.iter().any(|a| matches!(a, Action::Deny { id: JobId(4), note } if note.contains('1'))));
    engine.step(free(1), 9.0);
    assert_eq!(started(&engine.pass(9.0)), [2]);
}

#[test]
fn annotations_are_taken_back_and_told_again() {
    let mut engine = engine(1, 1);
    let out = submit(&mut engine, 0.0, vec![(1, cores(1, 9.0)), (2, cores(1, 9.0)), (3, cores(1, 9.0))]);
    assert_eq!(annotations(&out).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 3]);

    let off = Config { annotate: false, ..Config::default() };
    let out = annotations(&engine.reconfigure(off.clone()));
    let nothing = json!({"sched": {"reason_pending": null}});
    let first = json!({"sched": {"reason_pending": null, "t_estimate": null}});
    assert_eq!(out, [(2, first), (3, nothing)]);
    assert!(engine.reconfigure(off).is_empty() && annotations(&engine.pass(1.0)).is_empty());

    // Also jobs that no pass would reach are annotated.
    assert!(engine.reconfigure(Config::default()).is_empty());
    let out = annotations(&engine.pass(2.0));
    assert_eq!(out.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 3], "{out:?}");
    assert!(annotations(&engine.pass(3.0)).is_empty());
}
