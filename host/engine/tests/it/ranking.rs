//! The order of nodes that a policy gives: when it is requested, where it applies, and invalid orders.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fluxgate_engine::{Action, Config, Engine, Event, PolicyError, PolicyNotice};
use fluxgate_formats::Idset;
use fluxgate_graph::Placement;

use crate::common::{Script, cores, fcfs, free, machine, started, submit};

fn config() -> Config {
    Config { placement: Placement::Ranked, ..Config::default() }
}

fn ranks(text: &str) -> Idset {
    text.parse().unwrap()
}

/// The rank on which each job of one core starts.
fn places(actions: &[Action]) -> Vec<(u64, String)> {
    let start = |a: &Action| match a {
        Action::Start { id, r, .. } => Some((id.0, r.ranks().to_string())),
        _ => None,
    };
    actions.iter().filter_map(start).collect()
}

/// Ranks nodes by distance from one of them; counts the requests for an order of all nodes.
fn around(name: &str, middle: u32, asked: &Arc<AtomicU32>) -> Script {
    let asked = asked.clone();
    Script::named(name).run(fcfs).scores(move |nodes| {
        asked.fetch_add(1, Ordering::Relaxed);
        Ok(nodes.iter().map(|node| f64::from(node.rank.abs_diff(middle))).collect())
    })
}

#[test]
fn it_is_asked_once_and_again_when_nodes_change() {
    let asked = Arc::new(AtomicU32::new(0));
    let mut engine = Engine::new(machine(6, 1), config());
    assert!(engine.swap(Box::new(around("three", 3, &asked))).is_ok());
    engine.finish_swaps(0.0);
    let mut out = submit(&mut engine, 1.0, (1..=4).map(|id| (id, cores(1, 10.0))).collect());
    let told = |out: &[Action]| places(out).into_iter().map(|(_, rank)| rank).collect::<Vec<_>>();
    assert_eq!(told(&out), ["3", "2", "4", "1"], "equal ones as they come");
    for id in 1..=4 {
        engine.step(free(id), 2.0);
    }
    engine.pass(2.0);
    engine.step(Event::Down(ranks("3")), 2.0);
    engine.pass(2.0);
    assert_eq!(asked.load(Ordering::Relaxed), 1, "passes and nodes that go down change nothing");
    engine.step(Event::PropertyAdd { name: "old".to_owned(), ranks: ranks("2") }, 3.0);
    out = submit(&mut engine, 3.0, vec![(5, cores(1, 10.0))]);
    assert_eq!((told(&out), asked.load(Ordering::Relaxed)), (vec!["2".to_owned()], 2));
}

#[test]
fn it_is_told_what_nodes_are() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut engine = Engine::new(machine(2, 4), config());
    let see = seen.clone();
    let script = Script::named("nosy").run(fcfs).scores(move |nodes| {
        see.lock().unwrap().extend(nodes.iter().map(|node| {
            let holds = node.holds.iter().map(|of| format!("{}{}{}", of.amount, of.unit, of.kind));
            let holds = holds.collect::<Vec<_>>().join(",");
            format!("{} {} {} {:?} {holds}", node.rank, node.host, node.path, node.properties)
        }));
        Ok(vec![0.0; nodes.len()])
    });
    engine.step(Event::PropertyAdd { name: "slow".to_owned(), ranks: ranks("1") }, 0.0);
    engine.step(Event::PropertyAdd { name: "big".to_owned(), ranks: ranks("1") }, 0.0);
    assert!(engine.swap(Box::new(script)).is_ok());
    engine.finish_swaps(0.0);
    let rows = seen.lock().unwrap().join("\n");
    let lines = "0 n0 /cluster0/n0 [] 4core\n1 n1 /cluster0/n1 [\"big\", \"slow\"] 4core";
    assert_eq!(rows, lines);
}

#[test]
fn a_successor_brings_its_own_order_and_one_without_takes_it_away() {
    let asked = Arc::new(AtomicU32::new(0));
    let mut engine = Engine::new(machine(6, 2), config());
    let mut place = |policy: Script, id: u64| {
        assert!(engine.swap(Box::new(policy)).is_ok());
        engine.finish_swaps(0.0);
        places(&submit(&mut engine, 1.0, vec![(id, cores(1, 10.0))]))
    };
    assert_eq!(place(around("three", 3, &asked), 1), [(1, "3".to_owned())]);
    assert_eq!(place(around("five", 5, &asked), 2), [(2, "5".to_owned())]);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(place(Script::named("plain").run(fcfs), 3), [(3, "0".to_owned())], "as nodes come");
}

