//! The plan of a seed: a machine, settings, jobs with the acts on them, and faults with their times.
//!
//! A plan is made before anything runs, so that a seed that fails can be run again with fewer jobs and fewer faults.
//! Must never know how any of it is carried out.

mod constraints;
mod flow;
mod parts;
mod reservations;
mod site;
mod storage;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::constraints::Described;
use crate::dice::Dice;
use crate::fault::Kind;
use crate::flow::{Asked, Pools};
use crate::storage::{Beside, Stores};

pub use constraints::SET;
pub use parts::{Parts, Profile};
pub use reservations::NAMES;
pub use site::{BANKS, GROUPS};

/// An act on a job after its submission.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Act {
    /// It is cancelled.
    Cancel,
    /// Its urgency becomes 0.
    Hold,
    /// Its urgency becomes this one, by a withdrawal and a new request.
    Urgency(u32),
    /// Its priority becomes this one, by `sched.prioritize`.
    Priority(u32),
    /// Its time limit grows or shrinks by this many seconds.
    Limit(f64),
}

/// A job to come.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPlan {
    /// Its number in the plan.
    pub number: u32,
    /// Seconds from the beginning.
    pub at: f64,
    /// The user who submits it.
    pub userid: u32,
    /// 1..=31.
    pub urgency: u32,
    /// Whole nodes, or nodes over which slots are spread.
    pub nodes: u32,
    /// Slots.
    pub slots: u32,
    /// Cores of a slot.
    pub cores: u32,
    /// Gpus of a slot.
    pub gpus: u32,
    /// Its nodes are for it alone.
    pub exclusive: bool,
    /// Time limit, seconds; 0 is none.
    pub limit: f64,
    /// Its run time without a limit, seconds.
    pub run: f64,
    /// Its queue, if there are queues.
    pub queue: Option<&'static str>,
    /// Seconds from its end until its resources begin to be released.
    pub cleanup: f64,
    /// The number of parts in which its resources are released, and seconds between two of them.
    pub parts: (u32, f64),
    /// It is inactive before its resources are released.
    pub housekeeping: bool,
    /// Its feasibility is asked for first.
    pub validated: bool,
    /// Acts on it, seconds after its submission.
    pub acts: Vec<(f64, Act)>,
    /// The reservation that it names.
    pub reservation: Option<&'static str>,
    /// Its bank.
    pub bank: Option<&'static str>,
    /// Seconds after which it may be ended.
    pub preemptible_after: Option<u32>,
    /// Storage and licences.
    pub beside: Beside,
    /// Power and bandwidth.
    pub flow: Asked,
    /// The nodes that it may have (RFC 31), with its number in [`Plan::conditions`]; 0 is all.
    pub condition: u32,
    /// The same, as its jobspec has it.
    pub constraint: Option<Value>,
}

/// A fault to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultPlan {
    /// Its number in the plan.
    pub number: u32,
    /// Seconds from the beginning.
    pub at: f64,
    /// Its kind.
    pub kind: Kind,
    /// Its length, seconds.
    pub length: f64,
    /// The seed of the other draws about it.
    pub seed: u64,
}

/// See the module text.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// See [`Profile`].
    pub profile: Profile,
    /// The parts of the world.
    pub parts: Parts,
    /// Nodes.
    pub nodes: u32,
    /// Cores of each.
    pub cores: u32,
    /// Gpus of each.
    pub gpus: u32,
    /// Storage and licences.
    pub stores: Stores,
    /// Power and bandwidth.
    pub pools: [Pools; 2],
    /// Properties of nodes.
    pub described: Described,
    /// The conditions on nodes that jobs have (RFC 31), from number 1 on.
    pub conditions: Vec<Value>,
    /// There are queues.
    pub queues: bool,
    /// Queues require properties of their own.
    pub queues_require: bool,
    /// The `[sched-fluxgate]` table.
    pub settings: Value,
    /// `job-info` is there.
    pub job_info: bool,
    /// The job manager is one of the founding revision of RFC 27.
    pub founding: bool,
    /// Where a start was forgotten and its R is in the KVS, the job manager refuses the next start of that job.
    pub stale_r_refused: bool,
    /// R of the inventory still has nodes that were lost.
    pub lost_in_inventory: bool,
    /// The slowest delay of a message, microseconds.
    pub delay: u64,
    /// Jobs, by time.
    pub jobs: Vec<JobPlan>,
    /// Faults, by time.
    pub faults: Vec<FaultPlan>,
    /// The time at which the last fault is over, seconds.
    pub calm: f64,
}

