//! Answers of an instance of any size, made by counting: the same for the same size.

use std::fmt::Write as _;

use fluxgate_web::{Asking, Refused, Source};
use serde_json::{Value, json};

/// The time of the instance, seconds since the epoch.
pub(crate) const NOW: f64 = 1_763_900_000.0;

/// A machine and its jobs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) nodes: u64,
    pub(crate) running: u64,
    pub(crate) ended: u64,
    pub(crate) waiting: u64,
    /// Answers to guests: no job of another user is told.
    pub(crate) private: bool,
}

/// A small machine with some of everything.
pub(crate) const SMALL: Made = Made { nodes: 16, running: 5, ended: 6, waiting: 7, private: false };

const CORES: u64 = 32;
const QUEUES: [&str; 2] = ["batch", "debug"];

/// Numbers that look mixed.
fn mixed(n: u64, below: u64) -> u64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % below.max(1)
}

fn id(n: u64) -> u64 {
    4_000_000_000_000 + n * 16_777_216
}

impl Made {
    /// First node and number of nodes of a job that runs: all but the last eighth of the machine.
    fn place(&self, n: u64) -> (u64, u64) {
        let room = self.nodes * 7 / 8;
        let wide = (room / self.running.max(1)).max(1);
        ((n * wide) % room.max(1), wide)
    }

    fn job(&self, n: u64, ended: bool) -> Value {
        let (first, wide) = self.place(n);
        let last = (first + wide - 1).min(self.nodes - 1);
        let start = if ended { NOW - 4000.0 - mixed(n, 9000) as f64 } else { NOW - mixed(n, 3500) as f64 };
        let limit = 3600.0 * (1 + mixed(n + 7, 4)) as f64;
        let span = |a: u64, b: u64| if a == b { a.to_string() } else { format!("{a}-{b}") };
        let hosts = if first == last { format!("n{first}") } else { format!("n[{}]", span(first, last)) };
        let mut job = json!({
            "id": id(n + if ended { 1_000_000 } else { 0 }), "userid": 5000 + mixed(n, 4), "queue": QUEUES[(n % 2) as usize],
            "name": format!("run-{n}"), "state": if ended { 64 } else { 16 }, "nnodes": last - first + 1,
            "ncores": (last - first + 1) * CORES, "ranks": span(first, last), "nodelist": hosts,
            "t_submit": start - 60.0 * mixed(n, 50) as f64, "t_run": start, "expiration": start + limit, "duration": limit,
        });
        if ended {
            job["t_cleanup"] = (start + 600.0 + mixed(n, 2400) as f64).into();
            job["result"] = [1, 1, 2, 8, 1, 4][(n % 6) as usize].into();
        }
        job
    }

    fn waiting(&self, n: u64) -> Value {
        let wide = 1 + mixed(n, self.nodes / 4);
        let reserved = n == 0;
        let (kind, reason) = match (n, mixed(n, 3)) {
            (0, _) => ("reserved", "first in line, has a reserved start".to_owned()),
            (_, 0) => ("delays", format!("would delay the reserved start of {}", "ƒ1")),
            (_, _) => ("busy", format!("insufficient resources: needs {wide} nodes")),
        };
        json!({
            "id": id(n + 2_000_000), "queue": QUEUES[(n % 2) as usize], "userid": 5000 + mixed(n, 4), "priority": 16,
            "t_submit": NOW - 30.0 * (n + 1) as f64, "duration": if n % 5 == 4 { Value::Null } else { json!(3600.0) },
            "nodes": wide, "cores": wide * CORES, "key": null, "ahead": n, "reason": reason, "reason_kind": kind,
            "expected": if n % 7 == 6 { Value::Null } else { json!(NOW + 900.0 + 240.0 * n as f64) },
            "as": if reserved { "reserved" } else { "forecast" },
        })
    }

    /// Some of every kind; on a large machine as many as there may be.
    fn reservations(&self) -> Vec<Value> {
        let one = |n: u64| {
            let start = NOW - 3600.0 + 1800.0 * n as f64;
            let maintenance = n.is_multiple_of(2);
            let users = if self.private { Value::Null } else { json!([5001, 5002]) };
            let count = if n == 1 { 6 } else { 0 };
            let state = ["active", "degraded", "planned", "planned", "over"][(n % 5) as usize];
            json!({
                "name": format!("dat-{n}"), "kind": if maintenance { "maintenance" } else { "dedicated" },
                "state": state,
                "start": if n % 5 == 4 { Value::Null } else { json!(start) },
                "end": if n % 5 == 4 { Value::Null } else { json!(start + 7200.0) },
                "occurrences": [[start, start + 7200.0], [start + 86_400.0, start + 93_600.0]],
                "nodelist": format!("n[{}]", (0..8).map(|k| (k * 2 + n).to_string()).collect::<Vec<_>>().join(",")), "nodes": 8,
                "ranks": (0..8).map(|k| (k * 2 + n).to_string()).collect::<Vec<_>>().join(","),
                "who": {"users": users, "queues": QUEUES[..(n % 3) as usize], "magnetic": false},
                "repeat": if n < 2 { json!({"every": "daily", "zone": "UTC", "until": 0.0}) } else { Value::Null },
                "note": "<b>chilled</b> water ".repeat(count + 1).trim(),
            })
        };
        (0..if self.nodes > 100 { 1024 } else { 5 }).map(one).collect()
    }