#[test]
fn what_is_no_order_ends_the_policy_and_nothing_else() {
    for (why, short) in [("NaN", false), ("2 scores for 3 nodes", true)] {
        let mut engine = Engine::new(machine(3, 1), config());
        let asked = Arc::new(AtomicU32::new(0));
        assert!(engine.swap(Box::new(around("two", 2, &asked))).is_ok());
        engine.finish_swaps(0.0);
        // A successor that fails in its warm-up never becomes active.
        let script = || {
            Script::named("bad").run(fcfs).scores(move |nodes| {
                Ok(vec![if short { 0.0 } else { f64::NAN }; nodes.len() - usize::from(short)])
            })
        };
        assert!(engine.swap(Box::new(script())).is_ok());
        let out = engine.finish_swaps(0.0);
        let failed = |out: &[Action]| {
            out.iter().any(|action| match action {
                Action::Notice(
                    PolicyNotice::SwapFailed { name, error } | PolicyNotice::Failed { name, error },
                ) => {
                    let text = error.to_string();
                    name == "bad" && text.contains("ranking.scores") && text.contains(why)
                }
                _ => false,
            })
        };
        assert!(failed(&out), "{out:?}");
        assert_eq!(engine.policy_name(), "two");
        assert_eq!(places(&submit(&mut engine, 1.0, vec![(1, cores(1, 9.0))])), [(1, "2".to_owned())]);
    }
    // An active policy that fails: the built-in policy decides in the same pass, and nodes are taken in their own
    // order.
    let mut engine = Engine::new(machine(3, 1), config());
    let mut good = true;
    let script = Script::named("fickle").run(fcfs).scores(move |nodes| {
        let answer = if good { Ok(vec![0.0; nodes.len()]) } else { Err(trap()) };
        good = false;
        answer
    });
    assert!(engine.swap(Box::new(script)).is_ok());
    engine.finish_swaps(0.0);
    engine.step(Event::PropertyAdd { name: "new".to_owned(), ranks: ranks("0") }, 1.0);
    let out = submit(&mut engine, 1.0, vec![(1, cores(1, 9.0))]);
    assert_eq!(places(&out), [(1, "0".to_owned())]);
    assert!(out.iter().any(|a| matches!(a, Action::Notice(PolicyNotice::Failed { .. }))), "{out:?}");
}

fn trap() -> PolicyError {
    PolicyError::Trap { during: "ranking.scores", message: "told to".to_owned() }
}

#[test]
fn a_checkpoint_has_the_order() {
    let asked = Arc::new(AtomicU32::new(0));
    let mut engine = Engine::new(machine(6, 1), config());
    assert!(engine.swap(Box::new(around("three", 3, &asked))).is_ok());
    engine.finish_swaps(0.0);
    submit(&mut engine, 1.0, vec![(1, cores(1, 10.0))]);
    let (checkpoint, _) = engine.checkpoint().unwrap();
    let text = serde_json::to_string(&checkpoint).unwrap();
    let checkpoint = serde_json::from_str(&text).unwrap();
    let again = Arc::new(AtomicU32::new(0));
    let policy = around("three", 3, &again);
    let mut resumed =
        Engine::resume(&checkpoint, |_| None, Some(Box::new(policy)), Default::default()).unwrap();
    for engine in [&mut engine, &mut resumed] {
        let out = submit(engine, 2.0, vec![(2, cores(2, 10.0))]);
        assert_eq!((started(&out), places(&out)), (vec![2], vec![(2, "2,4".to_owned())]));
    }
    assert_eq!(again.load(Ordering::Relaxed), 0, "nothing changed, so no order is requested");
    let (one, two) = (engine.checkpoint().unwrap().0, resumed.checkpoint().unwrap().0);
    assert_eq!(serde_json::to_value(&one).unwrap(), serde_json::to_value(&two).unwrap());
}
