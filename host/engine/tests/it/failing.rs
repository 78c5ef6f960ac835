//! Policies that fail: a pass is a transaction, the built-in policy decides in place of a failed one, and failed
//! swaps leave no trace.

use std::sync::{Arc, Mutex};

use fluxgate_engine::{Action, BUILTIN, Event, JobEventKind, Pass, PolicyError, PolicyNotice, SwapError};
use fluxgate_formats::JobId;

use crate::common::*;

fn notices(actions: &[Action]) -> Vec<&PolicyNotice> {
    actions
        .iter()
        .filter_map(|a| match a {
            Action::Notice(n) => Some(n),
            _ => None,
        })
        .collect()
}

fn failure(actions: &[Action]) -> &PolicyError {
    match notices(actions)[..] {
        [PolicyNotice::Failed { error, .. }] => error,
        ref other => panic!("{other:?}"),
    }
}

/// Runs `fails` as the pass of a policy over three jobs on a four-core machine. Job 3 is first in its (reversed)
/// order. All of its staged decisions must be undone, and the built-in policy starts 1 and 2.
fn fails(
    run: impl FnMut(&mut Pass) -> Result<(), PolicyError> + Send + 'static,
) -> (Vec<Action>, PolicyError) {
    let mut engine = engine(1, 4);
    let reversed = |jobs: &fluxgate_engine::JobColumns| Ok(jobs.id.iter().map(|id| -(id.0 as f64)).collect());
    install(&mut engine, Script::named("bad").keys(reversed).run(run), 0.0);
    let out = submit(&mut engine, 1.0, vec![(1, cores(2, 9.0)), (2, cores(2, 9.0)), (3, cores(3, 9.0))]);
    assert_eq!(started(&out), [1, 2], "nothing of the failed pass stays");
    assert_eq!(engine.policy_name(), BUILTIN);
    assert_eq!(engine.resources().totals().free_cores, 0);
    assert_eq!(engine.resources().reservations().count(), 0);
    let error = failure(&out).clone();
    (out, error)
}

#[test]
fn a_trap_in_the_middle_of_a_pass_undoes_the_pass() {
    let (_, error) = fails(|pass| {
        let c = pass.next().unwrap();
        assert_eq!(pass.start(c, None)?, Ok(()));
        let c = pass.next().unwrap();
        pass.reserve(c)?.unwrap();
        Err(trap())
    });
    assert_eq!(error.kind(), "trap");
}

#[test]
fn unknown_and_repeated_candidates_are_breaches_even_if_the_policy_hides_them() {
    let (_, error) = fails(|pass| {
        let _ = pass.start(4_000_000_000, None);
        Ok(())
    });
    assert_eq!(error.kind(), "bad-decision");
    let (_, error) = fails(|pass| {
        // The policy names a job that exists but was not offered.
        let _ = pass.next();
        for guess in 0..3 {
            let _ = pass.describe(guess);
        }
        Ok(())
    });
    assert_eq!(error.kind(), "bad-decision");
    let (_, error) = fails(|pass| {
        let c = pass.next().unwrap();
        pass.start(c, None)?.unwrap();
        let _ = pass.start(c, None);
        Ok(())
    });
    assert_eq!(error.kind(), "bad-decision");
}

#[test]
fn megabytes_of_annotation_hit_a_named_bound() {
    let (_, error) = fails(|pass| {
        let c = pass.next().unwrap();
        let big = format!("\"{}\"", "x".repeat(1 << 20));
        pass.annotate(c, "user.note", &big)
    });
    assert!(matches!(error, PolicyError::Bound { bound: "annotation_bytes_per_job_max", .. }), "{error}");
    let (_, error) = fails(|pass| {
        let c = pass.next().unwrap();
        pass.annotate(c, "resource.note", "1")
    });
    assert_eq!(error.kind(), "bad-value");
    let (_, error) = fails(|pass| {
        let c = pass.next().unwrap();
        pass.annotate(c, "user.note", "{")
    });
    assert_eq!(error.kind(), "bad-value");
}

