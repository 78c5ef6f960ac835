//! The published logs, where they are at hand: `../shared/data/swf` beside the project, or
//! `$FLUXGATE_SHARED/data/swf`. They are read in place, never copied. Counts were taken with awk.

use std::path::PathBuf;

use fluxgate_sim::workload::{Options, Reason, Workload};

pub(crate) const KTH: &str = "KTH-SP2-1996-2.1-cln.swf.gz";
pub(crate) const HPC2N: &str = "HPC2N-2002-2.1-cln.swf.gz";
pub(crate) const BLUE: &str = "SDSC-BLUE-2000-4.2-cln.swf.gz";

/// The path of a log; `None`, as skipped, if it is missing.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    fluxgate_testing::shared(&format!("data/swf/{name}"))
}

pub(crate) fn load(name: &str, options: &Options) -> Option<Workload> {
    Some(Workload::load(&find(name)?, options).expect("a published log is readable"))
}

#[test]
fn kth_sp2() {
    let Some(w) = load(KTH, &Options::default()) else { return };
    assert_eq!((w.jobs.len(), w.left_out.len(), w.overruns), (27_992, 0, 0));
    let h = &w.header;
    assert_eq!((h.max_nodes, h.max_procs, h.max_jobs), (Some(100), Some(100), Some(28_490)));
    assert_eq!(h.unix_start_time, Some(843_480_031.0));
    assert_eq!(h.acknowledge, ["Lars Malinowsky"]);
    assert_eq!(h.warnings, []);
    assert_eq!(w.jobs[0].id.0, 15);
    assert_eq!(w.jobs[0].submit, 843_480_031.0 + 599_850.0);
}

#[test]
fn hpc2n() {
    let Some(w) = load(HPC2N, &Options::default()) else { return };
    assert_eq!((w.jobs.len(), w.left_out.len(), w.overruns), (202_876, 0, 14_817));
    assert_eq!((w.header.max_nodes, w.header.max_procs), (Some(240), Some(240)));
    assert_eq!(w.header.partitions.get(&2).map(String::as_str), Some("ALL"));
    assert_eq!(w.header.warnings, []);
}

#[test]
fn sdsc_blue() {
    let Some(w) = load(BLUE, &Options::default()) else { return };
    // 10,744 without run time; 26 with run time 0, of which the cancelled ones never started either.
    let never = w.left_out_counts();
    assert_eq!(never.len(), 1);
    assert_eq!(never[0].0, Reason::NeverStarted);
    assert_eq!(w.jobs.len() + never[0].1, 243_306);
    assert!((10_744..=10_770).contains(&never[0].1), "{never:?}");
    assert_eq!((w.header.max_nodes, w.header.max_procs), (Some(144), Some(1152)));
    assert_eq!(w.header.queues.len(), 24);
    assert_eq!(w.header.warnings, []);
}
