//! Windows in the engine: no policy knows them, and every policy keeps to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::{
    Action, Config, Engine, Event, Members, Occurrence, OnRunning, Pass, PolicyError, Refusal, Wanted,
    Window, WindowKind, WindowRefused,
};
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::{Jobspec, Simple};
use fluxgate_formats::{Idset, JobId};
use proptest::prelude::*;
use serde_json::json;

use crate::common::*;

pub fn ranks(text: &str) -> Idset {
    text.parse().unwrap()
}

/// A window over `[start, end)` on these ranks.
pub fn window(name: &str, (start, end): (f64, f64), on: Idset) -> Window {
    let times = Occurrence { start, end, begins: format!("at {start}") };
    Window::maintenance(name, vec![times], on)
}

/// The same for members: users, queues, and whether it attracts them.
pub fn dedicated(mut made: Window, users: &[u32], queues: &[&str], magnetic: bool) -> Window {
    let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
    made.members = Members { users: users.iter().copied().collect(), queues, magnetic, ..Members::default() };
    made.kind = WindowKind::Dedicated;
    made
}

pub fn put(engine: &mut Engine, window: Window, now: f64) {
    let plan = engine.plan_window(window, now).unwrap();
    engine.step(Event::PutWindow(Box::new(plan.window)), now);
}

/// Whole nodes of a queue, with the name of a window.
pub fn nodes(count: u32, duration: f64, queue: &str, named: Option<&str>) -> Arc<Jobspec> {
    let simple = Simple {
        nodes: Some(count),
        slots: count,
        exclusive: true,
        duration,
        queue: (!queue.is_empty()).then(|| queue.to_owned()),
        command: vec!["app".to_owned()],
        ..Simple::default()
    };
    let mut spec = simple.build();
    if let Some(name) = named {
        spec.set_system_attr("fluxgate.reservation", json!(name)).unwrap();
    }
    Arc::new(spec)
}

pub fn of_user(id: u64, userid: u32, jobspec: Arc<Jobspec>) -> Event {
    Event::Alloc { id: JobId(id), priority: 16, userid, t_submit: id as f64, jobspec }
}

pub fn reason(engine: &Engine, id: u64) -> String {
    engine.reason(JobId(id)).unwrap().to_string()
}

/// Reserves a start for every job that does not fit.
pub fn conservative(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(candidate) = pass.next() {
        if let Err(Refusal::Busy | Refusal::DelaysReservation) = pass.start(candidate, None)? {
            let _ = pass.reserve(candidate)?;
        }
    }
    Ok(())
}

#[derive(Debug, Clone)]
enum Step {
    Submit {
        count: u32,
        tens: u32,
        whole: bool,
        user: u32,
        queue: bool,
        named: Option<u8>,
        after: Option<u8>,
    },
    Free(usize),
    Window {
        name: u8,
        after: u32,
        long: u32,
        margin: u32,
        overrun: u32,
        on: u8,
        who: u8,
        overlap: bool,
        terms: u8,
    },
    Remove(u8),
    Later(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1u32..7, 0u32..9, any::<bool>(), 1u32..3, any::<bool>(), prop::option::weighted(0.3, 0u8..3), prop::option::weighted(0.4, 0u8..30))
            .prop_map(|(count, tens, whole, user, queue, named, after)| {
                Step::Submit { count, tens, whole, user, queue, named, after }
            }),
        3 => (0usize..8).prop_map(Step::Free),
        3 => (0u8..3, 0u32..60, 1u32..60, 0u32..5, 0u32..9, 1u8..16, 0u8..6, any::<bool>(), 0u8..8)
            .prop_map(|(name, after, long, margin, overrun, on, who, overlap, terms)| {
                Step::Window { name, after, long, margin, overrun, on, who, overlap, terms }
            }),
        1 => (0u8..3).prop_map(Step::Remove),
        5 => (1u32..30).prop_map(Step::Later),
    ]
}

