//! A rerun of a journal gives the same decisions; any difference is reported with the first record that differs.

use std::collections::BTreeMap;

use fluxgate_engine::{Config, Event, QueueBounds};
use fluxgate_formats::{Idset, JobId};
use fluxgate_journal::options::BYTES_MIN;
use fluxgate_journal::rerun::{RerunError, verify};
use fluxgate_journal::what_if::{History, Schedule};
use fluxgate_journal::{Journal, Options, Record};
use proptest::prelude::*;

use crate::common::*;

fn night(options: &Options, seed: u64, steps: u32) {
    let mut load = Load::new(Some(options), seed);
    load.vertices = seed % 3 == 1;
    load.windows = seed % 2 == 1;
    for n in 0..steps {
        load.go();
        match n % 97 {
            20 => load.swap("longest"),
            30 => load.remember(),
            40 => load.swap("broken"),
            // By now the policy has failed, and scheduling is suspended.
            60 => {
                load.offer();
                load.swap("shortest");
            }
            75 => load.swap("mute"),
            80 => load.remember(),
            85 => load.swap("longest"),
            70 => {
                let config =
                    Config { reservations_max: n as usize % 5, annotate: n % 2 == 0, ..Config::default() };
                load.engine.reconfigure(config, load.now);
            }
            _ => {}
        }
    }
    load.engine.close(load.now);
}

/// The same with policies of single queues: swapped in, failing, replaced and removed. The later behaviour of
/// `broken` is not part of the state that it saves.
fn night_of_queues(options: &Options, seed: u64, steps: u32, broken: &'static str) {
    let mut load = Load::new(Some(options), seed);
    for n in 0..steps {
        load.go();
        // A scheduler also has other work.
        while load.engine.figures().unwrap().waiting > 100 {
            std::thread::yield_now();
        }
        match n % 89 {
            10 => load.set_queue_policy("debug", Some("longest")),
            25 => load.swap("longest"),
            33 => load.set_queue_policy("batch", Some(broken)),
            50 => load.set_queue_policy("debug", Some(broken)),
            55 => load.remember(),
            65 => load.set_queue_policy("debug", None),
            75 => load.set_queue_policy("batch", Some("shortest")),
            80 => load.engine.suspend_queue("debug", "lost", load.now),
            84 => load.set_queue_policy("debug", Some("shortest")),
            // The bounds of queues are part of the state.
            86 => {
                let bound = |text: &str| Some(text.parse().unwrap());
                let debug = QueueBounds { ceiling: bound(["8", "14"][n as usize % 2]), floor: bound("4") };
                let config =
                    Config { queue_bounds: [("debug".to_owned(), debug)].into(), ..Config::default() };
                load.engine.reconfigure(config, load.now);
            }
            _ => {}
        }
    }
    load.engine.close(load.now);
}

#[test]
fn queues_with_policies_of_their_own_are_repeated_over_files_and_into_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { bytes_max: BYTES_MIN, ..Options::new(dir.path().join("j")) };
    night_of_queues(&options, 7, 9000, "longest");
    let journal = Journal::open(&options.dir).unwrap();
    assert!(journal.files().len() > 2);
    let done = verify(&journal, &mut NativePolicies(None), None, None).unwrap();
    assert!(done.checkpoints > 0 && done.swaps > 20, "{done:?}");
    for file in journal.files() {
        verify(&Journal::open(file).unwrap(), &mut NativePolicies(None), None, None).unwrap();
    }
    let night = History::read(&journal, None, None).unwrap();
    assert!(night.policies.len() >= 2, "{:?}", night.policies);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn so_do_policies_of_single_queues(seed in any::<u64>()) {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(dir.path().join("j"));
        night_of_queues(&options, seed, 300, "broken");
        let done = verify(&Journal::open(&options.dir).unwrap(), &mut NativePolicies(None), None, None).unwrap();
        // Some seeds make fewer than a hundred passes.
        prop_assert!(done.swaps >= 8 && done.breaches >= 2 && done.passes > 80, "{:?}", done);
    }

    #[test]
    fn the_same_policies_decide_the_same_to_the_byte(seed in any::<u64>()) {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(dir.path().join("j"));
        night(&options, seed, 300);
        let done = verify(&Journal::open(&options.dir).unwrap(), &mut NativePolicies(None), None, None).unwrap();
        prop_assert_eq!(done.lives, 1);
        prop_assert!(done.swaps >= 8 && done.passes > 100, "{:?}", done);
    }
}

#[test]
fn another_policy_differs_and_the_first_record_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("j"));
    let mut load = Load::new(Some(&options), 9);
    (0..300).for_each(|_| load.go());
    load.engine.close(load.now);
    let journal = Journal::open(&options.dir).unwrap();
    let error = verify(&journal, &mut NativePolicies(Some("longest")), None, None).unwrap_err();
    let RerunError::Differs { path, kind, .. } = &error else { panic!("{error}") };
    // The name of the successor differs already.
    assert_eq!((path, *kind), (&journal.files()[0], "pass"));
    assert!(error.to_string().contains("to shortest"), "{error}");
}

