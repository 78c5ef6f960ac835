//! All jobs of an order in one sorted vector, for walks that visit every job.
//!
//! A policy that is shown all waiting jobs in each pass (a trained one) would pay a search in a tree for each job of each
//! pass, though few jobs came or left between two passes. The vector is made by the first such walk, kept in step while few
//! jobs change from walk to walk, and given up otherwise: with many jobs, or many changes, the trees cost less.
//!
//! This module must never know sizes of jobs.

use super::{ClassId, OrderKey, Slot};

/// Most jobs of a list: a change moves all entries behind it.
pub(super) const JOBS_MAX: usize = 4096;
/// Most changes between two walks.
const CHANGES_MAX: u32 = 64;

/// A job with its place.
pub(super) type Entry = (OrderKey, ClassId, Slot);

/// The list, if there is one.
#[derive(Debug, Default)]
pub(super) struct Listed {
    jobs: Option<Vec<Entry>>,
    /// Changes since the last walk.
    changes: u32,
}

/// A copy of an order has no list; its first walk makes one.
impl Clone for Listed {
    fn clone(&self) -> Self {
        Listed::default()
    }
}

impl Listed {
    /// The entries in order; `None` while there is no list.
    pub(super) fn jobs(&self) -> Option<&[Entry]> {
        self.jobs.as_deref()
    }

    /// Notes a walk; `entries` are asked for if there is no list.
    pub(super) fn walked(&mut self, entries: impl FnOnce() -> Vec<Entry>) {
        self.changes = 0;
        self.jobs.get_or_insert_with(|| {
            let mut jobs = entries();
            jobs.sort_unstable_by_key(|(key, ..)| *key);
            jobs
        });
    }

    /// Adds a job, or changes the class and slot of a key.
    pub(super) fn insert(&mut self, entry: Entry) {
        let Some(jobs) = self.changing() else { return };
        match jobs.binary_search_by_key(&entry.0, |(key, ..)| *key) {
            Ok(at) => jobs[at] = entry,
            Err(_) if jobs.len() >= JOBS_MAX => self.jobs = None,
            Err(at) => jobs.insert(at, entry),
        }
    }

    /// Removes a job. No effect for an absent one.
    pub(super) fn remove(&mut self, key: &OrderKey) {
        let Some(jobs) = self.changing() else { return };
        if let Ok(at) = jobs.binary_search_by_key(key, |(key, ..)| *key) {
            jobs.remove(at);
        }
    }

    /// The list, for a change; it is given up after too many.
    fn changing(&mut self) -> Option<&mut Vec<Entry>> {
        self.changes += 1;
        if self.changes > CHANGES_MAX {
            self.jobs = None;
        }
        self.jobs.as_mut()
    }
}
