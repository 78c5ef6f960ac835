//! Ceilings and floors of queues: starts, reasons of waiting jobs, denials, and changed bounds. The test suite in
//! `tests/` compares the counts with a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::{Action, Config, Engine, Event, QueueBounds};
use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::Simple;

use crate::common::*;

fn config(bounds: &[(&str, Option<&str>, Option<&str>)]) -> Config {
    let read = |text: &Option<&str>| text.map(|text| text.parse().unwrap());
    let queue_bounds: BTreeMap<String, QueueBounds> = bounds
        .iter()
        .map(|(name, ceiling, floor)| {
            ((*name).to_owned(), QueueBounds { ceiling: read(ceiling), floor: read(floor) })
        })
        .collect();
    Config { queue_bounds, ..Config::default() }
}

/// The reason that these actions annotate a job with.
fn told(out: &[Action], id: u64) -> String {
    let mut told = out.iter().filter_map(|action| match action {
        Action::Annotate { id: JobId(of), annotations } if *of == id => {
            annotations["sched"]["reason_pending"].as_str()
        }
        _ => None,
    });
    told.next_back().unwrap_or_default().to_owned()
}

/// The first waiting job gets a reservation; the others start if they delay no reservation.
fn easy() -> Script {
    Script::named("easy").run(|pass| {
        while let Some(candidate) = pass.next() {
            if pass.start(candidate, None)?.is_err() {
                let _ = pass.reserve(candidate)?;
                break;
            }
        }
        while let Some(candidate) = pass.next_fitting() {
            let _ = pass.start(candidate, None)?;
        }
        Ok(())
    })
}

#[test]
fn a_queue_holds_no_more_than_its_ceiling() {
    let mut engine = Engine::new(machine(4, 4), config(&[("debug", Some("2 nodes"), None)]));
    install(&mut engine, easy(), 0.0);
    let jobs = vec![
        (1, queued(5, 100.0, "debug")),
        (2, queued(4, 10.0, "debug")),
        (3, queued(3, 99.0, "debug")),
        (4, queued(8, 10.0, "batch")),
    ];
    let mut out = submit(&mut engine, 0.0, jobs);
    out.extend(engine.pass(0.0));
    assert_eq!(started(&out), [1, 3, 4]);
    let says = "jobs of its queue may hold 8 cores together, and it would be more";
    assert_eq!(told(&out, 2), says);
    let why = engine.explain(JobId(2), 1.0).unwrap();
    assert!(said(&why).starts_with(says), "{}", said(&why));
    // When job 1 is over, though there is room on the machine before.
    assert_eq!((why.earliest, why.t_estimate), (Some(100.0), Some(100.0)));
    engine.step(free(3), 50.0);
    assert!(started(&engine.pass(50.0)).is_empty(), "five and four are nine");
    engine.step(free(1), 60.0);
    assert_eq!(started(&engine.pass(60.0)), [2]);
}

/// Found by the simulation: such a job waited for ever, at the head of its queue.
#[test]
fn whole_nodes_count_with_all_their_cores_when_it_is_said_what_can_never_be() {
    let mut engine = Engine::new(machine(4, 4), config(&[("debug", Some("7"), None)]));
    let whole = |nodes| {
        let job =
            Simple { nodes: Some(nodes), duration: 10.0, queue: Some("debug".into()), ..Simple::default() };
        Arc::new(Simple { command: vec!["app".into()], ..job }.build())
    };
    let mut out = submit(&mut engine, 0.0, vec![(1, whole(1)), (2, whole(2)), (3, queued(3, 10.0, "debug"))]);
    let denied = |out: &[Action]| {
        let id = |action: &Action| if let Action::Deny { id, .. } = action { Some(id.0) } else { None };
        out.iter().filter_map(id).collect::<Vec<_>>()
    };
    assert_eq!(denied(&out), [2], "eight cores, and one core a node is all that it asks for");
    out.extend(engine.pass(0.0));
    assert_eq!(started(&out), [1, 3]);
    let asked =
        |nodes| feasibility_of(&mut Engine::new(machine(4, 4), engine.config().clone()), whole(nodes));
    assert!(asked(1).is_ok() && asked(2).is_err());
}

