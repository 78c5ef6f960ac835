//! Examples of starts, waits and reasons.

use fluxgate_engine::{Action, Config, Engine, Event, REFUSALS, Reason, RpcError};
use fluxgate_formats::{Idset, JobId};

use crate::common::*;

#[test]
fn the_builtin_policy_starts_in_order_and_stops_at_the_first_that_does_not_fit() {
    let mut engine = engine(1, 4);
    let out = submit(&mut engine, 0.0, vec![(1, cores(3, 10.0)), (2, cores(2, 10.0)), (3, cores(1, 1.0))]);
    assert_eq!(started(&out), [1], "job 3 would fit but must not overtake job 2");
    engine.step(free(1), 10.0);
    assert_eq!(started(&engine.pass(10.0)), [2, 3]);
}

#[test]
fn priority_comes_before_submission_and_expedited_before_all() {
    let mut engine = engine(1, 1);
    assert_eq!(started(&submit(&mut engine, 0.0, vec![(1, cores(1, 10.0))])), [1]);
    submit(&mut engine, 1.0, vec![(2, cores(1, 1.0)), (3, cores(1, 1.0)), (4, cores(1, 1.0))]);
    // A policy with the reverse order cannot delay an expedited job.
    install(
        &mut engine,
        Script::named("lifo").keys(|j| Ok(j.id.iter().map(|id| -(id.0 as f64)).collect())),
        1.0,
    );
    engine.step(Event::Prioritize { jobs: vec![(JobId(2), u32::MAX), (JobId(99), 3)] }, 2.0);
    let mut order: Vec<u64> = Vec::new();
    let mut last = 1;
    for now in 10..13 {
        engine.step(free(last), f64::from(now));
        let next = started(&engine.pass(f64::from(now)));
        order.extend(&next);
        last = next[0];
    }
    assert_eq!(order, [2, 4, 3]);
}

#[test]
fn easy_backfills_what_does_not_delay_the_head() {
    let mut engine = engine(1, 10);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    // Six cores are held until 100 s; job 2 requests eight: shadow time 100 s, two extra cores.
    let out = submit(
        &mut engine,
        0.0,
        vec![
            (1, cores(6, 100.0)),
            (2, cores(8, 50.0)),
            (3, cores(3, 101.0)), // too long, and wider than the extra cores
            (4, cores(2, 500.0)), // within the extra cores
            (5, cores(2, 100.0)), // ends by the shadow time
            (6, cores(1, 10.0)),  // no core left
        ],
    );
    assert_eq!(started(&out), [1, 4, 5]);
    assert_eq!(engine.stats().backfilled, 2);
    assert_eq!(engine.explain(JobId(2), 0.0).unwrap().t_estimate, Some(100.0));
    // Job 1 ends early: the head starts at once.
    engine.step(free(5), 20.0);
    engine.step(free(1), 20.0);
    assert_eq!(started(&engine.pass(20.0)), [2]);
}

#[test]
fn an_infeasible_job_is_denied_with_a_reason_and_a_feasible_one_is_not() {
    let mut engine = engine(2, 4);
    let out = submit(&mut engine, 0.0, vec![(1, cores(9, 1.0)), (2, cores(8, 1.0))]);
    let note = out.iter().find_map(|a| match a {
        Action::Deny { id: JobId(1), note } => Some(note.clone()),
        _ => None,
    });
    assert!(note.unwrap().starts_with("unsatisfiable request"));
    assert_eq!(started(&out), [2]);
}

#[test]
fn feasibility_ignores_what_is_up_or_free() {
    let mut engine = engine(2, 4);
    submit(&mut engine, 0.0, vec![(1, cores(8, 0.0))]);
    engine.step(Event::Down("0-1".parse().unwrap()), 1.0);
    let ask = |engine: &mut Engine, n, token| match engine
        .step(Event::Feasibility { jobspec: cores(n, 1.0), token }, 1.0)
        .pop()
    {
        Some(Action::Reply { token: t, result }) if t == token => result,
        other => panic!("{other:?}"),
    };
    assert_eq!(ask(&mut engine, 8, 7), Ok(()));
    let RpcError { errnum, text } = ask(&mut engine, 9, 8).unwrap_err();
    assert!(errnum == 75 && text.starts_with("unsatisfiable request"), "{errnum} {text}");
}

