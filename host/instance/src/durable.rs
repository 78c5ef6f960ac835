//! The state machine with its records: nothing is said that is not written.
//!
//! A turn changes the state, then its records are committed, then its effects are carried out. Where the records cannot be committed,
//! the instance holds: the effects of the turn wait, time stands still, and so does the conversation with the scheduler. Requests of
//! others are refused with the reason at once, so that no command of a user hangs. The same records are tried again until they are
//! written, and then everything goes on. Questions that the scheduler answers are answered meanwhile. Must never know what a database, a socket or a clock is.

use std::collections::{BTreeSet, VecDeque};

use fluxgate_formats::{Idset, JobId};
use fluxgate_wire::server::Peer;
use fluxgate_wire::{Kind, Message, ReplyTo};
use serde_json::Value;

use crate::config::Config;
use crate::core::{Core, Restored};
use crate::effect::{ClientId, Effect, Record};
use crate::fail::Fail;
use crate::limits::HELD_INPUTS_MAX;
use crate::router::service_of;

/// A place for the records of an instance.
pub trait Records {
    /// The reason why records were not written.
    type Error: std::error::Error;

    /// Writes the records of a turn, all or none, and the time in seconds since the epoch.
    ///
    /// # Errors
    /// The reason; nothing was written, and the same records are to be tried again.
    fn commit(&mut self, records: &[Record], now: f64) -> Result<(), Self::Error>;

    /// The error number for the answers to requests that are refused meanwhile.
    fn errnum(error: &Self::Error) -> i32;
}

/// An input that waits while the instance holds.
#[derive(Debug)]
enum Late {
    Message(ClientId, Message),
    Gone(ClientId),
    Down(Idset, bool),
    Up(Idset),
}

/// The records of a turn that are not written yet, with the effects and inputs that wait for them.
#[derive(Debug)]
struct Hold<E> {
    why: E,
    records: Vec<Record>,
    effects: Vec<Effect>,
    late: VecDeque<Late>,
    /// The clients of these inputs.
    late_of: BTreeSet<ClientId>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Durable<S: Records> {
    core: Core,
    records: S,
    hold: Option<Hold<S::Error>>,
}

impl<S: Records> Durable<S> {
    /// An instance at the time `now`, seconds since the epoch, with the restored state of an earlier run.
    ///
    /// # Errors
    /// [`Fail`] if the configuration, or the restored state, is invalid.
    pub fn new(config: Config, restored: Restored, now: f64, records: S) -> Result<Self, Fail> {
        Ok(Durable { core: Core::new(config, restored, now)?, records, hold: None })
    }

    /// The place of the records.
    pub fn records(&self) -> &S {
        &self.records
    }

    /// The place of the records, for changes.
    pub fn records_mut(&mut self) -> &mut S {
        &mut self.records
    }

    /// The reason why the instance holds; `None` if it does not.
    pub fn holds(&self) -> Option<&S::Error> {
        self.hold.as_ref().map(|hold| &hold.why)
    }

    /// As [`holds`](Self::holds), at the end of the instance. Records that were not written are lost, and no client was told of them.
    pub fn into_hold(self) -> Option<S::Error> {
        self.hold.map(|hold| hold.why)
    }

    /// The time at which the next timer is due, in seconds since the epoch; `None` without a timer.
    pub fn next_wake(&self) -> Option<f64> {
        self.core.next_wake()
    }

    /// The client that offers the service `sched`; `None` without a scheduler.
    pub fn scheduler(&self) -> Option<ClientId> {
        self.core.scheduler()
    }

    /// A client connected.
    pub fn connect(&mut self, client: ClientId, peer: Peer) {
        self.core.connect(client, peer);
    }

