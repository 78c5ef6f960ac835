//! One pass over one queue: the queries of a policy, and the gate that every decision goes through.
//!
//! A [`Pass`] owns the engine's core while a policy runs and returns it afterwards. Decisions are staged in the
//! ledger, so that later queries see them, and undone together if the policy fails.
//!
//! The gate is [`Pass::start`]. A policy names a candidate. The gate finds *which* resources the job gets, and
//! whether it may have them now, from graph, constraints, node states, allocations and reservations. A policy has no
//! other access to the ledger.
//!
//! This module must never know how a policy is executed.

mod attributes;
mod bounds_gate;
mod candidates;
mod finish;
mod flow;
mod groups;
mod limits;
mod lists;
mod miss;
mod note;
mod reserve;
mod resources;
mod stage;
mod start_or_reserve;
mod suspended;
mod tracing;
mod turns;
mod window_gate;

use fluxgate_formats::JobId;
use fluxgate_graph::{NoFit, Placement, Selection, ShapeId, Totals};
use rustc_hash::FxHashMap;

use crate::core::job::Job;
use crate::core::scope::QueueId;
use crate::core::{Core, clamp};
use crate::headroom::Headroom;
use crate::order::{ClassId, OrderKey, Slot, Walk};
use crate::policy_error::PolicyError;
use crate::reason::Reason;
use crate::standing::Standing;
use crate::trace::{PassTrace, Step};

use groups::{FittingClasses, Told};
pub use groups::{GroupChanges, GroupHead};
use limits::Limits;
pub(crate) use lists::Lists;
use lists::Start;
use miss::Miss;
use note::Notes;
pub(crate) use stage::Staged;
pub use turns::Turns;

/// The export in which every pass runs.
const DURING: &str = "scheduling.run";
/// RFC 27 `sched.selection_type` of a job that passed another.
const BACKFILL: &str = "backfill";
/// As [`BACKFILL`], of a job that had a reserved start.
const RESERVED: &str = "reserved";

/// The gate's reason to refuse a proposal. A refusal is not a breach of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The job does not fit on the resources that are free now; for a reservation, no start is known.
    Busy,
    /// It would fit, but would delay a reservation, or run into a window or a bound of queues that begins later.
    DelaysReservation,
    /// No set of resources of this machine could ever satisfy it, or it waits for a window (reservation) that is not there, is over
    /// or does not admit it. It keeps no other job waiting.
    Unsatisfiable,
    /// It does not wait in the queue any more.
    NotEligible,
    /// A bound on decisions or reservations is reached, or the pass is interrupted; the pass should end.
    Limit,
}

/// The scalars of a candidate; as in [`crate::JobColumns`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobView {
    /// RFC 19 id.
    pub id: JobId,
    /// Submission, seconds since the epoch.
    pub t_submit: f64,
    /// Requested seconds, infinite without limit.
    pub duration: f64,
    /// RFC 27 priority, 1..=4294967295; 4294967295 is expedited.
    pub priority: u32,
    /// Submitting user.
    pub userid: u32,
    /// Fewest nodes, 0 when the request names none.
    pub nodes: u32,
    /// Fewest cores.
    pub cores: u32,
    /// Fewest GPUs.
    pub gpus: u32,
}

impl JobView {
    fn of(job: &Job) -> Self {
        JobView {
            id: job.id,
            t_submit: job.t_submit,
            duration: job.duration,
            priority: job.priority,
            userid: job.userid,
            nodes: job.request.min_nodes(),
            cores: job.request.min_cores(),
            gpus: job.request.min_gpus(),
        }
    }
}

