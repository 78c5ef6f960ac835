//! The discrete-event driver: feeds the production engine from a list of jobs instead of a broker.
//!
//! Time jumps from instant to instant. All events of one instant are stepped before the engine makes its one pass, in
//! this order (other [`Rules`] are options, see `instant.rs`):
//!
//! 1. ends of jobs, by id;
//! 2. failures, drains and returns of nodes ([`crate::outages`]);
//! 3. arrivals, by id;
//! 4. a wake-up that the policy asked for (it needs no event, only the pass).
//!
//! A job that starts at t ends at t + min(run time, limit), or earlier when one of its nodes fails; its end is an event
//! like any other. A job of length 0 ends at the instant at which it starts, which then gets another pass. Commits of
//! the engine complete at once.
//!
//! Jobs come from an iterator, so a long log needs memory only for its waiting and running jobs. Starts, ends and
//! refusals go to [`Observer`]s.
//!
//! This module does not know how a policy is executed, and reads no clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;

mod instant;

use fluxgate_engine::{
    Action, Config, Engine, Event, FORECAST_JOBS_MAX, Policy, PolicyCost, PolicyNotice, Reason, Stats,
};
use fluxgate_formats::{JobId, Jobspec, R};
use fluxgate_graph::Resources;

use crate::flow::Asks;
use crate::hash::Spread;
use crate::jobspecs::Jobspecs;
use crate::observe::{Observer, PROGRESS_EVERY, Progress, Span, Started};
use crate::outages::Outages;
use crate::reservations::{ReservationError, Reservations};
use crate::rules::Rules;
use crate::rules::expected::Predictor;
use crate::workload::Job;

use instant::End;

/// Number of consecutive wake-ups after which a run without any other future event is ended.
pub const IDLE_WAKES_MAX: u32 = 1000;

/// RFC 27 priority of every job: Flux's default urgency.
const PRIORITY: u32 = 16;

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The active policy at the end.
    pub policy: String,
    /// Number of jobs taken from the workload.
    pub submitted: u64,
    /// Number of jobs that ran.
    pub started: u64,
    /// Number of these that ended because a node failed.
    pub failed: u64,
    /// Jobs that were denied, with the reason.
    pub denied: Vec<(JobId, String)>,
    /// Jobs that still waited when no event could follow any more, with the reason. A policy cannot deny a job, but may
    /// keep it waiting.
    pub unfinished: Vec<(JobId, String)>,
    /// Number of rounds of "step all events, then pass".
    pub instants: u64,
    /// Maximum number of jobs that waited at once.
    pub peak_waiting: u64,
    /// Time of the last event, seconds.
    pub end: f64,
    /// The engine's counters.
    pub engine: Stats,
    /// Cost of all policies together. Their time is measured, and so not reproducible.
    pub cost: PolicyCost,
}

