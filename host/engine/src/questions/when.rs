//! The start of a job that is not submitted, or of a waiting job with another jobspec.
//!
//! The policy decides on a copy where the job stands in its queue and whether it starts at once (`trial.rs`). A job that does not
//! start at once is expected by the rule of forecasts, after the jobs that stand before it. Where the policy cannot be run on the copy,
//! the job stands behind all waiting jobs or, if these wait by priority, behind those of at least its own priority. It then starts at
//! once if the gate and the behaviour of the policy so far let it (`gaps.rs`).
//!
//! Must never know the purpose of a question.

use fluxgate_formats::{JobId, Jobspec};

use super::outlook::{Expected, Instead, Outlook, Source, Stands};
use super::trial::{Submission, Tried};
use super::{About, IMAGINED, Impossible, Obstacle, Questions, Waiting};
use crate::forecast::FORECAST_JOBS_MAX;
use crate::policy::Anew;
use crate::policy_error::PolicyError;

/// The priority of a job for which neither a priority is given nor another job of its queue waits: that of Flux.
const PRIORITY: u32 = 16;

/// The expected start of a job that is not submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct WhenAnswer {
    /// The expected start; its id is no job's.
    pub expected: Expected,
    /// True if more jobs wait than were looked at, so the start may be later.
    pub at_least: bool,
    /// The obstacles in the way; empty when it would start at once.
    pub obstacles: Vec<Obstacle>,
    /// Fewest nodes of its request, 0 when it names none.
    pub nodes: u32,
    /// Fewest cores of its request.
    pub cores: u32,
    /// Its limit in seconds, infinite without.
    pub duration: f64,
}

/// The source of the priority of a job that is only asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrioritySource {
    /// It was given.
    Given,
    /// The last job of the user has it.
    LastJob,
    /// No job of the user is known: the job stands behind all that wait, unless the policy puts it before some.
    Unknown,
}

impl PrioritySource {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            PrioritySource::Given => "given",
            PrioritySource::LastJob => "last-job",
            PrioritySource::Unknown => "unknown",
        }
    }
}