/// One pass; see the module. Candidates are small numbers that are valid within this pass only, but for those of
/// [`Pass::changed_heads`].
pub struct Pass {
    core: Box<Core>,
    queue: QueueId,
    now: f64,
    walk: Walk,
    native: Option<OrderKey>,
    lists: Lists,
    /// The refusals so far, by shape.
    misses: FxHashMap<ShapeId, Miss>,
    /// The limits of jobs that request only cores.
    limits: Limits,
    /// The reservations of the last pass that are still in the ledger and not decided on.
    standing: Standing,
    /// The policy of this pass made the last pass of this queue.
    continues: bool,
    /// Number of reservations of the last pass that were made anew all at once.
    kept: usize,
    /// A reservation is not of the earliest start.
    put_off: bool,
    /// The policy has asked for groups in this pass.
    grouped: bool,
    fitting_classes: FittingClasses,
    /// The first jobs of groups that the policy was told of in this pass.
    told: Told,
    /// Number of these answers.
    told_count: u64,
    /// The headroom of this queue; `None` where no bound applies.
    headroom: Option<Headroom>,
    /// The policy has requested fitting jobs.
    sought_fitting: bool,
    /// The last answer of `fits`, which saves `start` a search.
    fit: Option<(Slot, Selection, f64)>,
    /// The annotations, if there are any.
    notes: Option<Box<Notes>>,
    rekeys: Vec<JobId>,
    wake: Option<f64>,
    blocked: bool,
    /// The last candidate that was taken in turn, that is by [`Pass::next`].
    turn: Option<Slot>,
    /// The policy has called [`Pass::holds`] after its last decision.
    holds: bool,
    /// A bound of the caller, such as fuel, has refused a proposal.
    bounded: bool,
    /// A bound of this pass kept a job from being offered or decided.
    cut: bool,
    /// The driver has raised the interrupt.
    interrupted: bool,
    breach: Option<PolicyError>,
    /// Events of the pass, if a trace is wanted.
    trace: Option<Box<PassTrace>>,
}

impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pass").field("queue", &self.queue).field("now", &self.now).finish_non_exhaustive()
    }
}

impl Pass {
    pub(crate) fn new(mut core: Box<Core>, queue: QueueId, now: f64) -> Box<Self> {
        core.marks.begin_pass();
        core.stats.passes += 1;
        let trace = tracing::begin(&mut core, queue, now);
        Box::new(Pass {
            headroom: core.headroom(queue, now),
            standing: std::mem::take(&mut core.standing),
            lists: std::mem::take(&mut core.lists),
            continues: false,
            kept: 0,
            put_off: false,
            core,
            queue,
            now,
            walk: Walk::default(),
            native: None,
            misses: FxHashMap::default(),
            limits: Limits::default(),
            grouped: false,
            fitting_classes: FittingClasses::default(),
            told: Told::default(),
            told_count: 0,
            sought_fitting: false,
            fit: None,
            notes: None,
            rekeys: Vec::new(),
            wake: None,
            blocked: false,
            turn: None,
            holds: false,
            bounded: false,
            cut: false,
            interrupted: false,
            breach: None,
            trace,
        })
    }

    /// The time of this pass, seconds since the epoch.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Index of the queue of this pass.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Number of known queues.
    pub fn queue_count(&self) -> u32 {
        self.core.queues.len() as u32
    }

    /// Name of a queue, empty for the anonymous one and for unknown indices.
    pub fn queue_name(&self, index: u32) -> &str {
        self.core.queues.get(index as usize).map_or("", |q| q.name.as_str())
    }

    /// Totals of the machine and its free resources, staged starts included.
    pub fn totals(&self) -> Totals {
        self.core.resources.totals()
    }

    /// Number of jobs that hold resources, and of jobs that wait, over all queues, before this pass.
    pub fn job_counts(&self) -> (u32, u32) {
        (clamp(self.core.running.len() as u64), clamp(self.core.pending_len() as u64))
    }

    /// Records a breach of the contract; the first one counts.
    fn bad<T>(&mut self, message: String) -> Result<T, PolicyError> {
        self.fail(PolicyError::BadDecision { during: DURING, message })
    }

    fn fail<T>(&mut self, error: PolicyError) -> Result<T, PolicyError> {
        self.breach.get_or_insert_with(|| error.clone());
        Err(error)
    }

    fn known(&mut self, candidate: u32) -> Result<(), PolicyError> {
        if self.core.marks.is_offered(candidate) {
            return Ok(());
        }
        if self.is_told(candidate) {
            self.offer(candidate);
            return Ok(());
        }
        self.bad(format!("candidate {candidate} was not offered in this pass"))
    }