    /// A client sent a message. While the instance holds, it waits, is refused, or is handled if it changes nothing.
    pub fn message(&mut self, client: ClientId, message: Message) {
        let Some(hold) = &mut self.hold else { return self.core.message(client, message) };
        let scheduler = self.core.scheduler() == Some(client);
        let waits = match message.kind {
            // An answer of the scheduler to a user changes nothing.
            Kind::Response { .. } => scheduler && Core::is_answer_to_itself(message.topic()),
            _ => scheduler || service_of(message.topic()) == "service",
        };
        match (&message.kind, waits) {
            (_, true) if hold.late.len() >= HELD_INPUTS_MAX => self.core.close(client),
            (_, true) => {
                hold.late_of.insert(client);
                hold.late.push_back(Late::Message(client, message));
            }
            (Kind::Request { .. }, false) if self.core.changes(&message) => {
                let text = format!("the instance waits until its records can be written: {}", hold.why);
                self.core.refuse(client, message, Fail::new(S::errnum(&hold.why), text));
            }
            _ => self.core.message(client, message),
        }
    }

    /// A client disconnected. The place of a client of which nothing waits is free for another at once.
    pub fn disconnect(&mut self, client: ClientId) {
        let scheduler = self.core.scheduler() == Some(client);
        match &mut self.hold {
            Some(hold) if scheduler || hold.late_of.contains(&client) => {
                hold.late.push_back(Late::Gone(client))
            }
            _ => self.core.disconnect(client),
        }
    }

    /// The nodes of these ranks are down, or `lost` for good. Takes effect after the hold, if there is one.
    pub fn nodes_down(&mut self, ranks: &Idset, lost: bool) {
        match &mut self.hold {
            None => self.core.nodes_down(ranks, lost),
            Some(hold) => hold.late.push_back(Late::Down(ranks.clone(), lost)),
        }
    }

    /// The nodes of these ranks are up. Takes effect after the hold, if there is one.
    pub fn nodes_up(&mut self, ranks: &Idset) {
        match &mut self.hold {
            None => self.core.nodes_up(ranks),
            Some(hold) => hold.late.push_back(Late::Up(ranks.clone())),
        }
    }

    /// Advances the time to `now`, seconds since the epoch: timers that are due fire. True if more are due. While the instance holds,
    /// nothing fires.
    pub fn advance(&mut self, now: f64) -> bool {
        self.hold.is_none() && self.core.advance(now)
    }

    /// Does the work that is split into portions, with at most `window` requests to the scheduler. True if more is left.
    pub fn pump(&mut self, window: usize) -> bool {
        self.hold.is_none() && self.core.pump(window)
    }

    /// Ends the instance in order.
    pub fn shutdown(&mut self) {
        self.core.shutdown();
    }

    /// The end of a turn: commits its records. Returns the effects to carry out: all of them, or while the instance holds the answers to
    /// those who were refused.
    pub fn settle(&mut self) -> Vec<Effect> {
        let (records, effects) = self.core.take();
        if let Some(hold) = &mut self.hold {
            hold.records.extend(records);
            return effects;
        }
        match self.records.commit(&records, self.core.now()) {
            Ok(()) => effects,
            Err(why) => {
                let (late, late_of) = Default::default();
                self.hold = Some(Hold { why, records, effects, late, late_of });
                Vec::new()
            }
        }
    }

    /// While the instance holds: tries to commit again. Returns the effects to carry out, all that waited if it holds no more; what
    /// came meanwhile is taken in then, and a further turn is due.
    pub fn retry(&mut self) -> Vec<Effect> {
        let Some(mut hold) = self.hold.take() else { return Vec::new() };
        let (records, refusals) = self.core.take();
        hold.records.extend(records);
        match self.records.commit(&hold.records, self.core.now()) {
            Ok(()) => {
                for late in hold.late {
                    match late {
                        Late::Message(client, message) => self.core.message(client, message),
                        Late::Gone(client) => self.core.disconnect(client),
                        Late::Down(ranks, lost) => self.core.nodes_down(&ranks, lost),
                        Late::Up(ranks) => self.core.nodes_up(&ranks),
                    }
                }
                hold.effects.extend(refusals);
                hold.effects
            }
            Err(why) => {
                self.hold = Some(Hold { why, ..hold });
                refusals
            }
        }
    }

