//! Changes of an engine beside submissions, for property tests that hold two engines to each other.

use fluxgate_engine::{Engine, Event};
use fluxgate_formats::{Idset, JobId};

use crate::common::free;

/// A change; jobs are named by their position.
#[derive(Debug, Clone)]
pub enum Change {
    /// The running job at this position ends.
    End(usize),
    Cancel(usize),
    Prioritize(usize, u32),
    Node(u32, bool),
    Later(u8),
    /// The running jobs whose end comes first end then.
    OnTime,
}

impl Change {
    /// Its events for an engine in this state; time may advance.
    pub fn events(self, engine: &Engine, now: &mut f64) -> Vec<Event> {
        let running: Vec<(f64, JobId)> = engine.running_jobs().map(|job| (job.end, job.id)).collect();
        let waiting: Vec<JobId> = engine.pending_ids().collect();
        let at = |at: usize, all: &[JobId]| all.get(at % all.len().max(1)).copied();
        match self {
            Change::End(place) => {
                let ids: Vec<JobId> = running.iter().map(|(_, id)| *id).collect();
                at(place, &ids).map(|id| free(id.0)).into_iter().collect()
            }
            Change::Cancel(place) => at(place, &waiting).map(|id| Event::Cancel { id }).into_iter().collect(),
            Change::Prioritize(place, priority) => {
                let job = at(place, &waiting);
                job.map(|id| Event::Prioritize { jobs: vec![(id, priority)] }).into_iter().collect()
            }
            Change::Node(node, true) => vec![Event::Up(Idset::from_iter([node]))],
            Change::Node(node, false) => vec![Event::Down(Idset::from_iter([node]))],
            Change::Later(seconds) => {
                *now += f64::from(seconds);
                Vec::new()
            }
            Change::OnTime => {
                let ends = running.iter().map(|(end, _)| *end);
                let first = ends.filter(|end| *end >= *now).min_by(f64::total_cmp);
                *now = first.filter(|end| end.is_finite()).unwrap_or(*now);
                running.iter().filter(|(end, _)| end == now).map(|(_, id)| free(id.0)).collect()
            }
        }
    }
}
