//! One running instance of a component, behind [`fluxgate_engine::Policy`].
//!
//! Every call goes through one function, [`enter`]: it sets fuel and deadline before the call, counts the cost after it,
//! and turns every failure into one [`PolicyError`]. After an error the instance is dead: [`Guest::call`] never enters it
//! again.
//!
//! This module must never know queues, the protocol or other policies.

use std::sync::Arc;

use fluxgate_engine::{
    Abilities, Anew, CallCost, JobColumns, JobEvent, JobEventKind, Machine, Pass, Policy, PolicyCost,
    PolicyError, SavedState,
};
use fluxgate_graph::NodeRow;
use wasmtime::{Store, Trap, WasmBacktrace};

use crate::bindings::v0_1_0::exports::fluxgate::policy as exports;
use crate::bindings::v0_1_0::fluxgate::policy::types;
use crate::clock::{Ticker, measured};
use crate::config::Description;
use crate::error::LoadError;
use crate::host_state::{Denied, HostState, Whole};
use crate::limits::{Limits, MESSAGE_BYTES_MAX, one_line};
use crate::loader::{Linked, Runtime, flat};
use crate::meter::{Call, Meter};

/// Part of the executor's message when a crossing would copy more than `copy-bytes`. The executor has no type for it;
/// a test checks the text.
const COPY_EXHAUSTED: &str = "too much data is being copied between the host and the guest";

/// Functions of a trap that are named in its message.
const TRAP_FRAMES: usize = 3;

/// A running instance of a component, as the engine's [`Policy`]. After an error of a call the instance is dead: each later call
/// into the component returns that error. A refusal of `restore` is no such error.
pub struct WasmPolicy {
    name: String,
    abilities: Abilities,
    reads_nodes: bool,
    reads_attributes: bool,
    guest: Guest,
    /// The last pass of each queue, if the instance asked for it as a whole and would do so again.
    again: Vec<Option<Whole>>,
    /// How another instance is made.
    pub(crate) anew: Option<Anew>,
    /// Keeps compiler and clock alive.
    _runtime: Arc<Runtime>,
}

/// The instance and its exports.
struct Guest {
    store: Store<HostState>,
    limits: Arc<Limits>,
    policy: exports::policy::Guest,
    ordering: Option<exports::ordering::Guest>,
    scheduling: Option<exports::scheduling::Guest>,
    observing: Option<exports::observing::Guest>,
    ranking: Option<exports::ranking::Guest>,
    state: Option<exports::state::Guest>,
    /// The error after which it must not be entered again.
    dead: Option<PolicyError>,
    cost: PolicyCost,
    /// Fuel that is left for the pass of these calls.
    pass_fuel: u64,
}

impl std::fmt::Debug for WasmPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmPolicy")
            .field("name", &self.name)
            .field("dead", &self.guest.dead)
            .finish_non_exhaustive()
    }
}

impl WasmPolicy {
    /// Instantiates a component once for its description.
    pub(crate) fn describe(linked: &Linked) -> Result<Description, LoadError> {
        Guest::start(linked)?.describe()
    }

    /// Instantiates and configures.
    pub(crate) fn start(
        linked: &Linked,
        described: &Description,
        values: &[(String, String)],
    ) -> Result<WasmPolicy, LoadError> {
        let mut guest = Guest::start(linked)?;
        guest.store.data_mut().name.clone_from(&described.name);
        if guest.describe()? != *described {
            let problem = "differs from the first answer; it must be the same at any time".to_owned();
            return Err(LoadError::Description { field: "the description".to_owned(), problem });
        }
        guest.configure(values)?;
        let name = described.name.clone();
        let Linked { abilities, reads_nodes, reads_attributes, .. } = *linked;
        let _runtime = linked.runtime.clone();
        Ok(WasmPolicy {
            name,
            abilities,
            reads_nodes,
            reads_attributes,
            guest,
            again: Vec::new(),
            anew: None,
            _runtime,
        })
    }

    /// The cost counters of the instance, which stay readable after the policy was moved or dropped.
    pub fn meter(&self) -> Arc<Meter> {
        self.guest.store.data().meter.clone()
    }
}

