//! Reservations that were all dropped, and are likely to be made again one by one, as they were and in the same order.
//!
//! A pass drops all reservations and makes them anew. Let every reservation be at the earliest start beside running
//! jobs and those made before it, and let only jobs have started since that delay none of them. Then the same request in
//! the same place of the order has the same earliest start: resources that were not free before it are not free now, and the
//! plan with all reservations shows that it is possible. A start now that was refused beside the same reservations is refused again,
//! as long as it ends after the latest end that would have been admitted.
//!
//! This module must never know why reservations are dropped, or whether anything else has changed: a plan parks only what
//! still holds.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;

use crate::live::placement::Placement;
use crate::live::places::{Delay, Places};
use crate::live::request::ShapeId;
use crate::live::reservations::Reservation;

/// The refusal of a start now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) placement: Placement,
    pub(crate) delay: Delay,
}

/// A reservation as it was made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) id: JobId,
    shape: ShapeId,
    start: f64,
    /// Its duration and limit.
    lasts: (f64, f64),
    /// Its job was refused a start beside the reservations made before.
    refused: Option<Refused>,
}

impl Made {
    pub(crate) fn of(new: &Reservation, refused: Option<Refused>) -> Made {
        let lasts = (new.duration, new.limit);
        Made { id: new.id, shape: new.request.shape, start: new.start, lasts, refused }
    }
}

/// Dropped reservations, and how many of them were made again.
#[derive(Debug)]
pub(crate) struct Parked {
    /// The places of all of them.
    places: Places,
    /// In the order in which they were made.
    made: Vec<Made>,
    again: usize,
}

impl Parked {
    /// True if these places are those of these reservations, each at its start.
    pub(crate) fn holds(places: &Places, made: &[Made]) -> bool {
        let starts: BTreeMap<JobId, f64> = places.steps.iter().map(|step| (step.id, step.start)).collect();
        made.iter().all(|of| starts.get(&of.id) == Some(&of.start))
    }

    pub(crate) fn new(places: Places, made: Vec<Made>) -> Parked {
        Parked { places, made, again: 0 }
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    pub(crate) fn into_places(self) -> Places {
        self.places
    }

    /// The next reservation, if it is of this shape.
    fn next(&self, shape: ShapeId) -> Option<&Made> {
        self.made.get(self.again).filter(|next| next.shape == shape)
    }

    /// The refusal of a start now until `end`, if the job of the next reservation was refused one.
    pub(crate) fn refuses(&self, shape: ShapeId, end: f64, placement: Placement) -> Option<Refused> {
        let refused = self.next(shape)?.refused?;
        (refused.placement == placement && end > refused.delay.1).then_some(refused)
    }

    /// The earliest start of such a job beside those that were made again, if it is that of the next reservation.
    pub(crate) fn start_of(&self, shape: ShapeId, lasts: (f64, f64)) -> Option<f64> {
        self.next(shape).filter(|next| next.lasts == lasts).map(|next| next.start)
    }

    /// True if it is the next reservation, as it was.
    pub(crate) fn is_next(&self, new: &Reservation) -> bool {
        let same = |next: &Made| {
            next.id == new.id && next.start == new.start && next.lasts == (new.duration, new.limit)
        };
        self.next(new.request.shape).is_some_and(same)
    }

    /// The next one was made again. True if all were.
    pub(crate) fn advance(&mut self) -> bool {
        self.again += 1;
        self.again == self.made.len()
    }
}
