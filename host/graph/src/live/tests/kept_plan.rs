//! A plan in counts that is updated with every change gives the answers of a plan that is rebuilt; a plan in places has the places
//! of a new simulation.

use proptest::prelude::*;

use super::*;
use crate::live::places::MOVES;
use crate::live::plan::Plan;

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
                m.unreserve_all(asked.iter().copied());
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

/// Jobs in the order of a queue, and how long they take.
type Queue = Vec<(JobId, usize, f64)>;

/// The pass of a policy that gives the first `depth` jobs of a queue reservations: each starts, or has its earliest start reserved.
fn pass(
    m: &mut Resources,
    queue: &Queue,
    depth: usize,
    requests: &[Arc<Request>],
    now: f64,
) -> Vec<(JobId, f64)> {
    let reserved: Vec<JobId> = m.reservations().map(|(id, ..)| id).collect();
    m.unreserve_all(reserved.iter().copied());
    let mut told = Vec::new();
    for &(id, request, length) in queue.iter().take(depth) {
        let request = &requests[request];
        if let Ok(selection) = m.match_now(request, now, now + length, Placement::First) {
            m.allocate(id, &selection, now, now + length).unwrap();
            told.push((id, now));
        } else if let Some(start) = m.earliest(request, now, length) {
            m.reserve(id, request, start, length).unwrap();
            told.push((id, start));
        }
    }
    told
}

proptest! {
    #![proptest_config(config(300))]
    #[test]
    fn reservations_made_again_are_those_that_a_search_makes(
        running in prop::collection::vec((0..3usize, 1..40u8), 1..14),
        waiting in prop::collection::vec((0..5usize, 1..40u8), 1..10),
        depth in 1..8usize,
        turns in prop::collection::vec((0..8usize, 0..8usize, 0..5u8), 1..5),
    ) {
        let mut m = cluster(6, 2, 0);
        let requests = vec![cores(&mut m, 1, 1), cores(&mut m, 3, 1), nodes(&mut m, 1), nodes(&mut m, 3), nodes(&mut m, 5)];
        let mut now = 0.0;
        for (number, &(request, length)) in running.iter().enumerate() {
            let end = now + f64::from(length);
            let _ = start(&mut m, 1000 + number as u64, &requests[request], now, end, Placement::First);
        }
        let job = |(n, &(request, length)): (usize, &(usize, u8))| (JobId(n as u64), request, f64::from(length));
        let mut queue: Queue = waiting.iter().enumerate().map(job).collect();
        let (mut newcomers, mut moved) = (100.., false);
        for (kind, at, later) in turns {
            // A copy has nothing parked.
            let mut copy = m.clone();
            let moves = MOVES.get();
            let anew = pass(&mut copy, &queue, depth, &requests, now);
            let told = pass(&mut m, &queue, depth, &requests, now);
            moved |= MOVES.get() > moves;
            // A search may find more after others have made room for a later one.
            if !moved {
                prop_assert_eq!(&told, &anew);
            }
            let mut starts: Vec<_> = m.reservations().map(|(id, start, _)| (id, start)).collect();
            let mut planned = m.with_plan(now, |plan, machine| plan.starts(machine));
            starts.sort_by_key(|of| of.0);
            planned.sort_by_key(|of| of.0);
            prop_assert_eq!(planned, starts);
            prop_assert!(m.planning.plan.as_ref().is_none_or(|plan| plan.is_in_step(&m.machine)));
            queue.retain(|(id, ..)| m.allocation(*id).is_none());
            match kind {
                0 if at < queue.len() => drop(queue.remove(at)),
                1 => queue.insert(at.min(queue.len()), (JobId(newcomers.next().unwrap()), at % 5, 7.0)),
                2 if at + 1 < queue.len() => queue.swap(at, at + 1),
                3 => drop(m.release(JobId(1000 + at as u64), None)),
                4 => m.set_down(&Idset::from_iter([at as u32 % 6])),
                _ => now += f64::from(later) / 4.0,
            }
        }
    }
}

fn is_parked(m: &Resources) -> bool {
    m.planning.plan.as_ref().is_some_and(Plan::is_parked)
}

/// A job of two nodes runs, and jobs of different kinds wait.
fn three_reservations() -> (Resources, Queue, Vec<Arc<Request>>) {
    let mut m = cluster(6, 2, 0);
    let requests = vec![nodes(&mut m, 5), cores(&mut m, 9, 1), nodes(&mut m, 6), cores(&mut m, 1, 1)];
    let two = nodes(&mut m, 2);
    start(&mut m, 1000, &two, 0.0, 50.0, Placement::First).unwrap();
    let queue = (0..3).map(|n| (JobId(n), n as usize, 20.0 + n as f64)).collect();
    pass(&mut m, &queue, 3, &requests, 0.0);
    (m, queue, requests)
}

