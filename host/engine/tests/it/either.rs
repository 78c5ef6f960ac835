//! `start_or_reserve` is `start` and then `reserve`: the same starts, reservations and reasons.

use std::collections::BTreeMap;

use fluxgate_engine::{Config, Engine, Event, Pass, PolicyError, Reason, Refusal, Turns};
use fluxgate_formats::JobId;
use proptest::prelude::*;

use crate::common::{Script, alloc, cores, engine, free, install, started};

fn apart(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(job) = pass.next() {
        if let Err(Refusal::Busy | Refusal::DelaysReservation) = pass.start(job, None)? {
            let _ = pass.reserve(job)?;
        }
    }
    Ok(())
}

fn together(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(job) = pass.next() {
        let now = pass.now();
        if let Ok(Some(start)) = pass.start_or_reserve(job)? {
            assert!(start >= now);
        }
    }
    Ok(())
}

fn by(name: &str, run: fn(&mut Pass) -> Result<(), PolicyError>) -> Engine {
    let mut engine = engine(4, 2);
    install(&mut engine, Script::named(name).run(run), 0.0);
    engine
}

fn reservations(engine: &Engine) -> Vec<(JobId, f64)> {
    engine.resources().reservations().map(|(id, start, _)| (id, start)).collect()
}

proptest! {
    #[test]
    fn it_is_one_and_then_the_other(jobs in prop::collection::vec((1u32..10, 1u32..20, 0u32..4), 1..40)) {
        let mut both = [by("apart", apart), by("together", together)];
        let mut running = Vec::new();
        for (number, (slots, length, gone)) in jobs.into_iter().enumerate() {
            let (id, now) = (number as u64 + 1, number as f64);
            let ends: Vec<u64> = running.drain(..running.len().min(gone as usize)).collect();
            let outs = both.each_mut().map(|engine| {
                engine.step(alloc(id, cores(slots, f64::from(length))), now);
                ends.iter().for_each(|id| drop(engine.step(free(*id), now)));
                started(&engine.pass(now))
            });
            prop_assert_eq!(&outs[0], &outs[1]);
            prop_assert_eq!(reservations(&both[0]), reservations(&both[1]));
            let waits = |engine: &Engine| engine.explain(JobId(id), now).map(|why| (why.reason.clone(), crate::common::said(&why)));
            prop_assert_eq!(waits(&both[0]), waits(&both[1]));
            running.extend(&outs[0]);
        }
    }
}

/// All candidates in the order of their reserved starts, then of the queue; every `skip`th one is left out.
fn by_start(pass: &mut Pass, before: &BTreeMap<JobId, f64>, skip: usize) -> Vec<(JobId, u32)> {
    let mut turns = Vec::new();
    while let Some(c) = pass.next() {
        let id = pass.describe(c).unwrap().id;
        turns.push((before.get(&id).copied().unwrap_or(f64::INFINITY), id, c));
    }
    turns.sort_by(|a, b| a.0.total_cmp(&b.0));
    let kept = turns.into_iter().enumerate().filter(|(n, _)| skip == 0 || (n + 1) % (skip + 1) != 0);
    kept.map(|(_, (_, id, c))| (id, c)).collect()
}

/// Conservative backfilling: reservations are made anew in the order of the last ones, with one call or with two.
fn conservative(name: &str, one: bool, skip: usize) -> Engine {
    let mut before = BTreeMap::new();
    let script = Script::named(name).run(move |pass| {
        let mut made = BTreeMap::new();
        for (id, c) in by_start(pass, &before, skip) {
            if one {
                if let Ok(Some(start)) = pass.start_or_reserve(c)? {
                    made.insert(id, start);
                }
            } else if let Err(Refusal::Busy | Refusal::DelaysReservation) = pass.start(c, None)?
                && let Ok(start) = pass.reserve(c)?
            {
                made.insert(id, start);
            }
        }
        before = made;
        Ok(())
    });
    let mut engine = engine(4, 2);
    install(&mut engine, script, 0.0);
    engine
}

/// The calls with which a job starts or is reserved.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Calls {
    Two,
    One,
    /// One for all jobs.
    Turns,
}

