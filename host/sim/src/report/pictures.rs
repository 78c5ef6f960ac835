//! The pictures of a report.
//!
//! This module does not know pixels; those belong to `svg`.

use super::figures::{BINS, CLASSES, ClassFigures, Curve, slowdown};
use super::svg::{Axis, Picture, colour, date};
use super::{Input, Run, THRESHOLD, file_part, forecasts};
use crate::record::Done;

/// Maximum number of jobs in a Gantt picture.
const GANTT_JOBS_MAX: usize = 1500;

/// Points of a distribution's line.
const POINTS: usize = 240;

/// A picture with its caption.
pub(super) struct Shown {
    /// Name of its file, without ending.
    pub(super) name: String,
    pub(super) caption: String,
    pub(super) svg: String,
}

/// All of them, in the order of the page.
pub(super) fn all(input: &Input, classes: &[Vec<ClassFigures>], curves: &[Curve]) -> Vec<Shown> {
    let names: Vec<&str> = input.runs.iter().map(|r| r.label.as_str()).collect();
    let mut shown = Vec::new();
    let mut show = |name: &str, caption: String, svg: String| {
        shown.push(Shown { name: name.to_owned(), caption, svg });
    };
    let hours = curves.first().map_or(0.0, |c| c.width / 3600.0);
    let means = format!("Means over spans of {hours:.1} hours.");
    let busy = |curve: &Curve| curve.busy.iter().map(|busy| busy / input.cores.max(1) as f64).collect();
    let share = Axis::share("share of the machine");
    show("utilisation", means.clone(), over_time("Cores in use", &names, curves, share, &busy));
    for (i, kind) in input.flows.iter().enumerate() {
        let all = kind.capacity.max(f64::MIN_POSITIVE);
        let used = |curve: &Curve| curve.flows[i].iter().map(|used| used / all).collect();
        let label = format!("share of {} {}", kind.capacity, kind.unit);
        let svg =
            over_time(&format!("{} in use", kind.name), &names, curves, Axis::share(label.trim_end()), &used);
        show(&format!("flow.{}", file_part(&kind.name)), means.clone(), svg);
    }
    let waiting = |curve: &Curve| curve.waiting.clone();
    let most = curves.iter().flat_map(|curve| &curve.waiting).copied().fold(0.0, f64::max);
    show("queue", means, over_time("Jobs that wait", &names, curves, Axis::count("jobs", most), &waiting));
    let below = "How many percent of the jobs have at most so much; further left and up is better.";
    let most = |f: fn(&Done) -> f64| {
        input.runs.iter().flat_map(|r| &r.record.jobs).map(f).max_by(f64::total_cmp).unwrap_or(1.0)
    };
    let axis = Axis::seconds("wait", most(Done::wait));
    show("wait", below.to_owned(), shares("Wait", axis, &input.runs, &names, Done::wait));
    let label = format!("bounded slowdown (threshold {THRESHOLD:.0} s)");
    let axis = Axis::ratio(&label, most(slowdown));
    show("slowdown", below.to_owned(), shares("Bounded slowdown", axis, &input.runs, &names, slowdown));
    let meaning: Vec<String> = CLASSES.iter().map(|c| format!("{}: {}", c.name, c.meaning)).collect();
    let caption = format!(
        "Bar: the middle half of the jobs; stroke: median; thin line: up to the 95 % point; ring: mean. {}.",
        meaning.join("; ")
    );
    let p95 = |f: fn(&ClassFigures) -> f64| classes.iter().flatten().map(f).fold(1.0, f64::max);
    let axis = Axis::seconds("wait", p95(|c| c.wait_s.p95.max(c.wait_s.mean)));
    show("wait-by-class", caption.clone(), by_class("Wait by class of job", axis, &names, classes, true));
    let axis = Axis::ratio(&label, p95(|c| c.bounded_slowdown.p95.max(c.bounded_slowdown.mean)));
    let svg = by_class("Bounded slowdown by class of job", axis, &names, classes, false);
    show("slowdown-by-class", caption, svg);
    if let Some((svg, caption)) = forecasts::picture(input) {
        show("forecasts", caption, svg);
    }
    if let Some(window) = window(input, curves) {
        for run in &input.runs {
            let caption =
                "The same time for every policy: around the longest queue of all. One colour for each job.";
            show(
                &format!("gantt.{}", file_part(&run.label)),
                caption.to_owned(),
                gantt(run, input.cores, window),
            );
        }
    }
    shown
}

