//! Runs a journal again: the same events at the same times through a fresh engine, with its passes interrupted at the
//! same checks. Every outcome is compared with the recorded one.
//!
//! A journal may begin after the start of its scheduler. The engine then resumes from the checkpoint with the
//! policy's saved state. Fuel is compared only for instances that are run from their start: the memory of a policy is
//! not all in its state, and managing it costs fuel.
//!
//! Must never know the source of the policies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fluxgate_engine::{Action, Engine, Policy, SwapError};

use crate::differences::{of_checkpoints, of_outcomes};
use crate::fuel_meter::FuelMeter;
use crate::outcome::{Decision, Outcome};
use crate::reader::{Item, Journal, ReadError};
use crate::reasons::Watch;
use crate::record::{CheckpointCause, CheckpointRecord, PassRecord, PolicyRow, Record};
use crate::tables::Tables;
use crate::timed::Timed;

/// The source of the policies of a rerun.
pub trait Policies {
    /// A fresh instance of the policy with this digest and these settings; a policy without a digest is not a
    /// component.
    ///
    /// # Errors
    /// The reason, in words, for which the policy cannot be made.
    fn make(&mut self, row: &PolicyRow) -> Result<Box<dyn Policy>, String>;
}

/// The counts of a rerun without a difference.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verified {
    /// Records run, apart from rows of requests and policies.
    pub records: u64,
    /// Events stepped.
    pub events: u64,
    /// Passes made, as [`Stats::passes`](fluxgate_engine::Stats::passes) counts them.
    pub passes: u64,
    /// Calls of `pass` that were interrupted.
    pub cut: u64,
    /// Decisions compared.
    pub decisions: u64,
    /// Of these, starts of jobs.
    pub starts: u64,
    /// Annotations compared.
    pub annotations: u64,
    /// Swaps completed, returns of queues to the default policy included.
    pub swaps: u64,
    /// Policies that failed, active ones or successors.
    pub breaches: u64,
    /// Checkpoints whose state the rerun reached exactly.
    pub checkpoints: u64,
    /// Checkpoints from which the rerun resumed without having reached their state.
    pub resumed: u64,
    /// Starts of a scheduler in the journal.
    pub lives: u64,
    /// Gaps: time of the checkpoint after the gap in seconds since the epoch, records lost, reason.
    pub gaps: Vec<(f64, u64, String)>,
    /// Files that end with an incomplete record, and the bytes of that.
    pub torn: Vec<(PathBuf, u64)>,
    /// Failures at a deadline, repeated as recorded.
    pub deadlines: u64,
    /// Times of the first and the last record, seconds since the epoch; `None` without a record.
    pub span: Option<(f64, f64)>,
}

/// The reason for which a rerun ended early.
#[derive(Debug, thiserror::Error)]
pub enum RerunError {
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The engine made another outcome than the recorded one.
    #[error("{}: offset {offset}: {kind} at {time}: {what}", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// Offset in it, bytes.
        offset: u64,
        /// Kind of record.
        kind: &'static str,
        /// Its time, seconds since the epoch.
        time: f64,
        /// The difference.
        what: String,
    },
    /// A record contradicts those before it, or a policy that it names cannot be made.
    #[error("{}: offset {offset}: {what}", path.display())]
    Order {
        /// The file.
        path: PathBuf,
        /// Offset in it, bytes.
        offset: u64,
        /// The fault in words.
        what: String,
    },
    /// The given span of time has no record.
    #[error("the journal has nothing in this span of time")]
    Nothing,
}

struct Run<'a> {
    policies: &'a mut dyn Policies,
    tables: Tables,
    engine: Option<Engine>,
    late: Arc<AtomicBool>,
    /// A call failed at a deadline, after which annotations may differ.
    by_clock: bool,
    /// Whether the active default policy, and its successor, were run from their start.
    exact: bool,
    next_exact: bool,
    /// Queues with a policy of their own that was resumed from a saved state.
    resumed_queues: BTreeSet<String>,
    meter: FuelMeter,
    passes: u64,
    done: Verified,
}

type Differs = Result<(), String>;

/// Runs the journal again, from the last file that begins at or before `from`, else from the first, until `until`, else to its
/// end. Times are seconds since the epoch.
///
/// # Errors
/// [`RerunError`] at the first record that differs, cannot be read or contradicts the others, or without any record.
pub fn verify(
    journal: &Journal,
    policies: &mut dyn Policies,
    from: Option<f64>,
    until: Option<f64>,
) -> Result<Verified, RerunError> {
    follow(journal, policies, from, until, &mut |_, _| true)
}

