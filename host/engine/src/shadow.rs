//! Shadows: a candidate makes its passes on the live traffic, and nothing of it is carried out.
//!
//! A [`Shadow`] is a second engine. It has a copy of the ledger and of the queue, hears every event, and makes a pass
//! whenever the live engine made one: on the same situation, that is with what the live pass started still waiting.
//! Its decisions are compared with the live ones, and taken back; then the live ones are carried out in its copy. So
//! each pass begins from what really is. A job that the candidate would have started earlier goes on waiting there as
//! well, and the candidate proposes it again; the first time counts.
//!
//! It shares nothing with the live engine, and can be stepped on another thread, later. It must never know threads or
//! the clock, and nothing of it reaches the live engine.

mod tally;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fluxgate_formats::{Idset, JobId, R};

use crate::config::Config;
use crate::core::post::{At, Post};
use crate::core::{Core, NewJob, Running};
use crate::engine::Engine;
use crate::event::Event;
use crate::pass::Staged;
use crate::policy::{JobEventKind, Policy, PolicyCost, PolicyError};
use crate::swap::Seat;

pub use tally::{DIFFERENCES_MAX, Difference, Tally, When};

/// Why a shadow ended.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ShadowError {
    /// The candidate failed.
    #[error(transparent)]
    Failed(#[from] PolicyError),
    /// Its copy is not what the live engine has. Nothing that it says can be relied upon.
    #[error("the shadow lost track: job {id}: {message}")]
    LostTrack {
        /// The job that showed it.
        id: JobId,
        /// What did not fit.
        message: String,
    },
}

/// The ledger and the settings of a live engine, to begin a shadow with; the jobs that wait follow in portions.
pub struct ShadowBase(Box<Core>);

/// Some of the jobs that wait in a live engine.
pub struct ShadowJobs(Vec<NewJob>);

impl ShadowJobs {
    /// The last one, where the next portion begins; `None` when there are no more.
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

impl Engine {
    /// What a shadow begins with. Its cost depends on the machine and on who runs, not on who waits.
    pub fn shadow_base(&self) -> ShadowBase {
        ShadowBase(Box::new(self.core().sketch()))
    }

    /// The next jobs that wait, above this id, in ascending order; at most so many. To be handed to the shadow in order
    /// with all that happens.
    pub fn shadow_jobs(&self, after: Option<JobId>, most: usize) -> ShadowJobs {
        let core = self.core();
        let jobs = core.pending_after(after).take(most).filter_map(|(_, slot)| core.copy_of(slot));
        ShadowJobs(jobs.collect())
    }
}

/// See the module text.
pub struct Shadow {
    engine: Engine,
    tally: Tally,
}

impl std::fmt::Debug for Shadow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shadow").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Shadow {
    /// A shadow of the engine that this comes from, with this candidate.
    pub fn new(base: ShadowBase, candidate: Box<dyn Policy>) -> Shadow {
        let mut core = base.0;
        core.config = own(core.config.clone());
        core.open(Post::Default, At::Live);
        let mut engine = Engine::over(core);
        engine.live = Some(Seat::new(candidate));
        Shadow { engine, tally: Tally::default() }
    }

    /// As [`Engine::set_interrupt`].
    pub fn set_interrupt(&mut self, interrupt: Arc<AtomicBool>) {
        self.engine.set_interrupt(interrupt);
    }

    /// Name of the candidate.
    pub fn name(&self) -> &str {
        self.engine.policy_name()
    }

    /// Jobs that waited in the live engine.
    pub fn take(&mut self, jobs: ShadowJobs) {
        for job in jobs.0 {
            let core = self.engine.core_mut();
            // One that came in the meantime is known better.
            if core.slot_of(job.id).is_none() && !core.running.contains_key(&job.id) {
                let (id, queue) = (job.id, job.queue);
                core.insert(job);
                self.engine.ask_key(id, queue);
            }
        }
    }