fn feasibility_of(engine: &mut Engine, jobspec: Arc<fluxgate_formats::Jobspec>) -> Result<(), String> {
    let out = engine.step(Event::Feasibility { jobspec, token: 1 }, 0.0);
    let [Action::Reply { result, .. }] = &out[..] else { panic!("{out:?}") };
    result.clone().map_err(|error| error.text)
}

#[test]
fn what_is_kept_for_a_queue_is_taken_by_no_other() {
    let mut engine = Engine::new(machine(4, 4), config(&[("urgent", None, Some("25%"))]));
    install(&mut engine, easy(), 0.0);
    let out = submit(&mut engine, 0.0, vec![(1, queued(10, 100.0, "batch")), (2, queued(3, 10.0, "batch"))]);
    assert_eq!(started(&out), [1]);
    let says = "what is free is kept: 4 cores for queue urgent";
    assert_eq!(told(&out, 2), says);
    assert!(said(&engine.explain(JobId(2), 0.0).unwrap()).starts_with(says));
    // Two of the four are used by those that they are for; the other two are kept.
    let out = submit(&mut engine, 1.0, vec![(3, queued(2, 10.0, "urgent")), (4, queued(3, 10.0, "batch"))]);
    assert_eq!(started(&out), [3]);
    engine.step(free(1), 2.0);
    assert_eq!(started(&engine.pass(2.0)), [2, 4]);
}

