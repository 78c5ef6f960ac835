//! Queues that are stopped between their reservations: started when a reservation that names them begins, and stopped when it ends
//! (`job-manager.queue-start`). Only where the setting `reservations.start-queues` says so.
//!
//! The queues that were started, and are to be stopped, are kept with the reservations over a restart. A queue follows the begins and ends
//! of reservations, so a state that an operator gives it between two of them stays. The exception is a scheduler that begins, or comes back
//! to the job manager: it starts the queues of reservations that are on again. One request is under way at a time. Must never know the jobs
//! of a queue.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_engine::Window;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::json;

use super::Service;
use super::reservations::why_refused;

/// The matchtag; see `kept_vertices.rs`.
const TAG: u32 = u32::MAX - 9;
/// The reason that `flux queue status` shows for a queue that was stopped here.
const STOP_REASON: &str = "no reservation of this queue is on";

/// See the module text.
#[derive(Debug)]
pub(super) struct QueueStarts {
    /// The version of the reservations for which `on` and `next` were found.
    version: Option<u64>,
    /// When the next reservation begins, seconds since the epoch.
    next: f64,
    /// The queues of reservations that are on.
    on: BTreeSet<String>,
    /// The queues that a reservation started, or starts, until they are stopped. The value says whether the job manager started
    /// the queue, where it has answered in this conversation.
    answered: BTreeMap<String, Option<bool>>,
    /// The request under way.
    asked: Option<(String, bool)>,
    /// A request did not reach the job manager (ENOSYS: it is being reloaded). Nothing is asked before the next conversation.
    unreached: bool,
}

/// The answer of the job manager to a start or stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It did it.
    Done,
    /// It refused, as for a queue that does not exist.
    Refused,
    /// It was not there.
    Unreached,
}

impl Outcome {
    /// That of an answer with this error number, 0 for none.
    fn of(errnum: i32) -> Outcome {
        match errnum {
            0 => Outcome::Done,
            errno::ENOSYS => Outcome::Unreached,
            _ => Outcome::Refused,
        }
    }
}

impl Default for QueueStarts {
    fn default() -> Self {
        QueueStarts {
            version: None,
            next: f64::INFINITY,
            on: BTreeSet::new(),
            answered: BTreeMap::new(),
            asked: None,
            unreached: false,
        }
    }
}

impl QueueStarts {
    /// The queues that a reservation started, and that are to be stopped, in order.
    pub(super) fn started(&self) -> impl Iterator<Item = &String> {
        self.answered.keys()
    }

    /// Did the job manager start this queue for a reservation, in this conversation?
    pub(super) fn has_started(&self, queue: &str) -> bool {
        self.answered.get(queue) == Some(&Some(true))
    }

    /// The scheduler before had started these queues.
    pub(super) fn restore(&mut self, queues: BTreeSet<String>) {
        self.answered.extend(queues.into_iter().map(|queue| (queue, None)));
    }

    /// There is no conversation with the job manager: all is asked again in the next.
    fn forget_answers(&mut self) {
        (self.version, self.asked, self.unreached) = (None, None, false);
        self.answered.values_mut().for_each(|answered| *answered = None);
    }

    /// Finds the queues of reservations that are on at this time.
    fn look<'a>(&mut self, windows: impl Iterator<Item = &'a Window>, version: u64, now: f64) {
        if self.version == Some(version) && now < self.next {
            return;
        }
        (self.version, self.next) = (Some(version), f64::INFINITY);
        self.on.clear();
        for window in windows {
            if window.is_active(now) {
                self.on.extend(window.members.queues.iter().cloned());
            }
            self.next = self.next.min(window.next_start(now));
        }
        for queue in &self.on {
            self.answered.entry(queue.clone()).or_default();
        }
    }

    /// The next request: a queue, and whether it is to be started.
    fn next(&self) -> Option<(String, bool)> {
        let mut wanted =
            self.answered.iter().map(|(queue, answered)| (queue, answered, self.on.contains(queue)));
        let (queue, _, start) = wanted.find(|(_, answered, start)| !start || answered.is_none())?;
        (self.asked.is_none() && !self.unreached).then(|| (queue.clone(), start))
    }

    /// The request under way was answered. A queue whose stop was refused is not asked for again.
    fn answer(&mut self, outcome: Outcome) -> Option<(String, bool)> {
        let (queue, start) = self.asked.take()?;
        match outcome {
            Outcome::Unreached => self.unreached = true,
            _ if start => drop(self.answered.insert(queue.clone(), Some(outcome == Outcome::Done))),
            _ => drop(self.answered.remove(&queue)),
        }
        Some((queue, start))
    }
}

impl Service {
    /// Starts or stops the next queue whose reservations began or ended.
    pub(super) fn start_queues(&mut self) {
        if !self.configuration.settings.reservations.start_queues {
            return self.queue_starts = QueueStarts::default();
        }
        if !self.session.is_serving() {
            return self.queue_starts.forget_answers();
        }
        // A reservation that is over leaves the engine with the pass that is due.
        if self.pass_is_due() || self.kept_windows.is_reading() {
            return;
        }
        let Some(engine) = &self.engine else { return };
        self.queue_starts.look(engine.windows(), engine.windows_version(), self.host.now());
        let Some((name, start)) = self.queue_starts.next() else { return };
        // Otherwise a scheduler that begins after a kill would not know that it is to be stopped.
        if start && !self.kept_windows.has_started_queue(&name) {
            return;
        }
        let mut payload = json!({"name": name, "start": start, "all": false, "nocheckpoint": false});
        if !start {
            payload["reason"] = STOP_REASON.into();
        }
        self.queue_starts.asked = Some((name, start));
        self.send(Some(Message::request("job-manager.queue-start").with_json(&payload).with_matchtag(TAG)));
    }

