//! Ceilings and floors of queues against a program that adds up cores: strict order and EASY, job for job.

use std::collections::BTreeMap;

use fluxgate_engine::{Amount, Policy, QueueBounds};
use fluxgate_formats::JobId;
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_sim::workload::{self, Job};
use fluxgate_tests::native_twin::NativeTwin;
use proptest::prelude::*;

/// Queues are q1 to q3. Ceiling and floor of each, in cores.
type Bounds = BTreeMap<u32, (Option<u32>, u32)>;

/// Cores of a queue, held or reserved.
#[derive(Debug, Clone, Copy)]
struct Held {
    job: JobId,
    queue: u32,
    from: f64,
    to: f64,
    cores: u32,
}

struct Model<'a> {
    cores: u32,
    bounds: &'a Bounds,
    running: Vec<Held>,
    /// The reservation of each queue.
    reserved: BTreeMap<u32, Held>,
}

impl Model<'_> {
    fn held(&self) -> Vec<Held> {
        self.running.iter().chain(self.reserved.values()).copied().collect()
    }

    /// True if the bounds hold at this time with the job.
    fn good_at(&self, job: &Job, time: f64) -> bool {
        let held = self.held();
        let of = |queue: Option<u32>| -> u32 {
            let mine = held.iter().filter(|h| queue.is_none_or(|queue| h.queue == queue));
            mine.filter(|h| h.from <= time && time < h.to).map(|h| h.cores).sum()
        };
        let ceiling = self.bounds.get(&job.queue).and_then(|bounds| bounds.0);
        let others = self.bounds.iter().filter(|(queue, _)| **queue != job.queue);
        let kept: u32 = others.map(|(queue, (_, floor))| floor.saturating_sub(of(Some(*queue)))).sum();
        ceiling.is_none_or(|most| of(Some(job.queue)) + job.cores <= most)
            && of(None) + job.cores + kept <= self.cores
    }

    fn good(&self, job: &Job, from: f64) -> bool {
        let begins: Vec<f64> = self.held().iter().map(|h| h.from).collect();
        let to = from + job.limit;
        std::iter::once(from)
            .chain(begins.into_iter().filter(|time| from < *time && *time < to))
            .all(|time| self.good_at(job, time))
    }

    fn earliest(&self, job: &Job, now: f64) -> f64 {
        let ends = self.held().iter().map(|h| h.to).filter(|end| *end > now).collect::<Vec<_>>();
        let mut times: Vec<f64> = std::iter::once(now).chain(ends).collect();
        times.sort_by(f64::total_cmp);
        times.into_iter().find(|time| self.good(job, *time)).expect("everything ends")
    }
}

/// Every start. With `easy` the first waiting job of each queue gets a reservation; otherwise no job passes it.
fn schedule(jobs: &[Job], cores: u32, bounds: &Bounds, easy: bool) -> BTreeMap<JobId, f64> {
    let mut model = Model { cores, bounds, running: Vec::new(), reserved: BTreeMap::new() };
    let possible = |job: &&Job| {
        let own = bounds.get(&job.queue).and_then(|bounds| bounds.0);
        let others = bounds.iter().filter(|(queue, _)| **queue != job.queue);
        own.is_none_or(|most| job.cores <= most)
            && job.cores + others.map(|(_, bounds)| bounds.1).sum::<u32>() <= cores
    };
    let mut coming: Vec<Job> = jobs.iter().filter(possible).copied().collect();
    coming.sort_by(|a, b| b.submit.total_cmp(&a.submit).then(b.id.cmp(&a.id)));
    // Queues take turns in the order in which they became known, by refused jobs too.
    let mut heard: Vec<u32> = Vec::new();
    for job in jobs.iter().filter(|job| job.cores <= cores) {
        if !heard.contains(&job.queue) {
            heard.push(job.queue);
        }
    }
    let mut waiting: BTreeMap<u32, Vec<Job>> = BTreeMap::new();
    let mut starts = BTreeMap::new();
    let mut run: Vec<(f64, JobId)> = Vec::new();
    loop {
        let next = run.iter().map(|(end, _)| *end).chain(coming.last().map(|job| job.submit));
        let Some(now) = next.min_by(f64::total_cmp) else { break };
        let over: Vec<JobId> = run.iter().filter(|(end, _)| *end <= now).map(|(_, id)| *id).collect();
        run.retain(|(end, _)| *end > now);
        model.running.retain(|held| !over.contains(&held.job));
        let mut turn: Vec<u32> = Vec::new();
        while let Some(job) = coming.pop_if(|job| job.submit <= now) {
            waiting.entry(job.queue).or_default().push(job);
            turn.push(job.queue);
        }
        for queue in heard.iter().filter(|queue| !over.is_empty() || turn.contains(queue)) {
            let Some(queued) = waiting.get_mut(queue) else { continue };
            if queued.is_empty() {
                continue;
            }
            model.reserved.remove(queue);
            let mut head = None;
            queued.retain(|job| {
                if head.is_some() && !easy {
                    return true;
                }
                if model.good(job, now) {
                    model.running.push(Held {
                        job: job.id,
                        queue: *queue,
                        from: now,
                        to: now + job.limit,
                        cores: job.cores,
                    });
                    starts.insert(job.id, now);
                    run.push((now + job.run_time(), job.id));
                    return false;
                }
                if head.is_none() {
                    head = Some(job.id);
                    if easy {
                        let from = model.earliest(job, now);
                        let held =
                            Held { job: job.id, queue: *queue, from, to: from + job.limit, cores: job.cores };
                        model.reserved.insert(*queue, held);
                    }
                }
                true
            });
        }
    }
    starts
}

