//! The state machine: events in, actions out, passes in between.
//!
//! [`Engine::step`] does work that depends on the event, not on what waits; [`Engine::pass`] runs one pass
//! for each queue that has a reason for one, however many events gave it that reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::{Idset, JobId, Jobspec};
use fluxgate_graph::{Placement, Resources};

use crate::BUILTIN;
use crate::config::Config;
use crate::core::{Core, NewJob, QueueId};
use crate::event::{Action, Event};
use crate::pass::Pass;
use crate::policy::{JobEventKind, PolicyCost, PolicyError, SavedState};
use crate::recover::{HOLDS, feasibility};
use crate::seats::Own;
use crate::stats::Stats;
use crate::swap::{Retired, Seat, WarmUp};

/// Most characters of a refused value that are repeated.
const FOUND_MAX: usize = 60;

/// The scheduler without its surroundings. Starts with the built-in policy; see [`Engine::swap`].
pub struct Engine {
    /// Away only while a pass has it.
    pub(crate) core: Option<Box<Core>>,
    /// The default policy, and its successor on the way.
    pub(crate) live: Option<Seat>,
    pub(crate) warm_up: Option<WarmUp>,
    /// The queues with a policy of their own, or with one on its way.
    pub(crate) own: BTreeMap<QueueId, Own>,
    pub(crate) retired: Retired,
    /// The resource epoch for which classes were last taken back from parking.
    pub(crate) epoch: u64,
    /// What the next successor is offered.
    pub(crate) offer: Option<SavedState>,
    /// The queues for which the last call of [`Engine::pass`] made passes.
    pub(crate) last: Vec<QueueId>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("policy", &self.policy_name()).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine over these resources, with no jobs.
    pub fn new(resources: Resources, config: Config) -> Self {
        Engine::over(Box::new(Core::new(resources, config)))
    }

    pub(crate) fn over(core: Box<Core>) -> Self {
        let epoch = core.resources.epoch();
        Engine {
            core: Some(core),
            live: None,
            warm_up: None,
            own: BTreeMap::new(),
            retired: Retired::default(),
            epoch,
            offer: None,
            last: Vec::new(),
        }
    }

    pub(crate) fn core(&self) -> &Core {
        self.core.as_deref().expect("the core is away only inside `run_pass`")
    }

    pub(crate) fn core_mut(&mut self) -> &mut Core {
        self.core.as_deref_mut().expect("the core is away only inside `run_pass`")
    }

    /// The ledger and the graph, to be looked at.
    pub fn resources(&self) -> &Resources {
        &self.core().resources
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.core().config
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        self.core().stats
    }

    /// Number of waiting jobs.
    pub fn pending(&self) -> usize {
        self.core().pending_len()
    }

    /// Number of jobs that hold resources.
    pub fn running(&self) -> usize {
        self.core().running.len()
    }

    /// Jobs that hold resources, ascending.
    pub fn running_ids(&self) -> impl Iterator<Item = JobId> {
        self.core().running.keys().copied()
    }

    /// Jobs that wait, ascending.
    pub fn pending_ids(&self) -> impl Iterator<Item = JobId> {
        self.core().pending_after(None).map(|(id, _)| id)
    }

    /// Name of the default policy: it decides all queues without a policy of their own.
    pub fn policy_name(&self) -> &str {
        self.live.as_ref().map_or(BUILTIN, |seat| seat.policy.name())
    }

    /// Its cost, nothing for the built-in one.
    pub fn policy_cost(&self) -> PolicyCost {
        self.live.as_ref().map(|seat| seat.policy.cost()).unwrap_or_default()
    }

    /// Is there anything for [`Engine::pass`] to do now?
    pub fn needs_pass(&self, now: f64) -> bool {
        self.is_swapping()
            || self.core().queues.iter().any(|q| q.dirty || q.wake.is_some_and(|wake| wake <= now))
    }

    /// The next time at which a pass is due although nothing happens.
    pub fn next_wake(&self) -> Option<f64> {
        self.core().queues.iter().filter_map(|q| q.wake).min_by(f64::total_cmp)
    }

    /// What earlier swaps left behind; dropping it may take a while, so do that beside the engine.
    pub fn take_retired(&mut self) -> Retired {
        std::mem::take(&mut self.retired)
    }

