//! The policy `sjf`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use fluxgate_guest::prelude::*;

/// Shortest requested duration first.
#[derive(Debug, Default)]
pub struct Sjf;

impl Policy for Sjf {
    fn info() -> Info {
        Info::new("sjf", "Shortest job first: orders the queue by requested duration")
            .version(env!("CARGO_PKG_VERSION"))
    }
}

impl Ordering for Sjf {
    fn key(&mut self, _now: f64, job: &Job) -> f64 {
        job.duration
    }
}

export_policy!(Sjf: ordering);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::Bench;

    #[test]
    fn short_jobs_come_first_and_unlimited_ones_last() {
        let mut bench = Bench::new(1);
        bench.job(1).duration(f64::INFINITY).really(1.0).submit();
        bench.job(2).duration(500.0).submit();
        bench.job(3).duration(20.0).submit();
        let starts = bench.run_to_end(&mut Sjf);
        assert_eq!(starts, [(3, 0.0), (2, 20.0), (1, 520.0)]);
    }

    #[test]
    fn equal_durations_come_by_priority_then_submission_then_id() {
        let mut bench = Bench::new(1);
        bench.job(4).priority(16).submitted_at(0.0).submit();
        bench.job(3).priority(16).submitted_at(0.0).submit();
        bench.job(2).priority(16).submitted_at(-5.0).submit();
        bench.job(1).priority(20).submitted_at(7.0).submit();
        bench.run(&mut Sjf);
        assert_eq!(bench.started(), [1]);
        assert_eq!(bench.pending(), [2, 3, 4]);
    }

    #[test]
    fn an_expedited_job_comes_before_short_ones() {
        let mut bench = Bench::new(1);
        bench.job(1).duration(1.0).submit();
        bench.job(2).duration(9999.0).priority(u32::MAX).submit();
        bench.run(&mut Sjf);
        assert_eq!(bench.started(), [2]);
    }
}
