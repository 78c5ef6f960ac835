//! Answers to the questions of people, as JSON. Times are seconds since the epoch, durations seconds, nodes idsets of ranks
//! and hostlists; an infinite or unknown value is null.
//!
//! Must never know how an answer is found.

use fluxgate_engine::{
    Engine, Expected, Explanation, Gap, JobRow, JobState, Limit, NodeState, Obstacle, Questions, QueueStatus,
    WhenAnswer,
};
use fluxgate_formats::{Hostlist, Idset, JobId};
use fluxgate_graph::{NodeRefusal, NodeTest};
use serde_json::{Map, Value, json};

/// The user who asks, and what that user may see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) userid: u32,
    /// The owner of the instance, or an administrator.
    pub(crate) admin: bool,
    /// Guests see their own jobs alone (`access.private-mode`).
    pub(crate) private: bool,
}

/// The words for a job that the asker may not see.
const HIDDEN: &str = "another job";

impl Asker {
    /// May the asker see that this job is there?
    pub(crate) fn sees(&self, user: Option<u32>) -> bool {
        self.admin || !self.private || user == Some(self.userid)
    }

    /// May the asker ask about this job?
    pub(crate) fn owns(&self, user: Option<u32>) -> bool {
        self.admin || user == Some(self.userid)
    }

    fn sees_job(&self, of: &Questions, id: JobId) -> bool {
        self.admin || !self.private || of.user_of(id).is_some_and(|user| self.sees(user))
    }

    /// How a job is called.
    pub(crate) fn name(&self, of: &Questions, id: JobId) -> String {
        if self.sees_job(of, id) { id.to_string() } else { HIDDEN.to_owned() }
    }

    fn id(&self, of: &Questions, id: JobId) -> Value {
        if self.sees_job(of, id) { id.0.into() } else { Value::Null }
    }
}

fn seconds(value: f64) -> Value {
    if value.is_finite() { value.into() } else { Value::Null }
}

fn hosts(of: &Questions, ranks: &Idset) -> String {
    of.hosts_of(ranks).into_iter().collect::<Hostlist>().to_string()
}

/// One obstacle: its kind, the words, and the rest by kind.
fn obstacle(of: &Questions, asker: &Asker, obstacle: &Obstacle) -> Value {
    let (name, list) = (|id| asker.name(of, id), |ranks: &Idset| hosts(of, ranks));
    let mut row = Map::new();
    row.insert("kind".to_owned(), obstacle.kind().into());
    row.insert("text".to_owned(), obstacle.text(of.now(), &name, &list).into());
    match obstacle {
        Obstacle::Down(ranks) => {
            row.insert("ranks".to_owned(), ranks.to_string().into());
            row.insert("nodelist".to_owned(), list(ranks).into());
        }
        Obstacle::InUse { until, jobs } => {
            row.insert("until".to_owned(), until.map_or(Value::Null, seconds));
            row.insert("jobs".to_owned(), jobs.len().into());
        }
        Obstacle::Reserved { jobs, more } => {
            let rows =
                jobs.iter().map(|(id, start)| json!({"id": asker.id(of, *id), "start": seconds(*start)}));
            row.insert("jobs".to_owned(), rows.collect());
            row.insert("more".to_owned(), (*more).into());
        }
        Obstacle::Window(list) => {
            row.insert("reservations".to_owned(), list.iter().map(|(name, _)| &**name).collect());
        }
        Obstacle::Ahead(jobs) => drop(row.insert("jobs".to_owned(), (*jobs).into())),
        _ => {}
    }
    Value::Object(row)
}

fn obstacles(of: &Questions, asker: &Asker, list: &[Obstacle]) -> Value {
    list.iter().map(|one| obstacle(of, asker, one)).collect()
}

