//! Passes that a policy says it would make again alike: those that submissions alone require are left out, and the schedule is
//! the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::{Config, Engine, Event, Pass, PolicyError, Refusal};
use fluxgate_formats::JobId;
use fluxgate_formats::jobspec::{Jobspec, Simple};
use proptest::prelude::*;

use crate::changes::Change;
use crate::common::{Script, alloc, cores, free, machine, started, submit};

/// Backfilling with so many reservations, which says that it `holds` if no candidate is left to reserve.
fn backfill(pass: &mut Pass, depth: u32, holds: bool) -> Result<(), PolicyError> {
    let mut reserved = 0;
    while reserved < depth || depth == 0 {
        let Some(candidate) = pass.next() else { return Ok(()) };
        match pass.start(candidate, None)? {
            Err(Refusal::Busy | Refusal::DelaysReservation) if depth == 0 => break,
            Err(Refusal::Busy | Refusal::DelaysReservation) => {
                reserved += u32::from(pass.reserve(candidate)?.is_ok());
            }
            _ => {}
        }
    }
    while depth > 0
        && let Some(candidate) = pass.next_fitting()
    {
        let _ = pass.start(candidate, None)?;
    }
    if holds {
        pass.holds();
    }
    Ok(())
}

fn script(depth: u32, shortest: bool, holds: bool) -> Script {
    let mut script = Script::named("backfill").run(move |pass| backfill(pass, depth, holds));
    if shortest {
        script = script.keys(|jobs| Ok(jobs.duration.clone()));
    }
    script
}

fn under(depth: u32, shortest: bool, holds: bool) -> Engine {
    let config = Config { annotate: false, ..Config::default() };
    let mut engine = Engine::new(machine(4, 2), config);
    engine.swap(Box::new(script(depth, shortest, holds))).unwrap();
    while engine.policy_name() != "backfill" {
        engine.pass(0.0);
    }
    engine
}

/// Passes of an engine, and the jobs that they start.
fn passes(engine: &mut Engine, now: f64, events: Vec<Event>) -> (u64, Vec<u64>) {
    let before = engine.stats().passes;
    events.into_iter().for_each(|event| drop(engine.step(event, now)));
    let started = started(&engine.pass(now));
    (engine.stats().passes - before, started)
}

#[test]
fn a_pass_that_decides_nothing_is_left_out() {
    let mut engine = under(1, false, true);
    submit(&mut engine, 1.0, vec![(1, cores(6, 100.0)), (2, cores(4, 100.0))]);
    let come = |id: u64, n: u32, seconds: f64| vec![alloc(id, cores(n, seconds))];
    assert_eq!(passes(&mut engine, 2.0, come(3, 3, 10.0)), (0, vec![]), "too few cores are free");
    assert_eq!(passes(&mut engine, 3.0, come(4, 2, 10.0)), (1, vec![4]), "it ends before job 2 starts");
    assert_eq!(passes(&mut engine, 4.0, come(5, 1, 10.0)), (0, vec![]));
    assert_eq!(passes(&mut engine, 13.0, vec![free(4)]), (1, vec![5]), "an end is no submission");
    assert_eq!(passes(&mut engine, 14.0, come(6, 1, 500.0)), (1, vec![6]), "it leaves enough for job 2");
    assert_eq!(passes(&mut engine, 23.0, vec![free(5)]), (1, vec![]));
    assert_eq!(
        passes(&mut engine, 24.0, come(7, 1, 500.0)),
        (1, vec![7]),
        "of eight cores, job 2 takes four"
    );
    let mut urgent = alloc(8, cores(8, 10.0));
    if let Event::Alloc { priority, .. } = &mut urgent {
        *priority = 31;
    }
    assert_eq!(passes(&mut engine, 25.0, vec![urgent]), (1, vec![]), "it comes before job 2");
    let reserved: Vec<_> = engine.resources().reservations().map(|(id, start, _)| (id.0, start)).collect();
    assert_eq!(reserved, [(8, 524.0)]);
    assert_eq!(passes(&mut engine, 26.0, come(9, 8, 10.0)), (0, vec![]));
    assert_eq!(passes(&mut engine, 27.0, vec![Event::Cancel { id: JobId(9) }]), (1, vec![]));
    assert_eq!(passes(&mut engine, 28.0, come(10, 8, 10.0)), (0, vec![]));
    assert_eq!(passes(&mut engine, 524.0, come(11, 8, 10.0)).0, 1, "the reserved start has come");
}

#[test]
fn a_pass_is_made_where_something_is_told() {
    for annotate in [true, false] {
        let mut engine = Engine::new(machine(4, 2), Config { annotate, ..Config::default() });
        engine.swap(Box::new(script(1, false, true))).unwrap();
        submit(&mut engine, 1.0, vec![(1, cores(8, 100.0)), (2, cores(4, 100.0))]);
        let come = |id: u64| vec![alloc(id, cores(3, 10.0))];
        assert_eq!(passes(&mut engine, 2.0, come(3)).0, u64::from(annotate));
        engine.set_tracing(true);
        assert_eq!(passes(&mut engine, 3.0, come(4)).0, 1, "a trace is wanted");
    }
}

