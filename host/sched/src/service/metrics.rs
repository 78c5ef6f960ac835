//! Figures for monitoring systems, in the text form of OpenMetrics: `metrics-get`.
//!
//! The time for a page grows with the number of its figures, not of jobs: each change updates the figures. A page is written at most
//! once a second. Names, types, units and labels of a family never change after a release. Labels are queues, policies,
//! states and kinds, never users or jobs. Must never decide anything.

mod policies;
mod session;

use std::time::Duration;

use fluxgate_engine::{EVENTS, Engine, QueueCounts, QueueTally, REFUSALS, REMOVALS};
use serde_json::{Value, json};

use super::Service;
use super::idle_windows::{KINDS, kept_ranks};
use crate::openmetrics::{Family, Kind, OTHER, Page};

/// For how long a page is given again.
const KEPT: Duration = Duration::from_secs(1);
/// Queues with labels of their own; the others are summed up.
const QUEUES_MAX: usize = 256;

/// The counts of the first queues, and of all others together.
fn bounded<'a>(tallies: impl Iterator<Item = QueueTally<'a>>) -> Vec<QueueTally<'a>> {
    let mut queues: Vec<QueueTally<'a>> = Vec::new();
    for tally in tallies {
        if queues.len() < QUEUES_MAX {
            queues.push(tally);
        } else if let Some(other) = queues.iter_mut().find(|queue| queue.queue == OTHER) {
            other.add(&tally);
        } else {
            queues.push(QueueTally { queue: OTHER, ..tally });
        }
    }
    queues
}

/// The machine by state.
fn machine_page(engine: &Engine, now: f64, page: &mut Page) {
    let totals = engine.resources().totals();
    let down = engine.resources().down_counts();
    let kept = engine.resources().free_counts(&kept_ranks(engine, None, now));
    for (name, help, all, free, down, kept) in [
        (
            "nodes",
            "Nodes by state; a node is allocated if a job holds any of it, and a free one in a reservation that is on is window.",
            totals.nodes,
            totals.free_nodes,
            down.0,
            kept.0,
        ),
        ("cores", "Cores by state.", totals.cores, totals.free_cores, down.1, kept.1),
        ("gpus", "GPUs by state.", totals.gpus, totals.free_gpus, down.2, kept.2),
    ] {
        let mut family = page.family(name, Kind::Gauge, "", help);
        let held = i64::from(all) - i64::from(free) - i64::from(down);
        family.gauge(&[("state", "free")], f64::from(free.saturating_sub(kept)));
        family.gauge(&[("state", "window")], f64::from(kept));
        family.gauge(&[("state", "allocated")], held.max(0) as f64);
        family.gauge(&[("state", "down")], f64::from(down));
    }
    let help = "Nodes that are up, and of which some cores are free and some are not.";
    let mut family = page.family("nodes_fragmented", Kind::Gauge, "", help);
    family.gauge(&[], f64::from(engine.resources().fragmented_nodes()));
    let kinds = engine.resources().resource_kinds();
    let flows = engine.resources().flow_kinds();
    let rows = || {
        let others = kinds.iter().map(|it| (&it.name, &it.unit, it.total, it.free));
        others.chain(flows.iter().map(|it| (&it.name, &it.unit, it.total, it.free)))
    };
    if rows().next().is_some() {
        let help = "Units of all pools of a kind: storage, memory, licences, power and other flow.";
        let mut family = page.family("pool_capacity", Kind::Gauge, "", help);
        rows()
            .for_each(|(name, unit, total, _)| family.gauge(&[("kind", name), ("unit", unit)], total as f64));
        let help = "Units of pools of a kind that are held or down.";
        let mut family = page.family("pool_used", Kind::Gauge, "", help);
        rows().for_each(|(name, unit, total, free)| {
            family.gauge(&[("kind", name), ("unit", unit)], total.saturating_sub(free) as f64);
        });
    }
}

/// The jobs of queues as they are now.
fn queue_page(engine: &Engine, now: f64, page: &mut Page) {
    let queues = bounded(engine.tallies());
    let mut family =
        page.family("jobs_pending", Kind::Gauge, "", "Waiting jobs by the reason of their last pass.");
    for queue in &queues {
        for (reason, count) in &queue.reasons {
            family.gauge(&[("queue", queue.queue), ("reason", *reason)], *count as f64);
        }
    }
    let each = |family: &mut Family<'_>, value: &dyn Fn(&QueueTally<'_>) -> u64| {
        queues.iter().for_each(|queue| family.gauge(&[("queue", queue.queue)], value(queue) as f64));
    };
    let help = "Age of the oldest waiting job since its submission, to the minute above; 0 without one.";
    let mut family = page.family("jobs_pending_oldest_seconds", Kind::Gauge, "seconds", help);
    for queue in &queues {
        let age = queue.oldest.map_or(0.0, |oldest| (now - oldest).max(0.0));
        family.gauge(&[("queue", queue.queue)], age);
    }
    each(&mut page.family("jobs_running", Kind::Gauge, "", "Jobs that hold resources."), &|q| q.running);
    each(&mut page.family("reservations", Kind::Gauge, "", "Reserved starts of waiting jobs."), &|q| {
        q.reserved
    });
    let help =
        "Classes of equal waiting jobs that are not looked at until resources come back that they could use.";
    each(&mut page.family("classes_parked", Kind::Gauge, "", help), &|q| q.parked);
    let help = "Cores that jobs of a queue hold.";
    each(&mut page.family("queue_used_cores", Kind::Gauge, "", help), &|q| q.cores);
}

