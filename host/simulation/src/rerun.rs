//! The journal that a world leaves behind is run again: the same decisions, to the byte.
//!
//! Must never know what happened in the world.

use std::path::Path;
use std::sync::Arc;

use fluxgate_journal::reader::Item;
use fluxgate_journal::rerun::{RerunError, verify};
use fluxgate_journal::{CheckpointCause, Journal, Record};

use crate::components::{BROKEN, CompiledPolicies, RerunPolicies};
use crate::disk::SimulatedDisk;
use crate::plan::JOURNAL;

/// The outcome of a rerun.
#[derive(Debug, Default)]
pub struct Rerun {
    /// Situations that were reached, of [`SITUATIONS`](crate::tally::SITUATIONS).
    pub reached: Vec<&'static str>,
    /// The difference, if it made other decisions.
    pub broken: Option<String>,
}

/// Runs the journal on this disk again, with the policies of the world.
pub fn of(disk: &SimulatedDisk, compiled: &Arc<CompiledPolicies>) -> Rerun {
    let (_, damaged) = disk.harm();
    let Ok(journal) = Journal::on(Arc::new(disk.clone()), Path::new(JOURNAL)) else {
        // A disk that failed at each try has nothing.
        return Rerun::default();
    };
    let mut rerun = Rerun::default();
    match verify(&journal, &mut RerunPolicies(Arc::clone(compiled)), None, None) {
        Ok(done) => {
            rerun.reached.push("the journal was run again");
            let seen = [
                (!done.gaps.is_empty(), "the journal has a gap"),
                (!done.torn.is_empty(), "the journal has a torn end"),
                (done.checkpoints > 0, "the journal has rotated"),
            ];
            rerun.reached.extend(seen.iter().filter(|(is, _)| *is).map(|(_, what)| *what));
        }
        Err(RerunError::Nothing) => {}
        // A loss of power may leave zeros where a later record was kept: the reader says so, and reads no further there.
        Err(RerunError::Read(_)) if damaged => {
            rerun.broken = files_alone(&journal, disk, compiled);
            rerun.reached.push("the journal is damaged, and what can be read of it was run again");
        }
        Err(error)
            if differs_by_what_is_not_saved(
                &journal,
                |why| matches!(why, CheckpointCause::Gap(..)),
                &error,
            ) =>
        {
            rerun
                .reached
                .push("a rerun from the middle differs under a policy that keeps more than it saves");
        }
        Err(error) => rerun.broken = Some(format!("the journal: {error}")),
    }
    rerun
}

/// Runs each file of a damaged journal again, as far as it can be read; returns the first difference.
fn files_alone(journal: &Journal, disk: &SimulatedDisk, compiled: &Arc<CompiledPolicies>) -> Option<String> {
    journal.files().iter().find_map(|path| {
        let file = Journal::on(Arc::new(disk.clone()), path).ok()?;
        match verify(&file, &mut RerunPolicies(Arc::clone(compiled)), None, None) {
            Ok(_) | Err(RerunError::Read(_) | RerunError::Nothing) => None,
            // Such a file begins in the middle, with the states that policies saved.
            Err(error)
                if differs_by_what_is_not_saved(&file, |why| *why != CheckpointCause::Start, &error) =>
            {
                None
            }
            Err(error) => Some(format!("a file of the journal: {error}")),
        }
    })
}

/// Does a journal that is resumed from a checkpoint differ only by state that the checkpoint lacks? It has the states that policies
/// save: not the number of calls of the policy of the tests, and not the layout of a component's memory, which costs fuel.
fn differs_by_what_is_not_saved(
    journal: &Journal,
    resumes: impl Fn(&CheckpointCause) -> bool,
    error: &RerunError,
) -> bool {
    let mut resumed = Vec::new();
    for item in journal.items() {
        if let Item::Record(place) = item
            && let Record::Checkpoint(checkpoint) = place.record
            && resumes(&checkpoint.why)
        {
            resumed.extend(checkpoint.engine.policy.map(|policy| policy.name));
            resumed.extend(
                checkpoint.engine.own.into_iter().filter_map(|own| own.policy).map(|policy| policy.name),
            );
        }
    }
    let differs = matches!(error, RerunError::Differs { .. } | RerunError::Order { .. });
    let by_fuel = !resumed.is_empty() && error.to_string().contains("units of fuel");
    differs && (by_fuel || resumed.iter().any(|name| name == BROKEN))
}
