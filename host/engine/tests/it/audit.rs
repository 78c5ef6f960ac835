//! The ledger against the answers of the job manager: recounts and audits, by example and against sets of single
//! cores.

use std::collections::BTreeSet;

use fluxgate_engine::{Action, AuditReport, Engine, Event};
use fluxgate_formats::{Idset, JobId, R};
use proptest::prelude::*;

use crate::common::*;

fn ids(text: &str) -> Idset {
    text.parse().expect("an idset")
}

/// Cores by rank, as R.
fn r(parts: &[(&str, &str)]) -> R {
    let lite: Vec<_> = parts
        .iter()
        .map(|(rank, core)| serde_json::json!({"rank": rank, "children": {"core": core}}))
        .collect();
    let hosts: Vec<String> = parts
        .iter()
        .flat_map(|(rank, _)| ids(rank).iter().collect::<Vec<_>>())
        .map(|rank| format!("n{rank}"))
        .collect();
    let value = serde_json::json!({"version": 1, "execution": {
        "R_lite": lite, "nodelist": [hosts.join(",")], "starttime": 0.0, "expiration": 0.0,
    }});
    R::from_value(&value).expect("a readable R")
}

fn audit(engine: &mut Engine, theirs: R, unsettled: &[u64]) -> AuditReport {
    let unsettled = unsettled.iter().map(|id| JobId(*id)).collect();
    let within = engine.resources().to_r_all().ranks();
    let mut out = engine.step(Event::Audit { theirs: Box::new(theirs), unsettled, within }, 1.0);
    match out.pop() {
        Some(Action::Audited(report)) if out.is_empty() => report,
        other => panic!("{other:?}"),
    }
}

fn recount(
    engine: &mut Engine,
    jobs: &[(u64, &str)],
    unsettled: &[u64],
    complete: bool,
) -> (Vec<u64>, Vec<(u64, String)>) {
    let jobs = jobs.iter().map(|(id, free)| (JobId(*id), ids(free))).collect();
    let unsettled = unsettled.iter().map(|id| JobId(*id)).collect();
    let mut out = engine.step(Event::Recount { jobs, unsettled, complete }, 1.0);
    match out.pop() {
        Some(Action::Recounted { unknown, released }) if out.is_empty() => (
            unknown.iter().map(|id| id.0).collect(),
            released
                .iter()
                .map(|(id, r)| (id.0, r.as_ref().map_or("all".to_owned(), Idset::to_string)))
                .collect(),
        ),
        other => panic!("{other:?}"),
    }
}

/// Three jobs of two nodes with two cores each: 1 on ranks 0-1, 2 on 2-3, 3 on 4-5. The R of job 3 is being
/// committed.
fn three() -> Engine {
    let mut engine = engine(6, 2);
    submit(&mut engine, 0.0, vec![(1, cores(4, 0.0)), (2, cores(4, 0.0)), (3, cores(4, 0.0))]);
    for id in [1, 2] {
        engine.step(Event::Committed { id: JobId(id) }, 0.0);
    }
    engine
}

#[test]
fn a_recount_releases_what_is_not_told_and_leaves_alone_what_cannot_be_known() {
    // Jobs 2 and 3 are excepted: 3 is being committed, and 2 started after the query.
    assert_eq!(recount(&mut three(), &[], &[2], true), (vec![], vec![(1, "all".into())]));
    // The list is incomplete.
    assert_eq!(recount(&mut three(), &[], &[], false), (vec![], vec![]));
    // A partial release with an unknown rank, a release of all that is left, and an unknown job.
    let mut engine = three();
    let told = [(1, "1,5"), (2, "2-3"), (9, "")];
    assert_eq!(recount(&mut engine, &told, &[], true), (vec![9], vec![(1, "1".into()), (2, "all".into())]));
    assert_eq!(engine.running_ids().map(|id| id.0).collect::<Vec<_>>(), [1, 3]);
    // A second recount finds no difference.
    assert_eq!(recount(&mut engine, &[(1, "1"), (2, "2-3")], &[], true), (vec![2], vec![]));
    // Released resources are allocated to other jobs.
    let out = submit(&mut engine, 2.0, vec![(4, cores(6, 0.0))]);
    assert_eq!(started(&out), [4]);
}