    /// Take an event in. See [`Action`] for what comes out.
    pub fn step(&mut self, event: Event, now: f64) -> Vec<Action> {
        let mut out = Vec::new();
        self.core_mut().stats.events += 1;
        match event {
            Event::Hello { id, r, free, queue, .. } => {
                let queue = queue.and_then(|queue| self.core_mut().queue_id(&queue));
                self.hello(id, &r, &free, queue, now, &mut out);
            }
            Event::Alloc { id, priority, userid, t_submit, jobspec } => {
                self.alloc(id, priority, userid, t_submit, &jobspec, now, &mut out);
            }
            Event::Cancel { id } => {
                if self.withdraw(id, now) {
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
                let core = self.core_mut();
                let result = feasibility(&mut core.resources, &core.config.queue_bounds, &jobspec);
                out.push(Action::Reply { token, result });
            }
            Event::Up(ranks) => self.change(|r| r.set_up(&ranks)),
            Event::Down(ranks) => self.change(|r| r.set_down(&ranks)),
            Event::Shrink(ranks) => {
                self.change(|r| r.shrink(&ranks));
                self.deny_unsatisfiable(now, &mut out);
            }
            Event::PropertyAdd { name, ranks } => self.change(|r| r.property_add(&name, &ranks)),
            Event::PropertyRemove { name, ranks } => {
                self.change(|r| r.property_remove(&name, &ranks));
                self.deny_unsatisfiable(now, &mut out);
            }
            Event::InstanceExpiration(end) => self.instance_expiration(end, now),
            Event::Committed { id } => match self.core_mut().running.get_mut(&id) {
                Some(running) => running.committing = false,
                None => self.core_mut().stats.unknown_jobs += 1,
            },
            Event::Recount { jobs, unsettled, complete } => {
                out.push(self.recount(&jobs, &unsettled, complete, now));
            }
            Event::Audit { theirs, unsettled, within } => {
                out.push(Action::Audited(self.audit(&theirs, &unsettled, &within)));
            }
        }
        self.bound_events(now, &mut out);
        out
    }

    /// Bring swaps forward and make the passes that are due.
    pub fn pass(&mut self, now: f64) -> Vec<Action> {
        let mut out = Vec::new();
        self.last.clear();
        self.core_mut().interrupt.begin();
        self.forward_swaps(now, &mut out);
        self.feed_all(now, &mut out);
        self.rank_nodes(&mut out);
        self.unpark_helped();
        for index in 0..self.core().queues.len() {
            let queue = &self.core().queues[index];
            if queue.dirty || queue.wake.is_some_and(|wake| wake <= now) {
                let cut = self.core().stats.interrupted;
                self.last.push(index as QueueId);
                self.run_pass(index as QueueId, now, &mut out);
                if self.core().stats.interrupted > cut {
                    break;
                }
            }
        }
        self.core_mut().interrupt.end();
        out
    }

    /// Take back from parking what a change since the last pass could help.
    pub(crate) fn unpark_helped(&mut self) {
        let epoch = self.core().resources.epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            let Core { queues, resources, .. } = self.core_mut();
            for queue in queues {
                queue.unpark(resources);
            }
        }
    }

    /// The pass of one queue, by whoever decides. Nothing is final yet; the core is away until it is put back.
    pub(crate) fn propose(&mut self, index: QueueId, now: f64) -> Option<(Pass, Result<(), PolicyError>)> {
        let post = self.core().post_of(index);
        let core = self.core.take()?;
        Some(match self.live_at(post) {
            Some(seat) if seat.policy.abilities().scheduling => seat.policy.run(Pass::new(core, index, now)),
            live => {
                let alone = live.is_none();
                let mut pass = Pass::new(core, index, now);
                if alone {
                    pass.run_alone()
                } else {
                    pass.run_in_order()
                }
                (pass, Ok(()))
            }
        })
    }

    fn run_pass(&mut self, index: QueueId, now: f64, out: &mut Vec<Action>) {
        let core = self.core_mut();
        for id in core.queues[index as usize].reserved.clone() {
            core.resources.unreserve(id);
        }
        let Some((mut pass, result)) = self.propose(index, now) else { return };
        let verdict = match pass.breach() {
            Some(breach) => Err(breach.clone()),
            None => result,
        };
        if let Err(error) = verdict {
            // The pass is a transaction: nothing of it stays, and the built-in policy decides instead.
            self.core = Some(pass.abort());
            let post = self.core().post_of(index);
            self.fail_live(post, error, out);
            let Some(core) = self.core.take() else { return };
            pass = Pass::new(core, index, now);
            pass.run_alone();
        }
        let outcome = pass.commit(out);
        self.core = Some(outcome.core);
        let post = self.core().post_of(index);
        if let Some(seat) = self.live_at(post) {
            seat.to_key.extend(outcome.rekeys);
        }
        for (id, end) in outcome.started {
            self.note(JobEventKind::Started, id, Some(index), now, end);
        }
    }

    fn change(&mut self, apply: impl FnOnce(&mut Resources)) {
        let core = self.core_mut();
        apply(&mut core.resources);
        core.all_dirty();
    }