/// Backfilling behind `depth` reservations in the order of the queue; 0 is strict order. The reservations of the last pass are dropped
/// at first if it `drops` them.
fn in_queue_order(name: &str, depth: u32, calls: Calls, drops: bool) -> Engine {
    let script = Script::named(name).run(move |pass| {
        if drops && let Some(first) = pass.next() {
            pass.earliest(first)?;
            pass.rewind();
        }
        let mut turns = Turns::new(depth, u32::MAX);
        let (mut heads, mut more) = (0, None);
        while more.is_none() {
            more = if calls == Calls::Turns {
                turns.over()
            } else {
                (heads == depth && depth > 0).then_some(true)
            };
            if more.is_some() {
                break;
            }
            let Some(c) = pass.next() else { return Ok(()) };
            if calls == Calls::Turns {
                turns.take(pass, c)?;
                continue;
            }
            let answer = match calls {
                Calls::One if depth > 0 => pass.start_or_reserve(c)?,
                _ => match pass.start(c, None)? {
                    Err(Refusal::Busy | Refusal::DelaysReservation) if depth > 0 => {
                        pass.reserve(c)?.map(Some)
                    }
                    started => started.map(|()| None),
                },
            };
            match answer {
                Ok(Some(_)) => heads += 1,
                Err(Refusal::Limit) => more = Some(true),
                Err(Refusal::Busy | Refusal::DelaysReservation) if depth == 0 => more = Some(false),
                _ => {}
            }
        }
        while more == Some(true)
            && let Some(c) = pass.next_fitting()
        {
            if pass.start(c, None)? == Err(Refusal::Limit) {
                break;
            }
        }
        Ok(())
    });
    let mut engine = engine(4, 2);
    install(&mut engine, script, 0.0);
    engine
}

#[derive(Debug, Clone)]
enum Op {
    /// Cores, and seconds; 0 is no limit.
    Submit(u32, u32),
    /// The running job at this position ends.
    End(usize),
    /// Time passes, and jobs end when they are expected to.
    OnTime(u32),
    /// Time passes, and no job ends.
    Later(u32),
    /// The waiting job at this position is withdrawn.
    Cancel(usize),
    /// The waiting job at this position gets this priority.
    Prioritize(usize, u32),
    Node(u32, bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1u32..9, prop_oneof![20 => 1u32..60, 1 => Just(0)]).prop_map(|(n, d)| Op::Submit(n, d)),
        3 => (0usize..8).prop_map(Op::End),
        3 => (1u32..40).prop_map(Op::OnTime),
        1 => (1u32..20).prop_map(Op::Later),
        1 => (0usize..20).prop_map(Op::Cancel),
        1 => (0usize..20, 1u32..31).prop_map(|(at, priority)| Op::Prioritize(at, priority)),
        1 => (0u32..4, any::<bool>()).prop_map(|(n, up)| Op::Node(n, up)),
    ]
}

