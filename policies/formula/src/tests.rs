//! The rule by hand, on small machines.

use fluxgate_guest::bench::{Bench, configured};

use super::*;

fn made(settings: &[(&str, &str)]) -> Formula {
    configured::<Formula>(settings).unwrap()
}

fn refused(settings: &[(&str, &str)]) -> String {
    configured::<Formula>(settings).unwrap_err()
}

fn job(id: u64, t_submit: f64, duration: f64, cores: u32) -> Job {
    Job { id, t_submit, duration, priority: 16, userid: 0, queue: 0, nodes: 0, cores, gpus: 0 }
}

/// The key of a job of 100 s on 16 cores, submitted 1000 s after the origin, at the time 1300.
fn key(score: &str, coefficients: &str) -> f64 {
    let mut policy = made(&[("score", score), ("origin", "epoch"), ("coefficients", coefficients)]);
    policy.key(1300.0, &job(1, 1000.0, 100.0, 16))
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "found {found}, expected {expected}");
}

/// RES-3: F1 to F4, SAF, SRF, LINEAR and its successors to the fourth degree as published.
#[test]
fn res_3_published_formulas() {
    for (score, expected) in [
        ("fcfs", 1000.0),
        ("sjf", 100.0),
        ("smallest", 16.0),
        ("f1", 2.0 * 16.0 + 870.0 * 3.0),
        ("f2", 10.0 * 16.0 + 25_600.0 * 3.0),
        ("f3", 1600.0 + 6_860_000.0 * 3.0),
        ("f4", 400.0 + 530_000.0 * 3.0),
        ("saf", 1600.0),
        ("srf", 6.25),
        ("linear", 0.031_668_893_2 + 1.242_149_15e-5 + 4.963_557_072e-4 - 1.627_303_01e-4),
        ("wfp3", -(27.0 * 16.0)),
        ("unicef", -(300.0 / 400.0)),
    ] {
        close(key(score, "rounded"), expected);
    }
    // A job so large that each term counts.
    for (score, expected) in [
        ("quadratic", 5.056_502_013_079_0),
        ("cubic", 60.858_805_025_655_8),
        ("quartic", 4_315.252_710_851_411),
    ] {
        let mut policy = made(&[("score", score), ("origin", "epoch")]);
        close(policy.key(1e6, &job(1, 1e6, 86_400.0, 4096)), expected);
    }
    close(key("f1", "fitted"), 0.015_518_340_3 * 2.0 * 0.000_514_920_9 * 16.0 + 0.006_959_618_2 * 3.0);
    close(key("f4", "fitted"), 0.005_650_028_7 * 100.0 * 0.000_002_481_4 * 4.0 + 0.007_444_435_5 * 3.0);
    assert!(refused(&[("score", "saf"), ("coefficients", "fitted")]).contains("f1 to f4 have"));
}

/// RES-3: the age term of F1 counts from the origin, so that it is of use under a scheduler whose times are those of now.
#[test]
fn res_3_origin_of_submissions() {
    let jobs =
        |from: f64| [job(1, from, 10.0, 1), job(2, from + 10.0, 1e4, 64), job(3, from + 20.0, 10.0, 1)];
    let order = |origin: &str, from: f64| {
        let mut policy = made(&[("score", "f1"), ("origin", origin)]);
        let mut keyed: Vec<(f64, u64)> =
            jobs(from).iter().map(|job| (policy.key(job.t_submit, job), job.id)).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        keyed.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
    };
    assert_eq!(order("first-seen", 1.7e9), [1, 2, 3]);
    assert_eq!(order("epoch", 1.7e9), [1, 3, 2]);
    assert_eq!(order("1700000000", 1.7e9), order("first-seen", 1.7e9));
    let mut policy = made(&[("score", "submit")]);
    assert_eq!(policy.key(7.0, &job(1, 7.0, 1.0, 1)), 0.0, "the first job that is seen");
    assert_eq!(policy.key(9.0, &job(2, 9.0, 1.0, 1)), 2.0);
}

