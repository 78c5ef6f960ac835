//! Questions of feasibility that wait to be answered: the owner's first, those of guests in turn and within a share of a core.
//!
//! The job manager's ingest asks for every job that is submitted, as the owner. A guest may ask too, and can ask for anything
//! as often as it likes: such questions are bounded in number and bytes, and their answers in time. Must never know how a
//! question is answered.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fluxgate_wire::message::Message;

use crate::guest_backlog::GuestBacklog;

/// Most questions of the owner that wait; further ones are refused.
pub const OWNER_QUESTIONS_MAX: usize = 16384;
/// The share of a core that answers to one guest may take.
const SHARE: f64 = 0.1;
/// Most time that a guest can have saved up, seconds.
const CREDIT_MAX: f64 = 0.1;
/// Questions of the owner that are answered in a row while one of a guest waits.
const OWNER_IN_A_ROW: u32 = 8;

/// The question to answer next, or the time until then.
#[derive(Debug, PartialEq)]
pub(crate) enum NextQuestion {
    /// This question.
    Ask(Box<Message>),
    /// No question before this much time has passed.
    Wait(Duration),
    /// No question waits.
    Idle,
}

/// The time that answers to a guest may still take.
#[derive(Debug)]
struct Credit {
    /// Seconds, as of `at`; below 0 after an answer that took longer.
    seconds: f64,
    at: Duration,
}

impl Credit {
    /// The credit as of now.
    fn refill(&mut self, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.seconds = (self.seconds + passed * SHARE).min(CREDIT_MAX);
        self.seconds
    }
}

/// See the module text. All times are as [`Host::elapsed`](crate::Host::elapsed) counts.
#[derive(Debug, Default)]
pub(crate) struct FeasibilityQueue {
    owner: VecDeque<Message>,
    guests: GuestBacklog,
    /// Guests who do not have all of their credit.
    credits: BTreeMap<u32, Credit>,
    /// Questions of the owner taken since one of a guest.
    in_a_row: u32,
}

impl FeasibilityQueue {
    /// Add a question.
    ///
    /// # Errors
    /// The question, and why it is refused: too many of its sender wait.
    pub(crate) fn add(&mut self, question: Message) -> Result<(), (Message, &'static str)> {
        if !question.is_from_owner() {
            let why = "too many questions of this user wait for an answer";
            return self.guests.add(question).map_err(|question| (question, why));
        }
        if self.owner.len() >= OWNER_QUESTIONS_MAX {
            return Err((question, "too many questions wait for an answer"));
        }
        self.owner.push_back(question);
        Ok(())
    }

    /// Take the next question.
    pub(crate) fn take(&mut self, now: Duration) -> NextQuestion {
        if (self.owner.is_empty() || self.in_a_row >= OWNER_IN_A_ROW)
            && let Some(question) = self.take_of_guest(now)
        {
            self.in_a_row = 0;
            return NextQuestion::Ask(Box::new(question));
        }
        if let Some(question) = self.owner.pop_front() {
            self.in_a_row = self.in_a_row.saturating_add(1);
            return NextQuestion::Ask(Box::new(question));
        }
        let waits = self.guests.users().filter_map(|user| self.credits.get(&user));
        let wait = waits.map(|credit| -credit.seconds / SHARE).min_by(f64::total_cmp);
        wait.map_or(NextQuestion::Idle, |wait| NextQuestion::Wait(Duration::from_secs_f64(wait.max(0.0))))
    }

    fn take_of_guest(&mut self, now: Duration) -> Option<Message> {
        self.credits.retain(|_, credit| credit.refill(now) < CREDIT_MAX);
        self.guests.take(|user| self.credits.get(&user).is_none_or(|credit| credit.seconds >= 0.0))
    }

    /// An answer to a guest took this long.
    pub(crate) fn spend(&mut self, user: u32, took: Duration, now: Duration) {
        let credit = self.credits.entry(user).or_insert(Credit { seconds: CREDIT_MAX, at: now });
        credit.refill(now);
        credit.seconds -= took.as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_wire::proto::role;

    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    fn question(user: u32, tag: u32) -> Message {
        let mut message = Message::request("feasibility.check").with_text("{}").with_matchtag(tag);
        (message.userid, message.rolemask) = (user, if user == 0 { role::OWNER } else { role::USER });
        message
    }

    fn taken(queue: &mut FeasibilityQueue, now: Duration) -> Vec<u32> {
        std::iter::from_fn(|| match queue.take(now) {
            NextQuestion::Ask(question) => Some(question.matchtag()),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn the_owner_first_and_guests_in_turn() {
        let mut queue = FeasibilityQueue::default();
        for tag in 0..20 {
            queue.add(question(0, 100 + tag)).unwrap();
        }
        for tag in 0..3 {
            queue.add(question(7, 200 + tag)).unwrap();
            queue.add(question(8, 300 + tag)).unwrap();
        }
        let order = taken(&mut queue, NOW);
        assert_eq!(order[..10], [100, 101, 102, 103, 104, 105, 106, 107, 200, 108]);
        let guests: Vec<u32> = order.into_iter().filter(|tag| *tag >= 200).collect();
        assert_eq!(guests, [200, 300, 201, 301, 202, 302]);
        assert_eq!(queue.take(NOW), NextQuestion::Idle);
    }

    #[test]
    fn a_guest_has_a_tenth_of_a_core_and_others_do_not_wait_for_it() {
        let mut queue = FeasibilityQueue::default();
        for tag in 0..3 {
            queue.add(question(7, tag)).unwrap();
        }
        assert!(matches!(queue.take(NOW), NextQuestion::Ask(_)));
        queue.spend(7, Duration::from_millis(300), NOW);
        assert_eq!(queue.take(NOW), NextQuestion::Wait(Duration::from_secs(2)), "0.2 s above its credit");
        queue.add(question(8, 30)).unwrap();
        queue.add(question(0, 40)).unwrap();
        assert_eq!(taken(&mut queue, NOW), [40, 30]);
        let later = NOW + Duration::from_millis(2001);
        assert_eq!(taken(&mut queue, later), [1, 2], "what took no time costs nothing");
        // In the long run a guest gets a tenth, however often it asks.
        let (mut now, mut served) = (later, 0);
        let step = Duration::from_millis(10);
        for tag in 0..10_000 {
            let _ = queue.add(question(7, tag));
            if let NextQuestion::Ask(_) = queue.take(now) {
                served += 1;
                queue.spend(7, step, now);
            }
            now += step;
        }
        assert!((1000..1020).contains(&served), "{served} of 10,000 steps");
    }
}
