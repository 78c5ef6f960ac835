//! Jobspecs that RFC 14 and RFC 25 accept and refuse.

use serde_json::json;

use super::*;

/// R14-10: the use cases of RFC 14 section 1 and 2 that are not in RFC 25, in their shapes (the RFC 46 vectors hold
/// the rest).
#[test]
fn use_cases() {
    let bare = json!([{"type": "node", "count": 1}]);
    let accepted = [
        json!([{"type": "slot", "count": 4, "label": "a", "with": bare}]),
        json!([{"type": "slot", "count": {"min": 3, "max": 30, "operator": "+", "operand": 1}, "label": "a", "with": bare}]),
        json!([{"type": "slot", "count": {"min": 3, "max": 30}, "label": "a", "with": bare}]),
        json!([{"type": "cluster", "count": 2, "with": [{"type": "slot", "count": 1, "label": "a", "with": [
            {"type": "node", "count": {"min": 1}, "exclusive": false, "with": [{"type": "core", "count": 30}]}]}]}]),
        json!([{"type": "slot", "count": "4,9,16,25", "label": "a", "with": bare}]),
        json!([{"type": "slot", "count": 10, "label": "a", "with": [
            {"type": "memory", "count": {"min": 2}, "unit": "GB"}, {"type": "core", "count": 1}]}]),
        json!([{"type": "node", "count": 1, "with": [
            {"type": "slot", "count": 10, "label": "a", "with": [{"type": "core", "count": 1}]},
            {"type": "slot", "count": 1, "label": "db", "with": [{"type": "core", "count": 6}]}]}]),
        json!([{"type": "slot", "count": "2-32:2:*", "label": "a", "exclusive": false, "with": [
            {"type": "node", "count": 1, "label": "n", "id": "7"}]}, {"type": "ssd", "count": 1, "unit": "TB"}]),
    ];
    for resources in accepted {
        let document = general(resources);
        let job = Jobspec::from_value(&document).unwrap_or_else(|error| panic!("{error}: {document}"));
        assert_eq!(Jobspec::from_value(&job.to_value()), Ok(job));
    }
}

#[test]
fn accepted() {
    let rows = [
        // Unknown attributes of any kind, and an unknown top-level key.
        with("/attributes/system/frobnicate", Some(json!([{"x": 1}, null]))),
        with("/name", Some(json!("x"))),
        with("/attributes/system/preemptible-after", Some(json!(0))),
        with("/attributes/system/duration", Some(json!(0))),
        with("/attributes", Some(json!({}))),
        with("/tasks/0/count", Some(json!({"total": 100}))),
        with("/tasks/0/count", Some(json!({"per_resource": {"type": "core", "count": 2}}))),
        with("/tasks/0/attributes", Some(json!({"environment": {"A": null}}))),
        with("/tasks/0/distribution", Some(json!("cyclic"))),
        with("/attributes/system/dependencies", Some(json!([{"scheme": "afterok", "value": "f1", "x": 1}]))),
        with("/version", Some(json!(4_294_967_295_u32))),
    ];
    for document in rows {
        let job = Jobspec::from_value(&document).unwrap_or_else(|error| panic!("{error}: {document}"));
        assert_eq!(Jobspec::try_from(job.to_value()), Ok(job));
    }
    // A gpu count of 0 means no gpu, in version 1 only.
    let none = Jobspec::from_value(&with("/resources/0/with/0/with/1/count", Some(json!(0)))).unwrap();
    assert_eq!((none.min_gpus(), none.check_v1()), (0, Ok(())));
    let general =
        general(json!([{"type": "slot", "count": 1, "label": "a", "with": [{"type": "gpu", "count": 0}]}]));
    assert!(refusal(&general).contains("resources[0].with[0].count: found 0"));
}

