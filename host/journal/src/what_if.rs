//! The schedule of another policy for the jobs, nodes and settings of a journal.
//!
//! Jobs are submitted, node states change and settings change at the recorded times. A job has its recorded run time.
//! The run time of a job that never started, or that still ran at the end of the journal, is unknown: such a job runs
//! to the end of the journal, and is marked. A job that ended while there was no scheduler ends when the next one
//! starts. A cancelled job is cancelled at the recorded time, pending or running.
//!
//! Must never know the source of the policies.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use fluxgate_engine::{Action, Config, Engine, Event, Policy, PolicyNotice};
use fluxgate_formats::{JobId, TotalF64};

use crate::outcome::Decision;
use crate::reader::{Item, Journal, ReadError};
use crate::record::{CheckpointCause, CheckpointRecord, EventRecord, Record};
use crate::rerun::first_file;
use crate::tables::Tables;

/// Most passes at one time.
const PASSES_MAX: u32 = 1000;

/// A job in a schedule. Times in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobRun {
    /// The job.
    pub id: JobId,
    /// Its user; 0 if unknown.
    pub user: u32,
    /// Cores that it held from its start on.
    pub cores: u64,
    /// Submission; its start if unknown.
    pub submit: f64,
    /// Start.
    pub start: f64,
    /// End; that of the journal if it is unknown.
    pub end: f64,
    /// Requested seconds, infinite without limit.
    pub limit: f64,
    /// True if its end is known.
    pub known: bool,
}

/// The events of jobs and nodes in a journal, and its settings.
pub struct History {
    tables: Tables,
    checkpoint: Box<CheckpointRecord>,
    /// In order of time.
    changes: Vec<(f64, Change)>,
    /// User, submission and requested seconds of each job.
    jobs: BTreeMap<JobId, (u32, f64, f64)>,
    starts: BTreeMap<JobId, (f64, u64)>,
    ends: BTreeMap<JobId, f64>,
    /// Jobs that ran when a scheduler ended and that hello has not named to the next one; and the start of that one.
    missing: (BTreeSet<JobId>, f64),
    /// Jobs that left the queue without starting.
    left: BTreeSet<JobId>,
    /// Number of records that are missing in gaps.
    pub lost: u64,
    /// The errors of files of which the rest could not be read.
    pub damaged: Vec<ReadError>,
    /// Times of the first and the last record, seconds since the epoch.
    pub span: (f64, f64),
    /// Names of the policies that were active, each once, in order.
    pub policies: Vec<String>,
}

enum Change {
    Event(EventRecord),
    Config(Box<Config>),
}

/// The reason for which there is no schedule.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// There is no checkpoint to begin with.
    #[error("the journal has no checkpoint in this span of time")]
    Nothing,
    /// A record contradicts the others: in words.
    #[error("{0}")]
    Wrong(String),
    /// A policy failed, or could not be swapped in: its name and error. With the built-in policy in its place the figures would be
    /// those of another policy.
    #[error("policy {0}")]
    Policy(String),
}

/// The jobs that ran, and the cost of the policy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schedule {
    /// Jobs that started in the span.
    pub runs: Vec<JobRun>,
    /// Jobs that wait at the end.
    pub waiting: Vec<JobId>,
    /// Passes made; 0 for the recorded schedule.
    pub passes: u64,
    /// Fuel units that the policies used; 0 for the recorded schedule.
    pub fuel: u64,
}

impl History {
    /// Reads the journal, from the last file that begins at or before `from`, else from the first, until `until`, else to its end.
    /// Damaged files do not end the reading; see [`History::damaged`].
    ///
    /// # Errors
    /// [`WhatIfError::Nothing`] without a checkpoint.
    pub fn read(journal: &Journal, from: Option<f64>, until: Option<f64>) -> Result<History, WhatIfError> {
        let mut history: Option<History> = None;
        let mut damaged = Vec::new();
        for item in journal.items_from(from.map_or(0, |from| first_file(journal, from))) {
            let record = match item {
                Item::Record(place) => place.record,
                Item::Torn(..) => continue,
                Item::Damaged(error) => {
                    damaged.push(error);
                    continue;
                }
            };
            if record.time().zip(until).is_some_and(|(time, until)| time > until) {
                break;
            }
            match &mut history {
                Some(history) => history.take(record),
                None => {
                    if let Record::Checkpoint(checkpoint) = record {
                        history = Some(History::begin(checkpoint));
                    }
                }
            }
        }
        let mut history = history.ok_or(WhatIfError::Nothing)?;
        history.end_missing();
        history.damaged = damaged;
        Ok(history)
    }

