//! Machines and jobs for the checks. All input is fixed: there is no clock and no randomness.

use std::sync::Arc;

use fluxgate_engine::{Config, Engine, Event};
use fluxgate_formats::jobspec::{Jobspec, Resource, Simple};
use fluxgate_formats::{Idset, JobId, R};
use fluxgate_graph::Resources;
use serde_json::Value;

/// Start of the worlds, seconds since the epoch.
pub(crate) const BEGIN: f64 = 1_000_000.0;

/// A job, and its run time.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: u64,
    /// Time of submission.
    pub(crate) at: f64,
    pub(crate) nodes: Option<u32>,
    pub(crate) cores: u32,
    /// Requested seconds; 0 is no limit.
    pub(crate) limit: f64,
    /// Run time in seconds.
    pub(crate) runs: f64,
    pub(crate) priority: u32,
    pub(crate) userid: u32,
    pub(crate) queue: Option<&'static str>,
    /// Power (W) and bandwidth (GB/s) of each slot; 0 is none.
    pub(crate) flow: (u32, u32),
}

impl Job {
    /// One core for a minute.
    pub(crate) fn new(id: u64, at: f64) -> Job {
        let (limit, runs) = (60.0, 60.0);
        Job {
            id,
            at,
            nodes: None,
            cores: 1,
            limit,
            runs,
            priority: 16,
            userid: 1000,
            queue: None,
            flow: (0, 0),
        }
    }

    pub(crate) fn alloc(&self) -> Event {
        Event::Alloc {
            id: JobId(self.id),
            priority: self.priority,
            userid: self.userid,
            t_submit: self.at,
            jobspec: self.jobspec(),
        }
    }

    fn jobspec(&self) -> Arc<Jobspec> {
        let simple = Simple {
            nodes: self.nodes,
            slots: self.cores,
            duration: self.limit,
            queue: self.queue.map(str::to_owned),
            command: vec!["true".to_owned()],
            ..Simple::default()
        };
        let mut spec = simple.build();
        let node_or_slot = spec.resources.first_mut();
        let slot = node_or_slot.and_then(|it| if it.is_slot() { Some(it) } else { it.with.first_mut() });
        if let Some(slot) = slot {
            let flow = [("power", "W", self.flow.0), ("bandwidth", "GB/s", self.flow.1)];
            let asked = flow.into_iter().filter(|(.., amount)| *amount > 0);
            slot.with.extend(asked.map(|(kind, unit, amount)| Resource {
                unit: Some(unit.to_owned()),
                ..Resource::new(kind, amount.into())
            }));
        }
        Arc::new(spec)
    }
}

/// Events beside submissions and ends.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Cancel(u64),
    Prioritize(u64, u32),
    Expiration(u64, f64),
    Down(u32, u32),
    Up(u32, u32),
    ShrinkAll,
}

/// A machine, its jobs, and the events of both.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) nodes: u32,
    pub(crate) cores: u32,
    pub(crate) jobs: Vec<Job>,
    pub(crate) changes: Vec<(f64, Change)>,
    /// Pools of flow, as in the `scheduling` key of R.
    pub(crate) pools: Option<Value>,
    /// The run ends at this time.
    pub(crate) until: f64,
}

impl World {
    pub(crate) fn new(nodes: u32, cores: u32, jobs: Vec<Job>) -> World {
        World { nodes, cores, jobs, changes: Vec::new(), pools: None, until: f64::INFINITY }
    }

    /// The same with other ids, in the same order.
    pub(crate) fn renamed(&self, name: impl Fn(u64) -> u64) -> World {
        let mut world = self.clone();
        for job in &mut world.jobs {
            job.id = name(job.id);
        }
        for (_, change) in &mut world.changes {
            match change {
                Change::Cancel(id) | Change::Prioritize(id, _) | Change::Expiration(id, _) => *id = name(*id),
                Change::Down(..) | Change::Up(..) | Change::ShrinkAll => {}
            }
        }
        world
    }

