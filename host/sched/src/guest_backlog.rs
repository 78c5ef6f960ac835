//! Messages of guests that wait, bounded for each user, and taken from the users in turn: no user's flood holds the messages of others.
//!
//! Must never know what a message asks.

use std::collections::{BTreeMap, VecDeque};

use fluxgate_wire::message::Message;

/// Most messages of one guest that wait in a backlog.
pub const GUEST_MESSAGES_MAX: usize = 256;
/// Most bytes of their payloads.
pub const GUEST_BYTES_MAX: usize = 4 << 20;
/// Most bytes of the payloads of all guests together that wait in a backlog.
pub const GUESTS_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    bytes: usize,
}

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct GuestBacklog {
    /// Users of whom messages wait, with the messages.
    users: BTreeMap<u32, Waiting>,
    /// Bytes of the payloads of all of them.
    bytes: usize,
    /// The user whose message was taken last.
    last: u32,
}

fn size(message: &Message) -> usize {
    message.payload.as_ref().map_or(0, Vec::len)
}

impl GuestBacklog {
    /// Add a message.
    ///
    /// # Errors
    /// The message: too much of its sender waits, or of all guests together.
    pub(crate) fn add(&mut self, message: Message) -> Result<(), Message> {
        let all = self.bytes + size(&message);
        let waiting = self.users.entry(message.userid).or_default();
        let bytes = waiting.bytes + size(&message);
        if waiting.messages.len() >= GUEST_MESSAGES_MAX || bytes > GUEST_BYTES_MAX || all > GUESTS_BYTES_MAX {
            if waiting.messages.is_empty() {
                self.users.remove(&message.userid);
            }
            return Err(message);
        }
        (waiting.bytes, self.bytes) = (bytes, all);
        waiting.messages.push_back(message);
        Ok(())
    }

    /// Take a message of the next user in turn who may have one taken now.
    pub(crate) fn take(&mut self, mut may: impl FnMut(u32) -> bool) -> Option<Message> {
        let after = self.users.range(self.last.saturating_add(1)..);
        let mut in_turn = after.chain(self.users.range(..=self.last)).map(|(user, _)| *user);
        let user = in_turn.find(|user| may(*user))?;
        self.last = user;
        let waiting = self.users.get_mut(&user)?;
        let message = waiting.messages.pop_front()?;
        waiting.bytes -= size(&message);
        self.bytes -= size(&message);
        if waiting.messages.is_empty() {
            self.users.remove(&user);
        }
        Some(message)
    }

    /// The users of whom messages wait.
    pub(crate) fn users(&self) -> impl Iterator<Item = u32> {
        self.users.keys().copied()
    }

    /// Does no message wait?
    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(user: u32, tag: u32) -> Message {
        let message = Message::request("sched-fluxgate.explain").with_text("{}").with_matchtag(tag);
        Message { userid: user, ..message }
    }

    #[test]
    fn users_have_their_turns_and_none_more_than_its_bound() {
        let mut backlog = GuestBacklog::default();
        for tag in 0..GUEST_MESSAGES_MAX as u32 {
            backlog.add(message(7, tag)).unwrap();
        }
        assert_eq!(backlog.add(message(7, 999)).unwrap_err().matchtag(), 999);
        backlog.add(message(8, 1000)).unwrap();
        backlog.add(message(u32::MAX, 2000)).unwrap();
        let mut tags = std::iter::from_fn(|| backlog.take(|_| true).map(|message| message.matchtag()));
        assert_eq!(tags.by_ref().take(5).collect::<Vec<u32>>(), [0, 1000, 2000, 1, 2]);
        assert_eq!(tags.count(), GUEST_MESSAGES_MAX - 3);
        assert!(backlog.is_empty());
    }

    #[test]
    fn bytes_of_all_guests_together_are_bounded() {
        let mut backlog = GuestBacklog::default();
        let full = (GUESTS_BYTES_MAX / GUEST_BYTES_MAX) as u32;
        let large = |user: u32| {
            let large = message(user, user).with_text(&" ".repeat(GUEST_BYTES_MAX - 1));
            Message { userid: user, ..large }
        };
        (0..full).for_each(|user| backlog.add(large(user)).unwrap());
        assert!(backlog.add(message(full, 1)).is_err());
        assert_eq!(backlog.take(|_| true).unwrap().userid, 1, "the turn of the first comes last");
        backlog.add(message(full, 1)).unwrap();
        while backlog.take(|_| true).is_some() {}
        assert_eq!(backlog.bytes, 0);
    }

    #[test]
    fn bytes_are_bounded_and_users_can_be_passed_by() {
        let mut backlog = GuestBacklog::default();
        let large = message(7, 1).with_text(&" ".repeat(GUEST_BYTES_MAX));
        assert!(backlog.add(Message { userid: 7, ..large }).is_err(), "its NUL is one byte too many");
        assert!(backlog.is_empty());
        for (user, tag) in [(1, 10), (2, 20), (1, 11)] {
            backlog.add(message(user, tag)).unwrap();
        }
        assert_eq!(backlog.take(|user| user != 1).unwrap().matchtag(), 20);
        assert!(backlog.take(|user| user != 1).is_none());
        assert_eq!(backlog.users().collect::<Vec<u32>>(), [1]);
    }
}
