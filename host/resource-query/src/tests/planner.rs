//! The planner of one pool, by example and against a model of every second.

use proptest::prelude::*;

use crate::planner::{FOREVER, PlanError, Planner};

#[test]
fn m4_1_units_of_a_pool_are_counted_and_not_told_apart() {
    let mut memory = Planner::new(&[32]);
    memory.add(1, 0, FOREVER, &[20]).unwrap();
    memory.add(2, 0, FOREVER, &[12]).unwrap();
    assert_eq!(memory.add(3, 0, 1, &[1]), Err(PlanError::Over));
    assert_eq!(memory.free_at(0, 0), 0);
}

#[test]
fn m16_9_spans_are_half_open() {
    let mut pool = Planner::new(&[4]);
    pool.add(1, 100, 200, &[3]).unwrap();
    let free: Vec<i64> = [50, 99, 100, 150, 199, 200].iter().map(|&t| pool.free_at(0, t)).collect();
    assert_eq!(free, [4, 4, 1, 1, 1, 4]);
    assert!(pool.fits(200, 300, &[4]) && pool.fits(0, 100, &[4]) && !pool.fits(0, 101, &[4]));
}

#[test]
fn m16_10_a_span_needs_a_start_and_an_end_after_it() {
    let mut pool = Planner::new(&[4]);
    for (start, end) in [(5, 5), (5, 4), (-1, 4)] {
        assert_eq!(pool.add(1, start, end, &[1]), Err(PlanError::Interval));
    }
    pool.add(1, 5, FOREVER, &[1]).unwrap();
    assert_eq!(pool.free_at(0, FOREVER - 1), 3, "unlimited is written as such");
}

#[test]
fn m16_15_releasing_twice_frees_nothing_twice() {
    let mut pool = Planner::new(&[4]);
    pool.add(1, 0, 10, &[2]).unwrap();
    pool.add(2, 0, 10, &[2]).unwrap();
    assert!(pool.remove(1).is_some());
    assert!(pool.remove(1).is_none());
    assert_eq!(pool.free_at(0, 0), 2);
    assert!(!pool.reduce(2, &[3]) && pool.reduce(2, &[1]) && pool.reduce(2, &[1]));
    assert!(pool.is_empty() && pool.times().is_empty());
}

const HORIZON: i64 = 24;

#[derive(Debug, Clone)]
enum Step {
    Add { job: u64, start: i64, long: i64, amounts: [i64; 2] },
    Remove(u64),
    Reduce(u64, [i64; 2]),
    Totals([i64; 2]),
}

fn step() -> impl Strategy<Value = Step> {
    let job = 0..6u64;
    prop_oneof![
        4 => (job.clone(), 0..HORIZON, 1..10i64, [0..5i64, 0..5i64])
            .prop_map(|(job, start, long, amounts)| Step::Add { job, start, long, amounts }),
        2 => job.clone().prop_map(Step::Remove),
        1 => (job, [0..3i64, 0..3i64]).prop_map(|(job, less)| Step::Reduce(job, less)),
        1 => [3..8i64, 3..8i64].prop_map(Step::Totals),
    ]
}

proptest! {
    /// M16-5: booked amounts never exceed the total, unless the total was lowered.
    #[test]
    fn m16_5_agrees_with_looking_at_every_second(steps in prop::collection::vec(step(), 0..40)) {
        let mut totals = [6, 4];
        let mut pool = Planner::new(&totals);
        let mut jobs: Vec<(u64, i64, i64, [i64; 2])> = Vec::new();
        let free = |jobs: &[(u64, i64, i64, [i64; 2])], totals: [i64; 2], t: i64, q: usize| {
            let held = jobs.iter().filter(|(_, s, e, _)| (*s..*e).contains(&t));
            totals[q] - held.map(|(_, _, _, a)| a[q]).sum::<i64>()
        };
        for step in steps {
            match step {
                Step::Add { job, start, long, amounts } => {
                    let fits = (start..start + long)
                        .all(|t| (0..2).all(|q| amounts[q] <= free(&jobs, totals, t, q)));
                    let new = jobs.iter().all(|(j, ..)| *j != job);
                    let added = pool.add(job, start, start + long, &amounts);
                    prop_assert_eq!(added.is_ok(), fits && new);
                    if added.is_ok() {
                        jobs.push((job, start, start + long, amounts));
                    }
                }
                Step::Remove(job) => {
                    let before = jobs.len();
                    jobs.retain(|(j, ..)| *j != job);
                    prop_assert_eq!(pool.remove(job).is_some(), jobs.len() < before);
                }
                Step::Reduce(job, less) => {
                    let it = jobs.iter_mut().find(|(j, _, _, a)| *j == job && (0..2).all(|q| less[q] <= a[q]));
                    prop_assert_eq!(pool.reduce(job, &less), it.is_some());
                    if let Some((.., amounts)) = it {
                        (0..2).for_each(|q| amounts[q] -= less[q]);
                        let gone = *amounts == [0, 0];
                        jobs.retain(|(j, ..)| *j != job || !gone);
                    }
                }
                Step::Totals(now) => {
                    totals = now;
                    pool.set_totals(&now);
                }
            }
            for t in 0..HORIZON + 12 {
                for q in 0..2 {
                    prop_assert_eq!(pool.free_at(q, t), free(&jobs, totals, t, q));
                }
            }
            for (from, long, amounts) in [(0, 3, [2, 2]), (5, 8, [1, 4]), (9, 1, [6, 1])] {
                let slow = (from..HORIZON + 12).find(|&at| (at..at + long)
                    .all(|t| (0..2).all(|q| amounts[q] <= free(&jobs, totals, t, q))));
                let possible = (0..2).all(|q| amounts[q] <= totals[q]);
                prop_assert_eq!(pool.first_fit(from, long, &amounts), slow.filter(|_| possible));
            }
        }
    }
}
