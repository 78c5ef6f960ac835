//! `fluxgate resource-query` for a script: commands in, results in a file, errors beside it.
//!
//! `host/resource-query/tests/it/resource_query.rs` compares the answers with the graph scheduler's own cases.

use std::fs::File;
use std::path::Path;

use fluxgate_tests::fixture::{Said, fluxgate, folder, run};

/// Two nodes of two cores, and memory with a unit.
const GRAPH: &str = r#"{"graph": {"nodes": [
 {"id": "0", "metadata": {"type": "cluster", "id": 0, "paths": {"containment": "/cluster0"}}},
 {"id": "1", "metadata": {"type": "node", "id": 0, "rank": 0, "properties": {"a<b": "c\"d"}, "paths": {"containment": "/cluster0/node0"}}},
 {"id": "2", "metadata": {"type": "core", "id": 0, "rank": 0, "paths": {"containment": "/cluster0/node0/core0"}}},
 {"id": "3", "metadata": {"type": "core", "id": 1, "rank": 0, "paths": {"containment": "/cluster0/node0/core1"}}},
 {"id": "4", "metadata": {"type": "memory", "id": 0, "rank": 0, "size": 4, "unit": "GB", "paths": {"containment": "/cluster0/node0/memory0"}}}],
 "edges": [{"source": "0", "target": "1"}, {"source": "1", "target": "2"}, {"source": "1", "target": "3"}, {"source": "1", "target": "4"}]}}"#;

const R: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-3"}}],"nodelist":["n[0-1]"],"starttime":0,"expiration":0}}"#;

fn job(type_: &str) -> String {
    format!(
        "version: 9999\nresources: [{{type: slot, count: 1, label: s, with: [{{type: {type_}, count: 1}}]}}]\n\
         tasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\nattributes: {{system: {{duration: 60}}}}\n"
    )
}

