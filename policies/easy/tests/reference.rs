//! The policy on the bench against EASY as defined in the papers: counting cores, shadow time and extra nodes.
//!
//! The bench decides by a profile of reservations, the reference by two comparisons; on a machine of equal cores they
//! must start the same jobs at the same times.

use fluxgate_guest::bench::Bench;
use policy_easy::Easy;

#[derive(Debug, Clone)]
struct Job {
    id: u64,
    arrival: u64,
    cores: u32,
    /// Requested and real run time, seconds.
    requested: u64,
    real: u64,
}

/// EASY as in the papers.
struct Reference {
    free: u32,
    waiting: Vec<Job>,
    /// With the start.
    running: Vec<(Job, u64)>,
}

impl Reference {
    fn end_what_is_over(&mut self, now: u64) {
        let over = |(job, start): &(Job, u64)| start + job.real <= now;
        self.free += self.running.iter().filter(|each| over(each)).map(|(job, _)| job.cores).sum::<u32>();
        self.running.retain(|each| !over(each));
    }

    fn start(&mut self, index: usize, now: u64) -> u64 {
        let job = self.waiting.remove(index);
        self.free -= job.cores;
        let id = job.id;
        self.running.push((job, now));
        id
    }

    fn pass(&mut self, now: u64) -> Vec<u64> {
        let mut started = Vec::new();
        while self.waiting.first().is_some_and(|job| job.cores <= self.free) {
            started.push(self.start(0, now));
        }
        let Some(head) = self.waiting.first() else { return started };
        let mut ends: Vec<(u64, u32)> =
            self.running.iter().map(|(job, start)| (start + job.requested, job.cores)).collect();
        ends.sort();
        let (mut shadow_time, mut then_free) = (now, self.free);
        for (end, cores) in ends {
            if then_free >= head.cores && end > shadow_time {
                break;
            }
            (shadow_time, then_free) = (end, then_free + cores);
        }
        let mut extra = then_free - head.cores;
        let mut index = 1;
        while let Some(job) = self.waiting.get(index) {
            let in_time = now + job.requested <= shadow_time;
            if job.cores <= self.free && (in_time || job.cores <= extra) {
                extra -= if in_time { 0 } else { job.cores };
                started.push(self.start(index, now));
            } else {
                index += 1;
            }
        }
        started
    }
}

/// Numbers from a seed (splitmix64), so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn workload(seed: u64, cores: u32) -> Vec<Job> {
    let mut numbers = Numbers(seed);
    let mut arrival = 0;
    let mut jobs = Vec::new();
    for id in 1..=60 {
        arrival += numbers.below(12);
        // Few different durations, so that ends and shadow times often coincide.
        let requested = 5 * (1 + numbers.below(12));
        let real = 1 + numbers.below(requested);
        let wide = 1 + numbers.below(u64::from(cores)) * (1 + numbers.below(3)) / 3;
        jobs.push(Job { id, arrival, cores: (wide as u32).min(cores), requested, real });
    }
    jobs
}

#[test]
fn the_same_jobs_start_at_the_same_times() {
    let mut backfilled = 0;
    for seed in 0..300 {
        let cores = 4 + (seed % 13) as u32;
        let jobs = workload(seed, cores);
        let mut bench = Bench::new(cores);
        let mut easy = Easy::default();
        let mut reference = Reference { free: cores, waiting: Vec::new(), running: Vec::new() };
        let mut arriving = jobs.iter().peekable();
        loop {
            let ends = reference.running.iter().map(|(job, start)| start + job.real);
            let Some(now) = ends.chain(arriving.peek().map(|job| job.arrival)).min() else { break };
            bench.advance(now as f64 - bench.now());
            reference.end_what_is_over(now);
            while let Some(job) = arriving.next_if(|job| job.arrival <= now) {
                let (requested, real) = (job.requested as f64, job.real as f64);
                bench.job(job.id).cores(job.cores).duration(requested).really(real).submit();
                reference.waiting.push(job.clone());
            }
            let first = reference.waiting.first().map(|job| job.id);
            bench.run(&mut easy);
            let expected = reference.pass(now);
            assert_eq!(bench.started(), expected, "seed {seed}, {cores} cores, at {now}");
            backfilled +=
                usize::from(first.is_some_and(|id| !expected.is_empty() && !expected.contains(&id)));
        }
        assert!(reference.waiting.is_empty() && bench.pending().is_empty(), "seed {seed}");
    }
    assert!(backfilled > 1000, "the workloads should give backfilling something to do: {backfilled}");
}
