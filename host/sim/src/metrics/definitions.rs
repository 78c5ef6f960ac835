//! Definition and source of each metric. Symbols as in [`crate::metrics`].
//!
//! This module computes nothing.

use serde::Serialize;

/// The definition of a metric, for tables, help and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// Its name in JSON and CSV (there with the statistic and the unit appended).
    pub name: &'static str,
    /// Unit of the value: `s`, `core_s`, `kWh`, or `1` for a ratio.
    pub unit: &'static str,
    /// The formula.
    pub formula: &'static str,
    /// The source of the definition.
    pub source: &'static str,
}

const METRICS_98: &str =
    "Feitelson, Rudolph: Metrics and Benchmarking for Parallel Job Scheduling, JSSPP 1998, LNCS 1459";
const CONVERGENCE_01: &str =
    "Feitelson: Metrics for Parallel Job Scheduling and Their Convergence, JSSPP 2001, LNCS 2221";
const THEORY_97: &str = "Feitelson, Rudolph, Schwiegelshohn, Sevcik, Wong: Theory and Practice in Parallel Job Scheduling, JSSPP 1997, LNCS 1291";
const BACKFILL_01: &str = "after Mu'alem, Feitelson: Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 \
     with Backfilling, IEEE TPDS 12(6), 2001";

/// Every metric of a [`Summary`](super::Summary), the error of forecasts, and the definition of quantiles.
pub const DEFINITIONS: [Definition; 15] = [
    Definition { name: "wait", unit: "s", formula: "b - s", source: METRICS_98 },
    Definition { name: "response", unit: "s", formula: "e - s", source: METRICS_98 },
    Definition {
        name: "slowdown",
        unit: "1",
        formula: "(e - s) / r, over jobs with r > 0",
        source: CONVERGENCE_01,
    },
    Definition {
        name: "bounded_slowdown",
        unit: "1",
        formula: "max(1, (e - s) / max(r, threshold))",
        source: THEORY_97,
    },
    Definition { name: "makespan", unit: "s", formula: "max e - min s", source: METRICS_98 },
    Definition {
        name: "core_seconds",
        unit: "core_s",
        formula: "sum of c r, without the work of jobs that a failed node or a reservation ended early (lost_core_seconds)",
        source: METRICS_98,
    },
    Definition {
        name: "utilisation",
        unit: "1",
        formula: "core_seconds / (cores of the machine * makespan)",
        source: METRICS_98,
    },
    Definition {
        name: "utilisation_to_last_start",
        unit: "1",
        formula: "core_seconds / (cores of the machine * (max b - min s)): the work of jobs that end after the last start \
                  counts, the time does not",
        source: "Zhang, Dai, He, Bao, Xie: RLScheduler, SC 2020 (its published tables; the others here and the Parallel \
                 Workloads Archive go to the last end)",
    },
    Definition {
        name: "backfilled_share",
        unit: "1",
        formula: "share of the started jobs that left an earlier-submitted job (ties: smaller id) waiting when every \
                  start of that instant was done",
        source: BACKFILL_01,
    },
    Definition {
        name: "loss_of_capacity",
        unit: "1",
        formula: "core-seconds that were idle while a job waited that asked for no more cores than were idle / (cores of \
                  the machine * makespan)",
        source: "Tang, Lan, Desai, Buettner, Yu: Reducing Fragmentation on Torus-Connected Supercomputers, IPDPS 2011",
    },
    Definition {
        name: "fairness_users",
        unit: "1",
        formula: "(sum of x)^2 / (users * sum of x^2), x being a user's mean bounded slowdown with the first threshold: 1 when \
                  all users have the same, 1 / users at worst",
        source: "Jain, Chiu, Hawe: A Quantitative Measure of Fairness and Discrimination, DEC TR-301, 1984",
    },
    Definition {
        name: "fair_start_miss",
        unit: "s",
        formula: "max(0, b - f), f being the start of j in a schedule of the same policy in which no job that comes after j \
                  (submission, ties: number) exists; over jobs drawn evenly among those that started. unfair_share: how many have \
                  b > f",
        source: "Sabin, Kochhar, Sadayappan: Job Fairness in Non-Preemptive Job Scheduling, ICPP 2004; Sabin, Sadayappan: \
                 Unfairness Metrics for Space-Sharing Parallel Job Schedulers, JSSPP 2005, LNCS 3834",
    },
    Definition {
        name: "energy",
        unit: "kWh",
        formula: "nodes * makespan * (idle + (busy - idle) * u) / 3.6e6, idle and busy being what a node draws in watts, u the \
                  utilisation with the work that was lost",
        source: "the linear model of Fan, Weber, Barroso: Power Provisioning for a Warehouse-Sized Computer, ISCA 2007",
    },
    Definition {
        name: "forecast_error",
        unit: "s",
        formula: "b less the start that was expected at some time before; by how far ahead that was, see calibration",
        source: "after Smith, Taylor, Foster: Using Run-Time Predictions to Estimate Queue Wait Times and Improve Scheduler \
                 Performance, JSSPP 1999, LNCS 1659",
    },
    Definition {
        name: "quantiles",
        unit: "1",
        formula: "linear interpolation of order statistics, h = (n - 1) p (type 7)",
        source: "Hyndman, Fan: Sample Quantiles in Statistical Packages, The American Statistician 50(4), 1996",
    },
];
