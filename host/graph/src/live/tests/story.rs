//! Random sequences on machines with sockets, gpus, memory and licences. For every request and placement: no unit is
//! held twice, totals are right, a start delays no reservation, and at the end the machine is as it was at first.

use proptest::prelude::*;

use super::*;
#[derive(Debug, Clone)]
enum Step {
    Start { shape: usize, duration: u32, placement: usize },
    Reserve { shape: usize, duration: u32 },
    Release { job: usize, rank: Option<u32> },
    Overstay { job: usize, by: u32 },
    Flap(u32),
    Wait(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let shapes = SHAPES.len();
    prop_oneof![
        8 => (0..shapes, 1..20u32, 0..5usize)
            .prop_map(|(shape, duration, placement)| Step::Start { shape, duration, placement }),
        3 => (0..shapes, 1..20u32).prop_map(|(shape, duration)| Step::Reserve { shape, duration }),
        3 => (0..8usize, proptest::option::of(0..2u32)).prop_map(|(job, rank)| Step::Release { job, rank }),
        1 => (0..8usize, 1..20u32).prop_map(|(job, by)| Step::Overstay { job, by }),
        1 => (0..2u32).prop_map(Step::Flap),
        2 => (1..10u32).prop_map(Step::Wait),
    ]
}

/// Resources and constraints of jobs on the machine of `load::machine`.
const SHAPES: [(&str, &str); 12] = [
    (r#"{"type":"slot","count":1,"label":"x","with":[{"type":"core","count":1}]}"#, "{}"),
    (r#"{"type":"slot","count":3,"label":"x","with":[{"type":"core","count":2}]}"#, "{}"),
    (
        r#"{"type":"slot","count":2,"label":"x","with":[{"type":"core","count":1},{"type":"gpu","count":1}]}"#,
        "{}",
    ),
    (
        r#"{"type":"slot","count":1,"label":"x","with":[{"type":"core","count":1},{"type":"memory","count":5}]}"#,
        "{}",
    ),
    (
        r#"{"type":"slot","count":1,"label":"x","with":[{"type":"node","count":1,"with":[{"type":"core","count":1}]}]}"#,
        "{}",
    ),
    (
        r#"{"type":"slot","count":1,"label":"x","with":[{"type":"socket","count":1,"with":[{"type":"core","count":2}]}]}"#,
        "{}",
    ),
    (
        r#"{"type":"socket","count":2,"with":[{"type":"slot","count":1,"label":"x","with":[{"type":"core","count":2}]}]}"#,
        "{}",
    ),
    (
        r#"{"type":"node","count":2,"with":[{"type":"slot","count":2,"label":"x","with":[{"type":"core","count":1}]}]}"#,
        "{}",
    ),
    (
        r#"{"type":"slot","count":1,"label":"x","with":[{"type":"core","count":2}]}"#,
        r#"{"properties":["p1"]}"#,
    ),
    (
        r#"{"type":"slot","count":1,"label":"x","with":[{"type":"core","count":1}]},{"type":"license","count":2}"#,
        "{}",
    ),
    (
        r#"{"type":"rack","count":1,"exclusive":true,"with":[{"type":"slot","count":1,"label":"x","with":[{"type":"core","count":1}]}]}"#,
        "{}",
    ),
    (
        r#"{"type":"slot","count":{"min":1,"max":3},"label":"x","with":[{"type":"core","count":{"min":1,"max":4}}]}"#,
        r#"{"ranks":["0"]}"#,
    ),
];

/// The planned start of each reservation.
pub(super) fn starts(m: &mut Resources, now: f64) -> Vec<(JobId, f64)> {
    let mut list = m.with_plan(now, |plan, machine| plan.starts(machine));
    list.sort_by_key(|(id, _)| *id);
    list
}

/// True if every reservation starts at its reserved time. After nodes went down or jobs overstayed, reservations
/// start as soon as possible, and starts in between may change their order.
pub(super) fn on_time(m: &Resources, now: f64, starts: &[(JobId, f64)]) -> bool {
    let reserved: std::collections::BTreeMap<JobId, f64> =
        m.reservations().map(|(id, start, _)| (id, start.max(now))).collect();
    reserved.len() == starts.len() && starts.iter().all(|(id, start)| reserved[id] == *start)
}

/// Counts free units one by one, and compares them with the totals.
fn check(m: &Resources) {
    let free = m.to_r_all().diff(&m.allocated_r()).diff(&m.down_r());
    let t = m.totals();
    assert_eq!((free.count("core"), free.count("gpu")), (u64::from(t.free_cores), u64::from(t.free_gpus)));
    let mut sum = R::new();
    for (id, _) in m.allocations() {
        sum = sum.append(&m.allocation_r(id).unwrap()).expect("M16-5: no unit is held twice");
    }
    assert_eq!(sum.count("core"), m.allocated_r().count("core"));
}

fn live(steps: &[Step]) {
    let mut m = load::machine();
    let idle = (
        m.totals(),
        m.machine.index.live().map(|s| s.free.clone()).collect::<Vec<_>>(),
        m.machine.ledger.upper().to_vec(),
    );
    let requests: Vec<Arc<Request>> = SHAPES
        .iter()
        .map(|(spec, constraint)| m.compile(&jobspec_with(&format!("[{spec}]"), constraint)).unwrap())
        .collect();
    for request in &requests {
        m.satisfiable(request).unwrap();
    }
    let mut now = 0.0;
    let mut next = 1;
    for step in steps {
        match *step {
            Step::Start { shape, duration, placement } => {
                let end = now + f64::from(duration);
                let before = starts(&mut m, now);
                let Ok(found) = m.match_now(&requests[shape], now, end, Placement::ALL[placement]) else {
                    if m.machine.reservations.is_empty() {
                        assert_ne!(
                            m.earliest(&requests[shape], now, 1.0),
                            Some(now),
                            "refused, though it fits"
                        );
                    }
                    continue;
                };
                let r = m.selection_to_r(&found, now, end);
                assert!(r.count("core") > 0 && R::from_json(&r.to_json()).is_ok());
                m.allocate(JobId(next), &found, now, end).unwrap();
                assert_eq!(m.allocation_r(JobId(next)).unwrap(), r);
                next += 1;
                if !on_time(&m, now, &before) {
                    continue;
                }
                for ((id, start), (other, was)) in starts(&mut m, now).into_iter().zip(before) {
                    assert_eq!(id, other);
                    assert!(
                        start <= was,
                        "the start of {} moved the reservation of {id} from {was} to {start}",
                        next - 1
                    );
                }
            }
            Step::Reserve { shape, duration } => {
                let duration = f64::from(duration);
                let before = starts(&mut m, now);
                let kept = on_time(&m, now, &before);
                if let Some(at) = m.earliest(&requests[shape], now, duration) {
                    m.reserve(JobId(next), &requests[shape], at, duration).unwrap();
                    let after = starts(&mut m, now);
                    if !on_time(&m, now, &after) {
                        assert!(!kept, "{before:?} became {after:?}, reserved {at}");
                    }
                    next += 1;
                }
            }
            Step::Release { job, rank } => {
                let Some(id) = m.allocations().map(|(id, _)| id).nth(job) else { continue };
                m.release(id, rank.map(Idset::from).as_ref()).unwrap();
            }
            Step::Overstay { job, by } => {
                let Some((id, end)) = m.allocations().map(|(id, a)| (id, a.end)).nth(job) else { continue };
                m.set_end(id, end + f64::from(by)).unwrap();
            }
            Step::Flap(rank) => {
                let rank = Idset::from(rank);
                if m.up().is_disjoint(&rank) { m.set_up(&rank) } else { m.set_down(&rank) }
            }
            Step::Wait(seconds) => {
                now += f64::from(seconds);
                let ids: Vec<JobId> =
                    m.reservations().filter(|(_, start, _)| *start <= now).map(|r| r.0).collect();
                for id in ids {
                    m.unreserve(id);
                }
            }
        }
        check(&m);
    }
    let left: Vec<JobId> = m.allocations().map(|(id, _)| id).collect();
    for id in left {
        assert_eq!(m.release(id, None), Ok(true));
    }
    m.set_up(&ids("0-1"));
    let mut end = (
        m.totals(),
        m.machine.index.live().map(|s| s.free.clone()).collect::<Vec<_>>(),
        m.machine.ledger.upper().to_vec(),
    );
    end.1.sort();
    let mut start = idle;
    start.1.sort();
    assert_eq!(end, start, "release restores exactly");
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn a_life(steps in proptest::collection::vec(step(), 1..50)) {
        live(&steps);
    }
}
