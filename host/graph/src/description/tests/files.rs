//! Readers and the writer of whole models.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{at, machine};
use crate::description::{Direction, Model, Pool, Relation};

/// The text of a file of `shared/`; `None`, counted as skipped, where the folder is missing.
pub(crate) fn shared(what: &str) -> Option<String> {
    let path = fluxgate_testing::shared(&format!("data/fluxion/{what}"))?;
    Some(std::fs::read_to_string(path).unwrap())
}

#[test]
fn m4_29_saved_and_loaded_again_a_model_is_the_same() {
    let mut model = machine(2, 2, 2);
    let pdu = model.add(Pool::new("pdu", 0)).unwrap();
    let node = at(&model, "/cluster0/rack1/node2");
    model.connect(pdu, node, &Relation::of("power", "supplies_to", "draws_from")).unwrap();
    let mut both = Relation::of("net", "linked", "");
    both.direction = Direction::Both;
    let other = at(&model, "/cluster0/rack0/node0");
    model.set_root("net", node).unwrap();
    model.connect(node, other, &both).unwrap();
    model.finish().unwrap();
    let saved = model.to_jgf();
    let again = Model::from_jgf(&saved.to_string()).unwrap();
    assert_eq!(again.to_jgf(), saved);
    assert_eq!(again.edges.len(), model.edges.len());
    for (a, b) in again.edges.iter().zip(&model.edges) {
        let text = |m: &Model, e: &crate::description::Edge| {
            [e.subsystem, e.type_, e.opposite].map(|n| m.text(n).to_owned())
        };
        assert_eq!(
            (a.from, a.to, a.direction, text(&again, a)),
            (b.from, b.to, b.direction, text(&model, b))
        );
    }
}

#[test]
fn m4_29_unknown_keys_are_kept() {
    let text = json!({
        "writer": "somebody",
        "graph": {
            "label": "mine",
            "nodes": [
                {"id": "0", "label": "x", "metadata": {"type": "cluster", "colour": "blue"}},
                {"id": "1", "metadata": {"type": "flywheel", "spin": {"rpm": 900}, "paths": {"containment": "/odd/one"}}}
            ],
            "edges": [{"source": "0", "target": "1", "weight": 3, "metadata": {"length": [1, "m"]}}]
        }
    });
    let saved = Model::from_jgf(&text.to_string()).unwrap().to_jgf();
    for place in [
        "/writer",
        "/graph/label",
        "/graph/nodes/0/label",
        "/graph/nodes/0/metadata/colour",
        "/graph/nodes/1/metadata/spin",
        "/graph/nodes/1/metadata/paths/containment",
        "/graph/edges/0/weight",
        "/graph/edges/0/metadata/length",
    ] {
        assert_eq!(saved.pointer(place), text.pointer(place), "{place}");
    }
    assert_eq!(Model::from_jgf(&saved.to_string()).unwrap().to_jgf(), saved);
}

#[test]
fn jgf_errors_say_where() {
    let graph = |nodes: Value, edges: Value| json!({"graph": {"nodes": nodes, "edges": edges}}).to_string();
    let node = |id: &str, data: Value| json!({"id": id, "metadata": data});
    let t = |id: &str| node(id, json!({"type": "t"}));
    for (text, place, what) in [
        ("{".to_owned(), "line 1 column 1", "EOF"),
        ("{}".to_owned(), "text", "'graph'"),
        (graph(json!([t("0"), t("0")]), json!([])), "graph.nodes[1] (id '0')", "another vertex has this id"),
        (
            graph(json!([node("0", json!({"type": "t", "size": 0}))]), json!([])),
            "graph.nodes[0] (id '0').metadata.size",
            "0 found",
        ),
        (
            graph(json!([node("0", json!({"type": "t", "size": -3}))]), json!([])),
            "graph.nodes[0] (id '0').metadata.size",
            "-3",
        ),
        (
            graph(json!([node("a", json!({"type": "t"}))]), json!([])),
            "graph.nodes[0] (id 'a').metadata.id",
            "no number",
        ),
        (
            graph(json!([node("0", json!({"type": ""}))]), json!([])),
            "graph.nodes[0] (id '0').metadata.type",
            "no text found",
        ),
        (
            graph(json!([node("0", json!({"type": "t", "status": 7}))]), json!([])),
            "graph.nodes[0] (id '0').metadata.status",
            "7",
        ),
        (graph(json!([t("0")]), json!([{"source": "0", "target": "9"}])), "graph.edges[0].target", "'9'"),
        (
            graph(
                json!([t("0"), t("1"), t("2")]),
                json!([{"source": "0", "target": "2"}, {"source": "1", "target": "2"}]),
            ),
            "graph.nodes[1] (id '1', t)",
            "root",
        ),
        (
            graph(
                json!([
                    node("0", json!({"type": "t", "uuid": "u"})),
                    node("1", json!({"type": "t", "uuid": "u"}))
                ]),
                json!([]),
            ),
            "graph.nodes[1] (id '1')",
            "uuid",
        ),
        (
            graph(
                json!([t("0"), t("1")]),
                json!([{"source": "0", "target": "1"}, {"source": "1", "target": "0"}]),
            ),
            "graph.nodes[0] (id '0', t)",
            "contains itself",
        ),
    ] {
        let error = Model::from_jgf(&text).unwrap_err();
        assert!(error.place.starts_with(place) && error.what.contains(what), "{text}: {error}");
    }
}

