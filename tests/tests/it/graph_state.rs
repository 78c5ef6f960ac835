//! Stored graphs: in a database, in a file, in the KVS of an instance; and the example graphs.

use std::path::Path;

use fluxgate_tests::fixture::{Said, World, cli, folder, root};
use serde_json::{Value, json};

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

fn graph(words: &[&str]) -> Said {
    cli(&[&["graph"], words].concat())
}

/// The graph in a file, as JGF.
fn jgf(dir: &Path, words: &[&str]) -> Value {
    let out = path(dir, "out.json");
    graph(&[&["convert"], words, &[&out, "--force"]].concat()).ok();
    serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap()
}

const TOML: &str = "[[resource.config]]\nhosts = \"n[0-3]\"\ncores = \"0-1\"\n";

/// The machine of TOML with a property added.
fn changed() -> String {
    format!("{TOML}[[resource.config]]\nhosts = \"n2\"\nproperties = [\"ssd\"]\n")
}

#[test]
fn m16_2_save_whole_then_what_changed() {
    let dir = folder();
    let [one, two] = [("one.toml", TOML.to_owned()), ("two.toml", changed())].map(|(name, text)| {
        let file = path(dir.path(), name);
        std::fs::write(&file, text).unwrap();
        file
    });
    for state in ["state.db", "state.json"].map(|name| path(dir.path(), name)) {
        let save = |how: &str, from: &str| graph(&["save", how, &state, "--from", from]);
        save("--changed", &one).fails(1, &[&state, "begin with --whole"]);
        assert!(!Path::new(&state).exists());
        assert!(save("--whole", &one).ok().contains("whole, 13 vertices, 12 edges"));
        assert_eq!(jgf(dir.path(), &[&state]), jgf(dir.path(), &[&one]));
        let said = save("--changed", &two).ok();
        assert!(said.contains("changed, 1 vertices saved, 0 removed, 0 edges changed"), "{said}");
        assert!(save("--changed", &two).ok().contains("nothing has changed"), "the second delta is empty");
        // Base and changes are the whole.
        assert_eq!(jgf(dir.path(), &[&state]), jgf(dir.path(), &[&two]));
        let said = graph(&["check", &state, "--json"]).json();
        let format = if state.ends_with("db") { "sqlite" } else { "state" };
        assert_eq!((&said[0]["format"], &said[0]["vertices"]), (&json!(format), &json!(13)));
        assert_eq!(graph(&["find", &state, "property=ssd"]).ok(), "/cluster0/n2\n");
        assert!(save("--whole", &one).ok().contains("whole"));
        assert_eq!(jgf(dir.path(), &[&state]), jgf(dir.path(), &[&one]));
        // Unreadable input leaves the state unchanged.
        save("--changed", &path(dir.path(), "none")).fails(1, &["cannot read"]);
        save("--whole", &path(dir.path(), "none")).fails(1, &["cannot read"]);
        assert_eq!(jgf(dir.path(), &[&state]), jgf(dir.path(), &[&one]));
    }
}

