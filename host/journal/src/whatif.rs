//! What would another policy have done? The jobs, nodes and settings of a journal, in a world where that policy decides.
//!
//! Jobs come, nodes go and come back and settings change as they did. A job runs as long as it did, from whenever it
//! starts here. How long a job would have run that never did, or was still running when the journal ends, nobody knows: it
//! runs to the end of the journal, and that is told. A job that ended while there was no scheduler counts as having ended
//! when there was one again. A job that somebody cancelled is cancelled at the same time, whether it waits here or runs.
//!
//! Must never know where policies come from.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use fluxgate_engine::{Action, Config, Engine, Event, Policy, PolicyNotice};
use fluxgate_formats::JobId;

use crate::outcome::Decision;
use crate::reader::{Item, Journal, ReadError};
use crate::record::{Happening, Record, Why};
use crate::rerun::{Tables, begin};

/// Passes at one time after which a policy is left to itself.
const PASSES_MAX: u32 = 1000;

/// One job, in one of the worlds. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ran {
    /// The job.
    pub id: JobId,
    /// Who submitted it.
    pub user: u32,
    /// Cores that it held.
    pub cores: u64,
    /// Submission.
    pub submit: f64,
    /// Start.
    pub start: f64,
    /// End; that of the journal when it is not known.
    pub end: f64,
    /// Requested seconds, infinite without limit.
    pub limit: f64,
    /// Is its end known?
    pub known: bool,
}

/// A journal, taken in as far as it says what happened to jobs and nodes.
pub struct Night {
    tables: Tables,
    base: Box<crate::record::Base>,
    /// What happened, in order.
    story: Vec<(f64, Told)>,
    /// Jobs as they were told, with what they asked for: user, submission, seconds.
    jobs: BTreeMap<JobId, (u32, f64, f64)>,
    starts: BTreeMap<JobId, (f64, u64)>,
    ends: BTreeMap<JobId, f64>,
    /// Jobs that ran when a scheduler ended, and did not come back to the next one so far; and when that began.
    missing: (BTreeSet<JobId>, f64),
    /// Jobs that left the queue without starting.
    left: BTreeSet<JobId>,
    /// Records that are missing in it.
    pub lost: u64,
    /// Files that could not be read on, and why.
    pub damaged: Vec<ReadError>,
    /// First and last time.
    pub span: (f64, f64),
    /// Names of those who decided.
    pub deciders: Vec<String>,
}

enum Told {
    Event(Happening),
    Config(Box<Config>),
}

/// Why there is no such world.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// There is nothing to begin with.
    #[error("the journal has no checkpoint in this span of time")]
    Nothing,
    /// A record does not fit in.
    #[error("{0}")]
    Wrong(String),
    /// The policy failed; with the built-in one in its place the figures would not be its own.
    #[error("policy {0}")]
    Policy(String),
}

/// A world in which another policy decided.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct World {
    /// Jobs that ran.
    pub ran: Vec<Ran>,
    /// Jobs that wait at the end.
    pub waiting: Vec<JobId>,
    /// Passes made.
    pub passes: u64,
    /// Fuel used.
    pub fuel: u64,
}

impl Night {
    /// Read it, from the last checkpoint at or before `from` until `until`.
    ///
    /// # Errors
    /// [`WhatIfError::Nothing`].
    pub fn read(journal: &Journal, from: Option<f64>, until: Option<f64>) -> Result<Night, WhatIfError> {
        let mut night: Option<Night> = None;
        let mut damaged = Vec::new();
        for item in journal.items_from(from.map_or(0, |from| begin(journal, from))) {
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
            match &mut night {
                Some(night) => night.take(record),
                None => {
                    if let Record::Base(base) = record {
                        night = Some(Night::begin(base));
                    }
                }
            }
        }
        let mut night = night.ok_or(WhatIfError::Nothing)?;
        night.miss();
        night.damaged = damaged;
        Ok(night)
    }

    fn begin(base: Box<crate::record::Base>) -> Night {
        let mut tables = Tables::default();
        let span = (base.time, base.time);
        let mut jobs = BTreeMap::new();
        for job in &base.engine.pending {
            let seconds = base.asks.get(&job.id).map_or(0.0, |(_, seconds)| *seconds);
            jobs.insert(job.id, (job.userid, job.t_submit, seconds));
        }
        let mut deciders = vec![base.policy.name.clone()];
        for row in base.own.values().filter(|row| row.name != base.policy.name) {
            deciders.push(row.name.clone());
        }
        let record = Record::Base(base);
        tables.take(&record);
        let Record::Base(base) = record else { unreachable!("made just above") };
        Night {
            tables,
            base,
            story: Vec::new(),
            jobs,
            starts: BTreeMap::new(),
            ends: BTreeMap::new(),
            missing: (BTreeSet::new(), span.0),
            left: BTreeSet::new(),
            lost: 0,
            damaged: Vec::new(),
            span,
            deciders,
        }
    }

