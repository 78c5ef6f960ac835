//! Shadows: compared in the same situation, never carried out, and in step with the live engine after any event.

use fluxgate_engine::{Config, Engine, Event, Pass, PolicyError, Shadow, ShadowError, When};
use fluxgate_formats::JobId;
use proptest::prelude::*;

use crate::common::*;

/// A live engine with a shadow that gets all of its events.
struct Both {
    live: Engine,
    shadow: Shadow,
}

impl Both {
    fn new(mut live: Engine, candidate: Script) -> Both {
        live.pass(0.0);
        let mut shadow = Shadow::new(live.shadow_base(), Box::new(candidate), None);
        let mut after = None;
        loop {
            // Portions of one job, so that there are many.
            let jobs = live.shadow_jobs(after, 1);
            let Some(last) = jobs.last() else { break };
            after = Some(last);
            shadow.take(jobs);
        }
        Both { live, shadow }
    }

    fn step(&mut self, event: Event, now: f64) {
        self.live.step(event.clone(), now);
        self.shadow.step(event, now);
    }

    fn pass(&mut self, now: f64) -> Result<Vec<u64>, ShadowError> {
        let out = self.live.pass(now);
        self.shadow.pass(now, &self.live.decisions(&out))?;
        Ok(started(&out))
    }
}

/// Starts every job that fits, in order.
fn greedy(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(candidate) = pass.next() {
        let _ = pass.start(candidate, None)?;
    }
    Ok(())
}

fn live(nodes: u32, cores: u32) -> Engine {
    let mut live = engine(nodes, cores);
    install(&mut live, Script::named("live").run(fcfs), 0.0);
    live
}

#[test]
fn the_same_policy_decides_the_same() {
    let mut both = Both::new(live(1, 4), Script::named("candidate").run(fcfs));
    for id in 1..9 {
        both.step(alloc(id, cores(2, 60.0)), id as f64);
        both.pass(id as f64).unwrap();
    }
    for id in 1..7 {
        both.step(free(id), 20.0 + id as f64);
        both.pass(20.0 + id as f64).unwrap();
    }
    let tally = both.shadow.tally();
    assert_eq!((tally.jobs, tally.same, tally.differing), (8, 8, 0));
    assert_eq!(tally.share_differing(), 0.0);
    let (used, would) = tally.utilisation().unwrap();
    assert_eq!(used, would);
    assert!(tally.waits.0 > 0.0 && tally.waits.0 == tally.waits.1);
}

#[test]
fn jobs_that_would_have_started_earlier_are_listed_with_the_difference() {
    let mut live = live(1, 4);
    submit(&mut live, 0.0, vec![(1, cores(3, 600.0)), (2, cores(4, 600.0)), (3, cores(1, 60.0))]);
    // Both jobs wait since before the shadow began; the candidate would start the third before the second.
    let mut both = Both::new(live, Script::named("candidate").run(greedy));
    both.step(alloc(4, cores(4, 60.0)), 10.0);
    assert_eq!(both.pass(10.0).unwrap(), [0u64; 0]);
    assert_eq!(both.shadow.tally().proposed(JobId(3)), Some(10.0));
    assert_eq!(both.shadow.jobs(), (3, 1), "nothing of it is carried out");
    assert_eq!(both.shadow.tally().waiting(), 1);
    both.step(free(1), 100.0);
    assert_eq!(both.pass(100.0).unwrap(), [2]);
    both.step(free(2), 200.0);
    assert_eq!(both.pass(200.0).unwrap(), [3]);
    let found = both.shadow.tally().difference(JobId(3)).unwrap();
    assert_eq!((found.live, found.shadow, found.seconds()), (200.0, When::Started(10.0), Some(-190.0)));
    let tally = both.shadow.tally();
    // At 100 s the candidate would have started the third job again, but not the second, for which no resources are
    // left.
    assert_eq!((tally.jobs, tally.earlier), (2, (1, 190.0)));
    assert_eq!(tally.same + tally.unknown, 1);
}

#[test]
fn a_reserved_start_says_how_much_later() {
    let last_first =
        |jobs: &fluxgate_engine::JobColumns| Ok(jobs.id.iter().map(|id| -(id.0 as f64)).collect());
    let reserving = |pass: &mut Pass| {
        while let Some(candidate) = pass.next() {
            if pass.start(candidate, None)?.is_err() {
                let _ = pass.reserve(candidate)?;
            }
        }
        Ok(())
    };
    let mut both = Both::new(live(1, 4), Script::named("candidate").keys(last_first).run(reserving));
    both.step(alloc(1, cores(4, 100.0)), 0.0);
    both.step(alloc(2, cores(4, 100.0)), 0.0);
    assert_eq!(both.pass(0.0).unwrap(), [1]);
    let found = both.shadow.tally().difference(JobId(1)).unwrap();
    assert_eq!((found.shadow, found.seconds()), (When::Reserved(100.0), Some(100.0)));
    assert_eq!(both.shadow.tally().later, (1, 100.0));
    assert_eq!(both.shadow.tally().proposed(JobId(2)), Some(0.0));
    // A job that is withdrawn is dropped from the figures.
    both.step(Event::Cancel { id: JobId(2) }, 1.0);
    both.pass(1.0).unwrap();
    assert_eq!(both.shadow.tally().waiting(), 0);
}

