//! Passes by the rules of published simulators, in the place of those of a policy that gives an order.
//!
//! The policy is asked for the keys of all waiting jobs in every pass, so its order may depend on the time. The first
//! in its order starts if it fits. If not, it is the *head*: with [`Rules::commit`] it stays the head until it starts,
//! whichever jobs are submitted meanwhile. Behind it, jobs start as far as [`Rules::backfill`] and the shadow time
//! allow. The shadow time is the time at which enough cores for the head are free if running jobs end at their requested
//! ends; the extra cores are those that are free beside it then. A job may start behind the head if it fits now and its
//! requested end is by ([`Rules::inclusive`]) or before the shadow time or, with [`Rules::extra`], if it needs no more
//! than the extra cores.
//!
//! Jobs are counted by cores. Every start passes the gate of the engine. This module does not know the formula of an
//! order.

use std::collections::BTreeMap;

use fluxgate_engine::{
    Abilities, JobColumns, JobEvent, JobEventKind, JobView, Machine, Pass, Policy, PolicyCost, PolicyError,
    Refusal, SavedState,
};
use fluxgate_formats::{JobId, TotalF64};
use serde::{Deserialize, Serialize};

use super::{Backfill, Rules, Shadow};

/// RFC 27 priority of an expedited job, which comes before all others.
const EXPEDITED: u32 = u32::MAX;

/// A policy cannot be used with rules that replace its passes.
#[derive(Debug, thiserror::Error)]
#[error(
    "policy {name}: found a policy that makes passes and gives no order, accepted is one that gives an order (such as \
     sjf or formula) or builtin-fcfs, because the rules commit=yes and backfill=none|submission|score make the passes"
)]
pub struct NoOrder {
    /// Name of the policy.
    pub name: String,
}

/// A policy whose passes are made by the rules; see the [module](self).
pub struct Picking {
    /// Gives the order; without one it is that of submission.
    inner: Option<Box<dyn Policy>>,
    rules: Rules,
    /// The first job that waits, and its shadow.
    head: Option<(JobId, Gap)>,
    /// Requested ends and cores of running jobs.
    running: BTreeMap<JobId, (f64, u64)>,
}

impl std::fmt::Debug for Picking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Picking").field("policy", &self.name()).finish_non_exhaustive()
    }
}

/// The shadow time of the head, and the extra cores.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Gap {
    /// Expected start of the head, seconds since the epoch.
    shadow: f64,
    /// Cores that are free beside it then.
    extra: u64,
}

/// The origin of its states.
const KEPT_FROM: &str = "picking";

/// Its state between two passes. Times are the bits of seconds, since a job without a limit has an infinite end.
#[derive(Serialize, Deserialize)]
struct Kept {
    head: Option<(JobId, u64, u64)>,
    running: Vec<(JobId, u64, u64)>,
    policy: Option<SavedState>,
}

fn refused(during: &'static str, message: String) -> PolicyError {
    PolicyError::Refused { during, message }
}

/// A waiting job of a pass.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    candidate: u32,
    job: JobView,
}

/// `policy` itself where the rules leave the passes to it; otherwise its order with passes by the rules. Without a policy that is
/// the order of submission.
///
/// # Errors
/// [`NoOrder`]: the rules make the passes, and the policy gives no order.
pub fn apply(policy: Option<Box<dyn Policy>>, rules: &Rules) -> Result<Option<Box<dyn Policy>>, NoOrder> {
    if !rules.picks() {
        return Ok(policy);
    }
    if let Some(policy) = policy.as_ref().filter(|policy| !policy.abilities().ordering) {
        return Err(NoOrder { name: policy.name().to_owned() });
    }
    Ok(Some(Box::new(Picking { inner: policy, rules: *rules, head: None, running: BTreeMap::new() })))
}

