//! Questions asked during a run, and their answers held to it: the shapes of jobs that start at once, and when a job that is about
//! to be submitted would start.
//!
//! The questions are asked just before jobs of the log are submitted, on the state that stands then. A shape or job that is said
//! to start at once is submitted, once for each answer, to an engine of its own that goes on from that state. The expected start
//! of a job, and the forecast that was made when the job had been submitted, are compared with the start that came.
//!
//! This module does not know how an answer is found.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use fluxgate_engine::{
    About, Action, Config, Engine, Event, FORECAST_JOBS_MAX, Forecast, Gap, GapQuestion, Policy, Source,
};
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{JobId, Jobspec};
use fluxgate_graph::Resources;

use crate::calibration::{Calibrated, Calibration};
use crate::driver::{PRIORITY, Run, Saved, SimError, Surroundings};
use crate::jobspecs::Jobspecs;
use crate::observe::{Observer, Started};
use crate::workload::Job;

/// The id of a job that is submitted to hold an answer: no job of a log has it.
const HELD: JobId = JobId(u64::MAX - 1);

/// The questions of a run, and the results of their answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Number of submissions before which questions were asked.
    pub moments: u64,
    /// Number of shapes that were said to start at once, in nodes and in cores.
    pub boxes: u64,
    /// Number of jobs of the log that were said to start at once.
    pub free: u64,
    /// Number of jobs that start at once if they are submitted then, although the answer did not say so.
    pub untold: u64,
    /// Answers that did not hold, in words; empty if all held.
    pub broken: Vec<String>,
    /// Errors of the starts that were told before the submission.
    pub when: Calibrated,
    /// Errors of the forecasts at the submission of the same jobs.
    pub forecast: Calibrated,
}

/// A run in which questions are asked: the jobs, and the world that they run in.
pub struct Asking<'a> {
    /// By submission, then id.
    pub jobs: &'a [Job],
    /// The surroundings of the run. Forecasts need not be asked for.
    pub surroundings: &'a Surroundings,
    /// The machine.
    pub resources: &'a Resources,
    /// Makes the policy, for the run and for each engine that goes on from one of its states.
    pub policy: &'a dyn Fn() -> Box<dyn Policy>,
}

impl Asking<'_> {
    /// Runs the jobs to their end, and asks before the submissions of those at these indices, in ascending order. Nothing is asked before
    /// the first event.
    ///
    /// # Errors
    /// As [`crate::driver::run_with`].
    pub fn ask(&self, places: &[usize], config: Config) -> Result<Asked, SimError> {
        let chosen = || places.iter().filter_map(|place| self.jobs.get(*place));
        let ids: BTreeSet<JobId> = chosen().map(|job| job.id).collect();
        let (mut when, mut forecast) = (Only::of(&ids), Only::of(&ids));
        let jobs = self.jobs.iter().copied();
        let (resources, policy) = (self.resources.clone(), Some((self.policy)()));
        let mut run = Run::new(jobs, self.surroundings, resources, config, policy, &mut [])?;
        let mut next = chosen().peekable();
        let mut held = Held::of(self);
        loop {
            let mut observers: [&mut dyn Observer; 2] = [&mut when, &mut forecast];
            let at = run.next_at();
            let mut asked = false;
            while let Some(job) = next.next_if(|job| at.is_some_and(|at| job.submit <= at)) {
                let Some(state) = run.save(&mut observers)? else { continue };
                let told = held.at(&state, run.engine(), job)?;
                when.told(job.submit, &[Forecast { id: job.id, start: told, reserved: None }]);
                asked = true;
                observers = [&mut when, &mut forecast];
            }
            if !run.instant(&mut observers)? {
                break;
            }
            if asked {
                let now = run.now();
                forecast.told(now, &run.engine().forecast_base(now, FORECAST_JOBS_MAX).forecast(now));
            }
        }
        run.finish(&mut [&mut when, &mut forecast])?;
        let Held { moments, boxes, free, untold, broken, .. } = held;
        let (when, forecast) = (when.errors.calibrated(), forecast.errors.calibrated());
        Ok(Asked { moments, boxes, free, untold, broken, when, forecast })
    }
}

