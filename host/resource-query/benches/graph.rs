//! The cost of matching on the whole model: loading a machine of 4,320 nodes, matches by every preference, misses, a
//! request of 4,000 slots, and the same match on 64 to 131,072 nodes. Prints tables on standard output, and asserts
//! nothing.
//!
//! If `FLUXGATE_PEER_RESOURCE_QUERY` names a `resource-query` of the graph scheduler of Flux, the same commands are
//! run with it too. Arguments select single measurements, for a profiler: matches by preferences (`-- first
//! locality`), matches with a constraint (`-- constraints`), of racks (`-- racks`), many slots (`-- slots`) or the
//! growing machine (`-- curve`).

#![allow(clippy::print_stdout)]

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use fluxgate_formats::jobspec::{Checks, Jobspec};
use fluxgate_graph::description::Model;
use fluxgate_resource_query::{Matcher, Op, Policy, Request, Setup};

const POLICIES: [&str; 10] =
    ["first", "firstnodex", "low", "lonode", "lonodex", "high", "hinode", "hinodex", "locality", "variation"];
/// Number of matches for one row.
const MATCHES: u64 = 1_000;
/// Rounds in which many slots are allocated, reserved and released.
const SLOTS_ROUNDS: usize = 15;
const NODE_SOCKET_CORES: &str = "{type: slot, count: N, label: s, with: [{type: node, count: 1, with: \
    [{type: socket, count: 1, with: [{type: core, count: 4}]}]}]}";
const RACKS: &str = "{type: rack, count: 2, with: [{type: node, count: 3, with: [{type: slot, count: 1, label: s, \
    with: [{type: socket, count: 1, with: [{type: core, count: 4}]}]}]}]}";
/// Requests that name several types above nodes.
const ABOVE: [(&str, &str); 2] = [
    (
        "a cluster with 2 racks with 3 nodes each",
        "{type: cluster, count: 1, with: [{type: rack, count: 2, with: [{type: node, count: 3, with: [{type: slot, \
         count: 1, label: s, with: [{type: socket, count: 1, with: [{type: core, count: 4}]}]}]}]}]}",
    ),
    (
        "a slot of a rack with 3 nodes",
        "{type: slot, count: 1, label: s, with: [{type: rack, count: 1, with: [{type: node, count: 3, with: \
         [{type: socket, count: 1, with: [{type: core, count: 4}]}]}]}]}",
    ),
];
const IMPOSSIBLE: &str =
    "{type: node, count: 1, with: [{type: slot, count: 1, label: s, with: [{type: core, count: X}]}]}";

/// The keys of a recipe, with their defaults.
fn keys() -> String {
    let node =
        [("root", "int", "0"), ("type", "string", ""), ("basename", "string", ""), ("unit", "string", "")];
    let node = node.into_iter().chain([("size", "long", "1"), ("subsystem", "string", "containment")]);
    let edge = [
        ("e_subsystem", "string", "containment"),
        ("relation", "string", "contains"),
        ("rrelation", "string", "in"),
        ("id_scope", "int", "0"),
        ("id_start", "int", "0"),
        ("id_stride", "int", "1"),
        ("gen_method", "string", "MULTIPLY"),
        ("multi_scale", "int", "1"),
        ("as_tgt_subsystem", "string", "containment"),
        ("as_tgt_uplvl", "int", "1"),
        ("as_src_uplvl", "int", "1"),
    ];
    let all = node.map(|k| ("node", k)).chain(edge.into_iter().map(|k| ("edge", k)));
    all.map(|(what, (key, type_, default))| {
        format!(
            "<key id='{key}' for='{what}' attr.name='{key}' attr.type='{type_}'><default>{default}</default></key>"
        )
    })
    .collect()
}

/// A machine like Sierra: a number of racks of 18 nodes of 2 sockets of 22 cores and 2 memory pools of 64 units, with
/// 4 GPUs and 25 burst buffers for each node, and racks of storage.
fn recipe(racks: u32, storage: u32) -> String {
    let kinds = [
        ("rack", 1, ""),
        ("storage_rack", 1, ""),
        ("storage_node", 1, ""),
        ("node", 1, ""),
        ("socket", 1, ""),
        ("core", 1, ""),
        ("memory", 64, "GB"),
        ("gpu", 1, ""),
        ("bb", 64, "GB"),
        ("gpfs", 60, "TB"),
    ];
    let mut edges = vec![
        ("cluster", "rack", racks, 0),
        ("rack", "node", 18, 1),
        ("node", "socket", 2, 0),
        ("node", "bb", 25, 0),
        ("node", "gpu", 4, 0),
        ("socket", "core", 22, 1),
        ("socket", "memory", 2, 1),
    ];
    if storage > 0 {
        edges.extend([
            ("cluster", "storage_rack", storage, 0),
            ("storage_rack", "storage_node", 64, 1),
            ("storage_node", "gpfs", 2, 1),
        ]);
    }
    let mut text = format!(
        "<?xml version='1.0' encoding='UTF-8'?><graphml xmlns='http://graphml.graphdrawing.org/xmlns'>{}\
         <graph id='g' edgedefault='directed'><node id='cluster'><data key='root'>1</data>\
         <data key='type'>cluster</data><data key='basename'>peak</data></node>",
        keys()
    );
    for (type_, size, unit) in kinds {
        text += &format!(
            "<node id='{type_}'><data key='type'>{type_}</data><data key='basename'>{type_}</data>\
             <data key='size'>{size}</data><data key='unit'>{unit}</data></node>"
        );
    }
    for (from, to, scale, scope) in edges {
        text += &format!(
            "<edge id='{from}-{to}' source='{from}' target='{to}'><data key='multi_scale'>{scale}</data>\
             <data key='id_scope'>{scope}</data></edge>"
        );
    }
    text + "</graph></graphml>"
}

