//! The policy `priority`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use fluxgate_guest::backfill::{self, DEPTH_MAX};
use fluxgate_guest::prelude::*;

/// The policy; README.md of this crate defines its rule.
#[derive(Debug, Default)]
pub struct Priority {
    /// Number of waiting jobs that get a reservation in one pass.
    depth: u32,
}

impl Policy for Priority {
    fn info() -> Info {
        Info::new("priority", "Strict priority: urgency, then priority, submission and id")
            .version(env!("CARGO_PKG_VERSION"))
            .key("depth", Kind::Integer, "0", "how many waiting jobs have a reservation, 0 to 1000")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.depth = config.integer_in("depth", 0..=DEPTH_MAX)? as u32;
        Ok(())
    }
}

impl Scheduling for Priority {
    fn run(&mut self, pass: &mut dyn Pass) {
        backfill::always_in_queue_order(pass, self.depth);
    }
}

export_policy!(Priority: scheduling);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    #[test]
    fn expedited_then_priority_then_submission_then_id() {
        let mut bench = Bench::new(1);
        bench.job(5).duration(1.0).submit();
        bench.job(4).duration(1.0).submit();
        bench.job(3).duration(1.0).submitted_at(-5.0).submit();
        bench.job(2).duration(1.0).priority(20).submit();
        bench.job(1).duration(1.0).priority(u32::MAX).submit();
        let starts = bench.run_to_end(&mut Priority::default());
        assert_eq!(starts, [(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0), (5, 4.0)]);
    }

    #[test]
    fn depth_lets_others_pass_without_delay() {
        let run = |depth: &str| {
            let mut bench = Bench::new(4);
            bench.job(1).cores(2).duration(100.0).running();
            bench.job(2).cores(4).duration(900.0).priority(17).submit();
            bench.job(3).cores(2).duration(100.0).submit();
            bench.job(4).cores(2).duration(101.0).submit();
            bench.run(&mut configured::<Priority>(&[("depth", depth)]).unwrap());
            bench.started().to_vec()
        };
        assert_eq!(run("0"), []);
        assert_eq!(run("1"), [3], "job 4 would delay job 2");
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let refusal = configured::<Priority>(&[("depth", "1001")]).unwrap_err();
        assert!(refusal.contains("between 0 and 1000"), "{refusal}");
    }
}
