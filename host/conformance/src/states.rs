//! Checks of the state that one instance saves and the next restores.

use fluxgate_engine::{Policy as _, PolicyError, SavedState};

use crate::Subject;
use crate::behaviour::judge;
use crate::drive::{Successor, run, state_at};
use crate::report::Reporter;
use crate::world::{BEGIN, Numbers, deep, mixed};

/// Time of the swap in the mixed load, in seconds after its start.
const MIDDAY: f64 = 1200.0;

/// Number of waiting jobs when the size of the state is checked.
const DEEP: u64 = 10_000;

pub(crate) fn check(subject: &Subject<'_>, reporter: &mut Reporter) {
    if !subject.compiled.abilities().state {
        reporter.skip("state-handover", "it keeps no state");
        reporter.skip("state-garbage", "it keeps no state");
        return;
    }
    if let Some(state) = handover(subject, reporter) {
        garbage(subject, &state, reporter);
    }
}

/// One instance is its own successor, another hands over to a fresh one: both must make the same decisions. Both give
/// new keys at that time, so keys that age do not count against the policy.
fn handover(subject: &Subject<'_>, reporter: &mut Reporter) -> Option<SavedState> {
    let check = "state-handover";
    let world = mixed();
    let alone = subject.fresh(check, reporter)?;
    let alone = judge(check, run(&world, &alone, Successor::Itself(BEGIN + MIDDAY)), reporter)?;
    let (before, after) = (subject.fresh(check, reporter)?, subject.fresh(check, reporter)?);
    let successor = Successor::Other(BEGIN + MIDDAY, Box::new(after));
    let followed = judge(check, run(&world, &before, successor), reporter)?;
    if followed.state_taken != Some(true) {
        reporter.fail(check, "its successor, the same component with the same settings, refused the state");
    } else if alone.starts != followed.starts {
        let differs = alone.starts.iter().zip(&followed.starts).position(|(one, other)| one != other);
        let at = differs.unwrap_or(alone.starts.len().min(followed.starts.len()));
        let shown = |start: Option<&(f64, u64)>| match start {
            Some((at, id)) => format!("job {id} at {at}"),
            None => "nothing".to_owned(),
        };
        let reason = format!(
            "start {at} is {} without a hand-over, and {} after one",
            shown(alone.starts.get(at)),
            shown(followed.starts.get(at))
        );
        reporter.fail(check, reason);
    }
    let mut deep_one = subject.fresh(check, reporter)?;
    match state_at(&deep(DEEP), &mut deep_one, BEGIN + 60.0) {
        Ok(state) => {
            let size = state.data.len();
            reporter.pass(check, format!("{size} bytes with {DEEP} jobs waiting"));
            Some(state)
        }
        Err(error) => {
            reporter.breach(check, &error);
            None
        }
    }
}

/// States that no instance saved, derived from a saved one.
fn damaged(state: &SavedState) -> Vec<SavedState> {
    let mut n = Numbers::new(99);
    let len = state.data.len();
    let with = |data: Vec<u8>| SavedState { data, ..state.clone() };
    let mut all = vec![
        with(Vec::new()),
        with(vec![0]),
        with(vec![0xff; 64]),
        with(vec![0xff; 1 << 16]),
        with(vec![0; 1 << 16]),
        with((0..4096).map(|_| n.below(256) as u8).collect()),
        with(state.data.iter().copied().chain([0; 9]).collect()),
        SavedState { version: u32::MAX, ..state.clone() },
        SavedState { version: 0, ..state.clone() },
        SavedState { from: "somebody-else".to_owned(), ..state.clone() },
        SavedState { from: String::new(), ..state.clone() },
    ];
    all.extend(
        [1, 2, 4, 7, 8, len / 2]
            .iter()
            .filter(|cut| **cut <= len)
            .map(|cut| with(state.data[..len - cut].to_vec())),
    );
    for _ in 0..32 {
        let mut data = state.data.clone();
        // Lengths are at the start of a state.
        let among = if n.below(2) == 0 { 16 } else { 1 << 20 };
        let place = n.below(among) as usize;
        if len > 0 {
            data[place % len] ^= 1 << n.below(8);
        }
        all.push(with(data));
    }
    all
}

fn garbage(subject: &Subject<'_>, state: &SavedState, reporter: &mut Reporter) {
    let check = "state-garbage";
    let mut world = mixed();
    world.until = BEGIN + 120.0;
    let (mut refused, mut taken) = (0_u32, 0_u32);
    for damaged in damaged(state) {
        let Some(mut recorder) = subject.fresh(check, reporter) else { return };
        match recorder.restore(&damaged) {
            Ok(()) => taken += 1,
            Err(PolicyError::Refused { .. }) => refused += 1,
            Err(error) => return reporter.breach(check, &error),
        }
        // Whether it takes or refuses the state, it must work.
        if judge(check, run(&world, &recorder, Successor::None), reporter).is_none() {
            return;
        }
    }
    reporter.pass(check, format!("{refused} refused, {taken} taken"));
}