    /// Those that did not come back have ended.
    fn miss(&mut self) {
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
            // The tables of later files are added to those before: numbers are of one scheduler's life.
            Record::Base(base) => {
                if let Why::Gap(lost, _) = base.why {
                    self.lost += lost;
                }
                if base.why == Why::Start {
                    self.miss();
                    let before = self.base.engine.running.iter().map(|job| job.id);
                    let ran = self.starts.keys().copied().chain(before);
                    self.missing = (ran.filter(|id| !self.ends.contains_key(id)).collect(), base.time);
                }
                base.specs.iter().for_each(|row| self.tables.take(&Record::Spec(row.clone())));
            }
            Record::Spec(_) | Record::Policy(_) => self.tables.take(&record),
            Record::Step(time, happening, _) => {
                match &happening {
                    Happening::Hello(id, ..) => {
                        self.missing.0.remove(id);
                    }
                    Happening::Alloc(id, _, user, submit, _, seconds) => {
                        // Whatever runs was told before anybody asks.
                        self.miss();
                        self.jobs.entry(*id).or_insert((*user, *submit, *seconds));
                    }
                    Happening::Free(id, _, true) => {
                        self.ends.insert(*id, time);
                    }
                    Happening::Committed(_) | Happening::Audit(..) | Happening::Recount(..) => return,
                    Happening::Feasibility(..) | Happening::Expiration(..) => return,
                    _ => {}
                }
                self.story.push((time, Told::Event(happening)));
            }
            Record::Reconfigure(time, config, _) => self.story.push((time, Told::Config(config))),
            _ => {}
        }
    }

    fn decided(&mut self, name: &str) {
        if !self.deciders.iter().any(|known| known == name) {
            self.deciders.push(name.to_owned());
        }
    }

    fn ran(&self, id: JobId, start: f64, cores: u64, end: Option<f64>) -> Ran {
        let (user, submit, seconds) = self.jobs.get(&id).copied().unwrap_or((0, start, 0.0));
        let limit = if seconds > 0.0 { seconds } else { f64::INFINITY };
        let (known, end) = (end.is_some(), end.unwrap_or(self.span.1).max(start));
        Ran { id, user, cores, submit, start, end, limit, known }
    }

    /// What was done: jobs that started in this span.
    pub fn was(&self) -> World {
        let ran: Vec<Ran> = self
            .starts
            .iter()
            .map(|(id, (start, cores))| self.ran(*id, *start, *cores, self.ends.get(id).copied()))
            .collect();
        let over = |id: &JobId| self.starts.contains_key(id) || self.left.contains(id);
        let waiting = self.jobs.keys().filter(|id| !over(id)).copied().collect();
        World { ran, waiting, ..World::default() }
    }

    /// Names of the queues that jobs are in.
    pub fn queues(&self) -> BTreeSet<String> {
        let known = self.base.engine.queues.iter().map(|queue| queue.name.as_str());
        known.chain(self.tables.queues()).map(str::to_owned).collect()
    }

    /// Cores of the machine.
    pub fn cores(&self) -> u64 {
        let each = |entry: &fluxgate_formats::rset::RLite| {
            entry.rank.len() * entry.children.get("core").map_or(0, |cores| cores.len())
        };
        self.base.engine.machine.r_lite.iter().map(each).sum()
    }

    /// What this policy would have done, whoever decided which queue in the journal; `None` is the built-in one. `own` are
    /// policies that queues have of their own instead, by queue.
    ///
    /// # Errors
    /// [`WhatIfError`].
    pub fn with(
        &mut self,
        policy: Option<Box<dyn Policy>>,
        own: Vec<(String, Box<dyn Policy>)>,
    ) -> Result<World, WhatIfError> {
        let wrong = |e: &dyn std::fmt::Display| WhatIfError::Wrong(e.to_string());
        let mut base = self.base.clone();
        base.engine.policy = None;
        base.engine.own.clear();
        base.engine.config = quiet(&base.engine.config);
        let mut engine = self.tables.resume(&base, None, BTreeMap::new()).map_err(|e| wrong(&e))?;
        // Everybody is in place before the first pass.
        let failed = |e: &dyn std::fmt::Display| WhatIfError::Policy(e.to_string());
        let mut begun = Vec::new();
        if let Some(policy) = policy {
            begun.extend(engine.swap(policy).map_err(|e| failed(&e))?);
            begun.extend(engine.finish_swaps(base.time));
        }
        for (queue, policy) in own {
            begun.extend(engine.swap_queue(&queue, policy).map_err(|e| failed(&e))?);
        }
        begun.extend(engine.finish_swaps(base.time));
        let mut play = Play {
            night: self,
            engine,
            ends: BinaryHeap::new(),
            known: base.engine.pending.iter().map(|job| job.id).collect(),
            world: World::default(),
            began: BTreeMap::new(),
        };
        for job in &base.engine.running {
            play.known.insert(job.id);
            if let Some(end) = play.night.ends.get(&job.id) {
                play.ends.push(Reverse(End(*end, job.id)));
            }
        }
        play.follow(begun, base.time)?;
        play.passes(base.time)?;
        play.story()?;
        let mut world = play.world;
        let (waiting, stats) = (play.engine.pending_ids().collect(), play.engine.stats());
        world.waiting = waiting;
        world.passes = stats.passes;
        let own: u64 = play.engine.own_costs().map(|(_, cost)| cost.fuel).sum();
        world.fuel = play.engine.policy_cost().fuel + own;
        Ok(world)
    }
}

