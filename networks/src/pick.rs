//! The pass of a trained policy: rows of waiting jobs are shown, one is picked, and the pick is carried out.
//!
//! Two modes:
//!
//! - `commit`: the picked job starts if it fits; else it is *committed*, and nothing else is picked until it has started.
//!   Meanwhile other jobs start as [`Backfill`] says. A committed job that left the queue, is held or can never start
//!   is given up, so that it does not block the queue.
//! - `pass`: in each pass jobs are picked one after the other. The first that does not fit gets a reservation; after
//!   it only jobs may be picked that start now without delaying it.
//!
//! The choice of a row is a parameter, and may come later: a training environment ends the pass at a question
//! ([`Picker::pass`] with an answer of `None`), and goes on with another pass at the same time after [`Picker::answer`].
//! The pass runs on a [`World`]: the SDK's in a component, the engine's in an environment. This module knows no network.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::features::{Around, Waiting};
use crate::model::{Seen, View};

/// How picks are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `commit`: a picked job that does not fit is committed, and nothing else is picked until it has started.
    Commit,
    /// `pass`: in each pass one job after the other is picked; the first that does not fit gets a reservation.
    Pass,
}

impl Mode {
    /// Both modes.
    pub const ALL: [Mode; 2] = [Mode::Commit, Mode::Pass];

    /// Name, the value of `fluxgate.mode` in a file of weights.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Commit => "commit",
            Mode::Pass => "pass",
        }
    }
}

/// The jobs that start before a picked one that has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backfill {
    /// `none`: no job.
    None,
    /// `frozen`: in the order of the queue, jobs whose requested end is before the shadow time, which is computed once,
    /// from requested ends; no others. The rule of Zhang et al. (SC 2020).
    Frozen,
    /// `easy`: jobs that delay no reservation of the picked one; in the order of the queue with the mode `commit`.
    Easy,
}

impl Backfill {
    /// All rules.
    pub const ALL: [Backfill; 3] = [Backfill::None, Backfill::Frozen, Backfill::Easy];

    /// Name, the value of `fluxgate.backfill` in a file of weights.
    pub fn name(self) -> &'static str {
        match self {
            Backfill::None => "none",
            Backfill::Frozen => "frozen",
            Backfill::Easy => "easy",
        }
    }
}

/// The reason for which a job was not started or reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The job has to wait: too few resources are free, or a reservation would be delayed.
    Waits,
    /// The job can never run, or is not eligible, for example because it has left the queue.
    Never,
    /// The pass has to end: it has made as many decisions as it may, or its host failed.
    Over,
}

/// One pass of a host: the SDK in a component, or the engine in an environment.
pub trait World {
    /// Time and counts, staged decisions included.
    fn around(&mut self) -> Around;
    /// Appends all waiting jobs of this pass to `out`, in the order of the queue, without those that were started or reserved in it.
    fn jobs(&mut self, out: &mut Vec<Waiting>);
    /// True if a job could start now without delaying a reservation.
    fn fits(&mut self, job: &Waiting) -> bool;
    /// Earliest start of a job, seconds; infinite if there is none.
    fn earliest(&mut self, job: &Waiting) -> f64;
    /// Starts a job.
    ///
    /// # Errors
    /// The reason of the host.
    fn start(&mut self, job: &Waiting) -> Result<(), Refused>;
    /// Reserves the earliest start of a job until the next pass, and returns it in seconds; infinite if there is none.
    ///
    /// # Errors
    /// The reason of the host.
    fn reserve(&mut self, job: &Waiting) -> Result<f64, Refused>;
}

/// Requested end, seconds, and cores of a running job.
type Held = (f64, u32);

/// Makes the passes of a trained policy, and keeps its state between them; see the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub struct Picker {
    view: View,
    mode: Mode,
    backfill: Backfill,
    /// True if a question with one possible answer is asked too.
    ask_single: bool,
    /// The job that is to start next.
    committed: Option<u64>,
    /// The shadow time of the committed job, once it had to wait.
    shadow: Option<f64>,
    /// Running jobs that this policy started.
    running: BTreeMap<u64, Held>,
    /// The sum of their cores.
    held: u64,
    /// Jobs that are not picked again in this pass.
    passed: BTreeSet<u64>,
    /// Mode `pass`: the job with the reservation of this pass.
    head: Option<u64>,
    /// Mode `pass`: the job that was picked outside of the pass.
    picked: Option<u64>,
    /// The question was answered outside of the pass, so that this pass is the rest of the last one.
    resumed: bool,
    /// Nothing was picked: the pass ends.
    idle: bool,
    /// Questions in which more jobs waited than there are rows.
    beyond: u64,
}

