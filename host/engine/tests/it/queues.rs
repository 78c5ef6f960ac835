//! Queues with policies of their own: each policy decides its queue alone, and is swapped and fails independently.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fluxgate_engine::{
    Action, BUILTIN, Config, Engine, Event, JobEventKind, OnBreach, PolicyError, PolicyNotice, SwapError,
};
use fluxgate_formats::jobspec::Jobspec;
use fluxgate_formats::{Idset, JobId};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::*;

/// Shortest first, EASY.
fn short() -> Script {
    Script::named("short").keys(|rows| Ok(rows.duration.clone())).run(easy)
}

/// Last come, first served.
fn lifo() -> Script {
    Script::named("lifo").keys(|rows| Ok(rows.id.iter().map(|id| -(id.0 as f64)).collect())).run(fcfs)
}

/// Gives a queue a policy of its own, and completes the swap.
fn set_queue_policy(engine: &mut Engine, queue: &str, policy: Script, now: f64) -> Vec<Action> {
    let mut out = engine.swap_queue(queue, Box::new(policy)).unwrap();
    settle(engine, now, &mut out);
    out
}

fn settle(engine: &mut Engine, now: f64, out: &mut Vec<Action>) {
    while engine.is_swapping() {
        out.extend(engine.pass(now));
    }
}

/// A job of a queue with an exclusive node.
fn apart(slots: u32, duration: f64, queue: &str) -> Arc<Jobspec> {
    let mut spec = (*queued(slots, duration, queue)).clone();
    let rank = if queue == "a" { "0" } else { "1" };
    spec.set_system_attr("constraints", json!({"ranks": [rank]})).unwrap();
    Arc::new(spec)
}

fn job_of(action: &Action) -> Option<JobId> {
    match action {
        Action::Start { id, .. }
        | Action::Annotate { id, .. }
        | Action::Deny { id, .. }
        | Action::Canceled { id } => Some(*id),
        _ => None,
    }
}

/// The decisions and annotations about the jobs of a queue, byte for byte. Jobs of `a` have odd numbers. The reason
/// for which a job waits is left out: it is a by-product of searches, which resources that are free elsewhere can
/// make unnecessary.
fn said(actions: &[Action], queue: &str) -> String {
    let odd = u64::from(queue == "a");
    let mine = actions.iter().filter(|action| job_of(action).is_some_and(|id| id.0 % 2 == odd));
    let told = mine.filter_map(|action| {
        let mut action = action.clone();
        if let Action::Annotate { annotations, .. } | Action::Start { annotations, .. } = &mut action
            && let Some(Value::Object(notes)) = annotations.get_mut("sched")
        {
            notes.shift_remove("reason_pending");
            if notes.is_empty() && matches!(action, Action::Annotate { .. }) {
                return None;
            }
        }
        Some(format!("{action:?}\n"))
    });
    told.collect()
}

fn notices(actions: &[Action]) -> Vec<PolicyNotice> {
    let notice = |action: &Action| match action {
        Action::Notice(notice) => Some(notice.clone()),
        _ => None,
    };
    actions.iter().filter_map(notice).collect()
}

#[derive(Debug, Clone)]
enum Op {
    Submit(bool, u32, u32),
    Free(bool, usize),
    Cancel(bool, usize),
    Priority(bool, usize, u32),
    /// Another policy for `b`: one that works, one that fails in a pass, one that fails in its warm-up, or the
    /// default one.
    Change(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (any::<bool>(), 1u32..7, 1u32..9).prop_map(|(a, slots, t)| Op::Submit(a, slots, t * 1000)),
        4 => (any::<bool>(), any::<usize>()).prop_map(|(a, n)| Op::Free(a, n)),
        1 => (any::<bool>(), any::<usize>()).prop_map(|(a, n)| Op::Cancel(a, n)),
        1 => (any::<bool>(), any::<usize>(), 1u32..40).prop_map(|(a, n, p)| Op::Priority(a, n, p)),
        1 => (0u8..5).prop_map(Op::Change),
    ]
}

/// An engine that gets the jobs of one queue or of both.
struct World {
    engine: Engine,
    a: bool,
    b: bool,
    /// Makes a jobspec from slots, seconds and queue.
    spec: fn(u32, f64, &str) -> Arc<Jobspec>,
}

