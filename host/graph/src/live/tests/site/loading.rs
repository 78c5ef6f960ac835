//! The graph of a site, bound to R.

use serde_json::json;

use super::*;

fn fault(edit: impl FnOnce(&mut Value)) -> String {
    let mut value = Rabbits::default().value();
    edit(&mut value["scheduling"]["graph"]);
    Resources::from_r(&R::from_value(&value).unwrap()).unwrap_err().to_string()
}

// SITE-6, SITE-122: the sparse form, without keys that only other pages require.
#[test]
fn site_2_3_a_graph_is_used_or_set_aside_with_a_reason() {
    let site = Rabbits::default();
    let with = |scheduling: Value| {
        let mut value = site.value();
        value["scheduling"] = scheduling;
        let m = load(&value);
        (m.has_site_graph(), m.unused_topology().map(str::to_owned))
    };
    assert_eq!(with(json!({})), (false, None));
    assert_eq!(with(json!({"writer": "fluxion"})), (false, None));
    for writer in ["fluxion", "fluxion:", "fluxion:jgf", "fluxion:jgf_shorthand"] {
        assert_eq!(with(json!({"writer": writer, "graph": site.graph()})), (true, None), "{writer}");
    }
    let (used, why) = with(json!({"writer": "grug", "graph": site.graph()}));
    assert!(!used && why.unwrap().contains("scheduling.writer: 'grug' found"));
}

#[test]
fn site_8_what_is_wrong_is_named() {
    type Edit = fn(&mut Value);
    let cases: [(&str, Edit); 9] = [
        ("graph.nodes[6] (id '6').metadata.size: 2 found; R names a core by its id", |g| {
            assert_eq!(g["nodes"][6]["metadata"]["type"], "core");
            g["nodes"][6]["metadata"]["size"] = json!(2);
        }),
        ("graph.nodes[2] (id '1').id: another vertex has this id", |g| g["nodes"][2]["id"] = json!("1")),
        ("there is no vertex with id '77'", |g| g["edges"][0]["target"] = json!("77")),
        ("graph.nodes[1] (id '1').metadata.type", |g| {
            drop(g["nodes"][1]["metadata"].as_object_mut().unwrap().remove("type"))
        }),
        ("graph.nodes[1] (id '1').metadata.paths.containment", |g| {
            drop(g["nodes"][1]["metadata"].as_object_mut().unwrap().remove("paths"))
        }),
        ("graph.nodes[1] (id '1').metadata.properties.ssdcount", |g| {
            g["nodes"][1]["metadata"]["properties"]["ssdcount"] = json!(36)
        }),
        ("graph.nodes[1] (id '1', chassis): vertex contains itself", |g| {
            g["edges"][0]["source"] = json!("1")
        }),
        ("another root", |g| drop(g["edges"].as_array_mut().unwrap().remove(0))),
        ("graph.nodes[0].id", |g| drop(g["nodes"][0].as_object_mut().unwrap().remove("id"))),
    ];
    for (what, edit) in cases {
        let said = fault(edit);
        assert!(said.contains(what), "{said}");
    }
}

/// A node of two cores with two hardware threads each, as hwloc sees it, and a GPU below the first core.
fn threads() -> Value {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |type_: &str, id: u32, path: &str, above: Option<&str>| {
        let rank = if type_ == "cluster" { -1 } else { 0 };
        let data = json!({"type": type_, "id": id, "rank": rank, "paths": {"containment": path}});
        nodes.push(json!({"id": path, "metadata": data}));
        edges.extend(above.map(|above| json!({"source": above, "target": path})));
    };
    add("cluster", 0, "/c0", None);
    add("node", 0, "/c0/n0", Some("/c0"));
    for core in 0..2 {
        let path = format!("/c0/n0/core{core}");
        add("core", core, &path, Some("/c0/n0"));
        for thread in [core, core + 2] {
            add("pu", thread, &format!("{path}/pu{thread}"), Some(&path));
        }
    }
    add("gpu", 0, "/c0/n0/core0/gpu0", Some("/c0/n0/core0"));
    json!({"graph": {"nodes": nodes, "edges": edges}})
}