/// The counters of queues.
fn count_page(engine: &Engine, page: &mut Page) {
    let queues = bounded(engine.tallies());
    let total = |family: &mut Family<'_>, value: &dyn Fn(&QueueTally<'_>) -> u64| {
        queues.iter().for_each(|queue| family.total(&[("queue", queue.queue)], value(queue) as f64));
    };
    let by =
        |family: &mut Family<'_>, label: &str, rows: &dyn Fn(&QueueCounts) -> Vec<(&'static str, u64)>| {
            for queue in &queues {
                for (name, count) in rows(&queue.counts) {
                    family.total(&[("queue", queue.queue), (label, name)], count as f64);
                }
            }
        };
    let help = "Accepted requests for resources.";
    total(&mut page.family("jobs_submitted", Kind::Counter, "", help), &|q| q.counts.submitted);
    let mut family = page.family("jobs_started", Kind::Counter, "", "Jobs started, by how they came to it.");
    by(&mut family, "how", &|of| {
        let in_order = of.starts - of.backfilled - of.from_reservations;
        vec![("immediate", in_order), ("backfill", of.backfilled), ("reserved", of.from_reservations)]
    });
    let help = "Requests that left the queue without resources.";
    let mut family = page.family("jobs_removed", Kind::Counter, "", help);
    by(&mut family, "why", &|of| REMOVALS.into_iter().zip(of.removed).collect());
    total(&mut page.family("jobs_ended", Kind::Counter, "", "Jobs that gave up all resources."), &|q| {
        q.counts.ended
    });
    let help = "Cores that jobs gave back, times how long they held them.";
    let mut family = page.family("core_seconds", Kind::Counter, "seconds", help);
    queues.iter().for_each(|queue| family.total(&[("queue", queue.queue)], queue.core_seconds));
    let help = "Run time over limit of jobs that ended and had a limit.";
    let mut family = page.family("job_limit_used_ratio", Kind::Histogram, "ratio", help);
    queues.iter().for_each(|queue| family.histogram(&[("queue", queue.queue)], &queue.limits_used));
    let help = "From submission to start.";
    let mut family = page.family("job_wait_seconds", Kind::Histogram, "seconds", help);
    queues.iter().for_each(|queue| family.histogram(&[("queue", queue.queue)], &queue.waits));
    let help = "Scheduling passes, by what decided them; nobody while scheduling is suspended.";
    let mut family = page.family("passes", Kind::Counter, "", help);
    by(&mut family, "decided_by", &|of| {
        let policy = of.passes.saturating_sub(of.builtin + of.suspended);
        vec![("policy", policy), ("builtin", of.builtin), ("nobody", of.suspended)]
    });
    let help = "Proposals of policies that were refused.";
    let mut family = page.family("gate_refusals", Kind::Counter, "", help);
    by(&mut family, "refusal", &|of| REFUSALS.into_iter().zip(of.refused).collect());
    let help = "Reservations made in passes.";
    total(&mut page.family("reservations_made", Kind::Counter, "", help), &|q| q.counts.reservations);
}

/// The figures that hold at a time, without counters: a page for an engine of the past.
pub(crate) fn page_at(engine: &Engine, now: f64) -> String {
    let mut page = Page::new("fluxgate_", now);
    machine_page(engine, now, &mut page);
    queue_page(engine, now, &mut page);
    page.finish()
}

impl Service {
    /// The page, at most a second old.
    pub(super) fn metrics(&mut self) -> Value {
        let now = self.host.elapsed();
        let fresh = |(at, _): &&(Duration, String)| now.saturating_sub(*at) < KEPT;
        if let Some((_, text)) = self.last_page.as_ref().filter(fresh) {
            return json!({"metrics": text});
        }
        self.count_idle_windows();
        let text = self.page();
        self.last_page = Some((now, text.clone()));
        json!({"metrics": text})
    }

