//! How long jobs that fit at once take from their request to the answer that they have started, and how long commits of R take.
//!
//! A job fits at once if the first pass after its request starts it. Times are real, and never an input of a decision. Must
//! never know what a pass decides.

use std::collections::BTreeMap;
use std::time::Duration;

use fluxgate_engine::{Action, Event};
use fluxgate_formats::JobId;
use fluxgate_wire::session::Output;

use crate::timing::Samples;

/// Most requests that are timed between two passes; more are not.
const REQUESTED_MAX: usize = 1 << 16;

/// A start that is being committed.
#[derive(Debug)]
struct Committing {
    /// When the request arrived, if the job fitted at once.
    requested: Option<Duration>,
    /// When the start was decided, and its commit sent.
    decided: Duration,
}

/// See the module text.
#[derive(Default)]
pub(super) struct StartTimes {
    /// Jobs whose request no whole pass has seen, with its arrival.
    requested: BTreeMap<JobId, Duration>,
    committing: BTreeMap<JobId, Committing>,
    /// From request to SUCCESS.
    pub(super) starts: Samples,
    /// From the decision to the answer of the KVS, one of a commit.
    pub(super) commits: Samples,
}

impl StartTimes {
    /// An event of the job manager.
    pub(super) fn event(&mut self, event: &Event, now: Duration) {
        match event {
            Event::Alloc { id, .. } if self.requested.len() < REQUESTED_MAX => {
                self.requested.insert(*id, now);
            }
            Event::Cancel { id } => {
                self.requested.remove(id);
            }
            Event::Committed { id } => {
                let requested = self.committing.remove(id).and_then(|committing| committing.requested);
                if let Some(requested) = requested {
                    self.starts.add(now.saturating_sub(requested));
                }
            }
            // Its request was gone when R was committed.
            Event::Free { id, last: true, .. } => {
                self.committing.remove(id);
            }
            _ => {}
        }
    }

    /// A pass has decided. After a whole one the jobs that did not start do not fit at once.
    pub(super) fn pass(&mut self, actions: &[Action], whole: bool, now: Duration) {
        for action in actions {
            if let Action::Start { id, .. } = action {
                let requested = self.requested.remove(id);
                self.committing.insert(*id, Committing { requested, decided: now });
            }
        }
        if whole {
            self.requested.clear();
        }
    }

    /// A message was taken in. The answer to a commit starts all of its jobs.
    pub(super) fn outputs(&mut self, outputs: &[Output], now: Duration) {
        let first = outputs.iter().find_map(|output| match output {
            Output::Engine(Event::Committed { id }) => self.committing.get(id),
            _ => None,
        });
        if let Some(first) = first {
            self.commits.add(now.saturating_sub(first.decided));
        }
    }

    /// The job manager is not served: commits that were on their way are void.
    pub(super) fn offline(&mut self) {
        self.requested.clear();
        self.committing.clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn start(id: u64) -> Action {
        let r = std::sync::Arc::new(fluxgate_formats::R::default());
        Action::Start { id: JobId(id), r, annotations: json!({}) }
    }

    fn committed(id: u64) -> Event {
        Event::Committed { id: JobId(id) }
    }

    fn request(times: &mut StartTimes, id: u64, now: u64) {
        let jobspec = fluxgate_formats::jobspec::Simple { slots: 1, ..Default::default() }.build().into();
        let event = Event::Alloc { id: JobId(id), priority: 16, userid: 1, t_submit: 0.0, jobspec };
        times.event(&event, Duration::from_millis(now));
    }

    #[test]
    fn feat_60_starts_are_timed_from_the_request_if_they_come_at_once() {
        let mut times = StartTimes::default();
        let at = Duration::from_millis;
        (1..=3).for_each(|id| request(&mut times, id, 10));
        // The third was not looked at: a message waited.
        times.pass(&[start(1)], false, at(20));
        times.pass(&[start(3)], true, at(30));
        // One answer for both.
        let outputs = [Output::Engine(committed(1)), Output::Engine(committed(3))];
        times.outputs(&outputs, at(50));
        for id in [1, 3] {
            times.event(&committed(id), at(50));
        }
        assert_eq!((times.starts.histogram().count(), times.commits.histogram().count()), (2, 1));
        assert!((times.starts.histogram().sum() - 0.08).abs() < 1e-9);
        assert!((times.commits.histogram().sum() - 0.03).abs() < 1e-9);
        // The second fits later.
        times.pass(&[start(2)], true, at(1000));
        times.outputs(&[Output::Engine(committed(2))], at(1001));
        times.event(&committed(2), at(1001));
        assert_eq!((times.starts.histogram().count(), times.commits.histogram().count()), (2, 2));
    }

    #[test]
    fn a_commit_that_was_void_is_not_timed() {
        let mut times = StartTimes::default();
        request(&mut times, 1, 10);
        times.pass(&[start(1)], true, Duration::from_millis(20));
        times.offline();
        times.outputs(&[Output::Engine(committed(1))], Duration::from_secs(9));
        times.event(&committed(1), Duration::from_secs(9));
        assert_eq!((times.starts.histogram().count(), times.commits.histogram().count()), (0, 0));
    }
}
