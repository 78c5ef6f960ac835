//! Figures of small runs, computed by hand.

use super::*;
use fluxgate_formats::quantile;

fn job(submit: f64, start: f64, end: f64, cores: u32) -> Job {
    Job { submit, start, end, cores, user: 0, killed: false, backfilled: false, lost: false }
}

#[test]
fn res_9_figures_by_hand() {
    let mut m = Metrics::new(4);
    m.add(&job(0.0, 0.0, 100.0, 2)).unwrap();
    m.add(&job(10.0, 100.0, 105.0, 4)).unwrap();
    m.add(&Job { backfilled: true, killed: true, ..job(20.0, 20.0, 50.0, 2) }).unwrap();
    m.add(&job(30.0, 105.0, 305.0, 1)).unwrap();
    let s = m.summary().unwrap();
    assert_eq!((s.jobs, s.killed, s.backfilled, s.backfilled_share), (4, 1, 1, 0.25));
    // waits 0 90 0 75
    assert_eq!(s.wait_s.mean, 41.25);
    assert_eq!(s.wait_s.median, 37.5);
    assert_eq!(s.wait_s.max, 90.0);
    // h = 3 * 0.95 = 2.85 between 75 and 90
    assert!((s.wait_s.p95 - 87.75).abs() < 1e-9);
    // responses 100 95 30 275
    assert_eq!(s.response_s.mean, 125.0);
    // slowdowns 1 19 1 1.375
    assert_eq!(s.slowdown.max, 19.0);
    // threshold 10: 95/10; threshold 60: 95/60, and 30/60 is bounded by 1
    assert_eq!(s.bounded_slowdown[0].distribution.max, 9.5);
    assert_eq!(s.bounded_slowdown[1].threshold_s, 60.0);
    assert_eq!(s.bounded_slowdown[1].distribution.max, 95.0 / 60.0);
    assert_eq!(s.bounded_slowdown[1].distribution.median, (1.0 + 1.375) / 2.0);
    assert_eq!(s.makespan_s, 305.0);
    assert_eq!(s.core_seconds, 200.0 + 20.0 + 60.0 + 200.0);
    // RES-9: to the last end and to the last start are two metrics.
    assert_eq!(s.utilisation, 480.0 / (4.0 * 305.0));
    assert_eq!(s.utilisation_to_last_start, 480.0 / (4.0 * 105.0));
    // Which paper uses which is cited.
    let cited = |name: &str| DEFINITIONS.iter().find(|of| of.name == name).unwrap().source;
    assert_ne!(cited("utilisation"), cited("utilisation_to_last_start"));
}

#[test]
fn idle_cores_that_a_waiting_job_could_use_are_lost() {
    let mut m = Metrics::new(10);
    m.add(&job(0.0, 0.0, 100.0, 1)).unwrap();
    let mut span = |busy, waiting, narrowest| {
        m.span(&Span { from: 0.0, to: 10.0, busy, waiting, narrowest, put_off: 0 }).unwrap();
    };
    span(4, 1, Some(7));
    span(4, 2, Some(6));
    span(4, 0, None);
    assert_eq!(m.summary().unwrap().loss_of_capacity, 60.0 / 1000.0);
}

/// RES-10: jobs that warm up the machine are in no metric.
#[test]
fn res_10_uncounted_jobs() {
    let none = std::iter::empty::<(u32, String, fluxgate_formats::rset::Children)>();
    let r = fluxgate_formats::R::from_nodes(none);
    let job = |id, submit| crate::workload::Job::new(JobId(id), submit, 2, 10.0, 10.0);
    let jobs = [job(1, 0.0), job(2, 0.0), job(3, 5.0)];
    let mut m = Metrics::new(10).counting_from(Some((0.0, JobId(2))));
    for job in &jobs {
        let (start, end) = (job.submit + 1.0, job.submit + 11.0);
        m.started(&Started { job, start, end, r: &r, cores: &[], backfilled: false, again: None }).unwrap();
    }
    m.denied(&jobs[0], "").unwrap();
    m.left(&jobs[2], "").unwrap();
    let s = m.summary().unwrap();
    assert_eq!((s.jobs, s.denied, s.never_started, s.core_seconds), (2, 0, 1, 40.0));
    let mut m = Metrics::new(10).counting_from(Some((4.0, JobId(0))));
    m.started(&Started {
        job: &jobs[2],
        start: 5.0,
        end: 105.0,
        r: &r,
        cores: &[],
        backfilled: false,
        again: None,
    })
    .unwrap();
    m.span(&Span { from: 0.0, to: 6.0, busy: 0, waiting: 1, narrowest: Some(1), put_off: 0 }).unwrap();
    assert_eq!(m.summary().unwrap().loss_of_capacity, 20.0 / 1000.0, "from 4 on");
}

