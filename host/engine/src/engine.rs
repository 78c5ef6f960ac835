//! The state machine: events in, actions out, passes in between.
//!
//! [`Engine::step`] does work that depends on the event, not on the number of waiting jobs. [`Engine::pass`] makes
//! one pass for each queue that needs one, whatever the number of events since.
//!
//! Must never know the source of events or the destination of actions.

mod audit;
pub(crate) mod policy_control;
mod reconfigure;
mod running;
mod waiting;
pub(crate) mod windows;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fluxgate_formats::JobId;
use fluxgate_graph::Resources;

use crate::columns::{JobEvent, JobEventKind};
use crate::config::Config;
use crate::core::Core;
use crate::core::scope::QueueId;
use crate::core::unused::UnusedNodes;
use crate::event::{Action, Event};
use crate::feasibility::feasibility;
use crate::lend::Lendable;
use crate::pass::Pass;
use crate::policies::Policies;
use crate::reason::Reason;
use crate::stats::{Removal, Stats};
use crate::trace::PassTrace;

/// A job that holds resources.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunningJob<'a> {
    /// The job.
    pub id: JobId,
    /// The queue that it waited in, empty for the anonymous one; `None` if unknown.
    pub queue: Option<&'a str>,
    /// Its user; `None` if unknown.
    pub userid: Option<u32>,
    /// Its start, seconds since the epoch.
    pub start: f64,
    /// The end of its limit, or of the instance without a limit, seconds since the epoch; infinite without either.
    pub end: f64,
}

/// The scheduler without clock and I/O. It starts with the built-in policy; see [`Engine::swap`].
///
/// `now` is the time in seconds since the epoch in every method. The caller passes finite times that never go back.
pub struct Engine {
    pub(crate) core: Lendable<Core>,
    pub(crate) policies: Policies,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("policy", &self.policy_name()).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine over these resources with these settings, under the built-in policy and without jobs.
    pub fn new(resources: Resources, config: Config) -> Self {
        Engine::over(Core::new(resources, config))
    }

    pub(crate) fn over(core: Core) -> Self {
        Engine { core: Lendable::new(core), policies: Policies::default() }
    }

    /// The machine and its ledger, for reading.
    pub fn resources(&self) -> &Resources {
        &self.core.resources
    }

    /// The settings in force.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// Counters since the engine was made.
    pub fn stats(&self) -> &Stats {
        &self.core.stats
    }

    /// Number of waiting jobs.
    pub fn pending(&self) -> usize {
        self.core.pending_len()
    }

    /// Number of jobs that hold resources.
    pub fn running(&self) -> usize {
        self.core.running.len()
    }

    /// Ids of jobs that hold resources, ascending.
    pub fn running_ids(&self) -> impl Iterator<Item = JobId> {
        self.core.running.keys().copied()
    }