/// Nodes of 4 cores in one row below the cluster.
fn flat(nodes: u32) -> String {
    format!(
        "<graphml><graph id='g' edgedefault='directed'><node id='c'><data key='root'>1</data><data key='type'>cluster\
         </data><data key='basename'>c</data></node><node id='n'><data key='type'>node</data><data key='basename'>node\
         </data></node><node id='k'><data key='type'>core</data><data key='basename'>core</data></node>\
         <edge source='c' target='n'><data key='multi_scale'>{nodes}</data></edge>\
         <edge source='n' target='k'><data key='multi_scale'>4</data></edge></graph></graphml>"
    )
}

fn text(resources: &str) -> String {
    text_where(resources, "{}")
}

fn text_where(resources: &str, constraints: &str) -> String {
    format!(
        "version: 9999\nresources: [{resources}]\ntasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\n\
         attributes: {{system: {{duration: 3600, constraints: {constraints}}}}}\n"
    )
}

fn jobspec(resources: &str) -> Jobspec {
    Jobspec::from_yaml_with(&text(resources), Checks::Scheduling).expect("a jobspec")
}

fn jobspec_where(resources: &str, constraints: &str) -> Jobspec {
    Jobspec::from_yaml_with(&text_where(resources, constraints), Checks::Scheduling).expect("a jobspec")
}

/// Seconds of processor time of this thread.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Peak memory of this process, in MB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn matcher(model: &Model, policy: &str) -> Matcher {
    let setup = Setup { policy: Policy::parse(policy).expect("a policy"), ..Setup::default() };
    Matcher::new(model.clone(), &setup).expect("a matcher")
}

struct Times {
    first: f64,
    median: f64,
    worst: f64,
    cpu: f64,
}

