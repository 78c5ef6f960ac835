//! The host's state of one instance: the pass that it was lent, its bounds and how much of them it has used.
//!
//! This module must never know about exports, and judges nothing: it measures and refuses.

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
    /// The pass, while `run` runs and only then.
    pub(crate) pass: Option<Pass>,
    /// The answer of `machine` outside of a pass.
    pub(crate) machine: Machine,
    pub(crate) memory: Memory,
    pub(crate) meter: Arc<Meter>,
    /// Calls are measured by a wall clock.
    pub(crate) clock: bool,
    /// The export that is running.
    pub(crate) during: &'static str,
    /// The last message that the policy logged at level error in this call: mostly why it panics.
    pub(crate) last_error: Option<String>,
    /// Log messages that may still be written.
    pub(crate) log_left: u32,
    charge: u64,
    charge_max: u64,
    questions: u64,
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
        }
    }

    /// A call begins.
    pub(crate) fn begin(&mut self, during: &'static str, fuel: u64) {
        self.during = during;
        self.last_error = None;
        self.memory.denied = None;
        self.charge = 0;
        self.charge_max = fuel;
        self.questions = 0;
        self.log_left = self.log_left.saturating_add(self.limits.log_refill).min(self.limits.log_burst);
    }

    /// Charge the host's work on a question. Deterministic, like fuel.
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

    /// Is half of the fuel that may be charged in this call used up? Then decisions are refused with `limit`, so that a
    /// policy that heeds that ends its pass before it fails.
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
    /// The bound that a growth in this call ran into.
    pub(crate) denied: Option<Denied>,
}

/// A growth that was not granted.
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

/// `used` after something grew from `current` to `desired`.
fn grown(used: u64, current: usize, desired: usize) -> u64 {
    used.saturating_add((desired as u64).saturating_sub(current as u64))
}

impl ResourceLimiter for Memory {
    // A denied growth is an answer (-1), not a trap: runtimes with a collector ask for much and then for
    // less. A component that needs it traps by itself, and `denied` says why.
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
