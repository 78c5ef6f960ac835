//! The policy `smallest-first`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use fluxgate_guest::backfill::{self, DEPTH_MAX};
use fluxgate_guest::prelude::*;

/// The policy; README.md of this crate defines its rule.
#[derive(Debug, Default)]
pub struct SmallestFirst {
    /// Number of waiting jobs that get a reservation in one pass.
    depth: u32,
}

impl Policy for SmallestFirst {
    fn info() -> Info {
        Info::new("smallest-first", "Smallest job first: orders the queue by cores asked for")
            .version(env!("CARGO_PKG_VERSION"))
            .key("depth", Kind::Integer, "0", "how many waiting jobs have a reservation, 0 to 1000")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.depth = config.integer_in("depth", 0..=DEPTH_MAX)? as u32;
        Ok(())
    }
}

impl Ordering for SmallestFirst {
    fn key(&mut self, _now: f64, job: &Job) -> f64 {
        f64::from(job.cores)
    }
}

impl Scheduling for SmallestFirst {
    fn run(&mut self, pass: &mut dyn Pass) {
        backfill::always_in_queue_order(pass, self.depth);
    }
}

export_policy!(SmallestFirst: ordering, scheduling);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    #[test]
    fn small_jobs_come_first() {
        let mut bench = Bench::new(4);
        bench.job(1).cores(4).duration(10.0).submit();
        bench.job(2).cores(3).duration(10.0).submit();
        bench.job(3).cores(1).duration(10.0).submit();
        let starts = bench.run_to_end(&mut SmallestFirst::default());
        assert_eq!(starts, [(3, 0.0), (2, 0.0), (1, 10.0)]);
    }

    #[test]
    fn depth_lets_others_pass_without_delay() {
        let run = |depth: &str| {
            let mut bench = Bench::new(4);
            bench.job(1).cores(2).duration(100.0).running();
            bench.job(2).cores(4).duration(900.0).priority(17).submit();
            bench.job(3).cores(2).duration(100.0).submit();
            bench.job(4).cores(2).duration(101.0).submit();
            bench.run(&mut configured::<SmallestFirst>(&[("depth", depth)]).unwrap());
            bench.started().to_vec()
        };
        assert_eq!(run("0"), [3], "the smallest, submitted first");
        assert_eq!(run("1"), [3], "then job 4 is the head, and job 2 fits nowhere");
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let refusal = configured::<SmallestFirst>(&[("depth", "1001")]).unwrap_err();
        assert!(refusal.contains("between 0 and 1000"), "{refusal}");
    }
}
