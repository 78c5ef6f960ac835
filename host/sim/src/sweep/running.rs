//! The check of a schedule while it is made: the conditions of [`super::sweep`], for runs with too many rows to keep.
//! It stores the waiting jobs, the running ones with their cores, and a bit for each core.
//!
//! The cores of a job are intervals of the machine's cores in one row: whole nodes of neighbouring ranks are one
//! interval. They are read from R's entries, without a list of ranks or cores, or told as intervals where no other observer reads
//! R, so a job costs its intervals and the words of 64 cores that they cover. Single cores are named only for a violation.
//!
//! Starts are in the order of time, so a core is free when its last job has ended; that implies that no rank and no
//! machine is ever overfull. Differences to [`super::sweep`]: a job that starts twice is reported as one that does
//! not wait; every row must have its cores; of jobs that hold one core at once, the last one counts as its holder
//! from then on.
//!
//! On a machine without places, which is one pool of cores, the cores in use are counted.
//!
//! This module shares no code with engine, graph and driver; a type of the graph tells it intervals.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use fluxgate_engine::Window;
use fluxgate_formats::rset::R;
use fluxgate_formats::{JobId, Jobspec, TotalF64};
use fluxgate_graph::CoreRun;

use super::again::Submissions;
use super::bits::Bits;
use super::counted::Counted;
use super::layout::{Ids, Layout};
use super::reserved::Reserved;
use super::{History, Report, Times, Violation, flow, history, memory, times};
use crate::flow::{Asks, Flow, Pools, flows_of};
use crate::follow::Following;
use crate::hash::Spread;
use crate::memory::Memory;
use crate::observe::{Observer, Started};
use crate::outages::{OnFailure, Outage};
use crate::schedule::{Cores, Row};
use crate::workload::Job;

/// The cores of a running job.
#[derive(Debug, Default)]
struct Holder {
    job: JobId,
    /// Intervals of cores: from, and to before.
    cores: Vec<(u32, u32)>,
    memory: memory::Amounts,
}

/// The check of one run, which is told of its events in the order of time.
#[derive(Debug)]
pub struct Judge<'a> {
    layout: Layout<'a>,
    history: History,
    /// Jobs that arrived and neither started nor were denied.
    waiting: RefCell<HashMap<JobId, Job, Spread>>,
    /// Cores of running jobs.
    held: Bits,
    /// Of a machine without places, the number of cores in use.
    counted: Option<Counted>,
    /// Running jobs, and vacant positions.
    holders: Vec<Holder>,
    /// The vacant positions.
    vacant: Vec<u32>,
    /// Ends of running jobs, and their positions.
    ends: BinaryHeap<Reverse<(TotalF64, u32)>>,
    memory: Option<memory::Running<'a>>,
    flow: Option<flow::Running<'a>>,
    reserved: Reserved,
    submissions: Submissions<'a>,
    last: f64,
    report: Report,
}

/// Ranks that are neighbours, each with these cores.
type Entry<'r> = (RangeInclusive<u32>, Ids<'r>);

/// The ranks and cores of a job.
pub(super) trait Places {
    /// Its ranks.
    fn ranks(&self) -> impl Iterator<Item = RangeInclusive<u32>>;
    /// Its cores.
    fn entries(&self) -> impl Iterator<Item = Entry<'_>>;
}

impl Places for R {
    fn ranks(&self) -> impl Iterator<Item = RangeInclusive<u32>> {
        self.r_lite.iter().flat_map(|entry| entry.rank.ranges())
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let cores = self.r_lite.iter().filter_map(|entry| Some((&entry.rank, entry.children.get("core")?)));
        cores.flat_map(|(ranks, ids)| ranks.ranges().map(move |ranks| (ranks, Ids::Set(ids))))
    }
}

impl Places for [CoreRun] {
    fn ranks(&self) -> impl Iterator<Item = RangeInclusive<u32>> {
        one_rank(self).map(|runs| runs[0].ranks.0..=runs[0].ranks.1)
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        one_rank(self).map(|runs| (runs[0].ranks.0..=runs[0].ranks.1, Ids::Runs(runs)))
    }
}

