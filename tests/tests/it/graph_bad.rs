//! An error in a graph names the file and the element, and nothing is loaded.

use fluxgate_tests::fixture::{cli, folder};
use serde_json::{Value, json};

fn node(id: &str, type_: &str, more: Value) -> Value {
    let mut node = json!({"id": id, "metadata": {"type": type_}});
    for (key, value) in more.as_object().unwrap() {
        node["metadata"][key] = value.clone();
    }
    node
}

fn graph(nodes: &[Value], edges: &[(&str, &str)]) -> String {
    let edges: Vec<Value> = edges.iter().map(|(a, b)| json!({"source": a, "target": b})).collect();
    json!({"graph": {"nodes": nodes, "edges": edges}}).to_string()
}

/// A cluster with one vertex.
fn with(type_: &str, more: Value) -> String {
    graph(&[node("0", "cluster", json!({})), node("1", type_, more)], &[("0", "1")])
}

fn r(rank: &str, children: Value, hosts: &str, scheduling: Value) -> String {
    json!({"version": 1, "execution": {"R_lite": [{"rank": rank, "children": children}], "nodelist": [hosts],
        "starttime": 0, "expiration": 0}, "scheduling": scheduling})
    .to_string()
}

fn grug(data: &str, target: &str, scale: &str) -> String {
    format!(
        "<graphml>\n<graph id=\"g\" edgedefault=\"directed\">\n<node id=\"c\"><data key=\"root\">1</data>\
         <data key=\"type\">cluster</data></node>\n<node id=\"n\"><data key=\"type\">node</data>{data}</node>\n\
         <edge source=\"c\" target=\"{target}\"><data key=\"multi_scale\">{scale}</data></edge></graph></graphml>"
    )
}

fn toml(hosts: &str, cores: &str) -> String {
    format!("[[resource.config]]\nhosts = \"{hosts}\"\ncores = \"{cores}\"\n")
}

/// Nested entities or aliases that expand to a huge text.
fn bomb(inside: &str) -> String {
    let mut text = "<!DOCTYPE x [<!ENTITY e0 \"aaaaaaaaaa\">".to_owned();
    for level in 1..10 {
        text += &format!("<!ENTITY e{level} \"{}\">", format!("&e{};", level - 1).repeat(10));
    }
    text + "]>" + inside
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    open.repeat(depth) + &close.repeat(depth)
}

