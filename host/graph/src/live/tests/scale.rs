//! Times of calls as machines grow. Prints a table; run it in release mode:
//! `cargo test --release -p fluxgate-graph --lib scale -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use super::*;

fn timed<T>(mut f: impl FnMut() -> T) -> Duration {
    let _ = f();
    let runs = 21;
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let t = Instant::now();
            std::hint::black_box(f());
            t.elapsed()
        })
        .collect();
    times.sort();
    times[runs / 2]
}

/// Nodes of two sockets with 22 cores, 2 gpus and 32 units of memory each, in racks of 64, as JGF.
fn sockets(nodes: u32) -> String {
    let mut v: Vec<String> = Vec::new();
    let mut e: Vec<String> = Vec::new();
    let mut next = 0u32;
    let mut add =
        |v: &mut Vec<String>, e: &mut Vec<String>, parent: Option<u32>, type_: &str, more: String| {
            let id = next;
            next += 1;
            v.push(format!(r#"{{"id":"{id}","metadata":{{"type":"{type_}"{more}}}}}"#));
            if let Some(parent) = parent {
                e.push(format!(r#"{{"source":"{parent}","target":"{id}"}}"#));
            }
            id
        };
    let root = add(&mut v, &mut e, None, "cluster", String::new());
    let mut rack = root;
    for n in 0..nodes {
        if n % 64 == 0 {
            rack = add(&mut v, &mut e, Some(root), "rack", format!(r#","id":{}"#, n / 64));
        }
        let node = add(&mut v, &mut e, Some(rack), "node", format!(r#","id":{n},"rank":{n}"#));
        for s in 0..2 {
            let socket = add(&mut v, &mut e, Some(node), "socket", format!(r#","id":{s}"#));
            for c in 0..22 {
                add(&mut v, &mut e, Some(socket), "core", format!(r#","id":{}"#, s * 22 + c));
            }
            for g in 0..2 {
                add(&mut v, &mut e, Some(socket), "gpu", format!(r#","id":{}"#, s * 2 + g));
            }
            add(&mut v, &mut e, Some(socket), "memory", r#","size":32"#.to_owned());
        }
    }
    format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, v.join(","), e.join(","))
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap_or("0");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "measures"]
#[expect(clippy::print_stdout, reason = "it prints a table")]
fn scale() {
    for n in [64u32, 1024, 4320, 16384, 131_072] {
        let spec = cluster(1, 44, 4).to_r_all();
        let mut r = spec.clone();
        r.r_lite[0].rank = Idset::from(0..=n - 1);
        r.nodelist = format!("n[0-{}]", n - 1).parse().unwrap();
        let before = resident_kb();
        let t = Instant::now();
        let mut m = Resources::from_r(&r).unwrap();
        let load = t.elapsed();
        m.set_up(&Idset::from(0..=n - 1));
        println!("== {n} nodes from R: load {load:?}, {} MB", (resident_kb().saturating_sub(before)) / 1024);
        let four = cores(&mut m, 1, 4);
        let whole = nodes(&mut m, 1);
        // A thousand jobs of different sizes on the first nodes.
        for id in 0..(n / 2).min(1000) {
            let odd = cores(&mut m, 1, 1 + id * 7 % 44);
            start(&mut m, 100 + u64::from(id), &odd, 0.0, 100.0 + f64::from(id), Placement::First).unwrap();
        }
        for placement in Placement::ALL {
            let t4 = timed(|| m.match_now(&four, 0.0, 50.0, placement).unwrap());
            let tw = timed(|| m.match_now(&whole, 0.0, 50.0, placement).unwrap());
            println!("   {:7} 4 cores {t4:?}, whole node {tw:?}", placement.name());
        }
        let found = m.match_now(&four, 0.0, 50.0, Placement::First).unwrap();
        let book = timed(|| {
            m.allocate(JobId(1), &found, 0.0, 50.0).unwrap();
            m.release(JobId(1), None).unwrap();
        });
        println!("   allocate + release {book:?}");
        // A full machine.
        let idle = m.totals().free_nodes;
        let all = nodes(&mut m, idle);
        let fill = m.match_now(&all, 0.0, 5000.0, Placement::First);
        if let Ok(found) = fill {
            m.allocate(JobId(2), &found, 0.0, 5000.0).unwrap();
        }
        let mut k = 0;
        let specs: Vec<_> = (0..40).map(|i| cores(&mut m, 45 + i, 44)).collect();
        let miss = timed(|| {
            k += 1;
            m.match_now(&specs[k % 40], 0.0, 50.0, Placement::First).unwrap_err()
        });
        let known = timed(|| m.match_now(&specs[0], 0.0, 50.0, Placement::First).unwrap_err());
        let mut k = 0;
        let early = timed(|| {
            k += 1;
            m.earliest(&specs[k % 40], 0.0, 50.0)
        });
        let count = cores(&mut m, n * 44 / 2, 1);
        let mut k = 0.0;
        let early1 = timed(|| {
            k += 1.0;
            m.earliest(&count, 0.0, k)
        });
        println!("   miss new {miss:?}, known {known:?}; earliest slots {early:?}, cores {early1:?}");
        m.reserve(JobId(7), &count, 700.0, 50.0).unwrap();
        let one = cores(&mut m, 1, 1);
        let mut k = 0u64;
        let fill = timed(|| {
            k += 1;
            match m.match_now(&one, 0.0, 5000.0, Placement::First) {
                Ok(found) => m.allocate(JobId(10_000 + k), &found, 0.0, 5000.0).is_ok(),
                Err(_) => false,
            }
        });
        println!("   backfill beside a reservation {fill:?}");
    }
    for n in [1024u32, 4320, 131_072] {
        backfill(n);
    }
    for n in [64u32, 1024, 4320] {
        let text = sockets(n);
        let before = resident_kb();
        let t = Instant::now();
        let mut m = Resources::from_jgf(&text).unwrap();
        println!(
            "== {n} nodes of sockets from JGF ({} MB): load {:?}, {} MB",
            text.len() >> 20,
            t.elapsed(),
            (resident_kb().saturating_sub(before)) / 1024
        );
        m.set_up(&Idset::from(0..=n - 1));
        let spec = |cores: u32| {
            jobspec(&format!(
                r#"[{{"type":"node","count":1,"with":[{{"type":"socket","count":1,"with":[{{"type":"slot","label":"x","count":1,"with":[{{"type":"core","count":{cores}}}]}}]}}]}}]"#
            ))
        };
        let four = m.compile(&spec(4)).unwrap();
        for placement in Placement::ALL {
            let t4 = timed(|| m.match_now(&four, 0.0, 50.0, placement).unwrap());
            println!("   {:7} node+socket+4 cores {t4:?}", placement.name());
        }
        let t = Instant::now();
        let mut count = 0u64;
        while count < 4000 {
            let Ok(found) = m.match_now(&four, 0.0, 50.0, Placement::First) else { break };
            count += 1;
            m.allocate(JobId(count), &found, 0.0, 50.0).unwrap();
        }
        println!("   {count} slots one by one {:?}", t.elapsed());
        let specs: Vec<_> = (23..44).map(|c| m.compile(&spec(c)).unwrap()).collect();
        let mut k = 0;
        let miss = timed(|| {
            k += 1;
            m.match_now(&specs[k % specs.len()], 0.0, 50.0, Placement::First).unwrap_err()
        });
        let racks = m
            .compile(&jobspec(
                r#"[{"type":"rack","count":1,"with":[{"type":"node","count":65,"with":[{"type":"slot","label":"x","count":1,"with":[{"type":"core","count":1}]}]}]}]"#,
            ))
            .unwrap();
        let t = Instant::now();
        let busy = m.match_now(&racks, 0.0, 50.0, Placement::First).is_err();
        println!("   miss new {miss:?}; racks of 65 nodes (missed: {busy}) {:?}", t.elapsed());
    }
}

/// EASY with whole nodes: a full machine of a thousand jobs, a wide head with a reservation, and small jobs behind
/// it.
#[expect(clippy::print_stdout, reason = "it prints a table")]
fn backfill(n: u32) {
    let mut m = cluster(n, 16, 0);
    let per = n / 1000 + 1;
    let mut id = 0u64;
    while m.totals().free_nodes > n / 10 {
        id += 1;
        let request = nodes(&mut m, per);
        start(&mut m, id, &request, 0.0, 100.0 + (id * 37 % 1000) as f64, Placement::First).unwrap();
    }
    let head = nodes(&mut m, n / 2);
    let t = Instant::now();
    let at = m.earliest(&head, 0.0, 500.0).unwrap();
    let early = t.elapsed();
    m.reserve(JobId(900_000), &head, at, 500.0).unwrap();
    let small = nodes(&mut m, 1);
    let t = Instant::now();
    let first = m.match_now(&small, 0.0, 2000.0, Placement::First).is_ok();
    let plan = t.elapsed();
    let mut k = 0;
    let t = Instant::now();
    while k < 200 {
        let Ok(found) = m.match_now(&small, 0.0, 2000.0, Placement::First) else { break };
        k += 1;
        m.allocate(JobId(1_000_000 + k), &found, 0.0, 2000.0).unwrap();
    }
    let each = t.elapsed() / (k as u32).max(1);
    let free = m.totals().free_nodes;
    let wide = nodes(&mut m, free);
    let miss = Instant::now();
    let refused = m.match_now(&wide, 0.0, 2000.0, Placement::First).is_err();
    let miss = miss.elapsed();
    let again = timed(|| m.match_now(&wide, 0.0, 2000.0, Placement::First).is_err());
    let t = Instant::now();
    let later = m.earliest(&wide, 0.0, 2000.0);
    println!(
        "== backfill on {n} nodes, {id} jobs: earliest {early:?}, first match with plan {plan:?} ({first}), then {each:?} a start ({k}); \
         delaying ({refused}) {miss:?}, again {again:?}; its earliest {:?} ({later:?})",
        t.elapsed()
    );
}
