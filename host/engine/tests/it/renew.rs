//! Reservations of a policy that are made anew together: the schedule is that of a policy that makes each anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fluxgate_engine::{Action, Engine, Event, Pass, PolicyError};
use fluxgate_formats::JobId;
use proptest::prelude::*;

use crate::changes::Change;
use crate::common::{Script, alloc, cores, engine, free, started, submit};

/// Expedited, RFC 27.
const EXPEDITED: u32 = u32::MAX;

fn expedites(pass: &mut Pass) -> Result<bool, PolicyError> {
    let first = pass.next();
    let expedited = first.map(|first| pass.describe(first)).transpose()?;
    pass.rewind();
    Ok(expedited.is_some_and(|job| job.priority == EXPEDITED))
}

/// Conservative backfilling, which renews its reservations together if it `asks` for that, and counts in `kept` the passes in which all
/// stayed as they were.
fn conservative(asks: bool, kept: Arc<AtomicU64>) -> Script {
    let mut reserved: BTreeMap<JobId, f64> = BTreeMap::new();
    Script::named("conservative").run(move |pass| {
        let count = reserved.len() as u32;
        let renewed = if asks && !expedites(pass)? { pass.renewable(count) } else { None };
        kept.fetch_add(u64::from(renewed.as_ref().is_some_and(Vec::is_empty)), Relaxed);
        for candidate in renewed.iter().flatten() {
            let (id, before) = pass.reserved_before(*candidate)?;
            assert_eq!(before, reserved.get(&id).copied());
            match pass.start_or_reserve(*candidate)? {
                Ok(Some(start)) => drop(reserved.insert(id, start)),
                _ => drop(reserved.remove(&id)),
            }
        }
        let mut turns = Vec::new();
        while let Some(candidate) = pass.next() {
            let job = pass.describe(candidate)?;
            assert!(
                renewed.is_none() || !reserved.contains_key(&job.id),
                "a job that was renewed comes again"
            );
            let start = reserved.get(&job.id).copied().unwrap_or(f64::INFINITY);
            turns.push((
                if job.priority == EXPEDITED { f64::NEG_INFINITY } else { start },
                job.id,
                candidate,
            ));
        }
        turns.sort_by(|a, b| a.0.total_cmp(&b.0));
        if renewed.is_none() {
            reserved.clear();
        }
        for (_, id, candidate) in turns {
            if let Ok(Some(start)) = pass.start_or_reserve(candidate)? {
                reserved.insert(id, start);
            }
        }
        Ok(())
    })
}

fn under(asks: bool, nodes: u32) -> (Engine, Arc<AtomicU64>) {
    let (mut engine, kept) = (engine(nodes, 2), Arc::new(AtomicU64::new(0)));
    engine.swap(Box::new(conservative(asks, kept.clone()))).unwrap();
    while engine.policy_name() != "conservative" {
        engine.pass(0.0);
    }
    (engine, kept)
}

#[test]
fn reservations_are_kept_while_nothing_comes_free() {
    let (mut engine, kept) = under(true, 2);
    let passes = |engine: &mut Engine, now: f64, events: Vec<Event>| {
        let before = kept.load(Relaxed);
        let mut out: Vec<Action> = events.into_iter().flat_map(|event| engine.step(event, now)).collect();
        out.extend(engine.pass(now));
        (kept.load(Relaxed) > before, started(&out))
    };
    submit(&mut engine, 1.0, vec![(1, cores(3, 100.0)), (2, cores(4, 100.0)), (3, cores(4, 50.0))]);
    let reserved = |engine: &Engine| -> Vec<(u64, f64)> {
        engine.resources().reservations().map(|(id, start, _)| (id.0, start)).collect()
    };
    assert_eq!(reserved(&engine), [(2, 101.0), (3, 201.0)]);
    let come = |id: u64, n: u32, seconds: f64| vec![alloc(id, cores(n, seconds))];
    assert_eq!(passes(&mut engine, 2.0, come(4, 2, 10.0)), (true, vec![]));
    assert_eq!(passes(&mut engine, 3.0, come(5, 1, 10.0)), (true, vec![5]), "it fits before job 2");
    assert_eq!(reserved(&engine), [(2, 101.0), (3, 201.0), (4, 251.0)]);
    assert_eq!(engine.stats().reservations, 2 + 3 + 3, "those that are kept count as made anew");
    assert_eq!(passes(&mut engine, 13.0, vec![free(5)]), (true, vec![]), "job 5 has ended when it should");
    let cancel = vec![Event::Cancel { id: JobId(3) }];
    assert_eq!(passes(&mut engine, 14.0, cancel), (false, vec![]), "there are fewer");
    assert_eq!(reserved(&engine), [(2, 101.0), (4, 201.0)]);
    assert_eq!(passes(&mut engine, 15.0, come(6, 4, 10.0)), (true, vec![]));
    let mut expedited = alloc(7, cores(4, 10.0));
    if let Event::Alloc { priority, .. } = &mut expedited {
        *priority = EXPEDITED;
    }
    assert_eq!(passes(&mut engine, 16.0, vec![expedited]), (false, vec![]));
    assert_eq!(reserved(&engine), [(7, 101.0), (2, 111.0), (4, 211.0), (6, 221.0)]);
    assert_eq!(passes(&mut engine, 50.0, vec![free(1)]), (false, vec![7]), "job 1 has ended early");
    assert_eq!(passes(&mut engine, 60.0, vec![free(7)]), (false, vec![2]), "a start has come");
}