impl World {
    fn has(&self, a: bool) -> bool {
        if a { self.a } else { self.b }
    }

    fn of(&self, a: bool, ids: impl Iterator<Item = JobId>, n: usize) -> Option<JobId> {
        let mine: Vec<JobId> = ids.filter(|id| (id.0 % 2 == 1) == a).collect();
        (!mine.is_empty()).then(|| mine[n % mine.len()])
    }

    fn run(&mut self, op: &Op, number: u64, now: f64, changes: bool) -> Vec<Action> {
        let mut out = Vec::new();
        let event = match op {
            Op::Submit(a, slots, t) if self.has(*a) => {
                let queue = if *a { "a" } else { "b" };
                Some(alloc(2 * number + u64::from(*a), (self.spec)(*slots, f64::from(*t), queue)))
            }
            Op::Free(a, n) => self.of(*a, self.engine.running_ids(), *n).map(|id| free(id.0)),
            Op::Cancel(a, n) => self.of(*a, self.engine.pending_ids(), *n).map(|id| Event::Cancel { id }),
            Op::Priority(a, n, priority) => self
                .of(*a, self.engine.pending_ids(), *n)
                .map(|id| Event::Prioritize { jobs: vec![(id, *priority)] }),
            Op::Change(what) if changes => {
                let policy = match what {
                    0 => Some(lifo()),
                    1 => Some(short()),
                    2 => Some(Script::named("bad").run(|_| Err(trap()))),
                    3 => Some(Script::named("late").keys(|_| Err(trap()))),
                    _ => None,
                };
                // Refused while another swap is under way.
                match policy {
                    Some(policy) => {
                        out.extend(self.engine.swap_queue("b", Box::new(policy)).unwrap_or_default())
                    }
                    None => drop(self.engine.give_back("b")),
                }
                None
            }
            _ => None,
        };
        out.extend(event.into_iter().flat_map(|event| self.engine.step(event, now)));
        // An event of the machine: every queue gets its pass.
        out.extend(self.engine.step(Event::Up(Idset::default()), now));
        out.extend(self.engine.pass(now));
        out
    }
}

fn world(a: bool, b: bool) -> World {
    let config = Config { warm_up_per_step: 2, ..Config::default() };
    World { engine: Engine::new(machine(2, 8), config), a, b, spec: apart }
}

