//! Reservations that are made anew have the starts of a list of seconds, whatever happened between two passes.

use proptest::prelude::*;

use super::*;

const CORES: u32 = 12;

#[derive(Debug, Clone)]
enum Op {
    /// A job with so many cores and seconds comes: it starts, or gets a reservation.
    Come(u32, u8),
    /// The running job at this position ends.
    End(usize),
    /// The reservation at this position is dropped.
    Cancel(usize),
    /// The running job at this position gets another end.
    Extend(usize, u8),
    /// A node goes down or comes up.
    Node(u32, bool),
    /// Advances the time.
    Later(u8),
    /// All jobs whose expected end comes next end then.
    OnTime,
    /// A checkpoint is made.
    Checkpoint,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1..=CORES, 1..40u8).prop_map(|(n, d)| Op::Come(n, d)),
        4 => (0..20usize).prop_map(Op::End),
        1 => (0..20usize).prop_map(Op::Cancel),
        1 => (0..20usize, 1..40u8).prop_map(|(at, d)| Op::Extend(at, d)),
        1 => (0..CORES, prop::bool::weighted(0.7)).prop_map(|(node, up)| Op::Node(node, up)),
        4 => (1..6u8).prop_map(Op::Later),
        4 => Just(Op::OnTime),
        1 => Just(Op::Checkpoint),
    ]
}

/// Units from a start to an end.
#[derive(Debug, Clone, Copy)]
struct Held {
    id: JobId,
    cores: u32,
    start: f64,
    end: f64,
    duration: f64,
}

struct World {
    m: Resources,
    now: f64,
    next: u64,
    running: Vec<Held>,
    /// In the order of their starts.
    reserved: Vec<Held>,
}

impl World {
    fn request(&mut self, n: u32) -> Arc<Request> {
        cores(&mut self.m, n, 1)
    }

    /// The earliest start beside running jobs and these reservations.
    fn earliest(&self, beside: &[Held], n: u32, duration: f64) -> f64 {
        let soon = self.now.next_up();
        let running = self.running.iter().map(|held| Held { end: held.end.max(soon), ..*held });
        let all: Vec<Held> = running.chain(beside.iter().copied()).collect();
        let total = self.m.totals().up_nodes;
        let free = |t: f64| {
            let held = all.iter().filter(|held| held.start <= t && t < held.end);
            total.saturating_sub(held.map(|held| held.cores).sum())
        };
        let fits = |t: f64| {
            let begun = all.iter().map(|held| held.start).filter(|start| *start > t && *start < t + duration);
            std::iter::once(t).chain(begun).all(|t| free(t) >= n)
        };
        let ends = all.iter().map(|held| held.end).filter(|end| *end > self.now);
        let times = std::iter::once(self.now).chain(ends).filter(|t| fits(*t));
        times.fold(f64::INFINITY, f64::min)
    }

    fn start(&mut self, id: JobId, n: u32, duration: f64) {
        let (request, now) = (self.request(n), self.now);
        start(&mut self.m, id.0, &request, now, now + duration, Placement::First).unwrap();
        self.running.push(Held { id, cores: n, start: now, end: now + duration, duration });
    }