#[test]
fn fairness_is_jains_index_of_users() {
    let mut m = Metrics::new(1);
    // Bounded slowdowns 1 and 3 (mean 2) for one user, 6 for the other.
    m.add(&job(0.0, 0.0, 10.0, 1)).unwrap();
    m.add(&job(0.0, 20.0, 30.0, 1)).unwrap();
    m.add(&Job { user: 1, ..job(0.0, 50.0, 60.0, 1) }).unwrap();
    assert_eq!(m.summary().unwrap().fairness_users, 64.0 / (2.0 * 40.0));
}

#[test]
fn energy_and_fair_starts_are_told_when_they_are_known() {
    let mut m = Metrics::new(4);
    m.add(&job(0.0, 0.0, 3600.0, 2)).unwrap();
    let mut s = m.summary().unwrap();
    let names = |s: &Summary| s.figures().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&s).last().map(String::as_str), Some("fairness_users"));
    // Half of two nodes for an hour.
    s.energy_kwh = Some(s.energy_kwh(2, NodeWatts { idle: 100.0, busy: 300.0 }));
    assert_eq!(s.energy_kwh, Some(0.4));
    s.fair_start = Some(FairStart::of(&[(10.0, 10.0), (10.0, 12.0), (30.0, 20.0), (50.0, 20.0)]));
    let fair = s.fair_start.unwrap();
    assert_eq!((fair.samples, fair.unfair_share, fair.miss_s.mean, fair.miss_s.max), (4, 0.5, 10.0, 30.0));
    assert!(
        names(&s).contains(&"fair_start_miss_mean_s".to_owned())
            && names(&s).contains(&"energy_kwh".to_owned())
    );
    assert_eq!(FairStart::of(&[]).unfair_share, 0.0);
}

#[test]
fn nothing_ran() {
    let s = Metrics::new(4).summary().unwrap();
    assert_eq!((s.jobs, s.utilisation, s.makespan_s, s.wait_s), (0, 0.0, 0.0, Distribution::default()));
}

#[test]
fn run_time_zero_is_in_bounded_slowdown_only() {
    let mut m = Metrics::with_thresholds(1, &[10.0, 0.0]);
    m.add(&job(0.0, 20.0, 20.0, 1)).unwrap();
    let s = m.summary().unwrap();
    assert_eq!(s.slowdown, Distribution::default());
    assert_eq!(s.bounded_slowdown[0].distribution.max, 2.0);
    assert_eq!(s.bounded_slowdown[1].distribution.max, 1.0);
}

#[test]
fn quantiles_of_type_7() {
    let v = [1.0, 2.0, 3.0, 4.0];
    assert_eq!([0.0, 0.25, 0.5, 1.0].map(|p| quantile(&v, p)), [1.0, 1.75, 2.5, 4.0]);
    assert_eq!(quantile(&[], 0.5), 0.0);
    assert_eq!(quantile(&[7.0], 0.95), 7.0);
}

#[test]
fn sums_keep_their_digits() {
    assert_eq!(sum([1e16, 1.0, -1e16].into_iter()), 1.0);
}

#[test]
fn what_is_lost_after_the_last_end_is_in_no_figure() {
    let mut m = Metrics::new(4);
    let span = |from, to, busy| Span { from, to, busy, waiting: 1, narrowest: Some(1), put_off: 0 };
    m.add(&job(0.0, 0.0, 10.0, 2)).unwrap();
    m.span(&span(0.0, 10.0, 2)).unwrap();
    m.span(&span(10.0, 1e6, 0)).unwrap();
    m.left(&crate::workload::Job::new(JobId(2), 0.0, 1, 9.0, 9.0), "").unwrap();
    let s = m.summary().unwrap();
    assert_eq!((s.makespan_s, s.loss_of_capacity, s.never_started), (10.0, 0.5, 1));
    // The job starts after all.
    m.add(&job(0.0, 1e6, 1e6 + 10.0, 2)).unwrap();
    assert!(m.summary().unwrap().loss_of_capacity > 0.99);
}

#[test]
fn csv_has_one_line_a_run() {
    let mut m = Metrics::new(4);
    m.add(&job(0.0, 5.0, 10.0, 2)).unwrap();
    let s = m.summary().unwrap();
    let mut out = Vec::new();
    write_csv(&mut out, [("fcfs", &s), ("easy", &s)]).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "policy,jobs,killed,denied,never_started,wait_mean_s,wait_median_s,wait_p95_s,wait_max_s,response_mean_s,\
         response_median_s,response_p95_s,response_max_s,slowdown_mean,slowdown_median,slowdown_p95,\
         slowdown_max,bounded_slowdown_10_mean,bounded_slowdown_10_median,bounded_slowdown_10_p95,\
         bounded_slowdown_10_max,bounded_slowdown_60_mean,bounded_slowdown_60_median,\
         bounded_slowdown_60_p95,bounded_slowdown_60_max,makespan_s,core_seconds,utilisation,\
         utilisation_to_last_start,backfilled_share,loss_of_capacity,fairness_users"
    );
    assert_eq!(lines[1], "fcfs,1,0,0,0,5,5,5,5,10,10,10,10,2,2,2,2,1,1,1,1,1,1,1,1,10,10,0.25,0.5,0,0,1");
    assert_eq!(lines.len(), 3);
}
