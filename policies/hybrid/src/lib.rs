//! The policy `hybrid`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use fluxgate_guest::backfill::{self, DEPTH_MAX};
use fluxgate_guest::prelude::*;

/// The policy; README.md of this crate defines its rule.
#[derive(Debug)]
pub struct Hybrid {
    /// Number of waiting jobs that get a reservation in one pass.
    depth: u32,
}

impl Default for Hybrid {
    fn default() -> Self {
        Hybrid { depth: 8 }
    }
}

impl Policy for Hybrid {
    fn info() -> Info {
        Info::new("hybrid", "Backfilling with reservations for the first waiting jobs")
            .version(env!("CARGO_PKG_VERSION"))
            .key("depth", Kind::Integer, "8", "how many waiting jobs have a reservation, 1 to 1000")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.depth = config.integer_in("depth", 1..=DEPTH_MAX)? as u32;
        Ok(())
    }
}

impl Scheduling for Hybrid {
    fn run(&mut self, pass: &mut dyn Pass) {
        backfill::always_in_queue_order(pass, self.depth);
    }
}

export_policy!(Hybrid: scheduling);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    #[test]
    fn as_many_reservations_as_requested() {
        let run = |depth: &str| {
            let mut bench = Bench::new(10);
            bench.job(1).cores(6).duration(100.0).running();
            for job in 2..6 {
                bench.job(job).cores(10).duration(10.0).submit();
            }
            bench.job(6).cores(4).duration(105.0).submit();
            bench.run(&mut configured::<Hybrid>(&[("depth", depth)]).unwrap());
            bench.reserved().len()
        };
        assert_eq!([run("1"), run("3"), run("8")], [1, 3, 5]);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        assert!(configured::<Hybrid>(&[("depth", "0")]).unwrap_err().contains("between 1 and 1000"));
    }
}
