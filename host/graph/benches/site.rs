//! The cost of a site's graph: a generated machine of 720 chassis, each with 36 vertices of storage and 16 nodes of
//! 96 cores and 4 gpus (1.19 million vertices). Measures loading it, matching a node with storage beside it, misses,
//! and the marks that a storage service sets when it starts. Prints a table on standard output, and asserts nothing.
//!
//! An argument sets the number of chassis.

#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use fluxgate_formats::rset::R;
use fluxgate_formats::{JobId, Jobspec};
use fluxgate_graph::{Placement, Request, Resources};

const SSDS: u32 = 36;
const NODES: u32 = 16;
const CORES: u32 = 96;
const GPUS: u32 = 4;

/// R of the machine with its graph in sparse form; storage is down.
fn text(chassis: u32) -> String {
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
                    r#""type":"ssd","unit":"GiB","size":616,"status":1,"paths":{{"containment":"{path}/ssd{s}"}}"#
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
    let last = chassis * NODES - 1;
    format!(
        r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"0-{last}","children":{{"core":"0-{}","gpu":"0-{}"}}}}],"nodelist":["n[0-{last}]"],"starttime":0,"expiration":0}},"scheduling":{{"graph":{{"nodes":[{nodes}],"edges":[{edges}]}}}}}}"#,
        CORES - 1,
        GPUS - 1
    )
}

/// Peak memory of the process, in MB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
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

fn ask(machine: &mut Resources, resources: &str) -> Arc<Request> {
    let text = format!(
        r#"{{"version":1,"resources":[{resources}],"attributes":{{"system":{{"duration":3600}}}},"tasks":[{{"command":["a"],"slot":"task","count":{{"per_slot":1}}}}]}}"#
    );
    let jobspec = Jobspec::from_json(&text).expect("a jobspec");
    machine.compile(&jobspec).expect("a request")
}

fn start(machine: &mut Resources, request: &Request, id: u64) -> bool {
    let Ok(found) = machine.match_now(request, 0.0, 3600.0, Placement::First) else { return false };
    machine.allocate_owned(JobId(id), found, 0.0, 3600.0).is_ok()
}

fn main() {
    let chassis = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(720);
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

    let slot = r#"{"type":"slot","count":1,"label":"task","with":[{"type":"core","count":1}]}"#;
    let node = format!(r#"{{"type":"node","count":1,"exclusive":true,"with":[{slot}]}}"#);
    let beside = format!(
        r#"{{"type":"slot","count":1,"label":"rabbit","with":[{node},{{"type":"ssd","count":10,"exclusive":true}}]}}"#
    );
    let (plain, beside) = (ask(&mut machine, &node), ask(&mut machine, &beside));
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
    let (started, us) = fill(&mut machine, &plain, jobs);
    println!("match and allocate a node              {us:>9.1} us  (mean of {started})");
}
