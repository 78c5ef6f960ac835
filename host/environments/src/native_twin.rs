//! A policy written with the SDK, run natively by the engine: the twin of its component.
//!
//! Both must decide the same, job for job; a suite that compares them finds errors of the boundary, the compiler or the
//! host's executor. Twins also make profiles readable.
//!
//! A breach of the contract ends the policy's code at that question, as a trap does in a component: the twin unwinds
//! from it and returns the error to the engine. A panic becomes [`PolicyError::Trap`]. There is neither fuel nor a
//! bound on memory here.
//!
//! This module must never know the rule of any policy.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fluxgate_engine as engine;
use fluxgate_engine::{Abilities, JobEventKind, Machine, MachineTotals, PolicyCost, PolicyError, SavedState};
use fluxgate_formats::jobspec::JobAttributes;
use fluxgate_graph::{FlowSpan, NodeRow, Placement, ResourceKind};
use fluxgate_guest as guest;
use fluxgate_guest::machine::{Snapshot, set_snapshot};
use fluxgate_guest::{Candidate, Exported, Happened};

/// A policy of the SDK as a policy of the engine.
#[derive(Debug)]
pub struct NativeTwin<P> {
    policy: P,
    name: &'static str,
    abilities: Abilities,
    machine: Machine,
    calls: u64,
}

impl<P: Exported + Send> NativeTwin<P> {
    /// A new instance with these settings; keys that are not named have their defaults.
    ///
    /// # Errors
    /// An undeclared key, a value of the wrong kind, or the policy's own refusal.
    pub fn new(settings: &[(&str, &str)]) -> Result<Self, String> {
        let mut policy: P = guest::bench::configured(settings)?;
        let abilities = Abilities {
            ordering: policy.ordering().is_some(),
            scheduling: policy.scheduling().is_some(),
            observing: policy.observing().is_some(),
            state: policy.state().is_some(),
            ranking: policy.ranking().is_some(),
        };
        let name = P::info().name;
        Ok(NativeTwin { policy, name, abilities, machine: Machine::default(), calls: 0 })
    }

    /// The policy itself, for changes that its settings do not offer.
    pub fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// Runs the policy's code with a snapshot of the machine; a panic or a breach becomes an error.
    fn call<T>(&mut self, during: &'static str, code: impl FnOnce(&mut P) -> T) -> Result<T, PolicyError> {
        self.calls += 1;
        show(&self.machine, self.machine.totals);
        // The state is not used again after an error: the engine discards the policy.
        catch_unwind(AssertUnwindSafe(|| code(&mut self.policy))).map_err(|panic| why(panic, during))
    }
}

impl<P: Exported + Send> engine::Policy for NativeTwin<P> {
    fn name(&self) -> &str {
        self.name
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }

    // A component tells by its imports; natively nothing does.
    fn reads_attributes(&self) -> bool {
        true
    }

    fn machine(&mut self, machine: Machine) {
        self.machine = machine;
    }

    fn keys(&mut self, now: f64, jobs: &engine::JobColumns) -> Result<Vec<f64>, PolicyError> {
        let jobs = guest::JobColumns {
            id: jobs.id.iter().map(|id| id.0).collect(),
            t_submit: jobs.t_submit.clone(),
            duration: jobs.duration.clone(),
            priority: jobs.priority.clone(),
            userid: jobs.userid.clone(),
            queue: jobs.queue.clone(),
            nodes: jobs.nodes.clone(),
            cores: jobs.cores.clone(),
            gpus: jobs.gpus.clone(),
        };
        self.call("ordering.keys", |policy| policy.ordering().map(|ordering| ordering.keys(now, &jobs)))
            .map(Option::unwrap_or_default)
    }

    fn observe(&mut self, now: f64, events: &[engine::JobEvent]) -> Result<(), PolicyError> {
        let events: Vec<guest::JobEvent> = events.iter().map(event).collect();
        self.call("observing.observe", |policy| {
            if let Some(observing) = policy.observing() {
                observing.observe(now, &events);
            }
        })
    }

