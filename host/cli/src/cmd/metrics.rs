//! `fluxgate metrics`: the figures of a scheduler for monitoring systems.

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::args::Target;
use crate::client::Client;
use crate::render;

/// `fluxgate metrics`.
#[derive(Debug, Args)]
pub(crate) struct Metrics {
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Run it.
pub(crate) fn run(args: &Metrics) -> Result<()> {
    let client = Client::connect(&args.target)?;
    let answer = client.sched("sched-fluxgate.metrics-get", json!({}))?;
    let text = answer["metrics"].as_str().context("the scheduler's answer has no figures")?;
    render::line(text.trim_end())
}