#[test]
fn a_policy_renews_what_it_made_in_the_last_pass() {
    // It keeps the reservations if there are so many, and asks after the first candidate was offered.
    let asks = |count: u32| {
        Script::named("renews").run(move |pass| {
            let first = pass.next();
            if pass.renewable(count).is_some_and(|left| left.is_empty()) {
                let again = pass.start(first.unwrap(), None);
                return again.map(drop);
            }
            for candidate in first.into_iter().chain(std::iter::from_fn(|| pass.next())).collect::<Vec<_>>() {
                let _ = pass.start_or_reserve(candidate)?;
            }
            Ok(())
        })
    };
    for (count, fails) in [(1, false), (2, true), (3, false)] {
        let mut engine = engine(1, 4);
        engine.swap(Box::new(asks(count))).unwrap();
        engine.pass(0.0);
        let jobs = vec![(1, cores(4, 100.0)), (2, cores(4, 10.0)), (3, cores(4, 10.0))];
        submit(&mut engine, 1.0, jobs);
        assert_eq!((engine.running(), engine.resources().reservation_count()), (1, 2));
        // The next instance has not made them.
        engine.swap(Box::new(asks(count))).unwrap();
        submit(&mut engine, 2.0, vec![(4, cores(1, 9.0))]);
        assert_eq!(engine.policy_name(), "renews");
        let reserved = engine.resources().reservation_count() as u32;
        assert_eq!(reserved, 3);
        engine.step(Event::Cancel { id: JobId(4) }, 2.5);
        engine.pass(2.5);
        let actions = submit(&mut engine, 3.0, vec![(5, cores(4, 10.0))]);
        // A job that was kept is decided: to start it is a breach of the contract.
        let failed = engine.policy_name() != "renews";
        assert_eq!(failed, fails, "{count}: {actions:?}");
        if failed {
            assert_eq!(engine.resources().reservation_count(), 0, "the decisions of the pass are undone");
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    /// A job of so many cores and seconds is submitted; 0 seconds is no limit.
    Come(u32, u8, bool),
    Change(Change),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1..=8u32, 1..40u8, prop::bool::weighted(0.03)).prop_map(|(n, d, x)| Op::Come(n, d, x)),
        1 => (1..=8u32).prop_map(|n| Op::Come(n, 0, false)),
        3 => (0..20usize).prop_map(|n| Op::Change(Change::End(n))),
        1 => (0..20usize).prop_map(|n| Op::Change(Change::Cancel(n))),
        1 => (0..20usize, prop_oneof![4 => 1..31u32, 1 => Just(EXPEDITED)]).prop_map(|(at, p)| Op::Change(Change::Prioritize(at, p))),
        1 => (0..4u32, prop::bool::weighted(0.8)).prop_map(|(node, up)| Op::Change(Change::Node(node, up))),
        4 => (1..6u8).prop_map(|n| Op::Change(Change::Later(n))),
        4 => Just(Op::Change(Change::OnTime)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_schedule_is_that_of_reservations_made_anew_one_by_one(
        ops in prop::collection::vec((op(), prop::bool::weighted(0.8)), 0..120),
    ) {
        let ((mut keeps, _), (mut plain, _)) = (under(true, 4), under(false, 4));
        let (mut now, mut next) = (1.0, 1);
        for (op, pass) in ops {
            let mut events = Vec::new();
            match op {
                Op::Come(n, seconds, expedited) => {
                    let mut event = alloc(next, cores(n, f64::from(seconds)));
                    if let Event::Alloc { priority, .. } = &mut event
                        && expedited
                    {
                        *priority = EXPEDITED;
                    }
                    events.push(event);
                    next += 1;
                }
                Op::Change(change) => events = change.events(&plain, &mut now),
            }
            for event in events {
                let (ours, theirs) = (keeps.step(event.clone(), now), plain.step(event, now));
                prop_assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            }
            if pass {
                let (ours, theirs) = (keeps.pass(now), plain.pass(now));
                prop_assert_eq!(started(&ours), started(&theirs), "at {}", now);
                // Jobs are annotated in the order in which they were reserved.
                let told = |actions: &[Action]| {
                    let mut told: Vec<String> = actions.iter().map(|action| format!("{action:?}")).collect();
                    told.sort();
                    told
                };
                prop_assert_eq!(told(&ours), told(&theirs), "at {}", now);
                let reserved = |of: &Engine| of.resources().reservations().collect::<Vec<_>>();
                prop_assert_eq!(reserved(&keeps), reserved(&plain), "at {}", now);
                prop_assert_eq!(keeps.policy_name(), "conservative");
            }
        }
    }
}
