//! Bookings as extended data of their vertices (RFC 4), for display and storage.
//!
//! This module must never know where they are stored.

use fluxgate_graph::description::Model;
use serde_json::{Value, json};

use crate::planner::FOREVER;

use super::matcher::Matcher;

/// The key of bookings in the extended data.
pub const BOOKED: &str = "booked";

impl Matcher {
    /// The model with its bookings: each vertex of which a job holds units has, under [`BOOKED`], a list of `{"job",
    /// "start", "end", "units", "reserved"}` in the order of the jobs. Times are in seconds; `end` is null for a
    /// booking without end.
    pub fn recorded(&self) -> Model {
        let mut model = self.model.clone();
        for v in self.model.vertices() {
            let Some(booking) = self.ledger.get(v).filter(|b| !b.units.is_empty()) else { continue };
            let spans = booking.units.spans().map(|(job, span)| {
                let end = if span.end == FOREVER { Value::Null } else { span.end.into() };
                let reserved = booking.reservations.contains(job);
                json!({"job": job, "start": span.start, "end": end, "units": span.amounts[0], "reserved": reserved})
            });
            let set = model.set_extended(v, BOOKED, Value::Array(spans.collect()));
            debug_assert!(set.is_ok(), "the key is not one of the base data");
        }
        model
    }
}
