//! Figures for monitoring systems: their names, their types, and that they are true.

use std::collections::BTreeMap;

use fluxgate_formats::jobspec::Simple;
use serde_json::{Value, json};

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
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(dashboard).unwrap()).unwrap();
    let mut world = World::serving(&json!({"policy": "steady", "queues": {"debug": {"ceiling": 8}}}));
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
    // The job was told 1660 or so, and started after 2000.
    let late = "forecast_error_seconds_sum{queue=\"\",side=\"late\"}";
    assert!((300.0..500.0).contains(&at(late)), "{}", at(late));
    assert_eq!(at("forecast_error_seconds_count{queue=\"\",side=\"early\"}"), 0.0);
    assert!(at("policy_function_calls_total{queue=\"\",policy=\"steady\",call=\"ordering.keys\"}") > 0.0);
    assert!(at("policy_function_fuel_total{queue=\"\",policy=\"steady\",call=\"ordering.keys\"}") > 0.0);
    let sum: f64 =
        all.iter().filter(|(name, _)| name.contains("policy_function_calls_total")).map(|(_, n)| n).sum();
    assert_eq!(sum, at("policy_calls_total{queue=\"\",policy=\"steady\"}"), "each call is one of a function");
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

/// FEAT-60: the cores that jobs of a queue hold and gave back, and how much of their limits they used.
#[test]
fn feat_60_cores_of_queues_and_limits_of_jobs() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let of = |world: &mut World, name: &str| samples(&page(world))[&format!("fluxgate_{name}")];
    world.submit(1, 8, 100.0);
    world.submit(2, 4, 1000.0);
    world.settle();
    let started = world.now();
    assert_eq!(of(&mut world, "queue_used_cores{queue=\"\"}"), 12.0);
    // Half of the nodes of the first job come back early.
    world.advance(9.0);
    world.free(1, "0");
    world.settle();
    assert_eq!(of(&mut world, "queue_used_cores{queue=\"\"}"), 8.0);
    let early = of(&mut world, "core_seconds_total{queue=\"\"}");
    assert_eq!(early, 4.0 * 10.0);
    let rest = 60.0 - (world.now() - started);
    world.advance(rest);
    world.end(1);
    world.settle();
    assert_eq!(of(&mut world, "core_seconds_total{queue=\"\"}"), early + 4.0 * 60.0);
    assert_eq!(of(&mut world, "queue_used_cores{queue=\"\"}"), 4.0);
    let used = |world: &mut World, le: &str| {
        of(world, &format!("job_limit_used_ratio_bucket{{queue=\"\",le=\"{le}\"}}"))
    };
    assert_eq!((used(&mut world, "0.55"), used(&mut world, "0.6")), (0.0, 1.0));
    // A job that ends after its limit is in the last bucket.
    world.advance(1000.0);
    world.end(2);
    world.settle();
    assert_eq!((used(&mut world, "1.0"), used(&mut world, "+Inf")), (1.0, 2.0));
    assert_eq!(of(&mut world, "queue_used_cores{queue=\"\"}"), 0.0);
}

/// FEAT-60: cores that reservations keep and no job uses, over time; a free node of a reservation is not free to all.
#[test]
fn feat_60_idle_time_in_reservations() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    let of = |world: &mut World, name: &str| samples(&page(world))[&format!("fluxgate_{name}")];
    let idle = |world: &mut World, kind: &str| {
        of(world, &format!("window_idle_core_seconds_total{{kind=\"{kind}\"}}"))
    };
    let start = world.now() + 100.0;
    let users = [5];
    let payload = json!({
        "name": "dat", "kind": "dedicated", "start": start, "end": start + 1000.0, "hosts": "node[0-1]", "users": users, "magnetic": true,
    });
    world.told("reservation-create", &payload);
    world.submit(1, 8, 5000.0);
    world.settle();
    world.advance(99.0);
    assert_eq!(idle(&mut world, "dedicated"), 0.0, "it is not on");
    assert_eq!(of(&mut world, "nodes{state=\"window\"}"), 2.0);
    world.advance(199.0 - (world.now() - start));
    // Nodes 2 and 3 are in no reservation, and they are held.
    assert_eq!(of(&mut world, "nodes{state=\"free\"}"), 0.0);
    assert_eq!(of(&mut world, "cores{state=\"window\"}"), 8.0);
    let (so_far, passed) = (idle(&mut world, "dedicated"), world.now() - start);
    assert!((so_far - 8.0 * passed).abs() <= 8.0 * 2.0, "{so_far} after {passed}");
    assert_eq!(idle(&mut world, "maintenance"), 0.0);
    // A member uses half of it.
    world.submit_as(5, 2, 4, 500.0);
    world.settle();
    assert_eq!(world.started, [1, 2]);
    let before = idle(&mut world, "dedicated");
    world.advance(400.0);
    let more = idle(&mut world, "dedicated") - before;
    assert!((more - 4.0 * 401.0).abs() <= 8.0, "{more}");
    assert_eq!(of(&mut world, "nodes{state=\"window\"}"), 1.0);
    // Nodes of a reservation that floats take short jobs: they are free.
    let now = world.now();
    let float = json!({
        "name": "soon", "kind": "maintenance", "start": now - 1.0, "end": now + 900.0, "hosts": "all", "float": 60.0,
    });
    world.told("reservation-create", &float);
    world.advance(2.0);
    assert_eq!(of(&mut world, "nodes{state=\"window\"}"), 1.0);
    assert_eq!(idle(&mut world, "maintenance"), 0.0);
    // It is over; time goes on.
    world.advance(1000.0);
    let over = idle(&mut world, "dedicated");
    world.advance(1000.0);
    assert_eq!(idle(&mut world, "dedicated"), over);
}

