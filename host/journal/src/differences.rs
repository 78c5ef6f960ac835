//! The difference of two outcomes or two checkpoints as text. Must never decide whether they differ.

use crate::outcome::{Decision, Outcome};

/// Most decisions that a difference lists of each side.
const LISTED_MAX: usize = 5;

/// The first difference of two outcomes.
pub(crate) fn of_outcomes(was: &Outcome, is: &Outcome) -> String {
    let same = was.0.iter().zip(&is.0).take_while(|(a, b)| a == b).count();
    let words = |all: &[Decision]| -> String {
        let rest = &all[same..];
        let mut words: Vec<String> = rest.iter().take(LISTED_MAX).map(ToString::to_string).collect();
        if rest.len() > LISTED_MAX {
            words.push(format!("and {} more", rest.len() - LISTED_MAX));
        }
        if words.is_empty() { "nothing more".to_owned() } else { words.join(", ") }
    };
    if was.0 == is.0 {
        return match was.2 == is.2 {
            true => "the same decisions, with other annotations or another R".to_owned(),
            false => format!("the same decisions, with {} annotations then and {} now", was.2, is.2),
        };
    }
    format!("after {same} equal decisions, then: {}; now: {}", words(&was.0), words(&is.0))
}

/// The first difference of two checkpoints.
pub(crate) fn of_checkpoints(
    mine: &fluxgate_engine::Checkpoint,
    theirs: &fluxgate_engine::Checkpoint,
) -> &'static str {
    let parts = [
        (
            mine.up != theirs.up || mine.removed != theirs.removed || mine.machine != theirs.machine,
            "the machine",
        ),
        (mine.config != theirs.config, "the settings"),
        (mine.running != theirs.running, "the jobs that hold resources"),
        (mine.pending != theirs.pending, "the jobs that wait"),
        (mine.reservations != theirs.reservations, "the reservations"),
        (mine.queues != theirs.queues, "the queues"),
        (mine.policy != theirs.policy, "the policy's state"),
        (mine.own != theirs.own, "the state of the policies that queues have of their own"),
    ];
    parts.iter().find(|(differs, _)| *differs).map_or("inner numbers", |(_, what)| what)
}
