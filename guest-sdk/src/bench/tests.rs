//! The behaviour of the bench, shown by a policy that uses every ability.

use super::*;
use crate::prelude::*;
use crate::{attributes, flow, machine};

/// Records its events, and does in a pass what `script` says.
#[derive(Default)]
struct Scribe {
    asked: Vec<JobId>,
    seen: Vec<(JobId, f64, Happened)>,
    script: Option<fn(&mut dyn Pass)>,
}

impl Policy for Scribe {
    fn info() -> Info {
        Info::new("scribe", "for tests")
    }
}

impl Ordering for Scribe {
    fn key(&mut self, _now: f64, job: &Job) -> f64 {
        self.asked.push(job.id);
        -(job.id as f64)
    }
}

impl Scheduling for Scribe {
    fn run(&mut self, pass: &mut dyn Pass) {
        if let Some(script) = self.script {
            script(pass);
        }
    }
}

impl Observing for Scribe {
    fn observe(&mut self, _now: f64, events: &[JobEvent]) {
        self.seen.extend(events.iter().map(|event| (event.job, event.time, event.what)));
    }
}

crate::export_policy!(Scribe: ordering, scheduling, observing);

fn run(bench: &mut Bench, script: fn(&mut dyn Pass)) {
    bench.run(&mut Scribe { script: Some(script), ..Scribe::default() });
}

fn start_all(pass: &mut dyn Pass) {
    while let Some(job) = pass.next() {
        let _ = pass.start(job);
    }
}

#[test]
fn a_key_is_asked_once_and_again_after_a_change() {
    let mut bench = Bench::new(0x100);
    let mut scribe = Scribe::default();
    bench.job(1).submit();
    bench.job(2).submit();
    bench.run(&mut scribe);
    bench.run(&mut scribe);
    assert_eq!(scribe.asked, [1, 2]);
    assert_eq!(bench.pending(), [2, 1]);
    bench.reprioritize(1, 20);
    scribe.script = Some(|pass| {
        pass.next().into_iter().for_each(|job| pass.rekey(job));
    });
    bench.run(&mut scribe);
    bench.run(&mut scribe);
    assert_eq!(scribe.asked, [1, 2, 1, 2]);
}

#[test]
fn events_tell_a_job_s_life() {
    let mut bench = Bench::new(1);
    let mut scribe = Scribe { script: Some(start_all), ..Scribe::default() };
    bench.job(2).duration(10.0).really(4.0).submit();
    bench.job(1).submit();
    bench.run(&mut scribe);
    bench.advance(5.0);
    bench.cancel(1);
    bench.run(&mut scribe);
    let life = [
        (2, 0.0, Happened::Pending),
        (1, 0.0, Happened::Pending),
        (2, 0.0, Happened::Started { end: 10.0 }),
        (2, 4.0, Happened::Ended { start: 0.0 }),
        (1, 5.0, Happened::Removed),
    ];
    assert_eq!(scribe.seen, life);
}

#[test]
fn questions_see_what_is_staged() {
    let mut bench = Bench::cluster(2, 4, 1);
    bench.job(3).nodes(1).gpus(1).duration(10.0).submit();
    bench.job(2).cores(5).duration(10.0).submit();
    bench.job(1).cores(4).duration(30.0).submit();
    run(&mut bench, |pass| {
        let [first, wide, small] = [0; 3].map(|_| pass.next().unwrap());
        assert_eq!(pass.next(), None);
        assert_eq!(pass.describe(first).nodes, 1);
        assert!(pass.fits(wide) && pass.fits(first));
        assert_eq!(pass.earliest(wide), 0.0);
        assert_eq!(pass.start(first), Ok(()));
        assert_eq!((pass.totals().free_cores, pass.totals().free_gpus), (4, 1));
        assert!(!pass.fits(wide));
        assert_eq!(pass.earliest(wide), 10.0);
        assert_eq!(pass.start(wide), Err(Refusal::Busy));
        assert_eq!(pass.reserve(wide), Ok(10.0));
        assert_eq!(pass.start(small), Err(Refusal::DelaysReservation));
        pass.rewind();
        assert_eq!(pass.next(), Some(small), "decided ones do not come again");
        assert_eq!(pass.next_fitting(), None);
    });
    assert_eq!(bench.started(), [3]);
    assert_eq!(bench.reserved(), [(2, 10.0)]);
}

#[test]
fn placements_annotations_and_waking() {
    let mut bench = Bench::new(4);
    bench.job(2).submit();
    bench.job(1).submit();
    run(&mut bench, |pass| {
        assert_eq!(pass.placement("sideways"), None);
        let pack = pass.placement("pack").unwrap();
        let job = pass.next().unwrap();
        pass.annotate(job, "user.colour", "\"red\"");
        pass.annotate(job, "sched.rank", "1");
        pass.annotate(job, "sched.rank", "null");
        assert_eq!(pass.start_placed(job, pack), Ok(()));
        pass.wake_at(50.0);
        pass.wake_at(20.0);
    });
    assert_eq!(bench.placement(2), Some("pack"));
    assert_eq!(bench.annotation(2, "user.colour"), Some("\"red\""));
    assert_eq!(bench.annotation(2, "sched.rank"), None);
    assert_eq!(bench.wake_at(), Some(20.0));
}

