//! The files on the disk: round trips, incomplete records cut at every byte, flipped bits, rotation, failing disks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use fluxgate_engine::{Config, Engine, Event};
use fluxgate_formats::{Idset, JobId};
use fluxgate_journal::options::{BYTES_MIN, OpenError};
use fluxgate_journal::reader::Item;
use fluxgate_journal::rerun::verify;
use fluxgate_journal::{EventRecord, Journal, LocalDisk, Options, PassRecord, Record, Recorded, Writer};
use proptest::prelude::*;

use crate::common::*;

fn ranks() -> impl Strategy<Value = Idset> {
    prop::collection::btree_set(0u32..5000, 0..20).prop_map(Idset::from_iter)
}

fn record() -> impl Strategy<Value = Record> {
    let id = any::<u64>().prop_map(JobId);
    let time = prop_oneof![Just(0.0), -1e12..1e12f64, Just(f64::INFINITY)];
    let event_record = prop_oneof![
        (id.clone(), any::<u32>(), any::<u32>(), time.clone(), any::<u32>(), time.clone())
            .prop_map(|(a, b, c, d, e, f)| EventRecord::Alloc(a, b, c, d, e, f)),
        (id.clone(), prop::option::of(ranks()), any::<bool>())
            .prop_map(|(a, b, c)| EventRecord::Free(a, b, c)),
        id.clone().prop_map(EventRecord::Committed),
        (".*", ranks()).prop_map(|(a, b)| EventRecord::PropertyAdd(a, b)),
        (prop::collection::vec(".*", 0..4), any::<bool>()).prop_map(|(a, b)| EventRecord::VertexStatus(a, b)),
        (prop::collection::vec(".*", 0..4), ".*", prop::option::of(".*"))
            .prop_map(|(a, b, c)| EventRecord::VertexProperty(a, b, c)),
        any::<bool>().prop_map(EventRecord::PropertiesUnread),
        ".*".prop_map(EventRecord::PutWindow),
        ".*".prop_map(EventRecord::RemoveWindow),
        prop::collection::vec((id.clone(), any::<u32>()), 0..9).prop_map(EventRecord::Prioritize),
        (prop::collection::vec((id.clone(), ranks()), 0..400), any::<bool>())
            .prop_map(|(jobs, complete)| EventRecord::Recount(jobs, vec![JobId(7)], complete)),
    ];
    prop_oneof![
        (time.clone(), event_record).prop_map(|(t, e)| Record::Step(t, e, None)),
        (time.clone(), any::<u32>(), any::<u64>(), any::<u64>(), prop::option::of(any::<u64>()))
            .prop_map(|(a, b, c, d, e)| Record::Pass(PassRecord(a, b, c, d, e, None))),
        time.prop_map(Record::End),
    ]
}

proptest! {
    #[test]
    fn a_record_comes_back_as_it_went(record in record()) {
        let payload = record.to_payload();
        prop_assert_eq!(Record::from_payload(&payload).unwrap(), record);
    }

    #[test]
    fn foreign_bytes_are_no_record_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Record::from_payload(&bytes);
    }
}

/// A journal of one file, and its records.
fn written() -> (tempfile::TempDir, Vec<u8>, Vec<(u64, Record)>) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("j");
    let mut load = Load::new(Some(&Options::new(&folder)), 5);
    for _ in 0..25 {
        load.go();
    }
    load.engine.close(load.now);
    let journal = Journal::open(&folder).unwrap();
    assert_eq!(journal.files().len(), 1);
    let bytes = fs::read(&journal.files()[0]).unwrap();
    let records = journal.items().map(|item| match item {
        Item::Record(place) => (place.offset, place.record),
        other => panic!("{other:?}"),
    });
    let records = records.collect();
    (dir, bytes, records)
}

fn read(path: &std::path::Path) -> (Vec<Record>, Option<Item>) {
    let mut records = Vec::new();
    for item in Journal::open(path).unwrap().items() {
        match item {
            Item::Record(place) => records.push(place.record),
            other => return (records, Some(other)),
        }
    }
    (records, None)
}