impl Guest {
    fn start(linked: &Linked) -> Result<Guest, LoadError> {
        let limits = linked.runtime.limits.clone();
        let meter = Arc::new(Meter::new(linked.log.clone()));
        let mut store =
            linked.runtime.store(HostState::new(limits.clone(), meter, linked.runtime.has_clock()));
        let mut cost = PolicyCost::default();
        let instance = enter(&mut store, &mut cost, Call::Instantiate, limits.fuel_instantiate, |store| {
            linked.pre.instantiate(store)
        })?;
        fn typed<T>(interface: &'static str, export: wasmtime::Result<T>) -> Result<T, LoadError> {
            export.map_err(|error| LoadError::Signature { interface, message: flat(&error) })
        }
        let i = &linked.indices;
        let policy = typed("policy", i.policy.load(&mut store, &instance))?;
        let ordering = i.ordering.as_ref().map(|i| i.load(&mut store, &instance)).transpose();
        let scheduling = i.scheduling.as_ref().map(|i| i.load(&mut store, &instance)).transpose();
        let observing = i.observing.as_ref().map(|i| i.load(&mut store, &instance)).transpose();
        let state = i.state.as_ref().map(|i| i.load(&mut store, &instance)).transpose();
        let ranking = i.ranking.as_ref().map(|i| i.load(&mut store, &instance)).transpose();
        Ok(Guest {
            store,
            limits,
            policy,
            ordering: typed("ordering", ordering)?,
            scheduling: typed("scheduling", scheduling)?,
            observing: typed("observing", observing)?,
            state: typed("state", state)?,
            ranking: typed("ranking", ranking)?,
            dead: None,
            cost,
            pass_fuel: linked.runtime.limits.fuel_pass,
        })
    }

    /// Enters the instance once, unless it is dead.
    fn call<R>(
        &mut self,
        call: Call,
        fuel: u64,
        body: impl FnOnce(&mut Store<HostState>) -> wasmtime::Result<R>,
    ) -> Result<R, PolicyError> {
        if let Some(dead) = &self.dead {
            return Err(dead.clone());
        }
        enter(&mut self.store, &mut self.cost, call, fuel, body)
            .inspect_err(|error| self.dead = Some(error.clone()))
    }

    /// [`Guest::call`] for calls that belong to a pass, with at most the fuel that is left for it. `more` is the fuel
    /// that these rows or events add.
    fn call_in_pass<R>(
        &mut self,
        call: Call,
        (fuel, more): (u64, u64),
        body: impl FnOnce(&mut Store<HostState>) -> wasmtime::Result<R>,
    ) -> Result<R, PolicyError> {
        self.pass_fuel = self.pass_fuel.saturating_add(more);
        let (left, before) = (self.pass_fuel, self.cost.fuel);
        let result = self.call(call, fuel.min(left), body);
        self.pass_fuel = left.saturating_sub(self.cost.fuel.saturating_sub(before));
        match result {
            Err(PolicyError::Fuel { during, .. }) if left < fuel => {
                let limit = self.limits.fuel_pass;
                let found = limit.saturating_add(1);
                self.kill(PolicyError::Bound { during, bound: "fuel-pass", limit, found })
            }
            result => result,
        }
    }

    /// Asks for the pass that the instance asked for in its last call, and would ask for again, without a call: it has the same fuel, and
    /// counts as no cost.
    fn repeat(&mut self, pass: Box<Pass>, whole: Whole) -> (Box<Pass>, Result<(), PolicyError>) {
        if let Some(dead) = &self.dead {
            return (pass, Err(dead.clone()));
        }
        let fuel = self.limits.fuel_run.min(self.pass_fuel);
        self.pass_fuel = self.limits.fuel_pass;
        let state = self.store.data_mut();
        state.begin(Call::Run.name(), fuel);
        state.pass = Some(pass);
        let answer = state.whole_pass(whole.reservations, whole.unknown, true);
        let result = answer.map(drop).map_err(|error| judge(&error, state, Call::Run, fuel));
        let pass = state.pass.take().expect("questions do not take the pass");
        self.dead = result.as_ref().err().cloned();
        (pass, result)
    }

    /// Marks the instance dead because of a returned value that is not acceptable.
    fn kill<R>(&mut self, error: PolicyError) -> Result<R, PolicyError> {
        self.dead = Some(error.clone());
        Err(error)
    }

