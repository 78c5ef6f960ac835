//! Shadows: a candidate policy makes passes on the live traffic, and none of its decisions is carried out.
//!
//! A [`Shadow`] is a second engine. It has a copy of the ledger and of the queues, processes every event, and makes a
//! pass whenever the live engine made one, in the same situation: the jobs that the live pass started still wait. Its
//! decisions are compared with the live ones and undone; then the live decisions are carried out in its copy. So each
//! pass begins with the live state. A job that the candidate would have started earlier goes on waiting, and the
//! candidate proposes it again; the first time counts.
//!
//! A candidate takes the role of the default policy, in all queues without a policy of their own, or of the policy of
//! one queue. In other queues the shadow carries out the live decisions (starts and reservations) in their turn.
//!
//! A shadow shares no state with the live engine and can be stepped later, on another thread. It must never know
//! threads or the clock, and it has no effect on the live engine.

mod tally;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fluxgate_formats::{Idset, JobId, R};

use crate::BUILTIN;
use crate::columns::JobEventKind;
use crate::config::Config;
use crate::core::Core;
use crate::core::job::{NewJob, Running};
use crate::core::scope::{PolicyScope, QueueId, Role};
use crate::engine::Engine;
use crate::event::{Action, Event};
use crate::pass::Staged;
use crate::policies::active::ActivePolicy;
use crate::policy::{Policy, PolicyCost};
use crate::policy_error::PolicyError;

pub use tally::{DIFFERENCES_MAX, Difference, Tally, When};

/// The error with which a shadow ended.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ShadowError {
    /// The candidate failed, or broke the contract.
    #[error(transparent)]
    Failed(#[from] PolicyError),
    /// Its copy differs from the live engine, so that its figures are invalid.
    #[error("the shadow lost track: job {id}: {message}")]
    LostTrack {
        /// The job that showed the difference.
        id: JobId,
        /// The difference.
        message: String,
    },
}

/// The ledger and the settings of a live engine, with which a shadow begins. The waiting jobs follow in portions.
pub struct ShadowBase(Core);

/// A portion of the waiting jobs of a live engine.
pub struct ShadowJobs(Vec<NewJob>);

impl ShadowJobs {
    /// The last job, after which the next portion begins; `None` for an empty portion.
    pub fn last(&self) -> Option<JobId> {
        self.0.last().map(|job| job.id)
    }
}

impl std::fmt::Debug for ShadowBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShadowBase({} running)", self.0.running.len())
    }
}

impl std::fmt::Debug for ShadowJobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShadowJobs({})", self.0.len())
    }
}

/// The decisions of one round of passes of a live engine, for shadows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decisions {
    /// Jobs that were started, with their allocations, in order.
    pub starts: Vec<(JobId, R)>,
    /// The queues for which passes were made, by number.
    queues: Vec<QueueId>,
    /// The reservations in force: job, and start in seconds since the epoch. Empty with a single queue, where shadows do not need
    /// them.
    pub reserved: Vec<(JobId, f64)>,
}

impl Engine {
    /// The decisions behind the actions of the last call of [`Engine::pass`].
    pub fn decisions(&self, actions: &[Action]) -> Decisions {
        let starts = actions.iter().filter_map(|action| match action {
            Action::Start { id, r, .. } => Some((*id, (**r).clone())),
            _ => None,
        });
        let core = &*self.core;
        let several = core.queues.len() > 1;
        let reserved = core.resources.reservations().filter(|_| several);
        Decisions {
            starts: starts.collect(),
            queues: core.passed.clone(),
            reserved: reserved.map(|(id, start, _)| (id, start)).collect(),
        }
    }

    /// The initial state of a shadow. Its cost depends on the machine and the running jobs, not on the waiting ones.
    pub fn shadow_base(&self) -> ShadowBase {
        ShadowBase(self.core.without_waiting())
    }

    /// At most `most` waiting jobs with an id above `after`, or from the first, ascending. The shadow takes them in order with
    /// the events.
    pub fn shadow_jobs(&self, after: Option<JobId>, most: usize) -> ShadowJobs {
        let core = &*self.core;
        let jobs = core.pending_after(after).take(most).filter_map(|(_, slot)| core.copy_of(slot));
        ShadowJobs(jobs.collect())
    }
}