impl Picking {
    /// All waiting jobs, in the order of the policy at this time.
    fn ordered(&mut self, pass: &mut Pass) -> Result<Vec<Waiting>, PolicyError> {
        let mut waiting = Vec::new();
        pass.rewind();
        while let Some(candidate) = pass.next() {
            waiting.push(Waiting { candidate, job: pass.describe(candidate)? });
        }
        let Some(inner) = &mut self.inner else {
            waiting.sort_by_key(|waiting| (waiting.job.priority != EXPEDITED, submission(&waiting.job)));
            return Ok(waiting);
        };
        let mut rows = JobColumns::default();
        for Waiting { job, .. } in &waiting {
            rows.id.push(job.id);
            rows.t_submit.push(job.t_submit);
            rows.duration.push(job.duration);
            rows.priority.push(job.priority);
            rows.userid.push(job.userid);
            rows.queue.push(pass.queue());
            rows.nodes.push(job.nodes);
            rows.cores.push(job.cores);
            rows.gpus.push(job.gpus);
        }
        let keys = inner.keys(pass.now(), &rows)?;
        let bad = |message| Err(PolicyError::BadValue { during: "ordering.keys", message });
        if keys.len() != waiting.len() {
            return bad(format!("{} keys for {} jobs", keys.len(), waiting.len()));
        }
        if let Some(row) = keys.iter().position(|key| key.is_nan()) {
            return bad(format!("the key of job {} is NaN", rows.id[row]));
        }
        let mut keyed: Vec<(f64, Waiting)> = keys.into_iter().zip(waiting).collect();
        keyed.sort_by_key(|(key, waiting)| {
            // Zeros of both signs are one key.
            let key = TotalF64(if *key == 0.0 { 0.0 } else { *key });
            (waiting.job.priority != EXPEDITED, key, submission(&waiting.job))
        });
        Ok(keyed.into_iter().map(|(_, waiting)| waiting).collect())
    }

    fn start(&mut self, pass: &mut Pass, waiting: &Waiting) -> Result<Result<u64, Refusal>, PolicyError> {
        let before = pass.totals().free_cores;
        if let Err(refusal) = pass.start(waiting.candidate, None)? {
            return Ok(Err(refusal));
        }
        let took = u64::from(before.saturating_sub(pass.totals().free_cores));
        self.running.insert(waiting.job.id, (pass.now() + waiting.job.duration, took));
        Ok(Ok(took))
    }

    /// The shadow of a job that does not fit now.
    fn gap(&self, now: f64, free: u64, needs: u64) -> Gap {
        let mut ends: Vec<(f64, u64)> = self.running.values().copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut shadow, mut all) = (now, free);
        for (end, cores) in ends {
            if all >= needs && end > shadow {
                break;
            }
            (shadow, all) = (end, all + cores);
        }
        Gap { shadow, extra: all.saturating_sub(needs) }
    }

    /// Starts jobs in order until one waits, the head; returns the jobs behind it, in order.
    fn heads(&mut self, pass: &mut Pass) -> Result<Vec<Waiting>, PolicyError> {
        let mut order = self.ordered(pass)?;
        let committed = self.head.filter(|_| self.rules.commit);
        if let Some(at) = committed.and_then(|(id, _)| order.iter().position(|waiting| waiting.job.id == id))
        {
            let head = order.remove(at);
            order.insert(0, head);
        }
        let kept = self.head.take();
        let mut order = order.into_iter();
        while let Some(waiting) = order.next() {
            match self.start(pass, &waiting)? {
                Ok(_) | Err(Refusal::Unsatisfiable | Refusal::NotEligible) => {}
                Err(Refusal::Limit) => return Ok(Vec::new()),
                Err(Refusal::Busy | Refusal::DelaysReservation) => {
                    let frozen = self.rules.shadow == Shadow::Frozen;
                    let kept = kept.filter(|(id, _)| frozen && *id == waiting.job.id).map(|(_, gap)| gap);
                    let free = u64::from(pass.totals().free_cores);
                    let gap = kept
                        .unwrap_or_else(|| self.gap(pass.now(), free, u64::from(waiting.job.cores.max(1))));
                    self.head = Some((waiting.job.id, gap));
                    return Ok(order.collect());
                }
            }
        }
        Ok(Vec::new())
    }

    /// Starts jobs behind the head.
    fn backfill(&mut self, pass: &mut Pass, mut behind: Vec<Waiting>) -> Result<(), PolicyError> {
        let Some((head, mut gap)) = self.head else { return Ok(()) };
        match self.rules.backfill {
            Backfill::Policy | Backfill::None => return Ok(()),
            Backfill::Submission => behind.sort_by_key(|waiting| submission(&waiting.job)),
            Backfill::Score => {}
        }
        let now = pass.now();
        for waiting in behind {
            let (end, cores) = (now + waiting.job.duration, u64::from(waiting.job.cores));
            let in_time = end < gap.shadow || (self.rules.inclusive && end == gap.shadow);
            if cores > u64::from(pass.totals().free_cores)
                || !(in_time || self.rules.extra && cores <= gap.extra)
            {
                continue;
            }
            match self.start(pass, &waiting)? {
                Ok(took) if !in_time => gap.extra = gap.extra.saturating_sub(took),
                Err(Refusal::Limit) => break,
                Ok(_) | Err(_) => {}
            }
        }
        self.head = Some((head, gap));
        Ok(())
    }

    fn pass(&mut self, pass: &mut Pass) -> Result<(), PolicyError> {
        let behind = self.heads(pass)?;
        self.backfill(pass, behind)
    }
}