impl Picker {
    /// A picker with nothing running. With `ask_single` questions with one possible answer are asked too.
    pub fn new(view: View, mode: Mode, backfill: Backfill, ask_single: bool) -> Picker {
        Picker {
            view,
            mode,
            backfill,
            ask_single,
            committed: None,
            shadow: None,
            running: BTreeMap::new(),
            held: 0,
            passed: BTreeSet::new(),
            head: None,
            picked: None,
            resumed: false,
            idle: false,
            beyond: 0,
        }
    }

    /// Number of questions so far in which more jobs waited than there are rows.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Id of the committed job; `None` without one. Only [`Mode::Commit`] commits jobs.
    pub fn committed(&self) -> Option<u64> {
        self.committed
    }

    /// Tells that a job ended. Jobs that this picker did not start are ignored.
    pub fn ended(&mut self, job: u64) {
        if let Some((_, cores)) = self.running.remove(&job) {
            self.held -= u64::from(cores);
        }
    }

    /// The answer to the question that ended the last pass: a job of it, or none. The next pass is the rest of that one.
    pub fn answer(&mut self, job: Option<u64>) {
        self.resumed = true;
        match (self.mode, job) {
            (_, None) => self.idle = true,
            (Mode::Commit, job) => (self.committed, self.shadow) = (job, None),
            (Mode::Pass, job) => self.picked = job,
        }
    }

    /// Makes one pass. `ask` picks a row that may be picked, or answers `None`: the pass ends there.
    pub fn pass(
        &mut self,
        world: &mut dyn World,
        seen: &mut Seen,
        ask: &mut dyn FnMut(&Seen) -> Option<usize>,
    ) {
        if !core::mem::take(&mut self.resumed) {
            self.passed.clear();
            self.head = None;
            self.picked = None;
        }
        if core::mem::take(&mut self.idle) {
            return;
        }
        match self.mode {
            Mode::Commit => self.commits(world, seen, ask),
            Mode::Pass => self.picks(world, seen, ask),
        }
    }

    /// Shows the jobs, and asks.
    fn ask(
        &mut self,
        seen: &mut Seen,
        (around, jobs): (&Around, &[Waiting]),
        allowed: &mut dyn FnMut(&Waiting) -> bool,
        ask: &mut dyn FnMut(&Seen) -> Option<usize>,
    ) -> Option<Waiting> {
        self.view.see(around, jobs, allowed, seen);
        if !seen.allowed.contains(&true) {
            return None;
        }
        let single = seen.only().filter(|_| !self.ask_single);
        if single.is_none() {
            self.beyond += u64::from(jobs.len() > self.view.rows);
        }
        let row = single.or_else(|| ask(seen))?;
        seen.jobs.get(row).copied()
    }

    fn commits(
        &mut self,
        world: &mut dyn World,
        seen: &mut Seen,
        ask: &mut dyn FnMut(&Seen) -> Option<usize>,
    ) {
        let mut jobs = Vec::new();
        world.jobs(&mut jobs);
        loop {
            let known = self.committed.and_then(|id| jobs.iter().find(|job| job.id == id).copied());
            if known.is_none() {
                (self.committed, self.shadow) = (None, None);
            }
            let head = match known {
                Some(head) => head,
                None => {
                    let around = world.around();
                    let passed = core::mem::take(&mut self.passed);
                    let picked = match passed.is_empty() {
                        true => self.ask(seen, (&around, &jobs), &mut |_| true, ask),
                        false => {
                            let left = jobs.iter().filter(|job| !passed.contains(&job.id)).copied();
                            self.ask(seen, (&around, &left.collect::<Vec<_>>()), &mut |_| true, ask)
                        }
                    };
                    self.passed = passed;
                    let Some(picked) = picked else { return };
                    self.committed = Some(picked.id);
                    picked
                }
            };
            match self.start(world, &head) {
                Ok(()) => {
                    jobs.retain(|job| job.id != head.id);
                    (self.committed, self.shadow) = (None, None);
                }
                Err(Refused::Over) => return,
                Err(Refused::Waits) if self.can_come(world, &head) => return self.fill(world, &head, &jobs),
                Err(Refused::Waits | Refused::Never) => {
                    self.passed.insert(head.id);
                    (self.committed, self.shadow) = (None, None);
                }
            }
        }
    }

    fn start(&mut self, world: &mut dyn World, job: &Waiting) -> Result<(), Refused> {
        let around = world.around();
        world.start(job)?;
        let took = around.free_cores.saturating_sub(world.around().free_cores);
        let before = self.running.insert(job.id, (around.now + job.duration, took));
        self.held = self.held + u64::from(took) - before.map_or(0, |(_, cores)| u64::from(cores));
        Ok(())
    }

    /// True if running jobs and free cores are enough for the job some time.
    fn can_come(&self, world: &mut dyn World, job: &Waiting) -> bool {
        self.held + u64::from(world.around().free_cores) >= u64::from(job.cores.max(1)) && job.nodes == 0
            || world.earliest(job).is_finite()
    }

