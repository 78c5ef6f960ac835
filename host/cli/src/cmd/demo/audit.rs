//! The audit of a demo by the instance's durable records: jobs lost or run twice, connections dropped.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use fluxgate_formats::eventlog;
use serde_json::{Value, json};

use super::records::Record;
use crate::client::Client;

/// Observations around a swap.
#[derive(Debug, Clone)]
pub(crate) struct SwapSeen {
    pub(crate) what: String,
    /// Jobs that held resources right before it.
    pub(crate) held: Vec<u64>,
}

/// The audit of a demo.
pub(crate) struct Audit {
    /// For each swap: allocations held right before it, and how many of those ran on undisturbed.
    pub(crate) swaps: Value,
    /// The instance's numbers, and those that compare them with what was submitted.
    pub(crate) numbers: Value,
}

impl Audit {
    /// Nothing lost, nothing run twice, no connection dropped, every held allocation kept.
    pub(crate) fn clean(&self) -> bool {
        let zero = ["lost", "run_twice", "dropped"].iter().all(|key| self.numbers[*key] == 0);
        zero && self.swaps.as_array().into_iter().flatten().all(|swap| swap["held"] == swap["kept"])
    }
}

/// Ask the instance, and compare with what this program submitted and saw.
pub(crate) fn make(
    client: &Client,
    records: &[Record],
    submitted: &[u64],
    swaps: &[SwapSeen],
) -> Result<Audit> {
    let mut numbers = client.rpc("fluxgate-instance.audit", json!({}))?;
    let known: BTreeMap<u64, &Record> = records.iter().map(|r| (r.id, r)).collect();
    // A job that we have an id for and the instance has no record of would be the worst loss.
    let unknown = submitted.iter().filter(|id| !known.contains_key(id)).count() as u64;
    let lost = numbers["lost"].as_u64().context("fluxgate-instance.audit: no number `lost`")?;
    numbers["lost"] = (lost + unknown).into();
    let swaps = swaps
        .iter()
        .map(|swap| {
            let mut kept = 0;
            for id in &swap.held {
                kept += u64::from(undisturbed(client, *id)?);
            }
            Ok(json!({"swap": swap.what, "held": swap.held.len(), "kept": kept}))
        })
        .collect::<Result<Vec<Value>>>()?;
    Ok(Audit { swaps: swaps.into(), numbers })
}

/// True if by its event log this job got resources once, started once, and had no exception.
fn undisturbed(client: &Client, id: u64) -> Result<bool> {
    let answer = client.rpc("job-info.lookup", json!({"id": id, "keys": ["eventlog"], "flags": 0}))?;
    let events = eventlog::parse(answer["eventlog"].as_str().unwrap_or(""))?;
    let count = |name: &str| events.iter().filter(|event| event.name == name).count();
    Ok(count("alloc") == 1 && count("start") == 1 && count("exception") == 0)
}