#[test]
fn an_audit_names_what_differs_and_changes_nothing() {
    let mut engine = three();
    let all = r(&[("0-5", "0-1")]);
    assert!(audit(&mut engine, all.clone(), &[]).agrees());
    // An allocation that is being committed may be counted or not; so may one that was sent after the query.
    assert!(audit(&mut engine, r(&[("0-3", "0-1")]), &[]).agrees());
    assert!(audit(&mut engine, r(&[("2-3", "0-1")]), &[1]).agrees());
    let report = audit(&mut engine, r(&[("0,2-5", "0-1"), ("1", "0")]), &[]);
    assert_eq!((report.ours, report.theirs, report.jobs), (ids("1"), ids(""), vec![JobId(1)]));
    assert_eq!(report.text, format!("held by {} but free to the job manager: rank 1 core 1", JobId(1)));
    engine.step(free(2), 1.0);
    let report = audit(&mut engine, all, &[]);
    assert_eq!((report.ours, report.theirs, report.jobs), (ids(""), ids("2-3"), vec![]));
    assert_eq!(report.text, "held to the job manager but by no job known here: rank 2-3 core 0-1");
    assert_eq!(engine.running(), 2);
}

#[test]
fn a_hello_for_a_job_that_waits_denies_the_request() {
    let mut engine = engine(1, 2);
    submit(&mut engine, 0.0, vec![(1, cores(2, 0.0)), (2, cores(1, 0.0))]);
    engine.step(free(1), 1.0);
    let hello = |id, r: R, free: &str| Event::Hello {
        id: JobId(id),
        priority: 16,
        userid: 1,
        t_submit: 0.0,
        r: Box::new(r),
        free: ids(free),
        queue: None,
    };
    let out = engine.step(hello(2, r(&[("0", "0")]), ""), 1.0);
    assert!(matches!(&out[..], [Action::Deny { id: JobId(2), .. }]), "{out:?}");
    assert_eq!((engine.pending(), engine.running()), (0, 1));
    // A job that has released all of its resources does not run.
    assert!(engine.step(hello(3, r(&[("0", "1")]), "0"), 1.0).is_empty());
    assert_eq!(engine.running(), 1);
}

proptest! {
    /// Against single cores: the report names exactly the ranks that differ.
    #[test]
    fn an_audit_is_right_core_by_core(
        sizes in prop::collection::vec(1u32..=5, 0..6),
        settled in prop::collection::vec(any::<bool>(), 6),
        theirs in prop::collection::btree_set((0u32..4, 0u32..3), 0..12),
    ) {
        let mut engine = engine(4, 3);
        let jobs = sizes.iter().zip(1..).map(|(size, id)| (id, cores(*size, 0.0))).collect();
        submit(&mut engine, 0.0, jobs);
        let running: Vec<JobId> = engine.running_ids().collect();
        let mut unsettled = Vec::new();
        let (mut sure, mut maybe) = (BTreeSet::<(u32, u32)>::new(), BTreeSet::new());
        for (id, settled) in running.iter().zip(settled) {
            engine.step(Event::Committed { id: *id }, 0.0);
            let r = engine.resources().allocation_r(*id).expect("it runs");
            let units = r.r_lite.iter().flat_map(|entry| {
                entry.rank.iter().flat_map(|rank| entry.children["core"].iter().map(move |core| (rank, core)))
            });
            maybe.extend(units.clone());
            if settled {
                sure.extend(units);
            } else {
                unsettled.push(id.0);
            }
        }
        let parts: Vec<(String, String)> = (0..4u32)
            .map(|rank| (rank, theirs.iter().filter(|unit| unit.0 == rank).map(|unit| unit.1).collect::<Idset>()))
            .filter(|(_, cores)| !cores.is_empty())
            .map(|(rank, cores)| (rank.to_string(), cores.to_string()))
            .collect();
        let parts: Vec<(&str, &str)> = parts.iter().map(|(rank, core)| (rank.as_str(), core.as_str())).collect();
        let report = audit(&mut engine, r(&parts), &unsettled);
        let ranks = |units: Vec<(u32, u32)>| units.into_iter().map(|unit| unit.0).collect::<Idset>();
        prop_assert_eq!(report.ours, ranks(sure.difference(&theirs).copied().collect()));
        prop_assert_eq!(report.theirs, ranks(theirs.difference(&maybe).copied().collect()));
    }
}
