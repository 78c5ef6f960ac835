//! R with a `scheduling`: graphs, their shorthand, and the topology of nodes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::at;
use crate::description::{Model, Source};

fn r(scheduling: Value) -> String {
    json!({"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-3", "gpu": "0-1"}}],
        "nodelist": ["n[0-1]"], "starttime": 0, "expiration": 0}, "scheduling": scheduling})
    .to_string()
}

fn topology(children: &Value) -> String {
    r(json!({"writer": "TreePool", "children": children}))
}

fn two_sockets() -> Value {
    json!({"storage": [{"path": "/mnt/nvme", "capacity": 2, "unit": "TiB"}], "socket": [
        {"numa": [{"cores": "0-1", "gpus": "0", "memory": 16}]},
        {"numa": [{"cores": "2-3", "gpus": "1", "memory": 16}]}, {"numa": [{"cores": "4-5"}]}]})
}

/// The paths below a node, with sizes and units.
fn inside(model: &Model, node: &str) -> Vec<String> {
    let containment = model.name("containment").unwrap();
    let below = model.subtree(at(model, node), containment).into_iter().skip(1);
    let text = |v| {
        let it = model.vertex(v).unwrap();
        let size =
            if it.size() > 1 { format!(" {}{}", it.size(), model.text(it.unit())) } else { String::new() };
        format!("{}{size}", model.path(v, containment).unwrap().strip_prefix(node).unwrap())
    };
    below.map(text).collect()
}

#[test]
fn r49_topology_says_where_cores_and_gpus_are() {
    let text = topology(&json!([{"ranks": "1-7", "topo": two_sockets()}]));
    assert_eq!(Source::detect(&text), Ok(Source::TreePool));
    let model = Model::load(&text, None).unwrap();
    // The first node has no topology. On the second, resources that R lacks are left out.
    assert_eq!(inside(&model, "/cluster0/n0").len(), 6);
    let mut found = inside(&model, "/cluster0/n1");
    found.sort();
    let expected = "/socket0 /socket0/numa0 /socket0/numa0/core0 /socket0/numa0/core1 /socket0/numa0/gpu0 \
                    /socket0/numa0/memory0:16GiB /socket1 /socket1/numa1 /socket1/numa1/core2 \
                    /socket1/numa1/core3 /socket1/numa1/gpu1 /socket1/numa1/memory1:16GiB /storage0:2TiB";
    assert_eq!(found.iter().map(|f| f.replace(' ', ":")).collect::<Vec<_>>().join(" "), expected);
    let storage = at(&model, "/cluster0/n1/storage0");
    assert_eq!(model.property(storage, "path"), Some("/mnt/nvme"));
    assert_eq!(model.vertex(storage).unwrap().rank(), Some(1));
    // A capacity with a fraction is converted to a smaller unit; sites may name other localities.
    let topo = json!({"storage": [{"path": "x", "capacity": 1.5}], "tile": [{"cores": "0"}]});
    let model = Model::load(&topology(&json!([{"ranks": "0", "topo": topo}])), None).unwrap();
    let found = inside(&model, "/cluster0/n0").join(" ");
    assert!(found.contains("/storage0 1536MiB") && found.contains("/tile0/core0"), "{found}");
    assert!(found.contains(" /core1 "), "what has no place is in the node: {found}");
}