/// R names no hardware threads: a core is held with all that is below it.
#[test]
fn site_8_cores_are_not_divided() {
    let r = json!({"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0-1", "gpu": "0"}}],
        "nodelist": ["n0"], "starttime": 0, "expiration": 0}, "scheduling": threads()});
    let alone = Resources::from_jgf(&threads().to_string()).unwrap();
    let slots = |type_: &str, count: u32| {
        let with = json!([{"type": type_, "count": 1}]);
        job(json!([{"type": "slot", "count": count, "label": "task", "with": with}]))
    };
    for mut m in [load(&r), alone] {
        m.set_up(&ids("0"));
        assert_eq!((m.totals().free_cores, m.totals().gpus), (2, 1));
        assert_eq!(run(&mut m, 1, &slots("core", 1)).unwrap().r_lite[0].children["core"], ids("0"));
        assert_eq!(run(&mut m, 2, &slots("core", 1)).unwrap().r_lite[0].children["core"], ids("1"));
        assert!(run(&mut m, 3, &slots("core", 1)).is_none(), "no thread of a core is free");
        let refused = satisfiable(&mut m, &slots("pu", 1)).unwrap_err();
        assert!(refused.contains("no resource of type 'pu'"), "{refused}");
    }
    // Cores below a core are cores of the node.
    let mut nested = threads();
    nested["graph"]["edges"][4]["source"] = "/c0/n0/core0".into();
    assert_eq!(nested["graph"]["edges"][4]["target"], "/c0/n0/core1");
    let mut m = load(&json!({"version": 1, "execution": r["execution"], "scheduling": nested}));
    m.set_up(&ids("0"));
    assert_eq!(run(&mut m, 1, &slots("core", 2)).unwrap().r_lite[0].children["core"], ids("0-1"));
}

#[test]
fn what_a_graph_calls_a_node_and_no_r_can_say_never_gets_into_an_r() {
    let mut value = Rabbits::default().value();
    let nodes = value["scheduling"]["graph"]["nodes"].as_array_mut().unwrap();
    let nodes: Vec<&mut Value> = nodes.iter_mut().filter(|n| n["metadata"]["type"] == "node").collect();
    for (number, node) in nodes.into_iter().enumerate() {
        node["metadata"]["name"] = format!("[{number}").into();
        node["metadata"]["properties"] = json!({"good": "", "pdu's": "", "a)": ""});
    }
    let mut m = load(&value);
    let r = run(&mut m, 1, &beside(2, 10)).unwrap();
    assert_eq!(r.nodelist.to_string(), "n[0-1]");
    assert_eq!(r.properties.keys().collect::<Vec<_>>(), ["good"]);
    assert_eq!(R::from_json(&r.to_json()).unwrap(), r);
    // Without R the graph alone says what hosts are called.
    let error = Resources::from_jgf(&value["scheduling"].to_string()).unwrap_err().to_string();
    assert!(error.contains(".metadata.name: ") && error.contains("[0"), "{error}");
}

#[test]
fn site_5_119_hosts_that_one_side_lacks_are_not_scheduled() {
    let site = Rabbits::default();
    let mut value = site.value();
    let lite = json!([{"rank": "0-2,4-5", "children": {"core": "0-3"}}]);
    value["execution"]["R_lite"] = lite;
    value["execution"]["nodelist"] = json!(["n[0-2,4],x7"]);
    let m = load(&value);
    assert_eq!((m.up(), m.totals().nodes), (ids("0-2,4"), 4));
    let why = m.unused_topology().unwrap();
    assert!(why.contains("hosts x7 of R are not in the graph"), "{why}");
    assert!(why.contains("hosts n3 of the graph are not in R"), "{why}");
}

#[test]
fn site_11_46_nodes_are_bound_by_host_name() {
    let site = Rabbits::default();
    let mut value = site.value();
    // Two nodes of the second chassis in the numbering of an instance.
    value["execution"]["R_lite"] = json!([{"rank": "0-1", "children": {"core": "0-3"}}]);
    value["execution"]["nodelist"] = json!(["n[3,2]"]);
    let mut m = load(&value);
    let why = m.unused_topology().unwrap();
    assert!(why.contains("hosts n[2-3] have other ranks in the graph than in R"), "{why}");
    let r = run(&mut m, 1, &beside(2, 10)).unwrap();
    assert_eq!((r.summary().as_str(), r.nodelist.to_string().as_str()), ("rank[0-1]/core[0-3]", "n[3,2]"));
    assert_eq!(held(&r), ["/site/chassis1/ssd0", "/site/chassis1/ssd1"]);
}