/// The intervals of each rank, or of neighbouring ranks with the same ones.
fn one_rank(runs: &[CoreRun]) -> impl Iterator<Item = &[CoreRun]> {
    runs.chunk_by(|a, b| a.ranks == b.ranks)
}

impl Places for Row {
    fn ranks(&self) -> impl Iterator<Item = RangeInclusive<u32>> {
        self.ranks.ranges()
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.cores.iter().flatten().map(|(rank, ids)| (*rank..=*rank, Ids::Set(ids)))
    }
}

impl<'a> Judge<'a> {
    /// For a machine of these cores with these outages, in the order of time.
    pub fn new(machine: &'a Cores, outages: &[(f64, Outage)]) -> Self {
        Judge::over(Layout::of(machine), history(outages), None)
    }

    /// For a machine that is one pool of this number of cores.
    pub fn of_pool(cores: u64) -> Self {
        Judge::over(Layout::default(), History::default(), Some(Counted::new(cores)))
    }

    fn over(layout: Layout<'a>, history: History, counted: Option<Counted>) -> Self {
        Judge {
            history,
            waiting: RefCell::default(),
            held: Bits::new(layout.cores()),
            counted,
            layout,
            holders: Vec::new(),
            vacant: Vec::new(),
            ends: BinaryHeap::new(),
            memory: None,
            flow: None,
            reserved: Reserved::default(),
            submissions: Submissions::default(),
            last: f64::NEG_INFINITY,
            report: Report::default(),
        }
    }

    /// Also checks memory, as [`super::sweep_memory`] does.
    pub fn with_memory(self, memory: &'a Memory, jobspecs: &[Arc<Jobspec>]) -> Self {
        let memory = Some(memory::Running::new(memory, jobspecs, &self.layout));
        Judge { memory, ..self }
    }

    /// Also checks flow, as [`super::sweep_flow`] does.
    pub fn with_flow(self, pools: &'a Pools, asks: &'a Asks) -> Self {
        Judge { flow: Some(flow::Running::new(pools, asks)), ..self }
    }

    /// Also checks the submissions of jobs that follow others, and of jobs whose nodes failed.
    pub fn with_submissions(self, on_failure: OnFailure, following: &'a Following) -> Self {
        Judge { submissions: Submissions::new(on_failure, following), ..self }
    }

    /// A job is submitted. It came with the log, or may be submitted now.
    pub fn submitted(&mut self, job: &Job) {
        if self.waiting.get_mut().contains_key(&job.id) {
            return;
        }
        if self.submissions.submitted(job, &mut self.report) {
            self.comes(job);
        } else {
            self.report.add(Violation::Unknown(job.id));
        }
    }

    /// Also checks these reservations; queues by number. Told again, those that are released when they are idle lose the times that are
    /// missing now.
    pub fn reserves(&mut self, windows: &[Window], queues: &BTreeMap<u32, String>) {
        self.reserved.told(windows, queues);
    }

    /// Also knows the jobs that may be ended before a reservation, and the reservations that jobs name: those of these jobspecs.
    pub fn with_jobspecs(mut self, jobspecs: &[Arc<Jobspec>]) -> Self {
        self.reserved.jobspecs(jobspecs);
        self
    }

    /// Adds a job of the workload that arrives.
    pub fn comes(&self, job: &Job) {
        self.waiting.borrow_mut().insert(job.id, *job);
    }

    /// Removes a job that is denied. One that does not wait is a violation.
    pub fn denied(&mut self, id: JobId) {
        self.submissions.denied(id);
        if self.waiting.get_mut().remove(&id).is_none() {
            self.report.add(Violation::Unknown(id));
        }
    }

    /// Removes a job that waits at the end of the run. That is no violation: the check does not know the policy.
    pub fn left(&mut self, id: JobId) {
        if self.waiting.get_mut().remove(&id).is_none() {
            self.report.add(Violation::Unknown(id));
        }
    }

