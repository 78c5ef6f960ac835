//! Vectors and properties of shapes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn shape(text: &str) -> Value {
    parse(text).unwrap_or_else(|error| panic!("{error}")).iter().map(Resource::to_value).collect()
}

/// R46: the examples of the RFC, by the number of the RFC 14 use case.
#[test]
fn use_cases() {
    let node = |with: Value| json!({"type": "node", "count": 1, "with": with});
    let memory = |count: Value| json!({"type": "memory", "count": count, "unit": "GB"});
    let core = |count: Value| json!({"type": "core", "count": count});
    let slot = |count: Value, label: &str, with: Value| json!({"type": "slot", "count": count, "label": label, "with": with});
    let bare = json!([{"type": "node", "count": 1}]);
    let loose = |core: u32| {
        json!([{"type": "node", "count": {"min": 1}, "exclusive": false,
                "with": [{"type": "core", "count": core}]}])
    };
    let rows = [
        ("1.1", "slot=4/node", json!([slot(json!(4), "default", bare.clone())])),
        (
            "1.2",
            "slot=3-30/node",
            json!([slot(
                json!({"min": 3, "max": 30, "operator": "+", "operand": 1}),
                "default",
                bare.clone()
            )]),
        ),
        (
            "1.3",
            "slot=4{nodelevel}/node{-x}/socket=2+/core=4+",
            json!([slot(
                json!(4),
                "nodelevel",
                json!([{"type": "node", "count": 1, "exclusive": false, "with": [
                {"type": "socket", "count": {"min": 2}, "with": [core(json!({"min": 4}))]}]}])
            )]),
        ),
        (
            "1.4",
            "slot=4{nodelevel}/node/socket=2/core=4",
            json!([slot(
                json!(4),
                "nodelevel",
                json!([node(json!([{"type": "socket", "count": 2, "with": [core(json!(4))]}]))])
            )]),
        ),
        (
            "1.5",
            "[cluster/slot=2{ib}/node/[memory=4{unit:GB};ib10g];switch/slot=2{bicore}/node/core=2]",
            json!([
                {"type": "cluster", "count": 1, "with": [slot(json!(2), "ib", json!([node(
                    json!([memory(json!(4)), {"type": "ib10g", "count": 1}]))]))]},
                {"type": "switch", "count": 1, "with": [slot(json!(2), "bicore", json!([node(
                    json!([core(json!(2))]))]))]},
            ]),
        ),
        (
            "1.6",
            "cluster=2/slot/node=1+{-x}/core=30",
            json!([{"type": "cluster", "count": 2, "with": [slot(json!(1), "default", loose(30))]}]),
        ),
        (
            "1.7",
            "switch=3/slot/node=1+{-x}/core",
            json!([{"type": "switch", "count": 3, "with": [slot(json!(1), "default", loose(1))]}]),
        ),
        ("1.8", "slot=4,9,16,25/node", json!([slot(json!("4,9,16,25"), "default", bare.clone())])),
        ("2.3", "slot=10/core=2", json!([slot(json!(10), "default", json!([core(json!(2))]))])),
        (
            "2.4",
            "node/[slot=10{read-db}/[core;memory=4{unit:GB}];slot{db}/[core=6;memory=24{unit:GB}]]",
            json!([node(json!([
                slot(json!(10), "read-db", json!([core(json!(1)), memory(json!(4))])),
                slot(json!(1), "db", json!([core(json!(6)), memory(json!(24))])),
            ]))]),
        ),
        (
            "2.5",
            "slot=10/[memory=2+{unit:GB};core]",
            json!([slot(json!(10), "default", json!([memory(json!({"min": 2})), core(json!(1))]))]),
        ),
        (
            "2.6",
            "slot=2{4GB-node}/node/memory=4+{unit:GB}",
            json!([slot(json!(2), "4GB-node", json!([node(json!([memory(json!({"min": 4}))]))]))]),
        ),
        ("2.7", "slot/node", json!([slot(json!(1), "default", bare)])),
    ];
    for (name, text, want) in rows {
        assert_eq!(shape(text), want, "R46 {name}");
        assert_eq!(print(&parse(text).unwrap()), text, "R46 {name} printed");
    }
}