#[test]
fn site_9_hosts_of_one_name_are_bound_in_order_of_rank() {
    let site = Rabbits::default();
    let mut value = site.value();
    for node in value["scheduling"]["graph"]["nodes"].as_array_mut().unwrap() {
        if node["metadata"]["type"] == "node" {
            node["metadata"]["name"] = json!("same");
            node["metadata"]["paths"]["containment"] = json!("/site/same");
        }
    }
    value["execution"]["nodelist"] = json!(["same,same,same,same,same"]);
    let mut m = load(&value);
    assert_eq!(m.unused_topology(), None);
    assert_eq!(run(&mut m, 1, &beside(2, 10)).unwrap().summary(), "rank[0-1]/core[0-3]");
    // A path with two vertices: the status applies to both.
    m.set_vertex_status("/site/same", false).unwrap();
    assert_eq!(m.up(), none());
}

#[test]
fn site_12_r_says_which_cores_there_are() {
    let site = Rabbits::default();
    let mut value = site.value();
    value["execution"]["R_lite"] = json!([
        {"rank": "0", "children": {"core": "0-1"}},
        {"rank": "1", "children": {"core": "4-7"}},
        {"rank": "2", "children": {"core": "0-5", "gpu": "0"}},
        {"rank": "3-4", "children": {"core": "0-3"}},
    ]);
    let mut m = load(&value);
    assert_eq!((m.totals().cores, m.totals().gpus), (2 + 4 + 6 + 8, 1));
    let r = run(&mut m, 1, &job(json!([node(5)]))).unwrap();
    assert_eq!(r.summary(), "rank0/core[0-1] rank1/core[4-7] rank2/core[0-5],gpu0 rank[3-4]/core[0-3]");
}

#[test]
fn site_13_14_properties_and_levels() {
    let site = Rabbits::default();
    let mut value = site.value();
    value["execution"]["properties"] = json!({"fast": "1"});
    let nodes = value["scheduling"]["graph"]["nodes"].as_array_mut().unwrap();
    // A blade between the second chassis and its nodes.
    let blade = json!({"id": "900", "metadata": {"type": "blade", "id": 0, "paths": {"containment": "/site/chassis1/blade0"}}});
    nodes.push(blade);
    let id_of = |path: &str| {
        let found = nodes.iter().find(|node| node["metadata"]["paths"]["containment"] == path).unwrap();
        found["id"].clone()
    };
    let (chassis, two) = (id_of("/site/chassis1"), [id_of("/site/chassis1/n2"), id_of("/site/chassis1/n3")]);
    let edges = value["scheduling"]["graph"]["edges"].as_array_mut().unwrap();
    for edge in edges.iter_mut().filter(|edge| two.contains(&edge["target"])) {
        edge["source"] = json!("900");
    }
    edges.push(json!({"source": chassis, "target": "900"}));
    let mut m = load(&value);
    let blade = job(json!([{"type": "blade", "count": 1, "with": [node(2)]}]));
    assert_eq!(run(&mut m, 1, &blade).unwrap().summary(), "rank[2-3]/core[0-3]");
    let mut text: Value = serde_json::from_str(&job(json!([node(1)]))).unwrap();
    text["attributes"]["system"]["constraints"] = json!({"properties": ["fast"]});
    assert_eq!(run(&mut m, 2, &text.to_string()).unwrap().summary(), "rank1/core[0-3]");
    // A chassis whose nodes are on a blade has no slot of node and storage.
    assert!(satisfiable(&mut m, &beside(2, 10)).is_ok() && satisfiable(&mut m, &beside(3, 10)).is_err());
}

#[test]
fn site_15_ranks_that_are_lost_leave_their_chassis() {
    let mut m = Rabbits::default().machine();
    m.shrink(&ids("0"));
    assert_eq!(run(&mut m, 1, &beside(1, 300)).unwrap().summary(), "rank1/core[0-3]");
    assert!(satisfiable(&mut m, &beside(3, 10)).is_ok() && satisfiable(&mut m, &beside(4, 10)).is_err());
}
