//! The learned state: run times of each user's jobs, cores held by jobs, and expected ends.
//!
//! This module knows neither queues nor passes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxgate_guest::prelude::*;

/// Corrections of a prediction each time a job outlives it, in seconds: 1, 5, 15 and 30 minutes, 1, 2, 5, 10, 20, 50 and
/// 100 hours; see [`Corrections`].
pub const CORRECTIONS: [f64; 11] =
    [60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18_000.0, 36_000.0, 72_000.0, 180_000.0, 360_000.0];

/// Minimum prediction in seconds; also the expected rest of a job past its requested end.
const SHORTEST: f64 = 1.0;

/// The meaning of a correction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Corrections {
    /// It is added to the prediction that was outlived; after the last it is added again.
    #[default]
    Added,
    /// It is added to the first prediction; after the last the requested end counts.
    Offsets,
}

/// A job that waits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Waiting {
    user: u32,
    cores: u32,
    duration: f64,
    /// With predictions at submission: the prediction in seconds.
    predicted: Option<f64>,
}

/// A job that holds cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Running {
    user: u32,
    /// Number of cores.
    pub cores: u32,
    start: f64,
    /// Predicted run time at its start, in seconds.
    predicted: f64,
    /// The time at which it has to end.
    limit: f64,
    /// Number in the order of starts.
    number: u64,
}

impl Running {
    /// Its expected end, later than `now`.
    pub fn end(&self, now: f64, corrections: Corrections) -> f64 {
        match corrections {
            Corrections::Added => self.end_by_sums(now),
            Corrections::Offsets => {
                let offsets = std::iter::once(0.0).chain(CORRECTIONS);
                let mut ends = offsets.map(|offset| (self.start + self.predicted + offset).min(self.limit));
                let end = ends.find(|end| *end > now).unwrap_or(self.limit);
                if end > now { end } else { now + SHORTEST }
            }
        }
    }

    fn end_by_sums(&self, now: f64) -> f64 {
        let mut length = self.predicted;
        let mut corrections = CORRECTIONS.iter();
        let mut more = CORRECTIONS[0];
        while self.start + length <= now && self.start + length < self.limit {
            more = corrections.next().copied().unwrap_or(more);
            length += more;
        }
        let end = (self.start + length).min(self.limit);
        if end > now { end } else { now + SHORTEST }
    }
}

/// See the [module](self).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Learned {
    /// Number of run times that make a prediction; 0 for requested durations.
    history: usize,
    /// True if a job keeps the prediction of its submission.
    at_submission: bool,
    /// With predictions at submission: run times of jobs that ended at the last instant, which count for later
    /// submissions only. Time of the end, number in the order of starts, user, seconds.
    fresh: Vec<(f64, u64, u32, f64)>,
    /// Number of starts.
    started: u64,
    /// Run times of each user's last jobs, in seconds, in the order of their ends.
    lengths: BTreeMap<u32, VecDeque<f64>>,
    waiting: BTreeMap<JobId, Waiting>,
    /// Jobs that started in a pass and had no event since: a successor may get their events first.
    starting: BTreeSet<JobId>,
    running: BTreeMap<JobId, Running>,
}

impl Learned {
    /// With this number of run times of a user for a prediction.
    pub fn new(history: usize) -> Self {
        Learned { history, ..Learned::default() }
    }

    /// The same with predictions at submission.
    pub fn at_submission(self) -> Self {
        Learned { at_submission: true, ..self }
    }

    /// Predicted run time of a waiting job, in seconds.
    pub fn predict_for(&self, job: &Job) -> f64 {
        let kept = self.waiting.get(&job.id).and_then(|waiting| waiting.predicted);
        kept.unwrap_or_else(|| self.predict(job.userid, job.duration))
    }

    /// The run times of jobs that ended before this time count, in the order of their ends, then of their starts.
    fn settle(&mut self, before: f64) {
        let (mut over, left): (Vec<_>, _) =
            std::mem::take(&mut self.fresh).into_iter().partition(|(end, ..)| *end < before);
        self.fresh = left;
        over.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        over.into_iter().for_each(|(.., user, length)| self.ran(user, length));
    }

    /// Predicted run time of a job of this user with this requested duration, in seconds.
    pub fn predict(&self, user: u32, duration: f64) -> f64 {
        match self.lengths.get(&user) {
            Some(lengths) if self.history > 0 && lengths.len() == self.history => {
                let mean = lengths.iter().sum::<f64>() / self.history as f64;
                let mean = if self.at_submission { mean.floor() } else { mean };
                duration.min(mean).max(SHORTEST)
            }
            _ => duration.max(SHORTEST),
        }
    }

    /// A job waits, and is known from now on.
    pub fn waits(&mut self, job: &Job, cores: u32) {
        let mut predicted = None;
        if self.at_submission {
            self.settle(job.t_submit);
            predicted = Some(self.predict_for(job));
        }
        self.waiting.insert(job.id, Waiting { user: job.userid, cores, duration: job.duration, predicted });
    }

