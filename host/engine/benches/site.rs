//! The cost of a site's graph: a generated machine of 720 chassis, each with 36 vertices of storage and 16 nodes of
//! 96 cores and 4 gpus (1.19 million vertices). Measures loading it, matching a node with storage beside it, misses,
//! the marks that a storage service sets when it starts, and the time until a job that waits for storage starts. Prints a
//! table on standard output, and asserts nothing.
//!
//! A number as an argument sets the number of chassis; `--beside PROGRAM` runs the graph scheduler's tool `resource-query` on the
//! same machine and jobs.

#![allow(clippy::print_stdout)]

mod peer;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fluxgate_engine::{Action, Config, Engine, Event};
use fluxgate_formats::rset::R;
use fluxgate_formats::{JobId, Jobspec};
use fluxgate_graph::{Placement, Request, Resources};

use peer::Peer;

const SSDS: u32 = 36;
const NODES: u32 = 16;
const CORES: u32 = 96;
const GPUS: u32 = 4;

/// Jobs that wait for storage.
const WAITING: u64 = 1000;
/// A node, and storage beside it.
const BESIDE: u64 = 10;
/// More storage than a chassis has.
const TOO_MUCH: u64 = 616 * SSDS as u64 + 1;

/// The graph of the machine in sparse form, with this status of storage: 1 is down.
fn graph(chassis: u32, status: u32) -> String {
    let mut nodes = String::from(
        r#"{"id":"0","metadata":{"type":"cluster","name":"site","paths":{"containment":"/site"}}}"#,
    );
    let mut edges = String::new();
    let mut next = 0;
    let mut add = |parent: u32, data: std::fmt::Arguments<'_>| {
        next += 1;
        let _ = write!(nodes, r#",{{"id":"{next}","metadata":{{{data}}}}}"#);
        let comma = if edges.is_empty() { "" } else { "," };
        let _ = write!(edges, r#"{comma}{{"source":"{parent}","target":"{next}"}}"#);
        next
    };
    for c in 0..chassis {
        let path = format!("/site/chassis{c}");
        let it = add(
            0,
            format_args!(
                r#""type":"chassis","id":{c},"properties":{{"rabbit":"r{c}","ssdcount":"36"}},"paths":{{"containment":"{path}"}}"#
            ),
        );
        for s in 0..SSDS {
            add(
                it,
                format_args!(
                    r#""type":"ssd","id":{s},"unit":"GiB","size":616,"status":{status},"paths":{{"containment":"{path}/ssd{s}"}}"#
                ),
            );
        }
        for n in 0..NODES {
            let rank = c * NODES + n;
            let path = format!("{path}/n{rank}");
            let node = add(
                it,
                format_args!(
                    r#""type":"node","name":"n{rank}","rank":{rank},"properties":{{"pbatch":""}},"paths":{{"containment":"{path}"}}"#
                ),
            );
            for (type_, count) in [("core", CORES), ("gpu", GPUS)] {
                for id in 0..count {
                    add(
                        node,
                        format_args!(
                            r#""type":"{type_}","id":{id},"rank":{rank},"paths":{{"containment":"{path}/{type_}{id}"}}"#
                        ),
                    );
                }
            }
        }
    }
    format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{edges}]}}}}"#)
}

/// R of the machine with its graph; storage is down.
fn text(chassis: u32) -> String {
    let (last, graph) = (chassis * NODES - 1, graph(chassis, 1));
    format!(
        r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"0-{last}","children":{{"core":"0-{}","gpu":"0-{}"}}}}],"nodelist":["n[0-{last}]"],"starttime":0,"expiration":0}},"scheduling":{graph}}}"#,
        CORES - 1,
        GPUS - 1
    )
}

/// Peak memory of the process, in MB.
fn peak() -> u64 {
    peak_of("self")
}

