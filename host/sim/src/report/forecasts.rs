//! Expected starts in a report: table, picture and CSV of their errors.
//!
//! This module does not know how a forecast is made.

use std::fmt::Write as _;

use super::figures;
use super::svg::{Axis, Picture, escape, number};
use super::{Input, Run};
use crate::calibration::{Errors, HORIZONS, Made, ON_TIME};

/// The errors in the picture and the table.
const CAPTION: &str = "Forecasts made when a job was submitted, by how far ahead the expected start was. Bar: the middle half of the \
    errors without their signs; stroke: median; thin line: up to the 95 % point; ring: mean.";

fn of<'a>(run: &'a Run, made: Made, horizon: &str) -> Option<&'a Errors> {
    run.forecasts.as_ref()?.errors.iter().find(|e| e.made == made && e.horizon == horizon)
}

fn horizons() -> impl Iterator<Item = &'static str> {
    std::iter::once("all").chain(HORIZONS.iter().map(|(name, _)| *name))
}

/// One line for each policy, occasion and horizon.
pub(super) fn csv(runs: &[Run]) -> Vec<u8> {
    let names = Errors::default().figures().map(|(name, _)| name);
    let header: Vec<&str> = ["policy", "made", "horizon"].into_iter().chain(names).collect();
    let rows = runs.iter().flat_map(|run| {
        run.forecasts.iter().flat_map(|found| &found.errors).map(move |errors| {
            let names = [run.label.clone(), errors.made.name().to_owned(), errors.horizon.to_owned()];
            names.into_iter().chain(errors.figures().map(|(_, value)| value.to_string())).collect()
        })
    });
    figures::csv(&header, rows)
}

/// The picture with its caption; `None` without forecasts.
pub(super) fn picture(input: &Input) -> Option<(String, String)> {
    let told = |horizon| input.runs.iter().filter_map(move |run| of(run, Made::Submission, horizon));
    let most = horizons().flat_map(told).map(|e| e.abs_s.p95.max(e.abs_s.mean)).max_by(f64::total_cmp)?;
    let names: Vec<&str> = input.runs.iter().map(|run| run.label.as_str()).collect();
    let group = 16.0 * names.len() as f64 + 14.0;
    let height = 84.0 + group * horizons().count() as f64;
    let mut picture =
        Picture::new("Error of expected starts", height, Axis::seconds("error without sign", most.max(1.0)));
    for (row, horizon) in horizons().enumerate() {
        let top = group * row as f64 + 12.0;
        picture.row_name(top + (group - 24.0) / 2.0, horizon);
        for (p, run) in input.runs.iter().enumerate() {
            let Some(errors) = of(run, Made::Submission, horizon) else { continue };
            let values =
                [errors.abs_s.q1, errors.abs_s.median, errors.abs_s.q3, errors.abs_s.p95, errors.abs_s.mean];
            let [q1, median, q3, p95, mean] = values.map(number);
            let told = format!(
                "{}, {horizon}: {} forecasts, off by {q1}, {median}, {q3} s (quartiles), 95 % {p95} s, mean {mean} s",
                run.label, errors.count
            );
            picture.range(top + 16.0 * p as f64, p, &told, values);
        }
    }
    picture.legend(&names);
    Some((picture.finish(), CAPTION.to_owned()))
}

/// The table of the page; empty without forecasts.
pub(super) fn table(page: &mut String, input: &Input) {
    if input.runs.iter().all(|run| run.forecasts.is_none()) {
        return;
    }
    page.push_str(
        "<h2>Expected starts</h2>\n<div class=\"scroll\"><table><thead><tr><th>policy</th><th>horizon</th><th>forecasts</th>\
         <th>median, s</th><th>10 %, s</th><th>90 %, s</th><th>mean without sign, s</th><th>mean wait, s</th><th>early</th>\
         <th>late</th></tr></thead><tbody>\n",
    );
    for run in &input.runs {
        for horizon in horizons() {
            let Some(errors) = of(run, Made::Submission, horizon) else { continue };
            let _ = write!(page, "<tr><td>{}</td><td>{}</td>", escape(&run.label), escape(horizon));
            let figures = [
                errors.count as f64,
                errors.median_s,
                errors.p10_s,
                errors.p90_s,
                errors.abs_s.mean,
                errors.mean_wait_s,
            ];
            for value in figures {
                let _ = write!(page, "<td>{}</td>", number(value));
            }
            for share in [errors.early, errors.late] {
                let _ = write!(page, "<td>{:.0} %</td>", share * 100.0);
            }
            page.push_str("</tr>\n");
        }
    }
    page.push_str("</tbody></table></div>\n");
    for run in &input.runs {
        let Some(found) = &run.forecasts else { continue };
        let _ = writeln!(
            page,
            "<p class=\"notes\">{}: {} jobs started when they were submitted; of {} no time was told then.</p>",
            escape(&run.label),
            found.at_once,
            found.untold
        );
    }
    let _ = writeln!(
        page,
        "<p class=\"notes\">The start that came less the one that was expected when the job was submitted; horizon: how far ahead that \
         was. Early and late: by more than {ON_TIME:.0} s. Forecasts made again while jobs waited are in forecasts.csv.</p>"
    );
}