proptest! {
    /// Two queues on two nodes, each with its own policy, behave as two schedulers.
    #[test]
    fn two_queues_with_two_policies_are_two_engines(ops in prop::collection::vec(op(), 1..80)) {
        let mut both = world(true, true);
        set_queue_policy(&mut both.engine, "a", short(), 0.0);
        set_queue_policy(&mut both.engine, "b", lifo(), 0.0);
        let (mut one, mut other) = (world(true, false), world(false, true));
        install(&mut one.engine, short(), 0.0);
        install(&mut other.engine, lifo(), 0.0);
        for (i, op) in ops.iter().enumerate() {
            let (number, now) = (i as u64 + 1, 1.0 + i as f64);
            let all = both.run(op, number, now, false);
            prop_assert_eq!(said(&all, "a"), said(&one.run(op, number, now, false), "a"), "{:?}", op);
            prop_assert_eq!(said(&all, "b"), said(&other.run(op, number, now, false), "b"), "{:?}", op);
        }
    }

    /// For any change of the policy of one queue, the other queue's jobs get the same decisions and annotations, byte
    /// for byte; and no job is lost.
    #[test]
    fn a_change_in_one_queue_changes_nothing_in_the_other(ops in prop::collection::vec(op(), 1..80), hold in any::<bool>()) {
        let (mut quiet, mut lively) = (world(true, true), world(true, true));
        for world in [&mut quiet, &mut lively] {
            let on_breach = if hold { OnBreach::Suspend } else { OnBreach::Fallback };
            world.engine.reconfigure(Config { on_breach, ..world.engine.config().clone() });
            set_queue_policy(&mut world.engine, "a", short(), 0.0);
            install(&mut world.engine, lifo(), 0.0);
        }
        for (i, op) in ops.iter().enumerate() {
            let (number, now) = (i as u64 + 1, 1.0 + i as f64);
            let before = lively.engine.running() + lively.engine.pending();
            let (was, is) = (quiet.run(op, number, now, false), lively.run(op, number, now, true));
            prop_assert_eq!(said(&was, "a"), said(&is, "a"), "{:?}", op);
            prop_assert_eq!(lively.engine.queue_policy("a"), Some("short"));
            prop_assert_eq!(lively.engine.policy_name(), "lifo");
            let after = lively.engine.running() + lively.engine.pending();
            match op {
                Op::Submit(..) => prop_assert_eq!(after, before + 1),
                Op::Change(_) | Op::Priority(..) => prop_assert_eq!(after, before),
                _ => prop_assert!(after <= before),
            }
        }
        // All jobs run: under any policy, each is started once.
        let mut out = Vec::new();
        lively.engine.swap_queue("b", Box::new(lifo())).ok();
        settle(&mut lively.engine, 1000.0, &mut out);
        if lively.engine.queue_policy("b").is_some() && lively.engine.queues().any(|d| d.suspended_by.is_some()) {
            set_queue_policy(&mut lively.engine, "b", lifo(), 1000.0);
        }
        let mut rounds = 0;
        while lively.engine.running() + lively.engine.pending() > 0 {
            let first = lively.engine.running_ids().next();
            if let Some(id) = first {
                lively.engine.step(free(id.0), 1000.0);
            }
            lively.engine.pass(1000.0);
            rounds += 1;
            prop_assert!(rounds < 1000, "{:?}", lively.engine.queues().collect::<Vec<_>>());
        }
    }

    /// The engine resumes from a checkpoint with the same policy for each queue.
    #[test]
    fn checkpoints_keep_the_policy_of_each_queue(
        before in prop::collection::vec(op(), 0..50),
        after in prop::collection::vec(op(), 1..30),
    ) {
        let mut first = World { spec: queued, ..world(true, true) };
        install(&mut first.engine, short(), 0.0);
        set_queue_policy(&mut first.engine, "b", lifo(), 0.0);
        let mut specs = BTreeMap::new();
        for (i, op) in before.iter().enumerate() {
            if let Op::Submit(a, slots, t) = op {
                let spec = queued(*slots, f64::from(*t), if *a { "a" } else { "b" });
                specs.insert(JobId(2 * (i as u64 + 1) + u64::from(*a)), spec);
            }
            first.run(op, i as u64 + 1, 1.0 + i as f64, true);
        }
        settle(&mut first.engine, 100.0, &mut Vec::new());
        let (checkpoint, _) = first.engine.checkpoint().unwrap();
        let text = serde_json::to_string(&checkpoint).unwrap();
        prop_assert_eq!(&serde_json::from_str::<fluxgate_engine::Checkpoint>(&text).unwrap(), &checkpoint);
        let make = |name: &str| match name { "short" => short(), "lifo" => lifo(), "late" => Script::named("late").keys(|_| Err(trap())), _ => Script::named("bad").run(|_| Err(trap())) };
        let mut own: BTreeMap<String, Box<dyn fluxgate_engine::Policy>> = BTreeMap::new();
        for state in &checkpoint.own {
            if let Some(policy) = &state.policy {
                own.insert(state.queue.clone(), Box::new(make(&policy.name)));
            }
        }
        let engine = Engine::resume(&checkpoint, |id| specs.get(&id).cloned(), Some(Box::new(short())), own).unwrap();
        let mut again = World { engine, a: true, b: true, spec: queued };
        prop_assert_eq!(&again.engine.checkpoint().unwrap().0, &checkpoint);
        for (i, op) in after.iter().enumerate() {
            let (number, now) = (100 + i as u64, 101.0 + i as f64);
            let (one, other) = (first.run(op, number, now, true), again.run(op, number, now, true));
            prop_assert_eq!(format!("{one:?}"), format!("{other:?}"), "{:?}", op);
        }
        settle(&mut first.engine, 200.0, &mut Vec::new());
        settle(&mut again.engine, 200.0, &mut Vec::new());
        prop_assert_eq!(again.engine.checkpoint().unwrap().0, first.engine.checkpoint().unwrap().0);
    }
}

fn who<'a>(engine: &'a Engine, queue: &str) -> (&'a str, bool, Option<&'a str>) {
    let found = engine.queues().find(|decider| decider.queue == queue).unwrap();
    (found.policy, found.own, found.suspended_by)
}

