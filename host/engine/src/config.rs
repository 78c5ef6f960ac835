//! Every bound and setting of the engine: name, default and reason. Must never know where settings come from.

use std::collections::BTreeMap;

use fluxgate_graph::{Placement, RecordFormat, SiteRules};
use serde::{Deserialize, Serialize};

use crate::amounts::QueueBounds;

/// The behaviour after a policy failed, until another policy is swapped in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnBreach {
    /// The built-in policy decides, from the same pass on: fail open.
    #[default]
    Fallback,
    /// Scheduling is suspended: no job starts, running jobs stay, and the annotations of waiting jobs say why. Fail
    /// closed.
    #[serde(rename = "Hold")]
    Suspend,
}

/// The settings. [`Config::default`] holds at a site that sets nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Most candidates offered in one pass of one queue. Default 1,000,000: more than the jobs of any queue seen so far.
    pub candidates_per_pass_max: u64,
    /// Most starts plus reservations decided in one pass of one queue. Default 2,048, so that events are processed between
    /// two passes. Jobs that this bound keeps from starting are candidates of the next pass.
    pub decisions_per_pass_max: u64,
    /// Most reservations that stand at once, over all queues. Default 4,096.
    pub reservations_max: usize,
    /// Most bytes of annotations (keys and JSON values) that a policy attaches to one job in one pass. Default 4 KiB.
    pub annotation_bytes_per_job_max: u64,
    /// Most bytes of annotations over a whole pass. Default 256 KiB.
    pub annotation_bytes_per_pass_max: u64,
    /// Most different annotation keys that a policy attaches to one job while it waits. Default 64.
    pub annotation_keys_per_job_max: u64,
    /// Most annotations that a policy makes in one pass, over all jobs. Default 32,768.
    pub annotations_per_pass_max: u64,
    /// The behaviour after a breach. Default: the built-in policy decides.
    pub on_breach: OnBreach,
    /// Most jobs whose keys are requested in one call; 0 counts as 1. Default 16,384: a call of well under a millisecond.
    pub keys_per_call: usize,
    /// Most events, and most jobs to be keyed, kept for a policy until its next call; at this number they are delivered at once.
    /// Default 16,384.
    pub events_per_call: usize,
    /// Most waiting jobs keyed by a successor between two passes of the active policy; 0 counts as 1. Default 16,384.
    pub warm_up_per_step: usize,
    /// Most queues, the anonymous one included. Default 1,024; a job for one more is denied.
    pub queues_max: usize,
    /// The placement of jobs for which neither jobspec nor policy nor queue names one. Default [`Placement::First`].
    pub placement: Placement,
    /// The placement of jobs of some queues, by name, for which neither jobspec nor policy names one.
    pub queue_placements: BTreeMap<String, Placement>,
    /// Ceilings and floors of queues, by name; empty for no bounds. See [`check_bounds`](crate::check_bounds).
    pub queue_bounds: BTreeMap<String, QueueBounds>,
    /// The vertices beside cores and gpus that the R of jobs names, where the machine has the graph of a site.
    pub record_format: RecordFormat,
    /// Rules of the site about the resources of jobs, beside their jobspecs. An engine keeps the rules that it began with.
    #[serde(skip_serializing_if = "SiteRules::is_empty")]
    pub site_rules: SiteRules,
    /// Annotate jobs with the reason why they wait and the time when they may start (RFC 27). Default on; off in a
    /// replay.
    pub annotate: bool,
    /// Annotate jobs with the reason in a form for programs too (`sched.reason`). Default off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub annotate_reason: bool,
    /// Write the R of a job that starts. Default on. Without it [`Action::Start`](crate::Action::Start) has an empty R, for a
    /// driver that commits nothing (a replay for metrics alone). The ledger has the allocation in both cases.
    pub write_r: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            candidates_per_pass_max: 1_000_000,
            decisions_per_pass_max: 2_048,
            reservations_max: 4_096,
            annotation_bytes_per_job_max: 4 << 10,
            annotation_bytes_per_pass_max: 256 << 10,
            annotation_keys_per_job_max: 64,
            annotations_per_pass_max: 32_768,
            on_breach: OnBreach::default(),
            keys_per_call: 16_384,
            events_per_call: 16_384,
            warm_up_per_step: 16_384,
            queues_max: 1_024,
            placement: Placement::First,
            queue_placements: BTreeMap::new(),
            queue_bounds: BTreeMap::new(),
            record_format: RecordFormat::default(),
            site_rules: SiteRules::default(),
            annotate: true,
            annotate_reason: false,
            write_r: true,
        }
    }
}