#[test]
fn the_machine_can_be_asked_outside_of_a_pass() {
    let mut bench = Bench::cluster(4, 8, 0);
    bench.job(1).nodes(1).queue("debug").running();
    bench.job(2).queue("batch").submit();
    bench.run(&mut Scribe::default());
    assert_eq!(machine::queue_count(), 3);
    assert_eq!(machine::queue_name(1), "debug");
    assert_eq!(machine::queue_name(9), "");
    let totals = machine::totals();
    assert_eq!((totals.free_nodes, totals.free_cores), (3, 24));
    assert_eq!((totals.running, totals.pending), (1, 1));
}

#[test]
fn a_job_over_its_time_holds_its_cores_but_plans_expect_it_to_end() {
    let mut bench = Bench::new(4);
    bench.job(1).cores(4).duration(10.0).really(100.0).running();
    bench.job(2).cores(4).duration(10.0).submit();
    bench.advance(20.0);
    run(&mut bench, |pass| {
        let job = pass.next().unwrap();
        assert_eq!(pass.start(job), Err(Refusal::Busy));
        let start = pass.reserve(job).unwrap();
        assert!(20.0 < start && start < 20.001);
    });
}

#[test]
#[should_panic = "contract: annotation key `colour`"]
fn annotation_keys_have_a_prefix() {
    let mut bench = Bench::new(1);
    bench.job(1).submit();
    run(&mut bench, |pass| {
        let job = pass.next().unwrap();
        pass.annotate(job, "colour", "1");
    });
}

#[test]
#[should_panic = "contract: candidate 0 was not offered"]
fn candidates_must_have_been_offered() {
    let mut bench = Bench::new(1);
    bench.job(1).submit();
    run(&mut bench, |pass| {
        pass.fits(Candidate::from_raw(0));
    });
}

#[test]
fn res_15_attributes_are_told_where_they_are_known() {
    let mut bench = Bench::new(8);
    bench.job(1).attribute(attributes::GROUP, "7").attribute(attributes::MEMORY, "64e9").submit();
    bench.job(2).attribute(attributes::NAME, "melt").submit();
    run(&mut bench, |pass| {
        // The scribe's order is the latest first.
        let mut jobs = [pass.next().unwrap(), pass.next().unwrap()];
        jobs.reverse();
        let text = |pass: &mut dyn Pass, name: &str| attributes::text(pass, name, &jobs);
        assert_eq!(text(pass, attributes::GROUP), [Some("7".to_owned()), None]);
        assert_eq!(text(pass, attributes::NAME), [None, Some("melt".to_owned())]);
        assert_eq!(text(pass, attributes::APPLICATION), [None, None]);
        let numbers = attributes::numbers(pass, attributes::MEMORY, &jobs);
        assert!(numbers[0] == 64e9 && numbers[1].is_nan());
        let numbers = attributes::numbers(pass, attributes::NAME, &jobs);
        assert!(numbers.iter().all(|number| number.is_nan()), "a text is no number");
    });
}

#[test]
fn resources_beside_cores_are_seen_and_kept() {
    let mut bench = Bench::new(8);
    bench.flow("power", "W", 1000);
    bench.resource("ssd", "GiB", 300);
    bench.resource("licence", "", 2);
    bench.job(1).resource("ssd", 200).duration(100.0).running();
    bench.job(2).resource("ssd", 200).resource("licence", 1).flow("power", 10).submit();
    bench.job(3).resource("licence", 2).submit();
    run(&mut bench, |pass| {
        let names: Vec<_> = resources::kinds(pass).into_iter().map(|kind| (kind.name, kind.free)).collect();
        assert_eq!(names, [("ssd".to_owned(), 100), ("licence".to_owned(), 2)]);
        // The scribe's order is the latest first.
        let mut jobs = [pass.next().unwrap(), pass.next().unwrap()];
        jobs.reverse();
        assert_eq!(resources::asked(pass, 0, &jobs), [200, 0]);
        assert_eq!(resources::asked(pass, 1, &jobs), [1, 2]);
        assert_eq!(resources::asked(pass, 2, &jobs), [0, 0], "there is no third kind");
        assert_eq!(flow::asked(pass, 0, &jobs), [10, 0]);
        assert_eq!((pass.start(jobs[0]), pass.start(jobs[1])), (Err(Refusal::Busy), Ok(())));
        assert_eq!(resources::kinds(pass)[1].free, 0);
        assert_eq!(pass.earliest(jobs[0]), 3600.0);
    });
}
