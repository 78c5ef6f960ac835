//! Classes of waiting jobs: their common data, and the class of a job.
//!
//! Must never know policies, time or order.

use std::sync::Arc;

use fluxgate_graph::{Request, ShapeId};
use rustc_hash::FxHashMap;

use crate::order::{ClassId, Least, PARKED};

/// The key of a job's class in its queue. Jobs without a limit are in classes of their own, since their end does not
/// follow from their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClassKey {
    wants: Wants,
    unlimited: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Wants {
    /// A request.
    Shape(ShapeId),
    /// Only cores, on any nodes: a band of numbers of cores.
    Cores(u32),
}

impl ClassKey {
    pub(crate) fn of(request: &Request, duration: f64) -> Self {
        let wants = match request.plain_cores() {
            Some(cores) => Wants::Cores(band(cores)),
            None => Wants::Shape(request.shape()),
        };
        ClassKey { wants, unlimited: duration.is_infinite() }
    }

    /// Its place among the bands, if it is one.
    fn place(self) -> Option<usize> {
        match self.wants {
            Wants::Cores(band) => Some(band as usize * 2 + usize::from(self.unlimited)),
            Wants::Shape(_) => None,
        }
    }
}

/// The band of a number of cores: its position and the two binary digits after the first one, so four bands for each
/// doubling.
fn band(cores: u32) -> u32 {
    let log = cores.max(1).ilog2();
    if log < 2 { cores } else { log * 4 + (cores >> (log - 2)) % 4 }
}

/// The fewest cores of the band that contains this number.
fn fewest_of_band(cores: u32) -> u32 {
    let shift = cores.max(1).ilog2().saturating_sub(2);
    cores >> shift << shift
}

/// The classes of a queue by key.
#[derive(Debug, Clone, Default)]
pub(super) struct ClassIds {
    /// By band, those of jobs with a limit and without one in turn; [`NONE`] for a band without jobs. With most jobs a class comes or goes.
    bands: Vec<ClassId>,
    others: FxHashMap<ClassKey, ClassId>,
}

/// The number of no class.
const NONE: ClassId = ClassId::MAX;

impl ClassIds {
    /// The class of a key, if there is one.
    pub(super) fn get(&self, key: ClassKey) -> Option<ClassId> {
        match key.place() {
            Some(place) => self.bands.get(place).copied().filter(|class| *class != NONE),
            None => self.others.get(&key).copied(),
        }
    }

    /// Gives a key a class, or none.
    pub(super) fn set(&mut self, key: ClassKey, class: Option<ClassId>) {
        match (key.place(), class) {
            (Some(place), class) => {
                self.bands.resize(self.bands.len().max(place + 1), NONE);
                self.bands[place] = class.unwrap_or(NONE);
            }
            (None, Some(class)) => drop(self.others.insert(key, class)),
            (None, None) => drop(self.others.remove(&key)),
        }
    }
}

/// The jobs of a class in one queue.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) key: ClassKey,
    /// The request of its first job; if it is a class of one request, that of all jobs.
    pub(crate) request: Arc<Request>,
    /// The fewest cores that a job of the class may request.
    fewest: u32,
    pub(crate) jobs: u32,
    /// Its request is known not to fit, so walks for fitting jobs skip it.
    pub(crate) parked: bool,
}

impl Class {
    /// A class without jobs.
    pub(crate) fn new(key: ClassKey, request: Arc<Request>) -> Self {
        let cores = request.min_cores();
        let fewest = match key.wants {
            Wants::Cores(_) => fewest_of_band(cores),
            Wants::Shape(_) => cores,
        };
        Class { key, request, fewest, jobs: 0, parked: false }
    }

    /// The fewest cores of its jobs; [`PARKED`] while it is parked.
    pub(crate) fn fewest(&self) -> u32 {
        if self.parked { PARKED } else { self.fewest }
    }

    /// Its size among the other classes of an order. The ends of jobs of one request depend on more than cores.
    pub(super) fn least(&self) -> Least {
        if self.is_band() { Least::OfJobs } else { Least::Cores(self.fewest()) }
    }

    /// True if its jobs request only cores. They fit if enough cores are free, and the class is never parked.
    pub(crate) fn is_band(&self) -> bool {
        matches!(self.key.wants, Wants::Cores(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_ascend_and_begin_with_their_fewest_cores() {
        let mut last = band(0);
        for cores in 1..100_000 {
            let (this, fewest) = (band(cores), fewest_of_band(cores));
            assert!(this >= last && band(fewest) == this && fewest <= cores, "{cores}");
            assert!(fewest == 0 || band(fewest - 1) < this, "{cores}");
            assert!(u64::from(cores) * 4 < u64::from(fewest) * 5 || cores == fewest, "{cores}");
            last = this;
        }
        assert_eq!(band(u32::MAX), 31 * 4 + 3);
    }
}