    fn describe(&mut self) -> Result<Description, LoadError> {
        let (export, fuel) = (self.policy.clone(), self.limits.fuel_describe);
        let found = self.call(Call::Describe, fuel, |store| export.call_describe(store))?;
        Description::accept(found)
    }

    fn configure(&mut self, values: &[(String, String)]) -> Result<(), PolicyError> {
        let values: Vec<(&str, &str)> = values.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let (export, fuel) = (self.policy.clone(), self.limits.fuel_configure);
        match self.call(Call::Configure, fuel, |store| export.call_configure(store, &values))? {
            Ok(()) => Ok(()),
            Err(words) => self.kill(refused(Call::Configure, &words)),
        }
    }

    fn keys(&mut self, now: f64, columns: types::JobColumns<'_>) -> Result<Vec<f64>, PolicyError> {
        let rows = columns.id.len();
        let more = batch_fuel(0, self.limits.fuel_keys_row, rows);
        let fuel = (self.limits.fuel_keys.saturating_add(more), more);
        let Some(export) = self.ordering.clone() else { return Ok(vec![0.0; rows]) };
        let keys = self.call_in_pass(Call::Keys, fuel, |store| export.call_keys(store, now, columns))?;
        let message = if keys.len() != rows {
            format!("{} keys for {rows} jobs", keys.len())
        } else if let Some(row) = keys.iter().position(|key| key.is_nan()) {
            format!("the key of row {row} of {rows} is not a number")
        } else {
            return Ok(keys);
        };
        self.kill(PolicyError::BadValue { during: Call::Keys.name(), message })
    }

    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        let Some(export) = self.observing.clone() else { return Ok(()) };
        let more = batch_fuel(0, self.limits.fuel_observe_event, events.len());
        let fuel = (self.limits.fuel_observe.saturating_add(more), more);
        let events: Vec<types::JobEvent> = events.iter().map(event).collect();
        self.call_in_pass(Call::Observe, fuel, |store| export.call_observe(store, now, &events))
    }

    fn scores(&mut self, nodes: &[NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> {
        let rows = nodes.len();
        let Some(export) = self.ranking.clone() else { return Ok(vec![0.0; rows]) };
        let more = batch_fuel(0, self.limits.fuel_scores_row, rows);
        let fuel = (self.limits.fuel_scores.saturating_add(more), more);
        let holds: Vec<Vec<exports::ranking::Quantity<'_>>> = nodes.iter().map(quantities).collect();
        let columns: Vec<exports::ranking::Node<'_>> =
            nodes.iter().zip(&holds).map(|(node, holds)| seen(node, holds)).collect();
        let scores = self.call_in_pass(Call::Scores, fuel, |store| export.call_scores(store, &columns))?;
        let message = if scores.len() != rows {
            format!("{} scores for {rows} nodes", scores.len())
        } else if let Some(row) = scores.iter().position(|score| score.is_nan()) {
            format!("the score of rank {} is not a number", nodes[row].rank)
        } else {
            return Ok(scores);
        };
        self.kill(PolicyError::BadValue { during: Call::Scores.name(), message })
    }
}

/// The only function that enters an instance. `store` is not used otherwise during a call.
fn enter<R>(
    store: &mut Store<HostState>,
    cost: &mut PolicyCost,
    call: Call,
    fuel: u64,
    body: impl FnOnce(&mut Store<HostState>) -> wasmtime::Result<R>,
) -> Result<R, PolicyError> {
    store.data_mut().begin(call.name(), fuel);
    let deadline_ms = store.data().limits.deadline_ms;
    store.set_epoch_deadline(Ticker::ticks(deadline_ms));
    let clock = store.data().clock;
    let (result, nanos) = measured(clock, || store.set_fuel(fuel).and_then(|()| body(store)));
    let left = store.get_fuel().unwrap_or(0);
    let state = store.data();
    let used = fuel.saturating_sub(left).saturating_add(state.charged());
    state.meter.add(call, used, nanos, state.memory.bytes);
    cost.calls += 1;
    cost.fuel = cost.fuel.saturating_add(used);
    cost.nanos = cost.nanos.saturating_add(nanos);
    cost.memory = state.memory.bytes;
    result.map_err(|error| judge(&error, state, call, fuel))
}

/// The breach of a failed call.
fn judge(error: &wasmtime::Error, state: &HostState, call: Call, fuel: u64) -> PolicyError {
    let during = call.name();
    let limits = &state.limits;
    if let Some(breach) = error.downcast_ref::<PolicyError>() {
        return breach.clone();
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return PolicyError::Fuel { during, limit: fuel },
        Some(Trap::StackOverflow) => {
            let limit = limits.stack_bytes;
            let (bound, found) = ("stack-bytes", limit.saturating_add(1));
            return PolicyError::Bound { during, bound, limit, found };
        }
        Some(Trap::Interrupt) => return PolicyError::Deadline { during, limit_ms: limits.deadline_ms },
        _ => {}
    }
    // A runtime that was denied memory mostly ends in `unreachable`; the denial is the useful reason.
    match state.memory.denied {
        Some(Denied::Memory) => return PolicyError::Memory { during, limit: limits.memory_bytes },
        Some(Denied::Table(found)) => {
            let bound = "table-elements";
            return PolicyError::Bound { during, bound, limit: limits.table_elements, found };
        }
        None => {}
    }
    let cause = error.root_cause().to_string();
    if cause.contains(COPY_EXHAUSTED) {
        let limit = limits.copy_bytes;
        return PolicyError::Bound { during, bound: "copy-bytes", limit, found: limit.saturating_add(1) };
    }
    let place = error.downcast_ref::<WasmBacktrace>().map(functions).unwrap_or_default();
    if error.downcast_ref::<Trap>().is_none() && place.is_empty() && call != Call::Instantiate {
        // There was no trap: the returned value could not be read (a pointer outside of memory, text that is not
        // UTF-8).
        return PolicyError::BadValue { during, message: one_line(&cause, MESSAGE_BYTES_MAX) };
    }
    state.trap(&format!("{cause}{place}"))
}

/// Parts of names of functions of a panic, which do not show its origin.
const PANIC_FRAMES: [&str; 5] =
    ["rust_panic", "rust_begin_unwind", "rust_start_panic", "rust_abort", "panicking"];

/// The innermost functions of a trap that have names, as in their source.
fn functions(backtrace: &WasmBacktrace) -> String {
    let named = backtrace.frames().iter().filter_map(|frame| frame.func_name());
    let names: Vec<String> = named
        .map(|name| format!("{:#}", rustc_demangle::demangle(name)))
        .filter(|name| !PANIC_FRAMES.iter().any(|linked| name.contains(linked)))
        .take(TRAP_FRAMES)
        .collect();
    if names.is_empty() { String::new() } else { format!(" in {}", names.join(", called by ")) }
}

fn refused(call: Call, words: &str) -> PolicyError {
    PolicyError::Refused { during: call.name(), message: one_line(words, MESSAGE_BYTES_MAX) }
}

fn batch_fuel(base: u64, each: u64, rows: usize) -> u64 {
    base.saturating_add(each.saturating_mul(rows as u64))
}

fn event(event: &JobEvent) -> types::JobEvent {
    let kind = match event.kind {
        JobEventKind::Pending => types::JobEventKind::Pending,
        JobEventKind::Started => types::JobEventKind::Started,
        JobEventKind::Ended => types::JobEventKind::Ended,
        JobEventKind::Removed => types::JobEventKind::Removed,
        JobEventKind::Priority => types::JobEventKind::Priority,
        JobEventKind::Expiration => types::JobEventKind::Expiration,
    };
    types::JobEvent { kind, job: event.job.0, time: event.time, value: event.value }
}

fn quantities<'a>(node: &NodeRow<'a>) -> Vec<exports::ranking::Quantity<'a>> {
    let holds = node.holds.iter();
    holds.map(|of| exports::ranking::Quantity { kind: of.kind, amount: of.amount, unit: of.unit }).collect()
}

