//! Figures of policies: their cost, their breaches, their shadows, and what they have learned.
//!
//! Must never decide anything.

use fluxgate_engine::{CallCost, PolicyCost};

use super::{QUEUES_MAX, Service};
use crate::openmetrics::{Kind, Page};

impl Service {
    pub(super) fn policy_page(&self, page: &mut Page) {
        let Some(engine) = &self.engine else { return };
        let help = "The policy that decides a queue; the queue is empty for the default.";
        let mut family = page.family("policy", Kind::Info, "", help);
        family.info(&[("queue", ""), ("policy", engine.policy_name())]);
        for queue in engine.tallies().take(QUEUES_MAX) {
            if let Some(policy) = queue.policy {
                family.info(&[("queue", queue.queue), ("policy", policy)]);
            }
        }
        self.cost_page(page);
        let stats = engine.stats();
        let help = "Policies that broke the contract and were replaced.";
        page.family("policy_failures", Kind::Counter, "", help).total(&[], stats.policy_failures as f64);
        let help = "Swaps of policies that were completed.";
        page.family("policy_swaps", Kind::Counter, "", help).total(&[], stats.swaps as f64);
        let suspended = f64::from(u8::from(engine.suspended_by().is_some()));
        let help = "1 while scheduling is suspended because the default policy failed.";
        page.family("scheduling_suspended", Kind::Gauge, "", help).gauge(&[], suspended);
        self.containment_page(page);
        self.shadow_page(page);
        let help =
            "Size of what a policy has learned, as it was last kept; the queue is empty for the default.";
        let mut family = page.family("policy_state_bytes", Kind::Gauge, "bytes", help);
        for (queue, policy, bytes) in self.policy_states.sizes().take(QUEUES_MAX) {
            family.gauge(&[("queue", queue.unwrap_or_default()), ("policy", policy)], bytes as f64);
        }
    }

    /// The cost of policies.
    fn cost_page(&self, page: &mut Page) {
        let Some(engine) = &self.engine else { return };
        let of_queues = engine.queues().filter(|queue| queue.own).take(QUEUES_MAX);
        let own = of_queues.map(|queue| (queue.queue, queue.policy, queue.cost));
        let rows: Vec<(&str, &str, PolicyCost)> =
            std::iter::once(("", engine.policy_name(), engine.policy_cost())).chain(own).collect();
        for (name, unit, kind, help, value) in [
            (
                "policy_fuel",
                "",
                Kind::Counter,
                "Fuel that a policy has used.",
                (|cost| cost.fuel as f64) as Of,
            ),
            ("policy_calls", "", Kind::Counter, "Calls of a policy.", |cost| cost.calls as f64),
            ("policy_call_seconds", "seconds", Kind::Counter, "Time in a policy.", |cost| {
                cost.nanos as f64 / 1e9
            }),
            ("policy_memory_bytes", "bytes", Kind::Gauge, "Memory of a policy.", |cost| cost.memory as f64),
        ] {
            let mut family = page.family(name, kind, unit, help);
            for (queue, policy, cost) in &rows {
                let labels = &[("queue", *queue), ("policy", *policy)];
                match kind {
                    Kind::Gauge => family.gauge(labels, value(cost)),
                    _ => family.total(labels, value(cost)),
                }
            }
        }
        let costs: Vec<_> = engine.policy_costs_by_call().take(QUEUES_MAX).collect();
        let mut each = |family: &str, unit: &str, help: &str, value: &dyn Fn(&CallCost) -> f64| {
            let mut family = page.family(family, Kind::Counter, unit, help);
            for (queue, policy, calls) in &costs {
                for call in calls {
                    let labels = [("queue", *queue), ("policy", *policy), ("call", call.call)];
                    family.total(&labels, value(call));
                }
            }
        };
        let help = "Calls of a policy by function; the queue is empty for the default.";
        each("policy_function_calls", "", help, &|it| it.calls as f64);
        each("policy_function_fuel", "", "Fuel of a policy by function.", &|it| it.fuel as f64);
        let help = "Time in a policy by function.";
        each("policy_function_seconds", "seconds", help, &|it| it.nanos as f64 / 1e9);
    }

    /// Breaches, quarantines, ways back, probations and log lines of policies.
    fn containment_page(&self, page: &mut Page) {
        let histories = || self.registry.histories().take(QUEUES_MAX);
        let help =
            "Limits and rules that policies broke, by their names; the queue is empty for the default.";
        let mut family = page.family("policy_breaches", Kind::Counter, "", help);
        for (queue, history) in histories() {
            for (policy, limit, count) in history.records.breaches_by_policy() {
                family.total(&[("queue", queue), ("policy", policy), ("limit", limit)], count as f64);
            }
        }
        let help = "1 while a policy that failed does not decide.";
        let mut family = page.family("policy_quarantined", Kind::Gauge, "", help);
        for (queue, history) in histories() {
            for (policy, out) in history.records.known() {
                let labels = &[("queue", queue), ("policy", policy)];
                family.gauge(labels, f64::from(u8::from(out)));
            }
        }
        for (name, help, back) in [
            ("policy_rollbacks", "Times that another policy was gone back to after a failure.", false),
            ("policy_returns", "Times that a policy came back by itself after its quarantine.", true),
        ] {
            let mut family = page.family(name, Kind::Counter, "", help);
            for (queue, history) in histories() {
                let (rollbacks, returns) = history.ways_back();
                family.total(&[("queue", queue)], (if back { returns } else { rollbacks }) as f64);
            }
        }
        let help = "1 while a policy is on probation; the queue is empty for the default.";
        let mut family = page.family("policy_probation", Kind::Gauge, "", help);
        for (queue, probation) in self.probations.iter().take(QUEUES_MAX) {
            let queue = queue.as_deref().unwrap_or_default();
            family.gauge(&[("queue", queue), ("policy", probation.policy())], 1.0);
        }
        let log = self.components.loader().log_totals();
        for (name, help, value) in [
            ("policy_log_lines", "Lines that policies logged.", log.written),
            (
                "policy_log_dropped",
                "Lines of policies that were more than the bounds of logs allow.",
                log.dropped,
            ),
            ("policy_log_cut", "Lines of policies that were cut for their length.", log.cut),
        ] {
            page.family(name, Kind::Counter, "", help).total(&[], value as f64);
        }
    }

    /// The shadows.
    fn shadow_page(&self, page: &mut Page) {
        let figures = self.shadows.figures();
        let help = "Passes that a shadow followed; the queue is empty for the default.";
        let mut family = page.family("shadow_passes", Kind::Counter, "", help);
        figures.iter().for_each(|it| family.total(&it.labels(), it.passes as f64));
        let help = "Part of the jobs that a shadow would have started at another time.";
        let mut family = page.family("shadow_differing_ratio", Kind::Gauge, "ratio", help);
        figures.iter().for_each(|it| family.gauge(&it.labels(), it.differing));
        let help = "Events and passes that a shadow has still to follow.";
        let mut family = page.family("shadow_lag_events", Kind::Gauge, "", help);
        figures.iter().for_each(|it| family.gauge(&it.labels(), it.behind as f64));
        let help = "1 while a shadow follows, 0 after it has ended.";
        let mut family = page.family("shadow_active", Kind::Gauge, "", help);
        figures.iter().for_each(|it| family.gauge(&it.labels(), f64::from(u8::from(!it.ended))));
    }
}

/// A figure of a cost.
type Of = fn(&PolicyCost) -> f64;