#[test]
fn what_can_never_be_is_denied() {
    let bounds = [("debug", Some("4"), None), ("urgent", None, Some("8"))];
    let mut engine = Engine::new(machine(4, 4), config(&bounds));
    let jobs = [(1, queued(5, 9.0, "debug")), (2, queued(9, 9.0, "batch")), (3, queued(9, 9.0, "urgent"))];
    let out = submit(&mut engine, 0.0, jobs.into());
    let notes: Vec<&str> = out
        .iter()
        .filter_map(|action| match action {
            Action::Deny { note, .. } => Some(note.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        notes,
        [
            "jobs of queue debug hold at most 4 cores together, and this one needs 5",
            "of 16 cores 8 are kept for other queues, and this job needs 9",
        ]
    );
    assert_eq!(started(&out), [3]);
}

#[test]
fn bounds_change_while_jobs_wait() {
    let mut engine = Engine::new(machine(4, 4), config(&[("debug", Some("8"), None)]));
    let out = submit(&mut engine, 0.0, vec![(1, queued(8, 9.0, "debug")), (2, queued(6, 9.0, "debug"))]);
    assert_eq!(started(&out), [1]);
    // The job is now too wide, and blocks no other job.
    engine.reconfigure(config(&[("debug", Some("4"), None)]));
    let out = submit(&mut engine, 1.0, vec![(3, queued(1, 9.0, "debug"))]);
    assert!(started(&out).is_empty(), "what runs stays, and counts");
    engine.step(free(1), 2.0);
    assert_eq!(started(&engine.pass(2.0)), [3]);
    engine.reconfigure(Config::default());
    assert_eq!(started(&engine.pass(3.0)), [2]);
}

/// For a job that started before this scheduler, hello and its jobspec give the queue.
#[test]
fn what_was_started_before_counts() {
    let bounds = || config(&[("debug", Some("8"), None)]);
    let mut before = Engine::new(machine(4, 4), bounds());
    submit(&mut before, 0.0, vec![(1, queued(6, 9.0, "debug"))]);
    let mut engine = Engine::new(machine(4, 4), bounds());
    let hello = Event::Hello {
        id: JobId(1),
        priority: 16,
        userid: 1,
        t_submit: 0.0,
        r: Box::new(before.resources().allocation_r(JobId(1)).unwrap()),
        free: Default::default(),
        queue: Some("debug".to_owned()),
    };
    engine.step(hello, 1.0);
    let out = submit(&mut engine, 1.0, vec![(2, queued(4, 9.0, "debug")), (3, queued(4, 9.0, "batch"))]);
    assert_eq!(started(&out), [3]);
    engine.step(free(1), 2.0);
    assert_eq!(started(&engine.pass(2.0)), [2]);
}

/// With whole nodes a job gets more than its fewest cores; all of them count.
#[test]
fn whole_nodes_count_as_what_they_are() {
    let mut bounds = config(&[("debug", Some("6"), None)]);
    bounds.placement = fluxgate_graph::Placement::FirstNodeX;
    let mut engine = Engine::new(machine(4, 4), bounds);
    let out = submit(&mut engine, 0.0, vec![(1, queued(1, 9.0, "debug")), (2, queued(1, 9.0, "debug"))]);
    assert_eq!(started(&out), [1], "four cores are held, and another four would be eight");
    assert_eq!(told(&out, 2), "jobs of its queue may hold 6 cores together, and it would be more");
    engine.step(free(1), 1.0);
    assert_eq!(started(&engine.pass(1.0)), [2]);
}

#[test]
fn what_bounds_never_allow_is_not_feasible() {
    let mut engine = Engine::new(
        machine(4, 4),
        config(&[("debug", Some("2 nodes"), None), ("batch", Some("25%"), Some("2")), ("", None, None)]),
    );
    let mut ask = |slots, queue: &str| {
        let jobspec = if queue.is_empty() { cores(slots, 10.0) } else { queued(slots, 10.0, queue) };
        let out = engine.step(Event::Feasibility { jobspec, token: 3 }, 0.0);
        let [Action::Reply { token: 3, result }] = out.as_slice() else { panic!("{out:?}") };
        result.as_ref().map_err(|error| (error.errnum, error.text.clone())).copied()
    };
    assert_eq!(ask(8, "debug"), Ok(()));
    let (errnum, text) = ask(9, "debug").unwrap_err();
    assert_eq!(
        (errnum, text.as_str()),
        (75, "jobs of queue debug hold at most 8 cores together, and this one needs 9")
    );
    assert_eq!(ask(4, "batch"), Ok(()));
    assert!(ask(5, "batch").is_err());
    // Other queues leave two cores to batch.
    assert_eq!(ask(14, ""), Ok(()));
    let (_, text) = ask(15, "").unwrap_err();
    assert_eq!(text, "of 16 cores 2 are kept for other queues, and this job needs 15");
    // With other bounds the request is satisfiable.
    engine.reconfigure(config(&[]));
    let out = engine.step(Event::Feasibility { jobspec: queued(16, 10.0, "debug"), token: 3 }, 1.0);
    assert!(matches!(out.as_slice(), [Action::Reply { result: Ok(()), .. }]), "{out:?}");
}

#[test]
fn forecasts_keep_to_bounds() {
    let mut engine =
        Engine::new(machine(4, 4), config(&[("debug", Some("4"), None), ("batch", None, Some("4"))]));
    install(&mut engine, easy(), 0.0);
    let jobs = vec![
        (1, queued(3, 100.0, "debug")),
        (2, queued(2, 50.0, "debug")),
        (3, queued(2, 30.0, "debug")),
        (4, queued(10, 20.0, "other")),
        (5, queued(3, 40.0, "batch")),
    ];
    submit(&mut engine, 0.0, jobs);
    let base = engine.forecast_base(0.0, fluxgate_engine::FORECAST_JOBS_MAX);
    let told: Vec<(u64, Option<f64>)> =
        base.forecast(0.0).into_iter().map(|told| (told.id.0, told.start)).collect();
    // The ceiling of debug is four; four cores are reserved for batch, so job 3 waits for job 4 as well.
    assert_eq!(told, [(2, Some(100.0)), (4, Some(100.0)), (3, Some(120.0))]);
}
