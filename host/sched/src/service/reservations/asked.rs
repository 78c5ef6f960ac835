//! The payloads of requests about reservations, as they are asked.
//!
//! Must never know what is possible.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_engine::{AfterWindow, OnRunning, WindowKind};
use fluxgate_formats::constraint::Constraint;
use serde::Deserialize;

/// The payload of `reservation-create`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    pub(super) name: String,
    pub(super) kind: WindowKind,
    pub(super) start: f64,
    pub(super) end: f64,
    /// A hostlist, or `all`.
    pub(super) hosts: Option<String>,
    pub(super) nodes: Option<u32>,
    pub(super) cores: Option<u64>,
    pub(super) constraint: Option<Constraint>,
    #[serde(default)]
    pub(super) users: BTreeSet<u32>,
    /// Names of groups.
    #[serde(default)]
    pub(super) groups: BTreeSet<String>,
    #[serde(default)]
    pub(super) queues: BTreeSet<String>,
    #[serde(default)]
    pub(super) banks: BTreeSet<String>,
    #[serde(default)]
    pub(super) magnetic: bool,
    #[serde(default)]
    pub(super) flex: bool,
    #[serde(default)]
    pub(super) overlap: bool,
    #[serde(default)]
    pub(super) replace: bool,
    pub(super) release_when_idle: Option<f64>,
    pub(super) float: Option<f64>,
    #[serde(default)]
    pub(super) fill: bool,
    /// Amounts of pools, by name: `all`, `50%`, `30kW`.
    #[serde(default)]
    pub(super) pools: BTreeMap<String, String>,
    pub(super) running: Option<OnRunning>,
    pub(super) after: Option<AfterWindow>,
    pub(super) margin: Option<f64>,
    #[serde(default)]
    pub(super) overrun: f64,
    pub(super) repeat: Option<AskedRepeat>,
    #[serde(default)]
    pub(super) note: String,
    #[serde(default)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedRepeat {
    pub(super) every: String,
    pub(super) zone: String,
    #[serde(default)]
    pub(super) until: f64,
}

/// The payload of `reservation-alter`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Alter {
    pub(super) name: String,
    pub(super) start: Option<f64>,
    pub(super) end: Option<f64>,
    pub(super) hosts: Option<String>,
    pub(super) nodes: Option<u32>,
    pub(super) cores: Option<u64>,
    #[serde(default)]
    pub(super) users_add: BTreeSet<u32>,
    #[serde(default)]
    pub(super) users_remove: BTreeSet<u32>,
    #[serde(default)]
    pub(super) groups_add: BTreeSet<String>,
    #[serde(default)]
    pub(super) groups_remove: BTreeSet<String>,
    #[serde(default)]
    pub(super) banks_add: BTreeSet<String>,
    #[serde(default)]
    pub(super) banks_remove: BTreeSet<String>,
    #[serde(default)]
    pub(super) queues_add: BTreeSet<String>,
    #[serde(default)]
    pub(super) queues_remove: BTreeSet<String>,
    /// 0 takes it back.
    pub(super) release_when_idle: Option<f64>,
    pub(super) float: Option<f64>,
    pub(super) fill: Option<bool>,
    pub(super) pools: Option<BTreeMap<String, String>>,
    pub(super) running: Option<OnRunning>,
    pub(super) after: Option<AfterWindow>,
    pub(super) margin: Option<f64>,
    pub(super) overrun: Option<f64>,
    pub(super) note: Option<String>,
    #[serde(default)]
    pub(super) dry_run: bool,
}