/// A shadow; see the module.
pub struct Shadow {
    engine: Engine,
    tally: Tally,
    /// The queue whose policy the candidate replaces; `None` for the default policy.
    queue: Option<String>,
    /// The candidate, until its queue is known.
    waiting: Option<ActivePolicy>,
    /// The reservations in force between passes: the candidate's in its queues, and the live ones in the others. They
    /// are in the ledger only during passes, so that no other event depends on them.
    standing: Vec<(QueueId, JobId, f64)>,
}

impl std::fmt::Debug for Shadow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shadow").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Shadow {
    /// A shadow of the engine of this base, with a candidate for the policy of this queue, or with `None` for the default policy.
    /// The queue may become known later.
    pub fn new(base: ShadowBase, candidate: Box<dyn Policy>, queue: Option<&str>) -> Shadow {
        let mut core = base.0;
        core.config = own(core.config.clone());
        core.keeps_attributes |= candidate.reads_attributes();
        let mut shadow = Shadow {
            engine: Engine::over(core),
            tally: Tally::default(),
            queue: queue.map(str::to_owned),
            waiting: Some(ActivePolicy::new(candidate)),
            standing: Vec::new(),
        };
        shadow.install();
        shadow
    }

    /// The scope of the candidate; `None` while its queue is unknown.
    fn scope(&self) -> Option<PolicyScope> {
        match &self.queue {
            None => Some(PolicyScope::Default),
            Some(name) => self.engine.core.known_queue(name).map(PolicyScope::Queue),
        }
    }

    /// Makes the candidate the active policy of its scope, as soon as the scope is known.
    fn install(&mut self) {
        let (Some(scope), true) = (self.scope(), self.waiting.is_some()) else { return };
        let Engine { core, policies } = &mut self.engine;
        if let PolicyScope::Queue(queue) = scope {
            core.queues[queue as usize].own = true;
        }
        core.open(scope, Role::Active);
        let slots: Vec<_> = core.queues_in(scope).flat_map(|queue| queue.native.slots()).collect();
        let Some(mut candidate) = self.waiting.take() else { return };
        candidate.to_key.extend(slots.iter().filter_map(|slot| Some(core.job(*slot)?.id)));
        policies.at_or_new(scope).active = Some(candidate);
    }

    /// As [`Engine::set_interrupt`].
    pub fn set_interrupt(&mut self, interrupt: Arc<AtomicBool>) {
        self.engine.set_interrupt(interrupt);
    }

    /// Name of the candidate.
    pub fn name(&self) -> &str {
        match (&self.waiting, self.scope()) {
            (None, Some(scope)) => self.engine.policies.name(scope),
            (waiting, _) => waiting.as_ref().map_or(BUILTIN, |candidate| candidate.policy.name()),
        }
    }

    /// Adds a portion of the live engine's waiting jobs. Jobs that the shadow has already are left out.
    pub fn take(&mut self, jobs: ShadowJobs) {
        for job in jobs.0 {
            let Engine { core, policies } = &mut self.engine;
            // A job that arrived in the meantime is newer than the portion.
            if core.slot_of(job.id).is_none() && !core.running.contains_key(&job.id) {
                let (id, queue) = (job.id, job.queue);
                core.insert(job);
                policies.ask_key(core, id, queue);
            }
        }
    }

    /// Processes an event at the time at which the live engine processed it. Nothing is sent.
    pub fn step(&mut self, event: Event, now: f64) {
        if let Event::Cancel { id } | Event::Alloc { id, .. } = &event {
            self.tally.forget(*id);
        }
        self.engine.step(event, now);
        self.install();
    }

    /// Adopts new settings of the live engine.
    pub fn reconfigure(&mut self, config: Config) {
        self.engine.reconfigure(own(config));
    }

    /// Adopts the live engine's queues, as [`Engine::queue_names`] returns them, if some got or lost a policy of
    /// their own.
    pub fn queues<'a>(&mut self, queues: impl IntoIterator<Item = (&'a str, bool)>) {
        for (name, own) in queues {
            let Engine { core, policies } = &mut self.engine;
            let Some(id) = core.queue_id(name) else { continue };
            let queue = &mut core.queues[id as usize];
            if self.queue.is_some() || queue.own == own {
                continue;
            }
            queue.own = own;
            queue.dirty = !queue.native.is_empty();
            // The jobs of the queue leave the default policy or return to it.
            drop(queue.renew(queue.side(Role::Active), !own));
            let slots: Vec<_> = queue.native.slots().filter(|_| !own).collect();
            let ids: Vec<_> = slots.iter().filter_map(|slot| Some(core.job(*slot)?.id)).collect();
            if let Some(candidate) = policies.active_mut(PolicyScope::Default) {
                candidate.to_key.extend(ids);
            }
        }
        self.install();
    }

    /// Makes the candidate's passes at the time of the live engine's passes, compares the decisions, and carries out the live ones.
    ///
    /// # Errors
    /// [`ShadowError`] if the candidate failed, or the copy differs from the live engine: the shadow must be dropped.
    pub fn pass(&mut self, now: f64, live: &Decisions) -> Result<(), ShadowError> {
        let Some(scope) = self.scope() else {
            return live.starts.iter().try_for_each(|(id, r)| self.engine.follow(*id, r, now));
        };
        let core = &*self.engine.core;
        let elsewhere = |id: JobId| {
            let queue = core.job(core.slot_of(id)?)?.queue;
            (core.scope_of(queue) != scope).then_some(queue)
        };
        let (mut mine, mut others) = (Vec::new(), Others { passed: &live.queues, ..Others::default() });
        for start in &live.starts {
            match elsewhere(start.0) {
                Some(queue) => others.starts.push((queue, start)),
                None => mine.push(start),
            }
        }
        let reserved = live.reserved.iter().filter_map(|(id, start)| Some((elsewhere(*id)?, *id, *start)));
        others.reserved.extend(reserved);
        let looked = self.engine.look(now, scope, &self.standing, &others)?;
        let would_be_free = self.engine.resources().totals().free_cores;
        for (id, _) in &mine {
            let core = &*self.engine.core;
            let Some(job) = core.slot_of(*id).and_then(|slot| core.job(slot)) else { continue };
            self.tally.waits(*id, job.t_submit);
        }
        let (staged, late) = (looked.staged, looked.late);
        staged.undo(&mut self.engine.core);
        self.engine.core.clear_reservations();
        self.standing = looked.standing;
        for (id, r) in late.into_iter().chain(mine.iter().copied()) {
            self.engine.follow(*id, r, now)?;
        }
        let totals = self.engine.resources().totals();
        let busy = |free: u32| f64::from(totals.cores.saturating_sub(free));
        let known = |id: JobId| self.engine.core.slot_of(id).is_some();
        self.tally.pass(now, &staged, mine.iter().map(|(id, _)| *id), known);
        self.tally.used(now, busy(totals.free_cores), busy(would_be_free), f64::from(totals.cores));
        if let Some(candidate) = self.engine.policies.active_mut(scope) {
            candidate.to_key.extend(staged.rekeys);
        }
        Ok(())
    }

    /// The differences of the decisions so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Cost of the candidate so far.
    pub fn cost(&self) -> PolicyCost {
        let own = self.engine.queue_policy_costs().map(|(_, cost)| cost).next();
        own.unwrap_or_else(|| self.engine.policy_cost())
    }

    /// Numbers of waiting and of running jobs in the shadow's copy.
    pub fn jobs(&self) -> (usize, usize) {
        (self.engine.pending(), self.engine.running())
    }
}

