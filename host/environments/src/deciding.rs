//! Which decisions about rows of jobs an environment asks for, and how an action is carried out.
//!
//! - [`Picking`]: which waiting job is next.
//! - [`Filling`]: which job fills the gap before the first one that waits, under a base order.
//! - [`Inspecting`]: whether the pick of a base order is taken.
//!
//! This module must never know the engine or rewards.

use std::collections::BTreeSet;

use fluxgate_guest::bench::configured;
use fluxgate_guest::{JobColumns, Ordering};
use fluxgate_networks::features::{Scales, Set, Waiting};
use fluxgate_networks::model::{Seen, View};
use fluxgate_networks::pick::{Backfill, Mode, Picker, Refused, World};
use fluxgate_networks::window::{ROWS_MAX, Rule};
use policy_formula::Formula;

/// Makes the passes of an environment.
pub trait Decider: Send {
    /// One pass, or the rest of the last one after [`Decider::answer`]. True if it ends with a question about what is
    /// seen.
    fn pass(&mut self, world: &mut dyn World, seen: &mut Seen) -> bool;

    /// The answer to the question: an action that [`Decider::mask`] allows. It is carried out in the next call of [`Decider::pass`].
    fn answer(&mut self, action: usize, seen: &Seen);

    /// Tells that a job ended.
    fn ended(&mut self, job: u64);

    /// Number of actions.
    fn actions(&self) -> usize;

    /// The rows of an observation: features, scales, number and choice.
    fn view(&self) -> View;

    /// Writes for each action whether it is allowed; what is in `out` before is removed.
    fn mask(&self, seen: &Seen, out: &mut Vec<bool>);

    /// Number of questions so far in which more jobs waited than there are rows. [`crate::reserving::Reserving`] counts passes
    /// instead that ended with more jobs.
    fn beyond(&self) -> u64;
}

/// The mask of rows, and of a last action `none` that is always allowed where there is one.
fn rows_and_none(seen: &Seen, none: bool, out: &mut Vec<bool>) {
    out.clear();
    out.extend_from_slice(&seen.allowed);
    out.extend(none.then_some(true));
}

/// Decisions about the waiting job that is next. An action is the number of a row; a last action, if there is one, picks nothing.
#[derive(Debug)]
pub struct Picking {
    picker: Picker,
    view: View,
    /// True if there is an action more: nothing is picked until the next event.
    skip: bool,
}

impl Picking {
    /// A decider with nothing running; `ask_single` as in [`Picker::new`]. With `skip` there is a last action, which picks nothing
    /// until the next event and is allowed while cores are in use.
    pub fn new(view: View, mode: Mode, backfill: Backfill, ask_single: bool, skip: bool) -> Self {
        Picking { picker: Picker::new(view, mode, backfill, ask_single), view, skip }
    }
}

impl Decider for Picking {
    fn pass(&mut self, world: &mut dyn World, seen: &mut Seen) -> bool {
        let mut asks = false;
        self.picker.pass(world, seen, &mut |_| {
            asks = true;
            None
        });
        asks
    }

    fn answer(&mut self, action: usize, seen: &Seen) {
        self.picker.answer(seen.jobs.get(action).map(|job| job.id));
    }

    fn ended(&mut self, job: u64) {
        self.picker.ended(job);
    }

    fn actions(&self) -> usize {
        self.view.rows + usize::from(self.skip)
    }

    fn view(&self) -> View {
        self.view
    }

    fn mask(&self, seen: &Seen, out: &mut Vec<bool>) {
        // On an idle machine nothing else would go on.
        let runs = seen.around.free_cores < seen.around.cores;
        out.clear();
        out.extend_from_slice(&seen.allowed);
        out.extend(self.skip.then_some(runs));
    }

    fn beyond(&self) -> u64 {
        self.picker.beyond()
    }
}

/// A base order: a formula by name, or an expression.
pub struct Order {
    formula: Formula,
}

impl Order {
    /// The order of a `score` of the policy `formula`, with submissions as they are in the log.
    ///
    /// # Errors
    /// The score is not accepted; the reason in words.
    pub fn named(score: &str) -> Result<Self, String> {
        Ok(Order { formula: configured(&[("score", score), ("origin", "epoch")])? })
    }

    /// Sorts jobs; ties stay in the order of the queue.
    pub(crate) fn sort(&mut self, now: f64, jobs: &mut [Waiting]) {
        let mut columns = JobColumns::default();
        for job in jobs.iter() {
            columns.push(&fluxgate_guest::Job {
                id: job.id,
                t_submit: job.submit,
                duration: job.duration,
                priority: 16,
                userid: job.user,
                queue: 0,
                nodes: job.nodes,
                cores: job.cores,
                gpus: 0,
            });
        }
        let keys = self.formula.keys(now, &columns);
        let mut keyed: Vec<(f64, Waiting)> = keys.into_iter().zip(jobs.iter().copied()).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (place, (_, job)) in jobs.iter_mut().zip(keyed) {
            *place = job;
        }
    }
}

/// Decisions about the job that fills the gap before the first one that waits. An action is the number of a row; the last action fills
/// nothing more in this pass.
pub struct Filling {
    view: View,
    base: Order,
    /// True if no job may delay the first that waits.
    guarded: bool,
    ask_single: bool,
    /// The first job that waits, in this pass.
    head: Option<u64>,
    resumed: bool,
    /// The job that was picked, or none.
    picked: Option<u64>,
    /// Nothing more is picked in this pass.
    idle: bool,
    beyond: u64,
}