#[test]
fn a_span_of_time_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("j"));
    night(&options, 10_485_959_379_895_756_131, 300);
    let journal = Journal::open(&options.dir).unwrap();
    let all = verify(&journal, &mut NativePolicies(None), None, None).unwrap();
    assert_eq!((all.swaps, all.breaches, all.cut), (16, 6, 5), "{all:?}");
    let (begin, end) = all.span.unwrap();
    let half = verify(&journal, &mut NativePolicies(None), None, Some((begin + end) / 2.0)).unwrap();
    assert!(half.passes > 10 && half.passes < all.passes);
    assert!(matches!(verify(&journal, &mut NativePolicies(None), None, Some(1.0)), Err(RerunError::Nothing)));
}

#[test]
fn a_job_costs_some_hundred_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("j"));
    let mut load = Load::new(Some(&options), 1);
    let before = 1000;
    for _ in 0..before {
        let id = load.submit();
        load.pass();
        load.step(Event::Free { id, ranks: Some(Idset::from_iter([0])), last: true });
    }
    load.engine.close(load.now);
    let per_job = size(&options.dir) / before;
    assert!(per_job < 600, "{per_job} bytes");
    let records = Journal::open(&options.dir).unwrap();
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for item in records.items() {
        if let fluxgate_journal::reader::Item::Record(place) = item {
            *kinds.entry(place.record.kind()).or_default() += 1;
            assert!(!matches!(place.record, Record::Step(..)) || place.record.time().is_some());
        }
    }
    // Equal requests of jobs are written once.
    assert!(kinds["jobspec"] <= 96 && kinds["alloc"] == 1000, "{kinds:?}");
}

#[test]
fn another_policy_lives_in_a_world_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("j"));
    let mut load = Load::new(Some(&options), 8);
    for _ in 0..150 {
        load.now += 1.0;
        load.submit();
        load.pass();
        load.now += 1.0;
        let first = load.engine.running_ids().next();
        if let Some(id) = first.filter(|_| load.engine.pending() > 5) {
            load.step(Event::Free { id, ranks: None, last: true });
        }
        load.pass();
    }
    load.engine.close(load.now);
    let journal = Journal::open(&options.dir).unwrap();
    let mut night = History::read(&journal, None, None).unwrap();
    let was = night.schedule();
    assert_eq!(was.runs.len(), load.starts.len());
    // With the same policy, every job starts at its recorded time.
    let same = night.schedule_with(Some(Native::make("shortest")), Vec::new()).unwrap();
    let starts =
        |world: &Schedule| world.runs.iter().map(|r| (r.id, (r.start, r.cores))).collect::<BTreeMap<_, _>>();
    assert_eq!(starts(&same), starts(&was));
    let other = night.schedule_with(Some(Native::make("longest")), Vec::new()).unwrap();
    assert!(starts(&other) != starts(&was) && other.runs.len() > 50, "{}", other.runs.len());
    assert!(
        night
            .schedule_with(Some(Native::make("broken")), Vec::new())
            .unwrap_err()
            .to_string()
            .contains("broken")
    );
    night.schedule_with(None, Vec::new()).unwrap();
}

/// No scheduler saw the end of this job: it neither runs without end nor keeps others from starting.
#[test]
fn what_ended_while_there_was_no_scheduler_has_ended_when_there_is_one_again() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("j"));
    let mut first = Load::at(Some(&options), 3, 1000.0);
    let (ended, stays) = (first.submit(), first.submit());
    first.pass();
    assert_eq!(first.starts.len(), 2);
    let held = first.engine.resources().allocation_r(stays).unwrap();
    first.engine.close(first.now);

    let mut second = Load::at(Some(&options), 4, 5000.0);
    let (r, free) = (Box::new(held), Idset::new());
    second.step(Event::Hello { id: stays, priority: 16, userid: 1, t_submit: 1000.0, r, free, queue: None });
    second.now += 1.0;
    let later = second.submit();
    second.pass();
    second.now += 9.0;
    second.step(Event::Free { id: stays, ranks: None, last: true });
    second.engine.close(second.now);

    let mut night = History::read(&Journal::open(&options.dir).unwrap(), None, None).unwrap();
    let was = night.schedule();
    let end = |world: &Schedule, job| world.runs.iter().find(|r| r.id == job).map(|r| (r.end, r.known));
    assert_eq!((end(&was, ended), end(&was, stays)), (Some((5000.0, true)), Some((5010.0, true))));
    let world = night.schedule_with(Some(Native::make("shortest")), Vec::new()).unwrap();
    assert_eq!((end(&world, ended), end(&world, stays)), (end(&was, ended), end(&was, stays)));
    assert!(end(&world, later).is_some());
}

