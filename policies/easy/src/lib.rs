//! The policy `easy`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use fluxgate_guest::backfill::{self, DEPTH_MAX};
use fluxgate_guest::prelude::*;

/// EASY backfilling.
#[derive(Debug)]
pub struct Easy {
    /// Number of waiting jobs that get a reservation in one pass.
    depth: u32,
}

impl Default for Easy {
    fn default() -> Self {
        Easy { depth: 1 }
    }
}

impl Policy for Easy {
    fn info() -> Info {
        Info::new("easy", "EASY backfilling: what does not delay the first waiting job may start before it")
            .version(env!("CARGO_PKG_VERSION"))
            .key("depth", Kind::Integer, "1", "how many waiting jobs have a reservation, 1 to 1000")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.depth = config.integer_in("depth", 1..=DEPTH_MAX)? as u32;
        Ok(())
    }
}

impl Scheduling for Easy {
    fn run(&mut self, pass: &mut dyn Pass) {
        backfill::always_in_queue_order(pass, self.depth);
    }
}

export_policy!(Easy: scheduling);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    /// Ten cores, of which job 1 holds six until 100; job 2 wants eight and is the head with shadow time
    /// 100 and two extra cores.
    fn waiting_head() -> Bench {
        let mut bench = Bench::new(10);
        bench.job(1).cores(6).duration(100.0).running();
        bench.job(2).cores(8).duration(50.0).submit();
        bench
    }

    #[test]
    fn the_head_is_reserved_the_shadow_time() {
        let mut bench = waiting_head();
        bench.run(&mut Easy::default());
        assert_eq!(bench.started(), []);
        assert_eq!(bench.reserved(), [(2, 100.0)]);
    }

    #[test]
    fn what_ends_by_the_shadow_time_may_start() {
        let mut bench = waiting_head();
        bench.job(3).cores(4).duration(100.0).submit();
        bench.run(&mut Easy::default());
        assert_eq!(bench.started(), [3], "it ends just when the head starts");
    }

    #[test]
    fn what_would_delay_the_head_may_not() {
        let mut bench = waiting_head();
        bench.job(3).cores(4).duration(100.5).submit();
        bench.run(&mut Easy::default());
        assert_eq!(bench.started(), []);
    }

    #[test]
    fn what_fits_into_the_extra_nodes_may_run_as_long_as_it_likes() {
        let mut bench = waiting_head();
        bench.job(3).cores(2).duration(f64::INFINITY).submit();
        bench.job(4).cores(1).duration(101.0).submit();
        bench.run(&mut Easy::default());
        assert_eq!(bench.started(), [3], "job 3 took all the extra cores");
    }

    #[test]
    fn a_job_that_ends_early_moves_the_head_forward() {
        let mut bench = waiting_head();
        bench.run(&mut Easy::default());
        bench.advance(30.0);
        bench.end(1);
        bench.run(&mut Easy::default());
        assert_eq!(bench.started(), [2]);
        assert_eq!(bench.reserved(), []);
    }

    #[test]
    fn depth_reserves_for_more_waiting_jobs() {
        let mut bench = waiting_head();
        bench.job(3).cores(10).duration(10.0).submit();
        bench.job(4).cores(1).duration(1000.0).submit();
        let mut two = configured::<Easy>(&[("depth", "2")]).unwrap();
        bench.run(&mut two);
        assert_eq!(bench.reserved(), [(2, 100.0), (3, 150.0)]);
        assert_eq!(bench.started(), [], "job 4 would delay job 3");
        bench.run(&mut Easy::default());
        assert_eq!(bench.started(), [4], "with one reservation it may");
    }

    #[test]
    fn between_two_heads_jobs_start_too() {
        let mut bench = waiting_head();
        bench.job(3).cores(2).duration(500.0).submit();
        bench.job(4).cores(10).duration(10.0).submit();
        let mut two = configured::<Easy>(&[("depth", "2")]).unwrap();
        bench.run(&mut two);
        assert_eq!(bench.started(), [3]);
        assert_eq!(bench.reserved(), [(2, 100.0), (4, 500.0)]);
    }

    #[test]
    fn a_head_without_any_time_is_passed_over() {
        let mut bench = Bench::new(10);
        bench.down_cores(2);
        bench.job(1).cores(6).duration(100.0).running();
        bench.job(2).cores(10).submit();
        bench.job(3).cores(8).submit();
        bench.job(4).cores(2).duration(101.0).submit();
        bench.run(&mut Easy::default());
        assert_eq!(bench.reserved(), [(3, 100.0)]);
        assert_eq!(bench.started(), []);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        for depth in ["0", "-1", "1001"] {
            let refusal = configured::<Easy>(&[("depth", depth)]).unwrap_err();
            assert!(refusal.contains("between 1 and 1000"), "{refusal}");
        }
    }

    #[test]
    fn a_small_day() {
        let mut bench = Bench::new(4);
        bench.job(1).cores(2).duration(10.0).submit();
        bench.job(2).cores(4).duration(10.0).submit();
        bench.job(3).cores(2).duration(10.0).submit();
        bench.job(4).cores(2).duration(20.0).submit();
        bench.job(5).cores(1).duration(5.0).submit();
        let starts = bench.run_to_end(&mut Easy::default());
        assert_eq!(starts, [(1, 0.0), (3, 0.0), (2, 10.0), (4, 20.0), (5, 20.0)]);
    }
}