/// Microseconds of a number of runs: the first, the median, the maximum, and the mean processor time of one.
fn times(runs: u64, mut run: impl FnMut(u64)) -> Times {
    let mut all = Vec::new();
    let busy = cpu();
    for index in 0..runs {
        let started = Instant::now();
        run(index);
        all.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let cpu = (cpu() - busy) * 1e6 / runs as f64;
    let first = all[0];
    all.sort_by(f64::total_cmp);
    Times { first, median: all[all.len() / 2], worst: all[all.len() - 1], cpu }
}

fn allocate(matcher: &mut Matcher, request: &Request, runs: u64) -> Times {
    times(runs, |job| {
        matcher.run(request, Op::Allocate, job + 1, 0).expect("it fits");
    })
}

fn load(name: &str, recipe: &str) -> Model {
    let before = peak();
    let mut all: Vec<(f64, f64)> = Vec::new();
    let mut model = Model::new();
    let mut most = 0.0;
    for round in 0..5 {
        drop(std::mem::take(&mut model));
        let (started, busy) = (Instant::now(), cpu());
        model = Model::from_grug(recipe).expect("a recipe");
        all.push((started.elapsed().as_secs_f64(), cpu() - busy));
        if round == 0 {
            most = peak();
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (wall, busy) = all[all.len() / 2];
    let count = model.vertex_count();
    println!("| {name} | {count} | {wall:.3} | {busy:.3} | {:.0} |", most - before);
    model
}

/// Jobs of one round of [`slots`]: one starts now, one is reserved behind it.
const ROUND: [&str; 2] = ["now", "reserved"];

fn slots(model: &Model, asked: impl Fn(&&str) -> bool) {
    println!(
        "\n| allocate-or-reserve of 4,000 slots | policy | first time ms | median ms |\n|--|--|--:|--:|"
    );
    for policy in ["first", "low", "lonode", "high"].into_iter().filter(asked) {
        let mut matcher = matcher(model, policy);
        let request = matcher.compile(&jobspec(&NODE_SOCKET_CORES.replace('N', "4000")));
        let mut took: [Vec<f64>; ROUND.len()] = Default::default();
        for _ in 0..SLOTS_ROUNDS {
            for (job, took) in (1..).zip(&mut took) {
                let started = Instant::now();
                matcher.run(&request, Op::AllocateOrElseReserve, job, 0).expect("it fits");
                took.push(started.elapsed().as_secs_f64() * 1e3);
            }
            for job in (1..).take(ROUND.len()) {
                matcher.cancel(job).expect("it has them");
            }
        }
        for (what, mut took) in ROUND.into_iter().zip(took) {
            let first = took[0];
            took.sort_by(f64::total_cmp);
            println!("| {what} | {policy} | {first:.2} | {:.2} |", took[took.len() / 2]);
        }
    }
}

fn main() {
    let sierra = recipe(240, 24);
    println!("| machine | vertices | load s | CPU s | peak MB |\n|--|--:|--:|--:|--:|");
    let model = load("4,320 nodes", &sierra);
    let slot = jobspec(&NODE_SOCKET_CORES.replace('N', "1"));

    println!("\n| policy | first match us | median us | worst us | CPU us |\n|--|--:|--:|--:|--:|");
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let asked = |name: &str| named.is_empty() || named.iter().any(|n| n == name);
    for policy in POLICIES.into_iter().filter(|p| asked(p)) {
        let mut matcher = matcher(&model, policy);
        let request = matcher.compile(&slot);
        let t = allocate(&mut matcher, &request, MATCHES);
        println!("| {policy} | {:.0} | {:.1} | {:.0} | {:.1} |", t.first, t.median, t.worst, t.cpu);
    }

    if asked("constraints") {
        println!(
            "\n| 1,000 of 4,320 nodes meet it: policy | first match us | median us | CPU us |\n|--|--:|--:|--:|"
        );
        for policy in POLICIES {
            let mut matcher = matcher(&model, policy);
            let spec = jobspec_where(&NODE_SOCKET_CORES.replace('N', "1"), "{hostlist: ['node[1000-1999]']}");
            let request = matcher.compile(&spec);
            let t = allocate(&mut matcher, &request, MATCHES / 2);
            println!("| {policy} | {:.0} | {:.1} | {:.1} |", t.first, t.median, t.cpu);
        }
    }
    if asked("racks") {
        println!(
            "\n| 3 nodes in each of 2 racks: policy | first match us | median us | CPU us |\n|--|--:|--:|--:|"
        );
        for policy in POLICIES {
            let mut matcher = matcher(&model, policy);
            let request = matcher.compile(&jobspec(RACKS));
            let t = allocate(&mut matcher, &request, MATCHES / 10);
            println!("| {policy} | {:.0} | {:.1} | {:.1} |", t.first, t.median, t.cpu);
        }
    }
    if asked("above") {
        println!("\n| request | policy | first match us | median us | CPU us |\n|--|--|--:|--:|--:|");
        for (what, resources) in ABOVE {
            for policy in ["first", "low", "lonode", "lonodex"] {
                let mut matcher = matcher(&model, policy);
                let request = matcher.compile(&jobspec(resources));
                let t = allocate(&mut matcher, &request, MATCHES / 10);
                println!("| {what} | {policy} | {:.0} | {:.1} | {:.1} |", t.first, t.median, t.cpu);
            }
        }
    }
    if asked("slots") {
        let all = !named.iter().any(|n| POLICIES.contains(&n.as_str()));
        slots(&model, |policy| all || asked(policy));
    }
    if named.iter().any(|n| n == "curve") {
        curve();
    }
    if !named.is_empty() {
        return;
    }
    println!("\n| miss | policy | median us | worst us | CPU us |\n|--|--|--:|--:|--:|");
    for policy in ["first", "low", "lonode"] {
        let mut matcher = matcher(&model, policy);
        let busy = matcher.compile(&slot);
        for job in 0..MATCHES {
            matcher.run(&busy, Op::Allocate, job + 1, 0).expect("it fits");
        }
        let requests: Vec<Request> =
            (45..75).map(|n| matcher.compile(&jobspec(&IMPOSSIBLE.replace('X', &n.to_string())))).collect();
        let t = times(requests.len() as u64, |i| {
            matcher.run(&requests[i as usize], Op::Allocate, MATCHES + 1, 0).expect_err("too many cores");
        });
        println!("| new shape | {policy} | {:.2} | {:.1} | {:.2} |", t.median, t.worst, t.cpu);
        let t = times(10_000, |_| {
            matcher.run(&requests[0], Op::Allocate, MATCHES + 1, 0).expect_err("too many cores");
        });
        println!("| known shape | {policy} | {:.2} | {:.1} | {:.2} |", t.median, t.worst, t.cpu);
    }

    drop(model);

    curve();
    peer(&sierra);
}

/// The same match on growing numbers of nodes.
fn curve() {
    println!(
        "\n| nodes | low median us | lonode median us | first median us | miss, new shape us | low, 64 nodes meet a \
         constraint us | first, so | miss, so |\n|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    let cores =
        "{type: slot, count: 1, label: s, with: [{type: node, count: 1, with: [{type: core, count: 2}]}]}";
    for nodes in [64, 512, 4_096, 32_768, 131_072] {
        let model = Model::from_grug(&flat(nodes)).expect("a recipe");
        let medians = ["low", "lonode", "first"].map(|policy| {
            let mut matcher = matcher(&model, policy);
            let request = matcher.compile(&jobspec(cores));
            allocate(&mut matcher, &request, 60).median
        });
        let hosts = "{hostlist: ['node[0-63]']}";
        let [low_there, first_there] = ["low", "first"].map(|policy| {
            let mut matcher = matcher(&model, policy);
            let request = matcher.compile(&jobspec_where(cores, hosts));
            allocate(&mut matcher, &request, 60).median
        });
        let mut matcher = matcher(&model, "low");
        let requests: Vec<Request> =
            (5..25).map(|n| matcher.compile(&jobspec(&IMPOSSIBLE.replace('X', &n.to_string())))).collect();
        let miss = times(requests.len() as u64, |i| {
            matcher.run(&requests[i as usize], Op::Allocate, 1, 0).expect_err("too many cores");
        });
        let requests: Vec<Request> = (5..25)
            .map(|n| matcher.compile(&jobspec_where(&IMPOSSIBLE.replace('X', &n.to_string()), hosts)))
            .collect();
        let miss_there = times(requests.len() as u64, |i| {
            matcher.run(&requests[i as usize], Op::Allocate, 1, 0).expect_err("too many cores");
        });
        let [low, lonode, first] = medians;
        println!(
            "| {nodes} | {low:.1} | {lonode:.1} | {first:.1} | {:.1} | {low_there:.1} | {first_there:.1} | {:.1} |",
            miss.median, miss_there.median
        );
    }
}

/// The same commands with the graph scheduler's own tool: the time that it prints for each match; for misses, for
/// which it prints none, the additional time of the session.
fn peer(sierra: &str) {
    let Some(tool) = std::env::var_os("FLUXGATE_PEER_RESOURCE_QUERY") else { return };
    let home = std::env::temp_dir().join(format!("fluxgate-graph-bench-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a directory");
    let file = |name: &str, text: &str| {
        let path = home.join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let graph = file("graph.graphml", sierra);
    let one = file("one.yaml", &text(&NODE_SOCKET_CORES.replace('N', "1")));
    let many = file("many.yaml", &text(&NODE_SOCKET_CORES.replace('N', "4000")));
    let never = file("never.yaml", &text(&IMPOSSIBLE.replace('X', "45")));
    // Seconds of the session, and of each match in its output.
    let ask = |policy: &str, commands: &str| -> Option<(f64, Vec<f64>)> {
        let started = Instant::now();
        let mut child = Command::new(&tool)
            .args(["-L", &graph, "-f", "grug", "-S", "CA", "-P", policy, "-F", "rlite", "-e"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        // A tool that ends early has missing output.
        let _ = child.stdin.take()?.write_all(format!("{commands}quit\n").as_bytes());
        let out = child.wait_with_output().ok()?;
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let told = |l: &str| l.split("ELAPSE=").nth(1)?.trim_matches('"').trim().parse().ok();
        Some((started.elapsed().as_secs_f64(), said.lines().filter_map(told).collect()))
    };
    println!(
        "\n| peer: policy | load s | match median ms | miss ms | 4,000 slots ms |\n|--|--:|--:|--:|--:|"
    );
    for policy in ["first", "low", "lonode", "locality"] {
        let matches = format!("match allocate {one}\n").repeat(11);
        let misses = format!("match allocate {never}\n").repeat(20);
        let slots = format!("match allocate_orelse_reserve {many}\n");
        let answers = (ask(policy, ""), ask(policy, &matches), ask(policy, &misses), ask(policy, &slots));
        let (Some((load, _)), Some((_, mut took)), Some((missing, _)), Some((_, slots))) = answers else {
            println!("| {policy} | {} does not answer | | | |", tool.display());
            continue;
        };
        took.sort_by(f64::total_cmp);
        let [one, many] = [took.get(took.len() / 2), slots.first()].map(|t| t.map_or(f64::NAN, |t| t * 1e3));
        println!("| {policy} | {load:.2} | {one:.3} | {:.3} | {many:.1} |", (missing - load).max(0.0) * 50.0);
    }
    // Best effort: a directory of this process below the one for temporary files.
    let _ = std::fs::remove_dir_all(&home);
}