    fn undecided(&mut self, candidate: u32) -> Result<(), PolicyError> {
        self.known(candidate)?;
        if !self.is_decided(candidate) {
            return Ok(());
        }
        let id = self.core.job(candidate).map_or(JobId(0), |job| job.id);
        self.bad(format!("job {id} was already started or reserved in this pass"))
    }

    /// The scalars of a candidate.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass.
    pub fn describe(&mut self, candidate: u32) -> Result<JobView, PolicyError> {
        self.known(candidate)?;
        let Some(job) = self.core.job(candidate) else { return self.bad("no such job".to_owned()) };
        Ok(JobView::of(job))
    }

    /// True if the candidate could start now without delaying a reservation. Nothing is staged.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass, or is decided already.
    pub fn fits(&mut self, candidate: u32) -> Result<bool, PolicyError> {
        self.undecided(candidate)?;
        if self.fit.as_ref().is_some_and(|(slot, ..)| *slot == candidate) {
            self.traced(candidate, |job| Step::Fits(job, true));
            return Ok(true);
        }
        self.drop_standing();
        let placement = self.placement(candidate, None);
        let fits = match self.search(candidate, placement) {
            Ok((selection, end)) => {
                self.fit = Some((candidate, selection, end));
                true
            }
            Err(_) => false,
        };
        self.traced(candidate, |job| Step::Fits(job, fits));
        Ok(fits)
    }

    /// Earliest start of the candidate, seconds since the epoch; infinite if it cannot start with the nodes that are up.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass, or is decided already.
    pub fn earliest(&mut self, candidate: u32) -> Result<f64, PolicyError> {
        self.undecided(candidate)?;
        Ok(self.earliest_from(candidate, self.now))
    }

    /// Earliest start at `from` or later, infinite if there is none.
    fn earliest_from(&mut self, slot: Slot, from: f64) -> f64 {
        self.drop_standing();
        let Some(job) = self.core.job(slot) else { return f64::INFINITY };
        let (request, duration) = (job.request.clone(), job.duration);
        let earliest = self.core.earliest_in(self.headroom.as_ref(), &request, (self.now, from), duration);
        let earliest = earliest.unwrap_or(f64::INFINITY);
        self.traced(slot, |job| Step::Earliest(job, earliest));
        earliest
    }

    /// Starts the candidate now, with the placement of its jobspec, else of this call, else of its queue, else of the site. A
    /// refusal is the inner error; a candidate that was refused may be proposed again.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass, or is decided already.
    pub fn start(
        &mut self,
        candidate: u32,
        placement: Option<Placement>,
    ) -> Result<Result<(), Refusal>, PolicyError> {
        match self.start_kept(candidate, placement)? {
            Some(answer) => Ok(answer),
            None => self.start_beside(candidate, placement),
        }
    }

    /// [`Pass::start`] beside the reservations that are still in the ledger.
    fn start_beside(
        &mut self,
        candidate: u32,
        placement: Option<Placement>,
    ) -> Result<Result<(), Refusal>, PolicyError> {
        self.undecided(candidate)?;
        let answer = self.try_start(candidate, placement)?;
        self.traced_start(candidate, &answer);
        Ok(answer)
    }