/// R14-1 to R14-9: refused jobspecs, and the errors.
#[test]
fn refused() {
    let slot = "/resources/0/with/0";
    let at = |rest: &str| format!("{slot}{rest}");
    let rows = [
        ("/version", None, "(top level): found nothing, expected the key 'version'"),
        ("/version", Some(json!(0)), "version: found 0, expected a version number of 1 or more"),
        ("/version", Some(json!(4.2)), "version: found 4.2"),
        ("/version", Some(json!({})), "version: found an empty dictionary"),
        ("/resources", None, "expected the key 'resources'"),
        ("/resources", Some(json!([])), "resources: found no resource, expected at least one resource"),
        ("/resources", Some(json!({"a": 1})), "resources: found a dictionary, expected a list"),
        ("/resources/0", Some(json!([])), "resources[0]: found an empty list, expected a dictionary"),
        ("/resources/0/type", None, "resources[0].type: found nothing"),
        ("/resources/0/type", Some(json!("")), "resources[0].type: found \"\""),
        ("/resources/0/type", Some(json!([])), "resources[0].type: found an empty list, expected a string"),
        ("/resources/0/count", None, "resources[0]: found nothing, expected the key 'count'"),
        (
            "/resources/0/count",
            Some(json!("3-1")),
            "resources[0].count: found \"3-1\", expected a positive integer",
        ),
        ("/resources/0/count", Some(json!(true)), "resources[0].count: found true"),
        ("/resources/0/count", Some(json!({"min": 0})), "resources[0].count.min: found 0"),
        ("/resources/0/exclusive", Some(json!("yes")), "exclusive: found \"yes\", expected true or false"),
        ("/resources/0/unit", Some(json!(1)), "resources[0].unit: found 1"),
        ("/resources/0/id", Some(json!([1])), "resources[0].id: found a list"),
        ("/resources/0/colour", Some(json!(1)), "resources[0]: found the key 'colour', expected one of type"),
        (
            "/resources/0/with",
            Some(json!([])),
            "resources[0].with: found an empty list, expected at least one",
        ),
        ("/resources/0/with", Some(json!(42)), "resources[0].with: found 42, expected a list"),
        (&at("/label"), None, "resources[0].with[0]: found a slot without label"),
        (&at("/label"), Some(json!(1)), "resources[0].with[0].label: found 1, expected a string"),
        (&at("/with"), None, "resources[0].with[0]: found a slot with nothing in it"),
        (
            &at("/with/1/label"),
            Some(json!("task")),
            "resources[0].with[0].label: found the label \"task\" a second",
        ),
        (&at("/with/1/count"), Some(json!("3-1")), "resources[0].with[0].with[1].count: found \"3-1\""),
        ("/tasks", None, "expected the key 'tasks'"),
        ("/tasks", Some(json!([])), "tasks: found 0 tasks"),
        ("/tasks", Some(json!({})), "tasks: found an empty dictionary, expected a list"),
        ("/tasks/0", Some(json!("x")), "tasks[0]: found \"x\", expected a dictionary"),
        ("/tasks/0/command", None, "tasks[0]: found nothing, expected the key 'command'"),
        ("/tasks/0/command", Some(json!("app")), "tasks[0].command: found \"app\", expected a list"),
        ("/tasks/0/command", Some(json!([])), "tasks[0].command: found an empty list"),
        ("/tasks/0/command", Some(json!(["a", 1])), "tasks[0].command[1]: found 1, expected a string"),
        ("/tasks/0/slot", None, "expected the key 'slot'"),
        (
            "/tasks/0/slot",
            Some(json!("other")),
            "tasks[0].slot: found \"other\", expected the label of a slot (there is: task)",
        ),
        ("/tasks/0/count", None, "expected the key 'count'"),
        ("/tasks/0/count", Some(json!(1)), "tasks[0].count: found 1"),
        ("/tasks/0/count", Some(json!({})), "tasks[0].count: found 0 keys"),
        (
            "/tasks/0/count",
            Some(json!({"per_slot": 1, "total": 1})),
            "found 2 keys, expected one of per_slot",
        ),
        ("/tasks/0/count", Some(json!({"per_slot": 0})), "tasks[0].count.per_slot: found 0"),
        ("/tasks/0/count", Some(json!({"total": 0})), "tasks[0].count.total: found 0"),
        ("/tasks/0/count", Some(json!({"per_core": 1})), "tasks[0].count: found the key 'per_core'"),
        ("/tasks/0/count", Some(json!({"per_resource": {"type": "core"}})), "per_resource: found nothing"),
        (
            "/tasks/0/count",
            Some(json!({"per_resource": {"type": "node", "count": 1}})),
            "per_resource.type: found \"node\"",
        ),
        ("/tasks/0/color", Some(json!(1)), "tasks[0]: found the key 'color'"),
        ("/attributes", None, "expected the key 'attributes'"),
        ("/attributes", Some(json!(null)), "attributes: found null, expected a dictionary"),
        ("/attributes/system", Some(json!(null)), "attributes.system: found null"),
        ("/attributes/user", Some(json!(1)), "attributes.user: found 1"),
        (
            "/attributes/foo",
            Some(json!({})),
            "attributes: found the key 'foo', expected only 'user' and 'system'",
        ),
        (
            "/attributes/system/duration",
            Some(json!("1h")),
            "attributes.system.duration: found \"1h\", expected a number",
        ),
        (
            "/attributes/system/duration",
            Some(json!(-1)),
            "duration: found -1, expected a number of seconds, 0 or more",
        ),
        ("/attributes/system/preemptible-after", Some(json!(-0.5)), "preemptible-after: found -0.5"),
        ("/attributes/system/environment", Some(json!([])), "environment: found an empty list"),
        (
            "/attributes/system/environment",
            Some(json!({"A": 1})),
            "environment.A: found 1, expected a string or null",
        ),
        ("/attributes/system/cwd", Some(json!(1)), "attributes.system.cwd: found 1"),
        ("/attributes/system/queue", Some(json!(null)), "attributes.system.queue: found null"),
        ("/attributes/system/job", Some(json!({"name": 1})), "attributes.system.job.name: found 1"),
        ("/attributes/system/shell", Some(json!(1)), "attributes.system.shell: found 1"),
        (
            "/attributes/system/dependencies",
            Some(json!({})),
            "attributes.system.dependencies: found an empty",
        ),
        (
            "/attributes/system/dependencies",
            Some(json!([{"scheme": "a"}])),
            "dependencies[0]: found nothing, expected the key 'value'",
        ),
        (
            "/attributes/system/dependencies",
            Some(json!([{"scheme": "a", "value": 1}])),
            "dependencies[0].value: found 1",
        ),
        (
            "/attributes/system/constraints",
            Some(json!([])),
            "attributes.system.constraints: found an empty list",
        ),
        (
            "/attributes/system/constraints",
            Some(json!({"and": [{"ranks": ["x"]}]})),
            "constraints.and[0].ranks[0]: found \"x\"",
        ),
    ];
    for (pointer, value, words) in rows {
        let error = refusal(&with(pointer, value));
        assert!(error.starts_with("jobspec: ") && error.contains(words), "{pointer}: {error}");
    }
    assert!(refusal(&json!([])).contains("found an empty list, expected a dictionary"));
}

