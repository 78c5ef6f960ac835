//! The requests of waiting jobs: kept while they wait, and copied for a checkpoint in no time.
//!
//! Must never know files.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::{Pages, PendingStates};
use fluxgate_formats::JobId;

use crate::record::CheckpointRecord;
use crate::spec::SpecRow;

/// A waiting job with its request, and its duration in seconds, 0 for no limit.
type Ask = (JobId, Arc<SpecRow>, f64);

/// The requests of waiting jobs.
#[derive(Default)]
pub(crate) struct Asks {
    places: BTreeMap<JobId, u32>,
    asks: Pages<Ask>,
    vacant: Vec<u32>,
}

impl Asks {
    /// Keeps the request of a job in place of an earlier one.
    pub(crate) fn insert(&mut self, id: JobId, spec: Arc<SpecRow>, duration: f64) {
        let next = || self.vacant.pop().unwrap_or(self.asks.len());
        let place = *self.places.entry(id).or_insert_with(next);
        self.asks.put(place, (id, spec, duration));
    }

    /// Forgets the request of a job.
    pub(crate) fn remove(&mut self, id: JobId) {
        if let Some(place) = self.places.remove(&id) {
            self.asks.take(place);
            self.vacant.push(place);
        }
    }

    /// The requests as they are now.
    pub(crate) fn rows(&self) -> AskRows {
        AskRows(self.asks.clone())
    }
}

/// The requests of waiting jobs as they were; a table is made of them when a checkpoint is written.
pub(crate) struct AskRows(Pages<Ask>);

impl AskRows {
    /// Writes the requests of the jobs that wait into their checkpoint.
    pub(crate) fn complete(&self, checkpoint: &mut CheckpointRecord) {
        let (asks, specs) = self.of(&checkpoint.engine.pending);
        (checkpoint.asks, checkpoint.specs) = (asks, specs.into_values().collect());
    }

    #[allow(clippy::type_complexity)] // two fields of the record
    fn of(&self, pending: &PendingStates) -> (BTreeMap<JobId, (u32, f64)>, BTreeMap<u32, Arc<SpecRow>>) {
        let mut rows: Vec<&Ask> = self.0.iter().map(|(_, ask)| ask).collect();
        rows.sort_unstable_by_key(|(id, ..)| *id);
        let find = |id: JobId| rows.binary_search_by_key(&id, |(id, ..)| *id).ok().map(|at| rows[at]);
        let mut specs = BTreeMap::new();
        let asks = pending.ids().into_iter().filter_map(|id| {
            let (_, spec, duration) = find(id)?;
            specs.entry(spec.number).or_insert_with(|| Arc::clone(spec));
            Some((id, (spec.number, *duration)))
        });
        (asks.collect(), specs)
    }
}