    /// True if real processes still run.
    pub(crate) fn processes_running(&self) -> bool {
        self.core.processes_running()
    }

    /// A process of a job ended.
    pub(crate) fn task_exited(&mut self, id: JobId, status: i64) {
        self.core.task_exited(id, status);
    }

    /// The processes of a job could not be started, or are lost.
    pub(crate) fn task_failed(&mut self, id: JobId, note: &str, status: i64) {
        self.core.task_failed(id, note, status);
    }

    /// True if the processes of a job run.
    pub(crate) fn executes(&self, id: JobId) -> bool {
        self.core.executes(id)
    }

    /// An audit was made.
    pub(crate) fn audited(&mut self, client: ClientId, to: &ReplyTo, answer: Result<Value, String>) {
        self.core.audited(client, to, answer);
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_formats::{JobId, R};
    use fluxgate_wire::server::{Access, Credential};
    use fluxgate_wire::{errno, role};
    use serde_json::json;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no space")]
    struct Full;

    /// Records in memory, on a disk that may be full.
    #[derive(Debug, Default)]
    struct Disk {
        written: Vec<Record>,
        full: bool,
    }

    impl Records for Disk {
        type Error = Full;

        fn commit(&mut self, records: &[Record], _: f64) -> Result<(), Full> {
            if self.full && !records.is_empty() {
                return Err(Full);
            }
            self.written.extend_from_slice(records);
            Ok(())
        }

        fn errnum(_: &Full) -> i32 {
            errno::ENOSPC
        }
    }

    const SCHED: ClientId = ClientId(1);
    const TOOL: ClientId = ClientId(2);

    fn topics(effects: &[Effect], to: ClientId) -> Vec<(String, i32)> {
        let of = |effect: &Effect| match effect {
            Effect::Send(client, message) if *client == to => {
                Some((message.topic().to_owned(), message.errnum()))
            }
            _ => None,
        };
        effects.iter().filter_map(of).collect()
    }

    fn request(topic: &str, payload: &Value, tag: u32) -> Message {
        Message::request(topic).with_json(payload).with_matchtag(tag)
    }

    fn instance() -> Durable<Disk> {
        let machine = json!({"version": 1, "execution": {
            "R_lite": [{"rank": "0-1", "children": {"core": "0-3"}}],
            "nodelist": ["node[0-1]"], "starttime": 0.0, "expiration": 0.0}});
        let mut config = Config::new("/nowhere", R::from_value(&machine).unwrap());
        config.access = Access { owner: 1000, allow_guest_user: false, allow_root_owner: false };
        let restored = Restored { epoch: 1e6, ..Restored::default() };
        let mut instance = Durable::new(config, restored, 1e6, Disk::default()).unwrap();
        for client in [SCHED, TOOL] {
            let credential = Credential { userid: 1000, rolemask: role::OWNER | role::LOCAL };
            instance.connect(client, Peer { credential, pid: None, uuid: format!("client-{}", client.0) });
        }
        instance.message(SCHED, request("service.add", &json!({"service": "sched"}), 1));
        instance
            .message(SCHED, request("job-manager.sched-hello", &json!({"partial-ok": true}), 2).streaming());
        instance.message(SCHED, request("job-manager.sched-ready", &json!({"mode": "unlimited"}), 3));
        instance.settle();
        instance
    }

    fn submission(tag: u32) -> Message {
        let jobspec = json!({"version": 1,
            "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 60, "simulate": {"duration": 10}}}});
        request("job-ingest.submit", &json!({ "jobspec": jobspec }), tag)
    }

    #[test]
    fn what_is_not_written_is_not_said_and_who_asks_meanwhile_is_told() {
        let mut instance = instance();
        instance.records_mut().full = true;
        instance.message(TOOL, submission(1));
        while instance.pump(usize::MAX) {}
        assert_eq!(instance.settle(), []);
        assert!(instance.holds().is_some() && !instance.pump(usize::MAX));
        // Requests of others are refused, except those that a client serves and those that ask for nothing of the state.
        for (tag, topic) in
            [(2, "job-ingest.submit"), (3, "job-list.list"), (4, "kvs.commit"), (5, "broker.ping")]
        {
            instance.message(TOOL, request(topic, &json!({}), tag));
        }
        instance.message(TOOL, request("sched.resource-status", &json!({}), 6));
        // The scheduler waits: its messages are taken in later, in order, and then its end.
        instance.message(SCHED, request("kvs.commit", &json!({"namespace": "primary", "ops": []}), 4));
        instance.nodes_down(&"1".parse().unwrap(), false);
        let said = instance.settle();
        let refused = |topic: &str| (topic.to_owned(), errno::ENOSPC);
        let all = ["job-ingest.submit", "job-list.list", "kvs.commit"].map(refused);
        assert_eq!(topics(&said, TOOL), [&all[..], &[("broker.ping".to_owned(), 0)]].concat());
        assert_eq!(topics(&said, SCHED), [("sched.resource-status".to_owned(), 0)]);
        // An answer of the scheduler to a user is passed on.
        let asked = said.iter().find_map(|effect| match effect {
            Effect::Send(SCHED, message) => Some(message),
            _ => None,
        });
        instance.message(SCHED, asked.unwrap().respond_json(&json!({"all": 1})));
        assert_eq!(topics(&instance.settle(), TOOL), [("sched.resource-status".to_owned(), 0)]);
        instance.message(TOOL, submission(7));
        assert_eq!(topics(&instance.retry(), TOOL), [refused("job-ingest.submit")]);
        assert!(
            !instance.advance(2e6)
                && instance.records().written.iter().all(|record| !matches!(record, Record::Job { .. }))
        );
        // The records can be written: all answers are sent, and the inputs that waited are taken in.
        instance.records_mut().full = false;
        let said = instance.retry();
        assert!(instance.holds().is_none());
        assert_eq!(topics(&said, TOOL), [("job-ingest.submit".to_owned(), 0)]);
        let jobs = |record: &&Record| matches!(record, Record::Job { id: JobId(_), .. });
        assert_eq!(instance.records().written.iter().filter(jobs).count(), 1);
        while instance.pump(usize::MAX) {}
        let said = topics(&instance.settle(), SCHED);
        assert!(said.contains(&("kvs.commit".to_owned(), 0)), "{said:?}");
        assert!(instance.retry().is_empty());
    }

    /// Commands that are refused come and go for as long as the disk is full.
    #[test]
    fn no_place_of_a_client_is_taken_by_one_that_is_gone() {
        let mut instance = instance();
        instance.records_mut().full = true;
        instance.message(TOOL, submission(1));
        while instance.pump(usize::MAX) {}
        instance.settle();
        for number in 10..10 + 2 * crate::limits::CLIENTS_MAX as u64 {
            let client = ClientId(number);
            let credential = Credential { userid: 1000, rolemask: role::OWNER | role::LOCAL };
            instance.connect(client, Peer { credential, pid: None, uuid: format!("client-{number}") });
            instance.message(client, request("job-list.list", &json!({}), 1));
            assert_eq!(topics(&instance.settle(), client), [("job-list.list".to_owned(), errno::ENOSPC)]);
            instance.disconnect(client);
        }
    }

    #[test]
    fn an_instance_that_ends_while_it_holds_ends_with_the_reason() {
        let mut instance = instance();
        instance.records_mut().full = true;
        instance.message(TOOL, submission(1));
        while instance.pump(usize::MAX) {}
        instance.settle();
        instance.disconnect(SCHED);
        instance.message(TOOL, request("fluxgate-instance.shutdown", &json!({}), 2));
        let said = instance.settle();
        assert!(said.contains(&Effect::Shutdown) && !instance.processes_running());
        assert_eq!(topics(&said, TOOL), [("fluxgate-instance.shutdown".to_owned(), 0)]);
        assert_eq!(instance.into_hold().unwrap().to_string(), "no space");
    }
}