    /// An engine on this machine, all of it up.
    pub(crate) fn engine(&self) -> Engine {
        let hosts = format!("n[0-{}]", self.nodes.saturating_sub(1));
        let r = serde_json::json!({
            "version": 1,
            "execution": {
                "R_lite": [{
                    "rank": range(0, self.nodes).to_string(),
                    "children": {"core": range(0, self.cores).to_string()},
                }],
                "nodelist": [if self.nodes == 1 { "n0".to_owned() } else { hosts }],
                "starttime": 0, "expiration": 0,
            },
        });
        let mut r = R::from_value(&r).expect("this is an R");
        r.scheduling =
            self.pools.as_ref().map(|pools| serde_json::json!({"writer": "fluxgate", "flow": pools}));
        let mut resources = Resources::from_r(&r).expect("this R has resources");
        resources.set_up(&range(0, self.nodes));
        Engine::new(resources, Config::default())
    }
}

/// `from..to` as ranks.
pub(crate) fn range(from: u32, to: u32) -> Idset {
    (from..to).collect()
}

/// Pseudo-random numbers (xorshift).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }
}

/// All kinds of jobs over some hours on 16 nodes of 8 cores, with all kinds of events of jobs and nodes.
pub(crate) fn mixed() -> World {
    let mut n = Numbers::new(20_240_229);
    let mut jobs = Vec::new();
    let mut at = BEGIN;
    for id in 1..=240 {
        // Sometimes several at once.
        if n.below(3) > 0 {
            at += n.below(60) as f64 / 2.0;
        }
        let nodes = (n.below(3) == 0).then(|| 1 + n.below(12) as u32);
        let cores = match nodes {
            Some(nodes) => nodes * (1 + n.below(8) as u32),
            None => 1 + n.below(48) as u32,
        };
        let limit = if n.below(20) == 0 { 0.0 } else { 30.0 * (1 + n.below(40)) as f64 };
        let asked = if limit == 0.0 { 900.0 } else { limit };
        let runs = (asked * (1 + n.below(100)) as f64 / 100.0).ceil();
        let priority = if n.below(8) == 0 { 1 + n.below(1000) as u32 } else { 16 };
        let userid = 1000 + n.below(7) as u32;
        jobs.push(Job {
            id: id * 3,
            at,
            nodes,
            cores,
            limit,
            runs,
            priority,
            userid,
            queue: None,
            flow: (0, 0),
        });
    }
    let mut world = World::new(16, 8, jobs);
    let time = |part: f64| BEGIN + (at - BEGIN) * part;
    let mut changes = Vec::new();
    for i in 0..24_u64 {
        let (id, when) = (3 * (1 + n.below(240)), time(0.05 + i as f64 * 0.04));
        changes.push(match i % 4 {
            0 => (when, Change::Cancel(id)),
            1 => (when, Change::Prioritize(id, 1 + n.below(5000) as u32)),
            2 => (when, Change::Expiration(id, when + 600.0)),
            _ => (when, Change::Prioritize(id, 16)),
        });
    }
    changes.push((time(0.2), Change::Down(2, 6)));
    changes.push((time(0.5), Change::Up(2, 5)));
    changes.push((time(0.9), Change::Up(5, 6)));
    world.changes = changes;
    world
}

/// The same with power and bandwidth, which most jobs request.
pub(crate) fn flowing() -> World {
    let mut world = mixed();
    for job in &mut world.jobs {
        let (power, bandwidth) = (20 + 10 * (job.id % 7) as u32, 1 + (job.id % 5) as u32 / 4);
        job.flow = (if job.id % 4 > 0 { power } else { 0 }, if job.id % 2 > 0 { bandwidth } else { 0 });
    }
    world.pools = Some(serde_json::json!({
        "power": {"unit": "W", "pools": [
            {"name": "row", "size": 6000},
            {"name": "rack0", "size": 4000, "from": "row", "hosts": "n[0-7]"},
            {"name": "rack1", "size": 4000, "from": "row", "hosts": "n[8-15]"}]},
        "bandwidth": {"unit": "GB/s", "pools": [{"name": "scratch", "size": 64, "hosts": "n[0-15]"}]},
    }));
    world
}

/// Many jobs at once, more than fit.
pub(crate) fn deep(count: u64) -> World {
    let mut n = Numbers::new(7);
    let jobs = (1..=count).map(|id| {
        let mut job = Job::new(id, BEGIN);
        job.cores = 1 + n.below(64) as u32;
        job.limit = 60.0 * (1 + n.below(600)) as f64;
        job.runs = job.limit / 2.0;
        job.userid = 1000 + n.below(50) as u32;
        job
    });
    let mut world = World::new(16, 8, jobs.collect());
    world.until = BEGIN + 300.0;
    world
}
