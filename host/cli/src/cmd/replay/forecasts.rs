//! The table of `fluxgate replay --forecast`. Must never make a forecast.

use anyhow::Result;
use fluxgate_sim::calibration::{Made, ON_TIME};

use super::run::Run;
use crate::render::{self, number};

/// Print the errors of expected starts; nothing without forecasts.
pub(super) fn show(runs: &[Run]) -> Result<()> {
    let mut table = render::table(&[
        "POLICY",
        "MADE",
        "HORIZON",
        "COUNT>",
        "MEDIAN_S>",
        "P10_S>",
        "P90_S>",
        "MEAN_ABS_S>",
        "MEAN_WAIT_S>",
        "EARLY>",
        "LATE>",
    ]);
    for run in runs {
        let told = run.forecasts.iter().flat_map(|found| &found.errors);
        for errors in told.filter(|e| e.made == Made::Submission || e.horizon == "all") {
            let names = [run.name.clone(), errors.made.name().to_owned(), errors.horizon.to_owned()];
            let figures = [
                errors.count as f64,
                errors.median_s,
                errors.p10_s,
                errors.p90_s,
                errors.abs_s.mean,
                errors.mean_wait_s,
                errors.early,
                errors.late,
            ];
            table.add_row(names.into_iter().chain(figures.map(number)));
        }
    }
    if runs.iter().all(|run| run.forecasts.is_none()) {
        return Ok(());
    }
    render::show(&table)?;
    for run in runs {
        if let Some(found) = &run.forecasts {
            render::line(format!(
                "{}: {} jobs started when they were submitted; of {} no time was told then",
                run.name, found.at_once, found.untold
            ))?;
        }
    }
    render::line(format!(
        "expected starts: the start that came less the one expected; horizon: how far ahead that was; early, late: by more \
         than {ON_TIME:.0} s; made: at submission, or again every --forecast seconds (--json and --report tell that by horizon as well)"
    ))
}
