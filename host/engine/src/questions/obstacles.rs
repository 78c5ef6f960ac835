//! Why a job waits: the one reason that is given, and all obstacles without which it would start.
//!
//! The obstacles of a job are found by taking them away on a copy, one after the other, until it starts. So they are true:
//! without all that is named the job starts, unless the search of the gate misses a place.
//!
//! Must never know the wording of an answer, nor its recipient.

use std::sync::Arc;

use fluxgate_formats::{Idset, JobId};
use fluxgate_graph::{Access, NoFit, NodeTest, Resources, WindowId};

use super::{IMAGINED, Questions, Waiting};
use crate::explain::about;
use crate::reason::{InTheWay, Reason};
use crate::windows::NOWHERE;

/// Most reservations that are named as being in the way.
pub const PROMISES_MAX: usize = 64;

/// The name of a window, and the words about it in the reason of a job.
pub type NamedWindow = (Arc<str>, Arc<str>);

/// Most of these that are named in words.
const SHOWN_MAX: usize = 3;

/// An obstacle to the start of a job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Scheduling is suspended in its queue, since this policy failed.
    Suspended(Arc<str>),
    /// Nodes do not have the properties that it asks for now: in words.
    Property(String),
    /// These nodes are down or drained, and too few others could do.
    Down(Idset),
    /// Running jobs hold resources that it needs.
    InUse {
        /// The time by which they have ended by their limits, seconds since the epoch; `None` when some have no limit.
        until: Option<f64>,
        /// These jobs, by limit.
        jobs: Vec<JobId>,
    },
    /// Flow to its nodes, or a level above them, is short: in words.
    Short(String),
    /// A bound of queues: [`Reason::Ceiling`] or [`Reason::Kept`].
    Bound(Reason),
    /// Windows keep nodes that it needs, or it waits for one: name and words of each.
    Window(Vec<NamedWindow>),
    /// Jobs have reserved starts which it would delay.
    Reserved {
        /// The first of these jobs with their starts, at most [`PROMISES_MAX`].
        jobs: Vec<(JobId, f64)>,
        /// True if there are more.
        more: bool,
    },
    /// This number of jobs before it in its queue wait.
    Ahead(u64),
    /// It fits, and the policy of this name, which decides its queue, has not started it.
    Policy(String),
    /// It may be that no place exists where its parts fit together, or that a vertex above nodes is down.
    Unknown,
}

impl Obstacle {
    /// Its kind for programs, a stable word.
    pub fn kind(&self) -> &'static str {
        match self {
            Obstacle::Suspended(_) => "suspended",
            Obstacle::Property(_) => "property",
            Obstacle::Down(_) => "down",
            Obstacle::InUse { .. } => "in-use",
            Obstacle::Short(_) => "flow",
            Obstacle::Bound(_) => "bound",
            Obstacle::Window(_) => "window",
            Obstacle::Reserved { .. } => "reserved",
            Obstacle::Ahead(_) => "ahead",
            Obstacle::Policy(_) => "policy",
            Obstacle::Unknown => "unknown",
        }
    }

    /// The obstacle in words, seen from `now`. `show` gives the names of other jobs, `hosts` those of the hosts of ranks.
    pub fn text(&self, now: f64, show: &dyn Fn(JobId) -> String, hosts: &dyn Fn(&Idset) -> String) -> String {
        match self {
            Obstacle::Suspended(policy) => Reason::Suspended(Arc::clone(policy)).to_string(),
            Obstacle::Property(said) | Obstacle::Short(said) => said.clone(),
            Obstacle::Down(ranks) if ranks.len() == 1 => format!("node {} is down", hosts(ranks)),
            Obstacle::Down(ranks) => format!("{} nodes are down: {}", ranks.len(), hosts(ranks)),
            Obstacle::InUse { until: Some(until), .. } => {
                format!("what it needs is in use for {} more at most", about(until - now))
            }
            Obstacle::InUse { until: None, .. } => "jobs without time limit hold what it needs".to_owned(),
            Obstacle::Bound(reason) => reason.text(show),
            Obstacle::Window(list) => {
                let said: Vec<&str> = list.iter().map(|(_, text)| &**text).collect();
                said.join(", ")
            }
            Obstacle::Reserved { jobs, more } => {
                let first = jobs.iter().take(SHOWN_MAX);
                let mut said: Vec<String> =
                    first.map(|(id, start)| format!("{} in {}", show(*id), about(start - now))).collect();
                match jobs.len().saturating_sub(SHOWN_MAX) {
                    0 if *more => said.push("others".to_owned()),
                    0 => {}
                    left => said.push(format!("{left} others")),
                }
                format!("reserved for {}", said.join(", "))
            }
            Obstacle::Ahead(1) => "1 job ahead".to_owned(),
            Obstacle::Ahead(jobs) => format!("{jobs} jobs ahead"),
            Obstacle::Policy(policy) => format!("policy {policy} has not started it"),
            Obstacle::Unknown => "no place was found where its parts fit together".to_owned(),
        }
    }
}

