//! Estimated starts under a policy without reservations, and the selection type of a start (RFC 27).

use fluxgate_engine::{Action, Event};
use fluxgate_formats::JobId;
use serde_json::{Value, json};

use crate::common::*;

/// Every `sched` annotation of this name, by job.
fn told(out: &[Action], name: &str) -> Vec<(u64, Value)> {
    let find = |action: &Action| match action {
        Action::Annotate { id, annotations } | Action::Start { id, annotations, .. } => {
            Some((id.0, annotations["sched"].get(name)?.clone()))
        }
        _ => None,
    };
    out.iter().filter_map(find).collect()
}

#[test]
fn r27_ann_3_the_first_in_line_is_told_its_earliest_start() {
    let mut engine = engine(1, 4);
    let out = submit(&mut engine, 0.0, vec![(1, cores(3, 50.0)), (2, cores(4, 9.0)), (3, cores(4, 9.0))]);
    assert_eq!(told(&out, "t_estimate"), [(2, json!(50.0))]);
    assert_eq!(engine.explain(JobId(2), 0.0).unwrap().t_estimate, Some(50.0));
    // Nothing changed, so no annotation is repeated.
    let out = submit(&mut engine, 1.0, vec![(4, cores(4, 9.0))]);
    assert_eq!(told(&out, "t_estimate"), []);
    // The expected end moves, and the estimate with it.
    engine.step(Event::Expiration { id: JobId(1), expiration: 70.0, token: 1 }, 2.0);
    assert_eq!(told(&engine.pass(2.0), "t_estimate"), [(2, json!(70.0))]);
    // Another job is first now: it gets the estimate, which is removed from the former first job.
    engine.step(Event::Prioritize { jobs: vec![(JobId(3), 30)] }, 3.0);
    assert_eq!(told(&engine.pass(3.0), "t_estimate"), [(2, Value::Null), (3, json!(70.0))]);
    // The annotation is removed at the start.
    engine.step(free(1), 60.0);
    let out = engine.pass(60.0);
    assert_eq!(started(&out), [3]);
    assert_eq!(told(&out, "t_estimate"), [(3, Value::Null), (2, json!(69.0))]);
}

#[test]
fn site_54_r27_ann_3_how_a_start_came_about() {
    let mut engine = engine(1, 10);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    let jobs = vec![(1, cores(6, 100.0)), (2, cores(8, 50.0)), (3, cores(2, 10.0))];
    let out = submit(&mut engine, 0.0, jobs);
    let by_job = [(1, json!("immediate")), (3, json!("backfill")), (2, json!("reserved"))];
    assert_eq!(told(&out, "selection_type"), by_job);
    // A job ahead of it gets the reservation instead.
    let out = submit(&mut engine, 5.0, vec![(4, cores(9, 50.0))]);
    assert_eq!(told(&out, "selection_type"), []);
    engine.step(Event::Prioritize { jobs: vec![(JobId(4), 30)] }, 6.0);
    assert_eq!(told(&engine.pass(6.0), "selection_type"), [(2, Value::Null), (4, json!("reserved"))]);
    engine.step(Event::Prioritize { jobs: vec![(JobId(4), 0)] }, 7.0);
    engine.pass(7.0);
    engine.step(free(1), 20.0);
    engine.step(free(3), 20.0);
    // The first job starts, and the second gets the reservation.
    assert_eq!(told(&engine.pass(20.0), "selection_type"), [(2, json!("reserved")), (4, json!("reserved"))]);
}
