//! The time at which a request fits: expected ends, reservations, backfilling.

use super::*;

#[test]
fn earliest_follows_the_expected_ends() {
    let mut m = cluster(4, 2, 0);
    let one = nodes(&mut m, 1);
    for (id, end) in [(1, 10.0), (2, 20.0), (3, 30.0), (4, f64::INFINITY)] {
        start(&mut m, id, &one, 0.0, end, Placement::First).unwrap();
    }
    for (n, expected) in [(1, Some(10.0)), (2, Some(20.0)), (3, Some(30.0)), (4, None)] {
        let whole = nodes(&mut m, n);
        assert_eq!(m.earliest(&whole, 5.0, 1.0), expected, "{n} nodes");
        let slots = cores(&mut m, 2 * n, 1);
        assert_eq!(m.earliest(&slots, 5.0, 1.0), expected, "{n} nodes of cores");
    }
    // An overdue job still holds its resources now, and is assumed to end right after.
    assert_eq!(m.match_now(&one, 15.0, 16.0, Placement::First), Err(NoFit::Busy));
    assert_eq!(m.earliest(&one, 15.0, 1.0), Some(15.0f64.next_up()));
    m.set_end(JobId(2), 12.0).unwrap();
    let two = nodes(&mut m, 2);
    assert_eq!(m.earliest(&two, 5.0, 1.0), Some(12.0));
}

#[test]
fn spans_are_half_open() {
    let mut m = cluster(1, 1, 0);
    let one = cores(&mut m, 1, 1);
    start(&mut m, 1, &one, 0.0, 10.0, Placement::First).unwrap();
    assert_eq!(m.earliest(&one, 0.0, 5.0), Some(10.0));
    m.reserve(JobId(2), &one, 10.0, 5.0).unwrap();
    assert_eq!(m.earliest(&one, 0.0, 5.0), Some(15.0));
    m.release(JobId(1), None).unwrap();
    assert_eq!(m.earliest(&one, 0.0, 10.0), Some(0.0), "it ends as the reservation begins");
    assert!(m.match_now(&one, 0.0, 10.0, Placement::First).is_ok());
    assert_eq!(m.match_now(&one, 0.0, 10.5, Placement::First), Err(NoFit::WouldDelay(JobId(2), 10.0)));
    assert_eq!(
        m.match_now(&one, 0.0, 10.5, Placement::First),
        Err(NoFit::WouldDelay(JobId(2), 10.0)),
        "from memory"
    );
    assert!(m.unreserve(JobId(2)));
    assert!(m.match_now(&one, 0.0, 10.5, Placement::First).is_ok());
}

#[test]
fn not_before_a_time() {
    for whole in [false, true] {
        let mut m = cluster(4, 1, 0);
        let want = |m: &mut Resources, n| if whole { nodes(m, n) } else { cores(m, n, 1) };
        let (one, two, four) = (want(&mut m, 1), want(&mut m, 2), want(&mut m, 4));
        start(&mut m, 1, &two, 0.0, 10.0, Placement::First).unwrap();
        let from = |m: &mut Resources, request, from, duration| m.earliest_from(request, 1.0, from, duration);
        assert_eq!(from(&mut m, &four, 0.0, 5.0), Some(10.0));
        assert_eq!(from(&mut m, &four, 12.0, 5.0), Some(12.0));
        m.reserve(JobId(2), &four, 20.0, 5.0).unwrap();
        assert_eq!(from(&mut m, &two, 0.0, 5.0), Some(1.0));
        assert_eq!(from(&mut m, &two, 3.0, 17.0), Some(3.0), "it ends as the reservation begins");
        assert_eq!(from(&mut m, &two, 4.0, 17.0), Some(25.0));
        assert_eq!(from(&mut m, &one, 20.0, 1.0), Some(25.0));
        assert_eq!(from(&mut m, &one, 30.0, 1.0), Some(30.0), "after all that is known");
        // Beside a reservation that counts do not cover, places decide.
        let other = if whole { cores(&mut m, 1, 1) } else { nodes(&mut m, 1) };
        m.reserve(JobId(3), &other, 30.0, 5.0).unwrap();
        assert_eq!(from(&mut m, &four, 26.0, 5.0), Some(35.0));
        assert_eq!(from(&mut m, &two, 26.5, 5.0), Some(26.5));
        assert_eq!(from(&mut m, &two, 40.0, 5.0), Some(40.0));
        assert_eq!(from(&mut m, &two, f64::MAX, 5.0), Some(f64::MAX));
        assert_eq!(from(&mut m, &two, f64::INFINITY, 5.0), None, "as after a window without an end");
    }
}

