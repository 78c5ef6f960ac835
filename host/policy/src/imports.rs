//! The imports of the contract, answered from the pass that the instance was lent.
//!
//! Every answer comes from [`fluxgate_engine::Pass`]; this module translates and charges, and decides nothing. An
//! `Err` here is a breach and ends the call.

use fluxgate_engine::{JobView, MachineTotals, Pass, PolicyError, Refusal, Turns};
use fluxgate_graph::{FlowSpan, Placement, ResourceKind};
use wasmtime::Result;

use crate::bindings::v0_1_0::fluxgate::policy::{
    attributes, flow, groups, log, machine, many, pass, resources, types,
};
use crate::host_state::{HostState, Whole};
use crate::limits::{LOG_TARGET, one_line};

/// The answer of `next` at the end.
const NONE_LEFT: u32 = u32::MAX;

/// Rows of `many.next` and of `groups.heads` at a time; part of the contract.
const MANY_ROWS: u32 = 4096;

/// The placement of this number. Placements with exclusive nodes change the request, which a policy must not do.
fn offered(number: u32) -> Option<Placement> {
    Placement::ALL.get(number as usize).copied().filter(|placement| !placement.whole_nodes())
}

impl HostState {
    /// The pass, if one is going on. `question` is for the message.
    fn pass(&mut self, question: &str, fuel: u64) -> Result<&mut Pass, PolicyError> {
        self.charge(fuel)?;
        let during = self.during;
        self.pass.as_deref_mut().ok_or_else(|| PolicyError::Trap {
            during,
            message: format!("{question} was called outside of scheduling.run"),
        })
    }

    fn text_fuel(&self, text: &str) -> u64 {
        self.limits.fuel_text_byte.saturating_mul(text.len() as u64)
    }

    fn start_as(
        &mut self,
        question: &str,
        c: u32,
        how: Option<Placement>,
    ) -> Result<Result<(), types::Refusal>> {
        if self.half_charged() {
            return Ok(Err(refusal(self.pass(question, 0)?.refuse_at_bound(c)?)));
        }
        let fuel = self.limits.fuel_fit;
        Ok(self.pass(question, fuel)?.start(c, how)?.map_err(refusal))
    }

    /// The answer of `many.start-or-reserve-next`.
    fn take_turns(&mut self, question: &str, reservations: u32, unknown: u32) -> Result<bool> {
        let mut turns = Turns::new(reservations, unknown);
        loop {
            let pass = self.pass(question, 0)?;
            if let Some(more) = turns.over() {
                return Ok(more);
            }
            let Some(candidate) = pass.next() else { return Ok(false) };
            if self.half_charged() {
                self.pass(question, 0)?.refuse_at_bound(candidate)?;
                return Ok(false);
            }
            let fuel = self.limits.fuel_fit;
            if turns.take(self.pass(question, fuel)?, candidate)? {
                self.charge(self.limits.fuel_plan)?;
            }
        }
    }

    /// The answer of `many.backfill`.
    pub(crate) fn whole_pass(&mut self, reservations: u32, unknown: u32, holds: bool) -> Result<bool> {
        const QUESTION: &str = "many.backfill";
        if self.take_turns(QUESTION, reservations, unknown)? {
            while let Some(candidate) = self.pass(QUESTION, 0)?.next_fitting() {
                if matches!(self.start_as(QUESTION, candidate, None)?, Err(types::Refusal::Limit)) {
                    return Ok(false);
                }
            }
        } else if reservations > 0 {
            return Ok(false);
        }
        if holds {
            self.pass(QUESTION, 0)?.holds();
        }
        Ok(true)
    }

    /// Starts a candidate or reserves its start, and returns the answer of `many.start-or-reserve`; `None` at a bound of the pass.
    fn decide(&mut self, question: &str, candidate: u32) -> Result<Option<f64>> {
        if self.half_charged() {
            self.pass(question, 0)?.refuse_at_bound(candidate)?;
            return Ok(None);
        }
        let fuel = self.limits.fuel_fit;
        let answer = self.pass(question, fuel)?.start_or_reserve(candidate)?;
        if answer != Ok(None) {
            self.charge(self.limits.fuel_plan)?;
        }
        Ok(match answer {
            Ok(start) => Some(start.unwrap_or(f64::NEG_INFINITY)),
            Err(Refusal::Limit) => None,
            Err(_) => Some(f64::NAN),
        })
    }
}

fn refusal(refusal: Refusal) -> types::Refusal {
    match refusal {
        Refusal::Busy => types::Refusal::Busy,
        Refusal::DelaysReservation => types::Refusal::DelaysReservation,
        Refusal::Unsatisfiable => types::Refusal::Unsatisfiable,
        Refusal::NotEligible => types::Refusal::NotEligible,
        Refusal::Limit => types::Refusal::Limit,
    }
}