    fn try_start(
        &mut self,
        candidate: u32,
        placement: Option<Placement>,
    ) -> Result<Result<(), Refusal>, PolicyError> {
        if self.at_limit() {
            return Ok(Err(self.refuse(Refusal::Limit)));
        }
        let wanted = self.placement(candidate, placement);
        let found = match self.fit.take() {
            Some((slot, selection, end))
                if slot == candidate && wanted == self.placement(candidate, None) =>
            {
                Ok((selection, end))
            }
            _ => self.search(candidate, wanted),
        };
        let (selection, end) = match found {
            Ok(found) => found,
            Err(refusal) => {
                self.blocked |= refusal != Refusal::Unsatisfiable;
                return Ok(Err(self.refuse(refusal)));
            }
        };
        let Some(job) = self.core.job(candidate) else { return Ok(Err(Refusal::NotEligible)) };
        let id = job.id;
        let guessed = self.core.queues[self.queue as usize].estimated.is_some_and(|(of, _)| of == id);
        let how = match (self.blocked, job.t_estimate()) {
            (true, _) => BACKFILL,
            (false, Some(_)) if !guessed => RESERVED,
            (false, _) => "immediate",
        };
        if self.core.resources.allocate_owned(id, selection, self.now, end).is_err() {
            // The ledger checks the match again, and its refusal counts.
            return Ok(Err(self.refuse(Refusal::Busy)));
        }
        if let Err(refusal) = self.settle(candidate, id, end) {
            self.blocked = true;
            return Ok(Err(self.refuse(refusal)));
        }
        self.limits.change();
        self.decide(candidate);
        if self.blocked {
            self.core.stats.backfilled += 1;
        }
        self.lists.staged.push(Start { slot: candidate, end, how });
        Ok(Ok(()))
    }

    /// Counts a refusal of the gate.
    fn refuse(&mut self, refusal: Refusal) -> Refusal {
        let core = &mut *self.core;
        core.stats.refuse(refusal, &mut core.queues[self.queue as usize].counts)
    }

    /// Refuses a proposal for the candidate at a bound of the caller, such as fuel, and counts [`Refusal::Limit`].
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if the candidate was not offered in this pass.
    pub fn refuse_at_bound(&mut self, candidate: u32) -> Result<Refusal, PolicyError> {
        self.describe(candidate)?;
        self.bounded = true;
        Ok(self.refuse(Refusal::Limit))
    }

    /// The policy would decide the same in a pass that only submissions require, as far as it has looked: it took candidates in turn
    /// by [`Pass::next`], and of those behind them it starts each that fits. Then such a pass need not be made for jobs that
    /// come after the last one taken in turn, and cannot start now. A later decision of the pass takes that back.
    pub fn holds(&mut self) {
        self.holds = true;
    }

    /// The job after which submitted jobs change nothing, if [`Pass::holds`] was called and no bound met.
    fn held_behind(&self) -> Option<(JobId, Slot)> {
        let whole = !self.cut && !self.interrupted && !self.bounded && self.rekeys.is_empty();
        let slot = self.turn.filter(|_| self.holds && whole)?;
        Some((self.core.job(slot)?.id, slot))
    }

    /// Requests the candidate's key again before the next pass.
    ///
    /// # Errors
    /// [`PolicyError::BadDecision`] if it was not offered in this pass.
    pub fn rekey(&mut self, candidate: u32) -> Result<(), PolicyError> {
        self.known(candidate)?;
        self.rekeys.extend(self.core.job(candidate).map(|job| job.id));
        self.traced(candidate, Step::Rekey);
        Ok(())
    }

    /// Requests another pass of this queue at this time; the earliest of several counts. A time that is past, or not finite, is ignored.
    pub fn wake_at(&mut self, time: f64) {
        if time > self.now && time.is_finite() {
            self.traced_wake(time);
            self.wake = Some(self.wake.map_or(time, |w| w.min(time)));
        }
    }

    /// The placement of a candidate: of its jobspec, else of the call, else of its queue, else of the site.
    fn placement(&self, slot: Slot, asked: Option<Placement>) -> Placement {
        let own = self.core.job(slot).and_then(|job| job.placement());
        own.or(asked).unwrap_or_else(|| self.core.placement_of(self.queue))
    }

    fn at_limit(&mut self) -> bool {
        let decisions = self.decided() as u64;
        self.cut |= decisions >= self.core.config.decisions_per_pass_max;
        decisions >= self.core.config.decisions_per_pass_max || self.interrupted()
    }

    /// Number of jobs that are started or reserved in this pass.
    fn decided(&self) -> usize {
        self.kept + self.lists.staged.len() + self.lists.reserved.len()
    }

    /// True if the driver has raised the interrupt.
    fn interrupted(&mut self) -> bool {
        self.interrupted |= self.core.interrupt.raised();
        self.interrupted
    }

    fn decide(&mut self, slot: Slot) {
        self.core.marks.decide(slot);
        self.holds = false;
        self.fit = None;
    }

