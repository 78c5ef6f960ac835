//! The policy `fcfs`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use fluxgate_guest::prelude::*;

/// First come, first served.
#[derive(Debug, Default)]
pub struct Fcfs;

impl Policy for Fcfs {
    fn info() -> Info {
        Info::new("fcfs", "First come, first served: starts in order, stops at the first job that waits")
            .version(env!("CARGO_PKG_VERSION"))
    }
}

impl Scheduling for Fcfs {
    fn run(&mut self, pass: &mut dyn Pass) {
        while let Some(job) = pass.next() {
            match pass.start(job) {
                Err(refusal) if refusal.job_waits() => return,
                Ok(()) | Err(_) => {}
            }
        }
    }
}

export_policy!(Fcfs: scheduling);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::Bench;

    #[test]
    fn no_job_overtakes_the_first_that_waits() {
        let mut bench = Bench::new(8);
        bench.job(1).cores(6).duration(100.0).submit();
        bench.job(2).cores(4).duration(100.0).submit();
        bench.job(3).cores(1).duration(1.0).submit();
        bench.run(&mut Fcfs);
        assert_eq!(bench.started(), [1]);
        assert_eq!(bench.pending(), [2, 3]);
        bench.end(1);
        bench.run(&mut Fcfs);
        assert_eq!(bench.started(), [2, 3]);
    }

    #[test]
    fn a_job_too_big_for_the_machine_delays_no_job() {
        let mut bench = Bench::new(8);
        bench.job(1).cores(9).submit();
        bench.job(2).cores(8).submit();
        bench.run(&mut Fcfs);
        assert_eq!(bench.started(), [2]);
    }

    #[test]
    fn the_limit_of_decisions_ends_the_pass() {
        let mut bench = Bench::new(8);
        bench.decisions_max(2);
        for id in 1..=3 {
            bench.job(id).submit();
        }
        bench.run(&mut Fcfs);
        assert_eq!(bench.started(), [1, 2]);
        bench.run(&mut Fcfs);
        assert_eq!(bench.started(), [3]);
    }

    #[test]
    fn queues_do_not_wait_for_each_other() {
        let mut bench = Bench::new(8);
        bench.job(1).cores(6).queue("batch").submit();
        bench.job(2).cores(6).queue("batch").submit();
        bench.job(3).cores(1).queue("debug").submit();
        bench.run(&mut Fcfs);
        assert_eq!(bench.started(), [1, 3]);
    }
}
