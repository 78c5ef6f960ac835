//! One pass on the bench: it answers a policy's questions from counts and stages its decisions.
//!
//! A breach of the contract panics with a sentence, because its reader is an author with a failing test.

use super::capacity::{self, Need, Use};
use super::{PLACEMENTS, QueuePass, Waiting};
use crate::attributes::Attributes;
use crate::flow::{Flow, Kind, Span};
use crate::groups::{Changes, Groups, Wanted};
use crate::job::{Job, JobId, Totals};
use crate::pass::{Candidate, JOBS_MAX, Pass, Placement, Refusal};
use crate::resources::{self, Resources};

/// The staged decisions of a pass.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// Jobs to start, in order, with the requested placement.
    pub(super) started: Vec<(JobId, Option<&'static str>)>,
    /// Jobs with a reservation: start, end and need.
    pub(super) reserved: Vec<(JobId, Use)>,
    pub(super) annotations: Vec<(JobId, String, String)>,
    pub(super) rekeyed: Vec<JobId>,
    pub(super) wake_at: Option<f64>,
}

pub(super) struct BenchPass<'a> {
    given: QueuePass<'a>,
    /// Running jobs and staged starts.
    held: Vec<Use>,
    /// Reservations of other queues and of this pass.
    reservations: Vec<Use>,
    cursor: usize,
    /// Candidates offered so far are those below this number.
    offered: usize,
    decided: Vec<bool>,
    /// The rule of the groups that were asked for last.
    by_cores: Option<bool>,
    /// The first candidates of groups that were told.
    told: Vec<Candidate>,
    staged: Staged,
}

impl<'a> BenchPass<'a> {
    pub(super) fn new(given: QueuePass<'a>, held: Vec<Use>, reservations: Vec<Use>) -> Self {
        let decided = vec![false; given.jobs.len()];
        BenchPass {
            given,
            held,
            reservations,
            cursor: 0,
            offered: 0,
            decided,
            by_cores: None,
            told: Vec::new(),
            staged: Staged::default(),
        }
    }

    pub(super) fn finish(self) -> Staged {
        self.staged
    }

    fn at(&self, candidate: Candidate) -> &'a Waiting {
        let index = candidate.raw() as usize;
        assert!(index < self.offered, "contract: candidate {index} was not offered in this pass");
        &self.given.jobs[index]
    }

    fn decide(&mut self, candidate: Candidate, job: JobId) {
        let slot = &mut self.decided[candidate.raw() as usize];
        assert!(!*slot, "contract: job {job} was already started or reserved in this pass");
        *slot = true;
    }

    fn free_now(&self) -> Need {
        self.given.room.less(capacity::used_at(&self.held, self.given.now))
    }

    /// Whether it can start now. Current uses only end from now on, so for them the present is sufficient.
    fn judge(&self, waiting: &Waiting) -> Result<(), Refusal> {
        if !waiting.need.within(self.given.all) {
            return Err(Refusal::Unsatisfiable);
        }
        if !waiting.need.within(self.free_now()) {
            return Err(Refusal::Busy);
        }
        let uses: Vec<Use> = self.held.iter().chain(&self.reservations).copied().collect();
        let end = self.given.now + waiting.job.duration;
        if !capacity::has_room(self.given.room, &uses, waiting.need, self.given.now, end) {
            return Err(Refusal::DelaysReservation);
        }
        Ok(())
    }

    fn when(&self, waiting: &Waiting, from: f64) -> Option<f64> {
        assert!(!from.is_nan(), "contract: the time that a start is asked for is not a number");
        let from = from.max(self.given.now);
        let uses: Vec<Use> = self.held.iter().chain(&self.reservations).copied().collect();
        let found = || capacity::earliest(self.given.room, &uses, waiting.need, from, waiting.job.duration);
        from.is_finite().then(found).flatten()
    }

    fn reserve_from(&mut self, candidate: Candidate, from: f64) -> Result<f64, Refusal> {
        let waiting = self.at(candidate);
        if !waiting.need.within(self.given.all) {
            return Err(Refusal::Unsatisfiable);
        }
        if self.at_limit() {
            return Err(Refusal::Limit);
        }
        let start = self.when(waiting, from).ok_or(Refusal::Busy)?;
        self.decide(candidate, waiting.job.id);
        let planned = Use { start, end: start + waiting.job.duration, need: waiting.need };
        self.reservations.push(planned);
        self.staged.reserved.push((waiting.job.id, planned));
        Ok(start)
    }

    fn at_limit(&self) -> bool {
        self.staged.started.len() + self.staged.reserved.len() >= self.given.decisions_max
    }

    fn begin(&mut self, candidate: Candidate, placement: Option<&'static str>) -> Result<(), Refusal> {
        let waiting = self.at(candidate);
        assert!(
            !self.decided[candidate.raw() as usize],
            "contract: job {} was already started or reserved in this pass",
            waiting.job.id
        );
        if self.at_limit() {
            return Err(Refusal::Limit);
        }
        self.judge(waiting)?;
        self.decide(candidate, waiting.job.id);
        let (start, end) = (self.given.now, self.given.now + waiting.job.duration);
        self.held.push(Use { start, end, need: waiting.need });
        self.staged.started.push((waiting.job.id, placement));
        Ok(())
    }

    /// The first of these jobs in the order of submission and id.
    fn member(&mut self, of: impl Fn(&Job) -> bool, fitting: bool) -> Option<(Candidate, Job)> {
        let free = self.free_now();
        let jobs = self.given.jobs.iter().enumerate();
        let jobs = jobs.filter(|(index, waiting)| !self.decided[*index] && of(&waiting.job));
        let jobs = jobs.filter(|(_, waiting)| !fitting || waiting.need.within(free));
        let (index, waiting) = jobs.min_by(|(_, a), (_, b)| {
            a.job.t_submit.total_cmp(&b.job.t_submit).then(a.job.id.cmp(&b.job.id))
        })?;
        self.offered = self.offered.max(index + 1);
        Some((Candidate::from_raw(u32::try_from(index).ok()?), waiting.job.clone()))
    }

    fn step(&mut self, accept: impl Fn(&Self, &Waiting) -> bool) -> Option<Candidate> {
        while let Some(waiting) = self.given.jobs.get(self.cursor) {
            let index = self.cursor;
            self.cursor += 1;
            self.offered = self.offered.max(self.cursor);
            if !self.decided[index] && accept(self, waiting) {
                return u32::try_from(index).ok().map(Candidate::from_raw);
            }
        }
        None
    }
}