/// Runs it in a folder with files of these names and texts, and with these commands.
fn ask(dir: &Path, files: &[(&str, &str)], args: &[&str], commands: &str) -> Said {
    for (name, text) in files.iter().chain(&[("commands", commands)]) {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let mut command = fluxgate(["resource-query"].iter().chain(args));
    command.current_dir(dir).stdin(File::open(dir.join("commands")).unwrap());
    run(command)
}

#[test]
fn results_and_what_went_wrong_come_in_order_in_one_file() {
    let dir = folder();
    let commands = "match allocate job\ncancel 7\npartial-cancel 1 jgf other\ncancel 1\ninfo 9\nquit\n";
    let files = [("graph", GRAPH), ("job", &job("core")), ("other", R)];
    let said = ask(dir.path(), &files, &["-L", "graph", "-f", "jgf", "-t", "out"], commands);
    assert_eq!(
        said.err,
        "cancel: ERROR: nonexistent job 7\nERROR: error encountered while removing job 1\ninfo: ERROR: nonexistent job 9\n"
    );
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    let out = std::fs::read_to_string(dir.path().join("out")).unwrap();
    assert!(out.starts_with("      ---------core") && out.contains("INFO: JOBID=1\n"), "{out}");
    // The same with reasons, and both in one file as `2>>` has them.
    let all = dir.path().join("all");
    let mut command = fluxgate(["resource-query", "-v", "-L", "graph", "-f", "jgf", "-t", "all"]);
    let errors = File::options().create(true).append(true).open(&all).unwrap();
    command.current_dir(dir.path()).stdin(File::open(dir.path().join("commands")).unwrap()).stderr(errors);
    assert!(command.status().unwrap().success());
    let text = std::fs::read_to_string(&all).unwrap();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is in {text}"));
    assert!(at("JOBID=1") < at("nonexistent job 7") && at("removing job 1") < at("  other: JGF"), "{text}");
}

#[test]
fn an_unknown_type_is_reported_and_takes_no_number() {
    let dir = folder();
    let files = [("graph", GRAPH), ("job", &job("core")), ("zone", &job("zone")), ("gpu", &job("gpu"))];
    let commands =
        "match allocate zone\nmatch satisfiability zone\nmatch allocate gpu\nmatch allocate job\nquit\n";
    let said = ask(dir.path(), &files, &["-L", "graph", "-f", "jgf"], commands);
    let line = "match_allocate: ERROR: Jobspec error for 1: Value of \"type\" must be a resource type known to fluxion\n";
    assert_eq!(said.err, line.repeat(2));
    let ids: Vec<&str> = said.out.lines().filter(|l| l.contains("JOBID") || l.contains("request")).collect();
    let miss = "INFO: Unsatisfiable request";
    assert_eq!(
        ids,
        ["INFO: JOBID=1", miss, "INFO: JOBID=1", "INFO: JOBID=2"],
        "graph schedulers know gpus without having any"
    );
    let said = ask(
        dir.path(),
        &[("bad", "version: 9999\nresources: 3\n")],
        &["-L", "graph", "-f", "jgf"],
        "match allocate bad\n",
    );
    assert!(
        said.err.starts_with("match_allocate: ERROR: Jobspec error for 1: bad: ")
            && said.err.contains("resources"),
        "{said:?}"
    );
}

#[test]
fn a_duration_beyond_time_is_refused_and_takes_no_number() {
    let dir = folder();
    let long = job("core").replace("duration: 60", "duration: 1.0E+30");
    let bare = job("core").replace("{system: {duration: 60}}", "");
    let files = [("graph", GRAPH), ("long", long.as_str()), ("bare", bare.as_str())];
    let said = ask(
        dir.path(),
        &files,
        &["-L", "graph", "-f", "jgf"],
        "match allocate long\nmatch allocate bare\nquit\n",
    );
    assert_eq!(
        said.err,
        "match_allocate: ERROR: Jobspec error for 1: long: jobspec: attributes.system.duration: found 1e30, expected \
         9e18 seconds or fewer\n"
    );
    assert!(
        said.out.contains("INFO: No matching") && said.out.contains("INFO: RESOURCES=ALLOCATED"),
        "{said:?}"
    );
    assert_eq!(said.out.matches("JOBID=1\n").count(), 2, "{said:?}");
}

#[test]
fn flags_of_the_graph_schedulers_tool() {
    let dir = folder();
    let files = [("graph", GRAPH), ("job", &job("memory")), ("R", R)];
    let base = ["-L", "graph", "-f", "jgf", "-r", "100"];
    // Without a filter, and without the data that the tool's reader of JGF drops.
    let args = [&base[..], &["--prune-filters=", "-F", "jgf"]].concat();
    let said = ask(dir.path(), &files, &args, "match allocate job\nquit\n");
    assert!(said.out.contains("\"type\": \"memory\"") && !said.out.contains("GB"), "{said:?}");
    // The sizes of the graph.
    let said = ask(dir.path(), &files, &[&base[..], &["-e"]].concat(), "quit\n");
    for line in ["by_type Key-Value Pairs: 4", "by_name Key-Value Pairs: 5", "by_path Key-Value Pairs: 5"] {
        assert!(said.out.contains(&format!("INFO: {line}\n")), "{said:?}");
    }
    assert!(
        said.out
            .ends_with("INFO: number of vertices with rank -1: 1\nINFO: number of vertices with rank 0: 4\n")
    );
    // The graph, for tools that draw.
    for (format, end, has) in [
        ("dot", "dot", "1->2 [label=\"containment=contains\"];"),
        ("graphml", "graphml", "<data key=\"node_props\">{a&lt;b=c\"d}</data>"),
    ] {
        let said = ask(dir.path(), &files, &[&base[..], &["-o", "drawn", "-g", format]].concat(), "quit\n");
        assert_eq!(said.ok(), "INFO: Write the target graph of the matcher...\n");
        let text = std::fs::read_to_string(dir.path().join("drawn").with_extension(end)).unwrap();
        assert!(text.contains(has), "{text}");
    }
    // Nodes of which R names a part are shared.
    let part = |core: u32| {
        R.replace("0-1\",\"children\":{\"core\":\"0-3", &format!("0\",\"children\":{{\"core\":\"{core}"))
            .replace("n[0-1]", "n0")
    };
    let parts: Vec<String> = (0..4).map(part).collect();
    let names = ["p0", "p1", "p2", "p3"];
    let files: Vec<(&str, &str)> =
        names.into_iter().zip(parts.iter().map(String::as_str)).chain([("R", R)]).collect();
    let commands: String = names
        .iter()
        .zip(1..)
        .map(|(name, id)| format!("update allocate rv1exec {name} {id} 0 60\n"))
        .collect();
    let args = ["-L", "R", "-f", "rv1exec", "-p", "ALL:core,ALL:node"];
    let said = ask(dir.path(), &files, &args, &commands);
    assert_eq!((said.out.matches("RESOURCES=ALLOCATED").count(), said.err.as_str()), (4, ""), "{said:?}");
}

#[test]
fn bad_input_says_what_is_accepted() {
    let dir = folder();
    let huge = R.replace("n[0-1]", "n[9223372036854775808-9223372036854775809]");
    let other = R.replace("n[0-1]", "x9223372036854775808,x1");
    let files = [("graph", GRAPH), ("huge", huge.as_str()), ("other", other.as_str())];
    let cases: [(&[&str], &str); 6] = [
        (&["-L", "absent"], "absent"),
        (&["-L", "graph", "-f", "jgf", "-g", "png"], "[possible values: dot, graphml]"),
        (&["-L", "graph", "-f", "jgf", "-p", "core"], "ALL:core"),
        (&["-L", "graph", "-f", "jgf", "-o", "no/such/folder"], "no/such/folder.dot"),
        (&["-L", "huge", "-f", "rv1exec"], "huge"),
        (
            &["-L", "other", "-f", "rv1exec"],
            "host 'x9223372036854775808' found; the number it ends with may be up to",
        ),
    ];
    for (args, what) in cases {
        let said = ask(dir.path(), &files, args, "quit\n");
        assert!(said.code != 0 && said.err.contains(what), "{args:?}: {said:?}");
    }
}
