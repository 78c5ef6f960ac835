//! The page of a report: HTML that loads no other file.
//!
//! This module does not know how figures are made.

use std::fmt::Write as _;

use super::figures::{CLASSES, ClassFigures, Comparison};
use super::pictures::Shown;
use super::svg::{escape, number};
use super::{Input, THRESHOLD, forecasts};
use crate::bootstrap::{DRAWS, Interval};
use crate::metrics::DEFINITIONS;

/// Maximum number of jobs of a kind on the page; report.json has all.
const LISTED_MAX: usize = 20;

const STYLE: &str = "
body{max-width:1000px;margin:2rem auto;padding:0 1rem;font:15px/1.5 system-ui,sans-serif;color:#222;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #ddd}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}
td,th{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #eee}td:first-child,th:first-child{text-align:left}
th{font-weight:600}.ci{color:#666;font-size:12.5px;white-space:nowrap}.sure{font-weight:600}
figure{margin:1.2rem 0}figcaption{color:#555;font-size:13.5px}svg{width:100%;height:auto;border:1px solid #eee}
.scroll{overflow-x:auto}.notes,.defs{color:#444;font-size:14px}code{font-size:13px}
";

/// The page.
pub(super) fn html(
    input: &Input,
    classes: &[Vec<ClassFigures>],
    comparisons: &[Comparison],
    pictures: &[Shown],
) -> String {
    let title = escape(&input.title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<ul class=\"notes\">\n"
    );
    for note in &input.notes {
        let _ = writeln!(page, "<li>{}</li>", escape(note));
    }
    page.push_str("</ul>\n<h2>Comparison</h2>\n");
    table_of_means(&mut page, input, comparisons);
    page.push_str("<h2>All metrics</h2>\n");
    table_of_metrics(&mut page, input);
    page.push_str("<h2>Pictures</h2>\n");
    for picture in pictures {
        let _ = writeln!(
            page,
            "<figure id=\"{}\">{}<figcaption>{}</figcaption></figure>",
            escape(&picture.name),
            picture.svg,
            escape(&picture.caption)
        );
    }
    page.push_str("<h2>By class of job</h2>\n");
    table_of_classes(&mut page, input, classes);
    forecasts::table(&mut page, input);
    did_not_run(&mut page, input);
    page.push_str("<h2>Definitions</h2>\n<dl class=\"defs\">\n");
    for d in DEFINITIONS {
        let _ = writeln!(
            page,
            "<dt><code>{}</code> ({})</dt><dd>{}. {}.</dd>",
            d.name,
            d.unit,
            escape(d.formula),
            escape(d.source)
        );
    }
    page.push_str("</dl>\n</body></html>\n");
    page
}

fn head(page: &mut String, input: &Input, first: &str) {
    let _ = write!(page, "<div class=\"scroll\"><table><thead><tr><th>{first}</th>");
    for run in &input.runs {
        let _ = write!(page, "<th>{}</th>", escape(&run.label));
    }
    page.push_str("</tr></thead><tbody>\n");
}

fn interval(it: &Interval) -> String {
    if it.low.is_nan() {
        return String::new();
    }
    format!("<br><span class=\"ci\">{} to {}</span>", number(it.low), number(it.high))
}

fn table_of_means(page: &mut String, input: &Input, comparisons: &[Comparison]) {
    head(page, input, "");
    let mut row = |name: String, of: &dyn Fn(&Comparison) -> Interval, difference: bool| {
        let _ = write!(page, "<tr><td>{name}</td>");
        for (i, comparison) in comparisons.iter().enumerate() {
            let it = of(comparison);
            if difference && i == 0 {
                page.push_str("<td></td>");
                continue;
            }
            let sure = difference && (it.low > 0.0 || it.high < 0.0);
            let sign = if difference && it.mean > 0.0 { "+" } else { "" };
            let class = if sure { " class=\"sure\"" } else { "" };
            let _ = write!(page, "<td{class}>{sign}{}{}</td>", number(it.mean), interval(&it));
        }
        page.push_str("</tr>\n");
    };
    let first = input.runs.first().map_or(String::new(), |run| escape(&run.label));
    let several = comparisons.len() > 1;
    row("mean wait, s".to_owned(), &|c: &Comparison| c.wait_s, false);
    if several {
        row(format!("more than {first}, s"), &|c: &Comparison| c.wait_s_more, true);
    }
    row(format!("mean bounded slowdown ({THRESHOLD:.0} s)"), &|c: &Comparison| c.bounded_slowdown, false);
    if several {
        row(format!("more than {first}"), &|c: &Comparison| c.bounded_slowdown_more, true);
    }
    let _ = writeln!(
        page,
        "</tbody></table></div>\n<p class=\"notes\">Small: 95 % interval from {DRAWS} draws of whole weeks of submission \
         (seed {}), the same weeks for every policy; none is given for logs of fewer than five weeks. Bold: a difference whose \
         interval does not hold 0.</p>",
        input.seed
    );
}

fn table_of_metrics(page: &mut String, input: &Input) {
    head(page, input, "metric");
    let figures: Vec<_> = input.runs.iter().map(|run| run.summary.figures()).collect();
    for (i, (name, _)) in figures.first().into_iter().flatten().enumerate() {
        let _ = write!(page, "<tr><td><code>{name}</code></td>");
        for figures in &figures {
            let _ = write!(page, "<td>{}</td>", number(figures[i].1));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn table_of_classes(page: &mut String, input: &Input, classes: &[Vec<ClassFigures>]) {
    head(page, input, "mean wait in s; mean bounded slowdown");
    for (c, class) in CLASSES.iter().enumerate() {
        let jobs = classes.first().map_or(0, |figures| figures[c].jobs);
        let _ = write!(page, "<tr><td>{}: {} ({jobs} jobs)</td>", class.name, class.meaning);
        for figures in classes {
            let (wait, slowdown) = (figures[c].wait_s.mean, figures[c].bounded_slowdown.mean);
            let _ = write!(page, "<td>{}; {}</td>", number(wait), number(slowdown));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

/// Jobs that the machine cannot take, which are the same for every policy, and jobs that a policy kept waiting.
fn did_not_run(page: &mut String, input: &Input) {
    if let Some(run) = input.runs.iter().find(|run| !run.denied.is_empty()) {
        list(page, "Jobs that can never run here", &run.denied);
    }
    for run in input.runs.iter().filter(|run| !run.never_started.is_empty()) {
        let heading = format!("Jobs that {} never started: no figure has them", escape(&run.label));
        list(page, &heading, &run.never_started);
    }
}

fn list(page: &mut String, heading: &str, jobs: &[(u64, String)]) {
    let _ = writeln!(page, "<h2>{heading}</h2>\n<ul class=\"notes\">");
    for (job, why) in jobs.iter().take(LISTED_MAX) {
        let _ = writeln!(page, "<li>job {job}: {}</li>", escape(why));
    }
    if jobs.len() > LISTED_MAX {
        let _ = writeln!(page, "<li>and {} more, see report.json</li>", jobs.len() - LISTED_MAX);
    }
    page.push_str("</ul>\n");
}
