//! What the contract gained after its first release, from the languages beside Rust: the policy `abilities`
//! (languages/abilities) asks each question and is held to what has to come of it.
//!
//! The suite builds only Rust. The others are tested after `cargo xtask policies --lang all`.

use std::path::PathBuf;

use fluxgate_policy::{Limits, Loader};
use fluxgate_sim::machine::Machine;
use fluxgate_testing::{Need, skipped};
use fluxgate_tests::drive::{made_up, schedule};
use fluxgate_tests::fixture::{cli, fluxgate, folder, policies, run};
use serde_json::{Value, json};

/// Languages that have the policy.
const LANGUAGES: [&str; 1] = ["c"];

/// The components that were built.
fn built() -> Vec<PathBuf> {
    let file = |language: &&str| {
        let file = policies().join(format!("abilities-{language}.wasm"));
        if file.is_file() {
            return Some(file);
        }
        skipped(
            Need::Languages,
            format!("no {}; try `cargo xtask policies --lang {language}`", file.display()),
        );
        None
    };
    LANGUAGES.iter().filter_map(file).collect()
}

fn write(dir: &std::path::Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Start of each job, by job.
fn starts(args: &[&str]) -> Vec<(u64, f64)> {
    let csv = cli(&[args, &["-q", "--schedule", "-"]].concat()).ok();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields[0].parse().unwrap(), fields[2].parse().unwrap())
    };
    csv.lines().skip(1).map(row).collect()
}

#[test]
fn many_candidates_at_once_make_the_schedule_of_conservative() {
    let workload = made_up(1200);
    let machine = Machine::from_header(&workload.header).unwrap();
    let loader = Loader::new(Limits::default(), None).unwrap();
    let of = |file: &std::path::Path, config: &[(&str, &str)]| {
        let compiled = loader.compile(&std::fs::read(file).unwrap()).unwrap();
        let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        schedule(&workload, &machine, Box::new(compiled.instantiate(&config).unwrap()))
    };
    let expected = of(&policies().join("conservative.wasm"), &[("renew", "queue")]);
    assert_eq!(expected.len(), workload.jobs.len());
    for file in built() {
        let found = of(&file, &[("use", "many")]);
        let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert!(differs.is_none() && found.len() == expected.len(), "{}: {differs:?}", file.display());
    }
}

#[test]
fn groups_leave_no_core_idle_that_a_waiting_job_could_use() {
    let dir = folder();
    let mut text = "; MaxProcs: 8\n; UnixStartTime: 0\n".to_owned();
    for i in 0..400u32 {
        let (run, cores, user) = (1 + i * 7919 % 100, 1 + i * 31 % 8, 1 + i % 5);
        text += &format!(
            "{} {} -1 {run} {cores} -1 -1 {cores} {run} -1 1 {user} 1 -1 1 -1 -1 -1\n",
            i + 1,
            i * 20
        );
    }
    let log = write(dir.path(), "l.swf", &text);
    for file in built() {
        let policy = format!("{}:use=groups", file.display());
        let said = cli(&["replay", &log, "-q", "--json", "--policy", &policy, "--policy", "fcfs"]).json();
        let of = |run: usize, key: &str| said["runs"][run]["metrics"][key].as_f64().unwrap();
        assert_eq!((of(0, "jobs"), of(0, "loss_of_capacity")), (400.0, 0.0), "{policy}");
        assert!(of(1, "loss_of_capacity") > 0.0, "strict order leaves some idle");
    }
}

#[test]
fn flow_is_kept_below_half_of_what_there_is() {
    let dir = folder();
    let mut text = "; MaxProcs: 8\n; UnixStartTime: 0\n".to_owned();
    for i in 0..60u32 {
        text += &format!("{} {} -1 {} 1 -1 -1 1 100 -1 1 1 1 -1 1 -1 -1 -1\n", i + 1, i * 3, 50 + i % 7);
    }
    let log = write(dir.path(), "l.swf", &text);
    let args = ["replay", &log, "--pool", "power=1000W", "--flow", "power=100W/core"];
    // The most cores in use at one time, and the last start.
    let most = |policy: &str| {
        let starts = starts(&[&args[..], &["--policy", policy]].concat());
        let ends: Vec<(f64, f64)> = starts
            .iter()
            .map(|(job, start)| (*start, start + f64::from(50 + (*job as u32 - 1) % 7)))
            .collect();
        assert_eq!(ends.len(), 60);
        let at = |time: f64| ends.iter().filter(|(from, to)| *from <= time && time < *to).count();
        ends.iter().map(|(from, _)| at(*from)).max().unwrap()
    };
    assert_eq!(most("easy"), 8);
    for file in built() {
        assert_eq!(most(&format!("{}:use=flow", file.display())), 5, "half of 1000 W at 100 W a core");
    }
}