fn seen<'a>(
    node: &'a NodeRow<'a>,
    holds: &'a [exports::ranking::Quantity<'a>],
) -> exports::ranking::Node<'a> {
    let NodeRow { rank, host, path, properties, .. } = node;
    exports::ranking::Node { rank: *rank, host, path, properties, holds }
}

impl Policy for WasmPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn reads_nodes(&self) -> bool {
        self.reads_nodes
    }

    fn reads_attributes(&self) -> bool {
        self.reads_attributes
    }

    fn machine(&mut self, machine: Machine) {
        self.guest.store.data_mut().machine = machine;
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        let rows = jobs.len();
        let ids: Vec<u64> = jobs.id.iter().map(|id| id.0).collect();
        let batch = self.guest.limits.batch_rows as usize;
        let mut keys = Vec::with_capacity(rows);
        let mut from = 0;
        while from < rows {
            let to = rows.min(from + batch);
            let columns = types::JobColumns {
                id: &ids[from..to],
                t_submit: &jobs.t_submit[from..to],
                duration: &jobs.duration[from..to],
                priority: &jobs.priority[from..to],
                userid: &jobs.userid[from..to],
                queue: &jobs.queue[from..to],
                nodes: &jobs.nodes[from..to],
                cores: &jobs.cores[from..to],
                gpus: &jobs.gpus[from..to],
            };
            keys.append(&mut self.guest.keys(now, columns)?);
            from = to;
        }
        Ok(keys)
    }

    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        let batch = self.guest.limits.batch_rows as usize;
        events.chunks(batch).try_for_each(|events| self.guest.observe(now, events))
    }

    fn scores(&mut self, nodes: &[NodeRow<'_>]) -> Result<Vec<f64>, PolicyError> {
        let batch = self.guest.limits.batch_rows as usize;
        let mut scores = Vec::with_capacity(nodes.len());
        for nodes in nodes.chunks(batch) {
            scores.append(&mut self.guest.scores(nodes)?);
        }
        Ok(scores)
    }

    fn run(&mut self, pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        let Some(export) = self.guest.scheduling.clone() else { return (pass, Ok(())) };
        let queue = pass.queue() as usize;
        if let Some(whole) = self.again.get(queue).copied().flatten() {
            return self.guest.repeat(pass, whole);
        }
        let fuel = self.guest.limits.fuel_run;
        self.guest.store.data_mut().pass = Some(pass);
        let result = self.guest.call_in_pass(Call::Run, (fuel, 0), |store| export.call_run(store));
        self.again.resize(self.again.len().max(queue + 1), None);
        self.again[queue] = self.guest.store.data().asked_whole().filter(|_| result.is_ok());
        // The pass is over; later calls belong to the next one.
        self.guest.pass_fuel = self.guest.limits.fuel_pass;
        // Imports only borrow the pass, so it is present after any outcome.
        let pass = self.guest.store.data_mut().pass.take().expect("imports do not take the pass");
        (pass, result)
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        let call = Call::Save;
        let Some(export) = self.guest.state.clone() else {
            return Err(refused(call, "this policy has no state"));
        };
        let fuel = self.guest.limits.fuel_save;
        let (version, data) = self.guest.call(call, fuel, |store| export.call_save(store))?;
        let (found, limit) = (data.len() as u64, self.guest.limits.state_bytes);
        if found > limit {
            return self.guest.kill(PolicyError::Bound {
                during: call.name(),
                bound: "state-bytes",
                limit,
                found,
            });
        }
        Ok(SavedState { from: self.name.clone(), version, data })
    }

    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        let call = Call::Restore;
        let Some(export) = self.guest.state.clone() else {
            return Err(refused(call, "this policy takes no state"));
        };
        let fuel = self.guest.limits.fuel_restore;
        self.again.clear();
        let answer = self
            .guest
            .call(call, fuel, |store| export.call_restore(store, &state.from, state.version, &state.data))?;
        // A cold start is a choice, not a breach: the instance stays alive.
        answer.map_err(|words| refused(call, &words))
    }

    fn anew(&self) -> Option<Anew> {
        self.anew.clone()
    }

    fn cost(&self) -> PolicyCost {
        self.guest.cost
    }

    fn cost_by_call(&self) -> Vec<CallCost> {
        let rows = self.meter().snapshot().calls.into_iter();
        let cost = |row: crate::meter::CallCost| CallCost {
            call: row.export,
            calls: row.calls,
            fuel: row.fuel,
            nanos: row.nanos,
        };
        rows.map(cost).collect()
    }
}