/// EASY: a backfilled job ends before the shadow time, or uses only extra nodes.
#[test]
fn shadow_time_and_extra_nodes() {
    for whole in [false, true] {
        let mut m = cluster(10, 1, 0);
        let want = |m: &mut Resources, n| if whole { nodes(m, n) } else { cores(m, n, 1) };
        let six = want(&mut m, 6);
        start(&mut m, 1, &six, 0.0, 100.0, Placement::First).unwrap();
        let eight = want(&mut m, 8);
        assert_eq!(m.earliest(&eight, 0.0, 50.0), Some(100.0));
        m.reserve(JobId(2), &eight, 100.0, 50.0).unwrap();
        // Four nodes are free now, two of them are extra nodes.
        let (two, three) = (want(&mut m, 2), want(&mut m, 3));
        assert!(m.match_now(&three, 0.0, 100.0, Placement::First).is_ok(), "ends before the shadow time");
        let delay = Err(NoFit::WouldDelay(JobId(2), 100.0));
        assert_eq!(m.match_now(&three, 0.0, 101.0, Placement::First), delay);
        start(&mut m, 3, &two, 0.0, 1000.0, Placement::First).unwrap();
        let one = want(&mut m, 1);
        assert_eq!(
            m.match_now(&one, 0.0, 101.0, Placement::First),
            Err(NoFit::WouldDelay(JobId(2), 100.0)),
            "no extra left"
        );
        start(&mut m, 4, &two, 0.0, 99.0, Placement::First).unwrap();
        assert_eq!(m.match_now(&one, 0.0, 1.0, Placement::First), Err(NoFit::Busy));
        assert_eq!(m.earliest(&one, 0.0, 1.0), Some(99.0));
        assert_eq!(m.earliest(&one, 0.0, 2.0), Some(150.0));
    }
}

#[test]
fn a_late_reservation_waits_for_who_overstays() {
    let mut m = cluster(2, 1, 0);
    let (one, two) = (nodes(&mut m, 1), nodes(&mut m, 2));
    start(&mut m, 1, &one, 0.0, 10.0, Placement::First).unwrap();
    m.reserve(JobId(2), &two, 10.0, 5.0).unwrap();
    // At 20 s job 1 still runs. The reservation starts right after now, so no job may start.
    let right_after = 20f64.next_up();
    let delay = Err(NoFit::WouldDelay(JobId(2), right_after));
    assert_eq!(m.match_now(&one, 20.0, 21.0, Placement::First), delay);
    m.release(JobId(1), None).unwrap();
    let delay = Err(NoFit::WouldDelay(JobId(2), 20.0));
    assert_eq!(m.match_now(&one, 20.0, 21.0, Placement::First), delay);
    m.unreserve(JobId(2));
    assert!(m.match_now(&two, 20.0, 25.0, Placement::First).is_ok());
}

#[test]
fn reservations_float() {
    // The reservation of one node has a tentative place; a start may take any node as long as one is left.
    let mut m = cluster(3, 2, 0);
    let (one, two) = (nodes(&mut m, 1), nodes(&mut m, 2));
    let three = nodes(&mut m, 3);
    m.reserve(JobId(9), &one, 10.0, 10.0).unwrap();
    assert!(m.match_now(&two, 0.0, 100.0, Placement::First).is_ok());
    assert!(m.match_now(&two, 0.0, 100.0, Placement::High).is_ok());
    let delay = Err(NoFit::WouldDelay(JobId(9), 10.0));
    assert_eq!(m.match_now(&three, 0.0, 100.0, Placement::High), delay);
    assert!(m.match_now(&three, 0.0, 10.0, Placement::High).is_ok());
    assert!(m.reserve(JobId(9), &one, 10.0, 10.0).is_err());
    assert!(m.reserve(JobId(8), &one, f64::NAN, 10.0).is_err());
}
