//! The rule by hand, on small machines.

use fluxgate_guest::bench::{Bench, configured};

use super::*;

/// No job waits long enough to matter.
const BY_SHARE: [(&str, &str); 2] = [("weight-age", "0"), ("weight-priority", "0")];

/// User 1 has had the machine for 100 s, and asks again before user 2 does.
fn after_user_1(settings: &[(&str, &str)]) -> Vec<u64> {
    let mut bench = Bench::new(4);
    let mut policy = configured::<Multifactor>(settings).unwrap();
    bench.job(1).userid(1).cores(4).duration(100.0).submit();
    bench.run(&mut policy);
    bench.job(2).userid(1).cores(4).duration(10.0).submit();
    bench.job(3).userid(2).cores(4).duration(10.0).submit();
    bench.advance(100.0);
    bench.run(&mut policy);
    bench.started().to_vec()
}

#[test]
fn who_used_less_comes_first() {
    assert_eq!(after_user_1(&BY_SHARE), [3]);
    assert_eq!(after_user_1(&[("weight-fair-share", "0")]), [2], "by age");
    let mut shares = BY_SHARE.to_vec();
    shares.push(("accounts", "both=1 2"));
    assert_eq!(after_user_1(&shares), [2], "they are one account, and the first came first");
    let mut shares = BY_SHARE.to_vec();
    shares.push(("shares", "2=0"));
    assert_eq!(after_user_1(&shares), [2], "without a share no user is before another");
}

#[test]
fn a_running_job_is_charged_as_it_runs() {
    let mut bench = Bench::new(4);
    let mut policy = configured::<Multifactor>(&BY_SHARE).unwrap();
    bench.job(1).userid(1).cores(2).duration(1000.0).submit();
    bench.job(2).userid(3).cores(2).duration(50.0).submit();
    bench.run(&mut policy);
    bench.job(3).userid(1).cores(2).duration(10.0).submit();
    bench.job(4).userid(2).cores(2).duration(10.0).submit();
    bench.advance(50.0);
    bench.run(&mut policy);
    assert_eq!(bench.started(), [4]);
}

#[test]
fn factors_are_weighted() {
    let settings = [("weight-size", "2"), ("max-age", "100"), ("priority-full", "32")];
    let policy = configured::<Multifactor>(&settings).unwrap();
    let job = |cores, priority| Job {
        id: 1,
        t_submit: 0.0,
        duration: 10.0,
        priority,
        userid: 0,
        queue: 0,
        nodes: 0,
        cores,
        gpus: 0,
    };
    let score =
        |policy: &Multifactor, now, share, job| policy.score(now, 16, share, &job, &mut Last::default());
    // age 0.5, fair share 0.25, size 2 * 0.5, priority 0.5
    assert_eq!(score(&policy, 50.0, 0.25, job(8, 16)), 2.25e9);
    assert_eq!(score(&policy, 1e9, 1.0, job(64, 1000)), 5e9, "no factor is above 1");
    assert_eq!(score(&policy, 0.0, 0.0, job(1, u32::MAX)), f64::INFINITY);
    let small = configured::<Multifactor>(&[("weight-size", "1"), ("favor", "small")]).unwrap();
    assert_eq!(score(&small, 0.0, 0.0, job(16, 31)), 1e9);
    // The jobs before do not matter.
    let mut last = Last::default();
    for n in 0..40 {
        let job = Job { t_submit: f64::from(n / 7 % 3), ..job(1 + n % 5, 14 + n / 3 % 4) };
        assert_eq!(policy.score(60.0, 16, 0.5, &job, &mut last), score(&policy, 60.0, 0.5, job.clone()));
    }
}

