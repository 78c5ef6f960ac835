//! A walk for fitting jobs leaves out no job that could start: EASY that tries every job in order starts the same
//! jobs.

use std::sync::Arc;

use fluxgate_engine::{Event, Pass, PolicyError, Refusal};
use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{JobId, Jobspec};
use proptest::prelude::*;

use crate::common::*;

/// EASY that tries to start every job.
fn every_job(pass: &mut Pass, depth: usize) -> Result<(), PolicyError> {
    let mut reserved = 0;
    while let Some(c) = pass.next() {
        let refused = matches!(pass.start(c, None)?, Err(Refusal::Busy | Refusal::DelaysReservation));
        if refused && reserved < depth && pass.reserve(c)?.is_ok() {
            reserved += 1;
        }
    }
    Ok(())
}

/// EASY by walks for fitting jobs, after all reservations are made.
fn fitting_jobs(pass: &mut Pass, depth: usize) -> Result<(), PolicyError> {
    let mut reserved = 0;
    while reserved < depth
        && let Some(c) = pass.next()
    {
        let refused = matches!(pass.start(c, None)?, Err(Refusal::Busy | Refusal::DelaysReservation));
        if refused && pass.reserve(c)?.is_ok() {
            reserved += 1;
        }
    }
    while let Some(c) = pass.next_fitting() {
        let _ = pass.start(c, None)?;
    }
    Ok(())
}

#[derive(Debug, Clone)]
enum Op {
    /// A number of cores or nodes, and seconds; 0 is no limit.
    Submit(u32, u16),
    /// The running job at this position ends.
    End(usize),
    /// The waiting job at this position is withdrawn.
    Cancel(usize),
    Later(u16),
    Node(u32, bool),
    /// The instance ends that many seconds later; 0: never.
    InstanceEnd(u16),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1..26u32, prop_oneof![9 => 1..400u16, 1 => Just(0), 2 => Just(60)])
            .prop_map(|(n, d)| Op::Submit(n, d)),
        4 => (0..30usize).prop_map(Op::End),
        1 => (0..30usize).prop_map(Op::Cancel),
        3 => (1..90u16).prop_map(Op::Later),
        1 => (0..6u32, any::<bool>()).prop_map(|(n, up)| Op::Node(n, up)),
        1 => prop_oneof![Just(0), 100..900u16].prop_map(Op::InstanceEnd),
    ]
}

/// The requests of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Cores,
    Nodes,
    /// Some of each.
    Both,
}

fn asking(kind: Kind, n: u32, duration: f64) -> Arc<Jobspec> {
    match kind == Kind::Nodes || kind == Kind::Both && n.is_multiple_of(3) {
        true => {
            let n = 1 + n % 6;
            Arc::new(
                Simple { nodes: Some(n), slots: n, exclusive: true, duration, ..Simple::default() }.build(),
            )
        }
        false => cores(n, duration),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_walk_for_fitting_jobs_leaves_out_nothing_that_could_start(
        kind in prop_oneof![Just(Kind::Cores), Just(Kind::Nodes), Just(Kind::Both)],
        ceiling: bool,
        depth in 0..4usize,
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut every = Side::of(Script::named("every").run(move |pass| every_job(pass, depth)), ceiling);
        let mut fitting = Side::of(Script::named("fitting").run(move |pass| fitting_jobs(pass, depth)), ceiling);
        let (mut now, mut next) = (1.0, 1);
        for op in ops {
            let event = match op {
                Op::Submit(n, duration) => {
                    next += 1;
                    every.waiting.push(next);
                    fitting.waiting.push(next);
                    alloc(next, asking(kind, n, f64::from(duration)))
                }
                Op::End(at) if !every.running.is_empty() => {
                    let at = at % every.running.len();
                    fitting.running.remove(at);
                    free(every.running.remove(at))
                }
                Op::Cancel(at) if !every.waiting.is_empty() => {
                    let at = at % every.waiting.len();
                    fitting.waiting.remove(at);
                    Event::Cancel { id: JobId(every.waiting.remove(at)) }
                }
                Op::Node(n, up) => {
                    let node = n.to_string().parse().unwrap();
                    if up { Event::Up(node) } else { Event::Down(node) }
                }
                Op::InstanceEnd(0) => Event::InstanceExpiration(0.0),
                Op::InstanceEnd(by) => Event::InstanceExpiration(now + f64::from(by)),
                Op::Later(by) => {
                    now += f64::from(by);
                    Event::Up("0".parse().unwrap())
                }
                _ => continue,
            };
            let starts = every.step(event.clone(), now);
            prop_assert_eq!(fitting.step(event, now), starts);
        }
    }
}
