//! The policy on the bench of the SDK: 1000 W for 100 cores.

use fluxgate_guest::bench::{Bench, configured};

use super::*;

fn bench() -> Bench {
    let mut bench = Bench::new(100);
    bench.flow("power", "W", 1000);
    bench
}

fn capped(settings: &[(&str, &str)]) -> PowerCapped {
    configured(settings).unwrap()
}

#[test]
fn jobs_stay_within_the_budget_though_more_is_there() {
    let mut bench = bench();
    for id in 1..=4 {
        bench.job(id).cores(1).flow("power", 200).duration(100.0).submit();
    }
    let mut policy = capped(&[("budget", "60%")]);
    bench.run(&mut policy);
    assert_eq!((bench.started(), bench.reserved()), (&[1, 2, 3][..], vec![(4, 100.0)]));
    let mut bench = bench_with_hog();
    bench.run(&mut capped(&[("budget", "700")]));
    assert_eq!((bench.started(), bench.reserved()), (&[][..], vec![(2, 50.0)]));
}

/// Job 1 holds 500 W until 50; job 2 wants 300.
fn bench_with_hog() -> Bench {
    let mut bench = bench();
    bench.job(1).cores(10).flow("power", 500).duration(50.0).running();
    bench.job(2).cores(10).flow("power", 300).duration(100.0).submit();
    bench
}

#[test]
fn the_reservation_of_the_head_is_of_power_too() {
    let mut bench = bench_with_hog();
    // They would fit now, one would hold back the head until it ends.
    bench.job(3).cores(1).flow("power", 150).duration(60.0).submit();
    bench.job(4).cores(1).flow("power", 150).duration(50.0).submit();
    bench.job(5).cores(1).flow("power", 50).duration(500.0).submit();
    bench.job(6).cores(70).duration(500.0).submit();
    bench.run(&mut capped(&[("budget", "400")]));
    // Already over the budget: nothing that takes power.
    assert_eq!((bench.started(), bench.reserved()), (&[6][..], vec![(2, 50.0)]));
    let mut bench = bench_with_hog();
    bench.job(3).cores(1).flow("power", 150).duration(60.0).submit();
    bench.job(4).cores(1).flow("power", 150).duration(50.0).submit();
    bench.job(5).cores(1).flow("power", 50).duration(500.0).submit();
    bench.run(&mut capped(&[("budget", "700")]));
    // 700 - 500 are free now, 700 - 300 when the head begins: all three fit one after the other.
    assert_eq!((bench.started(), bench.reserved()), (&[3, 5][..], vec![(2, 50.0)]));
}

#[test]
fn who_would_be_in_the_way_of_the_head_waits() {
    let mut bench = bench();
    bench.job(1).cores(10).flow("power", 300).duration(50.0).running();
    bench.job(2).cores(10).flow("power", 600).duration(100.0).submit();
    bench.job(3).cores(1).flow("power", 150).duration(51.0).submit();
    bench.job(4).cores(1).flow("power", 100).duration(51.0).submit();
    bench.job(5).cores(1).flow("power", 200).duration(50.0).submit();
    bench.run(&mut capped(&[("budget", "700")]));
    assert_eq!((bench.started(), bench.reserved()), (&[4, 5][..], vec![(2, 50.0)]));
}

#[test]
fn machine_and_budget_have_to_allow_a_start() {
    let mut bench = bench();
    // Power comes back at 50, cores at 80.
    bench.job(1).cores(10).flow("power", 500).duration(50.0).running();
    bench.job(2).cores(60).duration(80.0).running();
    bench.job(3).cores(50).flow("power", 400).duration(10.0).submit();
    bench.run(&mut capped(&[("budget", "600")]));
    assert_eq!((bench.started(), bench.reserved()), (&[][..], vec![(3, 80.0)]));
}

#[test]
fn hours_have_their_own_budget() {
    // From 1:00 to 2:00 it is 400 W.
    let settings = [("budget", "800"), ("peak-hours", "01:00-02:00"), ("peak-budget", "400")];
    let mut bench = bench();
    // Ends before the peak, reaches into it and takes too much, reaches into it and is small enough.
    bench.job(1).cores(1).flow("power", 500).duration(3600.0).submit();
    bench.job(2).cores(1).flow("power", 300).duration(3601.0).submit();
    bench.job(3).cores(1).flow("power", 200).duration(3601.0).submit();
    bench.job(4).cores(1).flow("power", 100).duration(3600.0).submit();
    let mut policy = capped(&settings);
    bench.run(&mut policy);
    assert_eq!((bench.started(), bench.reserved()), (&[1, 2][..], vec![(3, 3601.0)]));
    assert_eq!(bench.wake_at(), Some(7200.0));
    bench.advance(3600.0);
    bench.run(&mut policy);
    // 300 of 400 are held one second more; 100 do not come in the way of 200 then.
    assert_eq!((bench.started(), bench.reserved()), (&[4][..], vec![(3, 3601.0)]));
    bench.advance(1.0);
    bench.run(&mut policy);
    assert_eq!(bench.started(), [3]);
}