impl Questions {
    /// The end of an allocation of this job that starts now.
    fn end_of(&self, job: &Waiting) -> f64 {
        if job.duration.is_finite() { self.now + job.duration } else { self.instance_end }
    }

    /// The bound of queues that a start of this job would break, now or at a reserved start.
    fn over(&self, job: &Waiting) -> Option<Reason> {
        let mut headroom = self.queue_state(job.queue)?.headroom.clone()?;
        headroom.leave_out(job.id);
        let free = u64::from(self.resources.totals().free_cores);
        let over = headroom.over(free, u64::from(job.request.min_cores()), self.now, self.end_of(job))?;
        Some(over.reason)
    }

    /// Why a job waits, true at the time of the copy. `scratch` is a copy of the resources for searches.
    pub(crate) fn reason(&self, scratch: &mut Resources, job: &Waiting) -> Reason {
        if let Some(policy) = self.queue_state(job.queue).and_then(|queue| queue.suspended.clone()) {
            return Reason::Suspended(policy);
        }
        if let Reason::Said(said) = &job.reason {
            return Reason::Said(Arc::clone(said));
        }
        if self.resources.reservations().any(|(id, ..)| id == job.id) {
            // A job that waits for a bound or a window keeps that reason.
            return self.over(job).or_else(|| self.window_told(job)).unwrap_or(Reason::Reserved);
        }
        if let Some((name, text)) = self.no_window(job) {
            return Reason::Window(Box::new(InTheWay { name, text }));
        }
        if let Some(unmet) = self.resources.unmet_properties(&job.request) {
            return Reason::Short(unmet.into());
        }
        if let Some(bound) = self.over(job) {
            return bound;
        }
        let end = self.end_of(job);
        match scratch.match_now(&job.request, self.now, end, job.placement) {
            Ok(_) if !self.settled => Reason::Unseen,
            Ok(_) if job.ahead > 0 => Reason::Behind,
            Ok(_) => Reason::Withheld,
            Err(NoFit::WouldDelay(reserved, _)) => Reason::Delays(reserved),
            Err(NoFit::Window(id, latest)) => self.window_reason(job, id, latest).unwrap_or(Reason::Behind),
            Err(NoFit::Busy) => match self.resources.shortage(&job.request) {
                Some(short) => Reason::Short(short.into()),
                None => Reason::Busy {
                    nodes: job.request.min_nodes(),
                    cores: job.request.min_cores(),
                    gpus: job.request.min_gpus(),
                },
            },
        }
    }

    /// Why a job waits that names a window which it cannot use, or whose window is over: name and words.
    fn no_window(&self, job: &Waiting) -> Option<(Arc<str>, Arc<str>)> {
        if job.request.access() != Some(Access::Only(NOWHERE)) {
            return None;
        }
        let queue = &self.queue_state(job.queue)?.name;
        self.windows.refusal(job.wish.applicant(job.userid, queue))
    }

    fn window_reason(&self, job: &Waiting, id: WindowId, latest: f64) -> Option<Reason> {
        let (name, text) = self.windows.reason(job.request.access(), id, latest)?;
        Some(Reason::Window(Box::new(InTheWay { name, text })))
    }

