//! Engine actions become messages; R of started jobs is committed before SUCCESS (RFC 27).

use std::sync::Arc;

use fluxgate_engine::{Action, Event, SCHEDULER_RESTART};
use fluxgate_formats::JobId;
use serde_json::Value;

use super::{
    AllocState, Asked, COMMIT_BYTES_MAX, COMMIT_JOBS_MAX, NOTE_LEN_MAX, Output, Phase, Session, SessionError,
};
use crate::dialect::{self, one_line};
use crate::message::Message;

/// A job that was started and waits for the commit of its R.
#[derive(Debug)]
pub(super) struct Staged {
    id: JobId,
    /// The committed text and the text of the answer: the same.
    r: String,
    annotations: Value,
}

impl Session {
    pub(super) fn apply(&mut self, action: Action, out: &mut Vec<Output>) {
        if self.phase == Phase::Over {
            return;
        }
        match action {
            Action::Start { id, r, annotations } => match self.allocs.get_mut(&id) {
                Some(alloc) => {
                    alloc.state = AllocState::Committing;
                    let r = Arc::unwrap_or_clone(r).without_instance_properties().to_json();
                    self.staged.push(Staged { id, r, annotations });
                }
                None => self.give_back(id, out),
            },
            Action::Annotate { id, annotations } => {
                if let Some(alloc) = self.allocs.get(&id)
                    && matches!(alloc.state, AllocState::Pending)
                {
                    self.stats.annotated += 1;
                    let payload = dialect::alloc_annotate(id, &annotations);
                    out.push(Output::Send(alloc.reply.ok().with_text(&payload)));
                }
            }
            Action::Deny { id, note } => self.deny(id, &note, out),
            Action::Canceled { id } => self.canceled(id, out),
            Action::Reply { token, result } => {
                // The sender of the request may be gone.
                let Some(reply) = self.questions.remove(&token) else { return };
                out.push(Output::Send(match result {
                    Ok(()) => reply.ok(),
                    Err(error) => reply.error(error.errnum, &one_line(&error.text, NOTE_LEN_MAX)),
                }));
            }
            Action::Raise { id, kind, severity, note } => {
                if kind == SCHEDULER_RESTART {
                    self.note_unread(id, true);
                }
                self.raise(id, &kind, severity, &note, out);
            }
            Action::Recounted { unknown, released } => self.on_recounted(unknown, &released, out),
            Action::Audited(report) => self.on_audited(report, out),
            Action::Notice(notice) => fluxgate_log::log!(PolicyNews, ?notice, "policy news"),
        }
    }

    pub(super) fn deny(&mut self, id: JobId, note: &str, out: &mut Vec<Output>) {
        // A job whose R is being committed holds resources, and gets its own answer.
        if self.allocs.get(&id).is_none_or(|alloc| matches!(alloc.state, AllocState::Committing)) {
            return;
        }
        if let Some(alloc) = self.allocs.remove(&id) {
            self.stats.denied += 1;
            let payload = dialect::alloc_deny(id, &one_line(note, NOTE_LEN_MAX));
            out.push(Output::Send(alloc.reply.ok().with_text(&payload)));
        }
    }

    pub(super) fn canceled(&mut self, id: JobId, out: &mut Vec<Output>) {
        if self.allocs.get(&id).is_none_or(|alloc| matches!(alloc.state, AllocState::Committing)) {
            return;
        }
        if let Some(alloc) = self.allocs.remove(&id) {
            self.stats.canceled += 1;
            out.push(Output::Send(alloc.reply.ok().with_text(&dialect::alloc_cancel(id))));
        }
    }

    /// No request is left that could be answered with the resources of this job.
    fn give_back(&mut self, id: JobId, out: &mut Vec<Output>) {
        fluxgate_log::log!(RequestGone, job = %id, "started, but its request is gone");
        out.push(Output::Engine(Event::Free { id, ranks: None, last: true }));
    }

    /// One commit for all jobs started since the last; more than one only beyond the bounds.
    pub(super) fn commit(&mut self, out: &mut Vec<Output>) {
        let mut staged = std::mem::take(&mut self.staged).into_iter().peekable();
        while staged.peek().is_some() {
            let mut bytes = 0;
            let mut batch = Vec::new();
            while batch.len() < COMMIT_JOBS_MAX
                && bytes < COMMIT_BYTES_MAX
                && let Some(job) = staged.next()
            {
                bytes += job.r.len();
                batch.push(job);
            }
            self.stats.commits += 1;
            let request = dialect::kvs_commit(batch.iter().map(|job| (job.id, job.r.as_str())));
            self.ask(request, Asked::Commit(batch), out);
        }
    }

    pub(super) fn on_commit(&mut self, jobs: Vec<Staged>, message: &Message, out: &mut Vec<Output>) {
        let errnum = message.errnum();
        if jobs.is_empty() {
            // The requests are void, and their resources are released.
            return;
        }
        if errnum != 0 {
            // These jobs get no answer: they stay pending in the job manager, which asks the next scheduler.
            let text = one_line(message.text().unwrap_or(""), NOTE_LEN_MAX);
            return self.fatal(SessionError::Commit { jobs: jobs.len(), errnum, text }, out);
        }
        for Staged { id, r, annotations } in jobs {
            match self.allocs.remove(&id) {
                Some(alloc) => {
                    self.stats.started += 1;
                    let payload = dialect::alloc_success(id, &r, &annotations);
                    out.push(Output::Send(alloc.reply.ok().with_text(&payload)));
                    out.push(Output::Engine(Event::Committed { id }));
                    self.watch.started(id);
                }
                None => self.give_back(id, out),
            }
        }
    }
}