    /// Checks a start with this flow; starts are in the order of time.
    pub fn starts(&mut self, row: &Row, flows: &[Flow]) {
        let told = Times { job: row.job, submit: row.submit, start: row.start, end: row.end };
        let Some(job) = self.begins(&told, row) else { return };
        for (rank, _) in row.cores.iter().flatten().filter(|(rank, _)| !row.ranks.contains(**rank)) {
            self.report.add(Violation::Core(job.id, *rank));
        }
        if let (Some(flow), Some(cores)) = (&mut self.flow, &row.cores) {
            flow.starts(&job, (row.start, row.end), cores, flows, &mut self.report);
        }
        self.holds(&told, &job, row);
    }

    /// True if it reads more of R than cores.
    fn reads_r(&self) -> bool {
        self.flow.is_some()
    }

    /// As [`Judge::starts`], by the job's R, or by its cores where no R is made.
    fn starts_with(&mut self, s: &Started<'_>) {
        let told = Times { job: s.job.id, submit: s.job.submit, start: s.start, end: s.end };
        if s.r.r_lite.is_empty() && !self.reads_r() {
            if let Some(job) = self.begins(&told, s.cores) {
                self.holds(&told, &job, s.cores);
            }
            return;
        }
        let Some(job) = self.begins(&told, s.r) else { return };
        if let Some(flow) = &mut self.flow {
            let cores = crate::schedule::cores_of(s.r);
            let flows = flows_of(flow.pools, s.r);
            flow.starts(&job, (s.start, s.end), &cores, &flows, &mut self.report);
        }
        self.holds(&told, &job, s.r);
    }

    /// Removes and returns the job, if it waited.
    fn begins(&mut self, told: &Times, places: &(impl Places + ?Sized)) -> Option<Job> {
        self.report.rows += 1;
        let Some(job) = self.waiting.get_mut().remove(&told.job) else {
            self.report.add(Violation::Unknown(told.job));
            return None;
        };
        if told.start < self.last {
            self.report.add(Violation::Order(told.job));
        }
        self.last = self.last.max(told.start);
        let ended = self.reserved.ends(&job, told, places.ranks());
        let run = times(told, &job, (places.ranks(), ended), &self.history, &mut self.report);
        self.submissions.starts(told, &job, run, &mut self.report);
        self.reserved.starts(&job, (told.start, ended), places.ranks(), &mut self.report);
        Some(job)
    }

    /// Adds the cores of a job that starts.
    fn holds(&mut self, told: &Times, job: &Job, places: &(impl Places + ?Sized)) {
        if let Some(counted) = &mut self.counted {
            let over = counted.starts((told.start, told.end), u64::from(job.cores));
            return over.into_iter().for_each(|over| self.report.add(over));
        }
        self.release(told.start);
        let Judge { layout, report, .. } = self;
        for strange in places.ranks().flat_map(|ranks| layout.parts(ranks)).filter_map(Result::err) {
            report.add_each(strange, |rank| Violation::Rank(job.id, rank));
        }
        let mut found = 0;
        let runs = told.end > told.start;
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.holders.push(Holder::default());
            self.holders.len() as u32 - 1
        });
        let mut holder = std::mem::take(&mut self.holders[place as usize]);
        holder.job = job.id;
        for (ranks, ids) in places.entries() {
            found += u64::from(ranks.end() - ranks.start() + 1) * ids.len();
            for part in layout.parts(ranks) {
                let part = match part {
                    Err(_) if ids.len() == 0 => continue,
                    Err(strange) => {
                        report.add_each(strange, |rank| Violation::Core(job.id, rank));
                        continue;
                    }
                    Ok(part) => part,
                };
                if !part.has(ids) {
                    report.add_each(part.ranks(), |rank| Violation::Core(job.id, rank));
                }
                if !runs {
                    continue;
                }
                part.intervals(ids, |from, to| {
                    if self.held.set(from, to) {
                        twice(&mut self.holders, &mut holder, (from, to), |core, first| {
                            let ((rank, core), time) = (layout.place(core), told.start);
                            report.add(Violation::Overlap { time, rank, core, first, second: job.id });
                        });
                    }
                    match holder.cores.last_mut() {
                        Some(last) if last.1 == from => last.1 = to,
                        _ => holder.cores.push((from, to)),
                    }
                });
            }
        }
        if let Some(memory) = &mut self.memory {
            let due = memory.due(job, layout, places);
            if runs {
                memory.starts(told.start, &due, layout, report);
                holder.memory = due;
            }
        }
        self.holders[place as usize] = holder;
        if runs {
            self.ends.push(Reverse((TotalF64(told.end), place)));
        } else {
            self.vacant.push(place);
        }
        // The request of a jobspec may be more than its cores: whole nodes, or a range.
        let asked = u64::from(job.cores);
        if found < asked || (found > asked && job.jobspec == 0) {
            self.report.add(Violation::Width { job: job.id, found, expected: asked });
        }
    }

    /// Releases the cores of jobs that have ended by then.
    fn release(&mut self, now: f64) {
        while let Some(Reverse((_, place))) = self.ends.peek().copied().filter(|it| it.0.0.0 <= now) {
            self.ends.pop();
            let holder = &mut self.holders[place as usize];
            for (from, to) in holder.cores.drain(..) {
                self.held.clear(from, to);
            }
            if let Some(memory) = &mut self.memory {
                memory.ends(&std::mem::take(&mut holder.memory));
            }
            self.vacant.push(place);
        }
    }

    /// The result of the check, at the end of the run. Jobs that neither started, were denied nor left are missing.
    pub fn report(mut self) -> Report {
        #[allow(clippy::disallowed_methods)] // sorted below
        let mut missing: Vec<JobId> = self.waiting.get_mut().keys().copied().collect();
        missing.extend(self.submissions.missing());
        missing.sort_unstable();
        missing.into_iter().for_each(|id| self.report.add(Violation::Missing(id)));
        self.report
    }
}