#[test]
fn usage_survives_a_swap() {
    let mut bench = Bench::new(4);
    let mut first = configured::<Multifactor>(&BY_SHARE).unwrap();
    bench.job(1).userid(1).cores(3).duration(100.0).submit();
    bench.job(2).userid(7).cores(1).duration(1000.0).submit();
    bench.run(&mut first);
    bench.advance(100.0);
    bench.run(&mut first);
    let saved = first.save();
    assert_eq!(saved.version, STATE_VERSION);
    let text = String::from_utf8(saved.data.clone()).unwrap();
    assert!(text.starts_with("used ") && text.contains("job 2 1 0 7"), "{text}");
    let mut second = configured::<Multifactor>(&BY_SHARE).unwrap();
    second.restore("multifactor", saved.version, &saved.data).unwrap();
    assert_eq!(second.save(), saved);
    assert!(second.restore("easy", 1, &saved.data).is_err());
    assert!(second.restore("multifactor", 2, &saved.data).is_err());
    let before = second.save();
    for bad in ["used x 1 a", "used 1 2", "job 1 2", "other 1 2 3 4", "used -1 0 a", "used 1 0 b\njob"] {
        let error = second.restore("multifactor", 1, bad.as_bytes()).unwrap_err();
        assert!(error.contains("line"), "{error}");
    }
    assert_eq!(second.save(), before, "what is refused changes nothing");
}

fn job(id: u64, userid: u32) -> Job {
    Job { id, t_submit: 0.0, duration: 10.0, priority: 16, userid, queue: 0, nodes: 0, cores: 3, gpus: 0 }
}

#[test]
fn a_start_that_is_made_again_counts_once() {
    let mut accounts = Accounts::new(100.0, "", "").unwrap();
    for (id, user) in [(1, 1), (2, 2)] {
        accounts.waits(&job(id, user));
        accounts.starts(id, 10.0);
    }
    // The scheduler ended before the start was known, and the job waited again.
    accounts.waits(&job(1, 1));
    accounts.starts(1, 20.0);
    accounts.waits(&job(3, 3));
    accounts.starts(3, 20.0);
    let factors = |accounts: &Accounts| {
        let mut factors = accounts.factors(50.0, 1.0, Lists::default());
        [1, 2, 3].map(|user| factors.of(user).to_bits())
    };
    let found = factors(&accounts);
    assert_eq!(found[0], found[2], "both run since 20 s");
    let mut again = Accounts::new(100.0, "", "").unwrap();
    again.restore(&accounts.save()).unwrap();
    [1, 2, 3].into_iter().for_each(|user| again.waits(&job(10, user)));
    assert_eq!(factors(&again), found);
}

#[test]
fn settings_out_of_range_are_refused() {
    for (key, value, says) in [
        ("weight-age", "-1", "0 or more"),
        ("weight-size", "inf", "a finite number"),
        ("half-life", "0", "above 0"),
        ("max-age", "0", "above 0"),
        ("damping", "0", "above 0"),
        ("favor", "medium", "large or small"),
        ("priority-full", "0", "between 1"),
        ("shares", "1001", "NAME=VALUE"),
        ("shares", "a=-2", "0 or more"),
        ("accounts", "a=1 x", "user numbers"),
        ("accounts", "a=1 2, b=2", "two accounts"),
        ("depth", "1001", "between 0 and 1000"),
        ("window", "-1", "between 0 and 100000"),
    ] {
        let error = configured::<Multifactor>(&[(key, value)]).unwrap_err();
        assert!(error.contains(says) && error.contains(key), "{key}: {error}");
    }
}

/// Usage that decayed to almost nothing is still all of it.
#[test]
fn factors_after_a_thousand_half_lives() {
    let mut accounts = Accounts::new(1.0, "", "").unwrap();
    for (id, user) in [(1, 1), (2, 2)] {
        accounts.waits(&job(id, user));
    }
    accounts.starts(1, 0.0);
    accounts.ends(1, 1.0);
    for now in [2.0, 900.0, 1020.0, 1060.0, 1e6] {
        let mut factors = accounts.factors(now, 1.0, Lists::default());
        let nothing_left = accounts.factors(now, 1.0, Lists::default()).of(1) == 1.0;
        assert_eq!((factors.of(1), factors.of(2)), (if nothing_left { 1.0 } else { 0.25 }, 1.0), "{now}");
        assert!(!nothing_left || now > 1000.0);
    }
}