/// RES-4: UNICEF has log2(n), and jobs of one core come first, among them the largest wait for the request.
#[test]
fn res_4_unicef_with_one_core_first() {
    let mut policy = made(&[("score", "unicef")]);
    let mut of = |job: Job| policy.key(1000.0, &job);
    let (serial, shorter) = (of(job(1, 999.0, 5000.0, 1)), of(job(2, 999.0, 50.0, 1)));
    let parallel = of(job(3, 0.0, 1.0, 2));
    assert!(shorter < serial && serial < parallel);
    close(of(job(4, 0.0, 100.0, 8)), -(1000.0 / 300.0));
}

/// RES-5: an expression without wait and now is a static key; with them, jobs are scored in each pass.
#[test]
fn res_5_expressions_that_change_are_scored_in_each_pass() {
    let race = |settings: &[(&str, &str)]| {
        let mut policy = made(settings);
        let mut bench = Bench::new(4);
        bench.job(1).cores(4).duration(100.0).running();
        bench.job(2).cores(4).duration(1000.0).submitted_at(-100.0).submit();
        bench.job(3).cores(4).duration(50.0).submitted_at(0.0).submit();
        bench.run(&mut policy);
        bench.advance(100.0);
        bench.run(&mut policy);
        bench.started().to_vec()
    };
    assert_eq!(race(&[("score", "submit")]), [2]);
    assert_eq!(race(&[("score", "duration")]), [3]);
    assert_eq!(race(&[("score", "duration"), ("first", "largest")]), [2]);
    // 0.2 against 2.
    assert_eq!(race(&[("score", "wait/duration"), ("first", "largest")]), [3]);
    assert_eq!(race(&[("score", "wfp3")]), [3]);
    assert_eq!(race(&[("score", "if(wait >= longest-wait, 0, 1)")]), [2]);
    assert_eq!(race(&[("score", "duration > shortest-request")]), [3]);
    assert_eq!(race(&[("score", "wfp3"), ("window", "1")]), [2], "the others are not scored");
}

#[test]
fn res_5_ties_and_jobs_without_a_value() {
    let mut policy = made(&[("score", "log10(0 - wait)*0 + 1"), ("depth", "0")]);
    let mut bench = Bench::new(1);
    bench.job(3).duration(10.0).submit();
    bench.job(2).duration(20.0).submit();
    bench.run(&mut policy);
    assert_eq!(bench.started(), [2], "no value: last, and by id among themselves");
    let mut bench = Bench::new(1);
    bench.job(3).duration(1.0).submit();
    bench.job(2).duration(9.0).priority(u32::MAX).submit();
    bench.run(&mut made(&[("score", "wait*0 + duration")]));
    assert_eq!(bench.started(), [2], "expedited");
}

#[test]
fn settings_are_refused_with_what_is_accepted() {
    let refusal = refused(&[("score", "cores *")]);
    assert!(refusal.contains("column 8: found the end") && refusal.contains("f1, f2"), "{refusal}");
    assert!(refused(&[("first", "last")]).contains("smallest, largest or auto"));
    assert!(refused(&[("origin", "never")]).contains("first-seen, epoch or seconds"));
    assert!(refused(&[("coefficients", "exact")]).contains("rounded or fitted"));
    assert!(refused(&[("depth", "1001")]).contains("between 0 and 1000"));
    for named in NAMED {
        made(&[("score", named.name)]);
        Expression::parse(named.fitted.unwrap_or(named.text)).unwrap();
    }
}

#[test]
fn res_18_its_state_is_the_first_job_that_it_saw() {
    let mut first = made(&[("score", "submit")]);
    assert_eq!(first.save().data, [0u8; 0], "no job so far");
    assert_eq!(first.zero(50.0), 50.0);
    let saved = first.save();
    let restored = |settings: &[(&str, &str)]| {
        let mut next = made(settings);
        next.restore("formula", saved.version, &saved.data).unwrap();
        next.zero(70.0)
    };
    assert_eq!(restored(&[("score", "submit")]), 50.0);
    assert_eq!(restored(&[("score", "submit"), ("origin", "epoch")]), 0.0, "the settings say where");
    let mut next = made(&[("score", "submit")]);
    assert!(next.restore("easy", 1, &saved.data).unwrap_err().contains("only the origin that formula saved"));
    assert_eq!(next.restore("formula", 1, &[1, 2]).unwrap_err(), "the origin is no time");
    assert_eq!(next.zero(70.0), 70.0, "what is refused changes nothing");
}