    /// Notes that a job of the request of this one delays a reservation if it ends after `latest`.
    fn note_delay(&mut self, slot: Slot, latest: f64) {
        let Some(Job { request, .. }) = self.core.job(slot) else { return };
        self.misses.entry(request.shape()).or_default().note_delay(latest);
        if let Some(cores) = request.plain_cores() {
            self.limits.note(cores, latest);
        }
    }

    fn park(&mut self, class: ClassId) {
        let Core { queues, resources, .. } = &mut *self.core;
        if let Some(queue) = queues.get_mut(self.queue as usize) {
            queue.park(class, resources);
        }
    }

    fn set_reason(&mut self, slot: Slot, reason: Reason) {
        self.core.set_reason(slot, reason);
    }

    /// Searches resources; returns them with the expected end. A failure is stored for all jobs to which it applies.
    fn search(&mut self, slot: Slot, placement: Placement) -> Result<(Selection, f64), Refusal> {
        self.has_window(slot)?;
        self.within_bounds(slot)?;
        let Some(job) = self.core.job(slot) else { return Err(Refusal::NotEligible) };
        let (shape, class) = (job.request.shape(), job.class);
        let parked = self.core.queues[self.queue as usize].class(class).is_some_and(|c| c.parked);
        let mut end = self.core.expected_end(self.now, job.duration);
        if self.misses.get(&shape).is_some_and(|miss| miss.delays(end)) {
            return Err(Refusal::DelaysReservation);
        }
        let Some((job, resources)) = self.core.job_and_resources(slot) else {
            return Err(Refusal::NotEligible);
        };
        let found = if parked {
            Err(NoFit::Busy)
        } else {
            let mut found = resources.match_now(&job.request, self.now, end, placement);
            // A job that may be ended can run until a window begins that is to be filled.
            while let Err(NoFit::Window(window, latest)) = found
                && let Some(sooner) = resources.fills_until(&job.request, window, self.now, latest)
                && sooner < end
            {
                end = sooner;
                found = resources.match_now(&job.request, self.now, end, placement);
            }
            found
        };
        self.core.stats.matches += u64::from(!parked);
        match found {
            Ok(selection) => Ok((selection, end)),
            Err(NoFit::WouldDelay(reserved, latest)) => {
                self.note_delay(slot, latest);
                self.set_reason(slot, Reason::Delays(reserved));
                Err(Refusal::DelaysReservation)
            }
            Err(NoFit::Window(id, latest)) => {
                self.note_delay(slot, latest);
                let reason = self.core.window_reason(slot, id, latest);
                reason.into_iter().for_each(|reason| self.set_reason(slot, reason));
                Err(Refusal::DelaysReservation)
            }
            Err(_) => {
                self.park(class);
                self.set_reason(slot, self.core.busy_reason(slot));
                Err(Refusal::Busy)
            }
        }
    }

    /// Strict order until the first job that does not start: the pass of a policy without `scheduling`.
    pub(crate) fn run_in_order(&mut self) {
        while let Some(candidate) = self.next() {
            if !matches!(self.start(candidate, None), Ok(Ok(()) | Err(Refusal::Unsatisfiable))) {
                self.holds();
                break;
            }
        }
    }

    /// A pass without an active policy: of the built-in one, unless scheduling is suspended.
    pub(crate) fn run_alone(&mut self) {
        match self.core.suspended_in(self.queue) {
            Some(policy) => self.run_suspended(policy),
            None => self.run_builtin(),
        }
    }

    /// The built-in policy: strict order by priority, submission and id.
    fn run_builtin(&mut self) {
        self.core.stats.builtin_passes += 1;
        self.core.queues[self.queue as usize].counts.builtin += 1;
        while let Some(candidate) = self.next_native() {
            if !matches!(self.start(candidate, None), Ok(Ok(()) | Err(Refusal::Unsatisfiable))) {
                break;
            }
        }
    }

    /// The first breach of the contract, if there was one.
    pub(crate) fn breach(&self) -> Option<&PolicyError> {
        self.breach.as_ref()
    }
}