    #[allow(clippy::too_many_arguments)] // the fields of one event
    fn alloc(
        &mut self,
        id: JobId,
        priority: u32,
        userid: u32,
        t_submit: f64,
        jobspec: &Arc<Jobspec>,
        now: f64,
        out: &mut Vec<Action>,
    ) {
        let core = self.core_mut();
        if core.running.contains_key(&id) {
            // Legal after a race in the job manager; SUCCESS would end the interface (EEXIST).
            core.stats.denied += 1;
            out.push(Action::Deny { id, note: HOLDS.to_owned() });
            return;
        }
        self.withdraw(id, now);
        let core = self.core_mut();
        let accepted =
            core.resources.compile_shared(jobspec).map_err(|e| e.to_string()).and_then(|request| {
                core.resources.satisfiable(&request).map_err(|e| e.to_string())?;
                let placement = wanted_placement(jobspec)?;
                let queue = jobspec.queue().unwrap_or("");
                let queue = core
                    .queue_id(queue)
                    .ok_or_else(|| format!("queue {queue}: more than {} queues", core.config.queues_max))?;
                if let Some(why) = core.never_within(queue, &request) {
                    return Err(why);
                }
                Ok((request, queue, placement))
            });
        let (request, queue, placement) = match accepted {
            Ok(accepted) => accepted,
            Err(note) => {
                core.stats.denied += 1;
                out.push(Action::Deny { id, note });
                return;
            }
        };
        let asked = jobspec.duration();
        let duration = if asked > 0.0 { asked } else { f64::INFINITY };
        let whole = placement.unwrap_or(core.placement_of(queue)).whole_nodes();
        let request = core.resources.with_whole_nodes(&request, whole);
        core.insert(NewJob { id, priority, userid, t_submit, duration, queue, request, placement });
        self.ask_key(id, queue);
        self.note(JobEventKind::Pending, id, Some(queue), now, 0.0);
    }

    /// Take a waiting job out; false if it does not wait.
    pub(crate) fn withdraw(&mut self, id: JobId, now: f64) -> bool {
        let core = self.core_mut();
        let Some(slot) = core.slot_of(id) else {
            return false;
        };
        let mut queue = None;
        if let Some(job) = core.remove(slot) {
            queue = Some(job.queue);
            core.resources.unreserve(id);
            let queue = &mut core.queues[job.queue as usize];
            queue.reserved.retain(|other| *other != id);
            // It may have been what the queue waited for.
            queue.dirty = true;
        }
        self.note(JobEventKind::Removed, id, queue, now, 0.0);
        true
    }

    fn prioritize(&mut self, id: JobId, priority: u32, now: f64) {
        let core = self.core_mut();
        let Some(slot) = core.slot_of(id) else {
            core.stats.unknown_jobs += 1;
            return;
        };
        let Some(queue) = core.job(slot).filter(|job| job.priority != priority).map(|job| job.queue) else {
            return;
        };
        core.set_priority(slot, priority);
        self.ask_key(id, queue);
        self.note(JobEventKind::Priority, id, Some(queue), now, f64::from(priority));
    }

    pub(crate) fn free(&mut self, id: JobId, ranks: Option<&Idset>, last: bool, now: f64) {
        let core = self.core_mut();
        if !core.running.contains_key(&id) {
            core.stats.unknown_jobs += 1;
            return;
        }
        let mut gone = core.resources.release(id, ranks).unwrap_or(false);
        if last && !gone {
            gone = core.resources.release(id, None).unwrap_or(true);
        }
        core.all_dirty();
        if gone || last {
            let (start, queue) = core.running.remove(&id).map_or((0.0, None), |running| {
                core.habits.ended(&running, now);
                (running.start, running.queue)
            });
            self.note(JobEventKind::Ended, id, queue, now, start);
        }
    }

    /// After the inventory lost something: deny what can never run any more (RFC 27, DENY).
    fn deny_unsatisfiable(&mut self, now: f64, out: &mut Vec<Action>) {
        let core = self.core();
        let mut lost = Vec::new();
        for queue in &core.queues {
            for (class, info) in queue.class_ids() {
                if let Err(why) = core.resources.satisfiable(&info.request) {
                    let queue_id = queue.native.values();
                    let members =
                        queue_id.filter_map(|slot| core.job(*slot)).filter(|job| job.class == class);
                    lost.extend(members.map(|job| (job.id, why.to_string())));
                }
            }
        }
        for (id, note) in lost {
            self.withdraw(id, now);
            self.core_mut().stats.denied += 1;
            out.push(Action::Deny { id, note });
        }
    }
}

/// The placement that a jobspec names in `attributes.system.fluxgate.placement`.
pub(crate) fn wanted_placement(jobspec: &Jobspec) -> Result<Option<Placement>, String> {
    let Some(value) = jobspec.system_attr("fluxgate.placement") else { return Ok(None) };
    let placement = value.as_str().and_then(Placement::from_name);
    placement.map(Some).ok_or_else(|| {
        let mut found = value.to_string();
        if found.chars().count() > FOUND_MAX {
            found = found.chars().take(FOUND_MAX).chain("...".chars()).collect();
        }
        let accepted = Placement::NAMES;
        format!("attributes.system.fluxgate.placement: expected {accepted}, found {found}")
    })
}