/// The reason why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The workload is not in the order of [`crate::workload::sort`], or names a job twice.
    #[error("job {}: {what}", job.0)]
    Workload {
        /// The job.
        job: JobId,
        /// The error.
        what: &'static str,
    },
    /// The policy failed; with the fallback in its place the figures would be those of another policy.
    #[error("policy {name}: {error}")]
    Policy {
        /// Its name.
        name: String,
        /// The reason.
        error: fluxgate_engine::PolicyError,
    },
    /// The policy could not be activated.
    #[error("policy could not be put in place: {0}")]
    Swap(String),
    /// The engine broke its own contract.
    #[error("engine: {0}")]
    Engine(String),
    /// A reservation cannot be made.
    #[error(transparent)]
    Reservation(#[from] ReservationError),
    /// An observer failed to write.
    #[error("output: {0}")]
    Output(#[from] io::Error),
}

/// The settings of the engine for a replay: without annotations, which no observer reads.
pub fn replay_config() -> Config {
    // No other messages arrive during a pass.
    let reservations_max = fluxgate_graph::RESERVATIONS_MAX;
    Config { annotate: false, decisions_per_pass_max: 100_000, reservations_max, ..Config::default() }
}

/// Runs a workload to its end.
///
/// `jobs` come by submission, then id. `policy` decides; `None` selects the engine's built-in one. Only observers need
/// R, so `config` does not determine whether it is written.
pub fn run(
    jobs: impl IntoIterator<Item = Job>,
    resources: Resources,
    config: Config,
    policy: Option<Box<dyn Policy>>,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome, SimError> {
    run_with(jobs, &Surroundings::default(), resources, config, policy, observers)
}

/// The environment of a run besides jobs, machine and policy.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Names for the numbers of queues; a queue without one is named by its number, as `q3`.
    pub queues: BTreeMap<u32, String>,
    /// Changes of nodes.
    pub outages: Outages,
    /// Nodes that are kept for maintenance, or for some jobs.
    pub reservations: Reservations,
    /// Complete requests of jobs, by [`Job::jobspec`].
    pub jobspecs: Vec<Arc<Jobspec>>,
    /// Requests for flow of the jobs without a complete request.
    pub flow: Asks,
    /// Period in seconds of forecasts for every waiting job; a forecast is also made at each submission. `None` for
    /// none.
    pub forecasts: Option<f64>,
    /// The order of events and the passes. Rules of the pass itself are a policy: [`crate::rules::picking`].
    pub rules: Rules,
}

/// The policies: a default policy, `None` for the built-in one, and policies of single queues, by name.
#[derive(Default)]
pub struct Deciders {
    /// Decides all queues without a policy of their own.
    pub default: Option<Box<dyn Policy>>,
    /// Policies of queues.
    pub queues: Vec<(String, Box<dyn Policy>)>,
}

impl From<Option<Box<dyn Policy>>> for Deciders {
    fn from(default: Option<Box<dyn Policy>>) -> Self {
        Deciders { default, queues: Vec::new() }
    }
}

/// The same with names of queues, policies of queues, and nodes that fail.
pub fn run_with(
    jobs: impl IntoIterator<Item = Job>,
    surroundings: &Surroundings,
    resources: Resources,
    mut config: Config,
    policies: impl Into<Deciders>,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome, SimError> {
    let outages = &surroundings.outages;
    // R names the jobs on a failing node, and the result of a request.
    let told = !outages.is_empty() || !surroundings.jobspecs.is_empty();
    config.write_r = told || observers.iter().any(|o| o.wants_r());
    let mut jobs = jobs.into_iter().peekable();
    let begin = jobs.peek().map_or(0.0, |j| j.submit);
    let mut sim = Simulation::new(Engine::new(resources, config), begin, surroundings);
    let mut changes = outages.changes().iter().peekable();
    if !surroundings.reservations.is_empty() {
        let windows = surroundings.reservations.windows(&mut sim.engine, begin)?;
        observers.iter_mut().for_each(|o| o.reserved(&windows, &surroundings.queues));
    }
    sim.install(policies.into(), observers)?;
    let mut idle_wakes = 0;
    loop {
        let arrival = jobs.peek().map(|j| j.submit);
        let end = sim.ends.peek().map(|Reverse(e)| e.time.0);
        let wake = sim.engine.next_wake().filter(|&t| t > sim.now && surroundings.rules.wakes);
        // Before the first job all nodes count, after the last none does.
        let jobs_left = arrival.is_some() || end.is_some() || !sim.waiting.is_empty();
        let change = changes.peek().filter(|_| jobs_left).map(|(time, _)| time.max(sim.now));
        let Some(now) = [arrival, end, wake, change].into_iter().flatten().min_by(f64::total_cmp) else {
            break;
        };
        if arrival.is_none() && end.is_none() && change.is_none() {
            idle_wakes += 1;
            if sim.waiting.is_empty() || idle_wakes > IDLE_WAKES_MAX {
                break;
            }
        } else {
            idle_wakes = 0;
        }
        sim.advance(now, observers)?;
        sim.instant(now, &mut jobs, &mut changes, observers)?;
        if let Some(every) = surroundings.forecasts {
            sim.forecast(every, arrival.is_some_and(|t| t <= now), observers)?;
        }
        sim.instants += 1;
        if sim.instants.is_multiple_of(PROGRESS_EVERY) {
            let progress = sim.progress();
            observers.iter_mut().try_for_each(|o| o.progress(&progress))?;
        }
    }
    sim.flush(observers)?;
    let unfinished = sim.leave(observers)?;
    observers.iter_mut().try_for_each(|o| o.finished())?;
    Ok(sim.outcome(unfinished))
}

/// The waiting jobs, by id, and in the order of submission.
#[derive(Default)]
struct Waiting {
    /// Id to number in the order of submission.
    numbers: HashMap<JobId, u64, Spread>,
    /// Jobs from number `first` on; `None` for those that left. The front is never `None`.
    window: VecDeque<Option<Job>>,
    first: u64,
    /// Number of jobs for each number of cores requested.
    widths: BTreeMap<u32, u64>,
}

impl Waiting {
    fn push(&mut self, job: Job) -> bool {
        let number = self.first + self.window.len() as u64;
        let new = self.numbers.insert(job.id, number).is_none();
        *self.widths.entry(job.cores).or_default() += 1;
        self.window.push_back(Some(job));
        new
    }

    fn remove(&mut self, id: JobId) -> Option<(u64, Job)> {
        let number = self.numbers.remove(&id)?;
        let job = self.window.get_mut((number - self.first) as usize)?.take()?;
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.first += 1;
        }
        if let Some(count) = self.widths.get_mut(&job.cores) {
            *count -= 1;
            if *count == 0 {
                self.widths.remove(&job.cores);
            }
        }
        Some((number, job))
    }

    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// True if a job waits that was submitted before the one with this number.
    fn any_before(&self, number: u64) -> bool {
        !self.is_empty() && self.first < number
    }
}

struct Simulation<'a> {
    engine: Engine,
    now: f64,
    waiting: Waiting,
    ends: BinaryHeap<Reverse<End>>,
    /// Cores in use.
    busy: u64,
    /// Starts of this instant, reported when the instant is over.
    starts: Vec<Start>,
    specs: Jobspecs,
    outages: &'a Outages,
    rules: Rules,
    /// With predicted ends: what is known of users, and the predictions of waiting jobs in seconds.
    predictor: Predictor,
    predicted: BTreeMap<JobId, f64>,
    failed: u64,
    last_arrival: Option<(f64, JobId)>,
    submitted: u64,
    started: u64,
    ended: u64,
    denied: Vec<(JobId, String)>,
    instants: u64,
    peak_waiting: usize,
    /// Time of the last forecast of all waiting jobs.
    forecast_all: f64,
}