/// Some of these cores are held already: reports each with the job that holds it, and removes it from that job.
fn twice(holders: &mut [Holder], own: &mut Holder, (from, to): (u32, u32), mut see: impl FnMut(u32, JobId)) {
    for holder in holders.iter_mut().chain([own]) {
        if holder.cores.iter().all(|part| part.1 <= from || to <= part.0) {
            continue;
        }
        let mut rest = Vec::with_capacity(holder.cores.len() + 1);
        for &(first, last) in &holder.cores {
            (from.max(first)..to.min(last)).for_each(|core| see(core, holder.job));
            rest.extend([(first, last.min(from)), (first.max(to), last)].iter().filter(|(a, b)| a < b));
        }
        holder.cores = rest;
    }
}

/// An [`Observer`] that passes starts and refusals to a check. It is separate from the check, since the source of the
/// jobs passes their arrivals at the same time.
#[derive(Debug)]
pub struct Watch<'j, 'a>(pub &'j RefCell<Judge<'a>>);

impl Observer for Watch<'_, '_> {
    fn wants_r(&self) -> bool {
        self.0.borrow().reads_r()
    }

    fn wants_cores(&self) -> bool {
        self.0.borrow().counted.is_none()
    }

    fn may_lag(&self) -> bool {
        true
    }

    fn reserved(&mut self, windows: &[Window], queues: &BTreeMap<u32, String>) {
        self.0.borrow_mut().reserves(windows, queues);
    }

    fn submitted(&mut self, job: &Job) -> io::Result<()> {
        self.0.borrow_mut().submitted(job);
        Ok(())
    }

    fn never_submitted(&mut self, _job: &Job, _why: &str) -> io::Result<()> {
        Ok(())
    }

    fn warm(&mut self, s: &Started<'_>) -> io::Result<()> {
        let mut judge = self.0.borrow_mut();
        judge.comes(s.job);
        judge.starts_with(s);
        judge.submissions.forget(s.job.id);
        Ok(())
    }

    fn started(&mut self, s: &Started<'_>) -> io::Result<()> {
        self.0.borrow_mut().starts_with(s);
        Ok(())
    }

    fn denied(&mut self, job: &Job, _note: &str) -> io::Result<()> {
        self.0.borrow_mut().denied(job.id);
        Ok(())
    }

    fn left(&mut self, job: &Job, _why: &str) -> io::Result<()> {
        self.0.borrow_mut().left(job.id);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
