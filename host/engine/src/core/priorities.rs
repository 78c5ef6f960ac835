//! The priority of the last job of each user, for questions about jobs that are not submitted. No decision depends on it.
//!
//! The last job is the one that was submitted last of those that this engine has heard of. Must never know a question.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;

/// Most users whose last priority is known; the one who was heard of longest ago goes first.
pub(crate) const PRIORITIES_MAX: usize = 4096;

/// See the module text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Priorities {
    users: BTreeMap<u32, Last>,
    /// Users by the number of their last news.
    by_news: BTreeMap<u64, u32>,
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
        let known = self.users.get(&user);
        if known.is_some_and(|last| last.job != job && (last.t_submit, last.job) > (t_submit, job)) {
            return;
        }
        if let Some(last) = known {
            self.by_news.remove(&last.news);
        } else if self.users.len() >= PRIORITIES_MAX
            && let Some((_, longest)) = self.by_news.pop_first()
        {
            self.users.remove(&longest);
        }
        self.news += 1;
        self.by_news.insert(self.news, user);
        self.users.insert(user, Last { job, t_submit, priority, news: self.news });
    }

    /// The priority of the last job of this user, if one is known.
    pub(crate) fn of(&self, user: u32) -> Option<u32> {
        self.users.get(&user).map(|last| last.priority)
    }
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
        assert_eq!((priorities.users.len(), priorities.by_news.len()), (PRIORITIES_MAX, PRIORITIES_MAX));
    }
}
