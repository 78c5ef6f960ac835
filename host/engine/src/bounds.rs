//! How much of the machine the jobs of a queue may hold at most, and how much is kept for them.
//!
//! Cores are counted, wherever they are: a ceiling is on what the queue's jobs hold at one time, a floor is what jobs of
//! other queues have to leave free as long as the queue's own jobs do not hold it. Both hold for starts and, by
//! expected ends, for what is promised. Must never know policies or places.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use fluxgate_formats::JobId;
use fluxgate_graph::{Request, Resources, Totals};
use serde::{Deserialize, Serialize};

use crate::core::{Core, QueueId, Running};
use crate::explain::Reason;

/// A part of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Amount {
    /// So many cores.
    Cores(u64),
    /// As many cores as so many nodes have on average, rounded up.
    Nodes(u64),
    /// So many percent of all cores, 0 to 100, rounded down.
    Percent(f64),
}

/// What [`Amount`] accepts, for people.
pub const AMOUNTS: &str = "a number of cores, or a text like \"64\", \"8 nodes\" or \"25%\"";

impl Amount {
    /// In cores of a machine. Nodes that are down count: they come back.
    pub fn cores(self, totals: &Totals) -> u64 {
        let (cores, nodes) = (u64::from(totals.cores), u64::from(totals.nodes.max(1)));
        match self {
            Amount::Cores(n) => n,
            Amount::Nodes(n) => n.saturating_mul(cores).div_ceil(nodes),
            // A float becomes the nearest number there is.
            Amount::Percent(part) => (cores as f64 * part / 100.0) as u64,
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected {AMOUNTS}, found {text:?}");
        let text = text.trim();
        if let Some(part) = text.strip_suffix('%') {
            let part: f64 = part.trim().parse().map_err(|_| wrong())?;
            return if (0.0..=100.0).contains(&part) { Ok(Amount::Percent(part)) } else { Err(wrong()) };
        }
        let nodes = text.strip_suffix("nodes").or_else(|| text.strip_suffix("node"));
        match nodes {
            Some(count) => count.trim().parse().map(Amount::Nodes).map_err(|_| wrong()),
            None => text.parse().map(Amount::Cores).map_err(|_| wrong()),
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Amount::Cores(n) => write!(f, "{n}"),
            Amount::Nodes(1) => f.write_str("1 node"),
            Amount::Nodes(n) => write!(f, "{n} nodes"),
            Amount::Percent(part) => write!(f, "{part}%"),
        }
    }
}

/// The bounds of one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueBounds {
    /// The most that its jobs hold at one time.
    pub ceiling: Option<Amount>,
    /// What jobs of other queues leave to it.
    pub floor: Option<Amount>,
}

/// Do bounds of several queues go together?
///
/// # Errors
/// A floor above its ceiling, or floors of more than the whole machine, as far as shares tell.
pub fn check_bounds(bounds: &BTreeMap<String, QueueBounds>) -> Result<(), String> {
    let mut shares = 0.0;
    for (queue, QueueBounds { ceiling, floor }) in bounds {
        let above = match (ceiling, floor) {
            (Some(Amount::Cores(most)), Some(Amount::Cores(least))) => least > most,
            (Some(Amount::Nodes(most)), Some(Amount::Nodes(least))) => least > most,
            (Some(Amount::Percent(most)), Some(Amount::Percent(least))) => least > most,
            _ => false,
        };
        if let (true, Some(ceiling), Some(floor)) = (above, ceiling, floor) {
            return Err(format!("queue {queue}: the floor, {floor}, is above the ceiling, {ceiling}"));
        }
        if let Some(Amount::Percent(part)) = floor {
            shares += part;
        }
    }
    if shares > 100.0 {
        return Err(format!(
            "the floors of all queues are {shares}% of the machine, accepted is at most 100%"
        ));
    }
    Ok(())
}

/// Cores that are held from one time until just before another.
#[derive(Debug, Clone, Copy)]
struct Hold {
    /// Of whom, where that matters.
    job: Option<JobId>,
    queue: Option<QueueId>,
    /// Minus infinity for what is held already.
    from: f64,
    to: f64,
    cores: u64,
}

/// A floor of another queue.
#[derive(Debug, Clone)]
struct Floor {
    name: Arc<str>,
    /// None as long as it has had no job.
    queue: Option<QueueId>,
    cores: u64,
}

/// What the bounds leave to one queue, at a time and after it.
#[derive(Debug)]
pub(crate) struct Room {
    queue: QueueId,
    now: f64,
    ceiling: Option<u64>,
    floors: Vec<Floor>,
    holds: Vec<Hold>,
}

/// Why a job may not have its cores, and since when.
pub(crate) struct Over {
    pub(crate) reason: Reason,
    /// Now, or only by what is promised for later?
    pub(crate) later: bool,
}

impl Room {
    /// A job of this queue has started.
    pub(crate) fn started(&mut self, cores: u64, end: f64) {
        self.holds.push(Hold { job: None, queue: Some(self.queue), from: f64::NEG_INFINITY, to: end, cores });
    }

