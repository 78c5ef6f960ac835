//! Targets for workload logs, accounting records, journals, and checkpoints of replays.

use fluxgate_journal::Record;
use fluxgate_journal::frame::{Found, Frames};
use fluxgate_sim::checkpoint;
use fluxgate_sim::metrics::Metrics;
use fluxgate_sim::outages::Outages;
use fluxgate_sim::source::{dump, flux, jobspecs, sacct, table};

use crate::text;

/// Workloads in other formats than SWF, and outages.
pub(crate) fn accounting(bytes: &[u8]) {
    if let Ok(log) = sacct::Reader::new(bytes, "fuzz") {
        log.for_each(drop);
    }
    if let Ok(log) = flux::read(bytes, "fuzz") {
        log.for_each(drop);
    }
    if let Ok(log) = dump::read(bytes, "fuzz") {
        log.for_each(drop);
    }
    text(bytes, |text| drop(Outages::parse(text, "fuzz", &Default::default())));
    jobspecs::Reader::new(bytes, "fuzz").for_each(drop);
    table::Reader::csv(bytes, "fuzz").for_each(drop);
    table::Reader::jsonl(bytes, "fuzz").for_each(drop);
}

/// Workload logs in SWF.
pub(crate) fn swf(bytes: &[u8]) {
    fluxgate_sim::swf::Reader::new(bytes, "fuzz").for_each(drop);
}

/// A checkpoint of a replay, as a file and without its compression: its identity, its state, and what observers are told again.
pub(crate) fn checkpoint(bytes: &[u8]) {
    let from = || std::io::Cursor::new(bytes.to_vec());
    for opened in [checkpoint::read(from()), checkpoint::content(from())].into_iter().flatten() {
        // Of any log: a job that the log does not have comes from the history.
        let _ = opened.tell(&mut std::iter::empty().peekable(), &mut [&mut Metrics::new(8)]);
    }
}

/// A journal's file, and one record of it: a record that can be read is written as one that reads the same.
pub(crate) fn journal(bytes: &[u8]) {
    let _ = Record::from_payload(bytes);
    let Ok(Ok((_, mut frames))) = Frames::open(bytes, bytes.len() as u64) else { return };
    while let Ok(Found::Payload(payload)) = frames.next() {
        let Ok(record) = Record::from_payload(&payload) else { continue };
        let again = record.to_payload();
        let read = Record::from_payload(&again).unwrap();
        // NaN is not equal to itself, but its bytes are.
        assert_eq!(again, read.to_payload());
    }
}
