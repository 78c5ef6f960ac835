//! The readers: accepted texts, and the errors of others.

use super::*;

/// A vertex of JGF.
pub(super) fn vertex(id: &str, type_: &str, more: &str) -> String {
    format!(r#"{{"id":"{id}","metadata":{{"type":"{type_}"{more}}}}}"#)
}

pub(super) fn edge(from: &str, to: &str) -> String {
    format!(r#"{{"source":"{from}","target":"{to}","metadata":{{"subsystem":"containment"}}}}"#)
}

pub(super) fn document(nodes: &[String], edges: &[String]) -> String {
    format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","))
}

/// A rack of two nodes; each has two sockets of 3 cores and 1 gpu and a memory pool of 8 GB; the rack has 3 licences.
fn rack() -> String {
    let mut nodes = vec![
        vertex("0", "cluster", r#","id":0,"rank":-1"#),
        vertex("r", "rack", r#","id":0,"size":1"#),
        vertex("l", "license", r#","size":3"#),
    ];
    let mut edges = vec![edge("0", "r"), edge("r", "l")];
    for n in 0..2 {
        nodes.push(vertex(
            &format!("n{n}"),
            "node",
            &format!(r#","id":{n},"rank":{n},"name":"host{n}","properties":{{"p{n}":""}}"#),
        ));
        edges.push(edge("r", &format!("n{n}")));
        nodes.push(vertex(&format!("m{n}"), "memory", r#","id":0,"size":8,"unit":"GB""#));
        edges.push(edge(&format!("n{n}"), &format!("m{n}")));
        for s in 0..2 {
            let socket = format!("s{n}{s}");
            nodes.push(vertex(&socket, "socket", &format!(r#","id":{s}"#)));
            edges.push(edge(&format!("n{n}"), &socket));
            for c in 0..3 {
                let core = format!("c{n}{s}{c}");
                nodes.push(vertex(&core, "core", &format!(r#","id":{c},"name":"core{c}""#)));
                edges.push(edge(&socket, &core));
            }
            nodes.push(vertex(&format!("g{n}{s}"), "gpu", &format!(r#","id":{s}"#)));
            edges.push(edge(&socket, &format!("g{n}{s}")));
        }
    }
    document(&nodes, &edges)
}

pub(super) fn machine() -> Resources {
    let mut m = Resources::from_jgf(&rack()).unwrap();
    m.set_up(&ids("0-1"));
    m
}

#[test]
fn jgf_becomes_runs_and_pools() {
    let m = machine();
    // The cluster, the rack and the licences; for each node the node, memory, and 2 sockets with a run of cores and a
    // gpu each.
    assert_eq!(m.graph().vertex_count(), 3 + 2 * 8);
    let t = m.totals();
    assert_eq!((t.nodes, t.cores, t.gpus, t.up_nodes, t.free_nodes), (2, 12, 4, 2, 2));
    // Core ids count from 0 on each socket; R numbers them through the node.
    let r = m.to_r_all();
    assert_eq!(r.summary(), "rank[0-1]/core[0-5],gpu[0-1]");
    assert_eq!(r.nodelist.to_string(), "host[0-1]");
    assert_eq!(r.properties.keys().collect::<Vec<_>>(), ["p0", "p1"]);
    let root = crate::VertexId(0);
    let names: Vec<_> = m.graph().children(root).filter_map(|v| m.graph().vertex_name(v, 0)).collect();
    assert_eq!(names, ["rack0"]);
}

#[test]
fn sockets_memory_and_racks_match() {
    let slot = |inner: &str| format!(r#"{{"type":"slot","count":1,"label":"x","with":[{inner}]}}"#);
    let core = |n: u32| format!(r#"{{"type":"core","count":{n}}}"#);
    let table = [
        (format!("[{}]", slot(&core(4))), "rank0/core[0-3]"),
        // An exclusive socket belongs to one slot.
        (
            format!("[{}]", slot(&format!(r#"{{"type":"socket","count":1,"with":[{}]}}"#, core(2)))),
            "rank0/core[0-2],gpu0",
        ),
        // A shared socket must have all cores of the slot.
        (format!(r#"[{{"type":"socket","count":1,"with":[{}]}}]"#, slot(&core(3))), "rank0/core[0-2]"),
        (
            format!(r#"[{{"type":"socket","count":3,"with":[{}]}}]"#, slot(&core(2))),
            "rank0/core[0-1,3-4] rank1/core[0-1]",
        ),
        (
            format!("[{}]", slot(r#"{"type":"core","count":1},{"type":"memory","count":5,"unit":"GB"}"#)),
            "rank0/core0",
        ),
        (
            format!(
                r#"[{{"type":"rack","count":1,"with":[{{"type":"node","count":2,"with":[{}]}}]}}]"#,
                slot(&core(1))
            ),
            "rank[0-1]/core0",
        ),
        (
            format!(
                r#"[{{"type":"cluster","count":1,"with":[{{"type":"rack","count":1,"exclusive":true,"with":[{}]}}]}}]"#,
                slot(&core(1))
            ),
            "rank[0-1]/core[0-5],gpu[0-1]",
        ),
        (format!(r#"[{},{{"type":"license","count":2}}]"#, slot(&core(1))), "rank0/core0"),
    ];
    for (spec, expected) in table {
        let mut m = machine();
        let request = m.compile(&jobspec(&spec)).unwrap();
        assert!(m.satisfiable(&request).is_ok(), "{spec}");
        assert_eq!(start(&mut m, 1, &request, 0.0, 1.0, Placement::First).as_deref(), Ok(expected), "{spec}");
        m.release(JobId(1), None).unwrap();
        assert_eq!(m.totals(), machine().totals());
        assert_eq!(m.allocated_r().summary(), "");
    }
}

#[test]
fn what_does_not_fit_inside() {
    let slot = |inner: &str| format!(r#"[{{"type":"slot","count":1,"label":"x","with":[{inner}]}}]"#);
    let mut m = machine();
    for spec in [
        slot(r#"{"type":"socket","count":1,"with":[{"type":"core","count":4}]}"#),
        slot(r#"{"type":"memory","count":9,"unit":"GB"}"#),
        slot(r#"{"type":"memory","count":1,"unit":"W"}"#),
        slot(r#"{"type":"core","count":1},{"type":"license","count":4}"#),
    ] {
        let request = m.compile(&jobspec(&spec)).unwrap();
        assert!(m.satisfiable(&request).is_err(), "{spec}");
        assert_eq!(m.match_now(&request, 0.0, 1.0, Placement::First), Err(NoFit::Busy), "{spec}");
    }
}

#[test]
fn pools_are_shared_by_units() {
    // M4-1, M16-5: 8 GB for two jobs; a further one is refused.
    let mut m = machine();
    let with = |m: &mut Resources, gb: u32| {
        let spec = format!(
            r#"[{{"type":"slot","count":1,"label":"x","with":[{{"type":"core","count":1}},{{"type":"memory","count":{gb}}}]}}]"#
        );
        m.compile(&jobspec_with(&spec, r#"{"ranks":["0"]}"#)).unwrap()
    };
    let (five, three, one) = (with(&mut m, 5), with(&mut m, 3), with(&mut m, 1));
    start(&mut m, 1, &five, 0.0, 10.0, Placement::First).unwrap();
    start(&mut m, 2, &three, 0.0, 20.0, Placement::First).unwrap();
    assert_eq!(m.match_now(&one, 0.0, 1.0, Placement::First), Err(NoFit::Busy));
    assert_eq!(m.earliest(&one, 0.0, 1.0), Some(10.0));
    assert_eq!(m.earliest(&with(&mut m.clone(), 6), 0.0, 1.0), Some(20.0));
    // Licences above nodes too, all or nothing.
    let licence = |m: &mut Resources, n: u32| {
        let spec = format!(
            r#"[{{"type":"slot","count":1,"label":"x","with":[{{"type":"core","count":1}}]}},{{"type":"license","count":{n}}}]"#
        );
        m.compile(&jobspec(&spec)).unwrap()
    };
    let (two, one) = (licence(&mut m, 2), licence(&mut m, 1));
    start(&mut m, 3, &two, 0.0, 5.0, Placement::First).unwrap();
    start(&mut m, 4, &one, 0.0, 7.0, Placement::First).unwrap();
    assert_eq!(m.match_now(&one, 0.0, 1.0, Placement::First), Err(NoFit::Busy));
    assert_eq!(m.earliest(&one, 0.0, 1.0), Some(5.0));
    m.release(JobId(4), None).unwrap();
    assert!(m.match_now(&one, 0.0, 1.0, Placement::First).is_ok());
}

#[test]
fn jgf_faults_are_named() {
    let cluster = || vertex("0", "cluster", "");
    let node = |id: &str, more: &str| vertex(id, "node", more);
    let table = [
        ("{".to_owned(), "line 1 column 1"),
        (r#"{"nodes":[]}"#.to_owned(), "no key 'graph'"),
        (r#"{"graph":{"nodes":[{"id":"0"}]}}"#.to_owned(), "metadata: nothing found"),
        (document(&[], &[]), "no resources"),
        (document(&[cluster(), vertex("0", "node", "")], &[]), "graph.nodes[1] (id '0').id: another vertex has this id"),
        (document(&[cluster()], &[edge("0", "7")]), "graph.edges[0].target: there is no vertex with id '7'"),
        (document(&[cluster(), node("1", "")], &[edge("0", "1"), edge("1", "0")]), "contains itself"),
        (document(&[cluster(), node("1", "")], &[edge("0", "0")]), "graph.nodes[0] (id '0', cluster): vertex contains itself"),
        (document(&[cluster(), node("1", "")], &[edge("1", "1")]), "contains itself"),
        (document(&[cluster(), node("1", ""), node("2", "")], &[edge("0", "1"), edge("2", "1")]), "two parents"),
        (
            document(&[cluster(), node("1", ""), node("2", "")], &[edge("1", "2"), edge("2", "1")]),
            "contains itself",
        ),
        (document(&[cluster(), node("1", "")], &[]), "graph.nodes[1] (id '1', node): vertex has no containment parent"),
        (document(&[cluster(), node("1", r#","size":0"#)], &[edge("0", "1")]), "graph.nodes[1] (id '1').metadata.size: 0 found"),
        (document(&[node("1", r#","size":-4"#)], &[]), "metadata.size: -4 found"),
        (document(&[node("1", r#","id":-4"#)], &[]), "metadata.id: -4 found"),
        (document(&[vertex("1", "", "")], &[]), "metadata.type: no text found"),
        (
            document(
                &[cluster(), node("1", r#","rank":3"#), node("2", r#","rank":3"#)],
                &[edge("0", "1"), edge("0", "2")],
            ),
            "rank 3 of another one",
        ),
        (
            document(&[cluster(), node("1", r#","rank":3"#), node("2", "")], &[edge("0", "1"), edge("0", "2")]),
            "no rank, but other nodes have",
        ),
        (
            document(
                &[cluster(), node("1", r#","uuid":"u""#), node("2", r#","uuid":"u""#)],
                &[edge("0", "1"), edge("0", "2")],
            ),
            "graph.nodes[2] (id '2'): the uuid 'u' belongs to another vertex",
        ),
        (
            document(
                &[cluster(), node("1", "")],
                &[r#"{"source":"1","target":"0","metadata":{"subsystem":"containment","relationship":"in"}}"#.to_owned()],
            ),
            "does not contain it",
        ),
    ];
    for (text, expected) in table {
        let error = Resources::from_jgf(&text).unwrap_err().to_string();
        assert!(
            error.starts_with("JGF: ") && error.contains(expected),
            "{error}\nis not: {expected}\nfor {text}"
        );
    }
    let deep: Vec<String> = (0..80).map(|i| vertex(&i.to_string(), "box", "")).collect();
    let chain: Vec<String> = (1..80).map(|i| edge(&(i - 1).to_string(), &i.to_string())).collect();
    assert!(Resources::from_jgf(&document(&deep, &chain)).unwrap_err().to_string().contains("levels deep"));
}

#[test]
fn edges_of_other_subsystems_are_kept() {
    let mut nodes =
        vec![vertex("0", "cluster", ""), vertex("1", "node", ""), vertex("2", "core", r#","id":0"#)];
    nodes.push(vertex("p", "pdu", r#","size":100,"unit":"W""#));
    let text = document(
        &nodes,
        &[
            r#"{"source":"0","target":"1","metadata":{"name":{"containment":"contains"}}}"#.to_owned(),
            r#"{"source":"1","target":"0","metadata":{"name":{"containment":"in"}}}"#.to_owned(),
            r#"{"source":"1","target":"2"}"#.to_owned(),
            r#"{"source":"p","target":"1","metadata":{"subsystem":"power","relationship":"supplies"}}"#
                .to_owned(),
        ],
    );
    let m = Resources::from_jgf(&text).unwrap();
    assert_eq!(m.graph().subsystems(), ["containment", "power"]);
    let edge = &m.graph().edges()[0];
    let name = |v| m.graph().vertex_name(v, 0).unwrap();
    assert_eq!((name(edge.from).as_str(), name(edge.to).as_str()), ("pdu", "node1"));
    assert_eq!(m.graph().text(edge.type_), "supplies");
}

#[test]
fn toml_entries_add_up() {
    let text = r#"
        [resource]
        exclude = "b1"
        noverify = true
        [[resource.config]]
        hosts = "a[0-1],b[0-1]"
        cores = "0-3"
        properties = ["batch"]
        [[resource.config]]
        hosts = "b[0-1]"
        gpus = "0-1"
        properties = ["debug"]
    "#;
    let r = Resources::from_toml(text).unwrap().to_r_all();
    assert_eq!(r.summary(), "rank[0-1]/core[0-3] rank2/core[0-3],gpu[0-1]");
    assert_eq!(r.nodelist.to_string(), "a[0-1],b0");
    assert_eq!(r.properties["batch"], ids("0-2"));
    assert_eq!(r.properties["debug"], ids("2"));
}

/// The flow of a machine of four hosts with capped racks.
const FLOW: &str = "[[resource.config]]\nhosts = 'n[0-4]'\ncores = '0-3'\n[resource]\nexclude = 'n4'\n[resource.flow.power]\n\
                    unit = 'W'\n[[resource.flow.power.pools]]\nname = 'row'\nsize = 900\n[[resource.flow.power.pools]]\n\
                    name = 'rack'\nsize = 500\nfrom = 'row'\nhosts = 'n[0-1]'\neach = 300\n[[resource.flow.power.pools]]\n\
                    name = 'other'\nsize = 600\nfrom = 'row'\nhosts = 'n[2-4]'\n";

#[test]
fn m4_18_toml_tells_of_flow() {
    let mut m = Resources::from_toml(FLOW).unwrap();
    m.set_up(&ids("0-3"));
    let spec = |watts: u32, nodes: u32| {
        let inside = r#"{"type":"slot","count":1,"label":"x","with":[{"type":"core","count":1}]}"#;
        let power = format!(r#"{{"type":"power","count":{watts},"unit":"W"}}"#);
        jobspec(&format!(r#"[{{"type":"node","count":{nodes},"with":[{inside},{power}]}}]"#))
    };
    let request = m.compile(&spec(250, 3)).unwrap();
    assert_eq!(
        start(&mut m, 1, &request, 0.0, 9.0, Placement::Low).as_deref(),
        Ok("rank[0-2]/core0"),
        "250 each, two of them below the rack"
    );
    let request = m.compile(&spec(200, 1)).unwrap();
    assert!(start(&mut m, 2, &request, 0.0, 9.0, Placement::Low).is_err(), "150 are left of the row");
    m.release(JobId(1), None).unwrap();
    assert!(start(&mut m, 2, &request, 0.0, 9.0, Placement::Low).is_ok());
    let own = m.compile(&spec(301, 3)).unwrap();
    assert!(m.satisfiable(&own).is_err(), "no host of the rack has more than 300");
}

#[test]
fn toml_faults_of_flow_are_named() {
    for (from, to, expected) in [
        ("from = 'row'", "from = 'raw'", "flow.power.pools[1].from: there is no pool 'raw'"),
        ("hosts = 'n[2-4]'", "hosts = 'n[2-5]'", "flow.power.pools[2].hosts: there is no host 'n5'"),
        ("hosts = 'n[2-4]'", "hosts = 'n[2-'", "flow.power.pools[2].hosts: "),
        ("hosts = 'n[2-4]'", "hosts = 'n[1-3]'", "power"),
        ("size = 900", "size = -1", "flow.power: invalid value"),
        ("size = 900", "size = 900\ncolour = 'red'", "unknown field `colour`"),
        ("unit = 'W'\n", "unit = 3\n", "flow.power: invalid type"),
    ] {
        assert!(FLOW.contains(from), "{from}");
        let error = Resources::from_toml(&FLOW.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with("TOML: line ") && error.contains(expected), "{error}\nis not: {expected}");
    }
    let flat = "[[resource.config]]\nhosts = 'a'\ncores = '0'\n[resource]\nflow = 3\n";
    assert!(Resources::from_toml(flat).unwrap_err().to_string().contains("line 5: invalid type: integer"));
}

#[test]
fn toml_faults_are_named() {
    let entry = |body: &str| format!("[[resource.config]]\n{body}\n");
    for (text, expected) in [
        (String::new(), "no [[resource.config]]"),
        ("[resource\n".to_owned(), "line 1"),
        (entry("cores = '0'"), "missing field `hosts`"),
        (entry("hosts = 'a'\ncores = '0'\nmemory = 3"), "line 4: unknown field `memory`"),
        (entry("hosts = 'a['\ncores = '0'"), "line 2: resource.config[0].hosts: "),
        (entry("hosts = 'a'\ncores = '3-1'"), "line 3: resource.config[0].cores: "),
        (entry("hosts = 'a'"), "host 'a' has no resources"),
        (entry("hosts = 'a'\ncores = 4"), "line 3: invalid type: integer"),
        (
            entry("hosts = 'a'\ncores = '0'\nproperties = ['x!']"),
            "line 4: resource.config[0].properties: 'x!' found",
        ),
        (
            "[resource]\nexclude = 'z'\n".to_owned() + &entry("hosts = 'a'\ncores = '0'"),
            "line 2: resource.exclude: there is no host 'z'",
        ),
        ("[resource]\nexclude = '4'\n".to_owned() + &entry("hosts = 'a'\ncores = '0'"), "rank 4 found"),
    ] {
        let error = Resources::from_toml(&text).unwrap_err().to_string();
        assert!(error.starts_with("TOML: ") && error.contains(expected), "{error}\nis not: {expected}");
    }
}

#[test]
fn samples_of_the_graph_scheduler_load() {
    let Some(file) = fluxgate_testing::shared("data/fluxion/jgfs/tiny.json") else { return };
    let mut m = Resources::from_jgf(&std::fs::read_to_string(file).unwrap()).unwrap();
    m.set_up(&ids("0-1"));
    assert_eq!(m.to_r_all().summary(), "rank[0-1]/core[0-35],gpu[0-1]");
    let spec = r#"[{"type":"cluster","count":1,"with":[{"type":"rack","count":1,"with":[{"type":"node","count":1,"with":[
        {"type":"slot","label":"x","count":1,"with":[{"type":"socket","count":1,"with":[{"type":"core","count":18}]}]}]}]}]}]"#;
    let request = m.compile(&jobspec(spec)).unwrap();
    assert_eq!(
        start(&mut m, 1, &request, 0.0, 1.0, Placement::High).as_deref(),
        Ok("rank1/core[18-35],gpu1")
    );
}