    /// What is promised to this job is not in its own way.
    pub(crate) fn forget(&mut self, id: JobId) {
        self.holds.retain(|hold| hold.job != Some(id));
    }

    /// A job of this queue was promised a start.
    pub(crate) fn promised(&mut self, cores: u64, start: f64, duration: f64) {
        self.holds.push(Hold {
            job: None,
            queue: Some(self.queue),
            from: start,
            to: start + duration,
            cores,
        });
    }

    /// What keeps a job of this queue from holding so many cores from one time until another. `free` are the cores that
    /// are free now.
    pub(crate) fn over(&self, free: u64, cores: u64, from: f64, to: f64) -> Option<Over> {
        let begins = self.holds.iter().map(|hold| hold.from).filter(|begin| from < *begin && *begin < to);
        let later = |time: f64| time > self.now;
        std::iter::once(from).chain(begins).find_map(|time| {
            self.over_at(free, cores, time).map(|reason| Over { reason, later: later(time) })
        })
    }

    fn over_at(&self, free: u64, cores: u64, time: f64) -> Option<Reason> {
        let active = |hold: &&Hold| hold.from <= time && time < hold.to;
        let held = |queue: QueueId| {
            let own = self.holds.iter().filter(active).filter(|hold| hold.queue == Some(queue));
            own.map(|hold| hold.cores).sum::<u64>()
        };
        if let Some(ceiling) = self.ceiling
            && held(self.queue).saturating_add(cores) > ceiling
        {
            return Some(Reason::Ceiling { cores: ceiling });
        }
        let unused = |floor: &Floor| floor.cores.saturating_sub(floor.queue.map_or(0, held));
        let kept: u64 = self.floors.iter().map(unused).fold(0, u64::saturating_add);
        let floor = self.floors.iter().find(|floor| unused(floor) > 0)?;
        let gone = self.holds.iter().filter(|hold| hold.from == f64::NEG_INFINITY && hold.to <= time);
        let gone: u64 = gone.map(|hold| hold.cores).sum();
        let come = self.holds.iter().filter(active).filter(|hold| hold.from > f64::NEG_INFINITY);
        let come: u64 = come.map(|hold| hold.cores).sum();
        let left = (free + gone).saturating_sub(come);
        (left < cores.saturating_add(kept))
            .then(|| Reason::Kept { queue: floor.name.clone(), cores: floor.cores })
    }

    /// The first time, at `from` or later, from which on the bounds allow so many cores for so long.
    fn from(&self, free: u64, cores: u64, from: f64, duration: f64) -> Option<f64> {
        let ends = self.holds.iter().map(|hold| hold.to).filter(|end| *end > from && end.is_finite());
        let mut times: Vec<f64> = std::iter::once(from).chain(ends).collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        times.into_iter().find(|&time| self.over(free, cores, time, time + duration).is_none())
    }
}

impl Room {
    /// The first time at which a request fits, at `from` or later seen from `now`, within these bounds.
    pub(crate) fn earliest(
        &self,
        resources: &Resources,
        request: &Request,
        (now, mut from): (f64, f64),
        duration: f64,
    ) -> Option<f64> {
        let free = u64::from(resources.totals().free_cores);
        let cores = u64::from(request.min_cores());
        // Each turn goes to a later end, of which there are as many as holds.
        for _ in 0..=self.holds.len() {
            from = self.from(free, cores, from, duration)?;
            let at = resources.earliest_from(request, now, from, duration)?;
            if at <= from {
                return Some(at);
            }
            from = at;
        }
        None
    }

    /// A job of some queue is expected to hold so many cores.
    pub(crate) fn expected(&mut self, queue: QueueId, cores: u64, start: f64, length: f64) {
        let (from, to) = (start, start + length);
        self.holds.push(Hold { job: None, queue: Some(queue), from, to, cores });
    }
}

/// Why a job of a queue, with so many cores at least, could never start within these bounds.
pub(crate) fn never(
    bounds: &BTreeMap<String, QueueBounds>,
    totals: &Totals,
    queue: &str,
    cores: u64,
) -> Option<String> {
    if bounds.is_empty() {
        return None;
    }
    let ceiling = bounds.get(queue).and_then(|own| own.ceiling).map(|most| most.cores(totals));
    if let Some(ceiling) = ceiling.filter(|most| cores > *most) {
        let jobs = if queue.is_empty() {
            "jobs without a queue".to_owned()
        } else {
            format!("jobs of queue {queue}")
        };
        return Some(format!("{jobs} hold at most {ceiling} cores together, and this one needs {cores}"));
    }
    let others = bounds.iter().filter(|(other, _)| *other != queue);
    let kept = others.filter_map(|(_, of)| of.floor).map(|floor| floor.cores(totals));
    let kept = kept.fold(0, u64::saturating_add);
    (kept > 0 && cores.saturating_add(kept) > u64::from(totals.cores)).then(|| {
        let all = totals.cores;
        format!("of {all} cores {kept} are kept for other queues, and this job needs {cores}")
    })
}

