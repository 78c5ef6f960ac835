//! The candidates of a pass in order: all jobs, or only those not known to be unable to start now.
//!
//! Must never decide anything.

use fluxgate_graph::ShapeId;
use rustc_hash::FxHashMap;

use crate::core::Core;
use crate::core::class::Class;
use crate::order::{Size, Slot, Walk};
use crate::reason::Reason;

use super::Pass;
use super::limits::Limits;
use super::miss::Miss;

/// The latest end at which jobs of a class of one request are not known to be unable to start.
fn latest(core: &Core, misses: &FxHashMap<ShapeId, Miss>, class: &Class, now: f64) -> f64 {
    if class.parked || !core.resources.could_fit_counts(&class.request) {
        return f64::NEG_INFINITY;
    }
    let known = core.resources.latest_beside_windows(&class.request, now);
    misses.get(&class.request.shape()).map_or(f64::INFINITY, Miss::latest).min(known)
}

/// False for the least size of a class of which no job can start now, as counts show.
pub(super) fn maybe_fits(core: &Core, limits: &Limits, now: f64) -> impl Fn(Size) -> bool {
    let free = core.resources.totals().free_cores;
    // The ends of jobs without a limit do not depend on their durations.
    let end = move |duration| core.expected_end(now, duration).min(core.instance_end);
    move |(cores, duration)| end(duration) <= limits.latest(cores, free)
}

/// The jobs of a class that are not known to be unable to start now.
pub(super) struct Rule<'a> {
    core: &'a Core,
    limits: &'a Limits,
    now: f64,
    free: u32,
    /// Their latest end, if it does not depend on their cores.
    latest: Option<f64>,
}

impl<'a> Rule<'a> {
    /// The rule for a class; `None` if none of its jobs can start. The limits of cores are fresh.
    pub(super) fn of(
        core: &'a Core,
        limits: &'a Limits,
        misses: &FxHashMap<ShapeId, Miss>,
        class: Option<&Class>,
        now: f64,
    ) -> Option<Self> {
        let free = core.resources.totals().free_cores;
        let class = class.filter(|class| class.fewest() <= free)?;
        let own = (!class.is_band()).then(|| latest(core, misses, class, now));
        Some(Rule { core, limits, now, free, latest: own })
    }

    /// True for their sizes.
    pub(super) fn allows(&self, (cores, duration): Size) -> bool {
        let latest = self.latest.unwrap_or_else(|| self.limits.latest(cores, self.free));
        self.core.expected_end(self.now, duration) <= latest
    }
}

impl Core {
    /// If counts alone show that a waiting job would delay a reservation if it started now: the latest end with which it would not. It is
    /// the reason why the job waits.
    pub(crate) fn delayed(&mut self, slot: Slot, now: f64) -> Option<f64> {
        let end = self.expected_end(now, self.job(slot)?.duration);
        let (job, resources) = self.job_and_resources(slot)?;
        let (reserved, latest) = resources.delay_by_counts(&job.request, now, end)?;
        self.set_reason(slot, Reason::Delays(reserved));
        Some(latest)
    }
}

impl Pass {
    /// The next candidate in order that is neither started nor reserved in this pass. `None` if there is no other, at the bound
    /// [`candidates_per_pass_max`](crate::Config::candidates_per_pass_max), or when the pass is interrupted.
    #[allow(clippy::should_implement_trait)] // named as in the contract
    pub fn next(&mut self) -> Option<u32> {
        self.advance(false)
    }

    /// As [`Pass::next`], without the candidates that are known to be unable to start now.
    pub fn next_fitting(&mut self) -> Option<u32> {
        self.advance(true)
    }

    /// Puts the cursor before the first candidate. Jobs that are started or reserved in this pass are not offered again.
    pub fn rewind(&mut self) {
        self.walk = Walk::default();
    }

    /// Prepares for a question about jobs that fit.
    pub(super) fn refresh_limits(&mut self) {
        self.drop_standing();
        let Core { resources, .. } = &mut *self.core;
        self.limits.refresh(resources, self.now);
    }

    fn advance(&mut self, fitting: bool) -> Option<u32> {
        self.sought_fitting |= fitting;
        while self.may_offer() {
            // Where all jobs are decided, none has to be passed over.
            if self.core.queues.get(self.queue as usize)?.native.len() == self.decided() {
                return None;
            }
            if fitting {
                self.refresh_limits();
            } else {
                self.core.queues.get_mut(self.queue as usize)?.order_mut()?.visit(&self.walk);
            }
            let queue = self.core.queues.get(self.queue as usize)?;
            let order = queue.order()?;
            let mut counted = false;
            let next = if fitting {
                let (core, misses, now, limits) = (&self.core, &self.misses, self.now, &self.limits);
                let next = self.walk.next_fitting(order, maybe_fits(core, limits, now), |class| {
                    let rule = Rule::of(core, limits, misses, queue.class(class), now);
                    move |size| rule.as_ref().is_some_and(|rule| rule.allows(size))
                });
                let band = |class| queue.class(class).is_some_and(Class::is_band);
                counted = self.limits.known() && next.is_some_and(|(class, _)| band(class));
                next.map(|(_, slot)| slot)
            } else {
                self.walk.next(order, order.same_as(&queue.native))
            };
            let slot = next?;
            if self.is_decided(slot) {
                continue;
            }
            if fitting && !counted && self.would_delay(slot) {
                continue;
            }
            if !fitting {
                self.turn = Some(slot);
            }
            return Some(self.offer(slot));
        }
        self.cut = true;
        None
    }

    /// True if counts alone show that this job would delay a reservation. The jobs to which the same count applies
    /// are then left out too.
    pub(super) fn would_delay(&mut self, slot: Slot) -> bool {
        let Some(latest) = self.core.delayed(slot, self.now) else { return false };
        self.note_delay(slot, latest);
        self.lists.passed_over.push(slot);
        true
    }

    /// The next job in Flux's own order; for the built-in policy only.
    pub(super) fn next_native(&mut self) -> Option<u32> {
        if self.interrupted() {
            return None;
        }
        let queue = self.core.queues.get(self.queue as usize)?;
        let (key, slot) = queue.native.after(self.native).next()?;
        self.native = Some(key);
        Some(self.offer(slot))
    }

    /// False once the candidates or the time of this pass are used up.
    pub(super) fn may_offer(&mut self) -> bool {
        (self.lists.offered.len() as u64) < self.core.config.candidates_per_pass_max && !self.interrupted()
    }

    pub(super) fn offer(&mut self, slot: Slot) -> u32 {
        if self.core.marks.offer(slot) {
            self.lists.offered.push(slot);
            self.traced_offer(slot);
        }
        self.core.stats.candidates += 1;
        slot
    }
}
