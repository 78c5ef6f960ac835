//! The semantics of policies that plan flow, as a slow and obviously correct program: the executable form of the pages
//! of `power-capped` and `bandwidth-aware`.
//!
//! A machine is a number of cores and one pool. A job takes an amount of both, and whether it fits is found by adding
//! up. The module shares only the list of jobs with engine, graph, driver and policies.
//!
//! This module must not be optimised.

use fluxgate_sim::workload::Job;

use crate::semantics::Starts;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// The rule of the policy.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// EASY, with flow up to the capacity of the machine.
    Easy,
    /// EASY within a budget of flow.
    Capped(Budget),
    /// EASY; behind the first job that waits comes the job whose flow for each core is closest to the free flow for
    /// each free core.
    Mixed,
}

/// The permitted use: one amount, and another amount from one second of the day until just before another.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// The amount outside of those hours.
    pub usual: u64,
    /// From, until, and amount.
    pub peak: Option<(f64, f64, u64)>,
}

impl Budget {
    /// The permitted use at a time.
    pub fn at(self, time: f64) -> u64 {
        let Some((from, to, peak)) = self.peak else { return self.usual };
        let day = (time / DAY).floor() * DAY;
        // The hours of today, and those that began yesterday.
        let inside = |begin: f64| {
            let end = if from < to { begin + to - from } else { begin + to - from + DAY };
            begin <= time && time < end
        };
        if inside(day + from) || inside(day + from - DAY) { peak } else { self.usual }
    }

    /// Times between two times at which it changes.
    pub fn changes(self, after: f64, before: f64) -> Vec<f64> {
        let Some((from, to, _)) = self.peak else { return Vec::new() };
        let days = (after / DAY).floor() as i64..=(before / DAY).floor() as i64;
        let times = days.flat_map(|day| [from, to].map(|of_day| day as f64 * DAY + of_day));
        times.filter(|time| after < *time && *time < before).collect()
    }

    /// The next time at which it is larger than just before.
    fn rise(self, after: f64) -> Option<f64> {
        let times = self.changes(after, after + 3.0 * DAY).into_iter();
        times.filter(|time| self.at(*time) > self.at(*time - 1.0)).min_by(f64::total_cmp)
    }
}

/// A job with its flow.
#[derive(Debug, Clone, Copy)]
struct Wants {
    job: Job,
    flow: u64,
}

/// A use from one time until just before another.
#[derive(Debug, Clone, Copy)]
struct Taken {
    from: f64,
    to: f64,
    cores: u64,
    flow: u64,
}

struct Machine {
    now: f64,
    cores: u64,
    flow: u64,
    rule: Rule,
    running: Vec<(Wants, f64)>,
    queue: Vec<Wants>,
    starts: Starts,
}

impl Machine {
    fn start(&mut self, it: Wants) {
        self.queue.retain(|waiting| waiting.job.id != it.job.id);
        self.running.push((it, self.now));
        self.starts.insert(it.job.id, self.now);
    }

    fn taken(&self, it: Wants, from: f64) -> Taken {
        Taken { from, to: from + it.job.limit, cores: u64::from(it.job.cores), flow: it.flow }
    }

    fn all_taken(&self, head: Option<Taken>) -> Vec<Taken> {
        self.running.iter().map(|(it, start)| self.taken(*it, *start)).chain(head).collect()
    }

    /// True if it fits from a time on, for the requested duration.
    fn room(&self, taken: &[Taken], it: Wants, start: f64) -> bool {
        let end = start + it.job.limit;
        let budget = if let Rule::Capped(budget) = self.rule { Some(budget) } else { None };
        let fits = |time: f64| {
            let active = || taken.iter().filter(|t| t.from <= time && time < t.to);
            let (cores, flow) =
                (active().map(|t| t.cores).sum::<u64>(), active().map(|t| t.flow).sum::<u64>());
            let allowed = budget.is_none_or(|budget| it.flow == 0 || flow + it.flow <= budget.at(time));
            cores + u64::from(it.job.cores) <= self.cores && flow + it.flow <= self.flow && allowed
        };
        let begins = taken.iter().map(|t| t.from).filter(|from| start < *from && *from < end);
        let changes = budget.map(|budget| budget.changes(start, end)).unwrap_or_default();
        std::iter::once(start).chain(begins).chain(changes).all(fits)
    }