    /// Corrects the cores of a job that is about to start, where they are known better than from its request.
    pub fn takes(&mut self, id: JobId, cores: u32) {
        if let Some(job) = self.waiting.get_mut(&id) {
            job.cores = cores;
            self.starting.insert(id);
        }
    }

    /// A job got its cores, and has to end at `limit`.
    pub fn starts(&mut self, id: JobId, at: f64, limit: f64) {
        self.starting.remove(&id);
        let Some(job) = self.waiting.remove(&id) else { return };
        let predicted = job.predicted.unwrap_or_else(|| self.predict(job.user, job.duration));
        self.runs(id, Running { user: job.user, cores: job.cores, start: at, predicted, limit, number: 0 });
    }

    fn runs(&mut self, id: JobId, running: Running) {
        self.started += 1;
        self.running.insert(id, Running { number: self.started, ..running });
    }

    /// The time changed at which a job has to end.
    pub fn limited(&mut self, id: JobId, limit: f64) {
        if let Some(job) = self.running.get_mut(&id) {
            job.limit = limit;
        }
    }

    /// A job left the queue without having started.
    pub fn leaves(&mut self, id: JobId) {
        self.starting.remove(&id);
        self.waiting.remove(&id);
    }

    /// A job released its cores.
    pub fn ends(&mut self, id: JobId, at: f64) {
        let Some(job) = self.running.remove(&id) else { return };
        let length = (at - job.start).max(0.0);
        if self.at_submission {
            self.settle(at);
            self.fresh.push((at, job.number, job.user, length));
        } else {
            self.ran(job.user, length);
        }
    }

    fn ran(&mut self, user: u32, length: f64) {
        let lengths = self.lengths.entry(user).or_default();
        lengths.push_back(length);
        while lengths.len() > self.history {
            lengths.pop_front();
        }
    }

    /// Jobs that hold cores, by id.
    pub fn running(&self) -> impl Iterator<Item = &Running> {
        self.running.values()
    }

    /// The state as text, one user or job a line.
    pub fn save(&self) -> String {
        let mut all = self.clone();
        all.settle(f64::INFINITY);
        all.text()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (user, lengths) in self.lengths.iter().filter(|(_, lengths)| !lengths.is_empty()) {
            let lengths: String = lengths.iter().map(|length| format!(" {length}")).collect();
            text += &format!("ran {user}{lengths}\n");
        }
        let kept = self.waiting.iter().filter(|(id, _)| !self.starting.contains(id));
        for (id, job, predicted) in kept.filter_map(|(id, job)| Some((id, job, job.predicted?))) {
            text += &format!("waits {id} {} {} {} {predicted}\n", job.user, job.cores, job.duration);
        }
        for (id, job) in self.starting.iter().filter_map(|id| Some((id, self.waiting.get(id)?))) {
            text += &format!("starts {id} {} {} {}\n", job.user, job.cores, job.duration);
        }
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by_key(|(_, job)| job.number);
        for (id, job) in running {
            let Running { user, cores, start, predicted, limit, number: _ } = job;
            text += &format!("runs {id} {user} {cores} {start} {predicted} {limit}\n");
        }
        text
    }

    /// Takes over the output of [`save`](Self::save); of more run times than needed the last count.
    pub fn restore(&mut self, text: &str) -> Result<(), String> {
        let mut made = self.clone();
        for (line, n) in text.lines().zip(1..) {
            made.line(line).ok_or_else(|| format!("line {n} is `{line}`, which is no user and no job"))?;
        }
        *self = made;
        Ok(())
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let number = |text: &str| text.parse().ok().filter(|value: &f64| !value.is_nan() && *value >= 0.0);
        let mut parts = line.split(' ');
        match parts.next()? {
            "ran" => {
                let user = parts.next()?.parse().ok()?;
                let lengths = parts.map(|part| number(part).filter(|length| length.is_finite()));
                let lengths = lengths.collect::<Option<Vec<f64>>>().filter(|lengths| !lengths.is_empty())?;
                lengths.into_iter().for_each(|length| self.ran(user, length));
            }
            "waits" => {
                let (id, user) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                let (cores, duration) = (parts.next()?.parse().ok()?, number(parts.next()?)?);
                let predicted = Some(number(parts.next()?).filter(|_| parts.next().is_none())?);
                self.waiting.insert(id, Waiting { user, cores, duration, predicted });
            }
            "starts" => {
                let (id, user) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                let cores = parts.next()?.parse().ok()?;
                let duration = number(parts.next()?).filter(|_| parts.next().is_none())?;
                self.waiting.insert(id, Waiting { user, cores, duration, predicted: None });
                self.starting.insert(id);
            }
            "runs" => {
                let (id, user) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                let cores = parts.next()?.parse().ok()?;
                let (start, predicted) = (number(parts.next()?)?, number(parts.next()?)?);
                let limit = number(parts.next()?).filter(|_| parts.next().is_none() && start.is_finite())?;
                self.waiting.remove(&id);
                self.runs(id, Running { user, cores, start, predicted, limit, number: 0 });
            }
            _ => return None,
        }
        Some(())
    }
}
