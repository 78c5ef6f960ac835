//! The reasons for which a job waited, each with its times, by a rerun.
//!
//! A journal has no reasons: they follow from its records, as decisions do.
//!
//! Must never know files.

use fluxgate_engine::Engine;
use fluxgate_formats::JobId;

use crate::outcome::Decision;
use crate::reader::{Item, Journal};
use crate::record::{EventRecord, Record};
use crate::rerun::{Policies, RerunError, follow};

/// A time in which a job waited for one reason. Times are seconds since the epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Spell {
    /// Its begin.
    pub from: f64,
    /// Its end.
    pub until: f64,
    /// The kind of the reason, as [`Reason::kind`](fluxgate_engine::Reason::kind); `away` while no scheduler had the job.
    pub kind: &'static str,
    /// The reason in words.
    pub text: String,
}

/// The end of the wait of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It started.
    Started,
    /// Its request was withdrawn or denied.
    Withdrawn,
    /// It still waited when the journal ended.
    Waits,
}

/// The wait of a job. The spells follow one another without a gap, from its arrival to the end of the wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// The times by reason, in order.
    pub spells: Vec<Spell>,
    /// The end of the wait.
    pub ended: Ended,
    /// True if its arrival is in the journal; false if the wait began before.
    pub complete: bool,
}

impl Wait {
    /// Seconds by kind of reason, in the order in which the kinds came first. They sum up to the wait.
    pub fn by_kind(&self) -> Vec<(&'static str, f64)> {
        let mut kinds: Vec<(&'static str, f64)> = Vec::new();
        for spell in &self.spells {
            let long = spell.until - spell.from;
            match kinds.iter_mut().find(|(kind, _)| *kind == spell.kind) {
                Some((_, sum)) => *sum += long,
                None => kinds.push((spell.kind, long)),
            }
        }
        kinds
    }
}

/// The last wait of a job in a journal, found by a rerun; `None` if no record has the job waiting.
///
/// # Errors
/// [`RerunError`] if the journal cannot be read, or not be run again with these policies.
pub fn reasons(
    journal: &Journal,
    policies: &mut dyn Policies,
    job: JobId,
) -> Result<Option<Wait>, RerunError> {
    let Some((from, complete)) = arrival(journal, job)? else { return Ok(None) };
    let mut wait = Wait { spells: Vec::new(), ended: Ended::Waits, complete };
    let mut over = false;
    follow(journal, policies, Some(from), None, &mut |record, engine| {
        let Some(time) = record.time() else { return true };
        if time < from && complete {
            return true;
        }
        if let Some(last) = wait.spells.last_mut() {
            last.until = time;
        }
        if let Some(ended) = ends(record, job) {
            (wait.ended, over) = (ended, true);
            return false;
        }
        let told = match engine.and_then(|engine| engine.reason(job)) {
            Some(reason) => Some((reason.kind(), reason.to_string())),
            // Another scheduler has begun, which was not told of it yet.
            None => wait.spells.last().map(|_| ("away", "no scheduler had it".to_owned())),
        };
        if let Some((kind, text)) = told
            && wait.spells.last().is_none_or(|last| last.kind != kind || last.text != text)
        {
            wait.spells.push(Spell { from: time, until: time, kind, text });
        }
        true
    })?;
    if !over && wait.spells.is_empty() {
        return Ok(None);
    }
    wait.spells.retain(|spell| spell.until > spell.from);
    Ok(Some(wait))
}

/// When a job arrived, or was first seen waiting, and whether it arrived then. Of a job that came to several schedulers, the
/// first arrival since it started last.
fn arrival(journal: &Journal, job: JobId) -> Result<Option<(f64, bool)>, RerunError> {
    let mut found: Option<(f64, bool)> = None;
    let mut over = false;
    for item in journal.items() {
        let record = match item {
            Item::Record(place) => place.record,
            Item::Torn(..) => continue,
            Item::Damaged(error) => return Err(error.into()),
        };
        match &record {
            Record::Step(time, EventRecord::Alloc(id, ..), _) if *id == job && (over || found.is_none()) => {
                (found, over) = (Some((*time, true)), false);
            }
            Record::Checkpoint(base) if found.is_none() => {
                let waits = base.engine.pending.iter().any(|pending| pending.id == job);
                found = waits.then_some((base.time, false));
            }
            _ => {}
        }
        over |= found.is_some() && ends(&record, job).is_some();
    }
    Ok(found)
}

/// Does this record end the wait of a job?
fn ends(record: &Record, job: JobId) -> Option<Ended> {
    if matches!(record, Record::Step(_, EventRecord::Cancel(id), _) if *id == job) {
        return Some(Ended::Withdrawn);
    }
    record.outcome()?.0.iter().find_map(|decision| match decision {
        Decision::Start(id, ..) if *id == job => Some(Ended::Started),
        Decision::Deny(id, _) | Decision::Canceled(id) if *id == job => Some(Ended::Withdrawn),
        _ => None,
    })
}

/// The engine after a record, as a rerun has it.
pub(crate) type Watch<'a> = dyn FnMut(&Record, Option<&Engine>) -> bool + 'a;
