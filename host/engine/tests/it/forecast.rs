//! Forecasts: the rule by example, the learned lengths, and that no decision depends on them.

use fluxgate_engine::{Engine, Event, FORECAST_JOBS_MAX, Pass, PolicyError};
use fluxgate_formats::JobId;
use proptest::prelude::*;

use crate::common::*;

fn forecast(engine: &Engine, now: f64) -> Vec<(u64, Option<f64>)> {
    let base = engine.forecast_base(now, FORECAST_JOBS_MAX);
    base.forecast(now).into_iter().map(|told| (told.id.0, told.start)).collect()
}

fn run(engine: &mut Engine, id: u64, slots: u32, limit: f64, from: f64, to: f64) {
    assert_eq!(started(&submit(engine, from, vec![(id, cores(slots, limit))])), [id]);
    engine.step(free(id), to);
    engine.pass(to);
}

#[test]
fn in_order_until_the_policy_backfills() {
    let mut engine = engine(1, 4);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    let jobs = vec![(1, cores(3, 50.0)), (2, cores(4, 9.0)), (3, cores(2, 60.0))];
    submit(&mut engine, 0.0, jobs);
    assert_eq!(forecast(&engine, 0.0), [(2, Some(50.0)), (3, Some(59.0))]);
    submit(&mut engine, 1.0, vec![(4, cores(1, 70.0)), (5, cores(1, 20.0))]);
    // Job 5 passed the others. Job 4, which would delay 2, is now expected at its own earliest start, not after the
    // jobs before it.
    assert_eq!(forecast(&engine, 1.0), [(2, Some(50.0)), (3, Some(59.0)), (4, Some(59.0))]);
    submit(&mut engine, 2.0, vec![(6, cores(1, 25.0))]);
    assert_eq!(forecast(&engine, 2.0)[3], (6, Some(21.0)), "between 5 and 2");
    // The next policy is not known to backfill.
    install(&mut engine, Script::named("fcfs").run(fcfs), 2.0);
    assert_eq!(forecast(&engine, 2.0)[3], (6, Some(59.0)));
}

#[test]
fn a_user_is_known_by_the_jobs_that_ended() {
    let mut engine = engine(1, 4);
    run(&mut engine, 1, 4, 100.0, 0.0, 100.0);
    run(&mut engine, 2, 4, 100.0, 100.0, 200.0);
    submit(&mut engine, 200.0, vec![(3, cores(4, 100.0)), (4, cores(4, 100.0)), (5, cores(4, 1.0))]);
    assert_eq!(forecast(&engine, 200.0), [(4, Some(300.0)), (5, Some(400.0))], "they use what they ask for");
    for (id, next) in [(3, 4), (4, 5)] {
        let now = engine.running_ids().next().map_or(0.0, |_| 200.0 + 10.0 * (id - 2) as f64);
        engine.step(free(id), now);
        assert_eq!(started(&engine.pass(now)), [next]);
    }
    submit(&mut engine, 220.0, vec![(6, cores(4, 100.0)), (7, cores(4, 100.0))]);
    let found = forecast(&engine, 220.0);
    let length = found[1].1.unwrap() - found[0].1.unwrap();
    assert!((30.0..70.0).contains(&length), "half of them used a tenth: {length}");
}

#[test]
fn a_promise_is_the_latest() {
    let mut engine = engine(1, 4);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    submit(&mut engine, 0.0, vec![(1, cores(4, 50.0)), (2, cores(4, 9.0))]);
    engine.step(Event::Expiration { id: JobId(1), expiration: 40.0, token: 1 }, 1.0);
    let base = engine.forecast_base(1.0, FORECAST_JOBS_MAX);
    let told = base.forecast(1.0)[0];
    assert_eq!((told.start, told.reserved), (Some(40.0), Some(50.0)));
    engine.step(Event::Down("0".parse().unwrap()), 2.0);
    let base = engine.forecast_base(2.0, FORECAST_JOBS_MAX);
    assert_eq!(base.forecast(2.0)[0].start, Some(50.0), "it is still reserved");
    engine.pass(2.0);
    assert_eq!(forecast(&engine, 2.0), [(2, None)]);
}