    /// The window that a pass found to keep a job waiting, if it is still to come or on.
    fn window_told(&self, job: &Waiting) -> Option<Reason> {
        let Reason::Window(window) = &job.reason else { return None };
        let there = self.windows.get(&window.name).is_some_and(|held| !held.window.occurrences.is_empty());
        there.then(|| job.reason.clone())
    }

    /// The window that a job with a reserved start is told is in its way, also where jobs that started since hold what it would
    /// need besides.
    fn told_window(&self, job: &Waiting, found: &mut Vec<Obstacle>) {
        if found.is_empty() || !self.resources.reservations().any(|(id, ..)| id == job.id) {
            return;
        }
        let Some(Reason::Window(window)) = self.window_told(job) else { return };
        let InTheWay { name, text } = *window;
        let known = found.iter_mut().find_map(|obstacle| match obstacle {
            Obstacle::Window(list) => Some(list),
            _ => None,
        });
        match known {
            Some(list) if list.iter().any(|(of, _)| *of == name) => {}
            Some(list) => list.push((name, text)),
            None => found.push(Obstacle::Window(vec![(name, text)])),
        }
    }

    /// Takes away the windows for which a job does not start; which they are. A window that is for the job alone cannot be
    /// taken away: then nothing else is looked at.
    fn without_windows(&self, on: &mut Resources, job: &Waiting) -> (Vec<NamedWindow>, bool) {
        let mut windows = Vec::new();
        while let Err(NoFit::Window(id, latest)) =
            on.match_now(&job.request, self.now, self.end_of(job), job.placement)
        {
            windows.extend(self.windows.reason(job.request.access(), id, latest));
            if job.request.access() == Some(Access::Only(id)) || !on.remove_window(id) {
                return (windows, true);
            }
        }
        (windows, false)
    }

    /// All that is in the way of a job, in the order in which it is looked at.
    pub(crate) fn obstacles(&self, job: &Waiting) -> Vec<Obstacle> {
        let mut found = Vec::new();
        let Some(queue) = self.queue_state(job.queue) else { return found };
        found.extend(queue.suspended.clone().map(Obstacle::Suspended));
        if let Some(unmet) = self.resources.unmet_properties(&job.request) {
            found.push(Obstacle::Property(unmet));
        } else {
            self.resources_of(job, &mut found);
            self.told_window(job, &mut found);
        }
        found.extend(self.over(job).map(Obstacle::Bound));
        if job.ahead > 0 {
            found.push(Obstacle::Ahead(job.ahead));
        } else if found.is_empty() && self.settled && job.id != IMAGINED {
            found.push(Obstacle::Policy(queue.policy.clone()));
        } else if found.is_empty() {
            let jobs: Vec<(JobId, f64)> = self.past_starts().take(PROMISES_MAX).collect();
            if !jobs.is_empty() {
                found.push(Obstacle::Reserved { jobs, more: false });
            }
        }
        found
    }

