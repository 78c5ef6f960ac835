//! The windows of the core: access to them, changes at their edges, and the choice of their nodes.
//!
//! Must never know who makes a window, or why.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::{Idset, JobId};
use fluxgate_graph::{Access, Rights, WINDOWS_MAX, WindowError, WindowId};

use super::Core;
use super::queue::Queue;
use crate::order::Slot;
use crate::reason::{InTheWay, Reason};
use crate::windows::{Applicant, Awaited, Held, NOWHERE, OnRunning, Wanted, Window, WindowKind};

impl Core {
    /// A waiting job as windows see it.
    fn applicant(&self, slot: Slot) -> Option<Applicant<'_>> {
        let job = self.job(slot)?;
        let queue = self.queues.get(job.queue as usize).map_or("", |queue| queue.name.as_str());
        Some(job.applicant(queue))
    }

    /// The rights of a waiting job in windows.
    pub(super) fn rights_of(&self, slot: Slot) -> Rights {
        self.applicant(slot).map_or_else(Rights::default, |job| self.windows.rights(job))
    }

    /// Keeps a window, in the place of one of the same name.
    pub(crate) fn put_window(&mut self, mut window: Window, now: f64) -> Result<(), WindowError> {
        window.occurrences.retain(|times| times.end > now);
        window.awaited = self.still_awaited(&window, now);
        let from = window.occurrences.first().map(|times| times.start - window.margin);
        let due = window.running == OnRunning::End && from.is_some_and(|from| from <= now);
        let (terms, ranks) = (window.terms(), window.ranks.clone());
        let known = self.windows.get(&window.name).map(|held| held.id);
        if known.is_none() && self.windows.len() >= WINDOWS_MAX {
            return Err(WindowError::TooMany);
        }
        // The number is the same whether the calendar takes it or not.
        let id = self.windows.number_of(&window.name);
        if terms.spans.is_empty() {
            self.resources.remove_window(id);
        } else {
            self.resources.put_window(id, &ranks, terms)?;
        }
        let name = window.name.clone();
        let before = self.windows.put(window, id);
        self.windows_changed(now, vec![(name, before)]);
        if due {
            // Jobs in its way are ended at the next pass.
            self.windows.wake = Some(now);
        }
        Ok(())
    }

    /// Keeps a window of a checkpoint under its number.
    pub(super) fn restore_window(&mut self, id: WindowId, window: &Window) -> Result<(), WindowError> {
        if !window.occurrences.is_empty() {
            self.resources.put_window(id, &window.ranks, window.terms())?;
        }
        self.windows.put(window.clone(), id);
        Ok(())
    }

    /// Forgets a window; false if there is none of this name.
    pub(crate) fn remove_window(&mut self, name: &str, now: f64) -> bool {
        let Some(held) = self.windows.remove(name) else { return false };
        self.resources.remove_window(held.id);
        self.windows_changed(now, vec![(name.to_owned(), Some(held))]);
        true
    }

    /// Windows of these names changed; `changed` has each as it was. Jobs whose access depends on one of them may use other windows
    /// now, and passes are due.
    fn windows_changed(&mut self, now: f64, changed: Vec<(String, Option<Held>)>) {
        // A turn that is due and was not made yet, where the clock was set ahead, is not put off.
        let due = self.windows.wake.filter(|wake| *wake <= now);
        self.windows.wake = due.or_else(|| self.windows.next_turn(now));
        let mut concerned: BTreeMap<JobId, Slot> = BTreeMap::new();
        for (name, before) in changed {
            let after = self.windows.get(&name).map(|held| Arc::clone(&held.window));
            for window in before.map(|held| held.window).into_iter().chain(after) {
                concerned.extend(self.concerned(&window));
            }
        }
        // In the order of ids, as all jobs would come.
        for slot in concerned.into_values() {
            self.refit(slot);
        }
        self.all_dirty();
    }

    /// The waiting jobs to which a window is more than an obstacle.
    fn concerned(&self, window: &Window) -> Vec<(JobId, Slot)> {
        if window.fill {
            let slots = self.queues.iter().flat_map(|queue| queue.native.slots());
            let may_end = |job: Applicant<'_>| job.preemptible_after.is_some() || window.concerns(job);
            let concerned = slots.filter(|slot| self.applicant(*slot).is_some_and(may_end));
            return concerned.filter_map(|slot| Some((self.job(slot)?.id, slot))).collect();
        }
        if window.kind == WindowKind::Maintenance {
            return Vec::new();
        }
        let named = &window.members.queues;
        let of = |queue: &&Queue| named.is_empty() || named.contains(&queue.name);
        let slots = self.queues.iter().filter(of).flat_map(|queue| queue.native.slots());
        let concerned = slots.filter(|slot| self.applicant(*slot).is_some_and(|job| window.concerns(job)));
        concerned.filter_map(|slot| Some((self.job(slot)?.id, slot))).collect()
    }

    /// Windows begin or end at this time: occurrences that are over leave the calendar. Returns the jobs that are to be ended, each
    /// with the name of the window.
    pub(crate) fn turn_windows(&mut self, now: f64) -> Vec<(JobId, Arc<str>)> {
        self.windows.wake = None;
        // First, because the code below writes windows back as they are here.
        let overdue = |held: &Held| held.window.awaited.as_ref().is_some_and(|awaited| awaited.until <= now);
        if self.windows.iter().any(overdue) {
            self.repair_windows(now);
        }
        let mut ended = Vec::new();
        let all: Vec<(WindowId, Arc<Window>)> =
            self.windows.iter().map(|held| (held.id, Arc::clone(&held.window))).collect();
        let mut changed = Vec::new();
        for (id, window) in all {
            if window.running == OnRunning::End {
                let name: Arc<str> = window.name.as_str().into();
                let due = window
                    .occurrences
                    .iter()
                    .find(|times| times.start - window.margin <= now && now < times.end);
                for job in
                    due.into_iter().flat_map(|times| self.jobs_across(&window, times.start - window.margin))
                {
                    ended.push((job.0, Arc::clone(&name)));
                }
            }
            if window.occurrences.iter().any(|times| times.end <= now) {
                let mut left = (*window).clone();
                left.occurrences.retain(|times| times.end > now);
                changed.push((window.name.clone(), self.shorten_window(id, left)));
            }
        }
        let names: Vec<String> = changed.iter().map(|(name, _)| name.clone()).collect();
        self.windows_changed(now, changed);
        // Nodes that went down in one occurrence are replaced before the next.
        names.iter().for_each(|name| self.repair_window_of(name, now));
        ended
    }

    /// Puts a window that was in the calendar with more occurrences; returns the window as it was.
    fn shorten_window(&mut self, id: WindowId, left: Window) -> Option<Held> {
        if left.occurrences.is_empty() {
            self.resources.remove_window(id);
        } else {
            // Its times were accepted before.
            let _ = self.resources.put_window(id, &left.ranks, left.terms());
        }
        self.windows.put(left, id)
    }

    /// Ends windows early in which no member has run or waited for the time that they give.
    pub(crate) fn release_idle_windows(&mut self, now: f64) {
        let all = self.windows.iter().filter(|held| held.window.release_when_idle.is_some());
        let all: Vec<Held> = all.cloned().collect();
        let (mut changed, mut released) = (Vec::new(), Vec::new());
        for held in all {
            let window = &held.window;
            let begun = window.occurrences.first().map(|first| first.start).filter(|start| *start <= now);
            let idle = begun.filter(|_| !self.has_members(held.id, window));
            // The time in which the occurrence before was idle does not count.
            let since = idle.map(|begun| held.idle_since.unwrap_or(now).max(begun));
            let after = window.release_when_idle.unwrap_or(f64::INFINITY);
            let due = since.is_some_and(|since| since + after <= now);
            self.windows.idle(&window.name, since.filter(|_| !due));
            if due {
                let mut left = (**window).clone();
                left.occurrences.remove(0);
                released.push((window.name.clone(), after));
                changed.push((window.name.clone(), self.shorten_window(held.id, left)));
            }
        }
        if !changed.is_empty() {
            self.windows_changed(now, changed);
            released.iter().for_each(|(name, _)| self.windows.idle(name, None));
            let room = WINDOWS_MAX.saturating_sub(self.windows.released.len());
            self.windows.released.extend(released.into_iter().take(room));
        }
        self.windows.wake = self.windows.next_turn(now);
    }

    /// True if a job runs in a window that is on, or waits for it.
    fn has_members(&self, id: WindowId, window: &Window) -> bool {
        let mut classes = self.queues.iter().flat_map(|queue| queue.classes.iter().flatten());
        let of = |access: Option<Access>| access.is_some_and(|access| access.window() == id);
        if classes.any(|class| class.jobs > 0 && of(class.request.access())) {
            return true;
        }
        let Some(first) = window.occurrences.first() else { return false };
        let inside = self.running.iter().filter(|(_, job)| window.flex || job.start >= first.start);
        inside
            .into_iter()
            .any(|(id, _)| !self.resources.ranks_held(*id).intersection(&window.ranks).is_empty())
    }

    /// The jobs that hold some nodes of a window, or of its pools, began before `from` and are expected to end after it; with their
    /// ends.
    pub(crate) fn jobs_across(&self, window: &Window, from: f64) -> Vec<(JobId, f64)> {
        let across = self.running.iter().filter(|(_, running)| running.start < from && running.end > from);
        across
            .filter(|(id, _)| {
                !self.resources.ranks_held(**id).intersection(&window.ranks).is_empty()
                    || self.holds_of_pools(**id, window)
            })
            .map(|(id, running)| (*id, running.end))
            .collect()
    }

    /// True if a job holds some of the pools that a window keeps.
    fn holds_of_pools(&self, id: JobId, window: &Window) -> bool {
        window.pools.keys().any(|pool| self.resources.holds_of_pool(id, pool))
    }

    /// The nodes of a window that jobs hold which began before `start` and use no other window that shares them, and these jobs.
    pub(crate) fn held_since_before(&self, window: &Window, start: f64) -> (Idset, Vec<JobId>) {
        let (mut late, mut jobs) = (Idset::new(), Vec::new());
        for (id, running) in self.running.iter().filter(|(_, running)| running.start < start) {
            let held = self.resources.ranks_held(*id);
            let here = held.intersection(&window.ranks);
            let shares = |own: &Window| {
                own.sharing().with(window.sharing())
                    && held.is_subset(&own.ranks)
                    && own.spans().iter().any(|at| at.start <= running.start && running.end <= at.until)
            };
            if !here.is_empty() && !self.windows.iter().any(|own| shares(&own.window)) {
                late.extend(here.iter());
                jobs.push(*id);
            }
        }
        (late, jobs)
    }

    /// Why a running job cannot have this end: a window that the job did not run into before keeps one of its nodes or pools.
    pub(crate) fn window_in_the_way(&self, id: JobId, end: f64, now: f64) -> Option<String> {
        let running =
            self.running.get(&id).filter(|running| !self.windows.is_empty() && end > running.end)?;
        let ranks = self.resources.ranks_held(id);
        let before = self.resources.windows_met(now, running.end);
        // A job on the nodes of a window uses the window if it began inside of it.
        let inside = |of: &&Window| {
            let spans = of.spans();
            ranks.is_subset(&of.ranks)
                && spans.iter().any(|span| span.start <= running.start && end <= span.until)
        };
        let own: Vec<&Window> = self.windows.iter().map(|held| &*held.window).filter(inside).collect();
        for (window, span) in self.resources.windows_met(now, end) {
            // A job that began inside of the span uses the window.
            let member = span.start <= running.start && end <= span.until;
            if member || before.contains(&(window, span)) {
                continue;
            }
            let shared = |of: &Window| own.iter().any(|own| own.sharing().with(of.sharing()));
            let met = self.windows.by_id(window);
            let Some(of) = met.filter(|of| !shared(of)) else { continue };
            let kept = match !of.ranks.intersection(&ranks).is_empty() {
                true => "its nodes are",
                false if self.holds_of_pools(id, of) => "a pool that it uses is",
                false => continue,
            };
            let met = of.occurrences.iter().find(|times| times.start == span.start);
            let begins = met.map_or("", |met| met.begins.as_str());
            return Some(format!("{kept} reserved from {begins} for {}", of.title()));
        }
        None
    }

    /// Nodes for a window: those of `kept` that are up or waited for first, then those that no other window shares with it, then those that are
    /// expected to be free first. Fewer than wanted when there are too few.
    pub(crate) fn choose_ranks(&self, window: &Window, wanted: &Wanted, kept: &Idset) -> Idset {
        let own = self.windows.get(&window.name).map_or(NOWHERE, |held| held.id);
        let mut there = self.resources.up();
        if let Some(awaited) = &window.awaited {
            there = there.union(&awaited.ranks);
        }
        let mut able = self.resources.ranks_meeting(&wanted.constraint).intersection(&there);
        let mut taken = Idset::new();
        for times in &window.occurrences {
            for (id, _) in self.resources.windows_met(times.start - window.margin, times.end + window.overrun)
            {
                if id == own {
                    continue;
                }
                let ranks = self.resources.window_ranks(id);
                match self.windows.by_id(id).is_some_and(|other| other.sharing().with(window.sharing())) {
                    true => taken.extend(ranks.iter()),
                    false => able = able.difference(&ranks),
                }
            }
        }
        let busy = self.resources.busy_until();
        let from = window.occurrences.first().map_or(f64::INFINITY, |first| first.start - window.margin);
        let late =
            |rank: u32| busy.get(&rank).copied().filter(|until| *until > from).unwrap_or(f64::NEG_INFINITY);
        let mut order: Vec<u32> = able.iter().collect();
        order.sort_by(|a, b| {
            let key = |rank: u32| ((!kept.contains(rank), taken.contains(rank)), late(rank));
            let ((a_new, a_late), (b_new, b_late)) = (key(*a), key(*b));
            a_new.cmp(&b_new).then(a_late.total_cmp(&b_late)).then(a.cmp(b))
        });
        let of = self.cores_for(wanted);
        let mut chosen = Idset::new();
        for rank in order {
            if wanted.suffices(&chosen, &of) {
                break;
            }
            chosen.insert(rank);
        }
        chosen
    }

    /// The cores of each rank, where they are asked for.
    fn cores_for(&self, wanted: &Wanted) -> BTreeMap<u32, u64> {
        if wanted.cores > 0 { self.resources.cores_by_rank() } else { BTreeMap::new() }
    }

    /// True if these nodes are as many as a window wants, and have as many cores.
    pub(crate) fn has_enough(&self, wanted: &Wanted, ranks: &Idset) -> bool {
        wanted.suffices(ranks, &self.cores_for(wanted))
    }

    /// The nodes of a window that have not been up since its scheduler began, as long as they are waited for.
    fn still_awaited(&self, window: &Window, now: f64) -> Option<Awaited> {
        let awaited = window.awaited.as_ref().filter(|awaited| now < awaited.until)?;
        let ranks = awaited.ranks.intersection(&window.ranks).difference(&self.resources.up());
        (!ranks.is_empty()).then_some(Awaited { ranks, until: awaited.until })
    }

    /// Replaces nodes of windows that are down or gone.
    pub(crate) fn repair_windows(&mut self, now: f64) {
        let all: Vec<Arc<Window>> = self.windows.iter().map(|held| Arc::clone(&held.window)).collect();
        all.iter().for_each(|window| self.repair_window(window, now));
    }

    /// The same for the window of this name.
    pub(crate) fn repair_window_of(&mut self, name: &str, now: f64) {
        if let Some(window) = self.windows.get(name).map(|held| Arc::clone(&held.window)) {
            self.repair_window(&window, now);
        }
    }

    /// Replaces nodes of a window that are down or gone, before its start, by others that are up. Nodes that have not been up since
    /// the scheduler began are waited for first: after a restart of the instance brokers come up one by one.
    fn repair_window(&mut self, window: &Arc<Window>, now: f64) {
        let Some(wanted) = &window.wanted else { return };
        if window.occurrences.is_empty() || (window.is_active(now) && !window.replace) {
            return;
        }
        let awaited = self.still_awaited(window, now);
        if awaited != window.awaited {
            self.windows.awaits(&window.name, awaited.clone());
        }
        let up = self.resources.up();
        if self.has_enough(wanted, &window.ranks.intersection(&up)) && !window.degraded {
            return;
        }
        let to_come = awaited.as_ref().map_or_else(Idset::new, |awaited| awaited.ranks.clone());
        let mut changed = Window { awaited, ..(**window).clone() };
        if to_come.is_empty() || !self.has_enough(wanted, &window.ranks.intersection(&up.union(&to_come))) {
            changed.ranks = self.choose_ranks(&changed, wanted, &window.ranks);
        }
        // Nodes that are down may come back.
        let of = self.cores_for(wanted);
        for rank in window.ranks.difference(&changed.ranks).iter() {
            if wanted.suffices(&changed.ranks, &of) {
                break;
            }
            changed.ranks.insert(rank);
        }
        changed.degraded = !self.has_enough(wanted, &changed.ranks.intersection(&up));
        if changed.ranks != window.ranks || changed.degraded != window.degraded {
            // Its times were accepted before.
            let _ = self.put_window(changed, now);
        }
    }

    /// The reason of a job that a window keeps waiting.
    pub(crate) fn window_reason(&self, slot: Slot, id: WindowId, latest: f64) -> Option<Reason> {
        let access = self.job(slot)?.request.access();
        let (name, text) = self.windows.reason(access, id, latest)?;
        Some(Reason::Window(Box::new(InTheWay { name, text })))
    }

    /// The reason of a job that waits for a window which it cannot use.
    pub(crate) fn refused_reason(&self, slot: Slot) -> Option<Reason> {
        if self.job(slot)?.request.access() != Some(Access::Only(NOWHERE)) {
            return None;
        }
        let (name, text) = self.windows.refusal(self.applicant(slot)?)?;
        Some(Reason::Window(Box::new(InTheWay { name, text })))
    }
}