#[test]
fn a_torn_end_is_cut_at_every_byte() {
    let (dir, bytes, records) = written();
    let path = dir.path().join("torn.journal");
    let mut ends: Vec<u64> = records.iter().map(|(offset, _)| *offset).collect();
    ends.push(bytes.len() as u64);
    for cut in 0..bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let (got, end) = read(&path);
        let whole = ends[1..].iter().filter(|end| **end <= cut as u64).count();
        assert_eq!(got.len(), whole, "cut at {cut}");
        assert!(got.iter().zip(&records).all(|(a, (_, b))| a == b));
        match end {
            None => assert!(ends.contains(&(cut as u64)), "cut at {cut}"),
            Some(Item::Torn(0, offset, left)) => assert_eq!(offset + left, cut as u64),
            other => panic!("cut at {cut}: {other:?}"),
        }
    }
}

#[test]
fn a_flipped_bit_is_named_with_its_place_and_never_read() {
    let (dir, bytes, records) = written();
    let path = dir.path().join("flipped.journal");
    let step = (bytes.len() / 1500).max(1);
    for at in (0..bytes.len()).step_by(step) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        let (got, end) = read(&path);
        if (8..16).contains(&at) {
            continue; // the number of the file, which is also in its name
        }
        assert!(got.iter().zip(&records).all(|(a, (_, b))| a == b), "flipped at {at}");
        let before = records.iter().filter(|(offset, _)| *offset <= at as u64).count().max(1) - 1;
        assert_eq!(got.len(), before, "flipped at {at}");
        match end {
            Some(Item::Damaged(error)) => {
                let offset = if at < 8 { 0 } else { records[before].0 };
                let text = error.to_string();
                assert!(text.contains(&format!("flipped.journal: offset {offset}: ")), "{at}: {text}");
            }
            // In the last record this cannot be distinguished from a loss of power.
            Some(Item::Torn(..)) => assert_eq!(before, records.len() - 1, "flipped at {at}"),
            other => panic!("flipped at {at}: {other:?}"),
        }
    }
}

#[test]
fn what_a_kill_left_is_cut_when_the_next_scheduler_comes() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("j"));
    let mut load = Load::new(Some(&options), 1);
    (0..50).for_each(|_| load.go());
    load.engine.close(load.now);
    let path = Journal::open(&options.dir).unwrap().files()[0].clone();
    let length = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 3).unwrap();
    assert_eq!(
        verify(&Journal::open(&options.dir).unwrap(), &mut NativePolicies(None), None, None)
            .unwrap()
            .torn
            .len(),
        1
    );
    let mut load = Load::new(Some(&options), 2);
    (0..50).for_each(|_| load.go());
    load.engine.close(load.now);
    let done = verify(&Journal::open(&options.dir).unwrap(), &mut NativePolicies(None), None, None).unwrap();
    assert_eq!((done.torn.len(), done.lives), (0, 2));
    // Other users have no access.
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&options.dir), mode(&path)), (0o700, 0o600));
}

#[test]
fn files_rotate_and_stay_below_the_bound() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { bytes_max: BYTES_MIN, ..Options::new(dir.path().join("j")) };
    let mut load = Load::new(Some(&options), 11);
    let mut last = 0;
    while last < 9 {
        load.go();
        // A scheduler also has other work.
        while load.engine.figures().unwrap().waiting > 100 {
            std::thread::yield_now();
        }
        assert!(size(&options.dir) <= BYTES_MIN, "{}", size(&options.dir));
        let files = Journal::open(&options.dir).map(|journal| journal.files().to_vec());
        let name = files.ok().and_then(|files| Some(files.last()?.file_stem()?.to_str()?.parse().unwrap()));
        last = name.unwrap_or(0);
    }
    assert_eq!(load.engine.figures().unwrap().dropped, 0);
    load.engine.close(load.now);
    assert!(size(&options.dir) <= BYTES_MIN);
    let journal = Journal::open(&options.dir).unwrap();
    assert!(journal.files().len() < 9, "old files were dropped");
    let done = verify(&journal, &mut NativePolicies(None), None, None).unwrap();
    assert_eq!((done.resumed, done.lives), (1, 0));
    assert_eq!(done.checkpoints as usize, journal.files().len() - 1);
    assert!(done.passes > 1000 && done.cut > 0, "{done:?}");
    // Each file can be read on its own.
    for file in journal.files() {
        verify(&Journal::open(file).unwrap(), &mut NativePolicies(None), None, None).unwrap();
    }
}

