//! For any faults of the disk, the scheduler goes on, and the records that can be read are the decisions that were
//! made.

use std::path::Path;
use std::sync::Arc;

use fluxgate_journal::options::BYTES_MIN;
use fluxgate_journal::reader::Item;
use fluxgate_journal::rerun::{RerunError, Verified, verify};
use fluxgate_journal::{Appender, Disk as _, Journal, Options, Record, Writer};
use proptest::prelude::*;

use crate::common::*;
use crate::faulty::Faulty;

/// More than any journal of these tests.
const ROOMY: usize = 64 << 20;

fn begin(disk: &Faulty, seed: u64, now: f64) -> (Load, Appender) {
    let options = Options { bytes_max: BYTES_MIN, ..Options::new("/j") };
    let (writer, mut appender) = Writer::on(Box::new(disk.clone()), &options).unwrap();
    let load = Load::with(Some(writer), seed, now);
    appender.pump(now);
    (load, appender)
}

fn journal(disk: &Faulty, path: &Path) -> Journal {
    Journal::on(Arc::new(disk.clone()), path).unwrap()
}

fn rerun(journal: &Journal) -> Result<Verified, RerunError> {
    verify(journal, &mut NativePolicies(None), None, None)
}

/// The readable records of each file.
fn records(journal: &Journal) -> Vec<Vec<Record>> {
    let mut files = vec![Vec::new(); journal.files().len()];
    for item in journal.items() {
        if let Item::Record(place) = item {
            files[place.file].push(place.record);
        }
    }
    files
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Three runs of a scheduler, each ended by a loss of power. A rerun compares the outcome of each record, and
    /// each checkpoint without a gap before it.
    #[test]
    fn what_a_bad_disk_keeps_is_what_was_decided(
        seed in any::<u64>(), fail_in in 3u64..80, pump_in in 1u64..200, tight in any::<bool>(),
    ) {
        let disk = Faulty::new(seed, ROOMY);
        for life in 1..=3 {
            let (mut load, mut appender) = begin(&disk, seed.wrapping_add(life), 1000.0 * life as f64);
            disk.fail_in(fail_in);
            let mut starts = 0;
            for step in 0..150 {
                if tight && step % 50 == 0 {
                    disk.set_capacity(disk.used() + load.dice(20_000) as usize);
                }
                load.go();
                if load.dice(pump_in) == 0 {
                    appender.pump(load.now);
                }
                starts = load.starts.len();
            }
            prop_assert!(starts > 10, "it goes on: {}", starts);
            if life == 2 {
                load.engine.close(load.now);
                appender.close(load.now);
            }
            disk.fail_in(0);
            disk.set_capacity(ROOMY);
            disk.crash();
        }
        let all = journal(&disk, Path::new("/j"));
        match rerun(&all) {
            Ok(done) => prop_assert!(done.lives > 0 || done.resumed > 0, "{:?}", done),
            Err(RerunError::Read(_)) => {}
            // A disk that failed in all three runs has kept nothing.
            Err(RerunError::Nothing) => prop_assert!(records(&all).iter().all(Vec::is_empty)),
            Err(error) => prop_assert!(false, "{}", error),
        }
        for (file, records) in all.files().iter().zip(records(&all)) {
            prop_assert!(matches!(records.first(), None | Some(Record::Checkpoint(_))));
            match rerun(&journal(&disk, file)) {
                Err(RerunError::Nothing) => prop_assert!(records.is_empty()),
                Ok(_) | Err(RerunError::Read(_)) => {}
                Err(error) => prop_assert!(false, "{}: {}", file.display(), error),
            }
        }
    }

    /// A checkpoint is of its time, however late it is written, and wherever a crash cuts it.
    #[test]
    fn a_checkpoint_that_is_written_late_is_the_state_of_its_time(
        seed in any::<u64>(), pump_in in 1u64..60, cut in 0.0f64..1.0,
    ) {
        let disk = Faulty::new(seed, ROOMY);
        let (mut load, mut appender) = begin(&disk, seed, 1000.0);
        let files = || journal(&disk, Path::new("/j")).files().len();
        let mut steps = 0;
        while files() < 3 && steps < 9000 {
            steps += 1;
            load.go();
            // The queue has room for the entries of one step.
            if load.dice(pump_in) == 0 || load.engine.figures().unwrap().waiting > 400 {
                appender.pump(load.now);
            }
        }
        appender.pump(load.now);
        prop_assert_eq!(load.engine.figures().unwrap().dropped, 0);
        let all = journal(&disk, Path::new("/j"));
        let done = rerun(&all).unwrap();
        prop_assert_eq!((done.lives, done.checkpoints), (1, 2));
        let whole = records(&all);
        // The last checkpoint was cut: all before it is there, and runs again.
        let last = all.files().last().unwrap();
        let offset = all.items_from(2).nth(1).map(|item| match item {
            Item::Record(place) => place.offset,
            other => panic!("{other:?}"),
        });
        let length = offset.unwrap_or_else(|| disk.open(last).unwrap().1);
        disk.truncate(last, (length as f64 * cut) as u64).unwrap();
        let cut = records(&all);
        prop_assert_eq!(&cut[..2], &whole[..2]);
        prop_assert!(cut[2].is_empty());
        prop_assert_eq!(rerun(&all).unwrap().checkpoints, 1);
        // The next scheduler cuts the rest of it, and begins another file behind it.
        disk.unclaim();
        let (mut load, appender) = begin(&disk, seed, 90_000.0);
        (0..20).for_each(|_| load.go());
        load.engine.close(load.now);
        appender.close(load.now);
        prop_assert_eq!(rerun(&journal(&disk, Path::new("/j"))).unwrap().lives, 2);
    }

    #[test]
    fn of_a_file_with_a_flipped_bit_a_part_is_read_and_nothing_else(seed in any::<u64>()) {
        let disk = Faulty::new(seed, ROOMY);
        let (mut load, appender) = begin(&disk, seed, 1000.0);
        (0..60).for_each(|_| load.go());
        load.engine.close(load.now);
        appender.close(load.now);
        let written = records(&journal(&disk, Path::new("/j")));
        disk.flip();
        for (was, is) in written.iter().zip(records(&journal(&disk, Path::new("/j")))) {
            prop_assert!(was.starts_with(&is));
        }
    }
}