    fn page(&self) -> String {
        let mut page = Page::new("fluxgate_", self.began);
        let mode = if self.identity.uuid.is_some() { "module" } else { "client" };
        page.family("build", Kind::Info, "", "Version of the scheduler and of the contract of policies.")
            .info(&[("version", env!("CARGO_PKG_VERSION")), ("contract", "0.1.0"), ("mode", mode)]);
        page.family("up", Kind::Gauge, "", "1 while the job manager is served.")
            .gauge(&[], f64::from(u8::from(self.session.is_serving())));
        if let Some(engine) = &self.engine {
            let now = self.host.now();
            machine_page(engine, now, &mut page);
            queue_page(engine, now, &mut page);
            count_page(engine, &mut page);
        }
        self.bounds_page(&mut page);
        self.windows_page(&mut page);
        self.forecast_page(&mut page);
        self.pass_page(&mut page);
        self.policy_page(&mut page);
        self.session_page(&mut page);
        self.journal_page(&mut page);
        self.process_page(&mut page);
        page.finish()
    }

    /// The bounds that queues have.
    fn bounds_page(&self, page: &mut Page) {
        let Some(engine) = &self.engine else { return };
        let (totals, bounds) = (engine.resources().totals(), &engine.config().queue_bounds);
        if bounds.is_empty() {
            return;
        }
        let help = "Cores that a queue may hold at most (ceiling), and that others leave to it (floor).";
        let mut family = page.family("queue_bound_cores", Kind::Gauge, "", help);
        for (queue, of) in bounds.iter().take(QUEUES_MAX) {
            for (bound, amount) in [("ceiling", of.ceiling), ("floor", of.floor)] {
                if let Some(amount) = amount {
                    family.gauge(&[("queue", queue), ("bound", bound)], amount.cores(&totals) as f64);
                }
            }
        }
    }

    /// The windows of people, which they call reservations.
    fn windows_page(&self, page: &mut Page) {
        let Some(engine) = &self.engine else { return };
        let now = self.host.now();
        let help = "Reservations of nodes by kind and state, without those that are over.";
        let mut family = page.family("windows", Kind::Gauge, "", help);
        for (kind, name) in KINDS {
            for state in ["planned", "active", "degraded"] {
                let windows =
                    engine.windows().filter(|window| window.kind == kind && window.state(now) == state);
                family.gauge(&[("kind", name), ("state", state)], windows.count() as f64);
            }
        }
        let help = "Cores that reservations which were on kept free and nobody used, times how long.";
        let mut family = page.family("window_idle_core_seconds", Kind::Counter, "seconds", help);
        for ((_, name), sum) in KINDS.into_iter().zip(self.idle_windows.core_seconds()) {
            family.total(&[("kind", name)], sum);
        }
    }

    /// How far forecasts were off.
    fn forecast_page(&self, page: &mut Page) {
        let Some(engine) = &self.engine else { return };
        let help = "How much earlier or later jobs started than was told them first, of waits that were told as a minute or more.";
        let mut family = page.family("forecast_error_seconds", Kind::Histogram, "seconds", help);
        for (queue, number) in engine.tallies().zip(0..).take(QUEUES_MAX) {
            let Some(off) = self.forecasts.off(number) else { continue };
            for (side, histogram) in ["early", "late"].into_iter().zip(off) {
                family.histogram(&[("queue", queue.queue), ("side", side)], histogram);
            }
        }
    }

    fn pass_page(&self, page: &mut Page) {
        let Some(engine) = &self.engine else { return };
        let stats = engine.stats();
        let count = |page: &mut Page, name: &str, help: &str, value: u64| {
            page.family(name, Kind::Counter, "", help).total(&[], value as f64);
        };
        let help = "Duration of a round of passes over all queues with news.";
        page.family("pass_duration_seconds", Kind::Histogram, "seconds", help)
            .histogram(&[], self.passes.histogram());
        let help = "From the request of a job to the answer that it has started, of jobs that the next pass started.";
        page.family("start_latency_seconds", Kind::Histogram, "seconds", help)
            .histogram(&[], self.start_times.starts.histogram());
        let help = "Commits of R to the KVS, from the decision to the answer.";
        page.family("commit_seconds", Kind::Histogram, "seconds", help)
            .histogram(&[], self.start_times.commits.histogram());
        let help = "Duration of a round in which a policy was swapped.";
        page.family("swap_pause_seconds", Kind::Histogram, "seconds", help)
            .histogram(&[], self.flips.histogram());
        count(page, "passes_cut", "Passes that ended early since a message waited.", stats.interrupted);
        let mut family = page.family("events", Kind::Counter, "", "Events that the engine took in.");
        for (kind, count) in EVENTS.into_iter().zip(stats.events_by_kind) {
            family.total(&[("kind", kind)], count as f64);
        }
        count(page, "candidates", "Candidates offered to policies.", stats.candidates);
        count(page, "matches", "Searches for resources.", stats.matches);
        count(page, "jobs_unknown", "Events of jobs that are not known here.", stats.unknown_jobs);
        count(page, "jobs_denied", "Requests that can never be satisfied.", stats.denied);
    }
}
