//! `fluxgate graph` on files that the tests write: content and errors.

use std::path::{Path, PathBuf};

use fluxgate_tests::fixture::{Said, cli, folder, shared};
use serde_json::{Value, json};

/// Two racks of two nodes; a node has four cores and a pool of memory.
const GRUG: &str = r#"<?xml version="1.0"?>
<!-- a <topology> of our own -->
<graphml><graph id="g" edgedefault="directed">
<node id="c"><data key="root">1</data><data key="type">cluster</data><data key="basename">tiny</data></node>
<node id="r"><data key="type">rack</data></node>
<node id="n"><data key="type">node</data></node>
<node id="k"><data key="type">core</data></node>
<node id="m"><data key="type">memory</data><data key="size">16</data><data key="unit">GB</data></node>
<edge source="c" target="r"><data key="multi_scale">2</data></edge>
<edge source="r" target="n"><data key="multi_scale">2</data><data key="id_scope">1</data></edge>
<edge source="n" target="k"><data key="multi_scale">4</data></edge>
<edge source="n" target="m"/>
</graph></graphml>
"#;

const R: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-2","children":{"core":"0-3"}},
    {"rank":"3","children":{"core":"0-3","gpu":"0-1"}}],"nodelist":["n[10-13]"],
    "properties":{"big":"3"},"starttime":0,"expiration":0}}"#;

const HWLOC: &str = r#"<?xml version="1.0"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology><object type="Machine"><info name="HostName" value="h7"/><object type="Package">
<object type="Core"><object type="PU"/><object type="PU"/></object></object></object></topology>"#;

const TOML: &str = "# a machine\n[[resource.config]]\nhosts = \"n[0-1]\"\ncores = \"0-3\"\n";

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn graph(words: &[&str], path: &Path, more: &[&str]) -> Said {
    let mut args = vec!["graph"];
    args.extend(words);
    args.push(path.to_str().unwrap());
    args.extend(more);
    cli(&args)
}

/// A graph that only JGF can express: two subsystems, tags, foreign keys, states, a pool, an edge of both directions.
fn jgf() -> String {
    json!({"origin": "here", "graph": {
        "label": "l",
        "nodes": [
            {"id": "a", "label": "top", "metadata": {"type": "cluster", "id": 0, "paths": {"containment": "/cluster0"}}},
            {"id": "b", "metadata": {"type": "node", "id": 1, "rank": 0, "status": "degraded",
                "properties": {"ssd": "1"}, "tags": {"t": ["x"]}, "uuid": "u-1", "vendor": {"k": [1]}}},
            {"id": "c", "metadata": {"type": "memory", "id": 0, "rank": 0, "size": 64, "unit": "GB"}},
            {"id": "p", "metadata": {"type": "pdu", "id": 3, "paths": {"power": "/pdu3"}}}],
        "edges": [
            {"source": "a", "target": "b"}, {"source": "b", "target": "c"},
            {"source": "p", "target": "b", "directed": false, "weight": 2,
                "metadata": {"subsystem": "power", "relationship": "supplies", "watts": 5}}]}})
    .to_string()
}