/// A start of this instant.
struct Start {
    number: u64,
    job: Job,
    end: f64,
    r: Box<R>,
}

/// Cost of all policies.
fn cost(engine: &Engine) -> PolicyCost {
    let mut all = engine.policy_cost();
    for (_, own) in engine.queue_policy_costs() {
        all.calls += own.calls;
        all.fuel += own.fuel;
        all.memory += own.memory;
        all.nanos += own.nanos;
    }
    all
}

impl<'a> Simulation<'a> {
    fn new(engine: Engine, now: f64, surroundings: &'a Surroundings) -> Self {
        Self {
            engine,
            now,
            waiting: Waiting::default(),
            ends: BinaryHeap::new(),
            busy: 0,
            starts: Vec::new(),
            specs: Jobspecs::new(&surroundings.queues, &surroundings.jobspecs).with_flow(&surroundings.flow),
            outages: &surroundings.outages,
            rules: surroundings.rules,
            predictor: Predictor::default(),
            predicted: BTreeMap::new(),
            failed: 0,
            last_arrival: None,
            submitted: 0,
            started: 0,
            ended: 0,
            denied: Vec::new(),
            instants: 0,
            peak_waiting: 0,
            forecast_all: f64::NEG_INFINITY,
        }
    }

    /// Activates the policies before the first job arrives.
    fn install(&mut self, policies: Deciders, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        let failed = |e: fluxgate_engine::SwapError| SimError::Swap(e.to_string());
        if let Some(policy) = policies.default {
            let actions = self.engine.swap(policy).map_err(failed)?;
            self.carry_out(actions, observers)?;
            let actions = self.engine.finish_swaps(self.now);
            self.carry_out(actions, observers)?;
        }
        for (queue, policy) in policies.queues {
            let actions = self.engine.swap_queue(&queue, policy).map_err(failed)?;
            self.carry_out(actions, observers)?;
        }
        let actions = self.engine.finish_swaps(self.now);
        self.carry_out(actions, observers)
    }

    fn advance(&mut self, now: f64, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        if now > self.now {
            self.flush(observers)?;
            let span = Span {
                from: self.now,
                to: now,
                busy: self.busy,
                waiting: self.waiting.len() as u64,
                narrowest: self.waiting.widths.first_key_value().map(|(cores, _)| (*cores).max(1)),
            };
            observers.iter_mut().try_for_each(|o| o.span(&span))?;
            self.now = now;
        }
        Ok(())
    }

    fn arrive(&mut self, job: Job, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        let this = (job.submit, job.id);
        if !job.submit.is_finite() {
            return Err(SimError::Workload { job: job.id, what: "its submit time is not finite" });
        }
        if self.last_arrival.is_some_and(|last| this < last) {
            let what = "it comes after a job that was submitted later: sort by submission and id";
            return Err(SimError::Workload { job: job.id, what });
        }
        self.last_arrival = Some(this);
        let jobspec = self.specs.of(&job);
        if !self.waiting.push(job) {
            return Err(SimError::Workload { job: job.id, what: "it waits already" });
        }
        self.submits(&job);
        self.submitted += 1;
        self.peak_waiting = self.peak_waiting.max(self.waiting.len());
        let event =
            Event::Alloc { id: job.id, priority: PRIORITY, userid: job.user, t_submit: job.submit, jobspec };
        self.step(event, observers)
    }

    fn step(&mut self, event: Event, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        let actions = self.engine.step(event, self.now);
        self.carry_out(actions, observers)
    }

