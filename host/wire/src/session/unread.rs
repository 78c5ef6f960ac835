//! Jobs that hold resources of which R could not be read, or which the engine could not take.
//!
//! The job manager's count has their ranks, so these are withheld ([`super::audit`]); it has nothing of what they hold above
//! nodes. The engine is told which jobs these are and takes nothing there meanwhile ([`Event::Unread`]). Their R is looked up again
//! with every repeated hello. This module sends no question.

use std::collections::BTreeMap;

use fluxgate_engine::Event;
use fluxgate_formats::JobId;

use super::{Output, Session};

/// Most jobs that the engine is told: those that a reason names, and one more.
const TOLD_MAX: usize = 4;

/// The jobs. See the module.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// True for a job whose R was read.
    jobs: BTreeMap<JobId, bool>,
    /// The jobs that the engine was told of.
    told: Vec<JobId>,
}

impl Unread {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// True if the R of the job was read and could not be taken: it names ranks that are lost for good.
    pub(super) fn is_refused(&self, id: JobId) -> bool {
        self.jobs.get(&id) == Some(&true)
    }

    /// Forgets a job: its R is known, or it holds nothing more.
    pub(super) fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }

    /// Of these jobs, those that still hold resources.
    pub(super) fn retain(&mut self, holds: impl Fn(&JobId) -> bool) {
        self.jobs.retain(|id, _| holds(id));
    }

    /// Forgets all jobs: none of them holds resources, as far as can be known.
    pub(super) fn clear(&mut self) {
        self.jobs.clear();
    }
}

impl Session {
    /// Notes that the resources of a job are not known: its R could not be read, or was read and could not be taken. A job manager
    /// without a count has the resources of such a job as free. The engine is told of all these jobs together before the next count,
    /// and nothing starts before that.
    pub(super) fn note_unread(&mut self, id: JobId, read: bool) {
        if self.audits() {
            self.watch.unread.jobs.insert(id, read);
        }
    }

    /// Tells the engine of the jobs, at most of the first [`TOLD_MAX`], if it was told of others before.
    pub(super) fn tell_unread(&mut self, out: &mut Vec<Output>) {
        let unread = &mut self.watch.unread;
        if !unread.jobs.keys().take(TOLD_MAX).eq(&unread.told) {
            unread.told = unread.jobs.keys().take(TOLD_MAX).copied().collect();
            out.push(Output::Engine(Event::Unread(unread.told.clone())));
        }
    }
}
