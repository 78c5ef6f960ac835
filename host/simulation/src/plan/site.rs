//! The additions of a profile with everything to storage, flow and reservations, from streams of its own: banks of jobs, and
//! changes of groups of users.
//!
//! Must never know what reservations name.

use serde_json::Value;

use super::{FaultPlan, JobPlan, Keep};
use crate::dice::Dice;
use crate::fault::Kind;

/// The groups of users.
pub const GROUPS: [&str; 2] = ["g0", "g1"];
/// The banks of jobs.
pub const BANKS: [&str; 2] = ["b0", "b1"];

/// Numbers of changes of groups begin here.
const CHANGES: u32 = 5000;

/// Draws the banks of jobs, and whether they are validated.
pub(super) fn draw(seed: u64, settings: &mut Value, jobs: &mut [JobPlan]) {
    let mut dice = Dice::new(seed, "site");
    settings["reservations"]["banks"] = dice.often(700).into();
    for job in jobs {
        let mut dice = Dice::new(seed, &format!("bank of job {}", job.number));
        job.bank = dice.often(600).then(|| *dice.pick(&BANKS));
    }
}

/// Users join and leave groups, and for a while groups cannot be looked up.
pub(super) fn groups(seed: u64, span: f64, keep: &Keep) -> Vec<FaultPlan> {
    let mut dice = Dice::new(seed, "groups");
    let count = dice.range(0, *dice.clone().pick(&[0, 3, 8])) as u32;
    let change = |number| {
        let mut dice = Dice::new(seed, &format!("group {number}"));
        let (at, length, seed) = (dice.seconds(0.0, span), dice.seconds(0.0, span / 4.0), dice.number());
        FaultPlan { number: CHANGES + number, at, kind: Kind::Group, length, seed }
    };
    (0..count).filter(|_| keep.has(Kind::Group)).map(change).collect()
}
