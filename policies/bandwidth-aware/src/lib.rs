//! The policy `bandwidth-aware`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use std::cmp::Ordering;

use fluxgate_guest::backfill::until_reserved;
use fluxgate_guest::flow;
use fluxgate_guest::prelude::*;

/// Maximum number of jobs considered behind the first that waits.
const WINDOW_MAX: i64 = 100_000;

/// The policy; README.md of this crate defines its rule.
#[derive(Debug)]
pub struct BandwidthAware {
    kind: String,
    /// True if gaps are filled by the mix, false for the queue's order.
    mix: bool,
    /// Number of jobs considered behind the first that waits.
    window: usize,
}

impl Default for BandwidthAware {
    fn default() -> Self {
        BandwidthAware { kind: "bandwidth".to_owned(), mix: true, window: 1000 }
    }
}

impl Policy for BandwidthAware {
    fn info() -> Info {
        Info::new(
            "bandwidth-aware",
            "EASY that fills gaps so that jobs which take much bandwidth run beside those which take little",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .key("kind", Kind::Text, "bandwidth", "what is mixed: a kind of flow that the machine has")
        .key("backfill", Kind::Text, "mix", "order behind the first that waits: mix or queue")
        .key("window", Kind::Integer, "1000", "jobs behind it that are looked at, 1 to 100000")
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.kind = config.text("kind")?.to_owned();
        self.mix = match config.text("backfill")? {
            "mix" => true,
            "queue" => false,
            other => return Err(format!("`backfill` is `{other}`, but must be mix or queue")),
        };
        self.window = config.integer_in("window", 1..=WINDOW_MAX)? as usize;
        Ok(())
    }
}

/// A job behind the head.
#[derive(Debug, Clone, Copy)]
struct Behind {
    candidate: Candidate,
    expedited: bool,
    cores: u32,
    amount: u64,
}

impl Behind {
    /// Distance of its amount for each core from the free amount for each free core, times its cores and the free ones.
    fn distance(&self, free: (u32, u64)) -> u128 {
        let own = u128::from(self.amount) * u128::from(free.0);
        own.abs_diff(u128::from(free.1) * u128::from(self.cores.max(1)))
    }

    /// Orders two jobs by their distance.
    fn closer(&self, other: &Behind, free: (u32, u64)) -> Ordering {
        let part = |it: &Behind, cores: u32| it.distance(free).saturating_mul(u128::from(cores.max(1)));
        part(self, other.cores).cmp(&part(other, self.cores))
    }
}

impl Scheduling for BandwidthAware {
    fn run(&mut self, pass: &mut dyn Pass) {
        if until_reserved(pass, |pass, job| pass.start(job)) {
            self.fill(pass);
        }
    }
}

impl BandwidthAware {
    /// Free resources: cores, and bandwidth.
    fn free(&self, pass: &mut dyn Pass, kind: Option<usize>) -> (u32, u64) {
        let flow = kind.and_then(|kind| Some(flow::kinds(pass).get(kind)?.free)).unwrap_or(0);
        (pass.totals().free_cores, flow)
    }

    fn fill(&self, pass: &mut dyn Pass) {
        let kind = flow::kinds(pass).iter().position(|kind| kind.name == self.kind);
        let mut free = self.free(pass, kind);
        if free.0 == 0 {
            return;
        }
        let mut jobs = Vec::new();
        each_job(pass, self.window, |candidate, job| {
            if job.cores <= free.0 {
                let expedited = job.priority == u32::MAX;
                jobs.push(Behind { candidate, expedited, cores: job.cores, amount: 0 });
            }
        });
        if let Some(kind) = kind {
            let candidates: Vec<Candidate> = jobs.iter().map(|job| job.candidate).collect();
            let amounts = flow::asked(pass, kind, &candidates);
            jobs.iter_mut().zip(amounts).for_each(|(job, amount)| job.amount = amount);
        }
        loop {
            jobs.retain(|job| job.cores <= free.0 && job.amount <= free.1);
            let mut order: Vec<usize> = (0..jobs.len()).collect();
            if self.mix {
                // A stable sort: the host's order among equals.
                order.sort_by(|a, b| {
                    let (a, b) = (&jobs[*a], &jobs[*b]);
                    b.expedited.cmp(&a.expedited).then_with(|| a.closer(b, free))
                });
            }
            let mut refused = vec![false; jobs.len()];
            let mut started = false;
            for at in order {
                refused[at] = true;
                match pass.start(jobs[at].candidate) {
                    Ok(()) => {
                        started = true;
                        break;
                    }
                    Err(Refusal::Limit) => return,
                    Err(_) => {}
                }
            }
            if !started {
                return;
            }
            // A refused job would be refused again: fewer resources are free now.
            let mut refused = refused.into_iter();
            jobs.retain(|_| !refused.next().unwrap_or(false));
            free = self.free(pass, kind);
        }
    }
}

export_policy!(BandwidthAware: scheduling);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    /// Of 100 cores and 100 B/s job 1 holds 50 cores and 20 B/s until 100; job 2 wants 60 cores and waits.
    fn waiting_head() -> Bench {
        let mut bench = Bench::new(100);
        bench.flow("bandwidth", "B/s", 100);
        bench.job(1).cores(50).flow("bandwidth", 20).duration(100.0).running();
        bench.job(2).cores(60).flow("bandwidth", 10).duration(50.0).submit();
        bench
    }

