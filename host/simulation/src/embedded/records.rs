//! The records of an instance in memory: a commit is written whole, or refused. And a log of them: which job holds which resources, and
//! how far each job is.
//!
//! Must never know what an instance does with what it reads again.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::{Idset, JobId};
use fluxgate_instance::durable::Records;
use fluxgate_instance::{Housekeeping, Record, Restored, RestoredEvent};
use fluxgate_wire::proto::errno;
use serde_json::Value;

use crate::book::{Book, Shape, Unit, units};
use crate::dice::Dice;
use crate::model::job::want;
use crate::plan::{Act, JobPlan, Plan, QUEUES};

/// The disk has no room.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("no space left on device")]
pub(super) struct Full;

/// See the module text.
#[derive(Debug, Clone)]
pub(super) struct MemoryRecords {
    pub(super) all: Restored,
    /// Records that were written since the last look.
    pub(super) news: Vec<Record>,
    /// Commits in a thousand that are refused.
    pub(super) refused: u64,
    dice: Dice,
}

impl MemoryRecords {
    pub(super) fn new(epoch: f64, dice: Dice) -> MemoryRecords {
        let all = Restored { epoch, ..Restored::default() };
        MemoryRecords { all, news: Vec::new(), refused: 0, dice }
    }

    fn write(&mut self, record: &Record) {
        let all = &mut self.all;
        match record.clone() {
            Record::Spec { key, text } => drop(all.specs.insert(key, text)),
            Record::Job { id, spec } => all.jobs.push((id, spec)),
            Record::Event { id, time, name, context } => {
                all.events.push(RestoredEvent { id, time, name, context });
            }
            Record::Value { key, value } => {
                all.values.retain(|(old, _)| *old != key);
                all.values.extend(value.map(|value| (key, value)));
            }
            Record::Fact { name, value: Some(value) } => drop(all.facts.insert(name, value)),
            Record::Fact { name, value: None } => drop(all.facts.remove(&name)),
            Record::Count(_) => {}
        }
    }
}

impl Records for MemoryRecords {
    type Error = Full;

    fn commit(&mut self, records: &[Record], now: f64) -> Result<(), Full> {
        if records.is_empty() {
            return Ok(());
        }
        if self.dice.often(self.refused) {
            return Err(Full);
        }
        records.iter().for_each(|record| self.write(record));
        self.all.facts.insert("now".to_owned(), now.to_string());
        self.news.extend_from_slice(records);
        Ok(())
    }

    fn errnum(_: &Full) -> i32 {
        errno::ENOSPC
    }
}

/// The course of a job so far, by its events.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// Its number in the plan.
    pub(super) number: u32,
    seen: BTreeMap<String, u32>,
}

impl Course {
    pub(super) fn has(&self, event: &str) -> bool {
        self.seen.contains_key(event)
    }
}

/// The state that all records together tell.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) book: Book,
    pub(super) jobs: BTreeMap<u64, Course>,
    /// Numbers in the plan, by the row of the jobspec.
    numbers: BTreeMap<i64, u32>,
    r: BTreeMap<String, Value>,
    /// Resources in housekeeping, with its end and the job.
    kept: BTreeMap<Unit, (f64, u64)>,
    housekeeping: Option<Housekeeping>,
}

/// May a job wait for ever, since nodes are lost or it is infeasible? The world cancels it in the end.
fn waits_for_ever(book: &Book, job: &JobPlan) -> bool {
    !book.lost.is_empty() || !book.is_feasible(want(job))
}

/// May a job never run, or is it above the ceiling of its queue? The lost nodes that the scheduler knows are not told apart.
pub(super) fn may_be_denied(book: &Book, plan: &Plan, job: &JobPlan) -> bool {
    let cores = if job.slots == 0 { job.nodes * plan.cores } else { job.slots * job.cores };
    let ceiling = job
        .queue
        .or(plan.queues.then_some(QUEUES[0]))
        .map(|queue| &plan.settings["queues"][queue]["ceiling"]);
    let is_above = ceiling.and_then(Value::as_u64).is_some_and(|most| u64::from(cores) > most);
    is_above || waits_for_ever(book, job)
}

/// Events that a job has once at most.
const ONCE: [&str; 6] = ["submit", "validate", "alloc", "start", "free", "clean"];

impl Log {
    pub(super) fn new(plan: &Plan, housekeeping: Option<Housekeeping>) -> Log {
        let shape = Shape { cores: plan.cores, gpus: plan.gpus };
        let mut log = Log { housekeeping, ..Log::default() };
        (log.book.shape, log.book.ranks) = (shape, (0..plan.nodes).collect());
        log
    }

    /// Another instance begins. It does not know of housekeeping, and has its whole inventory again.
    pub(super) fn restart(&mut self) {
        self.kept.clear();
        self.book.lost.clear();
    }

    /// Resources of a job are in housekeeping from now on, one rank after the other.
    fn keep(&mut self, id: u64, now: f64) {
        let Some(rules) = self.housekeeping else { return };
        let units = self.book.of(id);
        let ranks: BTreeSet<u32> = units.iter().map(|(rank, ..)| *rank).collect();
        let last = ranks.len().saturating_sub(1);
        let places: BTreeMap<u32, usize> = ranks.into_iter().zip(0..).collect();
        for unit in units {
            let place = if rules.partial { places[&unit.0] } else { last };
            self.kept.insert(unit, (now + rules.seconds + rules.stagger * place as f64, id));
        }
    }