    fn begin(checkpoint: Box<CheckpointRecord>) -> History {
        let mut tables = Tables::default();
        let span = (checkpoint.time, checkpoint.time);
        let mut jobs = BTreeMap::new();
        for job in checkpoint.engine.pending.iter() {
            let seconds = checkpoint.asks.get(&job.id).map_or(0.0, |(_, seconds)| *seconds);
            jobs.insert(job.id, (job.userid, job.t_submit, seconds));
        }
        let mut policies = vec![checkpoint.policy.name.clone()];
        for row in checkpoint.own.values().filter(|row| row.name != checkpoint.policy.name) {
            policies.push(row.name.clone());
        }
        let record = Record::Checkpoint(checkpoint);
        tables.take(&record);
        let Record::Checkpoint(checkpoint) = record else { unreachable!("made just above") };
        History {
            tables,
            checkpoint,
            changes: Vec::new(),
            jobs,
            starts: BTreeMap::new(),
            ends: BTreeMap::new(),
            missing: (BTreeSet::new(), span.0),
            left: BTreeSet::new(),
            lost: 0,
            damaged: Vec::new(),
            span,
            policies,
        }
    }

    /// Ends the jobs that hello did not name to the next scheduler.
    fn end_missing(&mut self) {
        let (missing, time) = &mut self.missing;
        self.ends.extend(std::mem::take(missing).into_iter().map(|id| (id, *time)));
    }

    fn take(&mut self, record: Record) {
        if let Some(time) = record.time() {
            self.span.1 = self.span.1.max(time);
        }
        if let Some((time, outcome)) = record.time().zip(record.outcome()) {
            for decision in &outcome.0 {
                match decision {
                    Decision::Start(id, held, _) => {
                        self.starts.insert(*id, (time, held.cores()));
                    }
                    Decision::Deny(id, _) | Decision::Canceled(id) => {
                        self.left.insert(*id);
                    }
                    Decision::Swapped(_, to, _) => self.decided(to),
                    Decision::Queue(_, what) => {
                        if let Decision::Swapped(_, to, _) = &**what {
                            self.decided(to);
                        }
                    }
                    _ => {}
                }
            }
        }
        match record {
            // The rows of later files are added to earlier ones: numbers are unique during one run of a scheduler.
            Record::Checkpoint(checkpoint) => {
                if let CheckpointCause::Gap(lost, _) = checkpoint.why {
                    self.lost += lost;
                }
                if checkpoint.why == CheckpointCause::Start {
                    self.end_missing();
                    let before = self.checkpoint.engine.running.iter().map(|job| job.id);
                    let ran = self.starts.keys().copied().chain(before);
                    self.missing = (ran.filter(|id| !self.ends.contains_key(id)).collect(), checkpoint.time);
                }
                checkpoint.specs.iter().for_each(|row| self.tables.take(&Record::Spec(row.clone())));
            }
            Record::Spec(_) | Record::Policy(_) => self.tables.take(&record),
            Record::Step(time, event_record, _) => {
                match &event_record {
                    EventRecord::Hello(id, ..) => {
                        self.missing.0.remove(id);
                    }
                    EventRecord::Alloc(id, _, user, submit, _, seconds) => {
                        // All running jobs were named by hello before the first request.
                        self.end_missing();
                        self.jobs.entry(*id).or_insert((*user, *submit, *seconds));
                    }
                    EventRecord::Free(id, _, true) => {
                        self.ends.insert(*id, time);
                    }
                    EventRecord::Committed(_) | EventRecord::Audit(..) | EventRecord::Recount(..) => return,
                    EventRecord::Feasibility(..) | EventRecord::Expiration(..) => return,
                    _ => {}
                }
                self.changes.push((time, Change::Event(event_record)));
            }
            Record::Reconfigure(time, config, _) => self.changes.push((time, Change::Config(config))),
            _ => {}
        }
    }

    fn decided(&mut self, name: &str) {
        if !self.policies.iter().any(|known| known == name) {
            self.policies.push(name.to_owned());
        }
    }

    fn job_run(&self, id: JobId, start: f64, cores: u64, end: Option<f64>) -> JobRun {
        let (user, submit, seconds) = self.jobs.get(&id).copied().unwrap_or((0, start, 0.0));
        let limit = if seconds > 0.0 { seconds } else { f64::INFINITY };
        let (known, end) = (end.is_some(), end.unwrap_or(self.span.1).max(start));
        JobRun { id, user, cores, submit, start, end, limit, known }
    }

