//! The component side: the functions between the bindings of the contract and the traits of this crate. Compiled only for
//! WebAssembly; `export_policy!` is its only user, so this module has no stable API.

#![allow(missing_docs, clippy::all, unused_qualifications, unreachable_pub)]

use std::cell::RefCell;
use std::sync::Once;
use std::thread::LocalKey;

pub use crate::bindings::{base, observing, ordering, ranking, scheduling, state, wit, wit_ranking};
use crate::bindings::{host, host_many};
use crate::config::{Config, Kind};
use crate::imports::{asked, candidate, refusal};
use crate::job::{Happened, Job, JobColumns, JobEvent, JobId};
use crate::log;
use crate::pass::{Candidate, Pass, Placement, Refusal};
use crate::policy::{Observing, Ordering, Policy, Ranking, Scheduling, State};
use crate::ranking::{Node, Quantity};

type Instance<P> = LocalKey<RefCell<P>>;

/// Without a hook, panic text is lost on this target.
fn start_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| log::error(&panic.to_string())));
    });
}

pub fn describe<P: Policy>() -> wit::Description {
    start_up();
    let info = P::info();
    let config = info.keys.iter().map(|key| wit::ConfigKey {
        name: key.name.to_owned(),
        kind: match key.kind {
            Kind::Boolean => wit::ConfigKind::Boolean,
            Kind::Integer => wit::ConfigKind::Integer,
            Kind::Float => wit::ConfigKind::Float,
            Kind::Duration => wit::ConfigKind::Duration,
            Kind::Text => wit::ConfigKind::Text,
        },
        default: key.default.to_owned(),
        help: key.help.to_owned(),
    });
    wit::Description {
        name: info.name.to_owned(),
        version: info.version.to_owned(),
        summary: info.summary.to_owned(),
        config: config.collect(),
    }
}

pub fn configure<P: Policy>(
    instance: &'static Instance<P>,
    values: Vec<(String, String)>,
) -> Result<(), String> {
    start_up();
    instance.with_borrow_mut(|policy| policy.configure(&Config::from_values(values)))
}

pub fn keys<P: Ordering>(instance: &'static Instance<P>, now: f64, jobs: wit::JobColumns) -> Vec<f64> {
    let wit::JobColumns { id, t_submit, duration, priority, userid, queue, nodes, cores, gpus } = jobs;
    let jobs = JobColumns { id, t_submit, duration, priority, userid, queue, nodes, cores, gpus };
    instance.with_borrow_mut(|policy| policy.keys(now, &jobs))
}

pub fn run<P: Scheduling>(instance: &'static Instance<P>) {
    instance.with_borrow_mut(|policy| policy.run(&mut HostPass::default()));
}

pub fn observe<P: Observing>(instance: &'static Instance<P>, now: f64, events: Vec<wit::JobEvent>) {
    let events: Vec<JobEvent> = events
        .iter()
        .map(|event| JobEvent {
            job: event.job,
            time: event.time,
            what: match event.kind {
                wit::JobEventKind::Pending => Happened::Pending,
                wit::JobEventKind::Started => Happened::Started { end: event.value },
                wit::JobEventKind::Ended => Happened::Ended { start: event.value },
                wit::JobEventKind::Removed => Happened::Removed,
                // Priorities are whole numbers below 2^32 and so exact in an f64.
                wit::JobEventKind::Priority => Happened::Priority { priority: event.value as u32 },
                wit::JobEventKind::Expiration => Happened::Expiration { end: event.value },
            },
        })
        .collect();
    instance.with_borrow_mut(|policy| policy.observe(now, &events));
}

pub fn save<P: State>(instance: &'static Instance<P>) -> (u32, Vec<u8>) {
    let saved = instance.with_borrow(|policy| policy.save());
    (saved.version, saved.data)
}

pub fn restore<P: State>(
    instance: &'static Instance<P>,
    from: String,
    version: u32,
    data: Vec<u8>,
) -> Result<(), String> {
    instance.with_borrow_mut(|policy| policy.restore(&from, version, &data))
}

pub fn scores<P: Ranking>(instance: &'static Instance<P>, nodes: Vec<wit_ranking::Node>) -> Vec<f64> {
    let nodes: Vec<Node> = nodes
        .into_iter()
        .map(|wit_ranking::Node { rank, host, path, properties, holds }| {
            let holds = holds.into_iter();
            let holds =
                holds.map(|of| Quantity { kind: of.kind, amount: of.amount, unit: of.unit }).collect();
            Node { rank, host, path, properties, holds }
        })
        .collect();
    instance.with_borrow_mut(|policy| policy.scores(&nodes))
}

/// The pass that the host offers while `run` is on the stack.
#[derive(Default)]
pub struct HostPass {
    /// Requested once; it does not change within a pass.
    queue: Option<u32>,
}

impl Pass for HostPass {
    fn now(&mut self) -> f64 {
        host::now()
    }
    fn queue(&mut self) -> u32 {
        *self.queue.get_or_insert_with(host::queue)
    }
    fn next(&mut self) -> Option<Candidate> {
        candidate(host::next())
    }
    fn next_fitting(&mut self) -> Option<Candidate> {
        candidate(host::next_fitting())
    }
    fn next_jobs(&mut self, most: u32) -> Vec<(Candidate, Job)> {
        let queue = self.queue();
        let rows = host_many::next(most).into_iter();
        rows.map(|row| (Candidate::from_raw(row.candidate), asked(row.job, queue))).collect()
    }
    fn rewind(&mut self) {
        host::rewind();
    }
    fn describe(&mut self, candidate: Candidate) -> Job {
        asked(host::describe(candidate.raw()), self.queue())
    }
    fn fits(&mut self, candidate: Candidate) -> bool {
        host::fits(candidate.raw())
    }
    fn earliest(&mut self, candidate: Candidate) -> f64 {
        host::earliest(candidate.raw())
    }
    fn start(&mut self, candidate: Candidate) -> Result<(), Refusal> {
        host::start(candidate.raw()).map_err(refusal)
    }
    fn start_placed(&mut self, candidate: Candidate, placement: Placement) -> Result<(), Refusal> {
        host::start_placed(candidate.raw(), placement.raw()).map_err(refusal)
    }
    fn reserve(&mut self, candidate: Candidate) -> Result<f64, Refusal> {
        host::reserve(candidate.raw()).map_err(refusal)
    }
    fn start_or_reserve(&mut self, candidates: &[Candidate]) -> Vec<f64> {
        let numbers: Vec<u32> = candidates.iter().map(|candidate| candidate.raw()).collect();
        host_many::start_or_reserve(&numbers)
    }
    fn start_or_reserve_next(&mut self, reservations: u32, unknown: u32) -> bool {
        host_many::start_or_reserve_next(reservations, unknown)
    }
    fn backfill(&mut self, reservations: u32, unknown: u32, holds: bool) -> bool {
        host_many::backfill(reservations, unknown, holds)
    }
    fn renew(&mut self, count: usize) -> Option<Vec<(JobId, f64)>> {
        let renewed = host_many::renew(u32::try_from(count).ok()?)?;
        Some(renewed.into_iter().map(|of| (of.id, of.start)).collect())
    }
    fn placement(&mut self, name: &str) -> Option<Placement> {
        host::placement(name).map(Placement::from_raw)
    }
    fn annotate(&mut self, candidate: Candidate, key: &str, json: &str) {
        host::annotate(candidate.raw(), key, json);
    }
    fn rekey(&mut self, candidate: Candidate) {
        host::rekey(candidate.raw());
    }
    fn wake_at(&mut self, time: f64) {
        host::wake_at(time);
    }
}
