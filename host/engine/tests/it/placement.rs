//! The placement of a job: by its jobspec, by the policy, by its queue, by the site, in this order.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::{Action, Config, Engine, Event};
use fluxgate_formats::{JobId, Jobspec};
use fluxgate_graph::Placement;
use serde_json::{Value, json};

use crate::common;
use crate::common::*;

fn job(cores: u32, attributes: &[(&str, Value)]) -> Arc<Jobspec> {
    let mut spec = Jobspec::clone(&common::cores(cores, 9.0));
    for (key, value) in attributes {
        spec.set_system_attr(key, value.clone()).unwrap();
    }
    Arc::new(spec)
}

/// The resources of each started job.
fn got(out: &[Action]) -> Vec<(u64, String)> {
    let start = |action: &Action| match action {
        Action::Start { id, r, .. } => Some((id.0, r.summary())),
        _ => None,
    };
    out.iter().filter_map(start).collect()
}

fn config() -> Config {
    let queues = [("high", Placement::High), ("alone", Placement::LoNodeX)];
    let queue_placements: BTreeMap<String, Placement> =
        queues.into_iter().map(|(name, placement)| (name.to_owned(), placement)).collect();
    Config { queue_placements, ..Config::default() }
}

#[test]
fn a_job_comes_before_its_queue_and_the_queue_before_the_site() {
    let mut engine = Engine::new(machine(4, 4), config());
    let wants = |name: &str| ("fluxgate.placement", json!(name));
    let rows = [
        (job(1, &[]), Some("rank0/core0")),
        (job(1, &[("queue", json!("high"))]), Some("rank3/core3")),
        (job(1, &[("queue", json!("high")), wants("low")]), Some("rank0/core1")),
        (job(1, &[wants("spread")]), Some("rank1/core0")),
        (job(1, &[("queue", json!("alone"))]), Some("rank2/core[0-3]")),
        (job(1, &[wants("hinodex")]), None),
        (job(1, &[("queue", json!("alone")), wants("pack")]), Some("rank0/core2")),
    ];
    for (id, (spec, expected)) in (1..).zip(rows) {
        let out = submit(&mut engine, 0.0, vec![(id, spec)]);
        assert_eq!(got(&out), expected.map(|r| (id, r.to_owned())).into_iter().collect::<Vec<_>>());
    }
    engine.step(free(5), 1.0);
    assert_eq!(got(&engine.pass(1.0)), [(6, "rank2/core[0-3]".to_owned())]);
}

#[test]
fn a_policy_has_its_way_unless_the_job_says_otherwise() {
    let mut engine = Engine::new(machine(4, 4), config());
    let script = Script::named("high").run(|pass| {
        while let Some(c) = pass.next() {
            let _ = pass.start(c, Some(Placement::High))?;
        }
        Ok(())
    });
    install(&mut engine, script, 0.0);
    let low = job(1, &[("fluxgate.placement", json!("low"))]);
    let out = submit(&mut engine, 0.0, vec![(1, job(1, &[])), (2, low)]);
    assert_eq!(got(&out), [(1, "rank3/core3".to_owned()), (2, "rank0/core0".to_owned())]);
}

#[test]
fn unknown_names_are_refused_with_those_that_are_known() {
    let mut engine = engine(1, 4);
    for (value, found) in
        [(json!("best"), "found \"best\""), (json!(3), "found 3"), (json!("x".repeat(999)), "...")]
    {
        let spec = job(1, &[("fluxgate.placement", value)]);
        let out = engine.step(
            Event::Alloc { id: JobId(1), priority: 16, userid: 1, t_submit: 0.0, jobspec: spec.clone() },
            0.0,
        );
        let [Action::Deny { id: JobId(1), note }] = out.as_slice() else { panic!("{out:?}") };
        assert!(note.contains("fluxgate.placement") && note.contains(Placement::NAMES), "{note}");
        assert!(note.contains(found) && note.len() < 400, "{note}");
        let out = engine.step(Event::Feasibility { jobspec: spec, token: 7 }, 0.0);
        let [Action::Reply { token: 7, result: Err(error) }] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((error.errnum, &error.text), (22, note));
    }
}

#[test]
fn waiting_jobs_follow_when_the_placement_changes() {
    let mut engine = Engine::new(machine(2, 4), Config::default());
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    submit(&mut engine, 0.0, vec![(1, job(3, &[])), (2, job(4, &[])), (3, job(4, &[]))]);
    let own = job(1, &[("fluxgate.placement", json!("first"))]);
    assert!(got(&submit(&mut engine, 1.0, vec![(4, job(2, &[])), (5, own.clone()), (6, own)])).len() < 3);
    let waiting: Vec<u64> = engine.pending_ids().map(|id| id.0).collect();
    // From now on jobs do not share nodes, unless the jobspec names a placement that does.
    engine.reconfigure(Config { placement: Placement::FirstNodeX, ..Config::default() });
    let mut shared = Vec::new();
    for now in (1..=6).map(|n| 10.0 * f64::from(n)) {
        let Some(first) = engine.running_ids().next() else { break };
        engine.step(free(first.0), now);
        for (id, summary) in got(&engine.pass(now)) {
            assert!(waiting.contains(&id));
            let whole = summary.ends_with("core[0-3]");
            assert_eq!(whole, id < 5, "job {id}: {summary}");
            shared.push(id);
        }
    }
    assert_eq!(engine.pending(), 0, "{shared:?}");
}
