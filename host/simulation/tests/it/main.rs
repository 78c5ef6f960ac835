//! Some seeds in the suite, and the test that a seed determines its world.

use std::sync::{Arc, OnceLock};

use fluxgate_simulation::campaign::{command, profile_of, run};
use fluxgate_simulation::components::CompiledPolicies;
use fluxgate_simulation::plan::{GOOD, Keep, Profile};
use fluxgate_simulation::tally::Tally;
use fluxgate_testing::component;

/// The policies of all tests; without components where they were not built.
fn compiled() -> (Arc<CompiledPolicies>, bool) {
    static COMPILED: OnceLock<(Arc<CompiledPolicies>, bool)> = OnceLock::new();
    let (compiled, full) = COMPILED.get_or_init(|| {
        let there = GOOD.into_iter().chain(["broken"]).all(|name| component(name).is_some());
        let compiled = if there {
            CompiledPolicies::open(&fluxgate_testing::policies())
        } else {
            CompiledPolicies::empty()
        };
        (Arc::new(compiled.unwrap()), there)
    });
    (Arc::clone(compiled), *full)
}

fn all_hold(seeds: impl Iterator<Item = u64>, profile: Profile) {
    let (compiled, _) = compiled();
    for seed in seeds {
        let outcome = run(seed, profile, &Keep::default(), &compiled, false);
        if let Some((time, what)) = outcome.broken {
            panic!("at {time} s: {what}\n{} --trace", command(seed, profile, &Keep::default()));
        }
    }
}

#[test]
fn no_invariant_breaks_without_components() {
    all_hold((0..200).filter(|seed| profile_of(*seed) == Profile::Builtin), Profile::Builtin);
}

#[test]
fn no_invariant_breaks_with_components() {
    if compiled().1 {
        all_hold((0..120).filter(|seed| profile_of(*seed) == Profile::Policies), Profile::Policies);
    }
}

/// FEAT-26, FEAT-6: an answered reservation is there after any end of the scheduler, and every start keeps to it.
#[test]
fn feat_26_reservations_outlive_any_end_of_the_scheduler() {
    all_hold(0..200, Profile::Reservations);
    if compiled().1 {
        all_hold(0..60, Profile::PoliciesReservations);
    }
}

/// No storage and no licence is held twice, and each is beside its node: by whole vertices and by unit.
#[test]
fn storage_is_held_once_whatever_ends() {
    all_hold(0..200, Profile::Storage);
}

/// No pool gives more flow than it has, to whole nodes or to slots, and both sides agree on what is held.
#[test]
fn flow_is_held_once_whatever_ends() {
    all_hold(0..200, Profile::Flow);
}

/// FEAT-26, FEAT-11: storage, flow and reservations together, with members by group and bank, and amounts of pools that are kept.
#[test]
fn feat_26_a_site_with_everything_holds_whatever_ends() {
    all_hold(0..100, Profile::Site);
    if compiled().1 {
        all_hold(0..40, Profile::PoliciesSite);
    }
}

/// SITE-77, SITE-78: jobs start on nodes that meet their conditions (RFC 31), also while services set and remove properties; changes of
/// properties outlive any end of the scheduler.
#[test]
fn site_77_jobs_are_on_nodes_that_meet_their_conditions_whatever_ends() {
    all_hold(0..100, Profile::Constraints);
    if compiled().1 {
        all_hold(0..30, Profile::PoliciesConstraints);
    }
}

/// The embedded instance in the place of the model: its answers are in its records, whatever ends and whatever cannot be written, and no
/// resource is held twice.
#[test]
fn an_embedded_instance_says_what_is_written_whatever_ends() {
    all_hold(0..200, Profile::Instance);
    if compiled().1 {
        all_hold(0..40, Profile::PoliciesInstance);
    }
}

#[test]
fn seeds_reach_what_the_embedded_instance_is_simulated_for() {
    let situations = [
        "a guest is refused",
        "a job is denied",
        "a job is found infeasible",
        "the instance cannot write, and holds",
        "the instance is killed while it holds",
        "quiet, and both sides were compared",
    ];
    reach(0..300, Profile::Instance, &situations);
    if compiled().1 {
        let situations = ["a control request is refused", "a policy is swapped", "the journal was run again"];
        reach(200..240, Profile::PoliciesInstance, &situations);
    }
}

/// These situations are reached by seeds of a profile.
fn reach(seeds: impl Iterator<Item = u64>, profile: Profile, situations: &[&str]) {
    let (compiled, _) = compiled();
    let mut tally = Tally::default();
    seeds.for_each(|seed| tally.add(&run(seed, profile, &Keep::default(), &compiled, false).tally));
    for what in situations {
        assert!(tally.reached.contains_key(what), "{what}");
    }
}

