//! Jobs as the instance has recorded them. Must never know phases and swaps.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::client::Client;

/// One job as the instance recorded it.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) id: u64,
    pub(crate) submit: f64,
    /// Start and end, for jobs that ran.
    pub(crate) ran: Option<(f64, f64)>,
    pub(crate) cores: u64,
}

/// All jobs.
pub(crate) fn read(client: &Client) -> Result<Vec<Record>> {
    let list = client.rpc("job-list.list", json!({"max_entries": 0, "attrs": ["all"]}))?;
    let jobs = list["jobs"].as_array().context("job-list.list: the answer has no list of jobs")?;
    jobs.iter().map(record).collect()
}

fn record(job: &Value) -> Result<Record> {
    let time = |key: &str| job[key].as_f64();
    Ok(Record {
        id: job["id"].as_u64().context("job-list.list: a job without id")?,
        submit: time("t_submit").context("job-list.list: a job without t_submit")?,
        ran: time("t_run").zip(time("t_cleanup")),
        cores: job["ncores"].as_u64().unwrap_or(0),
    })
}