#[test]
fn new_annotation_keys_in_every_pass_hit_a_named_bound() {
    let mut engine = engine(1, 1);
    let mut serial = 0;
    let annotating = Script::named("chatty").run(move |pass| {
        while let Some(c) = pass.next() {
            serial += 1;
            if pass.start(c, None)?.is_err() {
                pass.annotate(c, &format!("user.k{serial}"), "1")?;
            }
        }
        Ok(())
    });
    install(&mut engine, annotating, 0.0);
    submit(&mut engine, 0.0, vec![(1, cores(1, 0.0)), (2, cores(1, 0.0))]);
    let mut failed = None;
    for now in 1..100 {
        engine.step(Event::Up("0".parse().unwrap()), f64::from(now));
        let out = engine.pass(f64::from(now));
        if !notices(&out).is_empty() {
            failed = Some(failure(&out).clone());
            break;
        }
    }
    assert!(
        matches!(failed, Some(PolicyError::Bound { bound: "annotation_keys_per_job_max", .. })),
        "{failed:?}"
    );
}

#[test]
fn bad_keys_end_a_policy_before_its_pass() {
    for keys in [vec![f64::NAN], vec![], vec![1.0, 2.0]] {
        let mut engine = engine(1, 1);
        install(&mut engine, Script::named("nan").keys(move |_| Ok(keys.clone())), 0.0);
        let out = submit(&mut engine, 1.0, vec![(1, cores(1, 1.0))]);
        assert_eq!(failure(&out).kind(), "bad-value");
        assert_eq!(started(&out), [1]);
    }
}

#[test]
fn equal_negative_and_infinite_keys_are_fine() {
    let mut engine = engine(1, 1);
    let key = |id: &JobId| match id.0 {
        2 => f64::INFINITY,
        3 => f64::NEG_INFINITY,
        _ => -0.0,
    };
    install(&mut engine, Script::named("odd").keys(move |j| Ok(j.id.iter().map(key).collect())), 0.0);
    let mut order = started(&submit(&mut engine, 1.0, (1..5).map(|id| (id, cores(1, 1.0))).collect()));
    for now in 2..5 {
        engine.step(free(*order.last().unwrap()), f64::from(now));
        order.extend(started(&engine.pass(f64::from(now))));
    }
    assert_eq!(order, [3, 1, 4, 2]);
}

#[test]
fn a_swap_hands_over_state_and_keeps_everything() {
    let mut engine = engine(1, 2);
    let mut old = Script::named("old").run(fcfs);
    old.state = Some(Ok(vec![1, 2, 3]));
    install(&mut engine, old, 0.0);
    submit(&mut engine, 1.0, vec![(1, cores(2, 0.0)), (2, cores(2, 0.0)), (3, cores(1, 0.0))]);
    let mut new =
        Script::named("new").run(fcfs).keys(|j| Ok(j.cores.iter().map(|c| f64::from(*c)).collect()));
    new.state = Some(Ok(vec![]));
    let restored = Arc::clone(&new.restored);
    let out = install(&mut engine, new, 2.0);
    let swapped = PolicyNotice::Swapped { from: "old".to_owned(), to: "new".to_owned(), state: true };
    assert_eq!(notices(&out), [&swapped]);
    assert_eq!(restored.lock().unwrap()[0].data, [1, 2, 3]);
    assert_eq!((engine.running(), engine.pending()), (1, 2));
    engine.step(free(1), 3.0);
    assert_eq!(started(&engine.pass(3.0)), [3], "the new order counts");
}

/// A saved state lacks the events between the last call of the active policy and the swap.
#[test]
fn who_inherits_a_state_hears_what_it_does_not_know_yet() {
    let heard = |heir: bool| {
        let mut engine = engine(1, 2);
        let mut old = Script::named("old").run(fcfs);
        let (before, after) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        old.seen = Some(Arc::clone(&before));
        old.state = Some(Ok(vec![]));
        install(&mut engine, old, 0.0);
        submit(&mut engine, 1.0, vec![(1, cores(1, 0.0))]);
        engine.step(free(1), 2.0);
        let mut new = Script::named("new").run(fcfs);
        new.seen = Some(Arc::clone(&after));
        new.state = heir.then(|| Ok(vec![]));
        install(&mut engine, new, 2.0);
        let kinds = |seen: &Mutex<Vec<fluxgate_engine::JobEvent>>| {
            seen.lock().unwrap().iter().map(|event| event.kind).collect::<Vec<_>>()
        };
        (kinds(&before), kinds(&after))
    };
    let (before, after) = heard(true);
    assert_eq!(before, [JobEventKind::Pending]);
    assert_eq!(after, [JobEventKind::Started, JobEventKind::Ended]);
    assert_eq!(heard(false).1, [], "a policy that starts cold gets no earlier events");
}