/// A job that waits or runs, with the reasons why it waits.
pub(crate) fn job(of: &Questions, asker: &Asker, id: JobId, why: &Explanation) -> Value {
    let waits = why.state == JobState::Pending;
    let text = match waits {
        true => why.text(of.now(), &|id| asker.name(of, id)),
        false => of.running_text(id).unwrap_or_default(),
    };
    json!({
        "id": id.0,
        "as_of": of.now(),
        "state": if waits { "pending" } else { "running" },
        "queue": why.queue,
        "policy": why.policy,
        "reason": why.reason.as_ref().map(|reason| reason.text(&|id| asker.name(of, id))),
        "reason_kind": why.reason.as_ref().map(|reason| reason.kind()),
        "obstacles": obstacles(of, asker, &why.obstacles),
        "ahead": why.ahead,
        "earliest": why.earliest,
        "t_estimate": why.t_estimate,
        "expected": why.expected.and_then(|expected| expected.start),
        "as": why.expected.map(|expected| expected.source.name()),
        "text": text,
    })
}

/// A job that is not submitted: when it would start.
pub(crate) fn when(of: &Questions, asker: &Asker, answer: &WhenAnswer) -> Value {
    let Expected { start, source, .. } = answer.expected;
    json!({
        "nodes": answer.nodes,
        "cores": answer.cores,
        "duration": seconds(answer.duration),
        "start": start.map_or(Value::Null, seconds),
        "as": source.name(),
        "at_least": answer.at_least,
        "obstacles": obstacles(of, asker, &answer.obstacles),
    })
}

/// A box of free nodes or cores.
pub(crate) fn gap(of: &Questions, asker: &Asker, gap: &Gap) -> Value {
    let limit = match &gap.limit {
        None => Value::Null,
        Some(Limit::Reserved(id)) => json!({
            "kind": "reserved", "id": asker.id(of, *id), "text": format!("reserved for {}", asker.name(of, *id)),
        }),
        Some(Limit::Bound(reason)) => json!({"kind": "bound", "text": reason.to_string()}),
        Some(Limit::Window(name)) => {
            json!({"kind": "window", "reservation": name, "text": format!("reservation {name}")})
        }
        Some(Limit::Instance) => json!({"kind": "instance", "text": "this instance ends"}),
    };
    json!({
        "nodes": gap.nodes,
        "cores": gap.cores,
        "duration": seconds(gap.duration),
        "until": seconds(of.now() + gap.duration),
        "limit": limit,
    })
}

/// The nodes by the first test that they fail.
pub(crate) fn node_tests(of: &Questions, asker: &Asker, tests: &[(NodeTest, Idset)]) -> Value {
    let row = |(test, ranks): &(NodeTest, Idset)| {
        let (kind, until, job) = match *test {
            NodeTest::Down => ("down", None, None),
            NodeTest::Constraint => ("property", None, None),
            NodeTest::TooSmall => ("too-small", None, None),
            NodeTest::NotIdle { until } => ("not-idle", Some(until), None),
            NodeTest::InUse { until } => ("in-use", Some(until), None),
            NodeTest::Partly { until } => ("partly", Some(until), None),
            NodeTest::Reserved(id) => ("reserved", None, Some(id)),
            _ => ("free", None, None),
        };
        json!({
            "test": kind,
            "count": ranks.len(),
            "ranks": ranks.to_string(),
            "nodelist": hosts(of, ranks),
            "until": until.map_or(Value::Null, seconds),
            "id": job.map_or(Value::Null, |id| asker.id(of, id)),
        })
    };
    tests.iter().map(row).collect()
}

/// A job in the list of a queue.
pub(crate) fn row(of: &Questions, asker: &Asker, row: &JobRow) -> Value {
    json!({
        "id": row.id.0,
        "queue": row.queue,
        "userid": row.userid,
        "priority": row.priority,
        "t_submit": row.t_submit,
        "duration": seconds(row.duration),
        "nodes": row.nodes,
        "cores": row.cores,
        "key": row.key.map_or(Value::Null, seconds),
        "ahead": row.ahead,
        "reason": row.reason.text(&|id| asker.name(of, id)),
        "reason_kind": row.reason.kind(),
        "expected": row.expected.start.map_or(Value::Null, seconds),
        "as": row.expected.source.name(),
    })
}