    fn r(&self, from: u64, count: u64, cores: u64) -> Value {
        if count == 0 {
            return Value::Null;
        }
        let (last, core) = (from + count - 1, format!("0-{}", cores - 1));
        let ranks = if count == 1 { from.to_string() } else { format!("{from}-{last}") };
        json!({
            "version": 1,
            "execution": {
                "R_lite": [{"rank": ranks, "children": {"core": core}}],
                "starttime": 0.0, "expiration": 0.0, "nodelist": [format!("n[{ranks}]")],
            },
        })
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        for (queue, reason, count) in [
            ("batch", "busy", self.waiting / 2),
            ("debug", "delays", self.waiting / 3),
            ("batch", "reserved", 1),
        ] {
            let _ =
                writeln!(text, "fluxgate_jobs_pending{{queue=\"{queue}\",reason=\"{reason}\"}} {count}.0");
        }
        let (out, held) = (self.nodes / 16 + 1, self.nodes * 7 / 8);
        for (state, nodes) in [("free", self.nodes - held - out), ("allocated", held), ("down", out)] {
            let _ = writeln!(text, "fluxgate_nodes{{state=\"{state}\"}} {nodes}.0");
            let _ = writeln!(text, "fluxgate_cores{{state=\"{state}\"}} {}.0", nodes * CORES);
        }
        for queue in QUEUES {
            let _ = writeln!(text, "fluxgate_jobs_running{{queue=\"{queue}\"}} {}.0", self.running / 2);
        }
        text + "# EOF\n"
    }

    fn stats(&self) -> Value {
        let held = self.nodes * 7 / 8;
        let queue = |name: &str, pending: u64| {
            json!({"name": name, "policy": "easy", "own": false, "held": null, "pending": pending, "wanted": "default",
                "passes": 1200, "starts": 340, "reservations": 12})
        };
        json!({
            "ready": true, "policy": "easy", "swap": null, "pending": self.waiting, "running": self.running,
            "queues": [queue("batch", self.waiting / 2), queue("debug", self.waiting - self.waiting / 2)],
            "resources": {"nodes": self.nodes, "cores": self.nodes * CORES, "gpus": 0, "free_nodes": self.nodes - held,
                "free_cores": (self.nodes - held) * CORES, "free_gpus": 0},
            "engine": {"passes": 12_345, "starts": 678, "backfilled": 90},
            "pass": {"count": 100, "p50_us": 42.0}, "containment": {"held": null},
        })
    }

    fn policies(&self) -> Value {
        json!({
            "active": "easy", "wanted": "easy", "probation": null, "held": null, "queues": self.stats()["queues"],
            "policies": [
                {"name": "builtin", "version": "0.1.0", "summary": "strict order", "abilities": [], "active": false,
                    "queues": [], "quarantined": false, "failures": 0},
                {"name": "easy", "version": "0.1.0", "summary": "EASY backfilling", "abilities": ["run"], "active": true,
                    "queues": [], "quarantined": false, "failures": 0},
                {"name": "<b>evil</b>", "version": "1", "summary": "\"><script>alert(1)</script>", "abilities": [],
                    "active": false, "queues": [], "quarantined": true, "failures": 3},
            ],
            "shadows": [{"name": "hybrid", "queue": null, "since": NOW - 7200.0, "passes": 400, "differing": 0.031,
                "ended": null, "gate": ["400 passes without a breach, promote-passes-min is 1000"]}],
        })
    }

    fn why(&self) -> Value {
        json!({
            "id": id(2_000_000), "as_of": NOW, "state": "pending", "queue": "batch", "policy": "easy",
            "reason": "insufficient resources: needs 4 nodes", "reason_kind": "busy", "ahead": 2,
            "text": "insufficient resources: needs 4 nodes; it is expected to start in 20m; jobs ahead in its queue: 2",
            "obstacles": [{"kind": "down", "text": "node n15 is down"}, {"kind": "ahead", "text": "2 jobs ahead"}],
            "earliest": NOW + 600.0, "expected": NOW + 1200.0, "as": "forecast", "range": [NOW + 900.0, NOW + 2400.0],
            "helps": [{"change": "-t 30m", "start": NOW, "as": "free"}, {"change": "-N 2", "start": NOW + 300.0, "as": "forecast"}],
            "nodes": [
                {"test": "down", "count": 2, "ranks": "14-15", "nodelist": "n[14-15]", "until": null, "id": null},
                {"test": "in-use", "count": 12, "ranks": "0-11", "nodelist": "n[0-11]", "until": NOW + 3000.0, "id": null},
                {"test": "reserved", "count": 1, "ranks": "12", "nodelist": "n12", "until": null, "id": id(2_000_001)},
                {"test": "free", "count": 1, "ranks": "13", "nodelist": "n13", "until": null, "id": null},
            ],
        })
    }

