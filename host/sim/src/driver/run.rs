//! A run that goes on from pass to pass.
//!
//! This module does not know what an event does, nor the order of the events of an instant.

use std::cmp::Reverse;
use std::iter::Peekable;
use std::ops::Deref;

use fluxgate_engine::{Config, Engine, Event};
use fluxgate_formats::Idset;
use fluxgate_graph::Resources;

use super::instant::{Instant, Stepped};
use super::saved::Saved;
use super::{Deciders, IDLE_WAKES_MAX, Outcome, SimError, Simulation, Surroundings};
use crate::observe::{Observer, PROGRESS_EVERY};
use crate::workload::Job;

/// A run that goes on from pass to pass, so that its caller can act between two of them.
pub struct Run<J: Iterator<Item = Job>, S> {
    sim: Simulation<S>,
    jobs: Peekable<J>,
    /// The instant whose events are being stepped.
    instant: Option<Instant>,
    /// Wake-ups in a row without any other future event.
    idle_wakes: u32,
    /// Time of the first event, in seconds.
    begin: f64,
}

/// The result of a step.
enum Step {
    Event,
    Pass,
    /// No event is left.
    Over,
}

/// True if starts need R: it names the jobs on a failing node, and the result of a request.
pub(crate) fn writes_r(surroundings: &Surroundings, observers: &[&mut dyn Observer]) -> bool {
    let told = !surroundings.outages.is_empty() || !surroundings.jobspecs.is_empty();
    told || observers.iter().any(|o| o.wants_r())
}

