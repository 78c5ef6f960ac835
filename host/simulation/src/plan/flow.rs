//! The additions of a profile with flow, from streams of its own: the pools, and the requests of jobs for them.
//!
//! The pools of all kinds are over the same racks, or over all of them, so that the book can say exactly what fits. Must never
//! know how pools are written.

use std::collections::BTreeSet;

use super::JobPlan;
use crate::dice::Dice;
use crate::flow::{Amounts, Pool, Pools};

/// The least amounts of each kind: capacities and amounts are multiples of them.
const STEPS: Amounts = [50, 100_000_000];

/// Draws the pools of a machine of this many nodes and cores of each, over this many racks in order or over drawn ones, and the
/// requests of jobs for them.
pub(super) fn draw(
    seed: u64,
    jobs: &mut [JobPlan],
    (nodes, cores): (u32, u32),
    racks: Option<u32>,
) -> [Pools; 2] {
    let mut dice = Dice::new(seed, "flow");
    let drawn = dice.range(1, u64::from(nodes.min(3))) as u32;
    let in_order = dice.often(500) || racks.is_some();
    let count = racks.unwrap_or(drawn) as usize;
    let mut racks = vec![BTreeSet::new(); count];
    for rank in 0..nodes {
        let rack = match in_order {
            true => rank as usize * count / nodes as usize,
            false => rank as usize % count,
        };
        racks[rack].insert(rank);
    }
    let units = [*dice.pick(&["W", "W", "kW"]), "GB/s"];
    let power = power(&mut dice, &racks, units[0]);
    let bandwidth = match dice.often(400) {
        true => bandwidth(&mut dice, &racks, units[1]),
        false => Pools::default(),
    };
    let wide = !bandwidth.pools.is_empty();
    for job in jobs {
        of_job(&mut Dice::new(seed, &format!("flow of job {}", job.number)), job, nodes, cores, wide);
    }
    [power, bandwidth]
}

/// A capacity for this many nodes: for some of them it is often too small.
fn size(dice: &mut Dice, kind: usize, unit: &str, nodes: usize) -> u64 {
    let nodes = nodes.max(1) as u64;
    let steps = dice.range(5 * nodes, 20 * nodes);
    // A description has whole numbers of its unit.
    let whole = if matches!(unit, "kW" | "GB/s") { 20 / (1 + kind as u64) } else { 1 };
    let size = steps.div_ceil(whole) * whole * STEPS[kind];
    // One unit less than jobs take together.
    if whole == 1 && dice.often(300) { size - 1 } else { size }
}

/// Those of these nodes that are attached.
fn attached(dice: &mut Dice, nodes: &BTreeSet<u32>) -> BTreeSet<u32> {
    let some = dice.often(150);
    nodes.iter().copied().filter(|_| !some || dice.often(700)).collect()
}

/// Racks below a row, where one of them may be a source itself, and nodes with pools of their own.
fn power(dice: &mut Dice, racks: &[BTreeSet<u32>], unit: &'static str) -> Pools {
    let all = racks.iter().map(BTreeSet::len).sum();
    let mut pools = vec![Pool { size: size(dice, 0, unit, all), ..Pool::default() }];
    let row = dice.often(800);
    if !row {
        pools.clear();
    }
    for rack in racks {
        let (from, each) = ((row && dice.often(800)).then_some(0), dice.often(300));
        pools.push(Pool {
            size: size(dice, 0, unit, rack.len()),
            from,
            nodes: attached(dice, rack),
            each: each.then(|| size(dice, 0, unit, 1)),
            apart: dice.often(500),
        });
    }
    Pools { unit, pools }
}

/// One pool for the whole machine, or switches below it.
fn bandwidth(dice: &mut Dice, racks: &[BTreeSet<u32>], unit: &'static str) -> Pools {
    let all: BTreeSet<u32> = racks.iter().flatten().copied().collect();
    let mut pools = vec![Pool { size: size(dice, 1, unit, all.len()), ..Pool::default() }];
    if dice.often(500) {
        pools[0].nodes = attached(dice, &all);
        return Pools { unit, pools };
    }
    for rack in racks {
        pools.push(Pool {
            size: size(dice, 1, unit, rack.len()),
            from: Some(0),
            nodes: attached(dice, rack),
            ..Pool::default()
        });
    }
    Pools { unit, pools }
}

/// Draws the request of a job. Most jobs get other shapes than in other profiles: whole nodes, or slots over nodes.
fn of_job(dice: &mut Dice, job: &mut JobPlan, nodes: u32, cores: u32, wide: bool) {
    if dice.often(250) {
        return;
    }
    match dice.below(3) {
        // Storage is beside whole nodes.
        _ if job.beside.storage > 0 => {}
        0 => {
            (job.exclusive, job.slots, job.cores, job.gpus) = (true, 0, 1, 0);
            job.nodes = dice.range(1, u64::from(nodes)) as u32;
        }
        1 => {
            let each = dice.range(1, u64::from(cores.min(3))) as u32;
            (job.exclusive, job.gpus) = (false, 0);
            job.nodes = dice.range(1, u64::from(nodes)) as u32;
            (job.slots, job.cores) = (job.nodes * each, dice.range(1, u64::from(cores / each)) as u32);
        }
        _ => {}
    }
    if dice.often(250) {
        // Between two parts the scheduler may end; both sides are compared again only when nothing is in doubt any more.
        let between = if dice.often(300) { dice.seconds(300.0, 500.0) } else { dice.seconds(5.0, 40.0) };
        job.parts = (dice.range(2, 3) as u32, between);
    }
    // A kind that the machine does not have is asked for now and then: such a job never runs.
    let second = if wide { dice.often(400) } else { dice.often(20) };
    let first = !second || dice.often(700);
    for (kind, step) in STEPS.into_iter().enumerate() {
        if !(if kind == 0 { first } else { second }) {
            continue;
        }
        let (of_node, of_slot) = (*dice.pick(&[1, 5, 5, 10, 15]), *dice.pick(&[1, 1, 2, 5]));
        match (job.nodes, dice.below(3)) {
            (0, _) | (_, 0) => job.flow.slot[kind] = of_slot * step,
            (_, 1) => job.flow.node[kind] = of_node * step,
            _ => (job.flow.node[kind], job.flow.slot[kind]) = (of_node * step, of_slot * step),
        }
    }
}
