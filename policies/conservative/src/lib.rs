//! The policy `conservative`; its page is README.md beside `src/`.
//!
#![doc = include_str!("../README.md")]

use std::collections::BTreeMap;

use fluxgate_guest::JOBS_MAX;
use fluxgate_guest::prelude::*;

/// The order in which reservations are made anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Renew {
    #[default]
    Reservation,
    Queue,
}

/// The policy; README.md of this crate defines its rule.
#[derive(Debug, Default)]
pub struct Conservative {
    renew: Renew,
    /// For each queue, the reserved starts of its last pass by job.
    reservations: BTreeMap<u32, Vec<(JobId, f64)>>,
}

impl Policy for Conservative {
    fn info() -> Info {
        Info::new("conservative", "Conservative backfilling: every waiting job has a reservation")
            .version(env!("CARGO_PKG_VERSION"))
            .key(
                "renew",
                Kind::Text,
                "reservation",
                "order in which reservations are renewed: reservation or queue",
            )
    }

    fn configure(&mut self, config: &Config) -> Result<(), String> {
        self.renew = match config.text("renew")? {
            // `promise` is its earlier name.
            "reservation" | "promise" => Renew::Reservation,
            "queue" => Renew::Queue,
            other => return Err(format!("`renew` is {other}, but must be reservation or queue")),
        };
        Ok(())
    }
}

/// A candidate in this pass.
struct Turn {
    /// Reserved start of the last pass; infinite without one.
    reserved: f64,
    candidate: Candidate,
    id: JobId,
    /// Its index among the reservations of the last pass.
    before: Option<usize>,
}

/// The reservations of the last pass in the order of ids, and which of them were made again.
struct Reservations {
    before: Vec<(JobId, f64)>,
    /// By index in `before`; NaN for a job without a reservation now.
    renewed: Vec<f64>,
    new: Vec<(JobId, f64)>,
}

impl Reservations {
    fn of(before: Vec<(JobId, f64)>) -> Self {
        Reservations { renewed: vec![f64::NAN; before.len()], before, new: Vec::new() }
    }

    fn make(&mut self, turn: &Turn, start: f64) {
        match turn.before {
            Some(at) => self.renewed[at] = start,
            None => self.new.push((turn.id, start)),
        }
    }

    /// All current reservations, in the order of ids, with those that were kept. Most were there before, and are in order.
    fn standing(self, kept: Vec<(JobId, f64)>) -> Vec<(JobId, f64)> {
        let mut all = self.before;
        let mut renewed = self.renewed.into_iter();
        all.retain_mut(|reservation| {
            renewed.next().is_some_and(|start| {
                reservation.1 = start;
                !start.is_nan()
            })
        });
        // Where some were kept, none was made here again.
        all.extend(kept);
        all.extend(self.new);
        if !all.is_sorted_by_key(|p| p.0) {
            all.sort_unstable_by_key(|p| p.0);
        }
        all
    }
}

impl Conservative {
    /// All candidates, in the order of their turn.
    fn turns(&self, pass: &mut dyn Pass, before: &[(JobId, f64)]) -> Vec<Turn> {
        let mut turns = Vec::with_capacity(before.len() + 1);
        let mut likely = 0;
        each_job(pass, usize::MAX, |candidate, Job { id, priority, .. }| {
            // Mostly the order of the queue is that of ids.
            let place = match before.get(likely) {
                Some(reservation) if reservation.0 == id => Some(likely),
                _ => before.binary_search_by_key(&id, |p| p.0).ok(),
            };
            likely = place.map_or(likely, |place| place + 1);
            let reserved = match place {
                _ if priority == u32::MAX => f64::NEG_INFINITY,
                Some(at) => before[at].1,
                None => f64::INFINITY,
            };
            turns.push(Turn { reserved, candidate, id, before: place });
        });
        if self.renew == Renew::Reservation {
            // A stable sort: jobs with equal reserved starts, and jobs without one, stay in the host's order.
            turns.sort_by(|a, b| a.reserved.total_cmp(&b.reserved));
        }
        turns
    }
}

/// Reservations in the order of ids, after those of some jobs have got other starts, or none.
fn changed(mut all: Vec<(JobId, f64)>, renewed: &[(JobId, f64)]) -> Vec<(JobId, f64)> {
    for (id, start) in renewed {
        if let Ok(at) = all.binary_search_by_key(id, |p| p.0) {
            all[at].1 = if start.is_finite() { *start } else { f64::NAN };
        }
    }
    if renewed.iter().any(|(_, start)| !start.is_finite()) {
        all.retain(|(_, start)| !start.is_nan());
    }
    all
}