/// Nobody reads what jobs are told here, and nothing is committed.
fn quiet(config: &Config) -> Config {
    Config { annotate: false, write_r: false, ..config.clone() }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct End(f64, JobId);

impl Eq for End {}

impl Ord for End {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

struct Play<'a> {
    night: &'a mut Night,
    engine: Engine,
    ends: BinaryHeap<Reverse<End>>,
    /// Jobs that this world has heard of.
    known: BTreeSet<JobId>,
    world: World,
    /// Jobs that run: index into the world's list.
    began: BTreeMap<JobId, usize>,
}

impl Play<'_> {
    fn story(&mut self) -> Result<(), WhatIfError> {
        let story = std::mem::take(&mut self.night.story);
        let last = self.night.span.1;
        let mut told = story.iter().peekable();
        let mut result = Ok(());
        while result.is_ok() {
            let next = told.peek().map(|(time, _)| *time);
            let end = self.ends.peek().map(|Reverse(end)| end.0);
            let wake = self.engine.next_wake();
            let Some(now) = [next, end, wake].into_iter().flatten().min_by(f64::total_cmp) else { break };
            if now > last {
                break;
            }
            result = self.instant(now, &mut told);
        }
        drop(told);
        self.night.story = story;
        result
    }

    fn instant<'s>(
        &mut self,
        now: f64,
        told: &mut std::iter::Peekable<impl Iterator<Item = &'s (f64, Told)>>,
    ) -> Result<(), WhatIfError> {
        while let Some(Reverse(End(time, id))) = self.ends.peek().copied() {
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
                Told::Event(happening) => self.happen(happening, now)?,
                Told::Config(config) => {
                    let actions = self.engine.reconfigure(quiet(config));
                    self.follow(actions, now)?;
                }
            }
            told.next();
        }
        self.passes(now)
    }

    fn happen(&mut self, happening: &Happening, now: f64) -> Result<(), WhatIfError> {
        match happening {
            Happening::Alloc(id, ..) if !self.known.insert(*id) => return Ok(()),
            Happening::Hello(id, ..) => {
                if !self.known.insert(*id) {
                    return Ok(());
                }
                if let Some(end) = self.night.ends.get(id) {
                    self.ends.push(Reverse(End(*end, *id)));
                }
            }
            // It ends here when it has run as long as it did there.
            Happening::Free(..) => return Ok(()),
            Happening::Cancel(id) if self.began.contains_key(id) => return self.end(*id, now),
            _ => {}
        }
        let tables = &mut self.night.tables;
        let event = happening.event(|number, seconds| tables.jobspec(number, seconds));
        self.step(event.map_err(|e| WhatIfError::Wrong(e.to_string()))?, now)
    }

    fn end(&mut self, id: JobId, now: f64) -> Result<(), WhatIfError> {
        if let Some(index) = self.began.remove(&id) {
            let ran = &mut self.world.ran[index];
            (ran.end, ran.known) = (now, true);
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
                    // As long as it ran there, if it did and that was seen.
                    let run = self.night.starts.get(&id).zip(self.night.ends.get(&id));
                    if let Some(((start, _), end)) = run {
                        self.ends.push(Reverse(End(now + (end - start).max(0.0), id)));
                    }
                    self.began.insert(id, self.world.ran.len());
                    let ran = self.night.ran(id, now, cores, None);
                    self.world.ran.push(ran);
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