    #[test]
    fn gaps_are_filled_by_what_is_free_for_each_core() {
        for (order, started) in [("mix", [4, 3]), ("queue", [3, 4])] {
            let mut bench = waiting_head();
            // 80 B/s for 50 cores are free: 1.6 each; then 20 for 20 are.
            bench.job(3).cores(20).flow("bandwidth", 20).duration(50.0).submit();
            bench.job(4).cores(30).flow("bandwidth", 60).duration(50.0).submit();
            bench.job(5).cores(30).duration(50.0).submit();
            bench.run(&mut configured::<BandwidthAware>(&[("backfill", order)]).unwrap());
            assert_eq!((bench.started(), bench.reserved()), (&started[..], vec![(2, 100.0)]), "{order}");
        }
    }

    #[test]
    fn light_jobs_go_first_when_little_is_left() {
        let mut bench = waiting_head();
        bench.job(9).cores(1).flow("bandwidth", 70).duration(100.0).running();
        bench.job(3).cores(25).flow("bandwidth", 10).duration(50.0).submit();
        bench.job(4).cores(30).duration(50.0).submit();
        bench.job(5).cores(24).flow("bandwidth", 5).duration(50.0).submit();
        bench.run(&mut BandwidthAware::default());
        // 10 for 49: the closest is 5 for 24, then 5 for 25 are left, of which none is as close as nothing.
        assert_eq!(bench.started(), [5]);
    }

    #[test]
    fn the_reservation_of_the_head_is_kept() {
        let mut bench = waiting_head();
        bench.job(3).cores(41).flow("bandwidth", 65).duration(101.0).submit();
        bench.job(4).cores(5).flow("bandwidth", 71).duration(101.0).submit();
        bench.job(5).cores(40).flow("bandwidth", 60).duration(101.0).submit();
        bench.run(&mut BandwidthAware::default());
        // Beside the head 40 cores are left.
        assert_eq!((bench.started(), bench.reserved()), (&[5][..], vec![(2, 100.0)]));
        let mut bench = waiting_head();
        bench.job(3).cores(1).flow("bandwidth", 80).duration(100.0).submit();
        bench.job(4).cores(1).flow("bandwidth", 75).duration(101.0).submit();
        bench.job(5).cores(1).flow("bandwidth", 5).duration(101.0).submit();
        bench.run(&mut BandwidthAware::default());
        assert_eq!(bench.started(), [5, 4], "10 of 100 are the head's");
    }

    #[test]
    fn without_such_a_kind_it_is_easy() {
        let mut bench = Bench::new(10);
        bench.job(1).cores(6).duration(100.0).running();
        bench.job(2).cores(8).duration(50.0).submit();
        bench.job(3).cores(4).duration(101.0).submit();
        bench.job(4).cores(1).duration(101.0).submit();
        bench.job(5).cores(3).duration(100.0).submit();
        bench.run(&mut BandwidthAware::default());
        assert_eq!((bench.started(), bench.reserved()), (&[4, 5][..], vec![(2, 100.0)]));
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        for (key, value, says) in
            [("backfill", "blend", "mix or queue"), ("window", "0", "between 1 and 100000")]
        {
            let error = configured::<BandwidthAware>(&[(key, value)]).unwrap_err();
            assert!(error.contains(says) && error.contains(key), "{key}: {error}");
        }
    }
}
