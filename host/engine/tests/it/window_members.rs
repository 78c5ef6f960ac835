//! Access to windows, and windows that may have nodes in common.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::{
    Action, AfterWindow, Event, Pass, PolicyError, Refusal, Wanted, Window, WindowRefused, feasibility,
};
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::Jobspec;
use fluxgate_formats::{Idset, JobId};
use serde_json::json;

use crate::common::*;
use crate::windows::*;

/// FEAT-12: the four ways: by name, by queue, attracted, and not at all; and users and queues must both agree.
#[test]
fn feat_12_who_may_use_a_window() {
    let cases = [
        // users, queues, magnetic, user, queue, names it, starts inside, starts if all nodes are reserved for long
        (&[7][..], &[][..], false, 7, "", true, true),
        (&[7][..], &[][..], false, 8, "", true, false),
        (&[7][..], &[][..], false, 7, "", false, false),
        (&[][..], &["dat"][..], false, 7, "dat", false, true),
        (&[][..], &["dat"][..], false, 7, "", false, false),
        (&[][..], &["dat"][..], false, 7, "", true, false),
        (&[7][..], &["dat"][..], false, 8, "dat", false, false),
        (&[7][..], &["dat"][..], false, 7, "dat", false, true),
        (&[7][..], &[][..], true, 7, "", false, true),
        (&[7][..], &[][..], true, 8, "", false, false),
        (&[7][..], &["dat"][..], true, 7, "", false, false),
    ];
    for (users, queues, magnetic, user, queue, names, starts) in cases {
        let mut engine = engine(1, 1);
        let made = window("dat1", (0.0, 1000.0), ranks("0"));
        put(&mut engine, dedicated(made, users, queues, magnetic), 0.0);
        let spec = nodes(1, 100.0, queue, names.then_some("dat1"));
        engine.step(of_user(1, user, spec), 10.0);
        let out = engine.pass(10.0);
        assert_eq!(started(&out) == [1], starts, "{users:?} {queues:?} {magnetic} {user} {queue} {names}");
    }
    // A job that the window attracts uses other nodes as well; a job that names the window or is of its queue does not.
    for (queues, magnetic, named) in
        [(&[][..], true, None), (&["dat"][..], false, None), (&[][..], false, Some("later"))]
    {
        let mut engine = engine(2, 1);
        put(&mut engine, dedicated(window("later", (500.0, 900.0), ranks("0")), &[7], queues, magnetic), 0.0);
        engine.step(of_user(1, 7, nodes(1, 300.0, "dat", named)), 0.0);
        assert_eq!(started(&engine.pass(0.0)) == [1], magnetic, "{queues:?} {magnetic}");
        assert_eq!(started(&engine.pass(500.0)) == [1], !magnetic);
    }
}

