//! An engine that resumes from a checkpoint makes the same decisions as the engine of the checkpoint, byte for byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::{
    Action, Checkpoint, Config, Engine, Event, PendingStates, Policy, Refusal, ResumeError, SavedState,
    WindowKind,
};
use fluxgate_formats::jobspec::Jobspec;
use fluxgate_formats::{Idset, JobId};
use proptest::prelude::*;
use serde_json::json;

use crate::common::*;
use crate::windows::window;

/// EASY with annotations: shortest first, three reservations, then every job that fits. `seen` counts passes, and is
/// saved.
struct Easy {
    seen: u8,
}

impl Policy for Easy {
    fn name(&self) -> &str {
        "easy"
    }
    fn abilities(&self) -> fluxgate_engine::Abilities {
        fluxgate_engine::Abilities {
            ordering: true,
            scheduling: true,
            observing: true,
            state: true,
            ranking: false,
        }
    }
    fn keys(
        &mut self,
        now: f64,
        jobs: &fluxgate_engine::JobColumns,
    ) -> Result<Vec<f64>, fluxgate_engine::PolicyError> {
        // The key depends on the time of the call, so a checkpoint must keep it.
        Ok(jobs.duration.iter().map(|d| (d.min(1e6) * 7.0 + now) % 13.0).collect())
    }
    fn observe(
        &mut self,
        _: f64,
        events: &[fluxgate_engine::JobEvent],
    ) -> Result<(), fluxgate_engine::PolicyError> {
        self.seen = self.seen.wrapping_add(events.len() as u8);
        Ok(())
    }
    fn run(
        &mut self,
        mut pass: Box<fluxgate_engine::Pass>,
    ) -> (Box<fluxgate_engine::Pass>, Result<(), fluxgate_engine::PolicyError>) {
        self.seen = self.seen.wrapping_add(1);
        let mut reservations = 3;
        while let Some(c) = if reservations > 0 { pass.next() } else { pass.next_fitting() } {
            let note = format!("[{c}, {}]", self.seen);
            if let Err(error) = pass.annotate(c, "user.pass", &note) {
                return (pass, Err(error));
            }
            match pass.start(c, None) {
                Ok(Err(Refusal::Busy | Refusal::DelaysReservation)) if reservations > 0 => {
                    reservations -= 1;
                    if let Err(error) = pass.reserve(c) {
                        return (pass, Err(error));
                    }
                }
                Ok(_) => {}
                Err(error) => return (pass, Err(error)),
            }
        }
        pass.wake_at(pass.now() + f64::from(self.seen % 5));
        (pass, Ok(()))
    }
    fn save(&mut self) -> Result<SavedState, fluxgate_engine::PolicyError> {
        Ok(SavedState { from: "easy".to_owned(), version: 1, data: vec![self.seen] })
    }
    fn restore(&mut self, state: &SavedState) -> Result<(), fluxgate_engine::PolicyError> {
        self.seen = state.data[0];
        Ok(())
    }
    fn cost(&self) -> fluxgate_engine::PolicyCost {
        Default::default()
    }
}