#[test]
fn a_pass_in_which_nothing_ended_early_repeats_no_search() {
    let (mut m, queue, requests) = three_reservations();
    // A job that delays none of them does not matter.
    start(&mut m, 1001, &requests[3], 0.0, 30.0, Placement::First).unwrap();
    let before: Vec<_> = m.reservations().collect();
    m.unreserve_all([JobId(0), JobId(1), JobId(2)]);
    for (number, &(id, request, length)) in queue.iter().enumerate() {
        assert!(is_parked(&m), "{number} reservations were made again");
        let request = &requests[request];
        assert!(m.match_now(request, 5.0, 5.0 + length, Placement::First).is_err());
        let start = m.earliest(request, 5.0, length).unwrap();
        m.reserve(id, request, start, length).unwrap();
    }
    assert!(!is_parked(&m), "the plan is as it was");
    assert_eq!(m.reservations().collect::<Vec<_>>(), before);
    assert!(m.planning.plan.as_ref().unwrap().is_in_step(&m.machine));
}

#[test]
fn a_reservation_that_is_late_is_searched_anew() {
    let (mut m, queue, requests) = three_reservations();
    // The first was to start at 50.
    assert!(m.earliest(&requests[1], 60.0, 1.0).is_some_and(|start| start > 60.0));
    m.unreserve_all([JobId(0), JobId(1), JobId(2)]);
    assert!(!is_parked(&m));
    assert!(pass(&mut m, &queue, 3, &requests, 60.0).iter().all(|(_, start)| *start > 60.0));
}

#[test]
fn jobs_of_one_kind_in_another_order_keep_their_own_reservations() {
    let (mut m, mut queue, requests) = three_reservations();
    let (id, request, length) = queue[1];
    queue.insert(1, (JobId(id.0 + 100), request, length));
    pass(&mut m, &queue, 4, &requests, 1.0);
    queue.swap(1, 2);
    let told = pass(&mut m, &queue, 4, &requests, 2.0);
    assert_eq!(
        told.iter().map(|of| of.0).collect::<Vec<_>>(),
        queue.iter().map(|of| of.0).collect::<Vec<_>>()
    );
    let mut planned = m.with_plan(2.0, |plan, machine| plan.starts(machine));
    planned.sort_by_key(|of| of.0);
    let mut told = told;
    told.sort_by_key(|of| of.0);
    assert_eq!(planned, told);
}

#[test]
fn a_start_that_was_refused_for_its_end_is_possible_with_a_sooner_one() {
    let mut m = cluster(6, 2, 0);
    let three = nodes(&mut m, 3);
    start(&mut m, 1000, &three, 0.0, 50.0, Placement::First).unwrap();
    let requests = vec![nodes(&mut m, 4), cores(&mut m, 9, 1), nodes(&mut m, 6), cores(&mut m, 3, 1)];
    let mut queue: Queue = (0..3).map(|n| (JobId(n), n as usize, 20.0)).collect();
    queue.push((JobId(3), 3, 100.0));
    // Beside three cores there are four idle nodes at 50, nine cores at 70, and no six idle nodes at 90.
    for now in [0.0, 1.0] {
        let told = pass(&mut m, &queue, 4, &requests, now);
        assert_eq!(told.iter().map(|of| of.1).collect::<Vec<_>>(), [50.0, 70.0, 90.0, 110.0]);
    }
    queue[3].2 = 85.0;
    pass(&mut m, &queue, 4, &requests, 2.0);
    assert!(m.allocation(JobId(3)).is_some());
}

#[test]
fn a_change_that_may_help_has_all_reservations_searched() {
    type Change = fn(&mut Resources);
    let changes: [Change; 5] = [
        |m| assert!(m.release(JobId(1000), None).unwrap()),
        |m| m.set_end(JobId(1000), 40.0).unwrap(),
        |m| m.set_down(&Idset::from_iter([5])),
        |m| assert!(m.unreserve(JobId(1))),
        |m| m.property_add("x", &Idset::from_iter([0])),
    ];
    for change in changes {
        let (mut m, queue, requests) = three_reservations();
        change(&mut m);
        let mut copy = m.clone();
        m.unreserve_all([JobId(0), JobId(1), JobId(2)]);
        assert!(!is_parked(&m));
        let told = |m: &mut Resources| pass(m, &queue, 3, &requests, 5.0);
        assert_eq!(told(&mut m), told(&mut copy));
    }
}