/// True if the first candidate is expedited, so that its turn is before all reservations.
fn expedites(pass: &mut dyn Pass) -> bool {
    let first = pass.next();
    let expedited = first.is_some_and(|first| pass.describe(first).priority == u32::MAX);
    pass.rewind();
    expedited
}

impl Scheduling for Conservative {
    fn run(&mut self, pass: &mut dyn Pass) {
        let queue = pass.queue();
        let mut before = self.reservations.remove(&queue).unwrap_or_default();
        // If the host renews the reservations in their order, only jobs without one have turns.
        let asks = self.renew == Renew::Reservation && !before.is_empty() && !expedites(pass);
        let renewed = if asks { pass.renew(before.len()) } else { None };
        let kept = renewed.map(|renewed| changed(std::mem::take(&mut before), &renewed)).unwrap_or_default();
        let turns = self.turns(pass, &before);
        let mut reservations = Reservations::of(before);
        let mut rest = turns.as_slice();
        while !rest.is_empty() {
            let asked: Vec<_> = rest.iter().take(JOBS_MAX as usize).map(|turn| turn.candidate).collect();
            let starts = pass.start_or_reserve(&asked);
            let granted = rest.iter().zip(&starts).filter(|(_, start)| start.is_finite());
            granted.for_each(|(turn, start)| reservations.make(turn, *start));
            rest = &rest[starts.len()..];
            if starts.len() < asked.len() {
                break;
            }
        }
        // No more reservations: jobs that fit and delay none start.
        for (n, turn) in rest.iter().enumerate() {
            if pass.start(turn.candidate) == Err(Refusal::Limit) {
                // The host ends the pass here; jobs without a turn keep their reservation.
                let rest = rest[n..].iter().filter(|t| t.reserved.is_finite());
                rest.for_each(|turn| reservations.make(turn, turn.reserved));
                break;
            }
        }
        let reservations = reservations.standing(kept);
        if !reservations.is_empty() {
            self.reservations.insert(queue, reservations);
        }
    }
}

/// Version of the format of its state.
const STATE_VERSION: u32 = 1;

/// The reservations of the last pass, so that they are made anew in their order: for each queue its number and how many there are, then
/// job and start of each; numbers are little-endian.
impl State for Conservative {
    fn save(&self) -> Saved {
        let mut data = Vec::new();
        for (queue, reservations) in &self.reservations {
            data.extend(u64::from(*queue).to_le_bytes());
            data.extend((reservations.len() as u64).to_le_bytes());
            for (id, start) in reservations {
                data.extend(id.to_le_bytes());
                data.extend(start.to_le_bytes());
            }
        }
        Saved { version: STATE_VERSION, data }
    }

    fn restore(&mut self, from: &str, version: u32, data: &[u8]) -> Result<(), String> {
        if (from, version) != ("conservative", STATE_VERSION) {
            return Err(format!(
                "only reservations that conservative saved in format {STATE_VERSION} are understood"
            ));
        }
        self.reservations = reservations(data).ok_or("the reservations are cut off or out of order")?;
        Ok(())
    }
}

/// Reads what `save` wrote.
fn reservations(data: &[u8]) -> Option<BTreeMap<u32, Vec<(JobId, f64)>>> {
    let mut words = data.chunks(8).map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)));
    let mut all = BTreeMap::new();
    while let Some(queue) = words.next() {
        let (queue, count) = (u32::try_from(queue?).ok()?, words.next()??);
        let mut of = Vec::new();
        for _ in 0..count {
            let (id, start) = (words.next()??, f64::from_bits(words.next()??));
            let in_order = of.last().is_none_or(|(before, _)| *before < id);
            if !in_order || start.is_nan() {
                return None;
            }
            of.push((id, start));
        }
        all.insert(queue, of);
    }
    Some(all)
}