    /// The recorded schedule: the jobs that started in this span.
    pub fn schedule(&self) -> Schedule {
        let runs: Vec<JobRun> = self
            .starts
            .iter()
            .map(|(id, (start, cores))| self.job_run(*id, *start, *cores, self.ends.get(id).copied()))
            .collect();
        let over = |id: &JobId| self.starts.contains_key(id) || self.left.contains(id);
        let waiting = self.jobs.keys().filter(|id| !over(id)).copied().collect();
        Schedule { runs, waiting, ..Schedule::default() }
    }

    /// Names of the queues of jobs, the empty name for the anonymous one.
    pub fn queues(&self) -> BTreeSet<String> {
        let known = self.checkpoint.engine.queues.iter().map(|queue| queue.name.as_str());
        known.chain(self.tables.queues()).map(str::to_owned).collect()
    }

    /// Cores of all resources that were ever in the inventory at the first checkpoint.
    pub fn cores(&self) -> u64 {
        let each = |entry: &fluxgate_formats::rset::RLite| {
            entry.rank.len() * entry.children.get("core").map_or(0, |cores| cores.len())
        };
        self.checkpoint.engine.machine.r_lite.iter().map(each).sum()
    }

    /// The schedule of this policy, or with `None` of the built-in one, in all queues without a policy in `own`.
    ///
    /// # Errors
    /// [`WhatIfError::Policy`] if a policy fails, [`WhatIfError::Wrong`] if the records contradict each other.
    pub fn schedule_with(
        &mut self,
        policy: Option<Box<dyn Policy>>,
        own: Vec<(String, Box<dyn Policy>)>,
    ) -> Result<Schedule, WhatIfError> {
        let wrong = |e: &dyn std::fmt::Display| WhatIfError::Wrong(e.to_string());
        let mut checkpoint = self.checkpoint.clone();
        checkpoint.engine.policy = None;
        checkpoint.engine.own.clear();
        checkpoint.engine.config = without_output(&checkpoint.engine.config);
        let mut engine = self.tables.resume(&checkpoint, None, BTreeMap::new()).map_err(|e| wrong(&e))?;
        // All policies are active before the first pass.
        let failed = |e: &dyn std::fmt::Display| WhatIfError::Policy(e.to_string());
        let mut actions = Vec::new();
        if let Some(policy) = policy {
            actions.extend(engine.swap(policy).map_err(|e| failed(&e))?);
            actions.extend(engine.finish_swaps(checkpoint.time));
        }
        for (queue, policy) in own {
            actions.extend(engine.swap_queue(&queue, policy).map_err(|e| failed(&e))?);
        }
        actions.extend(engine.finish_swaps(checkpoint.time));
        let mut driver = Driver {
            history: self,
            engine,
            ends: BinaryHeap::new(),
            known: checkpoint.engine.pending.ids().into_iter().collect(),
            schedule: Schedule::default(),
            began: BTreeMap::new(),
        };
        for job in &checkpoint.engine.running {
            driver.known.insert(job.id);
            if let Some(end) = driver.history.ends.get(&job.id) {
                driver.ends.push(Reverse((TotalF64(*end), job.id)));
            }
        }
        driver.follow(actions, checkpoint.time)?;
        driver.passes(checkpoint.time)?;
        driver.changes()?;
        let mut schedule = driver.schedule;
        let (waiting, stats) = (driver.engine.pending_ids().collect(), driver.engine.stats());
        schedule.waiting = waiting;
        schedule.passes = stats.passes;
        let own: u64 = driver.engine.queue_policy_costs().map(|(_, cost)| cost.fuel).sum();
        schedule.fuel = driver.engine.policy_cost().fuel + own;
        Ok(schedule)
    }
}

/// Settings without annotations and without R, because nothing is committed.
fn without_output(config: &Config) -> Config {
    Config { annotate: false, write_r: false, ..config.clone() }
}

/// The end of a job.
type End = (TotalF64, JobId);

struct Driver<'a> {
    history: &'a mut History,
    engine: Engine,
    ends: BinaryHeap<Reverse<End>>,
    /// Jobs that were submitted or ran at the start.
    known: BTreeSet<JobId>,
    schedule: Schedule,
    /// Running jobs: index into the schedule's list.
    began: BTreeMap<JobId, usize>,
}