#[derive(Debug, Clone)]
enum Op {
    Alloc {
        slots: u32,
        duration: u32,
        queue: bool,
        priority: u32,
        ask: u8,
    },
    Free(usize, bool),
    Cancel(usize),
    Prioritize(usize, u32),
    Down(u32),
    Up(u32),
    Shrink(u32),
    Mark(u32, bool),
    Value(u32, Option<bool>),
    Expiration(usize, u32),
    Pass,
    Cut(u64),
    Wait(u8),
    /// Number, seconds from now, seconds, ranks by bit, for a queue or for maintenance.
    Window(u8, u8, u8, u8, bool),
    NoWindow(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1u32..9, 0u32..20, any::<bool>(), 1u32..40, 0u8..20)
            .prop_map(|(slots, duration, queue, priority, ask)| Op::Alloc { slots, duration, queue, priority, ask }),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(n, whole)| Op::Free(n, whole)),
        1 => any::<usize>().prop_map(Op::Cancel),
        1 => (any::<usize>(), 1u32..40).prop_map(|(n, p)| Op::Prioritize(n, p)),
        1 => (0u32..4).prop_map(Op::Down),
        1 => (0u32..4).prop_map(Op::Up),
        1 => (3u32..4).prop_map(Op::Shrink),
        1 => (0u32..4, any::<bool>()).prop_map(|(n, up)| Op::Mark(n, up)),
        1 => (0u32..4, any::<Option<bool>>()).prop_map(|(n, value)| Op::Value(n, value)),
        1 => (any::<usize>(), 0u32..50).prop_map(|(n, t)| Op::Expiration(n, t)),
        6 => Just(Op::Pass),
        2 => (1u64..12).prop_map(Op::Cut),
        3 => (0u8..10).prop_map(Op::Wait),
        1 => (0u8..3, 0u8..20, 1u8..20, 1u8..16, any::<bool>())
            .prop_map(|(n, after, long, on, queue)| Op::Window(n, after, long, on, queue)),
        1 => (0u8..3).prop_map(Op::NoWindow),
    ]
}

/// Cores on any nodes. In half of the cases on some ranks only, or on exclusive nodes, so that counts alone do not
/// determine what a reservation takes.
fn asking(how: u8, slots: u32, duration: f64, queue: &str) -> Arc<Jobspec> {
    let mut spec = (*queued(slots, duration, queue)).clone();
    match how {
        0..5 => {
            let ranks = ["0-1", "1-2", "2-3", "1,3", "0"][usize::from(how)];
            spec.set_system_attr("constraints", json!({"ranks": [ranks]})).unwrap();
        }
        5 => spec.set_system_attr("constraints", json!({"properties": ["^bad"]})).unwrap(),
        6..10 => spec.set_system_attr("fluxgate.placement", json!("lonodex")).unwrap(),
        _ => {}
    }
    Arc::new(spec)
}

struct World {
    engine: Engine,
    specs: BTreeMap<JobId, Arc<Jobspec>>,
    now: f64,
    next: u64,
}

fn nth(ids: &[JobId], n: usize) -> Option<JobId> {
    (!ids.is_empty()).then(|| ids[n % ids.len()])
}

impl World {
    fn step(&mut self, event: Event) -> Vec<Action> {
        let mut out = self.engine.step(event, self.now);
        self.commit(&mut out);
        out
    }

    fn commit(&mut self, out: &mut Vec<Action>) {
        let ids: Vec<u64> = started(out);
        // Every second start is committed; the others are in flight.
        for id in ids.into_iter().filter(|id| id % 2 == 0) {
            out.extend(self.engine.step(Event::Committed { id: JobId(id) }, self.now));
        }
    }