impl Pass for BenchPass<'_> {
    fn now(&mut self) -> f64 {
        self.given.now
    }
    fn queue(&mut self) -> u32 {
        self.given.queue
    }
    fn next(&mut self) -> Option<Candidate> {
        self.step(|_, _| true)
    }
    // Only candidates for which free counts are insufficient are left out: a policy must cope with refusals.
    fn next_fitting(&mut self) -> Option<Candidate> {
        self.step(|pass, waiting| waiting.need.within(pass.free_now()))
    }
    fn rewind(&mut self) {
        self.cursor = 0;
    }
    fn describe(&mut self, candidate: Candidate) -> Job {
        self.at(candidate).job.clone()
    }
    fn fits(&mut self, candidate: Candidate) -> bool {
        self.judge(self.at(candidate)).is_ok()
    }
    fn earliest(&mut self, candidate: Candidate) -> f64 {
        self.when(self.at(candidate), self.given.now).unwrap_or(f64::INFINITY)
    }
    fn start(&mut self, candidate: Candidate) -> Result<(), Refusal> {
        self.begin(candidate, None)
    }
    fn start_placed(&mut self, candidate: Candidate, placement: Placement) -> Result<(), Refusal> {
        let name = PLACEMENTS.get(placement.raw() as usize);
        assert!(name.is_some(), "contract: {placement:?} did not come from `placement`");
        self.begin(candidate, name.copied())
    }
    fn reserve(&mut self, candidate: Candidate) -> Result<f64, Refusal> {
        self.reserve_from(candidate, self.given.now)
    }
    fn placement(&mut self, name: &str) -> Option<Placement> {
        let index = PLACEMENTS.iter().position(|known| *known == name)?;
        u32::try_from(index).ok().map(Placement::from_raw)
    }
    fn annotate(&mut self, candidate: Candidate, key: &str, json: &str) {
        let job = self.at(candidate).job.id;
        assert!(
            key.starts_with("sched.") || key.starts_with("user."),
            "contract: annotation key `{key}` begins neither with `sched.` nor with `user.`"
        );
        self.staged.annotations.push((job, key.to_owned(), json.to_owned()));
    }
    fn rekey(&mut self, candidate: Candidate) {
        self.staged.rekeyed.push(self.at(candidate).job.id);
    }
    fn wake_at(&mut self, time: f64) {
        self.staged.wake_at = Some(self.staged.wake_at.map_or(time, |other| other.min(time)));
    }
    fn totals_here(&mut self) -> Option<Totals> {
        let free = self.free_now();
        let mut totals = self.given.totals;
        totals.free_cores = free.cores;
        totals.free_gpus = free.gpus;
        totals.free_nodes = free.cores / self.given.cores_per_node;
        Some(totals)
    }
    fn attributes(&mut self) -> Option<&mut dyn Attributes> {
        Some(self)
    }
    fn flow(&mut self) -> Option<&mut dyn Flow> {
        Some(self)
    }
    fn groups(&mut self) -> Option<&mut dyn Groups> {
        Some(self)
    }
    fn resources(&mut self) -> Option<&mut dyn Resources> {
        Some(self)
    }
}