    /// Something happened that the live engine took in, and did not refuse.
    pub fn step(&mut self, event: Event, now: f64) {
        if let Event::Cancel { id } | Event::Alloc { id, .. } = &event {
            self.tally.forget(*id);
        }
        self.engine.step(event, now);
    }

    /// The live engine has other settings.
    pub fn reconfigure(&mut self, config: Config) {
        self.engine.reconfigure(own(config));
    }

    /// The live engine made its passes at this time, and started these. The candidate makes its own, and what they
    /// decided is compared.
    ///
    /// # Errors
    /// [`ShadowError`]: the shadow is of no use any more.
    pub fn passed(&mut self, now: f64, starts: &[(JobId, R)]) -> Result<(), ShadowError> {
        let staged = self.engine.look(now)?;
        let would_be_free = self.engine.resources().totals().free_cores;
        for (id, _) in starts {
            let core = self.engine.core();
            let Some(job) = core.slot_of(*id).and_then(|slot| core.job(slot)) else { continue };
            self.tally.waits(*id, job.t_submit);
        }
        staged.undo(self.engine.core_mut());
        for (id, r) in starts {
            self.engine.follow(*id, r, now)?;
        }
        let totals = self.engine.resources().totals();
        let busy = |free: u32| f64::from(totals.cores.saturating_sub(free));
        let known = |id: JobId| self.engine.core().slot_of(id).is_some();
        self.tally.pass(now, &staged, starts.iter().map(|(id, _)| *id), known);
        self.tally.used(now, busy(totals.free_cores), busy(would_be_free), f64::from(totals.cores));
        if let Some(seat) = &mut self.engine.live {
            seat.to_key.extend(staged.rekeys);
        }
        Ok(())
    }

    /// How the decisions differ so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What the candidate cost so far.
    pub fn cost(&self) -> PolicyCost {
        self.engine.policy_cost()
    }

    /// Jobs that wait and jobs that run in its copy.
    pub fn jobs(&self) -> (usize, usize) {
        (self.engine.pending(), self.engine.running())
    }
}

/// The settings of the copy: nobody is told anything.
fn own(config: Config) -> Config {
    Config { annotate: false, write_r: false, ..config }
}

impl Engine {
    /// Make the passes that are due, and leave in the ledger what they decided.
    fn look(&mut self, now: f64) -> Result<Staged, PolicyError> {
        if let Some(mut seat) = self.live.take() {
            let fed = seat.feed(self.core_mut(), now, Post::Default, At::Live);
            self.live = Some(seat);
            fed?;
        }
        self.unpark_helped();
        let mut staged = Staged::default();
        for index in 0..self.core().queues.len() {
            let queue = &self.core().queues[index];
            if !queue.dirty && queue.wake.is_none_or(|wake| wake > now) {
                continue;
            }
            let Some((pass, result)) = self.propose(index as u32, now) else { break };
            let verdict = match pass.breach() {
                Some(breach) => Err(breach.clone()),
                None => result,
            };
            if let Err(error) = verdict {
                let mut core = pass.abort();
                staged.undo(&mut core);
                self.core = Some(core);
                return Err(error);
            }
            let core = pass.stage(&mut staged);
            self.core = Some(core);
        }
        Ok(staged)
    }

    /// What the live engine started starts here too.
    fn follow(&mut self, id: JobId, r: &R, now: f64) -> Result<(), ShadowError> {
        let end = if r.expiration > 0.0 { r.expiration } else { f64::INFINITY };
        let core = self.core_mut();
        let waited = core.slot_of(id).and_then(|slot| core.remove(slot));
        let start = if r.starttime > 0.0 { r.starttime } else { now };
        core.resources
            .allocate_r(id, r, &Idset::default(), start, end)
            .map_err(|error| ShadowError::LostTrack { id, message: error.to_string() })?;
        let queue = waited.as_ref().map(|job| job.queue);
        let follows = waited.is_some_and(|job| job.duration.is_infinite());
        core.running.insert(id, Running { start, end, follows, committing: true, queue });
        self.note(JobEventKind::Started, id, queue, now, end);
        Ok(())
    }
}
