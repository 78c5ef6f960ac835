//! Targets for workload logs, accounting records, journals, checkpoints of replays, and experiments on logs.

use fluxgate_journal::Record;
use fluxgate_journal::frame::{Found, Frames};
use fluxgate_sim::checkpoint;
use fluxgate_sim::experiment::Experiment;
use fluxgate_sim::machine::alea;
use fluxgate_sim::metrics::Metrics;
use fluxgate_sim::outages::Outages;
use fluxgate_sim::source::{batsim, dump, flux, jobspecs, sacct, table};
use fluxgate_sim::suite::Suite;
use fluxgate_sim::suite::submission::Submission;

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

/// Workloads and machines of other simulators.
pub(crate) fn simulators(bytes: &[u8]) {
    if let Ok(log) = batsim::read(bytes, "fuzz") {
        log.for_each(drop);
    }
    // A text may describe a machine of many million cores; those of a few thousand show the same faults.
    let few = |text: &str| {
        text.split('\t').map(str::trim).all(|field| field.len() <= 3 || field.parse::<u64>().is_err())
    };
    text(bytes, |text| drop(few(text).then(|| alea::read(text))));
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

/// Experiments, benchmark suites and submissions: an experiment that is accepted has as many replays as it says at most.
pub(crate) fn experiment(bytes: &[u8]) {
    text(bytes, |text| {
        let _ = Suite::parse(text, "fuzz");
        if let Ok(submission) = Submission::parse(text) {
            let _ = submission.faults();
        }
        if let Ok(experiment) = Experiment::parse(text) {
            let replays = experiment.replays().len();
            assert!((1..=fluxgate_sim::experiment::REPLAYS_MAX).contains(&replays), "{replays}");
        }
    });
}
