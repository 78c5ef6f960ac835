//! The rule by hand, on small machines.

use fluxgate_guest::bench::{Bench, configured};

use super::*;

/// User 1 has run twice, 100 s and 300 s, of 10,000 s requested each time. It is 400 now, and ten cores are free.
fn known(policy: &mut EasyPlusPlus) -> Bench {
    let mut bench = Bench::new(10);
    for (id, length) in [(101, 100.0), (102, 300.0)] {
        bench.job(id).userid(1).cores(10).duration(10_000.0).really(length).submit();
        bench.run(policy);
        bench.advance(length);
    }
    bench.run(policy);
    bench
}

/// Job 1 of user 1 holds six cores, for 200 s by prediction; job 2 wants eight and waits.
fn waiting_head(policy: &mut EasyPlusPlus) -> Bench {
    let mut bench = known(policy);
    bench.job(1).userid(1).cores(6).duration(10_000.0).submit();
    bench.job(2).userid(2).cores(8).duration(50.0).submit();
    bench
}

#[test]
fn the_shadow_time_is_predicted() {
    let mut policy = EasyPlusPlus::default();
    let mut bench = waiting_head(&mut policy);
    bench.job(3).userid(2).cores(3).duration(201.0).submit();
    bench.job(4).userid(2).cores(3).duration(200.0).submit();
    bench.run(&mut policy);
    assert_eq!(bench.started(), [1, 4], "job 3 would be there when the head is expected to start");
    assert_eq!(bench.reserved(), [], "the host reserves nothing");
    assert_eq!(bench.wake_at(), Some(600.0));
}

#[test]
fn who_is_predicted_to_end_in_time_may_ask_for_more() {
    let mut policy = EasyPlusPlus::default();
    let mut bench = waiting_head(&mut policy);
    bench.job(3).userid(1).cores(4).duration(10_000.0).submit();
    bench.run(&mut policy);
    assert_eq!(bench.started(), [1, 3]);
}

#[test]
fn a_prediction_that_was_outlived_is_corrected() {
    let mut policy = EasyPlusPlus::default();
    let mut bench = waiting_head(&mut policy);
    bench.run(&mut policy);
    let mut woken = Vec::new();
    for _ in 0..7 {
        let wake = bench.wake_at().unwrap();
        woken.push(wake - 400.0);
        bench.advance(wake - bench.now());
        bench.run(&mut policy);
    }
    // 200 s, then more by 1, 5, 15, 30, 60, 120 minutes; the request ends it at 10,000 s, and the head runs.
    assert_eq!(woken[..6], [200.0, 260.0, 560.0, 1460.0, 3260.0, 6860.0]);
    assert_eq!(woken[6], 10_000.0);
    assert_eq!(bench.started(), [2]);
}

#[test]
fn short_jobs_come_first_behind_the_head() {
    for (settings, first) in [(&[][..], 4), (&[("backfill", "queue")][..], 3)] {
        let mut policy = configured::<EasyPlusPlus>(settings).unwrap();
        let mut bench = waiting_head(&mut policy);
        bench.job(3).userid(2).cores(3).duration(150.0).submit();
        bench.job(4).userid(2).cores(3).duration(100.0).submit();
        bench.run(&mut policy);
        assert_eq!(bench.started(), [1, first]);
    }
}

#[test]
fn extra_cores_are_used_up() {
    let mut policy = EasyPlusPlus::default();
    let mut bench = waiting_head(&mut policy);
    bench.job(3).userid(2).cores(2).duration(f64::INFINITY).submit();
    bench.job(4).userid(2).cores(1).duration(201.0).submit();
    bench.run(&mut policy);
    assert_eq!(bench.started(), [1, 4], "of two extra cores job 4 leaves one");
}

/// Six cores are held by a job that the policy does not know: it ran before the policy came.
#[test]
fn where_counting_does_not_tell_the_host_reserves() {
    let mut bench = Bench::new(10);
    bench.job(1).cores(6).duration(100.0).running();
    bench.job(2).cores(8).duration(50.0).submit();
    bench.job(3).cores(4).duration(100.5).submit();
    bench.job(4).cores(4).duration(100.0).submit();
    bench.run(&mut EasyPlusPlus::default());
    assert_eq!(bench.reserved(), [(2, 100.0)]);
    assert_eq!(bench.started(), [4]);
    assert_eq!(bench.wake_at(), None);
}

#[test]
fn gpus_are_not_counted_but_reserved() {
    let mut bench = Bench::cluster(1, 10, 1);
    let mut policy = EasyPlusPlus::default();
    bench.job(1).cores(1).gpus(1).duration(100.0).submit();
    bench.job(2).cores(1).gpus(1).duration(50.0).submit();
    bench.job(3).cores(1).gpus(1).duration(10.0).submit();
    bench.run(&mut policy);
    assert_eq!((bench.started(), bench.reserved()), (&[1][..], vec![(2, 100.0)]));
}

#[test]
fn a_head_without_any_time_is_passed_over() {
    let mut bench = Bench::new(10);
    bench.down_cores(2);
    let mut policy = EasyPlusPlus::default();
    bench.job(1).cores(6).duration(100.0).submit();
    bench.job(2).cores(10).submit();
    bench.job(3).cores(8).submit();
    bench.job(4).cores(2).duration(101.0).submit();
    bench.run(&mut policy);
    assert_eq!(bench.started(), [1]);
    assert_eq!((bench.reserved(), bench.wake_at()), (vec![], Some(100.0)));
}