/// R46: texts that mean the same.
#[test]
fn spellings() {
    let rows = [
        ("numa{x}", "numa{+x}"),
        ("numa{x}", "numa{exclusive}"),
        ("numa{x}", "numa{exclusive:true}"),
        ("numa{-x}", "numa{ x : False }"),
        ("node", "node=1{}"),
        ("node", " [ node = [1] ] "),
        ("node=2-8:2", "node=[2-8:2:+]"),
        ("'a b'", "\"a b\""),
        ("memory{unit:GB}", "memory{'unit':\"GB\"}"),
        ("node{id:\"7\"}", "node{id:'7'}"),
    ];
    for (one, other) in rows {
        assert_eq!(parse(one), parse(other), "{other}");
        assert!(parse(one).is_ok(), "{one}");
    }
    let core = parse_with_label("slot/node", "task").unwrap();
    assert_eq!(core[0].label.as_deref(), Some("task"));
}

/// R46-INV: refused texts, with the byte of the error.
#[test]
fn refused() {
    let rows = [
        ("slot=2{blah", 6, "'{' is not closed"),
        ("slot/", 5, "expected a resource type"),
        ("slot=2{bla}}", 11, "nothing in it"),
        ("node/[slot=10{a}/[core;memory=4{unit:GB}]]]", 42, "expected '/' or the end"),
        ("[slot/core;slot/core]", 21, "more than one slot"),
        ("[slot{a}/core;slot{a}/core]", 27, "label 'a' a second time"),
        ("", 0, "expected a resource type"),
        ("node/[core;gpu", 5, "'[' is not closed"),
        ("node=", 5, "expected a positive number"),
        ("node=0", 5, "positive number"),
        ("node=8-2", 8, "maximum below the minimum"),
        ("node=[2", 5, "'[' is not closed"),
        ("slot", 4, "nothing in it"),
        ("slot{}/core", 5, "the label of the slot first"),
        ("slot{+x,a}/core", 5, "the label of the slot first"),
        ("node{foo:bar}", 5, "unknown key 'foo'"),
        ("node{unit}", 9, "':' and a text"),
        ("node{unit:4}", 10, "put quotes around it"),
        ("node{unit:null}", 10, "put quotes around it"),
        ("node{x,-x}", 8, "key 'exclusive' a second time"),
        ("node{x:\"true\"}", 7, "true or false"),
        ("node{unit:'GB}", 10, "''' is not closed"),
        ("node core", 5, "expected '/' or the end"),
        ("\"a\\x\"", 0, "not a JSON string"),
    ];
    for (text, at, words) in rows {
        let error = parse(text).expect_err(text);
        assert_eq!(error.at, at, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = |levels: usize| vec!["a"; levels].join("/");
    assert!(parse(&deep(DEPTH_MAX)).is_ok());
    assert_eq!(parse(&deep(DEPTH_MAX + 1)).unwrap_err().kind, ShapeErrorKind::TooDeep);
    let wide = |vertices: usize| format!("[{}]", vec!["a"; vertices].join(";"));
    assert!(parse(&wide(VERTICES_MAX)).is_ok());
    assert_eq!(parse(&wide(VERTICES_MAX + 1)).unwrap_err().kind, ShapeErrorKind::TooMany);
    assert_eq!(parse(&"[".repeat(1 << 19)).unwrap_err().at, 1);
    assert_eq!(parse(&"a".repeat(TEXT_BYTES_MAX + 1)).unwrap_err().kind, ShapeErrorKind::TooLong);
}

/// Makes labels unique, and gives one to each slot when there are several.
fn unique_labels(vertices: &mut [Resource], many_slots: bool, n: &mut u32) {
    for vertex in vertices {
        *n += 1;
        if vertex.label.is_some() || vertex.is_slot() && many_slots {
            vertex.label = Some(format!("{n}.{}", vertex.label.as_deref().unwrap_or_default()));
        }
        unique_labels(&mut vertex.with, many_slots, n);
    }
}

proptest! {
    #[test]
    fn print_then_parse(mut resources in crate::jobspec::tests::resources()) {
        let slots = resources.iter().flat_map(Resource::walk).filter(|vertex| vertex.is_slot()).count();
        unique_labels(&mut resources, slots > 1, &mut 0);
        prop_assert_eq!(label_slots(&mut resources, DEFAULT_LABEL), Ok(()));
        let text = print(&resources);
        prop_assert_eq!(parse(&text), Ok(resources), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z=\\[\\]{}/;:,+x'\" 0-9-]{0,40}") {
        if let Ok(resources) = parse(&text) {
            prop_assert_eq!(parse(&print(&resources)), Ok(resources));
        }
    }
}
