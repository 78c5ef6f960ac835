//! Figures for monitoring systems: their names, their types, and that they are true.

use std::collections::BTreeMap;

use fluxgate_formats::jobspec::Simple;
use serde_json::json;

use crate::world::World;

/// The page, after time enough for a new one.
fn page(world: &mut World) -> String {
    world.advance(1.0);
    world.told("metrics-get", &json!({}))["metrics"].as_str().unwrap().to_owned()
}

/// Samples by name with labels.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    lines.map(sample).collect()
}

/// A name that was released keeps its type, its unit and its labels.
#[test]
fn feat_55_57_60_names_types_units_and_labels_of_all_families() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.submit(1, 4, 60.0);
    world.submit(2, 16, 60.0);
    world.settle();
    let page = page(&mut world);
    assert!(page.ends_with("# EOF\n"));
    let mut lines: Vec<String> = Vec::new();
    for line in page.lines().filter(|line| !line.starts_with("# HELP")) {
        // Without values, and without the values of labels that differ from site to site.
        let name = match line.starts_with('#') {
            true => line,
            false => line.rsplit_once(' ').unwrap().0,
        };
        let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
        lines.push(name.replace(&version, "VERSION"));
    }
    insta::assert_snapshot!("families", lines.join("\n"));
}

/// The rules that an installation brings name families of the page; with the journal's, which this world has not.
#[test]
fn feat_62_alert_rules_are_about_figures_that_there_are() {
    let rules = fluxgate_testing::root().join("host/cli/share/alerts.yml");
    let rules = std::fs::read_to_string(rules).unwrap();
    let mut world = World::serving(&json!({"policy": "steady"}));
    let page = page(&mut world);
    let of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let mut named = 0;
    for line in rules.lines().filter(|line| line.trim_start().starts_with("expr:")) {
        for rest in line.split("fluxgate_").skip(1) {
            let name = rest.split(|c| !of_name(c)).next().unwrap();
            let journal = name.starts_with("journal_");
            let family = name.strip_suffix("_total").unwrap_or(name);
            assert!(journal || page.contains(&format!("# TYPE fluxgate_{family} ")), "{name}: {line}");
            named += 1;
        }
    }
    assert!(named >= 8, "{named}");
}

/// The dashboard that an installation brings asks for families of the page; with the journal's, which this world has not.
#[test]
fn feat_55_the_dashboard_for_grafana_asks_for_figures_that_there_are() {
    let dashboard = fluxgate_testing::root().join("host/cli/share/grafana.json");
    let dashboard: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dashboard).unwrap()).unwrap();
    let mut world = World::serving(&json!({"policy": "steady"}));
    let page = page(&mut world);
    let targets =
        dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut named = 0;
    for asked in targets.map(|target| target["expr"].as_str().unwrap()) {
        // A name stands before its labels.
        let parts: Vec<&str> = asked.split('{').collect();
        for before in &parts[..parts.len() - 1] {
            let name = before.rsplit(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap();
            let family = ["_total", "_bucket", "_info"].iter().find_map(|end| name.strip_suffix(end));
            let journal = name.starts_with("fluxgate_journal_");
            let family = format!("# TYPE {} ", family.unwrap_or(name));
            assert!(journal || page.contains(&family), "{name}: {asked}");
            named += 1;
        }
    }
    assert!(named >= 20, "{named}");
}

#[test]
fn feat_56_59_counts_by_queue_and_reason_follow_each_change() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.submit(1, 12, 60.0);
    world.submit(2, 16, 60.0);
    world.submit(3, 8, 60.0);
    world.settle();
    let at = |samples: &BTreeMap<String, f64>, name: &str| samples[&format!("fluxgate_{name}")];
    let first = samples(&page(&mut world));
    assert_eq!(at(&first, "up"), 1.0);
    assert_eq!(at(&first, "jobs_running{queue=\"\"}"), 1.0);
    assert_eq!(at(&first, "jobs_submitted_total{queue=\"\"}"), 3.0);
    assert_eq!(at(&first, "job_wait_seconds_count{queue=\"\"}"), 1.0);
    let waiting = |samples: &BTreeMap<String, f64>| {
        let reasons = samples.iter().filter(|(name, _)| name.starts_with("fluxgate_jobs_pending"));
        reasons.map(|(_, count)| count).sum::<f64>()
    };
    assert_eq!(waiting(&first), 2.0);
    let cores = ["free", "allocated", "down"].map(|state| at(&first, &format!("cores{{state=\"{state}\"}}")));
    assert_eq!(cores, [4.0, 12.0, 0.0]);
    world.end(1);
    world.settle();
    let second = samples(&page(&mut world));
    assert_eq!(at(&second, "jobs_ended_total{queue=\"\"}"), 1.0);
    assert_eq!((at(&second, "jobs_running{queue=\"\"}"), waiting(&second)), (1.0, 1.0));
    for (name, value) in &first {
        if name.contains("_total") || name.contains("_count") {
            assert!(second[name] >= *value, "{name} fell from {value}");
        }
    }
}

#[test]
fn feat_59_queues_beyond_the_first_256_are_summed_up() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    for id in 1..=300_u64 {
        let job = Simple {
            slots: 1,
            duration: 60.0,
            queue: Some(format!("q{id}")),
            command: vec!["a".into()],
            ..Simple::default()
        };
        world.submit_spec(id, &job.build().to_value());
    }
    world.settle();
    let samples = samples(&page(&mut world));
    let submitted = samples.iter().filter(|(name, _)| name.starts_with("fluxgate_jobs_submitted_total"));
    assert_eq!(submitted.map(|(_, count)| *count).sum::<f64>(), 300.0);
    assert_eq!(samples["fluxgate_jobs_submitted_total{queue=\"other\"}"], 44.0);
}

/// A page is given again for a second: scrapes do not cost a page each.
#[test]
fn feat_56_a_page_is_written_once_a_second() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let first = page(&mut world);
    world.submit(1, 4, 60.0);
    world.settle();
    assert_eq!(world.told("metrics-get", &json!({}))["metrics"], first.as_str());
    assert_ne!(page(&mut world), first);
}
