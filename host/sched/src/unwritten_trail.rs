//! Entries of the audit trail that are not on the disk yet, and the answers that wait for that.
//!
//! The trail is written by a work item, one at a time and in order, so that a slow disk holds neither passes nor answers to
//! others. The answer to a request with an entry is sent when that entry was written: a request that was answered is in the trail.
//! Must never know what an entry says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxgate_wire::message::Message;
use serde_json::Value;

use crate::host::{Host, Store};

/// Most entries that wait for the disk. Further ones are left out, and counted.
pub(crate) const UNWRITTEN_ENTRIES_MAX: usize = 4096;

/// The identity of a request and of its answer: the route stack and the matchtag.
type Key = (Option<Vec<String>>, u32);

fn key(message: &Message) -> Key {
    (message.routes.clone(), message.matchtag())
}

/// Entries handed to a work item. Another holder can write those that are not written yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch(Arc<Mutex<Vec<(PathBuf, Value)>>>);

impl Batch {
    fn entries(&self) -> MutexGuard<'_, Vec<(PathBuf, Value)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Write them. Returns when all are on the disk or failed; another holder that writes them now is waited for.
    pub(crate) fn write(&self, host: &dyn Host) {
        let mut entries = self.entries();
        for (path, entry) in std::mem::take(&mut *entries) {
            if let Err(error) = host.store(Store::AuditTrail(&path, &entry)) {
                fluxgate_log::log!(AuditTrailFailed, trail = %path.display(), "the audit trail cannot be written: {error}");
            }
        }
    }
}

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct UnwrittenTrail {
    /// Entries that no work item has yet.
    waiting: Vec<(PathBuf, Value)>,
    /// Entries that a work item writes.
    batch: Option<Batch>,
    /// Entries added so far.
    added: u64,
    /// Entries that were in batches so far, with the one that is written now.
    batched: u64,
    /// Entries left out since the last one that was not.
    left_out: u64,
    /// The last entry of each request whose entries are not written yet.
    requests: BTreeMap<Key, u64>,
    /// Answers, with the entry that they wait for.
    answers: Vec<(u64, Message)>,
}

impl UnwrittenTrail {
    /// Add an entry for the trail in this file; `request` is the message that it is about, if there is one.
    pub(crate) fn add(&mut self, path: &Path, entry: Value, request: Option<&Message>) {
        if self.waiting.len() >= UNWRITTEN_ENTRIES_MAX {
            if self.left_out == 0 {
                fluxgate_log::log!(AuditTrailBehind, trail = %path.display(), "the audit trail is not written: entries are left out");
            }
            self.left_out += 1;
            return;
        }
        self.left_out = 0;
        self.waiting.push((path.to_owned(), entry));
        self.added += 1;
        if let Some(request) = request {
            self.requests.insert(key(request), self.added);
        }
    }

    /// An answer is to be sent; it is returned if it can be sent now.
    pub(crate) fn answer(&mut self, message: Message) -> Option<Message> {
        if self.requests.is_empty() || !message.is_response() {
            return Some(message);
        }
        match self.requests.get(&key(&message)) {
            Some(entry) => {
                self.answers.push((*entry, message));
                None
            }
            None => Some(message),
        }
    }

    /// Entries to be written now, unless a work item writes others.
    pub(crate) fn begin(&mut self) -> Option<Batch> {
        if self.batch.is_some() || self.waiting.is_empty() {
            return None;
        }
        let batch = Batch(Arc::new(Mutex::new(std::mem::take(&mut self.waiting))));
        self.batched = self.added;
        self.batch = Some(batch.clone());
        Some(batch)
    }

    /// The work item is done: the answers that can be sent now, in the order in which they came.
    pub(crate) fn done(&mut self) -> Vec<Message> {
        self.batch = None;
        let written = self.batched;
        self.requests.retain(|_, entry| *entry > written);
        let (ready, rest) = std::mem::take(&mut self.answers).into_iter().partition(|(at, _)| *at <= written);
        self.answers = rest;
        let ready: Vec<(u64, Message)> = ready;
        ready.into_iter().map(|(_, message)| message).collect()
    }

    /// The scheduler ends: write all that is left, and return the answers.
    pub(crate) fn close(&mut self, host: &dyn Host) -> Vec<Message> {
        if let Some(batch) = self.batch.take() {
            batch.write(host);
        }
        if let Some(batch) = self.begin() {
            batch.write(host);
        }
        self.batched = self.added;
        self.done()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(tag: u32) -> Message {
        Message::request("sched-fluxgate.policy-swap").with_json(&json!({})).with_matchtag(tag)
    }

    #[test]
    fn an_answer_waits_for_its_entries_and_no_other_answer_does() {
        let (path, mut trail) = (Path::new("/trail"), UnwrittenTrail::default());
        trail.add(path, json!(1), Some(&request(1)));
        assert_eq!(trail.answer(request(2).respond()), Some(request(2).respond()));
        assert_eq!(trail.answer(request(1).respond()), None);
        let batch = trail.begin().unwrap();
        assert_eq!(*batch.entries(), [(path.to_owned(), json!(1))]);
        trail.add(path, json!(2), Some(&request(3)));
        assert_eq!(trail.answer(request(3).respond()), None);
        assert!(trail.begin().is_none(), "one work item at a time");
        assert_eq!(trail.done(), [request(1).respond()]);
        assert_eq!(trail.answer(request(1).respond()), Some(request(1).respond()));
        assert!(trail.begin().is_some());
        assert_eq!(trail.done(), [request(3).respond()]);
        assert!(trail.begin().is_none() && trail.requests.is_empty() && trail.answers.is_empty());
    }

    #[test]
    fn entries_that_wait_are_bounded() {
        let (path, mut trail) = (Path::new("/trail"), UnwrittenTrail::default());
        for number in 0..UNWRITTEN_ENTRIES_MAX + 2 {
            trail.add(path, json!(number), Some(&request(number as u32)));
        }
        assert_eq!(trail.waiting.len(), UNWRITTEN_ENTRIES_MAX);
        assert_eq!(trail.left_out, 2);
        let left_out = request(UNWRITTEN_ENTRIES_MAX as u32).respond();
        assert_eq!(trail.answer(left_out.clone()), Some(left_out), "no entry, nothing to wait for");
    }
}
