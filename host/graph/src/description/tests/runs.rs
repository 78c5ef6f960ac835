//! Descriptions: runs of equal vertices, and their expansion.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::Graph;
use crate::description::read::jgf;
use crate::description::{Description, Model};

fn described(text: &Value) -> Description {
    jgf::read(&text.to_string()).unwrap()
}

/// A cluster of one node with cores of these ids, and `more` in the metadata of each of them.
fn cores(ids: &[i64], more: &Value) -> Value {
    let mut nodes = vec![
        json!({"id": "0", "metadata": {"type": "cluster", "paths": {"containment": "/cluster0"}}}),
        json!({"id": "1", "metadata": {"type": "node", "id": 7, "rank": 3, "paths": {"containment": "/cluster0/node7"}}}),
    ];
    let mut edges = vec![json!({"source": "0", "target": "1"})];
    for (at, id) in ids.iter().enumerate() {
        let mut data = json!({"type": "core", "id": id, "rank": 3,
            "paths": {"containment": format!("/cluster0/node7/core{id}")}});
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        nodes.push(json!({"id": (at + 2).to_string(), "metadata": data}));
        edges.push(json!({"source": "1", "target": (at + 2).to_string()}));
    }
    json!({"graph": {"nodes": nodes, "edges": edges}})
}

#[test]
fn a_run_of_equal_children_is_one_entry() {
    let all: Vec<i64> = (0..96).collect();
    let one = described(&cores(&all, &json!({})));
    let counts = |it: &Description| it.runs().iter().map(|run| run.count).collect::<Vec<_>>();
    assert_eq!((counts(&one), one.links().len()), (vec![1, 1, 96], 2));
    assert_eq!(one.name(&one.runs()[2], 95), "core95");
    assert_eq!(one.path(&one.runs()[2], 95).unwrap(), "/cluster0/node7/core95");
    assert_eq!(one.file_id(&one.runs()[2], 95), "97");
    // Equal keys without a meaning do not divide a run; a gap in the ids does, and what only one of them has.
    assert_eq!(counts(&described(&cores(&all, &json!({"exclusive": false})))), [1, 1, 96]);
    assert_eq!(counts(&described(&cores(&[0, 1, 2, 8, 9], &json!({})))), [1, 1, 3, 2]);
    let mut text = cores(&all, &json!({}));
    text["graph"]["nodes"][12]["metadata"]["paths"]["containment"] = json!("/elsewhere");
    assert_eq!(counts(&described(&text)), [1, 1, 10, 1, 85]);
    // An edge to a part of a run divides it.
    let mut text = cores(&all, &json!({}));
    text["graph"]["edges"]
        .as_array_mut()
        .unwrap()
        .push(json!({"source": "0", "target": "12", "metadata": {"subsystem": "power"}}));
    assert_eq!(counts(&described(&text)), [1, 1, 10, 1, 85]);
}

#[test]
fn edges_may_stand_before_vertices_and_in_several_subsystems() {
    let text = r#"{"graph": {"edges": [
        {"source": "a", "target": "\u0062", "metadata": {"name": {"containment": "contains", "power": "feeds"}}},
        {"source": "b", "target": "a", "metadata": {"name": {"containment": "in"}}}],
        "nodes": [{"id": "a", "metadata": {"type": "x", "id": 0}}, {"id": "b", "metadata": {"type": "y", "id": 0}}]}}"#;
    let model = Model::from_jgf(text).unwrap();
    let names: Vec<&str> = model.subsystems().iter().map(|name| model.text(*name)).collect();
    assert_eq!((model.edge_count(), names), (2, vec!["containment", "power"]));
    let alone = text.replace(r#""containment": "contains", "#, "");
    let error = Model::from_jgf(&alone).unwrap_err().to_string();
    assert!(error.starts_with("JGF: graph.edges[1]: an edge 'in' found without"), "{error}");
}

#[test]
fn faults_of_the_form_have_line_and_item() {
    let text = "{\n \"graph\": {\"nodes\": [\n  {\"id\": \"0\", \"metadata\": {\"type\": \"x\", \"size\": \"2\"}}]}}";
    let error = Model::from_jgf(text).unwrap_err();
    assert_eq!(error.place, "line 3 column 51, graph.nodes[0]", "{error}");
    for (from, to, words) in [
        ("\"nodes\"", "\"knots\"", "graph.nodes: nothing found"),
        ("\"2\"", "-1", "graph.nodes[0] (id '0').metadata.size: -1 found"),
        (
            "\"size\": \"2\"",
            "\"properties\": {\"a\": 1}",
            "graph.nodes[0] (id '0').metadata.properties.a: no text found",
        ),
        ("\"size\": \"2\"", "\"tags\": 1", "graph.nodes[0] (id '0').metadata.tags: "),
        ("\"id\": \"0\"", "\"id\": 0", "line 3 column 10, graph.nodes[0]: invalid type"),
        (
            "{\"id\": \"0\", \"metadata\": {\"type\": \"x\", \"size\": \"2\"}",
            "{\"metadata\": {\"type\": \"x\"}",
            "graph.nodes[0].id: no text found",
        ),
    ] {
        let error = Model::from_jgf(&text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}\nis not {words}");
    }
}