export_policy!(Conservative: scheduling, state);

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_guest::bench::{Bench, configured};

    #[test]
    fn every_waiting_job_has_a_reservation() {
        let mut bench = Bench::new(10);
        bench.job(1).cores(6).duration(100.0).running();
        bench.job(2).cores(8).duration(50.0).submit();
        bench.job(3).cores(10).duration(10.0).submit();
        bench.job(4).cores(2).duration(150.0).submit();
        bench.job(5).cores(2).duration(1000.0).submit();
        bench.run(&mut Conservative::default());
        // Job 4 ends just when job 3 begins; job 5 would be in its way.
        assert_eq!(bench.started(), [4]);
        assert_eq!(bench.reserved(), [(2, 100.0), (3, 150.0), (5, 160.0)]);
    }

    /// Job 1 ends early. In queue order job 3 moves into the gap that was reserved for job 4 and pushes it back.
    fn early_end(renew: &str) -> Vec<(u64, f64)> {
        let mut bench = Bench::new(4);
        let mut policy = configured::<Conservative>(&[("renew", renew)]).unwrap();
        bench.job(1).cores(2).duration(100.0).running();
        bench.job(2).cores(2).duration(50.0).running();
        bench.job(3).cores(3).duration(60.0).submit();
        bench.job(4).cores(2).duration(50.0).submit();
        bench.run(&mut policy);
        assert_eq!(bench.reserved(), [(3, 100.0), (4, 50.0)]);
        bench.advance(40.0);
        bench.end(1);
        bench.run(&mut policy);
        assert!(bench.reserved().len() + bench.started().len() == 2);
        let mut all: Vec<_> = bench.started().iter().map(|id| (*id, 40.0)).collect();
        all.extend(bench.reserved());
        all.sort_by_key(|each| each.0);
        all
    }

    #[test]
    fn a_reservation_never_moves_back_unless_the_queue_is_to_decide() {
        assert_eq!(early_end("reservation"), [(3, 90.0), (4, 40.0)]);
        assert_eq!(early_end("promise"), early_end("reservation"));
        assert_eq!(early_end("queue"), [(3, 50.0), (4, 110.0)]);
    }

    #[test]
    fn res_18_its_state_are_the_reservations_of_all_queues() {
        let mut policy = Conservative::default();
        policy.reservations.insert(0, vec![(3, 100.0), (4, f64::INFINITY)]);
        policy.reservations.insert(2, vec![(1, 0.5)]);
        let saved = policy.save();
        let mut other = Conservative::default();
        other.restore("conservative", saved.version, &saved.data).unwrap();
        assert_eq!(other.reservations, policy.reservations);
        assert!(
            other
                .restore("easy", 1, &saved.data)
                .unwrap_err()
                .contains("only reservations that conservative saved")
        );
        for cut in [1, 8, 20, saved.data.len() - 1] {
            let wrong = other.restore("conservative", 1, &saved.data[..cut]).unwrap_err();
            assert_eq!(wrong, "the reservations are cut off or out of order", "{cut}");
        }
        assert_eq!(other.reservations, policy.reservations, "what is refused changes nothing");
        // The order of the reservations outlives the instance.
        let again = |restored: bool| {
            let mut bench = Bench::new(4);
            let mut policy = Conservative::default();
            bench.job(1).cores(2).duration(100.0).running();
            bench.job(2).cores(2).duration(50.0).running();
            bench.job(3).cores(3).duration(60.0).submit();
            bench.job(4).cores(2).duration(50.0).submit();
            bench.run(&mut policy);
            let mut next = Conservative::default();
            if restored {
                let saved = policy.save();
                next.restore("conservative", saved.version, &saved.data).unwrap();
            }
            bench.advance(40.0);
            bench.end(1);
            bench.run(&mut next);
            bench.started().contains(&4)
        };
        assert_eq!((again(true), again(false)), (true, false));
    }

    #[test]
    fn renewed_reservations_have_other_starts_or_none() {
        let all = vec![(1, 10.0), (3, 20.0), (5, 30.0), (8, f64::INFINITY)];
        let renewed = [(5, f64::NEG_INFINITY), (3, 15.0)];
        assert_eq!(changed(all.clone(), &renewed), [(1, 10.0), (3, 15.0), (8, f64::INFINITY)]);
        assert_eq!(changed(all.clone(), &[(4, 1.0)]), all, "of a job that it does not know");
        assert_eq!(changed(all, &[(1, f64::NAN), (8, 40.0)]), [(3, 20.0), (5, 30.0), (8, 40.0)]);
    }

    #[test]
    fn newcomers_come_behind_all_reservations() {
        let mut bench = Bench::new(4);
        let mut policy = Conservative::default();
        bench.job(1).cores(4).duration(100.0).running();
        bench.job(2).cores(4).duration(10.0).submit();
        bench.run(&mut policy);
        bench.job(3).cores(4).duration(10.0).priority(1000).submit();
        bench.run(&mut policy);
        assert_eq!(bench.reserved(), [(2, 100.0), (3, 110.0)]);
        bench.job(4).cores(4).duration(10.0).priority(u32::MAX).submit();
        bench.run(&mut policy);
        assert_eq!(bench.reserved(), [(4, 100.0), (2, 110.0), (3, 120.0)]);
    }

    #[test]
    fn a_job_without_any_time_is_passed_over() {
        let mut bench = Bench::new(10);
        bench.down_cores(2);
        bench.job(1).cores(6).duration(100.0).running();
        bench.job(2).cores(10).submit();
        bench.job(3).cores(8).duration(10.0).submit();
        bench.run(&mut Conservative::default());
        assert_eq!(bench.reserved(), [(3, 100.0)]);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let refusal = configured::<Conservative>(&[("renew", "never")]).unwrap_err();
        assert!(refusal.contains("reservation or queue"), "{refusal}");
    }
}