#[test]
fn load_says_what_is_in_a_file_of_any_format() {
    let dir = folder();
    // The names of the files do not name the format.
    for (name, text, format, vertices, edges, ranks) in [
        ("1", GRUG, "grug", 27, 26, 4),
        ("2", R, "r", 23, 22, 4),
        ("3", HWLOC, "hwloc", 6, 5, 1),
        ("4", TOML, "toml", 11, 10, 2),
        ("5", &jgf(), "jgf", 4, 3, 1),
    ] {
        let file = write(dir.path(), name, text);
        let said = graph(&["check"], &file, &["--json"]).json();
        let found = ["format", "vertices", "edges", "ranks"].map(|key| said[0][key].clone());
        assert_eq!(found, [json!(format), json!(vertices), json!(edges), json!(ranks)], "{said}");
        assert!(
            said[0]["seconds"].as_f64().unwrap() >= 0.0 && said[0]["peak_bytes"].as_u64().unwrap() > 1 << 20
        );
        // Also with an explicit format.
        let named = graph(&["check"], &file, &["--json", "--format", format]).json();
        for key in ["format", "vertices", "edges", "types", "subsystems", "notes"] {
            assert_eq!(named[0][key], said[0][key]);
        }
    }
    let said = graph(&["check"], &dir.path().join("5"), &["--json"]).json();
    assert_eq!(
        said[0]["subsystems"][1],
        json!({"name": "power", "vertices": 2, "edges": 1, "root": "/pdu3"})
    );
    assert_eq!(said[0]["notes"], json!(["1 vertex is degraded"]));
    let memory = json!({"type": "memory", "count": 4, "size": 64, "unit": "GB"});
    let said = graph(&["check"], &dir.path().join("1"), &["--json"]).json();
    assert!(said[0]["types"].as_array().unwrap().contains(&memory), "{said}");
    let text = graph(&["check"], &dir.path().join("1"), &[]).ok();
    for words in ["grug, 27 vertices, 26 edges, 4 ranks; checks passed", "containment", "/tiny0", "memory"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn an_r_that_carries_a_graph_is_read_as_either() {
    let dir = folder();
    let mut r: Value = serde_json::from_str(R).unwrap();
    r["scheduling"] = serde_json::from_str(&jgf()).unwrap();
    let file = write(dir.path(), "r", &r.to_string());
    assert_eq!(graph(&["check"], &file, &["--json"]).json()[0]["format"], "jgf");
    assert_eq!(graph(&["check"], &file, &["--json", "-f", "r"]).json()[0]["vertices"], 23);
    // The topology of nodes is read; the `scheduling` of another scheduler is ignored only on request.
    r["scheduling"] = json!({"writer": "TreePool", "children": [{"ranks": "0-3", "topo": {"socket": [
        {"cores": "0-1"}, {"cores": "2-3"}]}}]});
    let file = write(dir.path(), "r", &r.to_string());
    let said = graph(&["check"], &file, &["--json"]).json();
    assert_eq!((&said[0]["format"], &said[0]["vertices"]), (&json!("treepool"), &json!(31)));
    r["scheduling"] = json!({"writer": "other", "any": [1]});
    let file = write(dir.path(), "r", &r.to_string());
    graph(&["check"], &file, &[]).fails(1, &["R: scheduling.writer: writer 'other' found", "TreePool"]);
    assert_eq!(graph(&["check"], &file, &["--json", "-f", "r"]).json()[0]["vertices"], 23);
}

#[test]
fn bad_files_are_told_with_their_place() {
    let dir = folder();
    let twice = jgf().replace("\"source\":\"p\"", "\"source\":\"a\"").replace("supplies", "contains");
    let twice = twice.replace("\"subsystem\":\"power\"", "\"subsystem\":\"containment\"");
    for (text, words) in [
        ("", &["the file is empty"][..]),
        (" \n", &["the file is empty"]),
        ("hello", &["unknown format", "\"hello\" found", "hwloc XML"]),
        ("<html/>", &["unknown format", "<html>"]),
        ("<!-- only", &["unknown format"]),
        ("{\"a\":1}", &["unknown format", "without 'graph' or 'execution'"]),
        ("{\n\"graph\":", &["JSON: line 2"]),
        ("[[resource.config]]\nhosts = 5\n", &["TOML: line 2"]),
        (&GRUG.replace("target=\"m\"", "target=\"x\""), &["GRUG: line 12: edge", "'x'"]),
        (&R.replace("0-2", "0-3"), &["R: "]),
        (&HWLOC.replace("Machine", "Bridge"), &["hwloc: ", "Machine"]),
        (&twice, &["JGF: graph.nodes[", "(id 'b', ", "two parents"]),
    ] {
        let file = write(dir.path(), "bad", text);
        let said = graph(&["check"], &file, &[]);
        assert!(said.err.contains(file.to_str().unwrap()) && said.out.is_empty(), "{said:?}");
        said.fails(1, words);
    }
    std::fs::write(dir.path().join("bytes"), b"{\n\xff").unwrap();
    graph(&["check"], &dir.path().join("bytes"), &[]).fails(1, &["bytes: line 2: not UTF-8"]);
    graph(&["check"], &dir.path().join("none"), &[]).fails(1, &["cannot read", "none"]);
    graph(&["check"], dir.path(), &[]).fails(1, &["cannot read"]);
    graph(&["check"], &write(dir.path(), "g", GRUG), &["-f", "jgf"]).fails(1, &["JGF: line 1"]);
    graph(&["check"], &dir.path().join("g"), &["-f", "dot"]).fails(2, &["'dot'", "hwloc"]);
    cli(&["graph", "check"]).fails(2, &["FILE"]);
    // The valid files among several are still reported.
    let bad = dir.path().join("none");
    let said = graph(&["check"], &dir.path().join("g"), &["--json", bad.to_str().unwrap()]);
    let list: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&list[0]["vertices"], list[1]["error"].is_string()), (&json!(27), true));
    said.fails(1, &["1 of 2 files"]);
}