/// The parts of a plan that are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keep {
    /// Numbers of the jobs; all without it.
    pub jobs: Option<BTreeSet<u32>>,
    /// Numbers of the faults; all without it.
    pub faults: Option<BTreeSet<u32>>,
    /// Kinds of faults; all without it.
    pub kinds: Option<BTreeSet<Kind>>,
}

impl Keep {
    /// Are faults of this kind kept?
    fn has(&self, kind: Kind) -> bool {
        self.kinds.as_ref().is_none_or(|kept| kept.contains(&kind))
    }
}

/// The queues, where there are some.
pub const QUEUES: [&str; 2] = ["batch", "debug"];
/// Faults that end a scheduler, its broker, its job manager or its connection while it carries out a request.
const ENDS: [Kind; 8] =
    [Kind::Kill, Kind::Kill, Kind::Kill, Kind::Broker, Kind::Broker, Kind::Power, Kind::Close, Kind::Reload];
/// A fault of `ENDS`, at most `late` seconds after this time.
fn end_after(dice: &mut Dice, number: u32, at: f64, late: f64) -> FaultPlan {
    let (at, kind) = (at + dice.seconds(0.0, late), *dice.pick(&ENDS));
    FaultPlan { number, at, kind, length: dice.seconds(0.0, 2.0), seed: dice.number() }
}

/// The path of the journal.
pub const JOURNAL: &str = "/journal";
/// The path of the states of policies.
pub const STATES: &str = "/states";

impl Plan {
    /// The plan of a seed, with the parts of it that are to be kept.
    pub fn new(seed: u64, profile: Profile, keep: &Keep) -> Plan {
        let mut dice = Dice::new(seed, "plan");
        let parts = profile.parts(seed);
        let nodes = dice.range(1, 8) as u32;
        let cores = *dice.pick(&[1, 2, 4, 4, 8, 16]);
        let gpus = *dice.pick(&[0, 0, 0, 1, 2, 4]);
        let queues = dice.often(300);
        let founding = dice.often(150);
        let settings = settings(&mut dice, profile, founding, queues, nodes * cores);
        let span = *dice.pick(&[30.0, 120.0, 120.0, 600.0]);
        let (jobs_max, faults_max) = (*dice.pick(&[3, 12, 12, 40]), *dice.pick(&[0, 2, 6, 12, 30]));
        let (job_info, stale_r_refused) = (!founding && dice.often(850), dice.often(300));
        let (lost_in_inventory, delay) =
            (dice.often(500), *dice.pick(&[10, 1_000, 1_000, 50_000, 2_000_000]));
        let machine = Machine { nodes, cores, gpus, queues };
        let mut jobs: Vec<JobPlan> = (0..dice.range(1, jobs_max))
            .map(|number| job(&mut Dice::new(seed, &format!("job {number}")), number as u32, machine, span))
            .collect();
        let kinds = kinds(&mut dice, profile, keep);
        let mut faults: Vec<FaultPlan> = (0..dice.range(0, faults_max))
            .filter(|_| !kinds.is_empty())
            .map(|number| {
                let mut dice = Dice::new(seed, &format!("fault {number}"));
                FaultPlan {
                    number: number as u32,
                    at: dice.seconds(0.0, span),
                    kind: *dice.pick(&kinds),
                    length: dice.seconds(0.0, span / 4.0),
                    seed: dice.number(),
                }
            })
            .collect();
        jobs.retain(|job| keep.jobs.as_ref().is_none_or(|kept| kept.contains(&job.number)));
        let mut settings = settings;
        if parts.reservations {
            let mut dice = Dice::new(seed, "reservations");
            settings["reservations"] = reservations::settings(&mut dice);
            jobs.iter_mut().for_each(|job| reservations::of_job(seed, job));
            faults.extend(reservations::requests(&mut dice, seed, span, delay, keep));
        }
        let mut stores = Stores::default();
        if parts.storage {
            stores = storage::draw(seed, &mut settings, &mut jobs, nodes);
            faults.extend(storage::marks(seed, span, delay, keep));
        }
        let mut pools = Default::default();
        if parts.flow {
            // Racks are chassis, so that it can be said exactly what fits.
            let racks = parts.storage.then_some(stores.chassis);
            pools = flow::draw(seed, &mut jobs, (nodes, cores), racks);
        }
        if parts.groups {
            site::draw(seed, &mut settings, &mut jobs);
            faults.extend(site::groups(seed, span, keep));
        }
        let mut drawn = constraints::Drawn::default();
        if parts.constraints {
            drawn = constraints::draw(seed, &mut jobs, nodes, stores.chassis > 0);
            if stores.chassis > 0 {
                faults.extend(constraints::changes(seed, span, delay, keep));
            }
        }
        faults.retain(|fault| keep.faults.as_ref().is_none_or(|kept| kept.contains(&fault.number)));
        jobs.sort_by(|a, b| a.at.total_cmp(&b.at));
        faults.sort_by(|a, b| a.at.total_cmp(&b.at));
        let ends = faults.iter().map(|fault| fault.at + fault.length);
        let calm = ends.chain([span]).fold(0.0, f64::max) + 1.0;
        Plan {
            seed,
            profile,
            parts,
            nodes,
            cores,
            gpus,
            stores,
            pools,
            described: drawn.described,
            conditions: drawn.conditions,
            queues,
            queues_require: drawn.queues_require,
            settings,
            job_info,
            founding,
            stale_r_refused,
            lost_in_inventory,
            delay,
            jobs,
            faults,
            calm,
        }
    }
}