#[test]
fn r49_a_wrong_topology_is_refused_with_its_place() {
    for (topo, place, what) in [
        (json!(3), "topo", "3 found; a dictionary is accepted"),
        (json!({"cores": "0-x"}), "topo.cores", "x"),
        (json!({"cores": [0]}), "topo.cores", "an idset in a text"),
        (json!({"cores": "0-2147483647"}), "topo.cores", "ids found; at most"),
        (json!({"memory": 0}), "topo.memory", "size 0"),
        (json!({"memory": -4}), "topo.memory", "-4 found; a number of GiB"),
        (json!({"socket": {}}), "topo.socket", "an array is accepted"),
        (json!({"socket": [1]}), "topo.socket[0]", "a dictionary is accepted"),
        (
            json!({"socket": [{"cores": "0"}, {"cores": "0"}]}),
            "topo.socket[1].cores",
            "core 0 is in two places",
        ),
        (json!({"storage": [{"capacity": 1}]}), "topo.storage[0].path", "a text is accepted"),
        (json!({"storage": [{"path": "x"}]}), "topo.storage[0].capacity", "1 or more"),
        (json!({"storage": [{"path": "x", "capacity": 1, "unit": "parsec"}]}), "topo.storage[0].unit", "GiB"),
    ] {
        let text = topology(&json!([{"ranks": "0", "topo": topo}]));
        let error = Model::load(&text, None).unwrap_err();
        let expected = format!("scheduling.children[0].{place}");
        assert!(error.place == expected && error.what.contains(what), "{topo}: {error}");
    }
    let topo = json!({"cores": "0"});
    for (children, words) in [
        (json!({}), "scheduling.children: {} found; an array is accepted"),
        (
            json!([{"ranks": "0", "topo": topo}, {"ranks": "0-1", "topo": topo}]),
            "rank 0 has a topology already",
        ),
        (json!([{"ranks": 0, "topo": topo}]), "scheduling.children[0].ranks: 0 found"),
        (json!([{"ranks": "0", "topo": topo, "more": 1}]), "key 'more' found"),
    ] {
        let error = Model::load(&topology(&children), None).unwrap_err().to_string();
        assert!(error.contains(words), "{children}: {error}");
    }
    // The deepest nesting of a text.
    let mut deep = json!({"cores": "0"});
    for _ in 0..100 {
        deep = json!({"box": [deep]});
    }
    assert!(Model::load(&topology(&json!([{"ranks": "0", "topo": deep}])), None).is_err());
}

fn graph(node: &Value) -> Value {
    json!({"nodes": [{"id": "0", "metadata": {"type": "cluster", "paths": {"containment": "/cluster0"}}}, node],
        "edges": [{"source": "0", "target": "7"}]})
}

#[test]
fn r40_the_shorthand_is_made_whole_by_the_r_around_it() {
    let node = json!({"id": "7", "metadata": {"type": "node", "basename": "n", "name": "n0", "rank": 0, "exclusive": true,
        "paths": {"containment": "/cluster0/n0"}}});
    let scheduling = json!({"writer": "fluxion:jgf_shorthand", "graph": graph(&node)});
    let text = r(scheduling.clone());
    assert_eq!(Source::detect(&text), Ok(Source::Jgf));
    let model = Model::load(&text, None).unwrap();
    assert_eq!(inside(&model, "/cluster0/n0"), ["/core0", "/core1", "/core2", "/core3", "/gpu0", "/gpu1"]);
    // The same for other execution targets.
    let storage = text.replace("\"type\":\"node\"", "\"type\":\"storage_node\"");
    assert_eq!(inside(&Model::load(&storage, None).unwrap(), "/cluster0/n0").len(), 6, "{storage}");
    let saved = model.to_jgf();
    assert_eq!(saved["writer"], "fluxion:jgf", "nothing is left out any more");
    assert_eq!(Model::from_jgf(&saved.to_string()).unwrap().to_jgf(), saved);
    // A graph written in full gets no additions, and a graph without R has no source for them.
    let full = text.replace("fluxion:jgf_shorthand", "fluxion:jgf");
    assert_eq!(Model::load(&full, None).unwrap().vertex_count(), 2);
    assert_eq!(Model::load(&scheduling.to_string(), None).unwrap().vertex_count(), 2);
}

#[test]
fn r40_1_the_writer_says_how_to_read_and_an_unknown_one_is_refused() {
    let node = json!({"id": "7", "metadata": {"type": "node", "rank": 0}});
    for (scheduling, source) in [
        (json!({"graph": graph(&node)}), Ok(Source::Jgf)),
        (json!({"writer": "fluxion", "graph": graph(&node)}), Ok(Source::Jgf)),
        (json!({"writer": "fluxion:jgf", "graph": graph(&node)}), Ok(Source::Jgf)),
        (json!({"writer": "TreePool"}), Ok(Source::TreePool)),
        (json!(null), Ok(Source::R)),
        (json!({}), Ok(Source::R)),
        (json!({"writer": "mine:v2", "graph": 1}), Err("writer 'mine:v2' found")),
        (json!({"writer": 3}), Err("writer '3' found")),
    ] {
        let found = Source::detect(&r(scheduling.clone()));
        match (found, source) {
            (Ok(found), Ok(source)) => assert_eq!(found, source, "{scheduling}"),
            (Err(error), Err(words)) => {
                assert_eq!(error.place, "scheduling.writer");
                assert!(error.what.contains(words) && error.what.contains("TreePool"), "{error}");
            }
            (found, _) => panic!("{scheduling}: {found:?}"),
        }
        assert_eq!(Model::load(&r(scheduling), Some(Source::R)).map(|m| m.vertex_count()).ok(), Some(15));
    }
    // The writer is one of graphs, but the graph is missing.
    let error = Model::load(&r(json!({"writer": "fluxion:jgf"})), None).unwrap_err();
    assert!(error.what.contains("graph"), "{error}");
}