/// FEAT-80: the reasons of each job's wait have no gap and sum up to the wait; they are those that the engine had then.
#[test]
fn feat_80_the_reasons_of_a_job_sum_up_to_its_wait() {
    use std::collections::BTreeSet;

    use fluxgate_journal::reasons::{Ended, reasons};
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("j"));
    let mut load = Load::new(Some(&options), 5);
    let mut arrived: BTreeMap<JobId, f64> = BTreeMap::new();
    let mut told: BTreeMap<JobId, BTreeSet<String>> = BTreeMap::new();
    let mut started: BTreeMap<JobId, f64> = BTreeMap::new();
    for _ in 0..300 {
        load.go();
        let waits: BTreeSet<JobId> = load.engine.pending_ids().collect();
        for id in &waits {
            arrived.entry(*id).or_insert(load.now);
            let reason = load.engine.reason(*id).unwrap();
            told.entry(*id).or_default().insert(reason.kind().to_owned());
        }
        for id in load.engine.running_ids() {
            started.entry(id).or_insert(load.now);
        }
    }
    let (still, now): (BTreeSet<JobId>, f64) = (load.engine.pending_ids().collect(), load.now);
    load.engine.close(now);
    let journal = Journal::open(&options.dir).unwrap();
    let (mut ran, mut several) = (0, 0);
    for (id, from) in arrived.iter().take(60) {
        let wait = reasons(&journal, &mut NativePolicies(None), *id).unwrap().unwrap();
        assert!(wait.complete);
        let ended = wait.ended;
        assert_eq!(ended == Ended::Waits, still.contains(id), "{id}: {ended:?}");
        for two in wait.spells.windows(2) {
            assert_eq!(two[0].until, two[1].from, "{id}: {:?}", wait.spells);
        }
        let sum: f64 = wait.by_kind().iter().map(|(_, seconds)| seconds).sum();
        if let Some(last) = wait.spells.last() {
            assert!((sum - (last.until - wait.spells[0].from)).abs() < 1e-6);
        }
        if ended == Ended::Started
            && let Some(start) = started.get(id)
        {
            ran += 1;
            assert!(
                (sum - (start - from)).abs() < 1e-6,
                "{id}: {sum} of {}: {:?}",
                start - from,
                wait.spells
            );
        }
        several += usize::from(wait.by_kind().len() > 1);
        for spell in wait.spells.iter().filter(|spell| spell.kind != "unseen") {
            assert!(told[id].contains(spell.kind), "{id}: {spell:?}");
        }
    }
    assert!(ran > 10 && several > 3, "{ran} {several}");
    assert_eq!(reasons(&journal, &mut NativePolicies(None), JobId(1 << 60)).unwrap(), None);
}

/// FEAT-66: the state at any time of a journal is that of then, and a time that it does not tell is refused.
#[test]
fn feat_66_the_engine_at_a_time_of_the_past() {
    use fluxgate_engine::About;
    use fluxgate_journal::past::{PastError, at};
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("j"));
    let state = |engine: &fluxgate_engine::Engine, now: f64| {
        let about = About { jobs_max: 64, ..About::default() };
        let rows = engine.questions(now, &about).rows(None);
        let rows: Vec<_> = rows.into_iter().map(|row| (row.id, row.ahead, row.priority)).collect();
        let running: Vec<_> = engine.running_jobs().map(|job| (job.id, job.start, job.end)).collect();
        (rows, running, engine.resources().down_r().ranks())
    };
    let mut load = Load::new(Some(&options), 5);
    let mut seen = Vec::new();
    for step in 0..400 {
        load.go();
        // After the last record of a time, and before the first of the next.
        if step % 80 == 40 {
            seen.push((load.now, state(&load.engine, load.now)));
            load.now += 1.0;
        }
    }
    let end = load.now;
    load.engine.close(end);
    let mut load = Load::at(Some(&options), 6, end + 1000.0);
    load.go();
    let last = load.now;
    load.engine.close(last);
    let journal = Journal::open(&options.dir).unwrap();
    let policies = &mut NativePolicies(None);
    for (time, was) in &seen {
        for later in [0.0, 0.5] {
            let engine = at(&journal, policies, time + later).unwrap();
            assert_eq!(&state(&engine, *time), was, "{time}");
        }
    }
    for time in [0.0, 999.0, last + 1.0] {
        let error = at(&journal, policies, time).unwrap_err();
        let PastError::Outside { from, until } = error else { panic!("{time}: {error}") };
        assert_eq!((from, until), (1000.0, last));
    }
    let error = at(&journal, policies, end + 500.0).unwrap_err();
    let PastError::Away { from, until } = error else { panic!("{error}") };
    assert_eq!((from, until), (end, end + 1000.0));
}
