//! Passes of a policy that asks nothing but the same in each pass: they are asked for without a call.

use fluxgate_engine::{Engine, Event};
use fluxgate_formats::JobId;

use crate::passes::{alloc, importing, in_charge, told};

const MANY: &str = r#"
  (import "fluxgate:policy/many@0.1.0" "backfill" (func $backfill (param i32 i32 i32) (result i32)))
"#;

/// The pass as one question, with `holds` or without.
const HOLDS: &str = "(drop (call $backfill (i32.const 1) (i32.const 64) (i32.const 1)))";
const PLAIN: &str = "(drop (call $backfill (i32.const 1) (i32.const 64) (i32.const 0)))";

fn under(run: &str) -> Engine {
    in_charge(importing("many", "import fluxgate:policy/many@0.1.0;", MANY, run, ""))
}

/// The calls that a pass takes at this time, and what it decides.
fn pass(engine: &mut Engine, now: f64) -> (u64, Vec<String>) {
    let before = engine.policy_cost().calls;
    let decided = told(&engine.pass(now));
    (engine.policy_cost().calls - before, decided)
}

fn ends(engine: &mut Engine, id: u64, now: f64) {
    engine.step(Event::Free { id: JobId(id), ranks: None, last: true }, now);
}

#[test]
fn a_pass_is_a_call_until_the_policy_has_said_that_it_asks_the_same() {
    let mut engine = under(HOLDS);
    let submit = |engine: &mut Engine, id, nodes, now| drop(engine.step(alloc(id, nodes, 100.0), now));
    submit(&mut engine, 1, 1, 1.0);
    assert_eq!(pass(&mut engine, 1.0), (1, vec!["start 1 on 0".to_owned()]), "it asks for the first time");
    submit(&mut engine, 2, 1, 2.0);
    assert_eq!(pass(&mut engine, 2.0), (0, vec!["start 2 on 1".to_owned()]));
    // No pass is required by an end while no job waits.
    ends(&mut engine, 1, 3.0);
    submit(&mut engine, 3, 4, 4.0);
    assert_eq!(pass(&mut engine, 4.0), (0, vec![]), "it waits, with a reservation");
    submit(&mut engine, 4, 1, 5.0);
    assert_eq!(pass(&mut engine, 5.0), (0, vec![]), "it would delay that reservation");
    ends(&mut engine, 2, 6.0);
    assert_eq!(pass(&mut engine, 6.0), (0, vec!["start 3 on 0-3".to_owned()]), "an end requires this pass");
    engine.step(Event::Prioritize { jobs: vec![(JobId(4), 20)] }, 7.0);
    assert_eq!(pass(&mut engine, 7.0).0, 0, "a priority requires this pass");
    submit(&mut engine, 5, 1, 8.0);
    engine.step(Event::Cancel { id: JobId(4) }, 8.0);
    assert_eq!(pass(&mut engine, 8.0).0, 0, "a job that left requires this pass");
}

/// Numbers below `below`, from a linear congruential generator.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

#[test]
fn decisions_are_those_of_a_policy_that_is_called_for_each_pass() {
    let more = format!("{HOLDS} (drop (call $now))");
    let less = format!("(drop (call $now)) {HOLDS}");
    let mut engines = [HOLDS, PLAIN, &more, &less].map(under);
    let start = engines.each_ref().map(|engine| engine.policy_cost().calls);
    let (mut state, mut next, mut passes) = (3, 1, 0);
    for step in 0..2000 {
        let now = 10.0 + f64::from(step);
        let running: Vec<JobId> = engines[0].running_ids().collect();
        let what = random(&mut state, 10);
        let (nodes, duration) = (1 + random(&mut state, 4), 1 + random(&mut state, 300));
        let which = random(&mut state, running.len().max(1) as u64) as usize;
        for engine in &mut engines {
            match what {
                0..4 => drop(engine.step(alloc(next, nodes, duration as f64), now)),
                4 => drop(engine.step(Event::Cancel { id: JobId(next / 2) }, now)),
                _ => running.get(which).into_iter().for_each(|id| ends(engine, id.0, now)),
            }
        }
        next += u64::from(what < 4);
        passes += u64::from(engines[1].needs_pass(now));
        let decided = engines.each_mut().map(|engine| told(&engine.pass(now)));
        assert!(decided.iter().all(|other| *other == decided[0]), "{step}: {decided:?}");
    }
    let calls = engines.each_ref().map(|engine| engine.policy_cost().calls);
    let [repeats, plain, more, less]: [u64; 4] = std::array::from_fn(|at| calls[at] - start[at]);
    assert_eq!((plain, more, less), (passes, passes, passes), "each pass is a call");
    assert!(passes > 500 && repeats == 1, "{repeats} calls for {passes} passes");
}
