//! Vectors and properties of jobspecs.

use proptest::prelude::*;
use serde_json::json;

use super::count::tests::counts;
use super::*;
use crate::document::DocumentErrorKind;

mod vectors;

/// A version 1 jobspec with the usual keys.
fn sample() -> Value {
    json!({
        "version": 1,
        "resources": [{"type": "node", "count": 4, "with": [
            {"type": "slot", "count": 2, "label": "task", "with": [
                {"type": "core", "count": 3}, {"type": "gpu", "count": 1}]}]}],
        "tasks": [{"command": ["app", "-x"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 3600.0, "cwd": "/home/flux", "queue": "batch",
            "environment": {"HOME": "/home/flux", "OLD": null}, "job": {"name": "try"},
            "exec": {"test": {"run_duration": "10s"}}},
            "user": {"note": [1, null]}},
    })
}

/// The sample with the value at `pointer` replaced, or removed (`None`).
fn with(pointer: &str, value: Option<Value>) -> Value {
    let mut document = sample();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match (document.pointer_mut(parent), value) {
        (Some(Value::Object(map)), Some(value)) => drop(map.insert(key.to_owned(), value)),
        (Some(Value::Object(map)), None) => drop(map.remove(key)),
        (Some(Value::Array(list)), Some(value)) => list[key.parse::<usize>().unwrap()] = value,
        _ => panic!("{pointer}"),
    }
    document
}

/// A general jobspec with these resources and a task in slot `a`.
fn general(resources: Value) -> Value {
    json!({"version": 999, "resources": resources, "attributes": {},
           "tasks": [{"command": ["app"], "slot": "a", "count": {"per_slot": 1}}]})
}

fn refusal(value: &Value) -> String {
    Jobspec::from_value(value).expect_err(&value.to_string()).to_string()
}

#[test]
fn fields_and_summary() {
    let job = Jobspec::from_json(&sample().to_string()).unwrap();
    assert_eq!((job.min_nodes(), job.min_slots(), job.min_cores(), job.min_gpus()), (4, 8, 24, 8));
    assert_eq!((job.duration(), job.queue(), job.cwd()), (3600.0, Some("batch"), Some("/home/flux")));
    assert_eq!((job.command(), job.name()), (&["app".to_owned(), "-x".to_owned()][..], Some("try")));
    assert_eq!(job.environment().unwrap()["OLD"], Value::Null);
    assert_eq!(job.system_attr("exec.test.run_duration"), Some(&json!("10s")));
    assert_eq!(job.system_attr("exec.test.run_duration.more"), None);
    assert_eq!(job.system_attr("exec.nothing"), None);
    assert_eq!(job.constraints(), None);
    assert_eq!(job.to_value(), sample());
    assert_eq!(job.check_v1(), Ok(()));
    assert_eq!(serde_json::from_value::<Jobspec>(serde_json::to_value(&job).unwrap()).ok(), Some(job));
}

/// R14-5: the default of `exclusive`.
#[test]
fn exclusiveness() {
    let vertex = |exclusive| Resource { exclusive, ..Resource::new("node", Count::Fixed(1)) };
    assert!(!vertex(None).is_exclusive(false) && vertex(None).is_exclusive(true));
    assert!(!vertex(Some(false)).is_exclusive(true) && vertex(Some(true)).is_exclusive(false));
    assert!(Resource::new(SLOT, Count::Fixed(1)).is_exclusive(false));
}

#[test]
fn a_scheduler_need_not_care_about_tasks() {
    for (pointer, value) in [("/tasks/0/slot", "other"), ("/resources/0/with/0/with/1/label", "task")] {
        let document = with(pointer, Some(json!(value)));
        assert!(Jobspec::from_value(&document).is_err());
        assert!(Jobspec::from_owned(document, Checks::Scheduling).is_ok());
    }
}

#[test]
fn syntax_errors_name_line_and_column() {
    let error = Jobspec::from_json("{\"version\": 1,\n  \"tasks\": [}").unwrap_err();
    assert!(
        matches!(error.kind, DocumentErrorKind::Syntax { format: "JSON", line: 2, column: 13, .. }),
        "{error}"
    );
    assert_eq!(error.to_string(), "jobspec: not valid JSON at line 2 column 13: expected value");
    let error = Jobspec::from_yaml("version: 1\ntasks: a: b\n").unwrap_err();
    assert!(
        matches!(error.kind, DocumentErrorKind::Syntax { format: "YAML", line: 2, column: 9, .. }),
        "{error}"
    );
    assert!(Jobspec::from_yaml("version: 1\nversion: 1\n").is_err());
    assert!(Jobspec::from_yaml("").is_err() && Jobspec::from_json("").is_err());
}

#[test]
fn yaml_says_the_same_as_json() {
    let text = "\
version: 1
resources:
  - type: node
    count: 4
    with:
      - {type: slot, count: 2, label: task, with: [{type: core, count: 3}, {type: gpu, count: 1}]}
tasks:
  - command: [app, '-x']
    slot: task
    count: {per_slot: 1}
attributes:
  system:
    duration: 3600.
    cwd: /home/flux
    queue: batch
    environment: {HOME: /home/flux, OLD: ~}
    job: {name: try}
    exec: {test: {run_duration: 10s}}
  user: {note: [1, null]}
";
    assert_eq!(Jobspec::from_yaml(text), Jobspec::from_value(&sample()));
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = |levels| {
        let slot = json!({"type": "slot", "count": 1, "label": "a", "with": [{"type": "core", "count": 1}]});
        (2..levels).fold(slot, |inner, _| json!({"type": "x", "count": 1, "with": [inner]}))
    };
    let fits = general(json!([deep(DEPTH_MAX)]));
    assert!(Jobspec::from_value(&fits).is_ok());
    assert!(Jobspec::from_json(&fits.to_string()).is_ok(), "the JSON reader must not be the tighter bound");
    assert!(refusal(&general(json!([deep(DEPTH_MAX + 1)]))).contains("at most 60 levels"));
    let wide = vec![json!({"type": "x", "count": 1}); VERTICES_MAX + 1];
    assert!(refusal(&general(json!(wide))).contains("at most 10000 resources"));
    let long = " ".repeat(TEXT_BYTES_MAX + 1);
    assert!(matches!(Jobspec::from_json(&long).unwrap_err().kind, DocumentErrorKind::TooLong { .. }));
    let error = Jobspec::from_json(&"[".repeat(100_000)).unwrap_err();
    assert!(error.to_string().contains("recursion limit"), "{error}");
    assert!(Jobspec::from_yaml(&"[".repeat(100_000)).is_err());
}

/// YAML text that expands to 10^9 nodes is refused without an expansion.
#[test]
fn yaml_bombs_are_bounded() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..9 {
        let list = vec![format!("*a{}", i - 1); 10].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{list}]\n"));
    }
    let error = Jobspec::from_yaml(&text).unwrap_err();
    assert!(matches!(error.kind, DocumentErrorKind::Syntax { format: "YAML", .. }), "{error}");
}