    /// Starts other jobs while the committed one waits.
    fn fill(&mut self, world: &mut dyn World, head: &Waiting, jobs: &[Waiting]) {
        let around = world.around();
        let bound = match self.backfill {
            Backfill::None => return,
            Backfill::Frozen => match self.shadow {
                Some(shadow) => shadow,
                None => self.shadow_of(world, head),
            },
            Backfill::Easy => match world.reserve(head) {
                Ok(_) => f64::INFINITY,
                Err(_) => return,
            },
        };
        self.shadow = Some(bound);
        let mut free = around.free_cores;
        for job in jobs.iter().filter(|job| job.id != head.id) {
            let in_time = self.backfill == Backfill::Easy || around.now + job.duration < bound;
            if job.cores > free || !in_time {
                continue;
            }
            if self.start(world, job) == Err(Refused::Over) {
                return;
            }
            free = world.around().free_cores;
        }
    }

    /// The time at which enough cores are free for the job, if running jobs end as requested.
    fn shadow_of(&self, world: &mut dyn World, job: &Waiting) -> f64 {
        let around = world.around();
        let needs = u64::from(job.cores.max(1));
        let mut ends: Vec<Held> = self.running.values().copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = u64::from(around.free_cores);
        for (end, cores) in ends {
            free += u64::from(cores);
            if free >= needs {
                return end;
            }
        }
        // Others hold what is missing.
        world.earliest(job)
    }

    fn picks(&mut self, world: &mut dyn World, seen: &mut Seen, ask: &mut dyn FnMut(&Seen) -> Option<usize>) {
        let mut jobs = Vec::new();
        world.jobs(&mut jobs);
        if let Some(head) = self.head {
            // The reservation of the part of this pass before the question.
            match jobs.iter().position(|job| job.id == head) {
                Some(at) => {
                    let head = jobs.remove(at);
                    if world.reserve(&head).is_err() {
                        return;
                    }
                }
                None => self.head = None,
            }
        }
        jobs.retain(|job| !self.passed.contains(&job.id));
        loop {
            let resumed = self.picked.take().and_then(|id| jobs.iter().find(|job| job.id == id).copied());
            let picked = match resumed {
                Some(picked) => picked,
                None => {
                    let around = world.around();
                    let behind = self.head.is_some();
                    let mut allowed = |job: &Waiting| !behind || around.fits(job) && world.fits(job);
                    let Some(picked) = self.ask(seen, (&around, &jobs), &mut allowed, ask) else { return };
                    picked
                }
            };
            jobs.retain(|job| job.id != picked.id);
            match self.start(world, &picked) {
                Ok(()) => {}
                Err(Refused::Over) => return,
                Err(Refused::Waits) if self.head.is_none() => {
                    if self.backfill == Backfill::None {
                        return;
                    }
                    match world.reserve(&picked) {
                        Ok(start) if start.is_finite() => self.head = Some(picked.id),
                        Err(Refused::Over) => return,
                        Ok(_) | Err(_) => {
                            self.passed.insert(picked.id);
                        }
                    }
                }
                Err(Refused::Waits | Refused::Never) => {
                    self.passed.insert(picked.id);
                }
            }
        }
    }

    /// The state for a successor: the committed job, its shadow time and the running jobs. [`Picker::restore`] reads it.
    pub fn save(&self) -> Vec<u8> {
        let mut data = Vec::new();
        data.push(u8::from(self.committed.is_some()));
        data.extend(self.committed.unwrap_or(0).to_le_bytes());
        data.push(u8::from(self.shadow.is_some()));
        data.extend(self.shadow.unwrap_or(0.0).to_bits().to_le_bytes());
        for (id, (end, cores)) in &self.running {
            data.extend(id.to_le_bytes());
            data.extend(end.to_bits().to_le_bytes());
            data.extend(cores.to_le_bytes());
        }
        data
    }

    /// Takes over what [`Picker::save`] gave. `None`, and nothing is changed, if it is something else.
    #[must_use]
    pub fn restore(&mut self, data: &[u8]) -> Option<()> {
        const JOB: usize = 20;
        let (head, jobs) = data.split_at_checked(18)?;
        if !jobs.len().is_multiple_of(JOB) || head[0] > 1 || head[9] > 1 {
            return None;
        }
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        let committed = (head[0] == 1).then_some(number(&head[1..9])?);
        let shadow = (head[9] == 1).then_some(f64::from_bits(number(&head[10..18])?));
        let mut running = BTreeMap::new();
        for job in jobs.chunks_exact(JOB) {
            let end = f64::from_bits(number(&job[8..16])?);
            let cores = u32::from_le_bytes(job[16..].try_into().ok()?);
            if end.is_nan() {
                return None;
            }
            running.insert(number(&job[..8])?, (end, cores));
        }
        if shadow.is_some_and(f64::is_nan) {
            return None;
        }
        self.held = running.values().map(|(_, cores)| u64::from(*cores)).sum();
        (self.committed, self.shadow, self.running) = (committed, shadow, running);
        Some(())
    }
}