/// The order of submission.
fn submission(job: &JobView) -> (TotalF64, JobId) {
    (TotalF64(job.t_submit), job.id)
}

impl Policy for Picking {
    fn name(&self) -> &str {
        self.inner.as_ref().map_or(fluxgate_engine::BUILTIN, |inner| inner.name())
    }

    fn abilities(&self) -> Abilities {
        Abilities { scheduling: true, observing: true, state: true, ..Abilities::default() }
    }

    fn reads_nodes(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.reads_nodes())
    }

    fn reads_attributes(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.reads_attributes())
    }

    fn machine(&mut self, machine: Machine) {
        if let Some(inner) = &mut self.inner {
            inner.machine(machine);
        }
    }

    fn observe(&mut self, now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        for event in events.iter().filter(|event| event.kind == JobEventKind::Ended) {
            self.running.remove(&event.job);
        }
        match &mut self.inner {
            Some(inner) if inner.abilities().observing => inner.observe(now, events),
            _ => Ok(()),
        }
    }

    fn run(&mut self, mut pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        let result = self.pass(&mut pass);
        (pass, result)
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        let mut inner = self.inner.as_mut().filter(|inner| inner.abilities().state);
        let policy = inner.as_mut().map(|inner| inner.save()).transpose()?;
        let head = self.head.map(|(id, gap)| (id, gap.shadow.to_bits(), gap.extra));
        let running = self.running.iter().map(|(id, (end, cores))| (*id, end.to_bits(), *cores)).collect();
        let data = serde_json::to_vec(&Kept { head, running, policy });
        let data = data.map_err(|error| refused("state.save", error.to_string()))?;
        Ok(SavedState { from: KEPT_FROM.to_owned(), version: 1, data })
    }

    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        if (state.from.as_str(), state.version) != (KEPT_FROM, 1) {
            return Err(refused("state.restore", format!("a state of {}", state.from)));
        }
        let kept: Kept = serde_json::from_slice(&state.data)
            .map_err(|error| refused("state.restore", error.to_string()))?;
        self.head = kept.head.map(|(id, shadow, extra)| (id, Gap { shadow: f64::from_bits(shadow), extra }));
        let running = kept.running.into_iter().map(|(id, end, cores)| (id, (f64::from_bits(end), cores)));
        self.running = running.collect();
        match (&mut self.inner, kept.policy) {
            (Some(inner), Some(policy)) if inner.abilities().state => inner.restore(&policy),
            _ => Ok(()),
        }
    }

    fn cost(&self) -> PolicyCost {
        self.inner.as_ref().map_or_else(PolicyCost::default, |inner| inner.cost())
    }
}