/// R25: jobspecs that version 1 refuses beyond RFC 14.
#[test]
fn version_1() {
    let core = json!({"type": "core", "count": 1});
    let slot = |with: Value| json!([{"type": "slot", "count": 4, "label": "task", "with": with}]);
    let rows = [
        ("/resources", slot(json!([core])), Ok(())),
        ("/resources", slot(json!([core, {"type": "gpu", "count": 2}])), Ok(())),
        ("/resources/0/exclusive", json!(true), Ok(())),
        ("/tasks/0/count", json!({"total": 4}), Ok(())),
        // RFC 25 use case 2.1 has more tasks than slots.
        ("/tasks/0/count", json!({"total": 9}), Ok(())),
        ("/version", json!(2), Err("version: found 2, expected 1")),
        (
            "/resources",
            json!([slot(json!([core]))[0], core]),
            Err("resources: found 2 resources, expected one"),
        ),
        ("/resources", slot(json!([{"type": "gpu", "count": 1}])), Err("found a slot without core")),
        (
            "/resources",
            slot(json!([core, core])),
            Err("resources[0].with[1]: found core, expected slot>core"),
        ),
        ("/resources", slot(json!([{"type": "node", "count": 1, "with": [core]}])), Err("found node>core")),
        (
            "/resources",
            slot(json!([core, {"type": "smurf", "count": 1}])),
            Err("resources[0].with[1]: found smurf"),
        ),
        ("/resources/0/type", json!("rack"), Err("resources[0]: found rack>slot")),
        (
            "/resources/0/count",
            json!("2-4"),
            Err("resources[0].count: found \"2-4\", expected one positive integer"),
        ),
        ("/resources/0/with/0/count", json!({"min": 1}), Err("resources[0].with[0].count: found \"1+\"")),
        ("/resources/0/with/0/with/0/count", json!("1,3"), Err("with[0].with[0].count: found \"1,3\"")),
        ("/resources/0/with/0/exclusive", json!(true), Err("resources[0].with[0]: found more keys")),
        ("/tasks/0/count", json!({"per_slot": 2}), Err("tasks[0].count.per_slot: found 2, expected 1")),
        (
            "/tasks/0/count",
            json!({"total": 3}),
            Err("tasks[0].count.total: found 3, expected at least one for each of 4"),
        ),
        ("/tasks/0/count", json!({"per_resource": {"type": "core", "count": 1}}), Err("found per_resource")),
        (
            "/attributes/system",
            json!({}),
            Err("attributes.system: found nothing, expected the key 'duration'"),
        ),
    ];
    for (pointer, value, want) in rows {
        let job = Jobspec::from_value(&with(pointer, Some(value)))
            .unwrap_or_else(|error| panic!("{pointer}: {error}"));
        match (job.check_v1(), want) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{pointer}: {error}"),
            (got, want) => panic!("{pointer}: {got:?}, expected {want:?}"),
        }
    }
}
