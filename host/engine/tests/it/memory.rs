//! Learned states of policies: saved between passes, and offered to successors of the built-in policy.

use std::sync::{Arc, Mutex};

use fluxgate_engine::{
    Abilities, Action, BUILTIN, Engine, JobColumns, JobEvent, Pass, Policy, PolicyCost, PolicyError,
    PolicyNotice, SavedState, SwapError,
};

use crate::common;
use crate::common::*;

/// Learns a number and records the state that it was offered; `Err` is its refusal of a state.
struct Learned {
    name: &'static str,
    number: Result<u8, PolicyError>,
    answer: Result<(), PolicyError>,
    offered: Arc<Mutex<Vec<SavedState>>>,
}

impl Policy for Learned {
    fn name(&self) -> &str {
        self.name
    }
    fn abilities(&self) -> Abilities {
        Abilities { state: true, ..Abilities::default() }
    }
    fn keys(&mut self, _: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        Ok(vec![0.0; jobs.len()])
    }
    fn observe(&mut self, _: f64, _: &[JobEvent]) -> Result<(), PolicyError> {
        Ok(())
    }
    fn run(&mut self, pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        (pass, Ok(()))
    }
    fn save(&mut self) -> Result<SavedState, PolicyError> {
        let data = vec![self.number.clone()?];
        Ok(SavedState { from: self.name.to_owned(), version: 1, data })
    }
    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        self.offered.lock().unwrap().push(state.clone());
        self.answer.clone()
    }
    fn cost(&self) -> PolicyCost {
        PolicyCost::default()
    }
}

fn learned(name: &'static str, number: u8) -> Box<Learned> {
    Box::new(Learned { name, number: Ok(number), answer: Ok(()), offered: Arc::default() })
}

fn state(number: u8) -> SavedState {
    SavedState { from: "before".to_owned(), version: 1, data: vec![number] }
}

fn notices(actions: &[Action]) -> Vec<PolicyNotice> {
    let notice = |action: &Action| match action {
        Action::Notice(notice) => Some(notice.clone()),
        _ => None,
    };
    actions.iter().filter_map(notice).collect()
}

fn take_over(engine: &mut Engine) -> Vec<(String, bool)> {
    let notices = notices(&engine.finish_swaps(0.0));
    let swapped = notices.into_iter().filter_map(|notice| match notice {
        PolicyNotice::Swapped { to, state, .. } => Some((to, state)),
        _ => None,
    });
    swapped.collect()
}

#[test]
fn a_state_is_offered_to_the_next_successor_of_the_builtin_policy_only() {
    let mut engine = engine(1, 1);
    engine.offer(state(7));
    let first = learned("first", 1);
    let offered = Arc::clone(&first.offered);
    engine.swap(first).unwrap();
    assert_eq!(take_over(&mut engine), [("first".to_owned(), true)]);
    assert_eq!(*offered.lock().unwrap(), [state(7)]);
    // The active policy hands over its own state; the offered state is dropped.
    engine.offer(state(8));
    let second = learned("second", 2);
    let offered = Arc::clone(&second.offered);
    engine.swap(second).unwrap();
    assert_eq!(take_over(&mut engine), [("second".to_owned(), true)]);
    assert_eq!(offered.lock().unwrap()[0].data, [1]);
    engine.swap(learned("third", 3)).unwrap();
    assert_eq!(take_over(&mut engine), [("third".to_owned(), true)], "with the state of the second");
}

#[test]
fn a_queue_has_its_own_again_and_not_that_of_the_default_policy() {
    let mut engine = engine(1, 1);
    engine.swap(learned("default", 1)).unwrap();
    engine.finish_swaps(0.0);
    let offered = |engine: &mut Engine| {
        let own = learned("own", 2);
        let offered = Arc::clone(&own.offered);
        engine.swap_queue("debug", own).unwrap();
        engine.finish_swaps(0.0);
        offered.lock().unwrap().clone()
    };
    engine.offer(state(7));
    assert_eq!(offered(&mut engine), [state(7)]);
    // The active policy can now save a state.
    engine.offer(state(8));
    assert_eq!(offered(&mut engine)[0].data, [2]);
    engine.give_back("debug").unwrap();
    engine.finish_swaps(0.0);
    assert_eq!(
        offered(&mut engine)[0].data,
        [1],
        "without anything kept it inherits from the default policy"
    );
}

#[test]
fn it_may_be_refused_and_is_no_accident() {
    let mut engine = engine(1, 1);
    let refuses = |error: PolicyError| Box::new(Learned { answer: Err(error), ..*learned("heir", 0) });
    engine.offer(state(7));
    let refused = PolicyError::Refused { during: "state.restore", message: "too old".to_owned() };
    engine.swap(refuses(refused)).unwrap();
    assert_eq!(take_over(&mut engine), [("heir".to_owned(), false)], "it starts cold, by its own choice");
    let mut engine = common::engine(1, 1);
    engine.offer(state(7));
    assert!(matches!(engine.swap(refuses(trap())), Err(SwapError::Failed { .. })));
    assert_eq!(engine.policy_name(), BUILTIN);
    // A policy without the ability is not asked.
    engine.offer(state(7));
    engine.swap(Box::new(Script::named("plain").run(fcfs))).unwrap();
    assert_eq!(take_over(&mut engine), [("plain".to_owned(), false)]);
}

#[test]
fn all_that_decide_are_asked_and_one_that_fails_has_failed() {
    let mut engine = engine(1, 1);
    assert_eq!(engine.policy_states(1.0).0, []);
    install(&mut engine, Script::named("plain").run(fcfs), 0.0);
    assert!(!engine.has_policy_state());
    engine.swap_queue("a", learned("own", 3)).unwrap();
    let mute = Learned { number: Err(trap()), ..*learned("mute", 0) };
    engine.swap_queue("b", Box::new(mute)).unwrap();
    engine.finish_swaps(0.0);
    assert!(engine.has_policy_state());
    let (states, out) = engine.policy_states(1.0);
    let own = SavedState { from: "own".to_owned(), version: 1, data: vec![3] };
    assert_eq!(states, [(Some("a".to_owned()), own)]);
    let failed = PolicyNotice::Failed { name: "mute".to_owned(), error: trap() };
    assert_eq!(notices(&out), [PolicyNotice::Queue { queue: "b".to_owned(), notice: Box::new(failed) }]);
    assert_eq!(engine.queue_policy("b"), Some(BUILTIN));
}