/// M16-2, bad input: truncated, damaged and foreign states are refused and not changed.
#[test]
fn m16_2_what_is_no_sound_state_is_refused_and_left_alone() {
    let dir = folder();
    let source = path(dir.path(), "source.toml");
    std::fs::write(&source, TOML.replace("0-3", "0-99")).unwrap();
    let [db, file] = ["s.db", "s.json"].map(|name| path(dir.path(), name));
    for state in [&db, &file] {
        graph(&["save", "--whole", state, "--from", &source]).ok();
    }
    let whole = std::fs::read(&db).unwrap();
    for cut in [17, 100, 4096, 5000, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&db, &whole[..cut]).unwrap();
        for words in [&["check", &db][..], &["save", "--changed", &db, "--from", &source]] {
            graph(words).fails(1, &["s.db: SQLite: "]);
        }
        assert_eq!(std::fs::read(&db).unwrap().len(), cut, "left as it is");
    }
    // Another program's database: its header has another application id (bytes 68 to 71).
    let mut foreign = whole.clone();
    foreign[68..72].copy_from_slice(&[0; 4]);
    std::fs::write(&db, &foreign).unwrap();
    for words in [
        &["check", &db][..],
        &["save", "--whole", &db, "--from", &source],
        &["save", "--changed", &db, "--from", &source],
        &["remove", &db],
    ] {
        graph(words).fails(1, &["s.db: SQLite: not a state of Fluxgate"]);
    }
    assert_eq!(std::fs::read(&db).unwrap(), foreign);
    // An unknown version (bytes 60 to 63).
    let mut newer = whole.clone();
    newer[60..64].copy_from_slice(&[0, 0, 0, 9]);
    std::fs::write(&db, &newer).unwrap();
    graph(&["check", &db]).fails(1, &["s.db: SQLite: version 9 found; 1 is accepted"]);
    let text = std::fs::read(&file).unwrap();
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    graph(&["check", &file]).fails(1, &["s.json: JSON: line 1 column"]);
    for words in [&["save", "--whole", &source, "--from", &db][..], &["remove", &source]] {
        graph(words).fails(1, &["source.toml: the file exists and is no state"]);
    }
    assert_eq!(std::fs::read_to_string(&source).unwrap(), TOML.replace("0-3", "0-99"));
}

/// M16-3: a destroyed state is gone, later use is an error, and other states are not affected.
#[test]
fn m16_3_destroy_removes_one_state_and_no_other() {
    let dir = folder();
    let source = path(dir.path(), "source.toml");
    std::fs::write(&source, TOML).unwrap();
    let states = ["a.db", "b.db", "a.json", "b.json"].map(|name| path(dir.path(), name));
    for state in &states {
        graph(&["save", "--whole", state, "--from", &source]).ok();
    }
    for state in [&states[0], &states[2]] {
        assert!(graph(&["remove", state]).ok().contains("removed"));
        graph(&["check", state]).fails(1, &["cannot read"]);
        graph(&["save", "--changed", state, "--from", &source]).fails(1, &["begin with --whole"]);
        graph(&["remove", state]).fails(1, &["cannot read"]);
    }
    for state in [&states[1], &states[3]] {
        assert_eq!(graph(&["check", state, "--json"]).json()[0]["vertices"], 13);
    }
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["b.db", "b.json", "source.toml"]);
}

const HWLOC: &str = r#"<topology><object type="Machine"><info name="HostName" value="h7"/><object type="Package">
    <object type="Core"><object type="PU"/></object><object type="Core"><object type="PU"/></object>
    </object></object></topology>"#;

/// M16-1: a configuration, hwloc, the KVS of an enclosing instance and a database give the same graph.
#[test]
fn m16_1_four_sources_one_graph() {
    let dir = folder();
    let [toml, xml, db] = ["h7.toml", "h7.xml", "h7.db"].map(|name| path(dir.path(), name));
    std::fs::write(&toml, "[[resource.config]]\nhosts = \"h7\"\ncores = \"0-1\"\n").unwrap();
    std::fs::write(&xml, HWLOC).unwrap();
    let world = World::up(&["--resources", &toml]);
    let uri = world.uri();
    let instance = ["--from-instance", "--uri", &uri];
    graph(&[&["save", "--whole", &db], &instance[..]].concat()).ok();
    // hwloc gives no ranks inside a node and more levels; of the requested levels, names and paths are equal.
    let shape = |words: &[&str]| {
        let all = graph(&[&["find"], words, &["size=1", "--json"]].concat()).json();
        let rows = all.as_array().unwrap().iter();
        rows.map(|v| json!([v["path"], v["type"], v["name"], v["id"], v["size"]])).collect::<Vec<_>>()
    };
    let expected = shape(&[&toml]);
    assert_eq!(expected.len(), 4);
    assert_eq!(shape(&["--allow", "node,core", &xml]), expected);
    assert_eq!(shape(&instance), expected);
    assert_eq!(shape(&[&db]), expected);
    assert_eq!(jgf(dir.path(), &instance), jgf(dir.path(), &[&toml]));
    assert_eq!(jgf(dir.path(), &[&db]), jgf(dir.path(), &[&toml]));
    graph(&["check", &toml, "--allow", "core"]).fails(2, &["--allow is for hwloc"]);
}

