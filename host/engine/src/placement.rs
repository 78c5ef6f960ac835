//! The placement and the window that a jobspec requests, and the bank that windows may ask for.
//!
//! Must never know the engine.

use std::sync::Arc;

use fluxgate_formats::Jobspec;
use fluxgate_graph::Placement;
use serde_json::Value;

use crate::windows::{Applicant, check_window_name};

/// Most characters of a refused value that are quoted.
const FOUND_MAX: usize = 60;

/// The value of `attributes.system.fluxgate.KEY` of a jobspec.
fn own_attr<'a>(jobspec: &'a Jobspec, key: &str) -> Option<&'a Value> {
    jobspec.system_attr("fluxgate")?.get(key)
}

/// The placement that a jobspec names in `attributes.system.fluxgate.placement`.
pub(crate) fn wanted_placement(jobspec: &Jobspec) -> Result<Option<Placement>, String> {
    if jobspec.is_plain() {
        return Ok(None);
    }
    let Some(value) = own_attr(jobspec, "placement") else { return Ok(None) };
    let placement = value.as_str().and_then(Placement::from_name);
    placement.map(Some).ok_or_else(|| {
        let (accepted, found) = (Placement::NAMES, shown(value));
        format!("attributes.system.fluxgate.placement: expected {accepted}, found {found}")
    })
}

/// Longest name of a bank that is looked at, in bytes.
const BANK_MAX: usize = 256;

/// The data of a jobspec by which windows admit its job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    /// The window that it names.
    pub(crate) reservation: Option<Arc<str>>,
    /// Its bank.
    pub(crate) bank: Option<Arc<str>>,
    /// Whole seconds after which it may be ended.
    pub(crate) preemptible_after: Option<u32>,
}

impl Wish {
    /// The wish of a jobspec.
    pub(crate) fn of(jobspec: &Jobspec) -> Result<Wish, String> {
        if jobspec.is_plain() {
            return Ok(Wish::default());
        }
        // The bank is an attribute of another program: a value that is no name is no bank here, and no fault.
        let bank = jobspec.system_attr("bank").and_then(Value::as_str);
        let bank = bank.filter(|bank| !bank.is_empty() && bank.len() <= BANK_MAX);
        let after = jobspec.preemptible_after().filter(|after| *after >= 0.0);
        Ok(Wish {
            reservation: wanted_reservation(jobspec)?,
            bank: bank.map(Into::into),
            // The cast saturates.
            preemptible_after: after.map(|after| after.ceil() as u32),
        })
    }

    /// True if the jobspec has none of these.
    pub(crate) fn is_empty(&self) -> bool {
        self.reservation.is_none() && self.bank.is_none() && self.preemptible_after.is_none()
    }

    /// A job with it, of this user and queue.
    pub(crate) fn applicant<'a>(&'a self, user: u32, queue: &'a str) -> Applicant<'a> {
        Applicant {
            named: self.reservation.as_deref(),
            user,
            queue,
            bank: self.bank.as_deref(),
            preemptible_after: self.preemptible_after,
        }
    }
}

/// The window that a jobspec names in `attributes.system.fluxgate.reservation`.
pub(crate) fn wanted_reservation(jobspec: &Jobspec) -> Result<Option<Arc<str>>, String> {
    let Some(value) = own_attr(jobspec, "reservation") else { return Ok(None) };
    // A name of digits may come as a number.
    let name = value.as_u64().map(|number| number.to_string()).or_else(|| value.as_str().map(str::to_owned));
    let name = name.filter(|name| check_window_name(name).is_ok());
    name.map(|name| Some(name.as_str().into())).ok_or_else(|| {
        let found = shown(value);
        format!("attributes.system.fluxgate.reservation: expected the name of a reservation, found {found}")
    })
}

fn shown(value: &Value) -> String {
    let mut found = value.to_string();
    if found.chars().count() > FOUND_MAX {
        found = found.chars().take(FOUND_MAX).chain("...".chars()).collect();
    }
    found
}