fn over_time(
    title: &str,
    names: &[&str],
    curves: &[Curve],
    y: Axis,
    values: &dyn Fn(&Curve) -> Vec<f64>,
) -> String {
    let (from, width) = curves.first().map_or((0.0, 1.0), |c| (c.from, c.width));
    let mut picture = Picture::new(title, 280.0, Axis::time(from, from + width * BINS as f64));
    picture.left(&y);
    for (i, curve) in curves.iter().enumerate() {
        let points =
            values(curve).into_iter().enumerate().map(|(bin, v)| (from + width * (bin as f64 + 0.5), v));
        picture.line(&y, i, points, false);
    }
    picture.legend(names);
    picture.finish()
}

fn shares(title: &str, x: Axis, runs: &[Run], names: &[&str], value: fn(&Done) -> f64) -> String {
    let (low, high) = (x.from.ln(), x.to.ln());
    let mut picture = Picture::new(title, 280.0, x);
    let y = Axis::share("jobs with at most that");
    picture.left(&y);
    for (i, run) in runs.iter().enumerate() {
        let mut values: Vec<f64> = run.record.jobs.iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        let all = values.len().max(1) as f64;
        let points = (0..=POINTS).map(|p| {
            let at = (low + (high - low) * p as f64 / POINTS as f64).exp();
            (at, values.partition_point(|v| *v <= at * (1.0 + 1e-12)) as f64 / all)
        });
        picture.line(&y, i, points, true);
    }
    picture.legend(names);
    picture.finish()
}

fn by_class(title: &str, x: Axis, names: &[&str], classes: &[Vec<ClassFigures>], wait: bool) -> String {
    let group = 16.0 * names.len() as f64 + 14.0;
    let mut picture = Picture::new(title, 84.0 + group * CLASSES.len() as f64, x);
    for (c, class) in CLASSES.iter().enumerate() {
        let top = group * c as f64 + 12.0;
        picture.row_name(top + (group - 24.0) / 2.0, class.name);
        for (p, (name, figures)) in names.iter().zip(classes).enumerate() {
            let figures = &figures[c];
            if figures.jobs == 0 {
                continue;
            }
            let points = if wait { figures.wait_s } else { figures.bounded_slowdown };
            let values = [points.q1, points.median, points.q3, points.p95, points.mean];
            let [q1, median, q3, p95, mean] = values.map(|v| format!("{v:.1}"));
            let told = format!(
                "{name}, {}: {} jobs, quartiles {q1}, {median}, {q3}, 95 % {p95}, mean {mean}",
                class.name, figures.jobs
            );
            picture.range(top + 16.0 * p as f64, p, &told, values);
        }
    }
    picture.legend(names);
    picture.finish()
}

/// The span of time of Gantt pictures: around the longest queue, as wide as the maximum number of jobs permits.
fn window(input: &Input, curves: &[Curve]) -> Option<(f64, f64)> {
    let (_, at, curve) = curves
        .iter()
        .flat_map(|c| c.waiting.iter().enumerate().map(move |(i, w)| (*w, i, c)))
        .fold(None, |best: Option<(f64, usize, &Curve)>, next| match best {
            Some(best) if best.0 >= next.0 => Some(best),
            _ => Some(next),
        })?;
    let centre = curve.from + curve.width * (at as f64 + 0.5);
    let (first, last) = (curve.from, curve.from + curve.width * BINS as f64);
    let mut half = (last - first).max(1.0);
    loop {
        let (from, to) = ((centre - half).max(first), (centre + half).min(last));
        let inside = |run: &Run| run.record.jobs.iter().filter(|j| j.start < to && j.end > from).count();
        if half < 60.0 || input.runs.iter().map(inside).max().unwrap_or(0) <= GANTT_JOBS_MAX {
            return Some((from, to));
        }
        half *= 0.8;
    }
}

fn gantt(run: &Run, cores: u64, (from, to): (f64, f64)) -> String {
    let title = format!("{}: {} to {}", run.label, date(from), date(to));
    let title = if from > 3e7 { title } else { run.label.clone() };
    let mut picture = Picture::new(&title, 420.0, Axis::time(from, to));
    let mut y = Axis::count("core", cores as f64);
    y.ticks.retain(|(at, _)| *at <= cores as f64);
    y.to = cores.max(1) as f64;
    picture.left(&y);
    for (i, job) in run.record.jobs.iter().enumerate() {
        if job.start >= to || job.end <= from {
            continue;
        }
        let told = format!(
            "job {}: {} cores, waited {:.0} s, ran {:.0} s{}",
            job.job,
            job.cores,
            job.wait(),
            job.run(),
            if job.backfilled { ", backfilled" } else { "" }
        );
        picture.open(&told);
        for &(first, last) in run.record.places(i) {
            let rows = (f64::from(first), f64::from(last) + 1.0);
            picture.block(&y, (job.start, job.end), rows, colour((job.job % 7) as usize));
        }
        picture.close();
    }
    picture.finish()
}
