//! How long answers to the questions of each user may take: a share of each period, so that the questions of no user keep a core busy.
//!
//! Must never know a question.

use std::collections::BTreeMap;
use std::time::Duration;

/// The period.
const PERIOD: Duration = Duration::from_secs(60);
/// Most time that is spent on the questions of one user in a period.
const SPENT_MAX: Duration = Duration::from_secs(1);

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct QuestionBudget {
    /// Begin of the period, and the time spent since.
    users: BTreeMap<u32, (Duration, Duration)>,
}

impl QuestionBudget {
    /// How long a user has to wait before the next question; `None` when it may be asked now.
    pub(crate) fn wait(&mut self, user: u32, now: Duration) -> Option<Duration> {
        self.users.retain(|_, (begin, _)| now.saturating_sub(*begin) < PERIOD);
        let (begin, spent) = self.users.get(&user)?;
        (*spent >= SPENT_MAX).then(|| (*begin + PERIOD).saturating_sub(now))
    }

    /// An answer took this long.
    pub(crate) fn spend(&mut self, user: u32, now: Duration, took: Duration) {
        let (_, spent) = self.users.entry(user).or_insert((now, Duration::ZERO));
        *spent = spent.saturating_add(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_76_a_second_a_minute_for_each_user() {
        let mut budget = QuestionBudget::default();
        let at = Duration::from_secs;
        assert_eq!(budget.wait(1, at(100)), None);
        budget.spend(1, at(100), Duration::from_millis(600));
        assert_eq!(budget.wait(1, at(110)), None);
        budget.spend(1, at(110), Duration::from_millis(600));
        assert_eq!(budget.wait(1, at(120)), Some(at(40)));
        assert_eq!(budget.wait(2, at(120)), None, "another user");
        assert_eq!(budget.wait(1, at(160)), None);
    }
}
