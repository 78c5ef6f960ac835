//! The text of answers, as people see it.

use serde_json::json;

use super::*;

fn text(table: &comfy_table::Table) -> String {
    render::text(table)
}

#[test]
fn feat_72_when_as_text() {
    let answer = json!({"as_of": 1000.0, "jobs": [
        {"nodes": 16, "cores": 1536, "duration": 14400.0, "start": 12520.0, "as": "forecast", "at_least": false, "obstacles": [
            {"kind": "in-use", "text": "what it needs is in use for 3.2h more at most"},
            {"kind": "ahead", "text": "41 jobs ahead"}]},
        {"nodes": 16, "cores": 1536, "duration": 3600.0, "start": 1000.0, "as": "free", "at_least": false, "obstacles": []},
        {"nodes": 0, "cores": 4, "duration": null, "start": null, "as": "forecast", "at_least": true, "obstacles": [
            {"kind": "down", "text": "node n3 is down"}]},
        {"never": "unsatisfiable request: it asks for 9 nodes, and 4 are there"},
    ]});
    insta::assert_snapshot!(text(&when_table(&answer)));
}

#[test]
fn feat_72_the_priority_is_told_where_it_was_not_given() {
    let told = |from: &str| with_priority(&json!({"priority": 500, "priority_from": from}));
    assert_eq!(told("last-job").unwrap(), "with priority 500, that of your last job");
    assert_eq!(
        (told("given"), with_priority(&json!({"priority": null, "priority_from": "unknown"}))),
        (None, None)
    );
}

#[test]
fn feat_73_gaps_as_text() {
    let answer = json!({"as_of": 1000.0, "gaps": [
        {"nodes": 16, "cores": 1536, "duration": 4000.0, "until": 5000.0,
            "limit": {"kind": "reserved", "id": 8, "text": "reserved for ƒ9"}},
        {"nodes": 2, "cores": 192, "duration": null, "until": null, "limit": null},
    ]});
    insta::assert_snapshot!(text(&gaps_table(&answer)));
}

#[test]
fn feat_74_a_job_as_text() {
    let why = json!({
        "as_of": 1000.0, "text": "insufficient resources: needs 4 nodes; it is expected to start in 20m; jobs ahead in its queue: 1",
        "obstacles": [{"text": "node n3 is down"}, {"text": "1 job ahead"}],
        "earliest": 1600.0, "expected": 2200.0, "range": [1900.0, 3400.0],
        "helps": [{"change": "-t 30m", "start": 1000.0, "as": "free"}, {"change": "-N 2", "start": 1300.0, "as": "forecast"}],
    });
    let mut table = render::pairs();
    for (label, value) in waits::rows(&why) {
        table.add_row([label.to_owned(), value]);
    }
    insta::assert_snapshot!(text(&table));
}

#[test]
fn feat_75_nodes_as_text_with_those_that_were_drained() {
    let tests = json!([
        {"test": "down", "count": 3, "ranks": "1-3", "nodelist": "n[1-3]", "until": null, "id": null},
        {"test": "property", "count": 1, "ranks": "4", "nodelist": "n4", "until": null, "id": null},
        {"test": "in-use", "count": 2, "ranks": "5-6", "nodelist": "n[5-6]", "until": 1300.0, "id": null},
        {"test": "partly", "count": 1, "ranks": "7", "nodelist": "n7", "until": null, "id": null},
        {"test": "reserved", "count": 1, "ranks": "8", "nodelist": "n8", "until": null, "id": 8},
        {"test": "free", "count": 1, "ranks": "0", "nodelist": "n0", "until": null, "id": null},
    ]);
    let drained = [("2".parse().unwrap(), "bad dimm".to_owned())];
    let split = waits::with_drained(&tests, &drained, &|ranks| waits::hosts(&tests[0], ranks));
    let sum: u64 = split.as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(sum, 9);
    insta::assert_snapshot!(text(&waits::node_table(&split, 1000.0)));
}

#[test]
fn feat_77_the_order_as_text() {
    let answer = json!({"as_of": 1000.0, "complete": true, "jobs": [
        {"id": 8, "queue": "batch", "userid": 5588, "priority": 16, "t_submit": 400.0, "duration": 600.0, "nodes": 2, "cores": 8,
            "key": null, "ahead": 0, "reason": "first in line, has a reserved start", "reason_kind": "reserved",
            "expected": 1300.0, "as": "reserved"},
        {"id": 9, "queue": "batch", "userid": 5588, "priority": 16, "t_submit": 900.0, "duration": null, "nodes": 0, "cores": 4,
            "key": 2.5, "ahead": 1, "reason": "would delay the reserved start of another job", "reason_kind": "delays",
            "expected": null, "as": "forecast"},
    ]});
    insta::assert_snapshot!(text(&order::table(&answer)));
}

#[test]
fn feat_78_a_node_as_text() {
    let answer = json!({"as_of": 1000.0, "rank": 3, "host": "n3", "up": false, "drained": "bad dimm", "cores": 4, "free_cores": 1,
        "gpus": 0, "free_gpus": 0, "reserved": [{"id": 8, "start": 1600.0}, {"id": null, "start": 5000.0}],
        "reservations": [{"name": "dst1201", "start": 3600.0, "end": 7200.0}],
        "jobs": [{"id": 7, "userid": 5588, "cores": 3, "start": 900.0, "end": 4500.0, "expected_end": 2800.0},
            {"id": null, "userid": null, "cores": 1, "start": 950.0, "end": null, "expected_end": null}]});
    insta::assert_snapshot!(format!("{}\n\n{}", text(&node_pairs(&answer)), text(&node_jobs(&answer))));
}

#[test]
fn a_question_has_the_job_and_each_other_value_once() {
    let ask = |nodes, ntasks, vary: &[&str]| {
        let job = JobArgs {
            nodes,
            ntasks,
            time_limit: Some("4h".to_owned()),
            cores_per_task: 1,
            ..JobArgs::default()
        };
        let target = Target { uri: None, dir: None };
        let vary = vary.iter().map(|s| (*s).to_owned()).collect();
        When {
            target,
            job,
            vary,
            priority: None,
            policy: None,
            config: Vec::new(),
            json: false,
            command: Vec::new(),
        }
        .jobs()
    };
    let jobs = ask(Some(16), None, &["-t", "1h,2h,4h", "-N", "8,16"]).unwrap();
    let seen: Vec<String> = jobs
        .iter()
        .map(|job| format!("{} {}", job["resources"][0]["count"], job["attributes"]["system"]["duration"]))
        .collect();
    assert_eq!(seen, ["16 14400.0", "16 3600.0", "16 7200.0", "8 14400.0"]);
    for (vary, words) in [
        (&["-x", "1"][..], "expected -t, -N"),
        (&["-N", "a"], "no number"),
        (&["-t", "1m,2m,3m,4m,5m,6m,7m,8m,9m,10m,11m,12m,13m,14m,15m,16m"], "at most 16"),
    ] {
        let error = ask(Some(2), Some(4), vary).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn changes_that_might_help() {
    let job = JobArgs {
        nodes: Some(8),
        time_limit: Some("8m".to_owned()),
        cores_per_task: 1,
        requires: Some("fast".to_owned()),
        ..JobArgs::default()
    };
    let spec = job.jobspec(vec!["a".to_owned()]).unwrap().to_value();
    let names: Vec<String> = waits::changes(&spec).iter().map(|c| render::plain(&c["name"])).collect();
    assert_eq!(names, ["-t 4m", "-t 2m", "-t 1m", "-N 4", "-N 2", "-N 1", "without its constraints"]);
}