/// The settings of the copy, which sends nothing to jobs.
fn own(config: Config) -> Config {
    Config { annotate: false, write_r: false, ..config }
}

/// Live decisions in queues that the candidate does not decide, in their order.
#[derive(Default)]
struct Others<'a> {
    /// Queues for which passes were made, including the candidate's.
    passed: &'a [QueueId],
    starts: Vec<(QueueId, &'a (JobId, R))>,
    reserved: Vec<(QueueId, JobId, f64)>,
}

/// The result of one round of passes.
struct Looked<'a> {
    staged: Staged,
    /// Live starts for which the candidate left no resources.
    late: Vec<&'a (JobId, R)>,
    standing: Vec<(QueueId, JobId, f64)>,
}

impl Core {
    /// Restores the reservation of a job that still waits.
    fn reserve_again(&mut self, id: JobId, start: f64) {
        if let Some(job) = self.slot_of(id).and_then(|slot| self.job(slot)) {
            let (request, duration) = (job.request.clone(), job.duration);
            // A reservation that is refused now protects nothing.
            let _ = self.resources.reserve(id, &request, start, duration);
        }
    }
}

impl Engine {
    /// Makes the due passes of the candidate, and leaves their decisions in the ledger. Queues take turns as in the
    /// live engine.
    fn look<'a>(
        &mut self,
        now: f64,
        scope: PolicyScope,
        standing: &[(QueueId, JobId, f64)],
        others: &Others<'a>,
    ) -> Result<Looked<'a>, PolicyError> {
        self.policies.try_feed(&mut self.core, scope, now)?;
        if scope == PolicyScope::Default {
            self.policies.try_rank_nodes(&mut self.core)?;
        }
        self.core.unpark_helped();
        // The pass of a single queue begins by dropping all reservations.
        let several = self.core.queues.len() > 1;
        for (_, id, start) in standing.iter().filter(|_| several) {
            self.core.reserve_again(*id, *start);
        }
        let mut looked = Looked { staged: Staged::default(), late: Vec::new(), standing: Vec::new() };
        for index in 0..self.core.queues.len() as QueueId {
            let stood = standing.iter().filter(|(queue, ..)| *queue == index);
            if self.core.scope_of(index) != scope {
                for (_, start) in others.starts.iter().filter(|(queue, _)| *queue == index) {
                    if self.follow(start.0, &start.1, now).is_err() {
                        looked.late.push(start);
                    }
                }
                for (_, id, _) in stood {
                    self.core.resources.unreserve(*id);
                }
                for stands in others.reserved.iter().filter(|(queue, ..)| *queue == index) {
                    self.core.reserve_again(stands.1, stands.2);
                    looked.standing.push(*stands);
                }
                continue;
            }
            if !self.core.queues[index as usize].is_due(now) && !others.passed.contains(&index) {
                looked.standing.extend(stood);
                continue;
            }
            for (_, id, _) in stood {
                self.core.resources.unreserve(*id);
            }
            let before = looked.staged.reserved.len();
            let Engine { core, policies } = self;
            core.lend(|core| match policies.propose(core, index, now) {
                (pass, Ok(())) => (pass.stage(&mut looked.staged), Ok(())),
                (pass, Err(error)) => {
                    let mut core = pass.abort(&error);
                    looked.staged.undo(&mut core);
                    (core, Err(error))
                }
            })?;
            let new = looked.staged.reserved[before..].iter();
            looked.standing.extend(new.map(|(id, start)| (index, *id, *start)));
        }
        Ok(looked)
    }

    /// Starts a job that the live engine started; no effect if its resources are not free.
    fn follow(&mut self, id: JobId, r: &R, now: f64) -> Result<(), ShadowError> {
        let end = if r.expiration > 0.0 { r.expiration } else { f64::INFINITY };
        let start = if r.starttime > 0.0 { r.starttime } else { now };
        let core = &mut *self.core;
        core.resources
            .allocate_r(id, r, &Idset::default(), start, end)
            .map_err(|error| ShadowError::LostTrack { id, message: error.to_string() })?;
        let waited = core.slot_of(id).and_then(|slot| core.remove(slot));
        let queue = waited.as_ref().map(|job| job.queue);
        let user = waited.as_ref().map(|job| job.userid);
        let follows = waited.is_some_and(|job| job.duration.is_infinite());
        core.run(id, Running { start, end, follows, committing: true, queue, user });
        self.note(JobEventKind::Started, id, queue, now, end);
        Ok(())
    }
}