#[test]
fn queues_take_turns_and_the_count_is_bounded() {
    let mut engine = engine(1, 1);
    submit(&mut engine, 0.0, vec![(1, cores(1, 10.0))]);
    let many: Vec<_> = (2..2000).map(|id| (id, queued(1, 10.0, if id < 1990 { "a" } else { "b" }))).collect();
    submit(&mut engine, 0.0, many);
    let told = forecast(&engine, 0.0);
    let first: Vec<u64> = told.iter().take(4).map(|(id, _)| *id).collect();
    assert_eq!(first, [2, 1990, 3, 1991]);
    assert_eq!(told[3].1, Some(40.0));
    assert_eq!(told.len(), FORECAST_JOBS_MAX);
    assert_eq!(engine.forecast_base(0.0, 3).jobs(), 3);
}

#[derive(Debug, Clone)]
enum Step {
    Submit(u32, u32, bool),
    Free(usize),
    Cancel(usize),
    Down(u32),
    Up(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u32..9, 0u32..20, any::<bool>()).prop_map(|(n, d, q)| Step::Submit(n, d * 10, q)),
        4 => (0usize..8).prop_map(Step::Free),
        1 => (0usize..8).prop_map(Step::Cancel),
        1 => (0u32..4).prop_map(Step::Down),
        1 => (0u32..4).prop_map(Step::Up),
    ]
}

fn decide(pass: &mut Pass, reserving: bool) -> Result<(), PolicyError> {
    if !reserving {
        return easy(pass);
    }
    while let Some(candidate) = pass.next() {
        if pass.start(candidate, None)?.is_err() {
            let _ = pass.reserve(candidate)?;
        }
    }
    Ok(())
}

proptest! {
    /// With forecasts after every pass and without any: the same actions and the same state. A repeated forecast is
    /// the same, names only waiting jobs, and no time in the past.
    #[test]
    fn a_forecast_changes_nothing(steps in prop::collection::vec(step(), 1..60), reserving in any::<bool>()) {
        let made = || {
            let mut engine = engine(4, 4);
            install(&mut engine, Script::named("p").run(move |pass| decide(pass, reserving)), 0.0);
            engine
        };
        let (mut alone, mut with) = (made(), made());
        for (i, step) in steps.into_iter().enumerate() {
            let now = 1.0 + 5.0 * i as f64;
            let event = match step {
                Step::Submit(n, limit, debug) => {
                    let limit = f64::from(limit);
                    Some(alloc(i as u64 + 1, if debug { queued(n, limit, "debug") } else { cores(n, limit) }))
                }
                Step::Free(i) => with.running_ids().nth(i).map(|id| free(id.0)),
                Step::Cancel(i) => with.pending_ids().nth(i).map(|id| Event::Cancel { id }),
                Step::Down(n) => Some(Event::Down(n.to_string().parse().unwrap())),
                Step::Up(n) => Some(Event::Up(n.to_string().parse().unwrap())),
            };
            if let Some(event) = event {
                let (first, second) = (alone.step(event.clone(), now), with.step(event, now));
                prop_assert_eq!(format!("{first:?}"), format!("{second:?}"));
            }
            let (first, second) = (alone.pass(now), with.pass(now));
            prop_assert_eq!(format!("{first:?}"), format!("{second:?}"));
            let told = with.forecast_base(now, FORECAST_JOBS_MAX).forecast(now);
            prop_assert_eq!(&told, &with.forecast_base(now, FORECAST_JOBS_MAX).forecast(now));
            prop_assert_eq!(told.len(), with.pending());
            for one in told {
                prop_assert!(with.pending_ids().any(|id| id == one.id));
                prop_assert!(one.start.is_none_or(|start| start >= now), "{one:?} at {now}");
            }
        }
        prop_assert_eq!(format!("{:?}", alone.checkpoint()), format!("{:?}", with.checkpoint()));
    }
}
