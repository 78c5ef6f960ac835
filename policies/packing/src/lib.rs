//! The policy `packing`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use std::cmp::Reverse;

use fluxgate_guest::backfill::until_reserved;
use fluxgate_guest::prelude::*;

/// Maximum number of jobs considered behind the first that waits.
const WINDOW_MAX: i64 = 100_000;

/// The policy; README.md of this crate defines its rule.
#[derive(Debug)]
pub struct Packing {
    /// True if wide jobs come first behind the first that waits.
    widest_first: bool,
    /// Number of jobs considered behind it.
    window: usize,
}

impl Default for Packing {
    fn default() -> Self {
        Packing { widest_first: true, window: 10_000 }
    }
}

impl Policy for Packing {
    fn info() -> Info {
        Info::new(
            "packing",
            "EASY that fills gaps with what fits best, and nodes that are in use before idle ones",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .key("backfill", Kind::Text, "widest", "order behind the first that waits: widest or queue")
        .key("window", Kind::Integer, "10000", "jobs behind it that are looked at, 1 to 100000")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.widest_first = match config.text("backfill")? {
            "widest" => true,
            "queue" => false,
            other => return Err(format!("`backfill` is `{other}`, but must be widest or queue")),
        };
        self.window = config.integer_in("window", 1..=WINDOW_MAX)? as usize;
        Ok(())
    }
}

/// The placements, as far as the host supports them.
#[derive(Debug, Clone, Copy)]
struct Places {
    /// Cores of a node.
    node: u32,
    small: Option<Placement>,
    large: Option<Placement>,
}

impl Places {
    fn new(pass: &mut dyn Pass) -> Self {
        let totals = pass.totals();
        let (small, large) = (pass.placement("pack"), pass.placement("locality"));
        Places { node: totals.cores.div_ceil(totals.nodes.max(1)), small, large }
    }

    fn start(&self, pass: &mut dyn Pass, candidate: Candidate, job: &Job) -> Result<(), Refusal> {
        let small = job.nodes <= 1 && job.cores < self.node;
        match if small { self.small } else { self.large } {
            Some(placement) => pass.start_placed(candidate, placement),
            None => pass.start(candidate),
        }
    }
}

impl Scheduling for Packing {
    fn run(&mut self, pass: &mut dyn Pass) {
        let places = Places::new(pass);
        let start = |pass: &mut dyn Pass, candidate| {
            let job = pass.describe(candidate);
            places.start(pass, candidate, &job)
        };
        if !until_reserved(pass, start) {
            return;
        }
        let free = pass.totals().free_cores;
        let mut jobs = Vec::new();
        if free > 0 {
            each_job(pass, self.window, |candidate, job| {
                if job.cores <= free {
                    jobs.push((candidate, job));
                }
            });
        }
        if self.widest_first {
            // A stable sort: the host's order among equals.
            jobs.sort_by_key(|(_, job)| (job.priority != u32::MAX, Reverse(job.cores)));
        }
        for (candidate, job) in jobs {
            if job.cores <= pass.totals().free_cores
                && places.start(pass, candidate, &job) == Err(Refusal::Limit)
            {
                return;
            }
        }
    }
}

export_policy!(Packing: scheduling);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    /// Ten cores, of which job 1 holds six until 100; job 2 wants eight and waits.
    fn waiting_head() -> Bench {
        let mut bench = Bench::new(10);
        bench.job(1).cores(6).duration(100.0).running();
        bench.job(2).cores(8).duration(50.0).submit();
        bench
    }

    #[test]
    fn what_fits_best_goes_first() {
        for (order, started) in [("widest", [4, 5]), ("queue", [3, 5])] {
            let mut bench = waiting_head();
            bench.job(3).cores(2).duration(50.0).submit();
            bench.job(4).cores(3).duration(50.0).submit();
            bench.job(5).cores(1).duration(50.0).submit();
            bench.run(&mut configured::<Packing>(&[("backfill", order)]).unwrap());
            assert_eq!((bench.started(), bench.reserved()), (&started[..], vec![(2, 100.0)]));
        }
    }

    #[test]
    fn what_would_delay_the_head_may_not_start() {
        let mut bench = waiting_head();
        bench.job(3).cores(4).duration(101.0).submit();
        bench.job(4).cores(2).duration(101.0).submit();
        bench.run(&mut Packing::default());
        assert_eq!(bench.started(), [4], "two cores are left beside the head");
    }

    #[test]
    fn a_head_without_any_time_is_passed_over() {
        let mut bench = Bench::new(10);
        bench.down_cores(2);
        bench.job(1).cores(6).duration(100.0).running();
        bench.job(2).cores(10).submit();
        bench.job(3).cores(8).submit();
        bench.job(4).cores(2).duration(101.0).submit();
        bench.run(&mut Packing::default());
        assert_eq!((bench.started(), bench.reserved()), (&[][..], vec![(3, 100.0)]));
    }

    #[test]
    fn small_jobs_go_where_others_are() {
        let mut bench = Bench::cluster(4, 8, 0);
        bench.job(1).cores(7).submit();
        bench.job(2).cores(8).submit();
        bench.job(3).nodes(1).cores(1).submit();
        bench.run(&mut Packing::default());
        assert_eq!(bench.started(), [1, 2, 3]);
        assert_eq!(bench.placement(1), Some("pack"));
        assert_eq!(bench.placement(2), None, "the bench knows no place for whole nodes");
        assert_eq!(bench.placement(3), Some("pack"));
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        for (key, value, says) in
            [("backfill", "narrow", "widest or queue"), ("window", "0", "between 1 and 100000")]
        {
            let error = configured::<Packing>(&[(key, value)]).unwrap_err();
            assert!(error.contains(says) && error.contains(key), "{key}: {error}");
        }
    }
}
