//! The state at a time of the past, by a rerun from the checkpoint before it.
//!
//! Between two records nothing changes, so a journal tells the state at every time in it, apart from those at which no scheduler wrote.
//!
//! Must never know files.

use fluxgate_engine::Engine;

use crate::reader::{Item, Journal};
use crate::record::{CheckpointCause, Record};
use crate::rerun::{Policies, RerunError, follow_to};

/// The reason for which there is no state at a time. Times are seconds since the epoch.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// The journal begins after the time, or ends before it.
    #[error("the journal is from {from} until {until}")]
    Outside {
        /// The time of its first record.
        from: f64,
        /// The time of its last one.
        until: f64,
    },
    /// Records are missing at the time.
    #[error("{lost} records between {from} and {until} are missing: {why}")]
    Gap {
        /// The time of the last record before.
        from: f64,
        /// The time of the checkpoint after it.
        until: f64,
        /// Number of missing records.
        lost: u64,
        /// The reason.
        why: String,
    },
    /// No scheduler wrote at the time.
    #[error("no scheduler wrote between {from} and {until}")]
    Away {
        /// The time of the last record before.
        from: f64,
        /// The start of the next scheduler.
        until: f64,
    },
    /// The journal cannot be read, or not be run again with these policies.
    #[error(transparent)]
    Rerun(#[from] RerunError),
}

/// The engine as it was at this time, in seconds since the epoch, after all records of that time.
///
/// # Errors
/// [`PastError`] if the journal has no state at this time, or cannot be read or run again.
pub fn at(journal: &Journal, policies: &mut dyn Policies, time: f64) -> Result<Engine, PastError> {
    let reached = match follow_to(journal, policies, Some(time), Some(time), &mut |_, _| true) {
        Err(RerunError::Nothing) => return Err(outside(journal)?),
        reached => reached?,
    };
    let last = reached.done.span.map_or(time, |(_, last)| last);
    if last < time {
        match reached.next.as_ref() {
            // The last file may go on while it is read; the state after its last record is not known.
            None => return Err(outside(journal)?),
            Some(Record::Checkpoint(base)) => match &base.why {
                CheckpointCause::Start => return Err(PastError::Away { from: last, until: base.time }),
                CheckpointCause::Gap(lost, why) => {
                    let (lost, why) = (*lost, why.clone());
                    return Err(PastError::Gap { from: last, until: base.time, lost, why });
                }
                CheckpointCause::Rotation => {}
            },
            Some(_) => {}
        }
    }
    match reached.engine {
        Some(engine) => Ok(engine),
        None => Err(outside(journal)?),
    }
}

/// The journal from its first until its last record.
fn outside(journal: &Journal) -> Result<PastError, RerunError> {
    let first = time_in(journal, 0, false)?;
    let mut last = None;
    for file in (0..journal.files().len()).rev() {
        last = time_in(journal, file, true)?;
        if last.is_some() {
            break;
        }
    }
    match first.zip(last) {
        Some((from, until)) => Ok(PastError::Outside { from, until }),
        None => Err(RerunError::Nothing),
    }
}

/// The time of the first record from this file on, or of the last one.
fn time_in(journal: &Journal, file: usize, last: bool) -> Result<Option<f64>, RerunError> {
    let mut found = None;
    for item in journal.items_from(file) {
        match item {
            Item::Record(place) => found = place.record.time().or(found),
            Item::Torn(..) => {}
            Item::Damaged(error) => return Err(error.into()),
        }
        if found.is_some() && !last {
            break;
        }
    }
    Ok(found)
}