    /// The resources that are in the way.
    fn resources_of(&self, job: &Waiting, found: &mut Vec<Obstacle>) {
        let (now, end) = (self.now, self.end_of(job));
        let fits = |on: &mut Resources| on.match_now(&job.request, now, end, job.placement).is_ok();
        let mut copy = self.resources.clone();
        copy.unreserve(job.id);
        if fits(&mut copy) {
            return;
        }
        if let Some(no) = self.no_window(job) {
            return found.push(Obstacle::Window(vec![no]));
        }
        // Windows first: all that is looked at after that is in the way without them.
        let mut bare = copy.clone();
        for (id, ..) in self.resources.reservations() {
            bare.unreserve(id);
        }
        let (mut windows, own) = self.without_windows(&mut bare, job);
        if own {
            return found.push(Obstacle::Window(windows));
        }
        for (name, _) in &windows {
            self.take_away(&mut copy, name);
        }
        let mut free = copy.clone();
        let standing: Vec<(JobId, f64)> = free.reservations().map(|(id, start, _)| (id, start)).collect();
        for (id, _) in &standing {
            free.unreserve(*id);
        }
        if !fits(&mut free) {
            let short = free.shortage(&job.request);
            let mut start = free.earliest(&job.request, now, job.duration);
            let mut unlimited = false;
            if start.is_none() {
                let (down, mut all_up) = (free.down(), free.clone());
                all_up.set_up(&down);
                start = all_up.earliest(&job.request, now, job.duration);
                // Held by jobs without limit on nodes that are up, or on all.
                let ended = |on: &Resources| {
                    let mut on = on.clone();
                    self.release(&mut on, f64::INFINITY);
                    fits(&mut on)
                };
                unlimited = start.is_none();
                if start.is_some() || !ended(&free) {
                    let useful = useful(&all_up, job, &down, now);
                    copy.set_up(&useful);
                    free.set_up(&useful);
                    found.push(Obstacle::Down(useful));
                    // With fewer nodes up than all, the time may be another.
                    start = free.earliest(&job.request, now, job.duration);
                    unlimited = start.is_none();
                }
            }
            let until = if unlimited { f64::INFINITY } else { start.unwrap_or(now) };
            let jobs = if until > now { self.release(&mut copy, until) } else { Vec::new() };
            match short {
                Some(short) => found.push(Obstacle::Short(short)),
                None if !jobs.is_empty() => {
                    found.push(Obstacle::InUse { until: until.is_finite().then_some(until), jobs });
                }
                None => {}
            }
        }
        let (mut jobs, mut more) = (Vec::new(), false);
        loop {
            match copy.match_now(&job.request, now, end, job.placement) {
                Ok(_) => break,
                Err(NoFit::WouldDelay(id, _)) if jobs.len() < PROMISES_MAX => {
                    let start = standing.iter().find(|(of, _)| *of == id).map_or(now, |(_, start)| *start);
                    jobs.push((id, start));
                    copy.unreserve(id);
                }
                Err(NoFit::WouldDelay(..)) => {
                    more = true;
                    break;
                }
                Err(NoFit::Window(id, latest)) => {
                    windows.extend(self.windows.reason(job.request.access(), id, latest));
                    let own = job.request.access() == Some(Access::Only(id));
                    if own || !copy.remove_window(id) {
                        break;
                    }
                }
                Err(NoFit::Busy) => {
                    found.push(Obstacle::Unknown);
                    break;
                }
            }
        }
        if !windows.is_empty() {
            found.push(Obstacle::Window(windows));
        }
        if !jobs.is_empty() {
            found.push(Obstacle::Reserved { jobs, more });
        }
    }

    /// Takes a window out of a copy.
    fn take_away(&self, on: &mut Resources, name: &str) {
        let held = self.windows.get(name).map(|held| held.id);
        if let Some(id) = held {
            on.remove_window(id);
        }
    }

    /// Releases the jobs that end by this time; which they are.
    fn release(&self, on: &mut Resources, until: f64) -> Vec<JobId> {
        let ends = |end: f64| if end > self.now { end } else { self.now.next_up() };
        let mut jobs: Vec<(f64, JobId)> = self
            .holders
            .iter()
            .map(|(id, held)| (ends(held.end), *id))
            .filter(|(end, _)| *end <= until)
            .collect();
        jobs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let ids: Vec<JobId> = jobs.into_iter().map(|(_, id)| id).collect();
        for id in &ids {
            // It holds resources on the copy: releasing all of them cannot fail.
            let _ = on.release(*id, None);
        }
        ids
    }
}

/// The ranks among those that were down which could be of use to a job.
fn useful(all_up: &Resources, job: &Waiting, down: &Idset, now: f64) -> Idset {
    let of_no_use =
        |test: &NodeTest| matches!(test, NodeTest::Constraint | NodeTest::TooSmall | NodeTest::Down);
    let tests = all_up.node_tests(&job.request, now);
    let useful = tests.iter().filter(|(test, _)| !of_no_use(test));
    useful.fold(Idset::new(), |all, (_, ranks)| all.union(&ranks.intersection(down)))
}
