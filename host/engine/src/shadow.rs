//! Shadows: a candidate makes its passes on the live traffic, and nothing of it is carried out.
//!
//! A [`Shadow`] is a second engine. It has a copy of the ledger and of the queue, hears every event, and makes a pass
//! whenever the live engine made one: on the same situation, that is with what the live pass started still waiting.
//! Its decisions are compared with the live ones, and taken back; then the live ones are carried out in its copy. So
//! each pass begins from what really is. A job that the candidate would have started earlier goes on waiting there as
//! well, and the candidate proposes it again; the first time counts.
//!
//! A candidate stands for the default policy, and is asked for all queues without a policy of their own; or for the policy
//! of one queue. What happens in other queues is followed in its turn: their starts, and the guarantees that stand there.
//!
//! It shares nothing with the live engine, and can be stepped on another thread, later. It must never know threads or
//! the clock, and nothing of it reaches the live engine.

mod tally;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fluxgate_formats::{Idset, JobId, R};

use crate::BUILTIN;
use crate::config::Config;
use crate::core::post::{At, Post};
use crate::core::{Core, NewJob, QueueId, Running};
use crate::engine::Engine;
use crate::event::{Action, Event};
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

/// What the passes of a live engine decided, for those who follow it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Passed {
    /// Jobs that were started.
    pub starts: Vec<(JobId, R)>,
    /// The queues for which passes were made, by number.
    queues: Vec<QueueId>,
    /// The guarantees that stand now, job and time; empty while there is but one queue, where nobody has to know.
    pub reserved: Vec<(JobId, f64)>,
}

impl Engine {
    /// What was decided, if these are the actions of the last call of [`Engine::pass`].
    pub fn passed(&self, actions: &[Action]) -> Passed {
        let starts = actions.iter().filter_map(|action| match action {
            Action::Start { id, r, .. } => Some((*id, (**r).clone())),
            _ => None,
        });
        let core = self.core();
        let several = core.queues.len() > 1;
        let reserved = core.resources.reservations().filter(|_| several);
        Passed {
            starts: starts.collect(),
            queues: self.last.clone(),
            reserved: reserved.map(|(id, start, _)| (id, start)).collect(),
        }
    }

    /// The queues that were heard of, in this order, and which of them have a policy of their own.
    pub fn queue_names(&self) -> impl Iterator<Item = (&str, bool)> {
        self.core().queues.iter().map(|queue| (queue.name.as_str(), queue.own))
    }

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
    /// The queue whose policy the candidate would be; `None` for the default one.
    queue: Option<String>,
    /// The candidate, until its queue is heard of.
    waiting: Option<Seat>,
    /// The guarantees that stand between passes: those of the candidate in its queues, and the live ones in the others. They are in the ledger during passes only, so that no other event is judged by them.
    standing: Vec<(QueueId, JobId, f64)>,
}