/// M16-2: after one allocation only the touched vertices are saved.
#[test]
fn m16_2_an_instance_is_a_source_and_what_its_jobs_hold_is_saved() {
    let world = World::up(&["--nodes", "4", "--cores", "2", "--policy", "fcfs"]);
    let db = path(world.dir.path(), "kept.db");
    let save = |how: &str| world.cli(&["graph", "save", how, &db, "--from-instance"]);
    assert!(save("--whole").ok().contains("whole, 13 vertices"));
    assert!(save("--changed").ok().contains("nothing has changed"));
    let id = world.cli(&["submit", "-n1", "-t", "1h", "--simulate", "1h"]).ok();
    world.until("the job runs", |w| w.jobs("running").len() == 1);
    let said = save("--changed").ok();
    assert!(said.contains("changed, 1 vertices saved, 0 removed") && said.contains("1 job holds"), "{said}");
    assert!(save("--changed").ok().contains("nothing has changed"));
    let find = |query: &str| {
        let said = world.cli(&["graph", "find", query]).ok();
        assert_eq!(world.cli(&["graph", "find", "--from-instance", query]).ok(), said);
        said.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let held = find("type=core and sched-now=allocated");
    assert_eq!((held.len(), find("type=core and sched-now=free").len()), (1, 7));
    assert_eq!(find(&format!("type=core and jobid-alloc={}", id.trim())), held);
    // The database has the job of each allocation.
    let kept = jgf(world.dir.path(), &[&db]);
    let nodes = kept["graph"]["nodes"].as_array().unwrap();
    let booked: Vec<&Value> =
        nodes.iter().map(|n| &n["metadata"]["booked"]).filter(|b| !b.is_null()).collect();
    assert_eq!((booked.len(), &booked[0][0]["units"]), (1, &json!(1)));
    world.cli(&["cancel", id.trim()]).ok();
    world.until("nothing runs", |w| w.jobs("running").is_empty());
    assert!(save("--changed").ok().contains("changed, 1 vertices saved"));
    world.cli(&["drain", "3", "bad"]).ok();
    let shown = world.cli(&["graph", "show", "--json"]).json().to_string();
    assert_eq!(world.cli(&["graph", "show", "--from-instance", "--json"]).json().to_string(), shown);
    assert!(shown.contains("\"down\""), "{shown}");
    let said = world.cli(&["graph", "check", "--from-instance", "--json"]).json();
    assert_eq!((&said[0]["format"], &said[0]["file"]), (&json!("r"), &json!(world.uri())));
    // Without an instance there is no graph.
    // As the option was spelt once.
    let missing = format!("--from-instance=local://{}/none", world.dir.path().display());
    graph(&["check", &missing]).fails(1, &["none"]);
    let nowhere = world.dir.path().join("nowhere").display().to_string();
    graph(&["show", "--dir", &nowhere]).fails(1, &["no FILE is given", "is the instance running?"]);
    graph(&["find", &db]).fails(2, &["FILE and QUERY are needed"]);
    graph(&["check", &db, &missing]).fails(2, &["one of them"]);
    graph(&["find", &missing, &db, "type=node"]).fails(2, &["no FILE is accepted"]);
}

/// M16-17: a child instance schedules the resources of a job of its parent, with a policy of its own.
#[test]
fn m16_17_a_child_schedules_its_parents_allocation_with_another_policy() {
    let parent = World::up(&["--nodes", "4", "--cores", "2", "--policy", "fcfs"]);
    parent.cli(&["submit", "-N1", "-x", "-t", "1h", "--simulate", "1h"]).ok();
    let id = parent.cli(&["submit", "-N2", "-x", "-t", "1h", "--simulate", "1h"]).ok();
    parent.until("both run", |w| w.jobs("running").len() == 2);
    let number = parent.cli(&["job", id.trim(), "--json"]).json()["id"].as_u64().unwrap();
    let answer = parent.rpc("job-info.lookup", json!({"id": number, "keys": ["R"], "flags": 0})).unwrap();
    let r = fluxgate_wire::dialect::job_info_value(&answer, "R").unwrap();
    let file = path(parent.dir.path(), "R.json");
    std::fs::write(&file, r.to_string()).unwrap();
    let child = World::up(&["--resources", &file, "--policy", "sjf"]);
    let policy = |world: &World| world.stats()["policy"].to_string();
    assert!(policy(&parent).contains("fcfs") && policy(&child).contains("sjf"));
    let nodes = |world: &World| {
        let said = world.cli(&["graph", "find", "--from-instance", "type=node", "--json"]).json();
        said.as_array().unwrap().iter().map(|n| n["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let held = parent
        .cli(&["graph", "find", "--from-instance", &format!("type=node and jobid-alloc={number}")])
        .ok();
    let held: Vec<&str> = held.lines().map(|line| line.rsplit('/').next().unwrap()).collect();
    assert_eq!(nodes(&child), held, "the child has what its parent gave the job");
    assert_eq!((nodes(&parent).len(), held.len()), (4, 2));
    let inner = child.cli(&["submit", "-N2", "-x", "-t", "1m", "--simulate", "1s"]).ok();
    assert_eq!(child.cli(&["job", inner.trim(), "--wait", "--json"]).json()["result"], "COMPLETED");
    child.cli(&["submit", "-N3", "-t", "1m", "--simulate", "1s"]);
    child.assert_clean();
    parent.assert_clean();
}

#[test]
fn the_pictures_of_the_example_graphs_are_what_is_drawn_today() {
    let dir = folder();
    let graphs = root().join("docs/graphs");
    let mut count = 0;
    for entry in std::fs::read_dir(&graphs).unwrap() {
        let picture = entry.unwrap().path();
        if picture.extension().is_none_or(|e| e != "svg") {
            continue;
        }
        let stem = picture.file_stem().unwrap().to_str().unwrap();
        let (name, subsystem) = stem.split_once('-').unwrap_or((stem, "containment"));
        let out = path(dir.path(), stem);
        let file = path(&graphs, &format!("{name}.json"));
        graph(&["show", &file, "--subsystem", subsystem, "--svg", &out]).ok();
        assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&picture).unwrap(), "{}", picture.display());
        count += 1;
    }
    assert_eq!(count, 9);
    let page = std::fs::read_to_string(graphs.join("README.md")).unwrap();
    for entry in std::fs::read_dir(&graphs).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || page.contains(&format!("({name})")), "{name} is not on the page");
    }
}