prop_compose! {
    fn workloads()(fields in prop::collection::vec((0..8_u32, 1..12_u32, 1..30_u32, 1..30_u32, 1..4_u32), 1..50)) -> Vec<Job> {
        let mut submit = 0.0;
        let mut jobs: Vec<Job> = fields.into_iter().zip(1..).map(|((gap, cores, limit, run, queue), id)| {
            submit += f64::from(gap / 2);
            Job { queue, ..Job::new(JobId(id), submit, cores, f64::from(limit), f64::from(run)) }
        }).collect();
        workload::sort(&mut jobs);
        jobs
    }
}

prop_compose! {
    /// Bounds of at most 24 cores; floors never exceed the machine.
    fn bounds()(fields in prop::collection::vec((prop::option::of(2..20_u32), 0..7_u32), 3)) -> Bounds {
        (1..).zip(fields).collect()
    }
}

fn run(jobs: &[Job], machine: &Machine, bounds: &Bounds, policy: Option<Box<dyn Policy>>) -> Vec<Row> {
    let mut config = driver::replay_config();
    let cores = |n: u32| Amount::Cores(u64::from(n));
    config.queue_bounds = bounds
        .iter()
        .map(|(queue, (ceiling, floor))| {
            let floor = (*floor > 0).then(|| cores(*floor));
            (format!("q{queue}"), QueueBounds { ceiling: ceiling.map(cores), floor })
        })
        .collect();
    let mut rows = Collect::default();
    let around = Surroundings::default();
    let jobs = jobs.iter().copied();
    let outcome =
        driver::run_with(jobs, &around, machine.resources.clone(), config, policy, &mut [&mut rows]).unwrap();
    assert!(outcome.unfinished.is_empty(), "{:?} wait for ever", outcome.unfinished);
    rows.rows
}

fn starts(rows: &[Row]) -> BTreeMap<JobId, f64> {
    rows.iter().map(|row| (row.job, row.start)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn strict_order_within_bounds(jobs in workloads(), bounds in bounds(), nodes in 4..7_u32) {
        let machine = Machine::uniform(nodes, nodes * 4).unwrap();
        prop_assert_eq!(starts(&run(&jobs, &machine, &bounds, None)), schedule(&jobs, nodes * 4, &bounds, false));
    }

    #[test]
    fn easy_within_bounds(jobs in workloads(), bounds in bounds(), nodes in 4..7_u32) {
        let machine = Machine::uniform(nodes, nodes * 4).unwrap();
        let easy = NativeTwin::<policy_easy::Easy>::new(&[]).unwrap();
        let got = run(&jobs, &machine, &bounds, Some(Box::new(easy)));
        prop_assert_eq!(starts(&got), schedule(&jobs, nodes * 4, &bounds, true));
    }

    /// For any policy: at each start, the cores of the queue, and the cores left for the others.
    #[test]
    fn no_start_exceeds_them(jobs in workloads(), bounds in bounds(), nodes in 4..7_u32) {
        let machine = Machine::uniform(nodes, nodes * 4).unwrap();
        let policies: [Box<dyn Policy>; 4] = [
            Box::new(NativeTwin::<policy_hybrid::Hybrid>::new(&[("depth", "4")]).unwrap()),
            Box::new(NativeTwin::<policy_conservative::Conservative>::new(&[]).unwrap()),
            Box::new(NativeTwin::<policy_easy_plus_plus::EasyPlusPlus>::new(&[]).unwrap()),
            Box::new(NativeTwin::<policy_packing::Packing>::new(&[]).unwrap()),
        ];
        let job = |id: JobId| jobs.iter().find(|job| job.id == id).unwrap();
        for policy in policies {
            let rows = run(&jobs, &machine, &bounds, Some(policy));
            for (at, row) in rows.iter().enumerate() {
                // The job itself included.
                let there = rows[..=at].iter().filter(|other| other.end > row.start);
                let mut held: BTreeMap<u32, u32> = BTreeMap::new();
                there.for_each(|other| *held.entry(job(other.job).queue).or_default() += job(other.job).cores);
                let of = |queue: &u32| held.get(queue).copied().unwrap_or(0);
                let queue = job(row.job).queue;
                prop_assert!(bounds[&queue].0.is_none_or(|most| of(&queue) <= most));
                let others = bounds.iter().filter(|(other, _)| **other != queue);
                let kept: u32 = others.map(|(other, (_, floor))| floor.saturating_sub(of(other))).sum();
                prop_assert!(held.values().sum::<u32>() + kept <= nodes * 4);
            }
        }
    }
}