const RECIPE: &str = r#"<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="k0" for="node" attr.name="root" attr.type="int"><default>0</default></key>
  <key id="size" for="node" attr.name="size" attr.type="long"><default>1</default></key>
  <graph id="g" edgedefault="directed">
    <node id="cluster"><data key="k0">1</data><data key="type">cluster</data><data key="basename">c</data></node>
    <node id="rack"><data key="type">rack</data></node>
    <node id="node"><data key="type">node</data></node>
    <node id="core"><data key="type">core</data></node>
    <node id="panel"><data key="k0">1</data><data key="type">panel</data><data key="subsystem">power</data></node>
    <node id="rack2"><data key="type">rack</data><data key="subsystem">power</data></node>
    <node id="node2"><data key="type">node</data><data key="subsystem">power</data></node>
    <node id="watts"><data key="type">power</data><data key="size">500</data><data key="unit">W</data></node>
    <edge source="cluster" target="rack"><data key="multi_scale">2</data></edge>
    <edge source="rack" target="node"><data key="multi_scale">2</data><data key="id_scope">1</data></edge>
    <edge source="node" target="core"><data key="multi_scale">3</data><data key="id_start">1</data></edge>
    <edge source="panel" target="rack2"><data key="gen_method">ASSOCIATE_IN</data>
      <data key="e_subsystem">power</data><data key="relation">supplies_to</data></edge>
    <edge source="rack2" target="node2"><data key="gen_method">ASSOCIATE_BY_PATH_IN</data>
      <data key="as_tgt_uplvl">1</data><data key="as_src_uplvl">0</data>
      <data key="e_subsystem">power</data><data key="relation">supplies_to</data></edge>
    <edge source="panel" target="watts"><data key="e_subsystem">power</data></edge>
  </graph>
</graphml>"#;

#[test]
fn a_recipe_makes_a_machine_with_two_subsystems() {
    let model = Model::from_grug(RECIPE).unwrap();
    // The cluster, 2 racks, 4 nodes, 12 cores, the panel and its watts.
    assert_eq!(model.vertices().count(), 1 + 2 + 4 + 12 + 1 + 1);
    let node = at(&model, "/c0/rack1/node3");
    assert_eq!(at(&model, "/panel0/rack1/node3"), node, "found under its own rack, by path");
    assert!(model.at_path("/panel0/rack0/node3").is_empty());
    assert_eq!(model.vertex(node).unwrap().rank(), Some(3));
    assert_eq!(model.at_path("/c0/rack0/node0/core3").len(), 1, "ids start at 1");
    let watts = model.vertex(at(&model, "/panel0/power0")).unwrap();
    assert_eq!((watts.size(), model.text(watts.unit())), (500, "W"));
    let saved = model.to_jgf();
    assert_eq!(Model::from_jgf(&saved.to_string()).unwrap().to_jgf(), saved);
}

