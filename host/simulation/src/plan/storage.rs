//! What a profile with storage has beside the others, from streams of its own: the vertices, and what jobs ask of them.
//!
//! Must never know how a graph is written.

use serde_json::{Value, json};

use super::JobPlan;
use crate::dice::Dice;
use crate::storage::{SSD, Stores};

/// Storage of a machine of so many nodes, and the jobs that ask for some.
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