#[test]
fn jobs_that_ask_for_memory_go_first() {
    let dir = folder();
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |parent: Option<&str>, id: &str, more: Value| {
        nodes.push(json!({"id": id, "metadata": more}));
        let edge = |parent| json!({"source": parent, "target": id, "metadata": {"subsystem": "containment"}});
        edges.extend(parent.map(edge));
    };
    add(None, "c", json!({"type": "cluster", "id": 0}));
    add(Some("c"), "n", json!({"type": "node", "id": 0, "rank": 0, "name": "n"}));
    for core in 0..2 {
        add(Some("n"), &format!("c{core}"), json!({"type": "core", "id": core, "rank": 0}));
    }
    add(Some("n"), "m", json!({"type": "memory", "id": 0, "rank": 0, "size": 8, "unit": "GB"}));
    let machine =
        write(dir.path(), "m.json", &json!({"graph": {"nodes": nodes, "edges": edges}}).to_string());
    // Jobs 3 and 4 ask for 1 GB for each processor.
    let line = |id: u32, memory: i32| format!("{id} 0 -1 10 1 -1 -1 1 10 {memory} 1 1 1 1 1 1 -1 -1\n");
    let rows = [line(1, -1), line(2, -1), line(3, 1_000_000), line(4, 1_000_000)];
    let log = write(dir.path(), "l.swf", &rows.concat());
    let args = ["replay", &log, "--machine", &machine, "--map", "memory=requested", "--policy"];
    assert_eq!(starts(&[&args[..], &["fcfs"]].concat()), [(1, 0.0), (2, 0.0), (3, 10.0), (4, 10.0)]);
    for file in built() {
        let policy = format!("{}:use=resources", file.display());
        let found = starts(&[&args[..], &[&policy]].concat());
        assert_eq!(found, [(3, 0.0), (4, 0.0), (1, 10.0), (2, 10.0)], "{policy}");
    }
}

#[test]
fn nodes_are_taken_in_the_order_of_the_scores() {
    let dir = folder();
    let r = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0-1", "children": {"core": "0-1"}}, {"rank": "2-3", "children": {"core": "0-3"}}],
        "nodelist": ["n[0-3]"], "properties": {"last": "2"}, "starttime": 0, "expiration": 0,
    }});
    let machine = write(dir.path(), "m.json", &r.to_string());
    let node =
        "{type: node, count: 1, with: [{type: slot, count: 1, label: s, with: [{type: core, count: 2}]}]}";
    let job = format!(
        "version: 9999\nresources: [{node}]\ntasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\nattributes: {{}}\n"
    );
    let job = write(dir.path(), "job.yaml", &job);
    let lines = write(dir.path(), "lines", &format!("match allocate {job}\n").repeat(4));
    for file in built() {
        let file = file.to_str().unwrap();
        let args = ["resource-query", "-L", &machine, "-f", "rv1exec", "-F", "pretty_simple", "-P", file];
        let mut command = fluxgate(args);
        command.stdin(std::fs::File::open(&lines).unwrap());
        let out = run(command).ok();
        let names = out.split(|c: char| !c.is_ascii_alphanumeric());
        let hosts: Vec<&str> = names.filter(|name| matches!(*name, "n0" | "n1" | "n2" | "n3")).collect();
        // The node with four cores twice, as long as it has two; then those with two; n2 comes last.
        assert_eq!(hosts, ["n3", "n3", "n0", "n1"], "{file}: {out}");
    }
}

#[test]
fn what_is_no_setting_is_refused() {
    let loader = Loader::new(Limits::default(), None).unwrap();
    for file in built() {
        let compiled = loader.compile(&std::fs::read(&file).unwrap()).unwrap();
        let config = [("use".to_owned(), "all".to_owned())].into_iter().collect();
        let why = compiled.instantiate(&config).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(why.contains("`use` must be many, groups, flow or resources"), "{}: {why}", file.display());
    }
}