#[test]
fn counts_that_do_not_fit_a_number_saturate() {
    let huge = json!([{"type": "node", "count": "9000000000000000000+", "with": [
        {"type": "slot", "count": 9_000_000_000_u64, "label": "a", "with": [{"type": "core", "count": 7}]}]}]);
    let job = Jobspec::from_value(&general(huge)).unwrap();
    assert_eq!((job.min_nodes(), job.min_cores()), (9_000_000_000_000_000_000, u64::MAX));
}

#[test]
fn attributes_change_checked() {
    let mut job = Jobspec::from_value(&sample()).unwrap();
    job.set_system_attr("exec.test.run_duration", json!("1s")).unwrap();
    job.set_system_attr("brand.new", json!(1)).unwrap();
    job.set_system_attr("duration", json!(5)).unwrap();
    assert_eq!((job.duration(), job.system_attr("brand.new")), (5.0, Some(&json!(1))));
    let before = job.clone();
    let error = job.set_system_attr("duration", json!("5")).unwrap_err().to_string();
    assert!(error.contains("attributes.system.duration: found \"5\""), "{error}");
    let error = job.set_system_attr("queue.name", json!("5")).unwrap_err().to_string();
    assert!(error.contains("queue.name: found \"batch\", expected a dictionary at 'queue'"), "{error}");
    assert_eq!(job, before);
    // R33-3: the constraint of the queue is added to that of the job.
    for ranks in ["0-3", "2-5"] {
        job.add_constraint(Constraint::Ranks(ranks.parse().unwrap()));
    }
    assert_eq!(job.system_attr("constraints.and"), Some(&json!([{"ranks": ["0-3"]}, {"ranks": ["2-5"]}])));
    assert_eq!(Jobspec::from_value(&job.to_value()), Ok(job));
}