    /// As a policy with a reservation for each job does, in the order of their starts.
    fn pass(&mut self) {
        let all = std::mem::take(&mut self.reserved);
        let renews = self.m.can_renew(self.now);
        let keeps = renews && self.m.keeps_reservations(self.now);
        if !renews {
            all.iter().for_each(|held| assert!(self.m.unreserve(held.id)));
        }
        for held in all {
            let duration = held.duration;
            let expected = self.earliest(&self.reserved, held.cores, duration);
            let request = self.request(held.cores);
            let found = match renews {
                true if keeps => Some(held.start),
                true => self.m.renew(held.id, self.now),
                false => self.m.earliest(&request, self.now, duration).filter(|start| *start > self.now),
            };
            match found {
                None if expected.is_finite() => {
                    assert_eq!(expected, self.now, "{held:?}");
                    self.start(held.id, held.cores, duration);
                }
                None => assert!(!renews, "not with the nodes that are up: {held:?}"),
                Some(start) => {
                    assert_eq!(start, expected, "{held:?}");
                    if !renews {
                        self.m.reserve(held.id, &request, start, duration).unwrap();
                        self.m.note_earliest(held.id, self.now);
                    }
                    self.reserved.push(Held { start, end: start + duration, ..held });
                }
            }
        }
        self.reserved.sort_by(|a, b| a.start.total_cmp(&b.start));
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Come(n, duration) => {
                let (request, duration, id) = (self.request(n), f64::from(duration), JobId(self.next));
                self.next += 1;
                match self.m.earliest(&request, self.now, duration) {
                    None => {}
                    Some(start) if start <= self.now => self.start(id, n, duration),
                    Some(start) => {
                        self.m.reserve(id, &request, start, duration).unwrap();
                        self.m.note_earliest(id, self.now);
                        self.reserved.push(Held { id, cores: n, start, end: start + duration, duration });
                        self.reserved.sort_by(|a, b| a.start.total_cmp(&b.start));
                    }
                }
            }
            Op::End(at) if !self.running.is_empty() => {
                let held = self.running.remove(at % self.running.len());
                self.m.release(held.id, None).unwrap();
            }
            Op::Cancel(at) if !self.reserved.is_empty() => {
                let held = self.reserved.remove(at % self.reserved.len());
                assert!(self.m.unreserve(held.id));
            }
            Op::Extend(at, more) if !self.running.is_empty() => {
                let at = at % self.running.len();
                let held = &mut self.running[at];
                held.end = self.now + f64::from(more);
                self.m.set_end(held.id, held.end).unwrap();
            }
            Op::Node(node, up) => {
                let (rank, free) = (Idset::from_iter([node]), self.m.totals().free_nodes);
                if up {
                    return self.m.set_up(&rank);
                }
                self.m.set_down(&rank);
                // The list of seconds does not know which nodes a job has.
                if self.m.totals().free_nodes == free {
                    self.m.set_up(&rank);
                }
            }
            Op::Later(seconds) => self.now += f64::from(seconds),
            Op::OnTime => {
                let next = self.running.iter().map(|held| held.end).filter(|end| *end >= self.now);
                self.now = next.min_by(f64::total_cmp).unwrap_or(self.now);
                let now = self.now;
                for held in self.running.extract_if(.., |held| held.end == now) {
                    self.m.release(held.id, None).unwrap();
                }
            }
            Op::Checkpoint => drop(self.m.settle_hints(|_| None)),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn reservations_made_anew_start_when_a_list_of_seconds_says(
        ops in prop::collection::vec((op(), any::<bool>()), 0..120),
    ) {
        let m = cluster(CORES, 1, 0);
        let mut world = World { m, now: 0.0, next: 1, running: Vec::new(), reserved: Vec::new() };
        for (op, pass) in ops {
            world.apply(op);
            if pass {
                world.pass();
            }
        }
    }
}

#[test]
fn nothing_is_searched_again_while_jobs_end_and_start_when_they_should() {
    let mut m = cluster(CORES, 1, 0);
    let whole = cores(&mut m, CORES, 1);
    start(&mut m, 1, &whole, 0.0, 10.0, Placement::First).unwrap();
    for (id, at) in [(2, 10.0), (3, 20.0), (4, 30.0)] {
        m.reserve(JobId(id), &whole, at, 10.0).unwrap();
    }
    let renewed = |m: &mut Resources, now: f64| -> Vec<Option<f64>> {
        assert!(m.can_renew(now));
        let ids: Vec<JobId> = m.reservations().map(|(id, ..)| id).collect();
        ids.into_iter()
            .map(|id| {
                let start_at = m.renew(id, now);
                if start_at.is_none() {
                    start(m, id.0, &whole, now, now + 10.0, Placement::First).unwrap();
                }
                start_at
            })
            .collect()
    };
    let state = |m: &mut Resources| m.planning.sooner.state(m.epoch);
    assert_eq!(renewed(&mut m, 3.0), [Some(10.0), Some(20.0), Some(30.0)]);
    let searched = state(&mut m);
    assert!(m.can_renew(4.0) && m.keeps_reservations(4.0), "all were searched");
    m.reserve(JobId(5), &whole, 40.0, 10.0).unwrap();
    assert!(m.can_renew(5.0) && !m.keeps_reservations(5.0), "job 5 was not");
    m.note_earliest(JobId(5), 5.0);
    assert!(m.keeps_reservations(5.0) && m.unreserve(JobId(5)));
    assert!(m.can_renew(6.0) && !m.keeps_reservations(6.0), "job 5 has left something free");
    assert_eq!(renewed(&mut m, 6.0), [Some(10.0), Some(20.0), Some(30.0)]);
    let searched_again = state(&mut m);
    assert_ne!(searched_again, searched);
    let searched = searched_again;
    m.release(JobId(1), None).unwrap();
    assert!(m.can_renew(10.0) && !m.keeps_reservations(10.0), "job 2 is due");
    assert_eq!(renewed(&mut m, 10.0), [None, Some(20.0), Some(30.0)]);
    assert_eq!(state(&mut m), searched, "job 1 ended on time, and job 2 started on time");
    m.release(JobId(2), None).unwrap();
    assert_eq!(renewed(&mut m, 15.0), [None, Some(25.0)]);
    assert_ne!(state(&mut m), searched, "job 2 ended early");
    // A job that is late is expected to end at any time.
    assert!(!m.can_renew(25.0) && m.unreserve(JobId(4)));
    let late = m.earliest(&whole, 25.0, 10.0).unwrap();
    m.reserve(JobId(4), &whole, late, 10.0).unwrap();
    assert_eq!((renewed(&mut m, 25.0), late), (vec![Some(late)], 25.0_f64.next_up()));
    let searched = state(&mut m);
    assert_eq!((renewed(&mut m, 25.0), state(&mut m)), (vec![Some(late)], searched));
    m.release(JobId(3), None).unwrap();
    assert_eq!(renewed(&mut m, 25.0), [None]);
    assert_ne!(state(&mut m), searched);
}