/// FEAT-12, FEAT-13: people are the users and those of the groups, as they were looked up; people, queues and banks must all agree.
#[test]
fn feat_12_13_groups_and_banks_of_a_window() {
    let spec = |queue: &str, bank: Option<&str>| {
        let mut spec = (*nodes(1, 100.0, queue, Some("dat1"))).clone();
        if let Some(bank) = bank {
            spec.set_system_attr("bank", json!(bank)).unwrap();
        }
        Arc::new(spec)
    };
    let made = |users: &[u32], group: &[u32], queues: &[&str], banks: &[&str]| {
        let mut made = dedicated(window("dat1", (0.0, 1000.0), ranks("0")), users, queues, false);
        if !group.is_empty() {
            made.members.groups.insert("matsci".to_owned(), group.iter().copied().collect());
        }
        made.members.banks = banks.iter().map(|bank| (*bank).to_owned()).collect();
        made
    };
    let cases = [
        // users, group, queues, banks, user, queue, bank, starts
        (&[][..], &[7, 8][..], &[][..], &[][..], 7, "", None, true),
        (&[][..], &[7, 8][..], &[][..], &[][..], 9, "", None, false),
        (&[9][..], &[7, 8][..], &[][..], &[][..], 9, "", None, true),
        (&[9][..], &[7, 8][..], &[][..], &[][..], 8, "", None, true),
        (&[][..], &[7][..], &["dat"][..], &[][..], 7, "", None, false),
        (&[][..], &[7][..], &["dat"][..], &[][..], 7, "dat", None, true),
        (&[][..], &[][..], &[][..], &["physics"][..], 7, "", Some("physics"), true),
        (&[][..], &[][..], &[][..], &["physics"][..], 7, "", Some("art"), false),
        (&[][..], &[][..], &[][..], &["physics"][..], 7, "", None, false),
        (&[][..], &[7][..], &[][..], &["physics"][..], 8, "", Some("physics"), false),
        (&[][..], &[7][..], &[][..], &["physics"][..], 7, "", Some("physics"), true),
    ];
    for (users, group, queues, banks, user, queue, bank, starts) in cases {
        let mut engine = engine(1, 1);
        put(&mut engine, made(users, group, queues, banks), 0.0);
        engine.step(of_user(1, user, spec(queue, bank)), 10.0);
        let out = engine.pass(10.0);
        assert_eq!(
            started(&out) == [1],
            starts,
            "{users:?} {group:?} {queues:?} {banks:?}: {user} {queue} {bank:?}"
        );
        if !starts {
            assert_eq!(reason(&engine, 1), "reservation dat1 does not admit it");
        }
    }
    // A user who joins the group later is admitted from then on.
    let mut engine = engine(1, 1);
    put(&mut engine, made(&[], &[7], &[], &[]), 0.0);
    engine.step(of_user(1, 8, spec("", None)), 10.0);
    assert!(started(&engine.pass(10.0)).is_empty());
    put(&mut engine, made(&[], &[7, 8], &[], &[]), 20.0);
    assert_eq!(started(&engine.pass(20.0)), [1]);
}

/// FEAT-14, FEAT-15: feasibility refuses a job that no window admits, and names the windows that there are; alloc has it wait.
#[test]
fn feat_14_15_a_job_that_names_no_usable_window_waits() {
    let mut engine = engine(4, 1);
    put(&mut engine, dedicated(window("dat1", (100.0, 200.0), ranks("0-1")), &[7], &[], false), 0.0);
    put(&mut engine, dedicated(window("dat2", (100.0, 200.0), ranks("2")), &[], &["dat"], false), 0.0);
    let check = |spec: &Jobspec| {
        let (mut inventory, book) = (engine.resources().inventory(), engine.window_book());
        feasibility(&mut inventory, &BTreeMap::new(), &book, spec).map_err(|error| (error.errnum, error.text))
    };
    assert_eq!(check(&nodes(2, 100.0, "", Some("dat1"))), Ok(()));
    let none = check(&nodes(1, 10.0, "", Some("dat9"))).unwrap_err();
    assert_eq!(none, (22, "there is no reservation dat9; reservations for such jobs: dat1".to_owned()));
    let wide = check(&nodes(3, 10.0, "", Some("dat1"))).unwrap_err();
    assert_eq!(wide.1, "reservation dat1: its nodes cannot satisfy the request");
    let long = check(&nodes(1, 101.0, "", Some("dat1"))).unwrap_err();
    assert_eq!(long.1, "reservation dat1 lasts 1.66667m, and the job needs a limit within that");
    assert!(check(&nodes(1, 10.0, "", Some("dat2"))).is_err(), "not of its queue");
    // The queue is judged by the nodes of its window.
    assert!(check(&nodes(2, 10.0, "dat", None)).is_err());
    assert_eq!(check(&nodes(1, 10.0, "dat", None)), Ok(()));
    let out = submit(
        &mut engine,
        0.0,
        vec![(1, nodes(1, 10.0, "", Some("dat9"))), (2, nodes(1, 10.0, "", Some("dat1")))],
    );
    assert!(!out.iter().any(|action| matches!(action, Action::Deny { .. })));
    engine.step(of_user(3, 7, nodes(1, 10.0, "", Some("dat1"))), 0.0);
    install(&mut engine, Script::named("easy").run(conservative), 0.0);
    engine.pass(1.0);
    assert_eq!(reason(&engine, 1), "there is no reservation dat9");
    assert_eq!(reason(&engine, 2), "reservation dat1 does not admit it");
    assert_eq!(reason(&engine, 3), "reservation dat1 begins at 100");
    assert_eq!(engine.explain(JobId(3), 1.0).unwrap().expected.and_then(|e| e.start), Some(100.0));
    // The window that it names comes to be.
    put(&mut engine, dedicated(window("dat9", (10.0, 90.0), ranks("3")), &[1], &[], false), 2.0);
    assert_eq!(started(&engine.pass(10.0)), [1]);
}