#[test]
fn a_wide_job_waits_for_the_hours_in_which_it_may_run() {
    let settings = [("budget", "300"), ("peak-hours", "22:00-06:00"), ("peak-budget", "900")];
    let mut bench = bench();
    bench.advance(12.0 * 3600.0);
    bench.job(1).cores(1).flow("power", 900).duration(3600.0).submit();
    bench.job(2).cores(1).flow("power", 300).duration(10.0 * 3600.0).submit();
    bench.job(3).cores(1).flow("power", 300).duration(10.0 * 3600.0 + 1.0).submit();
    bench.job(4).cores(1).flow("power", 900).duration(9.0 * 3600.0).submit();
    let mut policy = capped(&settings);
    bench.run(&mut policy);
    assert_eq!((bench.started(), bench.reserved()), (&[2][..], vec![(1, 22.0 * 3600.0)]));
    assert_eq!(bench.wake_at(), Some(22.0 * 3600.0));
    bench.advance(10.0 * 3600.0);
    bench.run(&mut policy);
    // Night is shorter than job 4 asks for: it gets no start, and delays no other job.
    assert_eq!((bench.started(), bench.reserved()), (&[1][..], vec![(3, 23.0 * 3600.0)]));
    // When it is first in line it is told.
    let mut bench = Bench::new(1);
    bench.flow("power", "W", 1000);
    bench.job(4).cores(1).flow("power", 900).duration(9.0 * 3600.0).submit();
    bench.run(&mut policy);
    let why = Some("\"takes 900 W of power, the budget never allows that for so long\"");
    assert_eq!(bench.annotation(4, "sched.reason_pending"), why);
}

#[test]
fn what_is_over_every_budget_is_told_so_and_passed_over() {
    let mut bench = bench();
    bench.job(1).cores(1).flow("power", 700).submit();
    bench.job(2).cores(1).flow("power", 600).submit();
    bench.run(&mut capped(&[("budget", "60%")]));
    assert_eq!(bench.started(), [2]);
    assert_eq!(bench.annotation(1, "sched.over_budget"), Some(r#"{"asked":700,"budget":600}"#));
    let why = Some("\"takes 700 W of power, the budget is never above 600\"");
    assert_eq!(bench.annotation(1, "sched.reason_pending"), why);
    assert_eq!(bench.annotation(2, "sched.reason_pending"), None);
}

#[test]
fn however_many_can_never_start_a_job_behind_them_is_the_head() {
    let mut bench = bench();
    bench.job(1).cores(10).flow("power", 300).duration(50.0).running();
    for id in 2..102 {
        bench.job(id).cores(1).flow("power", 401).submit();
    }
    bench.job(102).cores(1).flow("power", 200).duration(10.0).submit();
    bench.job(103).cores(1).flow("power", 401).submit();
    bench.run(&mut capped(&[("budget", "400")]));
    assert_eq!((bench.started(), bench.reserved()), (&[][..], vec![(102, 50.0)]));
    for id in [2, 101, 103] {
        let why = bench.annotation(id, "sched.reason_pending");
        assert!(why.is_some_and(|why| why.contains("never above 400")), "{id}: {why:?}");
    }
    // No job waits that another hour would help.
    assert_eq!(bench.wake_at(), None);
}

#[test]
fn without_such_a_kind_it_is_easy() {
    let mut bench = Bench::new(10);
    bench.job(1).cores(6).duration(100.0).running();
    bench.job(2).cores(8).duration(50.0).submit();
    bench.job(3).cores(4).duration(101.0).submit();
    bench.job(4).cores(2).duration(101.0).submit();
    bench.run(&mut capped(&[("budget", "0%")]));
    assert_eq!((bench.started(), bench.reserved()), (&[4][..], vec![(2, 100.0)]));
}

#[test]
fn settings_out_of_range_are_refused() {
    for (key, value, says) in [
        ("budget", "101%", "0% to 100%"),
        ("budget", "lots", "0% to 100%"),
        ("peak-budget", "-1", "0% to 100%"),
        ("window", "0", "between 1 and 100000"),
        ("peak-hours", "8-20", "08:00-20:00"),
        ("peak-hours", "08:00-24:00", "08:00-20:00"),
        ("peak-hours", "08:00-08:00", "08:00-20:00"),
    ] {
        let error = configured::<PowerCapped>(&[(key, value)]).unwrap_err();
        assert!(error.contains(says) && error.contains(key), "{key}: {error}");
    }
}