/// The same starts, reservations and reasons of both after each of these.
fn agree(mut both: [Engine; 2], ops: Vec<Op>) -> Result<(), TestCaseError> {
    let (mut now, mut next) = (0.0, 0);
    let mut waiting: Vec<u64> = Vec::new();
    // With expected ends.
    let mut running: Vec<(f64, u64)> = Vec::new();
    let mut lasts: BTreeMap<u64, f64> = BTreeMap::new();
    for op in ops {
        let mut events = Vec::new();
        match op {
            Op::Submit(slots, length) => {
                next += 1;
                waiting.push(next);
                lasts.insert(next, if length == 0 { f64::INFINITY } else { f64::from(length) });
                events.push(alloc(next, cores(slots, f64::from(length))));
            }
            Op::End(at) if !running.is_empty() => events.push(free(running.remove(at % running.len()).1)),
            Op::OnTime(by) => {
                // To the next end, if there is one so soon.
                running.sort_by(|a, b| a.0.total_cmp(&b.0));
                let until = now + f64::from(by);
                let end = running.first().map_or(until, |(end, _)| end.clamp(now, until));
                now = end;
                while running.first().is_some_and(|(end, _)| *end <= now) {
                    events.push(free(running.remove(0).1));
                }
            }
            Op::Later(by) => now += f64::from(by),
            Op::Cancel(at) if !waiting.is_empty() => {
                events.push(Event::Cancel { id: JobId(waiting.remove(at % waiting.len())) });
            }
            Op::Prioritize(at, priority) if !waiting.is_empty() => {
                events.push(Event::Prioritize { jobs: vec![(JobId(waiting[at % waiting.len()]), priority)] });
            }
            Op::Node(n, up) => {
                let node = n.to_string().parse().unwrap();
                events.push(if up { Event::Up(node) } else { Event::Down(node) });
            }
            _ => {}
        }
        let outs = both.each_mut().map(|engine| {
            for event in &events {
                engine.step(event.clone(), now);
            }
            let starts = started(&engine.pass(now));
            for id in &starts {
                engine.step(Event::Committed { id: JobId(*id) }, now);
            }
            starts
        });
        prop_assert_eq!(&outs[0], &outs[1]);
        let sorted = |engine: &Engine| {
            let mut all = reservations(engine);
            all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
            all
        };
        prop_assert_eq!(sorted(&both[0]), sorted(&both[1]));
        for id in &waiting {
            // A job that would delay several reservations is told of the one that its search met first, and searches differ.
            let why = both.each_ref().map(|engine| {
                let reason = engine.explain(JobId(*id), now).and_then(|why| why.reason.clone());
                let delays = matches!(reason, Some(Reason::Delays(_)));
                (delays, reason.filter(|_| !delays))
            });
            prop_assert_eq!(&why[0], &why[1]);
        }
        waiting.retain(|id| !outs[0].contains(id));
        running.extend(outs[0].iter().map(|id| (now + lasts[id], *id)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn reservations_made_anew_in_place_are_those_that_are_dropped_and_made(
        skip in prop_oneof![4 => Just(0usize), 1 => 1usize..6],
        ops in prop::collection::vec(op(), 1..120),
    ) {
        agree([conservative("two", false, skip), conservative("one", true, skip)], ops)?;
    }

    #[test]
    fn reservations_kept_in_the_order_of_the_last_pass_are_those_that_are_dropped_and_made(
        depth in 0..8u32,
        calls in prop_oneof![Just(Calls::Two), Just(Calls::One), Just(Calls::Turns)],
        bounds in prop_oneof![2 => Just((4096, 2048)), 1 => (0..6usize, 1..9u64)],
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut both =
            [in_queue_order("drops", depth, Calls::Two, true), in_queue_order("keeps", depth, calls, false)];
        for engine in &mut both {
            let (reservations_max, decisions_per_pass_max) = bounds;
            engine.reconfigure(Config { reservations_max, decisions_per_pass_max, ..Config::default() });
        }
        agree(both, ops)?;
    }
}

#[test]
fn a_pass_in_which_nothing_came_free_searches_nothing_again() {
    let mut engine = in_queue_order("keeps", 3, Calls::Turns, false);
    let wait = [1, 2, 3, 4].map(|id| alloc(id, cores(if id == 1 { 7 } else { 8 }, 10.0)));
    wait.into_iter().for_each(|event| drop(engine.step(event, 0.0)));
    assert_eq!(started(&engine.pass(0.0)), [1]);
    let reserved = [(JobId(2), 10.0), (JobId(3), 20.0), (JobId(4), 30.0)];
    assert_eq!(reservations(&engine), reserved);
    let changes = |engine: &Engine| (engine.resources().version(), engine.stats().reservations);
    let before = changes(&engine);
    engine.step(alloc(5, cores(2, 1.0)), 1.0);
    assert!(started(&engine.pass(1.0)).is_empty());
    assert_eq!(changes(&engine), (before.0 + 1, before.1 + 3), "each is in the ledger as it was");
    engine.step(free(1), 10.0);
    assert_eq!(started(&engine.pass(10.0)), [2]);
    assert_eq!(reservations(&engine), [(JobId(3), 20.0), (JobId(4), 30.0), (JobId(5), 40.0)]);
    engine.step(free(2), 15.0);
    assert_eq!(started(&engine.pass(15.0)), [3], "job 2 has ended early");
    assert_eq!(reservations(&engine), [(JobId(4), 25.0), (JobId(5), 35.0)]);
}

#[test]
fn a_start_that_was_put_off_is_searched_again() {
    let mut passes = 0;
    let script = Script::named("puts-off").run(move |pass| {
        passes += 1;
        while let Some(c) = pass.next() {
            let _ = match pass.describe(c)?.id {
                JobId(3) if passes == 2 => pass.reserve_after(c, 50.0)?.map(drop),
                _ => pass.start_or_reserve(c)?.map(drop),
            };
        }
        Ok(())
    });
    let mut engine = engine(4, 2);
    install(&mut engine, script, 0.0);
    engine.step(alloc(1, cores(4, 100.0)), 0.0);
    assert_eq!(started(&engine.pass(0.0)), [1]);
    engine.step(alloc(2, cores(8, 10.0)), 1.0);
    engine.step(alloc(3, cores(2, 10.0)), 1.0);
    assert!(started(&engine.pass(1.0)).is_empty());
    assert_eq!(reservations(&engine), [(JobId(3), 50.0), (JobId(2), 100.0)]);
    engine.step(alloc(4, cores(8, 10.0)), 2.0);
    assert_eq!(started(&engine.pass(2.0)), [3]);
}

#[test]
fn a_job_without_any_start_is_told_why() {
    for calls in [Calls::Two, Calls::One, Calls::Turns] {
        let mut engine = in_queue_order("tells", 2, calls, false);
        engine.step(Event::Down("0-2".parse().unwrap()), 0.0);
        engine.step(alloc(1, cores(4, 10.0)), 0.0);
        assert!(started(&engine.pass(0.0)).is_empty());
        let told = engine.reason(JobId(1));
        assert!(matches!(told, Some(Reason::Busy { cores: 4, .. })), "{calls:?}: {told:?}");
    }
}

#[test]
fn a_candidate_that_was_not_offered_is_a_breach() {
    let mut engine = by("stray", |pass| pass.start_or_reserve(7).map(drop));
    engine.step(alloc(1, cores(1, 1.0)), 0.0);
    assert_eq!(started(&engine.pass(0.0)), [1], "by the built-in policy");
    assert_eq!(engine.stats().policy_failures, 1);
}
