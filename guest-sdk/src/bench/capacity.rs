//! Use over time, as counts: sufficient to decide "fits", "earliest" and "would delay a reservation".
//!
//! This module knows neither jobs, queues nor policies.

use std::ops::Add;

/// Maximum number of kinds of flow and of other resources.
pub(super) const KINDS_MAX: usize = 4;

/// Counts that a job needs or a machine has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) cores: u32,
    pub(super) gpus: u32,
    /// By kind: flow from the first one up, other resources from the last one down.
    pub(super) flows: [u64; KINDS_MAX],
}

impl Need {
    pub(super) fn within(self, room: Need) -> bool {
        let flows = || self.flows.iter().zip(&room.flows).all(|(amount, room)| amount <= room);
        self.cores <= room.cores && self.gpus <= room.gpus && flows()
    }

    /// The difference to `other`, at least 0.
    pub(super) fn less(self, other: Need) -> Need {
        self.with(other, u32::saturating_sub, u64::saturating_sub)
    }

    fn with(self, other: Need, counts: fn(u32, u32) -> u32, flow: fn(u64, u64) -> u64) -> Need {
        Need {
            cores: counts(self.cores, other.cores),
            gpus: counts(self.gpus, other.gpus),
            flows: std::array::from_fn(|kind| flow(self.flows[kind], other.flows[kind])),
        }
    }
}

impl Add for Need {
    type Output = Need;
    fn add(self, other: Need) -> Need {
        self.with(other, u32::saturating_add, u64::saturating_add)
    }
}

/// A need held from `start` up to but not including `end`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) need: Need,
}

/// The sum of all uses at one moment.
pub(super) fn used_at(uses: &[Use], time: f64) -> Need {
    uses.iter()
        .filter(|each| each.start <= time && time < each.end)
        .fold(Need::default(), |sum, each| sum + each.need)
}

/// True if `need` fits during all the time from `start` to `end`. Free capacity shrinks only where a use starts, so
/// only those moments are checked.
pub(super) fn has_room(room: Need, uses: &[Use], need: Need, start: f64, end: f64) -> bool {
    let starts = uses.iter().map(|each| each.start).filter(|time| start < *time && *time < end);
    std::iter::once(start).chain(starts).all(|time| (used_at(uses, time) + need).within(room))
}

/// The earliest start at `from` or later at which `need` fits for `duration` seconds; `None` if it never does. Free
/// capacity grows only where a use ends, so only those moments are checked.
pub(super) fn earliest(room: Need, uses: &[Use], need: Need, from: f64, duration: f64) -> Option<f64> {
    let mut moments: Vec<f64> =
        uses.iter().map(|each| each.end).filter(|time| time.is_finite() && *time > from).collect();
    moments.push(from);
    moments.sort_by(f64::total_cmp);
    moments.into_iter().find(|time| has_room(room, uses, need, *time, time + duration))
}