/// A node.
pub(crate) fn node(of: &Questions, asker: &Asker, node: &NodeState) -> Value {
    let jobs = node.jobs.iter().map(|job| {
        let sees = asker.sees(job.userid);
        json!({
            "id": if sees { job.id.0.into() } else { Value::Null },
            "userid": if sees { json!(job.userid) } else { Value::Null },
            "cores": job.cores,
            "start": job.start,
            "end": seconds(job.end),
            "expected_end": seconds(job.expected_end),
        })
    });
    let windows =
        node.windows.iter().map(|(name, start, end)| json!({"name": name, "start": start, "end": end}));
    let reserved = node.reserved.iter().map(|(id, start)| json!({"id": asker.id(of, *id), "start": start}));
    json!({
        "as_of": of.now(),
        "rank": node.rank,
        "host": node.host,
        "up": node.up,
        "cores": node.cores.0,
        "free_cores": node.cores.1,
        "gpus": node.gpus.0,
        "free_gpus": node.gpus.1,
        "jobs": jobs.collect::<Vec<_>>(),
        "reserved": reserved.collect::<Vec<_>>(),
        "reservations": windows.collect::<Vec<_>>(),
    })
}

/// A queue and who decides it.
pub(crate) fn queue(decider: &QueueStatus<'_>) -> Value {
    json!({
        "name": decider.queue, "policy": decider.policy, "own": decider.own, "held": decider.suspended_by,
        "pending": decider.pending,
        "swap": decider.swap.as_ref().map(|s| json!({"to": s.to, "keyed": s.keyed})),
    })
}

/// How much there is of the machine, and how much of it is free.
pub(crate) fn totals(engine: &Engine) -> Value {
    let totals = engine.resources().totals();
    json!({
        "nodes": totals.nodes, "cores": totals.cores, "gpus": totals.gpus,
        "free_nodes": totals.free_nodes, "free_cores": totals.free_cores, "free_gpus": totals.free_gpus,
    })
}

/// The machine, the held part and the down part of it, each as R. The graph of a site is not part of it.
pub(crate) fn resources(engine: &Engine) -> Value {
    let resources = engine.resources();
    json!({
        "all": resources.inventory_r().to_value(),
        "allocated": resources.allocated_r().to_value(),
        "down": resources.down_r().to_value(),
    })
}

/// The levels of the machine between its root and its nodes, with the ranks of each vertex.
pub(crate) fn levels(engine: &Engine) -> Value {
    let vertex = |(name, ranks): &(String, Idset)| json!({"name": name, "ranks": ranks.to_string()});
    let levels = engine.resources().node_groups().into_iter().map(
        |level| json!({"type": level.kind, "vertices": level.groups.iter().map(vertex).collect::<Vec<_>>()}),
    );
    json!({"levels": levels.collect::<Vec<_>>()})
}

/// Nodes that are idle and of no use to any waiting job, by what keeps them from use.
pub(crate) fn unused_nodes(engine: &Engine, now: f64) -> Value {
    let found = engine.unused_nodes(now);
    let rows = found.nodes.iter().map(|(refusal, ranks)| {
        let (why, text) = match refusal {
            NodeRefusal::TooSmall => ("too-small", "they have too little for each waiting job"),
            NodeRefusal::Window => ("window", "reservations keep them from the waiting jobs that they would suit"),
            _ => ("property", "they meet the constraint of no waiting job"),
        };
        let hosts: Hostlist = engine.resources().hosts_of(ranks).into_iter().collect();
        json!({
            "why": why, "text": text, "ranks": ranks.to_string(), "nodelist": hosts.to_string(), "nodes": ranks.len(),
        })
    });
    json!({"as_of": now, "requests": found.requests, "complete": found.complete, "unused": rows.collect::<Vec<_>>()})
}
