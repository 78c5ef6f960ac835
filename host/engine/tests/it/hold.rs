//! Failing closed: after a breach no job starts, running jobs stay, and waiting jobs are annotated with the reason.

use fluxgate_engine::{Action, BUILTIN, Config, Engine, Event, OnBreach};
use fluxgate_formats::JobId;
use proptest::prelude::*;

use crate::common::*;

fn closed(nodes: u32, cores: u32) -> Engine {
    Engine::new(machine(nodes, cores), Config { on_breach: OnBreach::Suspend, ..Config::default() })
}

fn reasons(actions: &[Action]) -> Vec<(u64, String)> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Annotate { id, annotations } => {
                Some((id.0, annotations["sched"]["reason_pending"].as_str()?.to_owned()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn nothing_starts_until_another_policy_decides() {
    let mut engine = closed(1, 4);
    install(&mut engine, Script::named("good").run(fcfs), 0.0);
    assert_eq!(started(&submit(&mut engine, 0.0, vec![(1, cores(1, 9.0))])), [1]);
    install(&mut engine, Script::named("bad").run(|_| Err(trap())), 1.0);
    let out = submit(&mut engine, 1.0, vec![(2, cores(1, 9.0)), (3, cores(1, 9.0))]);
    assert_eq!(started(&out), [0u64; 0], "fail closed");
    assert_eq!(engine.suspended_by(), Some("bad"));
    assert_eq!((engine.running(), engine.pending()), (1, 2), "what runs stays");
    let told = reasons(&out);
    assert_eq!(told.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 3]);
    assert!(told.iter().all(|(_, why)| why.contains("policy bad failed")), "{told:?}");
    let why = engine.explain(JobId(3), 2.0).unwrap();
    assert!(said(&why).contains("nothing starts: policy bad failed"), "{}", said(&why));

    // Events are still processed, without further cost.
    engine.step(free(1), 2.0);
    assert_eq!(started(&engine.pass(2.0)), [0u64; 0]);
    assert!(!engine.needs_pass(2.0));
    assert!(engine.stats().suspended_passes >= 2);
    assert_eq!(engine.stats().builtin_passes, 0);

    let out = install(&mut engine, Script::named("next").run(fcfs), 3.0);
    let more = engine.pass(3.0);
    assert_eq!([started(&out), started(&more)].concat(), [2, 3]);
    assert_eq!(engine.suspended_by(), None);
}

#[test]
fn those_who_go_on_waiting_are_told_the_new_reason() {
    let mut engine = closed(1, 1);
    install(&mut engine, Script::named("bad").run(|_| Err(trap())), 0.0);
    submit(&mut engine, 1.0, vec![(1, cores(1, 9.0)), (2, cores(1, 9.0)), (3, cores(1, 9.0))]);
    let mut out = install(&mut engine, Script::named("next").run(fcfs), 2.0);
    out.extend(engine.pass(2.0));
    assert_eq!(started(&out), [1]);
    let told = reasons(&out);
    for id in [2, 3] {
        let (_, why) = told.iter().rfind(|(told, _)| *told == id).expect("it is told anew");
        assert!(!why.contains("failed"), "{why}");
    }
}

#[test]
fn opening_by_configuration_lets_the_builtin_decide() {
    let mut engine = closed(1, 1);
    install(&mut engine, Script::named("bad").run(|_| Err(trap())), 0.0);
    submit(&mut engine, 1.0, vec![(1, cores(1, 9.0))]);
    assert_eq!(engine.running(), 0);
    engine.reconfigure(Config::default());
    assert_eq!(started(&engine.pass(2.0)), [1]);
    assert_eq!((engine.policy_name(), engine.suspended_by()), (BUILTIN, None));
}

#[test]
fn a_swap_can_be_given_up() {
    let config = Config { warm_up_per_step: 1, ..Config::default() };
    let mut engine = Engine::new(machine(1, 1), config);
    install(&mut engine, Script::named("good").run(fcfs), 0.0);
    submit(&mut engine, 0.0, (1..5).map(|id| (id, cores(1, 9.0))).collect());
    engine.swap(Box::new(Script::named("slow").run(fcfs))).unwrap();
    engine.pass(1.0);
    assert_eq!(engine.abandon_swap().as_deref(), Some("slow"));
    assert_eq!((engine.abandon_swap(), engine.swap_state()), (None, None));
    engine.step(free(1), 2.0);
    assert_eq!(started(&engine.pass(2.0)), [2]);
    assert_eq!(engine.policy_name(), "good");
    assert!(!engine.take_retired().is_empty());
}

#[derive(Debug, Clone)]
enum Step {
    Submit(u32),
    Free,
    Cancel,
    Break,
    Mend,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u32..4).prop_map(Step::Submit),
        3 => Just(Step::Free),
        1 => Just(Step::Cancel),
        1 => Just(Step::Break),
        1 => Just(Step::Mend),
    ]
}

proptest! {
    /// For any events: no job starts during a suspension, and no job is lost.
    #[test]
    fn held_means_that_nothing_starts_and_nothing_is_lost(steps in prop::collection::vec(step(), 1..60)) {
        let mut engine = closed(2, 4);
        install(&mut engine, Script::named("good").run(fcfs), 0.0);
        let (mut next, mut gone) = (1u64, 0usize);
        for (i, step) in steps.into_iter().enumerate() {
            let now = 1.0 + i as f64;
            match step {
                Step::Submit(cpus) => {
                    engine.step(alloc(next, cores(cpus, 60.0)), now);
                    next += 1;
                }
                Step::Free => {
                    let first = engine.running_ids().next();
                    if let Some(id) = first {
                        engine.step(free(id.0), now);
                        gone += 1;
                    }
                }
                Step::Cancel => {
                    let last = engine.pending_ids().last();
                    if let Some(id) = last {
                        engine.step(Event::Cancel { id }, now);
                        gone += 1;
                    }
                }
                Step::Break => { install(&mut engine, Script::named("bad").run(|_| Err(trap())), now); }
                Step::Mend => { install(&mut engine, Script::named("good").run(fcfs), now); }
            }
            let before = engine.stats().starts;
            let out = engine.pass(now);
            if engine.suspended_by().is_some() {
                prop_assert_eq!(started(&out).len(), 0);
                prop_assert_eq!(engine.stats().starts, before);
            }
            prop_assert_eq!(engine.running() + engine.pending() + gone, (next - 1) as usize);
        }
    }
}