#[derive(Clone, Copy)]
struct Machine {
    nodes: u32,
    cores: u32,
    gpus: u32,
    queues: bool,
}

/// The kinds of faults that this seed has: often few, so that a single one can do its worst.
fn kinds(dice: &mut Dice, profile: Profile, keep: &Keep) -> Vec<Kind> {
    // Requests about reservations, marks, groups and properties are drawn beside, so that worlds without them stay as they are.
    let beside = |kind: &Kind| matches!(kind, Kind::Reserve | Kind::Mark | Kind::Group | Kind::Property);
    let there = |kind: &Kind| match profile {
        Profile::Instance => kind.is_of_instance(),
        Profile::PoliciesInstance => {
            kind.is_of_instance() || kind.is_about_policies() || *kind == Kind::Clock
        }
        _ => !beside(kind) && (profile.has_components() || !kind.is_about_policies()),
    };
    let all: Vec<Kind> = Kind::ALL.into_iter().filter(there).collect();
    let mut kinds = match dice.below(3) {
        0 => all,
        most => (0..most * 3).map(|_| *dice.pick(&all)).collect(),
    };
    if let Some(kept) = &keep.kinds {
        kinds = Kind::ALL.into_iter().filter(|kind| there(kind) && kept.contains(kind)).collect();
    }
    kinds
}

/// Components of the profile with policies that do not fail.
pub const GOOD: [&str; 6] = ["easy", "fcfs", "sjf", "conservative", "easy-plus-plus", "multifactor"];

fn settings(dice: &mut Dice, profile: Profile, founding: bool, queues: bool, wide: u32) -> Value {
    let mut table = json!({
        "policy": if profile.has_components() && dice.often(700) { *dice.pick(&GOOD) } else { "builtin-fcfs" },
        "watch-period": *dice.pick(&[2.0, 5.0, 10.0]),
        "audit-period": *dice.pick(&[10.0, 30.0, 60.0]),
        "annotate": dice.often(700),
        "estimates": *dice.pick(&[0.0, 0.0, 5.0, 60.0]),
        "placement": *dice.pick(&["first", "first", "low", "high", "pack", "spread"]),
        "journal-size": 1 << 20,
        "quarantine": *dice.pick(&[0.0, 5.0, 60.0]),
    });
    if dice.often(700) {
        table["journal"] = JOURNAL.into();
    }
    if dice.often(500) {
        table["policy-state"] = STATES.into();
    }
    if !founding && dice.often(250) {
        table["queue-depth"] = dice.range(1, 8).into();
    }
    if profile.has_components() && dice.often(200) {
        table["on-breach"] = "hold".into();
    }
    if queues && dice.often(500) {
        table["queues"] = json!({"batch": {"ceiling": dice.range(1, u64::from(wide))}});
    }
    if dice.often(100) {
        table["decisions-per-pass-max"] = dice.range(1, 3).into();
    }
    table
}