/// Where the numbers of `stats-get` are among the figures: the path of a number, and a family.
const FIGURES: &str = "
    pending jobs_pending, running jobs_running, queues.pending jobs_pending, queues.passes passes,
    queues.starts jobs_started, queues.reservations reservations_made, queues.failures policy_breaches,
    queues.breaches policy_breaches, queues.containment.breaches policy_breaches,
    queues.containment.rollbacks policy_rollbacks, queues.containment.returns policy_returns,
    queues.cost.calls policy_calls, queues.cost.fuel policy_fuel, queues.cost.memory policy_memory_bytes,
    queues.cost.milliseconds policy_call_seconds, queues.quarantined_until policy_quarantined,
    resources.nodes nodes, resources.cores cores, resources.gpus gpus, resources.free_nodes nodes,
    resources.free_cores cores, resources.free_gpus gpus, engine.events events, engine.passes passes,
    engine.candidates candidates, engine.matches matches, engine.starts jobs_started, engine.backfilled jobs_started,
    engine.reservations reservations_made, engine.refusals gate_refusals, engine.denied jobs_denied,
    engine.unknown_jobs jobs_unknown, engine.policy_failures policy_failures, engine.swaps policy_swaps,
    engine.builtin_passes passes, engine.interrupted passes_cut, engine.held_passes passes,
    containment.breaches policy_breaches, containment.rollbacks policy_rollbacks, containment.returns policy_returns,
    containment.shadows.passes shadow_passes, containment.shadows.differing shadow_differing_ratio,
    containment.log.written policy_log_lines, containment.log.dropped policy_log_dropped,
    containment.log.cut policy_log_cut, containment.probation.until policy_probation,
    session.hello_jobs session_hello_jobs, session.hello_lost session_hello_lost, session.allocs session_allocs,
    session.started session_started, session.denied session_denied, session.canceled session_canceled,
    session.annotated session_annotated, session.cancels_ignored session_cancels_ignored,
    session.allocs_repeated session_allocs_repeated, session.frees session_frees, session.commits commits,
    session.resource_updates session_resource_updates, session.feasibility_checks feasibility_checks,
    session.guests_refused requests_refused, session.unknown_methods requests_unknown,
    session.malformed session_malformed, session.unexpected session_unexpected, session.teardowns session_teardowns,
    session.rehellos session_handshakes, session.reclaimed session_reclaimed, session.adopted session_adopted,
    session.audits audits, session.audit_differences audit_differences, refused_for_now requests_put_off,
    policy_cost.calls policy_calls, policy_cost.fuel policy_fuel, policy_cost.memory policy_memory_bytes,
    policy_cost.nanos policy_call_seconds, learned.bytes policy_state_bytes, expected.told forecasts_told,
    pass.count pass_duration_seconds, swap_pause.count swap_pause_seconds";

/// The paths of all numbers, without positions in lists. The cost of a shadow is no figure of the live schedule, quantiles
/// are in the histograms, versions and times are no figures.
fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(path.trim_start_matches('.').to_owned()),
        Value::Array(all) => all.iter().for_each(|one| numbers(one, path, found)),
        Value::Object(all) => {
            for (key, one) in all {
                let passed =
                    ["version", "since", "p50_us", "p90_us", "p99_us", "max_us"].contains(&key.as_str());
                let of_a_shadow = key == "cost" && path.ends_with("shadows");
                if !passed && !of_a_shadow {
                    numbers(one, &format!("{path}.{key}"), found);
                }
            }
        }
        _ => {}
    }
}