/// FEAT-29: queues are started and stopped with reservations.
#[test]
fn seeds_reach_what_reservations_are_simulated_for() {
    let situations = [
        "a queue is started with a reservation",
        "a queue is stopped after a reservation",
        "a member of a reservation starts",
        "reservations are those that were kept",
    ];
    reach(0..40, Profile::Reservations, &situations);
}

#[test]
fn seeds_reach_what_a_site_is_simulated_for() {
    let situations = [
        "a job starts with units of a pool of a reservation",
        "a job with flow starts",
        "a job with storage starts",
        "a member of a reservation starts",
        "a reservation has the users of a group",
        "groups cannot be looked up",
    ];
    reach(200..240, Profile::Site, &situations);
}

#[test]
fn seeds_reach_what_constraints_are_simulated_for() {
    let situations = [
        "a job with a condition starts",
        "a job waits for a property",
        "a property is removed",
        "a property is set",
        "properties are read by the next scheduler",
    ];
    reach(200..260, Profile::Constraints, &situations);
}

#[test]
fn seeds_reach_what_flow_is_simulated_for() {
    let situations = [
        "a job with flow starts",
        "a job waits for flow",
        "flow of a part of the nodes is released",
        "flow is held, and both sides were compared",
    ];
    reach(0..100, Profile::Flow, &situations);
}

#[test]
fn the_same_seed_is_the_same_world_to_the_byte() {
    let (compiled, full) = compiled();
    let profiles = if full {
        &[
            Profile::Builtin,
            Profile::Reservations,
            Profile::Flow,
            Profile::Site,
            Profile::Constraints,
            Profile::Instance,
            Profile::Policies,
            Profile::PoliciesReservations,
            Profile::PoliciesSite,
            Profile::PoliciesConstraints,
            Profile::PoliciesInstance,
        ][..]
    } else {
        &[
            Profile::Builtin,
            Profile::Reservations,
            Profile::Flow,
            Profile::Site,
            Profile::Constraints,
            Profile::Instance,
        ]
    };
    let mut hashes = std::collections::BTreeSet::new();
    for profile in profiles {
        for seed in 300..310 {
            let keep = Keep::default();
            let (one, other) =
                (run(seed, *profile, &keep, &compiled, false), run(seed, *profile, &keep, &compiled, false));
            assert_eq!(one, other, "seed {seed} with {profile:?}");
            hashes.insert(one.hash);
        }
    }
    assert_eq!(hashes.len(), 10 * profiles.len(), "other seeds are other worlds");
}