impl std::fmt::Debug for Shadow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shadow").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Shadow {
    /// A shadow of the engine that this comes from, with a candidate for the default policy or for that of one queue.
    pub fn new(base: ShadowBase, candidate: Box<dyn Policy>, queue: Option<&str>) -> Shadow {
        let mut core = base.0;
        core.config = own(core.config.clone());
        let mut shadow = Shadow {
            engine: Engine::over(core),
            tally: Tally::default(),
            queue: queue.map(str::to_owned),
            waiting: Some(Seat::new(candidate)),
            standing: Vec::new(),
        };
        shadow.sit();
        shadow
    }

    /// Where the candidate sits; `None` while nobody heard of its queue.
    fn post(&self) -> Option<Post> {
        match &self.queue {
            None => Some(Post::Default),
            Some(name) => self.engine.core().known_queue(name).map(Post::Queue),
        }
    }

    fn sit(&mut self) {
        let (Some(post), true) = (self.post(), self.waiting.is_some()) else { return };
        let core = self.engine.core_mut();
        if let Post::Queue(queue) = post {
            core.queues[queue as usize].own = true;
        }
        core.open(post, At::Live);
        let slots: Vec<_> = core.queues_of(post).flat_map(|queue| queue.native.values().copied()).collect();
        let Some(mut seat) = self.waiting.take() else { return };
        seat.to_key.extend(slots.iter().filter_map(|slot| Some(core.job(*slot)?.id)));
        self.engine.set_live(post, seat);
    }

    /// As [`Engine::set_interrupt`].
    pub fn set_interrupt(&mut self, interrupt: Arc<AtomicBool>) {
        self.engine.set_interrupt(interrupt);
    }

    /// Name of the candidate.
    pub fn name(&self) -> &str {
        match (&self.waiting, self.post()) {
            (None, Some(post)) => self.engine.name_at(post),
            (seat, _) => seat.as_ref().map_or(BUILTIN, |seat| seat.policy.name()),
        }
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
        self.sit();
    }

    /// The live engine has other settings.
    pub fn reconfigure(&mut self, config: Config) {
        self.engine.reconfigure(own(config));
    }

    /// The queues of the live engine, as [`Engine::queue_names`] says them: some may have a policy of their own now, or none
    /// any more.
    pub fn queues<'a>(&mut self, queues: impl IntoIterator<Item = (&'a str, bool)>) {
        for (name, own) in queues {
            let core = self.engine.core_mut();
            let Some(id) = core.queue_id(name) else { continue };
            let queue = &mut core.queues[id as usize];
            if self.queue.is_some() || queue.own == own {
                continue;
            }
            queue.own = own;
            queue.dirty = !queue.native.is_empty();
            // For the default policy jobs are gone or new.
            drop(queue.renew(queue.side(At::Live), !own));
            let slots: Vec<_> = queue.native.values().copied().filter(|_| !own).collect();
            let ids: Vec<_> = slots.iter().filter_map(|slot| Some(core.job(*slot)?.id)).collect();
            if let Some(seat) = &mut self.engine.live {
                seat.to_key.extend(ids);
            }
        }
        self.sit();
    }

    /// The live engine made its passes at this time, and this is what they decided. The candidate makes its own, and what
    /// they decided is compared.
    ///
    /// # Errors
    /// [`ShadowError`]: the shadow is of no use any more.
    pub fn passed(&mut self, now: f64, live: &Passed) -> Result<(), ShadowError> {
        let Some(post) = self.post() else {
            return live.starts.iter().try_for_each(|(id, r)| self.engine.follow(*id, r, now));
        };
        let core = self.engine.core();
        let elsewhere = |id: JobId| {
            let queue = core.job(core.slot_of(id)?)?.queue;
            (core.post_of(queue) != post).then_some(queue)
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
        let looked = self.engine.look(now, post, &self.standing, &others)?;
        let would_be_free = self.engine.resources().totals().free_cores;
        for (id, _) in &mine {
            let core = self.engine.core();
            let Some(job) = core.slot_of(*id).and_then(|slot| core.job(slot)) else { continue };
            self.tally.waits(*id, job.t_submit);
        }
        let (staged, late) = (looked.staged, looked.late);
        staged.undo(self.engine.core_mut());
        self.engine.clear_reservations();
        self.standing = looked.standing;
        for (id, r) in late.into_iter().chain(mine.iter().copied()) {
            self.engine.follow(*id, r, now)?;
        }
        let totals = self.engine.resources().totals();
        let busy = |free: u32| f64::from(totals.cores.saturating_sub(free));
        let known = |id: JobId| self.engine.core().slot_of(id).is_some();
        self.tally.pass(now, &staged, mine.iter().map(|(id, _)| *id), known);
        self.tally.used(now, busy(totals.free_cores), busy(would_be_free), f64::from(totals.cores));
        if let Some(seat) = self.engine.live_at(post) {
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
        let own = self.engine.own_costs().map(|(_, cost)| cost).next();
        own.unwrap_or_else(|| self.engine.policy_cost())
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

/// What live policies decided in queues that the candidate does not decide, in the order in which it was.
#[derive(Default)]
struct Others<'a> {
    /// Queues for which passes were made, whoever decides them.
    passed: &'a [QueueId],
    starts: Vec<(QueueId, &'a (JobId, R))>,
    reserved: Vec<(QueueId, JobId, f64)>,
}

/// What a round of passes gave.
struct Looked<'a> {
    staged: Staged,
    /// Live starts for which the candidate left no room.
    late: Vec<&'a (JobId, R)>,
    standing: Vec<(QueueId, JobId, f64)>,
}

impl Engine {
    /// Make the passes of the candidate that are due, and leave in the ledger what they decided. Queues have their turns as
    /// in the live engine.
    fn look<'a>(
        &mut self,
        now: f64,
        post: Post,
        standing: &[(QueueId, JobId, f64)],
        others: &Others<'a>,
    ) -> Result<Looked<'a>, PolicyError> {
        if let Some(mut seat) = self.take_live(post) {
            let fed = seat.feed(self.core_mut(), now, post, At::Live);
            self.set_live(post, seat);
            fed?;
        }
        if post == Post::Default {
            self.try_rank_nodes()?;
        }
        self.unpark_helped();
        // The pass of a single queue would begin by dropping them all.
        let several = self.core().queues.len() > 1;
        for (_, id, start) in standing.iter().filter(|_| several) {
            self.guarantee(*id, *start);
        }
        let mut looked = Looked { staged: Staged::default(), late: Vec::new(), standing: Vec::new() };
        for index in 0..self.core().queues.len() as QueueId {
            let stood = standing.iter().filter(|(queue, ..)| *queue == index);
            if self.core().post_of(index) != post {
                for (_, start) in others.starts.iter().filter(|(queue, _)| *queue == index) {
                    if self.follow(start.0, &start.1, now).is_err() {
                        looked.late.push(start);
                    }
                }
                for (_, id, _) in stood {
                    self.core_mut().resources.unreserve(*id);
                }
                for stands in others.reserved.iter().filter(|(queue, ..)| *queue == index) {
                    self.guarantee(stands.1, stands.2);
                    looked.standing.push(*stands);
                }
                continue;
            }
            let queue = &self.core().queues[index as usize];
            let due = queue.dirty || queue.wake.is_some_and(|wake| wake <= now);
            if !due && !others.passed.contains(&index) {
                looked.standing.extend(stood);
                continue;
            }
            for (_, id, _) in stood {
                self.core_mut().resources.unreserve(*id);
            }
            let Some((pass, result)) = self.propose(index, now) else { break };
            let verdict = match pass.breach() {
                Some(breach) => Err(breach.clone()),
                None => result,
            };
            if let Err(error) = verdict {
                let mut core = pass.abort();
                looked.staged.undo(&mut core);
                self.core = Some(core);
                return Err(error);
            }
            let before = looked.staged.reserved.len();
            self.core = Some(pass.stage(&mut looked.staged));
            let new = looked.staged.reserved[before..].iter();
            looked.standing.extend(new.map(|(id, start)| (index, *id, *start)));
        }
        Ok(looked)
    }

    /// This job has a guarantee, if it still waits.
    fn guarantee(&mut self, id: JobId, start: f64) {
        let core = self.core_mut();
        if let Some(job) = core.slot_of(id).and_then(|slot| core.job(slot)) {
            let (request, duration) = (job.request.clone(), job.duration);
            // Where there is no room for it any more there is nothing to protect.
            let _ = core.resources.reserve(id, &request, start, duration);
        }
    }

    fn clear_reservations(&mut self) {
        let core = self.core_mut();
        let standing: Vec<JobId> = core.resources.reservations().map(|(id, ..)| id).collect();
        for id in standing {
            core.resources.unreserve(id);
        }
    }

    /// What the live engine started starts here too; nothing happens if there is no room for it.
    fn follow(&mut self, id: JobId, r: &R, now: f64) -> Result<(), ShadowError> {
        let end = if r.expiration > 0.0 { r.expiration } else { f64::INFINITY };
        let start = if r.starttime > 0.0 { r.starttime } else { now };
        let core = self.core_mut();
        core.resources
            .allocate_r(id, r, &Idset::default(), start, end)
            .map_err(|error| ShadowError::LostTrack { id, message: error.to_string() })?;
        let waited = core.slot_of(id).and_then(|slot| core.remove(slot));
        let queue = waited.as_ref().map(|job| job.queue);
        let user = waited.as_ref().map(|job| job.userid);
        let follows = waited.is_some_and(|job| job.duration.is_infinite());
        core.running.insert(id, Running { start, end, follows, committing: true, queue, user });
        self.note(JobEventKind::Started, id, queue, now, end);
        Ok(())
    }
}