    fn run(&mut self, op: &Op) -> Vec<Action> {
        let running: Vec<JobId> = self.engine.running_ids().collect();
        let pending: Vec<JobId> = self.engine.pending_ids().collect();
        let event = match op {
            Op::Alloc { slots, duration, queue, priority, ask } => {
                self.next += 1;
                let spec = asking(*ask, *slots, f64::from(*duration), if *queue { "debug" } else { "batch" });
                let id = JobId(self.next);
                self.specs.insert(id, spec.clone());
                Event::Alloc { id, priority: *priority, userid: 7, t_submit: self.now, jobspec: spec }
            }
            Op::Free(n, whole) => {
                let Some(id) = nth(&running, *n) else { return Vec::new() };
                let ranks = (!whole).then(|| Idset::from_iter([(*n % 4) as u32]));
                Event::Free { id, ranks, last: *whole }
            }
            Op::Cancel(n) => {
                let Some(id) = nth(&pending, *n) else { return Vec::new() };
                Event::Cancel { id }
            }
            Op::Prioritize(n, priority) => {
                let Some(id) = nth(&pending, *n) else { return Vec::new() };
                Event::Prioritize { jobs: vec![(id, *priority)] }
            }
            Op::Down(rank) => Event::Down(Idset::from_iter([*rank])),
            Op::Up(rank) => Event::Up(Idset::from_iter([*rank])),
            Op::Shrink(rank) => Event::Shrink(Idset::from_iter([*rank])),
            Op::Mark(node, up) => Event::VertexStatus { paths: vec![format!("/cluster0/n{node}")], up: *up },
            Op::Value(node, value) => Event::VertexProperty {
                paths: vec![format!("/cluster0/n{node}")],
                key: "bad".to_owned(),
                value: value.map(|value| value.to_string()),
            },
            Op::Expiration(n, t) => {
                let Some(id) = nth(&running, *n) else { return Vec::new() };
                Event::Expiration { id, expiration: self.now + f64::from(*t), token: 1 }
            }
            Op::Wait(seconds) => {
                self.now += f64::from(*seconds);
                return Vec::new();
            }
            Op::Window(n, after, long, on, queue) => {
                let start = self.now + f64::from(*after);
                let ranks = (0..4).filter(|rank| on >> rank & 1 == 1).collect();
                let mut made = window(&format!("w{n}"), (start, start + f64::from(*long)), ranks);
                if *queue {
                    made.kind = WindowKind::Dedicated;
                    made.members.queues.insert("debug".to_owned());
                }
                match on % 4 {
                    1 if *queue => made.release_when_idle = Some(5.0),
                    2 => made.fill = true,
                    3 if !*queue => made.float = Some(20.0),
                    _ => {}
                }
                Event::PutWindow(Box::new(made))
            }
            Op::NoWindow(n) => Event::RemoveWindow { name: format!("w{n}") },
            Op::Pass | Op::Cut(_) => {
                if let Op::Cut(look) = op {
                    self.engine.interrupt_at(Some(*look));
                }
                let mut out = self.engine.pass(self.now);
                self.commit(&mut out);
                return out;
            }
        };
        self.step(event)
    }
}

proptest! {
    #[test]
    fn it_goes_on_as_the_other_does(
        before in prop::collection::vec(op(), 0..60),
        after in prop::collection::vec(op(), 1..40),
        builtin in any::<bool>(),
        annotate_reason in any::<bool>(),
    ) {
        let mut engine = engine(4, 4);
        engine.reconfigure(Config { annotate_reason, ..Config::default() });
        if !builtin {
            engine.swap(Box::new(Easy { seen: 0 })).unwrap();
        }
        engine.pass(0.0);
        let mut one = World { engine, specs: BTreeMap::new(), now: 1.0, next: 0 };
        for op in &before {
            one.run(op);
        }
        let checkpoint = one.engine.checkpoint().unwrap().0;
        let policy: Option<Box<dyn Policy>> = if builtin { None } else { Some(Box::new(Easy { seen: 99 })) };
        let engine = Engine::resume(&checkpoint, |id| one.specs.get(&id).cloned(), policy, BTreeMap::new()).unwrap();
        let mut other = World { engine, specs: one.specs.clone(), now: one.now, next: one.next };
        prop_assert_eq!(&other.engine.checkpoint().unwrap().0, &checkpoint);
        let text = serde_json::to_string(&checkpoint).unwrap();
        for op in &after {
            let (a, b) = (one.run(op), other.run(op));
            prop_assert_eq!(format!("{a:?}"), format!("{b:?}"), "{:?}", op);
            if matches!(op, Op::Pass | Op::Cut(_)) {
                prop_assert_eq!(one.engine.interrupted_at(), other.engine.interrupted_at());
            }
        }
        prop_assert_eq!(one.engine.checkpoint().unwrap().0, other.engine.checkpoint().unwrap().0);
        // It shares the table of jobs with the engine, and stays what it was.
        prop_assert_eq!(serde_json::to_string(&checkpoint).unwrap(), text);
    }
}