#[test]
fn a_failure_is_one_queues_own() {
    for on_breach in [OnBreach::Fallback, OnBreach::Suspend] {
        let config = Config { on_breach, ..Config::default() };
        let mut engine = Engine::new(machine(1, 4), config);
        install(&mut engine, short(), 0.0);
        set_queue_policy(&mut engine, "debug", Script::named("bad").run(|_| Err(trap())), 0.0);
        let jobs = vec![(1, queued(1, 9.0, "debug")), (2, queued(1, 9.0, "batch"))];
        let out = submit(&mut engine, 1.0, jobs);
        let failed = PolicyNotice::Failed { name: "bad".to_owned(), error: trap() };
        let failed = PolicyNotice::Queue { queue: "debug".to_owned(), notice: Box::new(failed) };
        assert_eq!(notices(&out), [failed]);
        assert_eq!((engine.policy_name(), engine.suspended_by()), ("short", None));
        assert_eq!(who(&engine, "batch"), ("short", false, None));
        let waiting = engine.explain(JobId(1), 1.0).unwrap();
        if on_breach == OnBreach::Fallback {
            assert_eq!(started(&out), [1, 2], "in the same pass");
            assert_eq!(who(&engine, "debug"), (BUILTIN, true, None));
        } else {
            assert_eq!(started(&out), [2]);
            assert_eq!(who(&engine, "debug"), (BUILTIN, true, Some("bad")));
            assert!(
                crate::common::said(&waiting).contains("policy bad failed"),
                "{}",
                crate::common::said(&waiting)
            );
            let mut out = Vec::new();
            engine.give_back("debug").unwrap();
            settle(&mut engine, 2.0, &mut out);
            out.extend(engine.pass(2.0));
            assert_eq!((started(&out), who(&engine, "debug")), (vec![1], ("short", false, None)));
        }
    }
}

#[test]
fn the_default_policy_fails_without_the_others() {
    let config = Config { on_breach: OnBreach::Suspend, ..Config::default() };
    let mut engine = Engine::new(machine(1, 4), config);
    set_queue_policy(&mut engine, "debug", lifo(), 0.0);
    install(&mut engine, Script::named("bad").run(|_| Err(trap())), 0.0);
    let jobs = vec![(1, queued(1, 9.0, "batch")), (2, queued(1, 9.0, "debug")), (3, queued(1, 9.0, "debug"))];
    assert_eq!(started(&submit(&mut engine, 1.0, jobs)), [3, 2]);
    assert_eq!((who(&engine, "debug"), engine.suspended_by()), (("lifo", true, None), Some("bad")));
    assert_eq!(engine.explain(JobId(1), 1.0).unwrap().policy, BUILTIN);
}

#[test]
fn each_gets_events_of_its_own_jobs_and_of_those_without_a_known_queue() {
    let seen = |name: &str| {
        let events = Arc::new(Mutex::new(Vec::new()));
        (Script { seen: Some(Arc::clone(&events)), ..Script::named(name).run(fcfs) }, events)
    };
    let ((default, all), (own, debug)) = (seen("default"), seen("own"));
    let mut engine = engine(1, 4);
    install(&mut engine, default, 0.0);
    set_queue_policy(&mut engine, "debug", own, 0.0);
    let r = machine(1, 1).to_r_all();
    let hello = Event::Hello {
        id: JobId(9),
        priority: 16,
        userid: 1,
        t_submit: 0.0,
        r: Box::new(r),
        free: Idset::default(),
        queue: None,
    };
    engine.step(hello, 0.5);
    submit(&mut engine, 1.0, vec![(1, queued(1, 9.0, "debug")), (2, queued(1, 9.0, "batch"))]);
    for id in [1, 2, 9] {
        engine.step(free(id), 2.0);
    }
    submit(&mut engine, 2.0, vec![(3, queued(9, 1.0, "debug"))]);
    let told = |events: &Mutex<Vec<fluxgate_engine::JobEvent>>| -> Vec<(u64, JobEventKind)> {
        events.lock().unwrap().iter().map(|event| (event.job.0, event.kind)).collect()
    };
    use JobEventKind::{Ended, Pending, Started};
    assert_eq!(told(&all), [(9, Started), (2, Pending), (2, Started), (2, Ended), (9, Ended)]);
    assert_eq!(told(&debug), [(9, Started), (1, Pending), (1, Started), (1, Ended), (9, Ended)]);
}

