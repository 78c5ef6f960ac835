//! The shapes of jobs that would start at once: boxes of nodes, or of cores, by time.
//!
//! A box is found by asking the gate what it asks for a job of that shape: bounds of queues, free resources, and every
//! reserved start. So each box is true for itself; after a start in one, another may be gone. Where jobs wait in a queue
//! whose policy lets no job pass them, nothing starts at once.
//!
//! Must never know who asks.

use fluxgate_formats::JobId;
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::Simple;
use fluxgate_graph::{NoFit, Resources};

use super::{IMAGINED, Impossible, Questions, Waiting};
use crate::reason::Reason;

/// Most boxes of one answer: the widest ones, and the longest.
pub const GAPS_MAX: usize = 16;
/// Most questions to the gate for one answer; the boxes found by then are all.
pub const PROBES_MAX: usize = 512;
/// Shortest time of a box, seconds.
const GAP_MIN: f64 = 1.0;
/// Most times that one shape is made shorter.
const CUTS_MAX: usize = 64;

/// A question for boxes in which jobs would start at once.
#[derive(Debug, Clone, PartialEq)]
pub struct GapQuestion {
    /// The queue; empty for the anonymous one.
    pub queue: String,
    /// The constraint that nodes must meet (RFC 31); [`Constraint::All`] for any.
    pub constraint: Constraint,
    /// True for boxes of cores, wherever they are, false for boxes of whole nodes.
    pub cores: bool,
}

/// The cause of the end of a box.
#[derive(Debug, Clone, PartialEq)]
pub enum Limit {
    /// The start that is reserved for this job.
    Reserved(JobId),
    /// A bound of queues at a reserved start.
    Bound(Reason),
    /// The start of the window of this name, less its margin.
    Window(String),
    /// The end of the instance.
    Instance,
}

/// A box: the width of a job that would start at once, and the longest limit that it may have.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    /// Whole nodes; 0 for a box of cores.
    pub nodes: u32,
    /// Cores that the job would hold.
    pub cores: u64,
    /// The longest limit of a job, whole seconds from 1; infinite if no limit is needed.
    pub duration: f64,
    /// The obstacle to a longer limit; `None` if the duration is infinite.
    pub limit: Option<Limit>,
}

/// The boxes, from the widest to the longest, each wider than the next and ending earlier.
#[derive(Debug, Clone, PartialEq)]
pub struct Gaps {
    /// The boxes, at most [`GAPS_MAX`].
    pub gaps: Vec<Gap>,
    /// The reason, in words, for which nothing starts at once; `None` if there is a box.
    pub none: Option<String>,
}

/// One shape, tried.
struct Probe {
    gap: Gap,
    end: f64,
}

impl Questions {
    /// The boxes of a queue.
    ///
    /// # Errors
    /// [`Impossible`] if no job of that queue with that constraint could ever start, or the queue is not in the copy.
    pub fn gaps(&mut self, question: &GapQuestion) -> Result<Gaps, Impossible> {
        let one = self.shape(question, 1)?;
        let mut scratch = self.resources.clone();
        if let Some(why) = self.keeps_all_waiting(&mut scratch, &one) {
            return Ok(Gaps { gaps: Vec::new(), none: Some(why) });
        }
        let totals = self.resources.totals();
        let most = if question.cores { totals.free_cores } else { totals.free_nodes };
        let mut probes = PROBES_MAX;
        let mut probe = |this: &mut Self, count: u32| {
            probes = probes.checked_sub(1)?;
            let job = this.shape(question, count).ok()?;
            this.probe(&mut scratch, &job, if question.cores { 0 } else { count })
        };
        let mut gaps: Vec<Gap> = Vec::new();
        // The widest box, then the widest of those that are longer, and so on; the last place is for the longest.
        let (mut most, mut end) = (most, f64::NEG_INFINITY);
        while gaps.len() < GAPS_MAX && most > 0 {
            let (mut low, mut high, mut best) = (1, most, None);
            if gaps.len() == GAPS_MAX - 1 {
                high = 1;
            }
            while low <= high {
                let middle = low + (high - low) / 2;
                match probe(self, middle).filter(|probe| probe.end > end) {
                    Some(found) => {
                        best = Some((middle, found));
                        low = middle + 1;
                    }
                    None => high = middle - 1,
                }
            }
            let Some((count, found)) = best else { break };
            most = count - 1;
            // Where places are searched, the searches before this one have moved tentative places on the scratch copy.
            let job = self.shape(question, count)?;
            if self.try_now(&mut self.resources.clone(), &job, found.end).is_ok() {
                end = found.end;
                gaps.push(found.gap);
            }
        }
        let none = gaps.is_empty().then(|| "nothing that it could take is free".to_owned());
        Ok(Gaps { gaps, none })
    }