proptest! {
    /// Explanations and forecasts change no state: the same jobs start on the same resources with and without them.
    #[test]
    fn a_question_steers_nothing(ops in prop::collection::vec(op(), 1..80), builtin in any::<bool>()) {
        let world = || {
            let mut engine = engine(4, 4);
            if !builtin {
                engine.swap(Box::new(Easy { seen: 0 })).unwrap();
            }
            engine.pass(0.0);
            World { engine, specs: BTreeMap::new(), now: 1.0, next: 0 }
        };
        let (mut one, mut other) = (world(), world());
        for op in &ops {
            let (a, b) = (one.run(op), other.run(op));
            prop_assert_eq!(format!("{a:?}"), format!("{b:?}"), "{:?}", op);
            for id in other.engine.pending_ids() {
                other.engine.explain(id, other.now).unwrap();
            }
            other.engine.forecast_base(other.now, 9).forecast(other.now);
        }
    }
}

fn of_one_job() -> Checkpoint {
    let mut engine = engine(1, 1);
    submit(&mut engine, 1.0, vec![(1, cores(1, 5.0)), (2, cores(1, 5.0))]);
    engine.checkpoint().unwrap().0
}

/// An earlier version had a class for each duration and each number of cores.
#[test]
fn a_checkpoint_with_more_classes_goes_on() {
    let mut engine = engine(1, 4);
    let wide = |id: u64| cores(4, 10.0 * id as f64);
    submit(&mut engine, 1.0, (1..=5).map(|id| (id, wide(id))).collect());
    let mut text = serde_json::to_value(engine.checkpoint().unwrap().0).unwrap();
    for (class, job) in text["pending"].as_array_mut().unwrap().iter_mut().enumerate() {
        job["class"] = class.into();
    }
    text["queues"][0]["classes"] = 4.into();
    text["queues"][0]["parked"] = serde_json::json!([[0, false], [2, false]]);
    let old: Checkpoint = serde_json::from_value(text).unwrap();
    let mut engine = Engine::resume(&old, |id| Some(wide(id.0)), None, BTreeMap::new()).unwrap();
    for id in 1..=4 {
        engine.step(free(id), 2.0);
        assert_eq!(started(&engine.pass(2.0)), [id + 1]);
        let now = engine.checkpoint().unwrap().0;
        Engine::resume(&now, |id| Some(wide(id.0)), None, BTreeMap::new()).unwrap();
    }
}

#[test]
fn what_does_not_fit_in_is_named() {
    let good = of_one_job();
    assert_eq!((good.running.len(), good.pending.len()), (1, 1));
    let resume = |checkpoint: &Checkpoint, spec: Option<Arc<Jobspec>>| {
        Engine::resume(checkpoint, |_| spec.clone(), None, BTreeMap::new()).err().map(|e| e.to_string())
    };
    assert_eq!(resume(&good, Some(cores(1, 5.0))), None);
    assert_eq!(resume(&good, None).unwrap(), "checkpoint: job ƒ3: its jobspec is missing");
    let mut twice = good.clone();
    twice.running.extend(good.running.clone());
    assert!(resume(&twice, Some(cores(1, 5.0))).unwrap().starts_with("checkpoint: job ƒ2: "));
    let mut lost = good.clone();
    lost.pending = PendingStates::default();
    assert_eq!(
        Engine::resume(&lost, |_| None, None, BTreeMap::new()).err(),
        Some(ResumeError::Numbers("places are neither taken nor vacant"))
    );
}

#[test]
fn there_is_none_while_a_swap_is_on_its_way() {
    let mut engine = engine(1, 1);
    engine.swap(Box::new(Easy { seen: 0 })).unwrap();
    assert!(engine.checkpoint().is_none());
    engine.pass(1.0);
    assert!(engine.checkpoint().is_some());
}

#[test]
fn a_policy_that_cannot_save_has_failed() {
    let mut engine = engine(1, 1);
    let error = fluxgate_engine::PolicyError::Trap { during: "state.save", message: "no".to_owned() };
    let script = Script { state: Some(Err(error)), ..Script::named("broken") };
    engine.swap(Box::new(script)).unwrap();
    engine.pass(1.0);
    let (checkpoint, actions) = engine.checkpoint().unwrap();
    assert_eq!((checkpoint.policy, actions.len(), engine.policy_name()), (None, 1, "builtin-fcfs"));
}