fn clamp(count: impl TryInto<u32>) -> u32 {
    count.try_into().unwrap_or(u32::MAX)
}

fn totals_now(pass: &Pass) -> MachineTotals {
    let t = pass.totals();
    let (running, pending) = pass.job_counts();
    MachineTotals {
        nodes: clamp(t.nodes),
        cores: clamp(t.cores),
        gpus: clamp(t.gpus),
        free_nodes: clamp(t.free_nodes),
        free_cores: clamp(t.free_cores),
        free_gpus: clamp(t.free_gpus),
        running,
        pending,
    }
}

fn asked(job: JobView) -> pass::Job {
    pass::Job {
        id: job.id.0,
        t_submit: job.t_submit,
        duration: job.duration,
        priority: job.priority,
        userid: job.userid,
        nodes: job.nodes,
        cores: job.cores,
        gpus: job.gpus,
    }
}

impl types::Host for HostState {}

impl log::Host for HostState {
    fn write(&mut self, level: log::Level, message: String) -> Result<()> {
        self.charge(self.text_fuel(&message))?;
        let max = self.limits.log_message_bytes as usize;
        let kept = one_line(&message, max);
        if level == log::Level::Error {
            self.last_error = Some(one_line(&kept, crate::limits::MESSAGE_BYTES_MAX));
        }
        if self.log_left == 0 {
            self.meter.dropped();
            return Ok(());
        }
        self.log_left -= 1;
        self.meter.logged(message.len() > max);
        let policy = self.name.as_str();
        match level {
            log::Level::Error => fluxgate_log::log!(target: LOG_TARGET, PolicyError, policy, "{kept}"),
            log::Level::Warn => fluxgate_log::log!(target: LOG_TARGET, PolicyWarning, policy, "{kept}"),
            log::Level::Info => fluxgate_log::log!(target: LOG_TARGET, PolicyInfo, policy, "{kept}"),
            log::Level::Debug => tracing::debug!(target: LOG_TARGET, policy, "{kept}"),
        }
        Ok(())
    }
}

impl machine::Host for HostState {
    fn totals(&mut self) -> Result<machine::MachineTotals> {
        self.charge(0)?;
        let t = self.pass.as_deref().map_or(self.machine.totals, totals_now);
        Ok(machine::MachineTotals {
            nodes: t.nodes,
            cores: t.cores,
            gpus: t.gpus,
            free_nodes: t.free_nodes,
            free_cores: t.free_cores,
            free_gpus: t.free_gpus,
            running: t.running,
            pending: t.pending,
        })
    }

    fn queue_count(&mut self) -> Result<u32> {
        self.charge(0)?;
        Ok(match &self.pass {
            Some(pass) => pass.queue_count(),
            None => clamp(self.machine.queues.len()),
        })
    }

    fn queue_name(&mut self, index: u32) -> Result<String> {
        self.charge(0)?;
        Ok(match &self.pass {
            Some(pass) => pass.queue_name(index).to_owned(),
            None => self.machine.queues.get(index as usize).cloned().unwrap_or_default(),
        })
    }
}

impl many::Host for HostState {
    fn next(&mut self, most: u32) -> Result<Vec<many::Row>> {
        let waiting = self.pass("many.next", 0)?.job_counts().1;
        let most = most.min(MANY_ROWS);
        let mut rows = Vec::with_capacity(most.min(waiting) as usize);
        for _ in 0..most {
            let pass = self.pass("many.next", 0)?;
            let Some(candidate) = pass.next() else { break };
            rows.push(many::Row { candidate, job: asked(pass.describe(candidate)?) });
        }
        Ok(rows)
    }

    fn start_or_reserve(&mut self, candidates: Vec<u32>) -> Result<Vec<f64>> {
        const QUESTION: &str = "many.start-or-reserve";
        self.pass(QUESTION, 0)?;
        let mut starts = Vec::with_capacity(candidates.len().min(MANY_ROWS as usize));
        for candidate in candidates.into_iter().take(MANY_ROWS as usize) {
            let Some(start) = self.decide(QUESTION, candidate)? else { break };
            starts.push(start);
        }
        Ok(starts)
    }

    fn start_or_reserve_next(&mut self, reservations: u32, unknown: u32) -> Result<bool> {
        self.take_turns("many.start-or-reserve-next", reservations, unknown)
    }

    fn backfill(&mut self, reservations: u32, unknown: u32, holds: bool) -> Result<bool> {
        let first = self.questions() == 0;
        let answer = self.whole_pass(reservations, unknown, holds)?;
        if first && holds {
            self.whole = Some((Whole { reservations, unknown }, self.questions()));
        }
        Ok(answer)
    }