    /// Is this the answer to the start or stop of a queue?
    pub(super) fn queue_start_answer(&mut self, message: &Message) -> bool {
        let ours = message.is_response() && message.matchtag() == TAG;
        let outcome = Outcome::of(message.errnum());
        if ours && let Some((name, start)) = self.queue_starts.answer(outcome) {
            let (done, undone) = match start {
                true => ("started: a reservation of it is on", "not started"),
                false => ("stopped: its reservation is over", "not stopped"),
            };
            if outcome == Outcome::Done {
                fluxgate_log::log!(QueueFollows, "queue {name} is {done}");
            } else {
                let why = why_refused(message);
                fluxgate_log::log!(QueueDoesNotFollow, "queue {name} is {undone}: {why}");
            }
        }
        ours
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_engine::Occurrence;
    use fluxgate_formats::Idset;

    use super::*;

    fn window(name: &str, queue: &str, times: &[(f64, f64)]) -> Window {
        let at = |(start, end): &(f64, f64)| Occurrence { start: *start, end: *end, begins: String::new() };
        let mut window = Window::maintenance(name, times.iter().map(at).collect(), Idset::new());
        window.members.queues.insert(queue.to_owned());
        window
    }

    /// All requests at this time, each answered.
    fn asked(queues: &mut QueueStarts, windows: &[Window], version: u64, now: f64) -> Vec<(String, bool)> {
        queues.look(windows.iter(), version, now);
        std::iter::from_fn(|| {
            queues.asked = queues.next();
            queues.answer(Outcome::Done)
        })
        .collect()
    }

    #[test]
    fn feat_29_a_queue_is_started_and_stopped_once() {
        let mut queues = QueueStarts::default();
        let start = |queue: &str| vec![(queue.to_owned(), true)];
        let stop = |queue: &str| vec![(queue.to_owned(), false)];
        let first = window("a", "dat", &[(100.0, 200.0), (300.0, 400.0)]);
        let second = window("b", "dat", &[(150.0, 250.0)]);
        let both = [first, second.clone()];
        assert_eq!(asked(&mut queues, &both, 1, 50.0), [], "a planned reservation stops no queue");
        assert!(!queues.has_started("dat"));
        assert_eq!(asked(&mut queues, &both, 1, 100.0), start("dat"));
        assert!(queues.has_started("dat"));
        assert_eq!(asked(&mut queues, &both, 1, 160.0), []);
        let rest = [window("a", "dat", &[(300.0, 400.0)]), second];
        assert_eq!(asked(&mut queues, &rest, 2, 200.0), [], "another reservation of the queue is on");
        let rest = [window("a", "dat", &[(300.0, 400.0)]), window("b", "dat", &[])];
        assert_eq!(asked(&mut queues, &rest, 3, 250.0), stop("dat"));
        assert_eq!(asked(&mut queues, &rest, 3, 300.0), start("dat"));
        queues.forget_answers();
        assert!(!queues.has_started("dat"), "an operator may have stopped it meanwhile");
        assert_eq!(asked(&mut queues, &rest, 3, 310.0), start("dat"), "another conversation");
        assert_eq!(asked(&mut queues, &[], 4, 320.0), stop("dat"), "it was cancelled");
        queues.restore(BTreeSet::from(["dat".to_owned()]));
        assert_eq!(asked(&mut queues, &[], 4, 450.0), stop("dat"), "the scheduler before had started it");
    }

    #[test]
    fn feat_29_a_queue_that_the_job_manager_did_not_start_is_not_called_started() {
        let mut queues = QueueStarts::default();
        queues.look([window("a", "dat", &[(100.0, 200.0)])].iter(), 1, 100.0);
        queues.asked = queues.next();
        assert_eq!(queues.answer(Outcome::Refused), Some(("dat".to_owned(), true)));
        assert!(!queues.has_started("dat"));
        assert_eq!(queues.next(), None, "it is not asked again");
    }

    #[test]
    fn feat_29_a_request_that_did_not_reach_the_job_manager_is_made_again_when_it_is_back() {
        let mut queues = QueueStarts::default();
        for start in [true, false] {
            let windows = [window("a", "dat", &[(100.0, 200.0)])];
            let (on, now) = if start { (&windows[..], 100.0) } else { (&windows[..0], 200.0) };
            queues.look(on.iter(), u64::from(start), now);
            let request = Some(("dat".to_owned(), start));
            queues.asked = queues.next();
            assert_eq!(queues.answer(Outcome::of(errno::ENOSYS)), request);
            assert_eq!(queues.next(), None, "not while it is away");
            assert!(queues.started().eq(["dat"]), "and it stays kept");
            queues.forget_answers();
            assert_eq!(asked(&mut queues, on, u64::from(start), now), [("dat".to_owned(), start)]);
        }
        assert_eq!(queues.started().next(), None);
    }
}
