//! The reservations of the last pass, which the next pass drops, or makes anew one by one: in the order of their starts, or, while
//! they are not listed, in the order in which the last pass made them.
//!
//! Must never know policies, resources or the reason of a reservation.

use fluxgate_formats::JobId;
use smallvec::SmallVec;

/// The reservations that are not made anew yet, in the order of their starts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// Number of reservations while they are not listed.
    unlisted: usize,
    /// Each keeps its start if they are made anew in the order of the last pass.
    keeps: bool,
    /// Number of those that were made anew in that order.
    made: usize,
    /// Start and job; `None` for one that was made anew.
    all: SmallVec<[(f64, Option<JobId>); 2]>,
    /// Those before this one were made anew.
    first: usize,
}

impl Standing {
    /// This number of reservations, for [`list`](Self::list) to list.
    pub(crate) fn new(count: usize) -> Self {
        Standing { unlisted: count, ..Standing::default() }
    }

    /// The same, where each keeps its start if they are made anew in the order of the last pass.
    pub(crate) fn unchanged(count: usize) -> Self {
        Standing { keeps: true, ..Standing::new(count) }
    }

    /// The place, in the order of the last pass, of the reservation that keeps its start if it is the next one to be made anew.
    pub(crate) fn next_made(&self) -> Option<usize> {
        (self.keeps && self.unlisted > 0).then_some(self.made)
    }

    /// Takes out that of [`next_made`](Self::next_made).
    pub(crate) fn take_made(&mut self) {
        if self.next_made().is_some() {
            self.unlisted -= 1;
            self.made += 1;
        }
    }

    /// True if [`list`](Self::list) would have an effect.
    pub(crate) fn is_unlisted(&self) -> bool {
        self.unlisted > 0
    }

    /// Lists the reservations in the order of their starts, if they are not listed yet.
    pub(crate) fn list(&mut self, reservations: impl Iterator<Item = (f64, JobId)>) {
        if self.unlisted > 0 {
            self.unlisted = 0;
            self.all.extend(reservations.map(|(start, id)| (start, Some(id))));
        }
    }

    /// True if all were made anew, or dropped.
    pub(crate) fn is_empty(&self) -> bool {
        self.unlisted == 0 && self.first == self.all.len()
    }

    /// True if there are this many, of which none was made anew or dropped yet.
    pub(crate) fn is_whole(&self, count: usize) -> bool {
        count > 0 && self.unlisted == count && self.made == 0
    }

    /// Takes all out while it is whole. Returns their number.
    pub(crate) fn take_whole(&mut self) -> usize {
        std::mem::take(&mut self.unlisted)
    }

    /// Takes a job out if no other reservation starts before that of this job; false otherwise.
    pub(crate) fn take_first(&mut self, id: JobId) -> bool {
        let Some(&(start, _)) = self.all.get(self.first) else { return false };
        let mut among = self.all[self.first..].iter_mut().take_while(|(other, _)| *other == start);
        let Some((_, taken)) = among.find(|(_, other)| *other == Some(id)) else { return false };
        *taken = None;
        let left = self.all[self.first..].iter().position(|(_, id)| id.is_some());
        self.first = left.map_or(self.all.len(), |left| self.first + left);
        true
    }

    /// Takes all others out.
    pub(crate) fn take_rest(&mut self) -> SmallVec<[JobId; 4]> {
        let rest = self.all.drain(..).skip(std::mem::take(&mut self.first));
        rest.filter_map(|(_, id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_taken_in_the_order_of_starts() {
        let jobs = [(1.0, 1), (2.0, 2), (2.0, 3), (2.0, 4), (5.0, 5), (6.0, 6)];
        let mut standing = Standing::new(6);
        assert!(!standing.is_empty());
        standing.list(jobs.into_iter().map(|(start, id)| (start, JobId(id))));
        standing.list(std::iter::empty());
        assert!(!standing.take_first(JobId(2)), "job 1 starts before");
        assert!(standing.take_first(JobId(1)));
        assert!(standing.take_first(JobId(3)), "of equal starts any");
        assert!(!standing.take_first(JobId(3)), "once");
        assert!(!standing.take_first(JobId(5)));
        assert!(standing.take_first(JobId(2)) && standing.take_first(JobId(4)));
        assert!(standing.take_first(JobId(5)) && !standing.is_empty());
        assert_eq!(standing.take_rest().as_slice(), [JobId(6)]);
        assert!(standing.is_empty() && standing.take_rest().is_empty());
    }

    #[test]
    fn jobs_are_taken_in_the_order_of_the_last_pass_until_they_are_listed() {
        assert_eq!(Standing::new(2).next_made(), None);
        let mut standing = Standing::unchanged(3);
        assert_eq!(standing.next_made(), Some(0));
        standing.take_made();
        assert_eq!((standing.next_made(), standing.is_whole(2)), (Some(1), false));
        standing.list([(1.0, JobId(1)), (2.0, JobId(2))].into_iter());
        assert_eq!((standing.next_made(), standing.is_unlisted()), (None, false));
        standing.take_made();
        assert_eq!(standing.take_rest().as_slice(), [JobId(1), JobId(2)]);
        let mut standing = Standing::unchanged(1);
        standing.take_made();
        assert!(standing.is_empty() && standing.next_made().is_none());
    }

    #[test]
    fn all_are_taken_or_none() {
        let mut standing = Standing::new(2);
        assert!(
            standing.is_whole(2) && !standing.is_whole(1) && !standing.is_whole(0) && !standing.is_empty()
        );
        assert_eq!((standing.take_whole(), standing.is_empty(), standing.is_whole(2)), (2, true, false));
        assert!(!Standing::default().is_whole(0));
        let mut standing = Standing::new(1);
        standing.list(std::iter::once((1.0, JobId(1))));
        assert!(!standing.is_whole(1), "they may be made anew one by one");
    }
}
