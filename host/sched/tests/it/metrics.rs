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

/// A job runs, and another one is told when it starts; it starts later than that.
fn forecast(world: &mut World) {
    world.submit(1, 12, 600.0);
    world.submit(2, 12, 60.0);
    // The first that waits is told by the engine.
    world.submit(3, 12, 60.0);
    world.settle();
    let made = (0..10).any(|_| {
        world.advance(1.0);
        world.work().contains(&"forecast")
    });
    assert!(made, "{:?}", world.work());
    world.finish("forecast");
    world.advance(1000.0);
    for id in [1, 2] {
        world.end(id);
        world.settle();
    }
    assert_eq!(world.started, [1, 2, 3]);
}

/// A name that was released keeps its type, its unit and its labels.
#[test]
fn feat_55_57_60_names_types_units_and_labels_of_all_families() {
    let bounds = json!({"debug": {"ceiling": 8, "floor": "25%"}});
    let mut world = World::serving(&json!({"policy": "steady", "queues": bounds, "estimates": 1}));
    forecast(&mut world);
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
        let reasons = samples.iter().filter(|(name, _)| name.starts_with("fluxgate_jobs_pending{"));
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

/// FEAT-60: reservations, bounds, errors of forecasts and calls of a policy have figures that are true.
#[test]
fn feat_60_61_figures_of_reservations_bounds_forecasts_and_calls() {
    let bounds = json!({"debug": {"ceiling": 8, "floor": "25%"}, "batch": {"ceiling": "1 nodes"}});
    let mut world = World::serving(&json!({"policy": "steady", "queues": bounds, "estimates": 1}));
    let first = page(&mut world);
    assert!(!first.contains("fluxgate_forecast_error_seconds_count"), "none is known yet");
    forecast(&mut world);
    let reserve = |world: &mut World, name: &str, start: f64, hosts: &str| {
        let payload = json!({"name": name, "kind": "maintenance", "start": start, "end": start + 500.0, "hosts": hosts});
        world.told("reservation-create", &payload);
    };
    let near = world.now() + 10.0;
    reserve(&mut world, "far", 9000.0, "all");
    reserve(&mut world, "near", near, "node0");
    world.advance(50.0);
    let all = samples(&page(&mut world));
    let at = |name: &str| all[&format!("fluxgate_{name}")];
    assert_eq!(at("windows{kind=\"maintenance\",state=\"planned\"}"), 1.0);
    assert_eq!(at("windows{kind=\"maintenance\",state=\"active\"}"), 1.0);
    assert_eq!(at("windows{kind=\"dedicated\",state=\"planned\"}"), 0.0);
    assert_eq!(at("queue_bound_cores{queue=\"debug\",bound=\"ceiling\"}"), 8.0);
    assert_eq!(at("queue_bound_cores{queue=\"debug\",bound=\"floor\"}"), 4.0);
    assert_eq!(at("queue_bound_cores{queue=\"batch\",bound=\"ceiling\"}"), 4.0);
    assert!(!all.contains_key("fluxgate_queue_bound_cores{queue=\"batch\",bound=\"floor\"}"));
    // It was told 1660 or so, and started after 2000.
    let late = "forecast_error_seconds_sum{queue=\"\",side=\"late\"}";
    assert!((300.0..500.0).contains(&at(late)), "{}", at(late));
    assert_eq!(at("forecast_error_seconds_count{queue=\"\",side=\"early\"}"), 0.0);
    assert!(at("policy_function_calls_total{policy=\"steady\",call=\"ordering.keys\"}") > 0.0);
    assert!(at("policy_function_fuel_total{policy=\"steady\",call=\"ordering.keys\"}") > 0.0);
    let sum: f64 =
        all.iter().filter(|(name, _)| name.contains("policy_function_calls_total")).map(|(_, n)| n).sum();
    assert_eq!(sum, at("policy_calls_total{policy=\"steady\"}"), "each call is one of a function");
}

/// FEAT-62: the age of the oldest job follows each submission, start and cancel, of each queue by itself.
#[test]
fn feat_62_the_age_of_the_oldest_job() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let oldest = |world: &mut World, queue: &str| {
        let name = format!("fluxgate_jobs_pending_oldest_seconds{{queue=\"{queue}\"}}");
        samples(&page(world)).get(&name).copied()
    };
    assert_eq!(oldest(&mut world, ""), None, "no queue is known");
    // Submitted at 1, 2 and 600; the first starts.
    for id in [1, 2, 600] {
        world.submit(id, 16, 60.0);
    }
    world.settle();
    let age = oldest(&mut world, "").unwrap();
    let now = world.now();
    assert!((now - 2.0..now + 60.0).contains(&age), "{age} at {now}");
    world.end(1);
    world.settle();
    assert_eq!(world.started, [1, 2]);
    assert_eq!(oldest(&mut world, ""), Some(world.now() - 600.0));
    world.end(2);
    world.settle();
    assert_eq!(oldest(&mut world, ""), Some(0.0), "nobody waits");
    let rules = std::fs::read_to_string(fluxgate_testing::root().join("host/cli/share/alerts.yml")).unwrap();
    assert!(rules.contains("max(fluxgate_jobs_pending_oldest_seconds) > 604800"));
}