    fn renew(&mut self, count: u32) -> Result<Option<Vec<many::Renewed>>> {
        const QUESTION: &str = "many.renew";
        let Some(candidates) = self.pass(QUESTION, 0)?.renewable(count) else { return Ok(None) };
        let mut renewed = Vec::new();
        for candidate in candidates {
            let (id, before) = self.pass(QUESTION, 0)?.reserved_before(candidate)?;
            let Some(start) = self.decide(QUESTION, candidate)? else { break };
            if before != Some(start) {
                renewed.push(many::Renewed { id: id.0, start });
            }
        }
        Ok(Some(renewed))
    }
}

impl groups::Host for HostState {
    fn heads(&mut self, wanted: groups::Wanted, after: Option<u32>) -> Result<Vec<groups::Row>> {
        const QUESTION: &str = "groups.heads";
        let groups::Wanted { by_cores, fitting } = wanted;
        let pass = self.pass(QUESTION, 0)?;
        let heads = pass.group_heads(by_cores, fitting, after, MANY_ROWS as usize)?;
        let mut rows = Vec::with_capacity(heads.len());
        for candidate in heads {
            let job = asked(self.pass(QUESTION, 0)?.describe(candidate)?);
            rows.push(groups::Row { candidate, job });
        }
        Ok(rows)
    }

    fn changed(&mut self, by_cores: bool) -> Result<groups::Changes> {
        const QUESTION: &str = "groups.changed";
        let told = self.pass(QUESTION, 0)?.changed_heads(by_cores, MANY_ROWS as usize)?;
        let mut heads = Vec::with_capacity(told.heads.len());
        for head in told.heads {
            self.pass(QUESTION, 0)?;
            let row = |(candidate, job)| groups::Row { candidate, job: asked(job) };
            heads.push(groups::Head { group: head.group, first: head.first.map(row) });
        }
        Ok(groups::Changes { all: told.all, heads })
    }

    fn next(&mut self, candidate: u32, fitting: bool) -> Result<Option<groups::Row>> {
        let pass = self.pass("groups.next", 0)?;
        let Some(candidate) = pass.next_in_group(candidate, fitting)? else { return Ok(None) };
        Ok(Some(groups::Row { candidate, job: asked(pass.describe(candidate)?) }))
    }
}

impl attributes::Host for HostState {
    fn text(&mut self, name: String, candidates: Vec<u32>) -> Result<Vec<Option<String>>> {
        const QUESTION: &str = "attributes.text";
        let fuel = self.text_fuel(&name);
        self.pass(QUESTION, fuel)?;
        let mut all = Vec::with_capacity(candidates.len().min(MANY_ROWS as usize));
        for candidate in candidates.into_iter().take(MANY_ROWS as usize) {
            let known = self.pass(QUESTION, 0)?.attributes(candidate)?;
            let text = known.and_then(|known| known.text(&name)).map(|text| text.into_owned());
            self.charge(text.as_deref().map_or(0, |text| self.text_fuel(text)))?;
            all.push(text);
        }
        Ok(all)
    }

    fn numbers(&mut self, name: String, candidates: Vec<u32>) -> Result<Vec<f64>> {
        const QUESTION: &str = "attributes.numbers";
        let fuel = self.text_fuel(&name);
        self.pass(QUESTION, fuel)?;
        let mut all = Vec::with_capacity(candidates.len().min(MANY_ROWS as usize));
        for candidate in candidates.into_iter().take(MANY_ROWS as usize) {
            let known = self.pass(QUESTION, 0)?.attributes(candidate)?;
            all.push(known.and_then(|known| known.number(&name)).unwrap_or(f64::NAN));
        }
        Ok(all)
    }
}

impl flow::Host for HostState {
    fn kinds(&mut self) -> Result<Vec<flow::Kind>> {
        let kinds = self.pass("flow.kinds", 0)?.flow_kinds().into_iter();
        let kind =
            |it: ResourceKind| flow::Kind { name: it.name, unit: it.unit, total: it.total, free: it.free };
        Ok(kinds.map(kind).collect())
    }

    fn asked(&mut self, candidates: Vec<u32>) -> Result<Vec<u64>> {
        let mut amounts = Vec::new();
        self.pass("flow.asked", 0)?;
        for candidate in candidates.into_iter().take(MANY_ROWS as usize) {
            amounts.extend(self.pass("flow.asked", 0)?.flow_asked(candidate)?);
        }
        Ok(amounts)
    }

    fn spans(&mut self, kind: u32) -> Result<Vec<flow::Span>> {
        let spans = self.pass("flow.spans", 0)?.flow_spans(kind);
        for _ in &spans {
            self.charge(0)?;
        }
        let span = |it: &FlowSpan| flow::Span { start: it.start, end: it.end, amount: it.amount };
        Ok(spans.iter().map(span).collect())
    }