/// FEAT-5, FEAT-6, FEAT-12: under any policy no job takes a node of a window for a span that meets it, unless it is a member and
/// ends in time; and a job that names a window, or is of its queue, takes no other nodes. Judged by a list of all windows,
/// which shares no code with the ledger.
fn sweep(by: &str, steps: &[Step]) {
    let mut engine = engine(4, 2);
    let script = Script::named(by);
    let script = match by {
        "fcfs" => script.run(fcfs),
        "easy" => script.run(easy),
        _ => script.run(conservative),
    };
    install(&mut engine, script, 0.0);
    let mut windows: BTreeMap<String, Window> = BTreeMap::new();
    let mut jobs: BTreeMap<u64, (Arc<Jobspec>, u32)> = BTreeMap::new();
    let (mut now, mut next) = (0.0, 1);
    for step in steps {
        match *step {
            Step::Submit { count, tens, whole, user, queue, named, after } => {
                let (queue, named) = (if queue { "dat" } else { "" }, named.map(|n| format!("w{n}")));
                let duration = f64::from(tens) * 10.0;
                let spec = match whole {
                    true => nodes(count.min(4), duration, queue, named.as_deref()),
                    false => {
                        let mut spec = (*queued(count, duration, queue)).clone();
                        if let Some(name) = named {
                            spec.set_system_attr("fluxgate.reservation", json!(name)).unwrap();
                        }
                        Arc::new(spec)
                    }
                };
                let mut spec = (*spec).clone();
                if let Some(after) = after {
                    spec.set_system_attr("preemptible-after", json!(after)).unwrap();
                }
                let spec = Arc::new(spec);
                jobs.insert(next, (spec.clone(), user));
                engine.step(of_user(next, user, spec), now);
                next += 1;
            }
            Step::Free(at) => {
                let id = engine.running_ids().nth(at);
                id.into_iter().for_each(|id| drop(engine.step(free(id.0), now)));
            }
            Step::Window { name, after, long, margin, overrun, on, who, overlap, terms } => {
                let name = format!("w{name}");
                let start = now + f64::from(after);
                let on = (0..4).filter(|rank| on >> rank & 1 == 1).collect();
                let mut made = window(&name, (start, start + f64::from(long)), on);
                made.margin = f64::from(margin);
                made = match who {
                    0 | 1 => made,
                    2 => dedicated(made, &[1], &[], false),
                    3 => dedicated(made, &[], &["dat"], false),
                    4 => dedicated(made, &[1], &[], true),
                    _ => dedicated(made, &[1], &["dat"], false),
                };
                if made.kind == WindowKind::Dedicated {
                    made.overrun = f64::from(overrun);
                    made.overlap = overlap;
                    made.release_when_idle = (terms & 1 == 1).then_some(f64::from(terms) + 4.0);
                }
                match terms / 2 {
                    1 => made.fill = true,
                    2 if made.kind == WindowKind::Maintenance => {
                        (made.float, made.margin) = (Some(f64::from(long) * 2.0), 0.0);
                    }
                    _ => {}
                }
                if let Ok(plan) = engine.plan_window(made.clone(), now) {
                    assert_eq!(plan.window, made);
                    engine.step(Event::PutWindow(Box::new(made.clone())), now);
                    windows.insert(name, made);
                }
            }
            Step::Remove(name) => {
                let name = format!("w{name}");
                windows.remove(&name);
                engine.step(Event::RemoveWindow { name }, now);
            }
            Step::Later(seconds) => now += f64::from(seconds),
        }
        let actions = engine.pass(now);
        for (name, idle) in engine.take_released_windows() {
            let released = windows.remove(&name).unwrap();
            let first = &released.occurrences[0];
            assert!(first.start + idle <= now && now < first.end && Some(idle) == released.release_when_idle);
        }
        for action in actions {
            let Action::Start { id, r, .. } = action else { continue };
            let (spec, user) = &jobs[&id.0];
            let queue = spec.queue().unwrap_or("");
            let named = spec.system_attr("fluxgate.reservation").and_then(|name| name.as_str());
            let mut end = if spec.duration() > 0.0 { now + spec.duration() } else { f64::INFINITY };
            if r.expiration > 0.0 && r.expiration < end {
                // FEAT-24: until a window of its nodes begins, if it may be ended by then.
                end = r.expiration;
                assert!(now + spec.preemptible_after().unwrap() <= end, "{by}: {id}");
                let ranks = r.ranks();
                let met = |w: &&Window| {
                    w.occurrences[0].start - w.margin == end
                        && w.ranks.iter().any(|rank| ranks.contains(rank))
                };
                assert!(
                    windows.values().any(|w| w.fill) && windows.values().any(|w| met(&w)),
                    "{by}: {id} until {end}: {windows:?}"
                );
            }
            let admits = |w: &Window| {
                w.kind == WindowKind::Dedicated
                    && (w.members.users.is_empty() || w.members.users.contains(user))
                    && (w.members.queues.is_empty() || w.members.queues.contains(queue))
            };
            let times = |w: &Window| (w.occurrences[0].start, w.occurrences[0].end);
            let inside = |w: &Window| times(w).0 <= now && end <= times(w).1 + w.overrun;
            for rank in r.ranks().iter() {
                for w in windows.values().filter(|w| w.ranks.contains(rank)) {
                    let met = match w.float {
                        Some(float) => times(w).0 <= now && now < times(w).1 && end > now + float,
                        None => times(w).0 - w.margin < end && now < times(w).1,
                    };
                    let of_it = named.map_or_else(
                        || w.members.magnetic || !w.members.queues.is_empty(),
                        |name| name == w.name,
                    );
                    // A member of another one, inside of it, where one of both asks for that.
                    let shared = windows.values().any(|own| {
                        let named = named.map_or_else(
                            || own.members.magnetic || !own.members.queues.is_empty(),
                            |name| name == own.name,
                        );
                        w.kind == WindowKind::Dedicated
                            && (own.overlap || w.overlap)
                            && named
                            && admits(own)
                            && inside(own)
                            && own.ranks.contains(rank)
                    });
                    assert!(
                        !met || shared || (admits(w) && of_it && inside(w)),
                        "{by}: {id} at {now} on {rank}: {w:?}"
                    );
                }
            }
            if let Some(name) = named {
                let w = &windows[name];
                assert!(
                    admits(w) && inside(w) && r.ranks().is_subset(&w.ranks),
                    "{by}: {id} at {now}: {w:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn feat_5_6_12_25_no_policy_breaks_a_window(steps in prop::collection::vec(step(), 1..60), by in 0usize..3) {
        sweep(["fcfs", "easy", "conservative"][by], &steps);
    }
}

/// FEAT-7, FEAT-18: the reason names the window, the estimate is its end, and what ends before it starts.
#[test]
fn feat_18_waiting_names_the_window() {
    let mut engine = engine(2, 1);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    put(&mut engine, window("dst", (100.0, 200.0), ranks("0-1")), 0.0);
    let out = submit(&mut engine, 0.0, vec![(1, nodes(2, 150.0, "", None)), (2, nodes(1, 100.0, "", None))]);
    assert_eq!(started(&out), [2], "it ends when the window begins");
    assert_eq!(reason(&engine, 1), "reserved from at 100 for maintenance dst");
    let told = out.iter().find_map(|action| match action {
        Action::Annotate { id: JobId(1), annotations } => Some(annotations["sched"]["t_estimate"].as_f64()),
        _ => None,
    });
    assert_eq!(told, Some(Some(200.0)));
    let why = engine.explain(JobId(1), 0.0).unwrap();
    assert_eq!((why.reason.unwrap().kind(), why.earliest), ("window", Some(200.0)));
    assert_eq!(engine.next_wake(), Some(100.0));
    engine.step(free(2), 100.0);
    assert!(started(&engine.pass(100.0)).is_empty());
    assert_eq!(engine.next_wake(), Some(200.0));
    assert!(engine.needs_pass(200.0));
    assert_eq!(started(&engine.pass(200.0)), [1]);
    assert_eq!(engine.window("dst").map(|w| w.state(200.0)), Some("over"));
}

/// FEAT-7: a job that would delay a reserved start, since a window leaves it no other node, says nothing about one that ends
/// before the window.
#[test]
fn feat_7_who_ends_before_a_window_passes_who_does_not() {
    let mut engine = engine(4, 4);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    submit(&mut engine, 0.0, vec![(1, nodes(4, 0.0, "", None)), (2, cores(5, 10.0)), (3, cores(4, 70.0))]);
    put(&mut engine, window("w", (20.0, 30.0), ranks("0,2-3")), 0.0);
    engine.step(free(1), 0.0);
    assert_eq!(started(&engine.pass(0.0)), [2]);
    assert_eq!(reason(&engine, 3), "reserved from at 20 for maintenance w");
    let out = submit(&mut engine, 0.0, vec![(4, cores(1, 0.0)), (5, cores(8, 20.0))]);
    assert_eq!(started(&out), [5]);
}

/// FEAT-9: a day with a window at its end, and a pass each minute: a class that does not fit before it is not searched again.
#[test]
fn feat_9_a_class_is_refused_without_a_search_until_the_window_ends() {
    let mut engine = engine(4, 2);
    let any = |pass: &mut Pass| {
        while let Some(c) = pass.next_fitting() {
            let _ = pass.start(c, None)?;
        }
        Ok(())
    };
    install(&mut engine, Script::named("any").run(any), 0.0);
    put(&mut engine, window("night", (86_400.0, 90_000.0), ranks("0-3")), 0.0);
    let long = (0..500).map(|id| (id + 10, nodes(1, 90_000.0 + id as f64, "", None))).collect();
    assert!(started(&submit(&mut engine, 0.0, long)).is_empty());
    let before = engine.resources().searches();
    for minute in 1..1440u64 {
        // Something that has nothing to do with them makes a pass due.
        let now = minute as f64 * 60.0;
        let id = 10_000 + minute;
        assert!(engine.next_wake().is_none_or(|wake| wake > now), "time passing wakes nobody");
        let out = submit(&mut engine, now, vec![(id, cores(1, 1.0))]);
        assert_eq!(started(&out), [id]);
        engine.step(free(id), now + 1.0);
        engine.pass(now + 1.0);
    }
    let searches = engine.resources().searches() - before;
    // One for each short job, and for the long ones two after each release, which could have helped them.
    assert!(searches <= 1440 + 2 * 1440, "{searches}");
    assert_eq!(started(&engine.pass(90_000.0)).len(), 4);
}

/// FEAT-10: a node that goes down is replaced before the start and not after it, and `degraded` tells where that is not possible.
#[test]
fn feat_10_nodes_are_chosen_and_replaced_until_the_start() {
    let mut engine = engine(4, 1);
    submit(&mut engine, 0.0, vec![(1, nodes(1, 500.0, "", None))]);
    let mut wanted = window("dat", (100.0, 200.0), Idset::new());
    wanted.wanted = Some(Wanted { nodes: 2, cores: 0, constraint: Constraint::All });
    put(&mut engine, dedicated(wanted, &[7], &[], false), 0.0);
    let chosen = |engine: &Engine| engine.window("dat").map(|w| (w.ranks.to_string(), w.degraded)).unwrap();
    assert_eq!(chosen(&engine), ("1-2".to_owned(), false), "rank 0 is expected to be in use");
    engine.step(Event::Down(ranks("1")), 1.0);
    assert_eq!(chosen(&engine), ("2-3".to_owned(), false));
    engine.step(Event::Down(ranks("0,3")), 2.0);
    assert_eq!(chosen(&engine), ("2-3".to_owned(), true));
    engine.step(Event::Up(ranks("1")), 3.0);
    assert_eq!(chosen(&engine), ("1-2".to_owned(), false));
    engine.pass(100.0);
    engine.step(Event::Down(ranks("2")), 101.0);
    engine.step(Event::Up(ranks("3")), 101.0);
    assert_eq!(chosen(&engine), ("1-2".to_owned(), false), "not after its start");
    let many = Wanted { nodes: 4, cores: 0, constraint: Constraint::All };
    let many = Window {
        wanted: Some(many),
        ..dedicated(window("b", (300.0, 400.0), Idset::new()), &[7], &[], false)
    };
    assert!(matches!(engine.plan_window(many, 101.0), Err(WindowRefused::TooFew(_, 4, 2))));
}

/// FEAT-94: after a restart of the instance brokers come up one by one, and nodes that were chosen keep their places.
#[test]
fn feat_94_chosen_nodes_are_waited_for_when_a_scheduler_begins() {
    let begun = |start: f64| {
        let mut engine = engine(4, 1);
        engine.step(Event::Down(ranks("0-3")), 0.0);
        let mut chosen = window("dat", (start, 5000.0), ranks("2-3"));
        chosen.wanted = Some(Wanted { nodes: 2, cores: 0, constraint: Constraint::All });
        let chosen = dedicated(chosen, &[7], &[], false).awaiting(0.0, 900.0);
        engine.step(Event::PutWindow(Box::new(chosen)), 0.0);
        engine.step(Event::Up(ranks("0-1")), 10.0);
        engine
    };
    let chosen = |engine: &Engine| engine.window("dat").map(|w| (w.ranks.to_string(), w.degraded)).unwrap();
    let mut engine = begun(2000.0);
    assert_eq!(chosen(&engine), ("2-3".to_owned(), true));
    engine.step(Event::Up(ranks("3")), 20.0);
    engine.step(Event::Up(ranks("2")), 30.0);
    assert_eq!(chosen(&engine), ("2-3".to_owned(), false));
    // Those that were there are replaced as ever.
    engine.step(Event::Down(ranks("2")), 40.0);
    assert_eq!(chosen(&engine), ("0,3".to_owned(), false));

    // One that came and went is replaced, and the other is waited for.
    let mut engine = begun(2000.0);
    engine.step(Event::Up(ranks("2")), 20.0);
    engine.step(Event::Down(ranks("2")), 30.0);
    assert_eq!(chosen(&engine), ("0,3".to_owned(), true));
    // Not for ever, and no longer than the start allows.
    assert_eq!(engine.next_wake(), Some(900.0));
    engine.pass(900.0);
    assert_eq!(chosen(&engine), ("0-1".to_owned(), false));
    let mut engine = begun(500.0);
    assert_eq!((engine.next_wake(), chosen(&engine).1), (Some(499.0), true));
    engine.pass(499.0);
    assert_eq!(chosen(&engine), ("0-1".to_owned(), false));
    // In one that has begun nodes keep their places anyway.
    let mut engine = begun(-1.0);
    engine.pass(950.0);
    assert_eq!(chosen(&engine), ("2-3".to_owned(), false));
}

/// FEAT-16: jobs that run into it: refused with their names, ignored, or ended at its start.
#[test]
fn feat_16_running_jobs_in_the_way() {
    let mut engine = engine(3, 1);
    submit(
        &mut engine,
        0.0,
        vec![(1, nodes(1, 50.0, "", None)), (2, nodes(1, 150.0, "", None)), (3, nodes(1, 0.0, "", None))],
    );
    let with = |running| Window { running, ..window("dst", (100.0, 200.0), ranks("0-2")) };
    let late = vec![(JobId(2), 150.0), (JobId(3), f64::INFINITY)];
    assert_eq!(
        engine.plan_window(with(OnRunning::Refuse), 10.0),
        Err(WindowRefused::Running("dst".to_owned(), late.clone()))
    );
    assert_eq!(engine.plan_window(with(OnRunning::Ignore), 10.0).unwrap().in_the_way, late);
    put(&mut engine, with(OnRunning::End), 10.0);
    engine.step(free(1), 50.0);
    assert_eq!(engine.next_wake(), Some(100.0));
    let ended: Vec<u64> = engine
        .pass(100.0)
        .into_iter()
        .filter_map(|action| match action {
            Action::Raise { id, kind, severity, .. } => Some((id, kind, severity)),
            _ => None,
        })
        .map(|(id, kind, severity)| {
            assert_eq!((kind.as_str(), severity), ("reservation", 0));
            id.0
        })
        .collect();
    assert_eq!(ended, [2, 3]);
    assert!(!engine.pass(101.0).iter().any(|action| matches!(action, Action::Raise { .. })), "once");
}

/// FEAT-17: expected ends stay a margin before the start.
#[test]
fn feat_17_a_margin_before_the_start() {
    let mut engine = engine(1, 1);
    put(&mut engine, Window { margin: 30.0, ..window("dst", (100.0, 200.0), ranks("0")) }, 0.0);
    assert!(started(&submit(&mut engine, 0.0, vec![(1, nodes(1, 71.0, "", None))])).is_empty());
    engine.step(Event::Cancel { id: JobId(1) }, 0.0);
    assert_eq!(started(&submit(&mut engine, 0.0, vec![(2, nodes(1, 70.0, "", None))])), [2]);
}

/// FEAT-17: a node that a job still holds at the start is late, whatever the expected end; the rest begins on time.
#[test]
fn feat_17_a_node_that_is_late_does_not_keep_the_others() {
    let mut engine = engine(4, 1);
    submit(&mut engine, 0.0, vec![(1, nodes(1, 90.0, "", None)), (2, nodes(1, 500.0, "", None))]);
    let dat = dedicated(window("dat", (100.0, 900.0), ranks("0,2-3")), &[7], &[], false);
    put(&mut engine, dat.clone(), 0.0);
    assert_eq!(engine.late_in(&dat, 99.0), (Idset::new(), vec![]), "it has not begun");
    engine.step(of_user(3, 7, nodes(2, 50.0, "", Some("dat"))), 50.0);
    engine.step(of_user(4, 7, nodes(3, 50.0, "", Some("dat"))), 50.0);
    // The job was expected to end at 90, and is still being ended.
    assert_eq!(started(&engine.pass(100.0)), [3], "the rest begins on time");
    assert_eq!(engine.late_in(&dat, 100.0), (ranks("0"), vec![JobId(1)]));
    engine.step(free(1), 120.0);
    engine.step(free(3), 150.0);
    assert_eq!(engine.late_in(&dat, 150.0), (Idset::new(), vec![]));
    assert_eq!(started(&engine.pass(150.0)), [4], "and what was late is part of it");
    let flex = Window { flex: true, ranks: ranks("1"), ..dat };
    assert_eq!(engine.late_in(&flex, 150.0), (Idset::new(), vec![]), "members may have begun before");
}

/// FEAT-4: a window refuses an extension, by name; a job that was in its way before may go on.
#[test]
fn feat_4_an_extension_into_a_window_is_refused_by_name() {
    let mut engine = engine(2, 1);
    submit(&mut engine, 0.0, vec![(1, nodes(1, 50.0, "", None)), (2, nodes(1, 150.0, "", None))]);
    put(&mut engine, window("dst", (100.0, 200.0), ranks("0-1")), 0.0);
    let mut extend = |id, expiration| {
        let out = engine.step(Event::Expiration { id: JobId(id), expiration, token: 1 }, 10.0);
        let Some(Action::Reply { result, .. }) = out.into_iter().next() else { panic!("no reply") };
        result.map_err(|error| (error.errnum, error.text))
    };
    assert_eq!(extend(1, 100.0), Ok(()));
    let refused = "its nodes are reserved from at 100 for maintenance dst";
    assert_eq!(extend(1, 101.0), Err((16, refused.to_owned())));
    assert_eq!(extend(2, 180.0), Ok(()), "it ran into it before");
}

/// FEAT-22: a window that comes again is kept from its first to its last time.
#[test]
fn feat_22_all_occurrences_are_kept() {
    let mut engine = engine(1, 1);
    let mut weekly = window("weekly", (100.0, 200.0), ranks("0"));
    weekly.occurrences.push(Occurrence { start: 300.0, end: 400.0, begins: "at 300".to_owned() });
    put(&mut engine, weekly, 0.0);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    submit(&mut engine, 0.0, vec![(1, nodes(1, 101.0, "", None))]);
    assert_eq!(reason(&engine, 1), "reserved from at 100 for maintenance weekly");
    assert!(started(&engine.pass(200.0)).is_empty());
    assert_eq!(reason(&engine, 1), "reserved from at 300 for maintenance weekly");
    assert_eq!(engine.window("weekly").unwrap().occurrences.len(), 1);
    assert_eq!(started(&engine.pass(400.0)), [1]);
}

/// FEAT-30: a window that cannot be is refused, in words.
#[test]
fn feat_30_what_is_not_accepted() {
    let engine = Engine::new(machine(2, 1), Config::default());
    let good = || window("dst", (100.0, 200.0), ranks("0"));
    let said = |window: Window| engine.plan_window(window, 0.0).unwrap_err().to_string();
    let long = "x".repeat(65);
    assert_eq!(
        said(Window { name: "Dst".to_owned(), ..good() }),
        r#"name: found "Dst", [a-z0-9_-]{1,64} is accepted"#
    );
    assert!(said(Window { name: long, ..good() }).contains("is accepted"));
    assert_eq!(said(window("dst", (200.0, 200.0), ranks("0"))), "dst: its end is not later than its start");
    assert_eq!(said(window("dst", (-9.0, -3.0), ranks("0"))), "dst: it would be over already");
    assert_eq!(said(window("dst", (100.0, 200.0), Idset::new())), "dst: it has neither nodes nor pools");
    assert_eq!(said(window("dst", (100.0, 200.0), ranks("0-3"))), "dst: ranks 2-3 are not in the inventory");
    assert_eq!(
        said(dedicated(good(), &[], &[], false)),
        "dst: it needs users, groups, queues or banks who may use it"
    );
    assert_eq!(
        said(Window { members: dedicated(good(), &[7], &[], false).members, ..good() }),
        "dst: maintenance has no members"
    );
    assert_eq!(said(Window { note: "n".repeat(257), ..good() }), "dst: a note has 256 bytes at most");
    assert!(said(Window { margin: -1.0, ..good() }).contains("not negative"));
    let mut many = dedicated(good(), &[], &[], false);
    many.members.groups = (0..2).map(|n| (format!("g{n}"), (n * 600..(n + 1) * 600).collect())).collect();
    assert_eq!(said(many), "dst: more than 1024 members");
    let users: Vec<u32> = (0..1025).collect();
    assert_eq!(said(dedicated(good(), &users, &[], false)), "dst: more than 1024 members");
}

/// FEAT-8: a window that no job meets costs a policy that reserves for every job not one search, and changes no start.
#[test]
fn feat_8_reservations_are_made_anew_in_place_beside_a_far_window() {
    fn reserve_all(pass: &mut Pass) -> Result<(), PolicyError> {
        while let Some(candidate) = pass.next() {
            let _ = pass.start_or_reserve(candidate)?;
        }
        Ok(())
    }
    let run = |far: bool| {
        let mut engine = engine(4, 4);
        install(&mut engine, Script::named("conservative").run(reserve_all), 0.0);
        if far {
            put(&mut engine, window("far", (1e6, 2e6), ranks("0-3")), 0.0);
        }
        let mut starts = Vec::new();
        for id in 1..=60u64 {
            let now = id as f64;
            engine.step(of_user(id, 1, cores(1 + (id * 7 % 16) as u32, 50.0 + (id * 31 % 90) as f64)), now);
            starts.extend(started(&engine.pass(now)));
            let oldest = engine.running_ids().next();
            if let Some(oldest) = oldest.filter(|_| id % 3 == 0) {
                engine.step(free(oldest.0), now);
                starts.extend(started(&engine.pass(now)));
            }
        }
        (starts, engine.stats().matches, engine.stats().reservations)
    };
    assert_eq!(run(true), run(false));
}
