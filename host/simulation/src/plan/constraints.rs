//! The additions of a profile with constraints, from streams of its own: properties of nodes, conditions of jobs, and the times at
//! which services set and remove properties.
//!
//! Must never know what a service sets.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{FaultPlan, JobPlan, Keep, QUEUES, end_after};
use crate::constraints::{Described, put};
use crate::dice::Dice;
use crate::fault::Kind;

/// Numbers of changes of properties, and of the faults after them, begin here.
const CHANGES: u32 = 6000;
const AFTER: u32 = 7000;

/// Properties that a machine is described with.
const NAMES: [&str; 3] = ["p0", "p1", "p2"];
/// Properties that services set and remove; the last is in no description.
pub const SET: [&str; 4] = ["p0", "p1", "p2", "set"];

/// The properties and conditions of a plan.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub(super) described: Described,
    pub(super) conditions: Vec<Value>,
    pub(super) queues_require: bool,
}

/// The properties of a machine of this many nodes, with the graph of a site or without, and the conditions of jobs.
pub(super) fn draw(seed: u64, jobs: &mut [JobPlan], nodes: u32, has_graph: bool) -> Drawn {
    let mut dice = Dice::new(seed, "constraints");
    let mut drawn = Drawn::default();
    let mut describe = |name: &str, often: u64, dice: &mut Dice| {
        // In R, in the graph, or as it is drawn for each node.
        let way = if has_graph { dice.below(3) } else { 0 };
        for rank in 0..nodes {
            let (in_r, has) = (way == 0 || way == 2 && dice.often(500), dice.often(often));
            let place = if in_r { &mut drawn.described.in_r } else { &mut drawn.described.in_graph };
            if has {
                put(place, name, rank, true);
            }
        }
    };
    for name in NAMES {
        describe(name, 650, &mut dice);
    }
    drawn.queues_require = dice.often(500);
    if drawn.queues_require {
        describe(QUEUES[0], 800, &mut dice);
        describe(QUEUES[1], 500, &mut dice);
    }
    let shared: Vec<Value> = (0..dice.range(1, 5)).map(|_| condition(&mut dice, nodes, 2)).collect();
    for job in jobs {
        let mut dice = Dice::new(seed, &format!("condition of job {}", job.number));
        let mut own = if dice.often(700) { Some(dice.pick(&shared).clone()) } else { None };
        if dice.often(100) {
            own = Some(condition(&mut dice, nodes, 2));
        }
        if let Some(queue) = job.queue.filter(|_| drawn.queues_require) {
            // As the job manager adds it when a job is submitted.
            let required = json!({"properties": [queue]});
            own = Some(own.map_or_else(|| required.clone(), |own| json!({"and": [own, required]})));
        }
        let Some(own) = own else { continue };
        let known = drawn.conditions.iter().position(|condition| *condition == own);
        let place = known.unwrap_or_else(|| {
            drawn.conditions.push(own.clone());
            drawn.conditions.len() - 1
        });
        (job.condition, job.constraint) = (place as u32 + 1, Some(own));
    }
    drawn
}

/// A condition of at most this many levels below the first.
fn condition(dice: &mut Dice, nodes: u32, levels: u32) -> Value {
    let list = |dice: &mut Dice| -> Vec<Value> {
        (0..dice.range(1, 3)).map(|_| condition(dice, nodes, levels - 1)).collect()
    };
    match dice.below(if levels > 0 { 12 } else { 8 }) {
        0..=4 => {
            let names: BTreeSet<&str> = (0..dice.range(1, 2)).map(|_| *dice.pick(&SET)).collect();
            let mut text = |name: &str| if dice.often(300) { format!("^{name}") } else { name.to_owned() };
            json!({"properties": names.into_iter().map(&mut text).collect::<Vec<_>>()})
        }
        5 => {
            let ranks: BTreeSet<u64> =
                (0..dice.range(1, 6)).map(|_| dice.below(u64::from(nodes) + 1)).collect();
            let hosts: Vec<String> = ranks.iter().map(|rank| format!("node{rank}")).collect();
            let first = dice.below(u64::from(nodes));
            match dice.often(500) {
                true => json!({ "hostlist": hosts }),
                false => json!({"hostlist": [format!("node[{first}-{nodes}]")]}),
            }
        }
        6 => {
            let first = dice.below(u64::from(nodes));
            json!({"ranks": [format!("{first}-{}", first + dice.range(1, 8))]})
        }
        7 => dice.pick(&[json!({}), json!({"and": []}), json!({"or": []}), json!({"not": []})]).clone(),
        8 => json!({ "not": list(dice) }),
        9 => json!({ "and": list(dice) }),
        _ => json!({ "or": list(dice) }),
    }
}

/// Changes of properties by services, with times; some are followed by an end of the scheduler, before or after they are kept.
pub(super) fn changes(seed: u64, span: f64, delay: u64, keep: &Keep) -> Vec<FaultPlan> {
    let mut dice = Dice::new(seed, "properties");
    let count = dice.range(0, *dice.clone().pick(&[0, 3, 10])) as u32;
    let mut faults = Vec::new();
    for number in 0..count {
        let mut dice = Dice::new(seed, &format!("property {number}"));
        let (at, length, seed) = (dice.seconds(0.0, span), dice.seconds(0.0, span / 2.0), dice.number());
        faults.push(FaultPlan { number: CHANGES + number, at, kind: Kind::Property, length, seed });
        if dice.often(400) {
            let late = 2.0 * delay as f64 / 1e6 + *dice.pick(&[0.1, 2.0, 10.0]);
            faults.push(end_after(&mut dice, AFTER + number, at, late));
        }
    }
    faults.retain(|fault| keep.has(fault.kind));
    faults
}
