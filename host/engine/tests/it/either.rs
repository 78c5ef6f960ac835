//! `start_or_reserve` is `start` and then `reserve`: the same starts, reservations and reasons.

use fluxgate_engine::{Engine, Pass, PolicyError, Refusal};
use fluxgate_formats::JobId;
use proptest::prelude::*;

use crate::common::{Script, alloc, cores, engine, free, install, started};

fn apart(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(job) = pass.next() {
        if let Err(Refusal::Busy | Refusal::DelaysReservation) = pass.start(job, None)? {
            let _ = pass.reserve(job)?;
        }
    }
    Ok(())
}

fn together(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(job) = pass.next() {
        let now = pass.now();
        if let Ok(Some(start)) = pass.start_or_reserve(job)? {
            assert!(start >= now);
        }
    }
    Ok(())
}

fn by(name: &str, run: fn(&mut Pass) -> Result<(), PolicyError>) -> Engine {
    let mut engine = engine(4, 2);
    install(&mut engine, Script::named(name).run(run), 0.0);
    engine
}

fn reservations(engine: &Engine) -> Vec<(JobId, f64)> {
    engine.resources().reservations().map(|(id, start, _)| (id, start)).collect()
}

proptest! {
    #[test]
    fn it_is_one_and_then_the_other(jobs in prop::collection::vec((1u32..10, 1u32..20, 0u32..4), 1..40)) {
        let mut both = [by("apart", apart), by("together", together)];
        let mut running = Vec::new();
        for (number, (slots, length, gone)) in jobs.into_iter().enumerate() {
            let (id, now) = (number as u64 + 1, number as f64);
            let ends: Vec<u64> = running.drain(..running.len().min(gone as usize)).collect();
            let outs = both.each_mut().map(|engine| {
                engine.step(alloc(id, cores(slots, f64::from(length))), now);
                ends.iter().for_each(|id| drop(engine.step(free(*id), now)));
                started(&engine.pass(now))
            });
            prop_assert_eq!(&outs[0], &outs[1]);
            prop_assert_eq!(reservations(&both[0]), reservations(&both[1]));
            let waits = |engine: &Engine| engine.explain(JobId(id), now).map(|why| (why.reason.clone(), crate::common::said(&why)));
            prop_assert_eq!(waits(&both[0]), waits(&both[1]));
            running.extend(&outs[0]);
        }
    }
}

#[test]
fn a_candidate_that_was_not_offered_is_a_breach() {
    let mut engine = by("stray", |pass| pass.start_or_reserve(7).map(drop));
    engine.step(alloc(1, cores(1, 1.0)), 0.0);
    assert_eq!(started(&engine.pass(0.0)), [1], "by the built-in policy");
    assert_eq!(engine.stats().policy_failures, 1);
}
