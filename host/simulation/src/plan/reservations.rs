//! The additions of a profile with reservations, from streams of its own: attributes of jobs about reservations, the times at
//! which operators ask something about them, and faults shortly after.
//!
//! Must never know what is asked.

use serde_json::{Value, json};

use super::{FaultPlan, JobPlan, Keep, end_after};
use crate::dice::Dice;
use crate::fault::Kind;

/// The names of reservations: few, so that they meet again.
pub const NAMES: [&str; 4] = ["w0", "w1", "w2", "w3"];

/// Numbers of requests, and of the faults after them, begin here.
const REQUESTS: u32 = 1000;
const AFTER: u32 = 2000;

pub(super) fn settings(dice: &mut Dice) -> Value {
    let mut apart = dice.clone();
    let mut further = Dice::new(dice.clone().number(), "queues");
    json!({
        "margin": *dice.pick(&[0.0, 0.0, 2.0, 10.0]),
        "lost": *dice.pick(&["go-on", "hold"]),
        // Drawn apart, so that the other draws of a seed stay the same.
        "wait-for-nodes": *apart.pick(&[0.0, 5.0, 30.0]),
        "start-queues": further.often(600),
    })
}

/// Draws the attributes of a job about reservations.
pub(super) fn of_job(seed: u64, job: &mut JobPlan) {
    let mut dice = Dice::new(seed, &format!("reservation of job {}", job.number));
    if dice.often(350) {
        job.reservation = Some(*dice.pick(&NAMES));
        // A job that is validated first is told that there is no such reservation yet.
        job.validated &= dice.often(300);
    }
    if dice.often(250) {
        job.preemptible_after = Some(dice.below(20) as u32);
    }
    if dice.often(500) && job.limit == 0.0 {
        // No job without a limit fits before a reservation.
        job.limit = job.run.ceil() + 5.0;
    }
}

/// Requests of operators, with times; some are followed by an end of the scheduler, at any step of what they cause.
pub(super) fn requests(dice: &mut Dice, seed: u64, span: f64, delay: u64, keep: &Keep) -> Vec<FaultPlan> {
    let count = dice.range(1, *dice.clone().pick(&[4, 12, 24])) as u32;
    let mut faults = Vec::new();
    for number in 0..count {
        let mut dice = Dice::new(seed, &format!("request {number}"));
        let (at, seed) = (dice.seconds(0.0, span), dice.number());
        faults.push(FaultPlan { number: REQUESTS + number, at, kind: Kind::Reserve, length: 0.0, seed });
        if dice.often(350) {
            let late = 2.0 * delay as f64 / 1e6 + 0.05;
            faults.push(end_after(&mut dice, AFTER + number, at, late));
        }
    }
    faults.retain(|fault| keep.has(fault.kind));
    faults
}