#[test]
fn the_state_goes_from_the_one_before_to_the_own_one() {
    let mut engine = engine(1, 4);
    let default = Script { state: Some(Ok(vec![7])), ..Script::named("default").run(fcfs) };
    install(&mut engine, default, 0.0);
    let own = Script { state: Some(Ok(vec![8])), ..Script::named("own").run(fcfs) };
    let got = Arc::clone(&own.restored);
    let out = set_queue_policy(&mut engine, "debug", own, 0.0);
    let swapped = PolicyNotice::Swapped { from: "default".to_owned(), to: "own".to_owned(), state: true };
    assert_eq!(notices(&out), [PolicyNotice::Queue { queue: "debug".to_owned(), notice: Box::new(swapped) }]);
    assert_eq!(got.lock().unwrap()[0].data, [7]);
    let next = Script { state: Some(Ok(vec![9])), ..Script::named("next").run(fcfs) };
    let got = Arc::clone(&next.restored);
    set_queue_policy(&mut engine, "debug", next, 1.0);
    assert_eq!(got.lock().unwrap()[0].data, [8]);
}

/// A queue that returns to the default policy has the order of the default policy.
#[test]
fn a_queue_that_is_given_back_is_in_the_default_policys_order() {
    let config = Config { warm_up_per_step: 2, ..Config::default() };
    let mut engine = Engine::new(machine(1, 1), config);
    install(&mut engine, lifo(), 0.0);
    set_queue_policy(&mut engine, "debug", Script::named("own").run(|_| Ok(())), 0.0);
    let jobs = (1..8).map(|id| (id, queued(1, 9.0, if id % 3 == 0 { "batch" } else { "debug" }))).collect();
    assert_eq!(started(&submit(&mut engine, 1.0, jobs)), [6]);
    engine.give_back("debug").unwrap();
    assert_eq!(engine.give_back("debug"), Err(SwapError::InProgress("lifo".to_owned())));
    assert_eq!(engine.swap(Box::new(short())).unwrap_err(), SwapError::InProgress("lifo".to_owned()));
    let mut out = submit(&mut engine, 2.0, vec![(8, queued(1, 9.0, "debug"))]);
    engine.step(Event::Prioritize { jobs: vec![(JobId(4), 20)] }, 2.0);
    settle(&mut engine, 2.0, &mut out);
    let back =
        PolicyNotice::GivenBack { queue: "debug".to_owned(), from: "own".to_owned(), to: "lifo".to_owned() };
    assert_eq!(notices(&out), [back]);
    assert_eq!(engine.queue_policy("debug"), None);
    engine.step(Event::Cancel { id: JobId(3) }, 2.0);
    let mut order = Vec::new();
    let mut running = 6;
    while engine.pending() > 0 {
        engine.step(free(running), 3.0);
        let out = engine.pass(3.0);
        running = started(&out)[0];
        order.push(running);
    }
    assert_eq!(order, [8, 7, 5, 4, 2, 1]);
    assert_eq!(engine.give_back("debug"), Err(SwapError::NotOwn("debug".to_owned())));
    assert_eq!(engine.give_back("nosuch"), Err(SwapError::NotOwn("nosuch".to_owned())));
}

#[test]
fn the_default_policy_may_fail_while_a_queue_comes_back_to_it() {
    let config = Config { warm_up_per_step: 1, ..Config::default() };
    let mut engine = Engine::new(machine(1, 1), config);
    let mut calls = 0;
    let default = Script::named("default").run(fcfs).keys(move |rows| {
        calls += 1;
        if calls > 2 { Err(trap()) } else { Ok(vec![0.0; rows.len()]) }
    });
    install(&mut engine, default, 0.0);
    set_queue_policy(&mut engine, "debug", lifo(), 0.0);
    submit(&mut engine, 1.0, (1..6).map(|id| (id, queued(1, 9.0, "debug"))).collect());
    engine.give_back("debug").unwrap();
    let mut out = Vec::new();
    settle(&mut engine, 2.0, &mut out);
    let told = notices(&out);
    assert!(matches!(&told[0], PolicyNotice::Failed { name, .. } if name == "default"), "{told:?}");
    assert!(matches!(&told[1], PolicyNotice::GivenBack { to, .. } if to == BUILTIN), "{told:?}");
    engine.step(free(5), 3.0);
    assert_eq!(started(&engine.pass(3.0)), [1], "the built-in one decides all");
}

