//! Jobs of a list (RFC 43) as rows with types.
//!
//! Must never know how a job looks.

use fluxgate_formats::Idset;
use serde_json::Value;

use crate::known::{Known, rows};

/// A job that holds resources, or held them.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) user: u64,
    pub(crate) queue: String,
    pub(crate) name: String,
    pub(crate) nodes: u64,
    pub(crate) cores: u64,
    pub(crate) ranks: Idset,
    pub(crate) nodelist: String,
    /// Its submission; not known of the past.
    pub(crate) submit: Option<f64>,
    /// Start, seconds since the epoch.
    pub(crate) start: f64,
    /// End; `None` for a running job.
    pub(crate) end: Option<f64>,
    /// The time at which its limit ends, infinite without one.
    pub(crate) limit: f64,
    /// Bits of RFC 43; 0 while it runs.
    pub(crate) result: u64,
}

impl Job {
    /// A row of a list; nothing for a job that never ran.
    fn read(row: &Value) -> Option<Job> {
        let number = |key: &str| row[key].as_f64();
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let start = number("t_run")?;
        let ends = number("expiration").filter(|end| *end > 0.0);
        let limit = number("duration").filter(|limit| *limit > 0.0).map(|limit| start + limit);
        Some(Job {
            id: row["id"].as_u64()?,
            user: row["userid"].as_u64().unwrap_or_default(),
            queue: text("queue"),
            name: text("name"),
            nodes: row["nnodes"].as_u64().unwrap_or_default(),
            cores: row["ncores"].as_u64().unwrap_or_default(),
            ranks: row["ranks"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default(),
            nodelist: text("nodelist"),
            submit: number("t_submit"),
            start,
            end: number("t_cleanup").or_else(|| number("t_inactive")),
            limit: ends.or(limit).unwrap_or(f64::INFINITY),
            result: row["result"].as_u64().unwrap_or_default(),
        })
    }

    /// State of the job in pictures: running, or how it ended.
    pub(crate) fn outcome(&self) -> &'static str {
        match (self.end, self.result) {
            (None, _) => "running",
            (Some(_), 1) => "completed",
            (Some(_), 2) => "failed",
            (Some(_), 4) => "canceled",
            (Some(_), 8) => "timeout",
            _ => "ended",
        }
    }
}

/// The jobs of the answer `running` or `ended` that have run.
pub(crate) fn listed(known: &Known, name: &str) -> Vec<Job> {
    rows(&known.get(name)["jobs"]).iter().filter_map(Job::read).collect()
}