#[test]
fn a_down_node_takes_no_new_jobs_and_keeps_its_old_ones() {
    let mut engine = engine(2, 2);
    submit(&mut engine, 0.0, vec![(1, cores(2, 0.0))]);
    let rank: Idset = engine.resources().allocation_r(JobId(1)).unwrap().ranks();
    let all = engine.resources().to_r_all().ranks();
    engine.step(Event::Down(all.clone()), 1.0);
    assert_eq!(started(&submit(&mut engine, 1.0, vec![(2, cores(1, 1.0))])), Vec::<u64>::new());
    // Released, but down: not schedulable.
    engine.step(free(1), 2.0);
    assert_eq!(started(&engine.pass(2.0)), Vec::<u64>::new());
    engine.step(Event::Up(rank), 3.0);
    assert_eq!(started(&engine.pass(3.0)), [2]);
}

#[test]
fn shrinking_denies_what_can_never_run_any_more() {
    let mut engine = engine(2, 2);
    submit(&mut engine, 0.0, vec![(1, cores(4, 0.0)), (2, cores(4, 1.0)), (3, cores(2, 1.0))]);
    let out = engine.step(Event::Shrink("1".parse().unwrap()), 1.0);
    assert!(matches!(&out[..], [Action::Deny { id: JobId(2), .. }]), "{out:?}");
    assert_eq!(engine.pending(), 1);
}

#[test]
fn a_cancel_is_answered_while_a_job_waits_and_ignored_afterwards() {
    let mut engine = engine(1, 1);
    submit(&mut engine, 0.0, vec![(1, cores(1, 0.0)), (2, cores(1, 0.0))]);
    assert!(matches!(
        engine.step(Event::Cancel { id: JobId(2) }, 1.0)[..],
        [Action::Canceled { id: JobId(2) }]
    ));
    assert!(engine.step(Event::Cancel { id: JobId(2) }, 1.0).is_empty(), "held jobs are cancelled twice");
    assert!(engine.step(Event::Cancel { id: JobId(1) }, 1.0).is_empty(), "its R is being committed");
    // The same id may be submitted again with another request.
    assert!(
        submit(&mut engine, 2.0, vec![(2, cores(1, 5.0))]).iter().all(|a| !matches!(a, Action::Deny { .. }))
    );
    // A job that holds resources may not.
    assert!(matches!(engine.step(alloc(1, cores(1, 1.0)), 2.0)[..], [Action::Deny { .. }]));
}

