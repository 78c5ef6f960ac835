//! The policy `topology`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use fluxgate_guest::backfill::{self, DEPTH_MAX};
use fluxgate_guest::prelude::*;

/// The policy; README.md of this crate defines its rule.
#[derive(Debug)]
pub struct Topology {
    /// Number of waiting jobs that get a reservation in one pass.
    depth: u32,
}

impl Default for Topology {
    fn default() -> Self {
        Topology { depth: 1 }
    }
}

impl Policy for Topology {
    fn info() -> Info {
        Info::new("topology", "EASY that keeps each job in one node, switch or rack where there is room")
            .version(env!("CARGO_PKG_VERSION"))
            .key("depth", Kind::Integer, "1", "how many waiting jobs have a reservation, 1 to 1000")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.depth = config.integer_in("depth", 1..=DEPTH_MAX)? as u32;
        Ok(())
    }
}

/// Close together; on a host without this placement, on few nodes; else the placement of the site.
fn place(pass: &mut dyn Pass) -> Option<Placement> {
    ["locality", "pack"].into_iter().find_map(|name| pass.placement(name))
}

impl Scheduling for Topology {
    fn run(&mut self, pass: &mut dyn Pass) {
        let place = place(pass);
        backfill::in_queue_order_at(pass, self.depth, place);
    }
}

export_policy!(Topology: scheduling);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    #[test]
    fn jobs_start_as_under_easy_and_close_together() {
        let mut bench = Bench::new(10);
        bench.job(1).cores(6).duration(100.0).submit();
        bench.job(2).cores(8).duration(50.0).submit();
        bench.job(3).cores(4).duration(101.0).submit();
        bench.job(4).cores(2).duration(101.0).submit();
        bench.run(&mut Topology::default());
        assert_eq!((bench.started(), bench.reserved()), (&[1, 4][..], vec![(2, 100.0)]));
        assert_eq!(bench.placement(4), Some("pack"), "the bench knows no place that is closer");
    }

    #[test]
    fn depth_reserves_for_more_waiting_jobs() {
        let mut bench = Bench::new(10);
        bench.job(1).cores(6).duration(100.0).running();
        bench.job(2).cores(8).duration(50.0).submit();
        bench.job(3).cores(10).duration(10.0).submit();
        bench.job(4).cores(1).duration(1000.0).submit();
        bench.run(&mut configured::<Topology>(&[("depth", "2")]).unwrap());
        assert_eq!((bench.started(), bench.reserved()), (&[][..], vec![(2, 100.0), (3, 150.0)]));
        let refusal = configured::<Topology>(&[("depth", "0")]).unwrap_err();
        assert!(refusal.contains("between 1 and 1000"), "{refusal}");
    }
}