#[test]
fn a_disk_that_refuses_is_a_gap_and_scheduling_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("j");
    let retry = Duration::from_millis(1);
    let options = Options { bytes_max: BYTES_MIN, retry, ..Options::new(&folder) };
    let mut load = Load::new(Some(&options), 3);
    load.go();
    fs::remove_dir_all(&folder).unwrap();
    // The disk must have failed, not only be slow.
    while load.engine.figures().unwrap().trouble.is_none() {
        match load.engine.figures().unwrap().waiting {
            0..100 => load.go(),
            _ => std::thread::yield_now(),
        }
    }
    let before = load.starts.len();
    (0..200).for_each(|_| load.go());
    assert!(load.starts.len() > before + 20);
    let figures = load.engine.figures().unwrap();
    assert!(figures.trouble.is_some() && figures.dropped > 0, "{figures:?}");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    while load.engine.figures().unwrap().trouble.is_some() {
        load.go();
    }
    (0..100).for_each(|_| load.go());
    load.engine.close(load.now);
    let done = verify(&Journal::open(&folder).unwrap(), &mut NativePolicies(None), None, None).unwrap();
    let (_, lost, why) = &done.gaps[0];
    assert!(*lost > 0 && why.contains("No such file"), "{done:?}");
}

#[test]
fn a_slow_disk_is_a_gap_and_scheduling_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { queue_max: 1, retry: Duration::ZERO, ..Options::new(dir.path().join("j")) };
    let mut load = Load::new(Some(&options), 3);
    while load.engine.figures().unwrap().gaps < 3 {
        load.go();
    }
    load.engine.close(load.now);
    let done = verify(&Journal::open(&options.dir).unwrap(), &mut NativePolicies(None), None, None).unwrap();
    assert!(done.gaps.iter().all(|(_, lost, why)| *lost > 0 && why.contains("slower")), "{done:?}");
}

#[test]
fn what_cannot_be_opened_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("j"));
    let small = Options { bytes_max: 5, ..options.clone() };
    assert!(matches!(Writer::open(&small), Err(OpenError::Small(5))));
    let first = Writer::open(&options).unwrap();
    assert!(matches!(Writer::open(&options), Err(OpenError::Taken(_))));
    drop(first);
    fs::set_permissions(&options.dir, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Writer::open(&options).unwrap_err().to_string();
    assert!(error.ends_with("others may look into this folder (mode 755); it must be 700"), "{error}");
    assert!(Journal::open(&options.dir).unwrap_err().to_string().contains("there is no journal"));
}

/// With 24,000 waiting jobs a checkpoint is larger than a file of the smallest journal. The next one is made after records, not
/// after each of them.
#[test]
fn a_checkpoint_that_fills_a_file_is_not_followed_by_another_at_once() {
    const JOBS: u64 = 24_000;
    let dir = tempfile::tempdir().unwrap();
    let options = Options { bytes_max: BYTES_MIN, ..Options::new(dir.path().join("j")) };
    let (writer, mut appender) = Writer::on(Box::<LocalDisk>::default(), &options).unwrap();
    let mut engine = Recorded::new(Engine::new(machine(), Config::default()), Some(writer), 0.0);
    let jobspec = spec(32, 60.0, "debug");
    // Priorities that do not compress.
    let priority = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32;
    let mut checkpoint = |engine: &mut Recorded| {
        appender.pump(0.0);
        let before = engine.figures().unwrap().bytes;
        drop(engine.keep_journal(true, 1.0));
        appender.pump(0.0);
        engine.figures().unwrap().bytes - before
    };
    for n in 0..JOBS {
        let (id, jobspec) = (JobId(n), jobspec.clone());
        drop(engine.step(Event::Alloc { id, priority: priority(n), userid: 1, t_submit: 0.0, jobspec }, 0.0));
        if n % 100 == 0 {
            checkpoint(&mut engine);
        }
    }
    drop(engine.pass(1.0));
    let made: Vec<u64> = (0..6000)
        .map(|n| {
            let jobs = vec![(JobId(n % JOBS), priority(n + JOBS))];
            drop(engine.step(Event::Prioritize { jobs }, 1.0));
            checkpoint(&mut engine)
        })
        .filter(|bytes| *bytes > 0)
        .collect();
    assert!(made.iter().all(|bytes| *bytes > BYTES_MIN / 8), "{made:?}");
    assert!((1..=4).contains(&made.len()), "{made:?}");
    assert_eq!(engine.figures().unwrap().dropped, 0);
}