fn job(dice: &mut Dice, number: u32, machine: Machine, span: f64) -> JobPlan {
    let Machine { nodes, cores, gpus, queues } = machine;
    let whole = dice.often(200);
    let spread = !whole && dice.often(200);
    let on = if whole || spread { dice.range(1, u64::from(nodes)) as u32 } else { 0 };
    let wide = u64::from(nodes * cores);
    let mut of_slot = if dice.often(600) { 1 } else { dice.range(1, u64::from(cores)) as u32 };
    let mut slots = match dice.below(4) {
        0 => dice.range(1, wide) as u32,
        1 => 1,
        _ => dice.range(1, u64::from(cores)) as u32,
    };
    if dice.often(30) {
        // It can never run.
        slots = nodes * cores + 1;
    }
    if spread {
        (slots, of_slot) = (on * dice.range(1, 2) as u32, of_slot.min((cores / 2).max(1)));
    }
    let run = match dice.below(5) {
        0 => dice.seconds(0.0, 1.0),
        1 => dice.seconds(1.0, span),
        _ => dice.seconds(1.0, 30.0),
    };
    let limit = match dice.below(5) {
        0 => 0.0,
        1 => run.max(1.0),
        2 => dice.seconds(1.0, 40.0),
        _ => run.ceil() + 10.0,
    };
    let acts = (0..dice.range(0, 3)).filter(|_| dice.often(350)).count();
    let acts = (0..acts).map(|_| act(dice)).collect();
    JobPlan {
        number,
        at: if dice.often(300) {
            (dice.seconds(0.0, span) / 10.0).floor() * 10.0
        } else {
            dice.seconds(0.0, span)
        },
        userid: dice.range(1001, 1004) as u32,
        urgency: if dice.often(600) { 16 } else { dice.range(1, 31) as u32 },
        nodes: on,
        slots: if whole { 0 } else { slots },
        cores: if whole { 1 } else { of_slot },
        gpus: if gpus > 0 && !whole && dice.often(300) { 1 } else { 0 },
        exclusive: whole,
        limit,
        run,
        queue: queues.then(|| *dice.pick(&QUEUES)),
        cleanup: if dice.often(700) { 0.0 } else { dice.seconds(0.0, 10.0) },
        parts: (dice.range(1, 3) as u32, dice.seconds(0.0, 5.0)),
        housekeeping: dice.often(300),
        validated: dice.often(300),
        acts,
        reservation: None,
        bank: None,
        preemptible_after: None,
        beside: Beside::default(),
        flow: Asked::default(),
        condition: 0,
        constraint: None,
    }
}

fn act(dice: &mut Dice) -> (f64, Act) {
    let when = if dice.often(400) { dice.seconds(0.0, 0.2) } else { dice.seconds(0.0, 60.0) };
    let act = match dice.below(6) {
        0 | 1 => Act::Cancel,
        2 => Act::Hold,
        3 => Act::Urgency(dice.range(1, 31) as u32),
        4 => Act::Priority(dice.range(1, u64::from(u32::MAX)) as u32),
        _ => Act::Limit(dice.seconds(0.0, 60.0) - 20.0),
    };
    (when, act)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_of_a_plan_is_otherwise_the_same_plan() {
        let whole = Plan::new(11, Profile::Policies, &Keep::default());
        for (seed, plan) in (0..40).map(|seed| (seed, Plan::new(seed, Profile::Builtin, &Keep::default()))) {
            let kept: BTreeSet<u32> = plan.jobs.iter().map(|job| job.number).take(2).collect();
            let keep = Keep { jobs: Some(kept.clone()), faults: Some(BTreeSet::new()), kinds: None };
            let less = Plan::new(seed, Profile::Builtin, &keep);
            assert_eq!(less.jobs.len(), kept.len());
            assert!(less.faults.is_empty() && less.jobs.iter().all(|job| plan.jobs.contains(job)));
            assert_eq!((less.nodes, &less.settings), (plan.nodes, &plan.settings));
        }
        assert_eq!(format!("{whole:?}"), format!("{:?}", Plan::new(11, Profile::Policies, &Keep::default())));
    }
}