/// The jobspecs of `flux submit`.
#[test]
fn simple_jobs() {
    let build = |nodes, slots, cores_per_slot, gpus_per_slot| {
        let command = vec!["app".to_owned()];
        Simple { nodes, slots, cores_per_slot, gpus_per_slot, command, ..Simple::default() }.build()
    };
    let rows = [
        ("", build(None, 0, 0, 0), "slot{task}/core", TaskCount::PerSlot(1)),
        ("-n3 -c2", build(None, 3, 2, 0), "slot=3{task}/core=2", TaskCount::PerSlot(1)),
        ("-n3 -g1", build(None, 3, 1, 1), "slot=3{task}/[core;gpu]", TaskCount::PerSlot(1)),
        ("-N2", build(Some(2), 0, 1, 0), "node=2{x}/slot{task}/core", TaskCount::PerSlot(1)),
        ("-N2 -n8", build(Some(2), 8, 1, 0), "node=2/slot=4{task}/core", TaskCount::PerSlot(1)),
        ("-N4 -n5", build(Some(4), 5, 1, 0), "node=4/slot=2{task}/core", TaskCount::Total(5)),
        ("-N4 -n1", build(Some(4), 1, 1, 0), "node=4/slot{task}/core", TaskCount::PerSlot(1)),
    ];
    for (options, job, shape, count) in rows {
        assert_eq!(crate::shorthand::print(&job.resources), shape, "{options}");
        assert_eq!(job.tasks[0].count, count, "{options}");
        assert_eq!(job.check_v1(), Ok(()), "{options}");
        assert_eq!(Jobspec::from_value(&job.to_value()), Ok(job), "{options}");
    }
    let full = Simple {
        duration: f64::NAN,
        queue: Some("batch".into()),
        cwd: Some("/tmp".into()),
        name: Some("try".into()),
        environment: Map::from_iter([("A".to_owned(), json!("1"))]),
        constraint: Some(Constraint::Ranks("0".parse().unwrap())),
        command: vec!["app".into()],
        ..Simple::default()
    };
    let job = full.build();
    assert_eq!(
        (job.duration(), job.queue(), job.cwd(), job.name()),
        (0.0, Some("batch"), Some("/tmp"), Some("try"))
    );
    assert_eq!(Jobspec::from_value(&job.to_value()), Ok(job));
}

/// The jobspecs of Fluxion, if they are beside the workspace.
#[test]
fn fluxion_collection() {
    let Some(folder) = fluxgate_testing::shared("data/fluxion/jobspecs") else { return };
    let mut folders = vec![folder];
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let job = Jobspec::from_yaml_with(&text, Checks::Scheduling);
            let job = job.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(
                Jobspec::from_owned(job.to_value(), Checks::Scheduling),
                Ok(job),
                "{}",
                path.display()
            );
            read += 1;
        }
    }
    assert!(read > 0, "the collection is empty");
}

/// Any resources that a jobspec may hold, labels not yet unique.
pub(crate) fn resources() -> impl Strategy<Value = Vec<Resource>> {
    let text = || proptest::option::of("[a-zA-Z0-9 +{}:,;/'\"=-]{0,5}");
    let details = (text(), proptest::option::of(any::<bool>()), text(), text());
    let vertex = (prop_oneof!["[a-z0-9 =;\"]{1,6}", Just("node".to_owned())], counts(), details);
    let vertex = vertex.prop_map(|(type_, count, (unit, exclusive, label, id))| Resource {
        unit,
        exclusive,
        label,
        id,
        ..Resource::new(type_, count)
    });
    vertex
        .clone()
        .prop_recursive(4, 24, 3, move |inner| {
            let with = proptest::collection::vec(inner, 1..4);
            (vertex.clone(), with, any::<bool>()).prop_map(|(vertex, with, slot)| match slot {
                true => Resource { type_: SLOT.to_owned(), ..vertex }.containing(with),
                false => vertex.containing(with),
            })
        })
        .prop_map(|vertex| vec![vertex])
}

proptest! {
    #[test]
    fn print_then_read(mut list in resources(), duration in 0..1000u32) {
        // A slot for the task, and unique labels.
        list.push(Resource::new(SLOT, Count::Fixed(1)).containing(vec![Resource::new("core", Count::Fixed(1))]));
        let mut labels = 0;
        fn number(list: &mut [Resource], labels: &mut u32) {
            for vertex in list {
                *labels += 1;
                if vertex.is_slot() || vertex.label.is_some() {
                    vertex.label = Some(format!("l{labels}"));
                }
                number(&mut vertex.with, labels);
            }
        }
        number(&mut list, &mut labels);
        let slot = list.last().and_then(|slot| slot.label.clone());
        let job = json!({"version": 7, "resources": list.iter().map(Resource::to_value).collect::<Vec<_>>(),
            "tasks": [{"command": ["x"], "slot": slot, "count": {"total": 3}}],
            "attributes": {"system": {"duration": duration}}});
        let job = Jobspec::from_value(&job).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&job.resources, &list);
        prop_assert_eq!(Jobspec::from_json(&job.to_value().to_string()), Ok(job));
    }
}