#[test]
fn a_candidate_that_fails_ends_its_shadow_and_nothing_else() {
    let mut passes = 0;
    let failing = Script::named("candidate").run(move |pass| {
        passes += 1;
        let candidate = pass.next();
        if let Some(candidate) = candidate {
            let _ = pass.start(candidate, None)?;
        }
        if passes == 2 { Err(trap()) } else { Ok(()) }
    });
    let mut both = Both::new(live(1, 1), failing);
    both.step(alloc(1, cores(1, 60.0)), 0.0);
    both.pass(0.0).unwrap();
    both.step(free(1), 1.0);
    both.step(alloc(2, cores(1, 60.0)), 1.0);
    assert_eq!(both.pass(1.0).unwrap_err(), ShadowError::Failed(trap()));
    assert_eq!((both.live.running(), both.live.policy_name()), (1, "live"));
    assert_eq!(both.live.stats().policy_failures, 0);
}

#[derive(Debug, Clone)]
enum Step {
    Submit(u32, f64, bool),
    Free(usize),
    Cancel(usize),
    Priority(usize, u32),
    Down(u32),
    Up(u32),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u32..9, 1u32..20, any::<bool>()).prop_map(|(n, d, q)| Step::Submit(n, f64::from(d) * 10.0, q)),
        4 => (0usize..8).prop_map(Step::Free),
        1 => (0usize..8).prop_map(Step::Cancel),
        1 => (0usize..8, 1u32..31).prop_map(|(i, p)| Step::Priority(i, p)),
        1 => (0u32..4).prop_map(Step::Down),
        1 => (0u32..4).prop_map(Step::Up),
        2 => Just(Step::Wait),
    ]
}

/// The event of a step, if it has one.
fn event(step: &Step, live: &Engine, next: &mut u64) -> Option<Event> {
    match *step {
        Step::Submit(n, duration, debug) => {
            *next += 1;
            let spec = if debug { queued(n, duration, "debug") } else { cores(n, duration) };
            Some(alloc(*next, spec))
        }
        Step::Free(i) => live.running_ids().nth(i).map(|id| free(id.0)),
        Step::Cancel(i) => live.pending_ids().nth(i).map(|id| Event::Cancel { id }),
        Step::Priority(i, p) => live.pending_ids().nth(i).map(|id| Event::Prioritize { jobs: vec![(id, p)] }),
        Step::Down(n) => Some(Event::Down(n.to_string().parse().unwrap())),
        Step::Up(n) => Some(Event::Up(n.to_string().parse().unwrap())),
        Step::Wait => None,
    }
}

proptest! {
    /// The live engine starts the same jobs on the same resources with a shadow and without one, and the shadow's
    /// copy is always equal to the live engine.
    #[test]
    fn a_shadow_changes_nothing_and_keeps_in_step(
        steps in prop::collection::vec(step(), 1..80),
        begin in 0usize..40,
        backfills in any::<bool>(),
    ) {
        let mut alone = live(4, 4);
        let mut with = live(4, 4);
        let mut shadow: Option<Shadow> = None;
        let mut next = 1u64;
        for (i, step) in steps.into_iter().enumerate() {
            let now = 1.0 + i as f64;
            if i == begin {
                let candidate = if backfills { Script::named("c").run(greedy) } else { Script::named("c").run(fcfs) };
                let mut made = Shadow::new(with.shadow_base(), Box::new(candidate), None);
                made.take(with.shadow_jobs(None, usize::MAX));
                shadow = Some(made);
            }
            let event = event(&step, &with, &mut next);
            if let Some(event) = event {
                alone.step(event.clone(), now);
                with.step(event.clone(), now);
                if let Some(shadow) = &mut shadow {
                    shadow.step(event, now);
                }
            }
            let (first, second) = (alone.pass(now), with.pass(now));
            prop_assert_eq!(format!("{first:?}"), format!("{second:?}"));
            if let Some(shadow) = &mut shadow {
                shadow.pass(now, &with.decisions(&second)).unwrap();
                prop_assert_eq!(shadow.jobs(), (with.pending(), with.running()));
                let tally = shadow.tally();
                prop_assert_eq!(tally.jobs, tally.same + tally.earlier.0 + tally.later.0 + tally.unknown);
                if !backfills {
                    // With the live policy itself as the candidate there is no difference, if the queue was empty at
                    // the start.
                    prop_assert_eq!(tally.earlier.0 + tally.later.0, 0);
                }
            }
        }
    }
}

