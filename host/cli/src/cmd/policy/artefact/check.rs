//! `fluxgate policy check`: the conformance kit as a table.

use std::path::Path;

use anyhow::{Result, bail};
use fluxgate_conformance::{Report, Verdict};
use fluxgate_policy::Config;
use serde_json::{Value, json};

use crate::files::settings;
use crate::policy_source::PolicySource;
use crate::render;

/// Checks a component, prints the report, and fails if one of the checks does.
pub(crate) fn run(policy: &str, config: &[String], as_json: bool, dir: Option<&Path>) -> Result<()> {
    let config: Config = settings(config)?.into_iter().collect();
    let source = PolicySource::open(dir)?;
    let (path, bytes) = source.take(policy)?;
    let report = quietly(|| fluxgate_conformance::check(source.loader(), &bytes, &config));
    print(&report, as_json)?;
    verdict(&report, &path)
}

/// Runs a check without the log lines of the policy, which the kit provokes many times.
pub(crate) fn quietly<R>(check: impl FnOnce() -> R) -> R {
    tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::new(), check)
}

/// Print a report.
pub(crate) fn print(report: &Report, as_json: bool) -> Result<()> {
    if as_json {
        return render::json(&self::as_json(report));
    }
    if let (Some(name), Some(version), Some(digest)) = (&report.policy, &report.version, &report.digest) {
        render::line(format!("{name} {version}  {digest}\n"))?;
    }
    let mut table = render::table(&["CHECK", "VERDICT", "ASKS", "REASON"]);
    for check in &report.checks {
        let verdict = match check.verdict {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::Skip => "skip",
        };
        table.add_row([check.name, verdict, check.asks, &check.reason]);
    }
    render::show(&table)
}

/// A report for programs.
pub(crate) fn as_json(report: &Report) -> Value {
    let mut value = json!(report);
    value["passed"] = Value::Bool(report.passed());
    value
}

/// Checks with the kit a component that is not run yet; a report is printed only if a check fails.
pub(super) fn conforms(source: &PolicySource, bytes: &[u8], path: &Path, as_json: bool) -> Result<()> {
    let report = quietly(|| fluxgate_conformance::check(source.loader(), bytes, &Config::new()));
    if !report.passed() {
        print(&report, as_json)?;
    }
    verdict(&report, path)
}

/// An error that names the failed checks.
pub(crate) fn verdict(report: &Report, path: &Path) -> Result<()> {
    let failed: Vec<&str> = report.failed().map(|check| check.name).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let of = report.checks.len();
    bail!("{}: {} of {of} checks failed: {}", path.display(), failed.len(), failed.join(", "))
}
