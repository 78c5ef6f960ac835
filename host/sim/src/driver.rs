//! The discrete-event driver: feeds the production engine from a list of jobs instead of a broker.
//!
//! Time jumps from instant to instant. All events of one instant are stepped before the engine makes its one pass, in
//! this order (other [`Rules`] are options, see `instant.rs`):
//!
//! 1. failures, drains and returns of nodes ([`crate::outages`]);
//! 2. ends of jobs, by id;
//! 3. arrivals, by id;
//! 4. a wake-up that the policy asked for (it needs no event, only the pass).
//!
//! A job that starts at t ends at t + min(run time, limit), or earlier when one of its nodes fails, after which it may
//! be submitted again; its end is an event like any other. Jobs may follow others ([`crate::follow`]): they arrive when
//! these have ended. A job of length 0 ends at the instant at which it starts, which then gets another pass. Commits of
//! the engine complete at once.
//!
//! Jobs come from an iterator, so a long log needs memory only for its waiting and running jobs. Starts, ends and
//! refusals go to [`Observer`]s.
//!
//! This module does not know how a policy is executed, and reads no clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::{Deref, Range};
use std::sync::Arc;

mod instant;
mod outcome;
mod run;
mod saved;
mod surroundings;
mod waiting;

use fluxgate_engine::{
    Action, Config, Engine, Event, FORECAST_JOBS_MAX, Policy, PolicyCost, PolicyError, PolicyNotice, Reason,
};
use fluxgate_formats::{Idset, JobId, R};
use fluxgate_graph::{CoreRun, Resources};

use crate::jobspecs::Jobspecs;
use crate::observe::{Observer, Progress, Span, Started};
use crate::rules::Rules;
use crate::rules::expected::Predictor;
use crate::workload::Job;

pub use outcome::{Breach, Outcome, SimError, Takeover};
pub use run::Run;
pub(crate) use run::writes_r;
pub(crate) use saved::Saved;
pub use surroundings::{Deciders, Surroundings};

use instant::End;
use waiting::{Followers, Waiting};

/// Number of consecutive wake-ups after which a run without any other future event ends; jobs that wait then are left.
pub const IDLE_WAKES_MAX: u32 = 1000;

/// RFC 27 priority of every job: Flux's default urgency.
pub(crate) const PRIORITY: u32 = 16;

/// The settings of the engine for a replay: without annotations, which no observer reads, and with more decisions a pass.
pub fn replay_config() -> Config {
    // No other messages arrive during a pass.
    let reservations_max = fluxgate_graph::RESERVATIONS_MAX;
    Config { annotate: false, decisions_per_pass_max: 100_000, reservations_max, ..Config::default() }
}