    fn carry_out(
        &mut self,
        actions: Vec<Action>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<(), SimError> {
        for action in actions {
            match action {
                Action::Start { id, r, annotations: _ } => {
                    let (number, mut job) = self.gone(id, "started")?;
                    if job.jobspec > 0 {
                        // It may have requested whole nodes, or a range.
                        job.cores = u32::try_from(r.count("core")).unwrap_or(u32::MAX);
                    }
                    let whole = self.now + job.run_time();
                    let cut =
                        (!self.outages.is_empty()).then(|| self.outages.cut(&r.ranks(), self.now, whole));
                    let end = cut.flatten().unwrap_or(whole);
                    self.failed += u64::from(end < whole);
                    let end_of = self.end_of(&job, end);
                    self.ends.push(Reverse(end_of));
                    self.busy += u64::from(job.cores);
                    self.started += 1;
                    self.starts.push(Start { number, job, end, r });
                    self.step(Event::Committed { id }, observers)?;
                }
                Action::Deny { id, note } => {
                    let (_, job) = self.gone(id, "denied")?;
                    observers.iter_mut().try_for_each(|o| o.denied(&job, &note))?;
                    self.denied.push((id, note));
                }
                Action::Notice(
                    PolicyNotice::Failed { name, error } | PolicyNotice::SwapFailed { name, error },
                ) => {
                    return Err(SimError::Policy { name, error });
                }
                Action::Notice(PolicyNotice::Queue { queue, notice }) => match *notice {
                    PolicyNotice::Failed { name, error } | PolicyNotice::SwapFailed { name, error } => {
                        return Err(SimError::Policy { name: format!("{name} of queue {queue}"), error });
                    }
                    _ => {}
                },
                Action::Raise { id, kind, note, .. } => {
                    return Err(SimError::Engine(format!("exception {kind} on job {}: {note}", id.0)));
                }
                Action::Canceled { id } => {
                    return Err(SimError::Engine(format!("job {}: cancelled, nobody asked for that", id.0)));
                }
                // A simulation has no replies, recounts or audits.
                Action::Annotate { .. }
                | Action::Reply { .. }
                | Action::Recounted { .. }
                | Action::Audited(_)
                | Action::Notice(PolicyNotice::Swapped { .. } | PolicyNotice::GivenBack { .. }) => {}
            }
        }
        Ok(())
    }

    /// Forecasts are due: a job arrived, or the period is over.
    fn forecast(
        &mut self,
        every: f64,
        arrived: bool,
        observers: &mut [&mut dyn Observer],
    ) -> Result<(), SimError> {
        let again = self.now >= self.forecast_all + every;
        if self.waiting.is_empty() || !(again || arrived) {
            return Ok(());
        }
        if again {
            self.forecast_all = self.now;
        }
        let base = self.engine.forecast_base(self.now, FORECAST_JOBS_MAX);
        let forecasts = base.forecast(self.now);
        observers.iter_mut().try_for_each(|o| o.forecasts(self.now, &forecasts, again))?;
        Ok(())
    }

    fn gone(&mut self, id: JobId, how: &str) -> Result<(u64, Job), SimError> {
        let gone = self.waiting.remove(id);
        gone.ok_or_else(|| SimError::Engine(format!("job {}: {how}, but it does not wait", id.0)))
    }

    /// Reports the starts of the instant that is over.
    fn flush(&mut self, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        for Start { number, job, end, r } in self.starts.drain(..) {
            let started = Started {
                job: &job,
                start: self.now,
                end,
                r: &r,
                backfilled: self.waiting.any_before(number),
            };
            observers.iter_mut().try_for_each(|o| o.started(&started))?;
        }
        Ok(())
    }

    /// Reports the jobs that never start.
    fn leave(&mut self, observers: &mut [&mut dyn Observer]) -> Result<Vec<(JobId, String)>, SimError> {
        let mut left = Vec::with_capacity(self.waiting.len());
        for job in self.waiting.window.iter().flatten() {
            let why = match self.engine.reason(job.id) {
                None | Some(Reason::Unseen) => "the policy made no decision about it".to_owned(),
                Some(reason) => reason.to_string(),
            };
            observers.iter_mut().try_for_each(|o| o.left(job, &why))?;
            left.push((job.id, why));
        }
        Ok(left)
    }

    fn progress(&self) -> Progress {
        Progress {
            submitted: self.submitted,
            done: self.ended + self.denied.len() as u64,
            waiting: self.waiting.len() as u64,
            now: self.now,
        }
    }

    fn outcome(self, unfinished: Vec<(JobId, String)>) -> Outcome {
        Outcome {
            policy: self.engine.policy_name().to_owned(),
            submitted: self.submitted,
            started: self.started,
            failed: self.failed,
            denied: self.denied,
            unfinished,
            instants: self.instants,
            peak_waiting: self.peak_waiting as u64,
            end: self.now,
            engine: self.engine.stats(),
            cost: cost(&self.engine),
        }
    }
}