    fn shape(&mut self, question: &GapQuestion, count: u32) -> Result<Waiting, Impossible> {
        let simple = Simple {
            nodes: (!question.cores).then_some(count),
            slots: count,
            exclusive: !question.cores,
            queue: (!question.queue.is_empty()).then(|| question.queue.clone()),
            constraint: (question.constraint != Constraint::All).then(|| question.constraint.clone()),
            command: vec!["gap".to_owned()],
            ..Simple::default()
        };
        self.imagine(&simple.build(), u32::MAX, 0)
    }

    /// The longest time for which a job of this shape could start now.
    fn probe(&self, scratch: &mut Resources, job: &Waiting, nodes: u32) -> Option<Probe> {
        let mut end = self.instance_end;
        let mut limit = end.is_finite().then_some(Limit::Instance);
        for _ in 0..CUTS_MAX {
            let (latest, why) = match self.try_now(scratch, job, end) {
                Ok(cores) => {
                    let duration = if end.is_finite() { (end - self.now).floor() } else { end };
                    let gap = Gap { nodes, cores, duration, limit };
                    return (duration >= GAP_MIN).then_some(Probe { gap, end });
                }
                Err(cut) => cut?,
            };
            if latest >= end || latest <= self.now {
                return None;
            }
            // Whole seconds, so that a limit of that many is not longer.
            end = self.now + (latest - self.now).floor();
            limit = Some(why);
        }
        None
    }

    /// Starts a job on the copy until this time, and takes it back: the cores that it held, or the latest end at which it might
    /// start, if there is one.
    fn try_now(&self, scratch: &mut Resources, job: &Waiting, end: f64) -> Result<u64, Option<(f64, Limit)>> {
        if end <= self.now {
            return Err(None);
        }
        let found = match scratch.match_now(&job.request, self.now, end, job.placement) {
            Ok(found) => found,
            Err(NoFit::WouldDelay(id, latest)) => return Err(Some((latest, Limit::Reserved(id)))),
            Err(NoFit::Window(id, latest)) => {
                let name = self.windows.by_id(id).map_or_else(String::new, |window| window.name.clone());
                return Err(Some((latest, Limit::Window(name))));
            }
            Err(NoFit::Busy) => return Err(None),
        };
        let free = u64::from(scratch.totals().free_cores);
        if scratch.allocate_owned(IMAGINED, found, self.now, end).is_err() {
            return Err(None);
        }
        let cores = scratch.allocation(IMAGINED).map_or(0, |held| held.cores());
        // It was allocated just now: releasing all of it cannot fail.
        let _ = scratch.release(IMAGINED, None);
        let headroom = self.queue_state(job.queue).and_then(|queue| queue.headroom.as_ref());
        match headroom.and_then(|headroom| headroom.over(free, cores, self.now, end)) {
            None => Ok(cores),
            Some(over) if over.at > self.now => Err(Some((over.at, Limit::Bound(over.reason)))),
            Some(_) => Err(None),
        }
    }

    /// Would this job start at the pass that its submission causes?
    pub(super) fn starts_at_once(&self, job: &Waiting) -> bool {
        let end = if job.duration.is_finite() { self.now + job.duration } else { self.instance_end };
        let mut scratch = self.resources.clone();
        self.try_now(&mut scratch, job, end).is_ok() && self.keeps_all_waiting(&mut scratch, job).is_none()
    }

    /// The reservations whose start came without a pass that could start the job: jobs run beyond their limits. The next
    /// pass plans them again, and its reservations are not known yet.
    pub(super) fn past_starts(&self) -> impl Iterator<Item = (JobId, f64)> + '_ {
        let standing = self.resources.reservations().map(|(id, start, _)| (id, start));
        standing.filter(|(_, start)| *start <= self.now)
    }

    /// Why no job behind those that wait in this queue starts now, whatever its shape.
    fn keeps_all_waiting(&self, scratch: &mut Resources, job: &Waiting) -> Option<String> {
        if !self.settled {
            return Some("a scheduling pass is due".to_owned());
        }
        if let Some((id, _)) = self.past_starts().next() {
            return Some(format!(
                "the reserved start of {id} is past; the next scheduling pass plans it again"
            ));
        }
        let queue = self.queues.get(job.queue as usize)?;
        if let Some(policy) = &queue.suspended {
            return Some(Reason::Suspended(policy.clone()).to_string());
        }
        if job.ahead == 0 {
            return None;
        }
        let (ahead, policy) = (job.ahead, queue.policy.clone());
        if !queue.passes_others {
            let jobs = if ahead == 1 { "1 job waits" } else { "jobs wait" };
            return Some(format!("{jobs} in the queue, and nothing has passed such under {policy}"));
        }
        let mut ahead = self.jobs[..self.first]
            .iter()
            .filter(|other| other.queue == job.queue && other.ahead < job.ahead)
            .filter(|other| !self.resources.reservations().any(|(id, ..)| id == other.id));
        let held_back = ahead.find(|other| {
            let end = if other.duration.is_finite() { self.now + other.duration } else { self.instance_end };
            self.try_now(scratch, other, end).is_ok()
        });
        held_back.map(|other| format!("{policy} has not started {}, which fits", other.id))
    }
}