#[test]
fn bad_input_is_told_with_file_and_element_and_nothing_is_loaded() {
    let ids: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    let chain: Vec<(&str, &str)> = ids.iter().zip(&ids[1..]).map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let many: Vec<Value> = ids.iter().map(|id| node(id, "box", json!({}))).collect();
    let three = ["0", "1", "2"].map(|id| node(id, "box", json!({})));
    let topo = |topo: Value| json!({"writer": "TreePool", "children": [{"ranks": "0", "topo": topo}]});
    let cases: &[(&str, String, &str)] = &[
        // RFC 4: at most one parent in a subsystem, no cycles, one root.
        (
            "cycle",
            graph(&three[..2], &[("0", "1"), ("1", "0")]),
            "JGF: graph.nodes[0] (id '0', box): vertex contains itself",
        ),
        (
            "cycle of itself",
            graph(&three[..1], &[("0", "0")]),
            "JGF: graph.nodes[0] (id '0', box): vertex contains itself",
        ),
        (
            "cycle below a root",
            graph(&three, &[("0", "1"), ("1", "2"), ("2", "1")]),
            "JGF: graph.nodes[1] (id '1', box): ",
        ),
        (
            "two parents",
            graph(&three, &[("0", "1"), ("0", "2"), ("1", "2")]),
            "JGF: graph.nodes[2] (id '2', box): vertex has two parents",
        ),
        (
            "deep tree",
            graph(&many, &chain),
            "JGF: graph.nodes[128] (id '128', box): the tree is more than 128 levels deep",
        ),
        (
            "dangling edge",
            graph(&three[..1], &[("0", "7")]),
            "JGF: graph.edges[0].target: there is no vertex with id '7'",
        ),
        ("dangling kind", grug("", "x", "2"), "GRUG: line 5: edge: target 'x'"),
        (
            "id twice",
            graph(&[three[0].clone(), three[0].clone()], &[]),
            "JGF: graph.nodes[1] (id '0').id: another vertex has this id",
        ),
        (
            "uuid twice",
            graph(
                &[node("0", "box", json!({"uuid": "u"})), node("1", "box", json!({"uuid": "u"}))],
                &[("0", "1")],
            ),
            "JGF: graph.nodes[1] (id '1'): the uuid 'u' belongs to another vertex",
        ),
        // Sizes, counts and units.
        ("size 0", with("memory", json!({"size": 0})), "JGF: graph.nodes[1] (id '1').metadata.size: 0 found"),
        (
            "size below 0",
            with("memory", json!({"size": -3})),
            "JGF: graph.nodes[1] (id '1').metadata.size: -3 found",
        ),
        (
            "size beyond",
            with("memory", json!({"size": i64::MAX})),
            "JGF: graph.nodes[1] (id '1').metadata.size: 9223372036854775807 found",
        ),
        ("id below", with("memory", json!({"id": -3})), "JGF: graph.nodes[1] (id '1').metadata.id: -3 found"),
        (
            "rank below",
            with("node", json!({"rank": -3})),
            "JGF: graph.nodes[1] (id '1').metadata.rank: -3 found",
        ),
        (
            "state",
            with("node", json!({"status": "sleepy"})),
            "JGF: graph.nodes[1] (id '1').metadata.status: \"sleepy\" found",
        ),
        (
            "kind of size 0",
            grug("<data key=\"size\">0</data>", "n", "2"),
            "GRUG: line 4: node 'n': size '0' found",
        ),
        ("scale below 0", grug("", "n", "-2"), "GRUG: line 5: edge: multi_scale '-2' found"),
        (
            "core below 0",
            r("0", json!({"core": "-3"}), "n0", json!(null)),
            "execution.R_lite[0].children.core: found \"-3\"",
        ),
        ("toml below 0", toml("n0", "-1"), "TOML: line 3: resource.config[0].cores"),
        (
            "unit",
            r(
                "0",
                json!({"core": "0"}),
                "n0",
                topo(json!({"storage": [{"path": "/x", "capacity": 1, "unit": "parsec"}]})),
            ),
            "TreePool: scheduling.children[0].topo.storage[0].unit: \"parsec\" found",
        ),
        (
            "no memory",
            r("0", json!({"core": "0"}), "n0", topo(json!({"memory": 0}))),
            "topo.memory: size 0 found",
        ),
        // Ranges that describe millions of vertices.
        ("scale", grug("", "n", "2000000000"), "GRUG: line 5: edge: multi_scale '2000000000' found"),
        ("many hosts", toml("n[0-99999999]", "0"), "TOML: line 2: resource.config[0].hosts"),
        (
            "many cores",
            toml("n0", "0-99999999"),
            "TOML: line 3: resource.config[0].cores: 100000000 ids found",
        ),
        (
            "many of R",
            r("0", json!({"core": "0-2000000000"}), "n0", json!(null)),
            "children.core: 2000000001 ids found",
        ),
        (
            "many nodes",
            r("0-2000000000", json!({"core": "0"}), "n[0-2000000000]", json!(null)),
            "execution.nodelist[0]",
        ),
        (
            "many of a topology",
            r("0", json!({"core": "0"}), "n0", topo(json!({"cores": "0-2000000000"}))),
            "topo.cores: 2000000001 ids found",
        ),
        // Bombs.
        ("entities of GRUG", bomb("<graphml><graph>&e9;</graph></graphml>"), "GRUG: line 1: XML with DTD"),
        (
            "entities of hwloc",
            bomb("<topology><object type=\"Machine\">&e9;</object></topology>"),
            "hwloc: line 1: XML with DTD",
        ),
        (
            "deep xml",
            format!("<topology>{}</topology>", nested("<object type=\"Machine\">", "</object>", 5000)),
            "hwloc: line 1: object 'Machine': more than 128",
        ),
        ("deep json", format!("{{\"graph\":{}}}", nested("[", "]", 100_000)), "JGF: line 1 column"),
        (
            "deep key",
            with("x", json!({}))
                .replace("\"type\":\"x\"", &format!("\"type\":\"x\",\"y\":{}", nested("[", "]", 1000))),
            "JGF: line 1 column",
        ),
        ("cut", with("x", json!({})).split_at(40).0.to_owned(), "JSON: line 1 column 40"),
        // Of an unknown writer.
        (
            "writer",
            r("0", json!({"core": "0"}), "n0", json!({"writer": "alien:v9", "graph": {}})),
            "R: scheduling.writer: writer 'alien:v9' found",
        ),
    ];
    let dir = folder();
    for (name, text, words) in cases {
        let file = dir.path().join(name.replace(' ', "-"));
        std::fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap();
        let out = dir.path().join("out");
        let said = cli(&["graph", "check", path]);
        assert!(
            said.out.is_empty() && said.err.lines().count() == 1 && said.err.len() < 1000,
            "{name}: {said:?}"
        );
        said.fails(1, &[&format!("{path}: "), words]);
        for command in ["convert", "save --whole --from"] {
            let mut args: Vec<&str> = std::iter::once("graph").chain(command.split(' ')).collect();
            args.extend([path, out.to_str().unwrap()]);
            cli(&args).fails(1, &[words]);
            assert!(!out.exists(), "{name}: nothing is written");
        }
    }
}

#[test]
fn a_type_of_any_name_is_accepted() {
    let dir = folder();
    let file = dir.path().join("g.json");
    std::fs::write(&file, with("flywheel", json!({"unit": "rpm", "size": 900, "spin": [1]}))).unwrap();
    let said = cli(&["graph", "check", file.to_str().unwrap(), "--json"]).json();
    assert_eq!(said[0]["types"][1], json!({"type": "flywheel", "count": 1, "size": 900, "unit": "rpm"}));
}