/// FEAT-14: in a strict order too, a job that names a window which is not there, is over or does not admit it keeps no other job
/// waiting; and it starts in its turn when there is such a window.
#[test]
fn feat_14_who_has_no_window_keeps_nobody_waiting() {
    for by in ["builtin-fcfs", "fcfs"] {
        let mut engine = engine(2, 1);
        if by == "fcfs" {
            install(&mut engine, Script::named(by).run(in_order), 0.0);
        }
        put(&mut engine, dedicated(window("dat1", (100.0, 200.0), ranks("0")), &[7], &[], false), 0.0);
        let named = |name| nodes(1, 10.0, "", Some(name));
        let others = (10..14).map(|id| (id, nodes(1, 50.0, "", None)));
        let jobs = [(1, named("lost")), (2, named("dat1"))].into_iter().chain(others).collect();
        assert_eq!(started(&submit(&mut engine, 0.0, jobs)), [10, 11], "{by}");
        assert_eq!(reason(&engine, 1), "there is no reservation lost");
        assert_eq!(reason(&engine, 2), "reservation dat1 does not admit it");
        engine.step(free(10), 10.0);
        assert_eq!(started(&engine.pass(10.0)), [12], "{by}");
        put(&mut engine, dedicated(window("lost", (20.0, 90.0), ranks("1")), &[1], &[], false), 10.0);
        engine.step(free(11), 20.0);
        assert_eq!(started(&engine.pass(20.0)), [1], "{by}");
    }
}

/// Strict order, as the policy `fcfs` has it.
fn in_order(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(candidate) = pass.next() {
        match pass.start(candidate, None)? {
            Ok(()) | Err(Refusal::Unsatisfiable | Refusal::NotEligible) => {}
            Err(_) => break,
        }
    }
    Ok(())
}

/// FEAT-19: at the end members that wait go on waiting, or are ordinary jobs from then on.
#[test]
fn feat_19_members_that_wait_at_the_end() {
    for (after, starts) in [(AfterWindow::Wait, false), (AfterWindow::Free, true)] {
        for (queues, named) in [(&[][..], Some("dat1")), (&["dat"][..], None)] {
            let mut engine = engine(1, 1);
            let made = Window { after, ..window("dat1", (100.0, 200.0), ranks("0")) };
            put(&mut engine, dedicated(made, &[7], queues, false), 0.0);
            engine.step(of_user(1, 7, nodes(1, 150.0, "dat", named)), 0.0);
            assert!(started(&engine.pass(100.0)).is_empty());
            assert_eq!(started(&engine.pass(200.0)) == [1], starts);
            if !starts {
                assert_eq!(reason(&engine, 1), "reservation dat1 is over");
            }
        }
    }
    let mut engine = engine(1, 1);
    let made = Window { overrun: 60.0, ..window("dat1", (100.0, 200.0), ranks("0")) };
    put(&mut engine, dedicated(made, &[7], &[], false), 0.0);
    engine.step(of_user(1, 7, nodes(1, 150.0, "", Some("dat1"))), 0.0);
    assert_eq!(started(&engine.pass(100.0)), [1], "to the end, and the overrun");
}