#[test]
fn a_decision_after_it_takes_it_back() {
    let run = |pass: &mut Pass| {
        backfill(pass, 1, true)?;
        if let Some(candidate) = pass.next() {
            let _ = pass.reserve(candidate)?;
        }
        Ok(())
    };
    let mut engine = Engine::new(machine(4, 2), Config { annotate: false, ..Config::default() });
    engine.swap(Box::new(Script::named("more").run(run))).unwrap();
    submit(&mut engine, 1.0, vec![(1, cores(8, 100.0)), (2, cores(4, 100.0)), (3, cores(4, 100.0))]);
    assert_eq!(passes(&mut engine, 2.0, vec![alloc(4, cores(8, 10.0))]).0, 1);
}

#[derive(Debug, Clone)]
enum Op {
    /// A job of so many cores, or whole nodes, and seconds is submitted, with a priority; 0 seconds is no limit.
    Come(u32, bool, u16, u32),
    Change(Change),
    InstanceEnd(u16),
    /// The engine resumes from a checkpoint.
    Resume,
    Swap,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (1..=8u32, prop::bool::weighted(0.1), 1..90u16, prop_oneof![9 => Just(16u32), 1 => 15..18u32])
            .prop_map(|(n, nodes, seconds, priority)| Op::Come(n, nodes, seconds, priority)),
        1 => (1..=8u32).prop_map(|n| Op::Come(n, false, 0, 16)),
        3 => (0..20usize).prop_map(|n| Op::Change(Change::End(n))),
        1 => (0..20usize).prop_map(|n| Op::Change(Change::Cancel(n))),
        1 => (0..20usize, 1..31u32).prop_map(|(at, priority)| Op::Change(Change::Prioritize(at, priority))),
        1 => (0..4u32, prop::bool::weighted(0.8)).prop_map(|(node, up)| Op::Change(Change::Node(node, up))),
        1 => prop_oneof![Just(0), 50..300u16].prop_map(Op::InstanceEnd),
        4 => (1..9u8).prop_map(|n| Op::Change(Change::Later(n))),
        3 => Just(Op::Change(Change::OnTime)),
        1 => Just(Op::Resume),
        1 => Just(Op::Swap),
    ]
}

fn asking(n: u32, nodes: bool, seconds: u16) -> Arc<Jobspec> {
    if !nodes {
        return cores(n, f64::from(seconds));
    }
    let nodes = 1 + n % 4;
    let duration = f64::from(seconds);
    Arc::new(
        Simple { nodes: Some(nodes), slots: nodes, exclusive: true, duration, ..Simple::default() }.build(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Also after a resume from a checkpoint, which leaves out the same passes.
    #[test]
    fn the_schedule_is_that_of_all_passes(
        depth in 0..4u32,
        shortest: bool,
        ops in prop::collection::vec((op(), prop::bool::weighted(0.9)), 0..120),
    ) {
        let mut sides = [true, true, false].map(|holds| under(depth, shortest, holds));
        let (mut now, mut next, mut specs) = (1.0, 1, BTreeMap::new());
        for (op, pass) in ops {
            let mut events = Vec::new();
            match op {
                Op::Come(n, nodes, seconds, urgency) => {
                    let spec = asking(n, nodes, seconds);
                    specs.insert(JobId(next), Arc::clone(&spec));
                    let mut event = alloc(next, spec);
                    if let Event::Alloc { priority, .. } = &mut event {
                        *priority = urgency;
                    }
                    events.push(event);
                    next += 1;
                }
                Op::Change(change) => events = change.events(&sides[2], &mut now),
                Op::InstanceEnd(0) => events.push(Event::InstanceExpiration(0.0)),
                Op::InstanceEnd(by) => events.push(Event::InstanceExpiration(now + f64::from(by))),
                Op::Resume => {
                    if let Some((checkpoint, _)) = sides[1].checkpoint() {
                        let policy = Box::new(script(depth, shortest, true));
                        let resumed = Engine::resume(
                            &checkpoint, |id| specs.get(&id).cloned(), Some(policy), BTreeMap::new(),
                        );
                        sides[1] = resumed.unwrap();
                    }
                }
                Op::Swap => {
                    for (side, holds) in sides.iter_mut().zip([true, true, false]) {
                        let _ = side.swap(Box::new(script(depth, shortest, holds)));
                    }
                }
            }
            for event in events {
                let [ours, resumed, theirs] = &mut sides;
                let theirs = format!("{:?}", theirs.step(event.clone(), now));
                prop_assert_eq!(format!("{:?}", ours.step(event.clone(), now)), theirs.clone());
                prop_assert_eq!(format!("{:?}", resumed.step(event, now)), theirs);
            }
            if pass {
                let made = sides.each_ref().map(|side| side.stats().passes);
                let told = sides.each_mut().map(|side| started(&side.pass(now)));
                prop_assert_eq!(&told[0], &told[2], "at {}", now);
                prop_assert_eq!(&told[1], &told[2], "at {}", now);
                let made = [0, 1, 2].map(|side: usize| sides[side].stats().passes - made[side]);
                prop_assert_eq!(made[0], made[1], "at {}", now);
                prop_assert!(made[0] <= made[2]);
                let reserved = |of: &Engine| of.resources().reservations().collect::<Vec<_>>();
                prop_assert_eq!(reserved(&sides[0]), reserved(&sides[2]), "at {}", now);
            }
        }
    }
}