#[test]
fn a_job_is_told_why_it_waits_once_and_the_news_is_taken_back_at_the_start() {
    let mut engine = engine(1, 2);
    let out = submit(&mut engine, 0.0, vec![(1, cores(2, 10.0)), (2, cores(2, 10.0)), (3, cores(1, 1.0))]);
    let told: Vec<(u64, String)> = out
        .iter()
        .filter_map(|a| match a {
            Action::Annotate { id, annotations } => {
                Some((id.0, annotations["sched"]["reason_pending"].as_str()?.to_owned()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [
            (2, "insufficient resources: needs 2 cores".to_owned()),
            (3, "waiting behind jobs ahead of it in the queue".to_owned())
        ]
    );
    // Another pass finds the same reasons and repeats no annotation.
    engine.step(Event::Up("0".parse().unwrap()), 1.0);
    assert!(engine.pass(1.0).is_empty());
    engine.step(free(1), 2.0);
    let out = engine.pass(2.0);
    let Some(Action::Start { annotations, .. }) = out.first() else { panic!("{out:?}") };
    assert_eq!(annotations["sched"]["reason_pending"], serde_json::Value::Null);
    assert_eq!(annotations["sched"]["resource_summary"], "rank0/core[0-1]");
}

#[test]
fn queues_are_scheduled_one_by_one() {
    let mut engine = engine(1, 4);
    let out = submit(
        &mut engine,
        0.0,
        vec![(1, queued(3, 10.0, "batch")), (2, queued(2, 10.0, "batch")), (3, queued(1, 1.0, "debug"))],
    );
    assert_eq!(started(&out), [1, 3], "the blocked head of batch does not hold debug up");
}

#[test]
fn hello_recovers_allocations_and_raises_what_does_not_fit() {
    let mut first = engine(2, 2);
    submit(&mut first, 100.0, vec![(1, cores(3, 50.0))]);
    let r = first.resources().allocation_r(JobId(1)).unwrap();
    let hello = |id, r: &fluxgate_formats::R, free: &str| Event::Hello {
        id: JobId(id),
        priority: 16,
        userid: 1,
        t_submit: 1.0,
        r: Box::new(r.clone()),
        free: free.parse().unwrap(),
        queue: None,
    };
    let mut second = engine(2, 2);
    assert!(second.step(hello(1, &r, ""), 110.0).is_empty());
    assert!(second.step(hello(1, &r, ""), 110.0).is_empty(), "a repeated hello is an audit");
    assert_eq!(second.resources().totals().free_cores, 1);
    let out = second.step(hello(2, &r, ""), 110.0);
    assert!(
        matches!(&out[..], [Action::Raise { id: JobId(2), severity: 0, kind, .. }] if kind == "scheduler-restart")
    );
    // Resources that were released before are not booked again.
    let mut third = engine(2, 2);
    let given_back = r.ranks().first().unwrap().to_string();
    assert!(third.step(hello(1, &r, &given_back), 110.0).is_empty());
    assert!(third.resources().totals().free_cores > 1);
}

#[test]
fn partial_frees_by_rank_end_with_the_last() {
    let mut engine = engine(3, 1);
    submit(&mut engine, 0.0, vec![(1, cores(3, 0.0)), (2, cores(1, 1.0))]);
    engine.step(Event::Free { id: JobId(1), ranks: Some("1".parse().unwrap()), last: false }, 1.0);
    assert_eq!(started(&engine.pass(1.0)), [2]);
    assert_eq!(engine.running(), 2);
    engine.step(Event::Free { id: JobId(1), ranks: Some("0,2".parse().unwrap()), last: true }, 2.0);
    assert_eq!((engine.running(), engine.resources().totals().free_cores), (1, 2));
    // Frees of unknown jobs are legal.
    engine.step(free(77), 3.0);
    assert_eq!(engine.stats().unknown_jobs, 1);
}

#[test]
fn work_of_a_pass_does_not_grow_with_jobs_that_cannot_run() {
    let mut visited = Vec::new();
    for depth in [100u64, 10_000] {
        let mut engine = Engine::new(machine(2, 2), Config { annotate: false, ..Config::default() });
        install(&mut engine, Script::named("easy").run(easy), 0.0);
        submit(&mut engine, 0.0, vec![(1, cores(3, 1e6))]);
        submit(&mut engine, 1.0, (10..10 + depth).map(|id| (id, cores(4, 100.0))).collect());
        let before = *engine.stats();
        assert_eq!(started(&submit(&mut engine, 2.0, vec![(999_999, cores(1, 10.0))])), [999_999]);
        let after = engine.stats();
        visited.push((after.candidates - before.candidates, after.matches - before.matches));
    }
    assert_eq!(visited[0], visited[1]);
}

#[test]
fn the_same_events_give_the_same_actions() {
    let run = || {
        let mut engine = engine(4, 8);
        install(&mut engine, Script::named("easy").run(easy), 0.0);
        let mut log = String::new();
        for i in 0..200u64 {
            let now = i as f64;
            let n = 1 + (i * 7919 % 23) as u32;
            let mut out = engine.step(alloc(i + 1, cores(n, 1.0 + (i * 31 % 17) as f64)), now);
            for id in engine.running_ids().collect::<Vec<_>>() {
                if (id.0 * 13 + i) % 5 == 0 {
                    out.extend(engine.step(free(id.0), now));
                }
            }
            out.extend(engine.pass(now));
            log += &format!("{out:?}\n");
        }
        log
    };
    assert_eq!(run(), run());
}

#[test]
fn reasons_are_short_enough_for_a_list() {
    let reasons = [
        Reason::Unseen,
        Reason::Behind,
        Reason::Busy { nodes: 131_072, cores: 16_777_216, gpus: 1_048_576 },
        Reason::Delays(JobId(u64::MAX)),
        Reason::Reserved,
        Reason::Short("insufficient power: needs 64 times 400 W, rack-pdu-17 has too little left".into()),
    ];
    for reason in reasons {
        assert!(reason.to_string().chars().count() < 80);
    }
}

#[test]
fn jobs_that_a_bound_of_the_pass_keeps_from_starting_start_in_the_next_one() {
    // The built-in policy ends its pass at a refusal; `easy` also tries to start the jobs behind it.
    for (name, beyond) in [("builtin-fcfs", 3), ("easy", 7)] {
        let mut engine = engine(1, 8);
        if name == "easy" {
            install(&mut engine, Script::named("easy").run(easy), 0.0);
        }
        let config = Config { decisions_per_pass_max: 2, ..engine.config().clone() };
        engine.reconfigure(config);
        let jobs = (1..=6).map(|id| (id, cores(1, 10.0))).chain([(7, cores(8, 5.0)), (8, cores(8, 5.0))]);
        let mut passes = vec![started(&submit(&mut engine, 0.0, jobs.collect()))];
        // The series of passes ends, although two jobs never fit: only starts lead to another pass.
        while engine.needs_pass(0.0) {
            passes.push(started(&engine.pass(0.0)));
            assert!(passes.len() < 10, "{name}: {passes:?}");
        }
        passes.retain(|pass| !pass.is_empty());
        assert_eq!(passes, [[1, 2], [3, 4], [5, 6]], "{name}");
        let refused = REFUSALS.into_iter().zip(engine.stats().refused).find(|(kind, _)| *kind == "limit");
        assert_eq!(refused, Some(("limit", beyond)), "{name}");
    }
}

#[test]
fn a_policy_says_itself_why_a_job_waits() {
    let mut engine = engine(1, 2);
    install(&mut engine, Script::named("picky").run(picky), 0.0);
    let told = |out: &[Action]| -> Vec<(u64, String)> {
        let find = |a: &Action| match a {
            Action::Annotate { id, annotations } => {
                Some((id.0, annotations["sched"]["reason_pending"].as_str()?.to_owned()))
            }
            _ => None,
        };
        out.iter().filter_map(find).collect()
    };
    let out = submit(&mut engine, 0.0, vec![(1, cores(1, 60.0)), (2, cores(1, 10.0))]);
    assert_eq!((started(&out), told(&out)), (vec![2], vec![(1, "longer than 50 s".to_owned())]));
    let said = Reason::Said("longer than 50 s".into());
    assert_eq!(engine.reason(JobId(1)), Some(&said));
    assert!(crate::common::said(&engine.explain(JobId(1), 0.0).unwrap()).starts_with("longer than 50 s; "));
    // Again: no news. Then another policy decides, and refuses it.
    engine.step(free(2), 1.0);
    assert_eq!(told(&engine.pass(1.0)), []);
    engine.step(Event::Down("0".parse().unwrap()), 2.0);
    install(&mut engine, Script::named("easy").run(easy), 2.0);
    engine.pass(2.0);
    assert_eq!(engine.reason(JobId(1)), Some(&Reason::Busy { nodes: 0, cores: 1, gpus: 0 }));
    assert_eq!(engine.reason(JobId(2)), None);
}