    fn answer(&self, topic: &str, payload: &Value) -> Option<Value> {
        let out = self.nodes / 16;
        Some(match topic {
            "fluxgate-instance.info" => json!({"now": NOW, "speed": 1.0}),
            "sched-fluxgate.stats-get" => self.stats(),
            "sched-fluxgate.policy-list" => self.policies(),
            "sched-fluxgate.policy-show" => json!({
                "name": "easy", "version": "0.1.0", "summary": "EASY backfilling", "digest": "sha256:0123456789abcdef0123",
                "config": [{"name": "depth", "kind": "integer", "value": 100, "default": 100, "help": "Jobs looked at."}],
                "failures": 0, "failed": [], "cost": {"calls": 1000, "fuel": 5_000_000, "memory": 1_179_648, "milliseconds": 80.0},
            }),
            "sched-fluxgate.reservation-list" => json!({"reservations": self.reservations()}),
            "sched-fluxgate.metrics-get" => json!({"metrics": self.metrics()}),
            "sched-fluxgate.order" => {
                let told = if self.private { 0 } else { self.waiting.min(1024) };
                let jobs: Vec<Value> = (0..told).map(|n| self.waiting(n)).collect();
                json!({"as_of": NOW, "complete": self.waiting <= 1024, "jobs": jobs})
            }
            "sched-fluxgate.explain" => self.why(),
            "sched-fluxgate.node" if payload["node"] == "3" => json!({
                "as_of": NOW, "rank": 3, "host": "n3", "up": true, "cores": CORES, "free_cores": 8, "gpus": 0, "free_gpus": 0,
                "reserved": [{"id": id(2_000_000), "start": NOW + 900.0}, {"id": null, "start": NOW + 5000.0}],
                "jobs": [{"id": id(1), "userid": 5001, "cores": 24, "start": NOW - 600.0, "end": NOW + 3000.0,
                    "expected_end": NOW + 1500.0}, {"id": null, "userid": null, "cores": 1, "start": NOW - 9.0, "end": null,
                    "expected_end": null}],
            }),
            "job-list.list" => {
                let ended = payload["constraint"]["states"][0] == 64;
                let most = payload["max_entries"].as_u64().unwrap_or(0);
                let count = if ended { self.ended } else { self.running }.min(most);
                json!({"jobs": (0..count).map(|n| self.job(n, ended)).collect::<Vec<_>>()})
            }
            "job-list.list-id" => {
                let mut job = if payload["id"] == id(2_000_000) {
                    json!({"state": 8, "t_submit": NOW - 30.0})
                } else {
                    self.job(0, false)
                };
                job["id"] = payload["id"].clone();
                job["name"] = "a <b>".into();
                job["duration"] = 3600.0.into();
                json!({ "job": job })
            }
            "job-info.lookup" if !self.private => json!({
                "eventlog": format!("{{\"timestamp\":{NOW},\"name\":\"submit\",\"context\":{{\"urgency\":16}}}}\n"),
                "jobspec": {"resources": [], "tasks": [], "attributes": {"system": {"duration": 3600.0}}, "version": 1},
            }),
            "resource.sched-status" => json!({
                "all": self.r(0, self.nodes, CORES), "allocated": self.r(0, self.nodes * 7 / 8, CORES),
                "down": self.r(self.nodes - out, out, CORES),
            }),
            "resource.status" => {
                json!({"drain": {(self.nodes - out - 1).to_string(): {"timestamp": 1.0, "reason": "bad dimm"}}})
            }
            _ => return None,
        })
    }
}

impl Source for Made {
    fn ask<'a>(&'a self, topic: &'a str, payload: Value) -> Asking<'a> {
        let refused = || match topic {
            "job-info.lookup" => {
                Refused { errnum: 1, text: "guests can only look into their own jobs".to_owned() }
            }
            _ => Refused { errnum: 38, text: format!("{topic}: no such method") },
        };
        Box::pin(std::future::ready(self.answer(topic, &payload).ok_or_else(refused)))
    }
}

/// The id of the job that waits first.
pub(crate) fn first_waiting() -> u64 {
    id(2_000_000)
}
