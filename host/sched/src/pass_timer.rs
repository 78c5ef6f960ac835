//! How long a pass may take while something waits for it, and how long no pass is made after a long one.
//!
//! A pass that keeps a message waiting is cut after [`UNDISTURBED`], or twice as long for each pass before that was cut, so
//! that a long one is done in the end however much is asked. A pass that has gone on for [`PASS_MAX`] is cut though nothing
//! waits, before the policy is blamed for it, and as much time is left before the next unless something happens.
//!
//! Times are real, since any moment. Must never know what a pass does.

use std::time::Duration;

/// How long a pass goes on although a message waits.
pub(crate) const UNDISTURBED: Duration = Duration::from_millis(10);
/// How long a pass goes on in any case; well below the default deadline of a policy.
pub(crate) const PASS_MAX: Duration = Duration::from_secs(4);
/// Most doublings of [`UNDISTURBED`]: just below [`PASS_MAX`].
const DOUBLINGS_MAX: u32 = 8;

/// A pass that has to be cut, and the time for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The number of the pass.
    pub(crate) pass: u64,
    /// The time at which it is to be cut, as [`Host::elapsed`](crate::Host::elapsed) counts.
    pub at: Duration,
}

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct PassTimer {
    /// The number of the last pass.
    pass: u64,
    /// When the pass that is being made began.
    began: Option<Duration>,
    /// When it may be cut; taken by the first message that waits.
    due: Option<Duration>,
    /// Passes cut in a row.
    cut: u32,
    /// No other pass until then.
    rest: Option<Duration>,
}

impl PassTimer {
    /// A pass begins.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.pass += 1;
        self.began = Some(now);
        self.due = Some(now + UNDISTURBED * (1 << self.cut.min(DOUBLINGS_MAX)));
    }

    /// The pass is over.
    pub(crate) fn end(&mut self, now: Duration, interrupted: bool) {
        self.cut = if interrupted { self.cut + 1 } else { 0 };
        self.due = None;
        let took = self.began.take().map(|began| now.saturating_sub(began));
        self.rest = took.filter(|took| interrupted && *took >= PASS_MAX).map(|took| now + took);
    }

    /// A message waits. Returns when the pass that is being made is to be cut, if that was not returned before.
    pub(crate) fn waits(&mut self) -> Option<Cut> {
        self.began?;
        self.due.take().map(|at| Cut { pass: self.pass, at })
    }

    /// Is this pass still being made?
    pub(crate) fn is_made(&self, cut: &Cut) -> bool {
        self.began.is_some() && self.pass == cut.pass
    }

    /// Has a pass gone on for too long?
    pub(crate) fn is_too_long(&self, now: Duration) -> bool {
        self.began.is_some_and(|began| now.saturating_sub(began) >= PASS_MAX)
    }

    /// Until when no pass is made, if that is so.
    pub(crate) fn rests_until(&self, now: Duration) -> Option<Duration> {
        self.rest.filter(|until| *until > now)
    }

    /// Something happened: no more rest.
    pub(crate) fn wake(&mut self) {
        self.rest = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cuts_a_pass_and_each_cut_pass_gets_twice_the_time() {
        let mut timer = PassTimer::default();
        assert_eq!(timer.waits(), None, "between passes there is nothing to cut");
        let mut given = Vec::new();
        for second in 0..3 {
            let now = Duration::from_secs(second);
            timer.begin(now);
            let cut = timer.waits().unwrap();
            assert_eq!(timer.waits(), None, "said once");
            given.push((cut.at - now).as_millis() / UNDISTURBED.as_millis());
            assert!(timer.is_made(&cut));
            timer.end(cut.at, true);
            assert!(!timer.is_made(&cut));
        }
        assert_eq!(given, [1, 2, 4]);
        timer.begin(PASS_MAX);
        timer.end(PASS_MAX, false);
        timer.begin(PASS_MAX);
        assert_eq!(timer.waits().unwrap().at, PASS_MAX + UNDISTURBED, "a whole pass begins the count anew");
    }

    #[test]
    fn a_pass_that_goes_on_and_on_is_cut_though_nothing_waits_and_a_rest_follows() {
        let mut timer = PassTimer::default();
        timer.begin(Duration::ZERO);
        assert!(!timer.is_too_long(PASS_MAX - UNDISTURBED));
        assert!(timer.is_too_long(PASS_MAX));
        timer.end(PASS_MAX * 3, true);
        assert_eq!(timer.rests_until(PASS_MAX * 4), Some(PASS_MAX * 6));
        assert_eq!(timer.rests_until(PASS_MAX * 6), None);
        timer.wake();
        assert_eq!(timer.rests_until(PASS_MAX * 4), None);
        timer.begin(Duration::ZERO);
        timer.end(UNDISTURBED, false);
        assert!(!timer.is_too_long(PASS_MAX * 9));
        assert_eq!(timer.rests_until(UNDISTURBED), None);
    }
}
