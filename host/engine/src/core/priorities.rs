//! The priority of the last job of each user, for questions about jobs that are not submitted. No decision depends on it.
//!
//! The last job is the one that was submitted last of those that this engine has heard of. Must never know a question.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use fluxgate_formats::JobId;
use rustc_hash::FxHashMap;

/// Most users whose last priority is known; the one who was heard of longest ago goes first.
pub(crate) const PRIORITIES_MAX: usize = 4096;

/// See the module text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Priorities {
    users: FxHashMap<u32, Last>,
    /// Numbers of news and users, in order: the last news of each user, and earlier ones that are dropped from time to time.
    by_news: VecDeque<(u64, u32)>,
    news: u64,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    job: JobId,
    t_submit: f64,
    priority: u32,
    news: u64,
}

impl Priorities {
    /// A job of this user has this priority.
    pub(crate) fn note(&mut self, user: u32, (job, t_submit): (JobId, f64), priority: u32) {
        let news = self.news + 1;
        let new = Last { job, t_submit, priority, news };
        match self.users.entry(user) {
            Entry::Occupied(mut known) => {
                let last = known.get();
                if last.job != job && (last.t_submit, last.job) > (t_submit, job) {
                    return;
                }
                known.insert(new);
            }
            Entry::Vacant(place) => {
                place.insert(new);
            }
        }
        self.news = news;
        if self.users.len() > PRIORITIES_MAX {
            self.forget_one();
        }
        self.by_news.push_back((news, user));
        if self.by_news.len() > 2 * PRIORITIES_MAX {
            self.by_news.retain(|(news, user)| is_last(&self.users, *news, *user));
        }
    }

    /// Forgets the user who was heard of longest ago.
    fn forget_one(&mut self) {
        while let Some((news, user)) = self.by_news.pop_front() {
            if is_last(&self.users, news, user) {
                self.users.remove(&user);
                return;
            }
        }
    }

    /// The priority of the last job of this user, if one is known.
    pub(crate) fn of(&self, user: u32) -> Option<u32> {
        self.users.get(&user).map(|last| last.priority)
    }
}

/// True if a user was not heard of since.
fn is_last(users: &FxHashMap<u32, Last>, news: u64, user: u32) -> bool {
    users.get(&user).is_some_and(|last| last.news == news)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_72_the_priority_of_the_job_that_was_submitted_last() {
        let mut priorities = Priorities::default();
        let job = |id: u64, t_submit: f64| (JobId(id), t_submit);
        assert_eq!(priorities.of(1), None);
        priorities.note(1, job(7, 70.0), 16);
        priorities.note(1, job(5, 50.0), 99);
        assert_eq!(priorities.of(1), Some(16), "job 5 was submitted before");
        priorities.note(1, job(7, 70.0), 20);
        assert_eq!(priorities.of(1), Some(20), "it was changed");
        priorities.note(1, job(8, 70.0), 3);
        assert_eq!((priorities.of(1), priorities.of(2)), (Some(3), None), "of equal times the later id");
    }

    #[test]
    fn feat_72_as_many_users_as_are_known_at_most() {
        let mut priorities = Priorities::default();
        let users = 0..PRIORITIES_MAX as u32;
        users.clone().for_each(|user| priorities.note(user, (JobId(u64::from(user)), 0.0), user));
        priorities.note(0, (JobId(9_999_999), 1.0), 17);
        priorities.note(1_000_000, (JobId(10_000_000), 2.0), 18);
        assert_eq!((priorities.of(0), priorities.of(1), priorities.of(2)), (Some(17), None, Some(2)));
        assert_eq!(priorities.users.len(), PRIORITIES_MAX);
        let again = |of: u64| priorities.note(2_000_000, (JobId(10_000_000 + of), 3.0), 19);
        (1..10 * PRIORITIES_MAX as u64).for_each(again);
        assert!(priorities.by_news.len() <= 2 * PRIORITIES_MAX, "{}", priorities.by_news.len());
        let known = [0, 2, 3, 4, 1_000_000, 2_000_000].map(|user| priorities.of(user));
        assert_eq!(known, [Some(17), None, Some(3), Some(4), Some(18), Some(19)]);
    }
}