/// The earlier of two times, where both are known.
fn earlier(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

impl<S> Simulation<S> {
    /// From now on starts have the runs of cores, and passes are traced, if an observer wants that.
    fn tells(&mut self, write_r: bool, observers: &[&mut dyn Observer]) {
        self.runs = !write_r && observers.iter().any(|o| o.wants_cores());
        self.engine.set_tracing(observers.iter().any(|o| o.wants_passes()));
    }
}

impl<J: Iterator<Item = Job>, S: Deref<Target = Surroundings>> Run<J, S> {
    /// A run before the first event; the policies are active, and jobs that run already are placed. Jobs come by submission, then id. The
    /// observers have to be the same in all calls.
    ///
    /// # Errors
    /// A policy cannot be activated, a reservation cannot be made, a node of a running job has failed before, or an observer failed.
    pub fn new(
        jobs: J,
        surroundings: S,
        resources: Resources,
        config: Config,
        policies: impl Into<Deciders>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Self, SimError> {
        Run::of(jobs.peekable(), surroundings, resources, config, policies, observers)
    }

    /// The same for jobs of which the next one may be known.
    pub(crate) fn of(
        mut jobs: Peekable<J>,
        surroundings: S,
        resources: Resources,
        mut config: Config,
        policies: impl Into<Deciders>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Self, SimError> {
        config.write_r = writes_r(&surroundings, observers);
        let begin = jobs.peek().map_or(0.0, |j| j.submit);
        let write_r = config.write_r;
        let mut sim = Simulation::new(Engine::new(resources, config), begin, surroundings);
        sim.tells(write_r, observers);
        if !sim.surroundings.reservations.is_empty() {
            let windows = sim.surroundings.reservations.windows(&mut sim.engine, begin)?;
            observers.iter_mut().for_each(|o| o.reserved(&windows, &sim.surroundings.queues));
        }
        sim.install(policies.into(), observers)?;
        sim.warm_up(observers)?;
        Ok(Run { sim, jobs, instant: None, idle_wakes: 0, begin })
    }

    /// Goes on from a state, with jobs of the log that were not submitted then. Observers were told what came before. With
    /// `fork`, the policies are swapped in now, each with the state of the policy before it if it takes that.
    ///
    /// # Errors
    /// [`SimError::Checkpoint`] if the state is not of such a run.
    pub(crate) fn resume(
        saved: Saved,
        jobs: Peekable<J>,
        surroundings: S,
        resources: Resources,
        (policies, fork): (Deciders, bool),
        observers: &mut [&mut dyn Observer],
    ) -> Result<Self, SimError> {
        let (begin, idle_wakes) = (saved.begin, saved.idle_wakes);
        let write_r = writes_r(&surroundings, observers);
        let mut sim =
            Simulation::restored(saved, surroundings, resources, write_r, (policies, fork), observers)?;
        sim.tells(write_r, observers);
        let progress = sim.progress();
        observers.iter_mut().try_for_each(|o| o.progress(&progress))?;
        Ok(Run { sim, jobs, instant: None, idle_wakes, begin })
    }

    /// Its state, for [`Run::resume`]; `None` if an event of this time is left, or none at all.
    ///
    /// # Errors
    /// A policy failed to save its state, or an observer failed.
    pub(crate) fn save(&mut self, observers: &mut [&mut dyn Observer]) -> Result<Option<Saved>, SimError> {
        let later = self.instant.is_none() && self.upcoming().0.is_some_and(|next| next > self.sim.now);
        if !later {
            return Ok(None);
        }
        let saved = self.sim.saved((self.begin, self.idle_wakes), observers)?;
        Ok(Some(saved))
    }

    /// Time of the first event, in seconds.
    pub(crate) fn begin(&self) -> f64 {
        self.begin
    }

    /// Number of jobs submitted so far.
    pub(crate) fn submitted(&self) -> u64 {
        self.sim.submitted
    }

    /// The engine of the run.
    pub fn engine(&self) -> &Engine {
        &self.sim.engine
    }

    /// Simulated time, in seconds in the time base of the workload.
    pub fn now(&self) -> f64 {
        self.sim.now
    }

    /// The time of the next event; `None` if none is left.
    pub(crate) fn next_at(&mut self) -> Option<f64> {
        self.upcoming().0
    }

    /// Cores in use.
    pub fn busy(&self) -> u64 {
        self.sim.busy
    }

    /// Steps events until a pass is due, and makes it. False if no event is left.
    ///
    /// # Errors
    /// The workload is not in order, a policy failed, or an observer failed.
    pub fn pass(&mut self, observers: &mut [&mut dyn Observer]) -> Result<bool, SimError> {
        loop {
            match self.step(observers)? {
                Step::Event => {}
                Step::Pass => return Ok(true),
                Step::Over => return Ok(false),
            }
        }
    }

    /// Steps all events of the next instant, with its passes. False if no event is left.
    pub(crate) fn instant(&mut self, observers: &mut [&mut dyn Observer]) -> Result<bool, SimError> {
        loop {
            match self.step(observers)? {
                Step::Over => return Ok(false),
                Step::Event | Step::Pass if self.instant.is_none() => return Ok(true),
                Step::Event | Step::Pass => {}
            }
        }
    }

    /// Steps one event, and makes the pass that is due after it.
    fn step(&mut self, observers: &mut [&mut dyn Observer]) -> Result<Step, SimError> {
        if self.instant.is_none() {
            let Some(now) = self.next_instant() else { return Ok(Step::Over) };
            self.sim.advance(now, observers)?;
            self.sim.succeed(observers)?;
            self.instant = Some(self.sim.begin(now, observers)?);
        }
        let Some(instant) = &mut self.instant else { return Ok(Step::Over) };
        let stepped = self.sim.event(instant, &mut self.jobs, observers)?;
        let (Stepped::Event { pass } | Stepped::Over { pass }) = stepped;
        let arrived = instant.arrived();
        if pass {
            self.sim.pass(observers)?;
        }
        if let Stepped::Over { .. } = stepped {
            self.instant = None;
            self.end_of_instant(arrived, observers)?;
        }
        Ok(if pass { Step::Pass } else { Step::Event })
    }

    /// Makes another pass at this time, although no event asks for it.
    ///
    /// # Errors
    /// As [`Run::pass`].
    pub fn pass_again(&mut self, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        // An event that changes nothing: a pass is due after it.
        self.sim.step(Event::Up(Idset::new()), observers)?;
        self.sim.pass(observers)
    }

    /// The time of the next event; `None` if the run is over.
    fn next_instant(&mut self) -> Option<f64> {
        let (now, alone) = self.upcoming();
        if alone {
            self.idle_wakes += 1;
            if self.sim.waiting.is_empty() || self.idle_wakes > IDLE_WAKES_MAX {
                return None;
            }
        } else {
            self.idle_wakes = 0;
        }
        now
    }

    /// The time of the next event, and whether it is a wake-up without any other future event.
    fn upcoming(&mut self) -> (Option<f64>, bool) {
        let sim = &self.sim;
        let arrival = earlier(self.jobs.peek().map(|job| job.submit), sim.followers.next_time());
        let end = sim.ends.peek().map(|Reverse(e)| e.time.0);
        let wake = sim.engine.next_wake().filter(|&t| t > sim.now && sim.rules.wakes);
        // Before the first job all nodes count, after the last none does.
        let jobs_left = arrival.is_some() || end.is_some() || !sim.waiting.is_empty();
        let change = sim.next_change().filter(|_| jobs_left).map(|time| time.max(sim.now));
        let now = earlier(earlier(arrival, end), earlier(wake, change));
        (now, now.is_some() && arrival.is_none() && end.is_none() && change.is_none())
    }

    fn end_of_instant(&mut self, arrived: bool, observers: &mut [&mut dyn Observer]) -> Result<(), SimError> {
        let sim = &mut self.sim;
        if let Some(every) = sim.surroundings.forecasts {
            sim.forecast(every, arrived, observers)?;
        }
        sim.instants += 1;
        if sim.instants.is_multiple_of(PROGRESS_EVERY) {
            let progress = sim.progress();
            observers.iter_mut().try_for_each(|o| o.progress(&progress))?;
        }
        Ok(())
    }

    /// Ends the run: jobs that wait are told, and are never started.
    ///
    /// # Errors
    /// An observer failed.
    pub fn finish(mut self, observers: &mut [&mut dyn Observer]) -> Result<Outcome, SimError> {
        self.sim.flush(observers)?;
        let unfinished = self.sim.leave(observers)?;
        observers.iter_mut().try_for_each(|o| o.finished())?;
        Ok(self.sim.outcome(unfinished))
    }
}
