//! The component side: bindings of the contract, and the functions between them and the traits of this crate. Compiled
//! only for WebAssembly; `export_policy!` is its only user, so this module has no stable API.
//!
//! One small world per ability, because a component must export exactly the abilities of its policy. The worlds share
//! the bindings of the imports, which are in `base`.

#![allow(missing_docs, clippy::all, unused_qualifications, unreachable_pub)]

use std::cell::RefCell;
use std::sync::Once;
use std::thread::LocalKey;

use crate::config::{Config, Kind};
use crate::job::{Happened, Job, JobColumns, JobEvent, Totals};
use crate::log::Level;
use crate::pass::{Candidate, Pass, Placement, Refusal};
use crate::policy::{Observing, Ordering, Policy, Ranking, Scheduling, State};
use crate::ranking::{Node, Quantity};

pub mod base {
    wit_bindgen::generate!({ path: "wit", world: "base", pub_export_macro: true, generate_all });
}

macro_rules! ability {
    ($module:ident, $world:literal) => {
        pub mod $module {
            wit_bindgen::generate!({
                path: "wit",
                world: $world,
                pub_export_macro: true,
                with: {
                    "fluxgate:policy/types@0.1.0": super::base::fluxgate::policy::types,
                    "fluxgate:policy/log@0.1.0": super::base::fluxgate::policy::log,
                    "fluxgate:policy/machine@0.1.0": super::base::fluxgate::policy::machine,
                    "fluxgate:policy/pass@0.1.0": super::base::fluxgate::policy::pass,
                },
                generate_all,
            });
        }
    };
}
ability!(ordering, "with-ordering");
ability!(scheduling, "with-scheduling");
ability!(observing, "with-observing");
ability!(state, "with-state");

/// Added after the release; it shares nothing with the other worlds.
pub mod ranking {
    wit_bindgen::generate!({ path: "wit", world: "with-ranking", pub_export_macro: true, generate_all });
}

/// Added after the release: imported only by components that use it.
pub mod many {
    wit_bindgen::generate!({
        path: "wit",
        world: "with-many",
        with: {
            "fluxgate:policy/types@0.1.0": super::base::fluxgate::policy::types,
            "fluxgate:policy/pass@0.1.0": super::base::fluxgate::policy::pass,
        },
        generate_all,
    });
}

/// The same for groups.
pub mod grouped {
    wit_bindgen::generate!({
        path: "wit",
        world: "with-groups",
        with: {
            "fluxgate:policy/types@0.1.0": super::base::fluxgate::policy::types,
            "fluxgate:policy/pass@0.1.0": super::base::fluxgate::policy::pass,
        },
        generate_all,
    });
}

/// The same for flow.
pub mod flowing {
    wit_bindgen::generate!({
        path: "wit",
        world: "with-flow",
        with: {
            "fluxgate:policy/types@0.1.0": super::base::fluxgate::policy::types,
        },
        generate_all,
    });
}

/// The same for resources beside nodes, cores and gpus.
pub mod pools {
    wit_bindgen::generate!({ path: "wit", world: "with-resources", generate_all });
}

pub use base::fluxgate::policy::types as wit;
use base::fluxgate::policy::{log as host_log, machine as host_machine, pass as host};
use flowing::fluxgate::policy::flow as host_flow;
use grouped::fluxgate::policy::groups as host_groups;
use many::fluxgate::policy::many as host_many;
use pools::fluxgate::policy::resources as host_resources;

type Instance<P> = LocalKey<RefCell<P>>;

/// The WIT's value for "no candidate left".
const NO_CANDIDATE: u32 = u32::MAX;

// ---- exports ----

/// Without a hook, panic text is lost on this target.
fn start_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| write(Level::Error, &panic.to_string())));
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

pub use ranking::exports::fluxgate::policy::ranking as wit_ranking;

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

// ---- imports ----

pub(crate) fn write(level: Level, message: &str) {
    let level = match level {
        Level::Error => host_log::Level::Error,
        Level::Warn => host_log::Level::Warn,
        Level::Info => host_log::Level::Info,
        Level::Debug => host_log::Level::Debug,
    };
    host_log::write(level, message);
}

pub(crate) fn totals() -> Totals {
    let t = host_machine::totals();
    Totals {
        nodes: t.nodes,
        cores: t.cores,
        gpus: t.gpus,
        free_nodes: t.free_nodes,
        free_cores: t.free_cores,
        free_gpus: t.free_gpus,
        running: t.running,
        pending: t.pending,
    }
}