/// Errors of some jobs alone.
struct Only<'a> {
    ids: &'a BTreeSet<JobId>,
    errors: Calibration,
}

impl<'a> Only<'a> {
    fn of(ids: &'a BTreeSet<JobId>) -> Self {
        Only { ids, errors: Calibration::new(f64::INFINITY) }
    }

    /// These starts were told at this time.
    fn told(&mut self, now: f64, starts: &[Forecast]) {
        let some: Vec<Forecast> = starts.iter().filter(|told| self.ids.contains(&told.id)).copied().collect();
        self.errors.tell(now, &some, false);
    }
}

impl Observer for Only<'_> {
    fn wants_r(&self) -> bool {
        false
    }

    fn started(&mut self, started: &Started<'_>) -> io::Result<()> {
        if self.ids.contains(&started.job.id) { self.errors.started(started) } else { Ok(()) }
    }
}

/// Answers, and whether they hold.
struct Held<'a> {
    of: &'a Asking<'a>,
    specs: Jobspecs,
    moments: u64,
    boxes: u64,
    free: u64,
    untold: u64,
    broken: Vec<String>,
}

impl<'a> Held<'a> {
    fn of(of: &'a Asking<'a>) -> Self {
        let specs = Jobspecs::new(&of.surroundings.queues, &of.surroundings.jobspecs);
        let specs = specs.with_flow(&of.surroundings.flow);
        Held { of, specs, moments: 0, boxes: 0, free: 0, untold: 0, broken: Vec::new() }
    }

    /// Asks for the gaps of the job's queue and for the start of the job, which is returned.
    fn at(&mut self, state: &Saved, engine: &Engine, job: &Job) -> Result<Option<f64>, SimError> {
        self.moments += 1;
        let now = job.submit;
        let spec = self.specs.of(job);
        let queue = spec.queue().unwrap_or("").to_owned();
        let about = About { jobs_max: FORECAST_JOBS_MAX, job: None, queues: &[&queue], trials: true };
        let mut questions = engine.questions(now, &about);
        for cores in [false, true] {
            let question = GapQuestion { queue: queue.clone(), constraint: Constraint::All, cores };
            let Ok(gaps) = questions.gaps(&question) else { continue };
            for gap in gaps.gaps {
                self.boxes += 1;
                let spec = shape(&gap, cores, &queue);
                if !self.starts(state, &spec, job.user, now)? {
                    self.broken.push(format!("{now}: {gap:?} of queue {queue:?} does not start"));
                }
            }
        }
        let Ok(when) = questions.when(&spec, job.user, None, &mut || false) else { return Ok(None) };
        let starts = self.starts(state, &spec, job.user, now)?;
        match when.expected.source {
            Source::Free if starts => self.free += 1,
            Source::Free => self.broken.push(format!("{now}: job {} does not start at once", job.id.0)),
            _ => self.untold += u64::from(starts),
        }
        Ok(when.expected.start)
    }

    /// Does a job start that is submitted now, as the only event since this state?
    fn starts(&mut self, state: &Saved, spec: &Arc<Jobspec>, user: u32, now: f64) -> Result<bool, SimError> {
        let Asking { resources, policy, .. } = self.of;
        let mut engine = state.engine(Resources::clone(resources), &mut self.specs, policy())?;
        let jobspec = Arc::clone(spec);
        let event = Event::Alloc { id: HELD, priority: PRIORITY, userid: user, t_submit: now, jobspec };
        let mut actions = engine.step(event, now);
        actions.extend(engine.pass(now));
        Ok(actions.iter().any(|action| matches!(action, Action::Start { id, .. } if *id == HELD)))
    }
}

/// A job that fills a box.
fn shape(gap: &Gap, cores: bool, queue: &str) -> Arc<Jobspec> {
    let slots = if cores { u32::try_from(gap.cores).unwrap_or(u32::MAX) } else { gap.nodes };
    let simple = Simple {
        nodes: (!cores).then_some(slots),
        slots,
        exclusive: !cores,
        // Without limit.
        duration: if gap.duration.is_finite() { gap.duration } else { 0.0 },
        queue: (!queue.is_empty()).then(|| queue.to_owned()),
        command: vec!["gap".to_owned()],
        ..Simple::default()
    };
    Arc::new(simple.build())
}
