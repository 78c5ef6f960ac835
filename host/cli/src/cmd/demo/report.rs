//! Figures of each phase, from the instance's job records.

use anyhow::Result;
use fluxgate_sim::metrics::bounded_slowdown_of;
use serde::Serialize;

use super::audit::Audit;
use super::records::Record;
use crate::render;

/// Threshold of bounded slowdown, seconds (Feitelson et al., JSSPP 1997).
const THRESHOLD: f64 = 10.0;

/// A phase of the demo: the active policy and its first moment.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    pub(crate) policy: String,
    pub(crate) begin: f64,
}

/// Figures of one phase.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PhaseReport {
    policy: String,
    /// Jobs submitted in this phase that ran.
    jobs: usize,
    mean_wait_s: f64,
    mean_bounded_slowdown: f64,
    /// Share of the machine in use from the beginning of this phase to that of the next.
    utilisation: f64,
}

/// Jobs belong to the phase in which they were submitted. The last phase ends with the last submission: after
/// that the machine only empties.
pub(crate) fn phases(records: &[Record], phases: &[Phase], cores: u64) -> Result<Vec<PhaseReport>> {
    let last = records.iter().map(|r| r.submit).fold(f64::NEG_INFINITY, f64::max);
    let ends = phases.iter().skip(1).map(|p| p.begin).chain(std::iter::once(last));
    let report = phases.iter().zip(ends).map(|(phase, end)| {
        let inside = |t: f64| t >= phase.begin && (t < end || end == last);
        let ran: Vec<_> =
            records.iter().filter(|r| inside(r.submit)).filter_map(|r| Some((r, r.ran?))).collect();
        let mean = |value: &dyn Fn(&Record, (f64, f64)) -> f64| {
            ran.iter().map(|(r, times)| value(r, *times)).sum::<f64>() / ran.len().max(1) as f64
        };
        let used: f64 = records
            .iter()
            .filter_map(|r| Some((r.cores as f64, r.ran?)))
            .map(|(cores, (from, to))| cores * (to.min(end) - from.max(phase.begin)).max(0.0))
            .sum();
        PhaseReport {
            policy: phase.policy.clone(),
            jobs: ran.len(),
            mean_wait_s: mean(&|r, (from, _)| from - r.submit),
            mean_bounded_slowdown: mean(&|r, (from, to)| {
                bounded_slowdown_of(from - r.submit, to - from, THRESHOLD)
            }),
            utilisation: used / (cores as f64 * (end - phase.begin)).max(1.0),
        }
    });
    Ok(report.collect())
}

/// The numbers of the audit in the report, with their names.
const AUDIT: [(&str, &str); 9] = [
    ("submitted", "jobs submitted"),
    ("completed", "jobs completed"),
    ("denied", "jobs denied"),
    ("lost", "jobs lost"),
    ("run_twice", "jobs run twice"),
    ("overlaps", "cores held twice"),
    ("connections", "scheduler connections"),
    ("dropped", "connections dropped"),
    ("hellos", "hellos"),
];

/// Print the report.
pub(crate) fn print(phases: &[PhaseReport], audit: &Audit) -> Result<()> {
    let mut table =
        render::table(&["POLICY", "JOBS>", "MEAN WAIT>", "MEAN BOUNDED SLOWDOWN>", "UTILISATION>"]);
    for phase in phases {
        table.add_row([
            phase.policy.clone(),
            phase.jobs.to_string(),
            format!("{:.0} s", phase.mean_wait_s),
            format!("{:.1}", phase.mean_bounded_slowdown),
            format!("{:.1}%", phase.utilisation * 100.0),
        ]);
    }
    render::show(&table)?;
    render::line("\nJobs count where they were submitted; bounded slowdown has a threshold of 10 s.\n")?;
    let mut table = render::table(&["SWAP", "ALLOCATIONS HELD>", "KEPT>"]);
    for swap in audit.swaps.as_array().into_iter().flatten() {
        table.add_row(["swap", "held", "kept"].map(|key| render::plain(&swap[key])));
    }
    render::show(&table)?;
    render::line("")?;
    let mut table = render::table(&["AUDIT, FROM THE INSTANCE'S RECORDS", ">"]);
    for (key, meaning) in AUDIT {
        table.add_row([meaning.to_owned(), render::plain(&audit.numbers[key])]);
    }
    render::show(&table)
}
