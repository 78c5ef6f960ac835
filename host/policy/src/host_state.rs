//! The host's state of one instance: the pass that it was lent, its bounds and their use.
//!
//! This module must never know the exports. It measures and refuses; it does not decide the kind of a failure.

use std::sync::Arc;

use fluxgate_engine::{Machine, Pass, PolicyError};
use wasmtime::ResourceLimiter;

use crate::limits::{Limits, MESSAGE_BYTES_MAX, one_line};
use crate::meter::Meter;

/// The data of a store.
pub(crate) struct HostState {
    pub(crate) limits: Arc<Limits>,
    /// The policy's name once it is known; for the log.
    pub(crate) name: String,
    /// The pass, only during `run`.
    pub(crate) pass: Option<Box<Pass>>,
    /// The answer of `machine` outside of a pass.
    pub(crate) machine: Machine,
    pub(crate) memory: Memory,
    pub(crate) meter: Arc<Meter>,
    /// True if calls are measured by a wall clock.
    pub(crate) clock: bool,
    /// The export that is running.
    pub(crate) during: &'static str,
    /// The last message that the policy logged at level error in this call: mostly the reason of a panic.
    pub(crate) last_error: Option<String>,
    /// Log messages that may still be written.
    pub(crate) log_left: u32,
    charge: u64,
    charge_max: u64,
    questions: u64,
    /// The pass that this call asked for as a whole, with the number of questions when it was answered.
    pub(crate) whole: Option<(Whole, u64)>,
}

/// A pass that is one question of `many.backfill` with `holds`: its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) reservations: u32,
    pub(crate) unknown: u32,
}

impl HostState {
    pub(crate) fn new(limits: Arc<Limits>, meter: Arc<Meter>, clock: bool) -> HostState {
        HostState {
            memory: Memory::new(&limits),
            log_left: limits.log_burst,
            limits,
            name: String::new(),
            pass: None,
            machine: Machine::default(),
            meter,
            clock,
            during: "",
            last_error: None,
            charge: 0,
            charge_max: 0,
            questions: 0,
            whole: None,
        }
    }

    /// Called at the start of a call.
    pub(crate) fn begin(&mut self, during: &'static str, fuel: u64) {
        self.during = during;
        self.last_error = None;
        self.memory.denied = None;
        self.charge = 0;
        self.charge_max = fuel;
        self.questions = 0;
        self.whole = None;
        self.log_left = self.log_left.saturating_add(self.limits.log_refill).min(self.limits.log_burst);
    }

    /// Charges the host's work for a query. Deterministic, like fuel.
    pub(crate) fn charge(&mut self, fuel: u64) -> Result<(), PolicyError> {
        self.charge = self.charge.saturating_add(self.limits.fuel_question).saturating_add(fuel);
        if self.charge > self.charge_max {
            return Err(PolicyError::Fuel { during: self.during, limit: self.charge_max });
        }
        self.questions += 1;
        let (found, limit) = (self.questions, self.limits.questions);
        if found > limit {
            return Err(PolicyError::Bound { during: self.during, bound: "questions", limit, found });
        }
        Ok(())
    }

    /// Number of questions in this call so far.
    pub(crate) fn questions(&self) -> u64 {
        self.questions
    }

    /// The pass that this call asked for as a whole, if it asked nothing else.
    pub(crate) fn asked_whole(&self) -> Option<Whole> {
        self.whole.filter(|(_, questions)| *questions == self.questions).map(|(whole, _)| whole)
    }

    /// True if half of the fuel that may be charged in this call is used. Decisions are then refused with `limit`, so
    /// that a policy that heeds this ends its pass before it fails.
    pub(crate) fn half_charged(&self) -> bool {
        self.charge > self.charge_max / 2
    }

    /// Fuel charged in this call so far.
    pub(crate) fn charged(&self) -> u64 {
        self.charge.min(self.charge_max)
    }

    /// A failure of the guest's code, with the last error that it logged.
    pub(crate) fn trap(&self, message: &str) -> PolicyError {
        let mut message = one_line(message, MESSAGE_BYTES_MAX);
        if let Some(words) = &self.last_error {
            message.push_str("; its last words: ");
            message.push_str(words);
        }
        PolicyError::Trap { during: self.during, message }
    }
}

/// Memory and tables of one instance, checked against their bounds.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Bytes over all memories.
    pub(crate) bytes: u64,
    bytes_max: u64,
    elements: u64,
    elements_max: u64,
    instances: usize,
    /// The bound that a growth in this call exceeded.
    pub(crate) denied: Option<Denied>,
}

/// A growth that was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    Memory,
    /// With the number of elements that would have been reached.
    Table(u64),
}

impl Memory {
    fn new(limits: &Limits) -> Memory {
        Memory {
            bytes: 0,
            bytes_max: limits.memory_bytes,
            elements: 0,
            elements_max: limits.table_elements,
            instances: limits.instances as usize,
            denied: None,
        }
    }
}

/// `used` after a growth from `current` to `desired`.
fn grown(used: u64, current: usize, desired: usize) -> u64 {
    used.saturating_add((desired as u64).saturating_sub(current as u64))
}

impl ResourceLimiter for Memory {
    // A denied growth is an answer (-1), not a trap: runtimes with a collector first request much and then less. A
    // component that cannot go on traps by itself, and `denied` gives the reason.
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|max| desired > max) {
            return Ok(false);
        }
        let bytes = grown(self.bytes, current, desired);
        if bytes > self.bytes_max {
            self.denied = Some(Denied::Memory);
            return Ok(false);
        }
        self.bytes = bytes;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|max| desired > max) {
            return Ok(false);
        }
        let elements = grown(self.elements, current, desired);
        if elements > self.elements_max {
            self.denied = Some(Denied::Table(elements));
            return Ok(false);
        }
        self.elements = elements;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.instances
    }

    fn memories(&self) -> usize {
        self.instances
    }
}