impl Filling {
    /// A decider with nothing waiting. With `guarded`, the first job that waits gets a reservation, which no pick may delay. With
    /// `ask_single`, questions with one possible row are asked too.
    pub fn new(view: View, base: Order, guarded: bool, ask_single: bool) -> Self {
        Filling {
            view,
            base,
            guarded,
            ask_single,
            head: None,
            resumed: false,
            picked: None,
            idle: false,
            beyond: 0,
        }
    }

    /// Starts jobs in the base order until one waits. False if none does.
    fn heads(&mut self, world: &mut dyn World, jobs: &mut Vec<Waiting>) -> bool {
        let now = world.around().now;
        self.base.sort(now, jobs);
        self.head = None;
        let mut started = BTreeSet::new();
        for job in jobs.iter() {
            match world.start(job) {
                Ok(()) | Err(Refused::Never) => {
                    started.insert(job.id);
                }
                Err(Refused::Over) => return false,
                Err(Refused::Waits) => {
                    self.head = Some(job.id);
                    break;
                }
            }
        }
        jobs.retain(|job| !started.contains(&job.id));
        self.head.is_some()
    }
}

impl Decider for Filling {
    fn pass(&mut self, world: &mut dyn World, seen: &mut Seen) -> bool {
        let mut jobs = Vec::new();
        world.jobs(&mut jobs);
        let resumed = std::mem::take(&mut self.resumed);
        if std::mem::take(&mut self.idle) || (!resumed && !self.heads(world, &mut jobs)) {
            return false;
        }
        let Some(head) = self.head.and_then(|head| jobs.iter().position(|job| job.id == head)) else {
            return false;
        };
        let head = jobs.remove(head);
        let now = world.around().now;
        let begin = match self.guarded {
            true => world.reserve(&head).unwrap_or(f64::INFINITY),
            false => world.earliest(&head),
        };
        jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit).then(a.id.cmp(&b.id)));
        loop {
            if let Some(picked) = self.picked.take().and_then(|id| jobs.iter().position(|job| job.id == id)) {
                // The gate has the last word.
                let _ = world.start(&jobs.remove(picked));
            }
            let mut around = world.around();
            around.gap = if begin.is_finite() { (begin - now).max(0.0) } else { 0.0 };
            let guarded = self.guarded;
            let may = |job: &Waiting| around.fits(job) && (!guarded || world.fits(job));
            self.view.see(&around, &jobs, may, seen);
            match seen.only() {
                Some(row) if !self.ask_single => self.picked = seen.jobs.get(row).map(|job| job.id),
                None if !seen.allowed.contains(&true) => return false,
                _ => {
                    self.beyond += u64::from(jobs.len() > self.view.rows);
                    return true;
                }
            }
        }
    }

    fn answer(&mut self, action: usize, seen: &Seen) {
        self.resumed = true;
        self.picked = seen.jobs.get(action).map(|job| job.id);
        self.idle = self.picked.is_none();
    }

    fn ended(&mut self, _job: u64) {}

    fn actions(&self) -> usize {
        self.view.rows + 1
    }

    fn view(&self) -> View {
        self.view
    }

    fn mask(&self, seen: &Seen, out: &mut Vec<bool>) {
        rows_and_none(seen, true, out);
    }

    fn beyond(&self) -> u64 {
        self.beyond
    }
}

/// Decisions about the pick of a base order: action 0 takes it, action 1 takes nothing until the next event. Both are always allowed. The
/// pick is taken without a question while no core is in use.
pub struct Inspecting {
    picker: Picker,
    view: View,
    base: Order,
    rejections_max: u32,
    /// Rejections in a row.
    rejections: u32,
    /// The job that is asked about.
    asked: Option<u64>,
    /// The observation of the picker: all jobs, up to [`ROWS_MAX`].
    all: Seen,
}

impl Inspecting {
    /// A decider with nothing running; after `rejections_max` rejections in a row the pick of the base order is taken. An observation
    /// has one row, whatever `view` says.
    pub fn new(view: View, base: Order, backfill: Backfill, rejections_max: u32) -> Self {
        let every = View { set: Set::Gap1, scales: Scales::default(), rows: ROWS_MAX, rule: Rule::First };
        let picker = Picker::new(every, Mode::Commit, backfill, true);
        Inspecting {
            picker,
            view: View { rows: 1, ..view },
            base,
            rejections_max,
            rejections: 0,
            asked: None,
            all: Seen::default(),
        }
    }
}

impl Decider for Inspecting {
    fn pass(&mut self, world: &mut dyn World, seen: &mut Seen) -> bool {
        let Inspecting { picker, view, base, rejections_max, rejections, asked, all } = self;
        *asked = None;
        picker.pass(world, all, &mut |all| {
            let around = all.around;
            let mut order = all.jobs.clone();
            base.sort(around.now, &mut order);
            let first = *order.first()?;
            // Without a running job nothing else would go on.
            if *rejections >= *rejections_max || around.free_cores == around.cores {
                *rejections = 0;
                return all.jobs.iter().position(|job| job.id == first.id);
            }
            view.see(&around, &[first], |_| true, seen);
            *asked = Some(first.id);
            None
        });
        self.asked.is_some()
    }

    fn answer(&mut self, action: usize, _seen: &Seen) {
        let taken = self.asked.take().filter(|_| action == 0);
        self.rejections = if taken.is_some() { 0 } else { self.rejections + 1 };
        self.picker.answer(taken);
    }

    fn ended(&mut self, job: u64) {
        self.picker.ended(job);
    }

    fn actions(&self) -> usize {
        2
    }

    fn view(&self) -> View {
        self.view
    }

    fn mask(&self, _seen: &Seen, out: &mut Vec<bool>) {
        out.clear();
        out.extend([true, true]);
    }

    fn beyond(&self) -> u64 {
        0
    }
}