/// Every question looks at all jobs.
impl Groups for BenchPass<'_> {
    fn heads(&mut self, wanted: Wanted, after: Option<Candidate>) -> Vec<(Candidate, Job)> {
        let of = move |job: &Job| (job.userid, job.priority, if wanted.by_cores { job.cores } else { 0 });
        let after = after.map(|candidate| of(&self.at(candidate).job));
        self.by_cores = Some(wanted.by_cores);
        let mut groups: Vec<_> = self.given.jobs.iter().map(|waiting| of(&waiting.job)).collect();
        groups.retain(|group| after.is_none_or(|after| *group > after));
        groups.sort_unstable();
        groups.dedup();
        let heads =
            groups.into_iter().filter_map(|group| self.member(|job| of(job) == group, wanted.fitting));
        heads.take(JOBS_MAX as usize).collect()
    }
    /// All of them in every pass.
    fn changed(&mut self, by_cores: bool) -> Changes {
        let decided = self.decided.contains(&true);
        assert!(!decided, "contract: changed groups were asked for after a decision of the pass");
        let after = self.told.last().copied();
        let heads = self.heads(Wanted { by_cores, fitting: false }, after);
        let numbers = self.told.len() as u32..;
        self.told.extend(heads.iter().map(|(candidate, _)| *candidate));
        Changes { all: after.is_none(), heads: numbers.zip(heads.into_iter().map(Some)).collect() }
    }
    fn next(&mut self, candidate: Candidate, fitting: bool) -> Option<(Candidate, Job)> {
        let from = &self.at(candidate).job;
        let by_cores = self.by_cores.expect("contract: the next of a group was asked for before any group");
        self.member(
            |job| {
                let place = |job: &Job| (job.t_submit, job.id);
                (job.userid, job.priority) == (from.userid, from.priority)
                    && (!by_cores || job.cores == from.cores)
                    && place(job) > place(from)
            },
            fitting,
        )
    }
}

impl Attributes for BenchPass<'_> {
    fn text(&mut self, name: &str, candidates: &[Candidate]) -> Vec<Option<String>> {
        let some = candidates.iter().take(JOBS_MAX as usize);
        some.map(|candidate| self.at(*candidate).attributes.get(name).cloned()).collect()
    }
    fn numbers(&mut self, name: &str, candidates: &[Candidate]) -> Vec<f64> {
        let number = |text: Option<String>| {
            text.and_then(|text| text.parse().ok()).filter(|number: &f64| number.is_finite())
        };
        let texts = self.text(name, candidates).into_iter();
        texts.map(|text| number(text).unwrap_or(f64::NAN)).collect()
    }
}

/// Resources use the slots of flow from the last one down.
impl Resources for BenchPass<'_> {
    fn kinds(&mut self) -> Vec<resources::Kind> {
        let free = self.free_now().flows.into_iter().rev();
        let kinds = self.given.pools.iter().zip(free);
        kinds.map(|(kind, free)| resources::Kind { free, ..kind.clone() }).collect()
    }
    fn asked(&mut self, candidates: &[Candidate]) -> Vec<u64> {
        let kinds = self.given.pools.len();
        let amounts = |candidate: &Candidate| {
            let slots = self.at(*candidate).need.flows.into_iter();
            slots.rev().take(kinds).collect::<Vec<_>>()
        };
        candidates.iter().take(JOBS_MAX as usize).flat_map(amounts).collect()
    }
}

impl Flow for BenchPass<'_> {
    fn kinds(&mut self) -> Vec<Kind> {
        let free = self.free_now().flows;
        self.given.kinds.iter().zip(free).map(|(kind, free)| Kind { free, ..kind.clone() }).collect()
    }
    fn asked(&mut self, candidates: &[Candidate]) -> Vec<u64> {
        let kinds = self.given.kinds.len();
        candidates
            .iter()
            .take(JOBS_MAX as usize)
            .flat_map(|candidate| self.at(*candidate).need.flows[..kinds].to_vec())
            .collect()
    }
    fn spans(&mut self, kind: u32) -> Vec<Span> {
        let Some(kind) = Some(kind as usize).filter(|kind| *kind < self.given.kinds.len()) else {
            return Vec::new();
        };
        let span = |each: &Use, start| Span { start, end: each.end, amount: each.need.flows[kind] };
        let mut held: Vec<Span> = self.held.iter().map(|each| span(each, f64::NEG_INFINITY)).collect();
        held.retain(|span| span.amount > 0);
        held.sort_by(|a, b| a.end.total_cmp(&b.end));
        held.dedup_by(|b, a| {
            let same = a.end == b.end;
            a.amount += if same { b.amount } else { 0 };
            same
        });
        let mut later: Vec<Span> = self.reservations.iter().map(|each| span(each, each.start)).collect();
        later.retain(|span| span.amount > 0);
        later.sort_by(|a, b| a.start.total_cmp(&b.start));
        held.extend(later);
        held
    }
    fn earliest_after(&mut self, candidate: Candidate, time: f64) -> f64 {
        self.when(self.at(candidate), time).unwrap_or(f64::INFINITY)
    }
    fn reserve_after(&mut self, candidate: Candidate, time: f64) -> Result<f64, Refusal> {
        self.reserve_from(candidate, time)
    }
}