#[test]
fn real_graphs_load() {
    let Some(grugs) = shared("data/fluxion/grugs") else { return };
    let mut loaded = 0;
    for entry in std::fs::read_dir(grugs).unwrap() {
        let file = entry.unwrap().path();
        let small = file.metadata().unwrap().len() < 20_000;
        if small && file.extension().is_some_and(|ext| ext == "graphml") {
            let said = graph(&["check"], &file, &[]);
            assert!(said.code == 0 || said.err.contains("GRUG: "), "{said:?}");
            loaded += usize::from(said.code == 0);
        }
    }
    assert!(loaded > 0);
}

#[test]
fn show_folds_equal_siblings() {
    let dir = folder();
    let grug = write(dir.path(), "g", GRUG);
    insta::assert_snapshot!(graph(&["show"], &grug, &[]).ok(), @r"
    NAME             TYPE     COUNT  SIZE   STATE  PROPERTIES
    tiny0            cluster      1
      rack[0-1]      rack         2
        node[0-3]    node         4
          core[0-3]  core        16
          memory0    memory       4  16 GB
    ");
    let cut = graph(&["show"], &grug, &["--depth", "1"]).ok();
    assert!(cut.contains("rack[0-1] ...") && !cut.contains("node"), "{cut}");
    let r = write(dir.path(), "r", R);
    insta::assert_snapshot!(graph(&["show"], &r, &[]).ok(), @r"
    NAME           TYPE     COUNT  SIZE  STATE  PROPERTIES
    cluster0       cluster      1
      n[10-12]     node         3
        core[0-3]  core        12
      n13          node         1               big
        core[0-3]  core         4
        gpu[0-1]   gpu          2
    ");
    let jgf = write(dir.path(), "j", &jgf());
    insta::assert_snapshot!(graph(&["show"], &jgf, &["--subsystem", "power"]).ok(), @r"
    NAME     TYPE  COUNT  SIZE  STATE     PROPERTIES
    pdu3     pdu       1
      node1  node      1        degraded  ssd=1
    ");
    let said = graph(&["show"], &grug, &["--json"]).json();
    let node = &said["groups"][0]["below"][0]["below"][0];
    assert_eq!((&node["count"], &node["each"], &said["complete"]), (&json!(4), &json!(2), &json!(true)));
    let words = ["no subsystem 'network'", "containment, power"];
    graph(&["show"], &jgf, &["--subsystem", "network"]).fails(2, &words);
    graph(&["find"], &jgf, &["type=node", "--subsystem", "network"]).fails(2, &words);
}

#[test]
fn show_draws_a_small_picture_that_stands_alone() {
    let dir = folder();
    let grug = write(dir.path(), "g", &GRUG.replace("tiny", "a&lt;b"));
    let out = dir.path().join("g.svg");
    let out = out.to_str().unwrap();
    graph(&["show"], &grug, &["--svg", out]).ok();
    let picture = std::fs::read_to_string(out).unwrap();
    assert_eq!((picture.matches("<rect ").count(), picture.matches("</text>").count()), (5, 5), "{picture}");
    for label in [">a&lt;b0<", ">rack[0-1] ×2<", ">core[0-3] ×16<", ">memory0 ×4, 16 GB<"] {
        assert!(picture.contains(label), "{label}: {picture}");
    }
    graph(&["show"], &grug, &["--svg", out]).fails(1, &["g.svg exists", "--force"]);
    graph(&["show"], &grug, &["--svg", out, "--force", "--depth", "0"]).ok();
    assert_eq!(std::fs::read_to_string(out).unwrap().matches("<rect ").count(), 1);
    // Boxes that all differ: the picture is bounded, with a note.
    let entry = |i| format!("[[resource.config]]\nhosts = \"n{i}\"\ncores = \"0-{i}\"\n");
    let many: String = (1..601).map(entry).collect();
    graph(&["show"], &write(dir.path(), "m", &many), &["--svg", out, "--force"]).ok();
    let picture = std::fs::read_to_string(out).unwrap();
    assert_eq!(picture.matches("<rect ").count(), 501);
    assert!(picture.contains(">... and 351 more<"), "{}", &picture[picture.len() - 300..]);
}

#[test]
fn find_gives_what_an_expression_is_true_of() {
    let dir = folder();
    let grug = write(dir.path(), "g", GRUG);
    let found = graph(&["find"], &grug, &["(type=rack and id=1) or names=node[2-3]"]).ok();
    assert_eq!(found, "/tiny0/rack1\n/tiny0/rack1/node2\n/tiny0/rack1/node3\n");
    assert_eq!(graph(&["find"], &grug, &["type=gpu"]).ok(), "");
    let jgf = write(dir.path(), "j", &jgf());
    let said = graph(&["find"], &jgf, &["property=ssd", "--json"]).json();
    let node = json!([{"path": "/cluster0/node1", "type": "node", "name": "node1", "id": 1, "rank": 0, "size": 1,
        "unit": "", "state": "degraded", "properties": {"ssd": "1"}}]);
    assert_eq!(said, node);
    let found = graph(&["find"], &jgf, &["type=pdu or tag=t", "-s", "power"]).ok();
    assert_eq!(found, "/pdu3/node1\n/pdu3\n");
    for (query, words) in [
        ("", "column 1: invalid criteria: a term is missing"),
        ("type=node and", "column 14: invalid criteria: a term is missing"),
        ("(type=node", "column 11: invalid criteria: a ')' is missing"),
        ("type=node)", "column 10: invalid criteria: ')' found after the end"),
        ("type=node  type", "column 12: invalid criteria: 'type' found; key=value is needed"),
        ("größe=1 or colour=red", "column 1: invalid criteria: there is no key 'größe'"),
        ("not (not id=x)", "\n           ^"),
        ("sched-now=maybe", "sched-now is allocated or free, not 'maybe'"),
    ] {
        let said = graph(&["find"], &grug, &[query]);
        assert_eq!(said.out, "");
        said.fails(2, &["invalid criteria", words]);
    }
    let query = "sched-now=free and type=node and not property=ssd";
    assert_eq!(graph(&["find"], &grug, &[query]).ok().lines().count(), 4);
    let query = "sched-now=free and type=node and property=ssd";
    assert_eq!(graph(&["find"], &jgf, &[query]).ok(), "/cluster0/node1\n");
}

#[test]
fn convert_writes_jgf_without_loss_and_nothing_else() {
    let dir = folder();
    let [one, two] = ["one.json", "two.json"].map(|name| dir.path().join(name));
    let json = |path: &Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    for text in [GRUG, R, HWLOC, TOML, &jgf()] {
        let file = write(dir.path(), "in", text);
        graph(&["convert"], &file, &[one.to_str().unwrap(), "--force"]).ok();
        graph(&["convert"], &one, &[two.to_str().unwrap(), "--force"]).ok();
        assert_eq!(json(&one), json(&two));
        let shown = |path: &Path| graph(&["show"], path, &["--json"]).json();
        assert_eq!(shown(&file), shown(&two));
    }
    // All data that only JGF can express is kept.
    let kept = json(&two);
    let node = &kept["graph"]["nodes"][1];
    assert_eq!((&kept["origin"], &kept["graph"]["label"]), (&json!("here"), &json!("l")));
    assert_eq!(node["metadata"]["vendor"], json!({"k": [1]}));
    assert_eq!((&node["metadata"]["status"], &node["metadata"]["uuid"]), (&json!("degraded"), &json!("u-1")));
    let edge = &kept["graph"]["edges"][2];
    assert_eq!(
        (&edge["directed"], &edge["weight"], &edge["metadata"]["watts"]),
        (&json!(false), &json!(2), &json!(5))
    );

    let file = write(dir.path(), "in", GRUG);
    graph(&["convert"], &file, &[two.to_str().unwrap()]).fails(1, &["two.json exists", "--force"]);
    assert_eq!(json(&two), kept);
    let bad = write(dir.path(), "bad", "{");
    graph(&["convert"], &bad, &[two.to_str().unwrap(), "--force"]).fails(1, &["bad: JSON: line 1"]);
    assert_eq!(json(&two), kept);
    graph(&["convert"], &bad, &[dir.path().join("new").to_str().unwrap()]).fails(1, &["bad: JSON"]);
    graph(&["convert"], &file, &[dir.path().join("no/x").to_str().unwrap()]).fails(1, &["cannot write"]);
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["bad", "in", "one.json", "two.json"]);
}