    fn earliest(&self, taken: &[Taken], it: Wants) -> f64 {
        let ends: Vec<f64> = taken.iter().map(|t| t.to).filter(|to| *to > self.now).collect();
        let last = ends.iter().copied().fold(self.now, f64::max);
        let changes = match self.rule {
            Rule::Capped(budget) => budget.changes(self.now, last + 2.0 * DAY),
            Rule::Easy | Rule::Mixed => Vec::new(),
        };
        let mut times: Vec<f64> = std::iter::once(self.now).chain(ends).chain(changes).collect();
        times.sort_by(f64::total_cmp);
        times.into_iter().find(|time| self.room(taken, it, *time)).expect("there is a time for everybody")
    }

    fn pass(&mut self) {
        while let Some(first) = self.queue.first().copied() {
            if !self.room(&self.all_taken(None), first, self.now) {
                break;
            }
            self.start(first);
        }
        let Some(head) = self.queue.first().copied() else { return };
        let head = self.taken(head, self.earliest(&self.all_taken(None), head));
        let mut others = self.queue[1..].to_vec();
        while !others.is_empty() {
            let next = match self.rule {
                Rule::Easy | Rule::Capped(_) => 0,
                Rule::Mixed => self.closest(&others),
            };
            let it = others.remove(next);
            if self.room(&self.all_taken(Some(head)), it, self.now) {
                self.start(it);
            }
        }
    }

    /// The first of the jobs whose flow for each core is closest to the free flow for each free core. Jobs with more
    /// flow than is free come first, and will not start.
    fn closest(&self, others: &[Wants]) -> usize {
        let (cores, flow): (u64, u64) =
            self.running.iter().fold((0, 0), |(c, f), (it, _)| (c + u64::from(it.job.cores), f + it.flow));
        let (cores, flow) = (self.cores - cores, self.flow - flow);
        if let Some(at) =
            others.iter().position(|it| u64::from(it.job.cores) > cores || it.flow > flow || cores == 0)
        {
            return at;
        }
        // |own flow / own cores - flow / cores| as a fraction; `cores` is common to all jobs and left out.
        let distance = |it: &Wants| {
            let own = i128::from(it.flow) * i128::from(cores) - i128::from(flow) * i128::from(it.job.cores);
            (own.abs(), i128::from(it.job.cores))
        };
        let mut best = 0;
        for (at, other) in others.iter().enumerate() {
            let (a, b) = (distance(other), distance(&others[best]));
            if a.0 * b.1 < b.0 * a.1 {
                best = at;
            }
        }
        best
    }
}

/// Every job's start, on a machine with these cores and this flow; `wants` is the flow of each job. Jobs that are too
/// large for the machine have none.
pub fn schedule(jobs: &[Job], wants: impl Fn(&Job) -> u64, cores: u64, flow: u64, rule: Rule) -> Starts {
    let mut coming: Vec<Wants> = jobs.iter().map(|job| Wants { job: *job, flow: wants(job) }).collect();
    coming.retain(|it| u64::from(it.job.cores) <= cores && it.flow <= flow);
    coming.sort_by(|a, b| b.job.submit.total_cmp(&a.job.submit).then(b.job.id.cmp(&a.job.id)));
    let (running, queue, starts) = (Vec::new(), Vec::new(), Starts::new());
    let mut machine = Machine { now: 0.0, cores, flow, rule, running, queue, starts };
    let mut wake = None;
    loop {
        let ends = machine.running.iter().map(|(it, start)| start + it.job.run_time());
        let others = coming.last().map(|it| it.job.submit).into_iter().chain(wake);
        let Some(now) = ends.chain(others).min_by(f64::total_cmp) else {
            assert!(machine.queue.is_empty(), "jobs wait for an empty machine");
            return machine.starts;
        };
        machine.now = now;
        machine.running.retain(|(it, start)| start + it.job.run_time() > now);
        while let Some(it) = coming.pop_if(|it| it.job.submit <= now) {
            machine.queue.push(it);
        }
        machine.pass();
        wake = match rule {
            Rule::Capped(budget) if !machine.queue.is_empty() => budget.rise(now),
            _ => None,
        };
    }
}