#[test]
fn a_disk_that_never_answers_costs_records_and_no_decision() {
    let disk = Faulty::new(1, ROOMY);
    let (mut load, mut appender) = begin(&disk, 1, 1000.0);
    (0..400).for_each(|_| load.go());
    let figures = load.engine.figures().unwrap();
    assert!(load.starts.len() > 40 && figures.dropped > 100, "{figures:?}");
    assert_eq!((figures.waiting, figures.gaps), (BYTES_MIN / 8 / 256, 1));
    // The disk works again, and gets time to catch up.
    appender.pump(load.now);
    load.go();
    assert_eq!(load.engine.figures().unwrap().waiting, 0, "too early for a checkpoint");
    load.now += 5.0;
    appender.pump(load.now);
    let dropped = load.engine.figures().unwrap().dropped;
    (0..9).for_each(|_| load.go());
    load.engine.close(load.now);
    appender.close(load.now);
    let done = rerun(&journal(&disk, Path::new("/j"))).unwrap();
    let [(_, lost, why)] = &done.gaps[..] else { panic!("{done:?}") };
    // One more: the event before the checkpoint.
    assert!((dropped..dropped + 20).contains(lost) && why.contains("slower"), "{lost} {dropped} {why}");
}

#[test]
fn a_full_disk_leaves_no_empty_files_and_is_tried_again() {
    let disk = Faulty::new(1, ROOMY);
    let (mut load, mut appender) = begin(&disk, 1, 1000.0);
    disk.set_capacity(disk.used());
    for _ in 0..200 {
        load.go();
        appender.pump(load.now);
    }
    let figures = load.engine.figures().unwrap();
    assert!(figures.trouble.is_some() && figures.dropped > 100, "{figures:?}");
    assert_eq!(journal(&disk, Path::new("/j")).files().len(), 1);
    disk.set_capacity(ROOMY);
    for _ in 0..20 {
        load.go();
        appender.pump(load.now);
    }
    assert_eq!(load.engine.figures().unwrap().trouble, None);
    load.engine.close(load.now);
    appender.close(load.now);
    let done = rerun(&journal(&disk, Path::new("/j"))).unwrap();
    assert_eq!((done.gaps.len(), done.lives, done.resumed), (1, 1, 1), "{done:?}");
}