    /// Jobs that hold resources with the data known of each, by ascending id.
    pub fn running_jobs(&self) -> impl Iterator<Item = RunningJob<'_>> {
        let queue = |id: QueueId| self.core.queues.get(id as usize).map(|queue| &*queue.name);
        self.core.running.iter().map(move |(id, job)| RunningJob {
            id: *id,
            queue: job.queue.and_then(queue),
            userid: job.user,
            start: job.start,
            end: job.end,
        })
    }

    /// Ids of jobs that wait, ascending.
    pub fn pending_ids(&self) -> impl Iterator<Item = JobId> {
        self.core.pending_after(None).map(|(id, _)| id)
    }

    /// Why a job waits, as found by the passes so far, without a search; `None` for a job that does not wait.
    pub fn reason(&self, id: JobId) -> Option<&Reason> {
        Some(&self.core.job(self.core.slot_of(id)?)?.reason)
    }

    /// Nodes that are idle and of no use to any waiting job; none while no job waits. Costs a look at each node for each
    /// different request.
    pub fn unused_nodes(&self, now: f64) -> UnusedNodes {
        self.core.unused_nodes(now)
    }

    /// True if a call of [`Engine::pass`] is due at this time: for a queue, for a window, or because a swap is under way.
    pub fn needs_pass(&self, now: f64) -> bool {
        let turns = self.core.windows.wake.is_some_and(|wake| wake <= now);
        turns || self.policies.is_swapping() || self.core.queues.iter().any(|queue| queue.is_due(now))
    }

    /// True if the last call of [`Engine::pass`] made another one necessary at the same time, without any event: a job
    /// lost its reservation, for which jobs of other queues may have waited. At most three times in a row.
    pub fn repeats_pass(&self) -> bool {
        self.core.repeats > 0
    }

    /// The next time at which a pass is due although no event happens, seconds since the epoch; `None` if there is none.
    pub fn next_wake(&self) -> Option<f64> {
        let wakes = self.core.queues.iter().filter_map(|queue| queue.wake);
        wakes.chain(self.core.windows.wake).min_by(f64::total_cmp)
    }

    /// While this flag is raised, a pass offers no further candidates and takes no further decisions. Its decisions
    /// so far are carried out. Reservations that it did not reach are unchanged. Another pass is due at once. It
    /// skips the requests that the first pass found not to fit, so a series of interrupted passes makes progress,
    /// unless each is interrupted at its start. The driver, which has a clock, raises and lowers the flag.
    pub fn set_interrupt(&mut self, interrupt: Arc<AtomicBool>) {
        self.core.interrupt.flag = interrupt;
    }

    /// The check at which the last call of [`Engine::pass`] saw the interrupt; `None` without an interrupt. After the
    /// same events, [`Engine::interrupt_at`] repeats the same pass.
    pub fn interrupted_at(&self) -> Option<u64> {
        self.core.interrupt.seen
    }

    /// Interrupts the next call of [`Engine::pass`] at this check; `None` takes that back.
    pub fn interrupt_at(&mut self, look: Option<u64>) {
        self.core.interrupt.at = look;
    }

    /// Makes traces of passes from now on, or no longer; see [`PassTrace`]. Traces that were not taken are dropped.
    pub fn set_tracing(&mut self, on: bool) {
        self.core.tracing = on.then(Box::default);
    }

    /// The traces of the passes since the last call, in order; empty without tracing.
    pub fn take_traces(&mut self) -> Vec<PassTrace> {
        self.core.tracing.as_mut().map_or_else(Vec::new, |tracing| std::mem::take(&mut tracing.passes))
    }

    /// Processes an event. The driver carries out the returned actions in order; the list may be empty.
    pub fn step(&mut self, event: Event, now: f64) -> Vec<Action> {
        let mut out = Vec::new();
        self.core.stats.event(&event);
        match event {
            Event::Hello { id, r, free, queue, userid, priority, t_submit } => {
                let queue = queue.and_then(|queue| self.core.queue_id(&queue));
                let user = Some(userid).filter(|user| *user != u32::MAX);
                if let Some(user) = user {
                    self.core.priorities.note(user, (id, t_submit), priority);
                }
                self.hello(id, (&r, &free), (queue, user), now, &mut out);
            }
            Event::Alloc { id, priority, userid, t_submit, jobspec } => {
                self.alloc(id, priority, userid, t_submit, &jobspec, now, &mut out);
            }
            Event::Cancel { id } => {
                if self.withdraw(id, Removal::Canceled, now) {
                    out.push(Action::Canceled { id });
                }
            }
            Event::Prioritize { jobs } => {
                for (id, priority) in jobs {
                    self.prioritize(id, priority, now);
                }
            }
            Event::Free { id, ranks, last } => self.free(id, ranks.as_ref(), last, now),
            Event::Expiration { id, expiration, token } => {
                let result = self.expiration(id, expiration, now);
                out.push(Action::Reply { token, result });
            }
            Event::Feasibility { jobspec, token } => {
                let core = &mut *self.core;
                let result =
                    feasibility(&mut core.resources, &core.config.queue_bounds, &core.windows, &jobspec);
                out.push(Action::Reply { token, result });
            }
            Event::Up(ranks) => {
                self.core.change(|r| r.set_up(&ranks));
                self.core.repair_windows(now);
            }
            Event::Down(ranks) => {
                self.core.change(|r| r.set_down(&ranks));
                self.core.repair_windows(now);
            }
            Event::Shrink(ranks) => {
                self.core.change(|r| r.shrink(&ranks));
                self.core.repair_windows(now);
                self.deny_unsatisfiable(now, &mut out);
            }
            Event::PropertyAdd { name, ranks } => self.core.change(|r| r.property_add(&name, &ranks)),
            Event::PropertyRemove { name, ranks } => {
                // A job that waits for the property goes on waiting: the property may come back.
                self.core.change(|r| r.property_remove(&name, &ranks));
            }
            Event::VertexStatus { paths, up } => {
                let mut news = false;
                for path in &paths {
                    news |= self.core.resources.set_vertex_status(path, up).unwrap_or(false);
                }
                if news {
                    self.core.all_dirty();
                }
            }
            Event::VertexProperty { paths, key, value } => {
                let resources = &mut self.core.resources;
                if resources.set_vertex_properties(&paths, &key, value.as_deref()).unwrap_or(false) {
                    self.core.all_dirty();
                }
            }
            Event::Unread(jobs) => {
                if self.core.resources.set_unread(&jobs) {
                    self.core.all_dirty();
                }
            }
            Event::PropertiesUnread(unread) => {
                if self.core.resources.set_properties_unread(unread) {
                    self.core.all_dirty();
                }
            }
            Event::PutWindow(window) => {
                let name = window.name.clone();
                // The request was tried before it was made.
                let _ = self.core.put_window(*window, now);
                // One of the scheduler before may have nodes that are down now.
                self.core.repair_window_of(&name, now);
            }
            Event::RemoveWindow { name } => {
                self.core.remove_window(&name, now);
            }
            Event::InstanceExpiration(end) => self.instance_expiration(end, now),
            Event::Committed { id } => match self.core.running.get_mut(&id) {
                Some(running) => running.committing = false,
                None => self.core.stats.unknown_jobs += 1,
            },
            Event::Recount { jobs, unsettled, complete } => {
                out.push(self.recount(&jobs, &unsettled, complete, now));
            }
            Event::Audit { theirs, unsettled, within } => {
                out.push(Action::Audited(self.audit(&theirs, &unsettled, &within)));
            }
        }
        self.policies.bound_events(&mut self.core, now, &mut out);
        out
    }

    /// Turns windows that begin or end, advances swaps, and makes a pass for each queue that is due, but where the last pass holds beside
    /// the jobs that were submitted since (see [`Pass::holds`]). The driver carries out the returned actions in order.
    pub fn pass(&mut self, now: f64) -> Vec<Action> {
        let mut out = Vec::new();
        self.pass_into(now, &mut out);
        out
    }

    /// The same, with the actions behind those of a list, so that a driver can use its memory again.
    pub fn pass_into(&mut self, now: f64, out: &mut Vec<Action>) {
        self.core.passed.clear();
        if self.core.windows.wake.is_some_and(|wake| wake <= now) {
            self.turn_windows(now, out);
        }
        if self.core.windows.release() {
            self.core.release_idle_windows(now);
        }
        self.core.interrupt.begin();
        if self.core.pending_len() > 0 || !self.policies.are_idle() || self.needs_pass(now) {
            self.run_passes(now, out);
        } else {
            self.core.after_round(None);
        }
        self.core.interrupt.end();
    }

    /// Advances the policies, and makes the passes that are due.
    fn run_passes(&mut self, now: f64, out: &mut Vec<Action>) {
        self.policies.forward_all(&mut self.core, now, out);
        self.policies.feed_all(&mut self.core, now, out);
        self.policies.rank_nodes(&mut self.core, out);
        self.core.unpark_helped();
        let mut reservation_lost = None;
        for index in 0..self.core.queues.len() {
            if self.core.queues[index].is_due(now) && !self.core.leave_out_pass(index as QueueId, now) {
                let interrupted = self.core.stats.interrupted;
                self.core.passed.push(index as QueueId);
                if self.run_pass(index as QueueId, now, out) {
                    reservation_lost = Some(index as QueueId);
                }
                if self.core.stats.interrupted > interrupted {
                    break;
                }
            }
        }
        self.core.after_round(reservation_lost);
    }

    /// True if a job that still waits lost its reservation.
    fn run_pass(&mut self, queue: QueueId, now: f64, out: &mut Vec<Action>) -> bool {
        let Engine { core, policies } = self;
        core.release_reservations(queue, now);
        let (rekeys, started, reservation_lost) = core.lend(|core| {
            let (mut pass, result) = policies.propose(core, queue, now);
            if let Err(error) = result {
                // The pass is a transaction: all of its decisions are undone, and the built-in policy decides
                // instead.
                let mut core = pass.abort(&error);
                let scope = core.scope_of(queue);
                policies.fail(&mut core, scope, error, out);
                pass = Pass::new(core, queue, now);
                pass.decided_by(crate::BUILTIN);
                pass.run_alone();
            }
            let outcome = pass.commit(out);
            (outcome.core, (outcome.rekeys, outcome.started, outcome.reservation_lost))
        });
        if let Some(active) = policies.active_mut(core.scope_of(queue)) {
            active.to_key.extend(rekeys);
        }
        for (id, end) in started {
            self.note(JobEventKind::Started, id, Some(queue), now, end);
        }
        reservation_lost
    }

    /// Notes an event of a job for the policies.
    pub(crate) fn note(
        &mut self,
        kind: JobEventKind,
        job: JobId,
        queue: Option<QueueId>,
        time: f64,
        value: f64,
    ) {
        if let Some(queue) = queue.and_then(|queue| self.core.queues.get_mut(queue as usize)) {
            match kind {
                JobEventKind::Pending => queue.counts.submitted += 1,
                JobEventKind::Ended => queue.counts.ended += 1,
                _ => {}
            }
        }
        self.policies.note(&self.core, queue, JobEvent { kind, job, time, value });
    }
}