/// The reason for which there is no answer under another policy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TrialError {
    /// The job would be refused.
    #[error(transparent)]
    Never(#[from] Impossible),
    /// The policy failed.
    #[error("the policy failed: {0}")]
    Failed(#[from] PolicyError),
    /// A policy was being swapped when the copy was made, or the copy is one without [`About::trials`].
    #[error("a swap is on its way; try again")]
    Swapping,
}

impl Questions {
    /// The priority of a job of this user: the one that is given, or that of the last job; `None` if neither is known. For a copy
    /// with [`About::trials`].
    pub fn priority(&self, userid: u32, given: Option<u32>) -> (Option<u32>, PrioritySource) {
        let last = || self.priorities.of(userid);
        match (given, given.or_else(last)) {
            (Some(given), _) => (Some(given), PrioritySource::Given),
            (None, Some(last)) => (Some(last), PrioritySource::LastJob),
            (None, None) => (None, PrioritySource::Unknown),
        }
    }

    /// The start of a job that is submitted now, by this user, with this priority. Without a priority it stands behind all waiting
    /// jobs of its queue, unless the policy of the queue puts it before some of them. `enough` is asked before each waiting job: if it
    /// is true before all of them have expected starts, the start is [`Source::Unsearched`].
    ///
    /// # Errors
    /// [`Impossible`] if the job would be refused.
    pub fn when(
        &mut self,
        jobspec: &Jobspec,
        userid: u32,
        priority: Option<u32>,
        enough: &mut dyn FnMut() -> bool,
    ) -> Result<WhenAnswer, Impossible> {
        let mut job = self.imagine(jobspec, userid, priority.unwrap_or(0))?;
        let mut instead = Instead::NoJob;
        let mut at_once = None;
        if let Some(tried) = self.live(&job, jobspec, priority) {
            job.ahead = tried.ahead;
            at_once = Some(tried.starts);
            if tried.is_passed {
                instead = Instead::Behind(job.queue, tried.ahead);
            }
        } else if let Some(priority) = priority.filter(|_| self.is_by_priority(&job)) {
            let before = |other: &&Waiting| other.queue == job.queue && other.priority < priority;
            let later = self.jobs[..self.first].iter().filter(before).count() as u64;
            job.ahead = job.ahead.saturating_sub(later);
            if later > 0 {
                instead = Instead::Before(job.queue, priority);
            }
        }
        let at_once = at_once.unwrap_or_else(|| self.starts_at_once(&job));
        if at_once {
            return Ok(self.answer(job, (Some(self.now), Source::Free)));
        }
        // A reserved start, unlike an estimate, may be later than the start that is expected of the job.
        let told = self.not_before(&job, instead, enough);
        let found = match instead {
            Instead::NoJob => {
                let known = self.forecast.take();
                let look = || self.look(Instead::NoJob, Stands::Nothing, enough);
                let mut outlook = known.unwrap_or_else(look);
                let found = outlook.find_behind(self, &job, told);
                self.forecast = Some(outlook);
                found
            }
            _ => self.look(instead, Stands::Nothing, enough).find_behind(self, &job, told),
        };
        Ok(self.answer(job, found))
    }

    /// As [`when`](Self::when), if another policy decided in the queue of the job: it gives the order and makes the pass.
    ///
    /// # Errors
    /// [`TrialError`] if the job would be refused, a policy fails, or a swap is under way.
    pub fn when_under(
        &self,
        jobspec: &Jobspec,
        userid: u32,
        priority: Option<u32>,
        policy: &Anew,
        enough: &mut dyn FnMut() -> bool,
    ) -> Result<WhenAnswer, TrialError> {
        let mut alone = self.resources.clone();
        let request = alone.compile(jobspec).map_err(|e| Impossible(e.to_string()))?;
        alone.satisfiable(&request).map_err(|e| Impossible(e.to_string()))?;
        let trials = self.trials.as_ref().ok_or(TrialError::Swapping)?;
        let name = jobspec.queue().unwrap_or("");
        let of = self.submission(jobspec, userid, priority);
        let priority = of.priority;
        let refused = || Impossible("the job would be refused".to_owned());
        let tried = trials.submit(&of, Some(policy))?.ok_or_else(refused)?;
        let about =
            About { jobs_max: FORECAST_JOBS_MAX, job: Some(IMAGINED), queues: &[name], trials: false };
        let mut after = tried.engine.questions(self.now, &about);
        for queue in &mut after.queues {
            queue.backfills |= queue.passes_others;
        }
        if tried.starts {
            let job = after.imagine(jobspec, userid, priority)?;
            return Ok(after.answer(job, (Some(after.now), Source::Free)));
        }
        let index = after.index_of(IMAGINED).ok_or_else(refused)?;
        let mut outlook = after.look(Instead::NoJob, Stands::Nothing, enough);
        let found = match outlook.expected.get(index) {
            Some(expected) => (expected.start, expected.source),
            None => outlook.find_behind(&after, &after.jobs[index], f64::NEG_INFINITY),
        };
        // The job is not in its own way.
        after.resources.unreserve(IMAGINED);
        let job = after.jobs.remove(index);
        after.first -= usize::from(index < after.first);
        let mut answer = after.answer(job, found);
        answer.at_least = !self.is_complete() && !tried.is_passed;
        Ok(answer)
    }

    /// The start of a job with this jobspec in the place of a waiting job; `enough` as for [`when`](Self::when).
    ///
    /// # Errors
    /// [`Impossible`] if the job would be refused, or the waiting job is none of the first.
    pub fn instead(
        &mut self,
        id: JobId,
        jobspec: &Jobspec,
        enough: &mut dyn FnMut() -> bool,
    ) -> Result<WhenAnswer, Impossible> {
        let index = self.index_of(id).filter(|index| *index < self.first);
        let index = index.ok_or_else(|| Impossible(format!("too many jobs are ahead of {id}")))?;
        let now = &self.jobs[index];
        let (userid, priority, ahead, queue) = (now.userid, now.priority, now.ahead, now.queue);
        let mut job = self.imagine(jobspec, userid, priority)?;
        if job.queue == queue {
            job.ahead = ahead;
        }
        let outlook = self.look(Instead::Of(index, &job), Stands::Told, enough);
        let found = outlook.expected.get(index).map(|expected| (expected.start, expected.source));
        // The job itself is not in the way of its replacement.
        let kept = self.resources.clone();
        self.resources.unreserve(id);
        let gone = self.jobs.remove(index);
        self.first -= 1;
        let found = match self.starts_at_once(&job) {
            true => (Some(self.now), Source::Free),
            false => found.unwrap_or((None, Source::Forecast)),
        };
        let when = self.answer(job, found);
        self.first += 1;
        self.jobs.insert(index, gone);
        self.resources = kept;
        Ok(when)
    }

    /// The decision of the present policy about a job; `None` where the copy cannot tell.
    fn live(&self, job: &Waiting, jobspec: &Jobspec, priority: Option<u32>) -> Option<Tried> {
        let trials = self.trials.as_ref()?;
        let name = jobspec.queue().unwrap_or("");
        if !trials.is_like_live(name) || trials.looks_at_all(name) && !self.is_complete() {
            return None;
        }
        let of = self.submission(jobspec, job.userid, priority);
        let tried = trials.submit(&of, None).ok()??;
        // Jobs that the copy lacks may stand before a job behind its last one.
        (self.is_complete() || tried.is_passed).then_some(tried)
    }

    /// Do jobs wait in this queue in the order of their priorities? A policy that gives no keys has 0 for all.
    fn is_by_priority(&self, job: &Waiting) -> bool {
        let mut others = self.jobs[..self.first].iter().filter(|other| other.queue == job.queue);
        others.all(|other| other.key.is_none_or(|key| key == 0.0))
    }

    /// A job as it would be submitted now. Without a priority it has the lowest of those that wait in its queue.
    fn submission<'a>(&self, jobspec: &'a Jobspec, userid: u32, priority: Option<u32>) -> Submission<'a> {
        let name = jobspec.queue().unwrap_or("");
        let of = |job: &&Waiting| self.queue_state(job.queue).is_some_and(|queue| queue.name == name);
        let lowest = || self.jobs[..self.first].iter().filter(of).map(|job| job.priority).min();
        let priority = priority.or_else(lowest).unwrap_or(PRIORITY);
        let t_submit = self.jobs.iter().map(|job| job.t_submit).fold(self.now, f64::max);
        Submission { jobspec, userid, priority, t_submit, now: self.now }
    }

    /// The latest told start of a waiting job before which this job does not start. The waiting job stands before this one, asks for no
    /// more, and has no reserved start, which may be later than it is expected.
    fn not_before(&mut self, job: &Waiting, instead: Instead<'_>, enough: &mut dyn FnMut() -> bool) -> f64 {
        self.expected_until(enough);
        let Some(Outlook { expected, .. }) = &self.outlook else { return f64::NEG_INFINITY };
        let before = |other: &Waiting| match instead {
            Instead::Before(_, priority) => other.priority >= priority,
            Instead::Behind(_, ahead) => other.ahead < ahead,
            _ => true,
        };
        let alike = |other: &Waiting| {
            other.queue == job.queue
                && other.request.shape() == job.request.shape()
                && other.duration <= job.duration
        };
        let rows = self.jobs.iter().zip(expected).filter(|(other, _)| alike(other) && before(other));
        let starts = rows.filter(|(_, row)| !matches!(row.source, Source::Reserved | Source::Unsearched));
        starts.map(|(_, row)| row.start.unwrap_or(f64::INFINITY)).fold(f64::NEG_INFINITY, f64::max)
    }

    fn answer(&self, job: Waiting, (start, source): (Option<f64>, Source)) -> WhenAnswer {
        let at_once = source == Source::Free;
        let expected = Expected { id: IMAGINED, queue: job.queue, start, source };
        let mut obstacles = if at_once { Vec::new() } else { self.obstacles(&job) };
        if let (false, true, Some(queue)) = (at_once, obstacles.is_empty(), self.queue_state(job.queue)) {
            obstacles.push(Obstacle::Policy(queue.policy.clone()));
        }
        let behind = |other: &Waiting| other.queue == job.queue && other.ahead >= job.ahead;
        let is_passed = self.jobs[..self.first].iter().any(behind);
        WhenAnswer {
            expected,
            at_least: !at_once && !self.is_complete() && !is_passed,
            obstacles,
            nodes: job.request.min_nodes(),
            cores: job.request.min_cores(),
            duration: job.duration,
        }
    }
}