/// EASY under this name.
fn same(name: &'static str) -> Script {
    Script::named(name).run(easy)
}

proptest! {
    /// A candidate of the same kind as the live policy agrees in every pass, both for the default policy and for that
    /// of a queue. A candidate of another kind keeps in step.
    #[test]
    fn a_candidate_for_some_queues_agrees_with_its_like(
        steps in prop::collection::vec((step(), 0u32..12), 1..100),
        of_queue in any::<bool>(),
        other in any::<bool>(),
        own in any::<bool>(),
    ) {
        let mut live = engine(4, 4);
        install(&mut live, same("live"), 0.0);
        if own {
            live.swap_queue("debug", Box::new(same("own"))).unwrap();
            live.finish_swaps(0.0);
        }
        let candidate = if other { Script::named("candidate").run(greedy) } else { same("candidate") };
        let mut shadow = Shadow::new(live.shadow_base(), Box::new(candidate), of_queue.then_some("debug"));
        prop_assert_eq!(shadow.name(), "candidate");
        let mut next = 1u64;
        for (i, (step, turn)) in steps.into_iter().enumerate() {
            let now = 1.0 + i as f64;
            match turn {
                0 => drop(live.swap_queue("debug", Box::new(same("own")))),
                1 => drop(live.give_back("debug")),
                _ => {}
            }
            shadow.queues(live.queue_names());
            live.finish_swaps(now);
            shadow.queues(live.queue_names());
            if let Some(event) = event(&step, &live, &mut next) {
                live.step(event.clone(), now);
                shadow.step(event, now);
            }
            let out = live.pass(now);
            shadow.pass(now, &live.decisions(&out)).unwrap();
            prop_assert_eq!(shadow.jobs(), (live.pending(), live.running()));
            let tally = shadow.tally();
            prop_assert_eq!(tally.jobs, tally.same + tally.earlier.0 + tally.later.0 + tally.unknown);
            if !other {
                prop_assert_eq!(tally.differing, 0);
            }
        }
    }
}

#[test]
fn a_candidate_for_one_queue_is_compared_there_and_nowhere_else() {
    let mut both = Both::new(live(1, 4), Script::named("unused").run(fcfs));
    both.shadow =
        Shadow::new(both.live.shadow_base(), Box::new(Script::named("candidate").run(greedy)), Some("debug"));
    // The queue is not known yet.
    both.step(alloc(1, cores(3, 600.0)), 0.0);
    both.pass(0.0).unwrap();
    assert_eq!((both.shadow.name(), both.shadow.tally().passes), ("candidate", 0));
    // The second job cannot start, and the third may not pass it; the candidate would allow that, but only in its own
    // queue.
    both.step(alloc(2, queued(4, 60.0, "debug")), 1.0);
    both.step(alloc(3, queued(1, 60.0, "debug")), 1.0);
    both.pass(1.0).unwrap();
    assert_eq!(both.shadow.tally().proposed(JobId(3)), Some(1.0));
    both.step(alloc(4, cores(4, 60.0)), 2.0);
    both.step(alloc(5, cores(1, 60.0)), 2.0);
    assert_eq!(both.pass(2.0).unwrap(), [0u64; 0]);
    assert_eq!(both.shadow.tally().proposed(JobId(5)), None);
    assert_eq!(both.shadow.tally().jobs, 0, "the first job was started in another queue");
    assert_eq!(both.shadow.jobs(), (4, 1));
}

#[test]
fn what_is_kept_is_bounded() {
    let config = Config { annotate: false, decisions_per_pass_max: 100_000, ..Config::default() };
    let mut live = Engine::new(machine(64, 512), config);
    install(&mut live, Script::named("live").run(greedy), 0.0);
    let mut both = Both::new(live, Script::named("candidate").run(greedy));
    let jobs = fluxgate_engine::DIFFERENCES_MAX as u64 + 100;
    let spec = cores(1, 60.0);
    for id in 1..=jobs {
        both.step(alloc(id, spec.clone()), 0.0);
    }
    both.pass(0.0).unwrap();
    let tally = both.shadow.tally();
    assert_eq!(tally.jobs, jobs);
    assert_eq!(tally.differences().count(), fluxgate_engine::DIFFERENCES_MAX);
    assert_eq!(tally.difference(JobId(1)), None, "the oldest go first");
}
