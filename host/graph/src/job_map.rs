//! A map by job for maps that are asked far more often than they are listed: each job event asks several times for a running job.
//!
//! Found by hash, listed by id: no order of a hash table is seen. Must never know what it keeps.

use std::fmt;
use std::ops::Index;

use fluxgate_formats::JobId;
use rustc_hash::FxHashMap;

/// A map by job. A list of it is sorted when it is asked for.
#[derive(Clone)]
pub struct JobMap<V>(FxHashMap<JobId, V>);

impl<V> JobMap<V> {
    /// The value of a job; `None` for an absent one.
    pub fn get(&self, id: &JobId) -> Option<&V> {
        self.0.get(id)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, id: &JobId) -> Option<&mut V> {
        self.0.get_mut(id)
    }

    /// True if it has the job.
    pub fn contains_key(&self, id: &JobId) -> bool {
        self.0.contains_key(id)
    }

    /// Sets the value of a job; returns the one before.
    pub fn insert(&mut self, id: JobId, value: V) -> Option<V> {
        self.0.insert(id, value)
    }

    /// Removes a job; returns its value.
    pub fn remove(&mut self, id: &JobId) -> Option<V> {
        self.0.remove(id)
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without any job.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All jobs, by ascending id.
    #[allow(clippy::disallowed_methods)] // sorted before it is seen
    pub fn iter(&self) -> std::vec::IntoIter<(&JobId, &V)> {
        let mut all: Vec<(&JobId, &V)> = self.0.iter().collect();
        all.sort_unstable_by_key(|(id, _)| **id);
        all.into_iter()
    }

    /// Their ids, ascending.
    pub fn keys(&self) -> impl Iterator<Item = &JobId> {
        self.iter().map(|(id, _)| id)
    }

    /// Their values, by ascending id.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<V> Default for JobMap<V> {
    fn default() -> Self {
        JobMap(FxHashMap::default())
    }
}

impl<V: fmt::Debug> fmt::Debug for JobMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<V> Index<&JobId> for JobMap<V> {
    type Output = V;

    fn index(&self, id: &JobId) -> &V {
        &self.0[id]
    }
}

impl<'a, V> IntoIterator for &'a JobMap<V> {
    type Item = (&'a JobId, &'a V);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<V> IntoIterator for JobMap<V> {
    type Item = (JobId, V);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        let mut all: Vec<(JobId, V)> = self.0.into_iter().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_listed_by_id() {
        let mut map = JobMap::default();
        for n in [5u64, 1, 9, 1 << 40, 3] {
            assert_eq!(map.insert(JobId(n), n), None);
        }
        assert_eq!(
            (map.insert(JobId(5), 6), map.remove(&JobId(9)), map.remove(&JobId(9))),
            (Some(5), Some(9), None)
        );
        let ids: Vec<u64> = map.keys().map(|id| id.0).collect();
        assert_eq!((ids, map[&JobId(5)], map.len()), (vec![1, 3, 5, 1 << 40], 6, 4));
        assert_eq!(
            format!("{map:?}"),
            "{JobId(1): 1, JobId(3): 3, JobId(5): 6, JobId(1099511627776): 1099511627776}"
        );
        assert_eq!(map.into_iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [1, 3, 5, 1 << 40]);
    }
}
