//! The state machine: events in, actions out, passes in between.
//!
//! [`Engine::step`] does work that depends on the event, not on what waits; [`Engine::pass`] runs one pass
//! for each queue that has a reason for one, however many events gave it that reason.

use std::sync::Arc;

use fluxgate_formats::{Idset, JobId, Jobspec};
use fluxgate_graph::{Placement, Resources};

use crate::BUILTIN;
use crate::config::{Config, OnBreach};
use crate::core::{Core, NewJob, QueueId};
use crate::event::{Action, Event, PolicyNotice};
use crate::pass::Pass;
use crate::policy::{JobEvent, JobEventKind, Policy, PolicyCost, PolicyError};
use crate::recover::{HOLDS, feasibility};
use crate::stats::Stats;
use crate::swap::{self, HandOver, Retired, Seat, SwapError, SwapState, WarmUp};

/// Most characters of a refused value that are repeated.
const FOUND_MAX: usize = 60;

/// The scheduler without its surroundings. Starts with the built-in policy; see [`Engine::swap`].
pub struct Engine {
    /// Away only while a pass has it.
    pub(crate) core: Option<Box<Core>>,
    pub(crate) live: Option<Seat>,
    pub(crate) warm_up: Option<WarmUp>,
    retired: Retired,
    /// The resource epoch for which classes were last taken back from parking.
    pub(crate) epoch: u64,
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
        Engine { core: Some(core), live: None, warm_up: None, retired: Retired::default(), epoch }
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

    /// Name of the policy that decides.
    pub fn policy_name(&self) -> &str {
        self.live.as_ref().map_or(BUILTIN, |seat| seat.policy.name())
    }

    /// Cost of the policy that decides, nothing for the built-in one.
    pub fn policy_cost(&self) -> PolicyCost {
        self.live.as_ref().map(|seat| seat.policy.cost()).unwrap_or_default()
    }

    /// The swap that is on its way.
    pub fn swap_state(&self) -> Option<SwapState> {
        self.warm_up.as_ref().map(WarmUp::progress)
    }

