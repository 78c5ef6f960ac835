//! Decisions to start, reserve or leave a job, a job at a time, beside a plan of the cores that are free later.
//!
//! The decision of DRAS (Fan et al., 2021) and of DeepRM (Mao et al., 2016): in each pass the first waiting jobs are asked
//! about, in a base order. A job that was reserved keeps its start until the end of the pass, and no job may start that
//! delays it. This module must never know rewards.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_networks::features::{Around, Waiting};
use fluxgate_networks::model::{Seen, View};
use fluxgate_networks::pick::{Refused, World};

use crate::deciding::{Decider, Order};

/// Most times of a plan.
pub const SLOTS_MAX: usize = 1024;
/// Most reservations of a pass.
pub const RESERVATIONS_MAX: u32 = 1000;

/// A decision about a job, by the number of the action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The job starts.
    Start,
    /// The job gets a reservation at its earliest start.
    Reserve,
    /// The job waits.
    Leave,
}

impl Fate {
    /// All fates, in the order of actions.
    pub const ALL: [Fate; 3] = [Fate::Start, Fate::Reserve, Fate::Leave];

    /// Name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Fate::Start => "start",
            Fate::Reserve => "reserve",
            Fate::Leave => "leave",
        }
    }
}

/// The extent of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planned {
    /// Seconds from now to the end of the plan, above 0.
    pub horizon: f64,
    /// Times of the plan, 1 to [`SLOTS_MAX`].
    pub slots: usize,
    /// Most reservations of a pass, at most [`RESERVATIONS_MAX`].
    pub reservations: u32,
}

/// A job that holds cores, or will.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Held {
    start: f64,
    end: f64,
    cores: u32,
}

/// Decisions to start, reserve or leave a job. An observation has rows of this job and of those behind it in the base order, and then
/// the share of cores that are free at each time of the plan.
pub struct Reserving {
    view: View,
    base: Order,
    planned: Planned,
    ask_single: bool,
    /// Running jobs, up to their requested ends.
    running: BTreeMap<u64, Held>,
    /// Reservations of this pass, in the order in which they were made.
    reserved: Vec<u64>,
    /// The times of these reservations.
    times: Vec<Held>,
    /// Jobs that wait until the next pass.
    left: BTreeSet<u64>,
    /// Jobs of this pass that were decided.
    decided: usize,
    /// The job that is asked about, and for each fate whether it is allowed.
    asked: Option<u64>,
    mask: [bool; 3],
    /// The answer, until it is carried out.
    answered: Option<Fate>,
    beyond: u64,
}

impl Reserving {
    /// A decider with nothing running. With `ask_single` questions with one possible answer are asked too.
    pub fn new(view: View, base: Order, planned: Planned, ask_single: bool) -> Self {
        Reserving {
            view,
            base,
            planned,
            ask_single,
            running: BTreeMap::new(),
            reserved: Vec::new(),
            times: Vec::new(),
            left: BTreeSet::new(),
            decided: 0,
            asked: None,
            mask: [false; 3],
            answered: None,
            beyond: 0,
        }
    }

    fn start(&mut self, world: &mut dyn World, job: &Waiting) -> Result<(), Refused> {
        let before = world.around();
        world.start(job)?;
        let cores = before.free_cores.saturating_sub(world.around().free_cores);
        self.running.insert(job.id, Held { start: before.now, end: before.now + job.duration, cores });
        Ok(())
    }

    fn reserve(&mut self, world: &mut dyn World, job: &Waiting) -> Result<(), Refused> {
        let start = world.reserve(job)?;
        if !start.is_finite() {
            return Err(Refused::Never);
        }
        self.times.push(Held { start, end: start + job.duration, cores: job.cores });
        Ok(())
    }

    /// Carries out a decision about a job. False if the pass has to end.
    fn carry_out(&mut self, world: &mut dyn World, job: &Waiting, fate: Fate) -> bool {
        self.decided += 1;
        let done = match fate {
            Fate::Start => self.start(world, job),
            Fate::Reserve => self.reserve(world, job).map(|()| self.reserved.push(job.id)),
            Fate::Leave => Err(Refused::Waits),
        };
        if done.is_err() {
            self.left.insert(job.id);
        }
        done != Err(Refused::Over)
    }