impl Driver<'_> {
    fn changes(&mut self) -> Result<(), WhatIfError> {
        let changes = std::mem::take(&mut self.history.changes);
        let last = self.history.span.1;
        let mut told = changes.iter().peekable();
        let mut result = Ok(());
        while result.is_ok() {
            let next = told.peek().map(|(time, _)| *time);
            let end = self.ends.peek().map(|Reverse((time, _))| time.0);
            let wake = self.engine.next_wake();
            let Some(now) = [next, end, wake].into_iter().flatten().min_by(f64::total_cmp) else { break };
            if now > last {
                break;
            }
            result = self.instant(now, &mut told);
        }
        drop(told);
        self.history.changes = changes;
        result
    }

    fn instant<'s>(
        &mut self,
        now: f64,
        told: &mut std::iter::Peekable<impl Iterator<Item = &'s (f64, Change)>>,
    ) -> Result<(), WhatIfError> {
        while let Some(Reverse((TotalF64(time), id))) = self.ends.peek().copied() {
            if time > now {
                break;
            }
            self.ends.pop();
            self.end(id, now)?;
        }
        while let Some((time, what)) = told.peek() {
            if *time > now {
                break;
            }
            match what {
                Change::Event(event_record) => self.apply(event_record, now)?,
                Change::Config(config) => {
                    let actions = self.engine.reconfigure(without_output(config));
                    self.follow(actions, now)?;
                }
            }
            told.next();
        }
        self.passes(now)
    }

    fn apply(&mut self, event_record: &EventRecord, now: f64) -> Result<(), WhatIfError> {
        match event_record {
            EventRecord::Alloc(id, ..) if !self.known.insert(*id) => return Ok(()),
            EventRecord::Hello(id, ..) => {
                if !self.known.insert(*id) {
                    return Ok(());
                }
                if let Some(end) = self.history.ends.get(id) {
                    self.ends.push(Reverse((TotalF64(*end), *id)));
                }
            }
            // Here a job ends when it has run for its recorded run time.
            EventRecord::Free(..) => return Ok(()),
            EventRecord::Cancel(id) if self.began.contains_key(id) => return self.end(*id, now),
            _ => {}
        }
        let tables = &mut self.history.tables;
        let event = event_record.event(|number, seconds| tables.jobspec(number, seconds));
        self.step(event.map_err(|e| WhatIfError::Wrong(e.to_string()))?, now)
    }

    fn end(&mut self, id: JobId, now: f64) -> Result<(), WhatIfError> {
        if let Some(index) = self.began.remove(&id) {
            let run = &mut self.schedule.runs[index];
            (run.end, run.known) = (now, true);
        }
        self.step(Event::Free { id, ranks: None, last: true }, now)
    }

    fn step(&mut self, event: Event, now: f64) -> Result<(), WhatIfError> {
        let actions = self.engine.step(event, now);
        self.follow(actions, now)
    }

    fn passes(&mut self, now: f64) -> Result<(), WhatIfError> {
        for _ in 0..PASSES_MAX {
            if !self.engine.needs_pass(now) {
                break;
            }
            let actions = self.engine.pass(now);
            self.follow(actions, now)?;
        }
        Ok(())
    }

    fn follow(&mut self, actions: Vec<Action>, now: f64) -> Result<(), WhatIfError> {
        for action in actions {
            match action {
                Action::Start { id, .. } => {
                    let cores = self.engine.resources().allocation(id).map_or(0, |a| a.cores());
                    // Its recorded run time, if it ran and its end was recorded.
                    let run = self.history.starts.get(&id).zip(self.history.ends.get(&id));
                    if let Some(((start, _), end)) = run {
                        self.ends.push(Reverse((TotalF64(now + (end - start).max(0.0)), id)));
                    }
                    self.began.insert(id, self.schedule.runs.len());
                    let run = self.history.job_run(id, now, cores, None);
                    self.schedule.runs.push(run);
                    self.step(Event::Committed { id }, now)?;
                }
                Action::Notice(notice) => {
                    let (what, notice) = match notice {
                        PolicyNotice::Queue { queue, notice } => (format!(" of queue {queue}"), *notice),
                        notice => (String::new(), notice),
                    };
                    if let PolicyNotice::Failed { name, error } | PolicyNotice::SwapFailed { name, error } =
                        notice
                    {
                        return Err(WhatIfError::Policy(format!("{name}{what}: {error}")));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