    fn scores(&mut self, nodes: &[NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> {
        let nodes: Vec<guest::Node> = nodes.iter().map(node).collect();
        self.call("ranking.scores", |policy| policy.ranking().map(|ranking| ranking.scores(&nodes)))
            .map(Option::unwrap_or_default)
    }

    fn run(&mut self, pass: Box<engine::Pass>) -> (Box<engine::Pass>, Result<(), PolicyError>) {
        let mut pass = TwinPass { pass, machine: self.machine.clone() };
        let result = self.call("scheduling.run", |policy| {
            pass.show();
            if let Some(scheduling) = policy.scheduling() {
                scheduling.run(&mut pass);
            }
        });
        (pass.pass, result)
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        let saved = self.call("state.save", |policy| policy.state().map(|state| state.save()))?;
        let saved = saved.unwrap_or_default();
        Ok(SavedState { from: self.name.to_owned(), version: saved.version, data: saved.data })
    }

    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        let during = "state.restore";
        let answer = self.call(during, |policy| {
            policy.state().map(|own| own.restore(&state.from, state.version, &state.data))
        })?;
        answer.unwrap_or(Ok(())).map_err(|message| PolicyError::Refused { during, message })
    }

    fn cost(&self) -> PolicyCost {
        PolicyCost { calls: self.calls, ..PolicyCost::default() }
    }
}

fn node(row: &NodeRow<'_>) -> guest::Node {
    let text = |text: &&str| (*text).to_owned();
    let holds = row.holds.iter();
    let holds =
        holds.map(|of| guest::Quantity { kind: text(&of.kind), amount: of.amount, unit: text(&of.unit) });
    guest::Node {
        rank: row.rank,
        host: text(&row.host),
        path: row.path.clone(),
        properties: row.properties.iter().map(text).collect(),
        holds: holds.collect(),
    }
}

/// The payload of a breach's unwinding; no panic hook sees it.
struct Breach(PolicyError);

fn why(panic: Box<dyn Any + Send>, during: &'static str) -> PolicyError {
    let panic = match panic.downcast::<Breach>() {
        Ok(breach) => return breach.0,
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without text");
    PolicyError::Trap { during, message: text.to_owned() }
}

fn event(event: &engine::JobEvent) -> guest::JobEvent {
    let what = match event.kind {
        JobEventKind::Pending => Happened::Pending,
        JobEventKind::Started => Happened::Started { end: event.value },
        JobEventKind::Ended => Happened::Ended { start: event.value },
        JobEventKind::Removed => Happened::Removed,
        // Priorities are whole numbers below 2^32 and so exact in an f64.
        JobEventKind::Priority => Happened::Priority { priority: event.value as u32 },
        JobEventKind::Expiration => Happened::Expiration { end: event.value },
    };
    guest::JobEvent { job: event.job.0, time: event.time, what }
}

fn show(machine: &Machine, totals: MachineTotals) {
    set_snapshot(Snapshot { totals: translate(totals), queues: machine.queues.clone() });
}

fn translate(totals: MachineTotals) -> guest::Totals {
    guest::Totals {
        nodes: totals.nodes,
        cores: totals.cores,
        gpus: totals.gpus,
        free_nodes: totals.free_nodes,
        free_cores: totals.free_cores,
        free_gpus: totals.free_gpus,
        running: totals.running,
        pending: totals.pending,
    }
}

fn clamp(count: impl TryInto<u32>) -> u32 {
    count.try_into().unwrap_or(u32::MAX)
}

fn refusal(refusal: engine::Refusal) -> guest::Refusal {
    match refusal {
        engine::Refusal::Busy => guest::Refusal::Busy,
        engine::Refusal::DelaysReservation => guest::Refusal::DelaysReservation,
        engine::Refusal::Unsatisfiable => guest::Refusal::Unsatisfiable,
        engine::Refusal::NotEligible => guest::Refusal::NotEligible,
        engine::Refusal::Limit => guest::Refusal::Limit,
    }
}

/// The engine's pass as the SDK's trait.
struct TwinPass {
    pass: Box<engine::Pass>,
    machine: Machine,
}

impl TwinPass {
    /// Starts a candidate or reserves its start, and returns the answer of `start_or_reserve`; `None` at a bound of the pass.
    fn decide(&mut self, candidate: u32) -> Option<f64> {
        match self.ask(|pass| pass.start_or_reserve(candidate)) {
            Ok(start) => Some(start.unwrap_or(f64::NEG_INFINITY)),
            Err(engine::Refusal::Limit) => None,
            Err(_) => Some(f64::NAN),
        }
    }

    fn ask<T>(&mut self, question: impl FnOnce(&mut engine::Pass) -> Result<T, PolicyError>) -> T {
        question(&mut self.pass).unwrap_or_else(|error| resume_unwind(Box::new(Breach(error))))
    }

    fn now_totals(&self) -> MachineTotals {
        let totals = self.pass.totals();
        let (running, pending) = self.pass.job_counts();
        MachineTotals {
            nodes: clamp(totals.nodes),
            cores: clamp(totals.cores),
            gpus: clamp(totals.gpus),
            free_nodes: clamp(totals.free_nodes),
            free_cores: clamp(totals.free_cores),
            free_gpus: clamp(totals.free_gpus),
            running,
            pending,
        }
    }

    /// Inside a pass the machine includes the staged decisions.
    fn show(&self) {
        show(&self.machine, self.now_totals());
    }

    fn begin(&mut self, candidate: Candidate, placement: Option<Placement>) -> Result<(), guest::Refusal> {
        let answer = self.ask(|pass| pass.start(candidate.raw(), placement));
        self.show();
        answer.map_err(refusal)
    }
}

impl guest::Pass for TwinPass {
    fn now(&mut self) -> f64 {
        self.pass.now()
    }
    fn queue(&mut self) -> u32 {
        self.pass.queue()
    }
    fn next(&mut self) -> Option<Candidate> {
        self.pass.next().map(Candidate::from_raw)
    }
    fn next_fitting(&mut self) -> Option<Candidate> {
        self.pass.next_fitting().map(Candidate::from_raw)
    }
    fn rewind(&mut self) {
        self.pass.rewind();
    }
    fn describe(&mut self, candidate: Candidate) -> guest::Job {
        let job = self.ask(|pass| pass.describe(candidate.raw()));
        job_of(job, self.pass.queue())
    }
    fn fits(&mut self, candidate: Candidate) -> bool {
        self.ask(|pass| pass.fits(candidate.raw()))
    }
    fn earliest(&mut self, candidate: Candidate) -> f64 {
        self.ask(|pass| pass.earliest(candidate.raw()))
    }
    fn start(&mut self, candidate: Candidate) -> Result<(), guest::Refusal> {
        self.begin(candidate, None)
    }
    fn start_placed(
        &mut self,
        candidate: Candidate,
        placement: guest::Placement,
    ) -> Result<(), guest::Refusal> {
        let known = Placement::ALL.get(placement.raw() as usize).copied();
        let placement = self.ask(|_| {
            known.filter(|known| !known.whole_nodes()).ok_or_else(|| PolicyError::BadDecision {
                during: "scheduling.run",
                message: format!("{} is not a number that `placement` gave", placement.raw()),
            })
        });
        self.begin(candidate, Some(placement))
    }
    fn reserve(&mut self, candidate: Candidate) -> Result<f64, guest::Refusal> {
        self.ask(|pass| pass.reserve(candidate.raw())).map_err(refusal)
    }
    fn start_or_reserve(&mut self, candidates: &[Candidate]) -> Vec<f64> {
        let mut starts = Vec::with_capacity(candidates.len());
        for candidate in candidates.iter().take(guest::JOBS_MAX as usize) {
            let Some(start) = self.decide(candidate.raw()) else { break };
            starts.push(start);
        }
        self.show();
        starts
    }
    fn backfill(&mut self, reservations: u32, unknown: u32, holds: bool) -> bool {
        let whole = guest::backfill::one_by_one(self, reservations, unknown);
        if whole && holds {
            self.pass.holds();
        }
        whole
    }
    fn start_or_reserve_next(&mut self, reservations: u32, unknown: u32) -> bool {
        let mut turns = engine::Turns::new(reservations, unknown);
        let more = loop {
            if let Some(more) = turns.over() {
                break more;
            }
            let Some(candidate) = self.pass.next() else { break false };
            self.ask(|pass| turns.take(pass, candidate));
        };
        self.show();
        more
    }
    fn renew(&mut self, count: usize) -> Option<Vec<(guest::JobId, f64)>> {
        let candidates = self.pass.renewable(u32::try_from(count).ok()?)?;
        let mut renewed = Vec::new();
        for candidate in candidates {
            let (id, before) = self.ask(|pass| pass.reserved_before(candidate));
            let Some(start) = self.decide(candidate) else { break };
            if before != Some(start) {
                renewed.push((id.0, start));
            }
        }
        self.show();
        Some(renewed)
    }
    fn placement(&mut self, name: &str) -> Option<guest::Placement> {
        let named = |known: &Placement| known.name() == name && !known.whole_nodes();
        let number = Placement::ALL.iter().position(named)?;
        Some(guest::Placement::from_raw(clamp(number)))
    }
    fn annotate(&mut self, candidate: Candidate, key: &str, json: &str) {
        self.ask(|pass| pass.annotate(candidate.raw(), key, json));
    }
    fn rekey(&mut self, candidate: Candidate) {
        self.ask(|pass| pass.rekey(candidate.raw()));
    }
    fn wake_at(&mut self, time: f64) {
        self.pass.wake_at(time);
    }
    fn totals_here(&mut self) -> Option<guest::Totals> {
        Some(translate(self.now_totals()))
    }
    fn attributes(&mut self) -> Option<&mut dyn guest::attributes::Attributes> {
        Some(self)
    }
    fn flow(&mut self) -> Option<&mut dyn guest::flow::Flow> {
        Some(self)
    }
    fn groups(&mut self) -> Option<&mut dyn guest::groups::Groups> {
        Some(self)
    }
    fn resources(&mut self) -> Option<&mut dyn guest::resources::Resources> {
        Some(self)
    }
}

fn job_of(job: engine::JobView, queue: u32) -> guest::Job {
    guest::Job {
        id: job.id.0,
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

impl guest::groups::Groups for TwinPass {
    fn heads(
        &mut self,
        wanted: guest::groups::Wanted,
        after: Option<Candidate>,
    ) -> Vec<(Candidate, guest::Job)> {
        let (after, most) = (after.map(Candidate::raw), guest::JOBS_MAX as usize);
        let heads = self.ask(|pass| pass.group_heads(wanted.by_cores, wanted.fitting, after, most));
        let described =
            |head| (Candidate::from_raw(head), guest::Pass::describe(self, Candidate::from_raw(head)));
        heads.into_iter().map(described).collect()
    }
    fn changed(&mut self, by_cores: bool) -> guest::groups::Changes {
        let engine::GroupChanges { all, heads } =
            self.ask(|pass| pass.changed_heads(by_cores, guest::JOBS_MAX as usize));
        let queue = self.pass.queue();
        let first = |(candidate, job)| (Candidate::from_raw(candidate), job_of(job, queue));
        let heads = heads.into_iter().map(|head| (head.group, head.first.map(first))).collect();
        guest::groups::Changes { all, heads }
    }
    fn next(&mut self, candidate: Candidate, fitting: bool) -> Option<(Candidate, guest::Job)> {
        let next = self.ask(|pass| pass.next_in_group(candidate.raw(), fitting)).map(Candidate::from_raw)?;
        Some((next, guest::Pass::describe(self, next)))
    }
}

impl guest::attributes::Attributes for TwinPass {
    fn text(&mut self, name: &str, candidates: &[Candidate]) -> Vec<Option<String>> {
        let some = candidates.iter().take(guest::JOBS_MAX as usize);
        let text =
            |known: Option<&JobAttributes>| known.and_then(|known| Some(known.text(name)?.into_owned()));
        some.map(|candidate| self.ask(|pass| pass.attributes(candidate.raw()).map(text))).collect()
    }
    fn numbers(&mut self, name: &str, candidates: &[Candidate]) -> Vec<f64> {
        let some = candidates.iter().take(guest::JOBS_MAX as usize);
        let number = |known: Option<&JobAttributes>| known.and_then(|known| known.number(name));
        let asked = some.map(|candidate| self.ask(|pass| pass.attributes(candidate.raw()).map(number)));
        asked.map(|number| number.unwrap_or(f64::NAN)).collect()
    }
}

impl guest::resources::Resources for TwinPass {
    fn kinds(&mut self) -> Vec<guest::resources::Kind> {
        let kind = |it: &ResourceKind| guest::resources::Kind {
            name: it.name.clone(),
            unit: it.unit.clone(),
            total: it.total,
            free: it.free,
        };
        self.pass.resource_kinds().iter().map(kind).collect()
    }
    fn asked(&mut self, candidates: &[Candidate]) -> Vec<u64> {
        let some = candidates.iter().take(guest::JOBS_MAX as usize);
        some.flat_map(|candidate| self.ask(|pass| pass.resources_asked(candidate.raw()))).collect()
    }
}

impl guest::flow::Flow for TwinPass {
    fn kinds(&mut self) -> Vec<guest::flow::Kind> {
        let kinds = self.pass.flow_kinds().into_iter();
        let kind = |it: ResourceKind| guest::flow::Kind {
            name: it.name,
            unit: it.unit,
            total: it.total,
            free: it.free,
        };
        kinds.map(kind).collect()
    }
    fn asked(&mut self, candidates: &[Candidate]) -> Vec<u64> {
        let some = candidates.iter().take(guest::JOBS_MAX as usize);
        some.flat_map(|candidate| self.ask(|pass| pass.flow_asked(candidate.raw()))).collect()
    }
    fn spans(&mut self, kind: u32) -> Vec<guest::flow::Span> {
        let spans = self.pass.flow_spans(kind).into_iter();
        let span = |it: FlowSpan| guest::flow::Span { start: it.start, end: it.end, amount: it.amount };
        spans.map(span).collect()
    }
    fn earliest_after(&mut self, candidate: Candidate, time: f64) -> f64 {
        self.ask(|pass| pass.earliest_after(candidate.raw(), time))
    }
    fn reserve_after(&mut self, candidate: Candidate, time: f64) -> Result<f64, guest::Refusal> {
        self.ask(|pass| pass.reserve_after(candidate.raw(), time)).map_err(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_engine::Policy;
    use policy_broken::Broken;
    use policy_easy::Easy;
    use policy_sjf::Sjf;

    fn one_job() -> engine::JobColumns {
        engine::JobColumns {
            id: vec![fluxgate_formats::JobId(7)],
            t_submit: vec![0.0],
            duration: vec![60.0],
            priority: vec![16],
            userid: vec![1000],
            queue: vec![0],
            nodes: vec![0],
            cores: vec![1],
            gpus: vec![0],
        }
    }

    #[test]
    fn abilities_are_those_exported() {
        let easy = NativeTwin::<Easy>::new(&[("depth", "3")]).unwrap();
        assert_eq!(easy.name(), "easy");
        assert_eq!(easy.abilities(), Abilities { scheduling: true, ..Abilities::default() });
        assert!(NativeTwin::<Easy>::new(&[("depth", "0")]).is_err());
        assert!(NativeTwin::<Easy>::new(&[("deep", "1")]).is_err());
        let broken = NativeTwin::<Broken>::new(&[]).unwrap().abilities();
        assert!(broken.ordering && broken.scheduling && broken.observing && broken.state && broken.ranking);
    }

    #[test]
    fn keys_come_through() {
        let mut sjf = NativeTwin::<Sjf>::new(&[]).unwrap();
        assert_eq!(sjf.keys(0.0, &one_job()), Ok(vec![60.0]));
        assert_eq!(sjf.cost().calls, 1);
    }

    #[test]
    fn a_panic_is_a_trap() {
        let mut broken = NativeTwin::<Broken>::new(&[("mode", "trap"), ("when", "keys")]).unwrap();
        let error = broken.keys(0.0, &one_job()).unwrap_err();
        assert_eq!(error, PolicyError::Trap { during: "ordering.keys", message: "told to trap".to_owned() });
    }

    #[test]
    fn a_state_goes_to_the_successor_or_is_refused() {
        let mut first = NativeTwin::<Broken>::new(&[]).unwrap();
        let mut saved = first.save().unwrap();
        assert_eq!(saved.from, "broken");
        assert_eq!(first.restore(&saved), Ok(()));
        saved.from = "fcfs".to_owned();
        assert_eq!(first.restore(&saved).unwrap_err().kind(), "refused");
    }
}
