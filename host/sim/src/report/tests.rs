//! The report as a browser shows it.

use super::*;
use crate::calibration::Calibration;
use crate::driver;
use crate::machine::Machine;
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::workload::Job;
use fluxgate_formats::JobId;

fn input() -> Input {
    let jobs: Vec<Job> = (0..400_u32)
        .map(|i| Job {
            user: i % 7,
            ..Job::new(
                JobId(u64::from(i) + 1),
                1e9 + f64::from(i) * 9_000.0,
                1 + i * 31 % 16,
                f64::from(1 + i * 7919 % 40_000) * 2.0,
                f64::from(1 + i * 7919 % 40_000),
            )
        })
        .collect();
    let machine = Machine::uniform(4, 16).unwrap();
    let mut runs = Vec::new();
    for label in ["first", "<second>"] {
        let mut metrics = Metrics::new(16);
        let mut record = Record::with_places(&machine.cores);
        let mut found = Calibration::new(3600.0);
        let config = driver::replay_config();
        let surroundings = driver::Surroundings { forecasts: Some(3600.0), ..Default::default() };
        let mut observers: [&mut dyn Observer; 3] = [&mut metrics, &mut record, &mut found];
        driver::run_with(
            jobs.clone(),
            &surroundings,
            machine.resources.clone(),
            config,
            None,
            &mut observers,
        )
        .unwrap();
        let denied = vec![(99, "too <wide>".to_owned())];
        runs.push(Run {
            label: label.to_owned(),
            summary: metrics.summary().unwrap(),
            record,
            denied,
            never_started: vec![(98, "wants <more>".to_owned())],
            forecasts: Some(found.calibrated()),
            flows: vec![vec![(0.0, 100_000.0, 30.0)]],
        });
    }
    let flows = vec![Flow { name: "power".to_owned(), unit: "kW".to_owned(), capacity: 40.0 }];
    Input {
        title: "made & up".to_owned(),
        notes: vec!["one note".to_owned()],
        cores: 16,
        flows,
        seed: 1,
        runs,
    }
}

fn text(files: &[File], name: &str) -> String {
    let file = files.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no {name}"));
    String::from_utf8(file.content.clone()).unwrap()
}

#[test]
fn a_page_that_stands_alone_with_its_files() {
    let files = make(&input());
    let page = text(&files, "report.html");
    assert_eq!(
        page.matches("<svg").count(),
        10,
        "utilisation, power, queue, two shares, two by class, forecasts, two Gantt"
    );
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        let allowed = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!allowed.contains(outside), "{outside} would ask the network");
    }
    for word in [
        "made &amp; up",
        "&lt;second&gt;",
        "too &lt;wide&gt;",
        "wants &lt;more&gt;",
        "bounded slowdown",
        "JSSPP 1997",
    ] {
        assert!(page.contains(word), "{word}");
    }
    assert!(!page.contains("<second>") && !page.contains("NaN"));
    assert_eq!(text(&files, "metrics.csv").lines().count(), 3);
    assert_eq!(text(&files, "classes.csv").lines().count(), 1 + 2 * 5);
    assert_eq!(
        text(&files, "forecasts.csv").lines().filter(|l| l.starts_with("first,submission,all,")).count(),
        1
    );
    assert!(page.contains("Expected starts"));
    assert_eq!(text(&files, "curves.csv").lines().count(), 1 + 2 * 320);
    assert_eq!(text(&files, "jobs.-second-.jsonl").lines().count(), 400);
    let json: serde_json::Value = serde_json::from_str(&text(&files, "report.json")).unwrap();
    assert_eq!(json["runs"][1]["never_started"][0]["job"], 98);
    assert_eq!(json["runs"][1]["classes"][0]["jobs"], 400);
    assert_eq!(json["runs"][0]["forecasts"]["errors"][0]["horizon"], "all");
    assert_eq!(json["runs"][1]["comparison"]["wait_s_more"]["mean"], 0.0);
    let ending = |end: &str| files.iter().filter(|f| f.name.ends_with(end)).count();
    assert_eq!((ending(".svg"), ending(".png")), (10, 10));
    assert_eq!(make(&input()), files, "a second time the same bytes");
}

#[test]
fn curves_hold_all_work_and_all_waiting() {
    let input = input();
    let curve = &figures::curves(&input.runs)[0];
    let work: f64 = curve.busy.iter().sum::<f64>() * curve.width;
    assert!((work - input.runs[0].summary.core_seconds).abs() < 1e-3 * work, "{work}");
    let waiting: f64 = curve.waiting.iter().sum::<f64>() * curve.width;
    let waited: f64 = input.runs[0].record.jobs.iter().map(|j| j.wait()).sum();
    assert!((waiting - waited).abs() < 1e-3 * waited, "{waiting} {waited}");
}

#[test]
fn a_gantt_draws_every_core_of_every_job_in_its_window() {
    let input = input();
    let drawn = text(&make(&input), "gantt.first.svg");
    let places: usize = (0..400).map(|i| input.runs[0].record.places(i).len()).sum();
    assert_eq!(drawn.matches("<path d=\"M").count() - drawn.matches("stroke=\"#e4e4e4\"").count(), places);
}

#[test]
fn nothing_ran() {
    let mut input = input();
    for run in &mut input.runs {
        run.record = Record::default();
        run.summary = Metrics::new(16).summary().unwrap();
    }
    let page = text(&make(&input), "report.html");
    assert!(!page.contains("NaN") && !page.contains(">inf"));
}

#[test]
fn a_bar_that_ends_where_it_begins_is_none() {
    for (values, bars) in [([0.0; 5], 0), ([1.0, 1.0, 1.0, 4.0, 2.0], 1), ([1.0, 2.0, 3.0, 4.0, 2.0], 2)] {
        let mut picture = svg::Picture::new("x", 60.0, svg::Axis::seconds("s", 10.0));
        picture.range(20.0, 0, "x", values);
        let drawn = picture.finish();
        let row = drawn.split_once("<title>x</title>").map_or("", |(_, row)| row);
        assert_eq!((row.contains("v8"), row.matches('H').count()), (true, bars), "{values:?} {drawn}");
    }
}