/// FEAT-25: windows of members do not overlap; maintenance may overlap anything, and wins.
#[test]
fn feat_25_overlaps() {
    let mut engine = engine(2, 1);
    put(&mut engine, dedicated(window("dat1", (100.0, 200.0), ranks("0-1")), &[7], &[], false), 0.0);
    let other = dedicated(window("dat2", (150.0, 250.0), ranks("1")), &[8], &[], false);
    let refused = engine.plan_window(other, 0.0);
    assert!(
        matches!(refused, Err(WindowRefused::Overlap(_, of, common, _)) if of == "dat1" && common == ranks("1"))
    );
    put(&mut engine, window("dst", (100.0, 150.0), ranks("0-1")), 0.0);
    engine.step(of_user(1, 7, nodes(2, 40.0, "", Some("dat1"))), 100.0);
    assert!(started(&engine.pass(100.0)).is_empty());
    assert_eq!(reason(&engine, 1), "reserved from at 100 for maintenance dst");
    assert_eq!(started(&engine.pass(150.0)), [1]);
}

/// FEAT-25: where it is asked for, two windows of members overlap: members of either use the nodes that both have, inside of
/// their own window, and no other job does.
#[test]
fn feat_25_two_windows_of_members_share_nodes_where_that_is_asked_for() {
    for asks in [0, 1] {
        let mut engine = engine(3, 1);
        let one = dedicated(window("dat1", (100.0, 200.0), ranks("0-1")), &[7], &[], false);
        put(&mut engine, Window { overlap: asks == 0, ..one }, 0.0);
        let two = dedicated(window("dat2", (150.0, 250.0), ranks("1-2")), &[8], &[], false);
        put(&mut engine, Window { overlap: asks == 1, ..two.clone() }, 0.0);
        // Ends inside of its own, and would be in the way of the other one if that did not share.
        engine.step(of_user(1, 7, nodes(2, 90.0, "", Some("dat1"))), 100.0);
        assert_eq!(started(&engine.pass(100.0)), [1]);
        engine.step(of_user(2, 8, nodes(2, 90.0, "", Some("dat2"))), 150.0);
        engine.step(of_user(3, 9, nodes(1, 10.0, "", None)), 150.0);
        assert!(started(&engine.pass(150.0)).is_empty(), "rank 1 is in use, and 0 and 2 are reserved");
        let out = engine.step(Event::Expiration { id: JobId(1), expiration: 200.0, token: 1 }, 150.0);
        assert!(matches!(out.first(), Some(Action::Reply { result: Ok(()), .. })), "{out:?}");
        engine.step(free(1), 155.0);
        assert_eq!(started(&engine.pass(155.0)), [2], "the members of both use rank 1");
        assert_eq!(reason(&engine, 3), "reserved from at 150 for reservation dat2");
    }
    let mut engine = engine(3, 1);
    put(&mut engine, dedicated(window("dat1", (100.0, 200.0), ranks("0-1")), &[7], &[], false), 0.0);
    // Nodes that are chosen are others as long as there are others.
    let wanted = |nodes| Window {
        overlap: true,
        wanted: Some(Wanted { nodes, cores: 0, constraint: Constraint::All }),
        ..dedicated(window("dat2", (150.0, 250.0), Idset::new()), &[8], &[], false)
    };
    assert_eq!(engine.plan_window(wanted(1), 0.0).unwrap().window.ranks, ranks("2"));
    assert_eq!(engine.plan_window(wanted(2), 0.0).unwrap().window.ranks, ranks("0,2"));
    // Maintenance is not shared with any window.
    put(&mut engine, wanted(2).clone(), 0.0);
    put(&mut engine, window("dst", (150.0, 160.0), ranks("0")), 0.0);
    engine.step(of_user(1, 8, nodes(2, 5.0, "", Some("dat2"))), 150.0);
    assert!(started(&engine.pass(150.0)).is_empty());
    let asked = Window { overlap: true, ..window("dst2", (100.0, 200.0), ranks("0")) };
    let why = engine.plan_window(asked, 0.0).unwrap_err().to_string();
    assert_eq!(why, "dst2: maintenance overlaps anything without being asked to");
}