/// Parts of seeds that broke an invariant once: seed, jobs, faults, and what was wrong.
const FOUND: &[(u64, Profile, &str, &str, &str)] = &[
    (
        39,
        Profile::Builtin,
        "10",
        "",
        "a job whose whole nodes exceed the ceiling of its queue was called feasible",
    ),
    (145, Profile::Builtin, "5", "", "such a job waited for ever, at the head of its queue"),
    (1462, Profile::Builtin, "1-2,13", "3-4", "jobs were denied because the start of another was refused"),
    (
        3816,
        Profile::Builtin,
        "2-3,6,8",
        "1-2",
        "what an inactive job held, of which R could not be read, was given to another",
    ),
    (7569, Profile::Policies, "3,26", "0", "a scheduler that was offline turned without a pause"),
    (58, Profile::Policies, "0-63", "0-63", "a rerun from the middle did not know the jobs that wait"),
    (
        1_024_332,
        Profile::Policies,
        "2,10,15",
        "5,11",
        "a rerun from the middle did not know the jobs that had started since the last pass",
    ),
    (
        2_066_440,
        Profile::Policies,
        "1-2,4",
        "1-2,7,10",
        "a question that reached the next scheduler counted as answered twice",
    ),
    (
        2_272_353,
        Profile::Policies,
        "9-10",
        "2-3,11,14,20",
        "a start that was refused and one that was lost with the job manager did not count together",
    ),
    (
        133_317,
        Profile::Builtin,
        "1,19",
        "2,7",
        "what an inactive job held, on a node that had left the inventory, was given to another",
    ),
    (
        137_596,
        Profile::Policies,
        "3,6-7",
        "0,5",
        "a quarantine that ended while a swap waited made turns without a pause",
    ),
    (285_779, Profile::Builtin, "1-3", "1-2", "what a shrink denies came in another order after a restart"),
    (
        299_193,
        Profile::Policies,
        "19",
        "",
        "the denial of a job that had ended counted as one of a job that could run",
    ),
    (
        208_924,
        Profile::Policies,
        "10,13,15,26",
        "",
        "a reservation that was not made anew kept a job of another queue waiting",
    ),
    (
        21377,
        Profile::Storage,
        "0-63",
        "0-63",
        "storage of a job whose R could not be read was taken for free",
    ),
    (192, Profile::Flow, "3", "1", "figures that were a second old were taken for what is held"),
    (872, Profile::Storage, "0", "5,3000", "what was marked before marks could be read was not kept"),
    (
        1751,
        Profile::Storage,
        "0",
        "1,3001,4001",
        "a mark that was committed late came again though the vertex was marked up",
    ),
    (
        327_808,
        Profile::Policies,
        "0",
        "0,2,4,6",
        "a probation that ended while a swap waited made turns without a pause",
    ),
    (
        0,
        Profile::Reservations,
        "1,3",
        "",
        "a job that named a reservation which was not there held its queue for ever",
    ),
    (
        7,
        Profile::Reservations,
        "9,23",
        "1001",
        "a rerun did not start a job that fills the time before a reservation",
    ),
    (
        102_396,
        Profile::Reservations,
        "5",
        "1002,1008",
        "a time that was idle and one that was left out did not count together",
    ),
    (
        104_816,
        Profile::Reservations,
        "0",
        "5,9,15,1001",
        "a reservation that is to come again on a clock that was set back counted as over",
    ),
    (
        25_004_190,
        Profile::Reservations,
        "2,5-6,8-9,11",
        "2,5,8,1003,1006,1009,1017-1019,2003,2009,2017-2019",
        "nodes that a new scheduler replaced at once were others for the next, after the begin",
    ),
    (
        24_004_260,
        Profile::PoliciesReservations,
        "1",
        "3,1000,1007,1020,2012,2014",
        "a time of a reservation was over at once, since the one before had been idle",
    ),
    (32_014_613, Profile::Site, "3-4,7", "1000,5006", "who may be a member of a group counted as held up"),
    (
        772,
        Profile::Constraints,
        "12,17,24,27,31",
        "0,6001",
        "a rerun from the middle did not know properties that had been removed",
    ),
    (
        42_006_132,
        Profile::PoliciesConstraints,
        "2",
        "3,5,8,6003-6004",
        "a request that was refused, while what was kept could not be read, counted as newer than that",
    ),
    (
        43_008_517,
        Profile::Constraints,
        "8,10",
        "5,1002-1003,1008",
        "a reservation stayed whose end the clock had passed when another was changed",
    ),
    (12, Profile::Constraints, "8", "6000", "a property that was removed for a while denied jobs"),
    (
        1655,
        Profile::Constraints,
        "3",
        "6001",
        "a job above the ceiling of its queue waited for a property, and then for ever",
    ),
    (
        398,
        Profile::PoliciesConstraints,
        "0,7",
        "3,20,6000-6001",
        "feasibility was answered from the inventory of before while the job manager was away",
    ),
    (
        466,
        Profile::Constraints,
        "3",
        "5",
        "a job was denied for a property that was kept and could not be read",
    ),
    (
        103_003_780,
        Profile::Policies,
        "0,2-3,6",
        "0,6,8,12,14-15,18-20,22-24",
        "a job was denied whose start was lost twice, each time with the job manager",
    ),
    (
        403_045_556,
        Profile::Policies,
        "0,8,10-11,13,15",
        "0,6",
        "a job that a scheduler cannot take over, since its R names lost ranks, was counted for its queue",
    ),
    (
        810_001_537,
        Profile::Constraints,
        "3",
        "7,11,1005,1010,6002,6005,6007",
        "a reservation stayed the reason of a job that properties kept off all nodes",
    ),
    (
        911_000_573,
        Profile::Site,
        "0",
        "1001,2003",
        "a queue stayed started whose reservation ended while the job manager was reloaded",
    ),
];

#[test]
fn what_was_found_stays_mended() {
    let (compiled, full) = compiled();
    for (seed, profile, jobs, faults, what) in FOUND {
        if profile.has_components() && !full {
            continue;
        }
        let set = |text: &str| Some(fluxgate_formats::Idset::parse(text).unwrap().iter().collect());
        let keep = Keep { jobs: set(jobs), faults: set(faults), kinds: None };
        let broken = run(*seed, *profile, &keep, &compiled, false).broken;
        assert_eq!(broken, None, "seed {seed}: {what}");
    }
}