pub(crate) fn queue_count() -> u32 {
    host_machine::queue_count()
}

pub(crate) fn queue_name(index: u32) -> String {
    host_machine::queue_name(index)
}

/// The pass that the host offers while `run` is on the stack.
#[derive(Default)]
pub struct HostPass {
    /// Requested once; it does not change within a pass.
    queue: Option<u32>,
}

/// Flow is requested from the host itself: a method of `Pass` would make every component import it.
pub(crate) mod flow {
    use super::{Candidate, Refusal, host_flow, refusal};
    use crate::flow::{Kind, Span};

    pub(crate) fn kinds() -> Vec<Kind> {
        let kinds = host_flow::kinds().into_iter();
        kinds.map(|it| Kind { name: it.name, unit: it.unit, total: it.total, free: it.free }).collect()
    }
    pub(crate) fn asked(candidates: &[Candidate]) -> Vec<u64> {
        let numbers: Vec<u32> = candidates.iter().map(|candidate| candidate.raw()).collect();
        host_flow::asked(&numbers)
    }
    pub(crate) fn spans(kind: u32) -> Vec<Span> {
        let spans = host_flow::spans(kind).into_iter();
        spans.map(|it| Span { start: it.start, end: it.end, amount: it.amount }).collect()
    }
    pub(crate) fn earliest_after(candidate: Candidate, time: f64) -> f64 {
        host_flow::earliest_after(candidate.raw(), time)
    }
    pub(crate) fn reserve_after(candidate: Candidate, time: f64) -> Result<f64, Refusal> {
        host_flow::reserve_after(candidate.raw(), time).map_err(refusal)
    }
}

/// Groups are requested from the host itself, as flow is.
pub(crate) mod groups {
    use super::{Candidate, Job, Pass, asked, host_groups};
    use crate::groups::Wanted;

    pub(crate) fn heads(
        pass: &mut dyn Pass,
        wanted: Wanted,
        after: Option<Candidate>,
    ) -> Vec<(Candidate, Job)> {
        let queue = pass.queue();
        let wanted = host_groups::Wanted { by_cores: wanted.by_cores, fitting: wanted.fitting };
        let rows = host_groups::heads(wanted, after.map(Candidate::raw)).into_iter();
        rows.map(|row| (Candidate::from_raw(row.candidate), asked(row.job, queue))).collect()
    }
    pub(crate) fn next(pass: &mut dyn Pass, candidate: Candidate, fitting: bool) -> Option<(Candidate, Job)> {
        let row = host_groups::next(candidate.raw(), fitting)?;
        Some((Candidate::from_raw(row.candidate), asked(row.job, pass.queue())))
    }
}

/// Resources are requested from the host itself, as flow is.
pub(crate) mod resources {
    use super::{Candidate, host_resources};
    use crate::resources::Kind;

    pub(crate) fn kinds() -> Vec<Kind> {
        let kinds = host_resources::kinds().into_iter();
        kinds.map(|it| Kind { name: it.name, unit: it.unit, total: it.total, free: it.free }).collect()
    }
    pub(crate) fn asked(candidates: &[Candidate]) -> Vec<u64> {
        let numbers: Vec<u32> = candidates.iter().map(|candidate| candidate.raw()).collect();
        host_resources::asked(&numbers)
    }
}

/// The answer of the host to a question for which a component does not need the pass.
pub(crate) fn from_host<T>(_: &mut dyn Pass, answer: T) -> T {
    answer
}

fn candidate(number: u32) -> Option<Candidate> {
    (number != NO_CANDIDATE).then(|| Candidate::from_raw(number))
}

fn refusal(refusal: wit::Refusal) -> Refusal {
    match refusal {
        wit::Refusal::Busy => Refusal::Busy,
        wit::Refusal::DelaysReservation => Refusal::DelaysReservation,
        wit::Refusal::Unsatisfiable => Refusal::Unsatisfiable,
        wit::Refusal::NotEligible => Refusal::NotEligible,
        wit::Refusal::Limit => Refusal::Limit,
    }
}

fn asked(job: host::Job, queue: u32) -> Job {
    Job {
        id: job.id,
        t_submit: job.t_submit,
        duration: job.duration,
        priority: job.priority,
        userid: job.userid,
        queue,
        nodes: job.nodes,
        cores: job.cores,
        gpus: job.gpus,
    }
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
    fn totals(&mut self) -> Totals {
        totals()
    }
}
