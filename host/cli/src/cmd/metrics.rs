//! `fluxgate metrics`: the figures of a scheduler for monitoring systems.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::args::Target;
use crate::client::Client;
use crate::render;

/// `fluxgate metrics`.
#[derive(Debug, Args)]
pub(crate) struct Metrics {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The text form.
    #[arg(long, value_enum, default_value_t = Form::Openmetrics)]
    pub(crate) format: Form,
}

/// A text form of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// OpenMetrics 1.0: with units, and the time since which counters count.
    Openmetrics,
    /// The older form of Prometheus, which collectors of text files read.
    Prometheus,
}

/// Run it.
pub(crate) fn run(args: &Metrics) -> Result<()> {
    let client = Client::connect(&args.target)?;
    let answer = client.sched("sched-fluxgate.metrics-get", json!({}))?;
    let text = answer["metrics"].as_str().context("the scheduler's answer has no figures")?;
    match args.format {
        Form::Openmetrics => render::line(text.trim_end()),
        Form::Prometheus => render::line(prometheus(text).trim_end()),
    }
}

/// A page of OpenMetrics in the older form: counters and information have the names of their samples, and there are neither
/// units, nor times of creation, nor an end.
fn prometheus(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut suffix = "";
    for line in page.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let kind = if kind == "info" { "gauge" } else { kind };
            out += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            // Quotes stand for themselves in the help of this form.
            out += &format!("# HELP {name}{suffix} {}\n", help.replace("\\\"", "\""));
        } else if !line.starts_with('#') && !is_created(line) {
            out += line;
            out.push('\n');
        }
    }
    out
}

/// A sample that says since when a counter or a histogram counts.
fn is_created(sample: &str) -> bool {
    let name = sample.split(['{', ' ']).next().unwrap_or_default();
    name.ends_with("_created")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_55_collectors_of_text_files_read_the_older_form() {
        let page = "# TYPE f_jobs_started counter\n# HELP f_jobs_started Jobs \\\"x\\\".\n\
            f_jobs_started_total{queue=\"a_created b\"} 3.0\nf_jobs_started_created{queue=\"a_created b\"} 1.5\n\
            # TYPE f_wait_seconds histogram\n# UNIT f_wait_seconds seconds\n# HELP f_wait_seconds Waits.\n\
            f_wait_seconds_bucket{le=\"+Inf\"} 1.0\nf_wait_seconds_count 1.0\nf_wait_seconds_sum 2.0\n\
            f_wait_seconds_created 1.5\n# TYPE f_build info\n# HELP f_build Version.\n\
            f_build_info{version=\"1\"} 1.0\n# EOF\n";
        let expected = "# TYPE f_jobs_started_total counter\n# HELP f_jobs_started_total Jobs \"x\".\n\
            f_jobs_started_total{queue=\"a_created b\"} 3.0\n\
            # TYPE f_wait_seconds histogram\n# HELP f_wait_seconds Waits.\n\
            f_wait_seconds_bucket{le=\"+Inf\"} 1.0\nf_wait_seconds_count 1.0\nf_wait_seconds_sum 2.0\n\
            # TYPE f_build_info gauge\n# HELP f_build_info Version.\nf_build_info{version=\"1\"} 1.0\n";
        assert_eq!(prometheus(page), expected);
    }
}