/// Runs a workload to its end.
///
/// `jobs` come by submission, then id. `policy` decides; `None` selects the engine's built-in one. Only observers need
/// R, so `config` does not determine whether it is written.
///
/// # Errors
/// [`SimError`]: the jobs are not in order, the policy failed or cannot be activated, or an observer failed.
pub fn run(
    jobs: impl IntoIterator<Item = Job>,
    resources: Resources,
    config: Config,
    policy: Option<Box<dyn Policy>>,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome, SimError> {
    run_with(jobs, &Surroundings::default(), resources, config, policy, observers)
}

/// The same in [`Surroundings`], for example with policies of queues, with nodes that fail, and with reservations.
///
/// # Errors
/// As [`run`]; also if a reservation cannot be made.
pub fn run_with(
    jobs: impl IntoIterator<Item = Job>,
    surroundings: &Surroundings,
    resources: Resources,
    config: Config,
    policies: impl Into<Deciders>,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome, SimError> {
    let mut run = Run::new(jobs.into_iter(), surroundings, resources, config, policies, observers)?;
    while run.pass(observers)? {}
    run.finish(observers)
}

struct Simulation<S> {
    engine: Engine,
    surroundings: S,
    /// Changes of nodes so far.
    changed: usize,
    now: f64,
    waiting: Waiting,
    ends: BinaryHeap<Reverse<End>>,
    /// The jobs that end at the instant whose events are being stepped, in the order of the rules.
    due: VecDeque<End>,
    /// Cores in use.
    busy: u64,
    /// The memory of the actions of a pass.
    actions: Vec<Action>,
    /// Starts of this instant, reported when the instant is over.
    starts: Vec<Start>,
    /// Their cores, if an observer reads them.
    core_runs: Vec<CoreRun>,
    specs: Jobspecs,
    /// Observers read the cores of jobs, and not their R.
    runs: bool,
    rules: Rules,
    /// With predicted ends: the run times of users, and the predictions of waiting jobs in seconds.
    predictor: Predictor,
    predicted: BTreeMap<JobId, f64>,
    followers: Followers,
    /// Running jobs that will be submitted again, as they will be then.
    again: BTreeMap<JobId, Job>,
    failed: u64,
    requeued: u64,
    lost_core_seconds: f64,
    /// Policies that take over later, the first one last.
    successors: Vec<(f64, Box<dyn Policy>)>,
    breaches: Vec<Breach>,
    takeovers: Vec<Takeover>,
    last_arrival: Option<(f64, JobId)>,
    submitted: u64,
    started: u64,
    ended: u64,
    denied: Vec<(JobId, String)>,
    instants: u64,
    peak_waiting: usize,
    /// Time of the last forecast of all waiting jobs.
    forecast_all: f64,
    /// Cost of policies before the run went on from a checkpoint.
    spent: PolicyCost,
}

/// A start of this instant.
struct Start {
    number: u64,
    job: Job,
    end: f64,
    r: Arc<R>,
    /// With a job that will be submitted again: the seconds of work that it keeps.
    kept: Option<f64>,
    /// Its place in the list of the cores of all starts.
    cores: Range<usize>,
}

impl<S: Deref<Target = Surroundings>> Simulation<S> {
    fn new(engine: Engine, now: f64, surroundings: S) -> Self {
        Self {
            engine,
            changed: 0,
            now,
            waiting: Waiting::default(),
            ends: BinaryHeap::new(),
            due: VecDeque::new(),
            busy: 0,
            actions: Vec::new(),
            starts: Vec::new(),
            core_runs: Vec::new(),
            specs: Jobspecs::new(&surroundings.queues, &surroundings.jobspecs).with_flow(&surroundings.flow),
            runs: false,
            rules: surroundings.rules,
            predictor: Predictor::default(),
            predicted: BTreeMap::new(),
            followers: Followers::new(Arc::clone(&surroundings.following)),
            again: BTreeMap::new(),
            failed: 0,
            requeued: 0,
            lost_core_seconds: 0.0,
            successors: Vec::new(),
            breaches: Vec::new(),
            takeovers: Vec::new(),
            last_arrival: None,
            submitted: 0,
            started: 0,
            ended: 0,
            denied: Vec::new(),
            instants: 0,
            peak_waiting: 0,
            forecast_all: f64::NEG_INFINITY,
            spent: PolicyCost::default(),
            surroundings,
        }
    }

    /// Cost of all policies.
    fn cost(&self) -> PolicyCost {
        let mut all = self.engine.policy_cost();
        let own = self.engine.queue_policy_costs().map(|(_, own)| own);
        for more in own.chain([self.spent]) {
            all.calls += more.calls;
            all.fuel += more.fuel;
            all.memory += more.memory;
            all.nanos += more.nanos;
        }
        all
    }

    /// The time of the next change of nodes, seconds.
    fn next_change(&self) -> Option<f64> {
        self.surroundings.outages.changes().get(self.changed).map(|(time, _)| *time)
    }

    /// Activates the policies before the first job arrives.
    fn install(&mut self, policies: Deciders, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        let failed = |e: fluxgate_engine::SwapError| SimError::Swap(e.to_string());
        if policies.read_attributes() {
            self.specs.tell_attributes(&self.surroundings.attributes);
        }
        if let Some(policy) = policies.default {
            let actions = self.engine.swap(policy).map_err(failed)?;
            self.carry_out(actions, observers)?;
            self.finish_swaps(observers)?;
        }
        for (queue, policy) in policies.queues {
            self.decide_queue(&queue, policy, observers)?;
        }
        self.finish_swaps(observers)?;
        // The policies at the beginning took over from none of the run.
        self.takeovers.clear();
        self.successors = policies.successors;
        self.successors.reverse();
        Ok(())
    }

    /// Begins to give a queue a policy of its own.
    fn decide_queue(
        &mut self,
        queue: &str,
        policy: Box<dyn Policy>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<(), SimError> {
        let begun = self.engine.swap_queue(queue, policy);
        let actions = begun.map_err(|error| SimError::Swap(error.to_string()))?;
        self.carry_out(actions, observers)
    }

    fn finish_swaps(&mut self, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        let actions = self.engine.finish_swaps(self.now);
        self.carry_out(actions, observers)
    }

    /// Has the policies take over whose time has come.
    fn succeed(&mut self, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        while let Some((_, policy)) = self.successors.pop_if(|(time, _)| *time <= self.now) {
            let actions = self.engine.swap(policy).map_err(|error| SimError::Swap(error.to_string()))?;
            self.carry_out(actions, observers)?;
            self.finish_swaps(observers)?;
        }
        Ok(())
    }

    /// A policy broke the contract.
    fn breach(&mut self, policy: String, error: PolicyError) -> Result<(), SimError> {
        if !self.surroundings.fallback {
            return Err(SimError::Policy { name: policy, error });
        }
        self.breaches.push(Breach { time: self.now, policy, error });
        Ok(())
    }

    /// Places the jobs that run already.
    fn warm_up(&mut self, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        for at in 0..self.surroundings.warm.len() {
            let running = &self.surroundings.warm[at];
            let job = running.job(self.now);
            let (start, mut r) = (job.submit, running.r.clone());
            (r.starttime, r.expiration) = (start, start + job.limit);
            let whole = start + job.run_time();
            let end = self.surroundings.outages.cut(&r.ranks(), start, whole).unwrap_or(whole);
            if end <= self.now {
                let what = "it runs when the workload begins, but one of its nodes failed before";
                return Err(SimError::Workload { job: job.id, what });
            }
            if end < whole {
                // It is no job of the workload, and not submitted again.
                self.failed += 1;
                self.lost_core_seconds += f64::from(job.cores) * (end - start);
            }
            let started =
                Started { job: &job, start, end, r: &r, cores: &[], backfilled: false, again: None };
            observers.iter_mut().try_for_each(|o| o.warm(&started))?;
            let end_of = self.end_of(&job, start, end);
            self.ends.push(Reverse(end_of));
            self.busy += u64::from(job.cores);
            let event = Event::Hello {
                id: job.id,
                priority: PRIORITY,
                userid: job.user,
                t_submit: start,
                r: Box::new(r),
                free: Idset::new(),
                queue: None,
            };
            self.step(event, observers)?;
        }
        Ok(())
    }

    fn advance(&mut self, now: f64, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        if now > self.now {
            self.flush(observers)?;
            let span = Span {
                from: self.now,
                to: now,
                busy: self.busy,
                waiting: self.waiting.len() as u64,
                narrowest: self.waiting.narrowest().map(|cores| cores.max(1)),
                put_off: match self.surroundings.reservations.is_empty() {
                    true => 0,
                    false => self.engine.waiting_for_windows(),
                },
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
        self.submit(job, false, observers)
    }

    /// Submits a job, for the first time or again.
    fn submit(&mut self, job: Job, again: bool, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        let jobspec = self.specs.of(&job);
        if !self.waiting.push(job) {
            return Err(SimError::Workload { job: job.id, what: "it waits already" });
        }
        self.submits(&job);
        self.submitted += u64::from(!again);
        observers.iter_mut().try_for_each(|o| o.submitted(&job))?;
        self.peak_waiting = self.peak_waiting.max(self.waiting.len());
        let event =
            Event::Alloc { id: job.id, priority: PRIORITY, userid: job.user, t_submit: job.submit, jobspec };
        self.step(event, observers)
    }

    fn step(&mut self, event: Event, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        let actions = self.engine.step(event, self.now);
        if actions.is_empty() { Ok(()) } else { self.carry_out(actions, observers) }
    }

    fn carry_out(
        &mut self,
        actions: impl IntoIterator<Item = Action>,
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
                    let outages = &self.surroundings.outages;
                    let cut = (!outages.is_empty()).then(|| outages.cut(&r.ranks(), self.now, whole));
                    let mut end = cut.flatten().unwrap_or(whole);
                    if self.surroundings.reservations.are_filled() {
                        // It is ended when a reservation begins, if it may be.
                        let until = self.engine.resources().allocation(id).map(|held| held.end);
                        let until = until.filter(|until| *until < self.now + job.limit);
                        end = end.min(until.unwrap_or(f64::INFINITY));
                    }
                    let kept = if end < whole { self.fails(&job, end - self.now) } else { None };
                    let end_of = self.end_of(&job, self.now, end);
                    self.ends.push(Reverse(end_of));
                    self.busy += u64::from(job.cores);
                    // A job that starts again counts when it runs to its end.
                    self.started += u64::from(kept.is_none());
                    let first = self.core_runs.len();
                    if self.runs {
                        self.engine.resources().append_core_runs(id, &mut self.core_runs);
                    }
                    let cores = first..self.core_runs.len();
                    self.starts.push(Start { number, job, end, r, kept, cores });
                    self.step(Event::Committed { id }, observers)?;
                }
                Action::Deny { id, note } => {
                    let (_, job) = self.gone(id, "denied")?;
                    observers.iter_mut().try_for_each(|o| o.denied(&job, &note))?;
                    self.denied.push((id, note));
                    self.followers.over(id, self.now);
                }
                Action::Notice(
                    PolicyNotice::Failed { name, error } | PolicyNotice::SwapFailed { name, error },
                ) => self.breach(name, error)?,
                Action::Notice(PolicyNotice::Swapped { from, to, state }) => {
                    self.takeovers.push(Takeover { time: self.now, from, to, state });
                }
                Action::Notice(PolicyNotice::Queue { queue, notice }) => match *notice {
                    PolicyNotice::Failed { name, error } | PolicyNotice::SwapFailed { name, error } => {
                        self.breach(format!("{name} of queue {queue}"), error)?;
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
                | Action::Notice(PolicyNotice::GivenBack { .. }) => {}
            }
        }
        Ok(())
    }

    /// A job that starts now will end after this many seconds, because a node fails. Returns the seconds of work that it
    /// keeps, if it will be submitted again.
    fn fails(&mut self, job: &Job, ran: f64) -> Option<f64> {
        self.failed += 1;
        let kept = self.surroundings.on_failure.kept(ran);
        self.lost_core_seconds += f64::from(job.cores) * (ran - kept.unwrap_or(0.0));
        let kept = kept?;
        self.requeued += 1;
        self.again.insert(job.id, Job { run: job.run - kept, ..*job });
        Some(kept)
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
        if self.starts.is_empty() {
            return Ok(());
        }
        for Start { number, job, end, r, kept, cores } in self.starts.drain(..) {
            let started = Started {
                job: &job,
                start: self.now,
                end,
                r: &r,
                cores: &self.core_runs[cores],
                backfilled: self.waiting.any_before(number),
                again: kept,
            };
            observers.iter_mut().try_for_each(|o| o.started(&started))?;
        }
        self.core_runs.clear();
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
        for (job, first) in self.followers.left() {
            let why = format!("never submitted: job {}, which it follows, never ended", first.0);
            observers.iter_mut().try_for_each(|o| o.never_submitted(job, &why))?;
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
        let cost = self.cost();
        Outcome {
            policy: self.engine.policy_name().to_owned(),
            submitted: self.submitted,
            started: self.started,
            failed: self.failed,
            requeued: self.requeued,
            lost_core_seconds: self.lost_core_seconds,
            denied: self.denied,
            unfinished,
            instants: self.instants,
            peak_waiting: self.peak_waiting as u64,
            end: self.now,
            breaches: self.breaches,
            takeovers: self.takeovers,
            engine: *self.engine.stats(),
            cost,
        }
    }
}