/// As [`verify`], and has `watch` look at each record and the engine after it, as long as it says that it wants more.
pub(crate) fn follow(
    journal: &Journal,
    policies: &mut dyn Policies,
    from: Option<f64>,
    until: Option<f64>,
    watch: &mut Watch<'_>,
) -> Result<Verified, RerunError> {
    follow_to(journal, policies, from, until, watch).map(|end| end.done)
}

/// How a rerun ended.
pub(crate) struct Reached {
    pub(crate) done: Verified,
    /// The engine after the last record that was run.
    pub(crate) engine: Option<Engine>,
    /// The first record beyond the time until which it was run.
    pub(crate) next: Option<Record>,
}

/// As [`follow`], and tells where it ended.
pub(crate) fn follow_to(
    journal: &Journal,
    policies: &mut dyn Policies,
    from: Option<f64>,
    until: Option<f64>,
    watch: &mut Watch<'_>,
) -> Result<Reached, RerunError> {
    let first = from.map_or(0, |from| first_file(journal, from));
    let mut next = None;
    let mut run = Run {
        policies,
        tables: Tables::default(),
        engine: None,
        late: Arc::default(),
        by_clock: false,
        exact: false,
        next_exact: false,
        resumed_queues: BTreeSet::new(),
        meter: FuelMeter::default(),
        passes: 0,
        done: Verified::default(),
    };
    for item in journal.items_from(first) {
        let place = match item {
            Item::Record(place) => place,
            Item::Torn(file, _, bytes) => {
                run.done.torn.push((journal.files()[file].clone(), bytes));
                continue;
            }
            Item::Damaged(error) => return Err(error.into()),
        };
        let time = place.record.time();
        if time.zip(until).is_some_and(|(time, until)| time > until) {
            next = Some(place.record);
            break;
        }
        run.tables.take(&place.record);
        let path: &Path = &journal.files()[place.file];
        let done = run.record(&place.record).map_err(|what| RerunError::Order {
            path: path.to_owned(),
            offset: place.offset,
            what,
        })?;
        done.map_err(|what| RerunError::Differs {
            path: path.to_owned(),
            offset: place.offset,
            kind: place.record.kind(),
            time: time.unwrap_or_default(),
            what,
        })?;
        if let Some(time) = time {
            let begin = run.done.span.map_or(time, |(begin, _)| begin);
            run.done.span = Some((begin, time));
            run.done.records += 1;
        }
        if !watch(&place.record, run.engine.as_ref()) {
            break;
        }
    }
    if run.done.span.is_none() {
        return Err(RerunError::Nothing);
    }
    Ok(Reached { done: run.done, engine: run.engine, next })
}

/// Index of the last file that begins at or before this time.
pub(crate) fn first_file(journal: &Journal, from: f64) -> usize {
    (0..journal.files().len())
        .rev()
        .find(|file| {
            let first = journal.items_from(*file).next();
            matches!(first, Some(Item::Record(place)) if place.record.time().is_some_and(|t| t <= from))
        })
        .unwrap_or(0)
}

