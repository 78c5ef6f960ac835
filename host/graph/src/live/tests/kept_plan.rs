//! A plan in counts that is updated with every change gives the answers of a plan that is rebuilt; a plan in places has the places
//! of a new simulation.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    /// Starts this request for this many seconds.
    Start(usize, u8),
    /// The running job at this position ends, or releases one node.
    End(usize, bool),
    /// Reserves the earliest start of this request.
    Reserve(usize, u8),
    /// Drops the reservation at this position.
    Drop(usize),
    /// Drops the reservation at this position, or makes the one anew that was dropped so.
    Again(usize),
    /// Drops all reservations but this many, in one call.
    DropMany(usize),
    /// Advances the time.
    Later(u8),
    /// A node goes down or comes up.
    Node(u32, bool),
    /// The running job at this position gets another end.
    Extend(usize, u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3usize, 1..40u8).prop_map(|(r, d)| Op::Start(r, d)),
        5 => (0..20usize, prop::bool::weighted(0.1)).prop_map(|(at, part)| Op::End(at, part)),
        4 => (0..3usize, 1..40u8).prop_map(|(r, d)| Op::Reserve(r, d)),
        3 => (0..4usize).prop_map(Op::Drop),
        6 => (0..4usize).prop_map(Op::Again),
        1 => (0..3usize).prop_map(Op::DropMany),
        3 => (1..12u8).prop_map(Op::Later),
        1 => (0..6u32, any::<bool>()).prop_map(|(node, up)| Op::Node(node, up)),
        1 => (0..20usize, 1..40u8).prop_map(|(at, d)| Op::Extend(at, d)),
    ]
}

/// The answers to all queries; with `anew` each of a copy, whose plan is rebuilt.
fn answers(m: &mut Resources, requests: &[Arc<Request>], now: f64, anew: bool) -> Vec<String> {
    let mut told = Vec::new();
    for request in requests {
        for duration in [1.0, 7.0, 30.0, f64::INFINITY] {
            let mut copy = anew.then(|| m.clone());
            let asked = copy.as_mut().unwrap_or(m);
            told.push(format!("{:?}", asked.earliest(request, now, duration)));
            let delay = asked.delay_by_counts(request, now, now + duration);
            let found = asked.match_now(request, now, now + duration, Placement::First);
            if let Some((job, latest)) = delay {
                assert_eq!(found, Err(NoFit::WouldDelay(job, latest)), "counts and the search agree");
            }
            if let Err(NoFit::WouldDelay(_, latest)) = found {
                assert!(latest < now + duration);
                let refused = asked.match_now(request, now, latest.next_up(), Placement::First);
                assert!(refused.is_err(), "what ends later than the latest end is refused");
            }
            told.push(format!("{found:?}"));
        }
    }
    told
}

/// A machine, the jobs on it, and those with a reservation.
struct World {
    m: Resources,
    requests: Vec<Arc<Request>>,
    now: f64,
    next: u64,
    running: Vec<JobId>,
    /// With its request, and for how long.
    reserved: Vec<(JobId, usize, f64)>,
    /// One that was dropped and is made anew.
    dropped: Option<(JobId, usize, f64)>,
}

impl World {
    fn new(requests: impl Fn(&mut Resources) -> Vec<Arc<Request>>) -> World {
        let mut m = cluster(6, 2, 0);
        let requests = requests(&mut m);
        World { m, requests, now: 0.0, next: 1, running: Vec::new(), reserved: Vec::new(), dropped: None }
    }

    fn step(&mut self, op: &Op) {
        let World { m, requests, now, next, running, reserved, dropped } = self;
        match *op {
            Op::Start(request, length) => {
                let end = *now + f64::from(length);
                if start(m, *next, &requests[request], *now, end, Placement::First).is_ok() {
                    running.push(JobId(*next));
                    *next += 1;
                }
            }
            Op::End(at, part) if !running.is_empty() => {
                let at = at % running.len();
                let id = running[at];
                let rank = m.allocation_r(id).unwrap().ranks().iter().next().unwrap();
                let ranks = part.then(|| Idset::from_iter([rank]));
                if m.release(id, ranks.as_ref()).unwrap() {
                    running.remove(at);
                }
            }
            Op::Reserve(request, length) => {
                let length = f64::from(length);
                if let Some(at) = m.earliest(&requests[request], *now, length) {
                    m.reserve(JobId(*next), &requests[request], at, length).unwrap();
                    reserved.push((JobId(*next), request, length));
                    *next += 1;
                }
            }
            Op::Again(at) => match dropped.take() {
                Some((id, request, length)) => {
                    if let Some(start) = m.earliest(&requests[request], *now, length) {
                        m.reserve(id, &requests[request], start, length).unwrap();
                        reserved.push((id, request, length));
                    }
                }
                None if !reserved.is_empty() => {
                    let gone = reserved.remove(at % reserved.len());
                    assert!(m.unreserve(gone.0));
                    *dropped = Some(gone);
                }
                None => {}
            },
            Op::Drop(at) if !reserved.is_empty() => {
                let at = at % reserved.len();
                m.unreserve(reserved.remove(at).0);
            }
            Op::DropMany(but) => {
                let many = reserved.split_off(but.min(reserved.len()));
                let many: Vec<JobId> = many.into_iter().map(|(id, ..)| id).collect();
                let mut one_by_one = m.clone();
                many.iter().for_each(|id| assert!(one_by_one.unreserve(*id)));
                // A job without a reservation changes nothing.
                let mut asked = many;
                asked.push(JobId(*next));
                m.unreserve_all(&asked);
                let left = |m: &Resources| m.reservations().collect::<Vec<_>>();
                assert_eq!(left(m), left(&one_by_one));
            }
            Op::Later(by) => *now += f64::from(by),
            Op::Node(node, up) => {
                let node = Idset::from_iter([node]);
                if up { m.set_up(&node) } else { m.set_down(&node) }
            }
            Op::Extend(at, by) if !running.is_empty() => {
                m.set_end(running[at % running.len()], *now + f64::from(by)).unwrap();
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(config(200))]
    #[test]
    fn a_plan_kept_in_step_is_the_plan_made_anew(
        whole: bool,
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let part = |m: &mut Resources| [1, 3, 9].map(|n| cores(m, n, 1)).to_vec();
        let node = |m: &mut Resources| [1, 2, 5].map(|n| nodes(m, n)).to_vec();
        // Reservations of one kind are planned in counts.
        let mut world = World::new(|m| if whole { node(m) } else { part(m) });
        for op in ops {
            world.step(&op);
            let World { m, requests, now, .. } = &mut world;
            let anew = answers(m, requests, *now, true);
            prop_assert_eq!(answers(m, requests, *now, false), anew);
        }
    }

    #[test]
    fn places_kept_in_step_are_those_of_a_new_simulation(
        mixed: bool,
        ops in prop::collection::vec(op(), 1..60),
    ) {
        // Starts beside reservations of another kind; with `mixed`, reservations of both kinds.
        let mut world = World::new(|m| vec![nodes(m, 3), cores(m, 2, 1), cores(m, 1, 1)]);
        for op in ops {
            let op = match op {
                Op::Reserve(_, length) if !mixed => Op::Reserve(0, length),
                op => op,
            };
            world.step(&op);
            let World { m, requests, now, .. } = &mut world;
            prop_assert!(m.planning.plan.as_ref().is_none_or(|plan| plan.is_in_step(&m.machine)));
            for request in requests {
                let _ = m.match_now(request, *now, *now + 50.0, Placement::First);
            }
        }
    }
}