#[test]
fn convert_writes_r_with_and_without_the_graph() {
    let dir = folder();
    let source = path(dir.path(), "source.toml");
    std::fs::write(&source, changed()).unwrap();
    let out = path(dir.path(), "r.json");
    let said = graph(&["convert", &source, &out, "--to", "r"]).ok();
    assert!(said.contains("4 nodes, 8 cores, 0 gpus"), "{said}");
    let r: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(r["execution"]["nodelist"], json!(["n[0-3]"]));
    assert!(r.get("scheduling").is_none());
    assert_eq!(jgf(dir.path(), &[&out])["graph"], jgf(dir.path(), &[&source])["graph"]);
    graph(&["convert", &source, &out, "--to", "r", "--scheduling", "--force"]).ok();
    let said = graph(&["check", &out, "--json"]).json();
    assert_eq!(said[0]["format"], "jgf");
    assert_eq!(jgf(dir.path(), &[&out])["graph"], jgf(dir.path(), &[&source])["graph"]);
    graph(&["convert", &source, &out, "--scheduling", "--force"]).fails(2, &["--to r"]);
    let switches = root().join("docs/graphs/figure5.json");
    graph(&["convert", switches.to_str().unwrap(), &out, "--to", "r", "--force"])
        .fails(1, &["no vertex of type 'node'"]);
    graph(&["convert", &source]).fails(2, &["FILE and OUT are needed"]);
}