#[test]
fn jobs_that_come_and_go_while_a_successor_warms_up_are_not_forgotten() {
    let config = fluxgate_engine::Config { warm_up_per_step: 1, ..Default::default() };
    let mut engine = fluxgate_engine::Engine::new(machine(1, 1), config);
    submit(&mut engine, 0.0, (1..8).map(|id| (id, cores(1, 0.0))).collect());
    let lifo = Script::named("lifo").keys(|j| Ok(j.id.iter().map(|id| -(id.0 as f64)).collect()));
    engine.swap(Box::new(lifo)).unwrap();
    engine.pass(1.0);
    let late = Script::named("late");
    assert_eq!(engine.swap(Box::new(late)).unwrap_err(), SwapError::InProgress("lifo".to_owned()));
    engine.step(alloc(20, cores(1, 0.0)), 1.0);
    engine.step(Event::Cancel { id: JobId(7) }, 1.0);
    engine.step(Event::Cancel { id: JobId(2) }, 1.0);
    engine.step(Event::Prioritize { jobs: vec![(JobId(3), 20)] }, 1.0);
    while engine.swap_state().is_some() {
        engine.pass(2.0);
    }
    let (mut order, mut last) = (Vec::new(), 1);
    for now in 3..8 {
        engine.step(free(last), f64::from(now));
        last = started(&engine.pass(f64::from(now)))[0];
        order.push(last);
    }
    assert_eq!(order, [20, 6, 5, 4, 3]);
}

#[test]
fn a_successor_that_fails_leaves_the_running_policy_alone() {
    let mut engine = engine(1, 1);
    install(&mut engine, Script::named("good").run(fcfs), 0.0);
    submit(&mut engine, 0.0, vec![(1, cores(1, 0.0)), (2, cores(1, 0.0))]);
    let out = install(&mut engine, Script::named("bad").keys(|_| Ok(vec![f64::NAN])), 1.0);
    assert!(matches!(
        notices(&out)[..],
        [PolicyNotice::SwapFailed { error: PolicyError::BadValue { .. }, .. }]
    ));
    assert_eq!(engine.policy_name(), "good");
    engine.step(free(1), 2.0);
    assert_eq!(started(&engine.pass(2.0)), [2]);
}

#[test]
fn a_policy_that_traps_in_save_is_replaced_all_the_same() {
    let mut engine = engine(1, 1);
    let mut old = Script::named("old").run(fcfs);
    old.state = Some(Err(PolicyError::Trap { during: "state.save", message: "told to".to_owned() }));
    install(&mut engine, old, 0.0);
    submit(&mut engine, 0.0, vec![(1, cores(1, 0.0)), (2, cores(1, 0.0))]);
    let mut new = Script::named("new").run(fcfs);
    new.state = Some(Ok(vec![]));
    let restored = Arc::clone(&new.restored);
    let out = install(&mut engine, new, 1.0);
    assert!(matches!(
        notices(&out)[..],
        [PolicyNotice::Failed { .. }, PolicyNotice::Swapped { state: false, .. }]
    ));
    assert!(restored.lock().unwrap().is_empty());
    assert_eq!((engine.running(), engine.pending(), engine.policy_name()), (1, 1, "new"));
}

#[test]
fn a_policy_sees_what_happens_to_jobs() {
    let mut engine = engine(1, 1);
    let mut watcher = Script::named("watcher").run(fcfs);
    let seen = Arc::new(Mutex::new(Vec::new()));
    watcher.seen = Some(Arc::clone(&seen));
    install(&mut engine, watcher, 0.0);
    submit(&mut engine, 1.0, vec![(1, cores(1, 10.0)), (2, cores(1, 10.0))]);
    engine.step(Event::Prioritize { jobs: vec![(JobId(2), 20)] }, 2.0);
    engine.step(Event::Cancel { id: JobId(2) }, 3.0);
    engine.step(free(1), 4.0);
    engine.pass(4.0);
    let seen: Vec<_> = seen.lock().unwrap().iter().map(|e| (e.kind, e.job.0, e.time, e.value)).collect();
    assert_eq!(
        seen,
        [
            (JobEventKind::Pending, 1, 1.0, 0.0),
            (JobEventKind::Pending, 2, 1.0, 0.0),
            (JobEventKind::Started, 1, 1.0, 11.0),
            (JobEventKind::Priority, 2, 2.0, 20.0),
            (JobEventKind::Removed, 2, 3.0, 0.0),
            (JobEventKind::Ended, 1, 4.0, 1.0),
        ]
    );
}