impl Run<'_> {
    /// Runs one record. The outer error is an inconsistent journal, the inner one a difference.
    fn record(&mut self, record: &Record) -> Result<Differs, String> {
        if let Record::Checkpoint(checkpoint) = record {
            return self.checkpoint(checkpoint);
        }
        let written = record.outcome();
        let late = written.map(|o| o.0.iter().filter(|d| clocked(d)).count()).unwrap_or_default();
        if late > 0 {
            self.done.deadlines += late as u64;
            self.by_clock = true;
        }
        self.late.store(late > 0, Ordering::Relaxed);
        let engine = self.engine.as_mut().ok_or("a file begins without a checkpoint")?;
        let actions = match record {
            Record::Checkpoint(_) | Record::Spec(_) | Record::Policy(_) | Record::End(_) => {
                return Ok(Ok(()));
            }
            Record::Step(now, event_record, _) => {
                self.done.events += 1;
                let tables = &mut self.tables;
                let event = event_record.event(|number, duration| tables.jobspec(number, duration));
                engine.step(event.map_err(|e| e.to_string())?, *now)
            }
            Record::Pass(pass) => return Ok(self.pass(pass)),
            Record::Abandon(_) => {
                let given_up = engine.abandon_swap();
                return Ok(given_up
                    .map(drop)
                    .ok_or_else(|| "no swap is on its way that could be given up".into()));
            }
            Record::Hold(_, policy) => {
                engine.suspend(policy);
                return Ok(Ok(()));
            }
            Record::QueueAbandon(_, queue) => {
                let given_up = engine.abandon_queue_swap(queue);
                return Ok(given_up.map(drop).ok_or_else(|| {
                    format!("nothing is on its way for queue {queue} that could be given up")
                }));
            }
            Record::Offer(_, state) => {
                engine.offer(state.clone());
                return Ok(Ok(()));
            }
            Record::States(now, _) => {
                let (_, actions) = engine.policy_states(*now);
                self.meter.used(engine);
                actions
            }
            Record::QueueHold(_, queue, policy) => {
                engine.suspend_queue(queue, policy);
                return Ok(Ok(()));
            }
            Record::GiveBack(_, queue, was) => {
                let is = engine.give_back(queue).err().map(|error| error.to_string());
                return Ok(match is == *was {
                    true => Ok(()),
                    false => {
                        Err(format!("giving back queue {queue} was refused with {was:?}, and {is:?} now"))
                    }
                });
            }
            Record::QueueSwap(_, queue, number, _, failed) => {
                let row = self.tables.policy(*number).ok_or("a policy is not in the journal")?;
                let policy = make(self.policies, row, &self.late)?;
                match begun(engine.swap_queue(queue, policy), failed.as_deref(), late > 0) {
                    Ok(actions) => actions,
                    Err(differs) => return Ok(Err(differs)),
                }
            }
            Record::Reconfigure(_, config, _) => engine.reconfigure(config.as_ref().clone()),
            Record::Swap(_, number, _, failed) => {
                let row = self.tables.policy(*number).ok_or("a policy is not in the journal")?;
                let policy = make(self.policies, row, &self.late)?;
                self.next_exact = true;
                match begun(engine.swap(policy), failed.as_deref(), late > 0) {
                    Ok(actions) => actions,
                    Err(differs) => return Ok(Err(differs)),
                }
            }
        };
        self.late.store(false, Ordering::Relaxed);
        Ok(self.compare(written, &actions))
    }

    fn checkpoint(&mut self, checkpoint: &CheckpointRecord) -> Result<Differs, String> {
        if let (Some(engine), CheckpointCause::Rotation) = (&mut self.engine, &checkpoint.why) {
            // Journals of earlier versions have events in their checkpoints that are not delivered yet.
            let made = match checkpoint.engine.is_delivered() {
                true => engine.checkpoint_delivered(checkpoint.time),
                false => engine.checkpoint(),
            };
            let Some((mine, _)) = made else {
                return Ok(Err(
                    "a checkpoint was written, and none can be made now: a swap is on its way".into()
                ));
            };
            self.meter.used(engine);
            self.passes = engine.stats().passes;
            self.done.checkpoints += 1;
            return Ok(match mine == checkpoint.engine || self.by_clock {
                true => Ok(()),
                false => Err(format!(
                    "the state is not that of the checkpoint: {}",
                    of_checkpoints(&mine, &checkpoint.engine)
                )),
            });
        }
        match &checkpoint.why {
            CheckpointCause::Start => self.done.lives += 1,
            CheckpointCause::Rotation => self.done.resumed += 1,
            CheckpointCause::Gap(lost, why) => {
                self.done.gaps.push((checkpoint.time, *lost, why.clone()));
                self.done.resumed += 1;
            }
        }
        let policy = match &checkpoint.engine.policy {
            Some(_) => Some(make(self.policies, &checkpoint.policy, &self.late)?),
            None => None,
        };
        let mut own = BTreeMap::new();
        for queue in checkpoint.engine.own.iter().filter(|own| own.policy.is_some()).map(|own| &own.queue) {
            let row =
                checkpoint.own.get(queue).ok_or_else(|| format!("queue {queue}: its policy is not named"))?;
            own.insert(queue.clone(), make(self.policies, row, &self.late)?);
        }
        self.resumed_queues = own.keys().cloned().collect();
        let mut engine = self.tables.resume(checkpoint, policy, own).map_err(|e| e.to_string())?;
        if checkpoint.why != CheckpointCause::Start {
            // The policies that were there saw the jobs that wait; those that are made anew for the rerun have not.
            let shown = engine.show_waiting(checkpoint.time);
            shown.map_err(|(name, error)| format!("policy {name} failed on the jobs that wait: {error}"))?;
        }
        (self.exact, self.by_clock) = (checkpoint.why == CheckpointCause::Start, false);
        self.meter = FuelMeter::default();
        self.meter.used(&engine);
        self.passes = engine.stats().passes;
        self.engine = Some(engine);
        Ok(Ok(()))
    }

    fn pass(&mut self, record: &PassRecord) -> Differs {
        let PassRecord(now, _, fuel, made, cut, written) = record;
        let Some(engine) = &mut self.engine else { return Ok(()) };
        engine.interrupt_at(*cut);
        let actions = engine.pass(*now);
        self.late.store(false, Ordering::Relaxed);
        let (passes, seen) = (engine.stats().passes, engine.interrupted_at());
        self.done.cut += u64::from(cut.is_some());
        let count = passes - self.passes;
        self.passes = passes;
        self.done.passes += count;
        self.compare(written.as_ref(), &actions)?;
        let burnt = self.engine.as_ref().map(|engine| self.meter.used(engine)).unwrap_or_default();
        if count != *made {
            return Err(format!("{made} passes were made, and {count} now"));
        }
        if seen != *cut {
            return Err(format!("it was cut at {cut:?}, and at {seen:?} now"));
        }
        if burnt != *fuel && self.exact && self.resumed_queues.is_empty() && !self.by_clock {
            return Err(format!("the policies used {fuel} units of fuel, and {burnt} now"));
        }
        Ok(())
    }

    fn compare(&mut self, written: Option<&Outcome>, actions: &[Action]) -> Differs {
        let now = Outcome::of(actions);
        let none = Outcome(Vec::new(), 0, 0);
        let (was, is) = (written.unwrap_or(&none), now.as_ref().unwrap_or(&none));
        for decision in &is.0 {
            let (queue, decision) = match decision {
                Decision::Queue(queue, decision) => (Some(queue.as_str()), &**decision),
                Decision::GivenBack(queue, ..) => (Some(queue.as_str()), decision),
                decision => (None, decision),
            };
            let exact = match decision {
                Decision::Start(..) => {
                    self.done.starts += 1;
                    continue;
                }
                Decision::SwapFailed(..) => {
                    self.done.breaches += 1;
                    continue;
                }
                Decision::Swapped(..) | Decision::GivenBack(..) => {
                    self.done.swaps += 1;
                    self.next_exact
                }
                Decision::Failed(..) => {
                    self.done.breaches += 1;
                    true
                }
                _ => continue,
            };
            self.meter.forget(queue);
            match queue {
                // A successor is run from its start.
                Some(queue) => drop(self.resumed_queues.remove(queue)),
                None => self.exact = exact,
            }
        }
        self.done.decisions += is.0.len() as u64;
        self.done.annotations += u64::from(is.2);
        if self.by_clock {
            let plain = |o: &Outcome| o.0.iter().filter(|d| !clocked(d)).cloned().collect::<Vec<_>>();
            return if plain(was) == plain(is) { Ok(()) } else { Err(of_outcomes(was, is)) };
        }
        if was == is { Ok(()) } else { Err(of_outcomes(was, is)) }
    }
}

/// True for a failure at a deadline.
fn clocked(decision: &Decision) -> bool {
    match decision {
        Decision::Failed(_, kind, _) | Decision::SwapFailed(_, kind, _) => kind == "deadline",
        Decision::Queue(_, decision) => clocked(decision),
        _ => false,
    }
}

/// The actions of a swap, if it began as it is recorded; `late` if a call failed at a deadline.
fn begun(
    begun: Result<Vec<Action>, SwapError>,
    failed: Option<&str>,
    late: bool,
) -> Result<Vec<Action>, String> {
    match (begun, failed) {
        (Ok(actions), None) => Ok(actions),
        (Err(error), Some(was)) if late || error.to_string() == was => Ok(Vec::new()),
        (Ok(_), Some(was)) => Err(format!("it was refused with {was:?}, and is not now")),
        (Err(error), _) => Err(format!("it is refused now: {error}")),
    }
}

fn make(
    policies: &mut dyn Policies,
    row: &PolicyRow,
    late: &Arc<AtomicBool>,
) -> Result<Box<dyn Policy>, String> {
    let inner = policies.make(row)?;
    Ok(Box::new(Timed { inner, late: Arc::clone(late) }))
}