    /// Are none of these in housekeeping?
    fn is_kept(&self, units: &BTreeSet<Unit>, now: f64) -> Result<(), String> {
        let found = units.iter().find_map(|unit| Some((unit, self.kept.get(unit)?)));
        match found.filter(|(_, (until, _))| *until > now + 1e-3) {
            Some((unit, (_, id))) => Err(format!("{unit:?} is in housekeeping after job {id}")),
            None => Ok(()),
        }
    }

    /// Jobs that have started.
    pub(super) fn starts(&self) -> u64 {
        self.jobs.values().filter(|job| job.has("start")).count() as u64
    }

    /// The ids of jobs with this number.
    pub(super) fn with_number(&self, number: u32) -> impl Iterator<Item = u64> {
        self.jobs.iter().filter(move |(_, job)| job.number == number).map(|(id, _)| *id)
    }

    /// Takes in a record that was written; returns the situation that it tells, if any.
    ///
    /// # Errors
    /// The record breaks an invariant.
    pub(super) fn read(&mut self, record: &Record, plan: &Plan) -> Result<Option<&'static str>, String> {
        match record {
            Record::Spec { key, text } => {
                let spec: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
                let number = spec["tasks"][0]["command"][1].as_str().and_then(|text| text.parse().ok());
                self.numbers.insert(*key, number.ok_or("a jobspec that nobody submitted")?);
            }
            Record::Job { id, spec } => {
                let number = *self.numbers.get(spec).ok_or_else(|| format!("job {id} has no jobspec"))?;
                if self.jobs.insert(id.0, Course { number, ..Course::default() }).is_some() {
                    return Err(format!("job {id} is accepted twice"));
                }
            }
            Record::Value { key, value } if key.ends_with(".R") => {
                let read = value.as_ref().map(|bytes| serde_json::from_slice(bytes));
                match read.transpose().map_err(|error| format!("{key}: {error}"))? {
                    Some(r) => drop(self.r.insert(key.clone(), r)),
                    None => drop(self.r.remove(key)),
                }
            }
            Record::Event { id, name, context, time } => {
                let context = context.as_deref().and_then(|text| serde_json::from_str(text).ok());
                return self.event((*id, *time), name, &context.unwrap_or_default(), plan);
            }
            Record::Value { .. } | Record::Fact { .. } | Record::Count(_) => {}
        }
        Ok(None)
    }

    fn event(
        &mut self,
        (id, time): (JobId, f64),
        name: &str,
        context: &Value,
        plan: &Plan,
    ) -> Result<Option<&'static str>, String> {
        let job = self.jobs.get_mut(&id.0).ok_or_else(|| format!("{name} of job {id}, which is none"))?;
        if job.has("clean") {
            return Err(format!("{name} of job {id}, which is inactive"));
        }
        let times = job.seen.entry(name.to_owned()).or_default();
        *times += 1;
        if *times > 1 && ONCE.contains(&name) {
            return Err(format!("job {id} has {name} twice"));
        }
        let number = job.number;
        match name {
            "alloc" => {
                let key = format!("{}.R", id.kvs_dir());
                let r =
                    self.r.get(&key).ok_or_else(|| format!("job {id} starts, and its R is not written"))?;
                let units = units(r)?;
                self.is_kept(&units, time)?;
                self.book.take(id.0, &units)?;
                if let Some(job) = plan.jobs.iter().find(|job| job.number == number) {
                    self.book.answers(want(job), &units)?;
                }
            }
            "start" if !job.has("alloc") => return Err(format!("job {id} starts without resources")),
            "release" => {
                let ranks = context["ranks"].as_str().filter(|ranks| *ranks != "all");
                let ranks = ranks.map(Idset::parse).transpose().map_err(|error| error.to_string())?;
                let ranks: Option<BTreeSet<u32>> = ranks.map(|ranks| ranks.iter().collect());
                // With "all" and "final" its processes are over; "free" gives the resources back.
                if ranks.is_some() {
                    self.book.release(id.0, ranks.as_ref());
                }
            }
            "free" => {
                self.keep(id.0, time);
                self.book.release(id.0, None);
            }
            "exception" if context["severity"] == 0 => {
                let (kind, note) = (context["type"].as_str(), context["note"].as_str().unwrap_or_default());
                let job = plan.jobs.iter().find(|job| job.number == number);
                let has = |job: &JobPlan| match kind {
                    Some("cancel") => {
                        waits_for_ever(&self.book, job) || job.acts.iter().any(|(_, act)| *act == Act::Cancel)
                    }
                    // The job may have started later than its R says.
                    Some("timeout") => {
                        job.limit > 0.0 || job.acts.iter().any(|(_, act)| matches!(act, Act::Limit(_)))
                    }
                    Some("alloc") => may_be_denied(&self.book, plan, job),
                    _ => false,
                };
                if !job.is_some_and(has) {
                    return Err(format!("job {id} has the exception {kind:?}: {note}"));
                }
                return Ok((kind == Some("alloc")).then_some("a job is denied"));
            }
            "clean" if !self.book.of(id.0).is_empty() => {
                return Err(format!("job {id} is inactive, and holds resources"));
            }
            _ => {}
        }
        Ok(None)
    }
}