#[test]
fn swaps_of_different_queues_go_on_beside_each_other() {
    let config = Config { warm_up_per_step: 1, ..Config::default() };
    let mut engine = Engine::new(machine(1, 1), config);
    set_queue_policy(&mut engine, "a", lifo(), 0.0);
    submit(&mut engine, 1.0, (1..6).map(|id| (id, queued(1, 9.0, if id < 4 { "a" } else { "b" }))).collect());
    engine.swap_queue("a", Box::new(short())).unwrap();
    let again = engine.swap_queue("a", Box::new(lifo())).unwrap_err();
    assert_eq!(again, SwapError::InProgress("short".to_owned()));
    engine.swap(Box::new(lifo())).unwrap();
    let joining = engine.swap_queue("b", Box::new(short())).unwrap_err();
    assert_eq!(joining, SwapError::InProgress("lifo".to_owned()), "b is decided by the default policy");
    assert_eq!(engine.abandon_queue_swap("a").as_deref(), Some("short"));
    engine.swap_queue("a", Box::new(short())).unwrap();
    let mut out = Vec::new();
    settle(&mut engine, 2.0, &mut out);
    assert_eq!((who(&engine, "a").0, who(&engine, "b").0), ("short", "lifo"));
    engine.swap_queue("b", Box::new(short())).unwrap();
    assert_eq!(engine.swap(Box::new(lifo())).unwrap_err(), SwapError::InProgress("short".to_owned()));
    assert_eq!(engine.abandon_queue_swap("b").as_deref(), Some("short"));
    assert_eq!((engine.abandon_queue_swap("b"), who(&engine, "b")), (None, ("lifo", false, None)));
}

#[test]
fn queues_are_bounded_and_a_successor_that_fails_is_named() {
    let config = Config { queues_max: 1, ..Config::default() };
    let mut engine = Engine::new(machine(1, 1), config);
    set_queue_policy(&mut engine, "a", lifo(), 0.0);
    let full = engine.swap_queue("b", Box::new(lifo())).unwrap_err();
    assert_eq!(full.to_string(), "queue b: more than 1 queues");
    submit(&mut engine, 1.0, vec![(1, queued(1, 9.0, "a")), (2, queued(1, 9.0, "a"))]);
    let nan = Script::named("nan").keys(|rows| Ok(vec![f64::NAN; rows.len()]));
    let out = set_queue_policy(&mut engine, "a", nan, 2.0);
    let [PolicyNotice::Queue { queue, notice }] = &notices(&out)[..] else { panic!("{out:?}") };
    assert_eq!(queue, "a");
    assert!(
        matches!(&**notice, PolicyNotice::SwapFailed { name, error: PolicyError::BadValue { .. } } if name == "nan")
    );
    assert_eq!(who(&engine, "a"), ("lifo", true, None));
}

/// A job of `b` has a reservation, and a job of `a` waits for that alone.
fn reserved_in_the_other() -> Engine {
    let mut engine = engine(1, 4);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    assert_eq!(started(&submit(&mut engine, 0.0, vec![(1, queued(3, 100.0, "a"))])), [1]);
    submit(&mut engine, 0.0, vec![(2, queued(4, 10.0, "b"))]);
    assert_eq!(started(&submit(&mut engine, 0.0, vec![(3, queued(1, 500.0, "a"))])), [0u64; 0]);
    assert!(!engine.needs_pass(1.0));
    engine
}

#[test]
fn a_withdrawn_job_frees_what_was_reserved_for_it_in_every_queue() {
    let mut engine = reserved_in_the_other();
    engine.step(Event::Cancel { id: JobId(2) }, 1.0);
    assert_eq!(started(&engine.pass(1.0)), [3]);
}

#[test]
fn a_reservation_that_is_not_made_anew_is_free_for_every_queue() {
    let mut engine = reserved_in_the_other();
    set_queue_policy(&mut engine, "b", Script::named("fcfs").run(fcfs), 1.0);
    assert!(engine.repeats_pass() && engine.needs_pass(1.0));
    assert_eq!(started(&engine.pass(1.0)), [3]);
    assert!(!engine.repeats_pass() && !engine.needs_pass(1.0));
}