    /// Writes the shares of cores that are free at each time of the plan, if running jobs end as requested and reserved
    /// jobs start as reserved.
    fn plan(&self, around: &Around, out: &mut Vec<f32>) {
        let all = f64::from(around.cores.max(1));
        let step = self.planned.horizon / self.planned.slots as f64;
        out.push((f64::from(around.free_cores) / all) as f32);
        for slot in 1..self.planned.slots {
            let time = around.now + step * slot as f64;
            let holds = |held: &&Held| held.start <= time && time < held.end;
            let held = self.running.values().chain(&self.times).filter(holds);
            let held: u64 = held.map(|held| u64::from(held.cores)).sum();
            out.push((1.0 - held as f64 / all).max(0.0) as f32);
        }
    }
}

impl Decider for Reserving {
    fn pass(&mut self, world: &mut dyn World, seen: &mut Seen) -> bool {
        let mut jobs = Vec::new();
        world.jobs(&mut jobs);
        self.base.sort(world.around().now, &mut jobs);
        let answered = self.answered.take();
        if answered.is_none() {
            self.reserved.clear();
            self.left.clear();
            self.decided = 0;
        }
        // The reservations of the part of this pass before the question.
        self.times.clear();
        for id in self.reserved.clone() {
            let Some(at) = jobs.iter().position(|job| job.id == id) else { continue };
            let job = jobs.remove(at);
            if self.reserve(world, &job) == Err(Refused::Over) {
                return false;
            }
        }
        jobs.retain(|job| !self.left.contains(&job.id));
        let mut jobs = &jobs[..];
        if let Some(fate) = answered {
            let asked = self.asked.take();
            if let Some((job, others)) = jobs.split_first().filter(|(job, _)| Some(job.id) == asked) {
                jobs = others;
                if !self.carry_out(world, job, fate) {
                    return false;
                }
            }
        }
        while let Some((job, others)) = jobs.split_first() {
            if self.decided >= self.view.rows {
                self.beyond += 1;
                return false;
            }
            let mut around = world.around();
            let fits = around.fits(job) && world.fits(job);
            let room = !fits && self.reserved.len() < self.planned.reservations as usize;
            // On an idle machine nothing else would go on.
            let runs = around.free_cores < around.cores;
            self.mask = [fits, room && world.earliest(job).is_finite(), runs];
            let mut allowed = Fate::ALL.into_iter().zip(self.mask).filter(|(_, allowed)| *allowed);
            let single = match (allowed.next(), allowed.next()) {
                // It can never start.
                (None, _) => Some(Fate::Leave),
                (Some((fate, _)), None) if !self.ask_single => Some(fate),
                _ => None,
            };
            if let Some(fate) = single {
                if !self.carry_out(world, job, fate) {
                    return false;
                }
                jobs = others;
                continue;
            }
            let first = self.times.iter().map(|held| held.start - around.now).min_by(f64::total_cmp);
            around.gap = first.unwrap_or(0.0).max(0.0);
            self.view.see(&around, jobs, |_| true, seen);
            self.plan(&around, &mut seen.values);
            self.asked = Some(job.id);
            return true;
        }
        false
    }

    fn answer(&mut self, action: usize, _seen: &Seen) {
        self.answered = Some(Fate::ALL.get(action).copied().unwrap_or(Fate::Leave));
    }

    fn ended(&mut self, job: u64) {
        self.running.remove(&job);
    }

    fn actions(&self) -> usize {
        Fate::ALL.len()
    }

    fn view(&self) -> View {
        self.view
    }

    fn mask(&self, _seen: &Seen, out: &mut Vec<bool>) {
        out.clear();
        out.extend(self.mask);
    }

    fn beyond(&self) -> u64 {
        self.beyond
    }
}
