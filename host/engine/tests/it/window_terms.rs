//! Terms of a window beside its nodes: it ends when it is idle, it floats, and it is filled until it begins.

use fluxgate_engine::{Action, OnRunning, WindowKind, WindowRefused};
use fluxgate_formats::JobId;
use serde_json::json;

use crate::common::*;
use crate::windows::{dedicated, nodes, of_user, put, ranks, reason, window};

/// Jobs of one user and one node each, named for a window or not; returns those that start.
fn come(engine: &mut fluxgate_engine::Engine, now: f64, jobs: &[(u64, f64, Option<&str>)]) -> Vec<u64> {
    for (id, duration, named) in jobs {
        engine.step(of_user(*id, 1, nodes(1, *duration, "", *named)), now);
    }
    started(&engine.pass(now))
}

#[test]
fn feat_21_a_window_ends_that_the_clock_has_passed_when_another_is_changed() {
    let mut engine = engine(2, 1);
    put(&mut engine, dedicated(window("first", (100.0, 200.0), ranks("0")), &[1], &[], false), 0.0);
    engine.pass(100.0);
    assert!(engine.window("first").unwrap().is_active(100.0));
    // The clock is set ahead, and another window is put before the pass.
    put(&mut engine, dedicated(window("other", (5000.0, 6000.0), ranks("1")), &[1], &[], false), 4000.0);
    engine.pass(4000.0);
    assert!(engine.window("first").unwrap().occurrences.is_empty());
    assert_eq!(engine.next_wake(), Some(5000.0));
}

#[test]
fn feat_21_a_window_without_members_ends_early() {
    let mut engine = engine(2, 1);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    let mut dat = dedicated(window("dat", (100.0, 1000.0), ranks("0-1")), &[1], &[], false);
    dat.release_when_idle = Some(30.0);
    put(&mut engine, dat.clone(), 0.0);
    assert_eq!(come(&mut engine, 0.0, &[(1, 300.0, None)]), [] as [u64; 0], "it would end inside");
    // Nothing happens before it begins; then a member runs, and another waits.
    assert_eq!(engine.next_wake(), Some(100.0));
    assert!(started(&engine.pass(100.0)).is_empty());
    assert_eq!(engine.next_wake(), Some(130.0));
    assert_eq!(come(&mut engine, 120.0, &[(2, 50.0, Some("dat")), (3, 50.0, Some("dat"))]), [2, 3]);
    assert_eq!(engine.next_wake(), Some(1000.0), "a member runs");
    engine.step(free(2), 150.0);
    engine.pass(150.0);
    assert_eq!(engine.next_wake(), Some(1000.0), "another one does");
    engine.step(of_user(4, 1, nodes(2, 50.0, "", Some("dat"))), 150.0);
    engine.pass(150.0);
    engine.step(free(3), 160.0);
    assert_eq!(started(&engine.pass(160.0)), [4]);
    engine.step(free(4), 200.0);
    engine.pass(200.0);
    // A checkpoint knows since when.
    let kept = engine.checkpoint().unwrap().0;
    let spec = |id: JobId| (id == JobId(1)).then(|| nodes(1, 300.0, "", None));
    let mut again =
        fluxgate_engine::Engine::resume(&kept, spec, None, std::collections::BTreeMap::new()).unwrap();
    assert_eq!(again.next_wake(), Some(230.0));
    assert_eq!(started(&again.pass(230.0)), [1]);
    assert_eq!(engine.next_wake(), Some(230.0));
    assert!(started(&engine.pass(229.0)).is_empty());
    assert_eq!(started(&engine.pass(230.0)), [1], "others have its nodes");
    assert_eq!(engine.take_released_windows(), [("dat".to_owned(), 30.0)]);
    assert!(engine.window("dat").unwrap().occurrences.is_empty());
    // One time of a window that comes again is over.
    let again = |name: &str, first: (f64, f64), (start, end): (f64, f64), nodes: &str| {
        let mut again = dedicated(window(name, first, ranks(nodes)), &[1], &[], false);
        again.occurrences.push(fluxgate_engine::Occurrence { start, end, begins: "later".to_owned() });
        again.release_when_idle = Some(30.0);
        again
    };
    put(&mut engine, again("often", (300.0, 400.0), (900.0, 950.0), "1"), 250.0);
    engine.pass(300.0);
    engine.pass(330.0);
    let left = &engine.window("often").unwrap().occurrences;
    assert_eq!(left.iter().map(|at| at.start).collect::<Vec<_>>(), [900.0]);
    // The next one is idle for so long again, though no pass was made in between.
    put(&mut engine, again("soon", (340.0, 380.0), (385.0, 430.0), "0"), 335.0);
    engine.pass(355.0);
    engine.pass(390.0);
    assert!(engine.window("soon").unwrap().is_active(390.0), "idle since it began, and not since 355 s");
    assert_eq!(engine.next_wake(), Some(415.0));
    engine.pass(415.0);
    assert!(engine.window("soon").unwrap().occurrences.is_empty());
    // A member that waits keeps it, too.
    let mut kept = dedicated(window("kept", (450.0, 800.0), ranks("1")), &[1], &[], false);
    kept.release_when_idle = Some(30.0);
    put(&mut engine, kept, 415.0);
    assert_eq!(
        come(&mut engine, 450.0, &[(9, 900.0, Some("kept"))]),
        [] as [u64; 0],
        "longer than the window"
    );
    engine.pass(480.0);
    assert!(engine.window("kept").unwrap().is_active(480.0));
    engine.step(fluxgate_engine::Event::Cancel { id: JobId(9) }, 490.0);
    engine.pass(490.0);
    assert_eq!(engine.next_wake(), Some(520.0));
}

