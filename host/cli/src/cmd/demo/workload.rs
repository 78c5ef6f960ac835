//! A workload that looks like a site's: small jobs are many, sizes like powers of two, run times span orders
//! of magnitude, limits are rounded up and overestimated, work comes in the day and in bursts.
//!
//! Deterministic in the seed. The shapes follow what Lublin and Feitelson ("The workload on parallel
//! supercomputers", JPDC 63, 2003) report; the numbers are chosen so that a demo takes a minute.

use fluxgate_sim::bootstrap::Numbers;

/// One job to submit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DemoJob {
    /// Seconds after the beginning.
    pub(crate) at: f64,
    /// Whole nodes; `None` for a job that shares nodes.
    pub(crate) nodes: Option<u32>,
    /// Tasks.
    pub(crate) slots: u32,
    /// Cores of each task.
    pub(crate) cores: u32,
    /// GPUs of each task.
    pub(crate) gpus: u32,
    /// Requested seconds.
    pub(crate) limit: f64,
    /// Seconds that it will really take.
    pub(crate) run: f64,
}

impl DemoJob {
    /// Cores that it holds on nodes of this many cores.
    pub(crate) fn cores_held(&self, cores_per_node: u32) -> u64 {
        match self.nodes {
            Some(nodes) => u64::from(nodes) * u64::from(cores_per_node),
            None => u64::from(self.slots) * u64::from(self.cores),
        }
    }
}

/// Random numbers of this workload.
struct Random(Numbers);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0.bits() % n
    }

    /// Uniform in the logarithm.
    fn log_between(&mut self, low: f64, high: f64) -> f64 {
        (low.ln() + self.0.unit() * (high.ln() - low.ln())).exp()
    }
}

/// Time limits as users write them: minutes and hours, not seconds.
const LIMITS: [f64; 9] = [300.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0, 43_200.0, 86_400.0];

/// `count` jobs for a machine of `nodes` x `cores`, spread so that about `load` of it is asked for.
pub(crate) fn make(count: u32, seed: u64, nodes: u32, cores: u32, load: f64) -> Vec<DemoJob> {
    let mut random = Random(Numbers(seed));
    let mut jobs: Vec<DemoJob> = (0..count).map(|_| one(&mut random, nodes, cores)).collect();
    let work: f64 = jobs.iter().map(|j| j.cores_held(cores) as f64 * j.run).sum();
    let span = work / (f64::from(nodes) * f64::from(cores) * load);
    let mut times: Vec<f64> = (0..count)
        .map(|_| {
            loop {
                // By rejection: twice as much work comes at noon as at midnight.
                let at = random.0.unit();
                let hour = (at * span / 86_400.0).fract();
                let weight = 0.75 - 0.25 * (hour * std::f64::consts::TAU).cos();
                if random.0.unit() < weight {
                    break at * span;
                }
            }
        })
        .collect();
    times.sort_by(f64::total_cmp);
    // A few users submit in bursts.
    for i in 1..times.len() {
        if random.below(8) == 0 {
            times[i] = times[i - 1];
        }
    }
    for (job, at) in jobs.iter_mut().zip(times) {
        job.at = at;
    }
    jobs
}

fn one(random: &mut Random, nodes: u32, cores: u32) -> DemoJob {
    let run = random.log_between(60.0, 20_000.0).round();
    let asked = run * random.log_between(1.0, 6.0);
    let limit = LIMITS.iter().copied().find(|l| *l >= asked).unwrap_or(86_400.0).max(run);
    let (whole, slots, per_slot, gpus) = match random.below(10) {
        // Serial and threaded jobs share nodes.
        0..=4 => (None, 1 << random.below(4), 1 << random.below(4), 0),
        // GPU jobs take a slice of a node for each GPU.
        5 => (None, 1 + random.below(8) as u32, (cores / 4).max(1), 1),
        // Parallel jobs take whole nodes, mostly powers of two, rarely more than half of the machine.
        kind => {
            let most = u64::from((nodes / if kind == 9 { 1 } else { 4 }).max(1).ilog2()) + 1;
            let wanted = (1u32 << random.below(most)).min(nodes);
            (Some(wanted), wanted, cores, 0)
        }
    };
    DemoJob { at: 0.0, nodes: whole, slots, cores: per_slot.min(cores), gpus, limit, run }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_jobs_in_order_of_submission() {
        let jobs = make(500, 7, 64, 32, 0.9);
        assert_eq!(jobs, make(500, 7, 64, 32, 0.9));
        assert_ne!(jobs, make(500, 8, 64, 32, 0.9));
        assert!(jobs.windows(2).all(|w| w[0].at <= w[1].at));
    }

    #[test]
    fn every_job_fits_the_machine_and_its_limit() {
        for job in make(2000, 3, 64, 32, 0.9) {
            assert!(job.run <= job.limit && job.run > 0.0);
            assert!(job.cores_held(32) <= 64 * 32 && job.gpus * job.slots <= 128);
        }
    }
}
