//! The report of a comparison: one self-contained HTML page, each of its pictures as SVG, and its figures as CSV and
//! JSON. The report is made as texts; the caller writes the files.
//!
//! - `figures` computes numbers from records: curves, classes, intervals.
//! - `forecasts` is about expected starts.
//! - `pictures` draws them, with the primitives of `svg`.
//! - `page` makes the page.
//! - [`dots`] is a picture of its own, for the pages of benchmark suites.
//!
//! The same input gives the same bytes. This module knows neither files nor how a schedule was made.

pub mod dots;
mod figures;
mod forecasts;
mod page;
mod pictures;
mod png;
mod svg;

use serde_json::json;

use crate::calibration::Calibrated;
use crate::metrics::Summary;
use crate::record::{Record, write_jsonl};

use png::Painter;

pub(crate) use svg::escape;

pub use figures::{CLASSES, Class, ClassFigures, Comparison, Curve};

/// Threshold of bounded slowdown in pictures, classes and intervals, seconds.
pub const THRESHOLD: f64 = 10.0;

/// The run of one policy.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its name in tables; different for each run.
    pub label: String,
    /// Its metrics.
    pub summary: Summary,
    /// Its jobs that ran, with places.
    pub record: Record,
    /// Jobs that were denied: number and reason.
    pub denied: Vec<(u64, String)>,
    /// Jobs that still waited when no event could follow any more: number and reason.
    pub never_started: Vec<(u64, String)>,
    /// Errors of the forecasts of starts, if any were made.
    pub forecasts: Option<Calibrated>,
    /// For each kind of [`Input::flows`], spans of its use: from, to (seconds), and amount in its unit.
    pub flows: Vec<Vec<(f64, f64, f64)>>,
}

/// A kind of flow that jobs request.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Its unit; empty without one.
    pub unit: String,
    /// Capacity of the machine, in that unit.
    pub capacity: f64,
}

/// The input of a report.
#[derive(Debug, Clone)]
pub struct Input {
    /// Name of the workload.
    pub title: String,
    /// Remarks on the input: options, lines that were left out, bad lines.
    pub notes: Vec<String>,
    /// Cores of the machine.
    pub cores: u64,
    /// Kinds of flow.
    pub flows: Vec<Flow>,
    /// Seed of the confidence intervals.
    pub seed: u64,
    /// The runs, in the order of the command line. The others are compared with the first.
    pub runs: Vec<Run>,
}

/// A file of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name, without folder.
    pub name: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// A label as part of a file name.
fn file_part(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() || "-_=.".contains(c) { c } else { '-' }).collect()
}

/// All files of the report; the page comes first.
pub fn make(input: &Input) -> Vec<File> {
    let classes = figures::classes(&input.runs);
    let comparisons = figures::comparisons(&input.runs, input.seed);
    let curves = figures::curves(&input.runs);
    let pictures = pictures::all(input, &classes, &curves);
    let page = page::html(input, &classes, &comparisons, &pictures);

    let mut files = vec![File { name: "report.html".to_owned(), content: page.into_bytes() }];
    let mut csv = Vec::new();
    // Writing to memory does not fail.
    let _ = crate::metrics::write_csv(&mut csv, input.runs.iter().map(|r| (r.label.as_str(), &r.summary)));
    files.push(File { name: "metrics.csv".to_owned(), content: csv });
    files.push(File { name: "classes.csv".to_owned(), content: figures::classes_csv(&input.runs, &classes) });
    files.push(File {
        name: "curves.csv".to_owned(),
        content: figures::curves_csv(&input.runs, &curves, &input.flows),
    });
    if input.runs.iter().any(|run| run.forecasts.is_some()) {
        files.push(File { name: "forecasts.csv".to_owned(), content: forecasts::csv(&input.runs) });
    }
    let runs: Vec<_> = input
        .runs
        .iter()
        .enumerate()
        .map(|(i, run)| {
            let listed = |jobs: &[(u64, String)]| -> Vec<_> {
                jobs.iter().map(|(job, why)| json!({"job": job, "reason": why})).collect()
            };
            json!({
                "policy": run.label, "metrics": run.summary, "comparison": comparisons[i], "classes": classes[i],
                "denied": listed(&run.denied), "never_started": listed(&run.never_started), "forecasts": run.forecasts,
            })
        })
        .collect();
    let all = json!({
        "title": input.title, "notes": input.notes, "cores": input.cores, "seed": input.seed,
        "definitions": crate::metrics::DEFINITIONS, "runs": runs,
    });
    files.push(File { name: "report.json".to_owned(), content: format!("{all:#}\n").into_bytes() });
    for run in &input.runs {
        let mut content = Vec::new();
        let _ = write_jsonl(&mut content, &run.record.jobs);
        files.push(File { name: format!("jobs.{}.jsonl", file_part(&run.label)), content });
    }
    let painter = Painter::new();
    for picture in pictures {
        let png = painter.png(&picture.svg);
        files.extend(png.map(|content| File { name: format!("{}.png", picture.name), content }));
        files.push(File { name: format!("{}.svg", picture.name), content: picture.svg.into_bytes() });
    }
    files
}

#[cfg(test)]
mod tests;