#[test]
fn a_second_association_in_containment_is_a_link() {
    let again = "<node id=\"again\"><data key=\"type\">rack</data></node>\
        <edge source=\"panel\" target=\"again\"><data key=\"gen_method\">ASSOCIATE_IN</data></edge>\
        <edge source=\"cluster\" target=\"panel\"/></graph>";
    let text =
        RECIPE.replace("<data key=\"k0\">1</data><data key=\"type\">panel", "<data key=\"type\">panel");
    let model = Model::from_grug(&text.replace("</graph>", again)).unwrap();
    let (rack, containment) = (at(&model, "/c0/rack1"), model.name("containment").unwrap());
    let types: Vec<&str> = model
        .in_edges(rack)
        .map(|e| model.edge(e).unwrap())
        .filter(|e| e.subsystem == containment)
        .map(|e| model.text(e.type_))
        .collect();
    assert_eq!(types, ["contains", "linked_to"]);
    assert_eq!(at(&model, "/c0/panel0/rack1"), rack, "found on both ways");
}

#[test]
fn recipe_errors_say_where() {
    let with = |from: &str, to: &str| RECIPE.replacen(from, to, 1);
    for (text, place, what) in [
        (with("</graphml>", ""), "line", ""),
        (with("<?xml version=\"1.0\"?>", "<!DOCTYPE x [<!ENTITY a \"b\">]>"), "line 1", "DTD"),
        ("<hwloc/>".to_owned(), "line 1", "graphml"),
        (
            with(">1</data><data key=\"type\">cluster", ">x</data><data key=\"type\">cluster"),
            "line 6: node 'cluster'",
            "root 'x'",
        ),
        (with("500", "0"), "line 13: node 'watts'", "size '0'"),
        (with("500", "-7"), "line 13: node 'watts'", "size '-7'"),
        (with("ASSOCIATE_IN", "CONJURE"), "line 17: edge", "CONJURE"),
        (with("target=\"core\"", "target=\"gore\""), "line 16: edge", "'gore'"),
        (with("<node id=\"rack\">", "<node id=\"cluster\">"), "line 7: node 'cluster'", "used before"),
        (with(">3<", ">99999999<"), "line 16: edge", "more than"),
        (with("<data key=\"type\">node</data>", ""), "line 8: node 'node'", "type"),
        (RECIPE.replace("<data key=\"k0\">1</data>", ""), "graph", "root"),
    ] {
        let error = Model::from_grug(&text).unwrap_err();
        assert!(error.place.starts_with(place) && error.what.contains(what), "{error}");
    }
}

#[test]
fn real_recipes_and_graphs_load_and_survive_saving() {
    for (file, vertices) in [
        ("grugs/tiny.graphml", 100),
        ("grugs/small.graphml", 0),
        ("grugs/medium.graphml", 0),
        ("grugs/power.graphml", 0),
        ("grugs/coarse_iobw.graphml", 0),
        ("jgfs/tiny.json", 100),
    ] {
        let Some(text) = shared(file) else { return };
        let model = match file.ends_with("json") {
            true => Model::from_jgf(&text),
            false => Model::from_grug(&text),
        };
        let model = model.unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(vertices == 0 || model.vertex_count() == vertices, "{file}: {}", model.vertex_count());
        let saved = model.to_jgf();
        assert_eq!(Model::from_jgf(&saved.to_string()).unwrap().to_jgf(), saved, "{file}");
    }
}

proptest! {
    /// Damaged files are refused or read, without a panic.
    #[test]
    fn damaged_files_do_no_harm(
        which in 0..3usize,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..6usize, "[<>/\"{}\\[\\]:,a-z0-9=&; -]"), 1..6),
    ) {
        let jgf = machine(1, 1, 1).to_jgf().to_string();
        let mut text = [RECIPE, super::hwloc::V2, &jgf][which].to_owned();
        for (at, long, put) in cuts {
            let at = at.index(text.len());
            // Never longer: a recipe with larger numbers describes a larger machine.
            let end = (at + long.max(1)).min(text.len());
            text.replace_range(at..end, &put);
        }
        let read = match which {
            0 => Model::from_grug(&text),
            1 => Model::from_hwloc(&text, None),
            _ => Model::from_jgf(&text),
        };
        match read {
            Err(error) => prop_assert!(!error.place.is_empty() && !error.what.is_empty()),
            Ok(model) => prop_assert_eq!(model.check(), Ok(())),
        }
    }
}