    /// Is there anything for [`Engine::pass`] to do now?
    pub fn needs_pass(&self, now: f64) -> bool {
        self.warm_up.is_some()
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

    /// Begin to replace the running policy. The successor is given the old one's state now; it is warmed up
    /// by the following calls of [`Engine::pass`] and takes over in one of them, told by
    /// [`PolicyNotice::Swapped`] or [`PolicyNotice::SwapFailed`].
    ///
    /// # Errors
    /// [`SwapError`] if another swap is on its way or the successor failed at once. The returned actions
    /// are to be carried out like those of [`Engine::step`].
    pub fn swap(&mut self, mut successor: Box<dyn Policy>) -> Result<Vec<Action>, SwapError> {
        if let Some(other) = &self.warm_up {
            return Err(SwapError::InProgress(other.seat.policy.name().to_owned()));
        }
        let mut out = Vec::new();
        let state = match swap::hand_over(self.live.as_mut(), successor.as_mut()) {
            HandOver::Done(state) => state,
            HandOver::LiveFailed(error) => {
                self.fail_live(error, &mut out);
                false
            }
            HandOver::SuccessorFailed(error) => {
                let name = successor.name().to_owned();
                self.retired.policies.push(successor);
                return Err(SwapError::Failed { name, error });
            }
        };
        let core = self.core_mut();
        let side = 1 - core.live;
        let left = core.open_side(side);
        self.retired.orders.extend(left);
        let mut warm_up = WarmUp::new(successor, side, state);
        if let Some(live) = self.live.as_ref().filter(|_| state)
            && warm_up.seat.policy.abilities().observing
        {
            // What the saved state does not know yet, its heir hears as well.
            warm_up.seat.events.clone_from(&live.events);
        }
        self.warm_up = Some(warm_up);
        Ok(out)
    }

    /// Give up the swap that is on its way, if there is one: the running policy stays. The name of the successor.
    pub fn abandon_swap(&mut self) -> Option<String> {
        let warm_up = self.warm_up.take()?;
        let name = warm_up.seat.policy.name().to_owned();
        self.drop_warm_up(warm_up);
        Some(name)
    }

    fn drop_warm_up(&mut self, warm_up: WarmUp) {
        let left = self.core_mut().close_side(warm_up.seat.side);
        self.retired.orders.extend(left);
        self.retired.policies.push(warm_up.seat.policy);
    }

    /// Take an event in. See [`Action`] for what comes out.
    pub fn step(&mut self, event: Event, now: f64) -> Vec<Action> {
        let mut out = Vec::new();
        self.core_mut().stats.events += 1;
        match event {
            Event::Hello { id, r, free, .. } => self.hello(id, &r, &free, now, &mut out),
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
                let result = feasibility(&mut self.core_mut().resources, &jobspec);
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

    /// Bring a swap forward and make the passes that are due.
    pub fn pass(&mut self, now: f64) -> Vec<Action> {
        let mut out = Vec::new();
        self.core_mut().interrupt.begin();
        self.forward_swap(now, &mut out);
        self.feed_live(now, &mut out);
        self.unpark_helped();
        for index in 0..self.core().queues.len() {
            let queue = &self.core().queues[index];
            if queue.dirty || queue.wake.is_some_and(|wake| wake <= now) {
                let cut = self.core().stats.interrupted;
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
        let core = self.core.take()?;
        Some(match &mut self.live {
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
            self.fail_live(error, out);
            let Some(core) = self.core.take() else { return };
            pass = Pass::new(core, index, now);
            pass.run_alone();
        }
        let outcome = pass.commit(out);
        self.core = Some(outcome.core);
        if let Some(seat) = &mut self.live {
            seat.to_key.extend(outcome.rekeys);
        }
        for (id, end) in outcome.started {
            self.note(JobEventKind::Started, id, now, end);
        }
    }

    /// The running policy cannot be trusted any more.
    pub(crate) fn fail_live(&mut self, error: PolicyError, out: &mut Vec<Action>) {
        let Some(seat) = self.live.take() else { return };
        let core = self.core_mut();
        core.stats.policy_failures += 1;
        let left = core.close_side(core.live);
        for queue in &mut core.queues {
            // It may have been parked on what the failed pass had staged.
            queue.unpark_all();
        }
        core.all_dirty();
        if core.config.on_breach == OnBreach::Hold {
            core.hold(seat.policy.name());
        }
        out.push(Action::Notice(PolicyNotice::Failed { name: seat.policy.name().to_owned(), error }));
        self.retired.orders.extend(left);
        self.retired.policies.push(seat.policy);
    }

    fn feed_live(&mut self, now: f64, out: &mut Vec<Action>) {
        let Some(mut seat) = self.live.take() else { return };
        let fed = seat.feed(self.core_mut(), now);
        self.live = Some(seat);
        if let Err(error) = fed {
            self.fail_live(error, out);
        }
    }

    fn forward_swap(&mut self, now: f64, out: &mut Vec<Action>) {
        let Some(mut warm_up) = self.warm_up.take() else { return };
        match warm_up.step(self.core_mut(), now) {
            Ok(false) => self.warm_up = Some(warm_up),
            Ok(true) => self.flip(warm_up, out),
            Err(error) => {
                out.push(swap::swap_failed(warm_up.seat.policy.name(), error));
                self.drop_warm_up(warm_up);
            }
        }
    }

    fn flip(&mut self, warm_up: WarmUp, out: &mut Vec<Action>) {
        let from = self.policy_name().to_owned();
        let to = warm_up.seat.policy.name().to_owned();
        let core = self.core_mut();
        let old = core.live;
        core.live = warm_up.seat.side;
        core.stats.swaps += 1;
        core.release_hold();
        let left = core.close_side(old);
        core.all_dirty();
        self.retired.orders.extend(left);
        if let Some(seat) = self.live.replace(warm_up.seat) {
            self.retired.policies.push(seat.policy);
        }
        out.push(Action::Notice(PolicyNotice::Swapped { from, to, state: warm_up.state }));
    }

    /// Tell the policies what happened to a job.
    pub(crate) fn note(&mut self, kind: JobEventKind, job: JobId, time: f64, value: f64) {
        for seat in self.live.iter_mut().chain(self.warm_up.as_mut().map(|w| &mut w.seat)) {
            if seat.policy.abilities().observing {
                seat.events.push(JobEvent { kind, job, time, value });
            }
        }
    }

    /// Have the policies give this job a key before the next pass.
    pub(crate) fn ask_key(&mut self, id: JobId) {
        for seat in self.live.iter_mut().chain(self.warm_up.as_mut().map(|w| &mut w.seat)) {
            seat.to_key.push(id);
        }
    }

    fn bound_events(&mut self, now: f64, out: &mut Vec<Action>) {
        let most = self.core().config.events_per_call;
        if self.live.as_ref().is_some_and(|seat| seat.events.len() >= most || seat.to_key.len() >= most) {
            self.feed_live(now, out);
        }
        let warm =
            self.warm_up.as_ref().is_some_and(|w| w.seat.events.len() >= most || w.seat.to_key.len() >= most);
        if warm {
            self.forward_swap(now, out);
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
        self.ask_key(id);
        self.note(JobEventKind::Pending, id, now, 0.0);
    }

    /// Take a waiting job out; false if it does not wait.
    pub(crate) fn withdraw(&mut self, id: JobId, now: f64) -> bool {
        let core = self.core_mut();
        let Some(slot) = core.slot_of(id) else {
            return false;
        };
        if let Some(job) = core.remove(slot) {
            core.resources.unreserve(id);
            let queue = &mut core.queues[job.queue as usize];
            queue.reserved.retain(|other| *other != id);
            // It may have been what the queue waited for.
            queue.dirty = true;
        }
        self.note(JobEventKind::Removed, id, now, 0.0);
        true
    }

    fn prioritize(&mut self, id: JobId, priority: u32, now: f64) {
        let core = self.core_mut();
        let Some(slot) = core.slot_of(id) else {
            core.stats.unknown_jobs += 1;
            return;
        };
        if core.job(slot).is_some_and(|job| job.priority == priority) {
            return;
        }
        core.set_priority(slot, priority);
        self.ask_key(id);
        self.note(JobEventKind::Priority, id, now, f64::from(priority));
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
            let start = core.running.remove(&id).map_or(0.0, |running| running.start);
            self.note(JobEventKind::Ended, id, now, start);
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