proptest! {
    #[test]
    fn whatever_the_topology_every_core_of_r_is_there_once(
        groups in prop::collection::vec(prop::collection::vec(0u32..6, 0..4), 0..4)
    ) {
        let socket: Vec<Value> = groups
            .iter()
            .map(|ids| json!({"cores": ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")}))
            .collect();
        let text = topology(&json!([{"ranks": "0", "topo": {"socket": socket}}]));
        if let Ok(model) = Model::load(&text, None) {
            let all = inside(&model, "/cluster0/n0");
            let mut cores: Vec<&str> = all.iter().filter_map(|p| p.split_once("core").map(|p| p.1)).collect();
            cores.sort_unstable();
            prop_assert_eq!(cores, ["0", "1", "2", "3"]);
        }
    }
}

proptest! {
    #[test]
    fn r_read_and_written_is_the_same(
        nodes in prop::collection::btree_map(0u32..50, (prop::collection::btree_set(0u32..9, 1..5), 0u32..3), 1..9),
        property in any::<bool>()
    ) {
        use fluxgate_formats::Idset;
        use fluxgate_formats::rset::{Children, R};
        let mut r = R::from_nodes(nodes.iter().map(|(&rank, (cores, gpus))| {
            let mut children = Children::from([("core".to_owned(), cores.iter().copied().collect::<Idset>())]);
            if *gpus > 0 {
                children.insert("gpu".to_owned(), (0..*gpus).collect());
            }
            (rank, format!("h{rank}"), children)
        }));
        if property {
            r.properties.insert("ssd".to_owned(), r.ranks());
        }
        let model = Model::from_r(&r).unwrap();
        prop_assert_eq!(model.to_r(false).unwrap().to_value(), r.to_value());
        // R with the graph in its `scheduling`, read again, is the same graph.
        let text = model.to_r(true).unwrap().to_json();
        let again = Model::load(&text, None).unwrap();
        prop_assert_eq!(&again.to_jgf()["graph"], &model.to_jgf()["graph"]);
    }
}

#[test]
fn what_r_cannot_say_is_told_when_it_is_written() {
    use crate::description::{Pool, Relation};
    let with = |pools: &[(&str, i64, i64, usize)]| {
        let mut model = Model::new();
        let mut ids = vec![model.add(Pool::new("cluster", 0)).unwrap()];
        for &(type_, id, rank, parent) in pools {
            let new = model.add(Pool { rank, ..Pool::new(type_, id) }).unwrap();
            model.connect(ids[parent], new, &Relation::contains()).unwrap();
            ids.push(new);
        }
        model.finish().unwrap();
        model.to_r(false).map(|r| r.to_json()).map_err(|e| e.to_string())
    };
    for (pools, words) in [
        (&[][..], "graph: no vertex of type 'node'"),
        (&[("node", 0, 0, 0)], "node 'node0': no cores and no GPUs"),
        (
            &[("node", 0, 3, 0), ("core", 0, 3, 1), ("node", 1, 3, 0), ("core", 0, 3, 3)],
            "rank 3 is another node's",
        ),
        (
            &[("node", 0, 3, 0), ("core", 0, 3, 1), ("node", 1, -1, 0), ("core", 0, 3, 3)],
            "node 'node1': no rank",
        ),
        (&[("node", 0, 0, 0), ("core", 5, 0, 1), ("core", 5, 0, 1)], "two of type core with id 5"),
    ] {
        let error = with(pools).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    // Default ranks count from zero.
    let text =
        with(&[("node", 7, -1, 0), ("core", 1, -1, 1), ("node", 9, -1, 0), ("gpu", 0, -1, 3)]).unwrap();
    assert!(text.contains(r#"{"rank":"0","children":{"core":"1"}}"#) && text.contains("node[7,9]"), "{text}");
}