#[test]
fn feat_23_nodes_of_a_floating_window_take_short_jobs() {
    let mut engine = engine(2, 1);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    let mut soon = window("soon", (0.0, 10_000.0), ranks("0-1"));
    soon.float = Some(60.0);
    put(&mut engine, soon, 0.0);
    assert_eq!(come(&mut engine, 5.0, &[(1, 61.0, None), (2, 60.0, None)]), [2]);
    assert_eq!(reason(&engine, 1), "its nodes take jobs of 1m at most, for maintenance soon");
    // Time passing helps no job that is too long; a job of the bound starts at any time.
    assert_eq!(come(&mut engine, 500.0, &[(3, 60.0, None)]), [3]);
    assert!(started(&engine.pass(1000.0)).is_empty());
    for id in [2, 3] {
        engine.step(free(id), 1000.0);
    }
    assert!(started(&engine.pass(1000.0)).is_empty());
    assert_eq!(started(&engine.pass(10_000.0)), [1]);
}

#[test]
fn feat_24_preemptible_jobs_run_until_a_window_begins() {
    let limit = |actions: &[Action]| {
        let start = |action: &Action| match action {
            Action::Start { id, r, .. } => Some((id.0, r.expiration)),
            _ => None,
        };
        actions.iter().filter_map(start).collect::<Vec<_>>()
    };
    let preemptible = |after: f64, duration: f64| {
        let mut spec = (*nodes(1, duration, "", None)).clone();
        spec.set_system_attr("preemptible-after", json!(after)).unwrap();
        std::sync::Arc::new(spec)
    };
    for fill in [false, true] {
        let mut engine = engine(4, 1);
        install(&mut engine, Script::named("easy").run(easy), 0.0);
        let mut dst = window("dst", (1000.0, 2000.0), ranks("0-3"));
        (dst.fill, dst.margin) = (fill, 10.0);
        put(&mut engine, dst, 0.0);
        engine.step(of_user(1, 1, nodes(1, 5000.0, "", None)), 400.0);
        engine.step(of_user(2, 1, preemptible(600.0, 5000.0)), 400.0);
        engine.step(of_user(3, 1, preemptible(590.0, 5000.0)), 400.0);
        engine.step(of_user(4, 1, preemptible(0.0, 0.0)), 400.0);
        engine.step(of_user(5, 1, preemptible(590.0, 50.0)), 400.0);
        let out = engine.pass(400.0);
        let expected: &[(u64, f64)] =
            if fill { &[(3, 990.0), (4, 990.0), (5, 450.0)] } else { &[(5, 450.0)] };
        assert_eq!(limit(&out), expected, "fill is {fill}");
        assert!(reason(&engine, 2).contains("maintenance dst"), "{}", reason(&engine, 2));
        if !fill {
            // The window is changed while they wait.
            let mut dst = window("dst", (1000.0, 2000.0), ranks("0-3"));
            dst.fill = true;
            put(&mut engine, dst, 410.0);
            assert_eq!(limit(&engine.pass(410.0)), [(3, 1000.0), (4, 1000.0)], "after 590 s, and at once");
        }
    }
}