#[test]
fn a_short_text_about_many_cores_is_a_short_description_and_no_model() {
    let text = json!({"version": 1, "execution": {"R_lite": [{"rank": "0-99", "children": {"core": "0-999999"}}],
        "nodelist": ["n[0-99]"], "starttime": 0, "expiration": 0}});
    let described = Description::load(&text.to_string(), None).unwrap();
    assert_eq!((described.vertex_count(), described.runs().len()), (100_000_101, 201));
    let error = Model::of(&described).unwrap_err().to_string();
    assert_eq!(error, "R: execution: more than 16777216 vertices or edges");
    assert!(Graph::compile(&described).is_ok());
    // A layout has runs of cores and gpus only.
    let sockets = text.to_string().replace(r#""core":""#, r#""core":"0","socket":""#);
    let error = Graph::compile(&Description::load(&sockets, None).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "R: execution: more than 16000000 vertices");
}

#[test]
fn numbers_at_the_end_of_their_range_are_read() {
    let (file, last) = (u64::MAX.to_string(), i64::MAX);
    let text = json!({"graph": {"nodes": [
        {"id": file, "metadata": {"type": "cluster", "id": last, "uniq_id": last, "paths": {"containment": "/c"}}},
        {"id": "5", "metadata": {"type": "node", "id": last - 1, "uniq_id": last - 1, "paths": {"containment": "/c/n"}}},
        {"id": "6", "metadata": {"type": "node", "id": last, "uniq_id": last, "paths": {"containment": "/c/m"}}}],
        "edges": [{"source": file, "target": "5"}, {"source": file, "target": "6"}]}});
    let description = described(&text);
    assert_eq!((description.vertex_count(), description.links().len()), (3, 1));
    assert_eq!(Model::of(&description).unwrap().vertex_count(), 3);
    assert!(Graph::compile(&description).is_ok());
}

#[test]
fn a_recipe_and_a_graph_of_one_machine_are_the_same_layout() {
    use crate::Graph;
    let recipe = r#"<graphml><graph id="g" edgedefault="directed">
        <node id="c"><data key="root">1</data><data key="type">cluster</data></node>
        <node id="n"><data key="type">node</data></node><node id="x"><data key="type">core</data></node>
        <edge source="c" target="n"><data key="multi_scale">3</data></edge>
        <edge source="n" target="x"><data key="multi_scale">8</data></edge></graph></graphml>"#;
    let described = Description::load(recipe, None).unwrap();
    assert_eq!((described.vertex_count(), described.runs().len()), (28, 7));
    let written = Model::of(&described).unwrap().to_jgf().to_string();
    for text in [recipe, &written] {
        let machine = Graph::compile(&Description::load(text, None).unwrap()).unwrap();
        assert_eq!((machine.node_count(), machine.vertex_count()), (3, 7), "{text}");
    }
}

proptest! {
    /// Whatever becomes a run, the model has the vertices of the file one by one.
    #[test]
    fn the_expansion_has_every_vertex_of_the_file_in_its_order(
        vertices in prop::collection::vec((0usize..40, 0i64..4, 0u8..3, any::<bool>()), 1..40)
    ) {
        let mut nodes = vec![json!({"id": "0", "metadata": {"type": "t0", "id": 0, "rank": -1, "name": "t00", "uniq_id": 0,
            "paths": {"containment": "/t00"}}})];
        let mut edges = Vec::new();
        let mut paths = vec!["/t00".to_owned()];
        for (at, (above, id, type_, odd)) in vertices.into_iter().enumerate() {
            // Mostly the vertex above the last one, and the next id.
            let above = if above < 30 && at > 0 { 0 } else { above % paths.len() };
            let id = if id > 0 { at as i64 } else { id };
            let file = at + 1;
            let name = format!("t{type_}{id}");
            let path = if odd && at % 7 == 0 { format!("/t00/odd{at}") } else { format!("{}/{name}", paths[above]) };
            nodes.push(json!({"id": file.to_string(), "metadata": {"type": format!("t{type_}"), "id": id, "name": name,
                "uniq_id": file, "rank": -1, "paths": {"containment": path}}}));
            edges.push(json!({"source": above.to_string(), "target": file.to_string()}));
            paths.push(path);
        }
        let text = json!({"graph": {"nodes": nodes, "edges": edges}});
        let saved = Model::from_jgf(&text.to_string()).unwrap().to_jgf();
        prop_assert_eq!(saved, text);
    }
}