impl Core {
    /// What bounds leave to a queue. `None` where they leave all of it.
    pub(crate) fn room(&self, queue: QueueId, now: f64) -> Option<Room> {
        let mut room = self.expected_room(queue, now, |running| running.end)?;
        let promised = self.resources.reservations().filter_map(|(id, start, duration)| {
            let job = self.job(self.slot_of(id)?)?;
            let cores = u64::from(job.request.min_cores());
            Some(Hold { job: Some(id), queue: Some(job.queue), from: start, to: start + duration, cores })
        });
        room.holds.extend(promised);
        Some(room)
    }

    /// The same without what is promised, and with other ends of jobs.
    pub(crate) fn expected_room(
        &self,
        queue: QueueId,
        now: f64,
        end: impl Fn(&Running) -> f64,
    ) -> Option<Room> {
        let bounds = &self.config.queue_bounds;
        if bounds.is_empty() {
            return None;
        }
        let totals = self.resources.totals();
        let name = self.queues.get(queue as usize)?.name.as_str();
        let ceiling = bounds.get(name).and_then(|own| own.ceiling).map(|most| most.cores(&totals));
        let others = bounds.iter().filter(|(other, _)| *other != name);
        let floors: Vec<Floor> = others
            .filter_map(|(name, of)| {
                let cores = of.floor?.cores(&totals);
                Some(Floor { name: name.as_str().into(), queue: self.known_queue(name), cores })
            })
            .collect();
        if ceiling.is_none() && floors.is_empty() {
            return None;
        }
        let held = self.running.iter().filter_map(|(id, running)| {
            let cores = self.resources.allocation(*id)?.cores();
            // Who overstays ends right after now.
            let end = end(running);
            let to = if end > now { end } else { now.next_up() };
            Some(Hold { job: None, queue: running.queue, from: f64::NEG_INFINITY, to, cores })
        });
        let holds = held.collect();
        Some(Room { queue, now, ceiling, floors, holds })
    }

    /// The earliest start of a request in a queue, at `from` or later seen from `now`, within its bounds; see
    /// [`fluxgate_graph::Resources::earliest_from`].
    pub(crate) fn earliest_in(
        &self,
        room: Option<&Room>,
        request: &Request,
        (now, from): (f64, f64),
        duration: f64,
    ) -> Option<f64> {
        match room {
            Some(room) => room.earliest(&self.resources, request, (now, from), duration),
            None => self.resources.earliest_from(request, now, from, duration),
        }
    }

    /// Why a job of this queue can never start, however empty the machine is.
    pub(crate) fn never_within(&self, queue: QueueId, request: &Request) -> Option<String> {
        let bounds = &self.config.queue_bounds;
        let name = self.queues.get(queue as usize)?.name.as_str();
        never(bounds, &self.resources.totals(), name, u64::from(request.min_cores()))
    }

    /// What keeps a waiting job from starting at the time of the room, if bounds do.
    pub(crate) fn over_now(&self, room: &Room, request: &Request) -> Option<Reason> {
        let free = u64::from(self.resources.totals().free_cores);
        room.over_at(free, u64::from(request.min_cores()), room.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_do_not_go_together() {
        let of = |bounds: &[(&str, Option<&str>, Option<&str>)]| {
            let read = |text: &Option<&str>| text.map(|text| text.parse().unwrap());
            let one = |(name, ceiling, floor): &(&str, Option<&str>, Option<&str>)| {
                ((*name).to_owned(), QueueBounds { ceiling: read(ceiling), floor: read(floor) })
            };
            check_bounds(&bounds.iter().map(one).collect())
        };
        of(&[("a", Some("50%"), Some("50%")), ("b", Some("8"), Some("8 nodes")), ("c", None, Some("50%"))])
            .unwrap();
        for (ceiling, floor) in [("49%", "50%"), ("7", "8"), ("1 node", "2 nodes")] {
            let error = of(&[("a", Some(ceiling), Some(floor))]).unwrap_err();
            assert!(error.contains("queue a") && error.contains(ceiling) && error.contains(floor), "{error}");
        }
        let error = of(&[("a", None, Some("60%")), ("b", None, Some("41%"))]).unwrap_err();
        assert!(error.contains("101%"), "{error}");
    }

    #[test]
    fn amounts() {
        let totals = Totals { nodes: 3, cores: 16, ..Totals::default() };
        for (text, amount, cores) in [
            ("12", Amount::Cores(12), 12),
            ("2 nodes", Amount::Nodes(2), 11),
            ("1 node", Amount::Nodes(1), 6),
            ("50%", Amount::Percent(50.0), 8),
            ("12.5%", Amount::Percent(12.5), 2),
            ("0", Amount::Cores(0), 0),
        ] {
            let read: Amount = text.parse().unwrap();
            assert_eq!((read, read.cores(&totals), read.to_string()), (amount, cores, text.to_owned()));
        }
        for text in ["", "-1", "101%", "-1%", "x%", "1.5", "nodes", "NaN%", "3 racks"] {
            let error = text.parse::<Amount>().unwrap_err();
            assert!(error.contains(AMOUNTS) && error.contains(text), "{error}");
        }
    }
}