fn peak_of(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Microseconds of one call, the median of five rounds.
fn each(times: u32, mut one: impl FnMut(u32)) -> f64 {
    let mut rounds: Vec<f64> = (0..5)
        .map(|_| {
            let begin = Instant::now();
            (0..times).for_each(&mut one);
            begin.elapsed().as_secs_f64() * 1e6 / f64::from(times)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[2]
}

/// A jobspec of an exclusive node, with this much storage beside it.
fn jobspec(gib: Option<u64>) -> String {
    let slot = r#"{"type":"slot","count":1,"label":"task","with":[{"type":"core","count":1}]}"#;
    let node = format!(r#"{{"type":"node","count":1,"exclusive":true,"with":[{slot}]}}"#);
    let resources = match gib {
        None => node,
        Some(gib) => format!(
            r#"{{"type":"slot","count":1,"label":"rabbit","with":[{node},{{"type":"ssd","count":{gib},"exclusive":true}}]}}"#
        ),
    };
    format!(
        r#"{{"version":1,"resources":[{resources}],"attributes":{{"system":{{"duration":3600}}}},"tasks":[{{"command":["a"],"slot":"task","count":{{"per_slot":1}}}}]}}"#
    )
}

fn ask(machine: &mut Resources, gib: Option<u64>) -> Arc<Request> {
    machine.compile(&Jobspec::from_json(&jobspec(gib)).expect("a jobspec")).expect("a request")
}

fn start(machine: &mut Resources, request: &Request, id: u64) -> bool {
    let Ok(found) = machine.match_now(request, 0.0, 3600.0, Placement::First) else { return false };
    machine.allocate_owned(JobId(id), found, 0.0, 3600.0).is_ok()
}

/// Jobs wait for storage that is down, and vertices come up one by one: microseconds from the mark to the start of a job, the
/// median and the 99th percentile.
fn storage_comes_up(mut machine: Resources, paths: &[String], waiting: u64) -> (f64, f64) {
    for path in paths {
        machine.set_vertex_status(path, false).expect("the path is there");
    }
    let mut engine = Engine::new(machine, Config::default());
    let jobspec = Arc::new(Jobspec::from_json(&jobspec(Some(BESIDE))).expect("a jobspec"));
    for id in 1..=waiting {
        let jobspec = jobspec.clone();
        drop(
            engine.step(Event::Alloc { id: JobId(id), priority: 16, userid: 1, t_submit: 0.0, jobspec }, 0.0),
        );
    }
    drop(engine.pass(0.0));
    assert_eq!(engine.pending() as u64, waiting);
    // One vertex of each chassis after the other, so that there is always a node beside it.
    let in_turn = (0..SSDS as usize).flat_map(|ssd| paths.iter().skip(ssd).step_by(SSDS as usize));
    let mut all: Vec<f64> = in_turn
        .take(waiting as usize)
        .map(|path| {
            let begin = Instant::now();
            let marked = engine.step(Event::VertexStatus { paths: vec![path.clone()], up: true }, 1.0);
            let actions = engine.pass(1.0);
            let us = begin.elapsed().as_secs_f64() * 1e6;
            let started = |action: &&Action| matches!(action, Action::Start { .. });
            assert_eq!(marked.iter().chain(&actions).filter(started).count(), 1, "a job starts");
            us
        })
        .collect();
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[all.len() * 99 / 100])
}

/// The same jobs on the same machine, all storage up, with the graph scheduler's tool.
fn beside_peer(program: &Path, chassis: u32, jobs: u64) {
    let mut peer = Peer::start(program, &graph(chassis, 0));
    println!(
        "\ngraph scheduler: text to machine       {:>9.2} s, most memory {} MB",
        peer.load_s(),
        peer.peak()
    );
    let fill = |peer: &mut Peer, gib: Option<u64>, jobs: u64| {
        let jobspec = jobspec(gib);
        let all: Vec<f64> = (0..jobs)
            .map_while(|_| Some(peer.allocate(&jobspec)).filter(|(found, _)| *found).map(|(_, us)| us))
            .collect();
        (all.len(), all.iter().sum::<f64>() / all.len().max(1) as f64)
    };
    let (started, us) = fill(&mut peer, Some(BESIDE), jobs);
    println!(
        "match and allocate a node with storage {us:>9.1} us  (mean of {started}, until the machine is full)"
    );
    let miss = |peer: &mut Peer, gib: u64| {
        let jobspec = jobspec(Some(gib));
        let mut all: Vec<(bool, f64)> = (0..5).map(|_| peer.allocate(&jobspec)).collect();
        assert!(all.iter().all(|(found, _)| !found), "it does not fit");
        all.sort_by(|one, other| one.1.total_cmp(&other.1));
        all[2].1
    };
    println!("miss on the full machine               {:>9.1} us", miss(&mut peer, BESIDE));
    println!(
        "cancel                                 {:>9.1} us  (with the pipe)",
        peer.cancel(1..=started as u64)
    );
    println!("miss of more than a chassis has        {:>9.1} us", miss(&mut peer, TOO_MUCH));
    let (started, us) = fill(&mut peer, None, jobs.min(WAITING));
    println!("match and allocate a node              {us:>9.1} us  (mean of {started})");
    println!("most memory                            {:>9} MB", peer.peak());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chassis = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(720);
    let beside_at = arguments.iter().position(|argument| argument == "--beside");
    let program = beside_at.and_then(|at| arguments.get(at + 1));
    let text = text(chassis);
    println!("{chassis} chassis, {} nodes; the text has {} MB", chassis * NODES, text.len() >> 20);
    let before = peak();
    let begin = Instant::now();
    let r = R::from_json(&text).expect("R");
    let read = begin.elapsed();
    let size = text.len() >> 20;
    drop(text);
    let mut machine = Resources::from_r(&r).expect("a machine");
    let all = begin.elapsed();
    drop(r);
    println!("text to R                              {:>9.2} s", read.as_secs_f64());
    println!("text to machine                        {:>9.2} s", all.as_secs_f64());
    println!("most memory ({size} MB of it the text; {before} MB before) {:>5} MB", peak());
    machine.set_up(&machine.graph().ranks());

    let (plain, beside) = (ask(&mut machine, None), ask(&mut machine, Some(BESIDE)));
    println!(
        "first miss, all storage down           {:>9.1} us",
        each(1, |_| assert!(!start(&mut machine, &beside, 1)))
    );
    println!(
        "known miss                             {:>9.3} us",
        each(100_000, |_| assert!(machine.is_known_miss(&beside)))
    );

    let paths: Vec<String> =
        (0..chassis).flat_map(|c| (0..SSDS).map(move |s| format!("/site/chassis{c}/ssd{s}"))).collect();
    let begin = Instant::now();
    for path in &paths {
        machine.set_vertex_status(path, true).expect("the path is there");
    }
    let count = paths.len() as f64;
    println!(
        "set_status, each of {count}             {:>9.3} us",
        begin.elapsed().as_secs_f64() * 1e6 / count
    );

    let fill = |machine: &mut Resources, request: &Request, jobs: u64| {
        let begin = Instant::now();
        let started = (0..jobs).filter(|id| start(machine, request, 1 + id)).count();
        (started, begin.elapsed().as_secs_f64() * 1e6 / started.max(1) as f64)
    };
    let jobs = u64::from(chassis * NODES);
    let (started, us) = fill(&mut machine, &beside, jobs);
    println!(
        "match and allocate a node with storage {us:>9.1} us  (mean of {started}, until the machine is full)"
    );
    println!(
        "miss on the full machine               {:>9.1} us",
        each(1, |_| {
            machine.set_vertex_status("/site/chassis0/ssd0", false).expect("the path is there");
            machine.set_vertex_status("/site/chassis0/ssd0", true).expect("the path is there");
            assert!(!start(&mut machine, &beside, jobs + 1));
        })
    );
    let begin = Instant::now();
    (0..started as u64).for_each(|id| drop(machine.release(JobId(1 + id), None)));
    println!(
        "release                                {:>9.1} us",
        begin.elapsed().as_secs_f64() * 1e6 / started as f64
    );
    let too_much = ask(&mut machine, Some(TOO_MUCH));
    println!(
        "miss of more than a chassis has        {:>9.3} us",
        each(1000, |_| assert!(!start(&mut machine, &too_much, jobs + 1)))
    );
    let (started, us) = fill(&mut machine, &plain, jobs);
    println!("match and allocate a node              {us:>9.1} us  (mean of {started})");
    (0..started as u64).for_each(|id| drop(machine.release(JobId(1 + id), None)));
    let waiting = WAITING.min(jobs);
    let (median, most) = storage_comes_up(machine, &paths, waiting);
    println!(
        "{waiting} wait, one vertex comes up          {median:>9.1} us to a start  (99th percentile {most:.1})"
    );
    if let Some(program) = program {
        beside_peer(Path::new(program), chassis, jobs);
    }
}