/// FEAT-61: every number of `stats-get` has its metric.
#[test]
fn feat_61_every_number_of_the_counters_has_its_metric() {
    let table =
        json!({"policy": "steady", "queues": {"debug": {"policy": "other"}}, "policy-state": "/state"});
    let mut world = World::serving(&table);
    world.told("policy-shadow", &json!({"name": "other"}));
    world.submit(1, 12, 600.0);
    world.submit(2, 12, 600.0);
    world.settle();
    let mut found = Vec::new();
    let stats = world.told("stats-get", &json!({}));
    numbers(&stats, "", &mut found);
    assert!(found.len() > 60, "{}", found.len());
    let rows = FIGURES.split(',').map(|row| row.trim().split_once(' ').unwrap());
    let rows: BTreeMap<&str, &str> = rows.collect();
    let page = page(&mut world);
    for path in &found {
        // A breach is named by its limit.
        let path = path.split(".breaches").next().unwrap().replace("-", "_");
        let family = rows.get(path.as_str()).unwrap_or_else(|| panic!("{path} has no metric"));
        assert!(page.contains(&format!("# TYPE fluxgate_{family} ")), "{path}: no family {family}");
    }
    assert!(rows.values().all(|family| page.contains(&format!("# TYPE fluxgate_{family} "))));
}

/// FEAT-61: the breach and the quarantine of a policy that failed.
#[test]
fn feat_61_containment_of_a_policy_that_fails() {
    let mut world = World::serving(&json!({"policy": "steady", "quarantine": "10s"}));
    let load = world.ask("policy-load", &json!({"path": "/policies/faulty"}));
    world.finish("compile");
    assert!(world.answer(load).unwrap().is_ok());
    let before = samples(&page(&mut world));
    assert_eq!(before["fluxgate_policy_rollbacks_total{queue=\"\"}"], 0.0);
    world.ask("policy-swap", &json!({"name": "faulty"}));
    world.submit(1, 4, 60.0);
    world.settle();
    let after = samples(&page(&mut world));
    let breaches = after.iter().filter(|(name, _)| name.starts_with("fluxgate_policy_breaches_total"));
    assert_eq!(breaches.map(|(_, count)| *count).sum::<f64>(), 1.0);
    assert_eq!(after["fluxgate_policy_quarantined{queue=\"\",policy=\"faulty\"}"], 1.0);
}

/// FEAT-60: removals from the queue and refusals, by kind.
#[test]
fn feat_60_removals_and_refusals_by_kind() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.submit(1, 16, 600.0);
    world.submit(2, 16, 60.0);
    world.submit(3, 16, 60.0);
    world.settle();
    // The second asks anew, the third is canceled.
    world.submit(2, 8, 60.0);
    world.cancel(3);
    world.settle();
    let all = samples(&page(&mut world));
    let at = |name: &str| all[&format!("fluxgate_{name}")];
    let removed = |why: &str| at(&format!("jobs_removed_total{{queue=\"\",why=\"{why}\"}}"));
    assert_eq!([removed("canceled"), removed("denied"), removed("replaced")], [1.0, 0.0, 1.0]);
    let refused: f64 =
        all.iter().filter(|(name, _)| name.starts_with("fluxgate_gate_refusals_total")).map(|it| it.1).sum();
    let stats = world.told("stats-get", &json!({}))["engine"]["refusals"].as_f64().unwrap();
    assert!(refused == stats && refused >= 1.0, "{refused} of {stats}");
    assert!(at("session_offline_seconds_total") < 1.0);
}

/// FEAT-60: starts at once, commits, events, passes and requests have figures, each with its kind.
#[test]
fn feat_60_commits_starts_and_requests_have_figures() {
    let mut world = World::serving(&json!({"policy": "steady"}));
    world.submit(1, 16, 600.0);
    world.submit(2, 16, 60.0);
    world.settle();
    world.end(1);
    world.settle();
    let all = samples(&page(&mut world));
    let at = |name: &str| all[&format!("fluxgate_{name}")];
    // The second did not fit at once; each start had a commit of its own.
    assert_eq!(
        (at("start_latency_seconds_count"), at("commit_seconds_count"), at("commits_total")),
        (1.0, 2.0, 2.0)
    );
    let events = |kind: &str| at(&format!("events_total{{kind=\"{kind}\"}}"));
    assert_eq!(["alloc", "committed", "free", "cancel"].map(events), [2.0, 2.0, 1.0, 0.0]);
    let started = |how: &str| at(&format!("jobs_started_total{{queue=\"\",how=\"{how}\"}}"));
    let by_how: f64 = ["immediate", "backfill", "reserved"].into_iter().map(started).sum();
    assert_eq!(by_how, 2.0);
    let passes = |by: &str| at(&format!("passes_total{{queue=\"\",decided_by=\"{by}\"}}"));
    assert!(passes("policy") >= 2.0 && passes("nobody") == 0.0, "{} {}", passes("policy"), passes("nobody"));
    // The page counts the requests before it.
    let asked = |all: &BTreeMap<String, f64>| {
        all.get("fluxgate_requests_total{method=\"metrics-get\",role=\"owner\"}").copied().unwrap_or_default()
    };
    let before = asked(&all);
    assert_eq!(asked(&samples(&page(&mut world))), before + 1.0);
}