#[test]
fn feat_21_23_24_what_is_not_possible() {
    let engine = engine(2, 1);
    let plain = || window("a", (100.0, 200.0), ranks("0-1"));
    let members = || dedicated(plain(), &[1], &[], false);
    for (what, window) in [
        ("float is a duration, longer than 0", {
            let mut w = plain();
            w.float = Some(0.0);
            w
        }),
        ("only maintenance floats", {
            let mut w = members();
            w.float = Some(60.0);
            w
        }),
        ("only maintenance floats", {
            let mut w = plain();
            (w.float, w.running) = (Some(60.0), OnRunning::End);
            w
        }),
        ("neither a margin nor jobs that fill it", {
            let mut w = plain();
            (w.float, w.margin) = (Some(60.0), 1.0);
            w
        }),
        ("neither a margin nor jobs that fill it", {
            let mut w = plain();
            (w.float, w.fill) = (Some(60.0), true);
            w
        }),
        ("release-when-idle is a duration", {
            let mut w = members();
            w.release_when_idle = Some(f64::NAN);
            w
        }),
        ("maintenance has no members, and is not", {
            let mut w = plain();
            w.release_when_idle = Some(60.0);
            w
        }),
    ] {
        assert!(matches!(window.kind, WindowKind::Maintenance | WindowKind::Dedicated));
        match engine.plan_window(window, 0.0) {
            Err(WindowRefused::Wrong(why)) => assert!(why.contains(what), "{why}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// Four nodes on one file system of 10 GB/s.
fn with_file_system() -> fluxgate_engine::Engine {
    let r = json!({
        "version": 1,
        "execution": {"R_lite": [{"rank": "0-3", "children": {"core": "0-3"}}], "nodelist": ["n[0-3]"], "starttime": 0.0, "expiration": 0.0},
        "scheduling": {"writer": "fluxgate", "flow": {"io": {"unit": "GB/s", "pools": [{"name": "pfs", "size": 10, "hosts": "n[0-3]"}]}}},
    });
    let mut machine =
        fluxgate_graph::Resources::from_r(&fluxgate_formats::R::from_value(&r).unwrap()).unwrap();
    machine.set_up(&ranks("0-3"));
    fluxgate_engine::Engine::new(machine, fluxgate_engine::Config::default())
}

/// A node with one core and some GB/s.
fn streaming(amount: u32, duration: f64) -> std::sync::Arc<fluxgate_formats::Jobspec> {
    let text = json!({
        "version": 9999,
        "resources": [{"type": "node", "count": 1, "with": [{"type": "slot", "count": 1, "label": "x",
            "with": [{"type": "core", "count": 1}, {"type": "io", "count": amount}]}]}],
        "tasks": [{"command": ["a"], "slot": "x", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": duration}},
    });
    std::sync::Arc::new(fluxgate_formats::Jobspec::from_json(&text.to_string()).unwrap())
}

/// FEAT-11: the downtime of a file system: jobs that use it are refused by name, ended or told of; others go on starting.
#[test]
fn feat_11_the_downtime_of_a_file_system() {
    let mut engine = with_file_system();
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    engine.step(of_user(1, 1, streaming(3, 500.0)), 0.0);
    engine.step(of_user(2, 1, cores(1, 500.0)), 0.0);
    assert_eq!(started(&engine.pass(0.0)), [1, 2]);
    let down = || {
        let mut down = window("pfs", (100.0, 200.0), ranks(""));
        down.pools.insert("io/pfs".to_owned(), engine_units(10));
        down
    };
    let refused = {
        let mut w = down();
        w.running = OnRunning::Refuse;
        engine.plan_window(w, 0.0)
    };
    assert_eq!(
        refused,
        Err(WindowRefused::Running("pfs".to_owned(), vec![(JobId(1), 500.0)])),
        "who uses it"
    );
    let mut ending = down();
    ending.running = OnRunning::End;
    put(&mut engine, ending, 0.0);
    engine.step(of_user(3, 1, streaming(1, 101.0)), 0.0);
    engine.step(of_user(4, 1, streaming(1, 100.0)), 0.0);
    engine.step(of_user(5, 1, cores(1, 900.0)), 0.0);
    assert_eq!(started(&engine.pass(0.0)), [4, 5]);
    assert_eq!(reason(&engine, 3), "reserved from at 100 for maintenance pfs");
    let longer = fluxgate_engine::Event::Expiration { id: JobId(4), expiration: 150.0, token: 1 };
    let out = format!("{:?}", engine.step(longer, 10.0));
    assert!(out.contains("a pool that it uses is reserved from at 100 for maintenance pfs"), "{out}");
    let out = engine.pass(100.0);
    let ended = |action: &Action| match action {
        Action::Raise { id, kind, .. } => Some((id.0, kind.clone())),
        _ => None,
    };
    assert_eq!(out.iter().filter_map(ended).collect::<Vec<_>>(), [(1, "reservation".to_owned())]);
    for id in [1, 4] {
        engine.step(free(id), 110.0);
    }
    assert!(started(&engine.pass(110.0)).is_empty());
    assert_eq!(started(&engine.pass(200.0)), [3]);
    for (what, change) in [
        ("there is no pool \"scratch\"", ("scratch", 1)),
        ("pool io/pfs has 10 GB/s", ("io/pfs", engine_units(11))),
        ("pool io/pfs has 10 GB/s", ("io/pfs", 0)),
    ] {
        let mut wrong = window("w", (300.0, 400.0), ranks(""));
        wrong.pools.insert(change.0.to_owned(), change.1);
        let why = engine.plan_window(wrong, 200.0).unwrap_err().to_string();
        assert!(why.contains(what), "{why}");
    }
    let members = dedicated(down(), &[1], &[], false);
    assert!(
        engine.plan_window(members, 0.0).unwrap_err().to_string().contains("only maintenance at fixed times")
    );
    let empty = engine.plan_window(window("w", (300.0, 400.0), ranks("")), 200.0).unwrap_err().to_string();
    assert!(empty.contains("neither nodes nor pools"), "{empty}");
}

/// GB/s in units of the ledger.
fn engine_units(gb: u64) -> u64 {
    gb * 1_000_000_000
}

/// FEAT-10: as many nodes as have this many cores, chosen at creation and replaced until the start.
#[test]
fn feat_10_nodes_with_so_many_cores_are_chosen() {
    let r = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0-1", "children": {"core": "0-3"}}, {"rank": "2-3", "children": {"core": "0-15"}}],
        "nodelist": ["n[0-3]"], "starttime": 0.0, "expiration": 0.0,
    }});
    let mut machine =
        fluxgate_graph::Resources::from_r(&fluxgate_formats::R::from_value(&r).unwrap()).unwrap();
    machine.set_up(&ranks("0-3"));
    let mut engine = fluxgate_engine::Engine::new(machine, fluxgate_engine::Config::default());
    let wanted = |nodes: u32, cores: u64| {
        let mut made = window("w", (100.0, 200.0), ranks(""));
        let constraint = fluxgate_formats::constraint::Constraint::All;
        made.wanted = Some(fluxgate_engine::Wanted { nodes, cores, constraint });
        made
    };
    for (nodes, cores, chosen) in [(0, 1, "0"), (0, 5, "0-1"), (0, 9, "0-2"), (3, 5, "0-2"), (1, 40, "0-3")] {
        let plan = engine.plan_window(wanted(nodes, cores), 0.0).unwrap();
        assert_eq!(plan.window.ranks, ranks(chosen), "{nodes} nodes, {cores} cores");
    }
    let why = engine.plan_window(wanted(0, 41), 0.0).unwrap_err().to_string();
    assert!(why.contains("41 cores are asked for"), "{why}");
    let none = engine.plan_window(wanted(0, 0), 0.0).unwrap_err().to_string();
    assert!(none.contains("one node or core at least"), "{none}");
    put(&mut engine, wanted(0, 8), 0.0);
    assert_eq!(engine.window("w").unwrap().ranks, ranks("0-1"));
    engine.step(fluxgate_engine::Event::Down(ranks("1")), 10.0);
    let repaired = engine.window("w").unwrap();
    assert_eq!((&repaired.ranks, repaired.degraded), (&ranks("0,2"), false), "kept ones first");
    engine.step(fluxgate_engine::Event::Down(ranks("2-3")), 10.0);
    let repaired = engine.window("w").unwrap();
    assert_eq!((&repaired.ranks, repaired.degraded), (&ranks("0,2"), true), "too few are up");
}

/// FEAT-10, FEAT-22: a node that goes down in one occurrence is replaced before the next.
#[test]
fn feat_10_nodes_are_replaced_between_two_occurrences() {
    let mut engine = engine(3, 1);
    let mut wanted = window("dat", (100.0, 200.0), ranks(""));
    let second = fluxgate_engine::Occurrence { start: 300.0, end: 400.0, ..wanted.occurrences[0].clone() };
    wanted.occurrences.push(second);
    wanted.wanted = Some(fluxgate_engine::Wanted {
        nodes: 2,
        cores: 0,
        constraint: fluxgate_formats::constraint::Constraint::All,
    });
    put(&mut engine, dedicated(wanted, &[7], &[], false), 0.0);
    let chosen =
        |engine: &fluxgate_engine::Engine| engine.window("dat").map(|w| w.ranks.to_string()).unwrap();
    engine.pass(100.0);
    engine.step(fluxgate_engine::Event::Down(ranks("1")), 150.0);
    assert_eq!(chosen(&engine), "0-1");
    engine.pass(200.0);
    assert_eq!(chosen(&engine), "0,2");
}