    fn earliest_after(&mut self, candidate: u32, time: f64) -> Result<f64> {
        let fuel = self.limits.fuel_plan;
        Ok(self.pass("flow.earliest-after", fuel)?.earliest_after(candidate, time)?)
    }

    fn reserve_after(&mut self, candidate: u32, time: f64) -> Result<Result<f64, types::Refusal>> {
        const QUESTION: &str = "flow.reserve-after";
        if self.half_charged() {
            return Ok(Err(refusal(self.pass(QUESTION, 0)?.refuse_at_bound(candidate)?)));
        }
        let fuel = self.limits.fuel_plan;
        Ok(self.pass(QUESTION, fuel)?.reserve_after(candidate, time)?.map_err(refusal))
    }
}

impl resources::Host for HostState {
    fn kinds(&mut self) -> Result<Vec<resources::Kind>> {
        let kinds = self.pass("resources.kinds", 0)?.resource_kinds();
        let kind = |it: &ResourceKind| resources::Kind {
            name: it.name.clone(),
            unit: it.unit.clone(),
            total: it.total,
            free: it.free,
        };
        Ok(kinds.iter().map(kind).collect())
    }

    fn asked(&mut self, candidates: Vec<u32>) -> Result<Vec<u64>> {
        let mut amounts = Vec::new();
        self.pass("resources.asked", 0)?;
        for candidate in candidates.into_iter().take(MANY_ROWS as usize) {
            amounts.extend(self.pass("resources.asked", 0)?.resources_asked(candidate)?);
        }
        Ok(amounts)
    }
}

impl pass::Host for HostState {
    fn now(&mut self) -> Result<f64> {
        Ok(self.pass("pass.now", 0)?.now())
    }

    fn queue(&mut self) -> Result<u32> {
        Ok(self.pass("pass.queue", 0)?.queue())
    }

    fn next(&mut self) -> Result<u32> {
        Ok(self.pass("pass.next", 0)?.next().unwrap_or(NONE_LEFT))
    }

    fn next_fitting(&mut self) -> Result<u32> {
        Ok(self.pass("pass.next-fitting", 0)?.next_fitting().unwrap_or(NONE_LEFT))
    }

    fn rewind(&mut self) -> Result<()> {
        self.pass("pass.rewind", 0)?.rewind();
        Ok(())
    }

    fn describe(&mut self, candidate: u32) -> Result<pass::Job> {
        Ok(asked(self.pass("pass.describe", 0)?.describe(candidate)?))
    }

    fn fits(&mut self, candidate: u32) -> Result<bool> {
        let fuel = self.limits.fuel_fit;
        Ok(self.pass("pass.fits", fuel)?.fits(candidate)?)
    }

    fn earliest(&mut self, candidate: u32) -> Result<f64> {
        let fuel = self.limits.fuel_plan;
        Ok(self.pass("pass.earliest", fuel)?.earliest(candidate)?)
    }

    fn start(&mut self, candidate: u32) -> Result<Result<(), types::Refusal>> {
        self.start_as("pass.start", candidate, None)
    }

    fn start_placed(&mut self, candidate: u32, placement: u32) -> Result<Result<(), types::Refusal>> {
        let Some(how) = offered(placement) else {
            let message = format!("pass.start-placed: {placement} is not a number that pass.placement gave");
            return Err(PolicyError::BadDecision { during: self.during, message }.into());
        };
        self.start_as("pass.start-placed", candidate, Some(how))
    }

    fn reserve(&mut self, candidate: u32) -> Result<Result<f64, types::Refusal>> {
        if self.half_charged() {
            return Ok(Err(refusal(self.pass("pass.reserve", 0)?.refuse_at_bound(candidate)?)));
        }
        let fuel = self.limits.fuel_plan;
        Ok(self.pass("pass.reserve", fuel)?.reserve(candidate)?.map_err(refusal))
    }

    fn placement(&mut self, name: String) -> Result<Option<u32>> {
        let fuel = self.text_fuel(&name);
        self.pass("pass.placement", fuel)?;
        let mut numbers = 0..clamp(Placement::ALL.len());
        Ok(numbers.find(|number| offered(*number).is_some_and(|known| known.name() == name)))
    }

    fn annotate(&mut self, candidate: u32, key: String, json: String) -> Result<()> {
        let fuel = self.text_fuel(&key).saturating_add(self.text_fuel(&json));
        Ok(self.pass("pass.annotate", fuel)?.annotate(candidate, &key, &json)?)
    }

    fn rekey(&mut self, candidate: u32) -> Result<()> {
        Ok(self.pass("pass.rekey", 0)?.rekey(candidate)?)
    }

    fn wake_at(&mut self, time: f64) -> Result<()> {
        self.pass("pass.wake-at", 0)?.wake_at(time);
        Ok(())
    }
}