#[test]
fn what_was_learned_survives_a_swap() {
    let mut first = EasyPlusPlus::default();
    let mut bench = waiting_head(&mut first);
    bench.run(&mut first);
    // Of its starts it hears before the next pass; a successor hears of them in its place.
    let early = first.save();
    assert_eq!(String::from_utf8(early.data.clone()).unwrap(), "ran 1 100 300\nstarts 1 1 6 10000\n");
    let mut heir = EasyPlusPlus::default();
    heir.restore("easy-plus-plus", STATE_VERSION, &early.data).unwrap();
    let started = JobEvent { job: 1, time: 400.0, what: Happened::Started { end: 10_400.0 } };
    heir.observe(400.0, &[started]);
    bench.run(&mut first);
    let saved = first.save();
    assert_eq!(heir.save(), saved);
    let text = String::from_utf8(saved.data.clone()).unwrap();
    assert_eq!(text, "ran 1 100 300\nruns 1 1 6 400 200 10400\n");
    let mut second = EasyPlusPlus::default();
    second.restore("easy-plus-plus", STATE_VERSION, &saved.data).unwrap();
    assert_eq!(second.save(), saved);
    assert!(second.restore("easy", STATE_VERSION, &saved.data).is_err());
    assert!(second.restore("easy-plus-plus", 2, &saved.data).is_err());
    for bad in [
        "ran 1",
        "ran x 1",
        "ran 1 -1",
        "ran 1 inf",
        "runs 1 1 1 0 1",
        "runs 1 1 1 0 1 2 3",
        "starts 1 1 1",
        "x 1",
    ] {
        let error = second.restore("easy-plus-plus", STATE_VERSION, bad.as_bytes()).unwrap_err();
        assert!(error.contains("line 1"), "{error}");
    }
    assert_eq!(second.save(), saved, "what is refused changes nothing");
    let mut shorter = configured::<EasyPlusPlus>(&[("history", "1")]).unwrap();
    shorter.restore("easy-plus-plus", STATE_VERSION, &saved.data).unwrap();
    assert!(String::from_utf8(shorter.save().data).unwrap().starts_with("ran 1 300\n"), "the last counts");
}

#[test]
fn settings_out_of_range_are_refused() {
    for (key, value, says) in [
        ("history", "101", "between 0 and 100"),
        ("backfill", "longest", "shortest or queue"),
        ("window", "0", "between 1 and 100000"),
    ] {
        let error = configured::<EasyPlusPlus>(&[(key, value)]).unwrap_err();
        assert!(error.contains(says) && error.contains(key), "{key}: {error}");
    }
}

/// RES-8: the corrections of SC'15 are offsets of the first prediction, and after the last the requested end counts.
#[test]
fn res_8_corrections_as_offsets() {
    let mut policy = configured::<EasyPlusPlus>(&[("corrections", "offsets")]).unwrap();
    let mut bench = waiting_head(&mut policy);
    bench.run(&mut policy);
    let mut woken = Vec::new();
    for _ in 0..7 {
        let wake = bench.wake_at().unwrap();
        woken.push(wake - 400.0);
        bench.advance(wake - bench.now());
        bench.run(&mut policy);
    }
    // 200 s, then 200 s and 1, 5, 15, 30, 60, 120 minutes.
    assert_eq!(woken, [200.0, 260.0, 500.0, 1100.0, 2000.0, 3800.0, 7400.0]);
}

/// RES-8: a job keeps the prediction of its submission, of which ends at that instant are no part.
#[test]
fn res_8_predictions_at_submission() {
    let shadow = |predict: &str| {
        let mut policy = configured::<EasyPlusPlus>(&[("predict", predict)]).unwrap();
        let mut bench = known(&mut policy);
        // User 1 has run for 100 s and for 300 s, which ended at 400, as these jobs come.
        bench.job(1).userid(1).cores(6).duration(10_000.0).submit();
        bench.job(2).userid(2).cores(8).duration(50.0).submit();
        bench.run(&mut policy);
        bench.wake_at().unwrap() - 400.0
    };
    assert_eq!([shadow("pass"), shadow("submission")], [200.0, 10_000.0]);

    let mut policy = configured::<EasyPlusPlus>(&[("predict", "submission")]).unwrap();
    let mut bench = known(&mut policy);
    bench.advance(1.0);
    bench.job(1).userid(1).cores(10).duration(10_000.0).really(50.0).submit();
    bench.job(2).userid(1).cores(6).duration(10_000.0).submit();
    bench.job(3).userid(2).cores(8).duration(50.0).submit();
    bench.run(&mut policy);
    bench.advance(50.0);
    bench.run(&mut policy);
    // Job 2 was predicted before job 1 ended: 200 s, not 175 s.
    assert_eq!((bench.started(), bench.wake_at()), (&[2][..], Some(bench.now() + 200.0)));
    let saved = policy.learned.save();
    assert!(saved.starts_with("ran 1 300 50\n"), "{saved}");
}
