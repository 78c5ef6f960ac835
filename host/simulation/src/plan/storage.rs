//! The additions of a profile with storage, from streams of its own: the vertices, marks on them, and the requests of jobs.
//!
//! Must never know how a graph is written.

use serde_json::{Value, json};

use super::{FaultPlan, JobPlan, Keep, end_after};
use crate::dice::Dice;
use crate::fault::Kind;
use crate::storage::{SSD, Stores};

/// Numbers of marks, and of the faults after them, begin here.
const MARKS: u32 = 3000;
const AFTER: u32 = 4000;

/// Marks of services, with times; some are followed by an end of the scheduler, before or after they are kept.
pub(super) fn marks(seed: u64, span: f64, delay: u64, keep: &Keep) -> Vec<FaultPlan> {
    let mut dice = Dice::new(seed, "marks");
    let count = dice.range(0, *dice.clone().pick(&[0, 3, 10])) as u32;
    let mut faults = Vec::new();
    for number in 0..count {
        let mut dice = Dice::new(seed, &format!("mark {number}"));
        let (at, length, seed) = (dice.seconds(0.0, span), dice.seconds(0.0, span / 2.0), dice.number());
        faults.push(FaultPlan { number: MARKS + number, at, kind: Kind::Mark, length, seed });
        if dice.often(400) {
            let late = 2.0 * delay as f64 / 1e6 + *dice.pick(&[0.1, 2.0, 10.0]);
            faults.push(end_after(&mut dice, AFTER + number, at, late));
        }
        if dice.often(200) {
            let (at, length) = (at + dice.seconds(0.0, 2.0), 0.0);
            let kind = *dice.pick(&[Kind::NoCommit, Kind::SlowCommit, Kind::NoLookup]);
            faults.push(FaultPlan { number: AFTER + 500 + number, at, kind, length, seed: dice.number() });
        }
    }
    faults.retain(|fault| keep.has(fault.kind));
    faults
}

/// Storage of a machine of this many nodes, and the jobs that ask for some.
pub(super) fn draw(seed: u64, settings: &mut Value, jobs: &mut [JobPlan], nodes: u32) -> Stores {
    let mut dice = Dice::new(seed, "storage");
    let stores = Stores {
        chassis: dice.range(1, u64::from(nodes.min(3))) as u32,
        ssds: dice.range(1, 4) as u32,
        licences: dice.range(0, 4) as u32,
        by_unit: dice.often(400),
    };
    if stores.by_unit {
        settings["resources"] = json!({"by-unit": ["ssd"]});
    }
    settings["record-format"] = (*dice.pick(&["rv1_shorthand", "rv1_shorthand", "rv1"])).into();
    for job in jobs {
        let mut dice = Dice::new(seed, &format!("storage of job {}", job.number));
        if dice.often(600) {
            // Storage is asked for beside whole nodes.
            (job.exclusive, job.slots, job.cores, job.gpus) = (true, 0, 1, 0);
            job.nodes = dice.range(1, u64::from(nodes.min(3))) as u32;
            job.beside.storage = *dice.pick(&[1, 30, 50, SSD, SSD + 1, 3 * SSD]);
        }
        if stores.licences > 0 && dice.often(300) {
            job.beside.licences = dice.range(1, u64::from(stores.licences));
        }
    }
    stores
}
