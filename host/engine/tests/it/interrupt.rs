//! Interrupted passes: the decisions of an interrupted pass are kept, a further pass makes the rest, and no job loses
//! its reservation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fluxgate_engine::{Engine, Pass, PolicyError};
use fluxgate_formats::JobId;
use proptest::prelude::*;

use crate::common;
use crate::common::{Script, cores, engine, install, queued, started, submit};

/// EASY that raises the flag itself after a number of candidates.
fn easy(flag: &Arc<AtomicBool>, after: &Arc<AtomicU32>) -> Script {
    let (flag, after) = (Arc::clone(flag), Arc::clone(after));
    let looked = move || {
        if after.fetch_sub(1, Ordering::Relaxed) == 1 {
            flag.store(true, Ordering::Relaxed);
        }
    };
    Script::named("easy").run(move |pass: &mut Pass| -> Result<(), PolicyError> {
        while let Some(job) = pass.next() {
            looked();
            if pass.start(job, None)?.is_err() {
                let _ = pass.reserve(job)?;
                break;
            }
        }
        while let Some(job) = pass.next_fitting() {
            looked();
            let _ = pass.start(job, None)?;
        }
        Ok(())
    })
}

struct Held {
    engine: Engine,
    flag: Arc<AtomicBool>,
    after: Arc<AtomicU32>,
}

impl Held {
    fn new(cores: u32) -> Held {
        let (flag, after) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(u32::MAX)));
        let mut engine = engine(1, cores);
        engine.set_interrupt(Arc::clone(&flag));
        install(&mut engine, easy(&flag, &after), 0.0);
        Held { engine, flag, after }
    }

    /// One pass that is interrupted after a number of candidates.
    fn pass(&mut self, now: f64, after: u32) -> Vec<u64> {
        self.after.store(after, Ordering::Relaxed);
        self.flag.store(after == 0, Ordering::Relaxed);
        started(&self.engine.pass(now))
    }

    fn reservations(&self) -> Vec<(u64, f64)> {
        self.engine.resources().reservations().map(|(JobId(id), start, _)| (id, start)).collect()
    }
}

#[test]
fn what_was_decided_stands_and_the_rest_follows() {
    let mut held = Held::new(4);
    for id in 1..=4 {
        held.engine.step(common::alloc(id, cores(1, 10.0)), 0.0);
    }
    assert_eq!(held.pass(0.0, 2), [1], "the second was offered, and came too late");
    assert!(held.engine.needs_pass(0.0));
    assert_eq!(held.engine.stats().interrupted, 1);
    assert_eq!(held.pass(0.0, u32::MAX), [2, 3, 4]);
    assert!(!held.engine.needs_pass(0.0));
    assert_eq!(held.engine.stats().interrupted, 1);
}

#[test]
fn a_reservation_outlives_a_pass_that_did_not_come_to_it() {
    let mut held = Held::new(4);
    submit(&mut held.engine, 0.0, vec![(1, queued(3, 100.0, "a")), (2, queued(4, 10.0, "a"))]);
    assert_eq!(held.reservations(), [(2, 100.0)]);
    // Both queues need a pass; the first is interrupted at once, and the second may not take the resources reserved
    // for job 2.
    held.engine.step(common::alloc(3, queued(1, 50.0, "a")), 5.0);
    held.engine.step(common::alloc(4, queued(1, 1000.0, "b")), 5.0);
    assert_eq!(held.pass(5.0, 0), [0; 0]);
    assert_eq!(held.reservations(), [(2, 100.0)]);
    assert!(held.engine.needs_pass(5.0));
    assert_eq!(held.pass(5.0, u32::MAX), [3]);
    assert_eq!(held.reservations().first(), Some(&(2, 100.0)));
}

#[test]
fn a_reservation_in_the_past_is_dropped() {
    let mut held = Held::new(4);
    submit(&mut held.engine, 0.0, vec![(1, cores(3, 100.0)), (2, cores(4, 10.0))]);
    held.engine.step(common::alloc(3, cores(1, 50.0)), 120.0);
    assert_eq!(held.pass(120.0, 0), [0; 0]);
    assert_eq!(held.reservations(), []);
}

#[test]
fn the_built_in_policy_is_cut_as_well() {
    let flag = Arc::new(AtomicBool::new(true));
    let mut engine = engine(1, 4);
    engine.set_interrupt(Arc::clone(&flag));
    assert_eq!(started(&submit(&mut engine, 0.0, vec![(1, cores(1, 1.0))])), [0; 0]);
    flag.store(false, Ordering::Relaxed);
    assert!(engine.needs_pass(0.0));
    assert_eq!(started(&engine.pass(0.0)), [1]);
}

proptest! {
    /// For any interrupts, as long as each pass gets a little further than the last, the queue reaches the same final
    /// state: no job is left that could start.
    #[test]
    fn passes_cut_anywhere_come_to_rest(
        sizes in proptest::collection::vec((1u32..6, 1u32..50), 1..30),
        first in 0u32..5,
    ) {
        let mut held = Held::new(8);
        for (id, (size, duration)) in (1..).zip(&sizes) {
            held.engine.step(common::alloc(id, cores(*size, f64::from(*duration))), 0.0);
        }
        let mut all = Vec::new();
        let mut after = first;
        let mut passes = 0;
        while held.engine.needs_pass(0.0) {
            all.extend(held.pass(0.0, after));
            after = after * 2 + 1;
            passes += 1;
            prop_assert!(passes < 20);
        }
        let mut ids = all.clone();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), all.len(), "no job starts twice");
        let used: u32 = all.iter().map(|id| sizes[*id as usize - 1].0).sum();
        prop_assert!(used <= 8);
        held.engine.step(common::alloc(1000, cores(8, 1e9)), 0.0);
        prop_assert_eq!(held.pass(0.0, u32::MAX), if used == 0 { vec![1000] } else { vec![] });
    }
}
